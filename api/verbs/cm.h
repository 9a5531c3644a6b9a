/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What librdmacm needs of the attachment behind a context: exported by this project's libibverbs under a
 * version of its own.
 */
#ifndef VERBS_CM_H
#define VERBS_CM_H

#include <infiniband/verbs.h>

#include "client/cq.h"

/* The ring that tells of connections, and the descriptor that is readable when there may be more. */
struct verbs_cm {
	struct one_cq ring;
	uint16_t channel;
	int fd;
};

/* 0, or -errno. */
int verbs_cm_open(struct ibv_context *base, struct verbs_cm *cm);
int verbs_cm_call(struct ibv_context *base, struct one_msg *msg, struct one_reply *reply);
/* The next entry: 1, or 0 when `fd` has to be waited for. */
int verbs_cm_next(struct verbs_cm *cm, struct one_cqe *cqe);
const struct one_welcome *verbs_cm_info(struct ibv_context *base);
const uint8_t *verbs_cm_arena(struct ibv_context *base);

/* An RC queue pair in RESET becomes one that the CM connects: INIT. */
int verbs_cm_take(struct ibv_qp *qp);
/* Before it is connected: where its connection is told of, and the depth of READs and atomics. */
int verbs_cm_prepare(struct ibv_qp *qp, const struct verbs_cm *cm, uint32_t depth_in, uint32_t depth_out);
/* It may send from now on. */
void verbs_cm_connected(struct ibv_qp *qp, uint32_t peer_qpn);
uint32_t verbs_cm_id(const struct ibv_qp *qp);
const struct one_qp_shm *verbs_cm_shm(const struct ibv_qp *qp);

#endif
