/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of users, fed by queues, for work that may take long.  A user has up to three, so that no work
 * waits for another kind: one for its memory, and two that close descriptors (reaper.h). */
#ifndef CONTROL_ATTACH_WORKER_H
#define CONTROL_ATTACH_WORKER_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct client;

/* Jobs that the worker does one after the other; lanes of a worker take turns.  An attachment has one. */
struct lane {
	struct worker *worker;
	atomic_bool canceled;
	STAILQ_HEAD(, job) jobs; /* used only by the worker's thread */
	TAILQ_ENTRY(lane) link;
};

struct job {
	/* Runs on the worker's thread, and may use only the job and what belongs to it.  Returns 1 if there
	 * is more to do, else the result (0 or -errno), which `done` gets on the control thread. */
	int (*step)(struct job *job);
	void (*done)(struct job *job, int result);
	struct client *client; /* NULL: a job of reaper.c */
	bool cancelable;       /* ends with -ECANCELED, without a further step, when the client ends */
	struct lane *lane;
	int result;
	struct job *next;       /* in a list between the two threads */
	STAILQ_ENTRY(job) link; /* in lane->jobs */
};

/* Interrupts a worker's system call; not used otherwise, and ignored by default. */
#define WORKER_SIGNAL SIGURG

enum worker_kind { WORKER_MEMORY, WORKER_SENT, WORKER_CONNECTIONS };

struct worker {
	LIST_ENTRY(worker) link;
	uint32_t uid;
	enum worker_kind kind;
	uint32_t holders; /* used only by the control thread, as is `finished` */
	uint32_t finished;
	_Atomic uint32_t waiting; /* jobs that are not finished */
	pthread_t thread;
	int wake; /* an eventfd */
	_Atomic(struct job *) given;
	TAILQ_HEAD(, lane) lanes; /* used only by the thread: lanes with jobs, the next first */
	/* Used only by reaper.c. */
	struct lane closings;
	uint32_t seen, looks; /* `finished` at the last poll; polls without a change since */
	uint64_t looked_at;
};
extern LIST_HEAD(worker_list, worker) workers;

int workers_init(void);
void workers_poll(void);
/* Returns NULL if the user has no such worker. */
struct worker *worker_find(uint32_t uid, enum worker_kind kind);
/* Returns the user's worker, started if need be, or NULL.  It exists until it is released and has no jobs. */
struct worker *worker_hold(uint32_t uid, enum worker_kind kind);
void worker_release(struct worker *worker);
/* Hands over a job, on any thread that knows that the lane's worker is held. */
void lane_give(struct lane *lane, struct job *job);
/* Starts the user's thread with its first attachment.  Returns 0, or -EAGAIN.  Afterwards starting a job
 * cannot fail. */
int lane_open(struct lane *lane, uint32_t uid);
void lane_cancel(struct lane *lane);
void lane_close(struct lane *lane); /* call when no job is under way */
/* Starts a job.  The client is not freed before the job is done. */
void job_start(struct job *job);

#endif
