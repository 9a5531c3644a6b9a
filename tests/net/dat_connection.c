/* SPDX-License-Identifier: BSD-3-Clause */
/* uDAPL between two applications: connecting, refusing, disconnecting, dying. */
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dat_pair.h"

static DAT_EVENT event;

static DAT_RETURN
connect_to(struct dat_side *s, DAT_EP_HANDLE ep, const void *address, DAT_CONN_QUAL qual, DAT_TIMEOUT timeout,
	   const void *data, size_t len)
{
	return dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)(uintptr_t)address, qual, timeout, (DAT_COUNT)len,
			      (DAT_PVOID)(uintptr_t)data, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

static DAT_EP_STATE
state_of(struct dat_side *s, DAT_EP_HANDLE ep)
{
	DAT_BOOLEAN recv_idle, request_idle;
	DAT_EP_STATE state;

	DAT_CHECK(s, dat_ep_get_status(ep, &state, &recv_idle, &request_idle));
	return state;
}

/* ---- private data of every size, both ways ---- */

static const uint32_t private_sizes[] = {0, 1, 7, 55, 56, 57, 63, 64};
#define NUM_PRIVATE (sizeof(private_sizes) / sizeof(private_sizes[0]))

static void
private_server(struct pair *pair)
{
	struct dat_side s;

	dat_side_open(&s, pair, true);
	for (size_t i = 0; i < NUM_PRIVATE; i++) {
		DAT_CR_HANDLE cr;
		DAT_CR_PARAM param;
		uint8_t reply[64];

		s.ep = dat_side_ep(&s);
		pair_barrier(pair);
		dat_side_expect(&s, s.cr, DAT_CONNECTION_REQUEST_EVENT, 10000, &event);
		CHECK(pair, event.event_data.cr_arrival_event_data.sp_handle.psp_handle == s.psp,
		      "another PSP's request");
		CHECK(pair, event.event_data.cr_arrival_event_data.conn_qual == s.qual, "another qualifier");
		cr = event.event_data.cr_arrival_event_data.cr_handle;
		DAT_CHECK(&s, dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
		CHECK(pair, param.private_data_size == (DAT_COUNT)private_sizes[i],
		      "private data: %d bytes, not %u", param.private_data_size, private_sizes[i]);
		CHECK(pair,
		      pair_pattern_check(param.private_data, private_sizes[i], (uint32_t)i) ==
			      private_sizes[i],
		      "private data of %u bytes is wrong", private_sizes[i]);
		CHECK(pair, param.local_ep_handle == DAT_HANDLE_NULL, "an endpoint that nobody made");
		pair_pattern(reply, private_sizes[i], (uint32_t)(50 + i));
		DAT_CHECK(&s, dat_cr_accept(cr, s.ep, (DAT_COUNT)private_sizes[i], reply));
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
		CHECK(pair, state_of(&s, s.ep) == DAT_EP_STATE_CONNECTED, "not CONNECTED after ESTABLISHED");
		pair_barrier(pair);
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
		CHECK(pair, state_of(&s, s.ep) == DAT_EP_STATE_DISCONNECTED,
		      "not DISCONNECTED after the event");
		DAT_CHECK(&s, dat_ep_free(s.ep));
	}
	dat_side_close(&s);
}

static void
private_client(struct pair *pair)
{
	struct dat_side s;

	dat_side_open(&s, pair, false);
	for (size_t i = 0; i < NUM_PRIVATE; i++) {
		const DAT_CONNECTION_EVENT_DATA *c = &event.event_data.connect_event_data;
		uint8_t data[65];

		s.ep = dat_side_ep(&s);
		pair_barrier(pair);
		pair_pattern(data, private_sizes[i], (uint32_t)i);
		DAT_CHECK(&s, connect_to(&s, s.ep, &s.address, s.qual, 10000000 * PAIR_SHARE, data,
					 private_sizes[i]));
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
		CHECK(pair, c->private_data_size == (DAT_COUNT)private_sizes[i],
		      "private data: %d bytes, not %u", c->private_data_size, private_sizes[i]);
		CHECK(pair,
		      pair_pattern_check(c->private_data, private_sizes[i], (uint32_t)(50 + i)) ==
			      private_sizes[i],
		      "private data of %u bytes is wrong", private_sizes[i]);
		pair_barrier(pair);
		DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
		dat_side_nothing(&s, s.conn, 20);
		DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG)); /* no effect twice */
		DAT_CHECK(&s, dat_ep_free(s.ep));
	}
	dat_side_close(&s);
}

/* ---- refusals ---- */

static void
refuse_server(struct pair *pair)
{
	struct dat_side s;

	dat_side_open(&s, pair, true);
	/* Reject the first request, accept the second. */
	dat_side_expect(&s, s.cr, DAT_CONNECTION_REQUEST_EVENT, 10000, &event);
	DAT_CHECK(&s, dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle));
	dat_side_connect(&s, true);
	/* The connection outlives its listener. */
	DAT_CHECK(&s, dat_psp_free(s.psp));
	pair_barrier(pair);
	pair_barrier(pair);
	CHECK(pair, state_of(&s, s.ep) == DAT_EP_STATE_CONNECTED, "dat_psp_free ended a connection");
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
refuse_client(struct pair *pair)
{
	DAT_EP_HANDLE other;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, connect_to(&s, s.ep, &s.address, s.qual, 10000000 * PAIR_SHARE, NULL, 0));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_PEER_REJECTED, 10000, &event);
	CHECK(pair, state_of(&s, s.ep) == DAT_EP_STATE_DISCONNECTED, "not DISCONNECTED after PEER_REJECTED");
	DAT_CHECK_ERROR(&s, connect_to(&s, s.ep, &s.address, s.qual, 10000000 * PAIR_SHARE, NULL, 0),
			DAT_INVALID_STATE);
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	dat_side_connect(&s, false);
	pair_barrier(pair); /* the server has freed its listener */
	other = dat_side_ep(&s);
	DAT_CHECK(&s, connect_to(&s, other, &s.address, s.qual, 10000000 * PAIR_SHARE, NULL, 0));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, 10000, &event);
	CHECK(pair, event.event_data.connect_event_data.ep_handle == other, "another endpoint's event");
	DAT_CHECK(&s, dat_ep_free(other));
	pair_barrier(pair);
	pair_barrier(pair); /* the server has checked that its connection persists */
	dat_side_close(&s);
}

/* ---- nobody answers ---- */

static void
silent_server(struct pair *pair)
{
	struct dat_side s;

	dat_side_open(&s, pair, true);
	/* Leave the request alone until its sender has given up: accepting is too late then. */
	dat_side_expect(&s, s.cr, DAT_CONNECTION_REQUEST_EVENT, 10000, &event);
	pair_barrier(pair);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, s.ep, 0, NULL));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, 20000, &event);
	CHECK(pair, state_of(&s, s.ep) == DAT_EP_STATE_DISCONNECTED, "not DISCONNECTED");
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
silent_client(struct pair *pair)
{
	uint64_t before;
	struct dat_side s;
	struct sockaddr_storage nobody;

	dat_side_open(&s, pair, false);
	s.ep = dat_side_ep(&s);
	before = pair_now_ms();
	DAT_CHECK(&s, connect_to(&s, s.ep, &s.address, s.qual, 700000, NULL, 0));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_TIMED_OUT, 10000, &event);
	CHECK(pair, pair_now_ms() - before >= 650, "a time-out of 0.7 s took %llu ms",
	      (unsigned long long)(pair_now_ms() - before));
	pair_barrier(pair);
	pair_barrier(pair);
	/* No host has this address of the same subnet. */
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	nobody = s.address;
	if (nobody.ss_family == AF_INET)
		((uint8_t *)&((struct sockaddr_in *)&nobody)->sin_addr)[3] = 250;
	else
		((struct sockaddr_in6 *)&nobody)->sin6_addr.s6_addr[15] = 250;
	DAT_CHECK(&s, connect_to(&s, s.ep, &nobody, s.qual, 15000000, NULL, 0));
	dat_side_event(&s, s.conn, 20000, &event);
	CHECK(pair, event.event_number == DAT_CONNECTION_EVENT_UNREACHABLE, "expected UNREACHABLE, got 0x%x",
	      event.event_number);
	dat_side_close(&s);
}

/* ---- the connecting side gives up by itself ---- */

static void
withdraw_server(struct pair *pair)
{
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_side_expect(&s, s.cr, DAT_CONNECTION_REQUEST_EVENT, 10000, &event);
	pair_barrier(pair);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
withdraw_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 1));
	DAT_CHECK(&s, connect_to(&s, s.ep, &s.address, s.qual, 10000000 * PAIR_SHARE, NULL, 0));
	pair_barrier(pair);
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	dat_side_complete(&s, s.recv, 1, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_nothing(&s, s.conn, 50);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- disconnect with work outstanding; later posts are flushed ---- */

static void
flush_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, 65536, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (uint64_t i = 0; i < 5; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, i * 64, 64, i));
	dat_side_connect(&s, true);
	dat_side_complete(&s, s.recv, 0, DAT_DTO_SUCCESS, 64);
	for (uint64_t i = 1; i < 5; i++)
		dat_side_complete(&s, s.recv, i, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	/* DISCONNECTED accepts posts and flushes them at once. */
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 90));
	dat_side_complete(&s, s.recv, 90, DAT_DTO_ERR_FLUSHED, 0);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 91, DAT_COMPLETION_SUPPRESS_FLAG));
	dat_side_complete(&s, s.request, 91, DAT_DTO_ERR_FLUSHED, 0);
	/* The endpoint can be used again after a reset. */
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	CHECK(pair, state_of(&s, s.ep) == DAT_EP_STATE_UNCONNECTED, "not UNCONNECTED after reset");
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 92));
	dat_side_connect(&s, true);
	dat_side_complete(&s, s.recv, 92, DAT_DTO_SUCCESS, 32);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
flush_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, 65536);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 1, DAT_COMPLETION_DEFAULT_FLAG));
	/* A graceful disconnect carries out posted work first. */
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 64);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	dat_side_nothing(&s, s.conn, 50);
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	dat_side_connect(&s, false);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 32, 2, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, 32);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- many endpoints ---- */

#define MANY 100u

static void
many_server(struct pair *pair)
{
	static DAT_EP_HANDLE ep[MANY];
	struct dat_side s;

	dat_side_open(&s, pair, true);
	for (uint32_t i = 0; i < MANY; i++) {
		ep[i] = dat_side_ep(&s);
		dat_side_expect(&s, s.cr, DAT_CONNECTION_REQUEST_EVENT, 10000, &event);
		DAT_CHECK(&s,
			  dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, ep[i], 0, NULL));
	}
	for (uint32_t i = 0; i < MANY; i++)
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	pair_barrier(pair);
	for (uint32_t i = 0; i < MANY; i++)
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	dat_side_nothing(&s, s.conn, 50);
	for (uint32_t i = 0; i < MANY; i++)
		DAT_CHECK(&s, dat_ep_free(ep[i]));
	dat_side_close(&s);
}

static void
many_client(struct pair *pair)
{
	static DAT_EP_HANDLE ep[MANY];
	struct dat_side s;

	dat_side_open(&s, pair, false);
	for (uint32_t i = 0; i < MANY; i++) {
		ep[i] = dat_side_ep(&s);
		DAT_CHECK(&s, connect_to(&s, ep[i], &s.address, s.qual, 20000000, NULL, 0));
	}
	for (uint32_t i = 0; i < MANY; i++)
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 20000, &event);
	pair_barrier(pair);
	for (uint32_t i = 0; i < MANY; i++)
		DAT_CHECK(&s, dat_ep_disconnect(ep[i], DAT_CLOSE_ABRUPT_FLAG));
	for (uint32_t i = 0; i < MANY; i++)
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 20000, &event);
	dat_side_close(&s);
}

/* ---- the peer is killed while WRITEs are in progress ---- */

static void
killed_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, 1 << 20, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	for (;;)
		pause();
}

static void
killed_client(struct pair *pair)
{
	uint32_t outstanding = 0, flushed = 0;
	uint64_t killed_at = 0, start;
	struct dat_remote r;
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, 1 << 20, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	start = pair_now_ms();
	while (flushed == 0) {
		DAT_RETURN ret = DAT_SUCCESS;

		if (killed_at == 0 && pair_now_ms() - start > 300) {
			CHECK(pair, kill(pair->peer, SIGKILL) == 0, "kill");
			killed_at = pair_now_ms();
		}
		if (outstanding < 32 && killed_at == 0) {
			ret = dat_write(s.ep, &b, 0, 30000, 1, &r, 0, DAT_COMPLETION_DEFAULT_FLAG);
			CHECK(pair, ret == DAT_SUCCESS, "write: 0x%x", ret);
			outstanding++;
		}
		ret = dat_evd_dequeue(s.request, &event);
		if (ret == DAT_SUCCESS) {
			outstanding--;
			if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS)
				flushed++;
		}
		if (killed_at != 0 && outstanding == 0)
			break;
		CHECK(pair, killed_at == 0 || pair_now_ms() - killed_at < 15000 * PAIR_SHARE,
		      "work still open long after the kill");
	}
	dat_side_expect_end(&s);
	/* The surviving application can use its endpoint again. */
	CHECK(pair, state_of(&s, s.ep) == DAT_EP_STATE_DISCONNECTED, "not DISCONNECTED");
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	dat_side_close(&s);
}

/* ---- a peer that is killed while idle ---- */

static void
killed_idle_client(struct pair *pair)
{
	struct dat_remote r;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	CHECK(pair, kill(pair->peer, SIGKILL) == 0, "kill");
	dat_side_expect_end(&s);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"private_data", private_server, private_client, false},
	{"refuse", refuse_server, refuse_client, false},
	{"silent", silent_server, silent_client, false},
	{"withdraw", withdraw_server, withdraw_client, false},
	{"flush", flush_server, flush_client, false},
	{"many", many_server, many_client, false},
	{"killed", killed_server, killed_client, true},
	{"killed_idle", killed_server, killed_idle_client, true},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
