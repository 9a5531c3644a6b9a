/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: bound, resolved, listening, connected. */
#ifndef RDMACM_ID_H
#define RDMACM_ID_H

#include "rdmacm/base/cma.h"

/* ---- told.c; with the lock held ---- */
extern struct id *ids;
/* What has come in the rings of all devices becomes events. */
void ids_drain(void);

/* ---- fork.c; without the lock, before it is taken for the first time ---- */
void ids_watch_forks(void);

/* ---- udp.c: ids of the UDP port space; with the lock held ---- */
/* As rdma_cm numbers its port spaces; the data plane knows that of TCP by the port alone. */
static inline uint64_t
ids_service(const struct id *id, uint16_t port)
{
	return id->base.ps == RDMA_PS_TCP ? port : (uint64_t)id->base.ps << 16 | port;
}

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

/* ---- listening.c; with the lock held ---- */
/* Its port is the id's at every device where it may listen, one that is free when it was 0; -errno. */
int listening_hold(struct id *id);
/* Devices where the id may no longer listen have its port for others. */
void listening_narrow(struct id *id);
/* The listener that holds the port at the id's device; 0: there is none. */
uint32_t listening_at_device(struct id *id);
void listening_end(struct id *id);
/* Its device has gone. */
void listening_leave(struct id *id, const struct device *device);
/* Ids that listen wherever there is a device begin at those that have come; false: some are not there yet. */
bool listening_resume(void);

/* ---- rings.c ---- */
/* Those that the id has none of yet, of so many entries (0: none is wanted); 0, or -1 with errno. */
int rings_make(struct id *id, uint32_t send_entries, uint32_t recv_entries);
void rings_destroy(struct id *id);

/* ---- bare.c; with the lock held ---- */
/* The id's queue pair, or the application's own with the number that it tells; NULL: there is none. */
struct ibv_qp *bare_qp(const struct id *id, const struct rdma_conn_param *param);
struct ibv_qp *bare_carrier(struct id *id); /* NULL, with errno */
void bare_forget(struct id *id);
int bare_to_init(struct ibv_qp_attr *attr); /* the mask of what a queue pair in INIT has */

/* ---- options.c; with the lock held ---- */
/* Depths of READs and atomics that the device has. */
bool param_valid(const struct id *id, const struct rdma_conn_param *param);
void param_fill(const struct id *id, const struct rdma_conn_param *param, struct one_conn_param *out);

#endif
