/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What of a security association outlives the process: a file for each key and SPI, in a directory that one
 * data plane has for itself.  These functions wait for the disk: not on cores, nor on the control thread once
 * it serves.
 */
#ifndef DATAPLANE_ESP_STATE_H
#define DATAPLANE_ESP_STATE_H

#include "dataplane/esp/sa.h"

/* Once; again has no effect.  0 or -errno and a sentence without its object. */
int esp_state_open(const char *directory, char *why, size_t why_len);
void esp_state_close(void);
/* All zero when there is no file. */
int esp_state_load(const struct esp_sa *sa, struct esp_saved *saved, char *why, size_t why_len);
/* It is on the disk, whole, or the file is as it was: 0 or -errno. */
int esp_state_save(const struct esp_sa *sa, const struct esp_saved *saved);

#endif
