/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames to the ports.  A core keeps what a port does not take and tries again every loop; nothing is
 * dropped here but what no ring can hold, and that is counted.  A core without a transmit queue of its own
 * hands its frames to the core that has queue 0.
 */
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

static inline bool
has_queue(const struct core *core, const struct port *port)
{
	return core->index < port->tx_queues;
}

/* The ICRCs of many frames side by side, when their bytes have long been stored. */
static __rte_noinline void
seal(struct core *core)
{
	uint64_t start = unlikely(core->timed) ? rte_rdtsc() : 0;

	for (uint32_t i = 0; i < core->tx_unsealed; i++)
		wire_seal(rte_pktmbuf_mtod(core->tx_seal[i], uint8_t *), core->tx_seal[i]->data_len);
	core->tx_unsealed = 0;
	/* Of making frames, not of the driver. */
	if (unlikely(core->timed))
		stage_within(core, ENGINE_STAGE_OUTPUT, rte_rdtsc() - start);
}

/* Of so many frames at the front those that may leave, as they may. */
static uint16_t
protect(struct core *core, uint32_t index, struct tx_queue *queue, uint16_t burst)
{
	struct rte_mbuf **frames = &queue->frame[queue->first];
	uint16_t kept = esp_out(core, (uint16_t)index, ports[index].info.mtu, frames, burst);

	if (kept < burst)
		memmove(frames + kept, frames + burst, (queue->count - burst) * sizeof(frames[0]));
	queue->count -= burst - kept;
	return kept;
}

/* Frames that have gone. */
static uint32_t
flush_port(struct core *core, uint32_t index)
{
	struct tx_queue *queue = &core->tx[index];
	struct port *port = &ports[index];
	uint32_t total = 0;
	uint16_t sent, burst = RTE_MIN(queue->count, (uint16_t)CORE_BURST);

	seal(core);
	while (burst > 0) {
		struct rte_mbuf **frames = &queue->frame[queue->first];
		uint32_t len[CORE_BURST];
		uint8_t care = port_cares(port);

		if (unlikely(care != 0)) {
			if ((care & PORT_CARE_PAUSED) != 0)
				break;
			burst = protect(core, index, queue, burst);
		}
		/* Once sent, a frame is no longer ours to look at. */
		for (uint16_t i = 0; i < burst; i++)
			len[i] = frames[i]->pkt_len;
		if (likely(has_queue(core, port))) {
			sent = rte_eth_tx_burst(port->device, (uint16_t)core->index, frames, burst);
			for (uint16_t i = 0; i < sent; i++)
				core->stats.tx_bytes += len[i];
			core->stats.tx_packets += sent;
		} else {
			sent = (uint16_t)rte_ring_mp_enqueue_burst(port->tx_ring, (void **)frames, burst,
								   NULL);
			core->wake_mask |= 1; /* core 0 */
		}
		queue->first += sent;
		queue->count -= sent;
		total += sent;
		if (sent < burst)
			break;
		burst = RTE_MIN(queue->count, (uint16_t)CORE_BURST);
	}
	if (queue->count == 0)
		queue->first = 0;
	return total;
}

bool
tx_at_once(const struct core *core, uint32_t port)
{
	return core->tx_spares != 0 && core->tx[port].count < core->turns.tx_most;
}

bool
tx_has_room(struct core *core, uint32_t port)
{
	if (likely(core->tx[port].count < core->turns.tx_most))
		return true;
	flush_port(core, port);
	if (core->tx[port].count < core->turns.tx_most)
		return true;
	core->stats.backpressure++;
	return false;
}

static __rte_noinline void
send_burst(struct core *core, uint32_t port)
{
	uint64_t start;

	seal(core);
	start = unlikely(core->timed) ? rte_rdtsc() : 0;
	flush_port(core, port);
	/* Not of the stage in which the frame was made. */
	if (unlikely(core->timed))
		stage_within(core, ENGINE_STAGE_TX, rte_rdtsc() - start);
}

static inline void
append(struct core *core, uint32_t port, struct tx_queue *queue, struct rte_mbuf *m)
{
	queue->frame[queue->first + queue->count++] = m;
	if (unlikely(queue->count % CORE_BURST == 0))
		send_burst(core, port);
	else if (unlikely(core->tx_unsealed == CORE_BURST))
		seal(core);
}

/* The queue ends where its buffer does. */
static __rte_noinline void
append_moved(struct core *core, uint32_t port, struct tx_queue *queue, struct rte_mbuf *m)
{
	memmove(queue->frame, &queue->frame[queue->first], queue->count * sizeof(queue->frame[0]));
	queue->first = 0;
	/* Only the control thread's frames come without a question for room before. */
	if (queue->count == TX_BUFFER) {
		core->stats.drop_tx_ring++;
		rte_pktmbuf_free(m);
		return;
	}
	append(core, port, queue, m);
}

/* What few frames need is called last, so that the others save no registers for it. */
void
tx_append(struct core *core, uint32_t port, struct rte_mbuf *m)
{
	struct tx_queue *queue = &core->tx[port];

	if (unlikely(queue->first + queue->count == TX_BUFFER))
		append_moved(core, port, queue, m);
	else
		append(core, port, queue, m);
}

void
tx_append_unsealed(struct core *core, uint32_t port, struct rte_mbuf *m)
{
	core->tx_seal[core->tx_unsealed++] = m;
	tx_append(core, port, m);
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
				tx_append(core, i, frames[j]);
			done += n;
		}
		/* What a port that is down does not take is no reason to stay awake. */
		if (core->tx[i].count > 0)
			done += flush_port(core, i);
	}
	return done;
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
		rte_pktmbuf_free_bulk(&core->tx[i].frame[core->tx[i].first], core->tx[i].count);
		core->tx[i].count = 0;
	}
}
