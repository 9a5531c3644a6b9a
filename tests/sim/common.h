/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers for the simulator, the modelled link and the hostile peers. */
#ifndef TESTS_SIM_COMMON_H
#define TESTS_SIM_COMMON_H

#include <stdint.h>

/* SplitMix64. */
static inline uint64_t
next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

#endif
