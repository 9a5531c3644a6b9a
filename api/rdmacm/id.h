/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: binding, resolving, listening and connecting. */
#ifndef RDMACM_ID_H
#define RDMACM_ID_H

#include "rdmacm/cma.h"

/* ---- cm_events.c; with the lock held ---- */
extern struct id *ids;
/* Moves the entries of all devices' rings to the ids' channels, as events. */
void ids_drain(void);

/* ---- addr.c; without the lock, before it is taken for the first time ---- */
void ids_watch_forks(void);

/* ---- udp.c: ids of the UDP port space; with the lock held ---- */
/* Service id, numbered as in rdma_cm, except that the data plane takes a port alone for port space TCP. */
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

int udp_take(struct ibv_qp *qp); /* moves to RTS with rdma_cm's Q_Key; returns a positive errno */
/* udp_connect(), udp_accept() and udp_reject() return 0 or -errno. */
int udp_connect(struct id *id, const struct rdma_conn_param *param);
int udp_accept(struct id *id, const struct rdma_conn_param *param);
int udp_reject(struct id *id, const void *data, uint8_t len);
void udp_forget(struct id *id); /* cancels the SIDR request */
void udp_answered(struct id *id, uint8_t status, const struct one_sidr_shm *shm);
/* NULL if memory is exhausted. */
struct event *udp_requested(struct id *id, const struct one_sidr_shm *shm);

/* ---- listening.c; with the lock held ---- */
/*
 * Reserves the id's port, or a free one if the port is 0, at each device where it may listen.  Returns
 * -errno.
 */
int listening_hold(struct id *id);
/* Releases the port at devices where the id may no longer listen. */
void listening_narrow(struct id *id);
/* Returns the listener that holds the port at the id's device; 0 if none does. */
uint32_t listening_at_device(struct id *id);
void listening_end(struct id *id);
/* Drops the listener at a device that is lost. */
void listening_leave(struct id *id, const struct device *device);
/* Makes ids that listen at all devices listen at new ones.  Returns false if a device is missing still. */
bool listening_resume(void);

/* ---- rings.c ---- */
/* Creates the CQs that the id lacks, with that many entries (0: create none).  Returns 0, or -1 with
 * errno. */
int rings_make(struct id *id, uint32_t send_entries, uint32_t recv_entries);
void rings_destroy(struct id *id);

/* ---- id_without_qp.c; with the lock held ---- */
/* Returns the id's queue pair, or the application's own with QPN param->qp_num, or NULL. */
struct ibv_qp *external_qp(const struct id *id, const struct rdma_conn_param *param);
struct ibv_qp *carrier_make(struct id *id); /* NULL with errno */
void carrier_forget(struct id *id);
int external_qp_init_attr(struct ibv_qp_attr *attr); /* fills the attributes of INIT; returns their mask */

/* ---- options.c; with the lock held ---- */
/* True if the device supports the depths of READs and atomics. */
bool param_valid(const struct id *id, const struct rdma_conn_param *param);
void param_fill(const struct id *id, const struct rdma_conn_param *param, struct one_conn_param *out);

#endif
