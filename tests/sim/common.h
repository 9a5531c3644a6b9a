/* SPDX-License-Identifier: BSD-3-Clause */
/* What the simulator, the modelled link and the hostile peers share. */
#ifndef TESTS_SIM_COMMON_H
#define TESTS_SIM_COMMON_H

#include "dataplane/wire.h"

/* SplitMix64. */
static inline uint64_t
next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* A packet with its payload, each in a block of its own size for the address sanitizer. */
const struct wire_packet *packet_copy(const struct wire_packet *packet);
void packet_free(const struct wire_packet *copy);

#endif
