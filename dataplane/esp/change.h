/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another set of security associations, whole or not at all: prepared where files and keys may take their
 * time, put in force by the control thread.  One at a time.
 */
#ifndef DATAPLANE_ESP_CHANGE_H
#define DATAPLANE_ESP_CHANGE_H

#include "config/config.h"

struct esp_change;

/*
 * Reads the keys of `config` and makes what is new; what has the same key, SPI and peer goes on as it is.
 * `trial`: it will not be put in force, and no sequence numbers are taken.  0 or -errno and a sentence.
 */
int esp_change_prepare(const struct config *config, bool trial, struct esp_change **change, char *why,
		       size_t why_len);
/* True: there are peers in force. */
bool esp_change_commit(struct esp_change *change);

/* Before the first, and at the end when no core runs any more. */
int esp_init(uint32_t cores, char *why, size_t why_len);
void esp_fini(void); /* before the devices are closed */

#endif
