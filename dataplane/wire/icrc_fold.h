/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ICRC by carry-less multiplication.
 *
 * A message is a polynomial over GF(2); the CRC is its remainder by P. 128 bits A that are n bits in front of
 * others may be replaced by adding A times x^n mod P to those ("folding"). Leading zeros change nothing. So
 * the message is split from its end into words of 128 bits; the bytes left over at the front are the first
 * word, with zeros before them. The head covers at least the masked bits; each of its words is folded on its
 * own onto the last word of the head. The body, a multiple of STRIDE bytes, is folded in as many streams as
 * the CPU can multiply in parallel.
 *
 * The CRC's initial value is added to the first four bytes. Those are all ones (in place of the LRH), so the
 * sum is four zeros, which are left out.
 *
 * Fields that routers may change are masked in registers. So the frame is not written, and the first loads do
 * not wait for bytes that were just stored.
 */
#ifndef DATAPLANE_ICRC_FOLD_H
#define DATAPLANE_ICRC_FOLD_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "icrc_impl.h"
#include "icrc_v128.h"

#define ICRC_PREFIX 4u /* rest of the eight all-ones bytes in front of the IP header */
#define WORD 16u
#define WORDS 264u      /* payload of 4096 bytes with headers */
#define MASKED_WORDS 4u /* after the first word, words that can have masked bits */
#define MASK_AT 64u
#define MOVE_UNIT 64u

struct icrc_fold {
	/* Factors that move a word forward by the index, in words: for its low and its high half. */
	uint64_t words[WORDS + 1][2];
	uint64_t reduce[2][2], quotient[2], polynomial[2]; /* 128 bits to 64; Barrett reduction */
	/* Factors from each word of four blocks of 64 bytes to the last word, which is not multiplied. */
	uint64_t lanes[4][8] __attribute__((aligned(64)));
	uint8_t mask[2][3 * MASK_AT]; /* zeros, masked bits of a message with IPv4 or IPv6, zeros */
	uint8_t shift[2 * WORD];      /* indices for v128_choose() that shift the first n bytes to the end */
} __attribute__((aligned(64)));

extern struct icrc_fold icrc_fold;

/* Bytes still to be copied. */
struct moving {
	uint8_t *to;
	const uint8_t *from;
	uint32_t left;
};

V128_INLINE v128
fold_onto(v128 x, v128 by, v128 onto)
{
	return v128_mul_low(x, by) ^ v128_mul_high(x, by) ^ onto;
}

V128_INLINE v128
by_words(uint32_t words)
{
	return v128_load(icrc_fold.words[words]);
}

V128_INLINE uint32_t
reduce_word(v128 x)
{
	const v128 low = {0xffffffff, 0xffffffff};
	v128 k02 = v128_load(icrc_fold.reduce[0]), k13 = v128_load(icrc_fold.reduce[1]), q;

	x = fold_onto(x & low, k02, fold_onto(x >> 32, k13, (v128){0}));
	q = v128_mul_low(x & low, v128_load(icrc_fold.quotient));
	q = v128_mul_low(q & low, v128_load(icrc_fold.polynomial));
	return ~(uint32_t)((x ^ q)[0] >> 32);
}

/* Address order: a reader that sees a byte sees all bytes before it. */
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
lay_out_fold(uint32_t ip_len, uint32_t len, uint32_t stride)
{
	struct fold_layout l = {.first = (len + ICRC_PREFIX - 1) % WORD + 1};
	uint32_t rest = len + ICRC_PREFIX - l.first, head = rest % stride;

	if (l.first + head < ICRC_PREFIX + ip_len + ICRC_MASKED && rest > head)
		head += stride;
	l.head = head / WORD;
	l.body = rest - head;
	return l;
}

/* Fold the whole head onto its last word. */
V128_INLINE v128
fold_head(const uint8_t *ip, uint32_t ip_len, const struct fold_layout *l)
{
	const uint8_t *p = ip - ICRC_PREFIX, *mask = icrc_fold.mask[ip_len != 20] + MASK_AT - WORD + l->first;
	v128 x = v128_choose(v128_load(p), v128_load(icrc_fold.shift + l->first)) | v128_load(mask);
	uint32_t left = l->head, masked = left < MASKED_WORDS ? left : MASKED_WORDS;

	if (left == 0)
		return x;
	x = fold_onto(x, by_words(left), (v128){0});
	p += l->first;
	for (; masked > 0 && left > 1; p += WORD, masked--) {
		mask += WORD;
		x = fold_onto(v128_load(p) | v128_load(mask), by_words(--left), x);
	}
	if (left == 1 && masked > 0)
		return x ^ (v128_load(p) | v128_load(mask + WORD));
	for (; left > 1; p += WORD)
		x = fold_onto(v128_load(p), by_words(--left), x);
	return x ^ v128_load(p);
}

/* Combine head and body, each folded onto its last word, and reduce to the CRC. */
V128_INLINE uint32_t
finish_fold(v128 head, v128 body, uint32_t body_len)
{
	uint32_t words = body_len / WORD;

	for (; __builtin_expect(words > WORDS, 0); words -= WORDS)
		head = fold_onto(head, by_words(WORDS), (v128){0});
	return reduce_word(fold_onto(head, by_words(words), body));
}

#endif
