/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several requests, or several responses, in one frame: doc/packed.md.
 *
 * A packet inside a frame is a packet like any other: the usual functions input it, with its own PSN. Only
 * this file and the code that holds packets handle frames. The frame is held once for each of its packets
 * that has to wait; rc_packet_of() extracts that packet.
 */
#include "sg_list.h"

#include <string.h>

/* ---- input ---- */

/* Copy the fields that packets inside a frame share with it. */
static inline void
inside_begin(struct wire_packet *inside, const struct wire_packet *frame)
{
	memcpy(inside, frame, offsetof(struct wire_packet, remote_addr));
	inside->congestion = false; /* counted once, for the frame */
}

static inline void
input_one(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now)
{
	if (rc_request_kind[packet->opcode] != 0)
		rc_request_input(qp, packet, now);
	else
		rc_response_input(qp, packet, now);
}

/* True if the frame has exactly the packets that it announces. */
static inline bool
input_all(struct rc_qp *qp, const struct wire_packet *frame, uint64_t now)
{
	const uint8_t *at = frame->payload, *end = at + frame->payload_len;
	struct wire_packet inside;

	if (unlikely(frame->count == 0 || frame->count > WIRE_PACKED_MAX || frame->pad != 0))
		return false;
	inside_begin(&inside, frame);
	for (uint32_t i = 0; i < frame->count; i++) {
		inside.psn = (frame->psn + i) & RC_PSN_MASK;
		if (unlikely(!wire_unpack(frame, &at, &inside)))
			return false;
		input_one(qp, &inside, now);
		/* A bad response ends the connection. */
		if (unlikely(qp->state != RC_RTS && qp->state != RC_RTR))
			return true;
	}
	return at == end;
}

void
rc_packed_input(struct rc_qp *qp, const struct wire_packet *frame, uint64_t now)
{
	if (unlikely(frame->congestion))
		rc_marked(qp, frame->opcode == WIRE_PACKED_RESPONSES, now);
	qp->env->frame = frame;
	if (unlikely(!input_all(qp, frame, now)))
		rc_count(qp, RC_COUNT_DROP_PACKED);
	qp->env->frame = NULL;
}

RC_COLD const struct wire_packet *
rc_packet_of(const struct wire_packet *held, uint32_t psn, struct wire_packet *inside)
{
	uint32_t index = (psn - held->psn) & RC_PSN_MASK;
	const uint8_t *at = held->payload;

	if (!rc_has_psn(held, psn))
		return NULL;
	if (!rc_is_packed(held))
		return held;
	inside_begin(inside, held);
	inside->psn = psn & RC_PSN_MASK;
	/* Unpacking succeeds: it did when the frame was held. */
	for (uint32_t i = 0; i <= index; i++)
		if (!wire_unpack(held, &at, inside))
			return NULL;
	return inside;
}

/* ---- output ---- */

/* Requests that leave together. */
struct packed {
	uint32_t count, len;                  /* number of packets and their bytes */
	uint32_t reads;                       /* READs and atomics among them */
	uint64_t asked;                       /* bytes that the READs ask for */
	struct mem_sge from[WIRE_PACKED_MAX]; /* payload; no region: inside the request */
};

/* True if the request has at most one range of memory, with the right `access`, and mapped. */
static inline bool
resolve_one(const struct rc_qp *qp, const struct work *work, uint32_t len, uint32_t access,
	    struct mem_sge *sge)
{
	struct rc_sg_list list;

	if (work->num_sge > 1 ||
	    rc_resolve(qp, work->sge, work->num_sge, 0, len, access, &list) != ONE_STATUS_SUCCESS ||
	    list.bounce)
		return false;
	if (len != 0)
		*sge = list.sge[0];
	return true;
}

static inline bool
add_read(const struct rc_qp *qp, struct packed *packed, const struct work *work)
{
	const struct rc_requester *rq = &qp->req;
	uint32_t len = work->op == ONE_OP_READ ? work->length : 8;
	struct mem_sge to;

	if (rq->rd_out + packed->reads >= rq->rd_max || qp->env->ask_end != 0 ||
	    !resolve_one(qp, work, len, ONE_ACCESS_LOCAL_WRITE, &to))
		return false;
	packed->reads++;
	packed->asked += work->op == ONE_OP_READ ? len : 0;
	return true;
}

static inline bool
add_data(const struct rc_qp *qp, struct packed *packed, const struct work *work)
{
	struct mem_sge *from = &packed->from[packed->count];

	from->region = NULL;
	return (work->flags & ONE_WQE_INLINE) != 0 ||
	       resolve_one(qp, work, work->length, ONE_ACCESS_LOCAL_READ, from);
}

/* Add one more request; false: it needs another frame, or other treatment. */
static inline bool
add_request(const struct rc_qp *qp, struct packed *packed, const struct rc_node *node)
{
	const struct work *work = &node->work;
	bool reads = rc_is_rd(work->op);
	uint32_t len;

	if (node->end - node->first != 1 || work->status != ONE_STATUS_SUCCESS ||
	    (work->flags & ONE_WQE_FENCE) != 0)
		return false;
	len = wire_packed_len(rc_opcode[work->op][RC_ONLY], reads ? 0 : work->length);
	if (packed->len + len > qp->mtu + RC_PACKED_MORE - WIRE_PACKED_HEAD_LEN ||
	    !(reads ? add_read(qp, packed, work) : add_data(qp, packed, work)))
		return false;
	packed->len += len;
	packed->count++;
	return true;
}

static inline void
copy_payload(uint8_t *to, const struct mem_sge *from, const struct work *work)
{
	const uint8_t *src;

	if (from->region == NULL) {
		memcpy(to, work->inline_data, work->length);
	} else if (likely(work->length - 32 <= 32)) {
		/* Constant lengths let the compiler inline the copies. */
		src = mem_at(from->region, from->va);
		memcpy(to, src, 32);
		memcpy(to + work->length - 32, src + work->length - 32, 32);
	} else {
		mem_read(from->region, from->va, to, work->length);
	}
}

/* Returns where the next packet goes. */
static inline uint8_t *
build_one(uint8_t *at, const struct work *work, const struct mem_sge *from)
{
	bool reads = rc_is_rd(work->op);
	struct wire_build b;
	uint8_t *payload;

	b.opcode = rc_opcode[work->op][RC_ONLY];
	b.payload_len = reads ? 0 : work->length;
	b.solicited = !reads && work->op != ONE_OP_WRITE && (work->flags & ONE_WQE_SOLICITED) != 0;
	b.remote_addr = work->remote_addr;
	b.rkey = work->rkey;
	b.dma_length = work->length;
	b.imm = work->imm;
	b.inv_key = work->imm;
	if (work->op >= ONE_OP_FETCH_ADD) {
		b.swap_add = work->add_or_swap;
		b.compare = work->op == ONE_OP_FETCH_ADD ? 0 : work->compare;
	}
	payload = wire_pack(&b, at);
	if (b.payload_len != 0)
		copy_payload(payload, from, work);
	return payload + (b.payload_len + 3) / 4 * 4;
}

static bool
emit_requests(struct rc_qp *qp, const struct packed *packed, uint64_t now)
{
	const struct wire_build b = {.opcode = WIRE_PACKED_REQUESTS,
				     .ack_request = true,
				     .qpn = qp->peer_qpn,
				     .psn = qp->req.snd & RC_PSN_MASK,
				     .count = (uint16_t)packed->count,
				     .payload_len = packed->len};
	struct rc_node *node = qp->req.cur, *last = NULL;
	struct rc_env *env = qp->env;
	uint8_t *frame, *at;

	frame = env->tx_begin(env, qp, wire_frame_len(&qp->template, b.opcode, b.payload_len));
	if (unlikely(frame == NULL))
		return false;
	at = wire_build(&qp->template, &b, frame);
	for (uint32_t i = 0; i < packed->count; i++, node = node->next) {
		at = build_one(at, &node->work, &packed->from[i]);
		last = node;
	}
	env->tx_end(env, qp, false);
	rc_count(qp, RC_COUNT_PACKED_SENT);
	qp->req.rd_out = (uint8_t)(qp->req.rd_out + packed->reads);
	env->asked += packed->asked;
	rc_sent(qp, last, packed->count, now);
	return true;
}

bool
rc_send_packed(struct rc_qp *qp, uint32_t most, uint64_t now)
{
	const struct rc_node *node = qp->req.cur;
	struct packed packed;

	packed.count = packed.len = packed.reads = 0;
	packed.asked = 0;
	if (most > WIRE_PACKED_MAX)
		most = WIRE_PACKED_MAX;
	while (packed.count < most && node != NULL && add_request(qp, &packed, node))
		node = node->next;
	return packed.count > 1 && emit_requests(qp, &packed, now);
}

/* ---- responses ---- */

/* Add one more response; false: it needs a frame of its own, or cannot be sent. */
static bool
add_response(const struct rc_qp *qp, struct packed *packed, const struct rc_resource *resource)
{
	bool read = resource->opcode == WIRE_READ_REQUEST;
	uint32_t payload_len = read ? resource->length : 0, len;
	struct mem_sge *from = &packed->from[packed->count];

	if (resource->count != 1 || resource->start != 0 || resource->next != 0)
		return false;
	from->region = NULL;
	if (payload_len != 0) {
		from->va = resource->va;
		from->region = mem_check(qp->env->mem, resource->rkey, qp->pz, qp->qpn,
					 ONE_ACCESS_REMOTE_READ, from->va, payload_len);
		if (from->region == NULL || from->region->base == NULL)
			return false;
	}
	len = wire_packed_len(read ? WIRE_READ_RESPONSE_ONLY : WIRE_ATOMIC_ACKNOWLEDGE, payload_len);
	if (packed->len + len > qp->mtu + RC_PACKED_MORE - WIRE_PACKED_HEAD_LEN)
		return false;
	packed->len += len;
	packed->count++;
	return true;
}

/* Returns where the next packet goes. */
static uint8_t *
build_response(const struct rc_qp *qp, uint8_t *at, const struct rc_resource *resource,
	       const struct mem_sge *from)
{
	bool read = resource->opcode == WIRE_READ_REQUEST;
	struct wire_build b = {.opcode = read ? WIRE_READ_RESPONSE_ONLY : WIRE_ATOMIC_ACKNOWLEDGE,
			       .syndrome = RC_SYNDROME_ACK,
			       .msn = qp->rsp.msn,
			       .atomic_ack = read ? 0 : resource->found,
			       .payload_len = read ? resource->length : 0};
	uint8_t *payload = wire_pack(&b, at);

	if (b.payload_len != 0)
		mem_read(from->region, from->va, payload, b.payload_len);
	return payload + (b.payload_len + 3) / 4 * 4;
}

static bool
emit_responses(struct rc_qp *qp, const struct packed *packed, uint32_t oldest)
{
	struct rc_responder *rs = &qp->rsp;
	const struct wire_build b = {.opcode = WIRE_PACKED_RESPONSES,
				     .qpn = qp->peer_qpn,
				     .psn = rs->resource[oldest].first,
				     .count = (uint16_t)packed->count,
				     .payload_len = packed->len};
	uint32_t len = wire_frame_len(&qp->template, b.opcode, b.payload_len);
	uint8_t *frame = qp->env->tx_begin(qp->env, qp, len), *at;

	if (unlikely(frame == NULL))
		return false;
	at = wire_build(&qp->template, &b, frame);
	for (uint32_t i = 0; i < packed->count; i++) {
		uint32_t index = (oldest + i) & (rs->resources - 1u);

		at = build_response(qp, at, &rs->resource[index], &packed->from[i]);
		rs->resource[index].next = 1;
		rs->pending &= ~(1u << index);
		rs->fresh &= (uint16_t) ~(1u << index);
	}
	qp->env->tx_end(qp->env, qp, false);
	rc_count(qp, RC_COUNT_PACKED_SENT);
	return true;
}

uint32_t
rc_respond_packed(struct rc_qp *qp, uint32_t oldest, uint32_t most)
{
	struct rc_responder *rs = &qp->rsp;
	struct packed packed;

	packed.count = packed.len = 0;
	if (most > rs->resources)
		most = rs->resources;
	while (packed.count < most) {
		uint32_t index = (oldest + packed.count) & (rs->resources - 1u);
		const struct rc_resource *resource = &rs->resource[index];

		if ((rs->pending & rs->fresh & (1u << index)) == 0 ||
		    ((resource->first - rs->resource[oldest].first) & RC_PSN_MASK) != packed.count ||
		    !add_response(qp, &packed, resource))
			break;
	}
	return packed.count > 1 && emit_responses(qp, &packed, oldest) ? packed.count : 0;
}
