/* SPDX-License-Identifier: BSD-3-Clause */
/* Issue, completion and waits of an import's transfers. */
#ifndef RSM_TRANSFER_H
#define RSM_TRANSFER_H

#include "rsm/segment_object.h"

enum rsm_direction { RSM_PUT = 0, RSM_GET = 1 };

/*
 * All functions: the caller holds the import's lock, and has checked bounds and rights.
 *
 * rsm_issue_pieces() returns when the last piece is posted, and waits only for queue or staging space. `lkey`
 * 0: copy through staging memory. `element`: size of the elements to swap, or 0. `signaled`: the last piece
 * requests a completion. Returns 0, or RSMERR_INSUFFICIENT_RESOURCES. A broken connection is no error here.
 */
int rsm_issue_pieces(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, uint8_t *at,
		     uint64_t len, uint32_t lkey, uint32_t element, bool signaled);
/* Puts at least RSM_BACK_MIN bytes from registered memory that the caller may change after the return. */
#define RSM_BACK_MIN (256u * 1024u)
int rsm_issue_put_back(struct rsm_import *import, uint64_t offset, void *local, uint64_t len, uint32_t lkey);
/*
 * Sends a signal to the exporter, behind all transfers, and waits for its completion. RSM_SUCCESS, or the
 * abort's code.
 */
int rsm_import_signal(struct rsm_import *import, bool once);
/* Waits until transfer number `target` is done or the import is aborted. */
void rsm_wait_done(struct rsm_import *import, uint64_t target);
/* Waits for the outcome of the connect. Returns 0, -EINTR or -ECONNRESET. */
int rsm_wait_answer(struct rsm_import *import);
/* Takes all entries of the completion ring. */
void rsm_drain(struct rsm_import *import);
/* Marks the connection broken. The next call returns `code`. */
void rsm_abort(struct rsm_import *import, int code);
/* Returns the code for an aborted import. RSMERR_BARRIER_FAILURE is returned only once. */
int rsm_report_abort(struct rsm_import *import);

/* ---- access.c: code shared by the calls that put and get ---- */
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
