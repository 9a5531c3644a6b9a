/* SPDX-License-Identifier: BSD-3-Clause */
/* A struct rc_env for tests of the transport: buffers and packets, each in a block of its own size for the
 * address sanitizer; pools; payload that moves later, as on a polling core. */
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
	bool again;     /* the packet parsed last may belong to a run */
	uint32_t alike; /* packets input as part of a run */
};

/* Sets all but tx_end, take_recv, complete, failed, bind and invalidate. */
void test_env_init(struct test_env *env, struct mem_table *mem, uint32_t nodes, uint32_t scoreboards);
void test_env_fini(struct test_env *env);

/* Callbacks that test_env_init() sets, for tests that wrap them. */
uint8_t *test_env_begin(struct rc_env *env, struct rc_qp *qp, uint32_t len);
const struct wire_packet *test_env_hold(struct rc_env *env, const struct wire_packet *packet);

/* A burst: frames are parsed and input one by one. Parsing a frame ends the use of the frame before;
 * test_env_quiesce(), which must follow the last, ends the use of the last. A frame may be freed then. */
enum wire_drop test_env_parse(struct test_env *env, uint8_t *frame, uint32_t len, struct wire_packet *packet);
void test_env_input(struct test_env *env, struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
void test_env_quiesce(struct test_env *env);

#endif
