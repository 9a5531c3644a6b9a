/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints on real data planes: attributes, states, and what each state allows. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "dat_pair.h"

static DAT_EVENT event;

static DAT_EP_PARAM
query(struct dat_side *s, DAT_EP_HANDLE ep)
{
	DAT_EP_PARAM param;

	DAT_CHECK(s, dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
	return param;
}

/* ---- creating ---- */

static void
create_client(struct pair *pair)
{
	const DAT_HANDLE none = DAT_HANDLE_NULL;
	DAT_EP_ATTR good;
	DAT_EP_PARAM param;
	struct dat_side s;
	DAT_EP_HANDLE ep;
	DAT_IA_ATTR ia;

	dat_side_open(&s, pair, false);
	DAT_CHECK(&s, dat_ia_query(s.ia, NULL, DAT_IA_ALL, &ia, 0, NULL));
	/* Without a zone or any EVD, an endpoint gets usable defaults. */
	DAT_CHECK(&s, dat_ep_create(s.ia, none, none, none, none, NULL, &ep));
	param = query(&s, ep);
	CHECK(pair,
	      param.ia_handle == s.ia && param.ep_state == DAT_EP_STATE_UNCONNECTED &&
		      param.pz_handle == none && param.recv_evd_handle == none &&
		      param.request_evd_handle == none && param.connect_evd_handle == none,
	      "dat_ep_query of an endpoint with nothing");
	good = param.ep_attr;
	CHECK(pair,
	      good.max_recv_dtos >= 16 && good.max_request_dtos >= 16 && good.max_recv_iov >= 4 &&
		      good.max_request_iov >= 4 && good.max_rdma_read_in >= 4 &&
		      good.max_rdma_read_out >= 4 && good.max_message_size == ia.max_message_size &&
		      good.max_rdma_size == ia.max_rdma_size && good.max_rdma_read_iov >= 1 &&
		      good.max_rdma_write_iov >= 1,
	      "the default attributes are poor");
	DAT_CHECK(&s, dat_ep_free(ep));
	/* The defaults are valid attributes. */
	DAT_CHECK(&s, dat_ep_create(s.ia, s.pz, s.recv, s.request, s.conn, &good, &ep));
	DAT_CHECK(&s, dat_ep_free(ep));

	ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_ep_query(ep, 0xFFFF, &param)); /* MPI libraries query with this mask */
	/* A living endpoint keeps its EVDs and its zone in use. */
	DAT_CHECK_CODE(&s, dat_evd_free(s.recv), DAT_BAD_STATE(EVD_IN_USE));
	DAT_CHECK_CODE(&s, dat_evd_free(s.conn), DAT_BAD_STATE(EVD_IN_USE));
	DAT_CHECK_CODE(&s, dat_pz_free(s.pz), DAT_BAD_STATE(PZ_IN_USE));
	DAT_CHECK(&s, dat_ep_free(ep));
	DAT_CHECK(&s, dat_evd_free(s.recv));
	DAT_CHECK(&s, dat_evd_free(s.conn));
	DAT_CHECK(&s, dat_pz_free(s.pz));
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- arguments of connecting calls ---- */

static DAT_RETURN
request(struct dat_side *s, DAT_EP_HANDLE ep, DAT_TIMEOUT timeout, DAT_COUNT size, void *data, uint32_t qos,
	uint32_t flags)
{
	return dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&s->address, s->qual, timeout, size, data, (DAT_QOS)qos,
			      (DAT_CONNECT_FLAGS)flags);
}

static void
connect_errors_client(struct pair *pair)
{
	struct sockaddr_storage other;
	struct dat_side s;
	DAT_EP_HANDLE ep;

	dat_side_open(&s, pair, false);
	ep = dat_side_ep(&s);
	/* A host address of the family that the port lacks. */
	memset(&other, 0x20, sizeof(other));
	other.ss_family = s.address.ss_family == AF_INET ? AF_INET6 : AF_INET;
	DAT_CHECK_CODE(&s, dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&other, s.qual, 1000000, 0, NULL, 0, 0),
		       DAT_CODE(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED));
	CHECK(pair, dat_side_state(&s, ep) == DAT_EP_STATE_UNCONNECTED,
	      "a refused connect changed the state");
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- every state: the calls allowed in it ---- */

#define PART (DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN)

/*
 * Checks the row `state` of the specification's table; `code` is the refusal of calls that the state does
 * not allow.
 */
static void
check_state(struct dat_side *s, DAT_EP_HANDLE ep, DAT_EP_STATE state, DAT_RETURN code)
{
	const DAT_DTO_COOKIE cookie = {.as_64 = 4711};
	const bool unconnected = state == DAT_EP_STATE_UNCONNECTED,
		   tentative = state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING,
		   early = state == DAT_EP_STATE_RESERVED || state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING,
		   ended = state == DAT_EP_STATE_DISCONNECTED;
	DAT_BOOLEAN recv_idle, request_idle;
	DAT_EP_PARAM param = query(s, ep);
	DAT_RMR_TRIPLET nowhere = {0};
	DAT_EP_STATE got;

	DAT_CHECK(s, dat_ep_get_status(ep, &got, &recv_idle, &request_idle));
	CHECK(s->pair, got == state && param.ep_state == state, "state %d (%d) instead of %d", got,
	      param.ep_state, state);
	CHECK(s->pair, request_idle == DAT_TRUE, "requests in state %d", state);
	if (tentative) {
		/* The missing EVDs are checked before the state. */
		DAT_CHECK_CODE(s, request(s, ep, 1000000, 0, NULL, 0, 0), DAT_BAD_HANDLE(EVD_CONN));
	} else if (!unconnected) {
		DAT_CHECK_CODE(s, request(s, ep, 1000000, 0, NULL, 0, 0), code);
		DAT_CHECK_CODE(s, dat_ep_dup_connect(ep, ep, 1000000, 0, NULL, 0), code);
	}
	DAT_CHECK_CODE(s, dat_ep_modify(ep, DAT_EP_FIELD_PZ_HANDLE, &param),
		       unconnected || tentative ? DAT_SUCCESS : code);
	DAT_CHECK_CODE(s, dat_ep_modify(ep, PART, &param),
		       unconnected || tentative || early ? DAT_SUCCESS : code);
	if (unconnected || ended) {
		if (unconnected)
			DAT_CHECK(s, dat_ep_reset(ep));
	} else {
		DAT_CHECK_CODE(s, dat_ep_reset(ep), code);
	}
	if (state != DAT_EP_STATE_CONNECTED && !ended) {
		DAT_CHECK_CODE(s, dat_ep_post_send(ep, 0, NULL, cookie, 0), code);
		DAT_CHECK_CODE(s, dat_ep_post_rdma_write(ep, 0, NULL, cookie, &nowhere, 0), code);
		DAT_CHECK_CODE(s, dat_ep_post_rdma_read(ep, 0, NULL, cookie, &nowhere, 0), code);
	}
	if (early || tentative || unconnected)
		DAT_CHECK_CODE(s, dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG), code);
	if (early || tentative)
		DAT_CHECK_CODE(s, dat_ep_free(ep), code);
	/* Fields that are read-only in every state. */
	DAT_CHECK_CODE(s, dat_ep_modify(ep, DAT_EP_FIELD_EP_STATE, &param), DAT_BAD_ARG(2));
	DAT_CHECK_CODE(s, dat_ep_modify(ep, DAT_EP_FIELD_IA_HANDLE, &param), DAT_BAD_ARG(2));
	DAT_CHECK_CODE(s, dat_ep_modify(ep, DAT_EP_FIELD_REMOTE_PORT_QUAL, &param), DAT_BAD_ARG(2));
}

#define STATE(side, ep, state, subtype) \
	check_state(side, ep, DAT_EP_STATE_##state, DAT_BAD_STATE(EP_##subtype))

static void
states_server(struct pair *pair)
{
	DAT_PSP_HANDLE provider_psp;
	DAT_CONN_QUAL quals[2];
	struct dat_buffer b;
	DAT_CR_PARAM param;
	DAT_EP_PARAM change;
	DAT_RSP_HANDLE rsp;
	DAT_CR_HANDLE cr;
	struct dat_side s;
	DAT_EP_HANDLE ep;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CHECK(&s, dat_psp_create_any(s.ia, &quals[0], s.cr, DAT_PSP_PROVIDER_FLAG, &provider_psp));
	quals[1] = dat_side_free_qual(&s);
	/* RESERVED, PASSIVE, COMPLETION_PENDING or CONNECTED, DISCONNECTED */
	s.ep = dat_side_ep(&s);
	STATE(&s, s.ep, UNCONNECTED, UNCONNECTED);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 1));
	DAT_CHECK(&s, dat_rsp_create(s.ia, quals[1], s.ep, s.cr, &rsp));
	STATE(&s, s.ep, RESERVED, RESERVED);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 64, 64, 2));
	pair_send(pair, quals, sizeof(quals));
	cr = dat_side_cr(&s);
	STATE(&s, s.ep, PASSIVE_CONNECTION_PENDING, PASSCONNPENDING);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 128, 64, 3));
	pair_barrier(pair);
	DAT_CHECK(&s, dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	STATE(&s, s.ep, CONNECTED, CONNECTED);
	DAT_CHECK(&s, dat_rsp_free(rsp));
	pair_barrier(pair);
	for (uint64_t i = 1; i <= 3; i++)
		dat_side_complete(&s, s.recv, i, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	STATE(&s, s.ep, DISCONNECTED, DISCONNECTED);
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
	dat_side_nothing(&s, s.conn, 20);
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	STATE(&s, s.ep, UNCONNECTED, UNCONNECTED);
	DAT_CHECK(&s, dat_ep_free(s.ep));
	/* TENTATIVE */
	cr = dat_side_cr(&s);
	DAT_CHECK(&s, dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	ep = param.local_ep_handle;
	CHECK(pair, ep != DAT_HANDLE_NULL, "no endpoint came with the request");
	STATE(&s, ep, TENTATIVE_CONNECTION_PENDING, TENTCONNPENDING);
	/* The endpoint has no zone yet. */
	DAT_CHECK_CODE(&s, dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), DAT_BAD_HANDLE(EP));
	change = query(&s, ep);
	change.pz_handle = s.pz;
	change.recv_evd_handle = s.recv;
	change.request_evd_handle = s.request;
	change.connect_evd_handle = s.conn;
	DAT_CHECK(&s, dat_ep_modify(ep,
				    DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
					    DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
				    &change));
	s.ep = ep;
	DAT_CHECK(&s, dat_recv(ep, &b, 0, 64, 4));
	DAT_CHECK(&s, dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	CHECK(pair, event.event_data.connect_event_data.ep_handle == ep, "another endpoint was established");
	dat_side_complete(&s, s.recv, 4, DAT_DTO_SUCCESS, 64);
	dat_side_expect_end(&s);
	/*
	 * Tests of net-dat-connection (silent, withdraw) cover COMPLETION_PENDING after the requester has
	 * gone.
	 */
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
states_client(struct pair *pair)
{
	DAT_CONN_QUAL quals[2];
	struct dat_buffer b;
	DAT_EP_PARAM param;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	pair_recv(pair, quals, sizeof(quals));
	s.ep = dat_side_ep(&s);
	STATE(&s, s.ep, UNCONNECTED, UNCONNECTED);
	dat_side_request(&s, s.ep, quals[1]);
	STATE(&s, s.ep, ACTIVE_CONNECTION_PENDING, ACTCONNPENDING);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 1));
	pair_barrier(pair);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	STATE(&s, s.ep, CONNECTED, CONNECTED);
	param = query(&s, s.ep);
	CHECK(pair,
	      param.remote_ia_address_ptr->sa_family == s.address.ss_family &&
		      param.remote_port_qual == quals[1] &&
		      param.local_ia_address_ptr->sa_family == s.address.ss_family,
	      "the addresses of a connection are wrong");
	pair_barrier(pair);
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
	dat_side_complete(&s, s.recv, 1, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	STATE(&s, s.ep, DISCONNECTED, DISCONNECTED);
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	STATE(&s, s.ep, UNCONNECTED, UNCONNECTED);
	/* After a reset, the endpoint connects to the other service point. */
	dat_side_request(&s, s.ep, quals[0]);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 2, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, 64);
	/* Freeing a connected endpoint disconnects it at the peer. */
	DAT_CHECK(&s, dat_ep_free(s.ep));
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- a graceful disconnect that cannot end: DISCONNECT_PENDING ---- */

static void
draining_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	/* In the first round the peer never posts the awaited receive; in the second it posts it late. */
	dat_side_connect(&s, true);
	dat_side_expect_end(&s);
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	dat_side_connect(&s, true);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 1));
	dat_side_complete(&s, s.recv, 1, DAT_DTO_SUCCESS, 64);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
draining_client(struct pair *pair)
{
	struct dat_buffer b;
	DAT_EP_PARAM param;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 64, 64, 2));
	dat_side_connect(&s, false);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 1, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
	CHECK(pair, dat_side_state(&s, s.ep) == DAT_EP_STATE_DISCONNECT_PENDING, "not DISCONNECT_PENDING");
	param = query(&s, s.ep);
	DAT_CHECK_CODE(&s, dat_send(s.ep, &b, 0, 64, 9, 0), DAT_BAD_STATE(EP_DISCPENDING));
	DAT_CHECK_CODE(&s, request(&s, s.ep, 1000000, 0, NULL, 0, 0), DAT_BAD_STATE(EP_DISCPENDING));
	DAT_CHECK_CODE(&s, dat_ep_modify(s.ep, PART, &param), DAT_BAD_STATE(EP_DISCPENDING));
	DAT_CHECK_CODE(&s, dat_ep_reset(s.ep), DAT_BAD_STATE(EP_DISCPENDING));
	DAT_CHECK(&s, dat_recv(s.ep, &b, 128, 64, 3));
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_GRACEFUL_FLAG)); /* no effect twice */
	dat_side_nothing(&s, s.conn, 50);
	/* An abrupt disconnect ends the connection at once, with one event in all. */
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_complete(&s, s.recv, 2, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_complete(&s, s.recv, 3, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	dat_side_nothing(&s, s.conn, 50);
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	/* In the second round the queue drains. */
	dat_side_connect(&s, false);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 4, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
	pair_barrier(pair);
	dat_side_complete(&s, s.request, 4, DAT_DTO_SUCCESS, 64);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	dat_side_nothing(&s, s.conn, 50);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- modify: connecting uses the modified attributes ---- */

static void
modify_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, 8192, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (uint64_t i = 0; i < 200; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, i));
	dat_side_connect(&s, true);
	for (uint64_t i = 0; i < 200; i++)
		dat_side_complete(&s, s.recv, i, DAT_DTO_SUCCESS, 3);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 30, 1, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 30);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
modify_client(struct pair *pair)
{
	DAT_EVD_HANDLE wrong, recv, request_evd;
	DAT_EP_PARAM param;
	struct dat_buffer b;
	DAT_LMR_TRIPLET iov[3];
	struct dat_side s;
	DAT_PZ_HANDLE gone;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, 8192, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CHECK(&s, dat_evd_create(s.ia, 10, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &wrong));
	DAT_CHECK(&s, dat_evd_create(s.ia, 10, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &recv));
	DAT_CHECK(&s, dat_evd_create(s.ia, 10, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &request_evd));
	DAT_CHECK(&s, dat_pz_create(s.ia, &gone));
	DAT_CHECK(&s, dat_pz_free(gone));
	s.ep = dat_side_ep(&s);
	param = query(&s, s.ep);
	DAT_CHECK_CODE(&s, dat_ep_modify(s.pz, DAT_EP_FIELD_PZ_HANDLE, &param), DAT_BAD_HANDLE(EP));
	DAT_CHECK_CODE(&s, dat_ep_modify(s.ep, DAT_EP_FIELD_PZ_HANDLE, NULL), DAT_BAD_ARG(3));
	DAT_CHECK_CODE(&s, dat_ep_modify(s.ep, (DAT_EP_PARAM_MASK)1 << 40, &param), DAT_BAD_ARG(2));
	param.pz_handle = gone;
	DAT_CHECK_CODE(&s, dat_ep_modify(s.ep, DAT_EP_FIELD_PZ_HANDLE, &param), DAT_BAD_ARG(3));
	param.recv_evd_handle = wrong;
	DAT_CHECK_CODE(&s, dat_ep_modify(s.ep, DAT_EP_FIELD_RECV_EVD_HANDLE, &param), DAT_BAD_ARG(3));
	param.connect_evd_handle = wrong;
	DAT_CHECK_CODE(&s, dat_ep_modify(s.ep, DAT_EP_FIELD_CONNECT_EVD_HANDLE, &param), DAT_BAD_ARG(3));
	param.ep_attr.max_recv_dtos = -1;
	DAT_CHECK_CODE(&s, dat_ep_modify(s.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param), DAT_BAD_ARG(3));
	param.ep_attr.qos = DAT_QOS_ECONOMY;
	DAT_CHECK_CODE(&s, dat_ep_modify(s.ep, DAT_EP_FIELD_EP_ATTR_QOS, &param), DAT_UNSUPPORTED);
	/* A posted receive moves along to deeper queues. */
	DAT_CHECK(&s, dat_recv(s.ep, &b, 4096, 64, 77));
	param.ep_attr = query(&s, s.ep).ep_attr;
	param.ep_attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	DAT_CHECK_CODE(&s, dat_ep_modify(s.ep, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, &param),
		       DAT_BAD_STATE(EP_UNCONNECTED));
	param.ep_attr = query(&s, s.ep).ep_attr;
	param.ep_attr.max_request_dtos = 300;
	param.ep_attr.max_recv_dtos = 300;
	param.ep_attr.max_request_iov = 6;
	param.recv_evd_handle = recv;
	param.request_evd_handle = request_evd;
	DAT_CHECK(&s, dat_ep_modify(s.ep,
				    DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |
					    DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS |
					    DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
					    DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
				    &param));
	param = query(&s, s.ep);
	CHECK(pair,
	      param.recv_evd_handle == recv && param.request_evd_handle == request_evd &&
		      param.ep_attr.max_request_dtos >= 300 && param.ep_attr.max_request_iov >= 6,
	      "dat_ep_modify changed nothing");
	/* No endpoint uses the old EVDs any more. */
	DAT_CHECK(&s, dat_evd_free(s.recv));
	DAT_CHECK(&s, dat_evd_free(s.request));
	s.recv = recv;
	s.request = request_evd;
	dat_side_connect(&s, false);
	for (int i = 0; i < 3; i++)
		iov[i] = (DAT_LMR_TRIPLET){b.lmr_context, 0, (uintptr_t)b.data + (uintptr_t)i * 100, 1};
	for (uint64_t i = 0; i < 200; i++)
		DAT_CHECK(&s, dat_ep_post_send(s.ep, 3, iov, (DAT_DTO_COOKIE){.as_64 = i},
					       DAT_COMPLETION_DEFAULT_FLAG));
	for (uint64_t i = 0; i < 200; i++)
		dat_side_complete(&s, s.request, i, DAT_DTO_SUCCESS, 3);
	dat_side_complete(&s, s.recv, 77, DAT_DTO_SUCCESS, 30);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- dup_connect ---- */

static void
dup_server(struct pair *pair)
{
	DAT_EP_HANDLE first;
	DAT_CR_PARAM param;
	DAT_CR_HANDLE cr;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_side_connect(&s, true);
	first = s.ep;
	s.ep = dat_side_ep(&s);
	/* The accepting endpoint has no destination to connect to again. */
	DAT_CHECK_CODE(&s, dat_ep_dup_connect(s.ep, first, 1000000, 0, NULL, 0), DAT_BAD_ARG(2));
	cr = dat_side_cr(&s);
	DAT_CHECK(&s, dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	CHECK(pair, param.private_data_size == 5 && memcmp(param.private_data, "again", 5) == 0,
	      "the private data of a duplicate is wrong");
	DAT_CHECK(&s, dat_cr_accept(cr, s.ep, 0, NULL));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
dup_client(struct pair *pair)
{
	static char again[] = "again";
	DAT_EP_HANDLE first;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_side_connect(&s, false);
	first = s.ep;
	s.ep = dat_side_ep(&s);
	DAT_CHECK_CODE(&s, dat_ep_dup_connect(s.ep, first, 0, 0, NULL, 0), DAT_BAD_ARG(3));
	DAT_CHECK_CODE(&s, dat_ep_dup_connect(s.ep, first, 1000000, 1000, again, 0), DAT_BAD_ARG(4));
	DAT_CHECK_CODE(&s, dat_ep_dup_connect(s.ep, first, 1000000, 5, NULL, 0), DAT_BAD_ARG(5));
	DAT_CHECK_CODE(&s, dat_ep_dup_connect(s.ep, first, 1000000, 0, NULL, (DAT_QOS)0x10), DAT_BAD_ARG(6));
	DAT_CHECK_CODE(&s, dat_ep_dup_connect(s.ep, first, 1000000, 0, NULL, DAT_QOS_PREMIUM),
		       DAT_UNSUPPORTED);
	DAT_CHECK_CODE(&s, dat_ep_dup_connect(first, first, 1000000, 0, NULL, 0),
		       DAT_BAD_STATE(EP_CONNECTED));
	DAT_CHECK(&s, dat_ep_dup_connect(s.ep, first, 10000000, 5, again, DAT_QOS_BEST_EFFORT));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	CHECK(pair, event.event_data.connect_event_data.ep_handle == s.ep,
	      "another endpoint was established");
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"ep_create", dat_bystander, create_client, false},
	{"ep_connect_errors", dat_bystander, connect_errors_client, false},
	{"ep_states", states_server, states_client, false},
	{"ep_draining", draining_server, draining_client, false},
	{"ep_modify", modify_server, modify_client, false},
	{"ep_dup_connect", dup_server, dup_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
