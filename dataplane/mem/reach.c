/* SPDX-License-Identifier: BSD-3-Clause */
#include "reach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define JOBS 16u /* of one process; a power of two */
#define STACK (256u << 10)
#define STALE 256u /* looks after which an outcome that its party does not fetch is dropped for others */

enum kind { KIND_READ, KIND_WRITE, KIND_ATOMIC };
enum state { STATE_QUEUED, STATE_RUNNING, STATE_DROPPED };

struct span {
	uint64_t va;
	uint32_t len;
	uint32_t at; /* in `data` */
};

struct reach_job {
	/* the core's */
	struct reach_job *next; /* free ones */
	struct reach *reach;
	struct reach_party *party; /* NULL: nobody waits for it */
	uint32_t slot, tag;
	uint32_t done_at; /* reach.looks */
	bool done;
	/* written by the core before it is handed over; `result`, `value` and what was read by the thread */
	_Atomic uint8_t state; /* enum state */
	uint8_t kind;
	bool compares;
	int result;
	uint32_t num;
	struct span span[ONE_MAX_SGE]; /* the pieces without mapping */
	uint64_t compare, operand, value;
	_Alignas(8) uint8_t note[REACH_NOTE];
	_Alignas(64) uint8_t data[REACH_LEN];
};

/* One direction between the core and the thread; never full, since there are only so many jobs. */
struct lane {
	_Alignas(64) _Atomic uint32_t tail;
	struct reach_job *slot[JOBS];
};

/* A descriptor before all others, where a thread that begins finds that of its memory; -1: none. */
static int place = -1;

/*
 * Atomics of one process by several threads (it has attached more than once) exclude
 * each other; those of other processes are not delayed by it.
 */
struct exclusion {
	struct exclusion *next;
	pid_t pid;
	uint32_t users; /* the control thread's */
	pthread_mutex_t lock;
};
static struct exclusion *exclusions; /* the control thread's */

struct reach {
	struct mem_process *process;
	struct exclusion *exclusion;
	int fd; /* the thread's, of process->fd */
	sem_t begun, wanted;
	struct lane in, out;
	_Alignas(64) _Atomic uint64_t since;
	_Atomic bool stop, stopped;
	/* the core's */
	_Alignas(64) struct reach_list *list;
	LIST_ENTRY(reach) link;
	bool listed;
	uint32_t in_flight, looks;
	uint32_t out_head;
	struct reach_job *free;
	TAILQ_HEAD(, reach_party) starved;
	/* the thread's */
	_Alignas(64) uint32_t in_head;
	struct reach_job job[JOBS];
};

/* ---- the access itself, on whatever thread ---- */

/* One system call; -EFAULT also when it moved less than asked. */
static int
move(struct mem_process *process, int fd, uint64_t va, void *buffer, size_t len, bool out)
{
	struct iovec here = {buffer, len};
	struct iovec there = {(void *)(uintptr_t)va, len};
	ssize_t done;

	if (process->by_file)
		done = out ? pwrite(fd, buffer, len, (off_t)va) : pread(fd, buffer, len, (off_t)va);
	else if (out)
		done = process_vm_writev(process->pid, &here, 1, &there, 1, 0);
	else
		done = process_vm_readv(process->pid, &here, 1, &there, 1, 0);
	if (done < 0 || (size_t)done != len)
		return -EFAULT;
	atomic_fetch_add_explicit(&process->bytes, len, memory_order_relaxed);
	return 0;
}

static int
move_out(struct mem_process *process, int fd, uint64_t va, uint8_t *from, size_t len)
{
	size_t tail = mem_tail_len((const uint8_t *)(uintptr_t)(va + len), len);
	int error = 0;

	/* The kernel promises no order within one call: the last bytes go by a second one. */
	if (len > tail)
		error = move(process, fd, va, from, len - tail, true);
	return error != 0 ? error : move(process, fd, va + len - tail, from + len - tail, tail, true);
}

static int
change(struct mem_process *process, int fd, uint64_t va, const uint64_t *compare, uint64_t operand,
       uint64_t *found)
{
	int error = move(process, fd, va, found, sizeof(*found), false);

	if (error == 0 && (compare == NULL || *compare == *found)) {
		uint64_t next = compare == NULL ? *found + operand : operand;

		error = move(process, fd, va, &next, sizeof(next), true);
	}
	return error;
}

/* ---- the thread ---- */

static int
carry_out(struct reach *reach, struct reach_job *job)
{
	struct mem_process *process = reach->process;
	int error = 0;

	if (job->kind == KIND_ATOMIC) {
		pthread_mutex_lock(&reach->exclusion->lock);
		error = change(process, reach->fd, job->span[0].va, job->compares ? &job->compare : NULL,
			       job->operand, &job->value);
		pthread_mutex_unlock(&reach->exclusion->lock);
		return error;
	}
	for (uint32_t i = 0; i < job->num && error == 0; i++) {
		const struct span *span = &job->span[i];

		error = job->kind == KIND_WRITE
				? move_out(process, reach->fd, span->va, job->data + span->at, span->len)
				: move(process, reach->fd, span->va, job->data + span->at, span->len, false);
	}
	return error;
}

static uint64_t
clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void *
thread_main(void *argument)
{
	struct reach *reach = argument;

	/* Only what is below and the place itself is taken along; on older kernels, all. */
	if (place >= 0 && close_range((unsigned int)place + 1, ~0u, CLOSE_RANGE_UNSHARE) == 0)
		reach->fd = place;
	sem_post(&reach->begun);
	for (;;) {
		uint32_t out = atomic_load_explicit(&reach->out.tail, memory_order_relaxed); /* ours */
		uint8_t queued = STATE_QUEUED;
		struct reach_job *job;

		while (sem_wait(&reach->wanted) != 0)
			;
		/* Pairs with the store in reach_stop; what is still queued then nobody waits for. */
		if (atomic_load_explicit(&reach->stop, memory_order_acquire))
			break;
		/* The semaphore was posted after the store in submit(), which this makes visible. */
		(void)atomic_load_explicit(&reach->in.tail, memory_order_acquire);
		job = reach->in.slot[reach->in_head++ % JOBS];
		/* Against reach_cancel: one of both. */
		if (atomic_compare_exchange_strong_explicit(&job->state, &queued, STATE_RUNNING,
							    memory_order_relaxed, memory_order_relaxed)) {
			/* Read by reach_since, which needs nothing else. */
			atomic_store_explicit(&reach->since, clock_now(), memory_order_relaxed);
			job->result = carry_out(reach, job);
			atomic_store_explicit(&reach->since, 0, memory_order_relaxed);
		}
		reach->out.slot[out % JOBS] = job;
		/* Pairs with the acquire loads in collect() and reach_passed. */
		atomic_store_explicit(&reach->out.tail, out + 1, memory_order_release);
	}
	/* The last access.  Pairs with the load in reach_stopped. */
	atomic_store_explicit(&reach->stopped, true, memory_order_release);
	return NULL;
}

/* ---- jobs, on the core ---- */

static void
list_add(struct reach *reach)
{
	if (!reach->listed) {
		reach->listed = true;
		LIST_INSERT_HEAD(reach->list, reach, link);
	}
}

static void
job_put(struct reach_job *job)
{
	job->next = job->reach->free;
	job->reach->free = job;
}

static struct reach_job *
job_get(struct reach *reach, struct reach_party *party, uint32_t slot)
{
	struct reach_job *job = reach->free;

	list_add(reach);
	if (job == NULL) {
		if (party->starved == NULL) {
			party->starved = reach;
			TAILQ_INSERT_TAIL(&reach->starved, party, link);
		}
		return NULL;
	}
	reach->free = job->next;
	job->party = party;
	job->slot = slot;
	job->done = false;
	job->num = 0;
	party->job[slot] = job;
	return job;
}

static void
submit(struct reach_job *job)
{
	struct reach *reach = job->reach;
	uint32_t tail = atomic_load_explicit(&reach->in.tail, memory_order_relaxed); /* ours */

	atomic_store_explicit(&job->state, STATE_QUEUED, memory_order_relaxed);
	reach->in.slot[tail % JOBS] = job;
	/* Pairs with the acquire load of the thread, and with reach_mark's. */
	atomic_store_explicit(&reach->in.tail, tail + 1, memory_order_release);
	reach->in_flight++;
	sem_post(&reach->wanted);
}

bool
reach_done(const struct reach_party *party, uint32_t slot)
{
	return party->job[slot] != NULL && party->job[slot]->done;
}

void *
reach_note(struct reach_party *party, uint32_t slot)
{
	return party->job[slot]->note;
}

const uint8_t *
reach_data(const struct reach_party *party, uint32_t slot)
{
	return party->job[slot]->data;
}

void
reach_cancel(struct reach_party *party, uint32_t slot)
{
	struct reach_job *job = party->job[slot];
	uint8_t queued = STATE_QUEUED;

	if (job == NULL)
		return;
	party->job[slot] = NULL;
	job->party = NULL;
	if (job->done)
		job_put(job);
	else
		/* Against the thread: one of both.  It comes back as any other. */
		atomic_compare_exchange_strong_explicit(&job->state, &queued, STATE_DROPPED,
							memory_order_relaxed, memory_order_relaxed);
}

void
reach_leave(struct reach_party *party)
{
	for (uint32_t i = 0; i < REACH_SLOTS; i++)
		reach_cancel(party, i);
	if (party->starved != NULL) {
		TAILQ_REMOVE(&party->starved->starved, party, link);
		party->starved = NULL;
	}
}

/* ---- accesses ---- */

/* The process behind the pieces; NULL: more than one, or none. */
static struct mem_process *
process_of(const struct mem_piece *pieces, uint32_t num)
{
	struct mem_process *process = NULL;

	for (uint32_t i = 0; i < num; i++) {
		const struct mem_region *region = pieces[i].region;

		if (region->base != NULL)
			continue;
		if (region->process == NULL || (process != NULL && region->process != process))
			return NULL;
		process = region->process;
	}
	return process;
}

/* The part of the call that needs no process. */
static void
move_mapped(const struct mem_piece *pieces, uint32_t num, uint8_t *buffer, bool out)
{
	for (uint32_t i = 0; i < num; i++) {
		const struct mem_piece *piece = &pieces[i];

		if (piece->region->base != NULL && out)
			mem_write(piece->region, piece->va, buffer, piece->len);
		else if (piece->region->base != NULL)
			mem_read(piece->region, piece->va, buffer, piece->len);
		buffer += piece->len;
	}
}

static int
move_now(struct mem_process *process, const struct mem_piece *pieces, uint32_t num, uint8_t *buffer, bool out)
{
	uint8_t *at = buffer;
	int error = 0;

	for (uint32_t i = 0; i < num && error == 0; i++) {
		const struct mem_piece *piece = &pieces[i];

		if (piece->region->base == NULL && piece->len != 0)
			error = out ? move_out(process, process->fd, piece->va, at, piece->len)
				    : move(process, process->fd, piece->va, at, piece->len, false);
		at += piece->len;
	}
	if (error == 0)
		move_mapped(pieces, num, buffer, out);
	return error;
}

/* The spans of a call; the length of all pieces, or 0 if that is too much. */
static uint32_t
spans_of(const struct mem_piece *pieces, uint32_t num, struct span span[ONE_MAX_SGE], uint32_t *num_spans)
{
	uint32_t len = 0;

	*num_spans = 0;
	for (uint32_t i = 0; i < num; i++) {
		const struct mem_piece *piece = &pieces[i];

		if (num > ONE_MAX_SGE || piece->len > REACH_LEN - len)
			return 0;
		if (piece->region->base == NULL && piece->len != 0)
			span[(*num_spans)++] = (struct span){piece->va, piece->len, len};
		len += piece->len;
	}
	return len;
}

static bool
is_same(const struct reach_job *job, enum kind kind, uint32_t tag, const struct span *span, uint32_t num)
{
	return job->kind == kind && job->tag == tag && job->num == num &&
	       memcmp(job->span, span, num * sizeof(*span)) == 0;
}

/* The outcome of the same call, if it is there: 0 or -EFAULT.  1: nothing is under way in the slot. */
static int
outcome(struct reach_party *party, uint32_t slot, enum kind kind, uint32_t tag, const struct span *span,
	uint32_t num)
{
	struct reach_job *job = party->job[slot];

	if (job == NULL)
		return 1;
	if (!job->done)
		return -EAGAIN;
	if (is_same(job, kind, tag, span, num))
		return job->result;
	reach_cancel(party, slot);
	return 1;
}

static int
reach_move(struct reach_party *party, uint32_t slot, const struct mem_piece *pieces, uint32_t num,
	   uint8_t *buffer, uint32_t tag, enum kind kind)
{
	struct mem_process *process = process_of(pieces, num);
	struct span span[ONE_MAX_SGE];
	struct reach_job *job;
	uint32_t num_spans, len;
	int result;

	if (process == NULL)
		return -EFAULT;
	if (process->reach == NULL)
		return move_now(process, pieces, num, buffer, kind == KIND_WRITE);
	len = spans_of(pieces, num, span, &num_spans);
	if (len == 0)
		return -EFAULT;
	result = outcome(party, slot, kind, tag, span, num_spans);
	job = party->job[slot];
	if (result <= 0) {
		if (result == 0) {
			move_mapped(pieces, num, job->data, kind == KIND_WRITE);
			if (kind == KIND_READ)
				memcpy(buffer, job->data, len);
		}
		if (result != -EAGAIN)
			reach_cancel(party, slot);
		return result;
	}
	job = job_get(process->reach, party, slot);
	if (job == NULL)
		return -EAGAIN;
	job->kind = (uint8_t)kind;
	job->tag = tag;
	job->num = num_spans;
	memcpy(job->span, span, num_spans * sizeof(span[0]));
	if (kind == KIND_WRITE)
		memcpy(job->data, buffer, len);
	submit(job);
	return -EAGAIN;
}

int
reach_gather(struct reach_party *party, uint32_t slot, const struct mem_piece *pieces, uint32_t num,
	     void *buffer, uint32_t tag)
{
	return reach_move(party, slot, pieces, num, buffer, tag, KIND_READ);
}

int
reach_scatter(struct reach_party *party, uint32_t slot, const struct mem_piece *pieces, uint32_t num,
	      const void *buffer, uint32_t tag)
{
	/* Only read from: the type is that of the way back, and of process_vm_writev. */
	return reach_move(party, slot, pieces, num, (uint8_t *)(uintptr_t)buffer, tag, KIND_WRITE);
}

/* Without a thread of the process's own, all callers exclude each other. */
static int
change_now(struct mem_process *process, uint64_t va, const uint64_t *compare, uint64_t operand,
	   uint64_t *found)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int error;

	pthread_mutex_lock(&lock);
	error = change(process, process->fd, va, compare, operand, found);
	pthread_mutex_unlock(&lock);
	return error;
}

int
reach_atomic(struct reach_party *party, uint32_t slot, const struct mem_region *region, uint64_t va,
	     const uint64_t *compare, uint64_t operand, uint64_t *found, uint32_t tag)
{
	const struct span span = {va, sizeof(*found), 0};
	struct mem_process *process = region->process;
	struct reach_job *job;
	int result;

	if ((va & 7) != 0 || process == NULL)
		return -EFAULT;
	if (process->reach == NULL)
		return change_now(process, va, compare, operand, found);
	result = outcome(party, slot, KIND_ATOMIC, tag, &span, 1);
	job = party->job[slot];
	if (result <= 0) {
		if (result == 0)
			*found = job->value;
		if (result != -EAGAIN)
			reach_cancel(party, slot);
		return result;
	}
	job = job_get(process->reach, party, slot);
	if (job == NULL)
		return -EAGAIN;
	job->kind = KIND_ATOMIC;
	job->tag = tag;
	job->num = 1;
	job->span[0] = span;
	job->compares = compare != NULL;
	job->compare = compare != NULL ? *compare : 0;
	job->operand = operand;
	submit(job);
	return -EAGAIN;
}

/* ---- what has been carried out ---- */

static uint32_t
collect(struct reach *reach, reach_wake *wake, void *context)
{
	uint32_t before = reach->out_head;
	/* Pairs with the release store of the thread. */
	uint32_t tail = atomic_load_explicit(&reach->out.tail, memory_order_acquire);

	while (reach->out_head != tail) {
		struct reach_job *job = reach->out.slot[reach->out_head++ % JOBS];

		reach->in_flight--;
		job->done = true;
		job->done_at = reach->looks;
		if (job->party != NULL)
			wake(context, job->party->user);
		else
			job_put(job);
	}
	return tail - before;
}

/* A job for who waits for one: outcomes that nobody fetches are dropped. */
static bool
job_for_starved(struct reach *reach)
{
	for (uint32_t i = 0; i < JOBS && reach->free == NULL; i++) {
		struct reach_job *job = &reach->job[i];

		if (job->party != NULL && job->done && reach->looks - job->done_at > STALE)
			reach_cancel(job->party, job->slot);
	}
	return reach->free != NULL;
}

static void
feed(struct reach *reach, reach_wake *wake, void *context)
{
	struct reach_party *party;

	/* One each time: the next finds another job, or waits again behind the others. */
	if (!job_for_starved(reach))
		return;
	party = TAILQ_FIRST(&reach->starved);
	TAILQ_REMOVE(&reach->starved, party, link);
	party->starved = NULL;
	wake(context, party->user);
}

uint32_t
reach_poll(struct reach_list *list, reach_wake *wake, void *context)
{
	struct reach *reach, *next;
	uint32_t done = 0;

	for (reach = LIST_FIRST(list); reach != NULL; reach = next) {
		next = LIST_NEXT(reach, link); /* who is woken may add some, but only to the front */
		reach->looks++;
		done += collect(reach, wake, context);
		if (!TAILQ_EMPTY(&reach->starved))
			feed(reach, wake, context);
		if (reach->in_flight == 0 && TAILQ_EMPTY(&reach->starved)) {
			LIST_REMOVE(reach, link);
			reach->listed = false;
		}
	}
	return done;
}

void
reach_detach(struct mem_process *process, reach_wake *wake, void *context)
{
	struct reach *reach = process->reach;
	struct reach_party *party;

	if (reach == NULL)
		return;
	for (uint32_t i = 0; i < JOBS; i++) {
		party = reach->job[i].party;
		if (party == NULL)
			continue;
		reach_cancel(party, reach->job[i].slot);
		wake(context, party->user);
	}
	while ((party = TAILQ_FIRST(&reach->starved)) != NULL) {
		TAILQ_REMOVE(&reach->starved, party, link);
		party->starved = NULL;
		wake(context, party->user);
	}
	if (reach->listed)
		LIST_REMOVE(reach, link);
	reach->listed = false;
}

/* ---- the control thread ---- */

static struct exclusion *
exclusion_get(pid_t pid)
{
	struct exclusion *exclusion = exclusions;

	while (exclusion != NULL && exclusion->pid != pid)
		exclusion = exclusion->next;
	if (exclusion == NULL) {
		exclusion = calloc(1, sizeof(*exclusion));
		if (exclusion == NULL)
			return NULL;
		exclusion->pid = pid;
		pthread_mutex_init(&exclusion->lock, NULL);
		exclusion->next = exclusions;
		exclusions = exclusion;
	}
	exclusion->users++;
	return exclusion;
}

static void
exclusion_put(struct exclusion *exclusion)
{
	struct exclusion **link = &exclusions;

	if (exclusion == NULL || --exclusion->users != 0)
		return;
	while (*link != exclusion)
		link = &(*link)->next;
	*link = exclusion->next;
	pthread_mutex_destroy(&exclusion->lock);
	free(exclusion);
}

/* It holds nobody's memory. */
static void
place_clear(void)
{
	int null = place < 0 ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null >= 0) {
		dup3(null, place, O_CLOEXEC);
		close(null);
	}
}

static int
thread_start(struct reach *reach)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error;

	if (place >= 0 && reach->process->by_file && dup3(reach->process->fd, place, O_CLOEXEC) < 0)
		return -errno;
	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for others */
	error = pthread_create(&thread, &attributes, thread_main, reach);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error == 0)
		while (sem_wait(&reach->begun) != 0)
			;
	place_clear();
	return -error;
}

int
reach_init(void)
{
	place = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return place < 0 ? -errno : 0;
}

int
reach_start(struct mem_process *process, struct reach_list *list)
{
	struct reach *reach = aligned_alloc(_Alignof(struct reach), sizeof(*reach));
	int error;

	if (reach == NULL)
		return -ENOMEM;
	memset(reach, 0, offsetof(struct reach, job));
	for (uint32_t i = 0; i < JOBS; i++)
		memset(&reach->job[i], 0, offsetof(struct reach_job, data));
	reach->process = process;
	reach->list = list;
	reach->fd = process->fd;
	TAILQ_INIT(&reach->starved);
	for (uint32_t i = 0; i < JOBS; i++) {
		reach->job[i].reach = reach;
		job_put(&reach->job[i]);
	}
	sem_init(&reach->begun, 0, 0);
	sem_init(&reach->wanted, 0, 0);
	reach->exclusion = exclusion_get(process->pid);
	error = reach->exclusion == NULL ? -ENOMEM : thread_start(reach);
	if (error != 0) {
		exclusion_put(reach->exclusion);
		sem_destroy(&reach->begun);
		sem_destroy(&reach->wanted);
		free(reach);
		return error;
	}
	process->reach = reach;
	return 0;
}

uint64_t
reach_since(const struct mem_process *process)
{
	return process->reach == NULL ? 0
				      : atomic_load_explicit(&process->reach->since, memory_order_relaxed);
}

uint32_t
reach_mark(const struct mem_process *process)
{
	return process->reach == NULL ? 0
				      : atomic_load_explicit(&process->reach->in.tail,
							     memory_order_acquire); /* see submit */
}

bool
reach_passed(const struct mem_process *process, uint32_t mark)
{
	/* Pairs with the release store of the thread. */
	return process->reach == NULL ||
	       (int32_t)(atomic_load_explicit(&process->reach->out.tail, memory_order_acquire) - mark) >= 0;
}

void
reach_stop(struct mem_process *process)
{
	if (process->reach == NULL)
		return;
	/* Pairs with the load of the thread. */
	atomic_store_explicit(&process->reach->stop, true, memory_order_release);
	sem_post(&process->reach->wanted);
}

bool
reach_stopped(const struct mem_process *process)
{
	/* Pairs with the last store of the thread. */
	return process->reach == NULL || atomic_load_explicit(&process->reach->stopped, memory_order_acquire);
}

void
reach_free(struct mem_process *process)
{
	struct reach *reach = process->reach;

	if (reach == NULL)
		return;
	exclusion_put(reach->exclusion);
	sem_destroy(&reach->begun);
	sem_destroy(&reach->wanted);
	free(reach);
	process->reach = NULL;
}
