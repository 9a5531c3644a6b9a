/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that resemble the previous one: built from its headers, and parsed by what was found in them. */
#include "tests/unit/unit.h"

#include <string.h>

#include "dataplane/wire/head.h"
#include "reference.h"

#define FLOWS 3u

/* Flows 0 and 1 use IPv4 and differ in a queue pair only; flow 2 uses IPv6. */
static struct wire_template
flow_template(uint32_t flow)
{
	struct wire_path path = {.src.gid = {[0] = 0x20, [15] = 9},
				 .dst.gid = {[0] = 0x20, [15] = 8},
				 .ttl = 64,
				 .udp_src_port = 0xc123};
	struct wire_template t;

	if (flow < 2) {
		memcpy(path.src.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
		memcpy(path.dst.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\2", 16);
	}
	wire_template_init(&t, &path);
	return t;
}

/* Headers made once are right for each frame, whatever was built on them before. */
static void
test_build_on(void **state)
{
	static const uint8_t opcodes[] = {WIRE_SEND_MIDDLE,  WIRE_WRITE_MIDDLE, WIRE_READ_RESPONSE_MIDDLE,
					  WIRE_WRITE_ONLY,   WIRE_SEND_ONLY,    WIRE_WRITE_ONLY_IMM,
					  WIRE_SEND_LAST_INV};
	struct wire_head head[FLOWS] = {0};
	struct wire_build b = {.opcode = WIRE_WRITE_ONLY, .qpn = 0xabcdef, .payload_len = 64};
	uint64_t seed = 0xa11ce;

	for (uint32_t round = 0; round < 6000; round++) {
		uint32_t flow = (uint32_t)next_random(&seed) % FLOWS, len;
		struct wire_template t = flow_template(flow);
		uint8_t one[FRAME_MAX], other[FRAME_MAX];

		/* Often only one field changes, or none that requires another head. */
		if (next_random(&seed) % 4 == 0)
			b.opcode = opcodes[next_random(&seed) % 7];
		if (next_random(&seed) % 4 == 0)
			b.payload_len = (uint32_t)next_random(&seed) % 4097;
		if (next_random(&seed) % 4 == 0)
			b.solicited = !b.solicited;
		b.psn = (uint32_t)next_random(&seed); /* the upper 8 bits are ignored */
		b.ack_request = next_random(&seed) & 1;
		b.remote_addr = next_random(&seed);
		b.rkey = b.dma_length = b.imm = b.inv_key = (uint32_t)next_random(&seed);
		len = wire_head_for(&head[flow], &t, &b);
		assert_int_equal(len, wire_frame_len(&t, b.opcode, b.payload_len));
		memset(one, 0xcc, sizeof(one));
		memset(other, 0xcc, sizeof(other));
		assert_int_equal(wire_build(&t, &b, one) - one,
				 wire_build_on(&head[flow], &b, other) - other);
		assert_memory_equal(one, other, sizeof(one));
	}
}

static void
assert_same_packet(const struct wire_packet *a, const struct wire_packet *b)
{
	assert_memory_equal(&a->src, &b->src, sizeof(a->src));
	assert_memory_equal(&a->dst, &b->dst, sizeof(a->dst));
	assert_memory_equal(a->src_mac, b->src_mac, sizeof(a->src_mac));
	assert_int_equal(a->opcode, b->opcode);
	assert_int_equal(a->solicited, b->solicited);
	assert_int_equal(a->ack_request, b->ack_request);
	assert_int_equal(a->congestion, b->congestion);
	assert_int_equal(a->pad, b->pad);
	assert_int_equal(a->qpn, b->qpn);
	assert_int_equal(a->psn, b->psn);
	assert_ptr_equal(a->payload, b->payload);
	assert_int_equal(a->payload_len, b->payload_len);
	if (a->opcode == WIRE_WRITE_FIRST) {
		assert_int_equal(a->remote_addr, b->remote_addr);
		assert_int_equal(a->rkey, b->rkey);
		assert_int_equal(a->dma_length, b->dma_length);
	} else if (a->opcode == WIRE_ACKNOWLEDGE) {
		assert_int_equal(a->syndrome, b->syndrome);
		assert_int_equal(a->msn, b->msn);
	}
}

/* Checks the fields that a parse by the previous frame does not read again. */
static void
assert_only_next(const struct wire_packet *before, const struct wire_packet *packet)
{
	assert_memory_equal(&before->src, &packet->src, sizeof(packet->src));
	assert_memory_equal(&before->dst, &packet->dst, sizeof(packet->dst));
	assert_int_equal(before->opcode, packet->opcode);
	assert_int_equal(before->solicited, packet->solicited);
	assert_int_equal(before->congestion, packet->congestion);
	assert_int_equal(before->pad, packet->pad);
	assert_int_equal(before->qpn, packet->qpn);
	assert_int_equal(before->payload_len, packet->payload_len);
}

/* Inserts a priority tag behind the addresses; the ICRC does not cover the tag. */
static uint32_t
tag(uint8_t *frame, uint32_t len)
{
	memmove(frame + 16, frame + 12, len - 12);
	memcpy(frame + 12, "\x81\0\xe0\0", 4);
	return len + 4;
}

/* A frame parses as it does alone, whatever was parsed before. */
static void
test_seen(void **state)
{
	static const uint8_t opcodes[] = {WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_ACKNOWLEDGE};
	struct wire_seen seen = {.len = 0};
	struct wire_move none = {.len = 0};
	uint64_t seed = 0x5ee2;
	struct wire_packet before = {.opcode = 0};
	uint32_t good = 0, bad = 0, again = 0, flow = 0, kind = 0, payload_len = 0;
	bool tagged = false;

	for (uint32_t round = 0; round < 40000; round++) {
		struct wire_template t;
		struct wire_build b;
		struct wire_packet alone;
		uint8_t frame[FRAME_MAX + 4], copy[FRAME_MAX + 4], *payload;
		enum wire_drop drop;
		uint32_t len;

		/* Mostly keep the previous frame's flow, kind, length and tag. */
		if (next_random(&seed) % 4 == 0)
			flow = (uint32_t)(next_random(&seed) % FLOWS);
		if (next_random(&seed) % 4 == 0)
			kind = (uint32_t)(next_random(&seed) % 3);
		if (next_random(&seed) % 4 == 0)
			payload_len = (uint32_t)(next_random(&seed) % 64);
		if (next_random(&seed) % 16 == 0)
			tagged = !tagged;
		t = flow_template(flow);
		b = (struct wire_build){.opcode = opcodes[kind],
					.solicited = next_random(&seed) % 16 == 0,
					.ack_request = next_random(&seed) & 1,
					.qpn = 17 + flow,
					.psn = (uint32_t)next_random(&seed) & 0xffffff,
					.remote_addr = next_random(&seed),
					.rkey = (uint32_t)next_random(&seed),
					.dma_length = (uint32_t)next_random(&seed),
					.syndrome = (uint8_t)next_random(&seed),
					.msn = (uint32_t)next_random(&seed) & 0xffffff,
					.payload_len = payload_len};
		len = wire_frame_len(&t, b.opcode, payload_len);
		payload = wire_build(&t, &b, frame);
		for (uint32_t i = 0; i < payload_len; i++)
			payload[i] = (uint8_t)next_random(&seed);
		wire_seal(frame, len);
		if (tagged)
			len = tag(frame, len);
		if (next_random(&seed) % 3 == 0)
			frame[next_random(&seed) % len] ^= (uint8_t)(1u << next_random(&seed) % 8);
		if (next_random(&seed) % 16 == 0)
			len = (uint32_t)(next_random(&seed) % (len + 1));

		memcpy(copy, frame, sizeof(copy));
		drop = wire_parse(frame, len, &alone);
		assert_memory_equal(frame, copy, sizeof(copy));
		assert_int_equal(wire_parse_received(frame, len, false, &seen, &none), drop);
		assert_memory_equal(frame, copy, sizeof(copy));
		if (drop == WIRE_OK)
			assert_same_packet(&seen.packet, &alone);
		if (drop == WIRE_OK && seen.again)
			assert_only_next(&before, &alone);
		before = seen.packet;
		again += seen.again;
		good += drop == WIRE_OK;
		bad += drop != WIRE_OK;
	}
	assert_true(good > 10000 && bad > 5000 && again > 5000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_build_on),
		cmocka_unit_test(test_seen),
	};

	wire_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
