/* SPDX-License-Identifier: BSD-3-Clause */
#include "rc_env.h"

#include <stdlib.h>
#include <string.h>

static struct test_env *
env_of(struct rc_env *env)
{
	return (struct test_env *)env;
}

uint8_t *
test_env_begin(struct rc_env *rc, struct rc_qp *qp, uint32_t len)
{
	struct test_env *env = env_of(rc);

	env->begun = malloc(len);
	env->begun_len = len;
	memset(env->begun, 0xee, len);
	return env->begun;
}

const struct wire_packet *
test_env_hold(struct rc_env *rc, const struct wire_packet *packet)
{
	struct wire_packet *copy = malloc(sizeof(*copy));
	uint8_t *payload = malloc(packet->payload_len + 1);

	*copy = *packet;
	memcpy(payload, packet->payload, packet->payload_len);
	copy->payload = payload;
	env_of(rc)->holds++;
	return copy;
}

static void
release(struct rc_env *rc, const struct wire_packet *packet)
{
	env_of(rc)->holds--;
	free((void *)(uintptr_t)packet->payload);
	free((void *)(uintptr_t)packet);
}

static void
established(struct rc_env *rc, struct rc_qp *qp)
{
	rc_set_rts(qp);
}

void
test_env_init(struct test_env *env, struct mem_table *mem, uint32_t nodes, uint32_t scoreboards)
{
	env->rc.mem = mem;
	env->rc.tx_begin = test_env_begin;
	env->rc.hold = test_env_hold;
	env->rc.release = release;
	env->rc.established = established;
	env->nodes = nodes;
	env->pool_memory = malloc(rc_pool_size(nodes));
	env->rc.pool = rc_pool_init(env->pool_memory, nodes);
	env->scoreboards_memory = calloc(1, rc_scoreboards_size(scoreboards));
	env->rc.scoreboards = rc_scoreboards_init(env->scoreboards_memory, scoreboards);
}

void
test_env_fini(struct test_env *env)
{
	free(env->pool_memory);
	free(env->scoreboards_memory);
}

enum wire_drop
test_env_parse(struct test_env *env, uint8_t *frame, uint32_t len, struct wire_packet *packet)
{
	const size_t extensions = offsetof(struct wire_packet, remote_addr),
		     end = offsetof(struct wire_packet, payload);
	enum wire_drop drop;

	/* Clear the extension headers that this frame lacks: they must not be those of a previous frame. */
	memset((uint8_t *)&env->seen.packet + extensions, 0, end - extensions);
	drop = wire_parse_received(frame, len, false, &env->seen, &env->move);
	*packet = env->seen.packet;
	env->again = env->seen.again && drop == WIRE_OK;
	if (!env->seen.again)
		rc_run_end(&env->rc);
	return drop;
}

void
test_env_input(struct test_env *env, struct rc_qp *qp, const struct wire_packet *packet, uint64_t now)
{
	env->rc.move = &env->move;
	if (env->again && rc_input_again(&env->rc, packet, now))
		env->alike++;
	else
		rc_input(qp, packet, now);
	env->again = false;
	env->rc.move = NULL;
}

void
test_env_quiesce(struct test_env *env)
{
	wire_move(&env->move);
	rc_run_end(&env->rc);
}
