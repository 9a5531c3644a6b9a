/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of security associations that outlives the process: one file per key and SPI, in a directory that one
 * data plane has for itself. These functions wait for the disk: do not call them on cores, nor on the control
 * thread once it serves.
 */
#ifndef DATAPLANE_ESP_STATE_H
#define DATAPLANE_ESP_STATE_H

#include "dataplane/esp/sa.h"

/* Open the directory; later calls have no effect. Returns 0, or -errno with a sentence in `why` that lacks
 * its subject. */
int esp_state_open(const char *directory, char *why, size_t why_len);
void esp_state_close(void);
/* *saved is all zero if there is no file. */
int esp_state_load(const struct esp_sa *sa, struct esp_saved *saved, char *why, size_t why_len);
/* Returns 0: all of it is on the disk; -errno: the file is unchanged. */
int esp_state_save(const struct esp_sa *sa, const struct esp_saved *saved);

#endif
