/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair that moves between two lanes, whose cores the test runs in any order. */
#include <errno.h>

#include "fixture.h"

#include "dataplane/engine/takeover.h"
#include "dataplane/qp/move.h"

#define LENGTH 4096u
#define CHANNEL 5u

static struct app home, lane;
static struct ring async[2], ring[2]; /* bundles, with a ring for each lane */
static struct pair pair[2];           /* connected to each other; both belong to home's application */
static struct memory memory[4];       /* two for each queue pair */
static bool is_local;

static int
start_world(void)
{
	app_start(&home);
	lane_new(&home, 1 - home.client->core->index, &lane);
	ring_new(&home, CQ_LOG2, &async[0], NULL);
	ring_join(&lane, &async[0], &async[1]);
	ring_new(&home, CQ_LOG2, &ring[0], async[0].cq);
	ring_join(&lane, &ring[0], &ring[1]);
	pair_new(&home, &ring[0], &ring[0], &async[0], &async[0], &pair[0]);
	if (is_local)
		pair_new(&home, &ring[0], &ring[0], &async[0], &async[0], &pair[1]);
	else
		pair_new(&lane, &ring[1], &ring[1], &async[1], &async[1], &pair[1]);
	for (int i = 0; i < 4; i++)
		memory_new(&home, ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE | ONE_ACCESS_REMOTE_WRITE,
			   LENGTH, &memory[i]);
	for (int i = 0; i < 2; i++) {
		struct engine_connection to = connection_to(&pair[i], &pair[1 - i], RC_RTS, is_local);

		to.rc.timeout = 0; /* without limit: the threads of a busy machine wait for each other */
		assert_int_equal(command((struct engine_command){
					 .type = ENGINE_QP_CONNECT, .qp = pair[i].qp, .connection = to}),
				 0);
	}
	return 0;
}

static int
start(void **state)
{
	is_local = false;
	return start_world();
}

static int
start_local(void **state)
{
	is_local = true;
	return start_world();
}

static int
end(void **state)
{
	for (int i = 0; i < 4; i++)
		memory_end(&memory[i]);
	for (int i = 0; i < 2; i++)
		pair_end(&pair[i]);
	for (int i = 0; i < 2; i++) {
		ring_end(&ring[i]);
		ring_end(&async[i]);
	}
	lane_end(&lane);
	app_end(&home);
	return 0;
}

static int
step(enum engine_command_type type, struct engine_move *move, struct engine_qp *qp)
{
	return command((struct engine_command){.type = type, .move = move, .qp = qp});
}

/* Prepares a move to the lane with ring `to`. */
static struct engine_move *
move_to(struct pair *moved, int to)
{
	struct engine_qp_config config = {.send_cq = ring[to].cq,
					  .recv_cq = ring[to].cq,
					  .conn_cq = async[to].cq,
					  .async_cq = async[to].cq};
	struct engine_move *move = engine_move_new(moved->qp, ring[to].cq->client, &config);

	assert_non_null(move);
	return move;
}

static void
finish(struct engine_move *move, bool moved)
{
	assert_int_equal(step(ENGINE_QP_MOVED, move, move->qp), 0);
	assert_int_equal(engine_move_over(move), moved);
	engine_move_free(move);
}

static void
move_now(struct pair *moved, int to)
{
	struct engine_move *move = move_to(moved, to);

	assert_int_equal(step(ENGINE_QP_FREEZE, move, moved->qp), 0);
	assert_int_equal(step(ENGINE_QP_THAW, move, moved->qp), 0);
	finish(move, true);
	assert_ptr_equal(qp_core(moved->qp), ring[to].cq->client->core);
}

static void
loops_of(struct app *app, uint32_t loops)
{
	for (uint32_t i = 0; i < loops; i++)
		loop_iterate(app->client->core, fixture_tsc());
}

static uint64_t
counted(enum rc_counter counter)
{
	return home.client->core->env.counter[counter] + lane.client->core->env.counter[counter];
}

/* Takes the next entry like the library: ONE_CQE_AFTER must be passable, and is not for the application. */
static void
take(int from, uint8_t type, uint64_t cookie)
{
	struct one_cqe cqe;

	TURN_UNTIL(ring_poll(&ring[from], &cqe));
	if (cqe.type == ONE_CQE_AFTER) {
		assert_int_equal(cqe.object, 1 - from);
		assert_true(ring[1 - from].head >= cqe.cookie);
		TURN_UNTIL(ring_poll(&ring[from], &cqe));
	}
	assert_int_equal(cqe.type, type);
	assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
	assert_int_equal(cqe.cookie, cookie);
}

/* Both directions, forth and back; the application rings the first lane's doorbell all the time. */
static void
test_traffic(void **state)
{
	for (uint32_t i = 0; i < 6; i++) {
		int to = (int)(i + 1) % 2;

		move_now(&pair[0], to);
		memset(memory[0].bytes, (int)(i + 1), LENGTH);
		post_recv(&pair[1], &memory[1], LENGTH, 10 * i);
		post_send(&pair[0], &memory[0], LENGTH, 10 * i + 1);
		TURN_UNTIL(pair[0].shm->sq_done == 2 * i + 1);
		assert_memory_equal(memory[0].bytes, memory[1].bytes, LENGTH);
		post_write(&pair[0], &memory[0], &memory[1], 8, 10 * i + 2);
		TURN_UNTIL(pair[0].shm->sq_done == 2 * i + 2);
		post_recv(&pair[0], &memory[1], LENGTH, 10 * i + 3);
		post_send(&pair[1], &memory[0], LENGTH, 10 * i + 4);
		TURN_UNTIL(pair[1].shm->sq_done == i + 1 && pair[0].shm->rq_done == i + 1);
		for (int r = 0; r < 2; r++)
			for (struct one_cqe cqe; ring_poll(&ring[r], &cqe);)
				assert_true(cqe.type == ONE_CQE_AFTER || cqe.status == ONE_STATUS_SUCCESS);
	}
	assert_int_equal(counted(RC_COUNT_TIMEOUT), 0);
}

/* The application rings the old lane until it has read the new lane's doorbells. */
static void
test_old_doorbell(void **state)
{
	move_now(&pair[0], 1);
	TURN_UNTIL((pair[0].qp->lists & QP_IN_HOT) == 0);
	post_write(&pair[0], &memory[0], &memory[1], 8, 1);
	for (uint32_t i = 0; i < 1000 && pair[0].shm->sq_done == 0; i++) {
		loops_of(&home, 1);
		loops_of(&lane, 1);
	}
	assert_int_equal(pair[0].shm->sq_done, 1);
}

/* Frames and posts of the time between freeze and thaw wait: nothing is lost, nor sent twice. */
static void
test_meanwhile(void **state)
{
	uint64_t again = counted(RC_COUNT_RETRANSMIT), drops = home.client->core->stats.drop_no_qp;
	struct engine_move *move = move_to(&pair[0], 1);

	post_recv(&pair[0], &memory[1], LENGTH, 1);
	assert_int_equal(step(ENGINE_QP_FREEZE, move, pair[0].qp), 0);
	memset(memory[0].bytes, 0x55, LENGTH);
	post_send(&pair[1], &memory[0], LENGTH, 2);
	post_write(&pair[0], &memory[0], &memory[1], 8, 3);
	loops_of(&lane, 5);
	loops_of(&home, 5);
	loops_of(&lane, 5);
	expect_none(&ring[1]);
	assert_int_not_equal(memory[1].bytes[0], 0x55);
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), 0);
	finish(move, true);
	TURN_UNTIL(pair[0].shm->rq_done == 1 && pair[0].shm->sq_done == 1 && pair[1].shm->sq_done == 1);
	assert_memory_equal(memory[0].bytes, memory[1].bytes, LENGTH);
	assert_int_equal(counted(RC_COUNT_RETRANSMIT), again);
	assert_int_equal(home.client->core->stats.drop_no_qp, drops);
}

/* Entries that the application has not taken from the old ring come first. */
static void
test_order(void **state)
{
	struct one_cqe cqe;

	for (uint32_t i = 0; i < 3; i++)
		post_write(&pair[0], &memory[0], &memory[1], 8, i);
	TURN_UNTIL(pair[0].shm->sq_done == 3);
	take(0, ONE_CQE_SEND, 0);
	move_now(&pair[0], 1);
	post_write(&pair[0], &memory[0], &memory[1], 8, 3);
	TURN_UNTIL(pair[0].shm->sq_done == 4);
	assert_true(ring_poll(&ring[1], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_AFTER);
	assert_int_equal(cqe.object, 0);
	assert_int_equal(cqe.cookie, 3);
	take(0, ONE_CQE_SEND, 1);
	take(0, ONE_CQE_SEND, 2);
	take(1, ONE_CQE_SEND, 3);
	/* All is taken: nothing has to come first. */
	move_now(&pair[0], 0);
	post_write(&pair[0], &memory[0], &memory[1], 8, 4);
	expect(&ring[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 4);
}

/* ONE_CQE_AFTER notifies in place of entries that no event has reported, and only of those. */
static void
test_one_event(void **state)
{
	struct one_cqe cqe;

	ring_arm(&ring[0], one_arm(1, CHANNEL | ONE_ARM_NEXT, 0));
	post_write(&pair[0], &memory[0], &memory[1], 8, 0);
	TURN_UNTIL(!ring_armed(&ring[0]));
	ring_arm(&ring[1], one_arm(2, CHANNEL | ONE_ARM_NEXT, 0));
	move_now(&pair[0], 1);
	TURN_UNTIL(ring_poll(&ring[1], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_AFTER);
	loops_of(&lane, 5);
	assert_true(ring_armed(&ring[1]));
	take(0, ONE_CQE_SEND, 0);
	ring_arm(&ring[1], 0);
	post_write(&pair[0], &memory[0], &memory[1], 8, 1);
	TURN_UNTIL(pair[0].shm->sq_done == 2);
	ring_arm(&ring[0], one_arm(3, CHANNEL | ONE_ARM_NEXT, ring[0].head));
	move_now(&pair[0], 0);
	TURN_UNTIL(!ring_armed(&ring[0]));
	take(1, ONE_CQE_SEND, 1);
}

/* Moves between the loops of a request. Armed before or after the freeze, its completion makes one event. */
static void
move_after_loops(uint32_t loops, bool armed, uint32_t *completed)
{
	struct engine_move *move = move_to(&pair[0], 1);
	struct one_cqe cqe;
	bool is_complete;

	if (armed)
		ring_arm(&ring[0], one_arm((uint16_t)(2 * loops + 1), CHANNEL | ONE_ARM_NEXT, ring[0].head));
	post_write(&pair[0], &memory[0], &memory[1], 8, loops);
	for (uint32_t i = 0; i < loops; i++)
		loops_of(i % 2 == 0 ? &home : &lane, 1);
	assert_int_equal(step(ENGINE_QP_FREEZE, move, pair[0].qp), 0);
	is_complete = ring[0].cq->tail != ring[0].head;
	assert_true(!is_complete || !ring_armed(&ring[0]));
	if (is_complete)
		ring_arm(&ring[1], one_arm((uint16_t)(2 * loops + 2), CHANNEL | ONE_ARM_NEXT, ring[1].head));
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), 0);
	finish(move, true);
	loops_of(&lane, 5);
	assert_true(!is_complete || ring_armed(&ring[1]) == armed);
	take(is_complete ? 0 : 1, ONE_CQE_SEND, loops);
	*completed += is_complete;
	ring_arm(&ring[0], 0);
	ring_arm(&ring[1], 0);
	move_now(&pair[0], 0);
	while (ring_poll(&ring[1], &cqe))
		assert_int_equal(cqe.type, ONE_CQE_AFTER);
}

static void
test_one_event_in_any_loop(void **state)
{
	uint32_t completed = 0;

	for (uint32_t loops = 0; loops < 8; loops++) {
		move_after_loops(loops, true, &completed);
		move_after_loops(loops, false, &completed);
	}
	assert_in_range(completed, 2, 14);
}

/* Moves while the application sleeps do not fill its rings. */
static void
test_few_marks(void **state)
{
	struct one_cqe cqe;
	uint32_t entries = 0;

	for (uint32_t i = 0; i < 2; i++) {
		post_write(&pair[i], &memory[0], &memory[1], 8, i);
		TURN_UNTIL(pair[i].shm->sq_done == 1);
	}
	for (uint32_t i = 0; i < 20; i++) {
		move_now(&pair[0], (int)(i + 1) % 2);
		move_now(&pair[1], (int)(i + 1) % 2);
	}
	for (int i = 0; i < 2; i++)
		while (ring_poll(&ring[i], &cqe))
			entries++;
	assert_in_range(entries, 2, 4);
}

/* Stores three entries in the ring of the home, which then is resized. */
static void
fill_and_resize(void)
{
	struct engine_cq_config config = {.log2 = CQ_LOG2};

	for (uint32_t i = 0; i < 3; i++)
		post_write(&pair[0], &memory[0], &memory[1], 8, i);
	TURN_UNTIL(pair[0].shm->sq_done == 3);
	config.offset = app_alloc(&home, sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << CQ_LOG2));
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_CQ_RESIZE, .cq = ring[0].cq, .cq_config = config}),
			 0);
}

/* The application has not taken the entries before the resize, and the resized ring is empty. */
static void
test_order_of_empty_ring(void **state)
{
	struct one_cqe cqe;

	fill_and_resize();
	move_now(&pair[0], 1);
	TURN_UNTIL(ring_poll(&ring[1], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_AFTER);
	assert_int_equal(cqe.cookie, 3);
}

/* The count of ONE_CQE_AFTER goes on when the old ring was resized, and leaves out ONE_CQE_SWITCHED. */
static void
test_order_after_resize(void **state)
{
	struct one_cqe cqe;

	fill_and_resize();
	post_write(&pair[0], &memory[0], &memory[1], 8, 3);
	TURN_UNTIL(pair[0].shm->sq_done == 4);
	move_now(&pair[0], 1);
	post_write(&pair[0], &memory[0], &memory[1], 8, 4);
	TURN_UNTIL(ring_poll(&ring[1], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_AFTER);
	assert_int_equal(cqe.cookie, 4);
}

/* A mark that names entries of long ago says nothing about present ones. */
static void
test_order_after_many(void **state)
{
	struct one_cqe cqe;

	post_write(&pair[0], &memory[0], &memory[1], 8, 0);
	TURN_UNTIL(pair[0].shm->sq_done == 1);
	move_now(&pair[0], 1);
	assert_true(ring_poll(&ring[0], &cqe));
	assert_true(ring_poll(&ring[1], &cqe));
	move_now(&pair[0], 0);
	ring[0].cq->base += 1ull << 31; /* as if so many entries had been stored and taken */
	post_write(&pair[0], &memory[0], &memory[1], 8, 1);
	TURN_UNTIL(pair[0].shm->sq_done == 2);
	move_now(&pair[0], 1);
	TURN_UNTIL(ring_poll(&ring[1], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_AFTER);
	assert_int_equal(cqe.cookie, (1ull << 31) + 2);
}

/* Empties the ring of the home, whose next entry has that index. */
static void
start_ring_at(uint32_t index)
{
	for (uint32_t i = 0; i < 1u << CQ_LOG2; i++)
		atomic_store(&ring[0].entries[one_ring_slot(index + i, CQ_LOG2)].phase,
			     !one_ring_phase(index + i, CQ_LOG2));
	atomic_store(&ring[0].shm->head, index);
	ring[0].head = ring[0].cq->tail = ring[0].cq->head_seen = index;
	ring[0].cq->base = 0;
}

/* Stores `count` entries in the ring of the home, and takes them. */
static void
store_and_take(uint32_t count)
{
	struct one_cqe cqe;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t done = pair[0].shm->sq_done;

		post_write(&pair[0], &memory[0], &memory[1], 8, i);
		TURN_UNTIL(pair[0].shm->sq_done == done + 1);
		assert_true(ring_poll(&ring[0], &cqe));
	}
}

/* The count goes on when the ring's indices wrap. */
static void
test_order_after_wrap(void **state)
{
	static const uint32_t taken[] = {0, 1, 2, 3, 4, 3u << CQ_LOG2};

	for (uint32_t i = 0; i < RTE_DIM(taken); i++) {
		const uint32_t start = UINT32_MAX - 1;
		struct one_cqe cqe;
		uint32_t before;

		start_ring_at(start);
		store_and_take(taken[i]);
		before = pair[0].shm->sq_done;
		post_write(&pair[0], &memory[0], &memory[1], 8, 77);
		TURN_UNTIL(pair[0].shm->sq_done == before + 1);
		move_now(&pair[0], 1);
		TURN_UNTIL(ring_poll(&ring[1], &cqe));
		assert_int_equal(cqe.type, ONE_CQE_AFTER);
		assert_int_equal(cqe.cookie, (uint64_t)start + taken[i] + 1);
		take(0, ONE_CQE_SEND, 77);
		move_now(&pair[0], 0);
		ring[1].cq->mark_end = 0;
	}
}

/* Entries that await a place in the stage need room as well. */
static void
test_no_room_but_for_staged(void **state)
{
	struct core *core = lane.client->core;
	struct engine_move *move = move_to(&pair[0], 1);
	struct one_cqe cqe;

	post_write(&pair[0], &memory[0], &memory[1], 8, 1);
	TURN_UNTIL(pair[0].shm->sq_done == 1);
	for (uint32_t i = 0; i < ring[1].cq->limit - 1; i++) {
		post_write(&pair[1], &memory[0], &memory[1], 8, i);
		TURN_UNTIL(pair[1].shm->sq_done == i + 1);
	}
	assert_int_equal(step(ENGINE_QP_FREEZE, move, pair[0].qp), 0);
	cq_stage_qp(core, pair[1].qp);
	memset(cq_stage(core, ring[1].cq), 0, sizeof(cqe));
	assert_int_equal(qp_thaw(core, move), -ENOBUFS);
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), 0);
	finish(move, false);
}

/* Without room for ONE_CQE_AFTER the queue pair stays, and goes on. */
static void
test_no_room(void **state)
{
	struct engine_move *move = move_to(&pair[0], 1);

	post_write(&pair[0], &memory[0], &memory[1], 8, 1);
	TURN_UNTIL(pair[0].shm->sq_done == 1);
	for (uint32_t i = 0; i < ring[1].cq->limit; i++) {
		post_write(&pair[1], &memory[0], &memory[1], 8, i);
		TURN_UNTIL(pair[1].shm->sq_done == i + 1);
	}
	assert_int_equal(step(ENGINE_QP_FREEZE, move, pair[0].qp), 0);
	post_write(&pair[0], &memory[0], &memory[1], 8, 2);
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), -ENOBUFS);
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), 0);
	finish(move, false);
	take(0, ONE_CQE_SEND, 1);
	take(0, ONE_CQE_SEND, 2);
	assert_ptr_equal(qp_core(pair[0].qp), home.client->core);
}

static int waited;

static void
on_waited(struct engine_command *command)
{
	waited++;
	free(command);
}

/* A command during a move waits, and finds the queue pair on its new core. */
static void
test_command_waits(void **state)
{
	struct engine_move *move = move_to(&pair[0], 1);
	struct engine_command *flush = calloc(1, sizeof(*flush));

	waited = 0;
	flush->type = ENGINE_QP_FLUSH;
	flush->qp = pair[0].qp;
	flush->done = on_waited;
	assert_int_equal(step(ENGINE_QP_FREEZE, move, pair[0].qp), 0);
	assert_int_equal(engine_command(flush), 0);
	turn(10);
	assert_int_equal(waited, 0);
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), 0);
	turn(10);
	assert_int_equal(waited, 0);
	finish(move, true);
	TURN_UNTIL(waited == 1);
	assert_int_equal(pair[0].shm->state, ONE_QP_ERROR);
}

/* The end of a connection is reported after the completions, where they are. */
static void
test_outcome_waits(void **state)
{
	struct engine_move *move = move_to(&pair[0], 1);
	struct engine_command *post = calloc(1, sizeof(*post));

	waited = 0;
	post->type = ENGINE_CQ_POST;
	post->qp = pair[0].qp;
	post->cq = async[0].cq;
	post->event = (struct one_cqe){.type = ONE_CQE_CONNECT, .status = ONE_CONN_BROKEN, .cookie = 5};
	post->done = on_waited;
	assert_int_equal(step(ENGINE_QP_FREEZE, move, pair[0].qp), 0);
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), 0);
	assert_int_equal(engine_command(post), 0);
	turn(10);
	assert_int_equal(waited, 0);
	finish(move, true);
	expect(&async[1], ONE_CQE_CONNECT, ONE_CONN_BROKEN, 5);
}

/* A queue pair that gets other rings names no entries of the former ones. */
static void
test_other_rings(void **state)
{
	struct engine_qp_config config = {.send_cq = ring[1].cq, .recv_cq = ring[1].cq};

	post_write(&pair[0], &memory[0], &memory[1], 8, 1);
	TURN_UNTIL(pair[0].shm->sq_done == 1);
	move_now(&pair[0], 1);
	assert_true(pair[0].qp->origin[0].known);
	assert_int_equal(step(ENGINE_QP_RESET, NULL, pair[0].qp), 0);
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_MODIFY, .qp = pair[0].qp, .qp_config = config}),
			 0);
	assert_false(pair[0].qp->origin[0].known);
}

static bool
answered(uint32_t asked)
{
	struct one_keys *keys = (struct one_keys *)(home.arena + home.header->keys);

	return atomic_load(&keys->answered) == asked;
}

static uint32_t
ask(void)
{
	static uint32_t asked;
	struct one_keys *keys = (struct one_keys *)(home.arena + home.header->keys);

	atomic_store(&keys->op, ONE_KEY_NONE);
	atomic_store(&keys->asked, ++asked);
	atomic_store(&home.doorbells->keys, 1);
	return asked;
}

/* A key and a move exclude each other. */
static void
test_keys(void **state)
{
	struct engine_move *move = move_to(&pair[0], 1), *second;
	uint32_t asked = ask();

	loops_of(&home, 100); /* noticed, and waits for the other lane */
	assert_false(answered(asked));
	assert_int_equal(qp_freeze(home.client->core, move), -EAGAIN);
	TURN_UNTIL(answered(asked));
	assert_int_equal(step(ENGINE_QP_FREEZE, move, pair[0].qp), 0);
	post_write(&pair[0], &memory[0], &memory[1], 8, 1);
	asked = ask();
	turn(20000);
	assert_false(answered(asked));
	/* Further moves wait for the request. */
	second = move_to(&pair[1], 0);
	assert_int_equal(qp_freeze(lane.client->core, second), -EAGAIN);
	engine_move_free(second);
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), 0);
	finish(move, true);
	TURN_UNTIL(answered(asked));
	assert_int_equal(atomic_load(&pair[0].shm->sq_head), 1);
	move_now(&pair[1], 0);
}

/* A request for a key that the application withdraws before it begins excludes no move for ever. */
static void
test_key_withdrawn(void **state)
{
	struct one_keys *keys = (struct one_keys *)(home.arena + home.header->keys);
	struct engine_move *move = move_to(&pair[0], 1);
	uint32_t before = atomic_load(&keys->asked);

	assert_int_equal(step(ENGINE_QP_FREEZE, move, pair[0].qp), 0);
	ask();
	loops_of(&home, 10);
	atomic_store(&keys->asked, before);
	loops_of(&home, 10);
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), 0);
	finish(move, true);
	move_now(&pair[0], 0);
}

/* Only connected queue pairs with rings of their own move. */
static void
test_refused(void **state)
{
	struct engine_move *move;

	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = pair[0].qp}), 0);
	move = move_to(&pair[0], 1);
	assert_int_equal(step(ENGINE_QP_FREEZE, move, pair[0].qp), -ENOTCONN);
	finish(move, false);
}

/* Both ends of a local connection move, one after the other, in the middle of a message. */
static void
test_local(void **state)
{
	for (uint32_t i = 0; i < 4; i++) {
		int to = (int)(i + 1) % 2;

		memset(memory[0].bytes, (int)(i + 1), LENGTH);
		post_send(&pair[0], &memory[0], LENGTH, i); /* waits for a receive */
		turn(10);
		move_now(&pair[0], to);
		turn(10);
		post_recv(&pair[1], &memory[1], LENGTH, 100 + i);
		turn(1000);
		assert_int_equal(pair[0].shm->sq_done, i);
		move_now(&pair[1], to);
		TURN_UNTIL(pair[0].shm->sq_done == i + 1 && pair[1].shm->rq_done == i + 1);
		assert_memory_equal(memory[0].bytes, memory[1].bytes, LENGTH);
	}
}

/* The peer is connected elsewhere, and on another core: requests fail in time. */
static void
test_local_peer_elsewhere(void **state)
{
	struct engine_connection to = connection_to(&pair[1], &pair[0], RC_RTS, false);
	struct one_cqe cqe;

	move_now(&pair[0], 1);
	move_now(&pair[1], 1);
	assert_int_equal(step(ENGINE_QP_RESET, NULL, pair[1].qp), 0);
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = pair[1].qp, .connection = to}),
			 0);
	move_now(&pair[1], 0);
	post_write(&pair[0], &memory[0], &memory[1], 8, 3);
	for (uint64_t ns = 0; ns < 4 * LOCAL_LOST_NS && pair[0].shm->sq_done == 0; ns += CORE_GAP_NS / 2)
		turn_for(CORE_GAP_NS / 2);
	TURN_UNTIL(ring_poll(&ring[1], &cqe));
	assert_int_equal(cqe.status, ONE_STATUS_RETRY_EXCEEDED);
}

/* ---- both cores on their own threads ---- */

/* Takes the next entry of the bundle like the library. */
static void
take_any(struct one_cqe *cqe)
{
	for (uint32_t r = 0;; r = 1 - r) {
		const struct one_cqe *slot = &ring[r].entries[one_ring_slot(ring[r].head, ring[r].log2)];

		turn(1);
		/* Pairs with the release store in cq_store(). */
		if (atomic_load_explicit(&slot->phase, memory_order_acquire) !=
		    one_ring_phase(ring[r].head, ring[r].log2))
			continue;
		if (slot->type == ONE_CQE_AFTER && ring[1 - r].head < slot->cookie)
			continue;
		assert_true(ring_poll(&ring[r], cqe));
		if (cqe->type != ONE_CQE_AFTER)
			return;
	}
}

/* Takes `count` completions; those of each queue pair come in order. */
static void
take_in_order(uint64_t next[2], uint32_t count)
{
	struct one_cqe cqe;

	for (uint32_t i = 0; i < count; i++) {
		take_any(&cqe);
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
		assert_int_equal(cqe.cookie, next[cqe.object == pair[1].id]++);
	}
}

static void
move_in_threads(int to, uint64_t posted[2])
{
	struct engine_move *move = move_to(&pair[0], to);

	while (step(ENGINE_QP_FREEZE, move, pair[0].qp) == -EAGAIN)
		engine_move_over(move);
	post_write(&pair[0], &memory[0], &memory[1], 64, posted[0]++);
	post_write(&pair[1], &memory[2], &memory[3], 64, posted[1]++);
	assert_int_equal(step(ENGINE_QP_THAW, move, pair[0].qp), 0);
	post_write(&pair[0], &memory[0], &memory[1], 64, posted[0]++);
	finish(move, true);
}

#define MOVES_IN_THREADS 100u

static void
test_threads(void **state)
{
	uint64_t posted[2] = {0, 0}, next[2] = {0, 0}, token;

	fixture_start(2, ONE_IDLE_YIELD);
	assert_int_equal(engine_start(), 0);
	start(NULL);
	for (uint32_t i = 0; i < MOVES_IN_THREADS; i++) {
		for (uint32_t j = 0; j < 3; j++) {
			post_write(&pair[0], &memory[0], &memory[1], LENGTH, posted[0]++);
			post_write(&pair[1], &memory[2], &memory[3], 8, posted[1]++);
		}
		move_in_threads((int)(i + 1) % 2, posted);
		take_in_order(next, 9);
	}
	assert_int_equal(next[0], 5 * MOVES_IN_THREADS);
	token = engine_grace_start();
	TURN_UNTIL(engine_grace_over(token));
	end(NULL);
	TURN_UNTIL(engine.reap == NULL);
	fixture_stop();
}

/* ---- take-overs ---- */

/* A queue pair goes on after a take-over that failed, though its ring has no room for another entry. */
static void
test_unfrozen_in_full_ring(void **state)
{
	const struct one_cqe entry = {.type = ONE_CQE_SEND};
	struct engine_cq *cq = ring[1].cq;
	struct engine_move *move;

	post_write(&pair[0], &memory[0], &memory[1], 8, 1);
	TURN_UNTIL(pair[0].shm->sq_done == 1);
	while (cq->tail + 1 < cq->limit)
		cq_push(cq->client->core, cq, &entry);
	move_now(&pair[0], 1); /* the last entry names the one in the other ring */
	assert_int_equal(cq->tail, cq->limit);
	assert_int_equal(engine_qp_freeze(pair[0].qp, &move), 0);
	assert_non_null(move);
	engine_qp_unfreeze(move);
	assert_false(pair[0].qp->frozen);
	assert_int_equal(cq->tail, cq->limit);
	post_write(&pair[0], &memory[0], &memory[1], 8, 2);
	TURN_UNTIL(pair[0].shm->sq_done == 2);
}

/* Writes the queue pair as it is now, and reads it again. */
static int
read_again(struct engine_qp *qp)
{
	struct record_out out = {.bytes = NULL};
	struct record_in in;
	struct record record;
	int error;

	engine_qp_write(qp, NULL, &out);
	in = (struct record_in){.bytes = out.bytes, .length = out.length};
	assert_int_equal(record_take(&in, &record), 1);
	error = engine_qp_read(qp, &record, NULL, false);
	record_out_free(&out);
	return error;
}

/* Requests and receives whose sums exceed their memory are refused. */
static void
test_records(void **state)
{
	struct engine_qp *qp = pair[0].qp;
	const struct work inlined = {.op = ONE_OP_WRITE, .flags = ONE_WQE_INLINE, .length = ONE_INLINE_MAX};
	const struct work one = {.op = ONE_OP_SEND, .num_sge = 1, .length = 8, .sge = {{.len = 8}}};
	const struct recv_work recv = {.num_sge = 1, .length = 8, .sge = {{.len = 4}}};

	qp->work.op = 77; /* what the last request has left is not used */
	assert_int_equal(read_again(qp), 0);
	qp->request = QP_REQUEST_TAKEN;
	assert_int_equal(read_again(qp), -EINVAL);
	qp->work.status = ONE_STATUS_LOCAL_QP; /* malformed, as the application has posted it */
	assert_int_equal(read_again(qp), 0);
	qp->work = inlined;
	assert_int_equal(read_again(qp), 0);
	qp->work.length++;
	assert_int_equal(read_again(qp), -EINVAL);
	qp->work = one;
	assert_int_equal(read_again(qp), 0);
	qp->work.sge[0].len--;
	assert_int_equal(read_again(qp), -EINVAL);
	qp->work = one;
	qp->work.num_sge = ONE_MAX_SGE + 1;
	assert_int_equal(read_again(qp), -EINVAL);
	qp->work = one;
	qp->moved = 9;
	assert_int_equal(read_again(qp), -EINVAL);
	qp->moved = 0;
	qp->request = QP_REQUEST_NONE;
	qp->recv_taken = true;
	qp->recv = recv; /* cut for a message of four bytes */
	assert_int_equal(read_again(qp), 0);
	assert_int_equal(qp->recv.length, 4);
	qp->recv.sge[0].len++;
	assert_int_equal(read_again(qp), -EINVAL);
	qp->recv = recv;
	qp->recv.num_sge = ONE_MAX_SGE + 1;
	assert_int_equal(read_again(qp), -EINVAL);
	qp->recv_taken = false;
}

/* A queue pair of RSM stays on its lane, but is frozen for a take-over, with a signal under way, and its
 * record has the signals that have not been sent. */
static void
test_signals(void **state)
{
	struct engine_qp *qp = pair[0].qp;
	uint32_t max_send_wr = qp->max_send_wr;
	struct record_out out = {.bytes = NULL};
	struct record_in in;
	struct record record;
	struct engine_move *move = move_to(&pair[0], 1);

	qp->signals = true;
	assert_int_equal(qp_freeze(home.client->core, move), -EOPNOTSUPP);
	engine_move_free(move);
	qp->max_send_wr = 0;
	assert_int_equal(engine_qp_freeze(qp, &move), 0);
	assert_true(move->size >= rc_record_size(1));
	engine_qp_unfreeze(move);
	qp->signals = false;
	qp->max_send_wr = max_send_wr;

	qp->signals_owed = 5;
	qp->signal_once = true;
	engine_qp_write(qp, NULL, &out);
	qp->signals_owed = 0;
	qp->signal_once = false;
	in = (struct record_in){.bytes = out.bytes, .length = out.length};
	assert_int_equal(record_take(&in, &record), 1);
	assert_int_equal(engine_qp_read(qp, &record, NULL, false), 0);
	assert_int_equal(qp->signals_owed, 5);
	assert_true(qp->signal_once);
	qp->signals_owed = 0;
	qp->signal_once = false;
	record_out_free(&out);
}

int
main(void)
{
	const struct CMUnitTest threads[] = {cmocka_unit_test(test_threads)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_traffic, start, end),
		cmocka_unit_test_setup_teardown(test_old_doorbell, start, end),
		cmocka_unit_test_setup_teardown(test_meanwhile, start, end),
		cmocka_unit_test_setup_teardown(test_order, start, end),
		cmocka_unit_test_setup_teardown(test_one_event, start, end),
		cmocka_unit_test_setup_teardown(test_one_event_in_any_loop, start, end),
		cmocka_unit_test_setup_teardown(test_few_marks, start, end),
		cmocka_unit_test_setup_teardown(test_order_of_empty_ring, start, end),
		cmocka_unit_test_setup_teardown(test_order_after_resize, start, end),
		cmocka_unit_test_setup_teardown(test_order_after_many, start, end),
		cmocka_unit_test_setup_teardown(test_order_after_wrap, start, end),
		cmocka_unit_test_setup_teardown(test_no_room_but_for_staged, start, end),
		cmocka_unit_test_setup_teardown(test_no_room, start, end),
		cmocka_unit_test_setup_teardown(test_command_waits, start, end),
		cmocka_unit_test_setup_teardown(test_outcome_waits, start, end),
		cmocka_unit_test_setup_teardown(test_other_rings, start, end),
		cmocka_unit_test_setup_teardown(test_keys, start, end),
		cmocka_unit_test_setup_teardown(test_key_withdrawn, start, end),
		cmocka_unit_test_setup_teardown(test_refused, start, end),
		cmocka_unit_test_setup_teardown(test_unfrozen_in_full_ring, start, end),
		cmocka_unit_test_setup_teardown(test_records, start_local, end),
		cmocka_unit_test_setup_teardown(test_signals, start_local, end),
		cmocka_unit_test_setup_teardown(test_local, start_local, end),
		cmocka_unit_test_setup_teardown(test_local_peer_elsewhere, start_local, end),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop) +
	       cmocka_run_group_tests(threads, NULL, NULL);
}
