/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues between two applications: many endpoints of the server take receives from one
 * queue.
 */
#include <stdlib.h>
#include <string.h>

#include "dat_pair.h"

#define EPS 8u
#define SLOT 4096u
#define SLOTS 64u
#define ROUNDS 40u

struct srq_side {
	struct dat_side s;
	struct dat_buffer b;
	DAT_SRQ_HANDLE srq;
	DAT_EP_HANDLE ep[EPS];
};

static DAT_EP_HANDLE
ep_on(struct srq_side *q)
{
	DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC, .max_request_dtos = 16, .max_request_iov = 1};
	DAT_EP_HANDLE ep;

	DAT_CHECK(&q->s, dat_ep_create_with_srq(q->s.ia, q->s.pz, q->s.recv, q->s.request, q->s.conn, q->srq,
						&attr, &ep));
	return ep;
}

static void
server_open(struct srq_side *q, struct pair *pair, uint32_t eps)
{
	DAT_SRQ_ATTR attr = {.max_recv_dtos = SLOTS, .max_recv_iov = 2, .low_watermark = DAT_SRQ_LW_DEFAULT};

	memset(q, 0, sizeof(*q));
	dat_side_open(&q->s, pair, true);
	dat_buffer_make(&q->s, &q->b, SLOTS * SLOT, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CHECK(&q->s, dat_srq_create(q->s.ia, q->s.pz, &attr, &q->srq));
	for (uint32_t i = 0; i < eps; i++) {
		q->s.ep = q->ep[i] = ep_on(q);
		dat_side_connect(&q->s, true);
	}
}

static void
client_open(struct srq_side *q, struct pair *pair, uint32_t eps)
{
	memset(q, 0, sizeof(*q));
	dat_side_open(&q->s, pair, false);
	dat_buffer_make(&q->s, &q->b, SLOTS * SLOT, DAT_MEM_PRIV_ALL_FLAG);
	for (uint32_t i = 0; i < eps; i++) {
		q->s.ep = DAT_HANDLE_NULL;
		dat_side_connect(&q->s, false);
		q->ep[i] = q->s.ep;
	}
}

static void
post(struct srq_side *q, uint32_t slot)
{
	/* Two pieces need extension slots in the ring. */
	DAT_LMR_TRIPLET iov[2] = {{.lmr_context = q->b.lmr_context,
				   .virtual_address = (uintptr_t)q->b.data + slot * SLOT,
				   .segment_length = 1000},
				  {.lmr_context = q->b.lmr_context,
				   .virtual_address = (uintptr_t)q->b.data + slot * SLOT + 1000,
				   .segment_length = SLOT - 1000}};

	DAT_CHECK(&q->s, dat_srq_post_recv(q->srq, 2, iov, (DAT_DTO_COOKIE){.as_64 = slot}));
}

static DAT_SRQ_PARAM
query(struct srq_side *q)
{
	DAT_SRQ_PARAM param;

	DAT_CHECK(&q->s, dat_srq_query(q->srq, DAT_SRQ_FIELD_ALL, &param));
	return param;
}

/* Waits for these counts: the engine updates them shortly after the events. */
static void
expect_counts(struct srq_side *q, DAT_COUNT available, DAT_COUNT outstanding)
{
	uint64_t start = pair_now_ms();
	DAT_SRQ_PARAM param;

	do
		param = query(q);
	while ((param.available_dto_count != available || param.outstanding_dto_count != outstanding) &&
	       pair_now_ms() - start < 5000 * PAIR_SHARE);
	CHECK(q->s.pair, param.available_dto_count == available && param.outstanding_dto_count == outstanding,
	      "counts are (%d, %d) instead of (%d, %d)", param.available_dto_count,
	      param.outstanding_dto_count, available, outstanding);
}

static uint32_t
index_of(struct srq_side *q, DAT_EP_HANDLE ep)
{
	uint32_t i = 0;

	while (i < EPS && q->ep[i] != ep)
		i++;
	CHECK(q->s.pair, i < EPS, "a completion of an endpoint that is none of ours");
	return i;
}

/* Expects the next completion; a null `ep` allows any endpoint. */
static void
complete(struct srq_side *q, DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t cookie,
	 DAT_DTO_COMPLETION_STATUS status, uint64_t length)
{
	DAT_EVENT event;
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	dat_side_expect(&q->s, evd, DAT_DTO_COMPLETION_EVENT, 20000, &event);
	index_of(q, dto->ep_handle);
	CHECK(q->s.pair, ep == DAT_HANDLE_NULL || dto->ep_handle == ep, "a completion of another endpoint");
	CHECK(q->s.pair, dto->user_cookie.as_64 == cookie && dto->status == status,
	      "cookie %llu with status %d instead of %llu with %d",
	      (unsigned long long)dto->user_cookie.as_64, dto->status, (unsigned long long)cookie, status);
	CHECK(q->s.pair, status != DAT_DTO_SUCCESS || dto->transfered_length == length, "length %llu",
	      (unsigned long long)dto->transfered_length);
}

/* ---- many endpoints: each message arrives once, in the order of its connection, in its buffer ---- */

static void
many_server(struct pair *pair)
{
	uint32_t next[EPS] = {0};
	struct srq_side q;
	DAT_EVENT event;

	server_open(&q, pair, EPS);
	for (uint32_t i = 0; i < SLOTS; i++)
		post(&q, i);
	expect_counts(&q, SLOTS, SLOTS);
	pair_barrier(pair);
	for (uint32_t n = 0; n < EPS * ROUNDS; n++) {
		const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
		uint32_t i, slot;

		dat_side_expect(&q.s, q.s.recv, DAT_DTO_COMPLETION_EVENT, 20000, &event);
		CHECK(pair, dto->status == DAT_DTO_SUCCESS, "message %u: status %d", n, dto->status);
		i = index_of(&q, dto->ep_handle);
		slot = (uint32_t)dto->user_cookie.as_64;
		CHECK(pair, dto->transfered_length == 100 + next[i] * 90,
		      "endpoint %u: message %u has %llu bytes", i, next[i],
		      (unsigned long long)dto->transfered_length);
		CHECK(pair,
		      pair_pattern_check(q.b.data + slot * SLOT, 100 + next[i] * 90, i * 1000 + next[i]) ==
			      100 + next[i] * 90,
		      "endpoint %u: message %u is wrong", i, next[i]);
		next[i]++;
		post(&q, slot);
	}
	expect_counts(&q, SLOTS, SLOTS);
	dat_side_nothing(&q.s, q.s.recv, 20);
	pair_barrier(pair);
	/* Any endpoint keeps the queue in use, connected or not. */
	CHECK(pair,
	      dat_srq_free(q.srq) ==
		      (DAT_RETURN)((DAT_UINT32)DAT_CLASS_ERROR | (DAT_UINT32)DAT_INVALID_STATE |
				   (DAT_UINT32)DAT_INVALID_STATE_SRQ_IN_USE),
	      "a queue in use was freed, or refused otherwise");
	for (uint32_t i = 0; i < EPS; i++)
		DAT_CHECK(&q.s, dat_ep_free(q.ep[i]));
	expect_counts(&q, SLOTS, SLOTS);
	DAT_CHECK(&q.s, dat_srq_free(q.srq));
	DAT_CHECK_ERROR(&q.s, dat_srq_free(q.srq), DAT_INVALID_HANDLE);
	dat_side_close(&q.s);
}

static void
many_client(struct pair *pair)
{
	struct srq_side q;

	client_open(&q, pair, EPS);
	pair_barrier(pair);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < EPS; i++) {
			pair_pattern(q.b.data + i * SLOT, 100 + round * 90, i * 1000 + round);
			DAT_CHECK(&q.s, dat_send(q.ep[i], &q.b, i * SLOT, 100 + round * 90, i,
						 DAT_COMPLETION_DEFAULT_FLAG));
		}
		for (uint32_t i = 0; i < EPS; i++) {
			DAT_EVENT event;

			dat_side_expect(&q.s, q.s.request, DAT_DTO_COMPLETION_EVENT, 20000, &event);
			CHECK(pair, event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS,
			      "round %u: status %d", round,
			      event.event_data.dto_completion_event_data.status);
		}
	}
	pair_barrier(pair);
	dat_side_close(&q.s);
}

/* ---- an empty queue makes the sender wait, like a missing receive ---- */

static void
empty_server(struct pair *pair)
{
	struct srq_side q;

	server_open(&q, pair, 2);
	pair_barrier(pair); /* two messages are on their way */
	dat_side_nothing(&q.s, q.s.recv, 100);
	post(&q, 0);
	complete(&q, q.s.recv, DAT_HANDLE_NULL, 0, DAT_DTO_SUCCESS, 50);
	dat_side_nothing(&q.s, q.s.recv, 50);
	post(&q, 1);
	complete(&q, q.s.recv, DAT_HANDLE_NULL, 1, DAT_DTO_SUCCESS, 50);
	expect_counts(&q, 0, 0);
	pair_barrier(pair);
	dat_side_close(&q.s);
}

static void
empty_client(struct pair *pair)
{
	struct srq_side q;

	client_open(&q, pair, 2);
	for (uint32_t i = 0; i < 2; i++)
		DAT_CHECK(&q.s, dat_send(q.ep[i], &q.b, 0, 50, 1, DAT_COMPLETION_DEFAULT_FLAG));
	pair_barrier(pair);
	for (uint32_t i = 0; i < 2; i++)
		complete(&q, q.s.request, DAT_HANDLE_NULL, 1, DAT_DTO_SUCCESS, 50);
	pair_barrier(pair);
	dat_side_close(&q.s);
}

/*
 * ---- the end of a connection leaves receives on the queue, for other endpoints and for the same one later
 * ----
 */

static void
stays_server(struct pair *pair)
{
	struct srq_side q;
	DAT_EVENT event;

	server_open(&q, pair, 2);
	for (uint32_t i = 0; i < 3; i++)
		post(&q, i);
	pair_barrier(pair); /* the client ends the first connection */
	dat_side_expect(&q.s, q.s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	CHECK(pair, event.event_data.connect_event_data.ep_handle == q.ep[0], "another connection ended");
	dat_side_nothing(&q.s, q.s.recv, 50);
	expect_counts(&q, 3, 3);
	pair_barrier(pair); /* the client sends on the second connection */
	complete(&q, q.s.recv, q.ep[1], 0, DAT_DTO_SUCCESS, 60);
	/* A reset keeps the endpoint's association with the queue. */
	DAT_CHECK(&q.s, dat_ep_reset(q.ep[0]));
	q.s.ep = q.ep[0];
	dat_side_connect(&q.s, true);
	complete(&q, q.s.recv, q.ep[0], 1, DAT_DTO_SUCCESS, 70);
	expect_counts(&q, 1, 1);
	pair_barrier(pair);
	dat_side_close(&q.s);
}

static void
stays_client(struct pair *pair)
{
	struct srq_side q;
	DAT_EVENT event;

	client_open(&q, pair, 2);
	pair_barrier(pair);
	DAT_CHECK(&q.s, dat_ep_disconnect(q.ep[0], DAT_CLOSE_ABRUPT_FLAG));
	dat_side_expect(&q.s, q.s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	pair_barrier(pair);
	DAT_CHECK(&q.s, dat_send(q.ep[1], &q.b, 0, 60, 1, DAT_COMPLETION_DEFAULT_FLAG));
	complete(&q, q.s.request, q.ep[1], 1, DAT_DTO_SUCCESS, 60);
	q.s.ep = DAT_HANDLE_NULL;
	dat_side_connect(&q.s, false);
	q.ep[0] = q.s.ep;
	DAT_CHECK(&q.s, dat_send(q.ep[0], &q.b, 0, 70, 2, DAT_COMPLETION_DEFAULT_FLAG));
	complete(&q, q.s.request, q.ep[0], 2, DAT_DTO_SUCCESS, 70);
	pair_barrier(pair);
	dat_side_close(&q.s);
}

/* ---- a message that does not fit breaks its connection and consumes one buffer ---- */

static void
breaks_server(struct pair *pair)
{
	struct srq_side q;
	DAT_EVENT event;

	server_open(&q, pair, 2);
	for (uint32_t i = 0; i < 2; i++)
		post(&q, i);
	pair_barrier(pair);
	complete(&q, q.s.recv, q.ep[0], 0, DAT_DTO_ERR_LOCAL_LENGTH, 0);
	dat_side_event(&q.s, q.s.conn, 10000, &event);
	CHECK(pair, event.event_data.connect_event_data.ep_handle == q.ep[0], "another connection ended");
	expect_counts(&q, 1, 1);
	pair_barrier(pair);
	complete(&q, q.s.recv, q.ep[1], 1, DAT_DTO_SUCCESS, SLOT);
	pair_barrier(pair);
	dat_side_close(&q.s);
}

static void
breaks_client(struct pair *pair)
{
	struct srq_side q;

	client_open(&q, pair, 2);
	pair_barrier(pair);
	DAT_CHECK(&q.s, dat_send(q.ep[0], &q.b, 0, SLOT + 1, 1, DAT_COMPLETION_DEFAULT_FLAG));
	complete(&q, q.s.request, q.ep[0], 1, DAT_DTO_ERR_REMOTE_RESPONDER, 0);
	pair_barrier(pair);
	DAT_CHECK(&q.s, dat_send(q.ep[1], &q.b, 0, SLOT, 2, DAT_COMPLETION_DEFAULT_FLAG));
	complete(&q, q.s.request, q.ep[1], 2, DAT_DTO_SUCCESS, SLOT);
	pair_barrier(pair);
	dat_side_close(&q.s);
}

/*
 * ---- the low watermark: one event when fewer receives are left, at once if that is so when it is set ----
 */

static void
expect_watermark(struct srq_side *q)
{
	const DAT_ASYNCH_ERROR_EVENT_DATA *data;
	DAT_EVENT event;

	dat_side_expect(&q->s, q->s.async, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, 10000, &event);
	data = &event.event_data.asynch_error_event_data;
	CHECK(q->s.pair, data->dat_handle == q->srq && data->reason == DAT_SRQ_LOW_WATERMARK_EVENT,
	      "an event of another kind: reason %d", data->reason);
}

static void
watermark_server(struct pair *pair)
{
	struct srq_side q;

	server_open(&q, pair, 2);
	for (uint32_t i = 0; i < 4; i++)
		post(&q, i);
	DAT_CHECK(&q.s, dat_srq_set_lw(q.srq, 3));
	pair_barrier(pair);
	complete(&q, q.s.recv, q.ep[0], 0, DAT_DTO_SUCCESS, 10);
	dat_side_nothing(&q.s, q.s.async, 50);
	pair_barrier(pair);
	complete(&q, q.s.recv, q.ep[1], 1, DAT_DTO_SUCCESS, 10);
	expect_watermark(&q);
	pair_barrier(pair);
	complete(&q, q.s.recv, q.ep[0], 2, DAT_DTO_SUCCESS, 10);
	dat_side_nothing(&q.s, q.s.async, 50);
	DAT_CHECK(&q.s, dat_srq_set_lw(q.srq, 2));
	expect_watermark(&q);
	DAT_CHECK_ERROR(&q.s, dat_srq_set_lw(q.srq, SLOTS + 1), DAT_INVALID_PARAMETER);
	dat_side_close(&q.s);
}

static void
watermark_client(struct pair *pair)
{
	struct srq_side q;

	client_open(&q, pair, 2);
	for (uint32_t i = 0; i < 3; i++) {
		pair_barrier(pair);
		DAT_CHECK(&q.s, dat_send(q.ep[i % 2], &q.b, 0, 10, i, DAT_COMPLETION_DEFAULT_FLAG));
		complete(&q, q.s.request, q.ep[i % 2], i, DAT_DTO_SUCCESS, 10);
	}
	dat_side_close(&q.s);
}

/* ---- length: full, lengthened, at the maximum ---- */

static void
length_server(struct pair *pair)
{
	DAT_LMR_TRIPLET iov = {0};
	struct srq_side q;
	DAT_IA_ATTR ia;

	server_open(&q, pair, 1);
	DAT_CHECK(&q.s, dat_ia_query(q.s.ia, NULL, DAT_IA_FIELD_ALL, &ia, 0, NULL));
	for (uint32_t i = 0; i < SLOTS; i++)
		post(&q, i);
	DAT_CHECK_ERROR(&q.s, dat_srq_post_recv(q.srq, 1, &iov, (DAT_DTO_COOKIE){.as_64 = 1}),
			DAT_INSUFFICIENT_RESOURCES);
	DAT_CHECK_ERROR(&q.s, dat_srq_resize(q.srq, SLOTS - 1), DAT_INVALID_STATE);
	DAT_CHECK(&q.s, dat_srq_resize(q.srq, ia.max_recv_per_srq));
	for (uint32_t i = SLOTS; i < (uint32_t)ia.max_recv_per_srq; i++)
		DAT_CHECK(&q.s, dat_srq_post_recv(q.srq, 1, &iov, (DAT_DTO_COOKIE){.as_64 = i}));
	DAT_CHECK_ERROR(&q.s, dat_srq_post_recv(q.srq, 1, &iov, (DAT_DTO_COOKIE){.as_64 = 1}),
			DAT_INSUFFICIENT_RESOURCES);
	expect_counts(&q, ia.max_recv_per_srq, ia.max_recv_per_srq);
	pair_barrier(pair);
	complete(&q, q.s.recv, q.ep[0], 0, DAT_DTO_SUCCESS, 10);
	DAT_CHECK(&q.s, dat_srq_post_recv(q.srq, 1, &iov, (DAT_DTO_COOKIE){.as_64 = 1}));
	pair_barrier(pair); /* a close can overtake the acknowledgement */
	dat_side_close(&q.s);
}

static void
length_client(struct pair *pair)
{
	struct srq_side q;

	client_open(&q, pair, 1);
	pair_barrier(pair);
	DAT_CHECK(&q.s, dat_send(q.ep[0], &q.b, 0, 10, 1, DAT_COMPLETION_DEFAULT_FLAG));
	complete(&q, q.s.request, q.ep[0], 1, DAT_DTO_SUCCESS, 10);
	pair_barrier(pair);
	dat_side_close(&q.s);
}

static const struct pair_case cases[] = {
	{"many_endpoints", many_server, many_client, false},
	{"empty_queue", empty_server, empty_client, false},
	{"what_is_left_stays", stays_server, stays_client, false},
	{"too_long", breaks_server, breaks_client, false},
	{"low_watermark", watermark_server, watermark_client, false},
	{"length", length_server, length_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
