/* SPDX-License-Identifier: BSD-3-Clause */
/* Issuing, completing and waiting for the transfers of an import. */
#ifndef RSM_TRANSFER_H
#define RSM_TRANSFER_H

#include "rsm/base/segment_object.h"

enum rsm_direction { RSM_PUT = 0, RSM_GET = 1 };

/*
 * All with the import locked.  Bounds and rights are checked already.
 *
 * issue: returns when the last piece is posted; waits only for room.  `lkey` 0:
 * copy through staging.  `element`: size of an element to swap, else 0.  `signaled`: the last piece asks
 * for a completion.  0, or RSMERR_INSUFFICIENT_RESOURCES; a broken connection is not an error here.
 */
int rsm_issue_pieces(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, uint8_t *at,
		     uint64_t len, uint32_t lkey, uint32_t element, bool signaled);
/* A put of RSM_BACK_MIN bytes or more from registered memory that the caller may change when it returns. */
#define RSM_BACK_MIN (256u * 1024u)
int rsm_issue_put_back(struct rsm_import *import, uint64_t offset, void *local, uint64_t len, uint32_t lkey);
/* A message to the exporter, behind all transfers, and the wait for it: RSM_SUCCESS, or why not. */
int rsm_import_signal(struct rsm_import *import, bool once);
/* Until transfer number `target` is done or the import is aborted. */
void rsm_wait_done(struct rsm_import *import, uint64_t target);
/* Until the outcome of the connect is there: 0, -EINTR, -ECONNRESET. */
int rsm_wait_answer(struct rsm_import *import);
/* Take what completed. */
void rsm_drain(struct rsm_import *import);
/* The connection is of no use any more; the next call returns `code`. */
void rsm_abort(struct rsm_import *import, int code);
/* The code to return for an aborted import. */
int rsm_report_abort(struct rsm_import *import);

#endif
