/* SPDX-License-Identifier: BSD-3-Clause */
/* The metrics, in text. */
#ifndef CONTROL_METRICS_RENDER_H
#define CONTROL_METRICS_RENDER_H

#include "control/metrics/snapshot.h"
#include "control/metrics/text.h"

/* Any thread; asks the drivers of ports. */
void metrics_write(struct metrics_text *text, const struct metrics_snapshot *snapshot);

#endif
