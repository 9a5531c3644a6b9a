/* SPDX-License-Identifier: BSD-3-Clause */
/* What the calls that put and get have in common. */
#ifndef RSM_ACCESS_H
#define RSM_ACCESS_H

#include "rsm/transfer/transfer.h"

/*
 * What put, get and their vectors check before a transfer, in this order: the right, the range, the
 * barrier, the connection.  *silent: it is lost, and the close of the span will say so, not this call.
 */
int rsm_check(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, uint64_t len,
	      bool *silent);
/* The wait that the mode asks for, after the last piece. */
int rsm_finish(struct rsm_import *import, enum rsm_direction direction);
/*
 * Issues a transfer from or to the application's memory at `local`, without copying where that is
 * registered and large enough.
 */
int rsm_issue(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, void *local,
	      uint64_t len, uint32_t element);

#endif
