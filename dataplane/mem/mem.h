/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory keys: what a local or remote key gives access to.
 *
 * One table for the whole data plane.  The control thread writes it (a core only as mem_invalidate,
 * mem_revoke and mem_renew say); the polling cores read it without locks.  An entry is immutable while it is
 * published; it is replaced or removed by one atomic store, and freed by the control thread after every core
 * has passed a quiescent state (rte_rcu_qsbr).  A core may therefore use a `struct mem_region *` until the
 * end of its loop, never longer: a message of several packets looks its key up again for each packet, or for
 * each run of packets that came in one burst (rc_input_again).
 *
 *   key = tag(31:24) | slot(23:8) | variant(7:0)     all 32 bits must match
 *
 * tag, slot and the first variant come from a CSPRNG.  Key 0 is never valid.
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

struct reach; /* reach.h */
struct mem_renewable;

struct mem_region {
	uint32_t key;    /* of a renewable one it changes while it is not published */
	uint32_t pz;     /* protection zone, unique in the data plane */
	uint32_t access; /* ONE_ACCESS_*; a window has only REMOTE bits */
	uint32_t qpn;    /* nonzero: only this queue pair may use the key (RSM windows) */
	uint64_t va;     /* as requests name it */
	uint64_t shift;  /* va is at va - shift in the application */
	uint64_t length;
	uint8_t *base;       /* where va is mapped here; NULL: moved by the application (reach.h) */
	struct reach *reach; /* NULL when base is set */
	void *owner;         /* the control thread's object */
	bool window;         /* a window that peers may invalidate (ONE_OP_SEND_INV) */
	struct mem_renewable *renewable; /* that it is part of; NULL: none */
};

/*
 * A region whose key its application revokes and renews through its core, the only one that uses keys of its
 * zone.  The slot stays the region's all the time and tells what holds: `region` is published, or `none`,
 * which grants nothing.  The control thread makes it and removes it as any other, and settles it before
 * anything is to stand on the region: from then on it can be revoked by the control thread alone.
 */
struct mem_renewable {
	struct mem_region region; /* first: to free it frees all */
	struct mem_region none;
	const void *holder;   /* whose requests count */
	_Atomic bool settled; /* it is not renewed any more */
};

struct mem_table {
	uint32_t log2; /* <= 16 */
	_Atomic(struct mem_region *) slot[];
};

struct mem_table *mem_table_new(uint32_t log2);
void mem_table_free(struct mem_table *table);

/*
 * Control thread only.  mem_key_new picks a free slot and a key at random
 * (getrandom) and reserves nothing: publish before the next call.  0: table full.
 */
uint32_t mem_key_new(const struct mem_table *table);
void mem_publish(struct mem_table *table, struct mem_region *region); /* replaces the slot's entry */
void mem_remove(struct mem_table *table, uint32_t key);               /* by slot */

static inline uint32_t
mem_key_slot(const struct mem_table *table, uint32_t key)
{
	return (key >> 8) & ((1u << table->log2) - 1u);
}

/* Relaxed: it pairs with the store in mem_renew, whose core publishes the region afterwards; another one may
 * still look at it, and finds that its zone is not that of any queue pair there. */
static inline uint32_t
mem_key_of(const struct mem_region *region)
{
	return __atomic_load_n(&region->key, __ATOMIC_RELAXED);
}

static inline struct mem_region *
mem_lookup(const struct mem_table *table, uint32_t key)
{
	/* Pairs with the release store in mem_publish and mem_remove. */
	struct mem_region *region =
		atomic_load_explicit(&table->slot[mem_key_slot(table, key)], memory_order_acquire);

	return region != NULL && mem_key_of(region) == key ? region : NULL;
}

/* The whole of [va, va+len) lies in the region; overflow-safe. */
static inline bool
mem_covers(const struct mem_region *region, uint64_t va, uint64_t len)
{
	return len <= region->length && va >= region->va && va - region->va <= region->length - len;
}

/*
 * Makes an invalidatable window useless.  This one store is a polling core's, on behalf of a peer: the core
 * that owns all queue pairs of the window's zone, so that no access goes on meanwhile.  The slot holds one
 * that grants nothing until the control thread, whose the window's region stays, publishes or removes.
 */
bool mem_invalidate(struct mem_table *table, uint32_t key, uint32_t pz, uint32_t qpn);

/*
 * The core's side of a renewable region: on the core of `holder`, between two accesses to memory.  False:
 * there is no such region, or it is settled.  `next` has the slot of `key`, the last key that the region had.
 */
bool mem_revoke(struct mem_table *table, const void *holder, uint32_t key);
bool mem_renew(struct mem_table *table, const void *holder, uint32_t key, uint32_t next);
/*
 * The control thread: `copy` takes the place of the region in the table, with the key that it has now, and
 * mem_revoke() finds no renewable region there any more.  False: it was revoked, and will not be renewed.
 */
bool mem_settle(struct mem_table *table, struct mem_renewable *renewable, struct mem_region *copy);

/* The control thread: a revoked region will not be renewed.  False: it is not revoked, and stays as it is. */
bool mem_expire(struct mem_table *table, struct mem_renewable *renewable);

/*
 * The region that `key` names, if it is in `pz`, grants every bit of `access`,
 * may be used by `qpn`, and covers [va, va+len); else NULL.
 */
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

/* Where checked memory is mapped here; not for a region without mapping. */
static inline uint8_t *
mem_at(const struct mem_region *region, uint64_t va)
{
	return region->base + (va - region->va);
}

#endif
