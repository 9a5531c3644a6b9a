/* SPDX-License-Identifier: BSD-3-Clause */
/* Cached registrations: memory that stays adopted after its last deregistration must behave like private
 * memory, whatever the program does to it. */
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common.h"

#define LIMIT "8M"

/* Returns memory that was registered, filled and deregistered. */
static uint8_t *
kept(size_t n, uint32_t seed)
{
	uint8_t *p = pages(n);
	struct one_mr mr = reg(p, n * PAGE);

	fill(p, n * PAGE, seed);
	dereg(&mr);
	assert_true(is_shared(p));
	return p;
}

static bool
is_zero(const void *p, size_t len)
{
	const uint8_t *byte = p;

	return len == 0 || (byte[0] == 0 && memcmp(byte, byte + 1, len - 1) == 0);
}

/* Duplicate the descriptor of our only file with `bytes` bytes allocated. */
static int
file_with(size_t bytes)
{
	for (int i = 3; i < 256; i++) {
		char path[64], name[64] = "";
		struct stat st;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		if (readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "/memfd:oneside ") != NULL &&
		    fstat(i, &st) == 0 && (size_t)st.st_blocks * 512 == bytes)
			return dup(i);
	}
	fail_msg("no such file");
	return -1;
}

static void
test_again(void **state)
{
	uint8_t *p = kept(300, 1);
	uint32_t regions = mock_count(fixture.mock, ONE_MSG_REGION_ADD);
	struct one_mr mr;

	fill(p, 300 * PAGE, 2);
	for (int i = 0; i < 10; i++) {
		mr = reg(p + 10, 299 * PAGE);
		assert_memory_equal(peer(&mr), p + 10, 299 * PAGE);
		peer(&mr)[7] = (uint8_t)i;
		assert_int_equal(p[17], i);
		dereg(&mr);
		assert_true(is_shared(p));
	}
	assert_int_equal(mock_count(fixture.mock, ONE_MSG_REGION_ADD), regions);
	munmap(p, 300 * PAGE);
}

static void
test_small_too(void **state)
{
	uint8_t *p = kept(1, 3), *block = malloc(100);
	uint32_t regions = mock_count(fixture.mock, ONE_MSG_REGION_ADD);
	struct one_mr mr = reg(p, PAGE);

	dereg(&mr);
	assert_int_equal(mock_count(fixture.mock, ONE_MSG_REGION_ADD), regions);
	mr = reg(block, 100);
	fill(block, 100, 1);
	dereg(&mr);
	assert_true(is_filled(block, 100, 1));
	free(block);
	munmap(p, PAGE);
}

static void
test_dontneed(void **state)
{
	uint8_t *p = kept(64, 1);
	struct one_mr mr;

	assert_int_equal(madvise(p + 10 * PAGE, 5 * PAGE, MADV_DONTNEED), 0);
	assert_true(is_zero(p + 10 * PAGE, 5 * PAGE));
	assert_false(is_shared(p));
	memset(p + 10 * PAGE, 0, 5 * PAGE);
	fill(p + 10 * PAGE, 5 * PAGE, 9);
	mr = reg(p, 64 * PAGE);
	assert_memory_equal(peer(&mr), p, 64 * PAGE);
	assert_true(is_filled(p, 10 * PAGE, 1));
	assert_true(is_filled(p + 10 * PAGE, 5 * PAGE, 9));
	/* While registered, the pages belong to the data plane, too, and the advice has no effect. */
	assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
	assert_true(is_filled(p, 10 * PAGE, 1));
	dereg(&mr);
	assert_int_equal(madvise(p, 64 * PAGE, MADV_DONTNEED), 0);
	assert_true(is_zero(p, 64 * PAGE));
	munmap(p, 64 * PAGE);
}

static void
test_other_advice(void **state)
{
	uint8_t *p = kept(8, 1);

	/* The kernel refuses MADV_FREE for shared pages. */
	assert_int_equal(madvise(p, PAGE, MADV_FREE), 0);
	assert_false(is_shared(p));
	munmap(p, 8 * PAGE);
	p = kept(8, 2);
	madvise(p, 8 * PAGE, MADV_REMOVE); /* must not discard the contents */
	assert_true(is_filled(p, 8 * PAGE, 2));
	munmap(p, 8 * PAGE);
}

static void
test_another_at_its_address(void **state)
{
	uint8_t *p = pages(64), *at = p;
	struct one_mr mr = reg(p, 64 * PAGE);
	struct stat st;
	int fd;

	fill(p, 64 * PAGE, 1);
	fd = file_with(64 * PAGE);
	dereg(&mr);
	munmap(p, 64 * PAGE);
	p = mmap(at, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0);
	assert_ptr_equal(p, at);
	assert_true(is_zero(p, 64 * PAGE));
	/* The file's memory is freed, although the data plane has not been notified. */
	do {
		sched_yield();
		assert_int_equal(fstat(fd, &st), 0);
	} while (st.st_blocks != 0);
	close(fd);
	p[5] = 4;
	mr = reg(p, 64 * PAGE);
	assert_int_equal(peer(&mr)[5], 4);
	assert_true(is_zero(peer(&mr) + PAGE, 63 * PAGE));
	dereg(&mr);
	/* The middle is replaced by a single mmap(). */
	assert_ptr_equal(
		mmap(p + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		p + PAGE);
	memset(p + PAGE, 7, PAGE);
	mr = reg(p, 64 * PAGE);
	assert_int_equal(peer(&mr)[5], 4);
	assert_int_equal(peer(&mr)[PAGE + 5], 7);
	dereg(&mr);
	munmap(p, 64 * PAGE);
}

static void
test_moved(void **state)
{
	uint8_t *p = kept(64, 1), *place = pages(64), *q;
	struct one_mr mr;

	q = mremap(p, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	assert_ptr_equal(q, place);
	assert_true(is_filled(q, 64 * PAGE, 1));
	assert_int_equal(madvise(q, PAGE, MADV_DONTNEED), 0);
	assert_true(is_zero(q, PAGE));
	assert_false(is_shared(q + PAGE));
	p = pages(64);
	fill(q, 64 * PAGE, 2);
	mr = reg(q, 64 * PAGE);
	assert_memory_equal(peer(&mr), q, 64 * PAGE);
	dereg(&mr);
	munmap(p, 64 * PAGE);
	munmap(q, 64 * PAGE);
}

static void
grow(size_t n)
{
	uint8_t *p = pages(3 * n), *beside = kept(n, 5);
	struct one_mr mr = reg(p, n * PAGE);

	fill(p, n * PAGE, 1);
	dereg(&mr);
	assert_true(is_shared(p));
	munmap(p + n * PAGE, n * PAGE);
	assert_ptr_equal(mremap(p, n * PAGE, 2 * n * PAGE, 0), p);
	assert_true(is_zero(p + n * PAGE, n * PAGE));
	assert_true(is_filled(p, n * PAGE, 1));
	fill(p + n * PAGE, n * PAGE, 2);
	mr = reg(p, 2 * n * PAGE);
	assert_memory_equal(peer(&mr), p, 2 * n * PAGE);
	assert_true(is_filled(peer(&mr) + n * PAGE, n * PAGE, 2));
	dereg(&mr);
	/* The part stored beyond the original range is private as well. */
	munmap(p + 2 * n * PAGE, n * PAGE);
	assert_ptr_equal(mremap(p, 2 * n * PAGE, 3 * n * PAGE, 0), p);
	fill(p + 2 * n * PAGE, n * PAGE, 3);
	assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
	assert_true(is_zero(p, PAGE));
	assert_true(is_filled(p + n * PAGE, n * PAGE, 2));
	assert_true(is_filled(p + 2 * n * PAGE, n * PAGE, 3));
	assert_false(is_shared(p + 2 * n * PAGE));
	assert_true(is_filled(beside, n * PAGE, 5));
	munmap(p, 3 * n * PAGE);
	munmap(beside, n * PAGE);
}

static void
test_lengthened(void **state)
{
	uint8_t *p = pages(30), *q;
	struct one_mr mr = reg(p, 10 * PAGE);

	grow(1);
	grow(100);
	/* The extension gets another protection, or is moved away separately. */
	fill(p, 10 * PAGE, 1);
	dereg(&mr);
	munmap(p + 10 * PAGE, 20 * PAGE);
	assert_ptr_equal(mremap(p, 10 * PAGE, 30 * PAGE, 0), p);
	fill(p, 30 * PAGE, 2);
	assert_int_equal(mprotect(p + 10 * PAGE, 10 * PAGE, PROT_READ), 0);
	q = mremap(p + 20 * PAGE, 10 * PAGE, 10 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, pages(10));
	assert_ptr_not_equal(q, MAP_FAILED);
	assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
	fill(p, PAGE, 2);
	assert_true(is_filled(p, 20 * PAGE, 2));
	mprotect(p + 10 * PAGE, 10 * PAGE, PROT_READ | PROT_WRITE);
	memmove(p, p + 10 * PAGE, 10 * PAGE);
	memcpy(p + 10 * PAGE, q, 10 * PAGE);
	q[0] ^= 1;
	assert_int_equal(p[10 * PAGE] ^ 1, q[0]);
	assert_false(is_shared(p) || is_shared(p + 10 * PAGE) || is_shared(q));
	munmap(p, 20 * PAGE);
	munmap(q, 10 * PAGE);
}

/* The oldest cached range is half of a new range. The other half is adopted only now, and needs a place in
 * the cache. */
static void
test_oldest_of_a_range(void **state)
{
	uint8_t *p = pages(2), *other[100];
	struct one_mr mr;

	for (size_t i = 0; i < 100; i++)
		other[i] = kept(1, 1); /* more than the cache holds */
	fill(p, PAGE, 2);
	fill(p + PAGE, PAGE, 3);
	mr = reg(p + PAGE, PAGE);
	dereg(&mr);
	assert_true(is_shared(p + PAGE));
	for (size_t i = 0; i < 100; i++) {
		if (!is_shared(other[i]))
			continue;
		mr = reg(other[i], PAGE);
		dereg(&mr);
	}
	mr = reg(p, 2 * PAGE);
	assert_memory_equal(peer(&mr), p, 2 * PAGE);
	peer(&mr)[PAGE + 5] ^= 1;
	assert_true(is_filled(p, PAGE, 2));
	assert_int_equal(peer(&mr)[PAGE + 5], p[PAGE + 5]);
	p[PAGE + 5] ^= 1;
	dereg(&mr);
	assert_true(is_filled(p + PAGE, PAGE, 3));
	for (size_t i = 0; i < 100; i++) {
		assert_true(is_filled(other[i], PAGE, 1));
		munmap(other[i], PAGE);
	}
	munmap(p, 2 * PAGE);
}

/* The file of an evicted range is reused for another range. */
static void
test_file_again(void **state)
{
	uint8_t *p = kept(100, 1);
	uint32_t regions = mock_count(fixture.mock, ONE_MSG_REGION_ADD);
	struct one_mr_create args;
	struct one_mr mr;

	for (uint32_t i = 0; i < 20; i++) {
		munmap(p, 100 * PAGE);
		p = pages(100);
		assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
		p[5] = 5;
		mr = reg(p, 60 * PAGE);
		assert_true(mock_mr(fixture.mock, mr.id, &args));
		assert_int_equal(args.flags & ONE_MR_FRESH, ONE_MR_FRESH);
		assert_int_equal(peer(&mr)[5], 5);
		assert_true(is_zero(p + PAGE, 99 * PAGE));
		fill(peer(&mr), 60 * PAGE, i);
		assert_true(is_filled(p, 60 * PAGE, i));
		dereg(&mr);
		mr = reg(p, 59 * PAGE);
		assert_true(mock_mr(fixture.mock, mr.id, &args));
		assert_int_equal(args.flags & ONE_MR_FRESH, 0);
		dereg(&mr);
	}
	assert_int_equal(mock_count(fixture.mock, ONE_MSG_REGION_ADD), regions);
	munmap(p, 100 * PAGE);
}

static void
test_reallocated(void **state)
{
	const size_t len = 1 << 20;
	uint8_t *p = malloc(len), *q;
	struct one_mr mr = reg(p, len);

	fill(p, len, 1);
	dereg(&mr);
	q = realloc(p, 40 << 20);
	assert_true(is_filled(q, len, 1));
	memset(q + len, 1, (40 << 20) - len);
	q = realloc(q, len / 2);
	assert_true(is_filled(q, len / 2, 1));
	free(q);
}

static void
test_fork(void **state)
{
	uint8_t *p = kept(64, 1);
	int status, go[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		bool ok = !is_shared(p) && is_filled(p, 64 * PAGE, 1);

		memset(p, 3, PAGE);
		ok = ok && read(go[0], &byte, 1) == 1 && is_zero(p + 2 * PAGE, 0) && p[PAGE * 2] != 9;
		ok = ok && madvise(p, PAGE, MADV_DONTNEED) == 0 && is_zero(p, PAGE);
		_exit(ok ? 0 : 1);
	}
	assert_true(pid > 0);
	assert_false(is_shared(p));
	memset(p + 2 * PAGE, 9, PAGE);
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(is_filled(p, 2 * PAGE, 1));
	close(go[0]);
	close(go[1]);
	munmap(p, 64 * PAGE);
}

static void
test_protection(void **state)
{
	uint8_t *p = kept(20, 1);
	struct one_mr mr;

	assert_int_equal(mprotect(p + 4 * PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 20 * PAGE, ALL, &mr), -EFAULT);
	assert_int_equal(mprotect(p + 5 * PAGE, PAGE, PROT_NONE), 0);
	/* Each page is given back with its protection. */
	assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
	assert_false(is_shared(p + 4 * PAGE));
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 5 * PAGE, ALL, &mr), -EFAULT);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p + 5 * PAGE, PAGE,
					  ONE_ACCESS_LOCAL_READ, &mr),
			 -EFAULT);
	assert_int_equal(mprotect(p, 20 * PAGE, PROT_READ | PROT_WRITE), 0);
	assert_true(is_zero(p, PAGE));
	fill(p, PAGE, 1);
	assert_true(is_filled(p, 20 * PAGE, 1));
	munmap(p, 20 * PAGE);
}

static void
test_overlapping(void **state)
{
	uint8_t *p = pages(100);
	struct one_mr a, b, c;

	fill(p, 100 * PAGE, 1);
	for (int round = 0; round < 20; round++) {
		size_t i = (size_t)round;

		a = reg(p + i * PAGE, 30 * PAGE);
		b = reg(p + (i + 20) * PAGE, 40 * PAGE);
		dereg(&a);
		c = reg(p, 100 * PAGE);
		assert_memory_equal(peer(&c), p, 100 * PAGE);
		peer(&c)[50 * PAGE] ^= 1;
		assert_int_equal(peer(&c)[50 * PAGE], p[50 * PAGE]);
		assert_memory_equal(peer(&b), p + (i + 20) * PAGE, 40 * PAGE);
		p[50 * PAGE] ^= 1;
		dereg(&b);
		dereg(&c);
		assert_true(is_filled(p, 100 * PAGE, 1));
	}
	/* Cached ranges in more pieces than a registration may have. */
	for (int i = 0; i < 40; i++) {
		a = reg(p + 2 * i * (int)PAGE, PAGE);
		dereg(&a);
	}
	a = reg(p, 100 * PAGE);
	assert_non_null(peer(&a));
	assert_memory_equal(peer(&a), p, 100 * PAGE);
	dereg(&a);
	assert_true(is_filled(p, 100 * PAGE, 1));
	munmap(p, 100 * PAGE);
}

static void
test_touched_while_registered(void **state)
{
	uint8_t *p = kept(64, 1);
	struct one_mr mr = reg(p, 64 * PAGE);

	munmap(p + 10 * PAGE, PAGE);
	dereg(&mr);
	assert_false(is_shared(p));
	assert_true(is_filled(p, 10 * PAGE, 1));
	assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
	assert_true(is_zero(p, PAGE));
	munmap(p, 64 * PAGE);
}

static void
test_quota(void **state)
{
	uint8_t *p = kept(64, 1), *q = pages(32);
	uint32_t removed = mock_count(fixture.mock, ONE_MSG_REGION_REMOVE);
	struct one_mr mr;

	mock_refuse(fixture.mock, ONE_MSG_REGION_ADD, -EDQUOT, ONE_SUBJECT_QUOTA, 1, 1);
	mr = reg(q, 32 * PAGE);
	assert_non_null(peer(&mr));
	assert_true(mock_count(fixture.mock, ONE_MSG_REGION_REMOVE) > removed);
	assert_false(is_shared(p));
	assert_true(is_filled(p, 64 * PAGE, 1));
	dereg(&mr);
	/* With nothing cached to give up, the refusal is an error. */
	assert_int_equal(madvise(q, PAGE, MADV_DONTNEED), 0);
	mock_refuse(fixture.mock, ONE_MSG_MR_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 1, 2);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, PAGE, ALL, &mr), -EDQUOT);
	munmap(p, 64 * PAGE);
	munmap(q, 32 * PAGE);
}

static void
test_limits(void **state)
{
	enum { COUNT = 80, LARGE = 3 << 20 };
	uint8_t *p[COUNT], *large[3];
	unsigned int still = 0;
	struct one_mr mr;

	for (int i = 0; i < COUNT; i++)
		p[i] = kept(1, (uint32_t)i);
	for (int i = 0; i < COUNT; i++) {
		assert_true(is_filled(p[i], PAGE, (uint32_t)i));
		still += is_shared(p[i]);
	}
	assert_in_range(still, 1, 64);
	assert_false(is_shared(p[0])); /* the oldest is evicted first */
	for (int i = 0; i < 3; i++)
		large[i] = kept(LARGE / PAGE, (uint32_t)i);
	assert_false(is_shared(large[0])); /* 9 MB exceed the limit */
	assert_true(is_shared(large[1]));
	assert_true(is_filled(large[0], LARGE, 0));
	for (int i = 0; i < 3; i++)
		munmap(large[i], LARGE);
	large[0] = pages(3 * LARGE / PAGE);
	mr = reg(large[0], 3 * LARGE);
	dereg(&mr);
	assert_false(is_shared(large[0]));
	munmap(large[0], 3 * LARGE);
	for (int i = 0; i < COUNT; i++)
		munmap(p[i], PAGE);
}

static void
test_locked(void **state)
{
	uint8_t *p = pages(4);
	struct one_mr mr;

	assert_int_equal(syscall(SYS_mlock, p, 4 * PAGE), 0); /* sanitizers disable mlock() */
	mr = reg(p, 4 * PAGE);
	dereg(&mr);
	assert_false(is_shared(p));
	munmap(p, 4 * PAGE);
}

static void
test_detach(void **state)
{
	struct one_client *other = attach();
	uint8_t *p = kept(32, 1);
	struct one_mr mr;

	assert_int_equal(one_mem_register(other, 0, (uintptr_t)p, 32 * PAGE, ALL, &mr), 0);
	assert_memory_equal(peer(&mr), p, 32 * PAGE);
	one_detach(other);
	assert_false(is_shared(p));
	assert_int_equal(adopted_mappings(), 0);
	assert_true(is_filled(p, 32 * PAGE, 1));
	munmap(p, 32 * PAGE);
}

/* A program closes descriptors that it does not know, among them the userfaultfds: nobody waits for missing
 * events. */
static void
test_guards_closed(void **state)
{
	uint8_t *p = kept(32, 1);
	struct one_mr mr;

	for (int fd = 3; fd < 256; fd++) {
		char path[32], name[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "userfaultfd") != NULL)
			close(fd);
	}
	mr = reg(p, 32 * PAGE);
	assert_memory_equal(peer(&mr), p, 32 * PAGE);
	dereg(&mr);
	assert_true(is_filled(p, 32 * PAGE, 1));
	assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
	munmap(p, 32 * PAGE);
	/* Other memory can be cached. */
	p = kept(32, 2);
	munmap(p, 32 * PAGE);
}

/* ---- allocators ---- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

static _Atomic uint32_t threads_made;

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	atomic_fetch_add(&threads_made, 1);
	return __real_pthread_create(thread, attr, run, arg);
}

#define STACK_PAGES 64u

/* Memory next to the thread's own stack is registered, cached, and registered again at another offset. */
static void *
register_beside(void *arg)
{
	uint8_t *beside = (uint8_t *)arg + STACK_PAGES * PAGE;
	struct one_mr mr = reg(beside, 2 * PAGE);

	assert_memory_equal(peer(&mr), beside, 2 * PAGE);
	dereg(&mr);
	mr = reg(beside + PAGE, 2 * PAGE);
	dereg(&mr);
	return NULL;
}

/* A helper thread replaces the pages that a thread runs on. The helper exists beforehand: creating it would
 * allocate, and the holder of the allocator's lock may wait for the keeper, which waits for this thread. */
static void
test_beside_a_stack(void **state)
{
	uint8_t *p = kept(32, 1), *area = pages(STACK_PAGES + 4);
	pthread_attr_t attr;
	pthread_t thread;
	uint32_t before = atomic_load(&threads_made);

	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, area, STACK_PAGES * PAGE), 0);
	assert_int_equal(pthread_create(&thread, &attr, register_beside, area), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	assert_int_equal(atomic_load(&threads_made), before + 1);
	munmap(area, (STACK_PAGES + 4) * PAGE);
	munmap(p, 32 * PAGE);
}

static uint32_t
next(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 8;
}

/* Blocks are allocated and freed, some registered in between. Memory from calloc is zero. */
static void *
allocate(void *arg)
{
	enum { COUNT = 32, ROUNDS = 600 };
	uint32_t random = (uint32_t)(uintptr_t)arg;
	uint8_t *p[COUNT] = {0};
	size_t len[COUNT] = {0};
	struct one_mr mr;

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t i = next(&random) % COUNT;

		if (p[i] != NULL && !is_filled(p[i], len[i], i))
			return "a block has changed";
		free(p[i]);
		if (next(&random) % 16 == 0)
			malloc_trim(0);
		len[i] = 1 + next(&random) % (next(&random) % 8 == 0 ? 600000 : 30000);
		p[i] = calloc(1, len[i]);
		if (!is_zero(p[i], len[i]))
			return "calloc gave old contents";
		fill(p[i], len[i], i);
		if (next(&random) % 2 != 0)
			continue;
		if (one_mem_register(fixture.client, 0, (uintptr_t)p[i], len[i], ALL, &mr) != 0 ||
		    one_mem_deregister(fixture.client, &mr) != 0)
			return "cannot register";
	}
	for (int i = 0; i < COUNT; i++)
		free(p[i]);
	return NULL;
}

static void
test_cleared(void **state)
{
	pthread_t thread[3];
	void *wrong;

	/* The first arena uses brk, the others mmap. */
	wrong = allocate((void *)1ul);
	assert_string_equal(wrong != NULL ? wrong : "", "");
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, allocate, (void *)(i + 2));
	for (int i = 0; i < 3; i++) {
		pthread_join(thread[i], &wrong);
		assert_string_equal(wrong != NULL ? wrong : "", "");
	}
}

/* Allocate in threads while another one forks: no deadlock. */
static void
test_cleared_while_forking(void **state)
{
	pthread_t thread[2];
	void *wrong;

	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, allocate, (void *)(i + 7));
	for (int i = 0; i < 30; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			free(calloc(1, 100000));
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], &wrong);
		assert_string_equal(wrong != NULL ? wrong : "", "");
	}
}

/* ---- concurrent stores ---- */

struct storer {
	_Atomic uint64_t *slot;
	_Atomic bool stop;
	uint64_t stored;
};

static void *
store(void *arg)
{
	struct storer *storer = arg;

	while (!atomic_load(&storer->stop)) {
		for (int i = 0; i < 64; i++)
			atomic_fetch_add(&storer->slot[i * 512], 1);
		storer->stored++;
	}
	return NULL;
}

static void
test_stores_meanwhile(void **state)
{
	uint8_t *p = pages(128);
	struct storer storer = {.slot = (_Atomic uint64_t *)(void *)p};
	pthread_t thread;
	struct one_mr mr;

	pthread_create(&thread, NULL, store, &storer);
	for (int i = 0; i < 300; i++) {
		mr = reg(p, 128 * PAGE);
		dereg(&mr);
		if (i % 3 == 0)
			assert_int_equal(madvise(p + 100 * PAGE, PAGE, MADV_DONTNEED), 0);
		sched_yield();
	}
	atomic_store(&storer.stop, true);
	pthread_join(thread, NULL);
	for (int i = 0; i < 64; i++)
		assert_int_equal(storer.slot[i * 512], storer.stored);
	munmap(p, 128 * PAGE);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_small_too, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dontneed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_advice, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_at_its_address, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lengthened, setup, teardown),
		cmocka_unit_test_setup_teardown(test_oldest_of_a_range, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reallocated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
		cmocka_unit_test_setup_teardown(test_protection, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overlapping, setup, teardown),
		cmocka_unit_test_setup_teardown(test_touched_while_registered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_locked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_detach, setup, teardown),
		cmocka_unit_test_setup_teardown(test_guards_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_beside_a_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cleared, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cleared_while_forking, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stores_meanwhile, setup, teardown),
	};

	setenv("ONESIDE_REGISTRATION_CACHE", LIMIT, 1);
	restrict_program(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
