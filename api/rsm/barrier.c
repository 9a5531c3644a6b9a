/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers: spans of time on an import segment. The close reports whether all transfers issued in the span
 * succeeded.
 *
 * In the application's object, `seg` is the import's handle, or NULL if not initialised; `gnum` is OPEN while
 * the span is open; `privdata` is the address of the object, which differs in a copy of the object.
 */
#include "rsm/transfer.h"

#define CLOSED 0u
#define OPEN 1u

static void
leave_span(struct rsm_import *import, rsmapi_barrier_t *barrier)
{
	if (barrier->gnum == OPEN && import->spans > 0)
		import->spans--;
	barrier->gnum = CLOSED;
}

/* Initialising a barrier again ends its open span, on whichever import. */
static void
abandon_span(rsmapi_barrier_t before, const rsmapi_barrier_t *barrier)
{
	struct rsm_import *import;

	if (before.privdata != barrier || before.gnum != OPEN ||
	    rsm_slot_lock(&rsm_imports, before.seg, (void **)&import) != RSM_LIVE)
		return;
	leave_span(import, &before);
	rsm_slot_unlock(import);
}

int
rsm_do_memseg_import_init_barrier(rsm_memseg_import_handle_t im_memseg, rsm_barrier_type_t type,
				  rsmapi_barrier_t *barrier)
{
	struct rsm_import *import;
	rsmapi_barrier_t before;
	int result;

	(void)type; /* all types mean a span of time on this segment */
	if (im_memseg == NULL)
		return RSMERR_BAD_SEG_HNDL;
	if (barrier == NULL)
		return RSMERR_BAD_BARRIER_PTR;
	result = rsm_import_lock(im_memseg, &import);
	if (result != RSM_SUCCESS)
		return result;
	before = *barrier;
	barrier->seg = im_memseg;
	barrier->gnum = CLOSED;
	barrier->privdata = barrier;
	import->barrier = barrier;
	rsm_map_refresh(import);
	rsm_slot_unlock(import);
	abandon_span(before, barrier);
	return RSM_SUCCESS;
}

/* Locks the import of an initialised barrier. Returns 0, or the call's result. */
static int
lock_import(const rsmapi_barrier_t *barrier, struct rsm_import **import)
{
	if (barrier == NULL)
		return RSMERR_BAD_BARRIER_PTR;
	if (barrier->seg == NULL)
		return RSMERR_BARRIER_UNINITIALIZED;
	return rsm_import_lock(barrier->seg, import);
}

static int
open_span(rsmapi_barrier_t *barrier)
{
	struct rsm_import *import;
	int result = lock_import(barrier, &import);

	if (result != RSM_SUCCESS)
		return result;
	/* Succeeds on a lost connection, too: the close reports the loss. */
	if (barrier->gnum != OPEN)
		import->spans++;
	barrier->gnum = OPEN;
	rsm_slot_unlock(import);
	return RSM_SUCCESS;
}

/* Waits until all transfers issued so far are complete or have failed. */
static int
complete_span(struct rsm_import *import, const rsmapi_barrier_t *barrier)
{
	uint64_t target = import->posted;

	/* Orders the stores to the mapping before the barrier's success. Pairs with the fence or locked
	 * access of a process that reads the segment after it was notified of the success. */
	atomic_thread_fence(memory_order_seq_cst);
	rsm_drain(import);
	if (import->aborted)
		return rsm_report_abort(import);
	if (barrier->gnum != OPEN)
		return RSMERR_BARRIER_NOT_OPENED;
	rsm_wait_done(import, target);
	return import->aborted ? rsm_report_abort(import) : RSM_SUCCESS;
}

/* Order holds without a wait only as long as no packet is lost. Waiting for the acknowledgement guarantees
 * it, and reports errors. */
static int
wait_span(rsmapi_barrier_t *barrier, bool ends)
{
	struct rsm_import *import;
	int result = lock_import(barrier, &import);

	if (result != RSM_SUCCESS)
		return result;
	result = complete_span(import, barrier);
	if (ends)
		leave_span(import, barrier);
	rsm_slot_unlock(import);
	return result;
}

#define SPAN(name, done)                                                                      \
	int rsm_memseg_import_##name##_barrier(rsmapi_barrier_t *barrier)                     \
	{                                                                                     \
		int result = done;                                                            \
                                                                                              \
		return __builtin_expect(result == RSM_SUCCESS, 1)                             \
			       ? RSM_SUCCESS                                                  \
			       : rsm_refused_memseg_import_##name##_barrier(result, barrier); \
	}
SPAN(open, open_span(barrier))
SPAN(order, wait_span(barrier, false))
SPAN(close, wait_span(barrier, true))

int
rsm_do_memseg_import_destroy_barrier(rsmapi_barrier_t *barrier)
{
	struct rsm_import *import;
	int result = lock_import(barrier, &import);

	if (result == RSMERR_BAD_BARRIER_PTR || result == RSMERR_BARRIER_UNINITIALIZED)
		return result;
	if (result == RSM_SUCCESS) {
		leave_span(import, barrier);
		if (import->barrier == barrier)
			import->barrier = NULL;
		rsm_map_refresh(import);
		rsm_slot_unlock(import);
	}
	barrier->seg = NULL;
	return result == RSMERR_CONN_ABORTED ? RSM_SUCCESS : result;
}

int
rsm_do_memseg_import_get_mode(rsm_memseg_import_handle_t im_memseg, rsm_barrier_mode_t *mode)
{
	struct rsm_import *import;

	if (rsm_slot_lock(&rsm_imports, im_memseg, (void **)&import) == RSM_NONE)
		return RSMERR_BAD_SEG_HNDL;
	if (mode != NULL)
		*mode = import->explicit_mode ? RSM_BARRIER_MODE_EXPLICIT : RSM_BARRIER_MODE_IMPLICIT;
	rsm_slot_unlock(import);
	return mode != NULL ? RSM_SUCCESS : RSMERR_BAD_ADDR;
}

int
rsm_do_memseg_import_set_mode(rsm_memseg_import_handle_t im_memseg, rsm_barrier_mode_t mode)
{
	struct rsm_import *import;
	enum rsm_found found = rsm_slot_lock(&rsm_imports, im_memseg, (void **)&import);
	bool known = mode == RSM_BARRIER_MODE_EXPLICIT || mode == RSM_BARRIER_MODE_IMPLICIT;

	if (found == RSM_NONE)
		return RSMERR_BAD_SEG_HNDL;
	if (known && found == RSM_LIVE) {
		import->explicit_mode = mode == RSM_BARRIER_MODE_EXPLICIT;
		rsm_map_refresh(import);
	}
	rsm_slot_unlock(import);
	return known ? RSM_SUCCESS : RSMERR_BAD_MODE;
}
