/* SPDX-License-Identifier: BSD-3-Clause */
/* Service points and connection requests on real data planes: every call, every documented return value. */
#include <stdlib.h>
#include <string.h>

#include "dat_pair.h"

static DAT_EVENT event;

static DAT_CR_ARRIVAL_EVENT_DATA
arrival(struct dat_side *s)
{
	dat_side_expect(s, s->cr, DAT_CONNECTION_REQUEST_EVENT, 10000, &event);
	return event.event_data.cr_arrival_event_data;
}

static void
expect_outcome(struct dat_side *s, DAT_EP_HANDLE ep, DAT_EVENT_NUMBER number)
{
	dat_side_expect(s, s->conn, number, 20000, &event);
	CHECK(s->pair, event.event_data.connect_event_data.ep_handle == ep, "event 0x%x of another endpoint",
	      number);
}

/* ---- arguments ---- */

static void
qualifiers_client(struct pair *pair)
{
	DAT_CONN_QUAL qual, other, third;
	DAT_PSP_HANDLE psp, any, more;
	DAT_PSP_PARAM param;
	DAT_RSP_HANDLE rsp;
	struct dat_side s;
	DAT_EP_HANDLE ep;

	dat_side_open(&s, pair, false);
	ep = dat_side_ep(&s);
	qual = dat_side_free_qual(&s);
	DAT_CHECK(&s, dat_psp_create(s.ia, qual, s.cr, DAT_PSP_CONSUMER_FLAG, &psp));
	DAT_CHECK_CODE(&s, dat_psp_create(s.ia, qual, s.cr, 0, &more), DAT_CODE(DAT_CONN_QUAL_IN_USE, 0));
	DAT_CHECK_CODE(&s, dat_rsp_create(s.ia, qual, ep, s.cr, &rsp), DAT_CODE(DAT_CONN_QUAL_IN_USE, 0));
	CHECK(pair, dat_side_state(&s, ep) == DAT_EP_STATE_UNCONNECTED,
	      "a refused RSP reserved its endpoint");
	DAT_CHECK(&s, dat_psp_create_any(s.ia, &other, s.cr, DAT_PSP_PROVIDER_FLAG, &any));
	DAT_CHECK(&s, dat_psp_create_any(s.ia, &third, s.cr, DAT_PSP_CONSUMER_FLAG, &more));
	CHECK(pair, other != qual && third != qual && third != other && other >= 1024 && third >= 1024,
	      "dat_psp_create_any: qualifiers %llu, %llu", (unsigned long long)other,
	      (unsigned long long)third);
	DAT_CHECK(&s, dat_psp_query(any, DAT_PSP_FIELD_ALL, &param));
	CHECK(pair, param.psp_flags == DAT_PSP_PROVIDER_FLAG && param.conn_qual == other,
	      "dat_psp_query of a provider's PSP is wrong");
	DAT_CHECK_CODE(&s, dat_evd_free(s.cr), DAT_BAD_STATE(EVD_IN_USE));
	DAT_CHECK(&s, dat_psp_free(psp));
	DAT_CHECK(&s, dat_psp_free(any));
	DAT_CHECK(&s, dat_psp_free(more));
	DAT_CHECK(&s, dat_rsp_create(s.ia, qual, ep, s.cr, &rsp));
	DAT_CHECK_CODE(&s, dat_psp_create(s.ia, qual, s.cr, 0, &psp), DAT_CODE(DAT_CONN_QUAL_IN_USE, 0));
	/* Freeing the service point releases its reserved endpoint. */
	DAT_CHECK(&s, dat_rsp_free(rsp));
	CHECK(pair, dat_side_state(&s, ep) == DAT_EP_STATE_UNCONNECTED, "dat_rsp_free: not UNCONNECTED");
	DAT_CHECK(&s, dat_ep_free(ep));
	DAT_CHECK(&s, dat_evd_free(s.cr));
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- an accept that is refused leaves the request unchanged ---- */

static void
accept_server(struct pair *pair)
{
	DAT_CR_ARRIVAL_EVENT_DATA a;
	DAT_EP_HANDLE busy;
	DAT_CR_PARAM param;
	struct dat_side s;
	DAT_CR_HANDLE cr;

	dat_side_open(&s, pair, true);
	a = arrival(&s);
	CHECK(pair, a.sp_handle.psp_handle == s.psp && a.conn_qual == s.qual && event.evd_handle == s.cr,
	      "the request's event is wrong");
	CHECK(pair, a.local_ia_address_ptr->sa_family == s.address.ss_family, "the local address");
	cr = a.cr_handle;
	DAT_CHECK(&s, dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	CHECK(pair,
	      param.private_data_size == 7 && memcmp(param.private_data, "private", 7) == 0 &&
		      param.local_ep_handle == DAT_HANDLE_NULL && param.remote_port_qual != 0 &&
		      param.remote_ia_address_ptr->sa_family == s.address.ss_family,
	      "dat_cr_query is wrong");
	s.ep = dat_side_ep(&s);
	/* Accepting with an endpoint that is itself connecting is refused; both requests stay. */
	busy = dat_side_ep(&s);
	pair_recv(pair, &s.qual, sizeof(s.qual)); /* qualifier of a PSP at the client */
	pair_recv(pair, &s.address, sizeof(s.address));
	dat_side_request(&s, busy, s.qual);
	DAT_CHECK_CODE(&s, dat_cr_accept(cr, busy, 0, NULL), DAT_BAD_STATE(EP_ACTCONNPENDING));
	pair_barrier(pair);
	expect_outcome(&s, busy, DAT_CONNECTION_EVENT_PEER_REJECTED);
	DAT_CHECK_CODE(&s, dat_cr_accept(cr, busy, 0, NULL), DAT_BAD_STATE(EP_DISCONNECTED));
	DAT_CHECK(&s, dat_ep_reset(busy));
	DAT_CHECK(&s, dat_cr_accept(cr, busy, 0, NULL));
	expect_outcome(&s, busy, DAT_CONNECTION_EVENT_ESTABLISHED);
	CHECK(pair, event.event_data.connect_event_data.private_data_size == 0,
	      "private data at the accepting side");
	/* The accepted request's handle is dead. */
	DAT_CHECK_CODE(&s, dat_cr_accept(cr, s.ep, 0, NULL), DAT_BAD_HANDLE(CR));
	DAT_CHECK_CODE(&s, dat_cr_query(cr, DAT_CR_FIELD_ALL, &param), DAT_BAD_HANDLE(CR));
	DAT_CHECK_CODE(&s, dat_cr_reject(cr), DAT_BAD_HANDLE(CR));
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
accept_client(struct pair *pair)
{
	struct sockaddr_storage own;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	struct dat_side s;
	DAT_IA_ATTR attr;

	dat_side_open(&s, pair, false);
	memset(&own, 0, sizeof(own));
	DAT_CHECK(&s, dat_ia_query(s.ia, NULL, DAT_IA_ALL, &attr, 0, NULL));
	memcpy(&own, attr.ia_address_ptr,
	       attr.ia_address_ptr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in));
	DAT_CHECK(&s, dat_psp_create_any(s.ia, &qual, s.cr, DAT_PSP_CONSUMER_FLAG, &psp));
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_ep_connect(s.ep, (DAT_IA_ADDRESS_PTR)&s.address, s.qual, 20000000, 7,
				     (DAT_PVOID)(uintptr_t) "private", DAT_QOS_BEST_EFFORT, 0));
	pair_send(pair, &qual, sizeof(qual));
	pair_send(pair, &own, sizeof(own));
	pair_barrier(pair);
	DAT_CHECK(&s, dat_cr_reject(dat_side_cr(&s)));
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- a service point is freed while requests wait ---- */

static void
going_server(struct pair *pair)
{
	DAT_CR_HANDLE taken;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	taken = dat_side_cr(&s);
	pair_barrier(pair); /* the second request has been sent */
	for (uint64_t start = pair_now_ms(); pair_now_ms() - start < 300;) {
	}
	DAT_CHECK(&s, dat_psp_free(s.psp));
	dat_side_nothing(&s, s.cr, 20); /* the request not yet taken has gone */
	pair_barrier(pair);
	/* The request taken before can still be accepted. */
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_cr_accept(taken, s.ep, 0, NULL));
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	/* The qualifier can be used again. */
	DAT_CHECK(&s, dat_psp_create(s.ia, s.qual, s.cr, DAT_PSP_CONSUMER_FLAG, &s.psp));
	pair_barrier(pair);
	DAT_CHECK(&s, dat_cr_reject(dat_side_cr(&s)));
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
going_client(struct pair *pair)
{
	DAT_EP_HANDLE second;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	s.ep = dat_side_ep(&s);
	second = dat_side_ep(&s);
	dat_side_request(&s, s.ep, s.qual);
	dat_side_request(&s, second, s.qual);
	pair_barrier(pair);
	/* The provider refuses, not the consumer. */
	expect_outcome(&s, second, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	pair_barrier(pair);
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_ep_reset(second));
	dat_side_request(&s, second, s.qual);
	expect_outcome(&s, second, DAT_CONNECTION_EVENT_PEER_REJECTED);
	DAT_CHECK(&s, dat_ep_reset(second));
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- reserved service points: one request only ---- */

static void
reserved_server(struct pair *pair)
{
	DAT_CR_ARRIVAL_EVENT_DATA a;
	DAT_CONN_QUAL qual;
	DAT_RSP_HANDLE rsp;
	DAT_CR_PARAM param;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	qual = dat_side_free_qual(&s);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_rsp_create(s.ia, qual, s.ep, s.cr, &rsp));
	pair_send(pair, &qual, sizeof(qual));
	a = arrival(&s);
	CHECK(pair, a.sp_handle.rsp_handle == rsp && a.conn_qual == qual, "the event of an RSP");
	DAT_CHECK(&s, dat_cr_query(a.cr_handle, DAT_CR_FIELD_ALL, &param));
	CHECK(pair, param.local_ep_handle == s.ep, "the request has not the reserved endpoint");
	DAT_CHECK_CODE(&s, dat_cr_accept(a.cr_handle, s.ep, 0, NULL), DAT_BAD_HANDLE(EP));
	pair_barrier(pair); /* a second request is refused meanwhile */
	pair_barrier(pair);
	DAT_CHECK(&s, dat_cr_reject(a.cr_handle));
	CHECK(pair, dat_side_state(&s, s.ep) == DAT_EP_STATE_UNCONNECTED,
	      "not UNCONNECTED after the refusal");
	pair_barrier(pair); /* refusing the first request does not reopen the service point */
	pair_barrier(pair);
	DAT_CHECK(&s, dat_rsp_free(rsp));
	/*
	 * The endpoint can be reserved again and accept; freeing the service point after ESTABLISHED keeps
	 * the connection.
	 */
	DAT_CHECK(&s, dat_rsp_create(s.ia, qual, s.ep, s.cr, &rsp));
	pair_barrier(pair);
	a = arrival(&s);
	DAT_CHECK(&s, dat_cr_accept(a.cr_handle, DAT_HANDLE_NULL, 4, (DAT_PVOID)(uintptr_t) "resp"));
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	DAT_CHECK(&s, dat_rsp_free(rsp));
	CHECK(pair, dat_side_state(&s, s.ep) == DAT_EP_STATE_CONNECTED, "dat_rsp_free ended the connection");
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
reserved_client(struct pair *pair)
{
	const DAT_CONNECTION_EVENT_DATA *c = &event.event_data.connect_event_data;
	DAT_EP_HANDLE second;
	DAT_CONN_QUAL qual;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	pair_recv(pair, &qual, sizeof(qual));
	s.ep = dat_side_ep(&s);
	second = dat_side_ep(&s);
	dat_side_request(&s, s.ep, qual);
	pair_barrier(pair);
	dat_side_request(&s, second, qual);
	expect_outcome(&s, second, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	pair_barrier(pair);
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_PEER_REJECTED);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_ep_reset(second));
	dat_side_request(&s, second, qual);
	expect_outcome(&s, second, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	pair_barrier(pair);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	dat_side_request(&s, s.ep, qual);
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	CHECK(pair, c->private_data_size == 4 && memcmp(c->private_data, "resp", 4) == 0,
	      "the private data of an answer");
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- endpoints supplied with requests, refused and accepted ---- */

static void
supplied_server(struct pair *pair)
{
	DAT_CONN_QUAL qual;
	DAT_EP_PARAM change;
	DAT_CR_PARAM param;
	DAT_PSP_HANDLE psp;
	struct dat_side s;
	DAT_CR_HANDLE cr;

	dat_side_open(&s, pair, true);
	DAT_CHECK(&s, dat_psp_create_any(s.ia, &qual, s.cr, DAT_PSP_PROVIDER_FLAG, &psp));
	pair_send(pair, &qual, sizeof(qual));
	cr = dat_side_cr(&s);
	DAT_CHECK(&s, dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	DAT_CHECK(&s, dat_cr_reject(cr));
	/* The provider has taken back its endpoint. */
	DAT_CHECK_CODE(&s, dat_ep_query(param.local_ep_handle, DAT_EP_FIELD_ALL, &change),
		       DAT_BAD_HANDLE(EP));
	cr = dat_side_cr(&s);
	DAT_CHECK(&s, dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	s.ep = param.local_ep_handle;
	DAT_CHECK(&s, dat_ep_query(s.ep, DAT_EP_FIELD_ALL, &change));
	CHECK(pair, change.pz_handle == DAT_HANDLE_NULL && change.connect_evd_handle == DAT_HANDLE_NULL,
	      "an endpoint of the provider has a zone");
	DAT_CHECK_CODE(&s, dat_cr_accept(cr, dat_side_ep(&s), 0, NULL), DAT_BAD_HANDLE(EP));
	change.pz_handle = s.pz;
	change.connect_evd_handle = s.conn;
	change.recv_evd_handle = s.recv;
	change.request_evd_handle = s.request;
	DAT_CHECK(&s, dat_ep_modify(s.ep,
				    DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
					    DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
				    &change));
	DAT_CHECK(&s, dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL));
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
supplied_client(struct pair *pair)
{
	DAT_CONN_QUAL qual;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	pair_recv(pair, &qual, sizeof(qual));
	s.ep = dat_side_ep(&s);
	dat_side_request(&s, s.ep, qual);
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_PEER_REJECTED);
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	dat_side_request(&s, s.ep, qual);
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- handing requests on ---- */

static void
handoff_server(struct pair *pair)
{
	DAT_CR_ARRIVAL_EVENT_DATA a;
	DAT_CONN_QUAL qual, unused;
	DAT_PSP_HANDLE other;
	DAT_CR_PARAM param;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	unused = dat_side_free_qual(&s);
	DAT_CHECK(&s, dat_psp_create_any(s.ia, &qual, s.cr, DAT_PSP_CONSUMER_FLAG, &other));
	a = arrival(&s);
	CHECK(pair, a.sp_handle.psp_handle == s.psp, "not where it was sent to");
	DAT_CHECK_CODE(&s, dat_cr_handoff(a.cr_handle, 0), DAT_BAD_ARG(2));
	DAT_CHECK_CODE(&s, dat_cr_handoff(a.cr_handle, unused == qual ? unused + 1 : unused), DAT_BAD_ARG(2));
	DAT_CHECK(&s, dat_cr_handoff(a.cr_handle, qual));
	DAT_CHECK_CODE(&s, dat_cr_reject(a.cr_handle), DAT_BAD_HANDLE(CR));
	a = arrival(&s);
	CHECK(pair, a.sp_handle.psp_handle == other && a.conn_qual == qual, "not where it was handed to");
	DAT_CHECK(&s, dat_cr_query(a.cr_handle, DAT_CR_FIELD_ALL, &param));
	CHECK(pair, param.private_data_size == 3 && memcmp(param.private_data, "abc", 3) == 0,
	      "the private data was lost on the way");
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_cr_accept(a.cr_handle, s.ep, 0, NULL));
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
handoff_client(struct pair *pair)
{
	struct dat_side s;

	dat_side_open(&s, pair, false);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_ep_connect(s.ep, (DAT_IA_ADDRESS_PTR)&s.address, s.qual, 10000000, 3,
				     (DAT_PVOID)(uintptr_t) "abc", DAT_QOS_BEST_EFFORT, 0));
	expect_outcome(&s, s.ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"sp_qualifiers", dat_bystander, qualifiers_client, false},
	{"cr_accept", accept_server, accept_client, false},
	{"sp_going", going_server, going_client, false},
	{"rsp", reserved_server, reserved_client, false},
	{"psp_provider", supplied_server, supplied_client, false},
	{"cr_handoff", handoff_server, handoff_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
