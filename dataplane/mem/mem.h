/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory keys: the memory that a local or remote key gives access to.
 *
 * The whole data plane has one table. The control thread writes it (a core only in mem_invalidate, mem_revoke
 * and mem_renew); the polling cores read it without locks. An entry is immutable while published. One atomic
 * store replaces or removes it; the control thread frees it after every core has passed a quiescent state
 * (rte_rcu_qsbr). So a core may use a `struct mem_region *` until the end of its loop, never longer: a
 * message of several packets looks its key up again for each packet, or for each run of packets in one burst
 * (rc_input_again).
 *
 *   key = tag(31:24) | slot(23:8) | variant(7:0)     all 32 bits must match
 *
 * A CSPRNG supplies tag, slot and the first variant. Key 0 is never valid.
 *
 * No DPDK here: the transport, the simulator and the fuzzers use this file.
 */
#ifndef DATAPLANE_MEM_H
#define DATAPLANE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/arena.h"   /* ONE_KEY_SLOT */
#include "abi/message.h" /* ONE_ACCESS_* */
#include "abi/ring.h"    /* enum one_status, struct one_sge */

struct bounce; /* bounce.h */
struct mem_renewable;

struct mem_region {
	uint32_t key;    /* of a renewable region: changes while it is not published */
	uint32_t pz;     /* protection zone, unique in the data plane */
	uint32_t access; /* ONE_ACCESS_*; a window has only REMOTE bits */
	uint32_t qpn;    /* nonzero: only this queue pair may use the key (RSM windows) */
	uint64_t va;     /* address in requests */
	uint64_t shift;  /* address in the application: va - shift */
	uint64_t length;
	uint8_t *base;                   /* address here; NULL: the application moves the memory (bounce.h) */
	struct bounce *bounce;           /* NULL if base is set */
	void *owner;                     /* object of the control thread */
	bool window;                     /* window that peers may invalidate (ONE_OP_SEND_INV) */
	struct mem_renewable *renewable; /* container of a renewable region; NULL: not renewable */
};

/* A region whose key its application revokes and renews through its core, the only core that uses keys of its
 * zone. The slot stays the region's, and has either `region`, or `none`, which grants nothing. The control
 * thread creates and removes the region like any other. The control thread settles the region before windows
 * or segments are built on it: from then on only the control thread can revoke it. */
struct mem_renewable {
	struct mem_region region; /* first: free() of the region frees all */
	struct mem_region none;
	const void *holder;   /* requests of others are refused */
	_Atomic bool settled; /* no longer renewable */
};

struct mem_table {
	uint32_t log2; /* <= 16 */
	_Atomic(struct mem_region *) slot[];
};

struct mem_table *mem_table_new(uint32_t log2);
void mem_table_free(struct mem_table *table);

/* Control thread only. mem_key_new() picks a free slot and a key at random (getrandom) and reserves nothing:
 * publish before the next call. 0: the table is full. */
uint32_t mem_key_new(const struct mem_table *table);
bool mem_slot_is_free(const struct mem_table *table, uint32_t key);
void mem_publish(struct mem_table *table, struct mem_region *region); /* replaces the slot's entry */
void mem_remove(struct mem_table *table, uint32_t key);               /* by slot */

static inline uint32_t
mem_key_slot(const struct mem_table *table, uint32_t key)
{
	return (key >> 8) & ((1u << table->log2) - 1u);
}

/* Relaxed: pairs with the store in mem_renew(), whose core publishes the region afterwards. Another core may
 * read the key meanwhile, and then finds that no queue pair of its own has the region's zone. */
static inline uint32_t
mem_key_of(const struct mem_region *region)
{
	return __atomic_load_n(&region->key, __ATOMIC_RELAXED);
}

static inline struct mem_region *
mem_lookup(const struct mem_table *table, uint32_t key)
{
	/* Pairs with the release stores in mem_publish(), mem_remove() and mem_renew(). */
	struct mem_region *region =
		atomic_load_explicit(&table->slot[mem_key_slot(table, key)], memory_order_acquire);

	return region != NULL && mem_key_of(region) == key ? region : NULL;
}

/* True if all of [va, va+len) is in the region; overflow-safe. */
static inline bool
mem_covers(const struct mem_region *region, uint64_t va, uint64_t len)
{
	return len <= region->length && va >= region->va && va - region->va <= region->length - len;
}

/* Make an invalidatable window useless. A polling core makes this store, on behalf of a peer: the core that
 * owns all queue pairs of the window's zone, so that no access goes on meanwhile. Then the slot's entry
 * grants nothing, until the control thread, which still owns the window's region, publishes or removes. */
bool mem_invalidate(struct mem_table *table, uint32_t key, uint32_t pz, uint32_t qpn);

/* Core's side of a renewable region: call on the core of `holder`, between two accesses to memory. False:
 * there is no such region, or it is settled. `key` is the last key of the region; `next` has the same
 * slot. */
bool mem_revoke(struct mem_table *table, const void *holder, uint32_t key);
bool mem_renew(struct mem_table *table, const void *holder, uint32_t key, uint32_t next);
/* Control thread: `copy` replaces the region in the table, with the region's present key; mem_revoke() no
 * longer finds a renewable region there. False: the region was revoked, and cannot be renewed any more. */
bool mem_settle(struct mem_table *table, struct mem_renewable *renewable, struct mem_region *copy);

/* Control thread: a revoked region can no longer be renewed. False: it is not revoked, and unchanged. */
bool mem_expire(struct mem_table *table, struct mem_renewable *renewable);

/* Returns the region of `key`, if it is in `pz`, grants every bit of `access`, may be used by `qpn`, and
 * covers [va, va+len); else NULL. */
static inline struct mem_region *
mem_check(const struct mem_table *table, uint32_t key, uint32_t pz, uint32_t qpn, uint32_t access,
	  uint64_t va, uint64_t len)
{
	struct mem_region *region = mem_lookup(table, key);

	if (region == NULL || region->pz != pz || (region->access & access) != access ||
	    (region->qpn != 0 && region->qpn != qpn) || !mem_covers(region, va, len))
		return NULL;
	return region;
}

/* Address here of checked memory; not for a region without mapping. */
static inline uint8_t *
mem_at(const struct mem_region *region, uint64_t va)
{
	return region->base + (va - region->va);
}

#endif
