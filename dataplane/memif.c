/* SPDX-License-Identifier: BSD-3-Clause */
#include "memif.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MEMIF_COOKIE 0x3e31f20u
#define MEMIF_LOG2_MAX 14u
#define LINE 64u

enum {
	FIND_TRIES = 20,    /* while a link is up */
	STREAM_LEAST = 512, /* bytes: shorter frames are the driver's */
	STREAM_BURST = 4,   /* frames: fewer are not timed */
	BEHIND = 64,        /* frames in the ring: the far end is the slower one */
	TRY_OTHER = 256,    /* bursts until the slower way is timed again */
	COST_SHIFT = 3,     /* of the moving average */
	COST_JUMP = 4       /* times the average: more is somebody else's turn on the processor */
};

enum way { BY_DRIVER, BY_STREAM, WAYS };

static struct cable {
	bool client;
	uint8_t tries;
	uint32_t generation;
	/* Of the rings, from their being found until they are about to be unmapped: */
	_Atomic(struct memif_ring *) rx;
	struct memif_ring *tx;
	uint8_t *base;
	size_t len;
	uint32_t buffers; /* offset where they begin, */
	uint32_t room;    /* and how long each is */
	uint16_t size;    /* slots of a ring */
	/* the core that sends */
	uint32_t cost[WAYS]; /* cycles for 1 KiB; 0: not known yet */
	uint32_t bursts;
	_Atomic uint64_t streamed;
} cables[CONFIG_PORTS_MAX];

/* Held while mappings are looked for, and while one goes. */
static pthread_mutex_t mappings = PTHREAD_MUTEX_INITIALIZER;

/* ---- finding ---- */

static bool
is_taken(const struct memif_ring *ring)
{
	for (uint32_t i = 0; i < engine.num_ports; i++)
		/* Only the control thread and, under the mutex, who unmaps store it. */
		if (atomic_load_explicit(&cables[i].rx, memory_order_relaxed) == ring)
			return true;
	return false;
}

/* Two rings, one behind the other, at the beginning of a mapping: the client's to send through, the server's.
 */
static bool
rings_in(uint8_t *base, size_t len, struct cable *cable)
{
	if (len < sizeof(struct memif_ring) || ((struct memif_ring *)base)->cookie != MEMIF_COOKIE)
		return false;
	for (uint32_t log2 = 0; log2 <= MEMIF_LOG2_MAX; log2++) {
		size_t ring = sizeof(struct memif_ring) + (sizeof(struct memif_descriptor) << log2);
		struct memif_ring *first = (struct memif_ring *)base;
		struct memif_ring *second = (struct memif_ring *)(base + ring);

		if (len < 3 * ring)
			break;
		if (second->cookie != MEMIF_COOKIE)
			continue;
		/* With more queues than we use it is not told here which is whose. */
		if (((struct memif_ring *)(base + 2 * ring))->cookie == MEMIF_COOKIE)
			return false;
		cable->tx = cable->client ? first : second;
		atomic_store_explicit(&cable->rx, cable->client ? second : first, memory_order_relaxed);
		cable->base = base;
		cable->len = len;
		cable->size = (uint16_t)(1u << log2);
		cable->buffers = (uint32_t)(2 * ring);
		/* Without zero-copy they are all there. */
		cable->room = (uint32_t)RTE_MIN((len - 2 * ring) >> (log2 + 1), (size_t)UINT16_MAX);
		return true;
	}
	return false;
}

/* `mappings` held.  Those that no port has yet; false also when there are several, and nothing tells whose
 * they are. */
static bool
rings_anywhere(struct cable *found)
{
	FILE *file = fopen("/proc/self/maps", "re");
	uint32_t count = 0;
	char line[512];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		struct cable one = {.client = found->client};
		uintptr_t from, to;

		if (strstr(line, "/memfd:memif") == NULL ||
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR " rw-s 00000000 ", &from, &to) != 2)
			continue;
		if (!rings_in((uint8_t *)from, to - from, &one) ||
		    is_taken(atomic_load_explicit(&one.rx, memory_order_relaxed)))
			continue;
		*found = one;
		count++;
	}
	if (file != NULL)
		fclose(file);
	return count == 1;
}

static void
find(uint32_t port)
{
	struct cable *cable = &cables[port], found = {.client = engine.port[port].reconnects};
	struct rte_eth_link link;

	/* Pairs with nothing: only the control thread stores anything but NULL. */
	if (atomic_load_explicit(&cable->rx, memory_order_relaxed) != NULL)
		return;
	if (rte_eth_link_get_nowait(engine.port[port].device, &link) != 0 ||
	    link.link_status != RTE_ETH_LINK_UP) {
		cable->tries = 0;
		return;
	}
	if (cable->tries == FIND_TRIES)
		return;
	cable->tries++;
	pthread_mutex_lock(&mappings);
	if (rings_anywhere(&found)) {
		cable->client = found.client;
		cable->tx = found.tx;
		cable->base = found.base;
		cable->len = found.len;
		cable->buffers = found.buffers;
		cable->room = found.room;
		cable->size = found.size;
		cable->generation++;
		cable->tries = 0;
		/* Pairs with the acquire loads in memif_rx_ring and memif_tx. */
		atomic_store_explicit(&cable->rx, atomic_load_explicit(&found.rx, memory_order_relaxed),
				      memory_order_release);
	}
	pthread_mutex_unlock(&mappings);
}

void
memif_find(void)
{
	for (uint32_t i = 0; i < engine.num_ports; i++)
		if (engine.port[i].memif)
			find(i);
}

bool
memif_wanted(void)
{
	for (uint32_t i = 0; i < engine.num_ports; i++)
		/* As in find(). */
		if (engine.port[i].memif && cables[i].tries < FIND_TRIES &&
		    atomic_load_explicit(&cables[i].rx, memory_order_relaxed) == NULL)
			return true;
	return false;
}

void
memif_fini(void)
{
	memset(cables, 0, sizeof(cables));
}

struct memif_ring *
memif_rx_ring(uint32_t port, uint32_t *generation)
{
	/* Pairs with the store in find(), and with the grace period in munmap(). */
	struct memif_ring *ring = atomic_load_explicit(&cables[port].rx, memory_order_acquire);

	*generation = cables[port].generation;
	return ring;
}

void
memif_unmap_begin(const void *address, size_t len)
{
	pthread_mutex_lock(&mappings);
	for (uint32_t i = 0; i < CONFIG_PORTS_MAX; i++) {
		uintptr_t ring = (uintptr_t)atomic_load_explicit(&cables[i].rx, memory_order_relaxed);

		if (ring >= (uintptr_t)address && ring - (uintptr_t)address < len)
			atomic_store_explicit(&cables[i].rx, NULL, memory_order_relaxed);
	}
}

void
memif_unmap_end(void)
{
	pthread_mutex_unlock(&mappings);
}

/* ---- streaming ---- */

uint64_t
memif_streamed(uint32_t port)
{
	/* A counter: nothing hangs on it. */
	return atomic_load_explicit(&cables[port].streamed, memory_order_relaxed);
}

#if defined(__x86_64__)

/* Whole lines of zeros behind the last byte; `to` is the beginning of a line. */
static __attribute__((target("avx512f,avx512bw"))) void
stream_wide(uint8_t *to, const uint8_t *from, uint32_t len)
{
	for (; len >= LINE; len -= LINE, to += LINE, from += LINE)
		_mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
	if (len > 0)
		_mm512_stream_si512((void *)to, _mm512_maskz_loadu_epi8((1ull << len) - 1, from));
}

static void
stream_narrow(uint8_t *to, const uint8_t *from, uint32_t len)
{
	uint8_t last[LINE] = {0};

	for (;; len -= LINE, to += LINE, from += LINE) {
		if (len < LINE) {
			memcpy(last, from, len);
			from = last;
			if (len == 0)
				break;
			len = LINE;
		}
		for (uint32_t i = 0; i < LINE; i += sizeof(__m128i))
			_mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
	}
}

/*
 * Where a frame of `len` bytes goes; NULL: the driver may know.  The descriptor is in memory that the far
 * end writes: it is looked at once.
 */
static uint8_t *
place(const struct cable *cable, const struct memif_descriptor *d, uint32_t len)
{
	uint32_t offset = *(const volatile uint32_t *)&d->offset;
	uint32_t length = *(const volatile uint32_t *)&d->length;
	uint16_t region = *(const volatile uint16_t *)&d->region;
	uint32_t padded = RTE_ALIGN_CEIL(len, LINE);

	if (region != 0 || offset < cable->buffers || offset % LINE != 0 || padded > cable->room ||
	    offset > cable->len - padded || (!cable->client && length < len))
		return NULL;
	return cable->base + offset;
}

static _Atomic uint16_t *
own_index(const struct cable *cable)
{
	return cable->client ? &cable->tx->head : &cable->tx->tail;
}

/* Slots that we may fill. */
static uint16_t
slots_free(const struct cable *cable)
{
	/* As the driver does it; the far end's index pairs with its release store. */
	uint16_t slot = atomic_load_explicit(own_index(cable), memory_order_relaxed);

	if (cable->client)
		return (uint16_t)(cable->size - slot +
				  atomic_load_explicit(&cable->tx->tail, memory_order_acquire));
	return (uint16_t)(atomic_load_explicit(&cable->tx->head, memory_order_acquire) - slot);
}

/* Frames that are stored; none: they are the driver's. */
static uint16_t
stream(struct cable *cable, struct rte_mbuf **frame, const uint32_t *len, uint16_t count, uint16_t free)
{
	struct memif_descriptor *descriptors = (struct memif_descriptor *)(cable->tx + 1);
	_Atomic uint16_t *own = own_index(cable);
	uint16_t slot = atomic_load_explicit(own, memory_order_relaxed), n;
	bool wide = __builtin_cpu_supports("avx512bw");

	/* A reader that sleeps has to be rung for. */
	if (free > cable->size ||
	    !(atomic_load_explicit(&cable->tx->flags, memory_order_relaxed) & MEMIF_MASK_INT))
		return 0;
	for (n = 0; n < RTE_MIN(count, free); n++, slot++) {
		struct memif_descriptor *d = &descriptors[slot & (cable->size - 1)];
		uint8_t *to = place(cable, d, len[n]);

		if (unlikely(to == NULL || frame[n]->nb_segs != 1))
			break;
		if (wide)
			stream_wide(to, rte_pktmbuf_mtod(frame[n], const uint8_t *), len[n]);
		else
			stream_narrow(to, rte_pktmbuf_mtod(frame[n], const uint8_t *), len[n]);
		d->length = len[n];
		d->flags = 0;
	}
	if (n == 0)
		return 0;
	_mm_sfence();
	/* Pairs with the far end's acquire load. */
	atomic_store_explicit(own, slot, memory_order_release);
	rte_pktmbuf_free_bulk(frame, n);
	/* This core alone stores it. */
	atomic_store_explicit(&cable->streamed,
			      atomic_load_explicit(&cable->streamed, memory_order_relaxed) + n,
			      memory_order_relaxed);
	return n;
}

/* What a KiB took, in the average. */
static void
learn(uint32_t *cost, uint64_t cycles, uint64_t bytes)
{
	uint64_t one = cycles * 1024 / bytes + 1;

	if (*cost == 0)
		*cost = (uint32_t)RTE_MIN(one, (uint64_t)UINT16_MAX);
	one = RTE_MIN(one, (uint64_t)*cost * COST_JUMP);
	*cost = (uint32_t)(*cost - (*cost >> COST_SHIFT) + (one >> COST_SHIFT) + 1);
}

uint16_t
memif_tx(uint32_t port, struct rte_mbuf **frame, const uint32_t *len, uint16_t count)
{
	struct cable *cable = &cables[port];
	uint64_t begin, bytes = 0;
	uint16_t sent = 0, free;
	enum way way;

	/* As in memif_rx_ring. */
	if (count < STREAM_BURST || atomic_load_explicit(&cable->rx, memory_order_acquire) == NULL)
		return rte_eth_tx_burst(engine.port[port].device, 0, frame, count);
	for (uint16_t i = 0; i < count; i++)
		if (len[i] < STREAM_LEAST)
			return rte_eth_tx_burst(engine.port[port].device, 0, frame, count);

	free = slots_free(cable);
	way = cable->cost[BY_STREAM] < cable->cost[BY_DRIVER] ? BY_STREAM : BY_DRIVER;
	/* What it gains us is the far end's loss, which has to get it from memory. */
	if (cable->size - free >= BEHIND)
		way = BY_DRIVER;
	if (unlikely(++cable->bursts % TRY_OTHER == 0))
		way = way == BY_STREAM ? BY_DRIVER : BY_STREAM;
	begin = rte_rdtsc();
	if (way == BY_STREAM) {
		sent = stream(cable, frame, len, count, free);
		if (sent == 0)
			way = BY_DRIVER;
	}
	if (way == BY_DRIVER)
		sent = rte_eth_tx_burst(engine.port[port].device, 0, frame, count);
	for (uint16_t i = 0; i < sent; i++)
		bytes += len[i];
	if (sent >= STREAM_BURST)
		learn(&cable->cost[way], rte_rdtsc() - begin, bytes);
	return sent;
}

#else

uint16_t
memif_tx(uint32_t port, struct rte_mbuf **frame, const uint32_t *len, uint16_t count)
{
	(void)len;
	return rte_eth_tx_burst(engine.port[port].device, 0, frame, count);
}

#endif
