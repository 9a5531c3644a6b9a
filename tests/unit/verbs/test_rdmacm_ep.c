/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm without an event channel, objects that an id creates itself, and ids that change channels. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

static struct mock *mock;

/* The event that follows a request to connect, accept, or disconnect. */
static enum one_conn_event outcome = ONE_CONN_ESTABLISHED;

static bool
answer(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds, struct one_reply *reply,
       void *user)
{
	uint32_t qp = msg->type == ONE_MSG_CR_ACCEPT ? msg->cr_accept.qp : msg->qp_connect.qp;

	mock_qp_shm(m, qp)->remote_qpn = 0x1234;
	if (msg->type == ONE_MSG_QP_DISCONNECT)
		mock_conn_event(m, qp, ONE_CONN_DISCONNECTED);
	else if (outcome == ONE_CONN_ESTABLISHED)
		mock_connected(m, qp, "welcome", 7);
	else
		mock_conn_event(m, qp, outcome);
	return true; /* skip the mock's default, which sets CONNECTING */
}

/* librdmacm keeps devices open for the life of the process, so the mock is never stopped. */
static int
setup(void **state)
{
	mock = mock_start();
	mock_welcome(mock)->family = AF_INET;
	memcpy(mock_welcome(mock)->addr, "\xc0\x00\x02\x01", 4);
	mock_on(mock, ONE_MSG_QP_CONNECT, answer, NULL);
	mock_on(mock, ONE_MSG_CR_ACCEPT, answer, NULL);
	mock_on(mock, ONE_MSG_QP_DISCONNECT, answer, NULL);
	return 0;
}

static struct ibv_qp_init_attr
small(void)
{
	return (struct ibv_qp_init_attr){
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
}

static struct rdma_addrinfo *
lookup(const char *node, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *info;

	assert_int_equal(rdma_getaddrinfo(node, "7000", &hints, &info), 0);
	return info;
}

/* Returns a resolved id with a queue pair, for which the library creates the CQs. */
static struct rdma_cm_id *
active(void)
{
	struct ibv_qp_init_attr init = small();
	struct rdma_addrinfo *info = lookup("192.0.2.2", RAI_NUMERICHOST);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, info, NULL, &init), 0);
	rdma_freeaddrinfo(info);
	return id;
}

static struct rdma_cm_id *
listener(int backlog, struct ibv_qp_init_attr *init, uint32_t *number)
{
	struct rdma_addrinfo *info = lookup("192.0.2.1", RAI_PASSIVE);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, info, NULL, init), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_listen(id, backlog), 0);
	*number = mock_newest(mock, ONE_MSG_LISTEN);
	return id;
}

static void
test_active(void **state)
{
	struct rdma_cm_id *id, *again;

	id = active();
	assert_non_null(id->pd);
	assert_non_null(id->send_cq_channel);
	assert_non_null(id->recv_cq_channel);
	assert_ptr_equal(id->qp->send_cq, id->send_cq);
	assert_ptr_equal(id->qp->recv_cq, id->recv_cq);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 7000);
	assert_fails(rdma_get_request(id, &again), EINVAL); /* not a listener */
	assert_fails(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_memory_equal(id->event->param.conn.private_data, "welcome", 7);
	assert_int_equal(rdma_notify(id, IBV_EVENT_COMM_EST), 0);
	assert_fails(rdma_notify(id, IBV_EVENT_PATH_MIG), EINVAL);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(id), 0); /* the connection has already ended: no wait for an event */
	rdma_destroy_ep(id);
}

static void
test_failures(void **state)
{
	static const struct {
		enum one_conn_event end;
		int error;
	} ends[] = {
		{ONE_CONN_PEER_REJECTED, ECONNREFUSED},
		{ONE_CONN_NON_PEER_REJECTED, ECONNREFUSED},
		{ONE_CONN_UNREACHABLE, ETIMEDOUT},
		{ONE_CONN_DISCONNECTED, ECONNABORTED},
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
		struct rdma_cm_id *id = active();
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		outcome = ends[i].end;
		assert_int_equal(ibv_post_send(id->qp, &wr, &bad), EINVAL);
		assert_fails(rdma_connect(id, NULL), ends[i].error);
		/* The id's queue pair is in ERR, where requests are flushed. */
		assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
		assert_int_equal(attr.qp_state, IBV_QPS_ERR);
		assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
		rdma_destroy_ep(id);
	}
	outcome = ONE_CONN_ESTABLISHED;
}

static void
test_passive(void **state)
{
	struct ibv_qp_init_attr init = small();
	struct rdma_cm_id *listen, *id;
	uint32_t number;

	listen = listener(0, &init, &number);
	mock_request(mock, number, 7000, "please", 6);
	assert_int_equal(rdma_get_request(listen, &id), 0);
	assert_ptr_equal(id->event->listen_id, listen);
	assert_memory_equal(id->event->param.conn.private_data, "please", 6);
	assert_non_null(id->qp);
	assert_non_null(id->recv_cq_channel);
	assert_ptr_not_equal(id->channel, listen->channel);
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_ep(id);
	/* A request for which no queue pair can be created is rejected, and the listener goes on. */
	mock_refuse(mock, ONE_MSG_QP_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 1, 1);
	mock_request(mock, number, 7000, NULL, 0);
	assert_fails(rdma_get_request(listen, &id), ENOMEM);
	assert_int_equal(mock_count(mock, ONE_MSG_CR_REJECT), 1);
	mock_request(mock, number, 7000, NULL, 0);
	assert_int_equal(rdma_get_request(listen, &id), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listen);
	assert_int_equal(mock_count(mock, ONE_MSG_CR_REJECT), 2);
}

static void
test_backlog(void **state)
{
	struct rdma_cm_id *listen, *id;
	int before = mock_count(mock, ONE_MSG_CR_REJECT);
	struct one_msg msg;
	uint32_t number, last;

	listen = listener(2, NULL, &number);
	mock_request(mock, number, 7000, NULL, 0);
	mock_request(mock, number, 7000, NULL, 0);
	last = mock_request(mock, number, 7000, NULL, 0);
	/* The thread that reads the channel rejects requests above the backlog; taking one makes room. */
	while ((int)mock_count(mock, ONE_MSG_CR_REJECT) != before + 1)
		sched_yield();
	assert_int_equal(rdma_get_request(listen, &id), 0);
	assert_true(mock_last(mock, ONE_MSG_CR_REJECT, &msg));
	assert_int_equal(msg.cr_reject.cr, last);
	assert_null(id->qp);
	rdma_destroy_ep(id);
	assert_int_equal(rdma_get_request(listen, &id), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listen);
}

static bool
readable(const struct rdma_event_channel *channel)
{
	struct pollfd look = {.fd = channel->fd, .events = POLLIN};

	return poll(&look, 1, 0) == 1;
}

/* Unread events move with their id. */
static void
test_migrate(void **state)
{
	struct rdma_event_channel *a = rdma_create_event_channel(), *b = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7000)};
	struct rdma_cm_id *id, *other;

	inet_pton(AF_INET, "192.0.2.2", &to.sin_addr);
	assert_int_equal(rdma_create_id(a, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_create_id(a, &other, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
	assert_int_equal(rdma_resolve_addr(other, NULL, (struct sockaddr *)&to, 1000), 0);
	assert_int_equal(rdma_migrate_id(id, b), 0);
	assert_ptr_equal(id->channel, b);
	assert_true(readable(b));
	assert_int_equal(rdma_get_cm_event(b, &event), 0);
	assert_ptr_equal(event->id, id);
	rdma_ack_cm_event(event);
	assert_false(readable(b));
	assert_int_equal(rdma_get_cm_event(a, &event), 0);
	assert_ptr_equal(event->id, other);
	rdma_ack_cm_event(event);
	fcntl(a->fd, F_SETFL, O_NONBLOCK);
	assert_fails(rdma_get_cm_event(a, &event), EAGAIN);
	/* Without a channel, calls wait for their event. With a channel, they do not. */
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	assert_fails(rdma_migrate_id(id, NULL), EINVAL);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_migrate_id(id, b), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_null(id->event);
	assert_true(readable(b));
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(other), 0);
	rdma_destroy_event_channel(a);
	rdma_destroy_event_channel(b);
}

/* Unread requests move with their listener, whose old channel can then be destroyed. */
static void
test_migrate_listener(void **state)
{
	struct rdma_event_channel *a = rdma_create_event_channel(), *b = rdma_create_event_channel();
	struct ibv_qp_init_attr init = small();
	struct rdma_cm_event *event;
	struct rdma_cm_id *listen, *id;
	uint32_t number;

	listen = listener(0, NULL, &number);
	assert_int_equal(rdma_migrate_id(listen, a), 0);
	mock_request(mock, number, 7000, NULL, 0);
	while (!readable(a)) /* the thread that reads the ring puts the request there */
		sched_yield();
	assert_int_equal(rdma_migrate_id(listen, b), 0);
	rdma_destroy_event_channel(a);
	assert_int_equal(rdma_get_cm_event(b, &event), 0);
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event->id;
	rdma_ack_cm_event(event);
	assert_ptr_equal(id->channel, b);
	assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_int_equal(rdma_get_cm_event(b, &event), 0);
	assert_int_equal(event->event, RDMA_CM_EVENT_ESTABLISHED);
	rdma_ack_cm_event(event);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listen);
	rdma_destroy_event_channel(b);
}

static _Atomic int handled;

static void
on_signal(int number)
{
	handled++;
}

struct waiter {
	pthread_t thread;
	struct rdma_cm_id *id;
	_Atomic bool ended;
};

/* Interrupts the waiting thread until its wait has ended, or 50 times; then causes an event. */
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
		rdma_resolve_route(waiter->id, 1000);
	return NULL;
}

/* A wait for events goes on after handlers with SA_RESTART, and ends with EINTR after others. */
static void
test_signals(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip(); /* TSan delays handlers during intercepted system calls */
#endif
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id = active();

	assert_int_equal(rdma_migrate_id(id, channel), 0);
	for (int restarts = 0; restarts <= 1; restarts++) {
		struct sigaction action = {.sa_handler = on_signal, .sa_flags = restarts ? SA_RESTART : 0};
		struct waiter waiter = {.thread = pthread_self(), .id = id};
		pthread_t thread;
		int result, error;

		handled = 0;
		assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
		assert_int_equal(pthread_create(&thread, NULL, interrupt, &waiter), 0);
		result = rdma_get_cm_event(channel, &event);
		error = errno;
		waiter.ended = true;
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(result, restarts ? 0 : -1);
		if (restarts)
			rdma_ack_cm_event(event);
		else
			assert_int_equal(error, EINTR);
	}
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

static void
test_srq(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_init_attr_ex ex = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr qp = small();
	struct rdma_addrinfo *info = lookup("192.0.2.2", 0);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_fails(rdma_create_srq(id, NULL, &init), EINVAL); /* no device yet */
	assert_fails(rdma_create_qp(id, NULL, &qp), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_ep(&id, info, NULL, NULL), 0);
	assert_fails(rdma_create_srq_ex(id, &ex), EINVAL); /* no type given */
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
	ex.srq_type = IBV_SRQT_XRC;
	assert_fails(rdma_create_srq_ex(id, &ex), EOPNOTSUPP);
	ex.srq_type = IBV_SRQT_BASIC;
	assert_int_equal(rdma_create_srq_ex(id, &ex), 0);
	assert_fails(rdma_create_srq(id, NULL, &init), EINVAL); /* the id has an SRQ already */
	assert_int_equal(rdma_create_qp(id, NULL, &qp), 0);
	assert_ptr_equal(id->qp->srq, id->srq);
	assert_fails(rdma_create_qp(id, NULL, &qp), EINVAL);
	rdma_destroy_qp(id);
	assert_null(id->send_cq);
	rdma_destroy_srq(id);
	assert_int_equal(rdma_create_srq(id, NULL, &init), 0);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
}

/* The end of a connection is reported whether or not its queue pair still exists. */
static void
test_end_without_qp(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;

	for (int first = 0; first < 2; first++) {
		struct rdma_cm_id *id = active();

		assert_int_equal(rdma_connect(id, NULL), 0);
		assert_int_equal(rdma_migrate_id(id, channel), 0);
		if (first == 0)
			assert_int_equal(rdma_disconnect(id), 0);
		rdma_destroy_qp(id);
		if (first == 1)
			assert_int_equal(rdma_disconnect(id), 0);
		assert_true(readable(channel));
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		assert_int_equal(event->event, RDMA_CM_EVENT_DISCONNECTED);
		assert_ptr_equal(event->id, id);
		rdma_ack_cm_event(event);
		assert_int_equal(rdma_disconnect(id), 0);
		assert_false(readable(channel));
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
}

static void
test_addrinfo(void **state)
{
	struct sockaddr_in own = {.sin_family = AF_INET};
	struct rdma_addrinfo hints = {0}, *info;

	assert_fails(rdma_getaddrinfo(NULL, NULL, NULL, &info), EINVAL);
	assert_int_equal(rdma_getaddrinfo("192.0.2.2", "7000", NULL, &info), 0);
	assert_int_equal(info->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(info->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(info->ai_family, AF_INET);
	assert_null(info->ai_src_addr);
	rdma_freeaddrinfo(info);
	hints.ai_flags = RAI_NUMERICHOST | RAI_NOROUTE;
	assert_int_equal(rdma_getaddrinfo("no.number", NULL, &hints, &info), EAI_NONAME);
	hints.ai_flags = RAI_NUMERICHOST | RAI_FAMILY;
	hints.ai_family = AF_INET6;
	assert_int_equal(rdma_getaddrinfo("2001:db8::2", "7000", &hints, &info), 0);
	assert_int_equal(info->ai_dst_len, sizeof(struct sockaddr_in6));
	rdma_freeaddrinfo(info);
	assert_int_not_equal(rdma_getaddrinfo("192.0.2.2", NULL, &hints, &info), 0);
	/* The result has the caller's source address. Without a node, all of the result is the caller's. */
	hints = (struct rdma_addrinfo){.ai_src_addr = (struct sockaddr *)&own, .ai_src_len = sizeof(own)};
	assert_int_equal(rdma_getaddrinfo("192.0.2.2", "7000", &hints, &info), 0);
	assert_int_equal(info->ai_src_len, sizeof(own));
	assert_ptr_not_equal(info->ai_src_addr, &own);
	rdma_freeaddrinfo(info);
	hints.ai_dst_addr = (struct sockaddr *)&own;
	hints.ai_dst_len = sizeof(own);
	hints.ai_port_space = RDMA_PS_IB;
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &info), 0);
	assert_memory_equal(info->ai_dst_addr, &own, sizeof(own));
	assert_int_equal(info->ai_port_space, RDMA_PS_IB);
	rdma_freeaddrinfo(info);
}

/* Creates a queue pair outside of librdmacm, in INIT with these rights. */
static struct ibv_qp *
own_qp(const struct rdma_cm_id *id, struct ibv_cq *cq, unsigned int rights)
{
	struct ibv_qp_init_attr init = small();
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights};
	struct ibv_qp *qp;

	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(id->pd, &init);
	assert_non_null(qp);
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			 0);
	return qp;
}

static int
step(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = 0;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(attr.qp_state, state);
	return ibv_modify_qp(qp, &attr, mask);
}

/* rdma_init_qp_attr() reports the retries of the peer's message, and these timers. */
static void
assert_negotiated(struct rdma_cm_id *id, uint8_t timeout, uint8_t min_rnr_timer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask = 0;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_true((mask & IBV_QP_MIN_RNR_TIMER) != 0);
	assert_int_equal(attr.min_rnr_timer, min_rnr_timer);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(mask & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY),
			 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	assert_int_equal(attr.retry_cnt, MOCK_RETRY_COUNT);
	assert_int_equal(attr.rnr_retry, MOCK_RNR_RETRY);
	assert_int_equal(attr.timeout, timeout);
}

/* rdma_connect() takes a QPN: transitions to RTR and RTS by rdma_init_qp_attr() then do not connect again. */
static void
test_own_qp_connects(void **state)
{
	struct rdma_conn_param param = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	uint32_t out_of_band = mock_count(mock, ONE_MSG_QP_RTR) + mock_count(mock, ONE_MSG_QP_RTS);
	struct rdma_addrinfo *to = lookup("192.0.2.2", 0);
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_qp *qp, *fewer;
	struct one_msg msg;
	int mask;

	assert_int_equal(rdma_create_ep(&id, to, NULL, NULL), 0);
	cq = ibv_create_cq(id->verbs, 10, NULL, NULL, 0);
	assert_fails(rdma_connect(id, NULL), EINVAL);
	param.qp_num = 0xffffff; /* no queue pair's */
	assert_fails(rdma_connect(id, &param), EINVAL);
	assert_fails(rdma_init_qp_attr(id, &attr, &mask), EINVAL); /* the peer has not answered yet */
	assert_fails(rdma_establish(id), EINVAL);
	qp = own_qp(id, cq, 0);
	param.qp_num = qp->qp_num;
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(id->event->param.conn.qp_num, 0x1234);
	assert_int_equal(step(id, qp, IBV_QPS_INIT), 0);
	assert_int_equal(step(id, qp, IBV_QPS_RTR), 0);
	assert_int_equal(step(id, qp, IBV_QPS_RTS), 0);
	assert_negotiated(id, MOCK_TIMEOUT, MOCK_MIN_RNR_TIMER);
	assert_int_equal(rdma_establish(id), 0);
	assert_int_equal(mock_count(mock, ONE_MSG_QP_RTR) + mock_count(mock, ONE_MSG_QP_RTS), out_of_band);
	attr.qp_state = IBV_QPS_SQD;
	assert_fails(rdma_init_qp_attr(id, &attr, &mask), EINVAL);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_fails(rdma_establish(id), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	rdma_destroy_ep(id);
	/* Fewer rights than the connection was established with. */
	assert_int_equal(rdma_create_ep(&id, to, NULL, NULL), 0);
	fewer = own_qp(id, cq, IBV_ACCESS_REMOTE_READ);
	param.qp_num = fewer->qp_num;
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(step(id, fewer, IBV_QPS_RTR), 0);
	assert_true(mock_last(mock, ONE_MSG_QP_SET, &msg));
	assert_int_equal(msg.qp_set.to.given, ONE_QP_SET_ACCESS);
	assert_int_equal(msg.qp_set.to.access, ONE_ACCESS_REMOTE_READ);
	/* Destroying the queue pair ends the connection; the id reports the end at rdma_disconnect(). */
	assert_int_equal(ibv_destroy_qp(fewer), 0);
	mock_refuse(mock, ONE_MSG_QP_DISCONNECT, -EINVAL, ONE_SUBJECT_QP, 0, 1);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_ep(id);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	rdma_freeaddrinfo(to);
}

static void
test_own_qp_accepts(void **state)
{
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *listen, *id;
	struct one_msg msg;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint32_t number;

	listen = listener(0, NULL, &number);
	mock_request(mock, number, 7000, NULL, 0);
	assert_int_equal(rdma_get_request(listen, &id), 0);
	cq = ibv_create_cq(id->verbs, 10, NULL, NULL, 0);
	qp = own_qp(id, cq, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(step(id, qp, IBV_QPS_RTR), 0);
	assert_int_equal(step(id, qp, IBV_QPS_RTS), 0);
	assert_negotiated(id, 18, 12); /* the timers are not negotiated yet */
	param.qp_num = qp->qp_num;
	assert_int_equal(rdma_accept(id, &param), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_negotiated(id, MOCK_TIMEOUT, MOCK_MIN_RNR_TIMER);
	assert_true(mock_last(mock, ONE_MSG_CR_ACCEPT, &msg));
	assert_true((msg.cr_accept.param.given & ONE_CONN_ACCESS) != 0);
	assert_int_equal(msg.cr_accept.param.access, ONE_ACCESS_REMOTE_READ);
	assert_fails(rdma_establish(id), EINVAL); /* for the active side only */
	rdma_destroy_ep(id);
	rdma_destroy_ep(listen);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void *
destroy(void *arg)
{
	struct waiter *waiter = arg;

	assert_int_equal(rdma_destroy_id(waiter->id), 0);
	assert_true(waiter->ended);
	return NULL;
}

/* An id can be destroyed while the connection of an application's own queue pair lives: the peer is notified
 * of the end, and the id is freed when its events have been acknowledged. */
static void
test_own_qp_and_destroy(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo *to = lookup("192.0.2.2", 0);
	uint32_t before = mock_count(mock, ONE_MSG_QP_DISCONNECT);
	struct rdma_conn_param param = {0};
	struct rdma_cm_event *event;
	struct waiter waiter = {0};
	pthread_t thread;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	assert_int_equal(rdma_create_ep(&waiter.id, to, NULL, NULL), 0);
	cq = ibv_create_cq(waiter.id->verbs, 10, NULL, NULL, 0);
	qp = own_qp(waiter.id, cq, 0);
	param.qp_num = qp->qp_num;
	assert_int_equal(rdma_migrate_id(waiter.id, channel), 0);
	assert_int_equal(rdma_connect(waiter.id, &param), 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(pthread_create(&thread, NULL, destroy, &waiter), 0);
	while (mock_count(mock, ONE_MSG_QP_DISCONNECT) == before)
		sched_yield();
	waiter.ended = true;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	rdma_freeaddrinfo(to);
	rdma_destroy_event_channel(channel);
}

/* Options of the id and parameters of a call reach the data plane; the port's values replace those not
 * given. */
static void
test_parameters(void **state)
{
	struct rdma_conn_param param = {.rnr_retry_count = 15, .retry_count = 2, .responder_resources = 200};
	struct rdma_cm_id *id = active();
	uint8_t byte = 0x28, code = 32;
	struct one_msg msg;
	int yes = 1;

	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 4), EINVAL);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1), 0);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &code, 1), EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)),
		     EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, 1), EINVAL);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)), 0);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, 77, &yes, sizeof(yes)), ENOSYS);
	assert_fails(rdma_set_option(id, 77, 0, &yes, sizeof(yes)), ENOSYS);
	assert_fails(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &yes, 0), EOPNOTSUPP);
	assert_fails(rdma_connect(id, &param), EINVAL); /* more READs than the device serves */
	param.responder_resources = RDMA_MAX_RESP_RES;
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_true(mock_last(mock, ONE_MSG_QP_CONNECT, &msg));
	assert_int_equal(msg.qp_connect.param.given, ONE_CONN_STEPWISE | ONE_CONN_RNR_RETRY |
							     ONE_CONN_RETRY_COUNT | ONE_CONN_TRAFFIC_CLASS);
	assert_int_equal(msg.qp_connect.param.rnr_retry, 7);
	assert_int_equal(msg.qp_connect.param.retry_count, 2);
	assert_int_equal(msg.qp_connect.param.traffic_class, 0x28);
	rdma_destroy_ep(id);
	id = active();
	code = 20;
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &code, 1), 0);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_true(mock_last(mock, ONE_MSG_QP_CONNECT, &msg));
	assert_int_equal(msg.qp_connect.param.given, ONE_CONN_STEPWISE | ONE_CONN_RNR_RETRY |
							     ONE_CONN_RETRY_COUNT | ONE_CONN_ACK_TIMEOUT);
	assert_int_equal(msg.qp_connect.param.ack_timeout, 20);
	assert_int_equal(msg.qp_connect.param.retry_count, 7);
	rdma_destroy_ep(id);
}

static void
test_mapped(void **state)
{
	struct rdma_addrinfo *to = lookup("::ffff:192.0.2.2", 0),
			     *own = lookup("::ffff:192.0.2.1", RAI_PASSIVE);
	struct rdma_cm_id *id;

	assert_int_equal(to->ai_family, AF_INET6);
	assert_int_equal(rdma_create_ep(&id, to, NULL, NULL), 0);
	assert_int_equal(rdma_get_peer_addr(id)->sa_family, AF_INET);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 7000);
	rdma_destroy_ep(id);
	assert_int_equal(rdma_create_ep(&id, own, NULL, NULL), 0);
	assert_non_null(id->verbs);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(to);
	rdma_freeaddrinfo(own);
}

/* A loopback address stands for any device, and connects within this host only. */
static void
test_loopback(void **state)
{
	struct rdma_addrinfo *any = lookup("127.0.0.1", RAI_PASSIVE), *to = lookup("127.0.0.1", 0);
	int before = (int)mock_count(mock, ONE_MSG_CR_REJECT);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *requested;
	uint32_t number;

	assert_int_equal(rdma_create_ep(&id, to, NULL, NULL), 0);
	assert_int_equal(((struct sockaddr_in *)rdma_get_peer_addr(id))->sin_addr.s_addr,
			 inet_addr("192.0.2.1"));
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 7000);
	rdma_destroy_ep(id);
	assert_int_equal(rdma_create_ep(&id, any, NULL, NULL), 0);
	assert_null(id->verbs);
	assert_int_equal(rdma_listen(id, 0), 0);
	number = mock_newest(mock, ONE_MSG_LISTEN);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	mock_welcome(mock)->addr[3] = 9; /* address that requests come from */
	mock_request(mock, number, 7000, NULL, 0);
	while ((int)mock_count(mock, ONE_MSG_CR_REJECT) == before)
		usleep(1000);
	assert_int_equal(mock_count(mock, ONE_MSG_CR_REJECT), before + 1);
	mock_welcome(mock)->addr[3] = 1;
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	assert_fails(rdma_get_cm_event(channel, &event), EAGAIN);
	fcntl(channel->fd, F_SETFL, 0);
	mock_request(mock, number, 7000, NULL, 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	requested = event->id;
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(requested), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	rdma_freeaddrinfo(any);
	rdma_freeaddrinfo(to);
}

static void
test_refusals(void **state)
{
	struct rdma_addrinfo *info = lookup("192.0.2.2", 0), *here = lookup("192.0.2.9", RAI_PASSIVE);
	struct ibv_qp_init_attr init = small();
	struct rdma_cm_id *id;

	info->ai_qp_type = IBV_QPT_XRC_SEND;
	assert_fails(rdma_create_ep(&id, info, NULL, &init), EOPNOTSUPP);
	assert_fails(rdma_create_ep(&id, here, NULL, &init), EADDRNOTAVAIL); /* not an address of a device */
	rdma_freeaddrinfo(info);
	rdma_freeaddrinfo(here);
	assert_fails(rdma_create_id(NULL, &id, NULL, RDMA_PS_IPOIB), EOPNOTSUPP);
}

/* Listeners are notified of the loss of a device. When its data plane is back, new ids connect and accept by
 * the existing channel. */
static void
test_loss(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = active(), *listen, *asked;
	struct rdma_cm_event *event;
	uint32_t number;

	listen = listener(0, NULL, &number);
	assert_int_equal(rdma_migrate_id(listen, channel), 0);
	for (int again = 0; again < 2; again++) {
		mock_kill(mock);
		assert_int_equal(rdma_connect(id, NULL), -1);
		rdma_destroy_ep(id);
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		assert_int_equal(event->event, RDMA_CM_EVENT_DEVICE_REMOVAL);
		assert_ptr_equal(event->id, listen);
		rdma_ack_cm_event(event);
		rdma_destroy_ep(listen);
		mock_revive(mock);
		id = active();
		assert_int_equal(rdma_connect(id, NULL), 0);
		rdma_destroy_ep(id);
		id = active();
		listen = listener(0, NULL, &number);
		assert_int_equal(rdma_migrate_id(listen, channel), 0);
		mock_request(mock, number, 7000, NULL, 0);
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
		asked = event->id;
		rdma_ack_cm_event(event);
		assert_int_equal(rdma_destroy_id(asked), 0);
	}
	rdma_destroy_ep(id);
	rdma_destroy_ep(listen);
	rdma_destroy_event_channel(channel);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_active),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_passive),
		cmocka_unit_test(test_backlog),
		cmocka_unit_test(test_migrate),
		cmocka_unit_test(test_migrate_listener),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_srq),
		cmocka_unit_test(test_end_without_qp),
		cmocka_unit_test(test_addrinfo),
		cmocka_unit_test(test_own_qp_connects),
		cmocka_unit_test(test_own_qp_accepts),
		cmocka_unit_test(test_own_qp_and_destroy),
		cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_loss),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
