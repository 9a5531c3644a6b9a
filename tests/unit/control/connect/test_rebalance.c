/* SPDX-License-Identifier: BSD-3-Clause */
/* Which connections may move by themselves (control/connect/rebalance.c).  The test has the cores' counters
 * and the clock; test_balance.c tests the choice. */
#include <string.h>

#include "tests/unit/unit.h"
#include "control/connect/connect.h"
#include "control/objects/qp_move.h"
#include "control/objects/place.h"
#include "dataplane/engine/place.h"

#define CONNS 4u
#define HZ 2000000000ull
#define LOOKS 10u

struct control control;
int control_logtype;

struct engine_client {
	uint32_t core;
};

static struct engine_client lane[2] = {{0}, {1}};
static struct config config;
static struct conn conns[CONNS];
static struct qp qps[CONNS];
static struct qp *peers[CONNS]; /* NULL: behind a port */
static uint32_t packets[CONNS], rate[CONNS], wish[CONNS];
static const char *refusal[CONNS];
static bool follows;
static uint32_t cores, moved;
static uint64_t busy; /* of core 0 */

/* ---- functions of other rooms ---- */

uint32_t
engine_num_cores(void)
{
	return cores;
}

uint64_t
engine_hz(void)
{
	return HZ;
}

void
engine_stats(uint32_t core, struct engine_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->busy_cycles = core == 0 ? busy : 0;
}

uint32_t
engine_lane_core(const struct engine_client *at)
{
	return at->core;
}

uint32_t
engine_core_lcore(uint32_t core)
{
	return core + 1;
}

uint32_t
engine_qp_heard(const struct engine_qp *qp)
{
	return packets[(uintptr_t)qp - 1];
}

uint32_t
place_wish(const struct qp *qp)
{
	return wish[qp - qps];
}

const char *
qp_move_refusal(const struct qp *qp)
{
	return refusal[qp - qps];
}

bool
engine_port_follows(uint32_t port, uint32_t core)
{
	assert_true(core < cores);
	return follows;
}

struct qp *
conn_own_peer(const struct qp *qp)
{
	return peers[qp - qps];
}

const char *
conn_move(struct qp *qp, uint32_t core)
{
	struct qp *peer = conn_own_peer(qp);

	assert_int_equal(core, 1);
	qp->lane = &lane[core];
	if (peer != NULL)
		peer->lane = &lane[core];
	moved++;
	return NULL;
}

/* ---- the world ---- */

static int
begin_world(void **state)
{
	static uint64_t start =
		NS_PER_S; /* later in each test, as rebalance.c keeps the time of its last look */

	control.config = &config;
	control.now = start += 100 * NS_PER_S;
	config.placement = CONFIG_PLACEMENT_AUTO;
	TAILQ_INIT(&control.conns);
	cores = 2;
	follows = true;
	moved = 0;
	for (uint32_t i = 0; i < CONNS; i++) {
		qps[i] = (struct qp){.placed = true,
				     .lane = &lane[0],
				     .engine = (void *)(uintptr_t)(i + 1),
				     .conn = &conns[i],
				     .config.qpn = i};
		peers[i] = NULL;
		conns[i] = (struct conn){.qp = &qps[i]};
		rate[i] = 1000;
		wish[i] = 0;
		refusal[i] = NULL;
		TAILQ_INSERT_TAIL(&control.conns, &conns[i], link);
	}
	return 0;
}

/* The first core has work for 80 % of the time, the second one none, unless a connection has moved. */
static void
run_looks(void)
{
	for (uint32_t look = 0; look < LOOKS && moved == 0; look++) {
		conns_balance_poll();
		control.now += BALANCE_LOOK_NS;
		busy += HZ / 100 * 8;
		for (uint32_t i = 0; i < CONNS; i++)
			packets[i] += rate[i];
	}
}

static void
test_half_moves(void **state)
{
	run_looks();
	assert_int_equal(moved, CONNS / 2);
	assert_true(control.now >= conns_balance_deadline());
}

static void
test_turned_off(void **state)
{
	config.placement = CONFIG_PLACEMENT_FIXED;
	assert_true(conns_balance_deadline() == NEVER);
	run_looks();
	config.placement = CONFIG_PLACEMENT_AUTO;
	cores = 1;
	assert_true(conns_balance_deadline() == NEVER);
	run_looks();
	cores = 2;
	TAILQ_INIT(&control.conns);
	assert_true(conns_balance_deadline() == NEVER);
	run_looks();
	assert_int_equal(moved, 0);
}

static void
test_who_stays(void **state)
{
	wish[0] = 1;
	refusal[1] = "it is moving already";
	conns[2].qp = NULL;
	run_looks();
	assert_int_equal(moved, 1);
	assert_ptr_equal(qps[3].lane, &lane[1]);
}

static void
test_frames_do_not_follow(void **state)
{
	follows = false;
	run_looks();
	assert_int_equal(moved, 0);
}

static void
test_local_ends_move_together(void **state)
{
	follows = false; /* no port is between them */
	for (uint32_t i = 0; i < CONNS; i++)
		peers[i] = &qps[i ^ 1];
	rate[0] = rate[1] = 500;
	rate[2] = rate[3] = 1500;
	run_looks();
	/* The connection with less work moves, once. */
	assert_int_equal(moved, 1);
	assert_ptr_equal(qps[0].lane, &lane[1]);
	assert_ptr_equal(qps[1].lane, &lane[1]);
	assert_ptr_equal(qps[2].lane, &lane[0]);
}

static void
test_both_ends_must_be_free(void **state)
{
	for (uint32_t i = 0; i < CONNS; i++)
		peers[i] = &qps[i ^ 1];
	wish[1] = 1;
	refusal[2] = "it is moving already";
	run_looks();
	assert_int_equal(moved, 0);
}

/* The peer is on the other core: the port decides, as for others. */
static void
test_ends_apart(void **state)
{
	for (uint32_t i = 0; i < 2; i++) {
		peers[2 * i] = &qps[2 * i + 1];
		peers[2 * i + 1] = &qps[2 * i];
		qps[2 * i].lane = &lane[1];
	}
	follows = false;
	run_looks();
	assert_int_equal(moved, 0);
	follows = true;
	run_looks();
	assert_int_equal(moved, 1);
}

/* Frames of a connection arrive at core 1, and its queue pair is on core 0. */
static void
test_queue_pair_follows_frames(void **state)
{
	conn_follow(&conns[0], 1);
	assert_int_equal(moved, 0); /* the port leads frames to core 0 */
	follows = false;
	config.placement = CONFIG_PLACEMENT_FIXED;
	conn_follow(&conns[0], 1);
	config.placement = CONFIG_PLACEMENT_AUTO;
	wish[0] = 1;
	conn_follow(&conns[0], 1);
	wish[0] = 0;
	refusal[0] = "it is moving already";
	conn_follow(&conns[0], 1);
	refusal[0] = NULL;
	balance_moved(&conns[0].balance, control.now);
	conn_follow(&conns[0], 1);
	assert_int_equal(moved, 0);
	control.now += BALANCE_REST_NS;
	conn_follow(&conns[0], 1);
	assert_int_equal(moved, 1);
	assert_ptr_equal(qps[0].lane, &lane[1]);
	conns[1].qp = NULL;
	conn_follow(&conns[1], 1); /* the queue pair has gone since */
	assert_int_equal(moved, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_half_moves, begin_world),
		cmocka_unit_test_setup(test_turned_off, begin_world),
		cmocka_unit_test_setup(test_who_stays, begin_world),
		cmocka_unit_test_setup(test_frames_do_not_follow, begin_world),
		cmocka_unit_test_setup(test_local_ends_move_together, begin_world),
		cmocka_unit_test_setup(test_both_ends_must_be_free, begin_world),
		cmocka_unit_test_setup(test_ends_apart, begin_world),
		cmocka_unit_test_setup(test_queue_pair_follows_frames, begin_world),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
