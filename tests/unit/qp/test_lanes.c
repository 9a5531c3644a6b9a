/* SPDX-License-Identifier: BSD-3-Clause */
/* An attachment with a lane on each of two cores. */
#include "fixture.h"

#define LENGTH 4096u

static struct app home, lane;
static struct ring async[2], ring[2]; /* one bundle, with a ring for each lane */
static struct pair pair[2];           /* one of home and one of lane, connected to each other */
static struct memory memory[2];

static int
start(void **state)
{
	app_start(&home);
	lane_new(&home, 1 - home.client->core->index, &lane);
	ring_new(&home, CQ_LOG2, &async[0], NULL);
	ring_join(&lane, &async[0], &async[1]);
	ring_new(&home, CQ_LOG2, &ring[0], async[0].cq);
	ring_join(&lane, &ring[0], &ring[1]);
	pair_new(&home, &ring[0], &ring[0], &async[0], &async[0], &pair[0]);
	pair_new(&lane, &ring[1], &ring[1], &async[1], &async[1], &pair[1]);
	for (int i = 0; i < 2; i++)
		memory_new(&home, ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE | ONE_ACCESS_REMOTE_WRITE,
			   LENGTH, &memory[i]);
	pair_connect(&pair[0], &pair[1], RC_RTS, false);
	pair_connect(&pair[1], &pair[0], RC_RTS, false);
	return 0;
}

static int
end(void **state)
{
	for (int i = 0; i < 2; i++) {
		memory_end(&memory[i]);
		pair_end(&pair[i]);
		ring_end(&ring[i]);
		ring_end(&async[i]);
	}
	lane_end(&lane);
	app_end(&home);
	return 0;
}

/* Each queue pair is served by the core of its lane alone, and completes in the ring of that lane. */
static void
test_transfers(void **state)
{
	uint64_t work, completions;

	assert_int_not_equal(engine_qp_core(pair[0].qp), engine_qp_core(pair[1].qp));
	for (uint32_t i = 0; i < 2; i++) {
		memset(memory[0].bytes, (int)(i + 1), LENGTH);
		post_recv(&pair[1 - i], &memory[1], LENGTH, i);
		post_send(&pair[i], &memory[0], LENGTH, 100 + i);
		expect(&ring[1 - i], ONE_CQE_RECV, ONE_STATUS_SUCCESS, i);
		expect(&ring[i], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 100 + i);
		assert_memory_equal(memory[0].bytes, memory[1].bytes, LENGTH);
	}
	engine_client_counts(home.client, &work, &completions);
	assert_int_equal(work, 2);
	assert_int_equal(completions, 4);
}

/* No other core polls the doorbells of a lane. */
static void
test_doorbells(void **state)
{
	one_doorbell_ring(home.doorbells, pair[1].doorbell);
	one_doorbell_ring(lane.doorbells, pair[0].doorbell);
	post_write(&pair[1], &memory[0], &memory[1], 8, 1);
	expect(&ring[1], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	turn(100);
	assert_int_equal(atomic_load(&lane.doorbells->qp[pair[1].doorbell]), 0);
	assert_int_equal(atomic_load(&lane.doorbells->group[pair[1].doorbell / ONE_DOORBELL_GROUP]), 0);
}

static bool
answered(uint32_t asked)
{
	struct one_keys *keys = (struct one_keys *)(home.arena + home.header->keys);

	return atomic_load(&keys->answered) == asked;
}

static uint32_t
ask(enum one_key_op op, uint32_t key)
{
	static uint32_t asked;
	struct one_keys *keys = (struct one_keys *)(home.arena + home.header->keys);

	atomic_store(&keys->op, op);
	atomic_store(&keys->key, key);
	atomic_store(&keys->asked, ++asked);
	atomic_store(&home.doorbells->keys, 1);
	return asked;
}

static void
loops_of(struct app *app, uint32_t loops)
{
	for (uint32_t i = 0; i < loops; i++)
		loop_iterate(app->client->core, fixture_tsc());
}

/* Requests posted on another lane have begun when the answer comes: the answer waits for that lane's core. */
static void
test_posted_before(void **state)
{
	uint32_t asked, done = pair[1].shm->sq_done;

	post_write(&pair[1], &memory[0], &memory[1], 8, 1);
	asked = ask(ONE_KEY_NONE, 0);
	loops_of(&home, 100);
	assert_false(answered(asked));
	assert_int_equal(atomic_load(&pair[1].shm->sq_head), done);
	TURN_UNTIL(answered(asked));
	expect(&ring[1], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
}

/* A stuck core blocks the keys of an application for a limited time only. */
static void
test_stuck_lane(void **state)
{
	uint32_t asked = ask(ONE_KEY_NONE, 0);

	for (uint32_t i = 0; i < 100 && !answered(asked); i++) {
		loops_of(&home, 1);
		turn_for(0);
		loops_of(&home, 1000);
	}
	assert_true(answered(asked));
}

/* A completion on any lane wakes the waiter of the bundle, once. */
static void
test_one_event(void **state)
{
	_Atomic uint32_t *word = &home.channels[5].word;
	uint32_t before = atomic_load(word);

	for (int i = 0; i < 2; i++)
		ring_arm(&ring[i], one_arm(1, 5 | ONE_ARM_NEXT, 0));
	post_recv(&pair[0], &memory[1], LENGTH, 1);
	post_send(&pair[1], &memory[0], LENGTH, 2);
	expect(&ring[0], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 1);
	expect(&ring[1], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 2);
	assert_int_equal(atomic_load(word), before + 1);
	assert_false(ring_armed(&ring[0]));
}

static void
send_command(struct engine_command command)
{
	struct engine_command *copy = malloc(sizeof(*copy)); /* freed when it is acknowledged */

	assert_non_null(copy);
	*copy = command;
	assert_int_equal(engine_command(copy), 0);
}

static void
post_event(const struct ring *to, uint32_t object)
{
	send_command((struct engine_command){
		.type = ENGINE_CQ_POST,
		.cq = to->cq,
		.event = {.type = ONE_CQE_CONNECT, .object = object, .flags = ONE_CQE_NOTIFY},
	});
}

static void
expect_number(struct ring *from, uint32_t object, uint32_t number)
{
	struct one_cqe out;

	assert_true(ring_poll(from, &out));
	assert_int_equal(out.type, ONE_CQE_CONNECT);
	assert_int_equal(out.object, object);
	assert_int_equal(out.length, number);
}

static void
expect_after(struct ring *from, uint32_t number, uint32_t other, uint32_t after)
{
	struct one_cqe out;

	assert_true(ring_poll(from, &out));
	assert_int_equal(out.type, ONE_CQE_AFTER_REPORT);
	assert_int_equal(out.length, number);
	assert_int_equal(out.object, other);
	assert_int_equal(out.imm, after);
}

/* The control thread's events name those before them in another ring, whichever core is first. */
static void
test_reports(void **state)
{
	post_event(&ring[0], 1);
	post_event(&ring[1], 2);
	post_event(&ring[1], 3);
	post_event(&ring[0], 4);
	loops_of(&lane, 3);
	expect_after(&ring[1], 1, 0, 1);
	expect_number(&ring[1], 2, 1);
	expect_number(&ring[1], 3, 2);
	assert_int_equal(atomic_load(&ring[0].shm->reports), 0);
	assert_int_equal(atomic_load(&ring[1].shm->reports), 2);
	turn(3);
	expect_number(&ring[0], 1, 1);
	expect_after(&ring[0], 2, 1, 2);
	expect_number(&ring[0], 4, 2);
	assert_int_equal(atomic_load(&ring[0].shm->reports), 2);
}

/* A report that needs no entry, since the connection has ended, is counted, and wakes who may wait for it. */
static void
test_report_without_entry(void **state)
{
	_Atomic uint32_t *word = &home.channels[5].word;
	uint32_t before = atomic_load(word);

	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RTS, .qp = pair[0].qp}), 0);
	ring_arm(&async[0], one_arm(1, 5, 0));
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_QP_RTS,
						.qp = pair[0].qp,
						.event = {.type = ONE_CQE_CONNECT, .flags = ONE_CQE_NOTIFY}}),
		0);
	assert_int_equal(atomic_load(&async[0].shm->reports), 1);
	assert_int_equal(atomic_load(word), before + 1);
	expect_none(&async[0]);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = pair[0].qp}), 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RTS,
							 .qp = pair[0].qp,
							 .event = {.type = ONE_CQE_CONNECT}}),
			 -ENOTCONN);
	assert_int_equal(atomic_load(&async[0].shm->reports), 2);
}

/* A report that needs no entry names the one before it nevertheless: the next one comes after both. */
static void
test_report_between(void **state)
{
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RTS, .qp = pair[1].qp}), 0);
	post_event(&async[0], 1);
	send_command((struct engine_command){
		.type = ENGINE_QP_RTS, .qp = pair[1].qp, .event = {.type = ONE_CQE_CONNECT}});
	post_event(&async[1], 3);
	loops_of(&lane, 3);
	expect_after(&async[1], 1, 0, 1);
	expect_number(&async[1], 3, 2);
	turn(3);
	expect_number(&async[0], 1, 1);
}

/* A nearly full ring takes the event without its mark; a full one loses the event, counts it,
 * and wakes the thread that waits for it. */
static void
test_report_without_room(void **state)
{
	_Atomic uint32_t *word = &home.channels[5].word;
	uint32_t fill = (1u << CQ_LOG2) - 2, events = 0, before = atomic_load(word);
	struct one_cqe out;

	for (uint32_t i = 0; i < fill; i++) {
		post_event(&ring[0], i);
		turn(2);
	}
	post_event(&ring[1], 1);
	post_event(&ring[0], 2);
	turn(2);
	ring_arm(&ring[0], one_arm(1, 5, fill + 1));
	post_event(&ring[0], 3);
	turn(2);
	assert_int_equal(atomic_load(word), before + 1);
	assert_int_equal(atomic_load(&ring[0].shm->reports), fill + 2);
	while (ring_poll(&ring[0], &out)) {
		assert_int_equal(out.type, ONE_CQE_CONNECT);
		events++;
	}
	assert_int_equal(events, fill + 1);
}

/* A fault on one lane ends the attachment; the other goes on until then. */
static void
test_fault(void **state)
{
	ring_arm(&ring[1], one_arm(2, ONE_CHANNELS, 0));
	post_write(&pair[1], &memory[0], &memory[1], 8, 1);
	TURN_UNTIL(home.faults == 1);
	assert_true(lane.client->faulty);
	assert_false(home.client->faulty);
	post_write(&pair[0], &memory[0], &memory[1], 0, 1); /* to the faulty lane, which answers no more */
	expect(&ring[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
}

/* A lane of a number that is in use, or too high, or with its doorbells at an invalid offset, is refused. */
static void
test_refused(void **state)
{
	for (uint32_t i = 0; i < 2; i++)
		assert_null(engine_lane_new(home.client, i, home.header->doorbells));
	assert_null(engine_lane_new(home.client, ONE_LANES_MAX, home.header->doorbells));
	assert_null(engine_lane_new(home.client, 2, ONE_ARENA_SIZE - 64));
	assert_null(engine_lane_new(home.client, 2, 0));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_transfers, start, end),
		cmocka_unit_test_setup_teardown(test_doorbells, start, end),
		cmocka_unit_test_setup_teardown(test_posted_before, start, end),
		cmocka_unit_test_setup_teardown(test_stuck_lane, start, end),
		cmocka_unit_test_setup_teardown(test_one_event, start, end),
		cmocka_unit_test_setup_teardown(test_reports, start, end),
		cmocka_unit_test_setup_teardown(test_report_without_entry, start, end),
		cmocka_unit_test_setup_teardown(test_report_between, start, end),
		cmocka_unit_test_setup_teardown(test_report_without_room, start, end),
		cmocka_unit_test_setup_teardown(test_fault, start, end),
		cmocka_unit_test_setup_teardown(test_refused, start, end),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop);
}
