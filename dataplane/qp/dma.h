/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Local copies by a DMA device (rte_dmadev), if the configuration names one.
 *
 * Each core has a virtual channel of its own.  It hands over what is long enough, parks
 * the queue pair, serves others, and looks for outcomes once per loop while there are
 * some to come.  What a device does not take, or fails at, the core copies.
 *
 * Memory.  Devices take virtual addresses of this process (RTE_DMA_CAPA_SVA), so whatever
 * is mapped can be copied, and nothing must stay mapped for the device but what it is
 * copying.  Every copy carries the token of the grace periods that had begun before its
 * keys were looked up; engine_grace_over() is false for later ones until it is done.  So
 * whatever waits for a grace period before it unmaps waits for copies, too.
 *
 * Queue pairs.  One that leaves its connection, or whose peer does, has its copies waited
 * for, since applications have their buffers back then: in-order devices are through with
 * them in a millisecond.  The core stands still meanwhile, for a second if the device hangs.
 *
 * A device that tells nothing for a second hangs.  It is left alone, a grace period later
 * the control thread stops it, and the cores copy what it had not told of, but for what
 * connections that have ended wanted.  One that does not even stop could write at any time
 * into memory that others have by then: the data plane ends.
 */
#ifndef DATAPLANE_DMA_H
#define DATAPLANE_DMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct dma_channel;
struct engine_qp;

/*
 * Shorter copies are not worth a descriptor, a doorbell and two more looks at the queue pair.
 * The value is an estimate: with data in the cache a core copies 64 KiB in 1.5 us, from memory
 * several times slower, and no real device has been measured.  A few pieces of DMA_CHUNK at once
 * keep a device busy from one loop to the next, and bound what a core waits for at the end of a
 * connection.
 */
#define DMA_MIN 65536u
#define DMA_CHUNK 262144u
#define DMA_TAIL 64u   /* the end of every message is the core's: applications poll the last byte */
#define DMA_COPIES 4u  /* of one queue pair under way */
#define DMA_FLIGHT 64u /* of one core; a power of two */

/* ---- the core ---- */

/* Between memory that both ends may use; `len` <= DMA_CHUNK.  False: not taken, nothing has happened. */
bool dma_copy(struct core *core, struct engine_qp *qp, uint8_t *to, const uint8_t *from, uint32_t len);
bool dma_busy(const struct dma_channel *channel); /* some copies are under way */
/* Wakes the queue pairs of those that have ended, and tells how many. */
uint32_t dma_poll(struct core *core);
/* Waits for the copies of `qp`.  Those of a device that hangs are nobody's then: `qp` may be freed. */
void dma_leave(struct core *core, struct engine_qp *qp);

/* ---- the control thread ---- */

/* After the cores are there.  One sentence in `why` on failure. */
int dma_init(char *why, size_t why_len);
void dma_fini(void); /* the cores have stopped */
/* No copy is under way that began before the grace period did; any thread. */
bool dma_passed(uint64_t token);
/* Some device hangs or has failed too often, and dma_recover() has not seen to it: call it again and again.
 */
bool dma_in_trouble(void);
void dma_recover(void);

#endif
