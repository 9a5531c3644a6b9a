/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys that an application revokes and renews through its core, in the middle of work too; and one that lies.
 */
#include "local.h"

static struct mem_renewable *renewable[2];

static struct one_keys *
keys_of(struct app *app)
{
	return (struct one_keys *)(app->arena + app->header->keys);
}

static void
ask(struct app *app, uint32_t op, uint32_t key, uint32_t next)
{
	struct one_keys *keys = keys_of(app);

	atomic_store(&keys->op, op);
	atomic_store(&keys->key, key);
	atomic_store(&keys->next, next);
	atomic_store(&keys->asked, atomic_load(&keys->asked) + 1);
	atomic_store(&app->doorbells->keys, 1);
}

static bool
is_answered(struct app *app)
{
	return atomic_load(&keys_of(app)->answered) == atomic_load(&keys_of(app)->asked);
}

/* Whether the core does it. */
static bool
done(struct app *app, uint32_t op, uint32_t key, uint32_t next)
{
	ask(app, op, key, next);
	TURN_UNTIL(is_answered(app));
	return atomic_load(&keys_of(app)->refused) == 0;
}

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
	/* The key of before stays useless. */
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

/* A message that is being copied: after the answer nothing more is stored, or loaded. */
static void
revoke_meanwhile(int whose, enum one_status status)
{
	uint8_t *seen = malloc(LONG);
	size_t moved = 0;

	assert_non_null(seen);
	memset(w.memory[0].bytes, 0xa5, LONG);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	TURN_UNTIL(w.memory[1].bytes[0] == 0xa5);
	ask(&w.app[whose], ONE_KEY_REVOKE, key_of(whose), 0);
	TURN_UNTIL(is_answered(&w.app[whose]));
	assert_int_equal(atomic_load(&keys_of(&w.app[whose])->refused), 0);
	memset(w.memory[0].bytes, 0x5a, LONG);
	memcpy(seen, w.memory[1].bytes, LONG);
	while (moved < LONG && seen[moved] == 0xa5)
		moved++;
	assert_true(moved < LONG); /* else there is nothing to see */
	turn(50);
	assert_memory_equal(seen, w.memory[1].bytes, LONG);
	expect(&w.send[0], ONE_CQE_SEND, status, 1);
	free(seen);
}

static void
test_work_in_progress(void **state)
{
	revoke_meanwhile(1, ONE_STATUS_REMOTE_ACCESS);
	assert_both_broken();
}

static void
test_own_work_in_progress(void **state)
{
	revoke_meanwhile(0, ONE_STATUS_LOCAL_PROTECTION);
}

/* What another one's key is, one cannot do, nor with keys of other kinds, nor with requests that are none. */
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
		assert_false(done(&w.app[0], seed >> 16 & 3, i % 2 != 0 ? key ^ seed >> 24 : seed, seed));
	}
	/* The same request rung for twice is one; numbers may be any. */
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

/* A faulty attachment is served no more. */
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
		K(test_renewed),          K(test_remote_key),           K(test_local_key),
		K(test_work_in_progress), K(test_own_work_in_progress), K(test_refused),
		K(test_faulty),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
