/* SPDX-License-Identifier: BSD-3-Clause */
/* Code shared by the calls that put and get. */
#ifndef RSM_ACCESS_H
#define RSM_ACCESS_H

#include "rsm/transfer.h"

/*
 * Checks before a transfer, in this order: the right, the range, the barrier, the connection. *silent: the
 * connection is lost, but the call succeeds, because the close of the span reports the loss.
 */
int rsm_check(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, uint64_t len,
	      bool *silent);
/* Waits after the last piece as the barrier mode requires. */
int rsm_finish(struct rsm_import *import, enum rsm_direction direction);
/*
 * Issues a transfer from or to the application's memory at `local`, without a copy if the memory is
 * registered and the transfer large enough.
 */
int rsm_issue(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, void *local,
	      uint64_t len, uint32_t element);

#endif
