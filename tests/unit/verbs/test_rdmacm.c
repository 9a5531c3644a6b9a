/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm: ids through their lives, refusals of each call, and all endings of a connection. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

#include "fixture.h"

static struct mock *mock;
static struct rdma_event_channel *channel, *other;

/* librdmacm keeps devices open for the life of the process, so the mock is never stopped. */
static int
setup(void **state)
{
	mock = mock_start();
	mock_welcome(mock)->family = AF_INET;
	memcpy(mock_welcome(mock)->addr, "\xc0\x00\x02\x01", 4);
	channel = rdma_create_event_channel();
	other = rdma_create_event_channel();
	assert_non_null(other);
	assert_non_null(channel);
	return fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}

static struct sockaddr *
address(const char *text, uint16_t port)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
	return (struct sockaddr *)&in;
}

/* `timeout_ms` = -1: waits until the channel is readable. */
static bool
readable(const struct rdma_event_channel *which, int timeout_ms)
{
	struct pollfd look = {.fd = which->fd, .events = POLLIN};

	return poll(&look, 1, timeout_ms) == 1;
}

static void
none(void)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(readable(channel, 0));
}

static struct rdma_cm_event *
next(enum rdma_cm_event_type type, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;

	assert_true(readable(channel, -1));
	assert_false(readable(other, 0)); /* no event for the other channel */
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	if (id != NULL)
		assert_ptr_equal(event->id, id);
	return event;
}

static void
expect_event(enum rdma_cm_event_type type, struct rdma_cm_id *id, int status)
{
	struct rdma_cm_event *event = next(type, id);

	assert_int_equal(event->status, status);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static struct rdma_cm_id *
new_id(void)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, &mock, RDMA_PS_TCP), 0);
	assert_ptr_equal(id->context, &mock);
	return id;
}

static struct ibv_cq *
make_qp(struct rdma_cm_id *id, uint32_t *qp)
{
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = 4, .max_recv_wr = 4},
					.qp_type = IBV_QPT_RC};

	assert_non_null(cq);
	assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
	assert_non_null(id->qp);
	*qp = mock_newest(mock, ONE_MSG_QP_CREATE);
	return cq;
}

static void
drop(struct rdma_cm_id *id, struct ibv_cq *cq)
{
	rdma_destroy_qp(id);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static struct rdma_cm_id *
resolved(void)
{
	struct rdma_cm_id *id = new_id();

	assert_fails(rdma_resolve_route(id, 1000), EINVAL);
	assert_fails(rdma_connect(id, NULL), EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, address("192.0.2.2", 7000), 1000), 0);
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	assert_non_null(id->verbs);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 7000);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED, id, 0);
	return id;
}

static void
show_transport(struct one_qp_shm *shm)
{
	shm->remote_qpn = 0x1234;
	shm->send_psn = 0xabcde;
	shm->recv_psn = 0x12345;
	shm->flow_label = 0x54321;
	shm->path_mtu = 704; /* an MTU that the data planes agreed on, without an enum ibv_mtu */
	shm->traffic_class = 8;
	shm->hop_limit = 63;
}

/* ibv_query_qp() returns what the CMs agreed on. */
static void
check_query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, 0x1234);
	assert_int_equal(attr.sq_psn, 0xabcde);
	assert_int_equal(attr.rq_psn, 0x12345);
	assert_int_equal(attr.path_mtu, IBV_MTU_512);
	assert_int_equal(attr.timeout, MOCK_TIMEOUT);
	assert_int_equal(attr.min_rnr_timer, MOCK_MIN_RNR_TIMER);
	assert_int_equal(attr.retry_cnt, MOCK_RETRY_COUNT);
	assert_int_equal(attr.rnr_retry, MOCK_RNR_RETRY);
	assert_int_equal(attr.max_rd_atomic, mock_welcome(mock)->limits.max_rd_atomic);
	assert_int_equal(attr.max_dest_rd_atomic, mock_welcome(mock)->limits.max_rd_atomic);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.qp_access_flags,
			 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.ah_attr.port_num, 1);
	assert_memory_equal(attr.ah_attr.grh.dgid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x01", 16);
	assert_int_equal(attr.ah_attr.grh.flow_label, 0x54321);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 8);
	assert_int_equal(attr.ah_attr.grh.hop_limit, 63);
}

static void
test_connect(void **state)
{
	struct rdma_conn_param param = {.private_data = "hello",
					.private_data_len = 5,
					.responder_resources = 2,
					.initiator_depth = 3};
	struct rdma_cm_id *id = resolved();
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct rdma_cm_event *event;
	struct one_msg msg;
	struct one_cqe timewait_exit = {
		.type = ONE_CQE_CONNECT, .status = ONE_CONN_TIMEWAIT_EXIT, .flags = ONE_CQE_NOTIFY};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint8_t timeout = 21;
	struct ibv_cq *cq;
	uint32_t qp;

	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
	assert_fails(rdma_connect(id, &param), EINVAL); /* neither a queue pair nor a QPN */
	cq = make_qp(id, &qp);
	assert_int_equal(rdma_connect(id, &param), 0);
	/* Before the connection is established, a query returns what was set. */
	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
	assert_int_equal(attr.timeout, timeout);
	assert_true(mock_last(mock, ONE_MSG_QP_CONNECT, &msg));
	assert_int_equal(msg.qp_connect.service, 7000);
	assert_memory_equal(msg.qp_connect.addr, "\xc0\x00\x02\x02", 4);
	assert_memory_equal(msg.qp_connect.private_data, "hello", 5);
	assert_true(mock_last(mock, ONE_MSG_QP_MODIFY, &msg));
	timewait_exit.object = qp;
	assert_int_equal(msg.qp_modify.to.rd_atomic_in, 2);
	assert_int_equal(msg.qp_modify.to.rd_atomic_out, 3);
	none();
	assert_int_equal(ibv_post_send(id->qp, &wr, &bad), EINVAL);
	show_transport(mock_qp_shm(mock, qp));
	mock_connected(mock, qp, "welcome", 7);
	assert_true(readable(channel, -1));
	/* The peer gets its confirmation, and the queue pair connects, only when the event is read. */
	assert_int_equal(mock_count(mock, ONE_MSG_QP_CONFIRM), 0);
	assert_int_equal(ibv_post_send(id->qp, &wr, &bad), EINVAL);
	event = next(RDMA_CM_EVENT_ESTABLISHED, id);
	assert_int_equal(mock_count(mock, ONE_MSG_QP_CONFIRM), 1);
	check_query(id->qp);
	assert_int_equal(event->param.conn.private_data_len, 7);
	assert_memory_equal(event->param.conn.private_data, "welcome", 7);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(mock_count(mock, ONE_MSG_QP_DISCONNECT), 1);
	mock_conn_event(mock, qp, ONE_CONN_DISCONNECTED);
	expect_event(RDMA_CM_EVENT_DISCONNECTED, id, 0);
	/* The end of the time wait is reported once, to the id, even after its queue pair was destroyed. */
	rdma_destroy_qp(id);
	assert_true((msg.qp_modify.to.flags & ONE_QP_TIMEWAIT) != 0);
	assert_true(mock_cqe(mock, msg.qp_modify.to.conn_cq, &timewait_exit));
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, id, 0);
	assert_true(mock_cqe(mock, msg.qp_modify.to.conn_cq, &timewait_exit));
	timewait_exit.object = 0;
	assert_true(mock_cqe(mock, msg.qp_modify.to.conn_cq, &timewait_exit));
	assert_int_equal(rdma_migrate_id(id, other), 0); /* reads all entries of the ring */
	assert_false(readable(other, 0));
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	none();
}

/* UCX connects so: the QPN belongs to a UD queue pair, and data does not use the connection. */
static void
test_number_of_datagrams(void **state)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .cap = {2, 2, 1, 1, 0}};
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *id = resolved();
	uint32_t ud, carrier, freed;
	struct one_msg msg;
	struct ibv_qp *qp;

	init.send_cq = init.recv_cq = ibv_create_cq(id->verbs, 1, NULL, NULL, 0);
	qp = ibv_create_qp(id->pd, &init);
	assert_non_null(qp);
	ud = mock_newest(mock, ONE_MSG_QP_CREATE);
	param.qp_num = qp->qp_num;
	assert_int_equal(rdma_connect(id, &param), 0);
	carrier = mock_newest(mock, ONE_MSG_QP_CREATE);
	assert_int_not_equal(carrier, ud);
	assert_true(mock_last(mock, ONE_MSG_QP_CONNECT, &msg));
	assert_int_equal(msg.qp_connect.qp, carrier);
	assert_int_equal(msg.qp_connect.param.known_as, ud);
	mock_connected(mock, carrier, NULL, 0);
	expect_event(RDMA_CM_EVENT_CONNECT_RESPONSE, id, 0);
	assert_int_equal(rdma_establish(id), 0);
	assert_true(mock_last(mock, ONE_MSG_QP_CONFIRM, &msg));
	assert_int_equal(msg.id.id, carrier);
	/* The application may destroy its queue pair before the id. */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(init.send_cq), 0);
	freed = mock_count(mock, ONE_MSG_QP_FREE);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(mock_count(mock, ONE_MSG_QP_FREE), freed + 1);
}

static void *
wait_for_event(void *user)
{
	struct rdma_cm_event *event;

	rdma_get_cm_event(user, &event);
	return NULL;
}

/* Threads that wait for events can be cancelled, as with rdma-core, and hold no lock then. */
static void
test_cancelled(void **state)
{
	struct rdma_event_channel *waited = rdma_create_event_channel();

	for (int i = 0; i < 40; i++) {
		struct rdma_cm_id *id;
		pthread_t thread;
		void *result;

		assert_int_equal(pthread_create(&thread, NULL, wait_for_event, waited), 0);
		if (i % 2 == 0)
			sched_yield();
		assert_int_equal(pthread_cancel(thread), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_int_equal(rdma_create_id(waited, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(waited);
}

/* When the peer ends a connection, receives are flushed once the event is read. */
static void
test_end_by_peer(void **state)
{
	static const enum one_conn_event ends[] = {ONE_CONN_DISCONNECTED, ONE_CONN_PEER_REJECTED,
						   ONE_CONN_ACCEPT_ERROR, ONE_CONN_TIMED_OUT};

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t qp, before = mock_count(mock, ONE_MSG_QP_DISCONNECT);
		struct rdma_cm_id *id = resolved();
		struct ibv_cq *cq = make_qp(id, &qp);
		struct rdma_cm_event *event;
		struct one_msg msg;

		assert_int_equal(rdma_connect(id, NULL), 0);
		if (i == 0) {
			mock_connected(mock, qp, NULL, 0);
			expect_event(RDMA_CM_EVENT_ESTABLISHED, id, 0);
		}
		mock_conn_event(mock, qp, ends[i]);
		assert_true(readable(channel, -1));
		assert_int_equal(mock_count(mock, ONE_MSG_QP_DISCONNECT), before);
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		assert_int_equal(mock_count(mock, ONE_MSG_QP_DISCONNECT), before + 1);
		assert_true(mock_last(mock, ONE_MSG_QP_DISCONNECT, &msg));
		assert_int_equal(msg.qp_disconnect.qp, qp);
		rdma_ack_cm_event(event);
		if (i == 0)
			assert_int_equal(rdma_disconnect(id), 0);
		drop(id, cq);
	}
}

/* Entries that a correct data plane never stores: for no queue pair, for no question, and with an offset
 * outside of the arena. */
static void
test_entries_of_nobody(void **state)
{
	struct rdma_cm_id *id = resolved(), *idle = resolved();
	struct one_cqe entries[] = {
		{.type = ONE_CQE_CONNECT, .status = ONE_CONN_ESTABLISHED},
		{.type = ONE_CQE_CONNECT, .status = ONE_CONN_PEER_REJECTED},
		{.type = ONE_CQE_SIDR},
		{.type = ONE_CQE_REQUEST, .object = 1, .cookie = UINT64_MAX - 100},
		{.type = ONE_CQE_SIDR_REQUEST, .object = 1, .cookie = ONE_ARENA_SIZE - 64},
	};
	struct rdma_conn_param param = {0};
	struct one_msg msg;
	struct ibv_cq *cq;
	uint32_t qp;

	cq = make_qp(id, &qp);
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_true(mock_last(mock, ONE_MSG_QP_MODIFY, &msg));
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		entries[i].flags = ONE_CQE_NOTIFY;
		assert_true(mock_cqe(mock, msg.qp_modify.to.conn_cq, &entries[i]));
	}
	mock_conn_event(mock, qp, ONE_CONN_UNREACHABLE);
	expect_event(RDMA_CM_EVENT_UNREACHABLE, id, -ETIMEDOUT);
	drop(id, cq);
	assert_int_equal(rdma_destroy_id(idle), 0);
	none();
}

static void
test_ends(void **state)
{
	static const struct {
		enum one_conn_event end;
		enum rdma_cm_event_type reported;
		int status;
	} ends[] = {
		{ONE_CONN_PEER_REJECTED, RDMA_CM_EVENT_REJECTED, 28},
		{ONE_CONN_NON_PEER_REJECTED, RDMA_CM_EVENT_REJECTED, 8},
		{ONE_CONN_ACCEPT_ERROR, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNABORTED},
		{ONE_CONN_BROKEN, RDMA_CM_EVENT_DISCONNECTED, 0},
		{ONE_CONN_TIMED_OUT, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
		{ONE_CONN_UNREACHABLE, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct rdma_cm_id *id = resolved();
		uint32_t qp;
		struct ibv_cq *cq = make_qp(id, &qp);

		assert_int_equal(rdma_connect(id, NULL), 0);
		mock_conn_event(mock, qp, ends[i].end);
		expect_event(ends[i].reported, id, ends[i].status);
		drop(id, cq);
	}
	none();
}

static void
test_listen(void **state)
{
	struct rdma_cm_id *listen = new_id(), *id;
	struct rdma_cm_event *event;
	struct one_msg msg;
	struct ibv_cq *cq;
	uint32_t listener, qp, cr, unlistens;

	assert_fails(rdma_listen(listen, 1), EINVAL);
	assert_fails(rdma_bind_addr(listen, address("192.0.2.9", 5000)), EADDRNOTAVAIL);
	assert_int_equal(rdma_bind_addr(listen, address("0.0.0.0", 5000)), 0);
	assert_fails(rdma_bind_addr(listen, address("0.0.0.0", 5000)), EINVAL);
	mock_refuse(mock, ONE_MSG_LISTEN, -EADDRINUSE, ONE_SUBJECT_ADDRESS, 5000, 1);
	assert_fails(rdma_listen(listen, 1), EADDRINUSE);
	assert_int_equal(rdma_listen(listen, 1), 0);
	assert_int_equal(ntohs(rdma_get_src_port(listen)), 5000);
	listener = mock_newest(mock, ONE_MSG_LISTEN);
	none();
	cr = mock_request(mock, listener, 5000, "please", 6);
	event = next(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	assert_ptr_equal(event->listen_id, listen);
	assert_memory_equal(event->param.conn.private_data, "please", 6);
	id = event->id;
	assert_ptr_equal(id->context, &mock);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_fails(rdma_accept(id, NULL), EINVAL); /* neither a queue pair nor a QPN */
	cq = make_qp(id, &qp);
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_true(mock_last(mock, ONE_MSG_CR_ACCEPT, &msg));
	assert_int_equal(msg.cr_accept.cr, cr);
	assert_int_equal(msg.cr_accept.qp, qp);
	assert_fails(rdma_accept(id, NULL), EINVAL);
	mock_connected(mock, qp, NULL, 0);
	expect_event(RDMA_CM_EVENT_ESTABLISHED, id, 0);
	drop(id, cq);
	/* A request is rejected by rdma_reject(), and by destroying its id unanswered. */
	cr = mock_request(mock, listener, 5000, NULL, 0);
	event = next(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	id = event->id;
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_reject(id, "no", 2), 0);
	assert_true(mock_last(mock, ONE_MSG_CR_REJECT, &msg));
	assert_int_equal(msg.cr_reject.cr, cr);
	assert_int_equal(msg.cr_reject.unanswered, 0);
	assert_fails(rdma_reject(id, NULL, 0), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	mock_request(mock, listener, 5000, NULL, 0);
	event = next(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	id = event->id;
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_true(mock_last(mock, ONE_MSG_CR_REJECT, &msg));
	assert_int_equal(msg.cr_reject.unanswered, 0);
	/* A request that was not read when its listener is destroyed is rejected. */
	cr = mock_request(mock, listener, 5000, NULL, 0);
	unlistens = mock_count(mock, ONE_MSG_UNLISTEN);
	assert_int_equal(rdma_destroy_id(listen), 0);
	assert_true(mock_last(mock, ONE_MSG_CR_REJECT, &msg));
	assert_int_equal(msg.cr_reject.cr, cr);
	assert_int_equal(mock_count(mock, ONE_MSG_UNLISTEN), unlistens + 1);
	none();
}

static void
test_refusals(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE}, *info;
	struct rdma_cm_id *id;
	int yes = 1;

	assert_fails(rdma_create_id(channel, &id, NULL, RDMA_PS_IPOIB), EOPNOTSUPP);
	id = new_id();
	assert_fails(rdma_disconnect(id), EINVAL);
	assert_fails(rdma_reject(id, NULL, 0), EINVAL);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
	/* rdma_destroy_id() does not wait for an event that was not read. */
	assert_int_equal(rdma_resolve_addr(id, NULL, address("192.0.2.2", 7000), 1000), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_getaddrinfo(NULL, "5001", &hints, &info), 0);
	assert_non_null(info->ai_src_addr);
	rdma_freeaddrinfo(info);
}

/* Must be the last test: the device does not come back. */
static void
test_loss(void **state)
{
	struct rdma_cm_id *id = resolved();

	mock_kill(mock);
	assert_true(readable(channel, -1));
	expect_event(RDMA_CM_EVENT_DEVICE_REMOVAL, id, 0);
	none();
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(other);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_end_by_peer),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_number_of_datagrams),
		cmocka_unit_test(test_entries_of_nobody),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_listen),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_loss),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
