/* SPDX-License-Identifier: BSD-3-Clause */
/* Cores of new queue pairs (control/objects/place.c). Each has a core of its own in the order in which the
 * test places them. */
#include <string.h>

#include "tests/unit/unit.h"
#include "control/attach/client.h"
#include "control/objects/place.h"
#include "dataplane/engine/place.h"

#define CORES 3u
#define QPS 64u
#define CQS 4u

struct control control;
int control_logtype;

struct engine_client {
	uint32_t core;
};

static struct engine_client lane[CORES] = {{0}, {1}, {2}};
static struct config config;
static struct client client, others[CORES];
static struct qp qps[QPS], peer;
static struct cq cqs[CQS];
static uint32_t placed, cores, port_cores;

/* ---- functions of other rooms ---- */

uint32_t
engine_num_cores(void)
{
	return cores;
}

uint32_t
engine_port_cores(uint32_t port)
{
	return port_cores;
}

uint32_t
engine_lane_core(const struct engine_client *at)
{
	return at->core;
}

uint32_t
engine_lane_number(const struct engine_client *at)
{
	return at->core;
}

struct engine_client *
engine_lane_next(const struct engine_client *at)
{
	return at->core + 1 < cores ? &lane[at->core + 1] : NULL;
}

struct engine_client *
engine_lane_new(struct engine_client *first, uint32_t core, uint64_t doorbells)
{
	fail();
	return NULL;
}

int
client_alloc(struct client *at, uint64_t size, uint64_t *offset)
{
	fail();
	return -1;
}

void
client_free(struct client *at, uint64_t offset, uint64_t size)
{
	fail();
}

struct engine_command *
command_new(struct client *at, enum engine_command_type type, command_done *done, void *object)
{
	fail();
	return NULL;
}

void
command_send(struct engine_command *command)
{
	fail();
}

int
copies_add_lane(struct client *at, struct engine_client *to)
{
	return 0;
}

int
cq_extend(struct cq *cq, struct engine_client *to)
{
	return 0;
}

void
qp_give_to_core(struct qp *qp)
{
	placed++;
}

struct engine_qp_config
qp_config_on(const struct qp *qp, const struct engine_client *to)
{
	return qp->config;
}

void
qp_store_doorbells(struct qp *qp)
{
}

/* ---- the world ---- */

static int
begin_world(void **state)
{
	control.config = &config;
	config.placement = CONFIG_PLACEMENT_AUTO;
	memset(others, 0, sizeof(others));
	client = (struct client){.state = CLIENT_ATTACHED, .engine = &lane[0]};
	client.table[OBJECT_CQ].used = 1; /* of asynchronous events */
	for (uint32_t i = 0; i < CORES; i++)
		others[i] = client;
	memset(qps, 0, sizeof(qps));
	memset(cqs, 0, sizeof(cqs));
	cores = port_cores = CORES;
	placed = 0;
	return 0;
}

static int
end_world(void **state)
{
	for (uint32_t i = 0; i < placed; i++)
		place_forget(&qps[i]);
	for (uint32_t i = 0; i < CORES; i++)
		assert_int_equal(place_count(i), 0);
	return 0;
}

static void
create_cqs(uint32_t count)
{
	client.table[OBJECT_CQ].used += count;
	for (uint32_t i = 0; i < count; i++)
		cqs[i].object.client = &client;
}

static void
create_qps(struct cq *send_cq, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++) {
		qps[i].object.client = &client;
		qps[i].send_cq = send_cq;
		place_use_cq(send_cq, true);
	}
}

static void
place(struct cq *send_cq, uint32_t count)
{
	uint32_t first = placed;

	create_qps(send_cq, first, count);
	for (uint32_t i = first; i < first + count; i++)
		place_qp(&qps[i], NULL);
}

static void
expect(uint32_t first, uint32_t second, uint32_t third)
{
	assert_int_equal(place_count(0), first);
	assert_int_equal(place_count(1), second);
	assert_int_equal(place_count(2), third);
}

/* ---- tests ---- */

/* A program whose requests complete in one queue uses all cores, whatever other queues it has. */
static void
test_one_queue_spreads(void **state)
{
	create_cqs(3);
	place_use_cq(&cqs[1], false); /* of receives */
	place_use_cq(&cqs[2], false); /* of a listener */
	place(&cqs[0], 30);
	expect(10, 10, 10);
}

/* With as many programs as cores, each has one; after a program has ended, no core stays idle. */
static void
test_programs_have_cores(void **state)
{
	create_cqs(1);
	for (uint32_t i = 1; i < CORES; i++) {
		qps[placed].object.client = &others[i];
		place_qp(&qps[placed], NULL);
	}
	expect(1, 1, 0);
	place(&cqs[0], 10);
	expect(1, 1, 10);
	place_forget(&qps[0]);
	qps[0] = (struct qp){.object.client = &client};
	expect(0, 1, 10);
	place(&cqs[0], 2);
	expect(2, 1, 10);
}

/* With a queue for each thread, connections of one thread have one core. */
static void
test_queues_have_cores(void **state)
{
	create_cqs(3);
	place(&cqs[0], 10); /* nothing uses the other queues yet */
	expect(10, 0, 0);
	place(&cqs[1], 8);
	place(&cqs[2], 8);
	expect(10, 8, 8);
	place(&cqs[0], 2);
	place(&cqs[1], 1);
	expect(12, 9, 8);
}

static void
test_queue_gets_not_far_ahead(void **state)
{
	create_cqs(2);
	place(&cqs[0], 16);
	expect(16, 0, 0);
	place(&cqs[0], 3);
	expect(17, 1, 1);
}

/* A queue of receives takes requests, too, and a queue is freed. */
static void
test_uses_change(void **state)
{
	create_cqs(2);
	place_use_cq(&cqs[1], false);
	place(&cqs[0], 3);
	expect(1, 1, 1);
	place_use_cq(&cqs[1], true);
	place(&cqs[0], 3);
	expect(4, 1, 1);
	place_use_cq(&cqs[1], false); /* requests still complete there */
	place(&cqs[0], 1);
	expect(5, 1, 1);
	place_forget_cq(&cqs[1]);
	client.table[OBJECT_CQ].used--;
	place(&cqs[0], 2);
	expect(5, 2, 2);
}

static void
test_freed_queue_of_receives(void **state)
{
	create_cqs(3);
	place_use_cq(&cqs[1], false);
	place_forget_cq(&cqs[1]);
	client.table[OBJECT_CQ].used--;
	place(&cqs[0], 3); /* the third queue is unused */
	expect(3, 0, 0);
}

/* Frames do not arrive at the queue's core: a memif's peer has restarted with fewer rings. */
static void
test_core_without_frames(void **state)
{
	create_cqs(2);
	place(&cqs[1], 1);
	place(&cqs[0], 1);
	expect(1, 1, 0);
	port_cores = 1;
	place(&cqs[0], 2);
	expect(3, 1, 0);
}

/* Within the host a single queue's connections share a core, too; and the peer's core comes first. */
static void
test_local(void **state)
{
	create_cqs(2);
	create_qps(&cqs[0], 0, 20);
	for (uint32_t i = 0; i < 20; i++)
		place_qp(&qps[i], &peer);
	expect(20, 0, 0);
	peer = (struct qp){.placed = true, .lane = &lane[2]};
	create_qps(&cqs[0], 20, 1);
	place_qp(&qps[20], &peer);
	expect(20, 0, 1);
	peer = (struct qp){0};
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_queue_spreads, begin_world, end_world),
		cmocka_unit_test_setup_teardown(test_programs_have_cores, begin_world, end_world),
		cmocka_unit_test_setup_teardown(test_queues_have_cores, begin_world, end_world),
		cmocka_unit_test_setup_teardown(test_queue_gets_not_far_ahead, begin_world, end_world),
		cmocka_unit_test_setup_teardown(test_uses_change, begin_world, end_world),
		cmocka_unit_test_setup_teardown(test_freed_queue_of_receives, begin_world, end_world),
		cmocka_unit_test_setup_teardown(test_core_without_frames, begin_world, end_world),
		cmocka_unit_test_setup_teardown(test_local, begin_world, end_world),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
