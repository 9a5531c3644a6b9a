/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics as text. */
#ifndef CONTROL_METRICS_RENDER_H
#define CONTROL_METRICS_RENDER_H

#include "control/metrics/snapshot.h"
#include "control/metrics/text.h"

/* Callable on any thread; queries the ports' drivers. */
void metrics_write(struct metrics_text *text, const struct metrics_snapshot *snapshot);

#endif
