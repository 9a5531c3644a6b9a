/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of the form of work requests. A request was copied from a ring that the application may write at any
 * time, so all of it is untrusted. A malformed request becomes a struct work that completes with
 * ONE_STATUS_LOCAL_QP and breaks its queue pair, as in hardware.
 */
#include "dataplane/qp/wqe.h"

#include <stddef.h>
#include <string.h>

#include <rte_branch_prediction.h>

#include "abi/message.h"

#define REMOTE_RIGHTS (ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)

enum shape {
	SHAPE_NONE,
	SHAPE_GATHER, /* sges or inline data, whose sum is the length */
	SHAPE_READ,   /* sges of at least the length */
	SHAPE_ATOMIC, /* one sge of 8 bytes */
	SHAPE_BIND    /* one sge: the window's range */
};

static const uint8_t shape_of[ONE_OP_MAX] = {
	[ONE_OP_SEND] = SHAPE_GATHER,      [ONE_OP_SEND_IMM] = SHAPE_GATHER,
	[ONE_OP_SEND_INV] = SHAPE_GATHER,  [ONE_OP_WRITE] = SHAPE_GATHER,
	[ONE_OP_WRITE_IMM] = SHAPE_GATHER, [ONE_OP_READ] = SHAPE_READ,
	[ONE_OP_FETCH_ADD] = SHAPE_ATOMIC, [ONE_OP_CMP_SWAP] = SHAPE_ATOMIC,
	[ONE_OP_BIND] = SHAPE_BIND,
};

static bool
bytes_are_zero(const uint8_t *bytes, size_t len)
{
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= bytes[i];
	return any == 0;
}

/* Copy all sges, at most ONE_MAX_SGE. Returns the sum of their lengths. */
static uint64_t
gather_sges(const struct one_sge *first, const struct one_wqe_ext *ext, uint32_t num, struct one_sge *out)
{
	uint64_t sum;

	if (num == 0)
		return 0;
	out[0] = *first;
	sum = first->len;
	for (uint32_t i = 1; i < num; i++) {
		out[i] = ext[(i - 1) / ONE_SGE_PER_EXT].sge[(i - 1) % ONE_SGE_PER_EXT];
		sum += out[i].len;
	}
	return sum;
}

static bool
ext_is_clean(const struct one_wqe_ext *ext, uint32_t num_sge)
{
	for (uint32_t i = 0; i + 1 < one_wqe_slots(num_sge); i++)
		if (!bytes_are_zero(ext[i].reserved, sizeof(ext[i].reserved)))
			return false;
	return true;
}

static bool
inline_is_right(const struct one_wqe *wqe)
{
	return wqe->num_sge == 0 && wqe->inline_len <= ONE_INLINE_MAX && wqe->length == wqe->inline_len;
}

static bool
form_is_right(const struct one_wqe *wqe, const struct one_wqe_ext *ext, struct work *work)
{
	uint64_t tail, sum;

	memcpy(&tail, wqe->reserved, sizeof(tail));
	if ((tail & 0x00ffffffffffffffull) != 0 || wqe->op >= ONE_OP_MAX ||
	    (wqe->flags & ~ONE_WQE_FLAGS) != 0 || wqe->num_sge > ONE_MAX_SGE)
		return false;
	if (shape_of[wqe->op] == SHAPE_GATHER && wqe->flags & ONE_WQE_INLINE) {
		memcpy(work->inline_data, wqe->inline_data, sizeof(work->inline_data));
		return inline_is_right(wqe);
	}
	if ((wqe->flags & ONE_WQE_INLINE) != 0 || !ext_is_clean(ext, wqe->num_sge))
		return false;
	sum = gather_sges(&wqe->sge, ext, wqe->num_sge, work->sge);
	switch (shape_of[wqe->op]) {
	case SHAPE_GATHER:
		return sum == wqe->length && sum <= ONE_MESSAGE_MAX;
	case SHAPE_READ:
		return wqe->length <= sum && wqe->length <= ONE_MESSAGE_MAX;
	case SHAPE_ATOMIC:
		work->length = 8;
		work->compare = (uint64_t)wqe->imm << 32 | wqe->length;
		work->add_or_swap = wqe->atomic.add_or_swap;
		return wqe->num_sge == 1 && sum == 8;
	case SHAPE_BIND:
		return wqe->num_sge == 1 && (wqe->length & ~(REMOTE_RIGHTS | ONE_BIND_FLAGS)) == 0;
	default:
		return false;
	}
}

#define SAME(field) offsetof(struct work, field) == offsetof(struct one_wqe, field)
_Static_assert(SAME(op) && SAME(flags) && SAME(num_sge) && SAME(length) && SAME(cookie) &&
		       SAME(remote_addr) && SAME(rkey) && SAME(imm) && SAME(sge) &&
		       offsetof(struct one_wqe, phase) == 63 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "wqe_take_plain copies a slot");

bool
wqe_take_plain(const struct one_wqe *slot, uint8_t phase, struct work *work)
{
	uint64_t tail;

	memcpy(work, slot, offsetof(struct work, sge[1]));
	memcpy(&tail, slot->reserved, sizeof(tail));
	/* The fence keeps the compiler from reading the slot again: see copy_once(). */
	atomic_signal_fence(memory_order_seq_cst);
	work->status = ONE_STATUS_SUCCESS;
	return tail == (uint64_t)phase << 56 &&
	       (uint8_t)(work->op - ONE_OP_SEND) <= ONE_OP_WRITE_IMM - ONE_OP_SEND &&
	       (work->flags & ~(ONE_WQE_FLAGS & ~ONE_WQE_INLINE)) == 0 && work->num_sge == 1 &&
	       work->sge[0].len == work->length && work->length <= ONE_MESSAGE_MAX;
}

void
wqe_to_work(const struct one_wqe *wqe, const struct one_wqe_ext *ext, struct work *work)
{
	work->op = wqe->op;
	work->flags = wqe->flags & ONE_WQE_FLAGS;
	work->num_sge = wqe->num_sge;
	work->length = wqe->length;
	work->cookie = wqe->cookie;
	work->remote_addr = wqe->remote_addr;
	work->rkey = wqe->rkey;
	work->imm = wqe->imm;
	work->status = ONE_STATUS_SUCCESS;
	if (unlikely(!form_is_right(wqe, ext, work))) {
		work->status = ONE_STATUS_LOCAL_QP;
		work->num_sge = 0;
		work->length = 0;
		work->flags &= (uint8_t)~ONE_WQE_INLINE;
	}
}

void
wqe_to_recv(const struct one_wqe *wqe, const struct one_wqe_ext *ext, struct recv_work *recv)
{
	uint64_t sum = 0;
	bool right = wqe->op == ONE_OP_RECV && (wqe->flags & ~ONE_WQE_UNSIGNALED) == 0 &&
		     wqe->num_sge <= ONE_MAX_SGE && bytes_are_zero(wqe->reserved, sizeof(wqe->reserved)) &&
		     ext_is_clean(ext, wqe->num_sge);

	if (right) {
		sum = gather_sges(&wqe->sge, ext, wqe->num_sge, recv->sge);
		right = sum == wqe->length && sum <= ONE_MESSAGE_MAX;
	}
	recv->cookie = wqe->cookie;
	recv->flags = wqe->flags & ONE_WQE_UNSIGNALED;
	recv->num_sge = right ? wqe->num_sge : 0;
	recv->length = right ? (uint32_t)sum : 0;
	recv->status = right ? ONE_STATUS_SUCCESS : ONE_STATUS_LOCAL_QP;
}
