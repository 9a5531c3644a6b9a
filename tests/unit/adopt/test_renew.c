/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory registered again with the same parameters gets a new key for its cached registration, whose old key
 * the polling core has revoked. Whatever evicts the cached range also ends its cached registrations. */
#include "client/adopt/range_cache.h"
#include "client/adopt/ranges.h"
#include "client/internal.h"
#include "common.h"

static uint32_t
created(void)
{
	return mock_count(fixture.mock, ONE_MSG_MR_CREATE);
}

static uint32_t
freed(void)
{
	return mock_count(fixture.mock, ONE_MSG_MR_FREE);
}

/* Register and deregister. */
static struct one_mr
cached(void *p, size_t len)
{
	struct one_mr mr = reg(p, len), copy = mr;

	dereg(&mr);
	return copy;
}

static void
test_keys(void **state)
{
	uint8_t *p = pages(30);
	struct one_mr mr = cached(p + 3, 100), again;
	uint32_t before = created(), last = mr.lkey;

	for (uint32_t i = 0; i < 50; i++) {
		assert_int_equal(mock_mr_of_key(fixture.mock, last), 0);
		again = reg(p + 3, 100);
		assert_int_equal(again.id, mr.id);
		assert_int_equal(again.va, (uintptr_t)p + 3);
		assert_int_equal(again.length, 100);
		assert_int_equal(again.rkey, again.lkey);
		assert_int_not_equal(again.lkey, last);
		assert_int_equal((again.lkey ^ last) & ONE_KEY_SLOT, 0);
		assert_int_equal(mock_mr_of_key(fixture.mock, again.lkey), mr.id);
		assert_int_equal(mock_mr_of_key(fixture.mock, last), 0);
		peer(&again)[0] = (uint8_t)i;
		assert_int_equal(p[3], i);
		last = again.lkey;
		dereg(&again);
	}
	assert_int_equal(created(), before);
	assert_int_equal(freed(), 0);
	assert_int_equal(mock_renewed(fixture.mock), 50);
	assert_int_equal(mock_revoked(fixture.mock), 51);
	munmap(p, 30 * PAGE);
}

/* The cached registration is renewed even while others hold the range. Each holder has a registration of its
 * own. */
static void
test_at_once(void **state)
{
	uint8_t *p = pages(8);
	struct one_mr a = cached(p, 8 * PAGE), b;

	a = reg(p, 8 * PAGE);
	b = reg(p, 8 * PAGE);
	assert_int_not_equal(a.id, b.id);
	dereg(&a);
	a = reg(p, 8 * PAGE);
	dereg(&b);
	b = reg(p, 8 * PAGE);
	assert_int_not_equal(a.id, b.id);
	assert_int_equal(created(), 2);
	dereg(&a);
	dereg(&b);
	munmap(p, 8 * PAGE);
}

static struct one_mr
registered(uint32_t pz, void *p, size_t len, uint64_t iova, uint32_t access)
{
	struct one_mr mr;

	assert_int_equal(one_mem_register_iova(fixture.client, pz, (uintptr_t)p, len, iova, access, &mr), 0);
	return mr;
}

static void
test_only_what_is_alike(void **state)
{
	uint8_t *p = pages(30);
	uintptr_t va = (uintptr_t)p;
	struct one_mr mr = registered(1, p, 100, va, ALL), other;
	const struct {
		uint32_t pz, access;
		uint64_t at, len, shift;
	} unlike[] = {
		{2, ALL, 0, 100, 0},    {1, ONE_ACCESS_LOCAL_READ, 0, 100, 0},
		{1, ALL, 1, 100, 0},    {1, ALL, 0, 101, 0},
		{1, ALL, 0, 99, 0},     {1, ALL, 0, 100, PAGE},
		{1, ALL, PAGE, 100, 0},
	};

	dereg(&mr);
	for (size_t i = 0; i < sizeof(unlike) / sizeof(unlike[0]); i++) {
		other = registered(unlike[i].pz, p + unlike[i].at, unlike[i].len,
				   va + unlike[i].at + unlike[i].shift, unlike[i].access);
		assert_int_equal(created(), 2 + i);
		assert_int_not_equal(other.id, mr.id);
		dereg(&other);
	}
	/* Without remote rights there is no remote key, after a renewal neither. */
	other = registered(1, p, 100, va, ONE_ACCESS_LOCAL_READ);
	assert_int_equal(other.rkey, 0);
	assert_int_not_equal(other.lkey, 0);
	dereg(&other);
	other = registered(1, p, 100, va, ALL);
	assert_int_equal(other.id, mr.id);
	dereg(&other);
	munmap(p, 30 * PAGE);
}

/* The range has ended: its registration is not found any more. */
static void
assert_gone(uint8_t *p, const struct one_mr *mr)
{
	uint32_t before = created();
	struct one_mr next = reg(p, 20 * PAGE);

	assert_int_equal(created(), before + 1);
	assert_int_not_equal(next.id, mr->id);
	assert_memory_equal(peer(&next), p, 20 * PAGE);
	dereg(&next);
	munmap(p, 20 * PAGE);
}

static void
test_ends_with_its_range(void **state)
{
	uint8_t *p = pages(20), *q;
	struct one_mr mr = cached(p, 20 * PAGE);
	pid_t pid;

	assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
	assert_gone(p, &mr);

	p = pages(20);
	mr = cached(p, 20 * PAGE);
	munmap(p, 20 * PAGE);
	q = mmap(p, 20 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0);
	assert_ptr_equal(p, q);
	assert_gone(p, &mr);

	p = pages(20);
	mr = cached(p, 20 * PAGE);
	p = mremap(p, 20 * PAGE, 20 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, pages(20));
	assert_true(p != MAP_FAILED);
	assert_gone(p, &mr);

	p = pages(20);
	mr = cached(p, 20 * PAGE);
	pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	assert_gone(p, &mr);
}

/* The data plane is notified of ended registrations in time, whatever ended them. */
static void
test_few_are_left(void **state)
{
	for (uint32_t i = 0; i < 200; i++) {
		uint8_t *p = pages(20);

		cached(p, 20 * PAGE);
		cached(p + PAGE, PAGE);
		munmap(p, 20 * PAGE);
		assert_true(created() - freed() <= 20);
	}
}

static void
test_rights_are_asked_for(void **state)
{
	uint8_t *p = pages(20);
	struct one_mr mr = cached(p, 20 * PAGE);

	assert_int_equal(mprotect(p + 19 * PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 20 * PAGE, ALL, &mr), -EFAULT);
	for (int prot = PROT_NONE; prot <= PROT_WRITE; prot++) {
		assert_int_equal(mprotect(p, 20 * PAGE, prot), 0);
		assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 20 * PAGE, ALL, &mr),
				 -EFAULT);
	}
	assert_int_equal(mprotect(p, 20 * PAGE, PROT_READ | PROT_WRITE), 0);
	mr = reg(p, 20 * PAGE);
	assert_int_equal(created(), 1);
	dereg(&mr);
	munmap(p, 20 * PAGE);
}

/* A second thread changes a cached range while the keeper is blocked. */
static struct {
	uint8_t *p;
	_Atomic bool unmaps;
	_Atomic bool over;
} other_thread;

static void *
disturb(void *arg)
{
	if (atomic_load(&other_thread.unmaps))
		munmap(other_thread.p, 20 * PAGE);
	else
		madvise(other_thread.p, PAGE, MADV_DONTNEED);
	atomic_store(&other_thread.over, true);
	return NULL;
}

static void
disturbed(bool unmaps)
{
	uint8_t *p = pages(20);
	struct one_mr mr = cached(p, 20 * PAGE);
	const struct cached_mr like = {
		.client = fixture.client, .va = (uintptr_t)p, .length = 20 * PAGE, .access = ALL};
	const struct range *range;
	pthread_t thread;

	ranges_lock();
	range = mr_cache_find(&like)->range;
	assert_true(range_cache_intact(range, true));
	other_thread.p = p;
	atomic_store(&other_thread.unmaps, unmaps);
	atomic_store(&other_thread.over, false);
	assert_int_equal(pthread_create(&thread, NULL, disturb, NULL), 0);
	while (range_cache_intact(range, true))
		usleep(100);
	assert_false(atomic_load(&other_thread.over));
	if (unmaps)
		assert_ptr_equal(mmap(p, 20 * PAGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
				 p);
	assert_false(range_cache_intact(range, true));
	ranges_unlock();
	pthread_join(thread, NULL);
	assert_gone(p, &mr);
}

static void
test_disturbed(void **state)
{
	disturbed(false);
	disturbed(true);
}

/* The range is changed while another registration holds it: the guard's report is not lost. */
static void
test_touched_while_held(void **state)
{
	uint8_t *p = pages(20);
	struct one_mr held, mr;

	cached(p, 20 * PAGE);
	held = reg(p, 10 * PAGE);
	mr = reg(p, 20 * PAGE);
	assert_int_equal(created(), 2);
	dereg(&mr);
	assert_int_equal(madvise(p + 15 * PAGE, PAGE, MADV_DONTNEED), 0);
	mr = reg(p, 20 * PAGE);
	assert_memory_equal(peer(&mr), p, 20 * PAGE);
	dereg(&mr);
	dereg(&held);
	assert_false(is_shared(p));
	munmap(p, 20 * PAGE);
}

static bool
zone_is_empty(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	      struct one_reply *reply, void *user)
{
	*(uint32_t *)user = mock_count(mock, ONE_MSG_MR_FREE);
	return true;
}

static void
test_zone(void **state)
{
	uint8_t *p = pages(20);
	uint32_t freed_before = 0;
	struct one_mr in = registered(7, p, 100, (uintptr_t)p, ALL), out;

	dereg(&in);
	out = registered(8, p, 100, (uintptr_t)p, ALL);
	dereg(&out);
	mock_on(fixture.mock, ONE_MSG_PZ_FREE, zone_is_empty, &freed_before);
	assert_int_equal(one_pz_free(fixture.client, 7), 0);
	assert_int_equal(freed_before, 1);
	in = registered(8, p, 100, (uintptr_t)p, ALL);
	assert_int_equal(in.id, out.id);
	dereg(&in);
	munmap(p, 20 * PAGE);
}

/* The data plane has reclaimed cached memory: the memory is registered anew, and no stale id is reused. */
static void
test_reclaimed(void **state)
{
	uint8_t *p = pages(8), *q = pages(8);
	struct one_mr mr = cached(p, 8 * PAGE), again;
	uint32_t regions = mock_count(fixture.mock, ONE_MSG_REGION_ADD);
	uint32_t removed = mock_count(fixture.mock, ONE_MSG_REGION_REMOVE);

	mock_refuse_keys(fixture.mock, true);
	mock_refuse(fixture.mock, ONE_MSG_MR_CREATE, -EINVAL, ONE_SUBJECT_REGION, 1, 1);
	again = reg(p, 8 * PAGE);
	assert_int_not_equal(again.id, mr.id);
	assert_int_equal(mock_count(fixture.mock, ONE_MSG_REGION_ADD), regions + 1);
	assert_int_equal(mock_count(fixture.mock, ONE_MSG_REGION_REMOVE), removed + 1);
	peer(&again)[5] = 77;
	assert_int_equal(p[5], 77);
	mock_refuse_keys(fixture.mock, false);
	dereg(&again);
	/* The counter alone causes the eviction, before other memory is registered. */
	atomic_fetch_add(&fixture.client->header->reclaimed, 1);
	again = reg(q, 8 * PAGE);
	assert_false(is_shared(p));
	assert_int_equal(mock_count(fixture.mock, ONE_MSG_REGION_REMOVE), removed + 2);
	dereg(&again);
	munmap(p, 8 * PAGE);
	munmap(q, 8 * PAGE);
}

static void
test_refused(void **state)
{
	uint8_t *p = pages(20);
	struct one_mr mr = reg(p, 20 * PAGE), again;

	mock_refuse_keys(fixture.mock, true);
	dereg(&mr); /* by the control thread */
	assert_int_equal(freed(), 1);
	mr = reg(p, 20 * PAGE);
	assert_int_equal(created(), 2);
	mock_refuse_keys(fixture.mock, false);
	dereg(&mr);
	assert_int_equal(freed(), 1);
	mock_refuse_keys(fixture.mock, true);
	again = reg(p, 20 * PAGE);
	assert_int_equal(freed(), 2);
	assert_int_equal(created(), 3);
	assert_int_not_equal(again.id, mr.id);
	mock_refuse_keys(fixture.mock, false);
	dereg(&again);
	munmap(p, 20 * PAGE);
}

/* At most MR_CACHE_MAX registrations are cached. The ones cached first are freed, 16 at a time. */
static void
test_limit(void **state)
{
	enum { MAX = 64, MORE = 20, AT_ONCE = 16 };
	uint8_t *p = pages(20);
	struct one_mr mr[MAX + MORE], again;

	for (uint32_t i = 0; i < MAX + MORE; i++)
		mr[i] = cached(p, 1 + i);
	assert_int_equal(freed(), AT_ONCE);
	for (uint32_t i = MORE; i < MAX + MORE; i++) {
		again = reg(p, 1 + i);
		assert_int_equal(again.id, mr[i].id);
		dereg(&again);
	}
	assert_int_equal(created(), MAX + MORE);
	again = reg(p, 1);
	assert_int_equal(created(), MAX + MORE + 1);
	dereg(&again);
	munmap(p, 20 * PAGE);
}

/* Cached registrations count toward the data plane's quota. */
static void
test_quota(void **state)
{
	uint8_t *p = pages(20), *q = pages(20);
	struct one_mr held = reg(p, 20 * PAGE), other;

	cached(p, PAGE);
	mock_refuse(fixture.mock, ONE_MSG_MR_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 1, 1);
	other = reg(q, 20 * PAGE);
	assert_int_equal(freed(), 1);
	dereg(&other);
	dereg(&held);
	munmap(p, 20 * PAGE);
	munmap(q, 20 * PAGE);
}

static void
test_attachments(void **state)
{
	struct one_client *other = attach();
	uint8_t *p = pages(20);
	struct one_mr mr = cached(p, 20 * PAGE), theirs;

	assert_int_equal(one_mem_register(other, 0, (uintptr_t)p, 20 * PAGE, ALL, &theirs), 0);
	assert_int_not_equal(theirs.id, mr.id);
	assert_int_equal(one_mem_deregister(other, &theirs), 0);
	one_detach(other);
	assert_int_equal(freed(), 2);
	assert_false(is_shared(p));
	mr = reg(p, 20 * PAGE);
	assert_memory_equal(peer(&mr), p, 20 * PAGE);
	dereg(&mr);
	munmap(p, 20 * PAGE);
}

static void *
deregister(void *arg)
{
	return (void *)(intptr_t)one_mem_deregister(fixture.client, arg);
}

/* The data plane dies: a thread that waits for the core returns. */
static void
test_data_plane_ends(void **state)
{
	uint8_t *p = pages(20), *q = pages(20);
	struct one_mr mr = reg(p, 20 * PAGE), other;
	pthread_t thread;
	void *error;

	cached(q, 20 * PAGE);
	mock_sleep(fixture.mock, false); /* hence the core is not woken */
	assert_int_equal(pthread_create(&thread, NULL, deregister, &mr), 0);
	usleep(20000);
	mock_kill(fixture.mock);
	pthread_join(thread, &error);
	assert_int_equal((intptr_t)error, -ECONNRESET);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)q, 20 * PAGE, ALL, &other),
			 -ECONNRESET);
	munmap(p, 20 * PAGE);
	munmap(q, 20 * PAGE);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_what_is_alike, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ends_with_its_range, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_are_left, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rights_are_asked_for, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disturbed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_touched_while_held, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reclaimed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
		cmocka_unit_test_setup_teardown(test_attachments, setup, teardown),
		cmocka_unit_test_setup_teardown(test_data_plane_ends, setup, teardown),
	};

	setenv("ONESIDE_REGISTRATION_CACHE", "64M", 1);
	restrict_program(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
