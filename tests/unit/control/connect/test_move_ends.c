/* SPDX-License-Identifier: BSD-3-Clause */
/* Which queue pairs move together (control/connect/move_ends.c). */
#include "tests/unit/unit.h"
#include "control/connect/connect.h"
#include "control/objects/qp_move.h"

#define QPS 3u

struct control control;

static struct conn conns[QPS];
static struct qp qps[QPS]; /* their numbers are 1, 2, ... */
static uint32_t core[QPS];
static struct qp *moved_with;

/* ---- functions of other rooms ---- */

/* Addresses that begin with 0 are of this data plane. */
struct path_port *
path_own(const struct wire_addr *addr)
{
	static struct path_port port;

	return addr->gid[0] == 0 ? &port : NULL;
}

void *
engine_qp_owner(uint32_t qpn)
{
	return qpn >= 1 && qpn <= QPS ? &qps[qpn - 1] : NULL;
}

uint32_t
engine_qp_core(const struct engine_qp *qp)
{
	return core[(uintptr_t)qp - 1];
}

const char *
qp_move_begin(struct qp *qp, struct qp *peer, uint32_t to)
{
	moved_with = peer;
	return NULL;
}

/* ---- tests ---- */

/* Queue pair 1 is connected to 2, and 2 to 1; 3 is by itself. */
static int
begin(void **state)
{
	for (uint32_t i = 0; i < QPS; i++) {
		qps[i] = (struct qp){.config.qpn = i + 1,
				     .engine = (void *)(uintptr_t)(i + 1),
				     .state = ONE_QP_CONNECTED,
				     .conn = &conns[i]};
		conns[i] = (struct conn){.qp = &qps[i], .peer_qpn = i == 0 ? 2 : 1};
		core[i] = 0;
	}
	conns[2].path.dst.gid[0] = 1;
	moved_with = &qps[2];
	return 0;
}

static void
test_ends_of_one_core(void **state)
{
	assert_null(conn_move(&qps[0], 1));
	assert_ptr_equal(moved_with, &qps[1]);
	assert_true(balance_rests(&conns[0].balance, BALANCE_REST_NS - 1));
	assert_true(balance_rests(&conns[1].balance, BALANCE_REST_NS - 1));
	assert_false(balance_rests(&conns[0].balance, BALANCE_REST_NS));
	assert_null(conn_move(&qps[1], 1));
	assert_ptr_equal(moved_with, &qps[0]);
}

static void
test_peer_elsewhere(void **state)
{
	core[1] = 1;
	assert_null(conn_move(&qps[0], 1));
	assert_null(moved_with);
	moved_with = &qps[0];
	assert_null(conn_move(&qps[2], 1)); /* by a port */
	assert_null(moved_with);
	qps[1].state = ONE_QP_CONNECTING;
	assert_non_null(conn_move(&qps[0], 1));
}

/* A program names a queue pair that is connected to another one, which stays where it is. */
static void
test_named_by_a_stranger(void **state)
{
	conns[2].path.dst.gid[0] = 0;
	assert_null(conn_move(&qps[2], 1));
	assert_null(moved_with);
	moved_with = &qps[2];
	conns[0].peer_qpn = 3; /* the same number, at another address */
	conns[0].path.dst.gid[0] = 1;
	assert_null(conn_move(&qps[2], 1));
	assert_null(moved_with);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_ends_of_one_core, begin),
		cmocka_unit_test_setup(test_peer_elsewhere, begin),
		cmocka_unit_test_setup(test_named_by_a_stranger, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
