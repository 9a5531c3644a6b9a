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
#define PREFIX 4u /* what is left of the eight all-ones bytes in front of the IP header */
#define BLOCK 64u
#define STREAMS 4u /* folded side by side in long messages */

/* In the order of bits that Ethernet's CRC has: bit 31 is x^0. */
#define POLYNOMIAL 0xEDB88320u

/* Zeros, the masked bits of a message, zeros: so that any of its blocks can be loaded, the first as well. */
static uint8_t mask_ipv4[3 * BLOCK], mask_ipv6[3 * BLOCK];

/* What 128 bits are multiplied by to go 512 bits and 4 x 512 bits on: the low, the high half. */
static uint64_t fold_one[8] __attribute__((aligned(64))), fold_streams[8] __attribute__((aligned(64)));
/* The lanes of a block to its last: by 384, 256 and 128 bits; the last lane stays. */
static uint64_t fold_lanes[8] __attribute__((aligned(64)));
static uint64_t fold_64[2] __attribute__((aligned(16))), fold_32[2] __attribute__((aligned(16)));
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
	for (uint32_t lane = 0; lane < 4; lane++) {
		uint32_t bits = 128 * (3 - lane);

		fold_one[2 * lane] = power(512 + 32);
		fold_one[2 * lane + 1] = power(512 - 32);
		fold_streams[2 * lane] = power(STREAMS * 512 + 32);
		fold_streams[2 * lane + 1] = power(STREAMS * 512 - 32);
		fold_lanes[2 * lane] = bits == 0 ? 0 : power(bits + 32);
		fold_lanes[2 * lane + 1] = bits == 0 ? 0 : power(bits - 32);
	}
	fold_64[0] = power(128 - 32);
	fold_32[0] = power(64);
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

/* The remainder of a block. */
static inline TARGET uint32_t
reduce(__m512i block)
{
	const __m128i low = _mm_set_epi32(0, 0, 0, -1);
	__m512i moved = fold(block, _mm512_load_si512(fold_lanes), _mm512_setzero_si512());
	__m128i a = _mm512_castsi512_si128(moved), b = _mm512_extracti64x2_epi64(moved, 1), x, q;

	x = _mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(_mm512_extracti64x2_epi64(moved, 2),
							     _mm512_extracti64x2_epi64(block, 3)));
	/* 128 bits to 96, to 64, and by Barrett's method to 32. */
	x = _mm_xor_si128(_mm_clmulepi64_si128(x, _mm_load_si128((const __m128i *)fold_64), 0x00),
			  _mm_srli_si128(x, 8));
	x = _mm_xor_si128(
		_mm_clmulepi64_si128(_mm_and_si128(x, low), _mm_load_si128((const __m128i *)fold_32), 0x00),
		_mm_srli_si128(x, 4));
	q = _mm_clmulepi64_si128(_mm_and_si128(x, low), _mm_load_si128((const __m128i *)barrett), 0x00);
	q = _mm_clmulepi64_si128(_mm_and_si128(q, low), _mm_load_si128((const __m128i *)barrett), 0x10);
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

/* x, and behind it so many blocks; meanwhile what is to be moved `beside`, unless that is NULL. */
static inline TARGET __attribute__((always_inline)) __m512i
fold_blocks(__m512i x, const uint8_t *from, uint8_t *to, uint32_t blocks, struct moving *beside)
{
	__m512i by = _mm512_load_si512(fold_one);
	size_t at = 0, end = (size_t)blocks * BLOCK;

	if (blocks >= 2 * STREAMS) {
		__m512i far = _mm512_load_si512(fold_streams), y = take(from, to, 0),
			z = take(from, to, BLOCK), w = take(from, to, 2 * BLOCK);

		for (at = 3 * BLOCK; end - at >= STREAMS * BLOCK; at += STREAMS * BLOCK) {
			x = fold(x, far, take(from, to, at));
			y = fold(y, far, take(from, to, at + BLOCK));
			z = fold(z, far, take(from, to, at + 2 * BLOCK));
			w = fold(w, far, take(from, to, at + 3 * BLOCK));
			if (beside != NULL && beside->left >= STREAMS * BLOCK)
				move_blocks(beside, STREAMS);
		}
		x = fold(fold(fold(x, by, y), by, z), by, w);
	}
	for (; at < end; at += BLOCK)
		x = fold(x, by, take(from, to, at));
	return x;
}

/* What stands for the first one or two blocks, the ones with masked fields; *done: bytes of the message. */
static inline TARGET __attribute__((always_inline)) __m512i
head(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint32_t *done)
{
	const uint8_t *p = ip - PREFIX, *mask = (ip_len == 20 ? mask_ipv4 : mask_ipv6) + BLOCK;
	uint32_t first = (len + PREFIX - 1) % BLOCK + 1;
	__mmask64 last = ~0ull << (BLOCK - first);
	__m512i x;

	/* Bytes in front of the message are masked out, and so not touched. */
	x = _mm512_or_si512(_mm512_maskz_loadu_epi8(last, p - (BLOCK - first)),
			    _mm512_loadu_si512(mask - (BLOCK - first)));
	*done = first - PREFIX;
	if (len + PREFIX > first) {
		x = fold(x, _mm512_load_si512(fold_one),
			 _mm512_or_si512(_mm512_loadu_si512(p + first), _mm512_loadu_si512(mask + first)));
		*done += BLOCK;
	}
	return x;
}

TARGET uint32_t
icrc_wide(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	uint32_t done;
	__m512i x = head(ip, ip_len, len, &done);

	return reduce(fold_blocks(x, ip + done, NULL, (len - done) / BLOCK, NULL));
}

/*
 * The multiplications take all the time there is here, loads and stores hardly any; a copy is
 * the other way round.
 */
TARGET uint32_t
icrc_wide_beside(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from,
		 uint32_t move_len)
{
	struct moving moving = {.to = to, .from = from, .left = move_len};
	uint32_t done;
	__m512i x = head(ip, ip_len, len, &done);

	x = fold_blocks(x, ip + done, NULL, (len - done) / BLOCK, &moving);
	while (moving.left > 0)
		move_blocks(&moving, 1);
	return reduce(x);
}

TARGET uint32_t
icrc_wide_copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	uint32_t lead = len - from_len / BLOCK * BLOCK, done; /* up to where whole blocks are left to copy */
	__m512i x;

	memcpy(ip + len - from_len, from, from_len % BLOCK);
	x = head(ip, ip_len, lead, &done);
	for (; done < lead; done += BLOCK)
		x = fold(x, _mm512_load_si512(fold_one), _mm512_loadu_si512(ip + done));
	return reduce(fold_blocks(x, from + from_len % BLOCK, ip + lead, from_len / BLOCK, NULL));
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
