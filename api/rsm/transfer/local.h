/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the application's memory is there. */
#ifndef RSM_LOCAL_H
#define RSM_LOCAL_H

#include "rsm/transfer/transfer.h"

/* Below this, copying costs less than finding out that it need not be. */
#define RSM_DIRECT_MIN 4096u

#define RSM_KNOWN 4u

/* Whole pages of the caller's that were there; [0] to be read from, [1] to be written to. */
struct rsm_known {
	uintptr_t from[RSM_KNOWN], to[RSM_KNOWN];
	uint64_t at[RSM_KNOWN]; /* when: one_now_ns() */
	unsigned next;          /* to be forgotten */
};
extern _Thread_local struct rsm_known rsm_known[2] __attribute__((tls_model("initial-exec")));

/* It was there, as far as this thread remembers. */
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
/* RSM_SUCCESS, or RSMERR_BAD_ADDR: a put cannot read it, a get not write it. */
int rsm_local_check(const struct rsm_import *import, const void *local, uint64_t len,
		    enum rsm_direction direction);

#endif
