/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: attributes, states, connecting, modifying. */
#include <errno.h>
#include <netinet/in.h>

#include "fixture.h"

static DAT_EP_PARAM
query(DAT_EP_HANDLE ep)
{
	DAT_EP_PARAM param;

	assert_ok(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
	return param;
}

/* Clients create an endpoint with null arguments first, and read the defaults back. */
static void
defaults(void **state)
{
	struct fixture *f = *state;
	DAT_HANDLE none = DAT_HANDLE_NULL;
	DAT_EP_PARAM param, again;
	DAT_IA_ATTR ia;
	DAT_EP_HANDLE ep;

	assert_ok(dat_ia_query(f->ia, NULL, DAT_IA_ALL, &ia, 0, NULL));
	assert_ok(dat_ep_create(f->ia, none, none, none, none, NULL, &ep));
	param = query(ep);
	assert_ptr_equal(param.ia_handle, f->ia);
	assert_int_equal(param.ep_state, DAT_EP_STATE_UNCONNECTED);
	assert_null(param.pz_handle);
	assert_null(param.recv_evd_handle);
	assert_null(param.request_evd_handle);
	assert_null(param.connect_evd_handle);
	assert_null(param.srq_handle);
	assert_int_equal(param.ep_attr.service_type, DAT_SERVICE_TYPE_RC);
	assert_int_equal(param.ep_attr.qos, DAT_QOS_BEST_EFFORT);
	assert_int_equal(param.ep_attr.max_message_size, ia.max_message_size);
	assert_int_equal(param.ep_attr.max_rdma_size, ia.max_rdma_size);
	assert_true(param.ep_attr.max_recv_dtos >= 16 && param.ep_attr.max_recv_dtos <= ia.max_dto_per_ep);
	assert_true(param.ep_attr.max_request_dtos >= 16);
	assert_true(param.ep_attr.max_recv_iov >= 4 && param.ep_attr.max_request_iov >= 4);
	assert_true(param.ep_attr.max_rdma_read_in >= 1 && param.ep_attr.max_rdma_read_out >= 1);
	assert_int_equal(param.ep_attr.recv_completion_flags, DAT_COMPLETION_EVD_THRESHOLD_FLAG);
	/* undefined bits in the mask are ignored */
	assert_ok(dat_ep_query(ep, 0xffff, &param));
	assert_ret(dat_ep_query(ep, DAT_EP_FIELD_ALL, NULL), BAD_ARG(3));
	/* attributes that were read back can create an endpoint */
	assert_ok(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, &param.ep_attr, &ep));
	again = query(ep);
	assert_memory_equal(&again.ep_attr, &param.ep_attr, sizeof(param.ep_attr));
	param = again;
	assert_ptr_equal(param.pz_handle, f->pz);
	assert_ptr_equal(param.recv_evd_handle, f->recv);
	assert_ptr_equal(param.request_evd_handle, f->dto);
	assert_ptr_equal(param.connect_evd_handle, f->conn);
}

static void
create_handles(void **state)
{
	struct fixture *f = *state;
	DAT_PZ_HANDLE freed;
	DAT_EP_HANDLE ep;

	assert_ok(dat_pz_create(f->ia, &freed));
	assert_ok(dat_pz_free(freed));
	assert_ret(dat_ep_create(f->dto, f->pz, f->recv, f->dto, f->conn, NULL, &ep), BAD_HANDLE(IA));
	assert_ret(dat_ep_create(f->ia, freed, f->recv, f->dto, f->conn, NULL, &ep), BAD_HANDLE(PZ));
	assert_ret(dat_ep_create(f->ia, f->dto, f->recv, f->dto, f->conn, NULL, &ep), BAD_HANDLE(PZ));
	assert_ret(dat_ep_create(f->ia, f->pz, f->conn, f->dto, f->conn, NULL, &ep), BAD_HANDLE(EVD_RECV));
	assert_ret(dat_ep_create(f->ia, f->pz, f->recv, f->cr, f->conn, NULL, &ep), BAD_HANDLE(EVD_REQUEST));
	assert_ret(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->dto, NULL, &ep), BAD_HANDLE(EVD_CONN));
	assert_ret(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->ia, NULL, &ep), BAD_HANDLE(EVD_CONN));
	assert_ret(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, NULL, NULL), BAD_ARG(7));
	mock_refuse(f->mock, ONE_MSG_QP_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 9, 1);
	assert_ret(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, NULL, &ep),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP));
	/* failures leave no reference behind */
	assert_ok(dat_pz_free(f->pz));
	assert_ok(dat_evd_free(f->recv));
	assert_ok(dat_evd_free(f->dto));
	assert_ok(dat_evd_free(f->conn));
}

static void
create_attributes(void **state)
{
	struct fixture *f = *state;
	DAT_HANDLE none = DAT_HANDLE_NULL;
	DAT_EP_ATTR good, attr;
	DAT_EP_HANDLE ep;
	DAT_IA_ATTR ia;

	assert_ok(dat_ia_query(f->ia, NULL, DAT_IA_ALL, &ia, 0, NULL));
	default_attr(&good); /* with max_message_size 0, as dtest passes it */
	assert_ok(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, &good, &ep));
#define REFUSED(field, value)                                                                              \
	do {                                                                                               \
		attr = good;                                                                               \
		attr.field = (value);                                                                      \
		assert_ret(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, &attr, &ep), BAD_ARG(6)); \
	} while (0)
	REFUSED(service_type, (DAT_SERVICE_TYPE)1);
	REFUSED(max_message_size, ia.max_message_size + 1);
	REFUSED(max_rdma_size, ia.max_rdma_size + 1);
	REFUSED(qos, (DAT_QOS)0x10);
	REFUSED(recv_completion_flags, DAT_COMPLETION_SUPPRESS_FLAG);
	REFUSED(recv_completion_flags, (DAT_COMPLETION_FLAGS)0x20);
	REFUSED(request_completion_flags, (DAT_COMPLETION_FLAGS)0x20);
	REFUSED(max_recv_dtos, 0);
	REFUSED(max_recv_dtos, -1);
	REFUSED(max_recv_dtos, ia.max_dto_per_ep + 1);
	REFUSED(max_request_dtos, 0);
	REFUSED(max_request_dtos, ia.max_dto_per_ep + 1);
	REFUSED(max_recv_iov, 0);
	REFUSED(max_recv_iov, ia.max_iov_segments_per_dto + 1);
	REFUSED(max_request_iov, 0);
	REFUSED(max_request_iov, -2);
	REFUSED(max_rdma_read_in, ia.max_rdma_read_per_ep_in + 1);
	REFUSED(max_rdma_read_out, ia.max_rdma_read_per_ep_out + 1);
	REFUSED(max_rdma_read_iov, ia.max_iov_segments_per_rdma_read + 1);
	REFUSED(max_rdma_write_iov, -1);
	REFUSED(max_rdma_write_iov, ia.max_iov_segments_per_rdma_write + 1);
	REFUSED(ep_transport_specific_count, 1);
	REFUSED(ep_provider_specific_count, 1);
	attr = good;
	attr.qos = DAT_QOS_LOW_LATENCY;
	assert_ret(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, &attr, &ep),
		   ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	/* depths and EVDs go together */
	assert_ret(dat_ep_create(f->ia, f->pz, none, f->dto, f->conn, &good, &ep), BAD_ARG(6));
	assert_ret(dat_ep_create(f->ia, f->pz, f->recv, none, f->conn, &good, &ep), BAD_ARG(6));
	attr = good;
	attr.max_recv_dtos = 0;
	assert_ok(dat_ep_create(f->ia, f->pz, none, f->dto, f->conn, &attr, &ep));
	/* attributes that MVAPICH2 and dtest request */
	attr = good;
	attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	attr.max_request_dtos = 300;
	assert_ok(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, &attr, &ep));
}

static void
bad_handles(void **state)
{
	struct fixture *f = *state;
	DAT_EP_HANDLE freed = make_ep(f, NULL);
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = 0x0100007f};
	DAT_IA_ADDRESS_PTR to = (DAT_IA_ADDRESS_PTR)&sin;
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	DAT_RMR_TRIPLET remote = {0};
	DAT_EP_PARAM param;
	DAT_COUNT n;

	assert_ok(dat_ep_free(freed));
	for (size_t i = 0; i < num_not_handles + 2; i++) {
		DAT_HANDLE h = i < num_not_handles ? not_handles[i] : i == num_not_handles ? f->dto : freed;

		assert_ret(dat_ep_query(h, DAT_EP_FIELD_ALL, &param), BAD_HANDLE(EP));
		assert_ret(dat_ep_modify(h, 0, &param), BAD_HANDLE(EP));
		assert_ret(dat_ep_get_status(h, NULL, NULL, NULL), BAD_HANDLE(EP));
		assert_ret(dat_ep_connect(h, to, 1, 1, 0, NULL, 0, 0), BAD_HANDLE(EP));
		assert_ret(dat_ep_dup_connect(h, h, 1, 0, NULL, 0), BAD_HANDLE(EP));
		assert_ret(dat_ep_disconnect(h, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(EP));
		assert_ret(dat_ep_reset(h), BAD_HANDLE(EP));
		assert_ret(dat_ep_free(h), BAD_HANDLE(EP));
		assert_ret(dat_ep_post_send(h, 0, NULL, cookie, 0), BAD_HANDLE(EP));
		assert_ret(dat_ep_post_recv(h, 0, NULL, cookie, 0), BAD_HANDLE(EP));
		assert_ret(dat_ep_post_rdma_read(h, 0, NULL, cookie, &remote, 0), BAD_HANDLE(EP));
		assert_ret(dat_ep_post_rdma_write(h, 0, NULL, cookie, &remote, 0), BAD_HANDLE(EP));
		assert_ret(dat_ep_recv_query(h, &n, &n), BAD_HANDLE(EP));
		assert_ret(dat_ep_set_watermark(h, 1, 1), BAD_HANDLE(EP));
	}
}

static void
watermarks(void **state)
{
	struct fixture *f = *state;
	uint32_t qp;
	DAT_EP_HANDLE ep = make_ep(f, &qp);
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	DAT_COUNT n = 99, span = 99;
	struct one_wqe wqe;

	assert_ok(dat_ep_recv_query(ep, &n, &span));
	assert_int_equal(n, 0);
	assert_int_equal(span, 0);
	for (int i = 0; i < 3; i++)
		assert_ok(dat_ep_post_recv(ep, 0, NULL, cookie, 0));
	assert_true(mock_take(f->mock, qp, true, &wqe, NULL));
	mock_done(f->mock, qp, true);
	assert_ok(dat_ep_recv_query(ep, &n, NULL));
	assert_ok(dat_ep_recv_query(ep, NULL, &span));
	assert_int_equal(n, 2);
	assert_int_equal(span, 2);
	assert_ok(dat_ep_set_watermark(ep, DAT_WATERMARK_INFINITE, DAT_WATERMARK_INFINITE));
	assert_ret(dat_ep_set_watermark(ep, 1, DAT_WATERMARK_INFINITE), ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	assert_ret(dat_ep_set_watermark(ep, DAT_WATERMARK_INFINITE, 1), ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	assert_ret(dat_ep_set_watermark(ep, -2, 1), BAD_ARG(2));
	assert_ret(dat_ep_set_watermark(ep, 1, -2), BAD_ARG(3));
}

static DAT_RETURN
connect_with(DAT_EP_HANDLE ep, const void *to, DAT_CONN_QUAL qual, DAT_TIMEOUT timeout, DAT_COUNT size,
	     const void *data, DAT_QOS qos, DAT_CONNECT_FLAGS flags)
{
	return dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)(uintptr_t)to, qual, timeout, size,
			      (DAT_PVOID)(uintptr_t)data, qos, flags);
}

static void
connect_errors(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000202)};
	struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};
	DAT_HANDLE none = DAT_HANDLE_NULL;
	DAT_PROVIDER_ATTR attr;
	DAT_EP_HANDLE ep = make_ep(f, NULL), half;
	char data[300] = "x";

	assert_ok(dat_ia_query(f->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr));
	assert_true(attr.max_private_data_size >= 64);
	assert_ret(connect_with(ep, &sin, 7, 0, 0, NULL, 0, 0), BAD_ARG(4));
	assert_ret(connect_with(ep, NULL, 7, 1, 0, NULL, 0, 0), BAD_ARG(2));
	assert_ret(connect_with(ep, &sin, 0, 1, 0, NULL, 0, 0), BAD_ARG(3));
	assert_ret(connect_with(ep, &sin, 7, 1, attr.max_private_data_size + 1, data, 0, 0), BAD_ARG(5));
	assert_ret(connect_with(ep, &sin, 7, 1, -1, data, 0, 0), BAD_ARG(5));
	assert_ret(connect_with(ep, &sin, 7, 1, 1, NULL, 0, 0), BAD_ARG(6));
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, (DAT_QOS)0x10, 0), BAD_ARG(7));
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, 0, (DAT_CONNECT_FLAGS)2), BAD_ARG(8));
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, DAT_QOS_PREMIUM, 0),
		   ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, 0, DAT_CONNECT_MULTIPATH_FLAG),
		   ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	assert_ret(connect_with(ep, &sin6, 7, 1, 0, NULL, 0, 0),
		   ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED));
	sin6.sin6_addr = (struct in6_addr){.s6_addr = {0x20, 1, 0xd, 0xb8, [15] = 2}};
	mock_refuse(f->mock, ONE_MSG_QP_CONNECT, -EAFNOSUPPORT, ONE_SUBJECT_ADDRESS, AF_INET6, 1);
	assert_ret(connect_with(ep, &sin6, 7, 1, 0, NULL, 0, 0),
		   ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED));
	sin6.sin6_family = AF_UNIX;
	assert_ret(connect_with(ep, &sin6, 7, 1, 0, NULL, 0, 0),
		   ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED));
	sin.sin_addr.s_addr = INADDR_ANY;
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, 0, 0),
		   ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED));
	sin.sin_addr.s_addr = htonl(0xe0000001);
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, 0, 0),
		   ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED));
	sin.sin_addr.s_addr = htonl(0xc0000202);
	/* an endpoint that lacks something */
	assert_ok(dat_ep_create(f->ia, f->pz, none, none, none, NULL, &half));
	assert_ret(connect_with(half, &sin, 7, 1, 0, NULL, 0, 0), BAD_HANDLE(EVD_CONN));
	assert_ok(dat_ep_create(f->ia, none, none, none, f->conn, NULL, &half));
	assert_ret(connect_with(half, &sin, 7, 1, 0, NULL, 0, 0), BAD_STATE(EP_NOTREADY));
	/* what the data plane refuses leaves the endpoint as it was */
	mock_refuse(f->mock, ONE_MSG_QP_CONNECT, -EACCES, ONE_SUBJECT_ADDRESS, 7, 1);
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, 0, 0), BAD_ARG(3));
	mock_refuse(f->mock, ONE_MSG_QP_CONNECT, -EHOSTUNREACH, ONE_SUBJECT_ADDRESS, 7, 1);
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, 0, 0),
		   ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE));
	expect_untouched(ep);
	assert_ok(connect_with(ep, &sin, 7, 1, attr.max_private_data_size, data, 0, 0));
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, 0, 0), BAD_STATE(EP_ACTCONNPENDING));
}

static void
connects(void **state)
{
	struct fixture *f = *state;
	uint32_t qp;
	DAT_EP_HANDLE ep = make_ep(f, &qp);
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000202)};
	DAT_CONNECTION_EVENT_DATA *data;
	struct one_msg msg;
	DAT_EP_PARAM param;
	DAT_EVENT event;

	assert_ok(connect_with(ep, &sin, 45248, 5000000, 5, "hello", 0, 0));
	assert_true(mock_last(f->mock, ONE_MSG_QP_CONNECT, &msg));
	assert_int_equal(msg.qp_connect.qp, qp);
	assert_int_equal(msg.qp_connect.family, AF_INET);
	assert_memory_equal(msg.qp_connect.addr, &sin.sin_addr, 4);
	assert_int_equal(msg.qp_connect.service, 45248);
	assert_int_equal(msg.qp_connect.timeout_us, 5000000);
	assert_int_equal(msg.qp_connect.private_len, 5);
	assert_memory_equal(msg.qp_connect.private_data, "hello", 5);
	assert_int_equal(state_of(ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
	param = query(ep);
	assert_int_equal(((struct sockaddr_in *)param.remote_ia_address_ptr)->sin_addr.s_addr,
			 sin.sin_addr.s_addr);
	assert_int_equal(param.remote_port_qual, 45248);
	mock_connected(f->mock, qp, "welcome", 8);
	event = expect_event(f->conn, DAT_CONNECTION_EVENT_ESTABLISHED);
	data = &event.event_data.connect_event_data;
	assert_ptr_equal(data->ep_handle, ep);
	assert_int_equal(data->private_data_size, 8);
	assert_string_equal(data->private_data, "welcome");
	assert_int_equal(state_of(ep), DAT_EP_STATE_CONNECTED);
	assert_ret(dat_ep_reset(ep), BAD_STATE(EP_CONNECTED));
	assert_ret(connect_with(ep, &sin, 7, 1, 0, NULL, 0, 0), BAD_STATE(EP_CONNECTED));
	expect_empty(f->conn);
}

static void
infinite_timeout(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000202)};
	DAT_EP_HANDLE ep = make_ep(f, NULL);
	struct one_msg msg;

	assert_ok(connect_with(ep, &sin, 7, DAT_TIMEOUT_INFINITE, 0, NULL, 0, 0));
	assert_true(mock_last(f->mock, ONE_MSG_QP_CONNECT, &msg));
	assert_int_equal(msg.qp_connect.timeout_us, UINT64_MAX);
}

/* A connection fails or ends in each possible way; the endpoint works again after a reset. */
static void
outcomes(void **state)
{
	static const struct {
		enum one_conn_event event;
		DAT_EVENT_NUMBER number;
	} table[] = {
		{ONE_CONN_PEER_REJECTED, DAT_CONNECTION_EVENT_PEER_REJECTED},
		{ONE_CONN_NON_PEER_REJECTED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED},
		{ONE_CONN_ACCEPT_ERROR, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR},
		{ONE_CONN_DISCONNECTED, DAT_CONNECTION_EVENT_DISCONNECTED},
		{ONE_CONN_BROKEN, DAT_CONNECTION_EVENT_BROKEN},
		{ONE_CONN_TIMED_OUT, DAT_CONNECTION_EVENT_TIMED_OUT},
		{ONE_CONN_UNREACHABLE, DAT_CONNECTION_EVENT_UNREACHABLE},
	};
	struct fixture *f = *state;
	uint32_t qp;
	DAT_EP_HANDLE ep = make_ep(f, &qp);

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		DAT_EVENT event;

		assert_ok(dat_ep_reset(ep)); /* no effect in UNCONNECTED */
		connect_to(ep, 7);
		mock_conn_event(f->mock, qp, table[i].event);
		event = expect_event(f->conn, table[i].number);
		assert_ptr_equal(event.event_data.connect_event_data.ep_handle, ep);
		assert_int_equal(event.event_data.connect_event_data.private_data_size, 0);
		assert_int_equal(state_of(ep), DAT_EP_STATE_DISCONNECTED);
		assert_ok(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG)); /* no effect */
		assert_ok(dat_ep_reset(ep));
		mock_qp_state(f->mock, qp, ONE_QP_IDLE);
		assert_int_equal(state_of(ep), DAT_EP_STATE_UNCONNECTED);
	}
	assert_int_equal(mock_count(f->mock, ONE_MSG_QP_DISCONNECT), 0);
	expect_empty(f->conn);
}

static void
disconnects(void **state)
{
	struct fixture *f = *state;
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	struct one_msg msg;
	DAT_EP_HANDLE ep;
	uint32_t qp;

	ep = make_ep(f, NULL);
	assert_ret(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG), BAD_STATE(EP_UNCONNECTED));
	ep = connected_ep(f, &qp);
	assert_ret(dat_ep_disconnect(ep, (DAT_CLOSE_FLAGS)2), BAD_ARG(2));
	assert_ok(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG));
	assert_true(mock_last(f->mock, ONE_MSG_QP_DISCONNECT, &msg));
	assert_int_equal(msg.qp_disconnect.graceful, 1);
	assert_int_equal(state_of(ep), DAT_EP_STATE_DISCONNECT_PENDING);
	assert_ret(dat_ep_post_send(ep, 0, NULL, cookie, 0), BAD_STATE(EP_DISCPENDING));
	assert_ok(dat_ep_post_recv(ep, 0, NULL, cookie, 0));
	assert_ok(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG)); /* no effect */
	assert_int_equal(mock_count(f->mock, ONE_MSG_QP_DISCONNECT), 1);
	assert_ok(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
	assert_true(mock_last(f->mock, ONE_MSG_QP_DISCONNECT, &msg));
	assert_int_equal(msg.qp_disconnect.graceful, 0);
	assert_ret(dat_ep_reset(ep), BAD_STATE(EP_DISCPENDING));
	mock_conn_event(f->mock, qp, ONE_CONN_DISCONNECTED);
	assert_int_equal(state_of(ep), DAT_EP_STATE_DISCONNECTED); /* before the event is taken */
	expect_event(f->conn, DAT_CONNECTION_EVENT_DISCONNECTED);
	/* the connection ended by itself at the same moment */
	ep = connected_ep(f, &qp);
	mock_refuse(f->mock, ONE_MSG_QP_DISCONNECT, -ENOTCONN, ONE_SUBJECT_QP, 0, 1);
	assert_ok(dat_ep_disconnect(ep, DAT_CLOSE_DEFAULT));
	/* aborting an attempt */
	ep = make_ep(f, &qp);
	connect_to(ep, 7);
	assert_ok(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG));
	assert_true(mock_last(f->mock, ONE_MSG_QP_DISCONNECT, &msg));
	assert_int_equal(msg.qp_disconnect.graceful, 0);
	mock_conn_event(f->mock, qp, ONE_CONN_DISCONNECTED);
	expect_event(f->conn, DAT_CONNECTION_EVENT_DISCONNECTED);
}

static void
duplicates(void **state)
{
	struct fixture *f = *state;
	uint32_t qp, other;
	DAT_EP_HANDLE dup = make_ep(f, &qp), ep = make_ep(f, &other);
	struct one_msg first, msg;

	assert_ret(dat_ep_dup_connect(ep, dup, 1000, 0, NULL, 0), BAD_STATE(EP_UNCONNECTED));
	connect_to(dup, 45248);
	assert_true(mock_last(f->mock, ONE_MSG_QP_CONNECT, &first));
	assert_ret(dat_ep_dup_connect(ep, dup, 1000, 0, NULL, 0), BAD_STATE(EP_ACTCONNPENDING));
	mock_connected(f->mock, qp, NULL, 0);
	expect_event(f->conn, DAT_CONNECTION_EVENT_ESTABLISHED);
	assert_ret(dat_ep_dup_connect(ep, f->pz, 1000, 0, NULL, 0), BAD_HANDLE(EP));
	assert_ret(dat_ep_dup_connect(ep, dup, 0, 0, NULL, 0), BAD_ARG(3));
	assert_ret(dat_ep_dup_connect(ep, dup, 1000, 1000, NULL, 0), BAD_ARG(4));
	assert_ret(dat_ep_dup_connect(ep, dup, 1000, 1, NULL, 0), BAD_ARG(5));
	assert_ret(dat_ep_dup_connect(ep, dup, 1000, 0, NULL, (DAT_QOS)0x20), BAD_ARG(6));
	assert_ret(dat_ep_dup_connect(ep, dup, 1000, 0, NULL, DAT_QOS_ECONOMY),
		   ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	assert_ok(dat_ep_dup_connect(ep, dup, 1000, 3, (DAT_PVOID)(uintptr_t) "abc", 0));
	assert_true(mock_last(f->mock, ONE_MSG_QP_CONNECT, &msg));
	assert_int_equal(msg.qp_connect.qp, other);
	assert_int_equal(msg.qp_connect.service, first.qp_connect.service);
	assert_memory_equal(msg.qp_connect.addr, first.qp_connect.addr, sizeof(msg.qp_connect.addr));
	assert_memory_equal(msg.qp_connect.private_data, "abc", 3);
}

/* Completions of a freed endpoint produce no events. */
static void
free_drops_events(void **state)
{
	struct fixture *f = *state;
	uint32_t gone, qp;
	DAT_EP_HANDLE ep = connected_ep(f, &gone), other;
	DAT_COUNT nmore;
	DAT_EVENT event;

	complete(f, gone, 1, 0);
	/* also those in the stash */
	assert_ret(dat_evd_wait(f->dto, 0, 2, &event, &nmore), DAT_TIMEOUT_EXPIRED);
	complete(f, gone, 2, 0);
	mock_conn_event(f->mock, gone, ONE_CONN_DISCONNECTED);
	other = make_ep(f, &qp);
	complete(f, qp, 3, 0);
	assert_ok(dat_ep_free(ep));
	event = take(f->dto);
	assert_int_equal(event.event_data.dto_completion_event_data.user_cookie.as_64, 3);
	assert_ptr_equal(event.event_data.dto_completion_event_data.ep_handle, other);
	expect_empty(f->dto);
	expect_empty(f->conn);
	complete(f, gone, 4, 0);
	expect_empty(f->dto);
	assert_ret(dat_evd_wait(f->dto, 0, 1, &event, &nmore), DAT_TIMEOUT_EXPIRED);
	assert_int_equal(nmore, 0);
}

static void
status(void **state)
{
	struct fixture *f = *state;
	uint32_t qp;
	DAT_EP_HANDLE ep = connected_ep(f, &qp);
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	DAT_BOOLEAN recv, request;
	struct one_wqe wqe;

	assert_ok(dat_ep_get_status(ep, NULL, &recv, &request));
	assert_int_equal(recv, DAT_TRUE);
	assert_int_equal(request, DAT_TRUE);
	assert_ok(dat_ep_post_recv(ep, 0, NULL, cookie, 0));
	assert_ok(dat_ep_post_send(ep, 0, NULL, cookie, DAT_COMPLETION_SUPPRESS_FLAG));
	assert_ok(dat_ep_get_status(ep, NULL, &recv, &request));
	assert_int_equal(recv, DAT_FALSE);
	assert_int_equal(request, DAT_FALSE);
	assert_true(mock_take(f->mock, qp, false, &wqe, NULL));
	mock_complete(f->mock, qp, &wqe, ONE_STATUS_SUCCESS);
	assert_ok(dat_ep_get_status(ep, NULL, &recv, &request));
	assert_int_equal(recv, DAT_FALSE);
	assert_int_equal(request, DAT_TRUE);
}

static void
modify_errors(void **state)
{
	struct fixture *f = *state;
	uint32_t qp;
	DAT_EP_HANDLE ep = make_ep(f, &qp);
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	DAT_EP_PARAM param = query(ep);

	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_IA_HANDLE, &param), BAD_ARG(2));
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_EP_STATE, &param), BAD_ARG(2));
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_REMOTE_PORT_QUAL, &param), BAD_ARG(2));
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_SRQ_HANDLE, &param), BAD_ARG(2));
	assert_ret(dat_ep_modify(ep, 0x800, &param), BAD_ARG(2));
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_PZ_HANDLE, NULL), BAD_ARG(3));
	param.pz_handle = f->dto;
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_PZ_HANDLE, &param), BAD_ARG(3));
	param.recv_evd_handle = f->conn;
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_RECV_EVD_HANDLE, &param), BAD_ARG(3));
	param.ep_attr.max_recv_iov = 1000;
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, &param), BAD_ARG(3));
	/* not after receives were posted */
	assert_ok(dat_ep_post_recv(ep, 0, NULL, cookie, 0));
	param.ep_attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, &param),
		   BAD_STATE(EP_UNCONNECTED));
	mock_refuse(f->mock, ONE_MSG_QP_MODIFY, -ENOMEM, ONE_SUBJECT_MEMORY, 0, 1);
	param.connect_evd_handle = DAT_HANDLE_NULL;
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_CONNECT_EVD_HANDLE, &param),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
	assert_ptr_equal(query(ep).connect_evd_handle, f->conn);
	connect_to(ep, 7);
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_PZ_HANDLE, &param), BAD_STATE(EP_ACTCONNPENDING));
	mock_connected(f->mock, qp, NULL, 0);
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_QOS, &param), BAD_STATE(EP_CONNECTED));
	/* no reference was leaked on the way */
	assert_ok(dat_ep_free(ep));
	assert_ok(dat_pz_free(f->pz));
	assert_ok(dat_evd_free(f->recv));
	assert_ok(dat_evd_free(f->dto));
	assert_ok(dat_evd_free(f->conn));
}

static void
modifies(void **state)
{
	struct fixture *f = *state;
	DAT_HANDLE none = DAT_HANDLE_NULL;
	DAT_EP_PARAM param = {0};
	static uint8_t memory[4096];
	DAT_REGION_DESCRIPTION desc = {.for_va = memory};
	DAT_LMR_TRIPLET iov[4];
	DAT_LMR_CONTEXT key;
	DAT_LMR_HANDLE lmr;
	DAT_DTO_COOKIE cookie;
	struct one_sge sge[ONE_MAX_SGE];
	struct one_wqe wqe;
	struct one_msg msg;
	DAT_PZ_HANDLE other;
	DAT_EP_HANDLE ep;
	uint32_t before;

	assert_ok(dat_ep_create(f->ia, none, none, none, none, NULL, &ep));
	before = mock_count(f->mock, ONE_MSG_QP_CREATE);
	/* another zone and other EVDs: the queue pair stays */
	param.pz_handle = f->pz;
	param.recv_evd_handle = f->recv;
	param.request_evd_handle = f->dto;
	param.connect_evd_handle = f->conn;
	assert_ok(dat_ep_modify(ep,
				DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
					DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
				&param));
	assert_int_equal(mock_count(f->mock, ONE_MSG_QP_CREATE), before);
	assert_true(mock_last(f->mock, ONE_MSG_QP_MODIFY, &msg));
	assert_int_not_equal(msg.qp_modify.to.pz, 0);
	assert_int_not_equal(msg.qp_modify.to.send_cq, 0);
	assert_ptr_equal(query(ep).pz_handle, f->pz);
	assert_ptr_equal(query(ep).recv_evd_handle, f->recv);
	assert_ret(dat_pz_free(f->pz), BAD_STATE(PZ_IN_USE));
	assert_ret(dat_evd_free(f->dto), BAD_STATE(EVD_IN_USE));
	/* other depths: a new queue pair, which gets the posted receives */
	assert_ok(dat_lmr_create(f->ia, DAT_MEM_TYPE_VIRTUAL, desc, sizeof(memory), f->pz,
				 DAT_MEM_PRIV_ALL_FLAG, &lmr, &key, NULL, NULL, NULL));
	for (uint64_t i = 1; i <= 3; i++) {
		for (uint32_t j = 0; j < 4; j++)
			iov[j] = (DAT_LMR_TRIPLET){.lmr_context = key,
						   .virtual_address = (uintptr_t)memory + 100 * i + j,
						   .segment_length = 10 + j};
		cookie.as_64 = 0x1234567800000000u + i;
		assert_ok(dat_ep_post_recv(ep, 4, iov, cookie, 0));
	}
	param.ep_attr.max_recv_dtos = 500;
	param.ep_attr.max_request_dtos = 300;
	assert_ok(dat_ep_modify(
		ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param));
	assert_int_equal(mock_count(f->mock, ONE_MSG_QP_CREATE), before + 1);
	assert_int_equal(mock_count(f->mock, ONE_MSG_QP_FREE), 1);
	assert_int_equal(query(ep).ep_attr.max_recv_dtos, 500);
	for (uint64_t i = 1; i <= 3; i++) {
		assert_true(mock_take(f->mock, mock_newest(f->mock, ONE_MSG_QP_CREATE), true, &wqe, sge));
		assert_int_equal(wqe.cookie, 0x1234567800000000u + i);
		assert_int_equal(wqe.num_sge, 4);
		assert_int_equal(wqe.length, 46);
		for (uint32_t j = 0; j < 4; j++) {
			assert_int_equal(sge[j].lkey, key);
			assert_int_equal(sge[j].addr, (uintptr_t)memory + 100 * i + j);
			assert_int_equal(sge[j].len, 10 + j);
		}
	}
	assert_false(mock_take(f->mock, mock_newest(f->mock, ONE_MSG_QP_CREATE), true, &wqe, sge));
	/* fewer than the posted receives: refused, and nothing has changed */
	param.ep_attr.max_recv_dtos = 2;
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP));
	assert_int_equal(query(ep).ep_attr.max_recv_dtos, 500);
	assert_ok(dat_lmr_free(lmr));
	/* another zone: the first can be freed */
	assert_ok(dat_pz_create(f->ia, &other));
	param.pz_handle = other;
	assert_ok(dat_ep_modify(ep, DAT_EP_FIELD_PZ_HANDLE, &param));
	assert_ok(dat_pz_free(f->pz));
	f->pz = other;
	/* the endpoint still connects */
	connect_to(ep, 7);
	mock_connected(f->mock, mock_newest(f->mock, ONE_MSG_QP_CREATE), NULL, 0);
	expect_event(f->conn, DAT_CONNECTION_EVENT_ESTABLISHED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(defaults),   TEST(create_handles), TEST(create_attributes), TEST(bad_handles),
		TEST(watermarks), TEST(connect_errors), TEST(connects),          TEST(infinite_timeout),
		TEST(outcomes),   TEST(disconnects),    TEST(duplicates),        TEST(free_drops_events),
		TEST(status),     TEST(modify_errors),  TEST(modifies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
