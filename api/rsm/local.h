/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that the application's memory is mapped. */
#ifndef RSM_LOCAL_H
#define RSM_LOCAL_H

#include "rsm/transfer.h"

/* Bytes. Below this, a copy costs less than the search for a registration. */
#define RSM_DIRECT_MIN 4096u

#define RSM_KNOWN 4u

/*
 * Ranges of whole pages that this thread has checked. rsm_known[RSM_PUT]: readable; rsm_known[RSM_GET]:
 * writable.
 */
struct rsm_known {
	uintptr_t from[RSM_KNOWN], to[RSM_KNOWN];
	uint64_t at[RSM_KNOWN]; /* time of the check, by one_now_ns() */
	unsigned next;          /* index of the range to replace next */
};
extern _Thread_local struct rsm_known rsm_known[2] __attribute__((tls_model("initial-exec")));

/* True if this thread has checked the memory before, at any time. */
static inline bool
rsm_local_known(const void *local, uint64_t len, enum rsm_direction direction)
{
	const struct rsm_known *known = &rsm_known[direction];
	uintptr_t at = (uintptr_t)local;

	for (unsigned i = 0; i < RSM_KNOWN; i++)
		if (at >= known->from[i] && at <= known->to[i] && len <= known->to[i] - at)
			return true;
	return false;
}
/* RSM_SUCCESS, or RSMERR_BAD_ADDR: a put cannot read the memory, or a get cannot write it. */
int rsm_local_check(const struct rsm_import *import, const void *local, uint64_t len,
		    enum rsm_direction direction);

#endif
