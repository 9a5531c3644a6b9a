/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of a uDAPL application on one IA: each uses endpoints of its own, all in parallel; threads make
 * and free objects while others do; several threads take events from one EVD.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dat_pair.h"

#define THREADS 4u
#define ROUNDS 60u
#define SIZE 20000u

/* Objects of a thread. Server and client thread of the same number use the same connection qualifier. */
struct worker {
	pthread_t thread;
	struct dat_side s; /* shares pair, ia and address with other threads; owns the rest */
	DAT_CONN_QUAL qual;
	uint32_t number;
	bool server;
};

static void
make_objects(struct dat_side *s)
{
	DAT_CHECK(s, dat_pz_create(s->ia, &s->pz));
	DAT_CHECK(s, dat_evd_create(s->ia, 64, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &s->cr));
	DAT_CHECK(s, dat_evd_create(s->ia, 64, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &s->conn));
	DAT_CHECK(s, dat_evd_create(s->ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &s->recv));
	DAT_CHECK(s, dat_evd_create(s->ia, 64, DAT_HANDLE_NULL,
				    (DAT_EVD_FLAGS)(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG), &s->request));
}

static void
free_objects(struct dat_side *s)
{
	DAT_CHECK(s, dat_evd_free(s->cr));
	DAT_CHECK(s, dat_evd_free(s->conn));
	DAT_CHECK(s, dat_evd_free(s->recv));
	DAT_CHECK(s, dat_evd_free(s->request));
	DAT_CHECK(s, dat_pz_free(s->pz));
}

/*
 * Retries until connected. A request that arrives before the server's thread listens is refused. On busy
 * processors a repetition of the request may arrive, too, and be accepted after the client has seen the
 * refusal.
 */
static void
establish(struct worker *w, const struct dat_buffer *b, DAT_EVENT *e)
{
	struct dat_side *s = &w->s;

	for (;;) {
		DAT_CHECK(s, dat_recv(s->ep, b, 0, SIZE / 2, 1));
		if (w->server)
			DAT_CHECK(s, dat_cr_accept(dat_side_cr(s), s->ep, 0, NULL));
		else
			dat_side_request(s, s->ep, w->qual);
		dat_side_event(s, s->conn, 20000, e);
		if (e->event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
			return;
		CHECK(s->pair,
		      e->event_number == (w->server ? DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR
						    : DAT_CONNECTION_EVENT_NON_PEER_REJECTED),
		      "thread %u: event 0x%x", w->number, e->event_number);
		dat_side_complete(s, s->recv, 1, DAT_DTO_ERR_FLUSHED, 0);
		DAT_CHECK(s, dat_ep_reset(s->ep));
	}
}

/* Connects, exchanges messages, disconnects and frees everything, repeatedly. */
static void *
work_main(void *arg)
{
	struct worker *w = arg;
	struct dat_side *s = &w->s;
	DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	struct dat_buffer b;
	DAT_EVENT e;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t seed = w->number * ROUNDS + round;
		size_t size = 1 + seed * 7919u % (SIZE / 2 - 1);

		make_objects(s);
		dat_buffer_make(s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
		s->ep = dat_side_ep(s);
		/* The previous round's dat_psp_free() has returned, so the qualifier is free. */
		if (w->server)
			DAT_CHECK(s, dat_psp_create(s->ia, w->qual, s->cr, DAT_PSP_CONSUMER_FLAG, &psp));
		establish(w, &b, &e);
		if (w->server)
			DAT_CHECK(s, dat_psp_free(psp));
		CHECK(s->pair, e.event_data.connect_event_data.ep_handle == s->ep,
		      "another thread's endpoint");
		pair_pattern(b.data + SIZE / 2, size, seed);
		DAT_CHECK(s, dat_send(s->ep, &b, SIZE / 2, size, 2, DAT_COMPLETION_DEFAULT_FLAG));
		dat_side_complete(s, s->recv, 1, DAT_DTO_SUCCESS, size);
		CHECK(s->pair, pair_pattern_check(b.data, size, seed) == size,
		      "thread %u, round %u: wrong data", w->number, round);
		dat_side_event(s, s->request, 20000, &e);
		/* The client may end the connection before the server's message is acknowledged. */
		dto = &e.event_data.dto_completion_event_data;
		CHECK(s->pair,
		      e.event_number == DAT_DTO_COMPLETION_EVENT && dto->user_cookie.as_64 == 2 &&
			      (dto->status == DAT_DTO_SUCCESS ||
			       (w->server && dto->status == DAT_DTO_ERR_FLUSHED)),
		      "thread %u, round %u: the message was not sent", w->number, round);
		if (!w->server)
			DAT_CHECK(s, dat_ep_disconnect(s->ep, DAT_CLOSE_GRACEFUL_FLAG));
		dat_side_expect(s, s->conn, DAT_CONNECTION_EVENT_DISCONNECTED, 20000, &e);
		DAT_CHECK(s, dat_ep_free(s->ep));
		dat_buffer_free(s, &b);
		free_objects(s);
	}
	return NULL;
}

static void
work(struct pair *pair, bool server)
{
	struct worker w[THREADS];
	struct dat_side s;

	dat_side_open(&s, pair, server);
	for (uint32_t i = 0; i < THREADS; i++) {
		w[i] = (struct worker){
			.s = {.pair = pair, .ia = s.ia, .address = s.address}, .number = i, .server = server};
		if (server) {
			w[i].qual = dat_side_free_qual(&s);
			pair_send(pair, &w[i].qual, sizeof(w[i].qual));
		} else {
			pair_recv(pair, &w[i].qual, sizeof(w[i].qual));
		}
	}
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(pair, pthread_create(&w[i].thread, NULL, work_main, &w[i]) == 0, "pthread_create");
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(w[i].thread, NULL);
	pair_barrier(pair);
	/* All objects of the threads have gone, or the graceful close would fail. */
	if (server)
		DAT_CHECK(&s, dat_psp_free(s.psp));
	free_objects(&s);
	DAT_CHECK(&s, dat_ia_close(s.ia, DAT_CLOSE_GRACEFUL_FLAG));
}

static void
work_server(struct pair *pair)
{
	work(pair, true);
}

static void
work_client(struct pair *pair)
{
	work(pair, false);
}

/* ---- several threads take a peer's messages from one EVD: each event is taken once ---- */

#define MESSAGES 4000u
#define CREDITS 200u

struct taker {
	pthread_t thread;
	struct dat_side *s;
	struct dat_buffer *b;
	_Atomic uint32_t *total;
	_Atomic uint8_t *seen;
};

static void *
take_main(void *arg)
{
	struct taker *t = arg;
	uint64_t start = pair_now_ms();
	DAT_EVENT e;

	while (*t->total < MESSAGES) {
		const DAT_DTO_COMPLETION_EVENT_DATA *dto = &e.event_data.dto_completion_event_data;
		uint32_t number;

		CHECK(t->s->pair, pair_now_ms() - start < 20000 * PAIR_SHARE, "only %u messages", *t->total);
		if (dat_evd_dequeue(t->s->recv, &e) != DAT_SUCCESS)
			continue;
		CHECK(t->s->pair, dto->status == DAT_DTO_SUCCESS, "status %d", dto->status);
		memcpy(&number, t->b->data + dto->user_cookie.as_64 * 8, sizeof(number));
		CHECK(t->s->pair, number < MESSAGES && t->seen[number]++ == 0, "message %u came twice",
		      number);
		DAT_CHECK(t->s,
			  dat_recv(t->s->ep, t->b, dto->user_cookie.as_64 * 8, 8, dto->user_cookie.as_64));
		(*t->total)++;
	}
	return NULL;
}

static void
takers_server(struct pair *pair)
{
	static _Atomic uint8_t seen[MESSAGES];
	_Atomic uint32_t total = 0;
	struct taker t[THREADS];
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, CREDITS * 8, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (uint64_t i = 0; i < CREDITS; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, i * 8, 8, i));
	dat_side_connect(&s, true);
	for (uint32_t i = 0; i < THREADS; i++) {
		t[i] = (struct taker){.s = &s, .b = &b, .total = &total, .seen = seen};
		CHECK(pair, pthread_create(&t[i].thread, NULL, take_main, &t[i]) == 0, "pthread_create");
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(t[i].thread, NULL);
	for (uint32_t i = 0; i < MESSAGES; i++)
		CHECK(pair, seen[i] == 1, "message %u came %u times", i, seen[i]);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
takers_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, 64);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		uint64_t start = pair_now_ms();
		uint32_t number[2] = {i, 0};

		/* Small enough to be sent inline. */
		memcpy(b.data, number, sizeof(number));
		while (dat_send(s.ep, &b, 0, 8, i, DAT_COMPLETION_SUPPRESS_FLAG) != DAT_SUCCESS)
			CHECK(pair, pair_now_ms() - start < 20000 * PAIR_SHARE, "message %u cannot be posted",
			      i);
	}
	pair_barrier(pair);
	dat_side_nothing(&s, s.request, 1);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"threads_work", work_server, work_client, false},
	{"threads_take", takers_server, takers_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
