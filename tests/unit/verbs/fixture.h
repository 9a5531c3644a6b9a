/* SPDX-License-Identifier: BSD-3-Clause */
/* A device of the mock data plane, with one of each object. */
#ifndef TESTS_UNIT_VERBS_FIXTURE_H
#define TESTS_UNIT_VERBS_FIXTURE_H

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"
#include <infiniband/verbs.h>

#include "../mock/mock.h"

struct fixture {
	struct mock *mock;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq; /* on the channel */
	struct ibv_qp *qp;
	uint32_t send_id, recv_id, qp_id; /* object ids in the mock */
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
struct ibv_qp_init_attr default_init(struct fixture *f);
/* Fills in all attributes that a transition to `state` requires, with valid values; returns their mask. */
typedef int good_fn(enum ibv_qp_state state, struct ibv_qp_attr *attr);
good_fn good_attr; /* of an RC queue pair */
enum ibv_qp_state state_of(struct ibv_qp *qp);
/* Takes the queue pair through all states up to `state`; also to RESET. */
void bring_qp(struct ibv_qp *qp, good_fn *good, enum ibv_qp_state state);
void bring(struct fixture *f, enum ibv_qp_state state);
/* Tries each pair of states. Each transition has the attributes needed on the way from RESET, which are
 * superfluous from SQD back to RTS. */
void check_pairs(struct ibv_qp *qp, good_fn *good);
/* Leaves each required attribute out, and adds each other one but `skip`: only those in `optional`, by state,
 * are allowed. */
void check_masks(struct ibv_qp *qp, good_fn *good, const int optional[IBV_QPS_RTS + 1], int skip);
/* Stores a completion of a receive in recv_cq. */
void receive(struct fixture *f, uint64_t cookie, uint8_t flags);

#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
#define assert_fails(call, expected)               \
	do {                                       \
		assert_int_equal(call, -1);        \
		assert_int_equal(errno, expected); \
	} while (0)
#define assert_errno(call, expected)               \
	do {                                       \
		errno = 0;                         \
		assert_null(call);                 \
		assert_int_equal(errno, expected); \
	} while (0)

#endif
