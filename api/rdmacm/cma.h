/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm over the CM of the data plane: types that all of its rooms share.
 *
 * A device has one ring, which reports events of all of its ids in order.  The thread that reads the ring
 * passes each event to the channel of its id.  One lock guards everything, since no call is on the data path.
 */
#ifndef RDMACM_CMA_H
#define RDMACM_CMA_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "verbs/refused.h"
#include "verbs/cm.h"

#define PRIVATE_MAX 255u

struct device {
	struct ibv_context *verbs;
	struct verbs_cm cm;
	struct ibv_pd *pd; /* for queue pairs created without a PD; allocated at first use */
	struct device *next;
};

struct event {
	struct rdma_cm_event base;
	uint8_t private_data[PRIVATE_MAX + 1];
	struct event *next;
};

struct channel {
	struct rdma_event_channel base; /* fd: an eventfd, readable exactly while events are queued */
	bool readable;
	uint32_t process;     /* cma_process of its creator */
	_Atomic uint32_t put; /* counts events; rdma_get_cm_event() waits for a change */
	struct event *first, **last;
};

/* A listener of one device. */
struct listening {
	struct device *device;
	uint32_t listener;
	bool later;  /* holds the port, but accepts no requests yet */
	bool afonly; /* listens at addresses of the id's family only */
	struct listening *next;
};

struct id {
	struct rdma_cm_id base;
	struct device *device; /* NULL: not bound to a device */
	uint32_t addr;         /* index of the device's address, from 0 */
	uint32_t cr;           /* the connection request to be answered; 0: none */
	uint32_t sidr;         /* UDP: the SIDR request without an answer yet; 0: none */
	bool bound, connecting, established;
	bool sync;  /* the id owns its channel, and calls wait for their event */
	bool ended; /* the end of the connection was reported */
	bool disconnecting;
	bool afonly;
	bool reuseaddr; /* other ids may share the port until an id listens */
	struct one_conn_param options;
	/* The connected queue pair, which the application may have destroyed since; 0: none. */
	uint32_t qp;
	const struct one_qp_shm *shm;
	struct ibv_qp *carrier; /* connected in place of a UD queue pair (id_without_qp.c) */
	struct ibv_cq *carrier_cq;
	uint32_t timewait; /* the connected queue pair until its time wait is over; 0: none */
	/* For rdma_init_qp_attr(): the peer's QPN, and the values of its message; the PSN identifies the peer
	 * to libibverbs (id_without_qp.c). */
	uint32_t peer_qpn, psn;
	uint8_t depth_in, depth_out;
	uint8_t retry_count, rnr_retry;
	uint8_t timeout, min_rnr_timer; /* codes */
	struct listening *listening;    /* one per device; holds the port until the id listens */
	bool listens;
	uint32_t backlog; /* most requests in the event queue; more are rejected; 0: no limit */
	struct ibv_qp_init_attr *qp_init; /* from rdma_create_ep(), for the queue pairs of requests */
	uint32_t got, acked;              /* events got and acknowledged by the application */
	uint32_t process;                 /* cma_process of its creator */
	struct id *next;
};

extern pthread_mutex_t cma_lock;
extern pthread_cond_t cma_acked; /* signaled when an event is acknowledged */
/* Counts the forks that led to this process: an object with another count belongs to an ancestor. */
extern uint32_t cma_process;

#define TO_ID(object) ((struct id *)(void *)(object))

/* ---- addr.c ---- */
static inline size_t
addr_length(uint16_t family)
{
	return family == AF_INET6 ? 16 : 4;
}

/* Convert between socket addresses and their bytes, of addr_length(). */
const uint8_t *addr_bytes(const struct sockaddr *addr);
bool addr_is(const struct sockaddr *addr, uint16_t family, const uint8_t *bytes);
void addr_fill(uint16_t family, const uint8_t *bytes, uint16_t port, struct sockaddr_storage *out);
/* Converts an IPv4-mapped IPv6 address, which getaddrinfo() may return, to IPv4 in `room`. */
const struct sockaddr *addr_unmapped(const struct sockaddr *addr, struct sockaddr_storage *room);
bool addr_is_loopback(const struct sockaddr *addr);
/* True for unspecified and loopback addresses, which belong to any device, as in the kernel's rdma_cm. */
bool addr_names_no_device(const struct sockaddr *addr);
uint16_t addr_port(const struct sockaddr *addr);
/* Prints an address for messages into `text`, of ADDR_TEXT_MAX bytes. */
#define ADDR_TEXT_MAX 64u
const char *addr_text(const struct sockaddr *addr, char *text);

/* Sets errno and returns -1, the result of failed calls. */
static inline int
fail(int error)
{
	errno = error < 0 ? -error : error;
	if (errno == ECONNRESET)
		errno = EIO;
	return -1;
}

/* Returns 0, or -ECHILD with a note if an ancestor created the object `what`. */
int cma_own(uint32_t process, const char *what, const void *object);

/* Ends a call: prints a refusal if ONESIDE_DEBUG is set (verbs/refused.h).  Returns `result`. */
static inline int
cma_result(const char *function, int result, const void *id)
{
	refused_explain(function, result != 0 ? errno : 0, "id", id);
	return result;
}

/* Like cma_result(), with an errno of either sign, or 0. */
static inline int
cma_end(const char *function, int error, const void *id)
{
	return cma_result(function, error != 0 ? fail(error) : 0, id);
}

#endif
