/* SPDX-License-Identifier: BSD-3-Clause */
/* Explains a missing data plane, for programs whose API reports only a code. */
#ifndef PERF_PLANE_H
#define PERF_PLANE_H

/*
 * Call after a failure to open an adapter or controller. Prints the reason on standard error if no data plane
 * serves at the socket.
 */
void plane_explain(void);

#endif
