/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers built once for many frames: successive frames of one queue pair mostly differ only in PSN, A,
 * extension headers and payload. Inline, since each frame needs only a few words of work here. */
#ifndef DATAPLANE_HEAD_H
#define DATAPLANE_HEAD_H

#include "dataplane/wire/bytes.h"
#include "dataplane/wire/wire.h"

/* Headers from Ethernet to BTH for frames with the same opcode, SE and payload length. Initialize to zero. */
struct wire_head {
	uint64_t shape;     /* opcode, SE and payload length that `bytes` was built for; 0: none */
	uint32_t frame_len; /* bytes of the whole frame */
	uint32_t payload;   /* offset of the payload */
	uint8_t len, pad;   /* bytes of these headers; bytes of padding after the payload */
	uint8_t bytes[14 + 40 + 8 + 12];
};

/* Build the headers of `b`, except PSN and A. */
void wire_head_make(struct wire_head *head, const struct wire_template *t, const struct wire_build *b);
void wire_build_extensions(uint8_t *p, const struct wire_build *b);

/* Rebuild the headers if `b` has another shape than `head`. All frames must have the queue pair of the first.
 * Returns the bytes of the whole frame. */
static inline uint32_t
wire_head_for(struct wire_head *head, const struct wire_template *t, const struct wire_build *b)
{
	uint64_t shape = (uint64_t)b->payload_len << 32 | 1u << 16 | (uint32_t)b->solicited << 8 | b->opcode;

	if (__builtin_expect(head->shape != shape, 0)) {
		wire_head_make(head, t, b);
		head->shape = shape;
	}
	return head->frame_len;
}

/* Equivalent to wire_build(); call wire_head_for() first. Returns where the payload goes. */
static inline uint8_t *
wire_build_on(const struct wire_head *head, const struct wire_build *b, uint8_t *frame)
{
	static const uint32_t ipv4 = 14 + 20 + 8 + 12, ipv6 = 14 + 40 + 8 + 12;
	uint8_t *end = frame + head->len;

	/* Constant lengths let the compiler inline the copies. */
	if (__builtin_expect(head->len == ipv4, 1))
		memcpy(frame, head->bytes, ipv4);
	else
		memcpy(frame, head->bytes, ipv6);
	store_be32(end - 4, (b->ack_request ? 1u << 31 : 0u) | (b->psn & 0xffffff));
	if (b->opcode == WIRE_WRITE_ONLY) {
		store_be64(end, b->remote_addr);
		store_be32(end + 8, b->rkey);
		store_be32(end + 12, b->dma_length);
	} else {
		wire_build_extensions(end, b);
	}
	if (__builtin_expect(head->pad != 0, 0))
		memset(frame + head->payload + b->payload_len, 0, head->pad);
	return frame + head->payload;
}

/* Bytes that a packet occupies in a packed frame. */
static inline uint32_t
wire_packed_len(uint8_t opcode, uint32_t payload_len)
{
	return WIRE_PACKED_HEAD_LEN + (uint32_t)wire_extension_len(opcode) + (payload_len + 3) / 4 * 4;
}

/* Write the packet's headers and the zeros after its payload. Returns where the payload goes. */
static inline uint8_t *
wire_pack(const struct wire_build *b, uint8_t *at)
{
	uint8_t *payload;

	at[0] = b->opcode;
	at[1] = b->solicited ? 0x80 : 0;
	store_be16(at + 2, (uint16_t)b->payload_len);
	at += WIRE_PACKED_HEAD_LEN;
	if (b->opcode == WIRE_WRITE_ONLY) {
		store_be64(at, b->remote_addr);
		store_be32(at + 8, b->rkey);
		store_be32(at + 12, b->dma_length);
		payload = at + 16;
	} else {
		wire_build_extensions(at, b);
		payload = at + wire_extension_len(b->opcode);
	}
	for (uint32_t i = b->payload_len; (i & 3) != 0; i++)
		payload[i] = 0;
	return payload;
}

#endif
