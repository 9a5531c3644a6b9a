/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Service ID resolution (IBTA vol. 1, 12.11): which queue pair of a host, and with which Q_Key, takes
 * datagrams for a service.  SIDR_REQ asks, SIDR_REP answers, and nothing lasts.  Sans I/O: MADs and the time
 * come in, MADs and events go out.  One thread.
 */
#ifndef CONTROL_CM_SIDR_H
#define CONTROL_CM_SIDR_H

#include <stdbool.h>
#include <stdint.h>

#include "control/cm/cm.h"

#define SIDR_PRIVATE_REQ 180u /* behind rdma_cm's IP header */
#define SIDR_PRIVATE_REP 136u

/* rdma_cm's service for a port of its UDP space. */
#define SIDR_SERVICE_UDP(port) (0x0000000001110000ull | (uint16_t)(port))

static inline bool
sidr_service_is_udp(uint64_t service)
{
	return service >> 16 == SIDR_SERVICE_UDP(0) >> 16;
}

enum sidr_status { SIDR_SUCCESS = 0, SIDR_UNSUPPORTED = 1, SIDR_REJECT = 2, SIDR_NO_QP = 3 };

struct sidr;
struct sidr_query; /* one question: ours, or one that we have not answered */

struct sidr_remote {
	struct cm_path path; /* as we see it: src is ours */
	uint64_t service_id;
	uint16_t ip_port;                       /* a request: the asking side's */
	uint8_t status;                         /* an answer: enum sidr_status */
	uint32_t qpn, qkey;                     /* an answer that is SIDR_SUCCESS */
	uint8_t private_data[SIDR_PRIVATE_REQ]; /* of an answer SIDR_PRIVATE_REP bytes; lengths are not told
						 */
};

enum sidr_event_type {
	SIDR_REQUESTED = 1, /* to be answered by sidr_answer, now or later, or let go */
	SIDR_ANSWERED,      /* the query is over after this call, */
	SIDR_SILENCE        /* and after this: nobody has answered */
};

struct sidr_env {
	void (*send)(struct sidr_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN]);
	/* False for SIDR_REQUESTED: nobody listens, or has room; the query has gone then. */
	bool (*event)(struct sidr_env *env, enum sidr_event_type type, struct sidr_query *query,
		      const struct sidr_remote *remote);
	/* A query was sent again and not answered: the path may lead astray.  May be NULL. */
	void (*silent)(struct sidr_env *env, const struct cm_path *path);
	uint64_t (*random)(struct sidr_env *env);
	uint64_t retry_interval; /* ns, at first */
	uint32_t max_retries;
	uint32_t max_requests; /* of others, not answered for long, or just now: more are not heard */
};

struct sidr *sidr_new(struct sidr_env *env);
void sidr_free(struct sidr *sidr);
/* NULL: no memory. */
struct sidr_query *sidr_ask(struct sidr *sidr, const struct cm_path *path, uint64_t service_id,
			    uint16_t ip_port, const void *private_data, uint32_t len, void *user,
			    uint64_t now);
/* The query is no longer the caller's; len is at most SIDR_PRIVATE_REP. */
void sidr_answer(struct sidr_query *query, enum sidr_status status, uint32_t qpn, uint32_t qkey,
		 const void *private_data, uint32_t len, uint64_t now);
void sidr_give_up(struct sidr_query *query); /* one of ours */
void *sidr_user(const struct sidr_query *query);
void sidr_set_user(struct sidr_query *query, void *user);

/* False: it is none of these messages. */
bool sidr_input(struct sidr *sidr, const struct cm_path *reply_path, const uint8_t mad[CM_MAD_LEN],
		uint64_t now);
uint64_t sidr_deadline(const struct sidr *sidr);    /* CM_NEVER: nothing is due */
void sidr_timeout(struct sidr *sidr, uint64_t now); /* CM_TIMEOUTS at most */

#endif
