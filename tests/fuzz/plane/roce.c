/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "dataplane/rc/rc_internal.h"
#include "dataplane/wire/bytes.h"
#include "plane.h"
#include "roce.h"

enum { FIX_QPN = 1, FIX_ADDRESSES = 2, FIX_PSN = 4, FIX_KEY = 8, FIX_LENGTHS = 16, LEAVE_UNSEALED = 0x80 };

static const uint8_t opcodes[] = {
	WIRE_SEND_FIRST,         WIRE_SEND_MIDDLE,         WIRE_SEND_LAST,
	WIRE_SEND_LAST_IMM,      WIRE_SEND_ONLY,           WIRE_SEND_ONLY_IMM,
	WIRE_WRITE_FIRST,        WIRE_WRITE_MIDDLE,        WIRE_WRITE_LAST,
	WIRE_WRITE_LAST_IMM,     WIRE_WRITE_ONLY,          WIRE_WRITE_ONLY_IMM,
	WIRE_READ_REQUEST,       WIRE_READ_RESPONSE_FIRST, WIRE_READ_RESPONSE_MIDDLE,
	WIRE_READ_RESPONSE_LAST, WIRE_READ_RESPONSE_ONLY,  WIRE_ACKNOWLEDGE,
	WIRE_ATOMIC_ACKNOWLEDGE, WIRE_COMPARE_SWAP,        WIRE_FETCH_ADD,
	WIRE_SEND_LAST_INV,      WIRE_SEND_ONLY_INV,       WIRE_CNP,
	WIRE_UD_SEND_ONLY,
};

static struct pair *
pair_of(uint8_t which)
{
	return &plane.pair[which % 8 < PLANE_UD ? which % 8 : PLANE_SIGNALS];
}

/* Returns a PSN near one that the queue pair tracks. */
static uint32_t
psn_near(const struct pair *pair, uint8_t which, int8_t by)
{
	const struct rc_qp *rc = pair->qp->rc;
	const uint32_t base[] = {rc->rsp.epsn, rc->req.una, rc->req.max, 0};

	return (base[which % 4] + (uint32_t)(int32_t)by) & 0xffffff;
}

static void
fix_addresses(uint8_t *frame, uint32_t ip, bool v4)
{
	const struct wire_addr from = plane_addr(2), to = plane_addr(1);

	if (v4) {
		memcpy(frame + ip + 12, from.gid + 12, 4);
		memcpy(frame + ip + 16, to.gid + 12, 4);
	}
}

uint32_t
roce_raw(struct bytes *record, uint8_t *frame)
{
	struct pair *pair = pair_of((uint8_t)record_number(record, 1));
	uint8_t flags = (uint8_t)record_number(record, 1), which = (uint8_t)record_number(record, 1);
	int8_t by = (int8_t)record_number(record, 1);
	uint32_t len = (uint32_t)record->left, ip, bth;

	if (len > plane_frame_room())
		len = plane_frame_room();
	record_fill(record, frame, len);
	if (plane_headers(frame, len, &ip, &bth)) {
		if ((flags & FIX_ADDRESSES) != 0)
			fix_addresses(frame, ip, bth - ip == 28);
		if ((flags & FIX_LENGTHS) != 0)
			plane_fix_lengths(frame, len, ip, bth);
		if ((flags & FIX_QPN) != 0)
			store_be24(frame + bth + 5, pair->qpn);
		if ((flags & FIX_PSN) != 0)
			store_be24(frame + bth + 9, psn_near(pair, which, by));
		if ((flags & FIX_KEY) != 0 && wire_extension_len(frame[bth]) >= 16 && bth + 24 < len) {
			store_be64(frame + bth + 12, plane.memory.region.va + which);
			store_be32(frame + bth + 20, plane_key((uint8_t)by));
		}
		if ((flags & LEAVE_UNSEALED) == 0)
			plane_seal(frame, len);
	}
	return len;
}

/* Builds a packed frame of `one`, followed by the rest of the record. */
static uint32_t
packed_frame(struct bytes *record, const struct wire_template *template, const struct wire_build *one,
	     uint16_t count, uint8_t *frame)
{
	bool response = one->opcode >= WIRE_READ_RESPONSE_FIRST && one->opcode <= WIRE_ATOMIC_ACKNOWLEDGE;
	uint32_t len = wire_packed_len(one->opcode, one->payload_len), more, whole;
	struct wire_build b = {.opcode = response ? WIRE_PACKED_RESPONSES : WIRE_PACKED_REQUESTS,
			       .qpn = one->qpn,
			       .psn = one->psn,
			       .ack_request = one->ack_request,
			       .count = count};
	uint8_t *at;

	more = record->left > one->payload_len ? (uint32_t)(record->left - one->payload_len) : 0;
	b.payload_len = len + (more < 1024 ? more : 1024) / 4 * 4;
	whole = wire_frame_len(template, b.opcode, b.payload_len);
	if (whole > plane_frame_room())
		return 0;
	at = wire_build(template, &b, frame);
	record_fill(record, wire_pack(one, at), one->payload_len);
	record_fill(record, at + len, b.payload_len - len);
	wire_seal(frame, whole);
	return whole;
}

uint32_t
roce_built(struct bytes *record, uint8_t *frame)
{
	const struct wire_path path = {.src = plane_addr(2),
				       .dst = plane_addr(1),
				       .udp_src_port = 0xc000,
				       .tos = (uint8_t)record_number(record, 1) & 3,
				       .ttl = 64};
	struct pair *pair = pair_of((uint8_t)record_number(record, 1));
	struct wire_build b = {.opcode = opcodes[record_number(record, 1) % sizeof(opcodes)],
			       .qpn = pair->qpn};
	uint8_t flags = (uint8_t)record_number(record, 1), which = (uint8_t)record_number(record, 1);
	struct wire_template template;
	uint8_t *payload;
	uint32_t len;

	b.solicited = (flags & 1) != 0;
	b.ack_request = (flags & 2) != 0;
	b.psn = psn_near(pair, which, (int8_t)record_number(record, 1));
	b.payload_len = (uint32_t)record_number(record, 2) % 1100;
	b.remote_addr = plane.memory.region.va + record_number(record, 2);
	b.dma_length = (uint32_t)record_number(record, 3);
	b.rkey = b.inv_key = plane_key((uint8_t)record_number(record, 1));
	if (plane_key(4) == b.rkey)
		b.remote_addr += plane.slow.region.va - plane.memory.region.va;
	b.syndrome = (uint8_t)record_number(record, 1);
	b.msn = (uint32_t)record_number(record, 2);
	b.swap_add = record_number(record, 8);
	b.compare = b.atomic_ack = record_number(record, 8);
	b.imm = (uint32_t)record_number(record, 4);
	wire_template_init(&template, &path);
	if ((flags & 4) != 0)
		return packed_frame(record, &template, &b, flags >> 3, frame);
	len = wire_frame_len(&template, b.opcode, b.payload_len);
	if (len > plane_frame_room())
		return 0;
	payload = wire_build(&template, &b, frame);
	record_fill(record, payload, b.payload_len);
	wire_seal(frame, len);
	return len;
}
