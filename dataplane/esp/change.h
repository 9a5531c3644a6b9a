/* SPDX-License-Identifier: BSD-3-Clause */
/* A new set of security associations takes effect whole or not at all: prepared on a thread that may wait for
 * files and keys, put in force by the control thread. One change at a time. */
#ifndef DATAPLANE_ESP_CHANGE_H
#define DATAPLANE_ESP_CHANGE_H

#include "config/config.h"

struct esp_change;

/* Read the keys of `config` and make new security associations. Those with the same key, SPI and peer
 * continue unchanged. `trial`: the change will not be put in force, and reserves no sequence numbers. Returns
 * 0, or -errno with a sentence in `why`. */
int esp_change_prepare(const struct config *config, bool trial, struct esp_change **change, char *why,
		       size_t why_len);
/* Returns true if the new table has peers. */
bool esp_change_commit(struct esp_change *change);

/* After a change that was prepared while the keeper was on hold: begin the associations in force that no
 * record has continued, at the numbers of their files. They send when the keeper has reserved more. No core
 * runs. Returns 0, or -errno with a sentence. */
int esp_begin_rest(char *why, size_t why_len);

/* Call esp_init() before the first change, esp_fini() at the end, when no core runs any more. */
int esp_init(uint32_t cores, char *why, size_t why_len);
void esp_fini(void); /* before the devices are closed */

#endif
