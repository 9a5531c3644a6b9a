/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames to packets. Checks go from the outer header inwards, each before the first byte that depends on it
 * is read. The ICRC is last, since it alone is costly. */
#include "wire.h"

#include <stdatomic.h>
#include <string.h>

#include <rte_vect.h>

#include "bytes.h"
#include "icrc.h"

#define ETHERTYPE_IPV4 0x0800u
#define ETHERTYPE_IPV6 0x86ddu
#define ETHERTYPE_ARP 0x0806u
#define ETHERTYPE_VLAN 0x8100u
#define ETHERTYPE_SERVICE_VLAN 0x88a8u /* IEEE 802.1ad */
#define PROTO_UDP 17u
#define PROTO_ICMP6 58u
#define ICMP6_SOLICITATION 135u
#define ICMP6_ADVERTISEMENT 136u
#define IPV4_LEN 20u
#define IPV6_LEN 40u
#define UDP_LEN 8u
#define BTH_FIXED 8u /* bytes before the PSN */
#define FIXED_IPV4 (WIRE_ETH_LEN + IPV4_LEN + UDP_LEN + BTH_FIXED)

/* Length plus one, so that 0, the default, means unknown opcode. */
#define EXT(bytes) ((bytes) + 1)
static const uint8_t extension_len[256] = {
	[WIRE_SEND_FIRST] = EXT(0),
	[WIRE_SEND_MIDDLE] = EXT(0),
	[WIRE_SEND_LAST] = EXT(0),
	[WIRE_SEND_LAST_IMM] = EXT(4),
	[WIRE_SEND_ONLY] = EXT(0),
	[WIRE_SEND_ONLY_IMM] = EXT(4),
	[WIRE_WRITE_FIRST] = EXT(16),
	[WIRE_WRITE_MIDDLE] = EXT(0),
	[WIRE_WRITE_LAST] = EXT(0),
	[WIRE_WRITE_LAST_IMM] = EXT(4),
	[WIRE_WRITE_ONLY] = EXT(16),
	[WIRE_WRITE_ONLY_IMM] = EXT(20),
	[WIRE_READ_REQUEST] = EXT(16),
	[WIRE_READ_RESPONSE_FIRST] = EXT(4),
	[WIRE_READ_RESPONSE_MIDDLE] = EXT(0),
	[WIRE_READ_RESPONSE_LAST] = EXT(4),
	[WIRE_READ_RESPONSE_ONLY] = EXT(4),
	[WIRE_ACKNOWLEDGE] = EXT(4),
	[WIRE_ATOMIC_ACKNOWLEDGE] = EXT(12),
	[WIRE_COMPARE_SWAP] = EXT(28),
	[WIRE_FETCH_ADD] = EXT(28),
	[WIRE_SEND_LAST_INV] = EXT(4),
	[WIRE_SEND_ONLY_INV] = EXT(4),
	[WIRE_UD_SEND_ONLY] = EXT(8),
	[WIRE_UD_SEND_ONLY_IMM] = EXT(12),
	[WIRE_CNP] = EXT(WIRE_CNP_DATA_LEN),
	[WIRE_PACKED_REQUESTS] = EXT(4),
	[WIRE_PACKED_RESPONSES] = EXT(4),
};

void
wire_init(void)
{
	/* EAL reports 256 or more unless limited by option; then any width may be used. Without EAL it is 0:
	 * any. */
	uint32_t bits = rte_vect_get_max_simd_bitwidth();

	/* Called once per process, before threads start: nothing is written later. */
	icrc_init(bits >= RTE_VECT_SIMD_256 ? 0 : bits);
}

int
wire_extension_len(uint8_t opcode)
{
	return (int)extension_len[opcode] - 1;
}

bool
wire_addr_is_v4(const struct wire_addr *addr)
{
	const struct wire_addr v4 = wire_addr_of(true, addr->gid + 12);

	return wire_addr_equal(addr, &v4);
}

static bool
ipv4_checksum_good(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (unsigned int i = 0; i < IPV4_LEN; i += 2)
		sum += load_be16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* On WIRE_OK, *room is the number of bytes that follow the IP header; all of them were received. */
static enum wire_drop
parse_ipv4(const uint8_t *ip, uint32_t avail, bool sum_is_good, struct wire_packet *packet, uint32_t *room)
{
	uint32_t total, source;

	if (avail < IPV4_LEN)
		return WIRE_DROP_SHORT;
	if (ip[0] >> 4 != 4)
		return WIRE_DROP_IP;
	if (ip[9] != PROTO_UDP)
		return WIRE_NOT_ROCE;
	total = load_be16(ip + 2);
	if ((ip[0] & 0x0f) != 5 || (load_be16(ip + 6) & 0x3fff) != 0 || total < IPV4_LEN + UDP_LEN ||
	    total > avail || (!sum_is_good && !ipv4_checksum_good(ip)))
		return WIRE_DROP_IP;
	source = load_be32(ip + 12);
	if (source == 0 || source == UINT32_MAX || source >> 28 == 0xe)
		return WIRE_DROP_ADDRESS;
	packet->src = wire_addr_of(true, ip + 12);
	packet->dst = wire_addr_of(true, ip + 16);
	packet->congestion = (ip[1] & 3) == 3;
	*room = total - IPV4_LEN;
	return WIRE_OK;
}

static enum wire_drop
parse_ipv6(const uint8_t *ip, uint32_t avail, struct wire_packet *packet, uint32_t *room)
{
	static const uint8_t unspecified[16];
	uint32_t length;

	if (avail < IPV6_LEN)
		return WIRE_DROP_SHORT;
	if (ip[0] >> 4 != 6)
		return WIRE_DROP_IP;
	if (ip[6] != PROTO_UDP)
		return WIRE_NOT_ROCE;
	length = load_be16(ip + 4);
	if (length < UDP_LEN || length > avail - IPV6_LEN)
		return WIRE_DROP_IP;
	memcpy(packet->src.gid, ip + 8, 16);
	memcpy(packet->dst.gid, ip + 24, 16);
	/* An IPv4-mapped address in an IPv6 header would pass for the IPv4 peer of that address. */
	if (ip[8] == 0xff || memcmp(ip + 8, unspecified, 16) == 0 || wire_addr_is_v4(&packet->src) ||
	    wire_addr_is_v4(&packet->dst))
		return WIRE_DROP_ADDRESS;
	packet->congestion = (ip[1] >> 4 & 3) == 3;
	*room = length;
	return WIRE_OK;
}

static void
parse_reth(const uint8_t *p, struct wire_packet *packet)
{
	packet->remote_addr = load_be64(p);
	packet->rkey = load_be32(p + 8);
	packet->dma_length = load_be32(p + 12);
}

static void
parse_imm(const uint8_t *p, struct wire_packet *packet)
{
	memcpy(&packet->imm, p, 4);
}

static void
parse_extensions(const uint8_t *p, struct wire_packet *packet)
{
	switch (packet->opcode) {
	case WIRE_SEND_LAST_IMM:
	case WIRE_SEND_ONLY_IMM:
	case WIRE_WRITE_LAST_IMM:
		parse_imm(p, packet);
		break;
	case WIRE_WRITE_ONLY_IMM:
		parse_imm(p + 16, packet);
		parse_reth(p, packet);
		break;
	case WIRE_WRITE_FIRST:
	case WIRE_WRITE_ONLY:
	case WIRE_READ_REQUEST:
		parse_reth(p, packet);
		break;
	case WIRE_ATOMIC_ACKNOWLEDGE:
		packet->atomic_ack = load_be64(p + 4);
		/* fall through */
	case WIRE_READ_RESPONSE_FIRST:
	case WIRE_READ_RESPONSE_LAST:
	case WIRE_READ_RESPONSE_ONLY:
	case WIRE_ACKNOWLEDGE:
		packet->syndrome = p[0];
		packet->msn = load_be24(p + 1);
		break;
	case WIRE_COMPARE_SWAP:
	case WIRE_FETCH_ADD:
		packet->remote_addr = load_be64(p);
		packet->rkey = load_be32(p + 8);
		packet->swap_add = load_be64(p + 12);
		packet->compare = load_be64(p + 20);
		break;
	case WIRE_SEND_LAST_INV:
	case WIRE_SEND_ONLY_INV:
		packet->inv_key = load_be32(p);
		break;
	case WIRE_UD_SEND_ONLY_IMM:
		parse_imm(p + 8, packet);
		/* fall through */
	case WIRE_UD_SEND_ONLY:
		packet->qkey = load_be32(p);
		packet->src_qpn = load_be24(p + 5);
		break;
	case WIRE_PACKED_REQUESTS:
	case WIRE_PACKED_RESPONSES:
		packet->count = load_be16(p);
		break;
	default:
		break;
	}
}

static inline void
parse_psn(const uint8_t *bth, struct wire_packet *packet)
{
	packet->ack_request = (bth[8] & 0x80) != 0;
	packet->psn = load_be24(bth + 9);
}

/* `len`: bytes of BTH, payload and ICRC; a multiple of 4 and at least 16. */
static enum wire_drop
parse_bth(const uint8_t *bth, uint32_t len, struct wire_packet *packet)
{
	uint32_t extensions, headers;

	packet->opcode = bth[0];
	if (extension_len[packet->opcode] == 0)
		return WIRE_DROP_OPCODE;
	extensions = extension_len[packet->opcode] - 1u;
	headers = WIRE_BTH_LEN + extensions;
	packet->pad = bth[1] >> 4 & 3;
	if (len < headers + packet->pad + WIRE_ICRC_LEN)
		return WIRE_DROP_LENGTH;
	if ((bth[1] & 0x0f) != 0)
		return WIRE_DROP_VERSION;
	/* We are a full member of the default partition, so limited members are accepted, too. */
	if ((load_be16(bth + 2) & 0x7fff) != 0x7fff)
		return WIRE_DROP_PKEY;
	packet->qpn = load_be24(bth + 5);
	if (packet->qpn == 0 || packet->qpn == 0xffffff)
		return WIRE_DROP_QPN;
	packet->solicited = (bth[1] & 0x80) != 0;
	parse_psn(bth, packet);
	parse_extensions(bth + WIRE_BTH_LEN, packet);
	packet->payload = bth + headers;
	packet->payload_len = len - headers - packet->pad - WIRE_ICRC_LEN;
	return WIRE_OK;
}

/* Bitmaps of the opcodes (below 32) that may be in a frame of packed requests or of packed responses. */
#define OPCODE(name) (1u << WIRE_##name)
static const uint32_t packed_opcodes[2] = {
	OPCODE(SEND_ONLY) | OPCODE(SEND_ONLY_IMM) | OPCODE(SEND_ONLY_INV) | OPCODE(WRITE_ONLY) |
		OPCODE(WRITE_ONLY_IMM) | OPCODE(READ_REQUEST) | OPCODE(COMPARE_SWAP) | OPCODE(FETCH_ADD),
	OPCODE(READ_RESPONSE_ONLY) | OPCODE(ATOMIC_ACKNOWLEDGE),
};

bool
wire_unpack(const struct wire_packet *frame, const uint8_t **at, struct wire_packet *packet)
{
	const uint8_t *p = *at;
	uint32_t left = (uint32_t)(frame->payload + frame->payload_len - p), extensions, payload_len, pad;

	if (left < WIRE_PACKED_HEAD_LEN || p[0] >= 32 || (p[1] & 0x7f) != 0 ||
	    (packed_opcodes[frame->opcode & 1] >> p[0] & 1) == 0)
		return false;
	extensions = extension_len[p[0]] - 1u;
	payload_len = load_be16(p + 2);
	pad = -payload_len & 3;
	if (left < WIRE_PACKED_HEAD_LEN + extensions + payload_len + pad)
		return false;
	packet->opcode = p[0];
	packet->solicited = p[1] != 0;
	packet->pad = (uint8_t)pad;
	parse_extensions(p + WIRE_PACKED_HEAD_LEN, packet);
	packet->payload = p + WIRE_PACKED_HEAD_LEN + extensions;
	packet->payload_len = payload_len;
	*at = packet->payload + payload_len + pad;
	return true;
}

void
wire_move(struct wire_move *move)
{
	for (uint32_t at = 0; at < move->len; at += WIRE_MOVE_UNIT) {
		memmove(move->to + at, move->from + at, WIRE_MOVE_UNIT);
		/* Pairs with the load of an application that polls the last byte (mem_place()). */
		atomic_thread_fence(memory_order_release);
	}
	move->len = 0;
}

static bool
icrc_good(uint8_t *ip, uint8_t *udp, uint32_t udp_len, struct wire_move *move)
{
	uint8_t *trailer = udp + udp_len - WIRE_ICRC_LEN;
	uint32_t ip_len = (uint32_t)(udp - ip), len = (uint32_t)(trailer - ip), crc;

	if (move->len == 0)
		return icrc->compute(ip, ip_len, len) == load_le32(trailer);
	crc = icrc->beside(ip, ip_len, len, move->to, move->from, move->len);
	move->len = 0;
	return crc == load_le32(trailer);
}

/* Find the type of the frame's content and its offset, *at. A frame with a priority tag belongs to the
 * untagged network (IEEE 802.1Q, 6.9). */
static inline enum wire_drop
parse_ethernet(const uint8_t *frame, uint32_t len, uint16_t *ethertype, uint32_t *at)
{
	if (len < WIRE_ETH_LEN)
		return WIRE_DROP_SHORT;
	*at = WIRE_ETH_LEN;
	*ethertype = load_be16(frame + 12);
	if (*ethertype == ETHERTYPE_VLAN) {
		if (len < WIRE_ETH_LEN + 4)
			return WIRE_DROP_SHORT;
		if ((load_be16(frame + 14) & WIRE_VLAN_ID) != 0)
			return WIRE_DROP_VLAN;
		*ethertype = load_be16(frame + 16);
		*at += 4;
	}
	return *ethertype == ETHERTYPE_VLAN || *ethertype == ETHERTYPE_SERVICE_VLAN ? WIRE_DROP_VLAN
										    : WIRE_OK;
}

bool
wire_is_discovery(const uint8_t *frame, uint32_t len)
{
	const uint8_t *ip = frame + WIRE_ETH_LEN;

	if (len < WIRE_ETH_LEN)
		return false;
	if (load_be16(frame + 12) == ETHERTYPE_ARP)
		return true;
	return load_be16(frame + 12) == ETHERTYPE_IPV6 && len > WIRE_ETH_LEN + IPV6_LEN &&
	       ip[6] == PROTO_ICMP6 &&
	       (ip[IPV6_LEN] == ICMP6_SOLICITATION || ip[IPV6_LEN] == ICMP6_ADVERTISEMENT);
}

/* Parse all headers; return where those of IP and UDP begin. */
static inline enum wire_drop
parse_headers(uint8_t *frame, uint32_t len, bool sum_is_good, struct wire_packet *packet, uint8_t **ip_header,
	      uint8_t **udp_header)
{
	uint32_t at, ip_len, room, udp_len;
	uint16_t ethertype;
	enum wire_drop drop = parse_ethernet(frame, len, &ethertype, &at);
	uint8_t *ip, *udp;

	if (drop != WIRE_OK)
		return drop;
	ip = frame + at;
	if (ethertype == ETHERTYPE_IPV4) {
		ip_len = IPV4_LEN;
		drop = parse_ipv4(ip, len - at, sum_is_good, packet, &room);
	} else if (ethertype == ETHERTYPE_IPV6) {
		ip_len = IPV6_LEN;
		drop = parse_ipv6(ip, len - at, packet, &room);
	} else {
		return WIRE_NOT_ROCE;
	}
	if (drop != WIRE_OK)
		return drop;

	udp = ip + ip_len;
	if (load_be16(udp + 2) != WIRE_UDP_PORT)
		return WIRE_NOT_ROCE;
	udp_len = load_be16(udp + 4);
	if (udp_len != room || udp_len < UDP_LEN + WIRE_BTH_LEN + WIRE_ICRC_LEN || (udp_len & 3) != 0)
		return WIRE_DROP_UDP;
	memcpy(packet->src_mac, frame + 6, 6);
	packet->udp_src_port = (uint16_t)load_be16(udp);
	*ip_header = ip;
	*udp_header = udp;
	return parse_bth(udp + UDP_LEN, udp_len - UDP_LEN, packet);
}

enum wire_drop
wire_parse(uint8_t *frame, uint32_t len, struct wire_packet *packet)
{
	struct wire_move none = {.len = 0};
	uint8_t *ip, *udp;
	enum wire_drop drop = parse_headers(frame, len, false, packet, &ip, &udp);

	if (drop != WIRE_OK)
		return drop;
	return icrc_good(ip, udp, load_be16(udp + 4), &none) ? WIRE_OK : WIRE_DROP_ICRC;
}

static inline uint64_t
load_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline bool
is_same(const uint8_t *a, const uint8_t *b, uint32_t len)
{
	uint64_t differ = load_u64(a + len - 8) ^ load_u64(b + len - 8);

	for (uint32_t at = 0; at < len - 8; at += 8)
		differ |= load_u64(a + at) ^ load_u64(b + at);
	return differ == 0;
}

/* True if the frame equals the previous one in length and in all bytes before the PSN. */
static inline bool
is_alike(const struct wire_seen *seen, const uint8_t *frame, uint32_t len)
{
	if (seen->len == 0 || len != seen->len)
		return false;
	/* A constant length for the common case lets the compiler unroll the comparison. */
	return seen->fixed == FIXED_IPV4 ? is_same(frame, seen->head, FIXED_IPV4)
					 : is_same(frame, seen->head, seen->fixed);
}

static enum wire_drop
parse_seen(uint8_t *frame, uint32_t len, bool sum_is_good, struct wire_seen *seen, struct wire_move *move)
{
	struct wire_packet *packet = &seen->packet;
	uint8_t *ip, *udp, *bth;
	enum wire_drop drop;

	seen->again = is_alike(seen, frame, len);
	if (seen->again) {
		ip = frame + seen->ip;
		udp = frame + seen->udp;
		bth = udp + UDP_LEN;
		parse_psn(bth, packet);
		packet->payload = bth + WIRE_BTH_LEN + extension_len[packet->opcode] - 1;
		if (packet->payload != bth + WIRE_BTH_LEN)
			parse_extensions(bth + WIRE_BTH_LEN, packet);
	} else {
		seen->len = 0;
		drop = parse_headers(frame, len, sum_is_good, packet, &ip, &udp);
		if (drop != WIRE_OK)
			return drop;
		seen->len = len;
		seen->ip = (uint16_t)(ip - frame);
		seen->udp = (uint16_t)(udp - frame);
		seen->fixed = (uint16_t)(seen->udp + UDP_LEN + BTH_FIXED);
		memcpy(seen->head, frame, seen->fixed);
	}
	return icrc_good(ip, udp, load_be16(udp + 4), move) ? WIRE_OK : WIRE_DROP_ICRC;
}

enum wire_drop
wire_parse_received(uint8_t *frame, uint32_t len, bool sum_is_good, struct wire_seen *seen,
		    struct wire_move *move)
{
	enum wire_drop drop = parse_seen(frame, len, sum_is_good, seen, move);

	if (move->len != 0)
		wire_move(move);
	return drop;
}
