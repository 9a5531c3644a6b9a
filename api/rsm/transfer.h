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
/* Sends a signal to the exporter, behind all transfers, and waits for its completion. RSM_SUCCESS, or the
 * abort's code. */
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
/* Checks before a transfer, in this order: the right, the range, the barrier, the connection. *silent: the
 * connection is lost, but the call succeeds, because the close of the span reports the loss. */
int rsm_check(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, uint64_t len,
	      bool *silent);
/* Waits after the last piece as the barrier mode requires. */
int rsm_finish(struct rsm_import *import, enum rsm_direction direction);
/* Issues a transfer from or to the application's memory at `local`, without a copy if the memory is
 * registered and the transfer large enough. */
int rsm_issue(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, void *local,
	      uint64_t len, uint32_t element);

/* ---- map.c: mappings of imports, and transfers through them ---- */
/* Transfers through the mapping without a lock. False: not known to be complete, take the slow path. */
bool rsm_map_quick(const void *handle, enum rsm_direction direction, uint64_t offset, void *local,
		   uint64_t len);
/* Transfers through the mapping. The caller holds the lock and has checked range and rights. False: transfer
 * by the data plane instead. */
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

/* ---- local.c: checks that the application's memory is mapped ---- */
/* Bytes. Below this, a copy costs less than the search for a registration. */
#define RSM_DIRECT_MIN 4096u

#define RSM_KNOWN 4u

/* Ranges of whole pages that this thread has checked. rsm_known[RSM_PUT]: readable; rsm_known[RSM_GET]:
 * writable. */
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
