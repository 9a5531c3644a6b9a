/* SPDX-License-Identifier: BSD-3-Clause */
/* Export and import objects, shared by the rooms for signals, transfers and segments. */
#ifndef RSM_SEGMENT_OBJECT_H
#define RSM_SEGMENT_OBJECT_H

#include "client/cq.h"
#include "client/mem.h"
#include "client/qp.h"
#include "rsm/link.h"

/* Events of an export or import, protected by the object's lock. */
struct rsm_events {
	struct one_cq counter; /* tail: signals received; head: signals taken */
	uint32_t polled;       /* references to the poll descriptor */
	int pipe[2];           /* -1: none; pipe[1] -1: closed, no more events can come */
	bool lit;              /* the pipe contains a byte */
};

struct rsm_export {
	struct rsm_slot slot;
	rsmapi_controller_handle_t controller;
	struct rsm_link *link;
	struct one_mr mr;
	uint64_t va, size;
	uint32_t mode;    /* 0777 & ~umask at create */
	bool rebind;      /* RSM_ALLOW_REBIND */
	bool registered;  /* mr is valid */
	bool claimed;     /* the data plane may pass the file to importers */
	bool writable;    /* importers may map it for writing */
	uint64_t copy_at; /* one_mem_copy_at(); 0: none */
	bool owed;        /* withdrawn, but importers still share the pages: moving them is to be repeated */
	bool published;
	uint32_t segment;
	uint32_t withdrawn;
	struct rsm_events events;
};
_Static_assert(sizeof(struct rsm_export) <= RSM_SLOT_SIZE, "rsm_export");

#define RSM_SEND_WR 256u /* limit of transfers in flight on an import */

struct rsm_op {
	uint64_t stage_end; /* once the transfer is done, the staging ring is free up to this position */
	uint8_t *dst;       /* get through staging: destination */
	const uint8_t *src; /* source in the staging ring */
	uint32_t len;
	uint32_t element; /* bytes per element to swap; 0: no swapping */
};

struct rsm_import {
	struct rsm_slot slot;
	struct rsm_link *link;
	struct one_qp qp;
	struct one_cq cq;
	uint64_t base, size;
	uint32_t key;
	uint32_t permission;
	bool swap; /* the exporter has the opposite byte order */
	bool explicit_mode;
	bool answered; /* the connect is finished, see `outcome` */
	bool aborted;
	bool cut;     /* aborted before a transfer was issued completely */
	bool crowded; /* spinning delays the data plane: yield the processor instead */
	int outcome;
	int error;      /* once aborted: result of the next call that reports errors */
	void *barrier;  /* the last barrier that the application initialised; compared, never dereferenced */
	uint32_t spans; /* open barriers */
	/* Numbers of transfers, counted from 1 in order of issue. */
	uint64_t posted, signaled, done;
	uint64_t pinned;         /* the last transfer that uses registered memory */
	uint64_t stage_signaled; /* stage_head at the last signaled transfer */
	uint32_t depth;
	struct rsm_op *ops; /* use rsm_op_of() */
	uint32_t ops_mask;  /* length of `ops` less 1; the length is a power of two, at least `depth` */
	struct rsm_stage *stage;
	uint64_t stage_head, stage_tail;
	struct rsm_events events;
	/* The mapping. Quick accesses read the atomics without the lock. */
	bool mapped;
	uint32_t window_rights; /* protection of the pages, as rights */
	uint64_t window_size;   /* whole pages, in bytes */
	_Atomic(uint8_t *) window;
	_Atomic uint64_t window_offset, window_len;
	_Atomic uint32_t quick;       /* rights that quick accesses may use, */
	_Atomic(void *) quick_handle; /* with this handle */
};
_Static_assert(sizeof(struct rsm_import) <= RSM_SLOT_SIZE, "rsm_import");

/* Locks an import. Returns RSM_SUCCESS, RSMERR_BAD_SEG_HNDL, or RSMERR_CONN_ABORTED in a child of the process
 * that made it. */
static inline int
rsm_import_lock(const void *handle, struct rsm_import **import)
{
	enum rsm_found found = rsm_slot_lock(&rsm_imports, handle, (void **)import);

	if (found == RSM_LIVE)
		return RSM_SUCCESS;
	return found == RSM_FOREIGN ? RSMERR_CONN_ABORTED : RSMERR_BAD_SEG_HNDL;
}

/* Work to do when transfer `number` completes. */
static inline struct rsm_op *
rsm_op_of(const struct rsm_import *import, uint64_t number)
{
	return &import->ops[number & import->ops_mask];
}

/* ---- event.c, pollfd.c: signals, and the descriptors that applications poll for them ---- */
int rsm_events_open(struct rsm_events *events, struct rsm_link *link); /* -errno */
void rsm_events_close(struct rsm_events *events);
uint32_t rsm_events_pending(const struct rsm_events *events);
bool rsm_events_take(struct rsm_events *events);
/* Makes the poll descriptor report the pending events; `ended`: also POLLHUP. */
void rsm_pollfd_sync(struct rsm_events *events, bool ended);
void rsm_pollfd_close(struct rsm_events *events);

/* A locked export or import: one of `import` and `export` is NULL. */
struct rsm_event_segment {
	struct rsm_import *import;
	struct rsm_export *export;
	struct rsm_slot *slot;
	struct rsm_events *events;
	struct rsm_link *link;
	uint32_t withdrawn; /* counts the times that the export was unpublished */
};
int rsm_event_lock(const void *handle, struct rsm_event_segment *segment);
bool rsm_event_ended(const struct rsm_event_segment *segment);
void rsm_event_arm(const struct rsm_event_segment *segment);

#endif
