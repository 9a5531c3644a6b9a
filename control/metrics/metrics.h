/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics for remote monitoring: as text, and over HTTP if the configuration has `metrics`. */
#ifndef CONTROL_METRICS_METRICS_H
#define CONTROL_METRICS_METRICS_H

#include "control/base/listening.h"
#include "control/metrics/text.h"

struct config;
struct config_listen;

/* Opens the listener, if configured, and starts its thread. Returns 0, or -errno with a sentence in `why`. */
int metrics_init(const struct config *config, char *why, size_t why_len);
void metrics_fini(void);

/* Renders all metrics into `text`, which the caller prepares by metrics_text_init() and frees by
 * metrics_text_free(). Control thread only. Returns 0 or -ENOMEM. */
int metrics_render(struct metrics_text *text);

/* Opens a non-blocking socket; close it by listening_close(). Returns 0, or -errno and a sentence. */
int metrics_open(const struct config_listen *where, struct listening *listening, char *why, size_t why_len);

#endif
