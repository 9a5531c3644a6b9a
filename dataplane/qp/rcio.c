/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RC transport on a core: its struct rc_env over mbufs, and the input of frames. A frame for a queue pair
 * of another core, from a port or from a queue pair of this data plane, goes to that core's inbound ring.
 */
#include <stdlib.h>

#include "dataplane/core/stats.h"
#include "dataplane/esp/esp.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/transport.h"

static inline struct core *
core_of(struct rc_env *env)
{
	return (struct core *)(void *)env; /* the first member */
}

/* ---- what the transport asks for ---- */

static uint8_t *
take_frame(struct core *core, uint32_t len)
{
	struct rte_mbuf *m = core->tx_frame;

	if (m == NULL)
		m = tx_alloc(core);
	if (unlikely(m == NULL || len > engine.data_room)) {
		core->stats.drop_no_mbuf++;
		return NULL;
	}
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	core->tx_frame = m;
	return rte_pktmbuf_mtod(m, uint8_t *);
}

static bool
loop_has_room(struct core *core, uint32_t qpn)
{
	const struct engine_qp *peer = engine_qp_find(qpn);

	if (peer == NULL || ring_used(qp_core(peer)->inbound) <= INBOUND_HIGH)
		return true;
	core->stats.backpressure++;
	return false;
}

static __rte_noinline uint8_t *
begin_slowly(struct core *core, uint16_t to, bool loop, uint32_t qpn, uint32_t len)
{
	if (loop ? !loop_has_room(core, qpn) : !tx_has_room(core, to))
		return NULL;
	return take_frame(core, len);
}

/* Rare cases are tail calls, so that the common case saves no registers for them. */
uint8_t *
rcio_frame_begin(struct core *core, uint16_t to, bool loop, uint32_t qpn, uint32_t len)
{
	if (unlikely(loop || !tx_at_once(core, to)))
		return begin_slowly(core, to, loop, qpn, len);
	return take_frame(core, len);
}

static uint8_t *
env_tx_begin(struct rc_env *env, struct rc_qp *rc, uint32_t len)
{
	const struct engine_qp *qp = rc_user(rc);

	return rcio_frame_begin(core_of(env), qp->to, qp->transport == QP_LOOP, qp->attr.peer_qpn, len);
}

static __rte_noinline void
loop_frame(struct core *core, uint16_t to, uint32_t from, uint32_t qpn, bool sealed)
{
	const struct engine_qp *peer = engine_qp_find(qpn);
	struct rte_mbuf *m = core->tx_frame;

	core->tx_frame = NULL;
	if (peer == NULL) {
		core->stats.drop_no_qp++;
		rte_pktmbuf_free(m);
		return;
	}
	if (!sealed)
		wire_seal(rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
	frame_info(m)->parsed = frame_info(m)->esp = false;
	frame_info(m)->port = TX_PORT(to);
	frame_info(m)->far = 0;
	frame_info(m)->from = from;
	core_hand_over(core, qp_core(peer), m);
}

void
rcio_frame_end(struct core *core, uint16_t to, bool loop, uint32_t from, uint32_t qpn, bool sealed)
{
	struct rte_mbuf *m = core->tx_frame;

	core->drr.cost += SHARE_FRAME + m->data_len;
	core->drr.frame_bytes += m->data_len;
	if (unlikely(loop)) {
		loop_frame(core, to, from, qpn, sealed);
		return;
	}
	core->tx_frame = NULL;
	if (sealed)
		tx_append(core, to, m);
	else
		tx_append_unsealed(core, to, m);
}

static void
env_tx_end(struct rc_env *env, struct rc_qp *rc, bool sealed)
{
	const struct engine_qp *qp = rc_user(rc);

	rcio_frame_end(core_of(env), qp->to, qp->transport == QP_LOOP, qp->qpn, qp->attr.peer_qpn, sealed);
}

static bool
env_take_recv(struct rc_env *env, struct rc_qp *rc, struct recv_work *out)
{
	struct core *core = core_of(env);
	bool taken = qp_take_recv(core, rc_user(rc), out);

	core->takes = taken ? core->takes + 1 : CORE_TAKES;
	return taken;
}

static void
env_complete(struct rc_env *env, struct rc_qp *rc, const struct completion *c)
{
	qp_complete(core_of(env), rc_user(rc), c);
}

static void
env_retired(struct rc_env *env, struct rc_qp *rc, uint32_t count)
{
	qp_retired(core_of(env), rc_user(rc), count);
}

static void
env_failed(struct rc_env *env, struct rc_qp *rc, enum rc_error error)
{
	struct engine_qp *qp = rc_user(rc);

	/* Relaxed: the ring of events orders these stores before the loads in engine_qp_refusal() and
	 * engine_qp_unacknowledged(). */
	atomic_store_explicit(&qp->refusal, rc_refusal(rc), memory_order_relaxed);
	atomic_store_explicit(&qp->unacknowledged, rc_unacknowledged(rc), memory_order_relaxed);
	qp_break(core_of(env), qp, error);
}

static void
env_bind(struct rc_env *env, struct rc_qp *rc, const struct work *work)
{
	qp_bind_ask(core_of(env), rc_user(rc), work);
}

static bool
env_invalidate(struct rc_env *env, struct rc_qp *rc, uint32_t key)
{
	const struct engine_qp *qp = rc_user(rc);

	return mem_invalidate(env->mem, key, qp->pz, qp->qpn);
}

static void
env_established(struct rc_env *env, struct rc_qp *rc)
{
	struct engine_qp *qp = rc_user(rc);

	if (qp->out_of_band)
		return;
	qp_established(core_of(env), qp, QP_SETUP_HEARD, "a packet of its peer");
}

static void
env_recognized(struct rc_env *env, struct rc_qp *rc, uint16_t udp_port)
{
	struct engine_qp *qp = rc_user(rc);
	const struct wire_path path = qp->attr.path;

	qp->attr.packed = rc_packs(rc);
	/* Relaxed: pairs with the load in engine_qp_source_port(), a number that orders nothing. */
	atomic_store_explicit(&qp->source_port, udp_port, memory_order_relaxed);
	rcio_set_path(qp, &path);
}

/* Take another reference to the frame being input; its private area holds the parsed packet. */
static const struct wire_packet *
env_hold(struct rc_env *env, const struct wire_packet *packet)
{
	struct core *core = core_of(env);
	struct frame_info *info = frame_info(core->rx_frame);

	if (core->holds >= core->holds_max)
		return NULL;
	core->holds++;
	rte_mbuf_refcnt_update(core->rx_frame, 1);
	if (packet != &info->packet)
		info->packet = *packet;
	return &info->packet;
}

static void
env_release(struct rc_env *env, const struct wire_packet *packet)
{
	uintptr_t info = (uintptr_t)packet - offsetof(struct frame_info, packet);

	core_of(env)->holds--;
	rte_pktmbuf_free((struct rte_mbuf *)(info - sizeof(struct rte_mbuf)));
}

void
rcio_init(struct core *core)
{
	core->env.yields = engine.config->idle != ONE_IDLE_SPIN;
	core->env.hold = env_hold;
	core->env.release = env_release;
	core->env.tx_begin = env_tx_begin;
	core->env.tx_end = env_tx_end;
	core->env.take_recv = env_take_recv;
	core->env.complete = env_complete;
	core->env.retired = env_retired;
	core->env.failed = env_failed;
	core->env.bind = env_bind;
	core->env.invalidate = env_invalidate;
	core->env.established = env_established;
	core->env.recognized = env_recognized;
}

/* ---- calling it ---- */

void
rcio_set_path(struct engine_qp *qp, const struct wire_path *path)
{
	uint16_t port = atomic_load_explicit(&qp->source_port, memory_order_relaxed);

	qp->attr.path = *path;
	if (port != 0) {
		qp->attr.path.udp_src_port = port;
		qp->attr.path.tos |= WIRE_ECT;
	}
	rc_set_path(qp->rc, &qp->attr.path);
}

void
rcio_after(struct core *core, struct engine_qp *qp)
{
	uint64_t deadline;

	if (unlikely(qp->setup == QP_SETUP_HEARD)) {
		qp_set_setup(qp, QP_SETUP_DONE, "the transport has returned");
		if (qp->state == RC_RTR)
			qp_set_state(qp, RC_RTS, "a packet of its peer");
		rc_set_rts(qp->rc);
		qp_make_hot(core, qp);
	}
	if (unlikely(qp->state == RC_ERROR)) {
		/* The NAK that ended the connection may still have to go out. qp_leave() has reset the
		 * packets in flight. */
		deadline = RC_NEVER;
	} else {
		share_flight(qp, rc_flight(qp->rc));
		deadline = rc_deadline(qp->rc);
	}
	if (!(qp->lists & QP_IN_RUN) && rc_wants_output(qp->rc)) {
		qp->lists |= QP_IN_RUN;
		TAILQ_INSERT_TAIL(&qp->client->share.run, qp, run_link);
		share_join(core, qp->client);
	}
	if (deadline < qp->timer.at)
		timer_set(core, &qp->timer, deadline);
	if (unlikely(qp->send >= QP_SEND_STOPPING))
		qp_check_drained(core, qp);
}

/* Take up to `budget` requests. False: none is left, or none can be taken now. */
static bool
take_work(struct core *core, struct engine_qp *qp, uint32_t budget)
{
	for (uint32_t i = 0; i < budget && qp->state == RC_RTS; i++) {
		struct work *work = &qp->work;

		if (qp->request == QP_REQUEST_NONE) {
			struct work *next = rc_next_work(qp->rc);

			if (likely(next != NULL))
				work = next;
			if (qp_pull(core, qp, work) <= 0)
				return false;
		}
		/* Cleared before the call, which may complete work and break the queue pair. */
		qp->request = QP_REQUEST_NONE;
		if (rc_post(qp->rc, work, core->now) != 0) {
			if (work != &qp->work)
				qp->work = *work;
			qp->request = QP_REQUEST_TAKEN;
			if (qp->state != RC_RTS)
				qp_flush_rings(core, qp);
			return false;
		}
	}
	return qp->state == RC_RTS;
}

/*
 * Requests are sent as soon as they are taken, a few at a time, while they are in the nearest cache. Queue
 * pairs with more to send take turns in rcio_run().
 */
void
rcio_poll(struct core *core, struct engine_qp *qp, uint32_t budget)
{
	uint32_t most = qp->attr.packed ? WIRE_PACKED_MAX : CORE_RUN_BUDGET; /* packed: one frame */
	bool more = true;

	while (more && budget > 0) {
		uint32_t part = RTE_MIN(budget, most);

		more = take_work(core, qp, part);
		budget -= part;
		if ((qp->lists & QP_IN_RUN) || qp->state != RC_RTS || qp->client->faulty ||
		    !rc_wants_output(qp->rc))
			continue;
		rc_output(qp->rc, core->drr.run_budget, core->now);
		if (rc_wants_output(qp->rc))
			break;
	}
	rcio_after(core, qp);
}

void
rcio_answer_run(struct core *core, struct qp_list *run)
{
	struct engine_qp *qp, *last = TAILQ_LAST(run, qp_list);

	for (uint32_t i = 0; i < CORE_RUN_LOOKS && (qp = TAILQ_FIRST(run)) != NULL; i++) {
		TAILQ_REMOVE(run, qp, run_link);
		qp->lists &= (uint8_t)~QP_IN_RUN;
		if (!qp->client->faulty) {
			rcio_answer(core, qp);
			rcio_after(core, qp);
		}
		if (qp == last)
			break;
	}
}

uint32_t
rcio_run(struct core *core, struct qp_list *run)
{
	struct engine_qp *qp, *last = TAILQ_LAST(run, qp_list);
	uint32_t frames = 0, before = 0, bytes = 0;

	for (uint32_t i = 0; i < CORE_RUN_LOOKS && (qp = TAILQ_FIRST(run)) != NULL && share_lasts(core);
	     i++) {
		TAILQ_REMOVE(run, qp, run_link);
		qp->lists &= (uint8_t)~QP_IN_RUN;
		if (!qp->client->faulty) {
			uint32_t n = rc_output(qp->rc, core->drr.run_budget, core->now);

			frames += n;
			bytes += n * qp->attr.path_mtu;
			rcio_after(core, qp); /* back to the end of the list if more is to be sent */
		}
		if (qp != last)
			continue;
		if (frames == before || bytes >= CORE_RUN_BYTES)
			break;
		before = frames;
		last = TAILQ_LAST(run, qp_list);
	}
	return frames;
}

/* ---- frames in ---- */

static bool
to_control(struct core *core, struct rte_ring *ring, struct rte_mbuf *m)
{
	if (rte_ring_mp_enqueue(ring, m) != 0) {
		core->stats.drop_control++;
		rte_pktmbuf_free(m);
		return false;
	}
	core->wake_control = true;
	return true;
}

/* Pass on a frame that is not RoCE. A VLAN tag that is left here is a priority tag, which the control thread
 * does not use. */
static void
other_to_control(struct core *core, struct rte_mbuf *m, uint16_t port)
{
	frame_info(m)->port = port;
	frame_info(m)->parsed = false;
	rte_vlan_strip(m);
	if (!wire_is_discovery(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len))
		to_control(core, engine.control_frames, m);
	else if (!to_control(core, engine.neigh_frames, m))
		/* Relaxed: pairs with the load in engine_neigh_lost(), only a count. */
		atomic_fetch_add_explicit(&engine.neigh_lost, 1, memory_order_relaxed);
}

static bool
is_keep_alive(const struct wire_packet *packet)
{
	return packet->payload_len > 1 && packet->payload[1] == ENGINE_CLASS_KEEP_ALIVE;
}

void
rcio_answer(struct core *core, struct engine_qp *qp)
{
	uint32_t most = core->drr.tx_most;
	uint64_t before = core->drr.frame_bytes;

	/* Requests of other clients may have filled the part that several clients share. */
	core->drr.tx_most = TX_HIGH;
	if (rc_answer(qp->rc, share_reads(qp)) > 0)
		share_answered(qp, core->drr.frame_bytes - before);
	core->drr.tx_most = most;
}

static inline void
after_input(struct core *core)
{
	struct engine_qp *qp = core->rx_qp;
	uint32_t heard;

	if (unlikely(user_is_limited(qp->client->share.group->user)))
		rcio_answer(core, qp);
	rcio_after(core, qp);
	heard = rc_heard(qp->rc);
	/* Only this core stores both. Relaxed: pairs with the loads in engine_qp_heard_there() and
	 * engine_qp_heard(), a time and a mark that order nothing. */
	if (core->rx_from_there && heard != atomic_load_explicit(&qp->heard, memory_order_relaxed))
		atomic_store_explicit(&qp->heard_there, core->real_at, memory_order_relaxed);
	atomic_store_explicit(&qp->heard, heard, memory_order_relaxed);
}

static inline bool
is_mac_equal(const uint8_t a[6], const uint8_t b[6])
{
	return memcmp(a, b, 6) == 0;
}

/* Drop a packet for no queue pair. CNPs are counted like those for a queue pair (rc_input()). */
static __rte_noinline void
drop_stray(struct core *core, const struct wire_packet *packet)
{
	if (packet->opcode == WIRE_CNP)
		core->env.counter[RC_COUNT_CNP_RECEIVED]++;
	else
		core->stats.drop_no_qp++;
}

/* True if queue pair `from` of this data plane may send to `qp`: `from` is its peer, or `qp` is for
 * datagrams. */
static inline bool
is_from_peer(const struct engine_qp *qp, uint32_t from)
{
	return qp->transport == QP_UD || (qp->transport == QP_LOOP && from == qp->attr.peer_qpn);
}

/* The peer's frames come from core `rx_far` of its data plane, and frames to the peer go to another core:
 * from now on send to that core, to which the peer has moved. */
static __rte_noinline void
follow_peer(const struct core *core, struct engine_qp *qp, uint16_t port, const struct wire_packet *packet)
{
	if (port == qp->port && qp->transport != QP_LOOP && core->rx_far < ports[port].far_rings &&
	    wire_addr_equal(&packet->src, &qp->attr.path.dst))
		qp->to = TX_TO(port, core->rx_far);
}

/* `is_expected`: the packet came from a port, like the peer's packets, or was sent by a peer in this data
 * plane. */
static inline void
deliver_packet(struct core *core, struct engine_qp *qp, uint16_t port, const struct wire_packet *packet,
	       bool is_expected)
{
	if (unlikely(!is_expected || qp->transport == QP_LOCAL || qp->state == RC_RESET ||
		     qp->state == RC_ERROR || qp->client->faulty)) {
		drop_stray(core, packet);
		return;
	}
	if (unlikely(qp->transport == QP_UD)) {
		ud_input(core, qp, packet);
		return;
	}
	rc_input(qp->rc, packet, core->now);
	if (core->rx_qp == qp)
		return;
	if (core->rx_qp != NULL)
		after_input(core);
	core->rx_qp = qp;
	if (unlikely(TX_TO(port, core->rx_far) != qp->to))
		follow_peer(core, qp, port, packet);
	core->rx_from_there = is_mac_equal(packet->src_mac, qp->attr.path.dst_mac);
}

/* End a burst: the last frame has been delivered. */
static inline void
end_input_burst(struct core *core)
{
	if (core->rx_qp != NULL)
		after_input(core);
	core->rx_qp = NULL;
}

/* Route a frame to its queue pair. Returns true if the caller has to free the frame. */
static bool
route_frame(struct core *core, struct rte_mbuf *m, uint16_t port, const struct wire_packet *packet)
{
	struct engine_qp *qp;
	struct core *owner;

	if (unlikely(!port_has_addr(&ports[port], &packet->dst))) {
		core->stats.drop[WIRE_DROP_ADDRESS]++;
		return true;
	}
	if (unlikely(packet->qpn == 1)) {
		frame_info(m)->packet = *packet;
		frame_info(m)->port = port;
		frame_info(m)->parsed = true;
		to_control(core, is_keep_alive(packet) ? engine.alive_frames : engine.control_frames, m);
		return false;
	}
	qp = engine_qp_find(packet->qpn);
	if (unlikely(qp == NULL)) {
		drop_stray(core, packet);
		return true;
	}
	/* Datagrams of this data plane to itself never arrive by a port. */
	if (unlikely(qp->transport == QP_UD && packet->opcode != WIRE_CNP &&
		     port_by_addr(&packet->src) != NULL)) {
		core->stats.ud_drop[ENGINE_UD_ADDRESS]++;
		return true;
	}
	owner = qp_core(qp);
	if (likely(owner == core) && likely(!qp->frozen)) {
		deliver_packet(core, qp, port, packet, qp->transport != QP_LOOP);
		return true;
	}
	frame_info(m)->packet = *packet;
	frame_info(m)->port = port;
	frame_info(m)->far = core->rx_far;
	frame_info(m)->at = (uint8_t)core->index;
	frame_info(m)->parsed = true;
	if (owner == core)
		return !qp_queue_frame(core, qp, m);
	core_hand_over(core, owner, m);
	return false;
}

/* Process a frame from a port. Returns true if the caller has to free the frame. */
static bool
input_frame(struct core *core, struct rte_mbuf *m, uint16_t port)
{
	enum wire_drop drop;
	bool sum_is_good;

	core->stats.rx_bytes += m->pkt_len;
	core->rx_frame = m;
	if (unlikely(m->nb_segs > 1)) {
		core->stats.rx_chained++;
		if (rte_pktmbuf_linearize(m) != 0) {
			core->stats.drop_segments++;
			return true;
		}
	}
	if (unlikely((m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0 && (m->vlan_tci & WIRE_VLAN_ID) != 0)) {
		core->stats.drop[WIRE_DROP_VLAN]++;
		return true;
	}
	/* A checksum reported as bad is verified like one that was not checked: some devices report as bad
	 * what they cannot judge. */
	sum_is_good = (m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD;
	drop = wire_parse_received(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, sum_is_good, &core->seen,
				   &core->move);
	if (!core->seen.again)
		rc_run_end(&core->env);
	if (likely(drop == WIRE_OK))
		return rc_input_again(&core->env, &core->seen.packet, core->now) ||
		       route_frame(core, m, port, &core->seen.packet);
	if (drop != WIRE_NOT_ROCE) {
		core->stats.drop[drop]++;
		return true;
	}
	other_to_control(core, m, port);
	return false;
}

/* Input frames of one port, in the order of their arrival. */
static inline void
take_burst(struct core *core, uint16_t port, struct rte_mbuf **frames, uint16_t n)
{
	struct rte_mbuf *done[CORE_BURST];
	uint16_t num_done = 0;

	for (uint16_t j = 0; j < n && j < 2; j++)
		rte_prefetch0(rte_pktmbuf_mtod(frames[j], void *));
	core->env.move = &core->move;
	rc_run_end(&core->env);
	for (uint16_t j = 0; j < n; j++) {
		if (j + 2 < n)
			rte_prefetch0(rte_pktmbuf_mtod(frames[j + 2], void *));
		if (input_frame(core, frames[j], port))
			done[num_done++] = frames[j];
	}
	end_input_burst(core);
	core->env.move = NULL;
	wire_move(&core->move);
	rte_pktmbuf_free_bulk(done, num_done);
}

static inline uint32_t
receive_burst(struct core *core, const struct rx_queue *queue, uint16_t number, bool esp)
{
	struct rte_mbuf *frames[CORE_BURST];
	uint16_t n = rte_eth_rx_burst(queue->device, number, frames, CORE_BURST);

	stage_end(core, ENGINE_STAGE_DRIVER_RX);
	core->rx_more |= n == CORE_BURST;
	take_burst(core, queue->port, frames, esp ? esp_in(core, queue->port, frames, n) : n);
	core->stats.rx_packets += n;
	stage_end(core, ENGINE_STAGE_INPUT);
	return n;
}

static __rte_noinline uint32_t
receive_flagged(struct core *core, const struct rx_queue *queue, uint8_t flags)
{
	return (flags & PORT_FLAG_AWAY) != 0 ? 0 : receive_burst(core, queue, queue->queue, true);
}

/* Receive from each core of a memif's peer. */
static uint32_t
receive_rings(struct core *core, const struct rx_queue *queue, uint8_t flags)
{
	struct rings rings = port_rings(&ports[queue->port]);
	uint32_t received = 0;

	if (unlikely((flags & PORT_FLAG_AWAY) != 0 || core->index >= rings.own))
		return 0;
	for (uint32_t far = 0; far < rings.far; far++) {
		core->rx_far = (uint8_t)far;
		received += receive_burst(core, queue, (uint16_t)(far * rings.own + core->index), flags != 0);
	}
	core->rx_far = 0;
	return received;
}

uint32_t
rcio_receive(struct core *core)
{
	uint32_t received = 0;

	core->rx_more = false;
	for (uint32_t i = 0; i < core->num_rx; i++) {
		const struct rx_queue *queue = &core->rx[i];
		uint8_t flags = port_flags(&ports[queue->port]);

		if (queue->rings)
			received += receive_rings(core, queue, flags);
		else if (unlikely(flags != 0))
			received += receive_flagged(core, queue, flags);
		else
			received += receive_burst(core, queue, queue->queue, false);
	}
	return received;
}

/* Parse a frame from another core's queue pair, unless its port's core has. False: there is nothing to
 * deliver. */
static bool
parse_inbound(struct core *core, struct rte_mbuf *m)
{
	struct frame_info *info = frame_info(m);
	enum wire_drop drop;

	if (info->parsed)
		return true;
	drop = wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, &info->packet);
	if (drop != WIRE_OK)
		core->stats.drop[drop]++;
	return drop == WIRE_OK;
}

/* Process an ESP frame as if it had arrived in a queue of this core. */
static void
take_esp(struct core *core, struct rte_mbuf *m)
{
	uint16_t port = frame_info(m)->port, left;

	core->rx_far = frame_info(m)->far;
	left = esp_in(core, port, &m, 1);
	take_burst(core, port, &m, left);
}

/* Input a frame from another core. Returns true if the caller has to free the frame. */
static bool
inbound_frame(struct core *core, struct rte_mbuf *m)
{
	struct frame_info *info = frame_info(m);
	struct engine_qp *qp;

	core->rx_frame = m;
	if (!parse_inbound(core, m))
		return true;
	qp = engine_qp_find(info->packet.qpn);
	if (unlikely(qp == NULL)) { /* gone since the handover */
		drop_stray(core, &info->packet);
		return true;
	}
	if (unlikely(qp_core(qp) != core)) { /* moved since the handover */
		core_hand_over(core, qp_core(qp), m);
		return false;
	}
	if (unlikely(qp->frozen))
		return !qp_queue_frame(core, qp, m);
	if (info->parsed)
		steer_strayed(core, qp, info);
	core->rx_far = info->far;
	deliver_packet(core, qp, info->port, &info->packet,
		       info->parsed ? qp->transport != QP_LOOP : is_from_peer(qp, info->from));
	return true;
}

void
rcio_take(struct core *core, struct rte_mbuf *m)
{
	bool done = inbound_frame(core, m);

	end_input_burst(core);
	core->rx_far = 0;
	if (done)
		rte_pktmbuf_free(m);
}

uint32_t
rcio_inbound(struct core *core)
{
	struct rte_mbuf *frames[CORE_BURST], *done[CORE_BURST];
	uint32_t n, num_done = 0;

	if (ring_used(core->inbound) == 0)
		return 0;
	n = rte_ring_sc_dequeue_burst(core->inbound, (void **)frames, CORE_BURST, NULL);
	core->rx_more |= n == CORE_BURST;
	for (uint32_t i = 0; i < n; i++) {
		const struct frame_info *info = frame_info(frames[i]);

		if (unlikely(!info->parsed && info->esp)) {
			end_input_burst(core);
			take_esp(core, frames[i]);
		} else if (inbound_frame(core, frames[i])) {
			done[num_done++] = frames[i];
		}
	}
	end_input_burst(core);
	core->rx_far = 0;
	rte_pktmbuf_free_bulk(done, num_done);
	return n;
}
