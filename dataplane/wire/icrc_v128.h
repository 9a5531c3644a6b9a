/* SPDX-License-Identifier: BSD-3-Clause */
/* Registers of 128 bits in two halves and their carry-less multiplication, for x86 and aarch64. The
 * compiler's vector operators are the same on both. */
#ifndef DATAPLANE_ICRC_V128_H
#define DATAPLANE_ICRC_V128_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

#include <immintrin.h>

#define V128_TARGET __attribute__((target("sse4.1,pclmul")))
#define V128_INLINE static inline V128_TARGET __attribute__((always_inline))

typedef uint64_t v128 __attribute__((vector_size(16)));

/* Keep the value in the register: the compiler must not load it again, since the memory may change. */
#define V128_LOADED(x) __asm__("" : "+x"(x))

/* Byte i of the result is byte at[i] of x, or zero where at[i] is 0x80. */
V128_INLINE v128
v128_choose(v128 x, v128 at)
{
	return (v128)_mm_shuffle_epi8((__m128i)x, (__m128i)at);
}

/* Products of the low halves and, below, of the high halves. */
V128_INLINE v128
v128_mul_low(v128 x, v128 y)
{
	return (v128)_mm_clmulepi64_si128((__m128i)x, (__m128i)y, 0x00);
}

V128_INLINE v128
v128_mul_high(v128 x, v128 y)
{
	return (v128)_mm_clmulepi64_si128((__m128i)x, (__m128i)y, 0x11);
}

#elif defined(__aarch64__)

#include <arm_neon.h>

#define V128_TARGET __attribute__((target("+crypto")))
#define V128_INLINE static inline V128_TARGET __attribute__((always_inline))

typedef uint64x2_t v128;

#define V128_LOADED(x) __asm__("" : "+w"(x))

V128_INLINE v128
v128_choose(v128 x, v128 at)
{
	return vreinterpretq_u64_u8(vqtbl1q_u8(vreinterpretq_u8_u64(x), vreinterpretq_u8_u64(at)));
}

V128_INLINE v128
v128_mul_low(v128 x, v128 y)
{
	return vreinterpretq_u64_p128(vmull_p64((poly64_t)x[0], (poly64_t)y[0]));
}

V128_INLINE v128
v128_mul_high(v128 x, v128 y)
{
	return vreinterpretq_u64_p128(vmull_high_p64(vreinterpretq_p64_u64(x), vreinterpretq_p64_u64(y)));
}

#endif

V128_INLINE v128
v128_load(const void *p)
{
	v128 x;

	memcpy(&x, p, sizeof(x));
	return x;
}

V128_INLINE void
v128_store(void *p, v128 x)
{
	memcpy(p, &x, sizeof(x));
}

#endif
