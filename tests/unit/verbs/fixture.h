/* SPDX-License-Identifier: BSD-3-Clause */
/* A device of the mock data plane, with one of each object. */
#ifndef TESTS_UNIT_VERBS_FIXTURE_H
#define TESTS_UNIT_VERBS_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
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
int good_attr(enum ibv_qp_state state, struct ibv_qp_attr *attr);
enum ibv_qp_state state_of(struct ibv_qp *qp);
/* Takes the queue pair through all states up to `state`. */
void bring(struct fixture *f, enum ibv_qp_state state);
/* Stores a completion of a receive in recv_cq. */
void receive(struct fixture *f, uint64_t cookie, uint8_t flags);

#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
#define assert_errno(call, expected)               \
	do {                                       \
		errno = 0;                         \
		assert_null(call);                 \
		assert_int_equal(errno, expected); \
	} while (0)

#endif
