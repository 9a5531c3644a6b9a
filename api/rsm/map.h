/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings of imports, and transfers through them. */
#ifndef RSM_MAP_H
#define RSM_MAP_H

#include "rsm/transfer.h"

/* Transfers through the mapping without a lock. False: not known to be complete, take the slow path. */
bool rsm_map_quick(const void *handle, enum rsm_direction direction, uint64_t offset, void *local,
		   uint64_t len);
/*
 * Transfers through the mapping. The caller holds the lock and has checked range and rights. False: transfer
 * by the data plane instead.
 */
bool rsm_map_copy(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, void *local,
		  uint64_t len);
/* Result of a call after rsm_map_copy(). */
int rsm_map_result(struct rsm_import *import);
/* True if [offset, offset + len) is in the mapping. */
bool rsm_map_covers(const struct rsm_import *import, uint64_t offset, uint64_t len);
/* Publishes the rights of quick accesses. Call after every change of the import that affects them. */
void rsm_map_refresh(struct rsm_import *import);
/* Aborts an import whose segment was withdrawn, or whose data plane ended. */
void rsm_map_check_gone(struct rsm_import *import);

#endif
