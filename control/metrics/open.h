/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening socket of metrics. */
#ifndef CONTROL_METRICS_OPEN_H
#define CONTROL_METRICS_OPEN_H

#include "control/base/listening.h"

struct config_listen;

/* A socket that listens and does not block, to be closed by listening_close(): 0, or -errno and a sentence.
 */
int metrics_open(const struct config_listen *where, struct listening *listening, char *why, size_t why_len);

#endif
