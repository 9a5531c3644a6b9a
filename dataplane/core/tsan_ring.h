/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings with several producers under ThreadSanitizer: this header is included before each file of the engine.
 *
 * In DPDK's ring, a producer waits by a relaxed load for the tail of the producer before it, and then stores
 * its own tail. On x86 and ARMv8 a consumer that has loaded the second tail sees the entries of both. By the
 * rules of C11, which ThreadSanitizer applies, it sees only those of the second. So a mutex orders the
 * producers of a ring. Consumers do not take the mutex: their races with producers are still reported.
 */
#ifndef DATAPLANE_CORE_TSAN_RING_H
#define DATAPLANE_CORE_TSAN_RING_H

#include <pthread.h>

#include <rte_ring.h>

#define TSAN_RINGS 64u

/* A ring has the mutex of its address. Weak: the files of the engine share one definition. */
__attribute__((weak)) pthread_mutex_t tsan_producers[TSAN_RINGS];

static inline unsigned int
tsan_enqueue_burst(struct rte_ring *ring, void *const *items, unsigned int count, unsigned int *vacant)
{
	pthread_mutex_t *mutex = &tsan_producers[(uintptr_t)ring / RTE_CACHE_LINE_SIZE % TSAN_RINGS];
	unsigned int done;

	pthread_mutex_lock(mutex);
	done = rte_ring_mp_enqueue_burst(ring, items, count, vacant);
	pthread_mutex_unlock(mutex);
	return done;
}

static inline int
tsan_enqueue(struct rte_ring *ring, void *item)
{
	return tsan_enqueue_burst(ring, &item, 1, NULL) == 1 ? 0 : -ENOBUFS;
}

#define rte_ring_mp_enqueue(ring, item) tsan_enqueue(ring, item)
#define rte_ring_mp_enqueue_burst(ring, items, count, vacant) tsan_enqueue_burst(ring, items, count, vacant)

#endif
