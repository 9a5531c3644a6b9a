/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm over the CM of the data plane: what all of its rooms know.
 *
 * Connections and requests of all ids of a device are told of in one ring, in order; who reads it hands
 * each event to the channel of its id.  One lock guards everything: these calls are no data path.
 */
#ifndef RDMACM_CMA_H
#define RDMACM_CMA_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "verbs/base/refused.h"
#include "verbs/face/cm.h"

#define PRIVATE_MAX 255u

struct device {
	struct ibv_context *verbs;
	struct verbs_cm cm;
	struct ibv_pd *pd; /* for queue pairs that come without one; made when the first does */
	struct device *next;
};

struct event {
	struct rdma_cm_event base;
	uint8_t private_data[PRIVATE_MAX + 1];
	struct event *next;
};

struct channel {
	struct rdma_event_channel base; /* fd: an eventfd, readable exactly while there are events */
	bool readable;
	uint32_t process;     /* cma_process of who made it */
	_Atomic uint32_t put; /* events so far, which rdma_get_cm_event() waits for */
	struct event *first, **last;
};

/* A listener of one device. */
struct listening {
	struct device *device;
	uint32_t listener;
	bool later;  /* its port is held, and nobody let in */
	bool afonly; /* at addresses of the id's family alone */
	struct listening *next;
};

struct id {
	struct rdma_cm_id base;
	struct device *device; /* NULL: not bound to one */
	uint32_t addr;         /* of the device's own addresses, which of them, from 0 */
	uint32_t cr;           /* of a request that is not answered */
	uint32_t sidr;         /* UDP: of a question that is not answered */
	bool bound, connecting, established;
	bool sync;  /* its channel is its own, and calls wait for their event */
	bool ended; /* the end of its connection has been told */
	bool disconnecting;
	bool afonly;
	bool reuseaddr; /* its port may be another id's as well until one of them listens */
	struct one_conn_param options;
	/* The queue pair that is connected, which the application may have destroyed meanwhile; 0: none. */
	uint32_t qp;
	const struct one_qp_shm *shm;
	struct ibv_qp *carrier; /* what is connected for a queue pair for datagrams (bare.c) */
	struct ibv_cq *carrier_cq;
	uint32_t timewait; /* a queue pair that was connected, until its time wait is over; 0: none */
	/* What the peer has said, and bare.c's mark. */
	uint32_t peer_qpn, psn;
	uint8_t depth_in, depth_out;
	struct listening *listening; /* or what holds its port until it does */
	bool listens;
	uint32_t backlog;                 /* requests that nobody has got yet: more are rejected */
	struct ibv_qp_init_attr *qp_init; /* of rdma_create_ep(): for the queue pairs of requests */
	uint32_t got, acked;              /* events */
	uint32_t process;                 /* as a channel's */
	struct id *next;
};

extern pthread_mutex_t cma_lock;
extern pthread_cond_t cma_acked; /* an event has been acknowledged */
/* Counts the forks above this process: a channel or an id of another process is the parent's. */
extern uint32_t cma_process;

#define TO_ID(object) ((struct id *)(void *)(object))

/* ---- addr.c ---- */
static inline size_t
addr_length(uint16_t family)
{
	return family == AF_INET6 ? 16 : 4;
}

/* The bytes of an address, of addr_length(), and an address of them. */
const uint8_t *addr_bytes(const struct sockaddr *addr);
bool addr_is(const struct sockaddr *addr, uint16_t family, const uint8_t *bytes);
void addr_fill(uint16_t family, const uint8_t *bytes, uint16_t port, struct sockaddr_storage *out);
/* An IPv4 address that is written as one of IPv6, as getaddrinfo() gives it where there is only IPv6. */
const struct sockaddr *addr_unmapped(const struct sockaddr *addr, struct sockaddr_storage *room);
bool addr_is_loopback(const struct sockaddr *addr);
/* Unspecified, or loopback: any device has it, as with the kernel's rdma_cm. */
bool addr_names_no_device(const struct sockaddr *addr);
uint16_t addr_port(const struct sockaddr *addr);
/* As messages have it; in `text`, of ADDR_TEXT_MAX bytes. */
#define ADDR_TEXT_MAX 64u
const char *addr_text(const struct sockaddr *addr, char *text);

/* -1 with errno, as all of these calls. */
static inline int
fail(int error)
{
	errno = error < 0 ? -error : error;
	if (errno == ECONNRESET)
		errno = EIO;
	return -1;
}

/* 0, or -ECHILD, which is noted: that `what` was made by a process above. */
int cma_own(uint32_t process, const char *what, const void *object);

/* At the end of a call: what it refuses is printed if the user wants (verbs/base/refused.h); `result`. */
static inline int
cma_told(const char *function, int result, const void *id)
{
	refused_tell(function, result != 0 ? errno : 0, "id", id);
	return result;
}

/* The same of one that ends with an errno of either sign, or 0. */
static inline int
cma_end(const char *function, int error, const void *id)
{
	return cma_told(function, error != 0 ? fail(error) : 0, id);
}

#endif
