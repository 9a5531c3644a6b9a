/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames between two cores of one data plane (never on a port), and frames from a port: to the control
 * thread, to a queue pair, or dropped with a counted reason.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "dataplane/core/stats.h"
#include "dataplane/wire/icrc.h"

#define LONG 300000

struct world {
	struct app app[2];
	struct ring send[2], recv[2], conn[2];
	struct pair pair[2];
	struct memory memory[2];
};
static struct world w;
static const bool is_local = false;

#include "either.h"

static int
setup(void **state)
{
	for (int i = 0; i < 2; i++) {
		app_start(&w.app[i]);
		ring_new(&w.app[i], CQ_LOG2, &w.send[i], NULL);
		ring_new(&w.app[i], CQ_LOG2, &w.recv[i], NULL);
		ring_new(&w.app[i], CQ_LOG2, &w.conn[i], NULL);
		pair_new(&w.app[i], &w.send[i], &w.recv[i], &w.conn[i], NULL, &w.pair[i]);
		memory_new(&w.app[i], ONE_ACCESS_ALL, LONG, &w.memory[i]);
	}
	return 0;
}

static int
teardown(void **state)
{
	for (int i = 0; i < 2; i++) {
		pair_end(&w.pair[i]);
		ring_end(&w.send[i]);
		ring_end(&w.recv[i]);
		ring_end(&w.conn[i]);
		memory_end(&w.memory[i]);
		app_end(&w.app[i]);
	}
	return 0;
}

static struct engine_stats
both(void)
{
	struct engine_stats sum = {0};

	for (uint32_t i = 0; i < engine.num_cores; i++) {
		const struct engine_stats *one = &engine.core[i]->stats;

		sum.drop_no_qp += one->drop_no_qp;
		sum.handed_over += one->handed_over;
		sum.tx_packets += one->tx_packets;
		sum.rx_packets += one->rx_packets;
		for (int j = 0; j < WIRE_DROP_MAX; j++)
			sum.drop[j] += one->drop[j];
	}
	return sum;
}

static uint64_t
cnps_received(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < engine.num_cores; i++)
		sum += engine.core[i]->env.counter[RC_COUNT_CNP_RECEIVED];
	return sum;
}

static void
test_clients_are_spread(void **state)
{
	assert_true(w.app[0].client->core->index != w.app[1].client->core->index);
	assert_int_equal(engine_qp_core(w.pair[0].qp), w.app[0].client->core->index);
}

static void
test_between_cores(void **state)
{
	uint64_t tx = both().tx_packets, handed = both().handed_over;

	connect_both();
	for (size_t i = 0; i < LONG; i++)
		w.memory[0].bytes[i] = (uint8_t)(i * 7 + i / 256);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, LONG);
	memset(w.memory[1].bytes, 0, LONG);
	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	post_send(&w.pair[0], &w.memory[0], 5000, 3);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 3);
	assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, 5000);
	assert_int_equal(both().tx_packets, tx); /* no frame of it on a port */
	assert_true(both().handed_over > handed + LONG / 1024);
	assert_int_equal(w.pair[0].failed + w.pair[1].failed, 0);
}

/*
 * A request posted before a disconnect is sent even if the core has not seen it when the command arrives. Its
 * acknowledgement is not awaited.
 */
static void
test_posted_before_the_end(void **state)
{
	connect_both();
	w.memory[0].bytes[0] = 0xa5;
	w.memory[1].bytes[0] = 0;
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp}), 0);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_FLUSHED, 1);
	TURN_UNTIL(w.memory[1].bytes[0] == 0xa5);
}

static void
test_refused_between_cores(void **state)
{
	connect_both();
	post_recv(&w.pair[1], &w.memory[1], 64, 2);
	post_write(&w.pair[0], &w.memory[0], &w.memory[0], 8, 1); /* a key of the wrong application */
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_FLUSHED, 2);
	TURN_UNTIL(w.pair[0].failed == 1 && w.pair[1].failed == 1);
	assert_int_equal(w.pair[0].error, RC_ERROR_REQUESTER);
	assert_int_equal(w.pair[1].error, RC_ERROR_RESPONDER);
	assert_int_equal(engine_qp_refusal(w.pair[1].qp), 0x62u << 24 | (w.pair[0].qpn ^ 0x5a5a5a));
	assert_int_equal(engine_qp_refusal(w.pair[0].qp), 0);
}

/* The control thread flushes both sides of a broken connection. The peer's earlier NAK is processed first. */
static void
test_refusal_comes_before_its_consequence(void **state)
{
	struct core *here = engine.core[w.app[0].client->core->index];
	struct core *there = engine.core[w.app[1].client->core->index];

	connect_both();
	post_write(&w.pair[0], &w.memory[0], &w.memory[0], 8, 1); /* a key of the wrong application */
	for (int i = 0; i < 1000 && ring_used(there->inbound) == 0; i++)
		loop_iterate(here, fixture_tsc());
	for (int i = 0; i < 1000 && ring_used(here->inbound) == 0; i++)
		loop_iterate(there, fixture_tsc());
	assert_true(ring_used(here->inbound) > 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp}), 0);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
}

static void
test_drain(void **state)
{
	connect_both();
	for (uint64_t i = 0; i < 10; i++)
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG / 2, i);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_DRAIN, .qp = w.pair[0].qp}), 0);
	TURN_UNTIL(w.pair[0].drained == 1);
	for (uint64_t i = 0; i < 10; i++)
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, i);
}

static void
test_peer_silent(void **state)
{
	struct engine_connection c = connection_to(&w.pair[0], &w.pair[1], RC_RTS, false);

	/* The peer's queue pair exists, but is not connected. */
	c.rc.timeout = 8;
	c.rc.retry_count = 1;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[0].qp, .connection = c}),
			 0);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
	TURN_UNTIL(w.pair[0].failed == 1);
	assert_true(both().drop_no_qp > 0);
}

/* Requests that were lost with the link are sent again at once when it comes up, long before the
 * retransmission time. */
static void
test_link_comes_up(void **state)
{
	uint64_t dropped;

	pair_connect(&w.pair[0], &w.pair[1], RC_RTS, false);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	TURN_UNTIL(both().drop_no_qp > 0);
	turn(20);
	dropped = both().drop_no_qp;
	engine_port_repeat(w.pair[0].qp->port + 1u);
	turn(20);
	assert_int_equal(both().drop_no_qp, dropped);
	engine_port_repeat(w.pair[0].qp->port);
	turn(20);
	assert_int_equal(both().drop_no_qp, dropped + 1);
	pair_connect(&w.pair[1], &w.pair[0], RC_RTS, false);
	engine_port_repeat(w.pair[0].qp->port);
	turn(20);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
}

/* Build a request from host 9. The port of the tests loops all frames back. */
static uint32_t
request(uint8_t *frame, uint8_t last_of_dst, uint32_t qpn)
{
	struct wire_path path = {.udp_src_port = 49152, .ttl = 64};
	struct wire_build b = {.opcode = WIRE_SEND_ONLY, .qpn = qpn, .psn = 5, .payload_len = 32};
	struct wire_template t;

	path.src = path.dst = ports[0].info.addr[0];
	path.src.gid[15] = 9;
	path.dst.gid[15] = last_of_dst;
	wire_template_init(&t, &path);
	memset(wire_build(&t, &b, frame), 0x11, 32);
	wire_seal(frame, wire_frame_len(&t, b.opcode, b.payload_len));
	return wire_frame_len(&t, b.opcode, b.payload_len);
}

static void
test_frames_off_the_port(void **state)
{
	struct engine_stats before = both(), after;
	uint8_t frame[256], arp[60] = {[12] = 8, [13] = 6};
	uint32_t len = request(frame, 1, 0x123456);

	assert_int_equal(engine_send_frame(0, frame, len), 0); /* no such queue pair */
	frame[len - 1] ^= 1;
	assert_int_equal(engine_send_frame(0, frame, len), 0); /* ICRC */
	len = request(frame, 2, 0x123456);
	assert_int_equal(engine_send_frame(0, frame, len), 0);       /* not our address */
	assert_int_equal(engine_send_frame(0, arp, sizeof(arp)), 0); /* the control thread's */
	TURN_UNTIL(both().rx_packets == before.rx_packets + 4);
	turn(2);
	after = both();
	assert_int_equal(after.drop_no_qp, before.drop_no_qp + 1);
	assert_int_equal(after.drop[WIRE_DROP_ICRC], before.drop[WIRE_DROP_ICRC] + 1);
	assert_int_equal(after.drop[WIRE_DROP_ADDRESS], before.drop[WIRE_DROP_ADDRESS] + 1);
	assert_int_equal(frames_to_control, 1);
	assert_true(engine_send_frame(1, frame, len) < 0);
	assert_true(engine_send_frame(0, frame, 60000) < 0);
}

/*
 * Frames from a port with our own address as source come from no host: a connection within the data plane
 * drops them.
 */
static void
own_address_to(int to)
{
	struct wire_path path = {.udp_src_port = 0xc000, .ttl = 64};
	struct wire_build b = {.opcode = WIRE_SEND_ONLY, .qpn = w.pair[to].qpn, .payload_len = 8};
	uint64_t dropped = both().drop_no_qp, seen = both().rx_packets;
	struct wire_template t;
	uint8_t frame[256];

	post_recv(&w.pair[to], &w.memory[to], 64, 2);
	b.psn = w.pair[!to].qpn ^ 0x5a5a5a; /* the PSN that the queue pair expects */
	path.src = path.dst = ports[0].info.addr[0];
	wire_template_init(&t, &path);
	memset(wire_build(&t, &b, frame), 0x11, 8);
	wire_seal(frame, wire_frame_len(&t, b.opcode, b.payload_len));
	assert_int_equal(engine_send_frame(0, frame, wire_frame_len(&t, b.opcode, b.payload_len)), 0);
	TURN_UNTIL(both().rx_packets == seen + 1);
	turn(5);
	expect_none(&w.recv[to]);
	assert_int_equal(both().drop_no_qp, dropped + 1);
	post_send(&w.pair[!to], &w.memory[!to], 8, 1);
	expect(&w.recv[to], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
}

/* The core that receives the frames has one of the queue pairs, not the other. */
static void
test_own_address_off_the_port(void **state)
{
	connect_both();
	own_address_to(0);
	own_address_to(1);
}

/* CNPs to any QPN are counted alike, whether or not it exists or is connected: counters are no oracle. */
static void
test_cnps_are_no_oracle(void **state)
{
	const uint32_t numbers[] = {0x123456, w.pair[0].qpn, w.pair[1].qpn};
	struct engine_stats before = both(), after;
	uint64_t counted, seen;

	for (int connected = 0; connected < 2; connected++) {
		if (connected)
			connect_both();
		for (size_t i = 0; i < RTE_DIM(numbers); i++) {
			struct wire_path path = {.udp_src_port = 49152, .ttl = 64};
			struct wire_build b = {.opcode = WIRE_CNP, .qpn = numbers[i]};
			struct wire_template t;
			uint8_t frame[256];

			path.src = path.dst = ports[0].info.addr[0];
			path.src.gid[15] = (uint8_t)(1 + 8 * (i % 2)); /* from our own address, too */
			wire_template_init(&t, &path);
			wire_build(&t, &b, frame);
			wire_seal(frame, wire_frame_len(&t, b.opcode, 0));
			counted = cnps_received();
			seen = both().rx_packets;
			assert_int_equal(engine_send_frame(0, frame, wire_frame_len(&t, b.opcode, 0)), 0);
			TURN_UNTIL(both().rx_packets == seen + 1);
			turn(5);
			assert_int_equal(cnps_received(), counted + 1);
		}
	}
	after = both();
	assert_int_equal(after.drop_no_qp, before.drop_no_qp);
}

/* The NAK is lost, or still on its way when the peer's DREQ arrives: the DREQ reports the same refusal. */
static void
test_refusal_by_the_control_thread(void **state)
{
	const uint32_t psn = w.pair[0].qpn ^ 0x5a5a5a;
	const struct one_cqe event = {.type = ONE_CQE_CONNECT, .status = ONE_CONN_DISCONNECTED};
	struct engine_command flush = {
		.type = ENGINE_QP_FLUSH, .event = event, .status_if_broken = ONE_CONN_BROKEN};
	struct one_cqe cqe;

	pair_connect(&w.pair[0], &w.pair[1], RC_RTS, false); /* the peer does not answer */
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 2);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 3);
	turn(5);
	flush.qp = w.pair[0].qp;
	flush.refusal = 0x62u << 24 | ((psn + 1) & 0xffffff);
	assert_int_equal(command(flush), 0);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_FLUSHED, 3);
	assert_true(ring_poll(&w.conn[0], &cqe));
	assert_int_equal(cqe.status, ONE_CONN_BROKEN);
	/* An invalid report, or one about an acknowledged request, ends the connection like a disconnect. */
	for (uint32_t i = 0; i < 3; i++) {
		const uint32_t nonsense[] = {0x60u << 24 | psn, 0x64u << 24 | psn,
					     0x62u << 24 | ((psn - 1) & 0xffffff)};

		assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = flush.qp}),
				 0);
		w.pair[0].sq_tail = atomic_load(&w.pair[0].shm->sq_head);
		pair_connect(&w.pair[0], &w.pair[1], RC_RTS, false);
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 4);
		turn(5);
		flush.refusal = nonsense[i];
		assert_int_equal(command(flush), 0);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_FLUSHED, 4);
		assert_true(ring_poll(&w.conn[0], &cqe));
		assert_int_equal(cqe.status, ONE_CONN_DISCONNECTED);
	}
}

/* A queue pair addresses another connection's peer with the right PSN: its frames are dropped. */
static void
test_stranger_between_cores(void **state)
{
	struct pair stranger;
	struct engine_connection c;
	uint64_t dropped;

	connect_both();
	post_recv(&w.pair[1], &w.memory[1], 64, 2);
	pair_new(&w.app[0], &w.send[0], &w.recv[0], &w.conn[0], NULL, &stranger);
	c = connection_to(&stranger, &w.pair[1], RC_RTS, false);
	c.rc.send_psn = w.pair[0].qpn ^ 0x5a5a5a;
	c.rc.timeout = 8;
	c.rc.retry_count = 1;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = stranger.qp, .connection = c}),
			 0);
	dropped = both().drop_no_qp;
	post_send(&stranger, &w.memory[0], 8, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
	expect_none(&w.recv[1]);
	assert_true(both().drop_no_qp > dropped);
	post_send(&w.pair[0], &w.memory[0], 8, 3);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	TURN_UNTIL(stranger.failed == 1);
	pair_end(&stranger);
}

/*
 * Send a management datagram of class `class` from another host, without polling the control thread's rings.
 */
static void
send_mad(uint8_t class)
{
	struct wire_path path = {.udp_src_port = 49152, .ttl = 64};
	struct wire_build b = {.opcode = WIRE_UD_SEND_ONLY,
			       .qpn = 1,
			       .qkey = WIRE_QKEY_GSI,
			       .src_qpn = 1,
			       .payload_len = 256};
	struct wire_template t;
	struct core *core = engine.core[0];
	struct rte_mbuf *m = tx_alloc(core);
	uint8_t *frame, *mad;

	assert_non_null(m);
	path.src = path.dst = ports[0].info.addr[0];
	path.src.gid[15] = 9;
	wire_template_init(&t, &path);
	frame = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)wire_frame_len(&t, b.opcode, b.payload_len));
	mad = wire_build(&t, &b, frame);
	memset(mad, 0, 256);
	mad[0] = 1;
	mad[1] = class;
	wire_seal(frame, wire_frame_len(&t, b.opcode, b.payload_len));
	tx_append(core, 0, m);
	for (uint32_t i = 0; i < 2 * engine.num_cores; i++)
		loop_iterate(engine.core[i % engine.num_cores], fixture_tsc());
}

static uint32_t mads_seen, keep_alive_at;

static void
see_mad(uint16_t port, uint8_t *frame, uint32_t len, const struct wire_packet *packet)
{
	mads_seen++;
	if (packet->payload[1] == ENGINE_CLASS_KEEP_ALIVE)
		keep_alive_at = mads_seen;
}

/* Management datagrams overflow the control thread's ring: a keep-alive still arrives, and first. */
static void
test_flood(void **state)
{
	const struct engine_handlers handlers = {.on_frame = see_mad};
	uint64_t dropped = engine.core[0]->stats.drop_control;

	for (uint32_t i = 0; i < 2 * CONTROL_FRAME_RING; i++)
		send_mad(0x07);
	send_mad(ENGINE_CLASS_KEEP_ALIVE);
	assert_true(engine.core[0]->stats.drop_control > dropped);
	mads_seen = keep_alive_at = 0;
	while (engine_poll(&handlers) > 0)
		;
	assert_int_equal(keep_alive_at, 1);
	assert_true(mads_seen >= CONTROL_FRAME_RING / 2);
}

/* Send a frame by the port, without polling the control thread's rings. */
static void
send_other(const uint8_t *frame, uint32_t len)
{
	struct core *core = engine.core[0];
	struct rte_mbuf *m = tx_alloc(core);

	assert_non_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	tx_append(core, 0, m);
	for (uint32_t i = 0; i < 2 * engine.num_cores; i++)
		loop_iterate(engine.core[i % engine.num_cores], fixture_tsc());
}

static const uint8_t echo_frame[60] = {[12] = 0x08, 0x00, 0x45, [23] = 1};
static const uint8_t arp_frame[60] = {[12] = 0x08, 0x06};
static uint32_t arps_seen, others_seen, echoes_before;

static void
see_other(uint16_t port, uint8_t *frame, uint32_t len, const struct wire_packet *packet)
{
	if (packet == NULL && len >= 14 && frame[12] == 0x08 && frame[13] == 0x06) {
		arps_seen++;
		echoes_before = others_seen;
	} else {
		others_seen++;
	}
}

static void
poll_others(void)
{
	const struct engine_handlers handlers = {.on_frame = see_other};

	arps_seen = others_seen = 0;
	while (engine_poll(&handlers) > 0)
		;
}

/* Other frames do not keep ARP from the control thread. Lost ARP frames have a counter of their own. */
static void
test_lane_of_neighbours(void **state)
{
	uint32_t lost;

	poll_others();
	lost = engine_neigh_lost();
	for (uint32_t i = 0; i < 2 * CONTROL_FRAME_RING; i++)
		send_other(echo_frame, sizeof(echo_frame));
	send_other(arp_frame, sizeof(arp_frame));
	assert_false(engine_sleep_begin());
	poll_others();
	assert_int_equal(arps_seen, 1);
	assert_int_equal(echoes_before, 0);
	assert_true(others_seen >= CONTROL_FRAME_RING / 2);
	assert_int_equal(engine_neigh_lost(), lost);
	for (uint32_t i = 0; i < NEIGH_FRAME_RING + 10; i++)
		send_other(arp_frame, sizeof(arp_frame));
	poll_others();
	assert_true(arps_seen < NEIGH_FRAME_RING + 10);
	assert_int_equal(engine_neigh_lost() - lost, NEIGH_FRAME_RING + 10 - arps_seen);
}

/* Insert a VLAN tag after the addresses of `frame`. */
static uint32_t
tagged(uint8_t *out, const uint8_t *frame, uint32_t len, uint16_t tag)
{
	memcpy(out, frame, 12);
	out[12] = 0x81;
	out[13] = 0;
	out[14] = (uint8_t)(tag >> 8);
	out[15] = (uint8_t)tag;
	memcpy(out + 16, frame + 12, len - 12);
	return len + 4;
}

/* A frame with a priority tag (VLAN 0) is accepted. Any other VLAN is dropped, whatever the frame holds. */
static void
test_vlans(void **state)
{
	uint64_t dropped = both().drop[WIRE_DROP_VLAN], no_qp = both().drop_no_qp;
	uint8_t roce[256], frame[260];
	uint32_t len = request(roce, 1, 0x123456);

	poll_others();
	send_other(frame, tagged(frame, arp_frame, sizeof(arp_frame), 3 << 13));
	send_other(frame, tagged(frame, echo_frame, sizeof(echo_frame), 3 << 13));
	send_other(frame, tagged(frame, roce, len, 3 << 13));
	assert_int_equal(both().drop[WIRE_DROP_VLAN], dropped);
	assert_int_equal(both().drop_no_qp, no_qp + 1);
	send_other(frame, tagged(frame, arp_frame, sizeof(arp_frame), 3 << 13 | 100));
	send_other(frame, tagged(frame, echo_frame, sizeof(echo_frame), 100));
	send_other(frame, tagged(frame, roce, len, 100));
	assert_int_equal(both().drop[WIRE_DROP_VLAN], dropped + 3);
	assert_int_equal(both().drop_no_qp, no_qp + 1);
	poll_others();
	assert_int_equal(arps_seen, 1);
	assert_int_equal(others_seen, 1);
}

/* The control thread is notified once a second while another host does not answer. */
static void
test_silence_is_reported(void **state)
{
	struct engine_connection c = connection_to(&w.pair[0], &w.pair[1], RC_RTS, false);
	uint64_t begun;

	c.rc.path.dst.gid[15] = 9;
	c.rc.timeout = 20;
	c.rc.retry_count = 7;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[0].qp, .connection = c}),
			 0);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	begun = engine.core[0]->now;
	TURN_UNTIL(w.pair[0].silences == 1);
	assert_true(engine.core[0]->now - begun < SILENT_INTERVAL_NS / 5);
	TURN_UNTIL(w.pair[0].silences == 2);
	assert_true(engine.core[0]->now - begun >= SILENT_INTERVAL_NS);
	assert_int_equal(w.pair[0].failed, 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp}), 0);
}

static void
test_port_that_takes_no_more(void **state)
{
	struct core *core = engine.core[0];
	uint64_t waits = core->stats.backpressure;
	uint32_t sent = 0;

	/* Nothing is received meanwhile, so the looped ring fills up. */
	while (tx_has_room(core, 0)) {
		struct rte_mbuf *m = tx_alloc(core);

		assert_non_null(m);
		memset(rte_pktmbuf_append(m, 60), 0xee, 60);
		tx_append(core, 0, m);
		assert_true(++sent < 5000);
	}
	assert_true(core->stats.backpressure > waits);
	assert_int_equal(tx_flush(core), 0);
	assert_true(core->tx[0].count >= TX_HIGH);
	/* No frame is lost. */
	waits = both().rx_packets;
	TURN_UNTIL(both().rx_packets == waits + sent);
	assert_int_equal(core->tx[0].count, 0);
	assert_int_equal(core->stats.drop_tx_ring, 0);
}

static void
test_frame_for_the_other_core(void **state)
{
	/* Core 0 receives all frames, and hands those of a queue pair on core 1 over. */
	struct engine_connection c;
	uint8_t frame[256];
	int i = w.app[0].client->core->index == 1 ? 0 : 1;
	uint64_t handed = both().handed_over, received;
	uint32_t heard, len;

	c = connection_to(&w.pair[i], &w.pair[!i], RC_RTS, false);
	c.rc.path.dst.gid[15] = 9;
	c.rc.path.dst_mac[5] = 7;
	c.rc.recv_psn = 5;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[i].qp, .connection = c}),
			 0);
	post_recv(&w.pair[i], &w.memory[i], 64, 2);
	heard = engine_qp_heard(w.pair[i].qp);
	assert_int_equal(engine_send_frame(0, frame, request(frame, 1, w.pair[i].qpn)), 0);
	expect(&w.recv[i], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	assert_int_not_equal(engine_qp_heard(w.pair[i].qp), heard);
	/* A duplicate does not count as heard: its PSN is not the expected one. */
	heard = engine_qp_heard(w.pair[i].qp);
	received = both().rx_packets;
	assert_int_equal(engine_send_frame(0, frame, request(frame, 1, w.pair[i].qpn)), 0);
	TURN_UNTIL(both().rx_packets > received);
	turn(10);
	assert_int_equal(engine_qp_heard(w.pair[i].qp), heard);
	assert_int_equal(w.memory[i].bytes[31], 0x11);
	/* None of these frames came from the MAC that the queue pair sends to; the next one does. */
	assert_false(engine_qp_heard_there(w.pair[i].qp, UINT64_MAX));
	post_recv(&w.pair[i], &w.memory[i], 64, 3);
	len = request(frame, 1, w.pair[i].qpn);
	frame[11] = 7;
	frame[14 + 20 + 8 + 11] = 6;
	wire_seal(frame, len);
	assert_int_equal(engine_send_frame(0, frame, len), 0);
	expect(&w.recv[i], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 3);
	assert_true(engine_qp_heard_there(w.pair[i].qp, UINT64_MAX));
	if (ports[0].rx_queues == 1)
		assert_true(both().handed_over > handed);
}

/* A frame that has arrived at the port is processed before a command, however late the core finds both. */
static void
test_arrived_before_the_end(void **state)
{
	int i = w.app[0].client->core->index == 0 ? 0 : 1; /* core 0 receives all frames */
	struct engine_connection c = connection_to(&w.pair[i], &w.pair[!i], RC_RTS, false);
	uint64_t received;
	uint8_t frame[256];

	c.rc.path.dst.gid[15] = 9;
	c.rc.recv_psn = 5;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[i].qp, .connection = c}),
			 0);
	post_recv(&w.pair[i], &w.memory[i], 64, 2);
	post_recv(&w.pair[i], &w.memory[i], 64, 3);
	received = both().rx_packets;
	assert_int_equal(engine_send_frame(0, frame, request(frame, 1, w.pair[i].qpn)), 0);
	loop_iterate(engine.core[0], fixture_tsc()); /* puts the frame on the port */
	assert_int_equal(both().rx_packets, received);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[i].qp}), 0);
	expect(&w.recv[i], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	expect(&w.recv[i], ONE_CQE_RECV, ONE_STATUS_FLUSHED, 3);
}

static void
test_frames_in_flight_when_removed(void **state)
{
	/* Nothing of a queue pair may be accessed after it has been freed. */
	connect_both();
	for (uint64_t i = 0; i < 20; i++)
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, i);
	turn(3);
	pair_end(&w.pair[1]);
	turn(50);
	pair_new(&w.app[1], &w.send[1], &w.recv[1], &w.conn[1], NULL, &w.pair[1]);
}

/* Run loops of one core only, until `ring` has an entry. */
static void
turn_until_used(struct core *core, const struct rte_ring *ring)
{
	for (int i = 0; i < 1000 && ring_used(ring) == 0; i++)
		loop_iterate(core, fixture_tsc());
	assert_true(ring_used(ring) > 0);
}

/* Connect with a single ACK timeout of 2^n x 4.096 us, and bring a WRITE to the peer's core. */
static void
begin_impatient(uint8_t timeout, struct core **here, struct core **there)
{
	struct engine_connection c = connection_to(&w.pair[0], &w.pair[1], RC_RTS, false);

	*here = engine.core[w.app[0].client->core->index];
	*there = engine.core[w.app[1].client->core->index];
	c.rc.timeout = timeout;
	c.rc.retry_count = 0;
	pair_connect(&w.pair[1], &w.pair[0], RC_RTS, false);
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[0].qp, .connection = c}),
			 0);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	turn_until_used(*here, (*there)->inbound);
}

/* Simulate that the core has been off its processor since its last loop. */
static void
be_away(struct core *core, uint64_t ns)
{
	core->real_at -= ns;
}

#define SECOND 1000000000ull

/* Time during which a core is off its processor does not count as silence of its peers. */
static void
test_away(void **state)
{
	struct core *here, *there;
	uint64_t before, gaps;

	begin_impatient(16, &here, &there); /* 268 ms */
	gaps = here->stats.gaps;
	for (int i = 0; i < 10; i++) {
		before = here->now;
		be_away(here, 20 * SECOND);
		loop_iterate(here, fixture_tsc());
		assert_true(here->now - before <= CORE_GAP_NS);
	}
	assert_true(here->stats.gaps >= gaps + 10 && here->stats.gaps_ns > 199 * SECOND);
	assert_int_equal(w.pair[0].qp->state, RC_RTS);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
}

/* Time asleep until a planned deadline does count, up to that deadline. */
static void
test_asleep_counts(void **state)
{
	struct core *core = engine.core[0];
	uint64_t before;

	loop_iterate(core, fixture_tsc());
	before = core->now;
	core->slept = SECOND;
	be_away(core, 5 * SECOND);
	loop_iterate(core, fixture_tsc());
	assert_true(core->now - before >= SECOND && core->now - before <= SECOND + CORE_GAP_NS);
	before = core->now;
	be_away(core, 5 * SECOND);
	loop_iterate(core, fixture_tsc());
	assert_true(core->now - before <= CORE_GAP_NS);
}

/* Wait until the clock that other threads see stops; it advances for a while without another loop. */
static uint64_t
stopped_clock(void)
{
	uint64_t at;

	do {
		at = engine_clock();
		usleep(1000);
	} while (engine_clock() != at);
	return at;
}

/* The control thread's clock advances as the core's does. */
static void
test_clock(void **state)
{
	struct core *core = engine.core[0];
	uint64_t before, passed;

	loop_iterate(core, fixture_tsc());
	stats_publish(core);
	before = stopped_clock();
	be_away(core, 20 * SECOND);
	loop_iterate(core, fixture_tsc());
	stats_publish(core);
	passed = stopped_clock() + 20 * SECOND - before;
	assert_in_range(passed, 1, 2 * CORE_GAP_NS);
	before = stopped_clock();
	stats_will_sleep(core, SECOND / 50);
	assert_int_equal(stopped_clock() - before, SECOND / 50);
	/* A core's first gap may be seen before the time of its first loop. */
	atomic_store(&core->counted_until, 0);
	assert_int_equal(engine_clock(), 0);
	stats_publish(core);
}

/* Fill the inbound ring with frames of no queue pair. */
static void
fill_inbound(struct core *core, uint32_t frames)
{
	for (uint32_t i = 0; i < frames; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(core->pool);

		assert_non_null(m);
		memset(frame_info(m), 0, sizeof(struct frame_info));
		frame_info(m)->parsed = true;
		assert_int_equal(rte_ring_mp_enqueue(core->inbound, m), 0);
	}
}

/* An acknowledgement waits behind more frames than one loop takes. It is processed before the timer. */
static void
test_late_acknowledgement(void **state)
{
	const uint32_t frames = 40 * CORE_BURST;
	struct core *here, *there;

	begin_impatient(8, &here, &there); /* 1 ms, which has passed by the next loop */
	fill_inbound(here, frames);
	for (int i = 0; i < 1000 && ring_used(here->inbound) == frames; i++)
		loop_iterate(there, fixture_tsc());
	assert_int_equal(ring_used(here->inbound), frames + 1);
	be_away(here, SECOND);
	for (int i = 0; i < 41; i++)
		loop_iterate(here, fixture_tsc());
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_int_equal(w.pair[0].qp->state, RC_RTS);
}

/* A permanently filled queue does not starve timers. */
static void
test_flooded(void **state)
{
	struct core *here, *there;
	int loops = 0;

	begin_impatient(8, &here, &there);
	be_away(here, SECOND);
	for (; w.pair[0].qp->state == RC_RTS; loops++) {
		assert_true(loops <= DRAIN_BURSTS);
		fill_inbound(here, CORE_BURST);
		loop_iterate(here, fixture_tsc());
	}
	assert_true(loops > DRAIN_BURSTS / 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_clients_are_spread),
		T(test_between_cores),
		T(test_receive_longer_than_its_region),
		T(test_posted_before_the_end),
		T(test_refused_between_cores),
		T(test_refusal_comes_before_its_consequence),
		T(test_established_by_first_message),
		T(test_out_of_band),
		T(test_bind),
		T(test_drain),
		T(test_peer_silent),
		T(test_link_comes_up),
		T(test_frames_off_the_port),
		T(test_own_address_off_the_port),
		T(test_refusal_by_the_control_thread),
		T(test_stranger_between_cores),
		T(test_cnps_are_no_oracle),
		T(test_flood),
		T(test_lane_of_neighbours),
		T(test_vlans),
		T(test_silence_is_reported),
		T(test_port_that_takes_no_more),
		T(test_frame_for_the_other_core),
		T(test_arrived_before_the_end),
		T(test_frames_in_flight_when_removed),
		T(test_away),
		T(test_asleep_counts),
		T(test_clock),
		T(test_late_acknowledgement),
		T(test_flooded),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop);
}
