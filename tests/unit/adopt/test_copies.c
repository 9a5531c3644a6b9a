/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy thread: its start when first needed, its answers to the test in place of a data plane, and its
 * end. */
#include <sys/wait.h>

#include "common.h"
#include "dataplane/mem/channel.h"

#define LEN 3000u

/* Make request number `n` of the newest attachment. */
static void
ask(uint32_t n, enum one_copy_op op, const void *at, uint32_t len)
{
	struct one_copies *copies = mock_copies(fixture.mock);
	struct one_copy_request *request = &copies->request[n % ONE_COPIES];

	request->span[0] = (struct one_copy_span){(uintptr_t)at, len, 0};
	request->sequence = n;
	request->slot = n % ONE_COPIES;
	request->op = (uint8_t)op;
	request->num_spans = 1;
	/* Pairs with the acquire load of the copy thread. */
	atomic_store_explicit(&request->phase, one_ring_phase(n, ONE_COPY_LOG2), memory_order_release);
	channel_signal(&copies->wake, 1);
}

static bool
is_answered(uint32_t n)
{
	/* Pairs with the release store of the copy thread. */
	return atomic_load_explicit(&mock_copies(fixture.mock)->answer[n % ONE_COPIES].phase,
				    memory_order_acquire) == one_ring_phase(n, ONE_COPY_LOG2);
}

static uint32_t
await(uint32_t n)
{
	while (!is_answered(n))
		sched_yield();
	assert_int_equal(mock_copies(fixture.mock)->answer[n % ONE_COPIES].sequence, n);
	return mock_copies(fixture.mock)->answer[n % ONE_COPIES].error;
}

static void
test_serves(void **state)
{
	uint8_t stack[LEN + 2], *slot;
	struct one_mr mr = reg(stack + 1, LEN), again = reg(stack, LEN);

	assert_int_equal(pieces(&mr), 0);
	assert_int_equal(mock_count(fixture.mock, ONE_MSG_COPIES), 1);
	memset(stack, 7, sizeof(stack));
	/* More requests than the ring has slots. */
	for (uint32_t n = 0; n < 3 * ONE_COPIES; n += 2) {
		slot = mock_copies(fixture.mock)->slot[n % ONE_COPIES];
		fill(slot, LEN, n);
		ask(n, ONE_COPY_IN, stack + 1, LEN);
		assert_int_equal(await(n), 0);
		assert_true(is_filled(stack + 1, LEN, n));
		ask(n + 1, ONE_COPY_OUT, stack + 1, LEN);
		assert_int_equal(await(n + 1), 0);
		assert_true(is_filled(mock_copies(fixture.mock)->slot[(n + 1) % ONE_COPIES], LEN, n));
	}
	assert_int_equal(stack[0], 7);
	assert_int_equal(stack[LEN + 1], 7);
	ask(3 * ONE_COPIES, ONE_COPY_IN, (void *)16, 8);
	assert_int_equal(await(3 * ONE_COPIES), EFAULT);
	dereg(&again);
	dereg(&mr);
}

static void
assert_refused(uint32_t *n, enum one_copy_op op, const void *at, uint32_t len)
{
	ask(*n, op, at, len);
	assert_int_equal(await(*n), EFAULT);
	(*n)++;
}

/* A data plane that requests other memory of the process can neither read nor change it. */
static void
test_only_what_is_registered(void **state)
{
	uint64_t stack[LEN / 8], around[2] = {5, 6};
	const uint8_t *end = (const uint8_t *)&stack[100];
	struct one_mr mr = reg(&stack[1], 792), readable;
	uint32_t n = 0;

	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)around, sizeof(around),
					  ONE_ACCESS_LOCAL_READ, &readable),
			 0);
	memset(stack, 7, sizeof(stack));
	ask(n, ONE_COPY_IN, end - 8, 8);
	assert_int_equal(await(n++), 0);
	assert_int_equal(stack[99], 0);
	assert_refused(&n, ONE_COPY_IN, end - 7, 8);
	assert_refused(&n, ONE_COPY_OUT, end, 1);
	assert_refused(&n, ONE_COPY_OUT, (const uint8_t *)&stack[1] - 1, 8);
	assert_refused(&n, ONE_COPY_IN, &stack[100], 8);
	assert_refused(&n, ONE_COPY_FETCH_ADD, &stack[100], 8);
	assert_refused(&n, ONE_COPY_CMP_SWAP, &stack[100], 8);
	assert_refused(&n, ONE_COPY_IN, around, 8);
	assert_refused(&n, ONE_COPY_FETCH_ADD, around, 8);
	ask(n, ONE_COPY_OUT, around, 8);
	assert_int_equal(await(n++), 0);
	dereg(&mr);
	assert_refused(&n, ONE_COPY_OUT, &stack[1], 8);
	for (uint32_t i = 100; i < LEN / 8; i++)
		assert_int_equal(stack[i], 0x0707070707070707);
	assert_int_equal(around[0], 5);
	dereg(&readable);
}

struct churn {
	uint8_t *p;
	atomic_bool stop;
	uint32_t rounds;
};

/* Pages are replaced and restored continuously. */
static void *
replace_pages(void *argument)
{
	struct churn *churn = argument;

	while (!atomic_load(&churn->stop)) {
		struct one_mr mr = reg(churn->p, 8 * PAGE);

		dereg(&mr);
		churn->rounds++;
	}
	return NULL;
}

/* Memory is subject to bounced access by one registration and adopted by another: no access is refused
 * meanwhile. */
static void
test_while_pages_move(void **state)
{
	uint8_t *all = mmap(NULL, 9 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct churn churn = {.p = all};
	uint32_t last = 200, n;
	pthread_t thread;
	struct one_mr mr;

	/* The last page cannot be shared. */
	assert_ptr_equal(
		mmap(all, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		all);
	mr = reg(all, 9 * PAGE);
	assert_int_equal(pieces(&mr), 0);
	assert_int_equal(pthread_create(&thread, NULL, replace_pages, &churn), 0);
	for (n = 0; n < last || churn.rounds < 50; n++) {
		fill(mock_copies(fixture.mock)->slot[n % ONE_COPIES], 8 * PAGE, n);
		ask(n, ONE_COPY_IN, all, 8 * PAGE);
		assert_int_equal(await(n), 0);
		assert_true(is_filled(all, 8 * PAGE, n));
	}
	atomic_store(&churn.stop, true);
	pthread_join(thread, NULL);
	dereg(&mr);
	munmap(all, 9 * PAGE);
}

/* The eventfd is signalled only if the core sleeps. */
static void
test_wakes_the_core(void **state)
{
	uint8_t stack[LEN];
	struct one_mr mr;

	one_detach(fixture.client);
	mock_welcome(fixture.mock)->idle = ONE_IDLE_SLEEP;
	fixture.client = attach();
	mr = reg(stack, LEN);
	ask(0, ONE_COPY_OUT, stack, 8);
	assert_int_equal(await(0), 0);
	assert_int_equal(mock_woken(fixture.mock), 0);
	mock_sleep(fixture.mock, true);
	ask(1, ONE_COPY_OUT, stack, 8);
	assert_int_equal(await(1), 0);
	/* The signal follows the answer. */
	while (mock_woken(fixture.mock) == 0)
		sched_yield();
	dereg(&mr);
}

static void
test_refused(void **state)
{
	uint8_t stack[LEN];
	struct one_mr mr;

	mock_refuse(fixture.mock, ONE_MSG_COPIES, -EOPNOTSUPP, ONE_SUBJECT_MEMORY, 0, 1);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)stack, LEN, ALL, &mr), -EOPNOTSUPP);
	mr = reg(stack, LEN);
	dereg(&mr);
}

static void
test_detach_ends_it(void **state)
{
	uint8_t stack[LEN];

	await_threads(3); /* the main thread, the mock's, and the watcher of data planes */
	reg(stack, LEN);
	await_threads(4);
	one_detach(fixture.client);
	await_threads(2);
	fixture.client = attach();
}

/* A request of a data plane that has died is not carried out after the end of the registration. */
static void
test_data_plane_dies(void **state)
{
	uint8_t stack[LEN];
	struct one_mr mr = reg(stack, LEN);
	struct one_copies *copies = mock_copies(fixture.mock);
	void *kept = mremap((void *)((uintptr_t)copies & ~(uintptr_t)(PAGE - 1)), 0, sizeof(*copies),
			    MREMAP_MAYMOVE);

	assert_ptr_not_equal(kept, MAP_FAILED);
	memset(stack, 1, LEN);
	mock_kill(fixture.mock);
	assert_int_equal(one_mem_deregister(fixture.client, &mr), -ECONNRESET);
	copies = kept;
	copies->request[0].span[0] = (struct one_copy_span){(uintptr_t)stack, 8, 0};
	copies->request[0].op = ONE_COPY_IN;
	copies->request[0].num_spans = 1;
	atomic_store(&copies->request[0].phase, 1);
	channel_signal(&copies->wake, 1);
	usleep(20000);
	assert_int_equal(stack[0], 1);
	assert_int_equal(atomic_load(&copies->answer[0].phase), 0);
	munmap(kept, sizeof(*copies));
}

static int
child(bool denied)
{
	const struct denial copy[] = {{SYS_process_vm_writev, 0, 0, 0, EPERM}};
	const struct one_attach args = {.kind = ONE_KIND_DAT};
	struct one_client *client;
	uint8_t stack[LEN];
	struct one_mr mr;
	int error;

	if (denied)
		deny(copy, 1);
	if (one_attach(&args, &client) != 0)
		return 1;
	error = one_mem_register(client, 0, (uintptr_t)stack, LEN, ALL, &mr);
	if (error != (denied ? -EPERM : 0))
		return 2;
	if (!denied && one_mem_deregister(client, &mr) != 0)
		return 3;
	one_detach(client);
	return 0;
}

/* A child does not inherit its parent's copy thread, may have one of its own, and does not disturb the
 * parent's. If a sandbox forbids these copies, registering fails. */
static void
test_children(void **state)
{
	uint8_t stack[LEN];
	struct one_mr mr = reg(stack, LEN);

	for (int denied = 0; denied < 2; denied++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			_exit(one_mem_deregister(fixture.client, &mr) == -ECHILD ? child(denied != 0) : 9);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	/* Wait until the newest attachment is the parent's again. */
	while (mock_attached(fixture.mock) > 1)
		sched_yield();
	fill(stack, LEN, 5);
	ask(0, ONE_COPY_OUT, stack, LEN);
	assert_int_equal(await(0), 0);
	assert_true(is_filled(mock_copies(fixture.mock)->slot[0], LEN, 5));
	dereg(&mr);
}

int
main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_serves),           T(test_only_what_is_registered),
		T(test_wakes_the_core),   T(test_refused),
		T(test_detach_ends_it),   T(test_data_plane_dies),
		T(test_while_pages_move), T(test_children),
	};

	renewing = false; /* no memory here is renewable, and the core must not sleep */
	restrict_program(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
