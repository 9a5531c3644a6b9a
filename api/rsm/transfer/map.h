/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings of imports, and transfers through them. */
#ifndef RSM_MAP_H
#define RSM_MAP_H

#include "rsm/transfer/transfer.h"

/* A transfer through the mapping, without a lock; false: nothing is known to be done, take the long way. */
bool rsm_map_quick(const void *handle, enum rsm_direction direction, uint64_t offset, void *local,
		   uint64_t len);
/* The same with the lock, range and rights checked; false: it has to go by the data plane. */
bool rsm_map_copy(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, void *local,
		  uint64_t len);
/* What to return after it. */
int rsm_map_result(struct rsm_import *import);
/* [offset, offset+len) is in the window. */
bool rsm_map_covers(const struct rsm_import *import, uint64_t offset, uint64_t len);
/* What quick accesses may do has changed. */
void rsm_map_refresh(struct rsm_import *import);
/* Aborts an import whose segment is gone. */
void rsm_map_check_gone(struct rsm_import *import);

#endif
