/* SPDX-License-Identifier: BSD-3-Clause */
/* Event dispatchers against the mock: creation, order, waiting, switches, resizing. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "fixture.h"

#define SOFT_DTO ((DAT_EVD_FLAGS)(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG))

static DAT_EVD_HANDLE
make(struct fixture *f, DAT_COUNT qlen, uint32_t flags)
{
	DAT_EVD_HANDLE evd;

	assert_ok(dat_evd_create(f->ia, qlen, DAT_HANDLE_NULL, (DAT_EVD_FLAGS)flags, &evd));
	return evd;
}

static DAT_EVD_PARAM
query(DAT_EVD_HANDLE evd)
{
	DAT_EVD_PARAM param;

	assert_ok(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param));
	return param;
}

static void
create_errors(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd;
	DAT_CNO_HANDLE none = DAT_HANDLE_NULL;
	DAT_IA_ATTR attr;

	assert_ok(dat_ia_query(f->ia, NULL, DAT_IA_ALL, &attr, 0, NULL));
	assert_ret(dat_evd_create(f->pz, 8, none, DAT_EVD_DTO_FLAG, &evd), BAD_HANDLE(IA));
	assert_ret(dat_evd_create(DAT_HANDLE_NULL, 8, none, DAT_EVD_DTO_FLAG, &evd), BAD_HANDLE(IA));
	assert_ret(dat_evd_create(f->ia, 0, none, DAT_EVD_DTO_FLAG, &evd), BAD_ARG(2));
	assert_ret(dat_evd_create(f->ia, -5, none, DAT_EVD_DTO_FLAG, &evd), BAD_ARG(2));
	assert_ret(dat_evd_create(f->ia, 8, f->pz, DAT_EVD_DTO_FLAG, &evd), BAD_HANDLE(CNO));
	assert_ret(dat_evd_create(f->ia, 8, none, DAT_EVD_ASYNC_FLAG, &evd), BAD_ARG(4));
	assert_ret(dat_evd_create(f->ia, 8, none, (DAT_EVD_FLAGS)0, &evd), BAD_ARG(4));
	assert_ret(dat_evd_create(f->ia, 8, none, (DAT_EVD_FLAGS)0x200, &evd), BAD_ARG(4));
	assert_ret(dat_evd_create(f->ia, 8, none, DAT_EVD_DTO_FLAG, NULL), BAD_ARG(5));
	assert_ret(dat_evd_create(f->ia, attr.max_evd_qlen + 1, none, DAT_EVD_DTO_FLAG, &evd),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
	mock_refuse(f->mock, ONE_MSG_CQ_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 3, 1);
	assert_ret(dat_evd_create(f->ia, 8, none, DAT_EVD_DTO_FLAG, &evd),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
	assert_ok(dat_evd_create(f->ia, attr.max_evd_qlen, none, DAT_EVD_DTO_FLAG, &evd));
	assert_true(query(evd).evd_qlen >= attr.max_evd_qlen);
}

static void
bad_handles(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE freed = make(f, 8, SOFT_DTO);
	DAT_EVENT event = {.event_number = DAT_SOFTWARE_EVENT};
	DAT_EVD_PARAM param;
	DAT_COUNT nmore;

	assert_ok(dat_evd_free(freed));
	for (size_t i = 0; i < num_not_handles + 3; i++) {
		DAT_HANDLE h = i < num_not_handles        ? not_handles[i]
			       : i == num_not_handles     ? f->ia
			       : i == num_not_handles + 1 ? f->pz
							  : freed;

		assert_ret(dat_evd_free(h), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_query(h, DAT_EVD_FIELD_ALL, &param), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_resize(h, 8), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_modify_cno(h, DAT_HANDLE_NULL), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_enable(h), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_disable(h), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_set_unwaitable(h), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_clear_unwaitable(h), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_wait(h, 0, 1, &event, &nmore), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_dequeue(h, &event), BAD_HANDLE(EVD_REQUEST));
		assert_ret(dat_evd_post_se(h, &event), BAD_HANDLE(EVD_REQUEST));
	}
}

static void
query_shows_all(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 100, SOFT_DTO);
	DAT_CNO_HANDLE cno;
	DAT_EVD_PARAM param = query(evd);

	assert_ptr_equal(param.ia_handle, f->ia);
	assert_true(param.evd_qlen >= 100);
	assert_int_equal(param.evd_flags, SOFT_DTO);
	assert_null(param.cno_handle);
	assert_int_equal(param.evd_state & 0xf, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE);
	assert_ok(dat_evd_disable(evd));
	assert_ok(dat_evd_disable(evd));
	assert_ok(dat_evd_set_unwaitable(evd));
	assert_ok(dat_cno_create(f->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	assert_ok(dat_evd_modify_cno(evd, cno));
	param = query(evd);
	assert_int_equal(param.evd_state & 0xf, DAT_EVD_STATE_DISABLED | DAT_EVD_STATE_UNWAITABLE);
	assert_ptr_equal(param.cno_handle, cno);
	assert_ret(dat_evd_modify_cno(evd, evd), BAD_HANDLE(CNO));
	assert_ok(dat_evd_enable(evd));
	assert_ok(dat_evd_clear_unwaitable(evd));
	assert_ok(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
	param = query(evd);
	assert_int_equal(param.evd_state & 0xf, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE);
	assert_null(param.cno_handle);
	assert_ret(dat_evd_query(evd, DAT_EVD_FIELD_ALL, NULL), BAD_ARG(3));
	/* The asynchronous EVD, which dat_ia_open() made. */
	param = query(f->async);
	assert_true(param.evd_qlen >= 8);
	assert_int_equal(param.evd_flags, DAT_EVD_ASYNC_FLAG);
	assert_ret(dat_evd_free(f->async), BAD_STATE(EVD_IN_USE));
}

static void
software_events(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 4, DAT_EVD_SOFTWARE_FLAG);
	DAT_EVENT event = {.event_number = DAT_SOFTWARE_EVENT};
	DAT_COUNT qlen = query(evd).evd_qlen;

	assert_ret(dat_evd_post_se(f->dto, &event), BAD_ARG(1));
	assert_ret(dat_evd_post_se(evd, NULL), BAD_ARG(2));
	event.event_number = DAT_DTO_COMPLETION_EVENT;
	assert_ret(dat_evd_post_se(evd, &event), BAD_ARG(2));
	event.event_number = DAT_SOFTWARE_EVENT;
	assert_ret(dat_evd_dequeue(evd, NULL), BAD_ARG(2));
	/* programs compare with the exact value */
	assert_int_equal(dat_evd_dequeue(evd, &event), 0x000d0000);
	for (DAT_COUNT i = 0; i < qlen; i++)
		post_software(evd, (uintptr_t)i + 1);
	assert_ret(dat_evd_post_se(evd, &event), ERROR(DAT_QUEUE_FULL, 0));
	expect_empty(f->async); /* no overflow is reported */
	for (DAT_COUNT i = 0; i < qlen; i++) {
		event = take(evd);
		assert_int_equal(event.event_number, DAT_SOFTWARE_EVENT);
		assert_int_equal((uintptr_t)event.event_data.software_event_data.pointer, i + 1);
	}
	expect_empty(evd);
}

/* Events of all sources are dequeued in order of arrival. */
static void
order(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 8, SOFT_DTO);
	DAT_EP_HANDLE ep;
	uint32_t qp;

	assert_ok(dat_ep_create(f->ia, f->pz, f->recv, evd, f->conn, NULL, &ep));
	qp = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	complete(f, qp, 1, 0);
	post_software(evd, 2);
	complete(f, qp, 3, 0);
	complete(f, qp, 4, 0);
	post_software(evd, 5);
	complete(f, qp, 6, 0);
	for (uint64_t i = 1; i <= 6; i++) {
		DAT_EVENT event = take(evd);

		if (i == 2 || i == 5) {
			assert_int_equal(event.event_number, DAT_SOFTWARE_EVENT);
			assert_int_equal((uintptr_t)event.event_data.software_event_data.pointer, i);
		} else {
			assert_int_equal(event.event_number, DAT_DTO_COMPLETION_EVENT);
			assert_int_equal(event.event_data.dto_completion_event_data.user_cookie.as_64, i);
			assert_ptr_equal(event.event_data.dto_completion_event_data.ep_handle, ep);
		}
	}
	expect_empty(evd);
}

static void
wait_arguments(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 4, DAT_EVD_SOFTWARE_FLAG);
	DAT_COUNT nmore, qlen = query(evd).evd_qlen;
	DAT_EVENT event;

	assert_ret(dat_evd_wait(evd, 0, 1, NULL, &nmore), BAD_ARG(4));
	assert_ret(dat_evd_wait(evd, 0, 1, &event, NULL), BAD_ARG(5));
	assert_ret(dat_evd_wait(evd, 0, 0, &event, &nmore), BAD_ARG(3));
	assert_ret(dat_evd_wait(evd, 0, -1, &event, &nmore), BAD_ARG(3));
	assert_ret(dat_evd_wait(evd, 0, qlen + 1, &event, &nmore), BAD_ARG(3));
	assert_ret(dat_evd_wait(evd, 0, qlen, &event, &nmore), DAT_TIMEOUT_EXPIRED);
}

static void
timeouts(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 8, DAT_EVD_SOFTWARE_FLAG);
	DAT_COUNT nmore = -1;
	DAT_EVENT event;
	uint64_t start;

	assert_int_equal(dat_evd_wait(evd, 0, 1, &event, &nmore), 0x000f0000);
	assert_int_equal(nmore, 0);
	start = now_us();
	assert_ret(dat_evd_wait(evd, 10000, 1, &event, &nmore), DAT_TIMEOUT_EXPIRED);
	assert_true(now_us() - start >= 10000);
	/* Below the threshold, a wait takes no event, but counts them. */
	post_software(evd, 1);
	post_software(evd, 2);
	assert_ret(dat_evd_wait(evd, 5000, 3, &event, &nmore), DAT_TIMEOUT_EXPIRED);
	assert_int_equal(nmore, 2);
	assert_ok(dat_evd_wait(evd, 0, 2, &event, &nmore));
	assert_int_equal(nmore, 1);
	assert_int_equal((uintptr_t)event.event_data.software_event_data.pointer, 1);
	assert_ok(dat_evd_wait(evd, 0, 1, &event, &nmore));
	assert_int_equal(nmore, 0);
}

struct waiter {
	pthread_t thread;
	DAT_EVD_HANDLE evd;
	DAT_TIMEOUT timeout;
	DAT_COUNT threshold, nmore;
	DAT_EVENT event;
	DAT_RETURN ret;
	_Atomic int done;
};

static void *
wait_main(void *arg)
{
	struct waiter *w = arg;

	w->ret = dat_evd_wait(w->evd, w->timeout, w->threshold, &w->event, &w->nmore);
	w->done = 1;
	return NULL;
}

static void
start_waiter(struct waiter *w, DAT_EVD_HANDLE evd, DAT_COUNT threshold, DAT_TIMEOUT timeout)
{
	DAT_COUNT qlen = query(evd).evd_qlen;

	memset(w, 0, sizeof(*w));
	w->evd = evd;
	w->timeout = timeout;
	w->threshold = threshold;
	assert_int_equal(pthread_create(&w->thread, NULL, wait_main, w), 0);
	/* A resize is refused once the thread is waiting. */
	while (dat_evd_resize(evd, qlen) != BAD_STATE(EVD_WAITER))
		usleep(1000);
	usleep(20000);
	assert_int_equal(w->done, 0);
}

static DAT_RETURN
join(struct waiter *w)
{
	pthread_join(w->thread, NULL);
	return w->ret;
}

static void
wake_by_ring(void **state)
{
	struct fixture *f = *state;
	struct waiter w;
	uint32_t qp;

	make_ep(f, &qp);
	start_waiter(&w, f->dto, 3, DAT_TIMEOUT_INFINITE);
	complete(f, qp, 1, 0);
	complete(f, qp, 2, 0);
	usleep(20000);
	assert_int_equal(w.done, 0);
	complete(f, qp, 3, 0);
	assert_ret(join(&w), DAT_SUCCESS);
	assert_int_equal(w.nmore, 2);
	assert_int_equal(w.event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	take(f->dto);
	take(f->dto);
	expect_empty(f->dto);
}

static void
wake_by_software(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 8, SOFT_DTO);
	struct waiter w;

	start_waiter(&w, evd, 2, DAT_TIMEOUT_INFINITE);
	post_software(evd, 1);
	usleep(20000);
	assert_int_equal(w.done, 0);
	post_software(evd, 2);
	assert_ret(join(&w), DAT_SUCCESS);
	assert_int_equal(w.nmore, 1);
}

/* The engine wakes no thread for an entry that another thread has taken off the ring by then. */
static void
another_thread_collects(void **state)
{
	struct fixture *f = *state;
	struct waiter w;
	DAT_EP_HANDLE ended = make_ep(f, NULL);
	uint32_t qp, cq;

	make_ep(f, &qp);
	start_waiter(&w, f->dto, 1, DAT_TIMEOUT_INFINITE);
	mock_wait_asleep(f->mock, 1);
	cq = complete_early(f, qp, 1);
	assert_ok(dat_ep_free(ended)); /* reads the ring for completions of the endpoint */
	mock_publish(f->mock, cq);
	assert_ret(join(&w), DAT_SUCCESS);
	assert_int_equal(w.event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
}

static void
one_waiter(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 8, DAT_EVD_SOFTWARE_FLAG);
	DAT_EVENT event;
	DAT_COUNT nmore;
	struct waiter w;

	start_waiter(&w, evd, 1, DAT_TIMEOUT_INFINITE);
	assert_ret(dat_evd_wait(evd, 0, 1, &event, &nmore), BAD_STATE(EVD_WAITER));
	assert_ret(dat_evd_dequeue(evd, &event), BAD_STATE(EVD_WAITER));
	assert_ret(dat_evd_resize(evd, 100), BAD_STATE(EVD_WAITER));
	assert_ret(dat_evd_free(evd), BAD_STATE(EVD_WAITER));
	assert_int_equal(query(evd).evd_flags, DAT_EVD_SOFTWARE_FLAG);
	post_software(evd, 1);
	assert_ret(join(&w), DAT_SUCCESS);
	assert_ok(dat_evd_free(evd));
}

static void
unwaitable(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 8, DAT_EVD_SOFTWARE_FLAG);
	DAT_EVENT event;
	DAT_COUNT nmore;
	struct waiter w;

	start_waiter(&w, evd, 1, DAT_TIMEOUT_INFINITE);
	assert_ok(dat_evd_set_unwaitable(evd));
	assert_ret(join(&w), BAD_STATE(EVD_UNWAITABLE));
	post_software(evd, 1);
	assert_ret(dat_evd_wait(evd, 0, 1, &event, &nmore), BAD_STATE(EVD_UNWAITABLE));
	take(evd); /* dequeue is not affected */
	assert_ok(dat_evd_clear_unwaitable(evd));
	assert_ret(dat_evd_wait(evd, 0, 1, &event, &nmore), DAT_TIMEOUT_EXPIRED);
}

static void
aborted_by_close(void **state)
{
	struct fixture *f = *state;
	struct waiter w, async;

	start_waiter(&w, f->dto, 1, DAT_TIMEOUT_INFINITE);
	start_waiter(&async, f->async, 1, DAT_TIMEOUT_INFINITE);
	assert_ok(dat_ia_close(f->ia, DAT_CLOSE_ABRUPT_FLAG));
	f->ia = DAT_HANDLE_NULL;
	assert_ret(join(&w), ERROR(DAT_ABORT, 0));
	assert_ret(join(&async), ERROR(DAT_ABORT, 0));
	assert_ret(dat_evd_dequeue(f->dto, &w.event), BAD_HANDLE(EVD_REQUEST));
}

static void
on_signal(int signal)
{
}

/* Sends a signal whose default action is to ignore it, with a handler of these flags, repeatedly. */
static void
poke(struct waiter *w, int flags, uint32_t times)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};

	for (uint32_t i = 0; i < times && w->done == 0; i++) {
		sigaction(SIGURG, &action, NULL);
		pthread_kill(w->thread, SIGURG);
		usleep(5000);
	}
}

static void
interrupted(void **state)
{
	static const DAT_TIMEOUT timeouts[] = {DAT_TIMEOUT_INFINITE, DAT_TIMEOUT_INFINITE - 1};
	struct sigaction other = {.sa_handler = on_signal};
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 8, DAT_EVD_SOFTWARE_FLAG);
	struct waiter w;

	post_software(evd, 1);
	/* A handler of another signal has no effect. */
	sigaction(SIGUSR2, &other, NULL);
	for (size_t i = 0; i < 2; i++) {
		/* With SA_RESTART the wait goes on. */
		start_waiter(&w, evd, 2, timeouts[i]);
		poke(&w, SA_RESTART, 5);
		assert_int_equal(w.done, 0);
		poke(&w, 0, UINT32_MAX);
		assert_ret(join(&w), ERROR(DAT_INTERRUPTED_CALL, 0));
		assert_int_equal(w.nmore, 1);
		/* The handler is reset before the wait ends. */
		start_waiter(&w, evd, 2, timeouts[i]);
		poke(&w, (int)SA_RESETHAND, UINT32_MAX);
		assert_ret(join(&w), ERROR(DAT_INTERRUPTED_CALL, 0));
	}
	signal(SIGURG, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
}

/* Completions without notification can be dequeued, but do not end a wait. */
static void
silent_completions(void **state)
{
	struct fixture *f = *state;
	DAT_EP_HANDLE ep;
	DAT_EP_ATTR attr;
	DAT_EVENT event;
	DAT_COUNT nmore;
	struct waiter w;
	uint32_t qp;

	default_attr(&attr);
	attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	assert_ok(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, &attr, &ep));
	qp = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	assert_int_equal(query(f->dto).evd_state & 0x30, DAT_EVD_STATE_CONFIG_NOTIFY);
	assert_ret(dat_evd_wait(f->dto, 0, 2, &event, &nmore), BAD_STATE(EVD_CONFIG_NOTIFY));
	complete(f, qp, 1, ONE_WQE_UNSIGNALED);
	assert_ret(dat_evd_wait(f->dto, 2000, 1, &event, &nmore), DAT_TIMEOUT_EXPIRED);
	assert_int_equal(nmore, 1);
	start_waiter(&w, f->dto, 1, DAT_TIMEOUT_INFINITE);
	complete(f, qp, 2, ONE_WQE_UNSIGNALED);
	usleep(20000);
	assert_int_equal(w.done, 0);
	complete(f, qp, 3, 0);
	assert_ret(join(&w), DAT_SUCCESS);
	/* Earlier ones without notification come first. */
	assert_int_equal(w.event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	assert_int_equal(w.nmore, 2);
	complete(f, qp, 4, ONE_WQE_UNSIGNALED);
	for (uint64_t i = 2; i <= 4; i++)
		assert_int_equal(take(f->dto).event_data.dto_completion_event_data.user_cookie.as_64, i);
	/* Without such endpoints any threshold is allowed again. */
	assert_ok(dat_ep_free(ep));
	assert_ret(dat_evd_wait(f->dto, 0, 2, &event, &nmore), DAT_TIMEOUT_EXPIRED);
	/* Solicited receives restrict thresholds, too. */
	attr.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
	attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
	assert_ok(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, &attr, &ep));
	assert_int_equal(query(f->recv).evd_state & 0x30, DAT_EVD_STATE_CONFIG_SOLICITED);
	assert_ret(dat_evd_wait(f->recv, 0, 2, &event, &nmore), BAD_STATE(EVD_CONFIG_SOLICITED));
}

static void
resize(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 4, SOFT_DTO);
	DAT_IA_ATTR attr;
	DAT_EP_HANDLE ep;
	uint32_t qp;
	DAT_COUNT qlen = query(evd).evd_qlen;

	assert_ok(dat_ia_query(f->ia, NULL, DAT_IA_ALL, &attr, 0, NULL));
	assert_ok(dat_ep_create(f->ia, f->pz, f->recv, evd, f->conn, NULL, &ep));
	qp = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	assert_ret(dat_evd_resize(evd, 0), BAD_ARG(2));
	assert_ret(dat_evd_resize(evd, -1), BAD_ARG(2));
	assert_ret(dat_evd_resize(evd, attr.max_evd_qlen + 1), BAD_ARG(2));
	assert_ok(dat_evd_resize(evd, query(evd).evd_qlen)); /* the present length */
	/* An EVD in use loses nothing, and keeps the order. */
	for (uint64_t i = 1; i <= 40; i++)
		complete(f, qp, i, 0);
	assert_ret(dat_evd_resize(evd, 39), BAD_STATE(EVD_IN_USE));
	assert_int_equal(take(evd).event_data.dto_completion_event_data.user_cookie.as_64, 1);
	for (uint64_t i = 41; i <= 50; i++)
		complete(f, qp, i, 0);
	assert_ok(dat_evd_resize(evd, 4000));
	assert_true(query(evd).evd_qlen >= 4000);
	for (uint64_t i = 51; i <= 60; i++)
		complete(f, qp, i, 0);
	for (uint64_t i = 2; i <= 60; i++)
		assert_int_equal(take(evd).event_data.dto_completion_event_data.user_cookie.as_64, i);
	expect_empty(evd);
	assert_ok(dat_evd_resize(evd, 4));
	assert_true(query(evd).evd_qlen >= 4);
	assert_true(query(evd).evd_qlen < 4000 || qlen >= 4000);
	complete(f, qp, 61, 0);
	assert_int_equal(take(evd).event_data.dto_completion_event_data.user_cookie.as_64, 61);
	mock_refuse(f->mock, ONE_MSG_CQ_RESIZE, -ENOMEM, ONE_SUBJECT_MEMORY, 0, 1);
	assert_ret(dat_evd_resize(evd, 4000), ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
}

/* An EVD of a few entries holds all that its endpoints can have outstanding. */
static void
grows_with_endpoints(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = make(f, 3, DAT_EVD_DTO_FLAG);
	DAT_EP_HANDLE ep;
	uint32_t qp;

	for (int i = 0; i < 20; i++)
		assert_ok(dat_ep_create(f->ia, f->pz, evd, evd, f->conn, NULL, &ep));
	qp = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	for (int i = 0; i < 20 * 256; i++)
		complete(f, qp, (uint64_t)i, 0);
	for (int i = 0; i < 20 * 256; i++)
		assert_int_equal(take(evd).event_data.dto_completion_event_data.user_cookie.as_64, i);
}

/* The asynchronous EVD has the requested length, or more if all endpoints need it. */
static void
asynchronous_length(void **state)
{
	struct fixture *f = *state;
	struct one_cqe broken = {.type = ONE_CQE_ASYNC, .status = ONE_ASYNC_QP_ERROR};
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	char name[] = "oneside";
	DAT_IA_HANDLE ia;
	DAT_EP_HANDLE ep;
	DAT_IA_ATTR attr;

	assert_ok(dat_ia_query(f->ia, NULL, DAT_IA_ALL, &attr, 0, NULL));
	assert_ret(dat_ia_open(name, attr.max_evd_qlen + 1, &async, &ia),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
	assert_ok(dat_ia_open(name, 2000, &async, &ia));
	assert_true(query(async).evd_qlen >= 2000);
	assert_ok(dat_ep_create(ia, NULL, NULL, NULL, NULL, NULL, &ep));
	broken.object = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	for (int i = 0; i < 2000; i++)
		assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &broken));
	assert_ret(dat_evd_resize(async, 1999), BAD_STATE(EVD_IN_USE));
	assert_ok(dat_evd_resize(async, 4000));
	for (int i = 2000; i < 4000; i++)
		assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &broken));
	for (int i = 0; i < 4000; i++)
		assert_int_equal(take(async).event_number, DAT_ASYNC_ERROR_EP_BROKEN);
	expect_empty(async);
	assert_ok(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	/* Each endpoint may report an error. */
	for (int i = 0; i < 400; i++) {
		DAT_EP_ATTR little = {.max_request_dtos = 1, .max_request_iov = 1};

		assert_ok(dat_ep_create(f->ia, NULL, NULL, f->dto, NULL, &little, &ep));
	}
	broken.object = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	for (int i = 0; i < 400; i++)
		assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &broken));
	for (int i = 0; i < 400; i++)
		assert_ptr_equal(take(f->async).event_data.asynch_error_event_data.dat_handle, ep);
}

static void
in_use(void **state)
{
	struct fixture *f = *state;
	DAT_EP_HANDLE ep = make_ep(f, NULL);
	DAT_PSP_HANDLE psp;

	assert_ret(dat_evd_free(f->dto), BAD_STATE(EVD_IN_USE));
	assert_ret(dat_evd_free(f->recv), BAD_STATE(EVD_IN_USE));
	assert_ret(dat_evd_free(f->conn), BAD_STATE(EVD_IN_USE));
	assert_ok(dat_ep_free(ep));
	assert_ok(dat_psp_create(f->ia, 5000, f->cr, DAT_PSP_CONSUMER_FLAG, &psp));
	assert_ret(dat_evd_free(f->cr), BAD_STATE(EVD_IN_USE));
	assert_ok(dat_psp_free(psp));
	assert_ok(dat_evd_free(f->dto));
	assert_ok(dat_evd_free(f->recv));
	assert_ok(dat_evd_free(f->conn));
	assert_ok(dat_evd_free(f->cr));
}

static void
overflow_is_reported(void **state)
{
	struct fixture *f = *state;
	struct one_cqe cqe = {.type = ONE_CQE_ASYNC, .status = ONE_ASYNC_CQ_OVERFLOW};
	DAT_EVD_HANDLE evd = make(f, 4, DAT_EVD_DTO_FLAG);
	DAT_EVENT event;

	cqe.object = mock_newest(f->mock, ONE_MSG_CQ_CREATE);
	mock_cqe(f->mock, mock_async_cq(f->mock), &cqe);
	event = expect_event(f->async, DAT_ASYNC_ERROR_EVD_OVERFLOW);
	assert_ptr_equal(event.event_data.asynch_error_event_data.dat_handle, evd);
	assert_int_equal(event.event_data.asynch_error_event_data.reason, DAT_EVD_OVERFLOW_ERROR);
	/* Events about a freed object are dropped. */
	assert_ok(dat_evd_free(evd));
	mock_cqe(f->mock, mock_async_cq(f->mock), &cqe);
	expect_empty(f->async);
}

/* Checks that each event is delivered once, to any thread. */
struct drain {
	DAT_EVD_HANDLE evd;
	_Atomic uint32_t *seen;
	_Atomic uint32_t *total;
	uint32_t want;
};

static void *
drain_main(void *arg)
{
	struct drain *d = arg;
	DAT_EVENT event;

	while (*d->total < d->want) {
		if (dat_evd_dequeue(d->evd, &event) != DAT_SUCCESS)
			continue;
		d->seen[(uintptr_t)event.event_data.software_event_data.pointer]++;
		(*d->total)++;
	}
	return NULL;
}

static void
many_threads(void **state)
{
	struct fixture *f = *state;
	static _Atomic uint32_t seen[20000];
	_Atomic uint32_t total = 0;
	struct drain d = {make(f, 4000, DAT_EVD_SOFTWARE_FLAG), seen, &total, 20000};
	DAT_EVENT event = {.event_number = DAT_SOFTWARE_EVENT};
	pthread_t thread[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, drain_main, &d), 0);
	for (uintptr_t i = 0; i < 20000; i++) {
		event.event_data.software_event_data.pointer = (DAT_PVOID)i;
		while (dat_evd_post_se(d.evd, &event) != DAT_SUCCESS)
			usleep(100);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	for (uint32_t i = 0; i < 20000; i++)
		assert_int_equal(seen[i], 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(create_errors),
		TEST(bad_handles),
		TEST(query_shows_all),
		TEST(software_events),
		TEST(order),
		TEST(wait_arguments),
		TEST(timeouts),
		TEST(wake_by_ring),
		TEST(wake_by_software),
		TEST(another_thread_collects),
		TEST(one_waiter),
		TEST(unwaitable),
		TEST(aborted_by_close),
		TEST(interrupted),
		TEST(silent_completions),
		TEST(resize),
		TEST(grows_with_endpoints),
		TEST(asynchronous_length),
		TEST(in_use),
		TEST(overflow_is_reported),
		TEST(many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
