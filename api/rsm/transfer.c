/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers of an import segment: put is an RDMA write, get an RDMA read.
 *
 * Transfers are numbered in order of issue and complete in that order, so one number is the progress. A
 * completion carries its transfer's number and completes all before it. Of many transfers in a row only some
 * request a completion.
 *
 * Small data goes inline. Data in registered memory goes directly. Other data goes through a ring of staging
 * memory, in chunks, so that copying overlaps with the wire. A chunk's space is free when its transfer is
 * done; data of a READ is copied out then.
 *
 * A failed transfer breaks the queue pair. Outstanding transfers are flushed, and nothing more is posted.
 */
#include "client/post.h"
#include "client/wait.h"
#include "rsm/transfer.h"

#include <endian.h>
#include <sched.h>
#include <string.h>

#define CHUNK (32u * 1024u)
#define DIRECT_MAX (1u << 30) /* bytes in one transfer without staging */
#define TAIL (4 * CHUNK)      /* copied part of rsm_issue_put_back() */
#define SIGNAL_EVERY 8u
#define STAGE_ALIGN 64u

/* A waiter polls SPINS times, then yields the core between polls for YIELD_NS, then sleeps. If a yield takes
 * longer than CROWDED_NS, more than a system call, another thread wants the core (such as a data plane thread
 * without a core of its own): polling without yields stops. */
#define SPINS 64u
#define YIELD_NS 20000u
#define CROWDED_NS 1000u
/* On a crowded core the first TURNS yields are not timed. One transfer in MEASURED_EVERY is, since the waiter
 * may have the core to itself again. */
#define TURNS 4u
#define MEASURED_EVERY 16u
/* The kernel does not restart a wait with a timeout after a signal handler, even with SA_RESTART. So all
 * waits have one. */
#define SLEEP_NS 3600000000000ull

void
rsm_abort(struct rsm_import *import, int code)
{
	if (import->aborted)
		return;
	import->aborted = true;
	import->error = code;
	rsm_map_refresh(import);
	/* Wakes threads that wait for the import's signals: the data plane wakes nobody for entries that
	 * leave the ring before it looks for sleepers. */
	one_channel_wake(import->link->client, import->link->channel);
}

int
rsm_report_abort(struct rsm_import *import)
{
	int error = import->error;

	if (error == RSMERR_BARRIER_FAILURE)
		import->error = RSMERR_CONN_ABORTED;
	return error;
}

/* A local fault is RSMERR_BARRIER_FAILURE. A peer that refuses or does not answer is a lost connection. */
static int
failure_code(uint8_t status)
{
	switch (status) {
	case ONE_STATUS_LOCAL_LENGTH:
	case ONE_STATUS_LOCAL_QP:
	case ONE_STATUS_LOCAL_PROTECTION:
		return RSMERR_BARRIER_FAILURE;
	default:
		return RSMERR_CONN_ABORTED;
	}
}

static void
copy_swapped(uint8_t *dst, const uint8_t *src, uint64_t len, uint32_t element)
{
	if (element <= 1) {
		memcpy(dst, src, len);
		return;
	}
	for (uint64_t i = 0; i < len; i += element)
		for (uint32_t b = 0; b < element; b++)
			dst[i + b] = src[i + element - 1 - b];
}

/* Finishes transfers up to `number`, which succeeded. */
static void
finish_ops(struct rsm_import *import, uint64_t number)
{
	while (import->done < number) {
		const struct rsm_op *op = rsm_op_of(import, ++import->done);

		if (op->dst != NULL)
			copy_swapped(op->dst, op->src, op->len, op->element);
		import->stage_tail = op->stage_end;
	}
}

static void
take_entry(struct rsm_import *import, const struct one_cqe *cqe)
{
	bool ok = cqe->status == ONE_STATUS_SUCCESS;

	switch (cqe->type) {
	case ONE_CQE_SEND:
		if (cqe->cookie <= import->done || cqe->cookie > import->posted)
			break;
		/* Failures always have an entry, so all transfers before the first failure succeeded. */
		if (!import->aborted)
			finish_ops(import, ok ? cqe->cookie : cqe->cookie - 1);
		if (!ok)
			rsm_abort(import, failure_code(cqe->status));
		break;
	case ONE_CQE_RSM:
		if (!import->answered) {
			import->answered = true;
			import->outcome = cqe->status;
			if (cqe->status == RSM_SUCCESS)
				break;
		}
		rsm_abort(import, cqe->status == RSMERR_REMOTE_NODE_UNREACHABLE
					  ? RSMERR_REMOTE_NODE_UNREACHABLE
					  : RSMERR_CONN_ABORTED);
		break;
	default:
		break;
	}
}

void
rsm_drain(struct rsm_import *import)
{
	struct one_cqe cqe;

	while (one_cq_poll(&import->cq, &cqe) == 1)
		take_entry(import, &cqe);
	if (!import->aborted)
		rsm_map_check_gone(import);
}

/* ---- waiting ---- */

struct pause {
	uint32_t spins, turns;
	uint64_t until;
};

/* Runs one step of a wait. `may_sleep`: an entry of the ring is certain to come. Returns 0, -EINTR
 * (interrupted by a signal while asleep) or -ECONNRESET. */
static int
pause_step(struct rsm_import *import, struct pause *pause, bool may_sleep)
{
	struct one_client *client = import->link->client;
	uint16_t channel = import->link->channel;
	uint32_t ticket;
	uint64_t now;
	int error;

	if (!import->crowded && pause->spins++ < SPINS) {
		one_cpu_relax();
		return 0;
	}
	if (import->crowded && import->posted % MEASURED_EVERY != 0 && pause->turns++ < TURNS) {
		sched_yield();
		return 0;
	}
	if (one_client_dead(client))
		return -ECONNRESET;
	now = one_now_ns();
	if (pause->until == 0)
		pause->until = now + YIELD_NS;
	if (!may_sleep || now < pause->until) {
		import->crowded = one_yield() > CROWDED_NS;
		return 0;
	}
	ticket = one_wait_begin(client, channel);
	one_wait_arm(&import->cq, channel, 1);
	if (one_cq_pending(&import->cq, 1) > 0)
		return 0;
	error = one_wait_sleep(client, channel, ticket, one_now_ns() + SLEEP_NS);
	return error == -ETIMEDOUT ? 0 : error;
}

int
rsm_wait_answer(struct rsm_import *import)
{
	struct pause pause = {0};

	for (;;) {
		int error;

		rsm_drain(import);
		if (import->answered)
			return 0;
		error = pause_step(import, &pause, true);
		if (error != 0)
			return error;
	}
}

/* ---- posting ---- */

/* A request of one slot, built in registers and stored by one_send_put(). */
struct request {
	enum one_op op;
	uint8_t flags, num_sge, inline_len;
	uint32_t length, imm;
	uint64_t remote_addr;
	uint64_t data[ONE_INLINE_MAX / 8]; /* the scatter-gather element, or the inline payload */
};

static inline bool
has_room(struct rsm_import *import)
{
	return import->posted - import->done < import->depth && one_send_has_room(&import->qp);
}

/* Waits until the queue has room for one more transfer. False: the connection is lost. */
static bool
wait_for_room(struct rsm_import *import)
{
	struct pause pause = {0};

	do {
		rsm_drain(import);
		if (import->aborted)
			return false;
		/* Sleep only while a completion is due: without one, the engine publishes room shortly, and
		 * wakes nobody. */
		if (pause_step(import, &pause, import->signaled > import->done) == -ECONNRESET) {
			rsm_abort(import, RSMERR_CONN_ABORTED);
			return false;
		}
	} while (!has_room(import));
	return true;
}

/* Numbers the transfer and posts it; `op` is the work to do on completion. Requests a completion if `must` is
 * set, if the queue or the staging ring could fill up without one, and if nothing is in flight. False: the
 * connection is lost. */
static inline __attribute__((always_inline)) bool
post_transfer(struct rsm_import *import, struct request r, struct rsm_op op, bool must)
{
	uint64_t number;
	bool signal;

	if (__builtin_expect(!has_room(import), 0) && !wait_for_room(import))
		return false;
	number = ++import->posted;
	signal = must || number - import->signaled >= SIGNAL_EVERY ||
		 number - import->signaled >= import->depth / 2 || number - import->done == 1 ||
		 (import->stage != NULL &&
		  import->stage_head - import->stage_signaled >= import->stage->size / 4);

	op.stage_end = import->stage_head;
	*rsm_op_of(import, number) = op;
	if (signal) {
		import->signaled = number;
		import->stage_signaled = import->stage_head;
	} else {
		r.flags |= ONE_WQE_SUPPRESS;
	}
	one_send_put(&import->qp, one_send_head((uint8_t)r.op, r.flags, r.num_sge, r.inline_len), r.length,
		     number, r.remote_addr, (uint64_t)r.imm << 32 | import->key, r.data, ONE_INLINE_MAX / 8);
	return true;
}

/* Posts an empty transfer, to get a completion for all before it. */
static void
post_marker(struct rsm_import *import)
{
	bool writes = (import->permission & RSM_PERM_WRITE) != 0;
	struct request r = {.op = writes ? ONE_OP_WRITE : ONE_OP_READ, .remote_addr = import->base};

	post_transfer(import, r, (struct rsm_op){0}, true);
}

void
rsm_wait_done(struct rsm_import *import, uint64_t target)
{
	struct pause pause = {0};

	rsm_drain(import);
	if (target > import->signaled && import->done < target && !import->aborted)
		post_marker(import);
	while (import->done < target && !import->aborted) {
		uint64_t before = import->done;

		if (pause_step(import, &pause, true) == -ECONNRESET)
			rsm_abort(import, RSMERR_CONN_ABORTED);
		rsm_drain(import);
		if (import->done != before)
			pause = (struct pause){0};
	}
}

/* Posts a SEND without payload behind the puts. */
int
rsm_import_signal(struct rsm_import *import, bool once)
{
	struct request r = {.op = ONE_OP_SEND_IMM, .imm = htobe32(one_signal(1, once))};

	rsm_drain(import);
	if (!import->aborted && post_transfer(import, r, (struct rsm_op){0}, true)) {
		uint64_t target = import->posted;

		rsm_wait_done(import, target);
		if (import->done >= target)
			return RSM_SUCCESS;
	}
	return rsm_report_abort(import);
}

/* Reserves `len` contiguous bytes of the staging ring. Returns 0, or RSMERR_*; *out is NULL if the connection
 * is lost. */
static int
stage_reserve(struct rsm_import *import, uint32_t len, uint8_t **out)
{
	struct pause pause = {0};
	uint64_t size, at;

	*out = NULL;
	if (import->stage == NULL) {
		import->stage = rsm_stage_get(import->link);
		if (import->stage == NULL && rsm_link_lost(import->link)) {
			rsm_abort(import, RSMERR_CONN_ABORTED);
			return RSM_SUCCESS;
		}
		if (import->stage == NULL)
			return RSMERR_INSUFFICIENT_RESOURCES;
	}
	size = import->stage->size;
	len = (len + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
	at = import->stage_head % size;
	if (size - at < len)
		import->stage_head += size - at; /* skip the end of the ring: too short */
	while (import->stage_head + len - import->stage_tail > size) {
		rsm_drain(import);
		if (import->done == import->posted)
			import->stage_tail = import->stage_head;
		else if (import->done >= import->signaled)
			post_marker(import);
		if (import->aborted)
			return RSM_SUCCESS;
		if (import->stage_head + len - import->stage_tail <= size)
			break;
		if (pause_step(import, &pause, true) == -ECONNRESET) {
			rsm_abort(import, RSMERR_CONN_ABORTED);
			return RSM_SUCCESS;
		}
	}
	*out = import->stage->memory + import->stage_head % size;
	import->stage_head += len;
	return RSM_SUCCESS;
}

static uint64_t
stage_address(const struct rsm_import *import, const uint8_t *memory)
{
	return import->stage->offset + (uint64_t)(memory - import->stage->memory);
}

static void
put_inline(struct rsm_import *import, uint64_t offset, const uint8_t *src, uint32_t len, uint32_t element)
{
	struct request r = {.op = ONE_OP_WRITE,
			    .flags = ONE_WQE_INLINE,
			    .inline_len = (uint8_t)len,
			    .length = len,
			    .remote_addr = import->base + offset};

	/* Store 8 bytes at once if possible: a load of 8 bytes from several smaller stores stalls until the
	 * stores have left the processor (no store forwarding). */
	if (len == sizeof(uint64_t) && element <= 1)
		memcpy(&r.data[0], src, sizeof(uint64_t));
	else
		copy_swapped((uint8_t *)r.data, src, len, element);
	import->cut |= !post_transfer(import, r, (struct rsm_op){0}, !import->explicit_mode);
}

int
rsm_issue_pieces(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, uint8_t *at,
		 uint64_t len, uint32_t lkey, uint32_t element, bool signaled)
{
	if (direction == RSM_PUT && len <= ONE_INLINE_MAX) {
		put_inline(import, offset, at, (uint32_t)len, element);
		return RSM_SUCCESS;
	}
	while (len > 0 && !import->aborted) {
		uint32_t max = lkey != 0 ? DIRECT_MAX : CHUNK;
		uint32_t n = len < max ? (uint32_t)len : max;
		uint64_t local = (uintptr_t)at;
		uint32_t key = lkey;
		struct rsm_op op = {0};
		struct request r;

		if (lkey == 0) {
			uint8_t *memory;
			int result = stage_reserve(import, n, &memory);

			if (result != RSM_SUCCESS)
				return result;
			if (memory == NULL)
				break;
			if (direction == RSM_PUT)
				copy_swapped(memory, at, n, element);
			else
				op = (struct rsm_op){.dst = at, .src = memory, .len = n, .element = element};
			local = stage_address(import, memory);
			key = import->stage->lkey;
		}
		r = (struct request){.op = direction == RSM_PUT ? ONE_OP_WRITE : ONE_OP_READ,
				     .num_sge = 1,
				     .length = n,
				     .remote_addr = import->base + offset,
				     .data = {local, (uint64_t)key << 32 | n}};
		if (!post_transfer(import, r, op, n == len && signaled))
			break;
		if (lkey != 0)
			import->pinned = import->posted;
		at += n;
		offset += n;
		len -= n;
	}
	import->cut |= len > 0;
	return RSM_SUCCESS;
}

/* All but the tail goes directly from the caller's memory. The tail is copied, and is in flight while this
 * call waits for the rest, so that the next put follows without a gap. */
int
rsm_issue_put_back(struct rsm_import *import, uint64_t offset, void *local, uint64_t len, uint32_t lkey)
{
	uint8_t *from = local;
	uint64_t front = len - TAIL, number;
	int result = rsm_issue_pieces(import, RSM_PUT, offset, from, front, lkey, 0, true);

	number = import->posted;
	if (result == RSM_SUCCESS)
		result = rsm_issue_pieces(import, RSM_PUT, offset + front, from + front, TAIL, 0, 0, false);
	rsm_wait_done(import, number);
	return result;
}
