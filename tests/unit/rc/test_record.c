/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair that is frozen and thawed again after each frame: nothing of its state is lost. */
#include "dataplane/rc/rc_internal.h"
#include "harness.h"

#define LENGTH 8000u
#define RECORD 65536u

/* Clear what a record leaves out: the nodes' addresses, a round trip that is measured, and caches. */
static void
clear_rest(struct rc_qp *qp)
{
	qp->req.head = qp->req.cur = qp->req.tail = NULL;
	qp->req.rtt_pending = false;
	qp->req.rtt_psn = 0;
	qp->req.rtt_time = 0;
	memset(&qp->head, 0, sizeof(qp->head));
	memset(&qp->party, 0, sizeof(qp->party));
}

static void
move_end(struct pair *p, struct end *end)
{
	struct rc_qp *before = malloc(sizeof(*before)), *after = malloc(sizeof(*after));
	uint8_t *record = malloc(RECORD);
	struct rc_frozen kept;

	memcpy(before, end->qp, sizeof(*before));
	assert_int_equal(rc_freeze(end->qp, record, RECORD, &kept, p->now), 0);
	assert_int_equal(rc_state(end->qp), RC_RESET);
	rc_frozen_free(&end->env.rc, &kept);
	assert_int_equal(rc_thaw(end->qp, &end->attr, record, p->now), 0);
	assert_int_equal(rc_check_thawed(end->qp), 0);
	memcpy(after, end->qp, sizeof(*after));
	clear_rest(before);
	clear_rest(after);
	assert_memory_equal(before, after, sizeof(*before));
	free(record);
	free(after);
	free(before);
}

/* Like pump(), but both ends move after each frame. */
static void
pump_moving(struct pair *p)
{
	struct end *ends[2] = {&p->a, &p->b};
	bool any = true;

	while (any) {
		any = false;
		p->now += US;
		for (uint32_t i = 0; i < 2; i++) {
			flush_output(p, ends[i]);
			any |= deliver_one(p, ends[i]);
			move_end(p, &p->a);
			move_end(p, &p->b);
		}
	}
}

/* Requests of all kinds in both directions. */
static void
exchange_messages(struct pair *p)
{
	struct end *ends[2] = {&p->a, &p->b};

	for (uint32_t i = 0; i < 2; i++) {
		struct end *end = ends[i];

		fill(end->area, LENGTH, 1 + i);
		post_recv(end->peer, 1, 1 << 18, LENGTH);
		post_simple(p, end, ONE_OP_SEND, 1, 0, LENGTH, 0);
		post_simple(p, end, ONE_OP_WRITE, 2, 0, LENGTH, 1 << 17);
		post_simple(p, end, ONE_OP_READ, 3, 1 << 16, LENGTH, 1 << 17);
		for (uint32_t j = 0; j < 5; j++)
			post_simple(p, end, ONE_OP_WRITE, 4, 0, 32, 1 << 19);
		post_simple(p, end, ONE_OP_FETCH_ADD, 5, (1 << 16) + LENGTH, 8, 1 << 19);
	}
	pump_moving(p);
	for (uint32_t i = 0; i < 2; i++) {
		struct end *end = ends[i];

		assert_memory_equal(end->peer->area + (1 << 18), end->area, LENGTH);
		assert_memory_equal(end->peer->area + (1 << 17), end->area, LENGTH);
		assert_memory_equal(end->area + (1 << 16), end->area, LENGTH);
	}
}

static void
test_connections(void **state)
{
	static const struct pair_options options[] = {
		{.packed = true},  {.selective = true, .yields = true}, {.other_peer = true, .mtu = 256},
		{.psn = 0xfffffa}, {.hello = true, .other_peer = true},
	};

	for (uint32_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct pair *p = pair_new(&options[i]);

		for (uint32_t j = 0; j < 3; j++)
			exchange_messages(p);
		assert_int_equal(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 0);
		assert_int_equal(p->b.env.rc.counter[RC_COUNT_RETRANSMIT], 0);
		pair_free(p);
	}
}

/* Ends connected out of band recognize each other although they move in between, and stay recognized. */
static void
test_hello(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.hello = true, .other_peer = true});
	const struct end *ends[2] = {&p->a, &p->b};

	exchange_messages(p);
	exchange_messages(p);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(ends[i]->env.rc.counter[RC_COUNT_RECOGNIZED], 1);
		assert_true(ends[i]->qp->selective);
		assert_true(ends[i]->qp->packed);
		assert_true(ends[i]->qp->peer_selects);
		assert_int_equal(ends[i]->qp->req.cwnd_max, RC_CWND_MAX);
		assert_int_equal(ends[i]->qp->hello_port, 0);
	}
	assert_int_equal(p->a.qp->udp_port, HELLO_PORT_A);
	assert_int_equal(p->b.qp->udp_port, HELLO_PORT_B);
	pair_free(p);
}

/* Moves give an end no more hellos to send to a peer that answers none. */
static void
test_hellos_are_counted(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.hello = true, .other_peer = true});
	uint8_t left = p->a.qp->hello_left;

	p->b.attr.hello_port = 0;
	rc_reset(p->b.qp);
	rc_connect(p->b.qp, &p->b.attr, RC_RTS);
	for (uint32_t i = 0; i < 2u * left; i++) {
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 64, 0);
		pump_moving(p);
		p->now += 5 * MS;
	}
	assert_int_equal(p->a.qp->hello_left, 0);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_CNP_RECEIVED], left);
	pair_free(p);
}

/* The clock of the new core has another origin: times of the future stay as far away. */
static void
test_other_clock(void **state)
{
	static const uint64_t clocks[] = {0, 1000, 1ull << 50};

	for (uint32_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		struct pair *p = pair_new(NULL);
		uint8_t *record = malloc(RECORD);
		struct rc_frozen kept;
		uint64_t left;

		p->now = 1ull << 40;
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 64, 0);
		flush_output(p, &p->a);
		left = rc_deadline(p->a.qp) - p->now;
		assert_int_equal(rc_freeze(p->a.qp, record, RECORD, &kept, p->now), 0);
		rc_frozen_free(&p->a.env.rc, &kept);
		assert_int_equal(rc_thaw(p->a.qp, &p->a.attr, record, clocks[i]), 0);
		assert_int_equal(rc_deadline(p->a.qp), clocks[i] + left);
		free(record);
		pair_free(p);
	}
}

/* All frames of both directions are lost while one end is in a record. Both repeat theirs without a timer. */
static void
test_lost_frames(void **state)
{
	struct pair *p = pair_new(NULL);
	struct end *ends[2] = {&p->a, &p->b};
	uint8_t *record = malloc(RECORD);
	struct rc_frozen kept;

	exchange_messages(p);
	for (uint32_t i = 0; i < 2; i++) {
		post_simple(p, ends[i], ONE_OP_WRITE, 1, 0, LENGTH, 1 << 17);
		post_simple(p, ends[i], ONE_OP_READ, 2, 1 << 16, LENGTH, 1 << 17);
		flush_output(p, ends[i]);
		while (ends[i]->num_out > 0)
			drop_one(ends[i]);
	}
	assert_int_equal(rc_freeze(p->a.qp, record, RECORD, &kept, p->now), 0);
	rc_frozen_free(&p->a.env.rc, &kept);
	assert_int_equal(rc_record_check(record, rc_record_size(2)), 0);
	assert_int_equal(rc_thaw(p->a.qp, &p->a.attr, record, p->now), 0);
	assert_int_equal(rc_check_thawed(p->a.qp), 0);
	rc_repeat_lost(p->a.qp, p->now);
	pump(p);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(rc_idle(ends[i]->qp));
		assert_int_equal(ends[i]->env.rc.counter[RC_COUNT_TIMEOUT], 0);
	}
	free(record);
	pair_free(p);
}

/* A record that another process has written is checked before it is used. */
static void
test_hostile_record(void **state)
{
	struct pair *p = pair_new(NULL);
	uint32_t size = rc_record_size(1);
	uint8_t *record = malloc(RECORD), *copy = malloc(RECORD);
	struct rc_frozen kept;

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 64, 0);
	assert_int_equal(rc_freeze(p->a.qp, record, RECORD, &kept, p->now), 0);
	rc_frozen_free(&p->a.env.rc, &kept);
	assert_int_equal(rc_record_check(record, size), 0);
	assert_int_equal(rc_record_check(record, size - 1), -EINVAL);
	assert_int_equal(rc_record_check(record, size + 1), -EINVAL);
	for (uint32_t i = 0; i < 12; i += 4) { /* number of requests, current one, state */
		memcpy(copy, record, size);
		copy[i] = 99;
		assert_int_equal(rc_record_check(copy, size), -EINVAL);
	}
	memcpy(copy, record, size);
	copy[size - sizeof(struct work)] = ONE_OP_MAX;
	assert_int_equal(rc_record_check(copy, size), -EINVAL);
	free(copy);
	free(record);
	pair_free(p);
}

/* A record needs room for all work requests, and the pool of the new core nodes for them. */
static void
test_no_room(void **state)
{
	struct pair *p = pair_new(NULL);
	uint32_t size = rc_record_size(2);
	uint8_t *record = malloc(RECORD);
	struct rc_frozen kept;

	for (uint32_t i = 0; i < 3; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, i, 0, 64, 0);
	assert_int_equal(rc_freeze(p->a.qp, record, size, &kept, p->now), -ENOBUFS);
	assert_int_equal(rc_state(p->a.qp), RC_RTS);
	assert_int_equal(rc_freeze(p->a.qp, record, RECORD, &kept, p->now), 0);
	rc_init(p->b.qp, p->b.qp->env, 0, p->b.qp->user);
	assert_int_equal(kept.count, 3);
	rc_frozen_free(&p->a.env.rc, &kept);
	assert_int_equal(rc_thaw(p->a.qp, &p->a.attr, record, p->now), 0);
	assert_int_equal(rc_freeze(p->b.qp, record, RECORD, &kept, p->now), -ENOTCONN);
	assert_int_equal(p->a.qp->env->pool->available, POOL - 3);
	rc_reset(p->a.qp);
	assert_int_equal(p->a.qp->env->pool->available, POOL);
	free(record);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connections),
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_hellos_are_counted),
		cmocka_unit_test(test_other_clock),
		cmocka_unit_test(test_lost_frames),
		cmocka_unit_test(test_hostile_record),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
