/* SPDX-License-Identifier: BSD-3-Clause */
/* Why there is no data plane: for programs whose API has only a code for it. */
#ifndef PERF_PLANE_H
#define PERF_PLANE_H

/* After a failure to open an adapter or controller: says so on standard error if no data plane serves at the
 * socket. */
void plane_explain(void);

#endif
