/* SPDX-License-Identifier: BSD-3-Clause */
/* Consumer notification objects: triggers, waiting, agents. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fixture.h"
#include "tests/asleep.h"

struct bench {
	struct fixture *f;
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE a, b; /* software EVDs of the CNO */
};

static struct bench
set_up(void **state)
{
	struct bench b = {.f = *state};

	assert_ok(dat_cno_create(b.f->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &b.cno));
	assert_ok(dat_evd_create(b.f->ia, 8, b.cno, DAT_EVD_SOFTWARE_FLAG, &b.a));
	assert_ok(dat_evd_create(b.f->ia, 8, b.cno, DAT_EVD_SOFTWARE_FLAG, &b.b));
	return b;
}

static void
expect_trigger(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE expected)
{
	DAT_EVD_HANDLE evd = (DAT_EVD_HANDLE)0x5;

	assert_ok(dat_cno_wait(cno, timeout, &evd));
	assert_ptr_equal(evd, expected);
}

static void
expect_none(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout)
{
	DAT_EVD_HANDLE evd = (DAT_EVD_HANDLE)0x5;

	assert_int_equal(dat_cno_wait(cno, timeout, &evd), DAT_QUEUE_EMPTY);
	assert_null(evd);
}

static void
errors(void **state)
{
	struct fixture *f = *state;
	DAT_OS_WAIT_PROXY_AGENT halfway = {.instance_data = f};
	DAT_CNO_HANDLE cno, freed;
	DAT_EVD_HANDLE evd;
	DAT_CNO_PARAM param;

	assert_ret(dat_cno_create(f->pz, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno), BAD_HANDLE(IA));
	assert_ret(dat_cno_create(f->ia, halfway, &cno), BAD_ARG(2));
	assert_ret(dat_cno_create(f->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, NULL), BAD_ARG(3));
	assert_ok(dat_cno_create(f->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &freed));
	assert_ok(dat_cno_free(freed));
	for (size_t i = 0; i < num_not_handles + 3; i++) {
		DAT_HANDLE h = i < num_not_handles        ? not_handles[i]
			       : i == num_not_handles     ? f->ia
			       : i == num_not_handles + 1 ? f->dto
							  : freed;

		assert_ret(dat_cno_query(h, DAT_CNO_FIELD_ALL, &param), BAD_HANDLE(CNO));
		assert_ret(dat_cno_modify_agent(h, DAT_OS_WAIT_PROXY_AGENT_NULL), BAD_HANDLE(CNO));
		assert_ret(dat_cno_wait(h, 0, &evd), BAD_HANDLE(CNO));
		assert_ret(dat_cno_free(h), BAD_HANDLE(CNO));
	}
	assert_ok(dat_cno_create(f->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	assert_ret(dat_cno_query(cno, DAT_CNO_FIELD_ALL, NULL), BAD_ARG(3));
	assert_ret(dat_cno_wait(cno, 0, NULL), BAD_ARG(3));
	assert_ret(dat_cno_modify_agent(cno, halfway), BAD_ARG(2));
	assert_ok(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param));
	assert_ptr_equal(param.ia_handle, f->ia);
	assert_true(param.agent.proxy_agent_func == NULL);
}

static void
triggers(void **state)
{
	struct bench b = set_up(state);

	expect_none(b.cno, 0);
	expect_none(b.cno, 3000);
	/* Without a waiter, triggers are remembered, one for each event. */
	post_software(b.a, 1);
	post_software(b.a, 2);
	expect_trigger(b.cno, 0, b.a);
	expect_trigger(b.cno, 0, b.a);
	expect_none(b.cno, 0);
	post_software(b.a, 3);
	expect_trigger(b.cno, DAT_TIMEOUT_INFINITE, b.a);
	/* Events dequeued without their triggers leave no stale trigger. */
	post_software(b.a, 4);
	for (int i = 0; i < 4; i++)
		take(b.a);
	expect_none(b.cno, 0);
	/* The EVD whose event arrived first triggers first. */
	post_software(b.a, 1);
	post_software(b.b, 1);
	expect_trigger(b.cno, 0, b.a);
	post_software(b.a, 2);
	expect_trigger(b.cno, 0, b.b);
	expect_trigger(b.cno, 0, b.a);
	expect_none(b.cno, 0);
}

/* A consumer that takes one event for each trigger gets all events, in order of arrival. */
static void
one_by_one(void **state)
{
	struct bench b = set_up(state);
	const DAT_EVD_HANDLE order[] = {b.a, b.a, b.b, b.a, b.b, b.b};

	for (size_t i = 0; i < 6; i++)
		post_software(order[i], i);
	for (size_t i = 0; i < 6; i++) {
		expect_trigger(b.cno, 0, order[i]);
		take(order[i]);
	}
	expect_none(b.cno, 0);
	/* An event dequeued without its trigger has none any more; the others keep theirs. */
	post_software(b.a, 1);
	post_software(b.a, 2);
	post_software(b.a, 3);
	take(b.a);
	expect_trigger(b.cno, 0, b.a);
	expect_trigger(b.cno, 0, b.a);
	expect_none(b.cno, 0);
	take(b.a);
	take(b.a);
	/* An event that arrives after all were dequeued under one trigger has a trigger. */
	post_software(b.a, 1);
	post_software(b.a, 2);
	expect_trigger(b.cno, 0, b.a);
	take(b.a);
	take(b.a);
	post_software(b.a, 3);
	expect_trigger(b.cno, 0, b.a);
	expect_none(b.cno, 0);
}

static void
switches(void **state)
{
	struct bench b = set_up(state);

	assert_ok(dat_evd_disable(b.a));
	post_software(b.a, 1);
	expect_none(b.cno, 0);
	assert_ok(dat_evd_enable(b.a));
	expect_none(b.cno, 0); /* no trigger for queued events */
	post_software(b.a, 2);
	expect_trigger(b.cno, 0, b.a);
	/* Unwaitable EVDs still trigger. */
	assert_ok(dat_evd_set_unwaitable(b.a));
	post_software(b.a, 3);
	expect_trigger(b.cno, 0, b.a);
	/* An EVD can leave its CNO, and come back. */
	assert_ok(dat_evd_modify_cno(b.a, DAT_HANDLE_NULL));
	post_software(b.a, 4);
	expect_none(b.cno, 0);
	assert_ok(dat_evd_modify_cno(b.a, b.cno));
	expect_none(b.cno, 0);
	post_software(b.a, 5);
	expect_trigger(b.cno, 0, b.a);
}

struct waiter {
	pthread_t thread;
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd;
	DAT_RETURN ret;
	_Atomic pid_t tid;
	_Atomic int done;
};

static void *
wait_main(void *arg)
{
	struct waiter *w = arg;

	w->tid = (pid_t)syscall(SYS_gettid);
	w->ret = dat_cno_wait(w->cno, DAT_TIMEOUT_INFINITE, &w->evd);
	w->done = 1;
	return NULL;
}

static void
start(struct waiter *w, DAT_CNO_HANDLE cno)
{
	memset(w, 0, sizeof(*w));
	w->cno = cno;
	w->evd = (DAT_EVD_HANDLE)0x5;
	assert_int_equal(pthread_create(&w->thread, NULL, wait_main, w), 0);
	await_asleep(&w->tid);
	assert_int_equal(w->done, 0);
}

static void
wakes_a_waiter(void **state)
{
	struct bench b = set_up(state);
	DAT_EVD_HANDLE evd;
	DAT_EP_HANDLE ep;
	struct waiter w;
	uint32_t qp;

	start(&w, b.cno);
	assert_ret(dat_cno_free(b.cno), BAD_STATE(CNO_IN_USE));
	post_software(b.b, 1);
	pthread_join(w.thread, NULL);
	assert_ret(w.ret, DAT_SUCCESS);
	assert_ptr_equal(w.evd, b.b);
	/* Woken by a completion, on an EVD that joined the CNO while the thread slept. */
	start(&w, b.cno);
	assert_ok(dat_evd_create(b.f->ia, 8, b.cno, DAT_EVD_DTO_FLAG, &evd));
	assert_ok(dat_ep_create(b.f->ia, b.f->pz, b.f->recv, evd, b.f->conn, NULL, &ep));
	qp = mock_newest(b.f->mock, ONE_MSG_QP_CREATE);
	complete(b.f, qp, 1, ONE_WQE_UNSIGNALED);
	usleep(20000);
	assert_int_equal(w.done, 0); /* no notification */
	complete(b.f, qp, 2, 0);
	pthread_join(w.thread, NULL);
	assert_ret(w.ret, DAT_SUCCESS);
	assert_ptr_equal(w.evd, evd);
}

static void *
evd_wait_main(void *arg)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	return (void *)(uintptr_t)dat_evd_wait(arg, DAT_TIMEOUT_INFINITE, 1, &event, &nmore);
}

/* A direct waiter comes first; afterwards the EVD triggers again. */
static void
direct_waiter_first(void **state)
{
	struct bench b = set_up(state);
	DAT_EVD_PARAM param;
	struct waiter w;
	pthread_t direct;
	void *ret;

	start(&w, b.cno);
	assert_int_equal(pthread_create(&direct, NULL, evd_wait_main, b.a), 0);
	/* A resize is refused once the thread is waiting. */
	assert_ok(dat_evd_query(b.a, DAT_EVD_FIELD_ALL, &param));
	while (dat_evd_resize(b.a, param.evd_qlen) != BAD_STATE(EVD_WAITER))
		usleep(1000);
	post_software(b.a, 1);
	pthread_join(direct, &ret);
	assert_int_equal((uintptr_t)ret, DAT_SUCCESS);
	usleep(20000);
	assert_int_equal(w.done, 0);
	post_software(b.a, 2);
	pthread_join(w.thread, NULL);
	assert_ptr_equal(w.evd, b.a);
}

static void
last_evd_freed(void **state)
{
	struct bench b = set_up(state);
	struct waiter w;

	start(&w, b.cno);
	assert_ok(dat_evd_free(b.a));
	usleep(20000);
	assert_int_equal(w.done, 0);
	assert_ok(dat_evd_free(b.b));
	pthread_join(w.thread, NULL);
	assert_ret(w.ret, DAT_SUCCESS);
	assert_null(w.evd);
	assert_ok(dat_cno_free(b.cno));
}

static void
in_use(void **state)
{
	struct bench b = set_up(state);

	assert_ret(dat_cno_free(b.cno), BAD_STATE(CNO_IN_USE));
	assert_ok(dat_evd_free(b.a));
	assert_ok(dat_evd_modify_cno(b.b, DAT_HANDLE_NULL));
	assert_ok(dat_cno_free(b.cno));
}

struct calls {
	_Atomic int count;
	DAT_EVD_HANDLE _Atomic evd;
	DAT_CNO_HANDLE cno;
	DAT_RETURN _Atomic freed;
	_Atomic int handles_signals;
};

static void
agent(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	struct calls *calls = data;
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	calls->handles_signals = sigismember(&blocked, SIGUSR1) == 0;
	calls->evd = evd;
	if (calls->cno != DAT_HANDLE_NULL)
		calls->freed = dat_cno_free(calls->cno); /* refused in the agent, without a deadlock */
	calls->count++;
}

static void
await(_Atomic int *value, int expected)
{
	while (*value < expected)
		usleep(1000);
	assert_int_equal(*value, expected);
}

static void
proxy_agent(void **state)
{
	struct bench b = set_up(state);
	struct calls calls = {0};
	DAT_OS_WAIT_PROXY_AGENT set = {&calls, agent};
	DAT_CNO_PARAM param;

	post_software(b.b, 1); /* before the agent is set: does not count */
	assert_ok(dat_cno_modify_agent(b.cno, set));
	assert_ok(dat_cno_query(b.cno, DAT_CNO_FIELD_ALL, &param));
	assert_ptr_equal(param.agent.instance_data, &calls);
	usleep(20000);
	assert_int_equal(calls.count, 0);
	calls.cno = b.cno;
	post_software(b.a, 1);
	await(&calls.count, 1);
	calls.cno = DAT_HANDLE_NULL;
	assert_ptr_equal(calls.evd, b.a);
	assert_ret(calls.freed, BAD_STATE(CNO_IN_USE));
	assert_int_equal(calls.handles_signals, 0); /* signals are for the program's own threads */
	/* The agent is called once, and waiters are woken, too, for the first arrival first. */
	expect_trigger(b.cno, 0, b.b);
	expect_trigger(b.cno, 0, b.a);
	assert_ok(dat_cno_query(b.cno, DAT_CNO_FIELD_ALL, &param));
	assert_true(param.agent.proxy_agent_func == NULL);
	post_software(b.a, 2);
	usleep(20000);
	assert_int_equal(calls.count, 1);
	/* The agent is set again. */
	assert_ok(dat_cno_modify_agent(b.cno, set));
	post_software(b.b, 2);
	await(&calls.count, 2);
	assert_ptr_equal(calls.evd, b.b);
	/* The agent is removed. */
	assert_ok(dat_cno_modify_agent(b.cno, set));
	assert_ok(dat_cno_modify_agent(b.cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
	post_software(b.b, 3);
	usleep(20000);
	assert_int_equal(calls.count, 2);
	/* The last EVD is freed: the agent is called with null. */
	assert_ok(dat_cno_modify_agent(b.cno, set));
	assert_ok(dat_evd_free(b.a));
	assert_int_equal(calls.count, 2);
	assert_ok(dat_evd_free(b.b));
	assert_int_equal(calls.count, 3);
	assert_null(calls.evd);
	assert_ok(dat_cno_modify_agent(b.cno, set));
	assert_ok(dat_cno_free(b.cno));
	assert_int_equal(calls.count, 3);
}

struct gate {
	_Atomic int calls;
	sem_t open;
};

static void
agent_at_gate(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	struct gate *gate = data;

	gate->calls++;
	sem_wait(&gate->open);
}

/* The agent's thread takes an entry off the ring before the engine checks for sleepers. */
static void
agent_beside_a_waiter(void **state)
{
	struct bench b = set_up(state);
	static struct gate gate; /* static, because the agent's thread ends after this function */
	DAT_OS_WAIT_PROXY_AGENT set = {&gate, agent_at_gate};
	DAT_EVD_HANDLE evd;
	DAT_EP_HANDLE ep;
	struct waiter w;
	uint32_t qp, cq;

	sem_init(&gate.open, 0, 0);
	assert_ok(dat_evd_create(b.f->ia, 8, b.cno, DAT_EVD_DTO_FLAG, &evd));
	assert_ok(dat_ep_create(b.f->ia, b.f->pz, b.f->recv, evd, b.f->conn, NULL, &ep));
	qp = mock_newest(b.f->mock, ONE_MSG_QP_CREATE);
	/* The agent's thread is busy, and will poll again. */
	assert_ok(dat_cno_modify_agent(b.cno, set));
	post_software(b.a, 1);
	await(&gate.calls, 1);
	assert_ok(dat_cno_modify_agent(b.cno, set));
	expect_trigger(b.cno, 0, b.a);
	start(&w, b.cno);
	mock_wait_asleep(b.f->mock, 1);
	cq = complete_early(b.f, qp, 1);
	sem_post(&gate.open);
	await(&gate.calls, 2);
	mock_publish(b.f->mock, cq);
	pthread_join(w.thread, NULL);
	assert_ptr_equal(w.evd, evd);
	sem_post(&gate.open);
}

/* The EVD of dat_ia_open can be given a CNO, and other IAs may report to it. */
static void
asynchronous_errors(void **state)
{
	struct bench b = set_up(state);
	struct one_cqe broken = {
		.type = ONE_CQE_ASYNC, .status = ONE_ASYNC_QP_ERROR, .flags = ONE_CQE_NOTIFY};
	struct calls calls = {0};
	DAT_OS_WAIT_PROXY_AGENT set = {&calls, agent};
	DAT_EVD_HANDLE async = b.f->async;
	char name[] = "oneside";
	DAT_IA_HANDLE guest;
	DAT_EP_HANDLE ep;
	struct waiter w;

	make_ep(b.f, &broken.object);
	start(&w, b.cno);
	assert_ok(dat_evd_modify_cno(async, b.cno));
	usleep(20000); /* the waiter sleeps again */
	assert_true(mock_cqe(b.f->mock, mock_async_cq(b.f->mock), &broken));
	pthread_join(w.thread, NULL);
	assert_ret(w.ret, DAT_SUCCESS);
	assert_ptr_equal(w.evd, async);
	assert_int_equal(take(async).event_number, DAT_ASYNC_ERROR_EP_BROKEN);
	assert_ok(dat_cno_modify_agent(b.cno, set));
	usleep(20000);
	assert_true(mock_cqe(b.f->mock, mock_async_cq(b.f->mock), &broken));
	await(&calls.count, 1);
	assert_ptr_equal(calls.evd, async);
	take(async);

	assert_ok(dat_ia_open(name, 0, &async, &guest));
	assert_ok(dat_ep_create(guest, NULL, NULL, NULL, NULL, NULL, &ep));
	broken.object = mock_newest(b.f->mock, ONE_MSG_QP_CREATE);
	expect_none(b.cno, 50000);
	start(&w, b.cno);
	assert_ok(dat_cno_modify_agent(b.cno, set));
	assert_true(mock_cqe(b.f->mock, mock_async_cq(b.f->mock), &broken));
	pthread_join(w.thread, NULL);
	assert_ptr_equal(w.evd, async);
	await(&calls.count, 2);
	assert_ptr_equal(calls.evd, async);
	assert_ptr_equal(take(async).event_data.asynch_error_event_data.dat_handle, ep);
	/* The end of the data plane triggers, too. */
	start(&w, b.cno);
	mock_kill(b.f->mock);
	pthread_join(w.thread, NULL);
	assert_ptr_equal(w.evd, async);
	assert_ok(dat_ia_close(guest, DAT_CLOSE_ABRUPT_FLAG));
}

static void
closing_releases(void **state)
{
	struct bench b = set_up(state);
	struct calls calls = {0};
	DAT_OS_WAIT_PROXY_AGENT set = {&calls, agent};
	DAT_CNO_HANDLE other;
	struct waiter w, idle;

	assert_ok(dat_cno_create(b.f->ia, set, &other)); /* without EVDs */
	assert_ok(dat_cno_modify_agent(b.cno, set));
	start(&w, b.cno);
	start(&idle, other);
	assert_ok(dat_ia_close(b.f->ia, DAT_CLOSE_ABRUPT_FLAG));
	b.f->ia = DAT_HANDLE_NULL;
	pthread_join(w.thread, NULL);
	pthread_join(idle.thread, NULL);
	assert_ret(w.ret, DAT_SUCCESS);
	assert_null(w.evd);
	assert_ret(idle.ret, DAT_SUCCESS);
	assert_null(idle.evd);
	assert_int_equal(calls.count, 2);
	assert_null(calls.evd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(errors),
		TEST(triggers),
		TEST(one_by_one),
		TEST(switches),
		TEST(wakes_a_waiter),
		TEST(direct_waiter_first),
		TEST(last_evd_freed),
		TEST(in_use),
		TEST(proxy_agent),
		TEST(agent_beside_a_waiter),
		TEST(asynchronous_errors),
		TEST(closing_releases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
