/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers: one thread for each user does the work that takes time in proportion to memory. */
#ifndef CONTROL_ATTACH_WORKER_H
#define CONTROL_ATTACH_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct client;
struct worker;

/* Jobs of one attachment, on its user's worker (worker.c). */
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
	struct client *client;
	bool cancelable; /* ends with -ECANCELED, without a further step, when the client ends */
	struct lane *lane;
	int result;
	struct job *next;       /* in a list between the two threads */
	STAILQ_ENTRY(job) link; /* in lane->jobs */
};
int workers_init(void);
void workers_poll(void);
/* Starts the user's thread with its first attachment.  Returns 0, or -EAGAIN.  Afterwards starting a job
 * cannot fail. */
int lane_open(struct lane *lane, uint32_t uid);
void lane_cancel(struct lane *lane);
void lane_close(struct lane *lane); /* call when no job is under way */
/* Starts a job.  The client is not freed before the job is done. */
void job_start(struct job *job);

#endif
