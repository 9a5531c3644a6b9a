/* SPDX-License-Identifier: BSD-3-Clause */
/* The range of handles, the maps from numbers to objects, and the small lock. */
#include <pthread.h>

#include "fixture.h"

#include "dat/handle.h"
#include "dat/idmap.h"
#include "client/lock.h"

static void
any_value(void **state)
{
	int object;
	DAT_HANDLE handle = handle_new(NULL, DAT_HANDLE_TYPE_EP, &object);

	assert_non_null(handle);
	assert_ptr_equal(handle_object(handle, DAT_HANDLE_TYPE_EP), &object);
	assert_null(handle_object(handle, DAT_HANDLE_TYPE_EVD));
	assert_null(handle_object((uint8_t *)handle + 1, DAT_HANDLE_TYPE_EP));
	assert_null(handle_object((uint8_t *)handle + HANDLE_SLOT, DAT_HANDLE_TYPE_EP));
	assert_null(handle_object((uint8_t *)handle - HANDLE_SLOT, DAT_HANDLE_TYPE_EP));
	/* beyond the mapped part, within the reserved one */
	assert_null(handle_object((uint8_t *)handle + 1000 * 4096, DAT_HANDLE_TYPE_EP));
	for (size_t i = 0; i < num_not_handles; i++) {
		assert_null(handle_object(not_handles[i], DAT_HANDLE_TYPE_EP));
		assert_null(handle_live(not_handles[i]));
	}
	handle_free(handle);
	assert_null(handle_object(handle, DAT_HANDLE_TYPE_EP));
	assert_null(handle_live(handle));
	assert_ptr_equal(handle_slot(handle), handle);
}

/* A freed value does not come back soon, and values do not run out. */
static void
late_reuse(void **state)
{
	int object;
	DAT_HANDLE first = handle_new(NULL, DAT_HANDLE_TYPE_PZ, &object);
	uint32_t reused = 0;

	handle_free(first);
	for (uint32_t i = 0; i < 3 * HANDLE_REUSE_AFTER; i++) {
		DAT_HANDLE handle = handle_new(NULL, DAT_HANDLE_TYPE_PZ, &object);

		assert_non_null(handle);
		if (handle == first && reused == 0)
			reused = i;
		handle_free(handle);
	}
	assert_true(reused >= HANDLE_REUSE_AFTER - 2);
}

struct thing {
	struct idmap_node node;
	uint32_t id;
};

#define THINGS 5000u

static void
map(void **state)
{
	struct thing *things = calloc(THINGS, sizeof(*things));
	struct idmap ids = {.live = 0};

	assert_null(idmap_find(&ids, 7));
	for (uint32_t i = 0; i < THINGS; i++) {
		things[i].id = i * 2654435761u | 1; /* adversarial to the hash, too */
		if (i % 3 == 0)
			things[i].id = (i + 1) << 16;
		assert_int_equal(idmap_insert(&ids, &things[i].node, things[i].id), 0);
	}
	for (uint32_t i = 0; i < THINGS; i++)
		assert_ptr_equal(idmap_find(&ids, things[i].id), &things[i].node);
	for (uint32_t i = 0; i < THINGS; i += 2)
		idmap_remove(&ids, &things[i].node);
	for (uint32_t i = 0; i < THINGS; i++)
		assert_ptr_equal(idmap_find(&ids, things[i].id), i % 2 == 0 ? NULL : &things[i].node);
	assert_null(idmap_find(&ids, 0));
	idmap_remove(&ids, &things[0].node); /* has no effect */
	for (uint32_t i = 1; i < THINGS; i += 2)
		idmap_remove(&ids, &things[i].node);
	assert_int_equal(ids.live, 0);
	assert_int_equal(ids.used, 0);
	idmap_fini(&ids);
	free(things);
}

/* Endless inserting and removing takes no more memory. */
static void
map_churn(void **state)
{
	struct thing things[16] = {0};
	struct idmap ids = {.live = 0};
	struct idmap_table *table = NULL;

	for (uint32_t i = 0; i < 100000; i++) {
		struct thing *thing = &things[i % 16];

		idmap_remove(&ids, &thing->node);
		assert_int_equal(idmap_insert(&ids, &thing->node, i + 1), 0);
		if (i == 16)
			table = ids.table;
		if (i > 16)
			assert_ptr_equal(ids.table, table);
	}
	idmap_fini(&ids);
}

static struct lock lock;
static uint64_t counter;

static void *
count(void *arg)
{
	for (int i = 0; i < 100000; i++) {
		lock_take(&lock);
		counter++;
		lock_drop(&lock);
	}
	return NULL;
}

static void
lock_excludes(void **state)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(counter, 400000);
	assert_int_equal(lock.word, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_value), cmocka_unit_test(late_reuse),    cmocka_unit_test(map),
		cmocka_unit_test(map_churn), cmocka_unit_test(lock_excludes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
