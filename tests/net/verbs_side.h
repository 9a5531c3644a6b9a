/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs application in a case of two processes: one RC queue pair, connected out of band. */
#ifndef TESTS_NET_VERBS_SIDE_H
#define TESTS_NET_VERBS_SIDE_H

#include <infiniband/verbs.h>

#include "pair.h"

struct verbs_side {
	struct pair *pair;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

struct verbs_remote {
	uint64_t address;
	uint32_t key;
	uint32_t reserved;
};

void verbs_side_start(struct verbs_side *side, struct pair *pair);
void verbs_side_close(struct verbs_side *side);
struct ibv_mr *verbs_register(struct verbs_side *side, void *at, size_t length);
void verbs_offer(struct verbs_side *side, const struct ibv_mr *mr);
struct verbs_remote verbs_take(struct verbs_side *side);
/* Posts one request and awaits its completion. SENDs ignore `remote`. */
void verbs_do(struct verbs_side *side, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, void *at,
	      size_t length, const struct verbs_remote *remote, uint64_t offset);
void verbs_receive(struct verbs_side *side, const struct ibv_mr *mr, void *at, size_t length);
void verbs_complete(struct verbs_side *side, enum ibv_wc_opcode opcode);

#endif
