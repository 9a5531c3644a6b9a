/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of the fake engine. */
#include <string.h>

#include "dataplane/engine.h"

uint32_t
engine_core_lcore(uint32_t core)
{
	return 1;
}

uint64_t
engine_hz(void)
{
	return 1000000000;
}

/* Each counter has its own value, its index, so that a test sees which one is printed. */
void
engine_stats(uint32_t core, struct engine_stats *out)
{
	uint64_t words[sizeof(*out) / sizeof(uint64_t)];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		words[i] = i;
	memcpy(out, words, sizeof(*out));
}

bool
engine_port_stats(uint32_t index, struct engine_port_stats *out)
{
	*out = (struct engine_port_stats){.rx_packets = 11, .tx_packets = 12};
	return index == 0;
}
