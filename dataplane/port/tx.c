/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames to the ports. A core retains frames that a port does not accept and retries in every loop. Only
 * frames that no ring can hold are dropped, and counted. A core without a transmit queue of its own hands its
 * frames to the core that has queue 0. For a memif there is a queue for each core of the peer
 * (memif_rings.c), so that a full ring delays only frames to its own core. */
#include <errno.h>
#include <stdlib.h>

#include "dataplane/core/stats.h"
#include "dataplane/esp/esp.h"
#include "dataplane/port/port.h"

static __rte_noinline bool
alloc_spares(struct core *core)
{
	if (rte_pktmbuf_alloc_bulk(core->pool, core->tx_spare, CORE_BURST) != 0)
		return false;
	core->tx_spares = CORE_BURST;
	return true;
}

struct rte_mbuf *
tx_alloc(struct core *core)
{
	if (unlikely(core->tx_spares == 0) && !alloc_spares(core))
		return NULL;
	return core->tx_spare[--core->tx_spares];
}

static inline struct tx_queue *
queue_to(struct core *core, uint32_t to)
{
	return likely(TX_FAR(to) == 0) ? &core->tx[to] : &core->far_tx[TX_PORT(to)][TX_FAR(to) - 1];
}

/* Returns the device's transmit queue to that core; -1: this core has none. */
static inline int
device_queue(const struct core *core, const struct port *port, uint32_t far)
{
	struct rings rings;

	if (likely(port->far_rings == 0))
		return core->index < port->tx_queues ? (int)core->index : -1;
	rings = port_rings(port);
	return core->index < rings.own ? (int)(core->index * rings.far + far % rings.far) : -1;
}

int
tx_init(struct core *core)
{
	for (uint32_t i = 0; i < ports_num; i++) {
		if (ports[i].far_rings <= 1)
			continue;
		core->far_tx[i] = calloc(ports[i].far_rings - 1u, sizeof(struct tx_queue));
		if (core->far_tx[i] == NULL)
			return -ENOMEM;
	}
	return 0;
}

/* Compute the ICRCs of many frames together, long after their bytes were stored. */
static __rte_noinline void
seal_frames(struct core *core)
{
	uint64_t start = unlikely(core->timed) ? rte_rdtsc() : 0;

	for (uint32_t i = 0; i < core->tx_unsealed; i++)
		wire_seal(rte_pktmbuf_mtod(core->tx_seal[i], uint8_t *), core->tx_seal[i]->data_len);
	core->tx_unsealed = 0;
	/* The time counts as making frames, not as the driver's. */
	if (unlikely(core->timed))
		stage_within(core, ENGINE_STAGE_OUTPUT, rte_rdtsc() - start);
}

/* Apply ESP policy to the first `burst` frames; returns how many of them may leave. */
static uint16_t
protect_frames(struct core *core, uint32_t index, struct tx_queue *queue, uint16_t burst)
{
	struct rte_mbuf **frames = &queue->frame[queue->first];
	uint16_t kept = esp_out(core, (uint16_t)index, ports[index].info.mtu, frames, burst);

	if (kept < burst)
		memmove(frames + kept, frames + burst, (queue->count - burst) * sizeof(frames[0]));
	queue->count -= burst - kept;
	return kept;
}

/* Hand frames to the core that has the queues. */
static uint16_t
hand_to_first(struct core *core, struct port *port, uint32_t far, struct rte_mbuf **frames, uint16_t burst)
{
	for (uint16_t i = 0; i < burst; i++)
		frame_info(frames[i])->far = (uint8_t)far;
	core->wake_mask |= 1; /* core 0 */
	burst = (uint16_t)rte_ring_mp_enqueue_burst(port->tx_ring, (void **)frames, burst, NULL);
	core->stats.tx_handed_over += burst;
	return burst;
}

/* Returns the number of frames that have left. */
static uint32_t
flush_queue(struct core *core, uint32_t to)
{
	struct tx_queue *queue = queue_to(core, to);
	struct port *port = &ports[TX_PORT(to)];
	uint32_t total = 0;
	uint16_t sent, burst = RTE_MIN(queue->count, (uint16_t)CORE_BURST);
	int device;

	seal_frames(core);
	while (burst > 0) {
		struct rte_mbuf **frames = &queue->frame[queue->first];
		uint32_t len[CORE_BURST];
		uint8_t flags = port_flags(port);

		if (unlikely(flags != 0)) {
			if ((flags & PORT_FLAG_AWAY) != 0)
				break;
			burst = protect_frames(core, TX_PORT(to), queue, burst);
		}
		/* A frame may not be accessed after it was sent. */
		for (uint16_t i = 0; i < burst; i++)
			len[i] = frames[i]->pkt_len;
		device = device_queue(core, port, TX_FAR(to));
		if (likely(device >= 0)) {
			sent = rte_eth_tx_burst(port->device, (uint16_t)device, frames, burst);
			for (uint16_t i = 0; i < sent; i++)
				core->stats.tx_bytes += len[i];
			core->stats.tx_packets += sent;
		} else {
			sent = hand_to_first(core, port, TX_FAR(to), frames, burst);
		}
		queue->first += sent;
		queue->count -= sent;
		total += sent;
		if (sent < burst)
			break;
		burst = RTE_MIN(queue->count, (uint16_t)CORE_BURST);
	}
	if (queue->count == 0) {
		queue->first = 0;
		if (unlikely(TX_FAR(to) != 0))
			core->far_busy[TX_PORT(to)] &= (uint16_t) ~(1u << TX_FAR(to));
	}
	return total;
}

bool
tx_at_once(struct core *core, uint32_t to)
{
	return core->tx_spares != 0 && queue_to(core, to)->count < core->drr.tx_most;
}

bool
tx_has_room(struct core *core, uint32_t to)
{
	const struct tx_queue *queue = queue_to(core, to);

	if (likely(queue->count < core->drr.tx_most))
		return true;
	flush_queue(core, to);
	if (queue->count < core->drr.tx_most)
		return true;
	core->stats.backpressure++;
	return false;
}

static __rte_noinline void
send_burst(struct core *core, uint32_t to)
{
	uint64_t start;

	seal_frames(core);
	start = unlikely(core->timed) ? rte_rdtsc() : 0;
	flush_queue(core, to);
	/* The time does not count for the stage in which the frame was made. */
	if (unlikely(core->timed))
		stage_within(core, ENGINE_STAGE_TX, rte_rdtsc() - start);
}

static inline void
append_frame(struct core *core, uint32_t to, struct tx_queue *queue, struct rte_mbuf *m)
{
	queue->frame[queue->first + queue->count++] = m;
	if (unlikely(TX_FAR(to) != 0))
		core->far_busy[TX_PORT(to)] |= (uint16_t)(1u << TX_FAR(to));
	if (unlikely(queue->count % CORE_BURST == 0))
		send_burst(core, to);
	else if (unlikely(core->tx_unsealed == CORE_BURST))
		seal_frames(core);
}

/* The queue has reached the end of its buffer: move it to the front. */
static __rte_noinline void
append_moved(struct core *core, uint32_t to, struct tx_queue *queue, struct rte_mbuf *m)
{
	memmove(queue->frame, &queue->frame[queue->first], queue->count * sizeof(queue->frame[0]));
	queue->first = 0;
	/* Only the control thread's frames arrive without a check for room. */
	if (queue->count == TX_BUFFER) {
		core->stats.drop_tx_ring++;
		rte_pktmbuf_free(m);
		return;
	}
	append_frame(core, to, queue, m);
}

/* Rare cases are calls in tail position, so that the common case saves no registers for them. */
void
tx_append(struct core *core, uint32_t to, struct rte_mbuf *m)
{
	struct tx_queue *queue = queue_to(core, to);

	if (unlikely(queue->first + queue->count == TX_BUFFER))
		append_moved(core, to, queue, m);
	else
		append_frame(core, to, queue, m);
}

void
tx_append_unsealed(struct core *core, uint32_t to, struct rte_mbuf *m)
{
	core->tx_seal[core->tx_unsealed++] = m;
	tx_append(core, to, m);
}

static __rte_noinline uint32_t
flush_far(struct core *core, uint32_t port)
{
	uint32_t done = 0;

	for (uint32_t busy = core->far_busy[port]; busy != 0; busy &= busy - 1)
		done += flush_queue(core, TX_TO(port, (uint32_t)__builtin_ctz(busy)));
	return done;
}

uint32_t
tx_flush(struct core *core)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < ports_num; i++) {
		struct port *port = &ports[i];

		if (core->index == 0 && ring_used(port->tx_ring) > 0 && core->tx[i].count < TX_HIGH) {
			struct rte_mbuf *frames[CORE_BURST];
			uint32_t n =
				rte_ring_sc_dequeue_burst(port->tx_ring, (void **)frames, CORE_BURST, NULL);

			for (uint32_t j = 0; j < n; j++)
				tx_append(core, TX_TO(i, frame_info(frames[j])->far), frames[j]);
			done += n;
		}
		/* Frames that a port does not accept while down must not keep the core awake. */
		if (core->tx[i].count > 0)
			done += flush_queue(core, i);
		if (unlikely(core->far_busy[i] != 0))
			done += flush_far(core, i);
	}
	return done;
}

static void
free_queue(struct tx_queue *queue)
{
	rte_pktmbuf_free_bulk(&queue->frame[queue->first], queue->count);
	queue->count = 0;
}

void
tx_free(struct core *core)
{
	if (core->tx_frame != NULL)
		rte_pktmbuf_free(core->tx_frame);
	core->tx_frame = NULL;
	rte_pktmbuf_free_bulk(core->tx_spare, core->tx_spares);
	core->tx_spares = 0;
	for (uint32_t i = 0; i < ports_num; i++) {
		free_queue(&core->tx[i]);
		for (uint32_t j = 0; core->far_tx[i] != NULL && j + 1 < ports[i].far_rings; j++)
			free_queue(&core->far_tx[i][j]);
		free(core->far_tx[i]);
		core->far_tx[i] = NULL;
		core->far_busy[i] = 0;
	}
}
