/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames: between two cores of one data plane (never on a port), off a port to
 * the control thread or to a queue pair, dropped with their reason counted.
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

static void
connect_both(void)
{
	for (int i = 0; i < 2; i++)
		pair_connect(&w.pair[i], &w.pair[!i], RC_RTS, false);
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
	assert_int_equal(both().tx_packets, tx); /* nothing of it on a port */
	assert_true(both().handed_over > handed + LONG / 1024);
	assert_int_equal(w.pair[0].failed + w.pair[1].failed, 0);
}

/* Posted before a disconnect and not yet seen when its command is: it goes out all the same, unanswered. */
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
	post_write(&w.pair[0], &w.memory[0], &w.memory[0], 8, 1); /* a key of the wrong side */
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_FLUSHED, 2);
	TURN_UNTIL(w.pair[0].failed == 1 && w.pair[1].failed == 1);
	assert_int_equal(w.pair[0].error, RC_ERROR_REQUESTER);
	assert_int_equal(w.pair[1].error, RC_ERROR_RESPONDER);
}

/* The control thread flushes both sides of a broken connection: what the peer said before comes first. */
static void
test_refusal_comes_before_its_consequence(void **state)
{
	struct core *here = engine.core[w.app[0].client->core->index];
	struct core *there = engine.core[w.app[1].client->core->index];

	connect_both();
	post_write(&w.pair[0], &w.memory[0], &w.memory[0], 8, 1); /* a key of the wrong side */
	for (int i = 0; i < 1000 && ring_used(there->inbound) == 0; i++)
		loop_iterate(here, fixture_tsc());
	for (int i = 0; i < 1000 && ring_used(here->inbound) == 0; i++)
		loop_iterate(there, fixture_tsc());
	assert_true(ring_used(here->inbound) > 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp}), 0);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
}

static void
test_established_by_first_frame(void **state)
{
	struct one_cqe cqe;

	pair_connect(&w.pair[1], &w.pair[0], RC_RTR, false);
	pair_connect(&w.pair[0], &w.pair[1], RC_RTS, false);
	post_recv(&w.pair[1], &w.memory[1], 64, 2);
	post_write(&w.pair[1], &w.memory[1], &w.memory[0], 8, 7); /* waits until RTS */
	expect_none(&w.send[1]);
	post_send(&w.pair[0], &w.memory[0], 8, 1);
	TURN_UNTIL(w.pair[1].established == 1);
	assert_true(ring_poll(&w.conn[1], &cqe));
	assert_int_equal(cqe.status, ONE_CONN_ESTABLISHED);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	expect(&w.send[1], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 7);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RTS,
							 .qp = w.pair[1].qp,
							 .event = {.type = ONE_CQE_CONNECT}}),
			 0);
	expect_none(&w.conn[1]);
}

/* It serves from RTR on, and requests when it is told to, whatever has come by then. */
static void
test_by_numbers(void **state)
{
	struct engine_connection rtr = connection_to(&w.pair[1], &w.pair[0], RC_RTR, false);
	const struct rc_attr whole = rtr.rc;

	/* What only a requester needs comes later. */
	rtr.by_numbers = true;
	rtr.rc.send_psn = rtr.rc.rd_atomic_out = rtr.rc.timeout = rtr.rc.retry_count = rtr.rc.rnr_retry = 0;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[1].qp, .connection = rtr}),
			 0);
	pair_connect(&w.pair[0], &w.pair[1], RC_RTS, false);
	post_recv(&w.pair[1], &w.memory[1], 64, 2);
	post_write(&w.pair[1], &w.memory[1], &w.memory[0], 8, 7);
	post_send(&w.pair[0], &w.memory[0], 8, 1);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	turn(20);
	expect_none(&w.send[1]);
	expect_none(&w.conn[1]);
	assert_int_equal(w.pair[1].established, 0);
	assert_int_equal(atomic_load(&w.pair[1].shm->state), ONE_QP_CONNECTING);
	rtr.rc = whole;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_RTS, .qp = w.pair[1].qp, .connection = rtr}),
			 0);
	assert_int_equal(atomic_load(&w.pair[1].shm->state), ONE_QP_CONNECTED);
	expect(&w.send[1], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 7);
	expect_none(&w.conn[1]);
}

static void
test_bind(void **state)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);

	connect_both();
	wqe->op = ONE_OP_BIND;
	wqe->num_sge = 1;
	wqe->rkey = 0x77;
	wqe->cookie = 1;
	pair_commit_send(&w.pair[0]);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 2);
	TURN_UNTIL(w.pair[0].binds == 1);
	assert_int_equal(engine_qp_bind_work(w.pair[0].qp)->rkey, 0x77);
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_QP_BIND_DONE, .qp = w.pair[0].qp, .ok = true}),
		0);
	expect(&w.send[0], ONE_CQE_BIND, ONE_STATUS_SUCCESS, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 2);
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

	/* The peer's queue pair is there, but not connected. */
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

/* The looped port gives back whatever is sent. */
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

/* A management datagram of class `class`, from another host; the control thread does not look meanwhile. */
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

/* More management datagrams than the control thread can have waiting: keep-alive comes through, first. */
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

static void
test_port_that_takes_no_more(void **state)
{
	struct core *core = engine.core[0];
	uint64_t waits = core->stats.backpressure;
	uint32_t sent = 0;

	/* Nobody receives meanwhile: the looped ring fills up. */
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
	/* Not one is lost. */
	waits = both().rx_packets;
	TURN_UNTIL(both().rx_packets == waits + sent);
	assert_int_equal(core->tx[0].count, 0);
	assert_int_equal(core->stats.drop_tx_ring, 0);
}

static void
test_frame_for_the_other_core(void **state)
{
	/* Core 0 receives for all; whichever queue pair is on core 1 gets its frames handed over. */
	struct engine_connection c;
	uint8_t frame[256];
	int i = w.app[0].client->core->index == 1 ? 0 : 1;
	uint64_t handed = both().handed_over, received;
	uint32_t heard;

	c = connection_to(&w.pair[i], &w.pair[!i], RC_RTS, false);
	c.rc.path.dst.gid[15] = 9;
	c.rc.recv_psn = 5;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[i].qp, .connection = c}),
			 0);
	post_recv(&w.pair[i], &w.memory[i], 64, 2);
	heard = engine_qp_heard(w.pair[i].qp);
	assert_int_equal(engine_send_frame(0, frame, request(frame, 1, w.pair[i].qpn)), 0);
	expect(&w.recv[i], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	assert_int_not_equal(engine_qp_heard(w.pair[i].qp), heard);
	/* Once more: it is none that is expected. */
	heard = engine_qp_heard(w.pair[i].qp);
	received = both().rx_packets;
	assert_int_equal(engine_send_frame(0, frame, request(frame, 1, w.pair[i].qpn)), 0);
	TURN_UNTIL(both().rx_packets > received);
	turn(10);
	assert_int_equal(engine_qp_heard(w.pair[i].qp), heard);
	assert_int_equal(w.memory[i].bytes[31], 0x11);
	if (ports[0].rx_queues == 1)
		assert_true(both().handed_over > handed);
}

static void
test_frames_in_flight_when_removed(void **state)
{
	/* Nothing of a queue pair may be looked at once it has been freed. */
	connect_both();
	for (uint64_t i = 0; i < 20; i++)
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, i);
	turn(3);
	pair_end(&w.pair[1]);
	turn(50);
	pair_new(&w.app[1], &w.send[1], &w.recv[1], &w.conn[1], NULL, &w.pair[1]);
}

/* Loops of one core until `ring` has something: only that one is turned. */
static void
turn_until_used(struct core *core, const struct rte_ring *ring)
{
	for (int i = 0; i < 1000 && ring_used(ring) == 0; i++)
		loop_iterate(core, fixture_tsc());
	assert_true(ring_used(ring) > 0);
}

/* A connection that is given up after one timeout of 2^n x 4.096 us; a WRITE goes to the peer's core. */
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

/* As if the core had been off its processor since its last loop. */
static void
be_away(struct core *core, uint64_t ns)
{
	core->real_at -= ns;
}

#define SECOND 1000000000ull

/* What a core misses while others have its processor is not its peers' silence. */
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
	assert_int_equal(w.pair[0].qp->phase, QP_RTS);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
}

/* But it is a silence to wait for a deadline asleep, as far as that was meant to take. */
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

/* Where the clock that others see stops without another loop. */
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

/* The control thread counts as the core does. */
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
}

/* Frames for nobody. */
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

/* The acknowledgement waits behind more frames than one loop takes: it is seen before the timer is. */
static void
test_late_acknowledgement(void **state)
{
	const uint32_t frames = 40 * CORE_BURST;
	struct core *here, *there;

	begin_impatient(8, &here, &there); /* 1 ms, which has passed at the next loop */
	fill_inbound(here, frames);
	for (int i = 0; i < 1000 && ring_used(here->inbound) == frames; i++)
		loop_iterate(there, fixture_tsc());
	assert_int_equal(ring_used(here->inbound), frames + 1);
	be_away(here, SECOND);
	for (int i = 0; i < 41; i++)
		loop_iterate(here, fixture_tsc());
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_int_equal(w.pair[0].qp->phase, QP_RTS);
}

/* Who fills a queue for ever does not keep timers from what they are for. */
static void
test_flooded(void **state)
{
	struct core *here, *there;
	int loops = 0;

	begin_impatient(8, &here, &there);
	be_away(here, SECOND);
	for (; w.pair[0].qp->phase == QP_RTS; loops++) {
		assert_true(loops <= TIMER_DEFER_LOOPS);
		fill_inbound(here, CORE_BURST);
		loop_iterate(here, fixture_tsc());
	}
	assert_true(loops > TIMER_DEFER_LOOPS / 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_clients_are_spread),
		T(test_between_cores),
		T(test_posted_before_the_end),
		T(test_refused_between_cores),
		T(test_refusal_comes_before_its_consequence),
		T(test_established_by_first_frame),
		T(test_by_numbers),
		T(test_bind),
		T(test_drain),
		T(test_peer_silent),
		T(test_frames_off_the_port),
		T(test_flood),
		T(test_port_that_takes_no_more),
		T(test_frame_for_the_other_core),
		T(test_frames_in_flight_when_removed),
		T(test_away),
		T(test_asleep_counts),
		T(test_clock),
		T(test_late_acknowledgement),
		T(test_flooded),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop);
}
