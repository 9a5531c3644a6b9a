/* SPDX-License-Identifier: BSD-3-Clause */
/* EVDs and CNOs. */
#ifndef DAT_BASE_EVD_OBJECT_H_INTERNAL
#define DAT_BASE_EVD_OBJECT_H_INTERNAL

#include "dat/object.h"

struct ep;

struct cno {
	struct object o;
	pthread_mutex_t lock;
	pthread_cond_t agent_news; /* wakes the agent's thread */
	uint16_t channel;
	LIST_HEAD(, evd) evds;
	uint32_t waiters;
	uint64_t releases; /* number of times that the last EVD was freed */
	bool closing;
	bool has_thread;
	pthread_t thread;
	DAT_OS_WAIT_PROXY_AGENT agent;
};

enum evd_end { EVD_LIVE = 0, EVD_FREED, EVD_ABORTED };

/* Entry read from a completion ring, or made by the library; see evd_queue.c. */
struct stash_entry {
	struct one_cqe cqe;
	uint64_t came; /* order of arrival, from ia.arrivals; set if ONE_CQE_NOTIFY and the EVD has a CNO */
};

struct stash {
	struct stash_entry *entry;
	uint32_t size; /* a power of two, or 0 */
	uint32_t head;
	uint32_t count;
	uint32_t notify; /* entries with ONE_CQE_NOTIFY */
};

struct evd {
	struct object o; /* key: id of the completion ring */
	struct lock lock;
	bool has_cq;
	bool waiter; /* a thread is asleep in dat_evd_wait */
	bool unwaitable;
	bool disabled;
	enum evd_end end;
	struct one_cq cq;
	struct stash stash;
	uint64_t arrived; /* notifications that entered the stash so far */
	DAT_EVD_FLAGS flags;
	uint32_t qlen;
	uint64_t demand;                 /* events that the endpoints feeding the EVD can have outstanding */
	uint32_t unsignalled, solicited; /* numbers of such streams that feed the EVD */
	uint16_t channel;                /* the waiter sleeps on it */
	struct ia *guests;               /* asynchronous EVD: other IAs that report to it, by ia.async_next */
	struct cno *cno;
	LIST_ENTRY(evd) cno_entry;
	uint64_t cno_seen, agent_seen; /* value of `arrived` up to which the CNO was triggered */
	_Atomic(struct ep *) last_ep;  /* endpoint of the last completion; saves a lookup */
};

#endif
