/* SPDX-License-Identifier: BSD-3-Clause */
/* Access for librdmacm to the attachment of a context.  This project's libibverbs exports these calls under a
 * symbol version of its own. */
#ifndef VERBS_CM_H
#define VERBS_CM_H

#include <infiniband/verbs.h>

#include "client/cq.h"

/* Like pthread_atfork(3).  `prepare` runs before libibverbs locks, because librdmacm calls libibverbs with
 * its own locks held.  Returns -errno. */
int verbs_cm_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Notes why no device exists; `attach_error` is the result of attaching, or 0.  Returns `error`. */
int verbs_cm_refuse_absent(int error, int attach_error);

/* The ring of connection events, and a descriptor that is readable when the ring may have more. */
struct verbs_cm {
	struct one_cq ring;
	int fd;
};

/* Returns 0 or -errno. */
int verbs_cm_open(struct ibv_context *base, struct verbs_cm *cm);
int verbs_cm_call(struct ibv_context *base, struct one_msg *msg, struct one_reply *reply);
/* Takes the next entry: 1, or 0 when the caller has to wait for `fd`. */
int verbs_cm_next(struct verbs_cm *cm, struct one_cqe *cqe);
const struct one_welcome *verbs_cm_info(struct ibv_context *base);
/* Returns the port's addresses in the order of its GIDs; *num is at least 1. */
const struct one_port_addr *verbs_cm_addrs(struct ibv_context *base, uint32_t *num);
/* Maps an entry's `offset` to the arena; NULL if `size` bytes there are not all inside. */
const void *verbs_cm_at(struct ibv_context *base, uint64_t offset, uint64_t size);

/* Called before connecting: sets the ring for connection events and the depths of READs and atomics.
 * ibv_query_qp() returns the values of `asked` until the data plane shows the negotiated ones in *shm. */
int verbs_cm_prepare(struct ibv_qp *qp, const struct verbs_cm *cm, uint32_t depth_in, uint32_t depth_out,
		     const struct one_conn_param *asked, const struct one_qp_shm **shm);
/* Queue pairs that the application moves to RTR and RTS itself, with the attributes of rdma_init_qp_attr().
 * The data plane makes these transitions when the CM connects, so libibverbs only records them.  The peer's
 * QPN and a PSN that no other expected peer has identify such a transition. */
int verbs_cm_expect(struct ibv_context *base, uint32_t peer_qpn, uint32_t *psn);
void verbs_cm_expect_no_more(struct ibv_context *base, uint32_t psn);
/* Returns the queue pair with that QPN, or NULL. */
struct ibv_qp *verbs_cm_find(struct ibv_context *base, uint32_t qpn);
/* Returns the remote rights that the application set, as ONE_ACCESS_REMOTE_*. */
uint32_t verbs_cm_access(const struct ibv_qp *qp);
/* Fills the path, with its MTU, from the port's address `index` to `addr` of the same family. */
void verbs_cm_path(struct ibv_context *base, uint32_t index, const uint8_t addr[16],
		   struct ibv_qp_attr *attr);
/* Moves the queue pair to RTS: sends are allowed from now on. */
void verbs_cm_connected(struct ibv_qp *qp, uint32_t peer_qpn);
uint32_t verbs_cm_id(const struct ibv_qp *qp);

#endif
