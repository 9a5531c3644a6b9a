/* SPDX-License-Identifier: BSD-3-Clause */
/* State shared by all parts of the control thread: the loop, its clock, its random numbers, and the lists
 * that several parts walk.  Only the control thread uses this state. */
#ifndef CONTROL_LOOP_LOOP_H
#define CONTROL_LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "config/config.h"
#include "control/base/quota.h"
#include "control/base/table.h"
#include "control/cm/cm_table.h"
#include "control/base/log.h"

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define NEVER UINT64_MAX

struct client;
struct conn;
struct neigh;
struct segment;

TAILQ_HEAD(client_list, client);
TAILQ_HEAD(conn_list, conn);

/* A descriptor in the loop's epoll set. */
struct watch {
	void (*ready)(struct watch *watch, uint32_t events);
};

struct control {
	const struct config *config;
	int epoll, stop_fd, listen_fd;
	uint64_t now;
	bool stopping;
	bool passing;  /* a take-over begins: no request is read, and no connection accepted */
	bool draining; /* new attachments and connections are refused */
	struct quota quota;
	struct drr drr; /* DRR scheduler of users whose requests wait */
	struct client_list clients;
	struct table pz_numbers; /* every protection zone of the data plane */
	struct neigh *neigh;
	struct conn_list conns, dead;
	uint32_t num_conns;         /* number of `conns` */
	struct cm_heap conn_timers; /* has room for every conn */
	LIST_HEAD(, segment) segments;
	struct cm_table segment_ids;
	uint64_t segment_secret[2];
	uint64_t next_segment; /* next id to assign */
	uint64_t incarnation;  /* of this process: random */
	uint64_t attached_ever;
};
extern struct control control;

uint64_t control_random(void);
int control_watch(int fd, struct watch *watch, uint32_t events);

#endif
