/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting on real data planes: every completion flag, order, credits. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dat_pair.h"

#define SIZE 65536u

static DAT_EVENT event;

static void
until_notified_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, true, &b, SIZE);
	dat_buffer_offer(&s, &b);
	pair_barrier(pair);
	CHECK(pair, dat_side_state(&s, s.ep) == DAT_EP_STATE_CONNECTED, "the connection has ended");
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- credits: as many posts as the attributes allow, available again after completion ---- */

/* Returns whether a post found room. `start` is the time of the first try. */
static bool
has_posted(struct pair *pair, DAT_RETURN ret, uint64_t start)
{
	CHECK(pair, ret == DAT_SUCCESS || ret == DAT_CODE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS),
	      "post: 0x%x", ret);
	CHECK(pair, pair_now_ms() - start < 20000 * PAIR_SHARE, "suppressed requests are not recycled");
	return ret == DAT_SUCCESS;
}

static void
credits_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;
	DAT_BOOLEAN recv_idle, request_idle;
	DAT_EP_STATE state;
	uint32_t posted = 0;
	uint64_t start;

	dat_side_start(&s, pair, false, &b, SIZE);
	dat_remote_take(&s, &r);
	/* Receives: the peer sends nothing, so exactly the configured number fits. */
	while (dat_recv(s.ep, &b, 0, 8, 1) == DAT_SUCCESS)
		posted++;
	CHECK(pair, posted == 256, "%u receives instead of 256", posted);
	DAT_CHECK_CODE(&s, dat_recv(s.ep, &b, 0, 8, 1),
		       DAT_CODE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
	DAT_CHECK(&s, dat_ep_get_status(s.ep, &state, &recv_idle, &request_idle));
	CHECK(pair, recv_idle == DAT_FALSE && request_idle == DAT_TRUE, "dat_ep_get_status: idle flags");
	/* Suppressed requests are recycled without events: post many more than the queue holds. */
	for (uint32_t i = 0; i < 5000; i++) {
		start = pair_now_ms();
		while (!has_posted(pair, dat_write(s.ep, &b, 0, 64, i, &r, 0, DAT_COMPLETION_SUPPRESS_FLAG),
				   start))
			;
	}
	start = pair_now_ms();
	while (!has_posted(pair, dat_read(s.ep, &b, 0, 64, 7, &r, 0, DAT_COMPLETION_BARRIER_FENCE_FLAG),
			   start))
		;
	dat_side_complete(&s, s.request, 7, DAT_DTO_SUCCESS, 64);
	dat_side_nothing(&s, s.request, 20);
	DAT_CHECK(&s, dat_ep_get_status(s.ep, &state, &recv_idle, &request_idle));
	CHECK(pair, recv_idle == DAT_FALSE && request_idle == DAT_TRUE, "dat_ep_get_status: idle flags");
	pair_barrier(pair);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- unsignalled, solicited wait ---- */

static void
flags_server(struct pair *pair)
{
	DAT_EP_ATTR attr = {.max_recv_dtos = 64,
			    .max_request_dtos = 64,
			    .max_recv_iov = 4,
			    .max_request_iov = 4,
			    .recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG};
	struct dat_buffer b;
	struct dat_side s;
	DAT_EVD_PARAM param;
	DAT_COUNT more;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CHECK(&s, dat_ep_create(s.ia, s.pz, s.recv, s.request, s.conn, &attr, &s.ep));
	DAT_CHECK(&s, dat_evd_query(s.recv, DAT_EVD_FIELD_ALL, &param));
	CHECK(pair, (param.evd_state & 0x30) == DAT_EVD_STATE_CONFIG_SOLICITED, "not CONFIG_SOLICITED");
	DAT_CHECK_CODE(&s, dat_evd_wait(s.recv, 0, 2, &event, &more), DAT_BAD_STATE(EVD_CONFIG_SOLICITED));
	for (uint64_t i = 0; i < 6; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, i * 64, 64, i));
	dat_side_connect(&s, true);
	pair_barrier(pair); /* three unsolicited messages have arrived */
	dat_side_quiet(&s, s.recv, 3, 1);
	pair_barrier(pair);
	/* The fourth message is solicited; the earlier three come first. */
	DAT_CHECK(&s, dat_evd_wait(s.recv, 10000000 * PAIR_SHARE, 1, &event, &more));
	CHECK(pair, event.event_data.dto_completion_event_data.user_cookie.as_64 == 0 && more == 3,
	      "a solicited receive: %d more", more);
	for (uint64_t i = 1; i < 4; i++) {
		CHECK(pair, dat_evd_dequeue(s.recv, &event) == DAT_SUCCESS, "an event is missing");
		CHECK(pair, event.event_data.dto_completion_event_data.user_cookie.as_64 == i, "order");
	}
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
flags_client(struct pair *pair)
{
	DAT_EP_ATTR attr = {.max_recv_dtos = 64,
			    .max_request_dtos = 64,
			    .max_recv_iov = 4,
			    .max_request_iov = 4,
			    .request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG};
	struct dat_buffer b;
	struct dat_side s;
	DAT_EVD_PARAM param;
	DAT_COUNT more;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CHECK(&s, dat_ep_create(s.ia, s.pz, s.recv, s.request, s.conn, &attr, &s.ep));
	DAT_CHECK(&s, dat_evd_query(s.request, DAT_EVD_FIELD_ALL, &param));
	CHECK(pair, (param.evd_state & 0x30) == DAT_EVD_STATE_CONFIG_NOTIFY, "not CONFIG_NOTIFY");
	DAT_CHECK_CODE(&s, dat_evd_wait(s.request, 0, 2, &event, &more), DAT_BAD_STATE(EVD_CONFIG_NOTIFY));
	dat_side_connect(&s, false);
	/* Three unsignalled SENDs wake no waiter on either side. */
	for (uint64_t i = 0; i < 3; i++)
		DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, i, DAT_COMPLETION_UNSIGNALLED_FLAG));
	dat_side_quiet(&s, s.request, 3, 1);
	pair_barrier(pair);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 3, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
	DAT_CHECK(&s, dat_evd_wait(s.request, 10000000 * PAIR_SHARE, 1, &event, &more));
	CHECK(pair, event.event_data.dto_completion_event_data.user_cookie.as_64 == 0 && more == 3,
	      "a signalled completion: %d more", more);
	for (uint64_t i = 1; i < 4; i++)
		dat_side_complete(&s, s.request, i, DAT_DTO_SUCCESS, 64);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- suppressed requests that fail do complete; all later ones are flushed, in order ---- */

static void
broken_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_READ_FLAG);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
broken_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;
	DAT_EVENT last;
	DAT_COUNT more;

	dat_side_start(&s, pair, false, &b, SIZE);
	dat_remote_take(&s, &r);
	for (uint64_t i = 0; i < 5; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 100 + i));
	DAT_CHECK(&s, dat_read(s.ep, &b, 0, 64, 1, &r, 0, DAT_COMPLETION_SUPPRESS_FLAG));
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 64, 2, &r, 0, DAT_COMPLETION_SUPPRESS_FLAG));
	for (uint64_t i = 3; i < 20; i++) {
		DAT_RETURN ret = i % 2 == 0
					 ? dat_write(s.ep, &b, 0, 64, i, &r, 0, DAT_COMPLETION_SUPPRESS_FLAG)
					 : dat_send(s.ep, &b, 0, 64, i, DAT_COMPLETION_DEFAULT_FLAG);

		DAT_CHECK(&s, ret);
	}
	dat_side_complete(&s, s.request, 2, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	for (uint64_t i = 3; i < 20; i++)
		dat_side_complete(&s, s.request, i, DAT_DTO_ERR_FLUSHED, 0);
	/* The connection's event follows all of them. */
	dat_side_event(&s, s.conn, 10000, &last);
	CHECK(pair, last.event_number == DAT_CONNECTION_EVENT_BROKEN, "event 0x%x", last.event_number);
	for (uint64_t i = 0; i < 5; i++) {
		DAT_CHECK(&s, dat_evd_wait(s.recv, 0, 1, &event, &more));
		CHECK(pair,
		      event.event_data.dto_completion_event_data.user_cookie.as_64 == 100 + i &&
			      event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED,
		      "receive %llu was not flushed before BROKEN", (unsigned long long)i);
	}
	/* In DISCONNECTED, each kind of post is flushed at once. */
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 21, DAT_COMPLETION_SUPPRESS_FLAG));
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 64, 22, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&s, dat_read(s.ep, &b, 0, 64, 23, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 24));
	for (uint64_t i = 21; i < 24; i++)
		dat_side_complete(&s, s.request, i, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_complete(&s, s.recv, 24, DAT_DTO_ERR_FLUSHED, 0);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- threads that post on one endpoint and on others in parallel ---- */

#define THREADS 4u
#define EACH 500u

struct poster {
	pthread_t thread;
	struct pair *pair;
	struct dat_buffer *b;
	DAT_EP_HANDLE ep;
	uint32_t number;
};

static void *
post_main(void *arg)
{
	struct poster *p = arg;

	for (uint32_t i = 0; i < EACH; i++) {
		uint64_t start = pair_now_ms();

		while (dat_send(p->ep, p->b, p->number * 64, 32, (uint64_t)p->number << 32 | i,
				DAT_COMPLETION_SUPPRESS_FLAG) != DAT_SUCCESS)
			CHECK(p->pair, pair_now_ms() - start < 20000 * PAIR_SHARE, "a post never succeeds");
	}
	return NULL;
}

static void
threads_server(struct pair *pair)
{
	uint32_t got[THREADS] = {0}, total = 0;
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (uint64_t i = 0; i < 256; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, i * 64, 64, i));
	dat_side_connect(&s, true);
	while (total < THREADS * EACH) {
		const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
		uint64_t i;

		dat_side_event(&s, s.recv, 20000, &event);
		i = dto->user_cookie.as_64;
		CHECK(pair, dto->status == DAT_DTO_SUCCESS && dto->transfered_length == 32,
		      "a receive: status %d, %llu bytes", dto->status,
		      (unsigned long long)dto->transfered_length);
		CHECK(pair, b.data[i * 64] < THREADS, "a message of nobody");
		for (uint32_t k = 1; k < 32; k++)
			CHECK(pair, b.data[i * 64 + k] == b.data[i * 64], "messages were mixed");
		got[b.data[i * 64]]++;
		total++;
		DAT_CHECK(&s, dat_recv(s.ep, &b, i * 64, 64, i));
	}
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(pair, got[i] == EACH, "%u messages of thread %u", got[i], i);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
threads_client(struct pair *pair)
{
	struct poster posters[THREADS];
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	for (uint32_t i = 0; i < THREADS; i++)
		memset(b.data + (size_t)i * 64, (int)i, 64);
	dat_side_connect(&s, false);
	for (uint32_t i = 0; i < THREADS; i++) {
		posters[i] = (struct poster){.pair = pair, .b = &b, .ep = s.ep, .number = i};
		CHECK(pair, pthread_create(&posters[i].thread, NULL, post_main, &posters[i]) == 0,
		      "pthread_create");
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(posters[i].thread, NULL);
	dat_side_nothing(&s, s.request, 20);
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"post_credits", until_notified_server, credits_client, false},
	{"post_flags", flags_server, flags_client, false},
	{"post_broken", broken_server, broken_client, false},
	{"post_threads", threads_server, threads_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
