/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ICRC by carry-less multiplication.
 *
 * A message is a polynomial over GF(2), its remainder by P the CRC.  128 bits A that stand n bits in front of
 * others may be replaced by A times x^n mod P added to those ("folding"); leading zeros change nothing.  So
 * the message is taken from its end, in words of 128 bits; what remains in front of them is the first word,
 * zeros before it.  The head, at least what has masked bits, goes word by word, each by itself, onto its last
 * word; the body, a multiple of STRIDE, in as many streams as the CPU can multiply at a time.
 *
 * The CRC's initial value is added to the first four bytes; those are the all-ones that stand for the LRH, so
 * four zeros remain, and are left out.
 *
 * The fields that routers may change are masked in registers.  So the frame is not written, and the first
 * loads do not wait for bytes that have just been stored.
 */
#ifndef DATAPLANE_ICRC_FOLD_H
#define DATAPLANE_ICRC_FOLD_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "icrc_impl.h"
#include "icrc_v128.h"

#define ICRC_PREFIX 4u /* what is left of the eight all-ones bytes in front of the IP header */
#define WORD 16u
#define WORDS 264u      /* a payload of 4096 with headers */
#define MASKED_WORDS 4u /* that can have masked bits, behind the first word */
#define MASK_AT 64u
#define MOVE_UNIT 64u

struct icrc_fold {
	/* What a word is multiplied by to go so many words on: the low, the high half. */
	uint64_t words[WORDS + 1][2];
	uint64_t reduce[2][2], quotient[2], polynomial[2]; /* 128 bits to 64; Barrett's method */
	/* The words of four blocks of 64 bytes to the last word, which stays. */
	uint64_t lanes[4][8] __attribute__((aligned(64)));
	uint8_t mask[2][3 * MASK_AT]; /* zeros, the masked bits of a message with IPv4, with IPv6, zeros */
	uint8_t shift[2 * WORD];      /* v128_choose() to where so many bytes are last */
} __attribute__((aligned(64)));

extern struct icrc_fold icrc_fold;

/* Bytes on their way to another place. */
struct moving {
	uint8_t *to;
	const uint8_t *from;
	uint32_t left;
};

V128_INLINE v128
fold(v128 x, v128 by, v128 onto)
{
	return v128_mul_low(x, by) ^ v128_mul_high(x, by) ^ onto;
}

V128_INLINE v128
by_words(uint32_t words)
{
	return v128_load(icrc_fold.words[words]);
}

V128_INLINE uint32_t
reduce(v128 x)
{
	const v128 low = {0xffffffff, 0xffffffff};
	v128 k02 = v128_load(icrc_fold.reduce[0]), k13 = v128_load(icrc_fold.reduce[1]), q;

	x = fold(x & low, k02, fold(x >> 32, k13, (v128){0}));
	q = v128_mul_low(x & low, v128_load(icrc_fold.quotient));
	q = v128_mul_low(q & low, v128_load(icrc_fold.polynomial));
	return ~(uint32_t)((x ^ q)[0] >> 32);
}

/* In address order: a reader that sees a byte sees those before it. */
V128_INLINE void
move_bytes(struct moving *moving, uint32_t len)
{
	for (uint32_t at = 0; at < len; at += MOVE_UNIT) {
		memcpy(moving->to + at, moving->from + at, MOVE_UNIT);
		atomic_thread_fence(memory_order_release);
	}
	moving->to += len;
	moving->from += len;
	moving->left -= len;
}

struct fold_layout {
	uint32_t first, head, body; /* bytes; words; bytes */
};

V128_INLINE struct fold_layout
lay_out(uint32_t ip_len, uint32_t len, uint32_t stride)
{
	struct fold_layout l = {.first = (len + ICRC_PREFIX - 1) % WORD + 1};
	uint32_t rest = len + ICRC_PREFIX - l.first, head = rest % stride;

	if (l.first + head < ICRC_PREFIX + ip_len + ICRC_MASKED && rest > head)
		head += stride;
	l.head = head / WORD;
	l.body = rest - head;
	return l;
}

/* All of the head on its last word. */
V128_INLINE v128
fold_head(const uint8_t *ip, uint32_t ip_len, const struct fold_layout *l)
{
	const uint8_t *p = ip - ICRC_PREFIX, *mask = icrc_fold.mask[ip_len != 20] + MASK_AT - WORD + l->first;
	v128 x = v128_choose(v128_load(p), v128_load(icrc_fold.shift + l->first)) | v128_load(mask);
	uint32_t left = l->head, masked = left < MASKED_WORDS ? left : MASKED_WORDS;

	if (left == 0)
		return x;
	x = fold(x, by_words(left), (v128){0});
	p += l->first;
	for (; masked > 0 && left > 1; p += WORD, masked--) {
		mask += WORD;
		x = fold(v128_load(p) | v128_load(mask), by_words(--left), x);
	}
	if (left == 1 && masked > 0)
		return x ^ (v128_load(p) | v128_load(mask + WORD));
	for (; left > 1; p += WORD)
		x = fold(v128_load(p), by_words(--left), x);
	return x ^ v128_load(p);
}

/* Head and body, each on its last word. */
V128_INLINE uint32_t
finish(v128 head, v128 body, uint32_t body_len)
{
	uint32_t words = body_len / WORD;

	for (; __builtin_expect(words > WORDS, 0); words -= WORDS)
		head = fold(head, by_words(WORDS), (v128){0});
	return reduce(fold(head, by_words(words), body));
}

#endif
