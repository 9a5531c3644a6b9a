/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ICRC by carry-less multiplication, 64 bytes at a time, for CPUs that have
 * VPCLMULQDQ.  Beside speed, what rte_net_crc cannot do is to mask: here the
 * fields that routers may change are covered in registers.  So the frame is not
 * written, and the first loads do not wait for bytes that have just been stored.
 *
 * A message is a polynomial over GF(2), its remainder by P the CRC.  128 bits A
 * that stand n bits in front of others may be replaced by A times x^n mod P added
 * to those ("folding"); leading zeros change nothing.  So the message is taken
 * from its end: blocks of 64 bytes, and what remains in front of them is the
 * first block, zeros before it.  The CRC's initial value is added to the first
 * four bytes; those are the all-ones that stand for the LRH, so four zeros
 * remain, and are left out.
 */
#include "icrc.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,pclmul,vpclmulqdq,sse4.1")))
#define unlikely(x) __builtin_expect(!!(x), 0)
#define PREFIX 4u /* what is left of the eight all-ones bytes in front of the IP header */
#define BLOCK 64u
#define MASKED (8u + 5u) /* bytes behind the IP header up to the last masked one */
#define STREAMS 4u       /* folded side by side in long messages */
#define BLOCKS 64u       /* a payload of 4096 */

/* In the order of bits that Ethernet's CRC has: bit 31 is x^0. */
#define POLYNOMIAL 0xEDB88320u

/* Zeros, the masked bits of a message, zeros: so that any of its blocks can be loaded, the first as well. */
static uint8_t mask_ipv4[3 * BLOCK], mask_ipv6[3 * BLOCK];

/*
 * What 128 bits are multiplied by to go so many blocks on: the low, the high half.  What stands in front of a
 * long message goes over it in one step, or in a few where that is longer than BLOCKS.
 */
static uint64_t fold_blocks[BLOCKS + 1][2] __attribute__((aligned(16)));
/* The lanes of the last block of each stream to the last lane of the last one, which stays. */
static uint64_t fold_lanes[STREAMS][8] __attribute__((aligned(64)));
/* The words of 128 bits, but for the last, to 64 bits. */
static uint64_t fold_words[4] __attribute__((aligned(16)));
static uint64_t barrett[2] __attribute__((aligned(16)));

/* x^n mod P, one place up: the product of two reversed numbers is one place short. */
static uint64_t
power(uint32_t n)
{
	uint32_t r = 0x80000000u;

	while (n-- > 0)
		r = (r >> 1) ^ (r & 1 ? POLYNOMIAL : 0);
	return (uint64_t)r << 1;
}

/* The quotient of x^64 by P, reversed: 33 bits. */
static uint64_t
quotient(void)
{
	uint64_t q = 0;
	uint32_t r = 0x80000000u; /* x^0; x^64 after 64 steps, of which 33 can yield a bit */

	for (uint32_t i = 0; i < 64; i++) {
		q |= (uint64_t)(r & 1) << (i >= 31 ? i - 31 : 63);
		r = (r >> 1) ^ (r & 1 ? POLYNOMIAL : 0);
	}
	return q & 0x1ffffffffull;
}

static void
mask_init(uint8_t *mask, uint32_t ip_len)
{
	uint8_t *message = mask + BLOCK, *ip = message + PREFIX;

	for (uint32_t i = 0; i < PREFIX; i++)
		message[i] = 0xff;
	if (ip_len == 20) {
		ip[1] = ip[8] = ip[10] = ip[11] = 0xff; /* type of service, time to live, checksum */
	} else {
		ip[0] = 0x0f; /* traffic class and flow label, hop limit */
		ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
	}
	ip[ip_len + 6] = ip[ip_len + 7] = 0xff; /* UDP's checksum */
	ip[ip_len + 8 + 4] = 0xff;              /* FECN, BECN and reserved bits of the BTH */
}

void
icrc_wide_init(void)
{
	for (uint32_t i = 1; i <= BLOCKS; i++) {
		fold_blocks[i][0] = power(i * 512 + 32);
		fold_blocks[i][1] = power(i * 512 - 32);
	}
	for (uint32_t i = 0; i < 4 * STREAMS - 1; i++) {
		uint32_t bits = 128 * (4 * STREAMS - 1 - i);

		fold_lanes[i / 4][i % 4 * 2] = power(bits + 32);
		fold_lanes[i / 4][i % 4 * 2 + 1] = power(bits - 32);
	}
	for (uint32_t i = 0; i < 3; i++)
		fold_words[i] = power(128 - 32 * i);
	barrett[0] = quotient();
	barrett[1] = (uint64_t)POLYNOMIAL << 1 | 1;
	mask_init(mask_ipv4, 20);
	mask_init(mask_ipv6, 40);
}

bool
icrc_wide_supported(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("vpclmulqdq");
}

static inline TARGET __m512i
fold(__m512i block, __m512i by, __m512i onto)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(block, by, 0x00),
					 _mm512_clmulepi64_epi128(block, by, 0x11), onto, 0x96);
}

static inline TARGET __m512i
by_blocks(uint32_t blocks)
{
	return _mm512_broadcast_i64x2(_mm_load_si128((const __m128i *)fold_blocks[blocks]));
}

/* What a stream ends with, to the last lane of the message; any lane may have part of the sum. */
static inline TARGET __m512i
to_last_lane(__m512i block, uint32_t stream, __m512i onto)
{
	return fold(block, _mm512_load_si512(fold_lanes[stream]), onto);
}

/* The remainder, when all streams but the last are in `lanes`. */
static inline TARGET uint32_t
reduce(__m512i lanes, __m512i last)
{
	const __m128i low = _mm_set_epi32(0, 0, 0, -1);
	const __m128i k01 = _mm_load_si128((const __m128i *)fold_words),
		      k2 = _mm_load_si128((const __m128i *)(fold_words + 2)),
		      p = _mm_load_si128((const __m128i *)barrett);
	__m256i half;
	__m128i x, y, q;

	lanes = _mm512_mask_xor_epi64(lanes, 0xc0, lanes, last); /* its last lane is where it belongs */
	lanes = to_last_lane(last, STREAMS - 1, lanes);
	half = _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
	x = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti64x2_epi64(half, 1));
	/* 128 bits to 64, and by Barrett's method to 32. */
	y = _mm_srli_epi64(x, 32);
	x = _mm_and_si128(x, _mm_set_epi32(0, -1, 0, -1));
	x = _mm_xor_si128(
		_mm_xor_si128(_mm_clmulepi64_si128(x, k01, 0x00), _mm_clmulepi64_si128(y, k01, 0x10)),
		_mm_xor_si128(_mm_clmulepi64_si128(x, k2, 0x01), _mm_unpackhi_epi64(y, y)));
	q = _mm_clmulepi64_si128(_mm_and_si128(x, low), p, 0x00);
	q = _mm_clmulepi64_si128(_mm_and_si128(q, low), p, 0x10);
	return ~(uint32_t)_mm_extract_epi32(_mm_xor_si128(x, q), 1);
}

/*
 * The 64 bytes at from + at, and stored at to + at too, unless `to` is NULL.  They are loaded
 * once: what is stored is what the CRC covers, whatever others do to `from` meanwhile.
 */
static inline TARGET __attribute__((always_inline)) __m512i
take(const uint8_t *from, uint8_t *to, size_t at)
{
	__m512i block = _mm512_loadu_si512(from + at);

	if (to != NULL) {
		__asm__("" : "+v"(block));
		_mm512_storeu_si512(to + at, block);
	}
	return block;
}

/* Bytes on their way to another place. */
struct moving {
	uint8_t *to;
	const uint8_t *from;
	uint32_t left;
};

static inline TARGET __attribute__((always_inline)) void
move_blocks(struct moving *moving, uint32_t blocks)
{
	for (uint32_t i = 0; i < blocks; i++)
		_mm512_storeu_si512(moving->to + i * BLOCK, _mm512_loadu_si512(moving->from + i * BLOCK));
	moving->to += blocks * BLOCK;
	moving->from += blocks * BLOCK;
	moving->left -= blocks * BLOCK;
}

/* The body of a message: blocks without masked fields, a multiple of STREAMS. */
struct body {
	__m512i stream[STREAMS];
};

/* So many of them; meanwhile what is to be moved `beside`, unless that is NULL. */
static inline TARGET __attribute__((always_inline)) void
fold_body(struct body *body, const uint8_t *from, uint8_t *to, uint32_t blocks, struct moving *beside)
{
	__m512i by = by_blocks(STREAMS), x = take(from, to, 0), y = take(from, to, BLOCK),
		z = take(from, to, 2 * BLOCK), w = take(from, to, 3 * BLOCK);
	size_t end = (size_t)blocks * BLOCK;

	for (size_t at = STREAMS * BLOCK; at < end; at += STREAMS * BLOCK) {
		x = fold(x, by, take(from, to, at));
		y = fold(y, by, take(from, to, at + BLOCK));
		z = fold(z, by, take(from, to, at + 2 * BLOCK));
		w = fold(w, by, take(from, to, at + 3 * BLOCK));
		if (beside != NULL && beside->left >= STREAMS * BLOCK)
			move_blocks(beside, STREAMS);
	}
	body->stream[0] = x;
	body->stream[1] = y;
	body->stream[2] = z;
	body->stream[3] = w;
}

/* A message: the first block, to which zeros in front of it belong, more of the head, and the body. */
struct layout {
	uint32_t first, head, body; /* bytes; blocks, of which one at most has masked fields; blocks */
};

static inline struct layout
lay_out(uint32_t ip_len, uint32_t len)
{
	struct layout l = {.first = (len + PREFIX - 1) % BLOCK + 1};
	uint32_t blocks = (len + PREFIX - l.first) / BLOCK;

	l.head = blocks % STREAMS;
	l.body = blocks - l.head;
	if (unlikely(l.head == 0 && l.body != 0 && l.first < PREFIX + ip_len + MASKED)) {
		l.head = STREAMS;
		l.body -= STREAMS;
	}
	return l;
}

static inline TARGET __attribute__((always_inline)) __m512i
fold_head(const uint8_t *ip, uint32_t ip_len, const struct layout *l)
{
	const uint8_t *p = ip - PREFIX, *mask = (ip_len == 20 ? mask_ipv4 : mask_ipv6) + BLOCK;
	__mmask64 last = ~0ull << (BLOCK - l->first);
	__m512i x, by = by_blocks(1);

	/* Bytes in front of the message are masked out, and so not touched. */
	x = _mm512_or_si512(_mm512_maskz_loadu_epi8(last, p - (BLOCK - l->first)),
			    _mm512_loadu_si512(mask - (BLOCK - l->first)));
	p += l->first;
	if (l->head > 0)
		x = fold(x, by, _mm512_or_si512(_mm512_loadu_si512(p), _mm512_loadu_si512(mask + l->first)));
	for (uint32_t i = 1; i < l->head; i++)
		x = fold(x, by, _mm512_loadu_si512(p + i * BLOCK));
	return x;
}

static inline TARGET __attribute__((always_inline)) uint32_t
finish(__m512i head, const struct body *body, uint32_t blocks)
{
	__m512i lanes;

	for (; unlikely(blocks > BLOCKS); blocks -= BLOCKS)
		head = fold(head, by_blocks(BLOCKS), _mm512_setzero_si512());
	lanes = to_last_lane(body->stream[0], 0, _mm512_setzero_si512());
	lanes = to_last_lane(body->stream[1], 1, lanes);
	lanes = to_last_lane(body->stream[2], 2, lanes);
	return reduce(lanes, fold(head, by_blocks(blocks), body->stream[3]));
}

TARGET uint32_t
icrc_wide(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	struct layout l = lay_out(ip_len, len);
	__m512i head = fold_head(ip, ip_len, &l);
	struct body body;

	if (l.body == 0)
		return reduce(_mm512_setzero_si512(), head);
	fold_body(&body, ip + len - l.body * BLOCK, NULL, l.body, NULL);
	return finish(head, &body, l.body);
}

/* The multiplications take all the time there is here, loads and stores hardly any; a copy is the other way
 * round. */
TARGET uint32_t
icrc_wide_beside(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from,
		 uint32_t move_len)
{
	struct moving moving = {.to = to, .from = from, .left = move_len};
	struct layout l = lay_out(ip_len, len);
	__m512i head = fold_head(ip, ip_len, &l);
	struct body body;
	uint32_t crc;

	if (l.body == 0) {
		crc = reduce(_mm512_setzero_si512(), head);
	} else {
		fold_body(&body, ip + len - l.body * BLOCK, NULL, l.body, &moving);
		crc = finish(head, &body, l.body);
	}
	while (moving.left > 0)
		move_blocks(&moving, 1);
	return crc;
}

/* The headers have just been stored, in parts: a wide load of them waits, so it comes last. */
TARGET uint32_t
icrc_wide_copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	struct layout l = lay_out(ip_len, len);
	uint32_t body_len = l.body * BLOCK, rest;
	struct body body;

	if (unlikely(l.body == 0 || body_len > from_len)) {
		memcpy(ip + len - from_len, from, from_len);
		return icrc_wide(ip, ip_len, len);
	}
	rest = from_len - body_len;
	fold_body(&body, from + rest, ip + len - body_len, l.body, NULL);
	if (rest != 0)
		memcpy(ip + len - from_len, from, rest);
	return finish(fold_head(ip, ip_len, &l), &body, l.body);
}

#else

bool
icrc_wide_supported(void)
{
	return false;
}

void
icrc_wide_init(void)
{
}

uint32_t
icrc_wide(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	(void)ip;
	(void)ip_len;
	(void)len;
	__builtin_unreachable();
}

uint32_t
icrc_wide_copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	(void)ip;
	(void)ip_len;
	(void)len;
	(void)from;
	(void)from_len;
	__builtin_unreachable();
}

uint32_t
icrc_wide_beside(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from,
		 uint32_t move_len)
{
	(void)ip;
	(void)ip_len;
	(void)len;
	(void)to;
	(void)from;
	(void)move_len;
	__builtin_unreachable();
}

#endif
