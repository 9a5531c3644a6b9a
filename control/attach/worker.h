/* SPDX-License-Identifier: BSD-3-Clause */
/* What takes time in proportion to memory is done by a thread of its user. */
#ifndef CONTROL_ATTACH_WORKER_H
#define CONTROL_ATTACH_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct client;
struct worker;

/* The jobs of one attachment, on its user's thread (worker.c). */
struct lane {
	struct worker *worker;
	atomic_bool canceled;
	STAILQ_HEAD(, job) jobs; /* the thread's */
	TAILQ_ENTRY(lane) link;
};

struct job {
	/* On the thread of the client's user, where it may use nothing but the job: 1 when there is more to
	 * do, else the result (0 or -errno), then given to `done` on the control thread. */
	int (*step)(struct job *job);
	void (*done)(struct job *job, int result);
	struct client *client;
	bool cancelable; /* -ECANCELED, without a further step, when the client ends */
	struct lane *lane;
	int result;
	struct job *next;       /* on its way from one thread to the other */
	STAILQ_ENTRY(job) link; /* of the lane */
};
int workers_init(void);
void workers_poll(void);
/* Starts the user's thread if this is its first attachment; jobs cannot fail to start from now on. */
int lane_open(struct lane *lane, uint32_t uid);
void lane_cancel(struct lane *lane);
void lane_close(struct lane *lane); /* no job is under way any more */
/* The client is not freed before it is done. */
void job_start(struct job *job);

#endif
