/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Microbenchmark: the way of an RDMA write across two data planes and of its
 * acknowledgement back, with nothing done at any station.
 *
 *   application -> near core -> far core -> near core -> application
 *
 * Each arrow is a cache line that the one stores and the other looks at.  Where there
 * are fewer than four processors the application shares that of the far core, as in
 * perf/compare: both give it away (sched_yield) whenever they find nothing, so that it
 * changes hands twice in each round.  Else everybody has one, and spins.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "micro.h"

enum { APPLICATION, NEAR, FAR, STATIONS };
enum { POSTED, SENT, ANSWERED, COMPLETED, LINES };

struct relay {
	struct {
		_Alignas(64) _Atomic uint64_t value;
	} line[LINES];
	_Alignas(64) _Atomic bool stop;
	_Atomic int ready;
	int processor[STATIONS];
	bool shared;       /* the application's processor is the far core's */
	_Atomic bool lost; /* a station could not be where it should */
};

static void
take_place(struct relay *r, int station)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(r->processor[station], &one);
	if (sched_setaffinity(0, sizeof(one), &one) != 0)
		atomic_store(&r->lost, true);
	atomic_fetch_add(&r->ready, 1);
}

/* Pairs with the load in arrived, wherever that line is looked at. */
static void
pass(struct relay *r, int line, uint64_t value)
{
	atomic_store_explicit(&r->line[line].value, value, memory_order_release);
}

static uint64_t
arrived(struct relay *r, int line)
{
	return atomic_load_explicit(&r->line[line].value, memory_order_acquire);
}

static bool
is_over(struct relay *r)
{
	return atomic_load_explicit(&r->stop, memory_order_relaxed);
}

static void
near_core(struct relay *r)
{
	uint64_t posted = 0, answered = 0;

	take_place(r, NEAR);
	while (!is_over(r)) {
		uint64_t post = arrived(r, POSTED), answer = arrived(r, ANSWERED);

		if (post != posted)
			pass(r, SENT, posted = post);
		if (answer != answered)
			pass(r, COMPLETED, answered = answer);
	}
}

static void
far_core(struct relay *r)
{
	uint64_t sent = 0;

	take_place(r, FAR);
	while (!is_over(r)) {
		uint64_t now = arrived(r, SENT);

		if (now != sent)
			pass(r, ANSWERED, sent = now);
		else if (r->shared)
			sched_yield();
	}
}

static void
application(void *relay, uint64_t i)
{
	struct relay *r = relay;

	pass(r, POSTED, i);
	while (arrived(r, COMPLETED) != i)
		if (r->shared)
			sched_yield();
}

/* ---- stations are processes, as they are in earnest ---- */

/* Its pid, or -1. */
static pid_t
station_begin(void (*run)(struct relay *), struct relay *r)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(r);
	_exit(0);
}

static bool
choose_processors(struct relay *r, const cpu_set_t *allowed)
{
	int found[CPU_SETSIZE], count = 0;

	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, allowed))
			found[count++] = i;
	r->shared = count < 4;
	r->processor[NEAR] = found[0];
	r->processor[FAR] = found[count > 0 ? count - 1 : 0];
	r->processor[APPLICATION] = r->shared ? r->processor[FAR] : found[1];
	return count >= 2;
}

static void
relay(struct gbench_state *state, void *user)
{
	struct relay *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t near = -1, far = -1;
	cpu_set_t before;

	if (r == MAP_FAILED) {
		gbench_skip(state, "no memory");
		return;
	}
	if (sched_getaffinity(0, sizeof(before), &before) != 0 || !choose_processors(r, &before)) {
		gbench_skip(state, "two processors are needed");
	} else if ((near = station_begin(near_core, r)) > 0 && (far = station_begin(far_core, r)) > 0) {
		take_place(r, APPLICATION);
		while (atomic_load(&r->ready) < STATIONS)
			sched_yield();
		if (atomic_load(&r->lost))
			gbench_skip(state, "a processor cannot be had");
		else
			micro_trips(state, application, r);
	} else {
		gbench_skip(state, "no second process");
	}
	atomic_store(&r->stop, true);
	if (near > 0)
		waitpid(near, NULL, 0);
	if (far > 0)
		waitpid(far, NULL, 0);
	sched_setaffinity(0, sizeof(before), &before);
	munmap(r, sizeof(*r));
}

void
micro_relay(void)
{
	gbench_register("relay", relay, NULL, NULL, 0);
}
