/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening socket for metrics. */
#ifndef CONTROL_METRICS_OPEN_H
#define CONTROL_METRICS_OPEN_H

#include "control/base/listening.h"

struct config_listen;

/*
 * Opens a non-blocking listening socket; close it by listening_close(). Returns 0, or -errno and a sentence.
 */
int metrics_open(const struct config_listen *where, struct listening *listening, char *why, size_t why_len);

#endif
