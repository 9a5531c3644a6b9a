/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets in files named by the configuration. A secret is read once, held in its own memory that core dumps
 * omit, and wiped when the last holder drops it. No function here prints secrets. */
#ifndef CONFIG_SECRET_H
#define CONFIG_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_SECRET_MAX 512u /* bytes */

enum config_secret_form { CONFIG_SECRET_RAW, CONFIG_SECRET_HEX };

struct config_secret;

/* Reads `min` to `max` bytes: a RAW file's whole contents; a HEX file's line, two digits per byte. May block
 * as long as reading the file does. Returns 0, or -errno and one sentence in `why` that names file, fault and
 * remedy, but never the contents. */
int config_secret_read(const char *path, enum config_secret_form form, size_t min, size_t max,
		       struct config_secret **secret, char *why, size_t why_len);
const uint8_t *config_secret_bytes(const struct config_secret *secret, size_t *len);
/* Both may be NULL. Constant time for equal lengths. */
bool config_secret_equal(const struct config_secret *a, const struct config_secret *b);
/* Adds a holder; NULL stays NULL. */
struct config_secret *config_secret_hold(struct config_secret *secret);
/* Drops a holder; the last one wipes and frees the secret. */
void config_secret_drop(struct config_secret *secret);

#endif
