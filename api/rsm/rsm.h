/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librsm inside.
 *
 * handle.c     what the application's handles mean, and their locks
 * link.c       an attachment to the data plane, and its staging memory
 * controller.c, export.c, import.c, localmem.c   one object each
 * event.c, pollfd.c   signals
 * map.c        mappings, and transfers through them
 * range.c      registered memory by address
 * transfer.c   issuing, completing and waiting for the transfers of an import
 * access.c, vector.c, barrier.c                  the calls on top of it
 *
 * Locks, outer first: attach (controller.c), a slot of an export, local memory
 * handle or controller, a slot of an import, a slot of a local memory handle
 * looked at by a transfer, rsm_link.lock.
 */
#ifndef RSM_RSM_H
#define RSM_RSM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rsmapi.h>

#include "client/client.h"

/* ---- handles ---- */

/* Counts the forks above this process: an object of another process is foreign here. */
extern _Atomic uint32_t rsm_process;

/* Head of every object.  Its memory is never given back, so a stale handle can be looked at. */
struct rsm_slot {
	pthread_mutex_t lock;
	_Atomic uint32_t process;
	uint32_t next_free;
	uint16_t generation;
	bool live;
	_Atomic(struct rsm_link *) polled_by; /* whose pump looks after it: it has a poll descriptor */
};

#define RSM_SLOT_SIZE 1024u
#define RSM_SLOTS 65536u

struct rsm_table {
	pthread_mutex_t lock;
	_Atomic(uint8_t *) base;
	_Atomic uint32_t used; /* slots that were ever given out */
	uint32_t free_first, free_last;
};

extern struct rsm_table rsm_controllers, rsm_exports, rsm_imports, rsm_localmems;

enum rsm_found {
	RSM_NONE,   /* not a live handle */
	RSM_LIVE,   /* locked */
	RSM_FOREIGN /* made by an ancestor of this process: not locked, to be looked at only */
};

/* A zeroed object of this process, not live, not locked; NULL when there is no room. */
void *rsm_slot_new(struct rsm_table *table);
/* Makes it live; returns its handle. */
void *rsm_slot_publish(struct rsm_table *table, void *object);
void *rsm_slot_handle(struct rsm_table *table, const void *object);
enum rsm_found rsm_slot_lock(struct rsm_table *table, const void *handle, void **object);
/* Object number `index`, locked, when it is live and of this process; else NULL. */
void *rsm_slot_at(struct rsm_table *table, uint32_t index);
void rsm_slot_unlock(void *object);
/* The handle of object number `index`, when that is live and `link` looks after its descriptor. */
void *rsm_slot_polled(struct rsm_table *table, uint32_t index, struct rsm_link *link);
/* Ends an object: handles to it are stale from now on.  Locked and live, or foreign. */
void rsm_slot_retire(struct rsm_table *table, void *object, bool locked);
/* Gives back one that was never published. */
void rsm_slot_drop(struct rsm_table *table, void *object);

/* ---- attachments ---- */

struct rsm_range;

/* A ring of staging memory, lent to one import at a time. */
struct rsm_stage {
	struct rsm_stage *next;
	uint64_t offset; /* in the arena: address for the engine */
	uint8_t *memory;
	uint64_t size;
	uint32_t lkey;
};

struct rsm_link {
	struct one_client *client;
	uint32_t process;
	uint32_t pz;
	uint16_t channel; /* where transfers sleep */
	bool loopback;
	_Atomic uint32_t refs;
	/* On the watcher's thread: the data plane is gone.  Set before there is something that must hear of
	 * it. */
	void (*_Atomic lost)(const struct rsm_link *link);
	pthread_mutex_t lock; /* all below */
	struct rsm_stage *stages;
	struct rsm_range *ranges; /* sorted by address */
	uint32_t num_ranges, max_ranges;
	uint32_t polled; /* segments with poll descriptors */
	bool pump;       /* the thread that looks after them runs */
};

/* `port` NULL: the first.  0 or -errno of one_attach. */
int rsm_link_open(const char *port, bool loopback, struct rsm_link **out);
struct rsm_link *rsm_link_get(struct rsm_link *link);
void rsm_link_put(struct rsm_link *link);
bool rsm_link_lost(const struct rsm_link *link);
struct rsm_stage *rsm_stage_get(struct rsm_link *link);
void rsm_stage_put(struct rsm_link *link, struct rsm_stage *stage);
/* The RSMERR_* for -errno of the client core, or for the reply of the data plane. */
int rsm_error(int error);
/* The same of a registration: a quota of memory is memory. */
int rsm_memory_error(int error);
/* Copy what the application points to: 0, or -EFAULT when it is not readable. */
int rsm_copy_in(void *dst, const void *src, size_t len);
size_t rsm_page_size(void);

/* ---- controllers ---- */

struct rsm_controller {
	struct rsm_slot slot;
	uint32_t refs;
	bool loopback;
	char name[ONE_PORT_NAME]; /* as the data plane has it */
	struct rsm_link *link;
	rsmapi_controller_attr_t attr;
};
_Static_assert(sizeof(struct rsm_controller) <= RSM_SLOT_SIZE, "rsm_controller");

/*
 * A reference to the controller's attachment, a new one when the old one was
 * lost.  0, RSMERR_BAD_CTLR_HNDL, RSMERR_CTLR_NOT_PRESENT, ...
 */
int rsm_controller_link(rsmapi_controller_handle_t handle, struct rsm_link **link);
/* The handle is live and of this process. */
bool rsm_controller_valid(rsmapi_controller_handle_t handle);
bool rsm_name_is_loopback(const char *name);
bool rsm_name_equal(const char *a, const char *b);

/* ---- registered memory ---- */

struct rsm_range {
	uint64_t va, length;
	uint32_t lkey;
};

int rsm_range_add(struct rsm_link *link, const struct one_mr *mr);
/* Nobody finds it any more, and no transfer uses it. */
void rsm_range_remove(struct rsm_link *link, const struct one_mr *mr);
/* The local key of registered memory that covers [va, va+len), or 0. */
uint32_t rsm_range_find(struct rsm_link *link, uint64_t va, uint64_t len);

/* What a range of this process is: 0, or RSMERR_BAD_ADDR (not mapped, or a shared file),
 * RSMERR_PERM_DENIED (not readable and writable). */
int rsm_memory_check(uint64_t va, uint64_t length);
/* All of [va, end) has the right to write.  Slow. */
bool rsm_memory_writable(uint64_t va, uint64_t end);

/* ---- signals ---- */

/* Of an export or import; under its lock. */
struct rsm_events {
	struct one_cq counter; /* tail: come, head: taken */
	uint32_t polled;       /* references to the descriptor */
	int pipe[2];           /* -1: none; [1] -1: closed, nothing will come */
	bool lit;              /* there is a byte in it */
};

int rsm_events_open(struct rsm_events *events, struct rsm_link *link); /* -errno */
void rsm_events_close(struct rsm_events *events);
uint32_t rsm_events_pending(const struct rsm_events *events);
bool rsm_events_take(struct rsm_events *events);
/* Brings the descriptor up to date. */
void rsm_pollfd_sync(struct rsm_events *events, bool ended);

/* An export or import, locked. */
struct rsm_event_segment {
	struct rsm_import *import;
	struct rsm_export *export;
	struct rsm_slot *slot;
	struct rsm_events *events;
	struct rsm_link *link;
	uint32_t withdrawn; /* how often the export was unpublished */
};
int rsm_event_lock(const void *handle, struct rsm_event_segment *segment);
bool rsm_event_ended(const struct rsm_event_segment *segment);
void rsm_event_arm(const struct rsm_event_segment *segment);

/* ---- export ---- */

struct rsm_export {
	struct rsm_slot slot;
	rsmapi_controller_handle_t controller;
	struct rsm_link *link;
	struct one_mr mr;
	uint64_t va, size;
	uint32_t mode;   /* 0777 & ~umask at create */
	bool rebind;     /* RSM_ALLOW_REBIND */
	bool registered; /* mr is valid */
	bool claimed;    /* the file may be given to importers, */
	bool writable;   /* who may map it for writing */
	bool owed;       /* withdrawn, but the pages could not be moved away from importers yet */
	bool published;
	uint32_t segment;
	uint32_t withdrawn;
	struct rsm_events events;
};
_Static_assert(sizeof(struct rsm_export) <= RSM_SLOT_SIZE, "rsm_export");

/* The data plane has gone: importers keep nothing but a copy of the past. */

/* ---- import ---- */

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
	bool crowded; /* whoever waits on this core does so at the data plane's expense */
	int outcome;
	int error;      /* what the next call that may tell says, once aborted */
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

/* What is to be done after that transfer. */
static inline struct rsm_op *
rsm_op_of(const struct rsm_import *import, uint64_t number)
{
	return &import->ops[number & import->ops_mask];
}

enum rsm_direction { RSM_PUT = 0, RSM_GET = 1 };

/*
 * All with the import locked.  Bounds and rights are checked already.
 *
 * issue: returns when the last piece is posted; waits only for room.  `lkey` 0:
 * copy through staging.  `element`: size of an element to swap, else 0.  0, or
 * RSMERR_INSUFFICIENT_RESOURCES; a broken connection is not an error here.
 */
int rsm_issue_pieces(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, void *local,
		     uint64_t len, uint32_t lkey, uint32_t element);
/* A put of RSM_BACK_MIN bytes or more from registered memory that the caller may change when it returns. */
#define RSM_BACK_MIN (256u * 1024u)
int rsm_issue_put_back(struct rsm_import *import, uint64_t offset, void *local, uint64_t len, uint32_t lkey);
/* A message to the exporter, behind all transfers: its number. */
uint64_t rsm_issue_signal(struct rsm_import *import, bool once);
/* Posts it and waits: RSM_SUCCESS, or why not. */
int rsm_import_signal(struct rsm_import *import, bool once);
/* Until transfer number `target` is done or the import is aborted. */
void rsm_wait_done(struct rsm_import *import, uint64_t target);
/* Until the outcome of the connect is there: 0, -EINTR, -ECONNRESET. */
int rsm_wait_answer(struct rsm_import *import);
/* Take what completed. */
void rsm_drain(struct rsm_import *import);
/* The connection is of no use any more; `code` is told first. */
void rsm_abort(struct rsm_import *import, int code);
/* The code to return for an aborted import. */
int rsm_report_abort(struct rsm_import *import);

/*
 * What put, get and their vectors check before a transfer, in this order: the
 * right, the range, the barrier, the connection.  *silent: it is lost, and the
 * close of the span will say so, not this call.
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

/* ---- local.c ---- */

/* Below this, copying costs less than finding out that it need not be. */
#define RSM_DIRECT_MIN 4096u

#define RSM_KNOWN 4u

/* Whole pages of the caller's that were there; [0] to be read from, [1] to be written to. */
struct rsm_known {
	uintptr_t from[RSM_KNOWN], to[RSM_KNOWN];
	uint64_t at[RSM_KNOWN]; /* when: one_now_ns() */
	unsigned next;          /* to be forgotten */
};
extern _Thread_local struct rsm_known rsm_known[2] __attribute__((tls_model("initial-exec")));

/* It was there, as far as this thread remembers. */
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
/* RSM_SUCCESS, or RSMERR_BAD_ADDR: a put cannot read it, a get not write it. */
int rsm_local_check(const struct rsm_import *import, const void *local, uint64_t len,
		    enum rsm_direction direction);

/* ---- map.c ---- */

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

/* ---- local memory handles ---- */

struct rsm_localmem {
	struct rsm_slot slot;
	rsmapi_controller_handle_t controller;
	struct rsm_link *link;
	struct one_mr mr;
};
_Static_assert(sizeof(struct rsm_localmem) <= RSM_SLOT_SIZE, "rsm_localmem");

/*
 * Where [offset, offset+len) of a handle's memory is, and its key for transfers
 * on `link`, or 0.  0, RSMERR_BAD_SGIO, RSMERR_BAD_LENGTH.
 */
int rsm_localmem_find(rsm_localmemory_handle_t handle, const struct rsm_link *link, uint64_t offset,
		      uint64_t len, void **va, uint32_t *lkey);

#endif
