/* SPDX-License-Identifier: BSD-3-Clause */
/* Attachments to the data plane, and functions that all rooms of librsm share. */
#ifndef RSM_LINK_H
#define RSM_LINK_H

#include "client/attach.h"
#include "client/mem.h"
#include "rsm/handle.h"

struct rsm_range;

/* A ring of staging memory. One import uses it at a time. */
struct rsm_stage {
	struct rsm_stage *next;
	uint64_t offset; /* in the arena; the engine's address of the ring */
	uint8_t *memory;
	uint64_t size;
	uint32_t lkey;
};

struct rsm_link {
	struct one_client *client;
	uint32_t process;
	uint32_t pz;
	uint16_t channel; /* the channel on which waiters of transfers and signals sleep */
	bool loopback;
	_Atomic uint32_t refs;
	/* Called on the watcher's thread when the data plane is lost. Set before the first object that
	 * depends on it. */
	void (*_Atomic lost)(const struct rsm_link *link);
	pthread_mutex_t lock; /* protects all members below */
	struct rsm_stage *stages;
	struct rsm_range *ranges; /* sorted by address */
	uint32_t num_ranges, max_ranges;
	uint32_t polled; /* segments with poll descriptors */
	bool pump;       /* the pump thread runs */
};

/* Attaches to `port`, or to the first port if NULL. Returns 0, or -errno of one_attach(). */
int rsm_link_open(const char *port, bool loopback, struct rsm_link **out);
struct rsm_link *rsm_link_get(struct rsm_link *link);
void rsm_link_put(struct rsm_link *link);
bool rsm_link_lost(const struct rsm_link *link);
struct rsm_stage *rsm_stage_get(struct rsm_link *link);
void rsm_stage_put(struct rsm_link *link, struct rsm_stage *stage);
/* Converts -errno of the client core, or a reply of the data plane, to an RSMERR_*. */
int rsm_error(int error);
/* Copies from the application's memory. Returns 0, or -EFAULT if it is not readable. */
int rsm_copy_in(void *dst, const void *src, size_t len);
size_t rsm_page_size(void);

/* ---- controller.c: the attachments that segments are made with ---- */
#define RSM_PORTS_MAX 64u /* limit per data plane */

struct rsm_controller {
	struct rsm_slot slot;
	uint32_t refs;
	bool loopback;
	char name[ONE_PORT_NAME]; /* the data plane's spelling */
	struct rsm_link *link;
	rsmapi_controller_attr_t attr;
};
_Static_assert(sizeof(struct rsm_controller) <= RSM_SLOT_SIZE, "rsm_controller");

/* Returns a reference to the controller's attachment, reattaching if the old one was lost. 0,
 * RSMERR_BAD_CTLR_HNDL, RSMERR_CTLR_NOT_PRESENT, or rsm_open_error(). */
int rsm_controller_link(rsmapi_controller_handle_t handle, struct rsm_link **link);
/* Converts -errno of one_attach() to an RSMERR_*. */
int rsm_open_error(int error);
/* Prints why one_attach() refused, also without ONESIDE_DEBUG: `object` is what `argument` of the
 * call asked for. Returns rsm_open_error(error). */
int rsm_refuse_attach(const char *argument, const char *object, int error) __attribute__((cold));
/* True if the handle is live and of this process. */
bool rsm_controller_valid(rsmapi_controller_handle_t handle);

/* ---- localmem.c: objects behind local memory handles ---- */
struct rsm_localmem {
	struct rsm_slot slot;
	rsmapi_controller_handle_t controller;
	struct rsm_link *link;
	struct one_mr mr;
};
_Static_assert(sizeof(struct rsm_localmem) <= RSM_SLOT_SIZE, "rsm_localmem");

/* Finds the address of [offset, offset + len) of a handle's memory, and the key for transfers on `link` (0 if
 * registered with another). Returns 0, RSMERR_BAD_SGIO or RSMERR_BAD_LENGTH. */
int rsm_localmem_find(rsm_localmemory_handle_t handle, const struct rsm_link *link, uint64_t offset,
		      uint64_t len, void **va, uint32_t *lkey);

/* ---- range.c: registered memory, found by address ---- */
struct rsm_range {
	uint64_t va, length;
	uint32_t lkey;
};

/* Registers memory and adds it to the ranges. `alone`: in a file of its own. Returns 0, or RSMERR_*. */
int rsm_range_register(struct rsm_link *link, uint64_t va, uint64_t length, bool alone, struct one_mr *mr);
int rsm_range_add(struct rsm_link *link, const struct one_mr *mr);
/* Removes a range, and waits until no transfer uses it. */
void rsm_range_remove(struct rsm_link *link, const struct one_mr *mr);
/* Returns the local key of registered memory that covers [va, va + len), or 0. */
uint32_t rsm_range_find(struct rsm_link *link, uint64_t va, uint64_t len);

/* Checks memory for registration. Returns 0, RSMERR_BAD_ADDR (not mapped, or a shared mapping of a file on
 * disk) or RSMERR_PERM_DENIED (not readable and writable). */
int rsm_memory_check(uint64_t va, uint64_t length);
/* True if all of [va, end) is mapped writable. Slow: reads /proc/self/maps. */
bool rsm_memory_writable(uint64_t va, uint64_t end);

#endif
