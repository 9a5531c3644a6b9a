/* SPDX-License-Identifier: BSD-3-Clause */
/* So many grace periods, one after the other.  One thread's. */
#ifndef DATAPLANE_ESP_ROUNDS_H
#define DATAPLANE_ESP_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/engine.h"

struct esp_rounds {
	uint64_t grace;
	uint32_t left;
};

static inline void
esp_rounds_begin(struct esp_rounds *rounds, uint32_t n)
{
	rounds->left = n;
	rounds->grace = engine_grace_start();
}

/* To be asked again and again. */
static inline bool
esp_rounds_over(struct esp_rounds *rounds)
{
	if (rounds->left > 0 && engine_grace_over(rounds->grace)) {
		rounds->left--;
		rounds->grace = engine_grace_start();
	}
	return rounds->left == 0;
}

#endif
