/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion and asynchronous events: when they arrive, waiting for them, and their descriptors. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "fixture.h"

static bool
readable(int fd)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};

	return poll(&look, 1, 0) == 1;
}

static void
test_events(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	assert_int_equal(fcntl(f->channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	receive(f, 1, 0); /* the CQ is not armed */
	assert_false(readable(f->channel->fd));
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 1), 0);
	receive(f, 2, 0);
	assert_false(readable(f->channel->fd));
	receive(f, 3, ONE_CQE_SOLICITED);
	assert_true(readable(f->channel->fd));
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), 0);
	assert_ptr_equal(cq, f->recv_cq);
	assert_null(context);
	ibv_ack_cq_events(cq, 1);
	/* Arming a CQ with unpolled completions rings the doorbell, so that the core checks them. The mock
	 * has no core: the next completion gives one event. */
	mock_doorbell(f->mock, f->qp_id);
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 0), 0);
	assert_true(mock_doorbell(f->mock, f->qp_id));
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 1), 0); /* already armed for any completion */
	assert_false(mock_doorbell(f->mock, f->qp_id));
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	receive(f, 4, 0);
	receive(f, 5, 0);
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), -1);
	assert_int_equal(ibv_resize_cq(f->recv_cq, 4), EINVAL); /* fewer entries than unpolled completions */
	for (uint64_t i = 1; i <= 5; i++) {
		assert_int_equal(ibv_poll_cq(f->recv_cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
	}
	assert_int_equal(ibv_poll_cq(f->recv_cq, 1, &wc), 0);
	/* All completions were polled: arming rings no doorbell. */
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 0), 0);
	assert_false(mock_doorbell(f->mock, f->qp_id));
}

/* Polls all completions, so that the next arm finds none unpolled. */
static void
poll_all(struct fixture *f)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(f->recv_cq, 1, &wc) == 1)
		;
}

/* A CQ armed for any completion is not narrowed to solicited ones. After the event it can be. */
static void
test_arms_together(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(fcntl(f->channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 1), 0);
	receive(f, 1, 0);
	receive(f, 2, ONE_CQE_SOLICITED);
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), 0);
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), -1);
	ibv_ack_cq_events(f->recv_cq, 1);
	/* The arm has fired, although its event was not read yet. */
	poll_all(f);
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 0), 0);
	receive(f, 3, 0);
	poll_all(f);
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 1), 0);
	receive(f, 4, 0);
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), 0);
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), -1);
	receive(f, 5, ONE_CQE_SOLICITED);
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), 0);
	ibv_ack_cq_events(f->recv_cq, 2);
	/* An arm survives a resize. */
	poll_all(f);
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 0), 0);
	assert_int_equal(ibv_resize_cq(f->recv_cq, 20), 0);
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 1), 0);
	while (ibv_get_cq_event(f->channel, &cq, &context) == 0) /* a resize may cause an event */
		ibv_ack_cq_events(cq, 1);
	receive(f, 6, 0);
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
}

/* Destroying a CQ removes its unread events, so that the descriptor is not readable without an event. */
static void
test_events_of_gone(void **state)
{
	struct fixture *f = *state;
	struct one_cqe cqe = {.object = f->qp_id, .type = ONE_CQE_RECV, .flags = ONE_CQE_NOTIFY};
	struct ibv_cq *gone[2], *cq;
	uint32_t id[2];
	void *context;

	for (int i = 0; i < 2; i++) {
		gone[i] = ibv_create_cq(f->context, 4, NULL, f->channel, 0);
		assert_non_null(gone[i]);
		id[i] = mock_newest(f->mock, ONE_MSG_CQ_CREATE);
		assert_int_equal(ibv_req_notify_cq(gone[i], 0), 0);
	}
	/* Destroyed CQs have events before and behind the event of a CQ that stays. */
	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 0), 0);
	assert_true(mock_cqe(f->mock, id[0], &cqe));
	receive(f, 1, 0);
	assert_true(mock_cqe(f->mock, id[1], &cqe));
	assert_int_equal(ibv_destroy_cq(gone[1]), 0);
	assert_int_equal(ibv_destroy_cq(gone[0]), 0);
	assert_true(readable(f->channel->fd));
	assert_int_equal(ibv_get_cq_event(f->channel, &cq, &context), 0);
	assert_ptr_equal(cq, f->recv_cq);
	ibv_ack_cq_events(cq, 1);
	assert_false(readable(f->channel->fd));
	/* The only event is one of the destroyed CQ. */
	cq = ibv_create_cq(f->context, 4, NULL, f->channel, 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_true(mock_cqe(f->mock, mock_newest(f->mock, ONE_MSG_CQ_CREATE), &cqe));
	assert_true(readable(f->channel->fd));
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_false(readable(f->channel->fd));
}

static _Atomic int handled;

static void
on_signal(int number)
{
	handled++;
}

struct waiter {
	struct fixture *f;
	pthread_t thread;
	void (*happen)(struct fixture *f);
	_Atomic bool ended;
};

/* Interrupts the waiting thread until its wait has ended, or 50 times; then causes the event. */
static void *
interrupt(void *arg)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	struct waiter *waiter = arg;

	while (!waiter->ended && handled < 50) {
		pthread_kill(waiter->thread, SIGUSR1);
		nanosleep(&moment, NULL);
	}
	if (!waiter->ended)
		waiter->happen(waiter->f);
	return NULL;
}

static void
complete(struct fixture *f)
{
	receive(f, 1, 0);
}

static int
wait_for_completion(struct fixture *f)
{
	struct ibv_cq *cq;
	void *context;
	int result;

	assert_int_equal(ibv_req_notify_cq(f->recv_cq, 0), 0);
	result = ibv_get_cq_event(f->channel, &cq, &context);
	if (result == 0)
		ibv_ack_cq_events(cq, 1);
	return result;
}

static void
drained(struct fixture *f)
{
	const struct one_cqe cqe = {.object = f->qp_id,
				    .type = ONE_CQE_ASYNC,
				    .status = ONE_ASYNC_SQ_DRAINED,
				    .flags = ONE_CQE_NOTIFY};

	assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &cqe));
}

static int
wait_for_async(struct fixture *f)
{
	struct ibv_async_event event;
	int result = ibv_get_async_event(f->context, &event);

	if (result == 0)
		ibv_ack_async_event(&event);
	return result;
}

/* A wait for events goes on after handlers with SA_RESTART, and ends with EINTR after others. */
static void
test_events_and_signals(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip(); /* TSan delays handlers during intercepted system calls */
#endif
	for (int i = 0; i < 4; i++) {
		bool restarts = i % 2 != 0, async = i / 2 != 0;
		struct sigaction action = {.sa_handler = on_signal, .sa_flags = restarts ? SA_RESTART : 0};
		struct waiter waiter = {
			.f = *state, .thread = pthread_self(), .happen = async ? drained : complete};
		pthread_t thread;
		int result, error;

		handled = 0;
		assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
		assert_int_equal(pthread_create(&thread, NULL, interrupt, &waiter), 0);
		result = async ? wait_for_async(waiter.f) : wait_for_completion(waiter.f);
		error = errno;
		waiter.ended = true;
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(result, restarts ? 0 : -1);
		if (!restarts)
			assert_int_equal(error, EINTR);
	}
}

static void *
wait_on_thread(void *f)
{
	return (void *)(intptr_t)wait_for_async(f);
}

/* A thread that destroys an object reads all events from the ring, and wakes threads that wait for them. */
static void
test_async_taken_by_others(void **state)
{
	struct fixture *f = *state;
	const struct one_cqe cqe = {.object = f->qp_id,
				    .type = ONE_CQE_ASYNC,
				    .status = ONE_ASYNC_SQ_DRAINED,
				    .flags = ONE_CQE_NOTIFY};
	struct ibv_cq *cq = ibv_create_cq(f->context, 4, NULL, NULL, 0);
	pthread_t thread;
	void *result;

	assert_non_null(cq);
	assert_int_equal(pthread_create(&thread, NULL, wait_on_thread, f), 0);
	mock_wait_asleep(f->mock, 1);
	assert_true(mock_cqe_early(f->mock, mock_async_cq(f->mock), &cqe));
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	mock_publish(f->mock, mock_async_cq(f->mock));
	assert_false(readable(f->context->async_fd));
}

static void
test_async(void **state)
{
	struct fixture *f = *state;
	struct one_cqe cqe = {.object = f->send_id,
			      .type = ONE_CQE_ASYNC,
			      .status = ONE_ASYNC_CQ_OVERFLOW,
			      .flags = ONE_CQE_NOTIFY};
	struct ibv_async_event event, second;
	struct ibv_wc wc;

	assert_int_equal(fcntl(f->context->async_fd, F_SETFL, O_NONBLOCK), 0);
	assert_false(readable(f->context->async_fd));
	assert_int_equal(ibv_get_async_event(f->context, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &cqe));
	cqe.status = ONE_ASYNC_QP_ERROR;
	cqe.object = f->qp_id;
	assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &cqe));
	assert_true(readable(f->context->async_fd));
	assert_int_equal(ibv_get_async_event(f->context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, f->send_cq);
	assert_true(readable(f->context->async_fd)); /* one more event */
	assert_int_equal(ibv_get_async_event(f->context, &second), 0);
	assert_int_equal(second.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(second.element.qp, f->qp);
	assert_false(readable(f->context->async_fd));
	ibv_ack_async_event(&event);
	ibv_ack_async_event(&second);
	cqe.status = ONE_ASYNC_SQ_DRAINED;
	assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &cqe));
	assert_int_equal(ibv_get_async_event(f->context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
	assert_ptr_equal(event.element.qp, f->qp);
	ibv_ack_async_event(&event);
	cqe.object = 0;
	for (int up = 0; up <= 1; up++) {
		cqe.status = up ? ONE_ASYNC_LINK_UP : ONE_ASYNC_LINK_DOWN;
		assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &cqe));
		assert_int_equal(ibv_get_async_event(f->context, &event), 0);
		assert_int_equal(event.event_type, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
		assert_int_equal(event.element.port_num, 1);
		ibv_ack_async_event(&event);
	}
	cqe.object = f->qp_id;
	cqe.status = ONE_ASYNC_SQ_DRAINED;
	/* Destroying an object removes its unread event without waiting for an acknowledgement, and clears
	 * the descriptor. Destroying another object leaves both. */
	assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &cqe));
	assert_int_equal(ibv_destroy_cq(ibv_create_cq(f->context, 4, NULL, NULL, 0)), 0);
	assert_true(readable(f->context->async_fd));
	assert_int_equal(ibv_destroy_qp(f->qp), 0);
	f->qp = NULL;
	assert_false(readable(f->context->async_fd));
	assert_int_equal(ibv_get_async_event(f->context, &event), -1);
	/* The data plane ends. */
	mock_kill(f->mock);
	assert_int_equal(fcntl(f->context->async_fd, F_SETFL, 0), 0);
	assert_int_equal(ibv_get_async_event(f->context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_get_async_event(f->context, &event), -1); /* does not wait for ever */
	assert_int_equal(errno, EIO);
	assert_false(readable(f->context->async_fd));
	assert_int_equal(ibv_poll_cq(f->send_cq, 1, &wc), -1);
	mock_revive(f->mock);
}

static void *
stay_for_async(void *user)
{
	struct fixture *f = user;
	struct ibv_async_event event;

	ibv_get_async_event(f->context, &event);
	return NULL;
}

static void *
stay_for_cq(void *user)
{
	struct fixture *f = user;
	struct ibv_cq *cq;
	void *context;

	ibv_get_cq_event(f->channel, &cq, &context);
	return NULL;
}

/* Threads that wait for events can be cancelled, as with rdma-core, and hold no lock then. */
static void
test_cancelled(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 40; i++) {
		pthread_t thread;
		void *result;

		assert_int_equal(pthread_create(&thread, NULL, i % 2 == 0 ? stay_for_async : stay_for_cq, f),
				 0);
		if (i % 4 == 0)
			mock_wait_asleep(f->mock, 1);
		assert_int_equal(pthread_cancel(thread), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_int_equal(ibv_destroy_cq(ibv_create_cq(f->context, 4, NULL, f->channel, 0)), 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_events),         T(test_arms_together),
		T(test_events_of_gone), T(test_events_and_signals),
		T(test_async),          T(test_async_taken_by_others),
		T(test_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
