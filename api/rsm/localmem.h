/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects behind local memory handles. */
#ifndef RSM_LOCALMEM_H
#define RSM_LOCALMEM_H

#include "client/mem.h"
#include "rsm/link.h"

struct rsm_localmem {
	struct rsm_slot slot;
	rsmapi_controller_handle_t controller;
	struct rsm_link *link;
	struct one_mr mr;
};
_Static_assert(sizeof(struct rsm_localmem) <= RSM_SLOT_SIZE, "rsm_localmem");

/*
 * Finds the address of [offset, offset + len) of a handle's memory, and the key for transfers on `link` (0 if
 * registered with another). Returns 0, RSMERR_BAD_SGIO or RSMERR_BAD_LENGTH.
 */
int rsm_localmem_find(rsm_localmemory_handle_t handle, const struct rsm_link *link, uint64_t offset,
		      uint64_t len, void **va, uint32_t *lkey);

#endif
