/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes of one attachment that share a core, as after a take-over by a process with fewer cores; and their
 * numbers in records. */
#include <errno.h>

#include "dataplane/engine/takeover.h"
#include "dataplane/qp/doorbell.h"
#include "fixture.h"

#define LENGTH 4096u
#define LANES 3u

static struct app app[LANES];                 /* the first has all objects of the attachment */
static struct ring async[LANES], ring[LANES]; /* bundles, with a ring for each lane */
static struct pair pair[LANES];               /* one of each lane: 1 and 2 are connected to each other */
static struct memory memory[2];

static int
start(void **state)
{
	app_start(&app[0]);
	ring_new(&app[0], CQ_LOG2, &async[0], NULL);
	ring_new(&app[0], CQ_LOG2, &ring[0], async[0].cq);
	for (uint32_t i = 1; i < LANES; i++) {
		lane_new(&app[0], i, &app[i]);
		ring_join(&app[i], &async[0], &async[i]);
		ring_join(&app[i], &ring[0], &ring[i]);
	}
	for (uint32_t i = 0; i < LANES; i++) {
		assert_ptr_equal(app[i].client->core, app[0].client->core);
		pair_new(&app[i], &ring[i], &ring[i], &async[i], &async[i], &pair[i]);
	}
	for (int i = 0; i < 2; i++)
		memory_new(&app[0], ONE_ACCESS_ALL, LENGTH, &memory[i]);
	pair_connect(&pair[1], &pair[2], RC_RTS, false);
	pair_connect(&pair[2], &pair[1], RC_RTS, false);
	return 0;
}

static int
end(void **state)
{
	for (int i = 0; i < 2; i++)
		memory_end(&memory[i]);
	for (uint32_t i = 0; i < LANES; i++) {
		pair_end(&pair[i]);
		ring_end(&ring[i]);
		ring_end(&async[i]);
	}
	for (uint32_t i = 1; i < LANES; i++)
		lane_end(&app[i]);
	app_end(&app[0]);
	return 0;
}

/* Each lane keeps its doorbells and rings. */
static void
test_transfers(void **state)
{
	for (uint32_t i = 1; i < LANES; i++) {
		memset(memory[0].bytes, (int)i, LENGTH);
		post_recv(&pair[3 - i], &memory[1], LENGTH, i);
		post_send(&pair[i], &memory[0], LENGTH, 100 + i);
		expect(&ring[3 - i], ONE_CQE_RECV, ONE_STATUS_SUCCESS, i);
		expect(&ring[i], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 100 + i);
		assert_memory_equal(memory[0].bytes, memory[1].bytes, LENGTH);
	}
}

/* The lanes of one core answer a request for a key like those of several. */
static void
test_keys(void **state)
{
	struct one_keys *keys = (struct one_keys *)(app[0].arena + app[0].header->keys);

	post_write(&pair[2], &memory[0], &memory[1], 8, 1);
	atomic_store(&keys->op, ONE_KEY_NONE);
	atomic_store(&keys->asked, 1);
	atomic_store(&app[0].doorbells->keys, 1);
	TURN_UNTIL(atomic_load(&keys->answered) == 1);
	assert_int_equal(atomic_load(&pair[2].shm->sq_head), 1);
	for (uint32_t i = 1; i < LANES; i++)
		assert_int_equal(atomic_load(&app[i].client->keys_begun), 1);
	expect(&ring[2], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
}

/* Accesses go through the part of the queue pair's lane, for whose copies binds and moves wait. */
static void
test_copies(void **state)
{
	struct bounce *part[LANES];

	for (uint32_t i = 0; i < LANES; i++) {
		uint64_t offset = app_alloc(&app[i], sizeof(struct one_copies));

		part[i] = engine_client_bounce(app[i].client, offset);
		assert_non_null(part[i]);
	}
	memory[0].region.base = NULL;
	memory[0].region.bounce = part[0];
	post_write(&pair[1], &memory[0], &memory[1], 64, 1);
	TURN_UNTIL(bounce_since(part[0]) != 0);
	assert_int_equal(bounce_mark(part[0]), 0);
	assert_int_equal(bounce_mark(part[1]), 1);
	assert_int_equal(bounce_mark(part[2]), 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = pair[1].qp}), 0);
	memory[0].region.base = memory[0].bytes;
	memory[0].region.bounce = NULL;
	turn(2); /* until no core uses the entry of before */
}

static struct engine_connection
out_of_band(struct pair *from, struct pair *to)
{
	struct engine_connection connection = connection_to(from, to, RC_RTS, true);

	connection.out_of_band = true;
	return connection;
}

static enum qp_transport
transport_of(struct pair *from, struct pair *to)
{
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = from->qp}), 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_CONNECT,
							 .qp = from->qp,
							 .connection = out_of_band(from, to)}),
			 0);
	return from->qp->transport;
}

/* Ends on lanes of two numbers may be on two cores in a later process, which then could not copy. */
static void
test_local(void **state)
{
	struct pair other;

	pair_new(&app[1], &ring[1], &ring[1], &async[1], &async[1], &other);
	assert_int_equal(transport_of(&pair[1], &other), QP_LOCAL);
	assert_int_equal(transport_of(&pair[1], &pair[2]), QP_LOOP);
	pair_end(&other);
}

/* ---- records ---- */

static struct record_out out;

/* Returns what reading the first record returns. */
static int
read_first(int (*read)(struct engine_client *lane, const struct record *record), struct engine_client *lane)
{
	struct record_in in = {.bytes = out.bytes, .length = out.length};
	struct record record;

	assert_int_equal(record_take(&in, &record), 1);
	return read(lane, &record);
}

static int
read_forward(uint64_t doorbell, uint32_t from, uint32_t to)
{
	uint32_t *words;
	int error;

	words = record_append(&out, RECORD_FORWARD, 1, doorbell, 2 * sizeof(*words));
	words[0] = from;
	words[1] = to;
	error = read_first(engine_forward_read, app[0].client);
	record_out_free(&out);
	return error;
}

/* Rings are passed on until they arrive: one that leads back would never end, nor one to no lane begin. */
static void
test_forwards(void **state)
{
	const uint32_t doorbell = ONE_QPS_MAX - 1;

	assert_int_equal(read_forward(ONE_QPS_MAX, 0, 1), -EINVAL);
	assert_int_equal(read_forward(doorbell, 0, LANES), -EINVAL);
	assert_int_equal(read_forward(doorbell, ONE_LANES_MAX, 1), -EINVAL);
	assert_int_equal(read_forward(doorbell, 1, 1), -EINVAL);
	assert_int_equal(read_forward(doorbell, 0, 1), 0);
	assert_int_equal(read_forward(doorbell, 1, 2), 0);
	assert_int_equal(read_forward(doorbell, 2, 0), -EINVAL);
	assert_int_equal(read_forward(doorbell, 2, 1), -EINVAL);
	assert_ptr_equal(doorbell_lane(app[0].client->qps[doorbell]), app[1].client);
	assert_ptr_equal(doorbell_lane(app[1].client->qps[doorbell]), app[2].client);
	assert_null(app[2].client->qps[doorbell]);
}

/* The state of a lane is not another lane's. */
static void
test_state_of_lane(void **state)
{
	engine_lane_write(app[1].client, &out);
	assert_int_equal(read_first(engine_lane_read, app[2].client), -EINVAL);
	record_out_free(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_transfers, start, end),
		cmocka_unit_test_setup_teardown(test_keys, start, end),
		cmocka_unit_test_setup_teardown(test_copies, start, end),
		cmocka_unit_test_setup_teardown(test_local, start, end),
		cmocka_unit_test_setup_teardown(test_forwards, start, end),
		cmocka_unit_test_setup_teardown(test_state_of_lane, start, end),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
