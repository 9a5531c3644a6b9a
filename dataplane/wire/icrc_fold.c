/* SPDX-License-Identifier: BSD-3-Clause */
/* Constants of the ICRC by carry-less multiplication. */
#if defined(__x86_64__) || defined(__aarch64__)

#include "icrc_fold.h"

struct icrc_fold icrc_fold;

/* Multiplies r by x^more, modulo P. */
static uint32_t
times_x(uint32_t r, uint32_t more)
{
	while (more-- > 0)
		r = (r >> 1) ^ (r & 1 ? ICRC_POLYNOMIAL : 0);
	return r;
}

/* x^n mod P, shifted by one: the product of two bit-reversed numbers is one bit short. */
static uint64_t
power_of_x(uint32_t n)
{
	return (uint64_t)times_x(0x80000000u, n) << 1;
}

/* Quotient of x^64 by P, bit-reversed: 33 bits. */
static uint64_t
quotient_by_p(void)
{
	uint64_t q = 0;
	uint32_t r = 0x80000000u; /* x^0; it is x^64 after 64 steps, of which 33 can yield a bit */

	for (uint32_t i = 0; i < 64; i++) {
		q |= (uint64_t)(r & 1) << (i >= 31 ? i - 31 : 63);
		r = times_x(r, 1);
	}
	return q & 0x1ffffffffull;
}

void
icrc_fold_init(void)
{
	uint32_t r = times_x(0x80000000u, 96);

	for (uint32_t i = 1; i <= WORDS; i++) {
		icrc_fold.words[i][1] = (uint64_t)r << 1; /* x^(128 i - 32) */
		r = times_x(r, 64);
		icrc_fold.words[i][0] = (uint64_t)r << 1; /* x^(128 i + 32) */
		r = times_x(r, 64);
	}
	for (uint32_t i = 0; i < 15; i++)
		memcpy(&icrc_fold.lanes[i / 4][i % 4 * 2], icrc_fold.words[15 - i], WORD);
	icrc_fold.reduce[0][0] = power_of_x(128);
	icrc_fold.reduce[0][1] = power_of_x(64);
	icrc_fold.reduce[1][0] = power_of_x(96);
	icrc_fold.reduce[1][1] = 1;
	icrc_fold.quotient[0] = quotient_by_p();
	icrc_fold.polynomial[0] = (uint64_t)ICRC_POLYNOMIAL << 1 | 1;
	for (uint32_t i = 0; i < 2; i++) {
		memset(icrc_fold.mask[i] + MASK_AT, 0xff, ICRC_PREFIX);
		icrc_mask(icrc_fold.mask[i] + MASK_AT + ICRC_PREFIX, i == 0 ? 20 : 40);
	}
	for (uint32_t i = 0; i < WORD; i++) {
		icrc_fold.shift[i] = 0x80;
		icrc_fold.shift[WORD + i] = (uint8_t)i;
	}
}

#else

#include "icrc_impl.h"

void
icrc_fold_init(void)
{
}

#endif
