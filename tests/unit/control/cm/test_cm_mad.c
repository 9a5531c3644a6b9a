/* SPDX-License-Identifier: BSD-3-Clause */
/* The MAD codec against captured and generated messages, and the containers of the state machine. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/pcap.h"
#include "tests/unit/vectors.h"
#include "tests/unit/wire/reference.h"
#include "control/cm/cm_mad.h"
#include "control/cm/cm_table.h"
#include "dataplane/wire/bytes.h"

struct tally {
	int seen[CM_DREP + 1];
	int other;
};

static void
captured_mad(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	uint8_t copy[FRAME_MAX], again[CM_MAD_LEN];
	struct tally *tally = arg;
	struct wire_packet packet;
	struct cm_mad mad;

	memcpy(copy, frame, len);
	if (wire_parse(copy, len, &packet) != WIRE_OK || packet.opcode != WIRE_UD_SEND_ONLY ||
	    packet.qpn != 1)
		return;
	assert_int_equal(packet.qkey, WIRE_QKEY_GSI);
	assert_int_equal(packet.payload_len, CM_MAD_LEN);
	if (cm_mad_parse(packet.payload, packet.payload_len, &mad) != 0) {
		/* Only SIDR and other management classes may be unknown. */
		assert_true(packet.payload[1] != 7 || load_be16(packet.payload + 16) == 0x17 ||
			    load_be16(packet.payload + 16) == 0x18);
		tally->other++;
		return;
	}
	tally->seen[mad.attribute]++;
	cm_mad_build(&mad, again);
	assert_memory_equal(again, packet.payload, CM_MAD_LEN);
	for (uint32_t cut = 0; cut <= 2 * CM_MAD_LEN; cut++)
		if (cut != CM_MAD_LEN)
			assert_int_equal(cm_mad_parse(packet.payload, cut, &mad), -EPROTO);
}

static void
test_captures(void **state)
{
	struct tally tally = {{0}, 0};

	assert_true(pcap_each_file(CAPTURES, 1, captured_mad, &tally) >= 54);
	assert_true(tally.seen[CM_REQ] > 25);
	assert_true(tally.seen[CM_REP] > 25);
	assert_true(tally.seen[CM_RTU] > 25);
	assert_true(tally.seen[CM_REJ] >= 1);
	assert_true(tally.seen[CM_DREQ] > 25);
	assert_true(tally.seen[CM_DREP] > 25);
	assert_true(tally.other > 0);
}

static void
vector_mad(int number, struct cm_mad *mad)
{
	uint8_t frame[FRAME_MAX], again[CM_MAD_LEN];
	struct wire_packet packet;

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		uint32_t len = (uint32_t)strlen(vectors[i].hex) / 2;

		if (vectors[i].number != number)
			continue;
		for (uint32_t k = 0; k < len; k++) {
			unsigned int byte;

			assert_int_equal(sscanf(vectors[i].hex + 2 * k, "%2x", &byte), 1);
			frame[k] = (uint8_t)byte;
		}
		assert_int_equal(wire_parse(frame, len, &packet), WIRE_OK);
		assert_int_equal(cm_mad_parse(packet.payload, packet.payload_len, mad), 0);
		cm_mad_build(mad, again);
		assert_memory_equal(again, packet.payload, CM_MAD_LEN);
		return;
	}
	fail_msg("no vector %d", number);
}

static void
test_vectors(void **state)
{
	struct cm_ip_header header;
	struct cm_mad mad;

	vector_mad(18, &mad);
	assert_int_equal(mad.attribute, CM_REQ);
	assert_int_equal(mad.local_id, 0x12345678);
	assert_true(mad.tid == 0x0000000512345678);
	assert_true(mad.req.service_id == CM_SERVICE_TCP(18515));
	assert_true(mad.req.guid == 0x020000fffe000001);
	assert_int_equal(mad.req.qpn, 0x11);
	assert_int_equal(mad.req.responder_resources, 4);
	assert_int_equal(mad.req.initiator_depth, 5);
	assert_int_equal(mad.req.psn, 0xabcdef);
	assert_int_equal(cm_mtu_bytes(mad.req.mtu), 1024);
	assert_int_equal(mad.req.retry_count, 7);
	assert_int_equal(mad.req.rnr_retry, 7);
	assert_int_equal(mad.req.max_cm_retries, 15);
	assert_int_equal(mad.req.remote_response_timeout, 20);
	assert_int_equal(mad.req.local_response_timeout, 20);
	assert_int_equal(mad.req.flow_label, 0x12345);
	assert_int_equal(mad.req.traffic_class, 0x68);
	assert_int_equal(mad.req.hop_limit, 64);
	assert_int_equal(mad.req.sl, 3);
	assert_int_equal(mad.req.ack_timeout, 17);
	assert_int_equal(mad.req.transport, 0);
	assert_int_equal(cm_ip_header_parse(mad.private_data, &header), 0);
	assert_int_equal(header.port, 0x9abc);
	assert_true(wire_addr_is_v4(&header.src));
	assert_memory_equal(header.src.gid + 12, "\xc0\0\2\1", 4);
	assert_memory_equal(header.dst.gid + 12, "\xc0\0\2\2", 4);
	assert_memory_equal(mad.private_data + CM_IP_HEADER_LEN, "HELLO\0", 6);

	vector_mad(19, &mad);
	assert_int_equal(mad.attribute, CM_REP);
	assert_int_equal(mad.local_id, 0x87654321);
	assert_int_equal(mad.remote_id, 0x12345678);
	assert_int_equal(mad.rep.qpn, 0x12);
	assert_int_equal(mad.rep.psn, 0x123456);
	assert_int_equal(mad.rep.responder_resources, 5);
	assert_int_equal(mad.rep.initiator_depth, 4);
	assert_int_equal(mad.rep.ack_delay, 15);
	assert_int_equal(mad.rep.rnr_retry, 7);
	assert_true(mad.rep.guid == 0x020000fffe000002);
	assert_memory_equal(mad.private_data, "WORLD\0", 6);

	vector_mad(20, &mad);
	assert_int_equal(mad.attribute, CM_RTU);
	vector_mad(21, &mad);
	assert_int_equal(mad.attribute, CM_DREQ);
	assert_int_equal(mad.remote_qpn, 0x12);
	vector_mad(22, &mad);
	assert_int_equal(mad.attribute, CM_DREP);
	vector_mad(23, &mad);
	assert_int_equal(mad.attribute, CM_REJ);
	assert_int_equal(mad.rej.reason, CM_REJ_CONSUMER);
	assert_int_equal(mad.rej.info_len, 8);
	assert_memory_equal(mad.rej.info, "ARIDATA!", 8);
}

/* tshark does not decode MRA and no capture has one, so its layout is written by hand here. */
static void
test_mra(void **state)
{
	struct cm_mad mad = {.attribute = CM_MRA, .tid = 9, .local_id = 0x01020304, .remote_id = 0x05060708};
	uint8_t bytes[CM_MAD_LEN];

	mad.mra.answers = CM_ANSWERS_REP;
	mad.mra.service_timeout = 24;
	mad.private_data[221] = 0x77;
	cm_mad_build(&mad, bytes);
	assert_memory_equal(bytes + 16, "\0\x11", 2);
	assert_memory_equal(bytes + 24, "\1\2\3\4\5\6\7\x8\x40\xc0", 10);
	assert_int_equal(bytes[255], 0x77);
	memset(&mad, 0, sizeof(mad));
	assert_int_equal(cm_mad_parse(bytes, CM_MAD_LEN, &mad), 0);
	assert_int_equal(mad.mra.answers, CM_ANSWERS_REP);
	assert_int_equal(mad.mra.service_timeout, 24);
}

static void
test_refused(void **state)
{
	static const uint32_t header_bytes[] = {0, 1, 2, 3, 16};
	uint8_t bytes[CM_MAD_LEN];
	struct cm_mad mad, parsed;

	vector_mad(20, &mad);
	for (size_t i = 0; i < sizeof(header_bytes) / sizeof(header_bytes[0]); i++) {
		cm_mad_build(&mad, bytes);
		bytes[header_bytes[i]] ^= 0x80;
		assert_int_equal(cm_mad_parse(bytes, CM_MAD_LEN, &parsed), -EPROTO);
	}
	for (unsigned int attribute = 0; attribute < 0x20; attribute++) {
		cm_mad_build(&mad, bytes);
		bytes[17] = (uint8_t)attribute;
		assert_int_equal(cm_mad_parse(bytes, CM_MAD_LEN, &parsed),
				 attribute >= CM_REQ && attribute <= CM_DREP ? 0 : -EPROTO);
	}
	vector_mad(23, &mad);
	mad.rej.info_len = CM_ARI_LEN;
	cm_mad_build(&mad, bytes);
	assert_int_equal(cm_mad_parse(bytes, CM_MAD_LEN, &parsed), 0);
	mad.rej.info_len = CM_ARI_LEN + 1;
	cm_mad_build(&mad, bytes);
	assert_int_equal(cm_mad_parse(bytes, CM_MAD_LEN, &parsed), -EPROTO);
}

/* Random bytes that parse are built again to a MAD that parses to equal fields. */
static void
test_random_bytes(void **state)
{
	uint64_t seed = 0xc0ffee;

	for (int round = 0; round < 20000; round++) {
		uint8_t bytes[CM_MAD_LEN], again[CM_MAD_LEN], third[CM_MAD_LEN];
		struct cm_mad mad, parsed;

		for (size_t i = 0; i < CM_MAD_LEN; i++)
			bytes[i] = (uint8_t)next_random(&seed);
		memcpy(bytes, "\1\7\2\3", 4);
		store_be16(bytes + 16, (uint16_t)(CM_REQ + next_random(&seed) % 7));
		if (cm_mad_parse(bytes, CM_MAD_LEN, &mad) != 0) {
			assert_true(bytes[17] == CM_REJ && bytes[24 + 9] >> 1 > CM_ARI_LEN);
			continue;
		}
		cm_mad_build(&mad, again);
		assert_int_equal(cm_mad_parse(again, CM_MAD_LEN, &parsed), 0);
		cm_mad_build(&parsed, third);
		assert_memory_equal(again, third, CM_MAD_LEN);
	}
}

static void
test_mtu(void **state)
{
	for (unsigned int code = 0; code < 16; code++) {
		uint16_t bytes = cm_mtu_bytes((uint8_t)code);

		assert_int_equal(bytes != 0, code >= 1 && code <= 5);
		if (bytes != 0)
			assert_int_equal(cm_mtu_code(bytes), code);
	}
	assert_int_equal(cm_mtu_bytes(1), 256);
	assert_int_equal(cm_mtu_bytes(5), 4096);
	assert_int_equal(cm_mtu_code(1500), 0);
	assert_int_equal(cm_mtu_code(0), 0);
}

static void
test_ip_header(void **state)
{
	struct cm_ip_header header = {.port = 4711}, parsed;
	uint8_t bytes[CM_IP_HEADER_LEN];

	memcpy(header.src.gid, "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	memcpy(header.dst.gid, "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\2", 16);
	cm_ip_header_build(&header, bytes);
	assert_int_equal(cm_ip_header_parse(bytes, &parsed), 0);
	assert_int_equal(parsed.port, 4711);
	assert_memory_equal(&parsed.src, &header.src, 16);
	assert_memory_equal(&parsed.dst, &header.dst, 16);

	bytes[0] = 0x01; /* minor version */
	assert_int_equal(cm_ip_header_parse(bytes, &parsed), -EPROTO);
	bytes[0] = 0;
	bytes[1] = 0x50;
	assert_int_equal(cm_ip_header_parse(bytes, &parsed), -EPROTO);
	bytes[1] = 0x40; /* not an IPv4 address there */
	assert_int_equal(cm_ip_header_parse(bytes, &parsed), -EPROTO);
	bytes[1] = 0x60;
	bytes[4] = 0xff; /* multicast */
	assert_int_equal(cm_ip_header_parse(bytes, &parsed), -EPROTO);
	memset(bytes + 4, 0, 16);
	assert_int_equal(cm_ip_header_parse(bytes, &parsed), -EPROTO);
	bytes[19] = 1; /* loopback */
	assert_int_equal(cm_ip_header_parse(bytes, &parsed), -EPROTO);

	memcpy(header.src.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
	memcpy(header.dst.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\2", 16);
	cm_ip_header_build(&header, bytes);
	assert_memory_equal(bytes + 4, "\0\0\0\0\0\0\0\0\0\0\0\0\xc0\0\2\1", 16);
	assert_int_equal(cm_ip_header_parse(bytes, &parsed), 0);
	assert_memory_equal(&parsed.src, &header.src, 16);
	for (unsigned int first = 0; first < 256; first++) {
		bytes[32] = (uint8_t)first;
		assert_int_equal(cm_ip_header_parse(bytes, &parsed),
				 first == 0 || first == 127 || first >= 224 ? -EPROTO : 0);
	}
}

static void
test_announcement(void **state)
{
	static const uint32_t rooms[] = {56, 92};
	uint8_t data[CM_PRIVATE_REQ], got[CM_PRIVATE_REP];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i + 1);
	for (size_t r = 0; r < 2; r++) {
		for (uint16_t len = 0; len <= (r == 0 ? 78 : 92); len++) {
			const struct cm_steering steering = {(uint8_t)(3 * len),
							     (uint16_t)(len % 2 ? 0xc000 + 177 * len : 0)};
			const struct cm_announce in = {0xde, steering, 8896, len};
			struct cm_mad mad = {.attribute = CM_REQ}, parsed;
			struct cm_announce announce = {0};
			uint8_t bytes[CM_MAD_LEN];

			cm_announce_req_build(&mad, &in, data, rooms[r]);
			cm_mad_build(&mad, bytes);
			assert_int_equal(cm_mad_parse(bytes, CM_MAD_LEN, &parsed), 0);
			memset(got, 0xee, sizeof(got));
			assert_true(cm_announce_req_parse(&parsed, &announce, rooms[r], got));
			assert_int_equal(announce.capabilities, 0xde);
			assert_int_equal(announce.steering.core, steering.core);
			assert_int_equal(announce.steering.udp_port, steering.udp_port);
			assert_int_equal(announce.link_mtu, 8896);
			assert_int_equal(announce.private_len, len);
			assert_memory_equal(got, data, len);
			assert_int_equal(got[len], 0xee);
			/* No announcement: another magic, an alternate path in use, an impossible length. */
			parsed.req.alternate[7] ^= 1;
			assert_false(cm_announce_req_parse(&parsed, &announce, rooms[r], got));
			parsed.req.alternate[7] ^= 1;
			parsed.req.alternate[1] = 1;
			assert_false(cm_announce_req_parse(&parsed, &announce, rooms[r], got));
			parsed.req.alternate[1] = 0;
			store_be16(parsed.req.alternate + 12, (uint16_t)(rooms[r] + 23));
			assert_false(cm_announce_req_parse(&parsed, &announce, rooms[r], got));
		}
	}
	for (uint16_t len = 0; len < 200; len++) {
		struct cm_mad mad = {.attribute = CM_REP};
		const struct cm_steering steering = {64, 0xffff};
		struct cm_announce in = {77, steering, 20000, len}, out = {0};

		assert_false(cm_announce_rep_parse(&mad, &out));
		cm_announce_rep_build(&mad, &in);
		assert_int_equal(cm_announce_rep_parse(&mad, &out), len <= 180);
		if (len <= 180) {
			assert_int_equal(out.private_len, len);
			assert_int_equal(out.capabilities, 77);
			assert_int_equal(out.steering.core, 64);
			assert_int_equal(out.link_mtu, 255 * 64);
			assert_int_equal(out.steering.udp_port, 0xffff);
		}
	}
}

struct item {
	struct cm_node node;
	uint64_t key;
};

static void
test_table(void **state)
{
	static struct item items[5000];
	const uint64_t secret[2] = {1, 2};
	struct cm_table table;

	assert_int_equal(cm_table_init(&table), 0);
	for (uint64_t i = 0; i < 5000; i++) {
		items[i].key = i;
		/* each fifth item has the hash of the one before */
		cm_table_insert(&table, &items[i].node, cm_hash(secret, i - (i % 5 == 4), 0));
	}
	assert_int_equal(table.count, 5000);
	for (uint64_t i = 0; i < 5000; i += 3) {
		cm_table_remove(&table, &items[i].node);
		cm_table_remove(&table, &items[i].node);
	}
	for (uint64_t i = 0; i < 5000; i++) {
		struct cm_node *node = cm_table_first(&table, items[i].node.hash);

		while (node != NULL && node != &items[i].node)
			node = cm_table_next(node);
		assert_int_equal(node != NULL, i % 3 != 0);
	}
	assert_int_equal(table.count, 5000 - 1667);
	cm_table_fini(&table);
	/* Consecutive numbers, such as ids and GUIDs, do not share a bucket. */
	assert_true(cm_hash(secret, 1, 0) >> 58 != cm_hash(secret, 2, 0) >> 58 ||
		    cm_hash(secret, 3, 0) >> 58 != cm_hash(secret, 2, 0) >> 58);
	assert_true(cm_hash(secret, 1, 2) != cm_hash(secret, 2, 1));
}

/* Our REJ announces how much of its private data is the user's; in a foreign one it may be all. */
static void
test_refusal_length(void **state)
{
	static const uint8_t data[] = {1, 2, 3, 0, 0};
	uint8_t area[CM_PRIVATE_REJ];

	cm_announce_rej_build(area, data, sizeof(data));
	assert_memory_equal(area, data, sizeof(data));
	assert_int_equal(cm_announce_rej_parse(area), sizeof(data));
	cm_announce_rej_build(area, NULL, 0);
	assert_int_equal(cm_announce_rej_parse(area), 0);
	area[CM_PRIVATE_REJ - CM_ANNOUNCE_REP_LEN + 8] = 0xff; /* an impossible length */
	assert_int_equal(cm_announce_rej_parse(area), CM_PRIVATE_REJ);
	memset(area, 7, sizeof(area));
	assert_int_equal(cm_announce_rej_parse(area), CM_PRIVATE_REJ);
}

static void
test_heap(void **state)
{
	static struct cm_timer timers[2000];
	struct cm_heap heap = {0};
	uint64_t seed = 4711, last = 0;
	uint32_t set = 0;

	memset(timers, 0, sizeof(timers));
	assert_int_equal(cm_heap_reserve(&heap, 2000), 0);
	assert_true(cm_heap_deadline(&heap) == UINT64_MAX);
	assert_null(cm_heap_due(&heap, UINT64_MAX));
	for (int round = 0; round < 20000; round++) {
		struct cm_timer *t = &timers[next_random(&seed) % 2000];

		if (next_random(&seed) % 3 == 0)
			cm_heap_clear(&heap, t);
		else
			cm_heap_set(&heap, t, next_random(&seed) % 1000);
		if (round % 500 == 0) { /* the first timer has the earliest deadline */
			uint64_t least = UINT64_MAX;

			for (int i = 0; i < 2000; i++)
				if (timers[i].place != 0 && timers[i].deadline < least)
					least = timers[i].deadline;
			assert_true(cm_heap_deadline(&heap) == least);
			if (least > 0)
				assert_null(cm_heap_due(&heap, least - 1));
		}
	}
	for (int i = 0; i < 2000; i++)
		set += timers[i].place != 0;
	assert_int_equal(heap.count, set);
	for (struct cm_timer *t; (t = cm_heap_due(&heap, UINT64_MAX)) != NULL; set--) {
		assert_true(t->deadline >= last);
		last = t->deadline;
	}
	assert_int_equal(set, 0);
	cm_heap_fini(&heap);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_captures),
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_mra),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_random_bytes),
		cmocka_unit_test(test_mtu),
		cmocka_unit_test(test_ip_header),
		cmocka_unit_test(test_announcement),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_heap),
		cmocka_unit_test(test_refusal_length),
	};

	wire_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
