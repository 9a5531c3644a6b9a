/* SPDX-License-Identifier: BSD-3-Clause */
/* Registers of 128 bits and their carry-less multiplication, on x86 and on aarch64. */
#ifndef DATAPLANE_ICRC_V128_H
#define DATAPLANE_ICRC_V128_H

#include <stdint.h>

#if defined(__x86_64__)

#include <immintrin.h>

#define V128_TARGET __attribute__((target("sse4.1,pclmul")))
#define V128_INLINE static inline V128_TARGET __attribute__((always_inline))

typedef __m128i v128;

V128_INLINE v128
v128_load(const void *p)
{
	return _mm_loadu_si128(p);
}

V128_INLINE void
v128_store(void *p, v128 x)
{
	_mm_storeu_si128(p, x);
}

V128_INLINE v128
v128_zero(void)
{
	return _mm_setzero_si128();
}

V128_INLINE v128
v128_xor(v128 x, v128 y)
{
	return _mm_xor_si128(x, y);
}

V128_INLINE v128
v128_or(v128 x, v128 y)
{
	return _mm_or_si128(x, y);
}

V128_INLINE v128
v128_and(v128 x, v128 y)
{
	return _mm_and_si128(x, y);
}

/* Each half, right by 32 bits. */
V128_INLINE v128
v128_right32(v128 x)
{
	return _mm_srli_epi64(x, 32);
}

V128_INLINE uint64_t
v128_low(v128 x)
{
	return (uint64_t)_mm_cvtsi128_si64(x);
}

/* Byte i is byte at[i] of x, or zero where that is 0x80. */
V128_INLINE v128
v128_choose(v128 x, v128 at)
{
	return _mm_shuffle_epi8(x, at);
}

/* The products of the low, of the high halves. */
V128_INLINE v128
v128_mul_low(v128 x, v128 y)
{
	return _mm_clmulepi64_si128(x, y, 0x00);
}

V128_INLINE v128
v128_mul_high(v128 x, v128 y)
{
	return _mm_clmulepi64_si128(x, y, 0x11);
}

/* What is in the register now stays there: it is not loaded again. */
#define V128_LOADED(x) __asm__("" : "+x"(x))

#elif defined(__aarch64__)

#include <arm_neon.h>

#define V128_TARGET __attribute__((target("+crypto")))
#define V128_INLINE static inline V128_TARGET __attribute__((always_inline))

typedef uint64x2_t v128;

V128_INLINE v128
v128_load(const void *p)
{
	return vreinterpretq_u64_u8(vld1q_u8(p));
}

V128_INLINE void
v128_store(void *p, v128 x)
{
	vst1q_u8(p, vreinterpretq_u8_u64(x));
}

V128_INLINE v128
v128_zero(void)
{
	return vdupq_n_u64(0);
}

V128_INLINE v128
v128_xor(v128 x, v128 y)
{
	return veorq_u64(x, y);
}

V128_INLINE v128
v128_or(v128 x, v128 y)
{
	return vorrq_u64(x, y);
}

V128_INLINE v128
v128_and(v128 x, v128 y)
{
	return vandq_u64(x, y);
}

/* Each half, right by 32 bits. */
V128_INLINE v128
v128_right32(v128 x)
{
	return vshrq_n_u64(x, 32);
}

V128_INLINE uint64_t
v128_low(v128 x)
{
	return vgetq_lane_u64(x, 0);
}

/* Byte i is byte at[i] of x, or zero where that is 0x80. */
V128_INLINE v128
v128_choose(v128 x, v128 at)
{
	return vreinterpretq_u64_u8(vqtbl1q_u8(vreinterpretq_u8_u64(x), vreinterpretq_u8_u64(at)));
}

/* The products of the low, of the high halves. */
V128_INLINE v128
v128_mul_low(v128 x, v128 y)
{
	return vreinterpretq_u64_p128(
		vmull_p64((poly64_t)vgetq_lane_u64(x, 0), (poly64_t)vgetq_lane_u64(y, 0)));
}

V128_INLINE v128
v128_mul_high(v128 x, v128 y)
{
	return vreinterpretq_u64_p128(vmull_high_p64(vreinterpretq_p64_u64(x), vreinterpretq_p64_u64(y)));
}

/* What is in the register now stays there: it is not loaded again. */
#define V128_LOADED(x) __asm__("" : "+w"(x))

#endif
#endif
