/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Request packets at the responder: the standard's checks in the standard's order, then execution. Nothing
 * changes before the checks that a forged packet could fail: only a packet with the expected PSN can break
 * the connection.
 *
 * Keys are looked up again for every packet of a message, or for a run of packets (middle.c).
 */
#include "sg_list.h"

#include <errno.h>

const uint8_t rc_request_kind[32] = {
	[WIRE_SEND_FIRST] = RC_REQ_SEND | RC_REQ_START,
	[WIRE_SEND_MIDDLE] = RC_REQ_SEND,
	[WIRE_SEND_LAST] = RC_REQ_SEND | RC_REQ_END,
	[WIRE_SEND_LAST_IMM] = RC_REQ_SEND | RC_REQ_END | RC_REQ_IMM,
	[WIRE_SEND_ONLY] = RC_REQ_SEND | RC_REQ_START | RC_REQ_END,
	[WIRE_SEND_ONLY_IMM] = RC_REQ_SEND | RC_REQ_START | RC_REQ_END | RC_REQ_IMM,
	[WIRE_WRITE_FIRST] = RC_REQ_WRITE | RC_REQ_START,
	[WIRE_WRITE_MIDDLE] = RC_REQ_WRITE,
	[WIRE_WRITE_LAST] = RC_REQ_WRITE | RC_REQ_END,
	[WIRE_WRITE_LAST_IMM] = RC_REQ_WRITE | RC_REQ_END | RC_REQ_IMM,
	[WIRE_WRITE_ONLY] = RC_REQ_WRITE | RC_REQ_START | RC_REQ_END,
	[WIRE_WRITE_ONLY_IMM] = RC_REQ_WRITE | RC_REQ_START | RC_REQ_END | RC_REQ_IMM,
	[WIRE_READ_REQUEST] = RC_REQ_READ | RC_REQ_START | RC_REQ_END,
	[WIRE_COMPARE_SWAP] = RC_REQ_ATOMIC | RC_REQ_START | RC_REQ_END,
	[WIRE_FETCH_ADD] = RC_REQ_ATOMIC | RC_REQ_START | RC_REQ_END,
	[WIRE_SEND_LAST_INV] = RC_REQ_SEND | RC_REQ_END | RC_REQ_INV,
	[WIRE_SEND_ONLY_INV] = RC_REQ_SEND | RC_REQ_START | RC_REQ_END | RC_REQ_INV,
};

RC_COLD void
rc_refuse_now(struct rc_qp *qp, uint8_t syndrome, uint32_t psn, enum one_status recv_status)
{
	struct rc_responder *rs = &qp->rsp;

	rs->closed |= RC_CLOSED_FATAL;
	rs->reply = RC_REPLY_FATAL;
	rs->syndrome = syndrome;
	rs->reply_psn = psn;
	rs->recv_status = (uint8_t)recv_status;
}

RC_COLD void
rc_refuse(struct rc_qp *qp, uint8_t syndrome, uint32_t psn, enum one_status recv_status)
{
	if (qp->rsp.closed & RC_CLOSED_BEHIND)
		rc_request_lost(qp);
	else
		rc_refuse_now(qp, syndrome, psn, recv_status);
}

/* The expected packet is malformed. */
static RC_COLD void
refuse_invalid(struct rc_qp *qp)
{
	rc_refuse(qp, RC_NAK_INVALID, qp->rsp.epsn, ONE_STATUS_LOCAL_QP);
}

static RC_COLD void
refuse_access(struct rc_qp *qp)
{
	rc_refuse(qp, RC_NAK_ACCESS, qp->rsp.epsn, ONE_STATUS_FLUSHED);
}

static RC_COLD void
refuse_not_ready(struct rc_qp *qp)
{
	struct rc_responder *rs = &qp->rsp;

	if (rs->closed & RC_CLOSED_BEHIND) {
		rc_request_lost(qp);
		return;
	}
	rs->reply = RC_REPLY_RNR;
	rs->reply_psn = rs->epsn;
	/* Packets behind an RNR NAK are not missing: send no sequence NAK. */
	rs->nak_sent = true;
}

/* Take a receive for the message that begins (SEND) or ends (WRITE with immediate); false: refused. */
static bool
take_recv(struct rc_qp *qp)
{
	struct rc_responder *rs = &qp->rsp;

	if (unlikely(rs->recv_held)) /* by the same packet, before its payload was in place */
		return true;
	if (unlikely(!qp->env->take_recv(qp->env, qp, &rs->recv))) {
		refuse_not_ready(qp);
		return false;
	}
	rs->recv_held = true;
	if (unlikely(rs->recv.status != ONE_STATUS_SUCCESS || rs->recv.num_sge > ONE_MAX_SGE)) {
		rc_refuse(qp, RC_NAK_OPERATION, rs->epsn,
			  rs->recv.status != ONE_STATUS_SUCCESS ? rs->recv.status : ONE_STATUS_LOCAL_QP);
		return false;
	}
	return true;
}

void
rc_recv_complete(struct rc_qp *qp, const struct completion *c)
{
	qp->rsp.recv_held = false;
	qp->env->complete(qp->env, qp, c);
}

struct completion
rc_received(const struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind)
{
	const struct rc_responder *rs = &qp->rsp;
	struct completion c = {
		.cookie = rs->recv.cookie,
		.length = rs->total,
		.type = kind & RC_REQ_SEND ? ONE_CQE_RECV : ONE_CQE_RECV_WRITE_IMM,
		.op = ONE_OP_RECV,
		.wqe_flags = rs->recv.flags,
		.solicited = packet->solicited,
	};

	if (kind & RC_REQ_IMM) {
		c.cqe_flags = ONE_CQE_IMM;
		c.imm = packet->imm;
	} else if (kind & RC_REQ_INV) {
		c.cqe_flags = ONE_CQE_INV;
		c.imm = packet->inv_key;
	}
	return c;
}

static void
deliver_receive(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind)
{
	struct completion c = rc_received(qp, packet, kind);

	rc_recv_complete(qp, &c);
}

static inline bool
length_fits(const struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind)
{
	uint32_t len = packet->payload_len;

	if (!(kind & RC_REQ_END))
		return len == qp->mtu && packet->pad == 0;
	return len <= qp->mtu && (len != 0 || (kind & RC_REQ_START)) && packet->pad == (-len & 3u);
}

/* Write to memory without mapping, or after a request that does; `region` NULL: no payload. */
static RC_COLD void
land_write(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind, const struct mem_region *region)
{
	const struct rc_sg_list list = {.num = region != NULL,
					.sge[0] = {region, qp->rsp.va, packet->payload_len}};
	uint32_t epsn = qp->rsp.epsn;

	rc_land(qp, packet, kind, &list, ONE_ACCESS_REMOTE_WRITE);
	if (qp->rsp.epsn == epsn)
		return;
	qp->rsp.va += packet->payload_len;
	qp->rsp.left -= packet->payload_len;
}

static void
write_input(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t len = packet->payload_len;
	struct mem_region *region = NULL;

	if (unlikely(kind & RC_REQ_IMM) && !take_recv(qp))
		return;
	if (unlikely(!length_fits(qp, packet, kind))) {
		refuse_invalid(qp);
		return;
	}
	if (kind & RC_REQ_START) {
		rs->va = packet->remote_addr;
		rs->rkey = packet->rkey;
		rs->left = packet->dma_length;
		rs->total = 0;
	}
	if (unlikely(kind & RC_REQ_END ? rs->left != len : rs->left <= len || rs->left > RC_MESSAGE_MAX)) {
		refuse_invalid(qp);
		return;
	}
	if (likely(len != 0)) {
		region = mem_check(qp->env->mem, rs->rkey, qp->pz, qp->qpn, ONE_ACCESS_REMOTE_WRITE, rs->va,
				   rs->left);
		if (unlikely(region == NULL)) {
			refuse_access(qp);
			return;
		}
	}
	if (unlikely(rs->closed != 0 || (region != NULL && region->base == NULL))) {
		land_write(qp, packet, kind, region);
		return;
	}
	if (likely(len != 0))
		rc_place(qp, region, rs->va, packet->payload, len, (kind & RC_REQ_END) != 0, rs->scoreboard);
	rc_written(qp, packet, kind, len);
	if (likely(!(kind & (RC_REQ_START | RC_REQ_END)))) {
		rc_run_begin(qp, packet, mem_at(region, rs->va), (rs->left - 1) / qp->mtu, false);
		return;
	}
	if (kind & RC_REQ_END) {
		rs->msn = (rs->msn + 1) & RC_PSN_MASK;
		if (unlikely(kind & RC_REQ_IMM))
			deliver_receive(qp, packet, kind);
	}
}

static void
send_input(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t len = packet->payload_len;
	struct rc_sg_list list;
	enum one_status status;

	if (kind & RC_REQ_START) {
		if (!take_recv(qp))
			return;
		rs->total = 0;
	}
	if (unlikely(!length_fits(qp, packet, kind))) {
		refuse_invalid(qp);
		return;
	}
	if (unlikely((uint64_t)rs->total + len > rs->recv.length)) {
		rc_refuse(qp, RC_NAK_INVALID, rs->epsn, ONE_STATUS_LOCAL_LENGTH);
		return;
	}
	status =
		rc_resolve(qp, rs->recv.sge, rs->recv.num_sge, rs->total, len, ONE_ACCESS_LOCAL_WRITE, &list);
	if (unlikely(status != ONE_STATUS_SUCCESS)) {
		rc_refuse(qp, RC_NAK_OPERATION, rs->epsn, status);
		return;
	}
	if (unlikely(list.bounce || rs->closed != 0)) {
		rc_land(qp, packet, kind, &list, ONE_ACCESS_LOCAL_WRITE);
		return;
	}
	rc_scatter(&list, packet->payload);
	rs->total += len;
	if (unlikely(kind & RC_REQ_INV) && !qp->env->invalidate(qp->env, qp, packet->inv_key)) {
		/* The standard has no code for this; a NAK is better than a timeout of the peer. */
		rc_refuse(qp, RC_NAK_OPERATION, rs->epsn, ONE_STATUS_LOCAL_PROTECTION);
		return;
	}
	rc_executed(qp, packet, kind);
	if (kind & RC_REQ_END) {
		rs->msn = (rs->msn + 1) & RC_PSN_MASK;
		deliver_receive(qp, packet, kind);
	}
}

/* Take the next resource; its former user is overwritten. */
static struct rc_resource *
resource_new(struct rc_qp *qp, const struct wire_packet *packet, uint32_t count)
{
	struct rc_responder *rs = &qp->rsp;
	uint16_t bit = (uint16_t)(1u << rs->resource_next);
	struct rc_resource *resource = &rs->resource[rs->resource_next];

	rs->resource_next = (uint8_t)((rs->resource_next + 1) & (rs->resources - 1));
	rs->pending |= bit;
	rs->fresh |= bit;
	resource->opcode = packet->opcode;
	resource->first = rs->epsn;
	resource->count = count;
	resource->start = 0;
	resource->next = 0;
	resource->end = count;
	resource->rkey = packet->rkey;
	/* The response acknowledges all before it. */
	rs->reply = RC_REPLY_NONE;
	rs->nak_sent = false;
	rs->epsn = (rs->epsn + count) & RC_PSN_MASK;
	rs->msn = (rs->msn + 1) & RC_PSN_MASK;
	return resource;
}

/* True if a resource is free: the peer may have at most rd_max unanswered requests. */
static bool
resource_free(const struct rc_responder *rs)
{
	return rs->rd_max != 0 && !(rs->pending & rs->fresh & (1u << rs->resource_next));
}

static void
read_input(struct rc_qp *qp, const struct wire_packet *packet)
{
	struct rc_resource *resource;

	if (unlikely(!resource_free(&qp->rsp) || packet->payload_len != 0 || packet->pad != 0 ||
		     packet->dma_length > RC_MESSAGE_MAX)) {
		refuse_invalid(qp);
		return;
	}
	if (packet->dma_length != 0 &&
	    unlikely(mem_check(qp->env->mem, packet->rkey, qp->pz, qp->qpn, ONE_ACCESS_REMOTE_READ,
			       packet->remote_addr, packet->dma_length) == NULL)) {
		refuse_access(qp);
		return;
	}
	resource = resource_new(qp, packet, rc_packets(qp, packet->dma_length));
	resource->va = packet->remote_addr;
	resource->length = packet->dma_length;
}

static RC_COLD int
atomic_slowly(struct rc_qp *qp, const struct wire_packet *packet, const struct mem_region *region,
	      uint64_t *found)
{
	int error = bounce_atomic(&qp->party, RC_BOUNCE_ATOMIC, region, packet->remote_addr,
				  packet->opcode == WIRE_FETCH_ADD ? NULL : &packet->compare,
				  packet->swap_add, found, qp->rsp.epsn);

	if (error == -EAGAIN)
		rc_atomic_deferred(qp, packet);
	return error;
}

static void
atomic_input(struct rc_qp *qp, const struct wire_packet *packet)
{
	struct mem_region *region;
	uint64_t found;
	int rc;

	if (unlikely(qp->rsp.closed & RC_CLOSED_BEHIND)) {
		rc_request_lost(qp);
		return;
	}
	if (unlikely(!resource_free(&qp->rsp) || packet->payload_len != 0 || packet->pad != 0)) {
		refuse_invalid(qp);
		return;
	}
	region = mem_check(qp->env->mem, packet->rkey, qp->pz, qp->qpn, ONE_ACCESS_REMOTE_ATOMIC,
			   packet->remote_addr, 8);
	if (unlikely(region == NULL)) {
		refuse_access(qp);
		return;
	}
	if (unlikely((packet->remote_addr & 7) != 0)) {
		refuse_invalid(qp);
		return;
	}
	if (unlikely(region->base == NULL))
		rc = atomic_slowly(qp, packet, region, &found);
	else if (packet->opcode == WIRE_FETCH_ADD)
		rc = mem_fetch_add(region, packet->remote_addr, packet->swap_add, &found);
	else
		rc = mem_cmp_swap(region, packet->remote_addr, packet->compare, packet->swap_add, &found);
	if (unlikely(rc != 0)) {
		if (rc != -EAGAIN)
			rc_refuse(qp, RC_NAK_OPERATION, qp->rsp.epsn, ONE_STATUS_FLUSHED);
		return;
	}
	resource_new(qp, packet, 1)->found = found;
}

struct rc_resource *
rc_resource_of(struct rc_qp *qp, uint32_t psn)
{
	struct rc_responder *rs = &qp->rsp;

	/* Newest first: if READs are rare, PSNs wrap and meet those of an old resource. */
	for (uint32_t i = rs->resource_next + rs->resources; i-- > rs->resource_next;) {
		struct rc_resource *resource = &rs->resource[i & (rs->resources - 1)];

		if (((psn - resource->first) & RC_PSN_MASK) < resource->count)
			return resource;
	}
	return NULL;
}

/* Answer the part [index, end) of a READ for a peer that holds the rest; false: go back. */
static bool
replay_part(struct rc_qp *qp, const struct rc_resource *resource, uint16_t bit, uint32_t index, uint32_t end,
	    uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;

	/* Responses not sent for the first time will still be sent. */
	if ((rs->pending & rs->fresh & bit) && end > resource->next)
		end = resource->next;
	return index >= end || rc_answer_again(qp, resource->first + index, end - index, now);
}

/* Answer a repeated READ or atomic again, from the PSN that it asks for. */
static void
replay_request(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;
	struct rc_resource *resource = rc_resource_of(qp, packet->psn);
	uint32_t index, offset, end;
	uint16_t bit;

	if (resource == NULL || packet->payload_len != 0 || packet->rkey != resource->rkey ||
	    packet->opcode != resource->opcode)
		goto drop;
	index = (packet->psn - resource->first) & RC_PSN_MASK;
	bit = (uint16_t)(1u << (resource - rs->resource));
	if (kind & RC_REQ_ATOMIC) {
		resource->next = 0;
	} else {
		offset = index * qp->mtu;
		if (packet->remote_addr != resource->va + offset ||
		    packet->dma_length > resource->length - offset ||
		    (packet->dma_length == 0) != (resource->length == 0))
			goto drop;
		if (packet->dma_length != 0 &&
		    mem_check(qp->env->mem, packet->rkey, qp->pz, qp->qpn, ONE_ACCESS_REMOTE_READ,
			      packet->remote_addr, packet->dma_length) == NULL)
			goto drop;
		end = index + rc_packets(qp, packet->dma_length);
		if (qp->selective) {
			if (replay_part(qp, resource, bit, index, end, now))
				return;
			/* The READ is being answered: extend the repetition to cover the rest, too. */
			if ((rs->pending & bit) && index > resource->next)
				index = resource->next;
			if ((rs->pending & bit) && end < resource->end)
				end = resource->end;
		}
		resource->start = index;
		resource->next = index;
		resource->end = end;
	}
	rs->pending |= bit;
	return;
drop:
	rc_count(qp, RC_COUNT_DROP_REPLAY);
}

/* A repeated SEND or WRITE is acknowledged up to the last executed request, but not beyond the next READ or
 * atomic: its response may be what was lost. */
static void
acknowledge_again(struct rc_qp *qp, const struct wire_packet *packet)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t end = rs->epsn;

	if (rs->reply != RC_REPLY_NONE)
		return;
	for (uint32_t i = 0; i < rs->resources; i++) {
		const struct rc_resource *resource = &rs->resource[i];

		if (resource->count != 0 && rc_psn_diff(resource->first, packet->psn) > 0 &&
		    rc_psn_diff(resource->first, end) < 0)
			end = resource->first;
	}
	rs->reply = RC_REPLY_ACK;
	rs->reply_psn = (end - 1) & RC_PSN_MASK;
}

static RC_COLD void
unexpected_input(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind, int32_t distance,
		 uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;

	if (distance < 0) {
		rc_count(qp, RC_COUNT_DUPLICATE);
		if (kind & (RC_REQ_READ | RC_REQ_ATOMIC))
			replay_request(qp, packet, kind, now);
		else
			acknowledge_again(qp, packet);
		return;
	}
	if (qp->selective)
		rc_hold_request(qp, packet, (uint32_t)distance, now);
	else
		rc_count(qp, RC_COUNT_OUT_OF_SEQUENCE);
	/* While a request waits for a receive, nothing is missing. */
	if (!rs->nak_sent && rs->reply <= RC_REPLY_NAK_SEQ) {
		rs->nak_sent = !qp->selective; /* selective: each report adds to the previous */
		rs->reply = RC_REPLY_NAK_SEQ;
		rs->reply_psn = rs->epsn;
	}
}

static inline void
execute_request(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t needed;

	if (unlikely(rs->context == 0 ? !(kind & RC_REQ_START)
				      : (kind & RC_REQ_START) != 0 || !(kind & rs->context))) {
		refuse_invalid(qp);
		return;
	}
	if (kind & RC_REQ_SEND) {
		send_input(qp, packet, kind);
		return;
	}
	needed = kind & RC_REQ_WRITE  ? ONE_ACCESS_REMOTE_WRITE
		 : kind & RC_REQ_READ ? ONE_ACCESS_REMOTE_READ
				      : ONE_ACCESS_REMOTE_ATOMIC;
	if (unlikely((qp->access & needed) == 0))
		refuse_invalid(qp);
	else if (kind & RC_REQ_WRITE)
		write_input(qp, packet, kind);
	else if (kind & RC_REQ_READ)
		read_input(qp, packet);
	else
		atomic_input(qp, packet);
}

void
rc_request_execute(struct rc_qp *qp, const struct wire_packet *packet)
{
	execute_request(qp, packet, rc_request_kind[packet->opcode]);
}

void
rc_request_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;
	uint8_t kind = rc_request_kind[packet->opcode];
	int32_t distance = rc_psn_diff(packet->psn, rs->epsn);

	if (unlikely(rs->closed != 0) && rc_request_waits(qp, packet, distance, now))
		return;
	if (unlikely(distance != 0)) {
		unexpected_input(qp, packet, kind, distance, now);
		return;
	}
	if (unlikely(!rs->established)) {
		rs->established = true;
		if (qp->state == RC_RTR)
			qp->env->established(qp->env, qp);
	}
	execute_request(qp, packet, kind);
	if (unlikely(rs->scoreboard != NULL)) {
		rc_held_requests(qp, packet->psn);
		rc_run_end(qp->env); /* a held packet may be unlike the one that arrived */
	}
}

RC_COLD void
rc_marked(struct rc_qp *qp, bool response, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;

	/* The requester limits the READ responses in flight, so it has to slow down. */
	if (response)
		rc_congestion(qp);
	if (now >= rs->cnp_at) {
		rs->cnp_at = now + RC_CNP_INTERVAL;
		rs->cnp_due |= RC_CNP_MARK;
	}
}
