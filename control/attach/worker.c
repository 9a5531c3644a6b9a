/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that take time in proportion to an application's memory, or that wait for the kernel: populating,
 * unmapping, the last close of a file.
 *
 * Each user with attachments has a thread for jobs, so that neither other users nor the control thread wait
 * for them.  The thread does one step of one job at a time, and serves the user's attachments round robin.
 *
 * Two lists carry jobs to the thread and back.  The sender adds a job by a compare-and-swap, and the receiver
 * takes the whole list by an exchange.  Neither side ever waits.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/attach/worker.h"
#include "control/attach/client.h"

#define LEAVE (1ull << 32) /* written to `wake`: ends the thread */

TAILQ_HEAD(lanes, lane);

struct worker {
	LIST_ENTRY(worker) link;
	uint32_t uid, attachments; /* used only by the control thread */
	int wake;                  /* an eventfd */
	_Atomic(struct job *) given;
	struct lanes lanes; /* used only by the thread: attachments with jobs, the next first */
};

static LIST_HEAD(, worker) workers = LIST_HEAD_INITIALIZER(workers);
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
	eventfd_t told = 0;

	for (;;) {
		sort_in(worker);
		if (!TAILQ_EMPTY(&worker->lanes))
			lane_step(worker);
		else if (told >= LEAVE)
			break;
		else if (eventfd_read(worker->wake, &told) != 0 && errno != EINTR)
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
	pthread_t thread;
	int error;

	worker->wake = eventfd(0, EFD_CLOEXEC);
	if (worker->wake < 0)
		return -errno;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, worker_main, worker);
	pthread_attr_destroy(&attr);
	if (error != 0)
		close(worker->wake);
	return -error;
}

static struct worker *
worker_of(uint32_t uid)
{
	struct worker *worker;

	LIST_FOREACH(worker, &workers, link)
		if (worker->uid == uid)
			return worker;
	worker = calloc(1, sizeof(*worker));
	if (worker == NULL)
		return NULL;
	worker->uid = uid;
	TAILQ_INIT(&worker->lanes);
	if (worker_start(worker) != 0) {
		free(worker);
		return NULL;
	}
	LIST_INSERT_HEAD(&workers, worker, link);
	return worker;
}

int
lane_open(struct lane *lane, uint32_t uid)
{
	struct worker *worker = worker_of(uid);

	if (worker == NULL)
		return -EAGAIN;
	worker->attachments++;
	lane->worker = worker;
	STAILQ_INIT(&lane->jobs);
	return 0;
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
	struct worker *worker = lane->worker;

	if (worker == NULL)
		return;
	lane->worker = NULL;
	if (--worker->attachments != 0)
		return;
	LIST_REMOVE(worker, link);
	eventfd_write(worker->wake, LEAVE); /* the thread ends, and frees the worker */
}

void
job_start(struct job *job)
{
	job->lane = &job->client->lane;
	job->client->jobs++;
	if (job_push(&job->lane->worker->given, job))
		eventfd_write(job->lane->worker->wake, 1);
}

void
workers_poll(void)
{
	struct job *job = take_all(&returned), *next;

	for (; job != NULL; job = next) {
		struct client *client = job->client;

		next = job->next;
		job->done(job, job->result); /* may free the job */
		client->jobs--;
	}
}
