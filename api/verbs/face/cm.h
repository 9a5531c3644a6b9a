/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What librdmacm needs of the attachment behind a context: exported by this project's libibverbs under a
 * version of its own.
 */
#ifndef VERBS_CM_H
#define VERBS_CM_H

#include <infiniband/verbs.h>

#include "client/cq.h"

/* pthread_atfork(3): `prepare` takes its locks before libibverbs does, whose calls are made with them.
 * -errno. */
int verbs_cm_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Notes why there is no device: `attach_error`, of the attempt to attach, or 0; `error`. */
int verbs_cm_refuse_absent(int error, int attach_error);

/* The ring that tells of connections, and the descriptor that is readable when there may be more. */
struct verbs_cm {
	struct one_cq ring;
	int fd;
};

/* 0, or -errno. */
int verbs_cm_open(struct ibv_context *base, struct verbs_cm *cm);
int verbs_cm_call(struct ibv_context *base, struct one_msg *msg, struct one_reply *reply);
/* The next entry: 1, or 0 when `fd` has to be waited for. */
int verbs_cm_next(struct verbs_cm *cm, struct one_cqe *cqe);
const struct one_welcome *verbs_cm_info(struct ibv_context *base);
/* The port's addresses, in the order of its GIDs; *num: how many, at least one. */
const struct one_port_addr *verbs_cm_addrs(struct ibv_context *base, uint32_t *num);
/* So much of the arena, where an entry says; NULL: it is not all inside. */
const void *verbs_cm_at(struct ibv_context *base, uint64_t offset, uint64_t size);

/*
 * Before it is connected: where its connection is told of, the depth of READs and atomics, and what the
 * connection is asked to have: so queries tell until the data plane shows in *shm what it has.
 */
int verbs_cm_prepare(struct ibv_qp *qp, const struct verbs_cm *cm, uint32_t depth_in, uint32_t depth_out,
		     const struct one_conn_param *asked, const struct one_qp_shm **shm);
/*
 * Queue pairs that the application brings up itself, with what rdma_init_qp_attr() says of the peer: the data
 * plane does it when the CM connects, so RTR and RTS are only noted.  They are known by the number of the
 * peer and a PSN that no other expected peer has.
 */
int verbs_cm_expect(struct ibv_context *base, uint32_t peer_qpn, uint32_t *psn);
void verbs_cm_expect_no_more(struct ibv_context *base, uint32_t psn);
/* The queue pair of that number, or NULL. */
struct ibv_qp *verbs_cm_find(struct ibv_context *base, uint32_t qpn);
/* ONE_ACCESS_REMOTE_*, as it was set. */
uint32_t verbs_cm_access(const struct ibv_qp *qp);
/* The way from the port's address `index` to `addr`, of the same family; its path MTU. */
void verbs_cm_path(struct ibv_context *base, uint32_t index, const uint8_t addr[16],
		   struct ibv_qp_attr *attr);
/* It may send from now on. */
void verbs_cm_connected(struct ibv_qp *qp, uint32_t peer_qpn);
uint32_t verbs_cm_id(const struct ibv_qp *qp);

#endif
