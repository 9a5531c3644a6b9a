/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of objects: aligned, zeroed, not shared with others, and returned to the kernel. */
#include <string.h>

#include "tests/unit/unit.h"
#include "dataplane/mem/slab.h"

#define MANY 20000u

static uint8_t *object[MANY];

static size_t
size_of(uint32_t i)
{
	static const size_t sizes[] = {1, 63, 64, 65, 700, 2112};

	return sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void
make(uint32_t i)
{
	object[i] = slab_alloc(size_of(i));
	assert_non_null(object[i]);
	assert_int_equal((uintptr_t)object[i] % 64, 0);
	for (size_t k = 0; k < size_of(i); k++)
		assert_int_equal(object[i][k], 0);
	memset(object[i], (int)(i % 255) + 1, size_of(i));
}

static void
check(uint32_t i)
{
	for (size_t k = 0; k < size_of(i); k++)
		assert_int_equal(object[i][k], i % 255 + 1);
}

/* Per size one free chunk stays mapped, and chunks with an object left. */
static void
test_gives_back(void **state)
{
	size_t before = slab_mapped(), full;

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < MANY; i++)
			make(i);
		full = slab_mapped();
		for (uint32_t i = 0; i < MANY; i++) {
			check(i);
			if (i != MANY - 1)
				slab_free(object[i]);
		}
		assert_true(full == 0 || slab_mapped() < full / 5);
		check(MANY - 1);
		slab_free(object[MANY - 1]);
	}
	assert_true(slab_mapped() - before <= 6 * 256 * 1024);
}

/* Freed places are reused before more memory is mapped. */
static void
test_uses_again(void **state)
{
	size_t full;

	for (uint32_t i = 0; i < MANY; i++)
		make(i);
	full = slab_mapped();
	for (uint32_t k = 0; k < 10; k++) {
		for (uint32_t i = k; i < MANY; i += 10)
			slab_free(object[i]);
		for (uint32_t i = k; i < MANY; i += 10)
			make(i);
		assert_int_equal(slab_mapped(), full);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		check(i);
		slab_free(object[i]);
	}
}

static void
test_limits(void **state)
{
	void *largest = slab_alloc(SLAB_MAX);

	assert_non_null(largest);
	assert_null(slab_alloc(SLAB_MAX + 1));
	assert_null(slab_alloc(0));
	slab_free(NULL);
	slab_free(largest);
}

/* A process reserves what another one has in use.  Nonsense maps nothing, and no count maps all memory. */
static void
test_reserve(void **state)
{
	static const struct slab_use nonsense[] = {{0, 9}, {UINT32_MAX, 9}, {SLAB_MAX + 1, 9}, {128, 0}};
	static void *many[1000];
	struct slab_use use[8], all = {256, UINT32_MAX};
	uint32_t num, found = 0;
	size_t before, reserved;

	for (uint32_t i = 0; i < 1000; i++)
		many[i] = slab_alloc(6000);
	num = slab_uses(use, 8);
	if (num == 0) /* AddressSanitizer: malloc */
		skip();
	for (uint32_t i = 0; i < num; i++)
		if (use[i].size == 6016)
			found = use[i].count;
	assert_int_equal(found, 1000);
	assert_int_equal(slab_uses(use, 0), 0);
	for (uint32_t i = 0; i < 1000; i++)
		slab_free(many[i]);
	before = slab_mapped();
	slab_reserve(nonsense, 4);
	assert_int_equal(slab_mapped(), before);
	slab_reserve(&(struct slab_use){6000, 1000}, 1);
	reserved = slab_mapped();
	assert_true(reserved > before);
	slab_reserve(&(struct slab_use){6000, 1000}, 1);
	assert_int_equal(slab_mapped(), reserved);
	for (uint32_t i = 0; i < 1000; i++)
		many[i] = slab_alloc(6000);
	assert_int_equal(slab_mapped(), reserved);
	for (uint32_t i = 0; i < 1000; i++)
		slab_free(many[i]);
	before = slab_mapped();
	slab_reserve(&all, 1);
	assert_true(slab_mapped() - before <= SLAB_RESERVE_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gives_back),
		cmocka_unit_test(test_uses_again),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_reserve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
