/* SPDX-License-Identifier: BSD-3-Clause */
/* Renewable regions: operations of a core and of the control thread, in turn and concurrently. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "dataplane/mem/mem.h"

#define PZ 7u
#define VA 0x7f0000001000ull

static struct mem_table *table;
static const char me, other;

static int
setup(void **state)
{
	table = mem_table_new(16);
	return table == NULL;
}

static int
teardown(void **state)
{
	mem_table_free(table);
	return 0;
}

static void
publish(struct mem_renewable *r)
{
	memset(r, 0, sizeof(*r));
	r->region = (struct mem_region){.key = mem_key_new(table),
					.pz = PZ,
					.access = ONE_ACCESS_ALL,
					.va = VA,
					.length = 100,
					.renewable = r};
	r->none = (struct mem_region){.pz = UINT32_MAX, .renewable = r};
	r->holder = &me;
	mem_publish(table, &r->region);
}

static struct mem_region *
check(uint32_t key)
{
	return mem_check(table, key, PZ, 1, ONE_ACCESS_REMOTE_WRITE, VA, 100);
}

static void
test_in_turn(void **state)
{
	struct mem_renewable r, second;
	uint32_t key, next;

	publish(&r);
	publish(&second);
	key = r.region.key;
	next = key ^ 0x12000034;
	assert_ptr_equal(check(key), &r.region);
	/* Refused: a valid key, another holder, another key. */
	assert_false(mem_renew(table, &me, key, next));
	assert_false(mem_revoke(table, &other, key));
	assert_false(mem_revoke(table, &me, key ^ 1));
	assert_false(mem_revoke(table, &me, key ^ 0x100));
	assert_ptr_equal(check(key), &r.region);
	assert_true(mem_revoke(table, &me, key));
	assert_null(check(key));
	assert_null(mem_lookup(table, key));
	assert_null(check(0));
	assert_false(mem_revoke(table, &me, key));
	assert_false(mem_revoke(table, &me, 0));
	/* The slot is still in use. */
	assert_non_null(atomic_load(&table->slot[mem_key_slot(table, key)]));
	assert_false(mem_renew(table, &other, key, next));
	assert_false(mem_renew(table, &me, next, next));
	assert_false(mem_renew(table, &me, key, key ^ 0x100));
	assert_false(mem_renew(table, &me, key, second.region.key));
	assert_false(mem_renew(table, &me, key, 0));
	assert_true(mem_renew(table, &me, key, next));
	assert_null(check(key));
	assert_ptr_equal(check(next), &r.region);
	assert_ptr_equal(check(second.region.key), &second.region);
	/* A region removed by the control thread cannot be renewed. */
	assert_true(mem_revoke(table, &me, next));
	mem_remove(table, next);
	assert_false(mem_renew(table, &me, next, key));
	mem_remove(table, second.region.key);
	assert_false(mem_revoke(table, &me, second.region.key));
}

static void
test_settled(void **state)
{
	struct mem_renewable r;
	struct mem_region copy;
	uint32_t key;

	publish(&r);
	key = r.region.key;
	assert_true(mem_settle(table, &r, &copy));
	assert_ptr_equal(check(key), &copy);
	assert_null(copy.renewable);
	assert_false(mem_revoke(table, &me, key));
	assert_false(mem_renew(table, &me, key, key ^ 1));
	assert_ptr_equal(check(key), &copy);
	mem_remove(table, key);

	publish(&r);
	key = r.region.key;
	assert_true(mem_revoke(table, &me, key));
	assert_false(mem_settle(table, &r, &copy));
	assert_false(mem_renew(table, &me, key, key ^ 1));
	assert_null(check(key));
	mem_remove(table, key);
}

/* Neither an ordinary region nor a window is renewable. */
static void
test_of_others(void **state)
{
	struct mem_region plain = {.key = mem_key_new(table), .pz = PZ, .access = ONE_ACCESS_ALL};

	mem_publish(table, &plain);
	assert_false(mem_revoke(table, &me, plain.key));
	assert_false(mem_revoke(table, NULL, plain.key));
	assert_false(mem_renew(table, NULL, plain.key, plain.key ^ 1));
	plain.window = true;
	assert_true(mem_invalidate(table, plain.key, PZ, 1));
	assert_false(mem_renew(table, NULL, plain.key, plain.key ^ 1));
	assert_false(mem_renew(table, NULL, 0, 1));
}

#define ROUNDS 3000u
#define TIMES 8u /* renewals of a key per round */

static struct {
	struct mem_renewable r;
	_Atomic uint32_t round; /* the round that may begin; `ended`: the round that the core has ended */
	_Atomic uint32_t ended;
	uint32_t key; /* the core's last key */
	bool valid;
} race;

static void *
core(void *arg)
{
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		while (atomic_load_explicit(&race.round, memory_order_acquire) != round)
			sched_yield();
		for (uint32_t i = 0; i < TIMES; i++) {
			uint32_t next = race.key ^ (1u + i);

			if (race.valid && mem_revoke(table, &me, race.key))
				race.valid = false;
			if (!race.valid && mem_renew(table, &me, race.key, next)) {
				race.key = next;
				race.valid = true;
			}
		}
		atomic_store_explicit(&race.ended, round, memory_order_release);
	}
	return NULL;
}

/* A region is settled while its core revokes and renews it: either the core's last key stays valid for good,
 * or none is. */
static void
test_at_once(void **state)
{
	uint32_t settled = 0, gone = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, core, NULL), 0);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		struct mem_region copy;
		bool ok;

		publish(&race.r);
		race.key = race.r.region.key;
		race.valid = true;
		atomic_store_explicit(&race.round, round, memory_order_release);
		for (volatile uint32_t i = 0; i < round % 64; i++)
			;
		ok = mem_settle(table, &race.r, &copy);
		while (atomic_load_explicit(&race.ended, memory_order_acquire) != round)
			sched_yield();
		assert_int_equal(race.valid, ok);
		assert_ptr_equal(check(race.key), ok ? &copy : NULL);
		settled += ok;
		gone += !ok;
		mem_remove(table, race.key);
	}
	pthread_join(thread, NULL);
	assert_int_equal(settled + gone, ROUNDS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_in_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(test_settled, setup, teardown),
		cmocka_unit_test_setup_teardown(test_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_at_once, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
