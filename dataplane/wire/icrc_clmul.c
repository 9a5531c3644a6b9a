/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICRC 128 bits at a time, by PCLMULQDQ on x86 and PMULL on aarch64. */
#if defined(__x86_64__) || defined(__aarch64__)

#include "icrc_fold.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define TARGET V128_TARGET
#define STREAMS 8u /* a multiplication takes up to 7 cycles; one can begin per cycle */
#define STRIDE (STREAMS * WORD)

V128_INLINE v128
load_and_store(const uint8_t *from, uint8_t *to, size_t at)
{
	v128 x = v128_load(from + at);

	if (to != NULL) {
		V128_LOADED(x);
		v128_store(to + at, x);
	}
	return x;
}

V128_INLINE v128
fold_body(const uint8_t *from, uint8_t *to, uint32_t len, struct moving *moving)
{
	v128 by = by_words(STREAMS), x[STREAMS], sum;

	for (uint32_t i = 0; i < STREAMS; i++)
		x[i] = load_and_store(from, to, i * WORD);
	for (size_t at = STRIDE; at < len; at += STRIDE) {
		for (uint32_t i = 0; i < STREAMS; i++)
			x[i] = fold_onto(x[i], by, load_and_store(from, to, at + i * WORD));
		if (moving != NULL && moving->left >= STRIDE)
			move_bytes(moving, STRIDE);
	}
	sum = x[STREAMS - 1];
	for (uint32_t i = 0; i < STREAMS - 1; i++)
		sum = fold_onto(x[i], by_words(STREAMS - 1 - i), sum);
	return sum;
}

#include "icrc_passes.h"

static bool
cpu_supports_it(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#else
	return (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0;
#endif
}

const struct icrc_impl icrc_clmul = {.name = "clmul",
				     .bits = 128,
				     .available = cpu_supports_it,
				     .compute = compute_crc,
				     .copy = compute_and_copy,
				     .beside = compute_and_move};

#endif
