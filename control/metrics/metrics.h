/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics for those who look from afar: in text, and by HTTP where `metrics` of the configuration says so. */
#ifndef CONTROL_METRICS_METRICS_H
#define CONTROL_METRICS_METRICS_H

#include "control/metrics/text.h"

struct config;

/* Opens the listener, if there is to be one, and starts its thread.  0, or -errno with a sentence in `why`.
 */
int metrics_init(const struct config *config, char *why, size_t why_len);
void metrics_fini(void);

/*
 * On the control thread: all metrics into `text`, from metrics_text_init(); the caller frees it by
 * metrics_text_free().  0, or -ENOMEM.
 */
int metrics_render(struct metrics_text *text);

#endif
