/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm over the CM of the data plane: what the files of this room share.
 *
 * Connections and requests of all ids of a device are told of in one ring, in order; who reads it hands
 * each event to the channel of its id.  One lock guards everything: these calls are no data path.
 */
#ifndef RDMACM_CMA_H
#define RDMACM_CMA_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "verbs/face/cm.h"

#define PRIVATE_MAX 255u

struct device {
	struct ibv_context *verbs;
	struct verbs_cm cm;
	struct ibv_pd *pd; /* for queue pairs that come without one; made when the first does */
	bool lost;
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
	struct event *first, **last;
	struct channel *next;
};

/* A listener of one device. */
struct listening {
	struct device *device;
	uint32_t listener;
	struct listening *next;
};

struct id {
	struct rdma_cm_id base;
	struct device *device; /* NULL: not bound to one */
	uint32_t cr;           /* of a request that is not answered */
	uint32_t sidr;         /* UDP: of a question that is not answered */
	bool bound, connecting, established;
	bool sync;  /* its channel is its own, and calls wait for their event */
	bool ended; /* the end of its connection has been told */
	bool disconnecting;
	bool afonly;
	struct one_conn_param options;
	/* The queue pair that is connected, which the application may have destroyed meanwhile; 0: none. */
	uint32_t qp;
	const struct one_qp_shm *shm;
	uint32_t timewait; /* a queue pair that was connected, until its time wait is over; 0: none */
	/* What the peer has said, and bare.c's mark. */
	uint32_t peer_qpn, psn;
	uint8_t depth_in, depth_out;
	struct listening *listening;
	uint32_t backlog;                 /* requests that nobody has got yet: more are rejected */
	struct ibv_qp_init_attr *qp_init; /* of rdma_create_ep(): for the queue pairs of requests */
	uint32_t got, acked;              /* events */
	struct id *next;
};

extern pthread_mutex_t cma_lock;
extern pthread_cond_t cma_acked;
extern struct device *devices;
extern struct channel *channels;
extern struct id *ids;

#define TO_ID(object) ((struct id *)(void *)(object))

/* ---- devices.c; with the lock held ---- */
int devices_open(void); /* -errno; those that are open already stay */
bool device_has(const struct device *device, const struct sockaddr *addr);
void device_addr(const struct device *device, uint16_t port, struct sockaddr_storage *out);
/* The 4 or 16 bytes of an address, and an address of them. */
void addr_bytes(const struct sockaddr *addr, uint8_t *bytes);
void addr_fill(uint16_t family, const uint8_t *bytes, uint16_t port, struct sockaddr_storage *out);
/* An IPv4 address that is written as one of IPv6, as getaddrinfo() gives it where there is only IPv6. */
const struct sockaddr *unmapped(const struct sockaddr *addr, struct sockaddr_storage *room);
bool is_loopback(const struct sockaddr *addr);
/* Unspecified, or loopback: any device has it, as with the kernel's rdma_cm. */
bool names_no_device(const struct sockaddr *addr);
uint16_t port_of(const struct sockaddr *addr);

/* NULL: none, with errno. */
struct ibv_pd *device_pd(struct device *device);

/* ---- udp.c: ids of the UDP port space; with the lock held ---- */
static inline bool
is_udp(const struct id *id)
{
	return id->base.ps == RDMA_PS_UDP;
}

int udp_take(struct ibv_qp *qp); /* to RTS, with rdma_cm's Q_Key; a positive errno */
int udp_connect(struct id *id, const struct rdma_conn_param *param); /* -errno, as those below */
int udp_accept(struct id *id, const struct rdma_conn_param *param);
int udp_reject(struct id *id, const void *data, uint8_t len);
void udp_forget(struct id *id); /* nobody waits for an answer any more */
void udp_answered(struct id *id, uint8_t status, const struct one_sidr_shm *shm);
/* NULL: no memory. */
struct event *udp_requested(struct id *id, const struct one_sidr_shm *shm);

/* ---- rings.c ---- */
/* Those that the id has none of yet, of so many entries (0: none is wanted); 0, or -1 with errno. */
int rings_make(struct id *id, uint32_t send_entries, uint32_t recv_entries);
void rings_destroy(struct id *id);

/* ---- ep.c; without the lock ---- */
/* What a call on an id without channel waits for; 0, or -1 with errno.  Others do not wait. */
int complete(struct id *id, enum rdma_cm_event_type expected);

/* ---- bare.c; with the lock held ---- */
/* The id's queue pair, or the application's own with the number that it tells; NULL: there is none. */
struct ibv_qp *bare_qp(const struct id *id, const struct rdma_conn_param *param);
void bare_forget(struct id *id);

/* ---- options.c; with the lock held ---- */
/* Depths of READs and atomics that the device has. */
bool param_valid(const struct id *id, const struct rdma_conn_param *param);
void param_fill(const struct id *id, const struct rdma_conn_param *param, struct one_conn_param *out);

/* ---- events.c; with the lock held ---- */
/* NULL: no memory. */
struct event *event_new(struct id *id, enum rdma_cm_event_type type, int status);
void event_append(struct channel *channel, struct event *event);
void event_put(struct id *id, struct event *event);
void events_drain(void);
/* After something has been put in or taken out. */
void channel_changed(struct channel *channel);

/* ---- reader.c; with the lock held ---- */
int reader_watch(const struct device *device); /* 0, or -errno */
void reader_leave(const struct device *device);

/* -1 with errno, as all of these calls. */
static inline int
fail(int error)
{
	errno = error < 0 ? -error : error;
	if (errno == ECONNRESET)
		errno = EIO;
	return -1;
}

#endif
