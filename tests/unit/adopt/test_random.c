/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations and other operations on memory in random order: at any time each page holds what was stored
 * last, and the data plane accesses the program's memory.
 *
 *   test_random --kept [SEED [STEPS]]     one run of STEPS steps
 */
#include <string.h>

#include "common.h"

#define PAGES 400u
#define LIVE 24u
#define LONGEST 6u
#define STEPS 4000u
#define CACHE "1M" /* less than all pages, and with more small ranges than may have files of their own */

struct live {
	struct one_mr mr;
	size_t first, count; /* 0: none */
};

struct model {
	uint64_t x;
	uint8_t *page;
	uint8_t value[PAGES]; /* the value of all bytes of the page */
	uint32_t users[PAGES];
	struct live live[LIVE];
};

static uint32_t
pick(struct model *m, uint32_t below)
{
	m->x = m->x * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(m->x >> 33) % below;
}

static uint8_t *
at(const struct model *m, size_t page)
{
	return m->page + page * PAGE;
}

static bool
holds(const uint8_t *p, uint8_t value)
{
	return p[0] == value && memcmp(p, p + 1, PAGE - 1) == 0;
}

static void
check(const struct model *m, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		assert_true(holds(at(m, i), m->value[i]));
}

static void
check_all(const struct model *m)
{
	check(m, 0, PAGES);
	for (size_t i = 0; i < LIVE; i++) {
		const struct live *live = &m->live[i];

		for (size_t k = 0; k < live->count; k++)
			assert_true(holds(peer(&live->mr) + k * PAGE, m->value[live->first + k]));
	}
}

static void
set(struct model *m, size_t page, uint8_t *there)
{
	m->value[page] = (uint8_t)pick(m, 256);
	memset(there, m->value[page], PAGE);
}

/* Register or deregister some pages. The data plane finds their contents, and stores to them. */
static void
registration(struct model *m)
{
	struct live *live = &m->live[pick(m, LIVE)];
	size_t k;

	if (live->count == 0) {
		live->count = 1 + pick(m, LONGEST);
		live->first = pick(m, PAGES - (uint32_t)live->count + 1);
		live->mr = reg(at(m, live->first), live->count * PAGE);
		for (size_t i = 0; i < live->count; i++)
			m->users[live->first + i]++;
	}
	k = pick(m, (uint32_t)live->count);
	for (size_t i = 0; i < live->count; i++)
		assert_true(holds(peer(&live->mr) + i * PAGE, m->value[live->first + i]));
	set(m, live->first + k, peer(&live->mr) + k * PAGE);
	check(m, live->first, live->count);
	if (pick(m, 2) == 0)
		return;
	dereg(&live->mr);
	for (size_t i = 0; i < live->count; i++)
		m->users[live->first + i]--;
	check(m, live->first, live->count);
	live->count = 0;
}

static void
vanish(struct model *m, size_t page, bool unmap)
{
	if (unmap) {
		munmap(at(m, page), PAGE);
		assert_ptr_equal(mmap(at(m, page), PAGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
				 at(m, page));
	} else {
		assert_int_equal(madvise(at(m, page), PAGE, MADV_DONTNEED), 0);
		/* A page adopted together with a registered page keeps its contents. */
		if (at(m, page)[0] != 0)
			return;
	}
	m->value[page] = 0;
}

static void
swap(struct model *m, size_t a, size_t b)
{
	uint8_t *aside = pages(1), value = m->value[a];

	mremap(at(m, a), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, aside);
	mremap(at(m, b), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(m, a));
	mremap(aside, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(m, b));
	m->value[a] = m->value[b];
	m->value[b] = value;
}

static void
in_child(const struct model *m)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		for (size_t i = 0; i < PAGES; i++) {
			if (!holds(at(m, i), m->value[i]))
				_exit(1);
			memset(at(m, i), 0xee, PAGE);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
step(struct model *m)
{
	size_t a = pick(m, PAGES), b = pick(m, PAGES);
	uint32_t what = pick(m, 100);

	if (what < 60) {
		registration(m);
	} else if (what < 80) {
		set(m, a, at(m, a));
	} else if (what == 99 && pick(m, 5) == 0) {
		in_child(m);
	} else if (m->users[a] == 0 && what < 94) { /* else the data plane would keep the former page */
		vanish(m, a, what < 87);
	} else if (m->users[a] == 0 && m->users[b] == 0 && a != b) {
		swap(m, a, b);
	}
	check(m, a, 1);
	check(m, b, 1);
}

static void
run(uint64_t seed, uint32_t steps)
{
	struct model m = {.x = seed, .page = pages(PAGES)};

	for (uint32_t i = 0; i < steps; i++) {
		step(&m);
		if (i % 256 == 0)
			check_all(&m);
	}
	for (size_t i = 0; i < LIVE; i++)
		if (m.live[i].count != 0)
			dereg(&m.live[i].mr);
	check(&m, 0, PAGES);
	munmap(m.page, PAGES * PAGE);
	assert_int_equal(adopted_mappings(), 0);
}

static uint64_t seed = 1;
static uint32_t steps = STEPS;

static void
test_random(void **state)
{
	run(seed, steps);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_random, setup, teardown),
	};

	setenv("ONESIDE_REGISTRATION_CACHE", CACHE, 0);
	restrict_program(argc, argv);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	steps = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : STEPS;
	printf("seed %" PRIu64 ", %u steps\n", seed, steps);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
