/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys that an application revokes and renews through its core, also during transfers; and a hostile
 * application.
 */
#include "keys.h"
#include "local.h"

static struct mem_renewable *renewable[2];

/* The memory of both applications is renewable. */
static int
setup_keys(void **state)
{
	setup(state);
	for (int i = 0; i < 2; i++) {
		struct mem_renewable *r = calloc(1, sizeof(*r));

		assert_non_null(r);
		r->region = w.memory[i].region;
		r->region.renewable = r;
		r->none = (struct mem_region){.pz = UINT32_MAX, .renewable = r};
		r->holder = w.app[i].client;
		mem_publish(engine.mem, &r->region);
		renewable[i] = r;
	}
	return 0;
}

static int
teardown_keys(void **state)
{
	teardown(state);
	free(renewable[0]);
	free(renewable[1]);
	return 0;
}

static uint32_t
key_of(int i)
{
	return renewable[i]->region.key;
}

static void
test_renewed(void **state)
{
	uint32_t old = key_of(1), next = old ^ 0x5a000011;

	fill(&w.memory[0], 64, 1);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_true(done(&w.app[1], ONE_KEY_REVOKE, old, 0));
	assert_false(done(&w.app[1], ONE_KEY_REVOKE, old, 0));
	assert_true(done(&w.app[1], ONE_KEY_RENEW, old, next));
	w.memory[1].region.key = next;
	fill(&w.memory[0], 64, 2);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 2);
	assert_memory_equal(w.memory[1].bytes, w.memory[0].bytes, 64);
	/* The former key stays invalid. */
	w.memory[1].region.key = old;
	fill(&w.memory[0], 64, 3);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 3);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 3);
	assert_both_broken();
	assert_memory_not_equal(w.memory[1].bytes, w.memory[0].bytes, 64);
}

static void
test_remote_key(void **state)
{
	assert_true(done(&w.app[1], ONE_KEY_REVOKE, key_of(1), 0));
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
	assert_both_broken();
}

static void
test_local_key(void **state)
{
	assert_true(done(&w.app[0], ONE_KEY_REVOKE, key_of(0), 0));
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 1);
	TURN_UNTIL(w.pair[0].failed == 1);
}

/* A message is being copied when its remote key is revoked: after the answer nothing more is stored. */
static void
test_work_in_progress(void **state)
{
	uint8_t *seen = malloc(LONG);
	size_t moved = 0;

	assert_non_null(seen);
	memset(w.memory[0].bytes, 0xa5, LONG);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	TURN_UNTIL(w.memory[1].bytes[0] == 0xa5);
	assert_true(done(&w.app[1], ONE_KEY_REVOKE, key_of(1), 0));
	memset(w.memory[0].bytes, 0x5a, LONG);
	memcpy(seen, w.memory[1].bytes, LONG);
	while (moved < LONG && seen[moved] == 0xa5)
		moved++;
	assert_true(moved < LONG); /* else the copy ended too early to test this */
	turn(50);
	assert_memory_equal(seen, w.memory[1].bytes, LONG);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
	free(seen);
	assert_both_broken();
}

/* An application's own message completes before its local key is revoked. */
static void
test_own_work_in_progress(void **state)
{
	memset(w.memory[0].bytes, 0xa5, LONG);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	TURN_UNTIL(w.memory[1].bytes[0] == 0xa5);
	assert_int_not_equal(w.memory[1].bytes[LONG - 1], 0xa5);
	assert_true(done(&w.app[0], ONE_KEY_REVOKE, key_of(0), 0));
	assert_int_equal(w.memory[1].bytes[LONG - 1], 0xa5);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
}

/* ---- requests posted before the revocation ---- */

/* Create one pair per application, connected by frames. */
static void
connect_by_frames(struct pair pair[2])
{
	for (int i = 0; i < 2; i++)
		pair_new(&w.app[i], &w.send[i], &w.recv[i], &w.conn[i], &w.async[i], &pair[i]);
	for (int i = 0; i < 2; i++)
		pair_connect(&pair[i], &pair[!i], RC_RTS, false);
}

static void
end_frames(struct pair pair[2])
{
	for (int i = 0; i < 2; i++)
		pair_end(&pair[i]);
}

/* Post `count` writes before the core polls: none may fail for lack of its key. */
static void
post_and_revoke(struct pair *pair, uint32_t count, uint32_t len)
{
	turn(2 * CORE_EMPTY_LOOKS);
	for (uint32_t i = 0; i < count; i++)
		post_write(pair, &w.memory[0], &w.memory[1], len, i);
	assert_true(done(&w.app[0], ONE_KEY_REVOKE, key_of(0), 0));
	for (uint32_t i = 0; i < count; i++)
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, i);
	/* A request posted after the revocation fails. */
	post_write(pair, &w.memory[0], &w.memory[1], 8, 99);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 99);
}

static void
test_posted_before(void **state)
{
	post_and_revoke(&w.pair[0], MAX_WR, 20000);
	TURN_UNTIL(w.pair[0].failed == 1);
}

static void
test_posted_before_by_frames(void **state)
{
	struct pair pair[2];

	connect_by_frames(pair);
	post_and_revoke(&pair[0], MAX_WR, 20000);
	TURN_UNTIL(pair[0].failed == 1);
	end_frames(pair);
}

/* The message exceeds a congestion window: the core answers after its last packet has been sent. */
static void
test_long_message_by_frames(void **state)
{
	struct pair pair[2];

	connect_by_frames(pair);
	memset(w.memory[0].bytes, 0xa5, LONG);
	post_write(&pair[0], &w.memory[0], &w.memory[1], LONG / 4, 1);
	turn(1);
	assert_true(done(&w.app[0], ONE_KEY_REVOKE, key_of(0), 0));
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_int_equal(w.memory[1].bytes[LONG / 4 - 1], 0xa5);
	end_frames(pair);
}

/* A revocation does not wait for a request that waits for a receive of its peer, by either transport. */
static void
test_waits_for_no_receive(void **state)
{
	struct pair pair[2];

	connect_by_frames(pair);
	post_send(&w.pair[0], &w.memory[0], 8, 1);
	post_send(&pair[0], &w.memory[0], 8, 2);
	turn(100);
	ask(&w.app[0], ONE_KEY_REVOKE, key_of(0), 0);
	turn(100);
	assert_true(is_answered(&w.app[0]));
	end_frames(pair);
}

/* A revocation waits at most 10 ms for a request that gets no acknowledgement. */
static void
test_waits_for_a_while(void **state)
{
	struct pair pair[2];

	for (int i = 0; i < 2; i++)
		pair_new(&w.app[i], &w.send[i], &w.recv[i], &w.conn[i], &w.async[i], &pair[i]);
	pair_connect(&pair[0], &pair[1], RC_RTS, false);
	post_write(&pair[0], &w.memory[0], &w.memory[1], LONG / 4, 1);
	ask(&w.app[0], ONE_KEY_REVOKE, key_of(0), 0);
	turn(5000);
	assert_false(is_answered(&w.app[0]));
	turn(6000);
	assert_true(is_answered(&w.app[0]));
	end_frames(pair);
}

/* Refused: the key of another application, a key of another kind, a malformed request. */
static void
test_refused(void **state)
{
	uint32_t key = key_of(1), seed = 1;
	struct memory plain;

	memory_new(&w.app[0], ONE_ACCESS_ALL, 64, &plain);
	assert_false(done(&w.app[0], ONE_KEY_REVOKE, key, 0));
	assert_false(done(&w.app[0], ONE_KEY_REVOKE, plain.region.key, 0));
	assert_false(done(&w.app[0], ONE_KEY_RENEW, plain.region.key, plain.region.key ^ 1));
	assert_false(done(&w.app[1], ONE_KEY_RENEW, key, key ^ 1));
	assert_true(done(&w.app[1], ONE_KEY_REVOKE, key, 0));
	assert_false(done(&w.app[0], ONE_KEY_RENEW, key, key ^ 1));
	assert_false(done(&w.app[1], ONE_KEY_RENEW, key, plain.region.key));
	assert_false(done(&w.app[1], ONE_KEY_RENEW, key, 0));
	for (uint32_t i = 0; i < 2000; i++) {
		seed = seed * 1103515245 + 12345;
		assert_false(done(&w.app[0], (seed >> 16) % 3, i % 2 != 0 ? key ^ seed >> 24 : seed, seed));
	}
	/* A second doorbell for one request has no effect. Sequence numbers may have any value. */
	atomic_store(&w.app[1].doorbells->keys, 1);
	turn(3);
	assert_null(mem_lookup(engine.mem, key));
	atomic_store(&keys_of(&w.app[1])->asked, 0x80000000);
	assert_true(done(&w.app[1], ONE_KEY_RENEW, key, key ^ 1));
	assert_ptr_equal(mem_lookup(engine.mem, key ^ 1), &renewable[1]->region);
	assert_ptr_equal(mem_lookup(engine.mem, plain.region.key), &plain.region);
	assert_int_equal(w.app[0].faults + w.app[1].faults, 0);
	memory_end(&plain);
}

/* Requests of a faulty attachment are not served. */
static void
test_faulty(void **state)
{
	client_fault(w.app[1].client, ONE_FAULT_RING);
	ask(&w.app[1], ONE_KEY_REVOKE, key_of(1), 0);
	turn(50);
	assert_false(is_answered(&w.app[1]));
	assert_ptr_equal(mem_lookup(engine.mem, key_of(1)), &renewable[1]->region);
}

#define K(f) cmocka_unit_test_setup_teardown(f, setup_keys, teardown_keys)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		K(test_renewed),
		K(test_remote_key),
		K(test_local_key),
		K(test_work_in_progress),
		K(test_own_work_in_progress),
		K(test_refused),
		K(test_faulty),
		K(test_posted_before),
		K(test_posted_before_by_frames),
		K(test_long_message_by_frames),
		K(test_waits_for_no_receive),
		K(test_waits_for_a_while),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
