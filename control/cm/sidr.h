/* SPDX-License-Identifier: BSD-3-Clause */
/* Service ID resolution (IBTA vol. 1, 12.11): finds the queue pair of a host, and its Q_Key, that receives
 * datagrams for a service.  SIDR_REQ asks, SIDR_REP answers; no connection results.  Sans I/O.  Input: MADs
 * and the time.  Output: MADs and events.  One thread. */
#ifndef CONTROL_CM_SIDR_H
#define CONTROL_CM_SIDR_H

#include <stdbool.h>
#include <stdint.h>

#include "control/cm/cm.h"

#define SIDR_PRIVATE_REQ 180u /* after rdma_cm's IP header */
#define SIDR_PRIVATE_REP 136u

/* Service ID of rdma_cm for a UDP port. */
#define SIDR_SERVICE_UDP(port) (0x0000000001110000ull | (uint16_t)(port))

static inline bool
sidr_service_is_udp(uint64_t service)
{
	return service >> 16 == SIDR_SERVICE_UDP(0) >> 16;
}

enum sidr_status { SIDR_SUCCESS = 0, SIDR_UNSUPPORTED = 1, SIDR_REJECT = 2, SIDR_NO_QP = 3 };

struct sidr;
struct sidr_query; /* our query, or a peer's */

struct sidr_remote {
	struct cm_path path; /* src is ours */
	uint64_t service_id;
	uint16_t ip_port;                       /* request: the requester's port */
	uint8_t status;                         /* answer: enum sidr_status */
	uint32_t qpn, qkey;                     /* answer with SIDR_SUCCESS */
	uint8_t private_data[SIDR_PRIVATE_REQ]; /* SIDR_PRIVATE_REP bytes in an answer; no length field */
};

enum sidr_event_type {
	SIDR_REQUESTED = 1, /* a peer's query: call sidr_answer, now or later, or return false */
	SIDR_ANSWERED,      /* our query is answered, and freed after this call */
	SIDR_SILENCE        /* our query got no answer, and is freed after this call */
};

struct sidr_env {
	void (*send)(struct sidr_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN]);
	/* False for SIDR_REQUESTED: no listener, or no room; the callee must not use the query then. */
	bool (*event)(struct sidr_env *env, enum sidr_event_type type, struct sidr_query *query,
		      const struct sidr_remote *remote);
	/* A retransmitted query got no answer: the next hop's MAC may be outdated.  May be NULL. */
	void (*silent)(struct sidr_env *env, const struct cm_path *path);
	uint64_t (*random)(struct sidr_env *env);
	uint64_t retry_interval; /* ns; the first interval */
	uint32_t max_retries;
	uint32_t max_requests; /* limit of peers' queries, open or just answered: further ones are ignored */
};

struct sidr *sidr_new(struct sidr_env *env);
void sidr_free(struct sidr *sidr);
/* Returns NULL without memory. */
struct sidr_query *sidr_ask(struct sidr *sidr, const struct cm_path *path, uint64_t service_id,
			    uint16_t ip_port, const void *private_data, uint32_t len, void *user,
			    uint64_t now);
/* Answers a peer's query; the caller must not use the query afterwards.  `len` is at most SIDR_PRIVATE_REP.
 */
void sidr_answer(struct sidr_query *query, enum sidr_status status, uint32_t qpn, uint32_t qkey,
		 const void *private_data, uint32_t len, uint64_t now);
void sidr_give_up(struct sidr_query *query); /* frees a query of ours */
void *sidr_user(const struct sidr_query *query);
void sidr_set_user(struct sidr_query *query, void *user);

/* Returns false if the MAD is no SIDR message. */
bool sidr_input(struct sidr *sidr, const struct cm_path *reply_path, const uint8_t mad[CM_MAD_LEN],
		uint64_t now);
uint64_t sidr_deadline(const struct sidr *sidr);    /* CM_NEVER: nothing is due */
void sidr_timeout(struct sidr *sidr, uint64_t now); /* at most CM_TIMEOUTS timers */

#endif
