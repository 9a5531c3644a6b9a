/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_RSM_COMMON_H
#define PERF_RSM_COMMON_H

#include <rsmapi.h>
#include <stdbool.h>
#include <stdint.h>

/* Prints "program: what: RSMERR number and meaning" and returns false on an error. */
bool rsm_ok(int error, const char *what);

/* Connects, trying again for `seconds` while the segment is not published yet. */
bool rsm_connect_wait(rsmapi_controller_handle_t controller, uint32_t node, uint32_t segment,
		      rsm_permission_t permission, uint32_t seconds, rsm_memseg_import_handle_t *import);

#endif
