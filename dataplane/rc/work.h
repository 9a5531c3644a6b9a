/* SPDX-License-Identifier: BSD-3-Clause */
/* A work request as the transports see it: copied once from the application's ring, validated in form (op,
 * flags, counts, sums), not yet in rights. */
#ifndef DATAPLANE_WORK_H
#define DATAPLANE_WORK_H

#include <stdint.h>

#include "abi/ring.h"

struct work {
	uint8_t op;    /* enum one_op */
	uint8_t flags; /* ONE_WQE_* */
	uint8_t num_sge;
	uint8_t status;  /* nonzero: malformed; complete with this enum one_status instead of executing */
	uint32_t length; /* bytes of the message */
	uint64_t cookie;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t imm;
	union {
		struct one_sge sge[ONE_MAX_SGE];
		uint8_t inline_data[ONE_INLINE_MAX]; /* ONE_WQE_INLINE */
		struct {
			struct one_sge result; /* atomics: the only sge */
			uint64_t add_or_swap;
			uint64_t compare;
		};
	};
};

/* A receive, taken from a receive ring when a message arrives. */
struct recv_work {
	uint64_t cookie;
	uint32_t length; /* sum of the sges */
	uint8_t num_sge;
	uint8_t flags; /* ONE_WQE_UNSIGNALED */
	uint8_t status;
	struct one_sge sge[ONE_MAX_SGE];
};

/* Result that a transport reports; becomes a struct one_cqe. */
struct completion {
	uint64_t cookie;
	uint32_t length;
	uint32_t imm;
	uint8_t type;   /* ONE_CQE_SEND, RECV, RECV_WRITE_IMM, BIND */
	uint8_t status; /* enum one_status */
	uint8_t op;
	uint8_t wqe_flags; /* of the work request: the receiver of the completion honours SUPPRESS and
			      UNSIGNALED */
	uint8_t cqe_flags; /* ONE_CQE_IMM, ONE_CQE_INV, ONE_CQE_GRH */
	uint8_t solicited; /* receives: the SE bit */
	uint32_t src_qpn;  /* with ONE_CQE_GRH */
};

/* Fill in the completion of a BIND: the application knows the window by its key. */
static inline void
completion_of_bind(struct completion *c, const struct work *work)
{
	c->type = ONE_CQE_BIND;
	c->imm = work->rkey;
	c->length = 0;
	c->cqe_flags = (work->length & ONE_BIND_INVALIDATE) != 0 ? ONE_CQE_INV : 0;
}

#endif
