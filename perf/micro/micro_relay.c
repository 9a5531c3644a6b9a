/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Microbenchmarks: the path of an RDMA write through two data planes, and of its acknowledgement back,
 * without any work at the stations.
 *
 *   application -> near core -> far core -> near core -> application
 *
 * Each arrow is a cache line that one station stores and the next polls. In relay_frames the arrows between
 * the cores are frames over a memif, as long as those of an 8-byte write and its acknowledgement. With fewer
 * than four processors the application shares the far core's processor, as in perf/compare: both call
 * sched_yield() when they find nothing, so that the processor changes hands twice in each round. Otherwise
 * each station has a processor, and spins.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "micro.h"

enum { WRITE_FRAME = 82, ACK_FRAME = 62, BURST = 32 };
enum { APPLICATION, NEAR, FAR, STATIONS };
enum { POSTED, SENT, ANSWERED, COMPLETED, LINES };

struct relay {
	struct {
		_Alignas(64) _Atomic uint64_t value;
	} line[LINES];
	_Alignas(64) _Atomic bool stop;
	_Atomic int ready;
	int processor[STATIONS];
	bool shared;         /* the application shares the far core's processor */
	_Atomic bool lost;   /* a station has no processor, or no memif */
	char directory[32];  /* of the memif's socket */
	_Atomic bool serves; /* the near core has started the memif's server */
};

typedef void station_run(struct relay *r);

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

/* Pairs with the load in arrived() by the station that polls the line. */
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

/* ---- by frames ---- */

/* Starts a memif configured as in perf/compare. Options of EAL for memory are in ONESIDE_EAL. */
static struct rte_mempool *
cable_begin(struct relay *r, const char *role)
{
	char place[32], prefix[48], device[160],
		*eal[32] = {"oneside-micro", "--no-pci", "--iova-mode=va", place, prefix, device},
		*options = getenv("ONESIDE_EAL"), *save = NULL;
	const struct rte_eth_conf conf = {0};
	struct rte_mempool *pool;
	int count = 6;

	snprintf(place, sizeof(place), "--lcores=0@%d", r->processor[role[0] == 's' ? NEAR : FAR]);
	snprintf(prefix, sizeof(prefix), "--file-prefix=oneside-micro%d", (int)getpid());
	snprintf(device, sizeof(device),
		 "--vdev=net_memif0,role=%s,id=0,socket=%s/cable,socket-abstract=no,bsize=4352,rsize=10",
		 role, r->directory);
	for (char *option = options == NULL ? NULL : strtok_r(options, " ", &save);
	     option != NULL && count < 31; option = strtok_r(NULL, " ", &save))
		eal[count++] = option;
	if (rte_eal_init(count, eal) < 0)
		return NULL;
	pool = rte_pktmbuf_pool_create("frames", 4095, 256, 0, 4352 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
	if (pool == NULL || rte_eth_dev_configure(0, 1, 1, &conf) != 0 ||
	    rte_eth_rx_queue_setup(0, 0, 1024, SOCKET_ID_ANY, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(0, 0, 1024, SOCKET_ID_ANY, NULL) != 0 || rte_eth_dev_start(0) != 0)
		return NULL;
	return pool;
}

/* Sends a frame with `value` at its end. False: no mbuf, or the memif is full. */
static bool
frame_send(struct rte_mempool *pool, uint16_t length, uint64_t value)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *frame = m == NULL ? NULL : (uint8_t *)rte_pktmbuf_append(m, length);

	if (frame == NULL)
		return false;
	memset(frame, 0, length);
	memcpy(frame + length - sizeof(value), &value, sizeof(value));
	if (rte_eth_tx_burst(0, 0, &m, 1) == 1)
		return true;
	rte_pktmbuf_free(m);
	return false;
}

/* Returns the value of the last frame received; `value` if there is none. */
static uint64_t
frame_last(uint64_t value)
{
	struct rte_mbuf *frames[BURST];
	uint16_t n = rte_eth_rx_burst(0, 0, frames, BURST);

	if (n > 0)
		memcpy(&value,
		       rte_pktmbuf_mtod(frames[n - 1], uint8_t *) + frames[n - 1]->pkt_len - sizeof(value),
		       sizeof(value));
	rte_pktmbuf_free_bulk(frames, n);
	return value;
}

static void
near_frames(struct relay *r)
{
	struct rte_mempool *pool = cable_begin(r, "server");
	uint64_t posted = 0, answered = 0;

	if (pool == NULL)
		atomic_store(&r->lost, true);
	atomic_store(&r->serves, true);
	take_place(r, NEAR);
	while (!is_over(r) && pool != NULL) {
		uint64_t post = arrived(r, POSTED), answer;

		if (post != posted && frame_send(pool, WRITE_FRAME, post))
			posted = post;
		answer = frame_last(answered);
		if (answer != answered)
			pass(r, COMPLETED, answered = answer);
	}
}

static void
far_frames(struct relay *r)
{
	struct rte_mempool *pool;
	uint64_t sent = 0, answered = 0;

	while (!atomic_load(&r->serves)) /* a memif connects to its server only when it is started */
		sched_yield();
	pool = cable_begin(r, "client");
	if (pool == NULL)
		atomic_store(&r->lost, true);
	take_place(r, FAR);
	while (!is_over(r) && pool != NULL) {
		sent = frame_last(sent);
		if (sent != answered && frame_send(pool, ACK_FRAME, sent))
			answered = sent;
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

/* ---- stations are processes, as in production ---- */

/* Returns the station's pid, or -1. */
static pid_t
station_begin(station_run *run, struct relay *r)
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
cable_remove(const struct relay *r)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/cable", r->directory);
	unlink(path);
	rmdir(r->directory);
}

static void
run(struct gbench_state *state, station_run *near_station, station_run *far_station)
{
	struct relay *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t near = -1, far = -1;
	cpu_set_t before;

	if (r == MAP_FAILED) {
		gbench_skip(state, "no memory");
		return;
	}
	strcpy(r->directory, "/tmp/oneside-micro.XXXXXX");
	if (mkdtemp(r->directory) == NULL) {
		gbench_skip(state, "no directory for a cable in /tmp");
	} else if (sched_getaffinity(0, sizeof(before), &before) != 0 || !choose_processors(r, &before)) {
		gbench_skip(state, "two processors are needed");
	} else if ((near = station_begin(near_station, r)) > 0 && (far = station_begin(far_station, r)) > 0) {
		take_place(r, APPLICATION);
		while (atomic_load(&r->ready) < STATIONS)
			sched_yield();
		if (atomic_load(&r->lost)) {
			gbench_skip(state, "a processor, or a cable, cannot be had");
		} else {
			application(r, UINT64_MAX); /* waits until the memif is connected */
			micro_trips(state, application, r);
		}
	} else {
		gbench_skip(state, "no second process");
	}
	atomic_store(&r->stop, true);
	if (near > 0)
		waitpid(near, NULL, 0);
	if (far > 0)
		waitpid(far, NULL, 0);
	sched_setaffinity(0, sizeof(before), &before);
	cable_remove(r);
	munmap(r, sizeof(*r));
}

static void
relay(struct gbench_state *state, void *user)
{
	run(state, near_core, far_core);
}

static void
relay_frames(struct gbench_state *state, void *user)
{
	run(state, near_frames, far_frames);
}

void
micro_relay(void)
{
	gbench_register("relay", relay, NULL, NULL, 0);
	gbench_register_once("relay_frames", relay_frames, NULL, 100000);
}
