/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests of the transport share of a struct rc_env: buffers and packets, each in a block of its own size
 * for the address sanitizer, pools, and payload that is moved later, as on a polling core.
 */
#ifndef TESTS_RC_ENV_H
#define TESTS_RC_ENV_H

#include "dataplane/rc/rc.h"

struct test_env {
	struct rc_env rc; /* first: callbacks get the rest from it */
	void *pool_memory, *scoreboards_memory;
	uint32_t nodes;
	uint32_t holds; /* packets held for the transport */
	uint8_t *begun;
	uint32_t begun_len;
	struct wire_seen seen;
	struct wire_move move;
	bool again;     /* the packet parsed last may be one of a run, */
	uint32_t alike; /* and so many were taken as such */
};

/* Sets all but tx_end, take_recv, complete, failed, bind and invalidate. */
void test_env_init(struct test_env *env, struct mem_table *mem, uint32_t nodes, uint32_t scoreboards);
void test_env_fini(struct test_env *env);

/* The callbacks that it sets, for those that the test puts in front of them. */
uint8_t *test_env_begin(struct rc_env *env, struct rc_qp *qp, uint32_t len);
const struct wire_packet *test_env_hold(struct rc_env *env, const struct wire_packet *packet);

/*
 * A burst: frames are parsed and then input, one after the other.  The frame before the one that is parsed
 * may be freed then, the last after test_env_settle(), which comes before anything else is done.
 */
enum wire_drop test_env_parse(struct test_env *env, uint8_t *frame, uint32_t len, struct wire_packet *packet);
void test_env_input(struct test_env *env, struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
void test_env_settle(struct test_env *env);

#endif
