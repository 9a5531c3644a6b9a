/* SPDX-License-Identifier: BSD-3-Clause */
/* The codec against real traffic, published vectors, and everything that must be refused. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "../pcap.h"
#include "../vectors.h"
#include "dataplane/wire/bytes.h"
#include "dataplane/wire/icrc.h"
#include "dataplane/wire/wire.h"
#include "reference.h"

#define ROCE_FRAMES 2221 /* tests/data/captures/README.md */
#define UC_FRAMES 10     /* of these, in uc_pingpong.pcap */

static uint32_t
ip_offset(const uint8_t *frame)
{
	return load_be16(frame + 12) == 0x8100 ? 18 : 14;
}

static uint32_t
ip_header_len(const uint8_t *frame)
{
	return frame[ip_offset(frame)] >> 4 == 4 ? 20 : 40;
}

/* Offset of the byte after the ICRC, according to the UDP length. */
static uint32_t
frame_end(const uint8_t *frame)
{
	uint32_t udp = ip_offset(frame) + ip_header_len(frame);

	return udp + load_be16(frame + udp + 4);
}

static void
fix_checksum(uint8_t *frame)
{
	uint8_t *ip = frame + ip_offset(frame);
	uint32_t sum = 0;

	if (ip[0] >> 4 != 4)
		return;
	store_be16(ip + 10, 0);
	for (int i = 0; i < 20; i += 2)
		sum += load_be16(ip + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	store_be16(ip + 10, (uint16_t)~sum);
}

/* Corrects checksum and ICRC of a changed frame, so that only the change can cause a refusal. */
static void
fix_frame(uint8_t *frame)
{
	uint32_t ip = ip_offset(frame), end = frame_end(frame);

	fix_checksum(frame);
	store_le32(frame + end - 4, slow_icrc(frame + ip, ip_header_len(frame), end - 4 - ip));
}

/* Parses a copy of exactly this size, so that a sanitizer finds accesses behind it, and checks that the copy
 * was restored. */
static enum wire_drop
parse_exact(const uint8_t *frame, uint32_t len, struct wire_packet *packet, uint8_t **copy)
{
	enum wire_drop drop;

	*copy = malloc(len ? len : 1);
	memcpy(*copy, frame, len);
	drop = wire_parse(*copy, len, packet);
	assert_memory_equal(*copy, frame, len);
	return drop;
}

static enum wire_drop
parse_only(const uint8_t *frame, uint32_t len)
{
	struct wire_packet packet;
	enum wire_drop drop;
	uint8_t *copy;

	drop = parse_exact(frame, len, &packet, &copy);
	free(copy);
	return drop;
}

static void
build_from_packet(const struct wire_packet *packet, struct wire_build *b)
{
	memset(b, 0, sizeof(*b));
	b->opcode = packet->opcode;
	b->solicited = packet->solicited;
	b->ack_request = packet->ack_request;
	b->qpn = packet->qpn;
	b->psn = packet->psn;
	b->remote_addr = packet->remote_addr;
	b->rkey = packet->rkey;
	b->dma_length = packet->dma_length;
	b->swap_add = packet->swap_add;
	b->compare = packet->compare;
	b->atomic_ack = packet->atomic_ack;
	b->imm = packet->imm;
	b->inv_key = packet->inv_key;
	b->syndrome = packet->syndrome;
	b->msn = packet->msn;
	b->qkey = packet->qkey;
	b->src_qpn = packet->src_qpn;
	b->payload_len = packet->payload_len;
	b->count = packet->count;
}

/* Builds the frame again from the parsed packet, and compares bit for bit. If `patch` is set, copies the
 * fields that a template cannot set (IP identification, MigReq, UDP checksum, the ignored flow label). */
static void
rebuild(const uint8_t *frame, const struct wire_packet *packet, bool patch)
{
	uint32_t ip = 14, ip_len = ip_header_len(frame), end = frame_end(frame), bth = ip + ip_len + 8;
	struct wire_template t;
	struct wire_build b;
	struct wire_path path;
	uint8_t *again = malloc(end), *payload;

	memset(&path, 0, sizeof(path));
	memcpy(path.dst_mac, frame, 6);
	memcpy(path.src_mac, packet->src_mac, 6);
	path.src = packet->src;
	path.dst = packet->dst;
	path.udp_src_port = load_be16(frame + ip + ip_len);
	if (ip_len == 20) {
		path.tos = frame[ip + 1];
		path.ttl = frame[ip + 8];
	} else {
		path.tos = (uint8_t)(load_be32(frame + ip) >> 20);
		path.flow_label = load_be32(frame + ip) & 0xfffff;
		path.ttl = frame[ip + 7];
	}
	wire_template_init(&t, &path);
	assert_int_equal(t.ip_len, ip_len);
	build_from_packet(packet, &b);
	assert_int_equal(wire_frame_len(&t, b.opcode, b.payload_len), end);
	payload = wire_build(&t, &b, again);
	if (b.payload_len > 0)
		memcpy(payload, packet->payload, b.payload_len);
	if (patch) {
		if (ip_len == 20) {
			memcpy(again + ip + 4, frame + ip + 4, 2);
			fix_checksum(again);
		}
		again[bth + 1] = (uint8_t)((again[bth + 1] & ~0x40) | (frame[bth + 1] & 0x40));
	}
	wire_seal(again, end);
	assert_memory_equal(again, frame, end);
	free(again);
}

struct tally {
	int roce, uc, other;
};

static bool
looks_like_roce(const uint8_t *frame, uint32_t len)
{
	uint16_t ethertype = load_be16(frame + 12);

	if (ethertype == 0x0800)
		return len > 42 && frame[23] == 17 && load_be16(frame + 36) == WIRE_UDP_PORT;
	return ethertype == 0x86dd && len > 62 && frame[20] == 17 && load_be16(frame + 56) == WIRE_UDP_PORT;
}

static void
captured_frame(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	struct tally *tally = arg;
	struct wire_packet packet;
	enum wire_drop drop;
	uint32_t ip = 14, end;
	uint8_t *copy;

	memset(&packet, 0, sizeof(packet));
	drop = parse_exact(frame, len, &packet, &copy);
	if (!looks_like_roce(frame, len)) {
		tally->other++;
		assert_int_equal(drop, WIRE_NOT_ROCE);
		free(copy);
		return;
	}
	tally->roce++;
	end = frame_end(frame);
	assert_int_equal(slow_icrc(frame + ip, ip_header_len(frame), end - 4 - ip),
			 load_le32(frame + end - 4));
	if (drop == WIRE_DROP_OPCODE) {
		assert_int_equal(packet.opcode >> 5, 1);
		tally->uc++;
		free(copy);
		return;
	}
	if (drop != WIRE_OK)
		print_error("%s: frame %u: drop %d\n", file, number, drop);
	assert_int_equal(drop, WIRE_OK);
	rebuild(frame, &packet, true);
	free(copy);
}

static void
test_captures(void **state)
{
	struct tally tally = {0, 0, 0};

	assert_true(pcap_each_file(CAPTURES, 1, captured_frame, &tally) >= 54);
	assert_int_equal(tally.roce, ROCE_FRAMES);
	assert_int_equal(tally.uc, UC_FRAMES);
	assert_true(tally.other > 0);
}

static uint32_t
from_hex(const char *hex, uint8_t *out)
{
	uint32_t len = (uint32_t)strlen(hex) / 2;

	for (uint32_t i = 0; i < len; i++) {
		unsigned int byte;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		out[i] = (uint8_t)byte;
	}
	return len;
}

static uint32_t
vector_frame(int number, uint8_t *frame)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		if (vectors[i].number == number)
			return from_hex(vectors[i].hex, frame);
	fail_msg("no vector %d", number);
	return 0;
}

static void
test_vectors(void **state)
{
	uint8_t frame[FRAME_MAX], *copy;
	struct wire_packet packet;

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		uint32_t len = from_hex(vectors[i].hex, frame), ip_len = ip_header_len(frame);
		enum wire_drop drop;

		assert_int_equal(icrc->compute(frame + 14, ip_len, len - 4 - 14), load_le32(frame + len - 4));
		memset(&packet, 0, sizeof(packet));
		drop = parse_exact(frame, len, &packet, &copy);
		if (vectors[i].number == 5 || vectors[i].number == 6) { /* UC */
			assert_int_equal(drop, WIRE_DROP_OPCODE);
		} else {
			assert_int_equal(drop, WIRE_OK);
			rebuild(frame, &packet, true);
		}
		free(copy);
	}
}

/* Vectors of frames that we send ourselves need no patching. */
static void
test_vectors_verbatim(void **state)
{
	static const int ours[] = {8, 16, 17, 18, 19, 20, 21, 22, 23};
	uint8_t frame[FRAME_MAX], *copy;
	struct wire_packet packet;

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		uint32_t len = vector_frame(ours[i], frame);

		assert_int_equal(parse_exact(frame, len, &packet, &copy), WIRE_OK);
		rebuild(frame, &packet, false);
		free(copy);
	}
}

static void
test_fields(void **state)
{
	uint8_t frame[FRAME_MAX];
	struct wire_packet p;

	assert_int_equal(wire_parse(frame, vector_frame(1, frame), &p), WIRE_OK);
	assert_int_equal(p.opcode, WIRE_READ_REQUEST);
	assert_int_equal(p.qpn, 0x11);
	assert_int_equal(p.psn, 0x54cb63);
	assert_true(p.ack_request);
	assert_true(p.remote_addr == 0x7fee260fb000);
	assert_int_equal(p.rkey, 0x2b8);
	assert_int_equal(p.dma_length, 65536);
	assert_int_equal(p.payload_len, 0);
	assert_true(wire_addr_is_v4(&p.src));
	assert_memory_equal(p.src.gid + 12, "\xc0\xa8\x38\x81", 4);
	assert_memory_equal(p.src_mac, "\x00\x0c\x29\x89\xa2\xe5", 6);

	assert_int_equal(wire_parse(frame, vector_frame(7, frame), &p), WIRE_OK);
	assert_true(p.solicited);
	assert_int_equal(p.pad, 3);
	assert_int_equal(p.payload_len, 5);
	assert_memory_equal(p.payload, "HELLO", 5);

	assert_int_equal(wire_parse(frame, vector_frame(9, frame), &p), WIRE_OK);
	assert_memory_equal(&p.imm, "\xca\xfe\xf0\x0d", 4);
	assert_int_equal(p.dma_length, 8);

	assert_int_equal(wire_parse(frame, vector_frame(13, frame), &p), WIRE_OK);
	assert_int_equal(p.syndrome, 0x2c);
	assert_int_equal(p.msn, 3);

	assert_int_equal(wire_parse(frame, vector_frame(14, frame), &p), WIRE_OK);
	assert_true(p.swap_add == 0x1111222233334444 && p.compare == 0x5555666677778888);

	assert_int_equal(wire_parse(frame, vector_frame(15, frame), &p), WIRE_OK);
	assert_true(p.atomic_ack == 0x5555666677778888);
	assert_int_equal(p.msn, 4);

	assert_int_equal(wire_parse(frame, vector_frame(17, frame), &p), WIRE_OK);
	assert_false(wire_addr_is_v4(&p.src));
	assert_false(p.congestion);

	assert_int_equal(wire_parse(frame, vector_frame(18, frame), &p), WIRE_OK);
	assert_int_equal(p.opcode, WIRE_UD_SEND_ONLY);
	assert_int_equal(p.qpn, 1);
	assert_int_equal(p.qkey, WIRE_QKEY_GSI);
	assert_int_equal(p.src_qpn, 1);
	assert_int_equal(p.payload_len, 256);
}

/* True if ICRC, IP checksum and ethertype all leave this bit unprotected. */
static bool
bit_is_free(const uint8_t *frame, uint32_t byte, uint32_t bit)
{
	uint32_t ip_len = ip_header_len(frame), udp = 14 + ip_len;

	if (byte < 12) /* MAC addresses */
		return true;
	if (byte == udp + 6 || byte == udp + 7 || byte == udp + 12) /* UDP checksum, FECN/BECN */
		return true;
	if (ip_len == 40) /* traffic class, flow label, hop limit */
		return (byte == 14 && bit < 4) || (byte > 14 && byte < 18) || byte == 21;
	return false;
}

static void
test_single_bits(void **state)
{
	static const int which[] = {1, 2, 7, 8, 9, 11, 14, 15, 17, 18};
	uint8_t frame[FRAME_MAX];

	for (size_t i = 0; i < sizeof(which) / sizeof(which[0]); i++) {
		uint32_t len = vector_frame(which[i], frame);

		for (uint32_t byte = 0; byte < len; byte++) {
			for (uint32_t bit = 0; bit < 8; bit++) {
				enum wire_drop drop;

				bool open = bit_is_free(frame, byte, bit);

				frame[byte] ^= (uint8_t)(1u << bit);
				drop = parse_only(frame, len);
				frame[byte] ^= (uint8_t)(1u << bit);
				assert_int_equal(drop == WIRE_OK, open);
			}
		}
	}
}

static void
cut_frame(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	uint8_t copy[FRAME_MAX];
	uint32_t ip_len, udp, end;

	if (number > 12 || !looks_like_roce(frame, len))
		return;
	ip_len = ip_header_len(frame);
	udp = 14 + ip_len;
	end = frame_end(frame);
	for (uint32_t cut = 0; cut < end; cut++)
		assert_int_not_equal(parse_only(frame, cut), WIRE_OK);
	/* Cut with lengths that agree, and with a right ICRC where there is room for one. */
	for (uint32_t cut = udp + 8; cut < end; cut++) {
		enum wire_drop drop;
		struct wire_packet packet;

		memcpy(copy, frame, cut);
		store_be16(copy + udp + 4, (uint16_t)(cut - udp));
		store_be16(copy + (ip_len == 20 ? 16 : 18), (uint16_t)(ip_len == 20 ? cut - 14 : cut - udp));
		if (cut >= udp + 24)
			fix_frame(copy);
		else
			fix_checksum(copy);
		drop = wire_parse(copy, cut, &packet);
		if (drop == WIRE_OK)
			assert_true(packet.payload + packet.payload_len + packet.pad + 4 == copy + cut);
		else
			assert_true(drop == WIRE_DROP_UDP || drop == WIRE_DROP_LENGTH ||
				    drop == WIRE_NOT_ROCE);
	}
	*(int *)arg += 1;
}

static void
test_truncated(void **state)
{
	int frames = 0;

	assert_true(pcap_each_frame(CAPTURES "/rping.pcap", cut_frame, &frames) > 0);
	assert_true(pcap_each_frame(CAPTURES "/rping_ipv6.pcap", cut_frame, &frames) > 0);
	assert_true(pcap_each_frame(CAPTURES "/ops/write_odd.pcap", cut_frame, &frames) > 0);
	assert_true(pcap_each_frame(CAPTURES "/ops/cas.pcap", cut_frame, &frames) > 0);
	assert_true(frames > 30);
}

/* A frame with one byte changed and all else right is dropped for exactly this reason. */
struct refusal {
	int vector;
	uint32_t at;
	uint8_t value;
	enum wire_drop drop;
};

static void
test_reasons(void **state)
{
	static const struct refusal refusals[] = {
		{7, 12, 0x09, WIRE_NOT_ROCE},     /* another ethertype */
		{7, 14, 0x55, WIRE_DROP_IP},      /* IP version */
		{7, 14, 0x46, WIRE_DROP_IP},      /* IP options */
		{7, 16, 0x10, WIRE_DROP_IP},      /* longer than what was received */
		{7, 17, 0x1b, WIRE_DROP_IP},      /* no room for UDP */
		{7, 20, 0x20, WIRE_DROP_IP},      /* more fragments */
		{7, 21, 0x01, WIRE_DROP_IP},      /* fragment offset */
		{7, 23, 0x01, WIRE_NOT_ROCE},     /* ICMP */
		{7, 26, 0xe0, WIRE_DROP_ADDRESS}, /* multicast source */
		{7, 26, 0xef, WIRE_DROP_ADDRESS},
		{7, 36, 0x13, WIRE_NOT_ROCE}, /* another UDP port */
		{7, 39, 0x1c, WIRE_DROP_UDP}, /* UDP length differs from IP length */
		{7, 42, 0x15, WIRE_DROP_OPCODE},
		{7, 42, 0x18, WIRE_DROP_OPCODE},
		{7, 42, 0x1c, WIRE_DROP_OPCODE}, /* FLUSH */
		{7, 42, 0x24, WIRE_DROP_OPCODE}, /* UC */
		{7, 42, 0xff, WIRE_DROP_OPCODE},
		{7, 42, 0x14, WIRE_DROP_LENGTH}, /* an atomic is longer */
		{8, 43, 0x70, WIRE_DROP_LENGTH}, /* padding without payload */
		{11, 43, 0x10, WIRE_DROP_LENGTH},
		{7, 43, 0xb1, WIRE_DROP_VERSION},
		{7, 44, 0x12, WIRE_DROP_PKEY},
		{7, 45, 0xfe, WIRE_DROP_PKEY},
		{7, 44, 0x7f, WIRE_OK}, /* a limited member */
		{7, 46, 0x5a, WIRE_OK}, /* FECN, BECN, reserved */
		{7, 50, 0xff, WIRE_OK}, /* reserved bits next to A */
		{7, 49, 0x00, WIRE_DROP_QPN},
		{17, 14, 0x46, WIRE_DROP_IP},
		{17, 18, 0x01, WIRE_DROP_IP},
		{17, 20, 0x00, WIRE_NOT_ROCE}, /* hop-by-hop options */
		{17, 20, 0x2c, WIRE_NOT_ROCE}, /* fragment header */
		{17, 22, 0xff, WIRE_DROP_ADDRESS},
	};
	uint8_t frame[FRAME_MAX];

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refusal *r = &refusals[i];
		uint32_t len = vector_frame(r->vector, frame), end = frame_end(frame);
		uint32_t ip_len = ip_header_len(frame);
		enum wire_drop drop;

		frame[r->at] = r->value;
		store_le32(frame + end - 4, slow_icrc(frame + 14, ip_len, end - 4 - 14));
		if (ip_len == 20) {
			frame[14] = r->at == 14 ? 0x45 : frame[14];
			fix_checksum(frame);
			if (r->at == 14) { /* corrects the checksum of the changed version or IHL byte */
				uint32_t sum =
					(uint16_t)~load_be16(frame + 24) + (((uint32_t)r->value - 0x45) << 8);

				store_be16(frame + 24, (uint16_t) ~((sum & 0xffff) + (sum >> 16)));
				frame[14] = r->value;
			}
		}
		drop = parse_only(frame, len);
		if (drop != r->drop)
			print_error("row %zu\n", i);
		assert_int_equal(drop, r->drop);
	}
}

static void
test_more_refusals(void **state)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	uint8_t frame[FRAME_MAX];
	uint32_t len;

	len = vector_frame(7, frame);
	frame[24] ^= 1; /* a bad IP checksum only */
	assert_int_equal(parse_only(frame, len), WIRE_DROP_IP);

	len = vector_frame(7, frame);
	memset(frame + 26, 0, 4);
	fix_frame(frame);
	assert_int_equal(parse_only(frame, len), WIRE_DROP_ADDRESS);
	memset(frame + 26, 0xff, 4);
	fix_frame(frame);
	assert_int_equal(parse_only(frame, len), WIRE_DROP_ADDRESS);

	len = vector_frame(7, frame);
	memset(frame + 47, 0xff, 3); /* multicast queue pair */
	fix_frame(frame);
	assert_int_equal(parse_only(frame, len), WIRE_DROP_QPN);

	len = vector_frame(17, frame);
	memset(frame + 22, 0, 16);
	fix_frame(frame);
	assert_int_equal(parse_only(frame, len), WIRE_DROP_ADDRESS);

	/* IPv6 addresses that map IPv4 are refused, as source and as destination. */
	for (uint32_t at = 22; at <= 38; at += 16) {
		len = vector_frame(17, frame);
		memcpy(frame + at, mapped, 12);
		fix_frame(frame);
		assert_int_equal(parse_only(frame, len), WIRE_DROP_ADDRESS);
	}

	/* A UDP datagram too short for BTH and ICRC, all lengths in agreement. */
	len = vector_frame(8, frame);
	for (uint32_t udp_len = 8; udp_len < 24; udp_len++) {
		store_be16(frame + 38, (uint16_t)udp_len);
		store_be16(frame + 16, (uint16_t)(20 + udp_len));
		fix_checksum(frame);
		assert_int_equal(parse_only(frame, len), WIRE_DROP_UDP);
	}
}

static void
test_vlan_and_padding(void **state)
{
	uint8_t frame[FRAME_MAX], tagged[FRAME_MAX];
	struct wire_packet packet;
	uint32_t len = vector_frame(8, frame);

	/* Ethernet pads this frame to 60 bytes. */
	frame[len] = 0xaa;
	frame[len + 1] = 0x55;
	assert_int_equal(parse_only(frame, len + 2), WIRE_OK);

	for (int vector = 7; vector <= 17; vector += 10) {
		len = vector_frame(vector, frame);
		memcpy(tagged, frame, 12);
		store_be32(tagged + 12, 0x8100a000); /* a priority, and no VLAN */
		memcpy(tagged + 16, frame + 12, len - 12);
		for (uint32_t cut = 0; cut < len + 4; cut++)
			assert_int_not_equal(parse_only(tagged, cut), WIRE_OK);
		assert_int_equal(parse_only(tagged, len + 4), WIRE_OK);
		assert_int_equal(wire_parse(tagged, len + 4, &packet), WIRE_OK);
		assert_memory_equal(packet.src_mac, frame + 6, 6);
		for (uint16_t id = 1; id < 4096; id++) {
			store_be16(tagged + 14, (uint16_t)(0xa000 | id));
			assert_int_equal(parse_only(tagged, len + 4), WIRE_DROP_VLAN);
		}
		store_be16(tagged + 14, 0xa000);
		/* Nested tags and provider tags are refused. */
		store_be16(tagged + 16, 0x8100);
		assert_int_equal(parse_only(tagged, len + 4), WIRE_DROP_VLAN);
		store_be16(tagged + 12, 0x88a8);
		assert_int_equal(parse_only(tagged, len + 4), WIRE_DROP_VLAN);
	}
}

/* Discovery frames have at least the length that their headers require. */
static void
test_discovery(void **state)
{
	static const uint8_t arp[14] = {[12] = 0x08, 0x06};
	uint8_t nd[14 + 41] = {[12] = 0x86, 0xdd, [20] = 58, [54] = 135};

	assert_true(wire_is_discovery(arp, sizeof(arp)));
	assert_false(wire_is_discovery(arp, sizeof(arp) - 1));
	assert_true(wire_is_discovery(nd, sizeof(nd)));
	assert_false(wire_is_discovery(nd, sizeof(nd) - 1));
	nd[54] = 136;
	assert_true(wire_is_discovery(nd, sizeof(nd)));
	nd[54] = 128; /* an echo request */
	assert_false(wire_is_discovery(nd, sizeof(nd)));
	nd[54] = 135;
	nd[20] = 17;
	assert_false(wire_is_discovery(nd, sizeof(nd)));
}

static void
test_congestion(void **state)
{
	uint8_t frame[FRAME_MAX];
	struct wire_packet packet;

	for (uint8_t ecn = 0; ecn < 4; ecn++) {
		uint32_t len = vector_frame(7, frame);

		frame[15] = (uint8_t)(0xb8 | ecn);
		fix_checksum(frame);
		assert_int_equal(wire_parse(frame, len, &packet), WIRE_OK);
		assert_int_equal(packet.congestion, ecn == 3);
		len = vector_frame(17, frame);
		frame[15] = (uint8_t)((frame[15] & 0xcf) | ecn << 4);
		assert_int_equal(wire_parse(frame, len, &packet), WIRE_OK);
		assert_int_equal(packet.congestion, ecn == 3);
	}
}

static void
test_round_trip(void **state)
{
	static const uint32_t lens[] = {0, 1, 2, 3, 4, 5, 63, 64, 255, 1023, 1024, 1025, 4095, 4096};
	uint64_t seed = 0x5eed;
	int opcodes = 0;

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		if (wire_extension_len((uint8_t)opcode) < 0)
			continue;
		opcodes++;
		for (size_t i = 0; i < 2 * sizeof(lens) / sizeof(lens[0]); i++) {
			struct wire_path path;
			struct wire_template t;
			struct wire_build b, again;
			struct wire_packet packet;
			uint32_t len, payload_len = lens[i / 2];
			uint8_t data[4096], *frame, *p;

			memset(&path, 0, sizeof(path));
			memcpy(path.src_mac, "\x02\x00\x00\x00\x00\x01", 6);
			path.src.gid[15] = 9;
			path.dst.gid[15] = 8;
			path.src.gid[0] = path.dst.gid[0] = 0x20;
			if (i & 1) {
				memcpy(path.src.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2", 15);
				memcpy(path.dst.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2", 15);
			}
			path.udp_src_port = (uint16_t)next_random(&seed);
			path.tos = (uint8_t)next_random(&seed);
			path.ttl = 64;
			path.flow_label = (uint32_t)next_random(&seed); /* only 20 bits may be sent */
			wire_template_init(&t, &path);

			memset(&b, 0, sizeof(b));
			b.opcode = (uint8_t)opcode;
			b.solicited = next_random(&seed) & 1;
			b.ack_request = next_random(&seed) & 1;
			b.qpn = 2 + (uint32_t)(next_random(&seed) & 0xffff);
			b.psn = (uint32_t)next_random(&seed); /* only 24 bits are sent */
			b.remote_addr = next_random(&seed);
			b.rkey = (uint32_t)next_random(&seed);
			b.dma_length = (uint32_t)next_random(&seed);
			b.swap_add = next_random(&seed);
			b.compare = next_random(&seed);
			b.atomic_ack = next_random(&seed);
			b.imm = (uint32_t)next_random(&seed);
			b.inv_key = (uint32_t)next_random(&seed);
			b.syndrome = (uint8_t)next_random(&seed);
			b.msn = (uint32_t)next_random(&seed) & 0xffffff;
			b.qkey = (uint32_t)next_random(&seed);
			b.src_qpn = (uint32_t)next_random(&seed) & 0xffffff;
			b.payload_len = payload_len;
			b.count = (uint16_t)next_random(&seed);
			for (uint32_t k = 0; k < payload_len; k++)
				data[k] = (uint8_t)next_random(&seed);

			len = wire_frame_len(&t, b.opcode, payload_len);
			frame = malloc(len);
			memset(frame, 0xcc, len);
			p = wire_build(&t, &b, frame);
			memcpy(p, data, payload_len);
			wire_seal(frame, len);
			assert_int_equal(frame_end(frame), len);
			assert_int_equal(slow_icrc(frame + 14, t.ip_len, len - 18),
					 load_le32(frame + len - 4));

			memset(&packet, 0, sizeof(packet));
			assert_int_equal(wire_parse(frame, len, &packet), WIRE_OK);
			assert_int_equal(packet.payload_len, payload_len);
			assert_memory_equal(packet.payload, data, payload_len);
			assert_memory_equal(&packet.src, &path.src, 16);
			assert_memory_equal(&packet.dst, &path.dst, 16);
			assert_int_equal(packet.psn, b.psn & 0xffffff);
			assert_int_equal(packet.congestion, (path.tos & 3) == 3);
			/* The parser found all extension fields of the opcode: a frame built from them is the
			 * same. */
			build_from_packet(&packet, &again);
			p = malloc(len);
			memcpy(wire_build(&t, &again, p), data, payload_len);
			wire_seal(p, len);
			assert_memory_equal(p, frame, len);
			free(p);
			free(frame);
		}
	}
	assert_int_equal(opcodes, 28);
}

static void
test_source_port(void **state)
{
	assert_int_equal(wire_udp_source_port(0, 0x11, 0x12), 0xc132);
	assert_int_equal(wire_udp_source_port(0, 0x12, 0x11), 0xc132);
	assert_int_equal(wire_udp_source_port(0, 0x123456, 0xabcdef), 0xc3c8);
	assert_int_equal(wire_udp_source_port(0x30517, 1, 2), 0xc51b);
	assert_int_equal(wire_udp_source_port((0x9abcu * 31 + 18515) & 0xfffff, 7, 8), 0xc51b);
	assert_int_equal(wire_udp_source_port(0xfff00000, 0x11, 0x12), 0xc132);
}

/* Frames damaged in many places, with a right ICRC where there is room for one, so that the damage reaches
 * the parser. */
static void
test_fuzz(void **state)
{
	uint64_t seed = 0xf1a5c0;
	int accepted = 0, refused = 0;

	for (int round = 0; round < 20000; round++) {
		size_t which = next_random(&seed) % (sizeof(vectors) / sizeof(vectors[0]));
		uint8_t frame[FRAME_MAX], *copy;
		uint32_t len = from_hex(vectors[which].hex, frame), changes = next_random(&seed) % 6;
		struct wire_packet packet;
		uint32_t ip;

		for (uint32_t i = 0; i < changes; i++)
			frame[12 + next_random(&seed) % (i & 1 ? 60 : len - 12)] =
				(uint8_t)next_random(&seed);
		if (next_random(&seed) & 1)
			len -= (uint32_t)(next_random(&seed) % len);
		ip = ip_offset(frame);
		if (len > ip + 60 && frame_end(frame) <= len &&
		    frame_end(frame) >= ip + ip_header_len(frame) + 24)
			fix_frame(frame);
		if (parse_exact(frame, len, &packet, &copy) == WIRE_OK) {
			accepted++;
			assert_true(packet.payload >= copy &&
				    packet.payload + packet.payload_len <= copy + len);
			assert_true(packet.qpn != 0 && packet.qpn < 0xffffff && packet.psn <= 0xffffff);
			assert_true(wire_extension_len(packet.opcode) >= 0);
		} else {
			refused++;
		}
		free(copy);
	}
	assert_true(accepted > 1000 && refused > 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_captures),         cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_vectors_verbatim), cmocka_unit_test(test_fields),
		cmocka_unit_test(test_single_bits),      cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_reasons),          cmocka_unit_test(test_more_refusals),
		cmocka_unit_test(test_vlan_and_padding), cmocka_unit_test(test_discovery),
		cmocka_unit_test(test_congestion),       cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_source_port),      cmocka_unit_test(test_fuzz),
	};

	wire_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
