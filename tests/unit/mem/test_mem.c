/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory keys, placement order and atomics. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataplane/base/clock.h"
#include "dataplane/mem/place.h"

#define PZ 7u
#define VA 0x7f0000001000ull

static void
test_lookup(void **state)
{
	struct mem_table *table = mem_table_new(4);
	struct mem_region a = {.pz = PZ, .access = ONE_ACCESS_REMOTE_READ, .va = VA, .length = 100};
	struct mem_region b = a;

	a.key = mem_key_new(table);
	assert_int_not_equal(a.key, 0);
	assert_null(mem_lookup(table, a.key));
	mem_publish(table, &a);
	assert_ptr_equal(mem_lookup(table, a.key), &a);
	for (int bit = 0; bit < 32; bit++)
		assert_null(mem_lookup(table, a.key ^ 1u << bit)); /* in slot, tag or variant */
	assert_null(mem_lookup(table, 0));

	b.key = a.key ^ 1; /* the next variant of the slot replaces it */
	mem_publish(table, &b);
	assert_null(mem_lookup(table, a.key));
	assert_ptr_equal(mem_lookup(table, b.key), &b);
	mem_remove(table, b.key);
	assert_null(mem_lookup(table, b.key));
	mem_table_free(table);
	assert_null(mem_table_new(17));
}

static void
test_table_fills(void **state)
{
	struct mem_table *table = mem_table_new(6);
	struct mem_region region[64];

	for (int i = 0; i < 64; i++) {
		region[i].key = mem_key_new(table);
		assert_int_not_equal(region[i].key, 0);
		assert_null(atomic_load(&table->slot[mem_key_slot(table, region[i].key)]));
		mem_publish(table, &region[i]);
	}
	assert_int_equal(mem_key_new(table), 0);
	for (int i = 0; i < 64; i++)
		assert_ptr_equal(mem_lookup(table, region[i].key), &region[i]);
	mem_remove(table, region[13].key);
	region[13].key = mem_key_new(table);
	mem_publish(table, &region[13]);
	assert_ptr_equal(mem_lookup(table, region[13].key), &region[13]);
	mem_table_free(table);
}

static void
test_keys_are_random(void **state)
{
	struct mem_table *table = mem_table_new(16);
	uint32_t or_bits = 0, and_bits = UINT32_MAX;

	for (int i = 0; i < 200; i++) {
		uint32_t key = mem_key_new(table);

		or_bits |= key;
		and_bits &= key;
	}
	assert_int_equal(or_bits, UINT32_MAX);
	assert_int_equal(and_bits, 0);
	mem_table_free(table);
}

static void
test_check(void **state)
{
	struct mem_table *table = mem_table_new(4);
	struct mem_region r = {.key = 0x11223344,
			       .pz = PZ,
			       .va = VA,
			       .length = 4096,
			       .access = ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE};
	const uint32_t rd = ONE_ACCESS_REMOTE_READ, wr = ONE_ACCESS_REMOTE_WRITE;

	mem_publish(table, &r);
	assert_ptr_equal(mem_check(table, r.key, PZ, 5, rd, VA, 4096), &r);
	assert_ptr_equal(mem_check(table, r.key, PZ, 5, rd | wr, VA + 4095, 1), &r);
	assert_ptr_equal(mem_check(table, r.key, PZ, 5, rd, VA + 4096, 0), &r);
	assert_null(mem_check(table, r.key, PZ + 1, 5, rd, VA, 1));
	assert_null(mem_check(table, r.key, PZ, 5, ONE_ACCESS_REMOTE_ATOMIC, VA, 8));
	assert_null(mem_check(table, r.key, PZ, 5, rd | ONE_ACCESS_LOCAL_WRITE, VA, 8));
	assert_null(mem_check(table, r.key + 1, PZ, 5, rd, VA, 1));

	/* Bounds, and sums that wrap. */
	assert_null(mem_check(table, r.key, PZ, 5, rd, VA, 4097));
	assert_null(mem_check(table, r.key, PZ, 5, rd, VA + 1, 4096));
	assert_null(mem_check(table, r.key, PZ, 5, rd, VA - 1, 1));
	assert_null(mem_check(table, r.key, PZ, 5, rd, VA - 1, 4097));
	assert_null(mem_check(table, r.key, PZ, 5, rd, VA + 4096, 1));
	assert_null(mem_check(table, r.key, PZ, 5, rd, VA + 1, UINT64_MAX));
	assert_null(mem_check(table, r.key, PZ, 5, rd, UINT64_MAX, 2));
	assert_null(mem_check(table, r.key, PZ, 5, rd, UINT64_MAX - 4095, 4096));
	assert_null(mem_check(table, r.key, PZ, 5, rd, 0, VA + 1));
	r.va = UINT64_MAX - 4095; /* a region that ends at the highest address */
	assert_ptr_equal(mem_check(table, r.key, PZ, 5, rd, r.va, 4096), &r);
	assert_null(mem_check(table, r.key, PZ, 5, rd, r.va + 1, 4096));
	assert_null(mem_check(table, r.key, PZ, 5, rd, 0, 1));

	r.qpn = 5; /* a window for a single queue pair */
	assert_ptr_equal(mem_check(table, r.key, PZ, 5, rd, r.va, 1), &r);
	assert_null(mem_check(table, r.key, PZ, 6, rd, r.va, 1));
	mem_table_free(table);
}

static void
test_invalidate(void **state)
{
	struct mem_table *table = mem_table_new(4);
	struct mem_region window = {
		.key = 0x11223344, .pz = PZ, .va = VA, .length = 8, .window = true, .qpn = 5};
	struct mem_region memory = {.key = 0x11223444, .pz = PZ, .va = VA, .length = 8};
	uint32_t key;

	window.access = memory.access = ONE_ACCESS_REMOTE_READ;
	mem_publish(table, &window);
	mem_publish(table, &memory);
	assert_false(mem_invalidate(table, window.key ^ 1, PZ, 5));
	assert_false(mem_invalidate(table, window.key, PZ + 1, 5));
	assert_false(mem_invalidate(table, window.key, PZ, 6));
	assert_false(mem_invalidate(table, memory.key, PZ, 5)); /* not a window */
	assert_ptr_equal(mem_check(table, window.key, PZ, 5, ONE_ACCESS_REMOTE_READ, VA, 8), &window);
	assert_true(mem_invalidate(table, window.key, PZ, 5));
	assert_null(mem_lookup(table, window.key));
	assert_null(mem_check(table, 0, PZ, 5, 0, 0, 0));
	assert_false(mem_invalidate(table, window.key, PZ, 5)); /* a second time */
	assert_false(mem_invalidate(table, 0, PZ, 5));
	/* The slot stays in use until the control thread frees it. */
	for (int i = 0; i < 200; i++) {
		key = mem_key_new(table);
		assert_int_not_equal(mem_key_slot(table, key), mem_key_slot(table, window.key));
	}
	mem_remove(table, window.key);
	window.key ^= 1;
	mem_publish(table, &window);
	assert_ptr_equal(mem_lookup(table, window.key), &window);
	mem_table_free(table);
}

/* Every length and alignment, into exact allocations: all bytes are placed, and no neighbour is touched. */
static void
test_place_shapes(void **state)
{
	static const size_t big[] = {4095, 4096, 4097, 8191, 8192, 8200, 100003, 1 << 20};
	size_t count = 70 + sizeof(big) / sizeof(big[0]);
	uint8_t *src = malloc((1 << 20) + 16), *dst = malloc((1 << 20) + 160);

	for (size_t i = 0; i < (1 << 20) + 16; i++)
		src[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t k = 0; k < count; k++) {
		size_t len = k < 70 ? k : big[k - 70];

		/* The larger offset makes mem_place() use string moves. */
		for (size_t to = 0; to <= 120; to += to < 8 ? 1 : 112) {
			for (size_t from = 0; from < 9; from += len < 100 ? 1 : 5) {
				memset(dst, 0xee, len + 160);
				mem_place(dst + 8 + to, src + from, len);
				assert_memory_equal(dst + 8 + to, src + from, len);
				for (size_t i = 0; i < 8 + to; i++)
					assert_int_equal(dst[i], 0xee);
				for (size_t i = 8 + to + len; i < len + 160; i++)
					assert_int_equal(dst[i], 0xee);
			}
		}
	}
	free(src);
	free(dst);
}

struct poll_job {
	uint8_t *buffer;
	size_t len;
	_Atomic bool over;
	_Atomic unsigned int seen; /* rounds finished by the poller */
	_Atomic unsigned int wrong;
};

/* Minimum time and rounds per length. On a single processor, where the two threads alternate, each round
 * takes a time slice of every other thread as well. */
#define LAST_BYTE_NS 50000000u
#define LAST_BYTE_ROUNDS 10u

/* Plays an application: once the last byte has arrived, everything before it must be there. */
static void *
poller(void *arg)
{
	struct poll_job *job = arg;

	for (unsigned int round = 1;; round++) {
		uint8_t want = (uint8_t)(round % 255 + 1);
		unsigned int spins = 0;

		/* Pairs with the release store of the last word in mem_place. */
		while (__atomic_load_n(&job->buffer[job->len - 1], __ATOMIC_ACQUIRE) != want)
			if (atomic_load(&job->over))
				return NULL;
			else if (++spins % 1024 == 0)
				sched_yield();
		for (size_t i = 0; i + 1 < job->len; i++)
			if (job->buffer[i] != want)
				atomic_fetch_add(&job->wrong, 1);
		atomic_store_explicit(&job->seen, round, memory_order_release);
	}
}

static void
test_last_byte_is_last(void **state)
{
	static const size_t lens[] = {2, 7, 8, 9, 64, 65, 1000, 1024, 4096, 4099, 65536, 262147};
	uint8_t *src = malloc(262147), *base = malloc(262147 + 64);

	for (size_t k = 0; k < 2 * sizeof(lens) / sizeof(lens[0]); k++) {
		struct poll_job job = {.buffer = base + (k & 1 ? 3 : 0), .len = lens[k / 2]};
		uint64_t end = clock_now() + LAST_BYTE_NS;
		pthread_t thread;

		memset(base, 0, 262147 + 64);
		assert_int_equal(pthread_create(&thread, NULL, poller, &job), 0);
		for (unsigned int round = 1; round <= LAST_BYTE_ROUNDS || clock_now() < end; round++) {
			unsigned int spins = 0;

			memset(src, (int)(round % 255 + 1), job.len);
			mem_place(job.buffer, src, job.len);
			while (atomic_load_explicit(&job.seen, memory_order_acquire) != round)
				if (++spins % 1024 == 0)
					sched_yield();
		}
		atomic_store(&job.over, true);
		pthread_join(thread, NULL);
		assert_int_equal(atomic_load(&job.wrong), 0);
	}
	free(src);
	free(base);
}

/* A deterministic check of the order: the destination's pages are read-only, and when a store faults on one,
 * everything that precedes it must be complete. */
static struct {
	uint8_t *dst;
	const uint8_t *src;
	size_t len, page;
	bool last; /* only the page of the last word is read-only */
	size_t tail;
	int faults, wrong;
} shut;

static void
on_shut_page(int signal_number, siginfo_t *info, void *context)
{
	uint8_t *at = info->si_addr;
	size_t offset = (size_t)(at - shut.dst), before;

	if (at < shut.dst || at >= shut.dst + shut.len)
		_exit(99);
	/* The bulk may be out of order within 4096 bytes and a word, the last word never. */
	before = shut.last ? shut.len - shut.tail : offset < 8 ? 0 : (offset - 8) / 4096 * 4096;
	for (size_t i = 0; i < before; i++)
		shut.wrong += shut.dst[i] != shut.src[i];
	shut.faults++;
	if (mprotect((void *)((uintptr_t)at & ~(shut.page - 1)), shut.page, PROT_READ | PROT_WRITE) != 0)
		_exit(98);
}

static void
test_order_of_pages(void **state)
{
	static const size_t lens[] = {9,    16,   17,   63,   64,   65,   100,  255,  1000,
				      2048, 4095, 4096, 4097, 4103, 4104, 4105, 9000, 65536};
	struct sigaction action = {.sa_sigaction = on_shut_page, .sa_flags = SA_SIGINFO}, old;
	size_t pages = 20;
	uint8_t *base, *src;

	shut.page = (size_t)sysconf(_SC_PAGESIZE);
	base = mmap(NULL, pages * shut.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	src = malloc(65536);
	memset(src, 0x77, 65536);
	shut.src = src;
	assert_int_equal(sigaction(SIGSEGV, &action, &old), 0);
	for (size_t k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
		shut.len = lens[k];
		/* Only the last word is in the read-only page. */
		shut.last = true;
		for (shut.tail = 1; shut.tail <= 8; shut.tail *= 2) {
			uint8_t *page = base + (pages - 1) * shut.page;

			memset(base, 0, pages * shut.page);
			shut.dst = page + shut.tail - shut.len;
			shut.faults = shut.wrong = 0;
			assert_int_equal(mprotect(page, shut.page, PROT_READ), 0);
			mem_place(shut.dst, src, shut.len);
			assert_int_equal(shut.faults, 1);
			assert_int_equal(shut.wrong, 0);
			assert_memory_equal(shut.dst, src, shut.len);
		}
		shut.last = false;
		for (size_t skew = 0; skew < 9; skew += 4) {
			memset(base, 0, pages * shut.page);
			shut.dst = base + skew;
			shut.faults = shut.wrong = 0;
			assert_int_equal(mprotect(base, pages * shut.page, PROT_READ), 0);
			mem_place(shut.dst, src, shut.len);
			assert_int_equal(mprotect(base, pages * shut.page, PROT_READ | PROT_WRITE), 0);
			assert_true(shut.faults >= 1);
			assert_int_equal(shut.wrong, 0);
			assert_memory_equal(shut.dst, src, shut.len);
		}
	}
	sigaction(SIGSEGV, &old, NULL);
	munmap(base, pages * shut.page);
	free(src);
}

static void
test_mapped(void **state)
{
	uint8_t a[64], b[64], got[64];
	struct mem_region ra = {.va = VA, .length = 64, .base = a};
	struct mem_region rb = {.va = 0x1000, .length = 64, .base = b};

	for (int i = 0; i < 64; i++)
		a[i] = (uint8_t)i;
	memset(b, 0, 64);
	for (size_t len = 0; len <= 32; len++) {
		for (size_t at = 0; at < 16; at++) {
			memset(got, 0xff, sizeof(got));
			assert_int_equal(mem_read(&ra, VA + at, got, len), 0);
			assert_memory_equal(got, a + at, len);
			assert_int_equal(got[len], 0xff);
		}
	}
	assert_int_equal(mem_write(&rb, 0x1000 + 60, "abcd", 4), 0);
	assert_memory_equal(b + 60, "abcd", 4);
	assert_int_equal(mem_copy(&rb, 0x1003, &ra, VA + 5, 21), 0);
	assert_memory_equal(b + 3, a + 5, 21);
	assert_int_equal(b[2], 0);
	assert_int_equal(b[24], 0);
	assert_int_equal(mem_copy(&ra, VA + 4, &ra, VA, 60), 0); /* overlapping: no crash, any content */
	assert_int_equal(mem_write(&rb, 0, NULL, 0), 0);
	assert_int_equal(mem_read(&rb, 0, NULL, 0), 0);
	assert_int_equal(mem_copy(&ra, 0, &rb, 0, 0), 0);
}

static void
check_atomics(const struct mem_region *r, uint64_t *word)
{
	uint64_t found = 0;

	*word = 40;
	assert_int_equal(mem_fetch_add(r, r->va, 2, &found), 0);
	assert_true(found == 40 && *word == 42);
	assert_int_equal(mem_fetch_add(r, r->va, UINT64_MAX, &found), 0); /* the sum wraps */
	assert_true(found == 42 && *word == 41);
	assert_int_equal(mem_cmp_swap(r, r->va, 41, 0x1122334455667788, &found), 0);
	assert_true(found == 41 && *word == 0x1122334455667788);
	assert_int_equal(mem_cmp_swap(r, r->va, 41, 5, &found), 0);
	assert_true(found == 0x1122334455667788 && *word == 0x1122334455667788);
	for (unsigned int off = 1; off < 8; off++) {
		assert_int_equal(mem_fetch_add(r, r->va + off, 1, &found), -EFAULT);
		assert_int_equal(mem_cmp_swap(r, r->va + off, 1, 1, &found), -EFAULT);
	}
}

struct adder {
	const struct mem_region *region;
	int rounds;
};

static void *
add_many(void *arg)
{
	struct adder *adder = arg;
	uint64_t found, before;

	for (int i = 0; i < adder->rounds; i++) {
		if (i & 1) {
			mem_fetch_add(adder->region, adder->region->va, 1, &found);
			continue;
		}
		mem_read(adder->region, adder->region->va, &before, 8);
		while (mem_cmp_swap(adder->region, adder->region->va, before, before + 1, &found) == 0 &&
		       found != before)
			before = found;
	}
	return NULL;
}

static void
test_atomics(void **state)
{
	static uint64_t words[4];
	struct mem_region region = {.va = VA, .length = 32, .base = (uint8_t *)words};
	struct mem_region skewed = {.va = VA, .length = 16, .base = (uint8_t *)words + 4};
	struct adder adder = {&region, 20000};
	pthread_t thread[3];
	uint64_t found;

	check_atomics(&region, words);
	words[0] = 0;
	for (int k = 0; k < 3; k++)
		assert_int_equal(pthread_create(&thread[k], NULL, add_many, &adder), 0);
	for (int k = 0; k < 3; k++)
		pthread_join(thread[k], NULL);
	assert_int_equal(words[0], 3 * adder.rounds);
	assert_int_equal(mem_fetch_add(&skewed, VA, 1, &found), -EFAULT);
	assert_int_equal(mem_cmp_swap(&skewed, VA, 0, 1, &found), -EFAULT);
}

/* None of these calls may wait for a process, so all refuse memory without a mapping. */
static void
test_no_mapping(void **state)
{
	uint8_t bytes[16] = {0};
	struct mem_region here = {.va = VA, .length = 16, .base = bytes};
	struct mem_region there = {.va = (uintptr_t)bytes, .length = 16};
	uint64_t found;

	assert_int_equal(mem_read(&there, there.va, bytes, 8), -EFAULT);
	assert_int_equal(mem_write(&there, there.va, bytes, 8), -EFAULT);
	assert_int_equal(mem_copy(&there, there.va, &here, VA, 8), -EFAULT);
	assert_int_equal(mem_copy(&here, VA, &there, there.va, 8), -EFAULT);
	assert_int_equal(mem_fetch_add(&there, there.va & ~7ull, 1, &found), -EFAULT);
	assert_int_equal(mem_cmp_swap(&there, there.va & ~7ull, 0, 1, &found), -EFAULT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_table_fills),
		cmocka_unit_test(test_keys_are_random),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_invalidate),
		cmocka_unit_test(test_place_shapes),
		cmocka_unit_test(test_last_byte_is_last),
		cmocka_unit_test(test_order_of_pages),
		cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_no_mapping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
