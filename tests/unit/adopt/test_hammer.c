/* SPDX-License-Identifier: BSD-3-Clause */
/* No store is lost while memory is adopted and given back: threads count in slots across the range, and check
 * each slot against their own count. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#include "common.h"

#define THREADS 3
/* Minimum per case, also on a busy machine: */
#define MIN_ROUNDS 10u
#define MIN_STORES 1000u /* of each thread */

static uint64_t run_ns = 300000000; /* per case; set by HAMMER_MS */

struct hammer {
	volatile uint64_t *slot; /* the slots of this thread: one in every `stride` words */
	size_t slots, stride;
	uint64_t *count; /* expected contents of each slot, in memory that is never registered */
	_Atomic bool *stop;
	_Atomic uint64_t stores;
	uint64_t lost;
	pthread_t thread;
};

static void *
hammer(void *arg)
{
	struct hammer *h = arg;
	uint64_t x = (uintptr_t)h;

	for (uint64_t n = 0; !atomic_load_explicit(h->stop, memory_order_relaxed); n++) {
		size_t i;

		x = x * 6364136223846793005u + 1442695040888963407u;
		i = (x >> 33) % h->slots;
		if (h->slot[i * h->stride] != h->count[i])
			h->lost++;
		h->slot[i * h->stride] = ++h->count[i];
		atomic_store_explicit(&h->stores, n + 1, memory_order_relaxed); /* pairs with stores_of */
	}
	return NULL;
}

static uint64_t
stores_of(struct hammer *h)
{
	return atomic_load_explicit(&h->stores, memory_order_relaxed); /* of a running thread */
}

/* Run `work` at least once while threads hammer [p, p+len). */
static void
with_hammers(void *p, size_t len, void (*work)(void *p, size_t len))
{
	static _Atomic bool stop;
	struct hammer h[THREADS];
	uint64_t stores = 0, least;

	atomic_store(&stop, false);
	memset(p, 0, len);
	for (size_t i = 0; i < THREADS; i++) {
		size_t words = len / sizeof(uint64_t);

		h[i] = (struct hammer){.slot = (volatile uint64_t *)p + i,
				       .stride = THREADS,
				       .slots = words / THREADS,
				       .stop = &stop};
		h[i].count = mmap(NULL, h[i].slots * sizeof(uint64_t), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(h[i].count, MAP_FAILED);
		assert_int_equal(pthread_create(&h[i].thread, NULL, hammer, &h[i]), 0);
	}
	do {
		work(p, len);
		least = UINT64_MAX;
		for (size_t i = 0; i < THREADS; i++)
			least = stores_of(&h[i]) < least ? stores_of(&h[i]) : least;
	} while (least < MIN_STORES);
	atomic_store(&stop, true);
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(h[i].thread, NULL);
		assert_int_equal(h[i].lost, 0);
		for (size_t s = 0; s < h[i].slots; s++)
			assert_int_equal(h[i].slot[s * THREADS], h[i].count[s]);
		stores += stores_of(&h[i]);
		munmap(h[i].count, h[i].slots * sizeof(uint64_t));
	}
	printf("%" PRIu64 " stores by %d threads, none lost\n", stores, THREADS);
}

static void
adopt_and_give_back(void *p, size_t len)
{
	uint64_t end = one_now_ns() + run_ns;
	uint32_t rounds = 0;

	while (one_now_ns() < end || rounds < MIN_ROUNDS) {
		struct one_mr mr = reg(p, len);

		assert_true(is_shared(p));
		sched_yield();
		dereg(&mr);
		assert_true(given_back(p));
		sched_yield();
		rounds++;
	}
	printf("%u times adopted and given back\n", rounds);
}

static void
test_small(void **state)
{
	uint8_t *p = pages(3);

	with_hammers(p, 3 * PAGE, adopt_and_give_back);
	munmap(p, 3 * PAGE);
}

static void
test_medium(void **state)
{
	uint8_t *p = pages(500);

	with_hammers(p, 500 * PAGE, adopt_and_give_back);
	munmap(p, 500 * PAGE);
}

static void
overlapping(void *p, size_t len)
{
	uint64_t end = one_now_ns() + run_ns;
	uint32_t x = 1, rounds = 0;
	struct one_mr mr[8];
	bool live[8] = {false};

	while (one_now_ns() < end || rounds < MIN_ROUNDS) {
		uint32_t i = (x >> 16) % 8;
		size_t from = (x >> 8) % len, to = (x * 2654435761u >> 7) % len;

		x = x * 1664525u + 1013904223u;
		if (live[i]) {
			dereg(&mr[i]);
			live[i] = false;
		} else if (from < to) {
			mr[i] = reg((uint8_t *)p + from, to - from);
			live[i] = true;
			rounds++;
		}
	}
	for (int i = 0; i < 8; i++) {
		if (live[i])
			dereg(&mr[i]);
	}
	assert_int_equal(adopted_mappings(), 0);
}

static void
test_overlapping(void **state)
{
	uint8_t *p = pages(100);

	with_hammers(p, 100 * PAGE, overlapping);
	munmap(p, 100 * PAGE);
}

static void
once(void *p, size_t len)
{
	uint64_t start = one_now_ns(), adopted, back;
	struct one_mr mr = reg(p, len);

	adopted = one_now_ns() - start;
	start = one_now_ns();
	dereg(&mr);
	back = one_now_ns() - start;
	printf("%zu MiB under writers: adopted in %.1f ms, given back in %.1f ms\n", len >> 20,
	       (double)adopted / 1e6, (double)back / 1e6);
}

static void
test_large(void **state)
{
	const size_t len = 64 << 20;
	uint8_t *p = malloc(len), *quiet = malloc(len);

	memset(quiet, 1, len);
	once(quiet, len); /* for comparison: without writers, but populated */
	free(quiet);
	with_hammers((void *)(((uintptr_t)p + 63) & ~63ul), len - 128, once);
	free(p);
}

/* The data plane stores into a range that stays adopted, while overlapping registrations come and go. */
static void
test_remote_writes_survive(void **state)
{
	static _Atomic bool stop;
	uint8_t *p = pages(64);
	struct one_mr keep = reg(p, 64 * PAGE), other;
	struct hammer h = {.stride = 3, .slots = 64 * PAGE / 24, .stop = &stop};
	uint64_t end = one_now_ns() + run_ns / 2;

	h.slot = (volatile uint64_t *)(void *)peer(&keep);
	h.count = calloc(h.slots, sizeof(uint64_t));
	atomic_store(&stop, false);
	pthread_create(&h.thread, NULL, hammer, &h);
	while (one_now_ns() < end) {
		other = reg(p + 1, 64 * PAGE - 2);
		dereg(&other);
	}
	atomic_store(&stop, true);
	pthread_join(h.thread, NULL);
	assert_int_equal(h.lost, 0);
	dereg(&keep);
	for (size_t s = 0; s < h.slots; s++)
		assert_int_equal(((volatile uint64_t *)(void *)p)[s * 3], h.count[s]);
	free(h.count);
	munmap(p, 64 * PAGE);
}

struct rounds {
	_Atomic bool *stop;
	uint32_t least; /* required rounds */
	_Atomic uint32_t rounds;
};

/* Return an error from a thread, and stop all threads. */
static void *
mistaken(struct rounds *r, const char *what)
{
	atomic_store(r->stop, true);
	return (void *)(uintptr_t)what;
}

/* Other threads call malloc and free while neighbouring blocks are adopted and given back. */
static void *
allocate(void *arg)
{
	struct rounds *r = arg;
	enum { COUNT = 64 };
	uint8_t *block[COUNT] = {NULL};
	uint32_t x = 7;

	while (!atomic_load_explicit(r->stop, memory_order_relaxed)) {
		uint32_t i = (x >> 16) % COUNT;
		size_t size = 16 + (x >> 8) % 3000;

		x = x * 1664525u + 1013904223u;
		if (block[i] != NULL) {
			size_t was = *(size_t *)(void *)block[i];

			for (size_t b = sizeof(size_t); b < was; b++) {
				if (block[i][b] != (uint8_t)i)
					return mistaken(r, "a block has changed");
			}
			free(block[i]);
		}
		block[i] = malloc(size);
		*(size_t *)(void *)block[i] = size;
		memset(block[i] + sizeof(size_t), (int)i, size - sizeof(size_t));
		atomic_fetch_add_explicit(&r->rounds, 1, memory_order_relaxed); /* pairs with any_behind */
	}
	for (int i = 0; i < COUNT; i++)
		free(block[i]);
	return NULL;
}

static void *
register_blocks(void *arg)
{
	struct rounds *r = arg;
	enum { COUNT = 16 };
	uint8_t *block[COUNT];
	struct one_mr mr[COUNT];

	/* The blocks are in this thread's malloc arena, which allocating threads share. */
	while (!atomic_load_explicit(r->stop, memory_order_relaxed)) {
		for (int i = 0; i < COUNT; i++) {
			block[i] = malloc(100 + (size_t)i * 50);
			memset(block[i], i, 100);
			if (one_mem_register(fixture.client, 0, (uintptr_t)block[i], 100, ALL, &mr[i]) != 0)
				return mistaken(r, "register failed");
		}
		for (int i = 0; i < COUNT; i++) {
			if (block[i][50] != i)
				return mistaken(r, "a registered block has changed");
			if (one_mem_deregister(fixture.client, &mr[i]) != 0)
				return mistaken(r, "deregister failed");
			free(block[i]);
		}
		atomic_fetch_add_explicit(&r->rounds, 1, memory_order_relaxed); /* pairs with any_behind */
	}
	return NULL;
}

static bool
any_behind(struct rounds *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		/* Pairs with the adds of the running threads. */
		if (atomic_load_explicit(&r[i].rounds, memory_order_relaxed) < r[i].least)
			return true;
	return false;
}

static void
test_malloc_meanwhile(void **state)
{
	static _Atomic bool stop;
	struct rounds r[4] = {{&stop, 100, 0}, {&stop, 100, 0}, {&stop, 1, 0}, {&stop, 1, 0}};
	pthread_t thread[4];
	void *result;

	atomic_store(&stop, false);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, i < 2 ? allocate : register_blocks, &r[i]);
	do
		usleep(run_ns / 1000);
	while (any_behind(r, 4) && !atomic_load(&stop));
	atomic_store(&stop, true);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &result);
		if (result != NULL)
			fail_msg("%s", (const char *)result);
	}
	assert_int_equal(adopted_mappings(), 0);
}

/* System calls of another thread store into the range. */
static void *
read_into(void *arg)
{
	struct hammer *h = arg;
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	while (!atomic_load_explicit(h->stop, memory_order_relaxed)) {
		ssize_t n = read(zero, (void *)(uintptr_t)h->slot, h->slots * sizeof(uint64_t));

		if (n != (ssize_t)(h->slots * sizeof(uint64_t)))
			h->lost++;
		atomic_fetch_add_explicit(&h->stores, 1, memory_order_relaxed);
	}
	close(zero);
	return NULL;
}

static void
test_system_calls(void **state)
{
	static _Atomic bool stop;
	uint8_t *p = pages(100);
	struct hammer h = {.slots = 100 * PAGE / 8, .stop = &stop};

	h.slot = (volatile uint64_t *)(void *)p;
	atomic_store(&stop, false);
	pthread_create(&h.thread, NULL, read_into, &h);
	adopt_and_give_back(p, 100 * PAGE);
	atomic_store(&stop, true);
	pthread_join(h.thread, NULL);
	/* With a full userfaultfd, system calls wait like any store. Without, they may fail (EFAULT, short
	 * read): documented. */
	if (getuid() == 0)
		assert_int_equal(h.lost, 0);
	printf("%" PRIu64 " reads into the range, %" PRIu64 " cut short\n", stores_of(&h), h.lost);
	munmap(p, 100 * PAGE);
}

static volatile uint64_t *signal_slot;
static volatile uint64_t signals;

static void
on_alarm(int signo)
{
	signals++;
	*signal_slot = signals;
}

static void
test_signal_handler_stores(void **state)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, old;
	struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
	uint8_t *p = pages(20);

	/* The handler runs on the thread that adopts. */
	signal_slot = (volatile uint64_t *)(void *)(p + 5 * PAGE);
	signals = 0;
	sigaction(SIGALRM, &action, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	adopt_and_give_back(p, 20 * PAGE);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_true(signals > 0);
	assert_int_equal(*signal_slot, signals);
	munmap(p, 20 * PAGE);
}

int
main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_small),
		TEST(test_medium),
		TEST(test_overlapping),
		TEST(test_large),
		TEST(test_remote_writes_survive),
		TEST(test_malloc_meanwhile),
		TEST(test_system_calls),
		TEST(test_signal_handler_stores),
	};

	restrict_program(argc, argv);
	if (getenv("HAMMER_MS") != NULL)
		run_ns = strtoull(getenv("HAMMER_MS"), NULL, 10) * 1000000;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
