/* SPDX-License-Identifier: BSD-3-Clause */
/* Exports and imports: what signals, transfers and the calls on segments share of them. */
#ifndef RSM_SEGMENT_OBJECT_H
#define RSM_SEGMENT_OBJECT_H

#include "client/cq.h"
#include "client/mem.h"
#include "client/qp.h"
#include "rsm/base/link.h"

/* Of an export or import; under its lock. */
struct rsm_events {
	struct one_cq counter; /* tail: come, head: taken */
	uint32_t polled;       /* references to the descriptor */
	int pipe[2];           /* -1: none; [1] -1: closed, nothing will come */
	bool lit;              /* there is a byte in it */
};

struct rsm_export {
	struct rsm_slot slot;
	rsmapi_controller_handle_t controller;
	struct rsm_link *link;
	struct one_mr mr;
	uint64_t va, size;
	uint32_t mode;   /* 0777 & ~umask at create */
	bool rebind;     /* RSM_ALLOW_REBIND */
	bool registered; /* mr is valid */
	bool claimed;    /* the file may be given to importers */
	bool writable;   /* importers may map it for writing */
	bool owed;       /* withdrawn, but the pages could not be moved away from importers yet */
	bool published;
	uint32_t segment;
	uint32_t withdrawn;
	struct rsm_events events;
};
_Static_assert(sizeof(struct rsm_export) <= RSM_SLOT_SIZE, "rsm_export");

#define RSM_SEND_WR 256u /* transfers in flight on an import */

struct rsm_op {
	uint64_t stage_end; /* the staging ring is free up to here when this is done */
	uint8_t *dst;       /* get through staging: where it goes */
	const uint8_t *src; /* from here */
	uint32_t len;
	uint32_t element; /* swap elements of this size; 0: do not */
};

struct rsm_import {
	struct rsm_slot slot;
	struct rsm_link *link;
	struct one_qp qp;
	struct one_cq cq;
	uint64_t base, size;
	uint32_t key;
	uint32_t permission;
	bool swap; /* the exporter's byte order is the other one */
	bool explicit_mode;
	bool answered; /* the outcome of the connect is in `outcome` */
	bool aborted;
	bool cut;     /* aborted, and a transfer was not issued to its end */
	bool crowded; /* a wait that spins takes time from the data plane */
	int outcome;
	int error;      /* returned by the next call that may return it, once aborted */
	void *barrier;  /* the application's object that was initialised last; an identity only */
	uint32_t spans; /* barriers open */
	/* transfers, numbered from 1 in order of issue */
	uint64_t posted, signaled, done;
	uint64_t pinned;         /* the last one that uses registered memory */
	uint64_t stage_signaled; /* position of the staging ring at the last signaled one */
	uint32_t depth;
	struct rsm_op *ops; /* of rsm_op_of */
	uint32_t ops_mask;  /* a power of two, at least `depth`, less 1 */
	struct rsm_stage *stage;
	uint64_t stage_head, stage_tail;
	struct rsm_events events;
	/* the mapping; the atomics are read without the lock by quick accesses */
	bool mapped;
	uint32_t window_rights; /* of the pages */
	uint64_t window_size;   /* in whole pages */
	_Atomic(uint8_t *) window;
	_Atomic uint64_t window_offset, window_len;
	_Atomic uint32_t quick;       /* rights that need no further look, */
	_Atomic(void *) quick_handle; /* by this handle */
};
_Static_assert(sizeof(struct rsm_import) <= RSM_SLOT_SIZE, "rsm_import");

/* Locks an import: RSM_SUCCESS, RSMERR_BAD_SEG_HNDL, or RSMERR_CONN_ABORTED in a child of its process. */
static inline int
rsm_import_lock(const void *handle, struct rsm_import **import)
{
	enum rsm_found found = rsm_slot_lock(&rsm_imports, handle, (void **)import);

	if (found == RSM_LIVE)
		return RSM_SUCCESS;
	return found == RSM_FOREIGN ? RSMERR_CONN_ABORTED : RSMERR_BAD_SEG_HNDL;
}

/* What is to be done after that transfer. */
static inline struct rsm_op *
rsm_op_of(const struct rsm_import *import, uint64_t number)
{
	return &import->ops[number & import->ops_mask];
}

#endif
