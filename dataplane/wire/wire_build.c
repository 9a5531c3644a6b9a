/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets to frames: a path's constant headers are built once, then the variable fields are patched in. */
#include "wire.h"

#include <string.h>

#include "bytes.h"
#include "head.h"
#include "icrc.h"

#define IPV4_LEN 20u
#define IPV6_LEN 40u
#define UDP_LEN 8u
#define FIXED_IPV4 (WIRE_ETH_LEN + IPV4_LEN + UDP_LEN + WIRE_BTH_LEN)
#define FIXED_IPV6 (WIRE_ETH_LEN + IPV6_LEN + UDP_LEN + WIRE_BTH_LEN)
#define BTH_SE 0x80u
#define BTH_MIGREQ 0x40u
#define BTH_BECN 0x40u
#define FUSED_MIN 512u /* bytes of payload from which copy and ICRC in one pass are faster than apart */
#define TRANSPORT(opcode) ((opcode) >> 5)

static uint32_t
pad_len(uint32_t payload_len)
{
	return -payload_len & 3u;
}

void
wire_template_init(struct wire_template *t, const struct wire_path *path)
{
	uint8_t *ip = t->bytes + WIRE_ETH_LEN, *udp, *bth;
	uint32_t sum = 0;

	memset(t, 0, sizeof(*t));
	memcpy(t->bytes, path->dst_mac, 6);
	memcpy(t->bytes + 6, path->src_mac, 6);
	if (wire_addr_is_v4(&path->dst)) {
		t->ip_len = IPV4_LEN;
		store_be16(t->bytes + 12, 0x0800);
		ip[0] = 0x45;
		ip[1] = path->tos;
		ip[6] = 0x40; /* do not fragment: the identification may then stay 0 (RFC 6864) */
		ip[8] = path->ttl;
		ip[9] = 17;
		memcpy(ip + 12, path->src.gid + 12, 4);
		memcpy(ip + 16, path->dst.gid + 12, 4);
		/* The checksum field caches the uncomplemented sum of all words but the length. */
		for (unsigned int i = 0; i < IPV4_LEN; i += 2)
			sum += load_be16(ip + i);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		store_be16(ip + 10, (uint16_t)sum);
	} else {
		t->ip_len = IPV6_LEN;
		store_be16(t->bytes + 12, 0x86dd);
		store_be32(ip, 6u << 28 | (uint32_t)path->tos << 20 | (path->flow_label & 0xfffff));
		ip[6] = 17;
		ip[7] = path->ttl;
		memcpy(ip + 8, path->src.gid, 16);
		memcpy(ip + 24, path->dst.gid, 16);
	}
	udp = ip + t->ip_len;
	store_be16(udp, path->udp_src_port);
	store_be16(udp + 2, WIRE_UDP_PORT);
	bth = udp + UDP_LEN;
	store_be16(bth + 2, 0xffff);
	t->len = (uint8_t)(WIRE_ETH_LEN + t->ip_len + UDP_LEN + WIRE_BTH_LEN);
}

uint32_t
wire_frame_len(const struct wire_template *t, uint8_t opcode, uint32_t payload_len)
{
	return t->len + (uint32_t)wire_extension_len(opcode) + payload_len + pad_len(payload_len) +
	       WIRE_ICRC_LEN;
}

static void
build_reth(uint8_t *p, const struct wire_build *b)
{
	store_be64(p, b->remote_addr);
	store_be32(p + 8, b->rkey);
	store_be32(p + 12, b->dma_length);
}

static void
build_imm(uint8_t *p, const struct wire_build *b)
{
	memcpy(p, &b->imm, 4);
}

void
wire_build_extensions(uint8_t *p, const struct wire_build *b)
{
	switch (b->opcode) {
	case WIRE_SEND_LAST_IMM:
	case WIRE_SEND_ONLY_IMM:
	case WIRE_WRITE_LAST_IMM:
		build_imm(p, b);
		break;
	case WIRE_WRITE_ONLY_IMM:
		build_reth(p, b);
		build_imm(p + 16, b);
		break;
	case WIRE_WRITE_FIRST:
	case WIRE_WRITE_ONLY:
	case WIRE_READ_REQUEST:
		build_reth(p, b);
		break;
	case WIRE_ATOMIC_ACKNOWLEDGE:
		store_be64(p + 4, b->atomic_ack);
		/* fall through */
	case WIRE_READ_RESPONSE_FIRST:
	case WIRE_READ_RESPONSE_LAST:
	case WIRE_READ_RESPONSE_ONLY:
	case WIRE_ACKNOWLEDGE:
		p[0] = b->syndrome;
		store_be24(p + 1, b->msn);
		break;
	case WIRE_COMPARE_SWAP:
	case WIRE_FETCH_ADD:
		store_be64(p, b->remote_addr);
		store_be32(p + 8, b->rkey);
		store_be64(p + 12, b->swap_add);
		store_be64(p + 20, b->compare);
		break;
	case WIRE_SEND_LAST_INV:
	case WIRE_SEND_ONLY_INV:
		store_be32(p, b->inv_key);
		break;
	case WIRE_UD_SEND_ONLY_IMM:
		build_imm(p + 8, b);
		/* fall through */
	case WIRE_UD_SEND_ONLY:
		store_be32(p, b->qkey);
		p[4] = 0;
		store_be24(p + 5, b->src_qpn);
		break;
	case WIRE_CNP:
		memset(p, 0, WIRE_CNP_DATA_LEN);
		break;
	case WIRE_PACKED_REQUESTS:
	case WIRE_PACKED_RESPONSES:
		store_be16(p, b->count);
		store_be16(p + 2, 0);
		break;
	default:
		break;
	}
}

static inline void
store_psn(uint8_t *bth, uint32_t psn, bool ack_request)
{
	store_be32(bth + 8, (ack_request ? 1u << 31 : 0u) | (psn & 0xffffff));
}

/* Write the headers up to the BTH, except PSN and A. */
static inline void
build_fixed(const struct wire_template *t, const struct wire_build *b, uint32_t udp_len, uint8_t *frame)
{
	uint8_t *ip = frame + WIRE_ETH_LEN, *bth = frame + t->len - WIRE_BTH_LEN;

	if (t->ip_len == IPV4_LEN) {
		uint32_t sum;

		memcpy(frame, t->bytes, FIXED_IPV4);
		sum = load_be16(t->bytes + WIRE_ETH_LEN + 10) + IPV4_LEN + udp_len;
		sum = (sum & 0xffff) + (sum >> 16);
		store_be16(ip + 2, (uint16_t)(IPV4_LEN + udp_len));
		store_be16(ip + 10, (uint16_t)~sum);
	} else {
		memcpy(frame, t->bytes, FIXED_IPV6);
		store_be16(ip + 4, (uint16_t)udp_len);
	}
	store_be16(bth - 4, (uint16_t)udp_len);

	bth[0] = b->opcode;
	bth[1] = (uint8_t)((b->solicited ? BTH_SE : 0u) | pad_len(b->payload_len) << 4);
	if (TRANSPORT(b->opcode) == 0)
		bth[1] |= BTH_MIGREQ; /* "migrated"; hardware is slow towards senders that clear it */
	if (b->opcode == WIRE_CNP)
		bth[4] = BTH_BECN;
	store_be24(bth + 5, b->qpn);
}

uint8_t *
wire_build(const struct wire_template *t, const struct wire_build *b, uint8_t *frame)
{
	uint32_t extensions = (uint32_t)wire_extension_len(b->opcode), pad = pad_len(b->payload_len);
	uint8_t *end = frame + t->len; /* of the BTH */

	build_fixed(t, b, UDP_LEN + WIRE_BTH_LEN + extensions + b->payload_len + pad + WIRE_ICRC_LEN, frame);
	store_psn(end - WIRE_BTH_LEN, b->psn, b->ack_request);
	wire_build_extensions(end, b);
	if (pad != 0)
		memset(end + extensions + b->payload_len, 0, pad);
	return end + extensions;
}

void
wire_head_make(struct wire_head *head, const struct wire_template *t, const struct wire_build *b)
{
	head->frame_len = wire_frame_len(t, b->opcode, b->payload_len);
	head->len = t->len;
	head->pad = (uint8_t)pad_len(b->payload_len);
	head->payload = head->frame_len - WIRE_ICRC_LEN - head->pad - b->payload_len;
	build_fixed(t, b, head->frame_len - WIRE_ETH_LEN - t->ip_len, head->bytes);
}

void
wire_seal(uint8_t *frame, uint32_t len)
{
	uint32_t ip_len = frame[WIRE_ETH_LEN] >> 4 == 4 ? IPV4_LEN : IPV6_LEN, end = len - WIRE_ICRC_LEN;

	store_le32(frame + end, icrc->compute(frame + WIRE_ETH_LEN, ip_len, end - WIRE_ETH_LEN));
}

bool
wire_fill(const struct wire_template *t, uint8_t *frame, uint8_t *payload, const void *from, uint32_t len)
{
	uint8_t *ip = frame + WIRE_ETH_LEN;

	if (len < FUSED_MIN || pad_len(len) != 0) {
		memmove(payload, from, len);
		return false;
	}
	store_le32(payload + len, icrc->copy(ip, t->ip_len, (uint32_t)(payload + len - ip), from, len));
	return true;
}

uint16_t
wire_udp_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn)
{
	flow_label &= 0xfffff;
	if (flow_label == 0) {
		uint64_t v = (uint64_t)local_qpn * remote_qpn;

		v ^= v >> 20;
		v ^= v >> 40;
		flow_label = (uint32_t)(v & 0xfffff);
	}
	return (uint16_t)(WIRE_UDP_SOURCE_MIN | ((flow_label & 0x3fff) ^ flow_label >> 14));
}

uint16_t
wire_udp_hello_port(uint32_t one_qpn, uint32_t other_qpn)
{
	/* The hash is symmetric, and differs from Linux's rule. */
	uint32_t hash = (one_qpn ^ other_qpn) * 0x9e3779b1u ^ (one_qpn + other_qpn) * 0x85ebca6bu;

	return (uint16_t)(WIRE_UDP_SOURCE_MIN | hash >> 18);
}
