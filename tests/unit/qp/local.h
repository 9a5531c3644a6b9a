/* SPDX-License-Identifier: BSD-3-Clause */
/* Two applications on one core, connected by the local transport. */
#ifndef TESTS_UNIT_ENGINE_LOCAL_H
#define TESTS_UNIT_ENGINE_LOCAL_H

#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "tests/copying.h"

#define REMOTE (ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)
#define LONG (5 * LOCAL_CHUNK_ALONE + 777)

struct world {
	struct app app[2];
	struct ring send[2], recv[2], conn[2], async[2];
	struct pair pair[2];
	struct memory memory[2];  /* all rights */
	struct bounce *bounce[2]; /* NULL: all memory of this application is mapped */
	struct copier *copier[2];
	struct copied all[2];
	uint64_t offset; /* of the struct one_copies created last, in its arena */
};
static struct world w;

static inline int
setup(void **state)
{
	for (int i = 0; i < 2; i++) {
		app_start(&w.app[i]);
		ring_new(&w.app[i], CQ_LOG2, &w.async[i], NULL);
		ring_new(&w.app[i], CQ_LOG2, &w.send[i], w.async[i].cq);
		ring_new(&w.app[i], CQ_LOG2, &w.recv[i], w.async[i].cq);
		ring_new(&w.app[i], CQ_LOG2, &w.conn[i], w.async[i].cq);
		pair_new(&w.app[i], &w.send[i], &w.recv[i], &w.conn[i], &w.async[i], &w.pair[i]);
		memory_new(&w.app[i], ONE_ACCESS_ALL, LONG, &w.memory[i]);
	}
	for (int i = 0; i < 2; i++)
		pair_connect(&w.pair[i], &w.pair[!i], RC_RTS, true);
	return 0;
}

static inline int
teardown(void **state)
{
	for (int i = 0; i < 2; i++) {
		pair_end(&w.pair[i]);
		ring_end(&w.send[i]);
		ring_end(&w.recv[i]);
		ring_end(&w.conn[i]);
		ring_end(&w.async[i]);
		memory_end(&w.memory[i]);
		app_end(&w.app[i]);
	}
	turn(2);
	assert_null(engine.reap);
	return 0;
}

static inline void
fill(struct memory *memory, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		memory->bytes[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
}

static inline void
assert_state(int side, enum one_qp_state expected)
{
	assert_int_equal(atomic_load(&w.pair[side].shm->state), expected);
}

/* Both queue pairs are in error, and each side was notified exactly once. */
static inline void
assert_both_broken(void)
{
	TURN_UNTIL(w.pair[0].failed == 1 && w.pair[1].failed == 1);
	assert_int_equal(w.pair[0].error, RC_ERROR_REQUESTER);
	assert_int_equal(w.pair[1].error, RC_ERROR_RESPONDER);
	assert_state(0, ONE_QP_ERROR);
	assert_state(1, ONE_QP_ERROR);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
