/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

#define CANARY 64u
#define CANARY_BYTE 0xc5

static void
randomize(struct sim *sim, uint8_t *bytes, uint32_t len)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < len; i++) {
		if (i % 8 == 0)
			v = sim_random(sim);
		bytes[i] = (uint8_t)(v >> (i % 8 * 8));
	}
}

void
area_new(struct sim *sim, struct area *area, uint32_t len, uint32_t pz, uint32_t access)
{
	area->len = len;
	area->block = aligned_alloc(64, (2 * CANARY + len + 63) / 64 * 64);
	area->base = area->block + CANARY;
	memset(area->block, CANARY_BYTE, 2 * CANARY + len);
	randomize(sim, area->base, len);
	area->model = malloc(len);
	memcpy(area->model, area->base, len);
	do
		area->region.key = (uint32_t)sim_random(sim);
	while (area->region.key == 0 || mem_lookup(sim->mem, area->region.key) != NULL ||
	       sim->mem->slot[mem_key_slot(sim->mem, area->region.key)] != NULL);
	area->region.pz = pz;
	area->region.access = access;
	area->region.va = 0x7f0000000000ull + (sim_random(sim) & 0xffffff00ull);
	area->region.length = len;
	area->region.base = area->base;
	mem_publish(sim->mem, &area->region);
}

void
area_free(struct area *area)
{
	free(area->block);
	free(area->model);
}

static void
area_check(struct sim *sim, struct side *side, const struct area *area, const char *name, bool exact)
{
	for (uint32_t i = 0; i < CANARY; i++)
		if (area->block[i] != CANARY_BYTE || area->base[area->len + i] != CANARY_BYTE)
			sim_fail(sim, side, "%s: a byte outside of the area was written", name);
	if (!exact)
		return;
	for (uint32_t i = 0; i < area->len; i++)
		if (area->base[i] != area->model[i])
			sim_fail(sim, side, "%s: byte %u is %02x, must be %02x", name, i, area->base[i],
				 area->model[i]);
}

/* ---- the plan ---- */

/* Cuts [offset, offset+len) of an area into pieces, in order. */
static uint8_t
cut(struct sim *sim, const struct area *area, uint32_t offset, uint32_t len, struct one_sge *sge)
{
	uint32_t n = sim_below(sim, 3) ? 1 : 1 + sim_below(sim, ONE_MAX_SGE);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t take = i == n - 1 ? len : sim_below(sim, len + 1);

		sge[i].addr = area->region.va + offset;
		sge[i].len = take;
		sge[i].lkey = area->region.key;
		offset += take;
		len -= take;
	}
	return (uint8_t)n;
}

static uint32_t
draw_length(struct sim *sim, uint32_t mtu, uint32_t max)
{
	uint32_t len;

	switch (sim_below(sim, 8)) {
	case 0:
		len = 0;
		break;
	case 1:
		len = mtu * (1 + sim_below(sim, 3));
		len += sim_below(sim, 3) - 1;
		break;
	case 2:
		len = sim_below(sim, max + 1);
		break;
	case 3:
	case 4:
		len = sim_below(sim, 4 * mtu);
		break;
	default:
		len = sim_below(sim, 100);
		break;
	}
	return len < max ? len : max;
}

/* Copies the bytes of a gather list. */
static void
gather(const struct area *area, const struct work *work, uint8_t *out)
{
	for (uint32_t i = 0; i < work->num_sge; i++) {
		memcpy(out, area->base + (work->sge[i].addr - area->region.va), work->sge[i].len);
		out += work->sge[i].len;
	}
}

/* Length of the part of an area that each work request uses alone: many requests are in flight at once.
 * Transfer lengths are drawn to fit. */
static uint32_t
stretch(const struct area *area, uint32_t ops)
{
	return area->len / ops;
}

static void
plan_op(struct sim *sim, struct side *side, uint32_t i)
{
	static const uint8_t kinds[] = {
		ONE_OP_SEND,      ONE_OP_SEND_IMM, ONE_OP_SEND_INV,  ONE_OP_WRITE, ONE_OP_WRITE,
		ONE_OP_WRITE,     ONE_OP_WRITE,    ONE_OP_WRITE_IMM, ONE_OP_READ,  ONE_OP_READ,
		ONE_OP_FETCH_ADD, ONE_OP_CMP_SWAP, ONE_OP_BIND,
	};
	struct op *op = &side->op[i];
	struct work *work = &op->work;
	struct area *target = &side->peer->target;
	uint32_t max = stretch(&side->landing, side->ops), len;

	memset(op, 0, sizeof(*op));
	work->op = kinds[sim_below(sim, sizeof(kinds))];
	work->cookie = sim_random(sim);
	work->imm = (uint32_t)sim_random(sim);
	work->rkey = target->region.key;
	if (sim_below(sim, 6) == 0)
		work->flags |= ONE_WQE_FENCE;
	if (sim_below(sim, 3) == 0)
		work->flags |= ONE_WQE_SOLICITED;
	if (sim_below(sim, 3) == 0)
		work->flags |= ONE_WQE_UNSIGNALED;
	op->message = work->op <= ONE_OP_SEND_INV || work->op == ONE_OP_WRITE_IMM;
	if (work->op == ONE_OP_BIND)
		return;
	if (work->op >= ONE_OP_FETCH_ADD) {
		uint64_t found, *word;

		/* A few hot words, so that atomics collide with WRITEs and with each other. */
		op->target = 8 * sim_below(sim, 16);
		op->target += (uint32_t)(-target->region.va & 7);
		work->length = 8;
		/* The value found goes to one piece, since rings can express only one. */
		work->num_sge = 1;
		work->result.addr = side->landing.region.va + i * max;
		work->result.len = 8;
		work->result.lkey = side->landing.region.key;
		work->remote_addr = target->region.va + op->target;
		op->effect = malloc(8);
		op->expect = malloc(8);
		word = (uint64_t *)(void *)op->effect;
		memcpy(&found, target->model + op->target, 8);
		memcpy(op->expect, &found, 8);
		work->add_or_swap = sim_random(sim);
		work->compare = sim_below(sim, 2) ? found : sim_random(sim);
		if (work->op == ONE_OP_FETCH_ADD)
			*word = found + work->add_or_swap;
		else
			*word = found == work->compare ? work->add_or_swap : found;
		memcpy(target->model + op->target, op->effect, 8);
		return;
	}
	len = draw_length(sim, side->attr.path_mtu, max);
	work->length = len;
	op->target = sim_below(sim, target->len - len + 1);
	work->remote_addr = target->region.va + op->target;
	if (work->op == ONE_OP_READ) {
		work->num_sge = cut(sim, &side->landing, i * max, len, work->sge);
		op->expect = malloc(len + 1);
		memcpy(op->expect, target->model + op->target, len);
		return;
	}
	op->effect = malloc(len + 1);
	if (len <= ONE_INLINE_MAX && sim_below(sim, 2)) {
		work->flags |= ONE_WQE_INLINE;
		randomize(sim, work->inline_data, len);
		memcpy(op->effect, work->inline_data, len);
	} else {
		work->num_sge =
			cut(sim, &side->source, sim_below(sim, side->source.len - len + 1), len, work->sge);
		gather(&side->source, work, op->effect);
	}
	if (work->op == ONE_OP_WRITE || work->op == ONE_OP_WRITE_IMM)
		memcpy(target->model + op->target, op->effect, len);
}

static void
plan_recv(struct sim *sim, struct side *side, const struct op *op)
{
	uint32_t max = stretch(&side->receive, side->peer->ops), len;
	struct recv_plan *plan = &side->recv[side->recvs];

	memset(plan, 0, sizeof(*plan));
	plan->op = op;
	plan->recv.cookie = sim_random(sim);
	len = op->work.op == ONE_OP_WRITE_IMM ? 0 : op->work.length;
	if (len < max)
		len += sim_below(sim, max - len + 1);
	plan->recv.length = len;
	plan->recv.num_sge = cut(sim, &side->receive, side->recvs * max, len, plan->recv.sge);
	side->recvs++;
}

/* Poisons one work request. Returns false if the poison does not fit that request. */
static bool
apply_poison(struct sim *sim, struct side *side, enum poison poison, uint32_t at)
{
	struct op *op = &side->op[at];
	struct work *work = &op->work;
	bool remote = work->length > 0 && work->op >= ONE_OP_WRITE && work->op <= ONE_OP_CMP_SWAP;
	struct recv_plan *plan = NULL;

	for (uint32_t i = 0; i < side->peer->recvs; i++)
		if (side->peer->recv[i].op == op)
			plan = &side->peer->recv[i];
	switch (poison) {
	case POISON_RKEY:
		work->rkey ^= 0x01000000u << sim_below(sim, 8);
		return remote;
	case POISON_RANGE:
		work->remote_addr = side->peer->target.region.va + side->peer->target.len - work->length + 8;
		work->remote_addr &= ~7ull;
		return remote && work->remote_addr + work->length >
					 side->peer->target.region.va + side->peer->target.len;
	case POISON_RIGHT:
		work->rkey = side->peer->readable.key;
		return remote && work->op != ONE_OP_READ;
	case POISON_LKEY:
		if (work->num_sge == 0 || work->op == ONE_OP_BIND)
			return false;
		work->sge[work->num_sge - 1].lkey ^= 0x10;
		return work->sge[work->num_sge - 1].len > 0;
	case POISON_MALFORMED:
		work->status = ONE_STATUS_LOCAL_QP;
		return true;
	case POISON_LONG:
		if (plan == NULL || work->op == ONE_OP_WRITE_IMM || work->length == 0)
			return false;
		plan->recv.length = work->length - 1;
		return true;
	case POISON_RECV_LKEY:
		if (plan == NULL || work->op == ONE_OP_WRITE_IMM || work->length == 0)
			return false;
		for (uint32_t i = 0; i < plan->recv.num_sge; i++)
			plan->recv.sge[i].lkey ^= 0x20;
		return true;
	case POISON_ALIGN:
		work->remote_addr ^= 1u << sim_below(sim, 3);
		return work->op == ONE_OP_FETCH_ADD || work->op == ONE_OP_CMP_SWAP;
	case POISON_INVALIDATE:
		return work->op == ONE_OP_SEND_INV;
	case POISON_BIND:
		return work->op == ONE_OP_BIND;
	default:
		return true;
	}
}

static void
plan_poison(struct sim *sim, struct side *side)
{
	enum poison poison = 1 + (enum poison)sim_below(sim, POISON_MAX - 1);

	if (poison == POISON_FLUSH)
		side->stop_at = sim_below(sim, 5 * MS);
	if (poison == POISON_REVOKE)
		side->peer->revoke_at = sim_below(sim, 2 * MS);
	for (int tries = 0; tries < 50; tries++) {
		uint32_t at = sim_below(sim, side->ops);
		struct work saved = side->op[at].work;

		if (apply_poison(sim, side, poison, at)) {
			side->poison = poison;
			side->poison_op = at;
			return;
		}
		side->op[at].work = saved;
	}
}

void
workload_plan(struct sim *sim, struct side *side)
{
	side->target_start = malloc(side->peer->target.len);
	memcpy(side->target_start, side->peer->target.base, side->peer->target.len);
	side->poison_op = UINT32_MAX;
	for (uint32_t i = 0; i < side->ops; i++) {
		plan_op(sim, side, i);
		if (side->op[i].message)
			plan_recv(sim, side->peer, &side->op[i]);
	}
	if (sim_below(sim, 8) == 0 && sim->options->stops == STOPS_NONE)
		plan_poison(sim, side);
}

void
workload_free(struct side *side)
{
	for (uint32_t i = 0; i < side->ops; i++) {
		free(side->op[i].effect);
		free(side->op[i].expect);
	}
	free(side->target_start);
}

/* ---- checks of results ---- */

static bool
uses_target(const struct op *op)
{
	return op->work.op >= ONE_OP_WRITE && op->work.op <= ONE_OP_CMP_SWAP && op->work.length > 0;
}

static bool
writes_target(const struct op *op)
{
	return op->effect != NULL && op->work.op >= ONE_OP_WRITE;
}

/* May byte `at` of the target have `value` because of work request `from` or a later posted one? With
 * `fences`, requests from the next fence on do not count. */
static bool
later_wrote(const struct side *side, uint32_t from, bool fences, uint32_t at, uint8_t value)
{
	for (uint32_t i = from; i < side->posted; i++) {
		const struct op *op = &side->op[i];

		if (fences && ((op->work.flags & ONE_WQE_FENCE) || op->work.op == ONE_OP_BIND))
			return false;
		if (writes_target(op) && at >= op->target && at < op->target + op->work.length &&
		    op->effect[at - op->target] == value)
			return true;
	}
	return false;
}

/* Checks the bytes that a work request brought back, and copies them into the model. */
static void
check_landing(struct sim *sim, struct side *side, uint32_t index)
{
	const struct op *op = &side->op[index];
	uint32_t done = 0;

	for (uint32_t i = 0; i < op->work.num_sge; i++) {
		uint32_t offset = (uint32_t)(op->work.sge[i].addr - side->landing.region.va);

		for (uint32_t j = 0; j < op->work.sge[i].len; j++, done++) {
			uint8_t byte = side->landing.base[offset + j];

			if (byte != op->expect[done] &&
			    (op->work.op != ONE_OP_READ ||
			     !later_wrote(side, index + 1, true, op->target + done, byte)))
				sim_fail(sim, side, "work %u (op %u): byte %u is %02x, must be %02x", index,
					 op->work.op, done, byte, op->expect[done]);
			side->landing.model[offset + j] = byte;
		}
	}
}

/* Checks that acknowledged data is in place at the peer, unless later work has changed it. */
static void
check_written(struct sim *sim, struct side *side, uint32_t index)
{
	const struct op *op = &side->op[index];
	const uint8_t *target = side->peer->target.base + op->target;

	for (uint32_t i = 0; i < op->work.length; i++)
		if (target[i] != op->effect[i] &&
		    !later_wrote(side, index + 1, false, op->target + i, target[i]))
			sim_fail(sim, side, "work %u (op %u): byte %u at the peer is %02x, must be %02x",
				 index, op->work.op, i, target[i], op->effect[i]);
}

/* May the first failed work request have this status? */
static bool
failure_allowed(const struct sim *sim, const struct side *side, uint32_t index, uint8_t status)
{
	static const uint8_t of_poison[POISON_MAX] = {
		[POISON_RKEY] = ONE_STATUS_REMOTE_ACCESS,
		[POISON_RANGE] = ONE_STATUS_REMOTE_ACCESS,
		[POISON_RIGHT] = ONE_STATUS_REMOTE_ACCESS,
		[POISON_LKEY] = ONE_STATUS_LOCAL_PROTECTION,
		[POISON_MALFORMED] = ONE_STATUS_LOCAL_QP,
		[POISON_LONG] = ONE_STATUS_REMOTE_INVALID,
		[POISON_RECV_LKEY] = ONE_STATUS_REMOTE_OPERATION,
		[POISON_ALIGN] = ONE_STATUS_REMOTE_INVALID,
		[POISON_INVALIDATE] = ONE_STATUS_REMOTE_OPERATION,
		[POISON_BIND] = ONE_STATUS_BIND_FAILED,
	};
	bool peer_gone = side->peer->failed || side->peer->stopped;

	if (index == side->poison_op && of_poison[side->poison] != 0 && status == of_poison[side->poison])
		return true;
	switch (status) {
	case ONE_STATUS_REMOTE_ACCESS:
		return side->peer->revoked && uses_target(&side->op[index]);
	case ONE_STATUS_RETRY_EXCEEDED:
		/* A repeated READ whose key has gone is dropped silently. */
		return peer_gone || sim->weather.loss + sim->weather.corrupt > 0.05 ||
		       (side->peer->revoked && side->op[index].work.op == ONE_OP_READ);
	case ONE_STATUS_RNR_EXCEEDED:
		return side->attr.rnr_retry < 7;
	case ONE_STATUS_FLUSHED:
		/* The side broke the connection as responder or was stopped, or a READ precedes the request
		 * that the peer refused. */
		return true;
	default:
		return false;
	}
}

void
workload_send_done(struct sim *sim, struct side *side, const struct completion *c)
{
	uint32_t index = side->done++;
	const struct op *op = &side->op[index];

	if (index >= side->posted)
		sim_fail(sim, side, "more completions than work");
	sim_log(sim, side, "work %u op %u len %u -> status %u", index, op->work.op, op->work.length,
		c->status);
	if (c->cookie != op->work.cookie || c->op != op->work.op || c->wqe_flags != op->work.flags)
		sim_fail(sim, side, "completion %u is of another work request", index);
	if (c->type != (op->work.op == ONE_OP_BIND ? ONE_CQE_BIND : ONE_CQE_SEND))
		sim_fail(sim, side, "completion %u has type %u", index, c->type);
	if (c->status == ONE_STATUS_SUCCESS) {
		if (side->succeeded != index)
			sim_fail(sim, side, "work %u succeeded after a failure", index);
		if (index == side->poison_op && side->poison != POISON_REVOKE && side->poison != POISON_FLUSH)
			sim_fail(sim, side, "poisoned work %u (%u) succeeded", index, side->poison);
		if (c->length != op->work.length)
			sim_fail(sim, side, "work %u: length %u, must be %u", index, c->length,
				 op->work.length);
		side->succeeded++;
		if (op->expect != NULL)
			check_landing(sim, side, index);
		if (op->effect != NULL && (op->work.op == ONE_OP_WRITE || op->work.op == ONE_OP_WRITE_IMM))
			check_written(sim, side, index);
		return;
	}
	if (side->failed_status == 0 || side->failed_status == ONE_STATUS_FLUSHED) {
		if (!failure_allowed(sim, side, index, c->status))
			sim_fail(sim, side, "work %u (op %u) failed with status %u", index, op->work.op,
				 c->status);
		side->failed_status = c->status;
		if (c->status == ONE_STATUS_RETRY_EXCEEDED) {
			stops_check(sim, side);
			sim->totals->gave_up++;
			sim->totals->unprovoked += !side->peer->failed && !side->peer->stopped;
		}
	} else if (c->status != ONE_STATUS_FLUSHED) {
		sim_fail(sim, side, "work %u failed with status %u after another failure", index, c->status);
	}
}

static void
check_message(struct sim *sim, struct side *side, uint32_t index)
{
	const struct recv_plan *plan = &side->recv[index];
	uint32_t done = 0;

	for (uint32_t i = 0; i < plan->recv.num_sge; i++) {
		uint32_t offset = (uint32_t)(plan->recv.sge[i].addr - side->receive.region.va);

		for (uint32_t j = 0; j < plan->recv.sge[i].len && done < plan->op->work.length; j++, done++)
			side->receive.model[offset + j] = plan->op->effect[done];
		if (memcmp(side->receive.model + offset, side->receive.base + offset,
			   plan->recv.sge[i].len) != 0)
			sim_fail(sim, side, "receive %u: wrong contents in piece %u", index, i);
	}
}

void
workload_recv_done(struct sim *sim, struct side *side, const struct completion *c)
{
	uint32_t index = side->recv_done++;
	const struct recv_plan *plan = &side->recv[index];
	const struct work *work = &plan->op->work;
	bool write = work->op == ONE_OP_WRITE_IMM, imm = write || work->op == ONE_OP_SEND_IMM;
	uint8_t cqe_flags = imm ? ONE_CQE_IMM : work->op == ONE_OP_SEND_INV ? ONE_CQE_INV : 0;

	sim_log(sim, side, "receive %u -> status %u length %u", index, c->status, c->length);
	if (index >= side->recv_taken || c->cookie != plan->recv.cookie)
		sim_fail(sim, side, "completion of receive %u is of another", index);
	if (c->status != ONE_STATUS_SUCCESS) {
		enum poison poison = plan->op == &side->peer->op[side->peer->poison_op % MAX_OPS]
					     ? side->peer->poison
					     : POISON_NONE;

		side->recv_status = c->status;
		if (c->status != ONE_STATUS_FLUSHED &&
		    !(c->status == ONE_STATUS_LOCAL_LENGTH && poison == POISON_LONG) &&
		    !(c->status == ONE_STATUS_LOCAL_PROTECTION &&
		      (poison == POISON_RECV_LKEY || poison == POISON_INVALIDATE)))
			sim_fail(sim, side, "receive %u failed with status %u", index, c->status);
		return;
	}
	if (side->recv_status != 0)
		sim_fail(sim, side, "receive %u succeeded after a failure", index);
	if (c->type != (write ? ONE_CQE_RECV_WRITE_IMM : ONE_CQE_RECV) || c->length != work->length ||
	    c->cqe_flags != cqe_flags || (cqe_flags != 0 && c->imm != work->imm) ||
	    c->solicited != ((work->flags & ONE_WQE_SOLICITED) != 0))
		sim_fail(sim, side, "receive %u: type %u length %u flags %u", index, c->type, c->length,
			 c->cqe_flags);
	if (!write)
		check_message(sim, side, index);
	else if (work->length > 0 &&
		 memcmp(side->target.base + plan->op->target, plan->op->effect, work->length) != 0)
		sim_fail(sim, side, "receive %u: what was written is not in place", index);
}

/* Checks the target after a failure: all successful work, and possibly later work. */
static void
check_broken_target(struct sim *sim, struct side *side)
{
	struct area *target = &side->peer->target;
	uint8_t *base = side->target_start;

	for (uint32_t i = 0; i < side->succeeded; i++)
		if (writes_target(&side->op[i]))
			memcpy(base + side->op[i].target, side->op[i].effect, side->op[i].work.length);
	for (uint32_t at = 0; at < target->len; at++)
		if (target->base[at] != base[at] &&
		    !later_wrote(side, side->succeeded, false, at, target->base[at]))
			sim_fail(sim, side,
				 "after the failure, byte %u of the target is %02x, nobody wrote that", at,
				 target->base[at]);
}

void
workload_check_end(struct sim *sim, struct side *side)
{
	bool broken = side->failed || side->stopped || side->peer->failed || side->peer->stopped;
	uint32_t messages = 0;

	for (uint32_t i = 0; i < side->succeeded; i++)
		messages += side->op[i].message;
	if (!rc_idle(side->qp) || rc_wants_output(side->qp) || rc_deadline(side->qp) != RC_NEVER)
		sim_fail(sim, side, "not idle at the end: %s%s, deadline %llu",
			 rc_idle(side->qp) ? "" : "work, ", rc_wants_output(side->qp) ? "output" : "",
			 (unsigned long long)rc_deadline(side->qp));
	if (side->done != side->posted)
		sim_fail(sim, side, "%u of %u work requests completed", side->done, side->posted);
	if (side->peer->recv_done < messages)
		sim_fail(sim, side, "%u messages were acknowledged, %u received", messages,
			 side->peer->recv_done);
	/* A message that the dead peer began may hold one receive. Messages still being copied hold
	 * theirs. */
	if (side->recv_taken - side->recv_done >
	    (broken && rc_state(side->qp) != RC_ERROR ? ONE_COPIES + 1 : 0))
		sim_fail(sim, side, "%u receives were taken, %u completed", side->recv_taken,
			 side->recv_done);
	area_check(sim, side, &side->source, "source", true);
	area_check(sim, side, &side->landing, "landing", !broken);
	area_check(sim, side, &side->receive, "receive", !broken);
	area_check(sim, side, &side->target, "target", !broken);
	if (broken)
		check_broken_target(sim, side);
	else if (side->succeeded != side->ops)
		sim_fail(sim, side, "%u of %u work requests succeeded", side->succeeded, side->ops);
}
