/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_RSM_COMMON_H
#define PERF_RSM_COMMON_H

#include <rsmapi.h>
#include <stdbool.h>
#include <stdint.h>

/* On an error, prints "program: what: RSM error NUMBER (MEANING)" and returns false. */
bool rsm_ok(int error, const char *what);

/* Connects, and retries for `seconds` while the segment is not published or the node unreachable. */
bool rsm_connect_wait(rsmapi_controller_handle_t controller, uint32_t node, uint32_t segment,
		      rsm_permission_t permission, uint32_t seconds, rsm_memseg_import_handle_t *import);

#endif
