/* SPDX-License-Identifier: BSD-3-Clause */
/* RoCEv2 on the wire: Ethernet, IPv4/IPv6, UDP 4791, BTH, extension headers, ICRC. Parsing does the checks of
 * spec section 8 that need no queue pair. Building writes whole frames. The only state is the choice of ICRC
 * implementation. */
#ifndef DATAPLANE_WIRE_H
#define DATAPLANE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_UDP_PORT 4791u
#define WIRE_QKEY_GSI 0x80010000u
#define WIRE_ETH_LEN 14u
#define WIRE_BTH_LEN 12u
#define WIRE_ICRC_LEN 4u
#define WIRE_HEADERS_MAX (14u + 40u + 8u + 12u + 28u) /* in front of the payload */

enum wire_opcode {
	WIRE_SEND_FIRST = 0x00,
	WIRE_SEND_MIDDLE,
	WIRE_SEND_LAST,
	WIRE_SEND_LAST_IMM,
	WIRE_SEND_ONLY,
	WIRE_SEND_ONLY_IMM,
	WIRE_WRITE_FIRST,
	WIRE_WRITE_MIDDLE,
	WIRE_WRITE_LAST,
	WIRE_WRITE_LAST_IMM,
	WIRE_WRITE_ONLY,
	WIRE_WRITE_ONLY_IMM,
	WIRE_READ_REQUEST,
	WIRE_READ_RESPONSE_FIRST,
	WIRE_READ_RESPONSE_MIDDLE,
	WIRE_READ_RESPONSE_LAST,
	WIRE_READ_RESPONSE_ONLY,
	WIRE_ACKNOWLEDGE,
	WIRE_ATOMIC_ACKNOWLEDGE,
	WIRE_COMPARE_SWAP,
	WIRE_FETCH_ADD,
	WIRE_SEND_LAST_INV = 0x16,
	WIRE_SEND_ONLY_INV = 0x17,
	WIRE_UD_SEND_ONLY = 0x64,
	WIRE_UD_SEND_ONLY_IMM = 0x65,
	WIRE_CNP = 0x81,
	/* Manufacturer-defined opcodes: several packets of one kind in one frame, see wire_unpack(). */
	WIRE_PACKED_REQUESTS = 0xc0,
	WIRE_PACKED_RESPONSES = 0xc1
};

/* Address in GID form: IPv6, or IPv4 as ::ffff:a.b.c.d. */
struct wire_addr {
	uint8_t gid[16];
};
bool wire_addr_is_v4(const struct wire_addr *addr);

/* `bytes`: 4 of IPv4, or 16 of IPv6. */
static inline struct wire_addr
wire_addr_of(bool v4, const uint8_t *bytes)
{
	struct wire_addr addr = {.gid = {[10] = 0xff, [11] = 0xff}};

	if (v4)
		memcpy(addr.gid + 12, bytes, 4);
	else
		memcpy(addr.gid, bytes, sizeof(addr.gid));
	return addr;
}

static inline bool
wire_addr_equal(const struct wire_addr *a, const struct wire_addr *b)
{
	uint64_t x[2], y[2];

	memcpy(x, a, sizeof(x));
	memcpy(y, b, sizeof(y));
	return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

/* Header fields that are constant for a connection. */
struct wire_path {
	uint8_t src_mac[6], dst_mac[6];
	struct wire_addr src, dst; /* same family */
	uint16_t udp_src_port;
	uint16_t udp_peer_port; /* source port of the peer's frames; 0: the same as ours */
	uint8_t tos;            /* DSCP and ECN */
	uint8_t ttl;
	uint32_t flow_label;
};

#define WIRE_ECT 2u /* ECN codepoint ECT(0): switches may mark the packet instead of dropping it */

/* TOS or traffic class that a program or a peer requested, without ECN, which the transport sets. */
static inline uint8_t
wire_without_ecn(uint8_t tos)
{
	return tos & 0xfc;
}

/* Reason for dropping a frame before its queue pair was known; also the index of a counter. */
enum wire_drop {
	WIRE_OK = 0,
	WIRE_NOT_ROCE, /* no error: ARP, ICMP and others go to the control thread */
	WIRE_DROP_SHORT,
	WIRE_DROP_VLAN, /* tagged for another network: VLAN id not 0, or a second tag */
	WIRE_DROP_IP,   /* options, fragments, checksum, lengths */
	WIRE_DROP_UDP,
	WIRE_DROP_ADDRESS, /* source is multicast, broadcast or zero */
	WIRE_DROP_OPCODE,
	WIRE_DROP_LENGTH, /* shorter than its headers */
	WIRE_DROP_VERSION,
	WIRE_DROP_PKEY,
	WIRE_DROP_QPN,
	WIRE_DROP_ICRC,
	WIRE_DROP_MAX
};

/* Capabilities that oneside peers announce to each other, in the CM's private data or in a hello. */
#define WIRE_CAPABILITY_SELECTIVE_REPEAT 0x1u /* sequence NAKs with a bitmap: doc/selective-repeat.md */
#define WIRE_CAPABILITY_YIELDS                                                                              \
	0x2u                         /* cores share processors and may answer late: doc/selective-repeat.md \
				      */
#define WIRE_CAPABILITY_STEERED 0x4u /* sends from the UDP port that the peer announces: doc/steering.md */
#define WIRE_CAPABILITY_PACKED 0x8u  /* frames with several requests: doc/packed.md */

#define WIRE_CNP_DATA_LEN \
	16u /* bytes after the BTH of a CNP: reserved, so other implementations ignore them */

/* A parsed frame. Pointers point into the frame. */
struct wire_packet {
	struct wire_addr src, dst;
	uint8_t src_mac[6];
	uint8_t opcode;                          /* enum wire_opcode */
	bool solicited, ack_request, congestion; /* SE, A, IP ECN == 11 (CE) */
	uint8_t pad;
	uint16_t udp_src_port;
	uint32_t qpn; /* destination */
	uint32_t psn;
	/* Extension headers; the opcode decides which are valid. */
	uint64_t remote_addr; /* RETH, AtomicETH */
	uint32_t rkey;
	uint32_t dma_length;
	uint64_t swap_add, compare, atomic_ack;
	uint32_t imm;     /* in wire order, not swapped */
	uint32_t inv_key; /* IETH */
	uint8_t syndrome; /* AETH */
	uint32_t msn;
	uint32_t qkey, src_qpn; /* DETH */
	uint16_t count;         /* WIRE_PACKED_*: number of packets that the frame claims to hold */
	const uint8_t *payload; /* without pad */
	uint32_t payload_len;
};

/* Payload of an accepted frame, to be copied to its destination. len is a multiple of 64; 0: none. */
struct wire_move {
	uint8_t *to;
	const uint8_t *from;
	uint32_t len;
};
#define WIRE_MOVE_UNIT 64u

void wire_move(struct wire_move *move); /* in address order */

/* The WIRE_CNP_DATA_LEN reserved bytes of a CNP. */
static inline const uint8_t *
wire_cnp_data(const struct wire_packet *packet)
{
	return packet->payload - WIRE_CNP_DATA_LEN;
}

/* Parse and check a frame of `len` bytes, starting at the Ethernet header. A priority tag (VLAN id 0) is
 * skipped. The caller checks destination address and queue pair. */
enum wire_drop wire_parse(uint8_t *frame, uint32_t len, struct wire_packet *packet);

#define WIRE_VLAN_ID 0x0fffu /* bits of a tag that name the network */

/* True for an untagged ARP or IPv6 neighbour discovery frame. */
bool wire_is_discovery(const uint8_t *frame, uint32_t len);

/* Headers of the previous frame and their parsed values. Consecutive frames mostly belong to one connection;
 * then nothing in front of the PSN differs. Initialize to zero. */
struct wire_seen {
	uint32_t len; /* of the frame; 0: no previous frame */
	bool again;   /* the last frame equals the one before in length and in all bytes before the PSN */
	uint16_t ip, udp, fixed; /* offsets of the IP and UDP headers; bytes before the PSN and its flag */
	uint8_t head[14 + 4 + 40 + 8 + 8];
	struct wire_packet packet; /* written only by wire_parse_received() */
};

/* Like wire_parse(), into seen->packet. `sum_is_good`: the device has checked the IPv4 header checksum.
 * `move` is always carried out, even if the frame is dropped. */
enum wire_drop wire_parse_received(uint8_t *frame, uint32_t len, bool sum_is_good, struct wire_seen *seen,
				   struct wire_move *move);

/* Several packets in one frame (doc/packed.md): after the BTH and a count, each packet is a short header, the
 * extension headers of its opcode, its payload, and zeros up to a multiple of 4 bytes. */
#define WIRE_PACKED_MAX 64u
#define WIRE_PACKED_HEAD_LEN 4u

/* Parse the packet at *at and advance *at past it. `frame` is the packed frame; its payload's end is the
 * limit. Writes only opcode, SE, pad, extension headers and payload of `packet`. Returns false if the packet
 * is malformed or its opcode may not be packed. */
bool wire_unpack(const struct wire_packet *frame, const uint8_t **at, struct wire_packet *packet);

/* Bytes of extension headers after the BTH for an opcode; -1: unknown opcode. */
int wire_extension_len(uint8_t opcode);

/* Fields of a frame to be built; the opcode decides which are used. */
struct wire_build {
	uint8_t opcode;
	bool solicited, ack_request;
	uint32_t qpn, psn;
	uint64_t remote_addr;
	uint32_t rkey, dma_length;
	uint64_t swap_add, compare, atomic_ack;
	uint32_t imm, inv_key;
	uint8_t syndrome;
	uint32_t msn;
	uint32_t qkey, src_qpn;
	uint32_t payload_len;
	uint16_t count; /* WIRE_PACKED_* */
};

/* Fixed headers of a path, built once per queue pair. */
struct wire_template {
	uint8_t bytes[14 + 40 + 8 + 12];
	uint8_t len;    /* from Ethernet to BTH */
	uint8_t ip_len; /* 20 or 40 */
};
void wire_template_init(struct wire_template *t, const struct wire_path *path);

/* Returns the bytes of the whole frame. */
uint32_t wire_frame_len(const struct wire_template *t, uint8_t opcode, uint32_t payload_len);

/* Write headers and padding. Returns where the payload (payload_len bytes) goes. When payload and headers
 * (`len` bytes in all) are final, wire_seal() adds the ICRC. Seal some time later if possible: the CRC's wide
 * loads would wait for bytes that were just stored. */
uint8_t *wire_build(const struct wire_template *t, const struct wire_build *b, uint8_t *frame);
void wire_seal(uint8_t *frame, uint32_t len);

/* Copy the payload, from memory that others may be changing, to where wire_build() returned. Returns true if
 * the same pass sealed the frame, which is faster for long payloads; on false, call wire_seal(). */
bool wire_fill(const struct wire_template *t, uint8_t *frame, uint8_t *payload, const void *from,
	       uint32_t len);

/* Linux's rule for the UDP source port (spec 1.5). */
uint16_t wire_udp_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);
#define WIRE_UDP_SOURCE_MIN 0xc000u /* RoCEv2's range of source ports ends at 0xffff */

/* UDP source port from which both ends of a connection made out of band send at first, unless its program
 * chose a flow label. Another implementation sends from it only by chance. */
uint16_t wire_udp_hello_port(uint32_t one_qpn, uint32_t other_qpn);

/* Select the fastest ICRC of this CPU. Call once, before anything else here and before threads start. */
void wire_init(void);

#endif
