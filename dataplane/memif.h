/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rings of a memif that DPDK's driver has set up, found in this process's
 * mappings: for what the driver does not do.
 *
 *   a bell      see bell.h
 *   streaming   long frames are stored past the caches.  To store into a line that the
 *               far end's processor has in its cache takes that line from it first;
 *               where the two processors share no cache, that is five times as slow as
 *               to store to memory, of which nobody has a copy.  Where they do share
 *               one it is the other way round, and what the driver does is best.
 *               Which it is can change while we run: a virtual machine's processors move.
 *               So both are timed now and then, and the faster one is used.
 *
 * Only one pair of rings with buffers in the same region, as two DPDK memifs agree
 * upon without zero-copy; with anything else, and wherever these rings are not known,
 * the driver does it all.  It keeps nothing of the ring that it sends through but what
 * is in shared memory, so that each burst may go either way.
 */
#ifndef DATAPLANE_MEMIF_H
#define DATAPLANE_MEMIF_H

#include "core.h"

#define MEMIF_MASK_INT 1u /* flag of a ring: its reader polls */

/* Of memif's protocol, version 2: a ring in the shared memory, followed by its descriptors. */
struct memif_ring {
	uint32_t cookie;
	_Atomic uint16_t flags;
	_Atomic uint16_t head;
	uint8_t pad0[56];
	_Atomic uint16_t tail;
	uint8_t pad1[62];
};
_Static_assert(sizeof(struct memif_ring) == 128, "memif_ring");

struct memif_descriptor {
	uint16_t flags, region;
	uint32_t length, offset, metadata;
};
_Static_assert(sizeof(struct memif_descriptor) == 16, "memif_descriptor");

/* Before the cores run, and then on the control thread: looks for rings that are not known yet. */
void memif_find(void);
/* There are ports whose rings memif_find() has not found, and it may. */
bool memif_wanted(void);
void memif_fini(void); /* when nothing runs any more */
/* The ring that we read, or NULL; and in *generation which of those that there were. */
struct memif_ring *memif_rx_ring(uint32_t port, uint32_t *generation);
/* As rte_eth_tx_burst, on the core that has the port's queue; len[i] is that of frame[i]. */
uint16_t memif_tx(uint32_t port, struct rte_mbuf **frame, const uint32_t *len, uint16_t count);
/* Frames that went past the driver, which counts the others. */
uint64_t memif_streamed(uint32_t port);
/* Around an munmap() of the driver's: no core uses the memory when memif_unmap_begin() and a grace period
 * have passed, and none is found there until memif_unmap_end(). */
void memif_unmap_begin(const void *address, size_t len);
void memif_unmap_end(void);

#endif
