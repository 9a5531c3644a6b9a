/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that take time in proportion to an application's memory, or that wait for the kernel: populating,
 * unmapping, closing.
 *
 * Each user has threads for them, so that neither other users nor the control thread wait.  A thread does one
 * step of one job at a time, and serves its lanes round robin.
 *
 * Two lists carry jobs to a thread and back.  The sender adds a job by a compare-and-swap, and the receiver
 * takes the whole list by an exchange.  Neither side ever waits.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/attach/worker.h"
#include "control/attach/client.h"

#define LEAVE (1ull << 32) /* written to `wake`: ends the thread */

struct worker_list workers = LIST_HEAD_INITIALIZER(workers);
static _Atomic(struct job *) returned;
static int returned_fd = -1; /* an eventfd, never closed: a thread may still write to it while it ends */
static struct watch returned_watch;

/* Adds a job.  True if the list was empty. */
static bool
job_push(_Atomic(struct job *) *list, struct job *job)
{
	struct job *first = atomic_load_explicit(list, memory_order_relaxed);

	do
		job->next = first;
	/* Pairs with the exchange in take_all(), which makes the whole job visible there. */
	while (!atomic_compare_exchange_weak_explicit(list, &first, job, memory_order_release,
						      memory_order_relaxed));
	return first == NULL;
}

/* Takes all jobs, the oldest first. */
static struct job *
take_all(_Atomic(struct job *) *list)
{
	/* Pairs with the compare-and-swap in job_push(). */
	struct job *job = atomic_exchange_explicit(list, NULL, memory_order_acquire), *oldest = NULL;

	while (job != NULL) {
		struct job *next = job->next;

		job->next = oldest;
		oldest = job;
		job = next;
	}
	return oldest;
}

/* ---- the thread ---- */

static void
sort_in(struct worker *worker)
{
	struct job *job = take_all(&worker->given);

	while (job != NULL) {
		struct lane *lane = job->lane;
		struct job *next = job->next;

		if (STAILQ_EMPTY(&lane->jobs))
			TAILQ_INSERT_TAIL(&worker->lanes, lane, link);
		STAILQ_INSERT_TAIL(&lane->jobs, job, link);
		job = next;
	}
}

/* Does one step of the oldest job of the next attachment. */
static void
lane_step(struct worker *worker)
{
	struct lane *lane = TAILQ_FIRST(&worker->lanes);
	struct job *job = STAILQ_FIRST(&lane->jobs);

	/* Pairs with the store in lane_cancel(). */
	if (job->cancelable && atomic_load_explicit(&lane->canceled, memory_order_relaxed))
		job->result = -ECANCELED;
	else
		job->result = job->step(job);
	TAILQ_REMOVE(&worker->lanes, lane, link);
	if (job->result <= 0)
		STAILQ_REMOVE_HEAD(&lane->jobs, link);
	if (!STAILQ_EMPTY(&lane->jobs))
		TAILQ_INSERT_TAIL(&worker->lanes, lane, link);
	/* After the push the attachment may be freed, and its lane with it. */
	if (job->result <= 0 && job_push(&returned, job))
		eventfd_write(returned_fd, 1);
}

static void *
worker_main(void *arg)
{
	struct worker *worker = arg;
	eventfd_t reported = 0;
	sigset_t wake;

	sigemptyset(&wake);
	sigaddset(&wake, WORKER_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &wake, NULL);
	for (;;) {
		sort_in(worker);
		if (!TAILQ_EMPTY(&worker->lanes))
			lane_step(worker);
		else if (reported >= LEAVE)
			break;
		else if (eventfd_read(worker->wake, &reported) != 0 && errno != EINTR)
			abort();
	}
	close(worker->wake);
	free(worker);
	return NULL;
}

/* ---- the control thread ---- */

static void
returned_ready(struct watch *watch, uint32_t events)
{
	/* The wakeup is enough: every loop calls workers_poll().  Edge-triggered, so the eventfd need not be
	 * read. */
}

int
workers_init(void)
{
	if (returned_fd < 0)
		returned_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (returned_fd < 0)
		return -errno;
	returned_watch.ready = returned_ready;
	return control_watch(returned_fd, &returned_watch, EPOLLIN | EPOLLET);
}

static int
worker_start(struct worker *worker)
{
	pthread_attr_t attr;
	int error;

	worker->wake = eventfd(0, EFD_CLOEXEC);
	if (worker->wake < 0)
		return -errno;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&worker->thread, &attr, worker_main, worker);
	pthread_attr_destroy(&attr);
	if (error != 0)
		close(worker->wake);
	return -error;
}

static struct worker *
worker_new(uint32_t uid, enum worker_kind kind)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	if (worker == NULL)
		return NULL;
	worker->uid = uid;
	worker->kind = kind;
	TAILQ_INIT(&worker->lanes);
	worker->closings.worker = worker;
	STAILQ_INIT(&worker->closings.jobs);
	if (worker_start(worker) != 0) {
		free(worker);
		return NULL;
	}
	LIST_INSERT_HEAD(&workers, worker, link);
	return worker;
}

struct worker *
worker_find(uint32_t uid, enum worker_kind kind)
{
	struct worker *worker;

	LIST_FOREACH(worker, &workers, link)
		if (worker->uid == uid && worker->kind == kind)
			return worker;
	return NULL;
}

struct worker *
worker_hold(uint32_t uid, enum worker_kind kind)
{
	struct worker *worker = worker_find(uid, kind);

	if (worker == NULL)
		worker = worker_new(uid, kind);
	if (worker != NULL)
		worker->holders++;
	return worker;
}

/* Lets the thread end, and free the worker, if nobody needs it. */
static void
end_unused(struct worker *worker)
{
	/* Relaxed: another thread that gives the worker a job holds the worker by a job of its own, whose
	 * return to the control thread orders the two. */
	if (worker->holders != 0 || atomic_load_explicit(&worker->waiting, memory_order_relaxed) != 0)
		return;
	LIST_REMOVE(worker, link);
	eventfd_write(worker->wake, LEAVE);
}

void
worker_release(struct worker *worker)
{
	worker->holders--;
	end_unused(worker);
}

int
lane_open(struct lane *lane, uint32_t uid)
{
	lane->worker = worker_hold(uid, WORKER_MEMORY);
	STAILQ_INIT(&lane->jobs);
	return lane->worker == NULL ? -EAGAIN : 0;
}

void
lane_cancel(struct lane *lane)
{
	/* Pairs with the load in lane_step().  The load may be late: then jobs run a little longer. */
	atomic_store_explicit(&lane->canceled, true, memory_order_relaxed);
}

void
lane_close(struct lane *lane)
{
	if (lane->worker != NULL)
		worker_release(lane->worker);
	lane->worker = NULL;
}

void
lane_give(struct lane *lane, struct job *job)
{
	struct worker *worker = lane->worker;

	job->lane = lane;
	/* Relaxed: a count.  It is incremented before the job can return. */
	atomic_fetch_add_explicit(&worker->waiting, 1, memory_order_relaxed);
	if (job_push(&worker->given, job))
		eventfd_write(worker->wake, 1);
}

void
job_start(struct job *job)
{
	job->client->jobs++;
	lane_give(&job->client->lane, job);
}

static void
finish_job(struct job *job)
{
	struct worker *worker = job->lane->worker;
	struct client *client = job->client;

	job->done(job, job->result); /* may free the job */
	if (client != NULL)
		client->jobs--;
	worker->finished++;
	/* Relaxed: see end_unused(). */
	atomic_fetch_sub_explicit(&worker->waiting, 1, memory_order_relaxed);
	end_unused(worker);
}

void
workers_poll(void)
{
	struct job *job = take_all(&returned), *next;

	for (; job != NULL; job = next) {
		next = job->next;
		finish_job(job);
	}
}
