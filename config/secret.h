/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Secrets that the configuration names by files: read once, held in memory of their own that core dumps leave
 * out and that is wiped when the last holder lets go.  Nothing here prints them.
 */
#ifndef CONFIG_SECRET_H
#define CONFIG_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_SECRET_MAX 512u /* bytes */

enum config_secret_form { CONFIG_SECRET_RAW, CONFIG_SECRET_HEX };

struct config_secret;

/*
 * Reads `min` to `max` bytes: of a RAW file all that it has, of HEX two digits each, in one line.  May take
 * the time that the file takes.  0, or -errno and one sentence in `why` that names file, fault and remedy;
 * never what is in the file.
 */
int config_secret_read(const char *path, enum config_secret_form form, size_t min, size_t max,
		       struct config_secret **secret, char *why, size_t why_len);
const uint8_t *config_secret_bytes(const struct config_secret *secret, size_t *len);
/* Both may be NULL; takes the same time whatever the bytes are. */
bool config_secret_equal(const struct config_secret *a, const struct config_secret *b);
/* One more holder of it; NULL stays NULL. */
struct config_secret *config_secret_hold(struct config_secret *secret);
/* Wiped and freed when nobody else holds it. */
void config_secret_drop(struct config_secret *secret);

#endif
