/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICRC 256 bits at a time, for CPUs with VPCLMULQDQ and AVX2 but without AVX-512. */
#if defined(__x86_64__)

#include "icrc_fold.h"

#define TARGET __attribute__((target("avx2,pclmul,vpclmulqdq")))
#define BLOCK 32u
#define STREAMS 4u
#define STRIDE (STREAMS * BLOCK)

static inline TARGET __attribute__((always_inline)) __m256i
load_and_store(const uint8_t *from, uint8_t *to, size_t at)
{
	__m256i x = _mm256_loadu_si256((const void *)(from + at));

	if (to != NULL) {
		__asm__("" : "+x"(x));
		_mm256_storeu_si256((void *)(to + at), x);
	}
	return x;
}

static inline TARGET __attribute__((always_inline)) __m256i
fold_block(__m256i x, __m256i by, __m256i onto)
{
	return _mm256_clmulepi64_epi128(x, by, 0x00) ^ _mm256_clmulepi64_epi128(x, by, 0x11) ^ onto;
}

/* Fold both words of a stream, `words` + 1 and `words` in front of the last word, onto it. */
static inline TARGET __attribute__((always_inline)) v128
to_last_word(__m256i x, uint32_t words, v128 sum)
{
	v128 second = (v128)_mm256_extracti128_si256(x, 1);

	sum = fold_onto((v128)_mm256_castsi256_si128(x), by_words(words + 1), sum);
	return words == 0 ? second ^ sum : fold_onto(second, by_words(words), sum);
}

static inline TARGET __attribute__((always_inline)) v128
fold_body(const uint8_t *from, uint8_t *to, uint32_t len, struct moving *moving)
{
	__m256i by = _mm256_broadcastsi128_si256((__m128i)by_words(STRIDE / WORD)), x[STREAMS];
	v128 sum = {0};

	for (uint32_t i = 0; i < STREAMS; i++)
		x[i] = load_and_store(from, to, i * BLOCK);
	for (size_t at = STRIDE; at < len; at += STRIDE) {
		for (uint32_t i = 0; i < STREAMS; i++)
			x[i] = fold_block(x[i], by, load_and_store(from, to, at + i * BLOCK));
		if (moving != NULL && moving->left >= STRIDE)
			move_bytes(moving, STRIDE);
	}
	for (uint32_t i = 0; i < STREAMS; i++)
		sum = to_last_word(x[i], 2 * (STREAMS - 1 - i), sum);
	return sum;
}

#include "icrc_passes.h"

static bool
cpu_supports_it(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
	       __builtin_cpu_supports("vpclmulqdq");
}

const struct icrc_impl icrc_vpclmul256 = {.name = "vpclmul256",
					  .bits = 256,
					  .available = cpu_supports_it,
					  .compute = compute_crc,
					  .copy = compute_and_copy,
					  .beside = compute_and_move};

#endif
