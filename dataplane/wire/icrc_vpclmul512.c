/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICRC 512 bits at a time, for CPUs with VPCLMULQDQ and AVX-512. Head and body are split into blocks of
 * 64 bytes. The first block has zeros in front of the message; those are not loaded. */
#if defined(__x86_64__)

#include "icrc_fold.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,pclmul,vpclmulqdq,sse4.1")))
#define INLINE static inline TARGET __attribute__((always_inline))
#define unlikely(x) __builtin_expect(!!(x), 0)
#define BLOCK 64u
#define STREAMS 4u                    /* streams folded in parallel in long messages */
#define BLOCKS (WORDS * WORD / BLOCK) /* the farthest that one fold moves a block */

INLINE __m512i
fold_block(__m512i x, __m512i by, __m512i onto)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),
					 _mm512_clmulepi64_epi128(x, by, 0x11), onto, 0x96);
}

INLINE __m512i
by_blocks(uint32_t blocks)
{
	return _mm512_broadcast_i64x2((__m128i)by_words(blocks * (BLOCK / WORD)));
}

/* Fold the last block of a stream to the last lane of the message. Each lane may have a part of the sum. */
INLINE __m512i
to_last_lane(__m512i block, uint32_t stream, __m512i onto)
{
	return fold_block(block, _mm512_load_si512(icrc_fold.lanes[stream]), onto);
}

/* Reduce to the CRC; `lanes` has all streams but the last. */
INLINE uint32_t
reduce_lanes(__m512i lanes, __m512i last)
{
	__m256i half;

	lanes = _mm512_mask_xor_epi64(lanes, 0xc0, lanes, last); /* the last lane is in place */
	lanes = to_last_lane(last, STREAMS - 1, lanes);
	half = _mm512_castsi512_si256(lanes) ^ _mm512_extracti64x4_epi64(lanes, 1);
	return reduce_word((v128)(_mm256_castsi256_si128(half) ^ _mm256_extracti64x2_epi64(half, 1)));
}

/* Load the 64 bytes at from + at exactly once; store the loaded value at to + at, unless `to` is NULL. */
INLINE __m512i
load_and_store(const uint8_t *from, uint8_t *to, size_t at)
{
	__m512i block = _mm512_loadu_si512(from + at);

	if (to != NULL) {
		__asm__("" : "+v"(block));
		_mm512_storeu_si512(to + at, block);
	}
	return block;
}

INLINE void
move_blocks(struct moving *moving, uint32_t blocks)
{
	for (uint32_t i = 0; i < blocks; i++) {
		_mm512_storeu_si512(moving->to + i * BLOCK, _mm512_loadu_si512(moving->from + i * BLOCK));
		/* Pairs with the acquire of an application that polls its memory: bytes appear in address
		 * order. */
		atomic_thread_fence(memory_order_release);
	}
	moving->to += blocks * BLOCK;
	moving->from += blocks * BLOCK;
	moving->left -= blocks * BLOCK;
}

/* Body of a message: blocks without masked fields, a multiple of STREAMS. */
struct body {
	__m512i stream[STREAMS];
};

/* Fold `blocks` blocks. Also copies `beside`, unless NULL. */
INLINE void
fold_body(struct body *body, const uint8_t *from, uint8_t *to, uint32_t blocks, struct moving *beside)
{
	__m512i by = by_blocks(STREAMS), x = load_and_store(from, to, 0), y = load_and_store(from, to, BLOCK),
		z = load_and_store(from, to, 2 * BLOCK), w = load_and_store(from, to, 3 * BLOCK);
	size_t end = (size_t)blocks * BLOCK;

	for (size_t at = STREAMS * BLOCK; at < end; at += STREAMS * BLOCK) {
		x = fold_block(x, by, load_and_store(from, to, at));
		y = fold_block(y, by, load_and_store(from, to, at + BLOCK));
		z = fold_block(z, by, load_and_store(from, to, at + 2 * BLOCK));
		w = fold_block(w, by, load_and_store(from, to, at + 3 * BLOCK));
		if (beside != NULL && beside->left >= STREAMS * BLOCK)
			move_blocks(beside, STREAMS);
	}
	body->stream[0] = x;
	body->stream[1] = y;
	body->stream[2] = z;
	body->stream[3] = w;
}

/* Layout of a message: the first block (partial), the rest of the head, and the body. */
struct block_layout {
	uint32_t first, head, body; /* bytes; blocks, of which at most the first has masked fields; blocks */
};

INLINE struct block_layout
lay_out_blocks(uint32_t ip_len, uint32_t len)
{
	struct block_layout l = {.first = (len + ICRC_PREFIX - 1) % BLOCK + 1};
	uint32_t blocks = (len + ICRC_PREFIX - l.first) / BLOCK;

	l.head = blocks % STREAMS;
	l.body = blocks - l.head;
	if (unlikely(l.head == 0 && l.body != 0 && l.first < ICRC_PREFIX + ip_len + ICRC_MASKED)) {
		l.head = STREAMS;
		l.body -= STREAMS;
	}
	return l;
}

INLINE __m512i
fold_head_blocks(const uint8_t *ip, uint32_t ip_len, const struct block_layout *l)
{
	const uint8_t *p = ip - ICRC_PREFIX, *mask = icrc_fold.mask[ip_len != 20] + MASK_AT;
	__mmask64 last = ~0ull << (BLOCK - l->first);
	__m512i x, by = by_blocks(1);

	/* Masked-out bytes in front of the message are not accessed. */
	x = _mm512_or_si512(_mm512_maskz_loadu_epi8(last, p - (BLOCK - l->first)),
			    _mm512_loadu_si512(mask - (BLOCK - l->first)));
	p += l->first;
	if (l->head > 0)
		x = fold_block(x, by,
			       _mm512_or_si512(_mm512_loadu_si512(p), _mm512_loadu_si512(mask + l->first)));
	for (uint32_t i = 1; i < l->head; i++)
		x = fold_block(x, by, _mm512_loadu_si512(p + i * BLOCK));
	return x;
}

INLINE uint32_t
finish_blocks(__m512i head, const struct body *body, uint32_t blocks)
{
	__m512i lanes;

	for (; unlikely(blocks > BLOCKS); blocks -= BLOCKS)
		head = fold_block(head, by_blocks(BLOCKS), _mm512_setzero_si512());
	lanes = to_last_lane(body->stream[0], 0, _mm512_setzero_si512());
	lanes = to_last_lane(body->stream[1], 1, lanes);
	lanes = to_last_lane(body->stream[2], 2, lanes);
	return reduce_lanes(lanes, fold_block(head, by_blocks(blocks), body->stream[3]));
}

INLINE uint32_t
pass_over(const uint8_t *ip, uint32_t ip_len, uint32_t len, struct moving *moving)
{
	struct block_layout l = lay_out_blocks(ip_len, len);
	__m512i head = fold_head_blocks(ip, ip_len, &l);
	struct body body;

	if (l.body == 0)
		return reduce_lanes(_mm512_setzero_si512(), head);
	fold_body(&body, ip + len - l.body * BLOCK, NULL, l.body, moving);
	return finish_blocks(head, &body, l.body);
}

static TARGET uint32_t
compute_crc(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	return pass_over(ip, ip_len, len, NULL);
}

/* Computing is bound by multiplications, copying by loads and stores: interleaved, the copy is nearly
 * free. */
static TARGET uint32_t
compute_and_move(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from,
		 uint32_t move_len)
{
	struct moving moving = {.to = to, .from = from, .left = move_len};
	uint32_t crc = pass_over(ip, ip_len, len, &moving);

	while (moving.left > 0)
		move_blocks(&moving, 1);
	return crc;
}

/* The head is loaded last: its bytes were just stored piecewise, and a wide load would wait for those
 * stores. */
static TARGET uint32_t
compute_and_copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	struct block_layout l = lay_out_blocks(ip_len, len);
	uint32_t body_len = l.body * BLOCK, rest;
	struct body body;

	if (unlikely(l.body == 0 || body_len > from_len)) {
		memcpy(ip + len - from_len, from, from_len);
		return compute_crc(ip, ip_len, len);
	}
	rest = from_len - body_len;
	fold_body(&body, from + rest, ip + len - body_len, l.body, NULL);
	if (rest != 0)
		memcpy(ip + len - from_len, from, rest);
	return finish_blocks(fold_head_blocks(ip, ip_len, &l), &body, l.body);
}

static bool
cpu_supports_it(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("vpclmulqdq");
}

const struct icrc_impl icrc_vpclmul512 = {.name = "vpclmul512",
					  .bits = 512,
					  .available = cpu_supports_it,
					  .compute = compute_crc,
					  .copy = compute_and_copy,
					  .beside = compute_and_move};

#endif
