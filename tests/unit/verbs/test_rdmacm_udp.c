/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm's UDP port space: requests, answers, and the contents of events. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "fixture.h"

#define SERVICE(port) (0x1110000u + (port))

static struct mock *mock;
static struct rdma_event_channel *channel;
static struct sockaddr_in peer = {.sin_family = AF_INET};

/* librdmacm keeps devices open for the life of the process, so the mock is never stopped. */
static int
setup(void **state)
{
	mock = mock_start();
	mock_welcome(mock)->family = AF_INET;
	memcpy(mock_welcome(mock)->addr, "\xc0\x00\x02\x01", 4);
	peer.sin_port = htons(7174);
	inet_pton(AF_INET, "192.0.2.2", &peer.sin_addr);
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	return fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}

static int
teardown(void **state)
{
	rdma_destroy_event_channel(channel);
	return 0;
}

static struct rdma_cm_event *
next(enum rdma_cm_event_type type, struct rdma_cm_id *id)
{
	struct pollfd look = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	assert_int_equal(poll(&look, 1, -1), 1);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	if (id != NULL)
		assert_ptr_equal(event->id, id);
	return event;
}

static struct ibv_cq *
make_qp(struct rdma_cm_id *id)
{
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = 4, .max_recv_wr = 4},
					.qp_type = IBV_QPT_RC};

	assert_non_null(cq);
	assert_fails(rdma_create_qp(id, NULL, &init), EINVAL); /* a type of other port spaces */
	init.qp_type = IBV_QPT_UD;
	assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
	return cq;
}

static struct rdma_cm_id *
resolved(void)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 1000), 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_RESOLVED, id));
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ROUTE_RESOLVED, id));
	return id;
}

static void
test_asks(void **state)
{
	struct one_sidr_shm found = {.family = AF_INET,
				     .remote_addr = {192, 0, 2, 2},
				     .qpn = 0x24,
				     .qkey = RDMA_UDP_QKEY,
				     .private_len = ONE_SIDR_PRIVATE_REP,
				     .private_data = "welcome"};
	struct rdma_conn_param param = {.private_data = "hello", .private_data_len = 5};
	struct rdma_cm_id *id = resolved();
	struct ibv_cq *cq = make_qp(id);
	struct rdma_cm_event *event;
	struct one_msg msg;
	uint32_t ask;

	/* The id's queue pair is in RTS, with rdma_cm's Q_Key. */
	assert_true(mock_last(mock, ONE_MSG_QP_DATAGRAM, &msg));
	assert_int_equal(msg.qp_datagram.state, ONE_DATAGRAM_RTS);
	assert_int_equal(msg.qp_datagram.qkey, RDMA_UDP_QKEY);
	assert_int_equal(id->qp->state, IBV_QPS_RTS);
	param.private_data_len = ONE_SIDR_PRIVATE_REQ + 1;
	assert_fails(rdma_connect(id, &param), EINVAL);
	param.private_data_len = 5;
	assert_int_equal(rdma_connect(id, &param), 0);
	ask = mock_newest(mock, ONE_MSG_SIDR_ASK);
	assert_true(mock_last(mock, ONE_MSG_SIDR_ASK, &msg));
	assert_int_equal(msg.sidr_ask.service, SERVICE(7174));
	assert_memory_equal(msg.sidr_ask.addr, "\xc0\x00\x02\x02", 4);
	assert_int_equal(msg.sidr_ask.private_len, 5);
	assert_memory_equal(msg.sidr_ask.private_data, "hello", 5);
	assert_fails(rdma_connect(id, &param), EINVAL); /* one question at a time */
	mock_sidr(mock, ask, 0, &found);
	event = next(RDMA_CM_EVENT_ESTABLISHED, id);
	assert_int_equal(event->status, 0);
	assert_int_equal(event->param.ud.qp_num, 0x24);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_int_equal(event->param.ud.ah_attr.is_global, 1);
	assert_int_equal(event->param.ud.ah_attr.port_num, 1);
	assert_memory_equal(event->param.ud.ah_attr.grh.dgid.raw,
			    "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x02", 16);
	assert_int_equal(event->param.ud.private_data_len, ONE_SIDR_PRIVATE_REP);
	assert_memory_equal(event->param.ud.private_data, "welcome", 8);
	rdma_ack_cm_event(event);
	assert_int_equal(mock_count(mock, ONE_MSG_SIDR_FREE), 1);
	/* UD has no connection. Another question is allowed, also after a refusal and a timeout. */
	assert_fails(rdma_disconnect(id), EINVAL);
	assert_int_equal(rdma_connect(id, NULL), 0);
	mock_sidr(mock, mock_newest(mock, ONE_MSG_SIDR_ASK), 2, &found);
	event = next(RDMA_CM_EVENT_UNREACHABLE, id);
	assert_int_equal(event->status, 2);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_connect(id, NULL), 0);
	mock_sidr(mock, mock_newest(mock, ONE_MSG_SIDR_ASK), ONE_SIDR_SILENCE, &found);
	event = next(RDMA_CM_EVENT_UNREACHABLE, id);
	assert_int_equal(event->status, -ETIMEDOUT);
	rdma_ack_cm_event(event);
	/* Destroying an id does not wait for the answer. */
	assert_int_equal(rdma_connect(id, NULL), 0);
	rdma_destroy_qp(id);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(mock_count(mock, ONE_MSG_SIDR_FREE), 4);
}

static void
test_answers(void **state)
{
	struct one_sidr_shm question = {.id = 77,
					.family = AF_INET,
					.remote_port = 40000,
					.remote_addr = {192, 0, 2, 2},
					.service = SERVICE(7174),
					.private_len = ONE_SIDR_PRIVATE_REQ,
					.private_data = "hello"};
	struct rdma_conn_param param = {.private_data = "welcome", .private_data_len = 7};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7174)};
	struct rdma_cm_id *listen, *id;
	struct rdma_cm_event *event;
	struct one_msg msg;
	uint32_t listener;
	struct ibv_cq *cq;

	assert_int_equal(rdma_create_id(channel, &listen, &mock, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(listen, (struct sockaddr *)&any), 0);
	assert_int_equal(rdma_listen(listen, 2), 0);
	assert_true(mock_last(mock, ONE_MSG_LISTEN, &msg));
	assert_int_equal(msg.listen.service, SERVICE(7174));
	listener = mock_newest(mock, ONE_MSG_LISTEN);
	mock_sidr(mock, listener, 0, &question);
	event = next(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	id = event->id;
	assert_ptr_equal(event->listen_id, listen);
	assert_ptr_equal(id->context, &mock);
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	assert_int_equal(id->ps, RDMA_PS_UDP);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 40000);
	assert_int_equal(ntohs(rdma_get_src_port(id)), 7174);
	assert_int_equal(event->param.ud.private_data_len, ONE_SIDR_PRIVATE_REQ);
	assert_memory_equal(event->param.ud.private_data, "hello", 6);
	rdma_ack_cm_event(event);
	assert_fails(rdma_accept(id, &param), EOPNOTSUPP); /* the id needs a queue pair */
	cq = make_qp(id);
	param.private_data_len = ONE_SIDR_PRIVATE_REP + 1;
	assert_fails(rdma_accept(id, &param), EINVAL);
	param.private_data_len = 7;
	assert_int_equal(rdma_accept(id, &param), 0);
	assert_true(mock_last(mock, ONE_MSG_SIDR_ANSWER, &msg));
	assert_int_equal(msg.sidr_answer.sidr, 77);
	assert_int_equal(msg.sidr_answer.qp, mock_newest(mock, ONE_MSG_QP_CREATE));
	assert_int_equal(msg.sidr_answer.private_len, 7);
	assert_fails(rdma_accept(id, &param), EINVAL); /* already answered */
	rdma_destroy_qp(id);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	/* The question is refused. */
	question.id = 78;
	mock_sidr(mock, listener, 0, &question);
	event = next(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	id = event->id;
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_reject(id, "no", 2), 0);
	assert_true(mock_last(mock, ONE_MSG_SIDR_ANSWER, &msg));
	assert_int_equal(msg.sidr_answer.sidr, 78);
	assert_int_equal(msg.sidr_answer.qp, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	/* Questions above the backlog, and those unread when the listener is destroyed. */
	for (question.id = 80; question.id < 83; question.id++)
		mock_sidr(mock, listener, 0, &question);
	assert_int_equal(rdma_destroy_id(listen), 0);
	assert_true(mock_last(mock, ONE_MSG_SIDR_FREE, &msg));
	assert_int_equal(msg.id.id, 82);
	assert_true(mock_last(mock, ONE_MSG_SIDR_ANSWER, &msg));
	assert_int_equal(msg.sidr_answer.sidr, 81);
	assert_int_equal(msg.sidr_answer.qp, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_asks), cmocka_unit_test(test_answers)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
