/* SPDX-License-Identifier: BSD-3-Clause */
/* Event dispatchers fed by real data planes: merged streams, waiting, resizing in use, switches. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dat_pair.h"

#define SIZE 65536u

static DAT_EVENT event;

static DAT_EVD_PARAM
query(struct dat_side *s, DAT_EVD_HANDLE evd)
{
	DAT_EVD_PARAM param;

	DAT_CHECK(s, dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param));
	return param;
}

static void
post_software(struct dat_side *s, DAT_EVD_HANDLE evd, uintptr_t value)
{
	DAT_EVENT se = {.event_number = DAT_SOFTWARE_EVENT};

	se.event_data.software_event_data.pointer = (DAT_PVOID)value;
	DAT_CHECK(s, dat_evd_post_se(evd, &se));
}

/* ---- arguments ---- */

/*
 * A resize frees the old queue's memory: repeated resizes must not exhaust it. The cable to another data
 * plane makes no difference.
 */
static void
repeated_client(struct pair *pair)
{
	int resizes = pair->local ? 1500 : 10;
	struct dat_side s;
	DAT_EVD_HANDLE evd;
	DAT_IA_ATTR ia;

	dat_side_open(&s, pair, false);
	DAT_CHECK(&s, dat_ia_query(s.ia, NULL, DAT_IA_ALL, &ia, 0, NULL));
	DAT_CHECK(&s, dat_evd_create(s.ia, ia.max_evd_qlen, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd));
	CHECK(pair, query(&s, evd).evd_qlen >= ia.max_evd_qlen, "an EVD shorter than asked for");
	for (int i = 0; i < resizes; i++)
		DAT_CHECK(&s, dat_evd_resize(evd, i % 2 == 0 ? 20000 : 100));
	dat_side_nothing(&s, s.async, 20);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- every stream in one EVD ---- */

static void
take(struct dat_side *s, DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	dat_side_expect(s, evd, number, 10000, &event);
	CHECK(s->pair, event.evd_handle == evd, "an event of another EVD");
}

static void
merged_server(struct pair *pair)
{
	DAT_EVD_HANDLE all;
	struct dat_buffer b;
	DAT_LMR_TRIPLET range;
	DAT_RMR_CONTEXT context;
	DAT_RMR_HANDLE rmr;
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CHECK(&s,
		  dat_evd_create(s.ia, 64, DAT_HANDLE_NULL,
				 (DAT_EVD_FLAGS)(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG |
						 DAT_EVD_CONNECTION_FLAG | DAT_EVD_RMR_BIND_FLAG),
				 &all));
	DAT_CHECK(&s, dat_psp_create_any(s.ia, &qual, all, DAT_PSP_CONSUMER_FLAG, &psp));
	pair_send(pair, &qual, sizeof(qual));
	DAT_CHECK(&s, dat_ep_create(s.ia, s.pz, all, all, all, NULL, &s.ep));
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 1));
	take(&s, all, DAT_CONNECTION_REQUEST_EVENT);
	DAT_CHECK(&s, dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, s.ep, 0, NULL));
	/* The client sends as soon as it is connected: ESTABLISHED must still come first. */
	take(&s, all, DAT_CONNECTION_EVENT_ESTABLISHED);
	dat_side_complete(&s, all, 1, DAT_DTO_SUCCESS, 64);
	post_software(&s, all, 2);
	take(&s, all, DAT_SOFTWARE_EVENT);
	DAT_CHECK(&s, dat_rmr_create(s.pz, &rmr));
	range = (DAT_LMR_TRIPLET){b.lmr_context, 0, (uintptr_t)b.data, 64};
	DAT_CHECK(&s, dat_rmr_bind(rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, s.ep,
				   (DAT_RMR_COOKIE){.as_64 = 3}, 0, &context));
	take(&s, all, DAT_RMR_BIND_COMPLETION_EVENT);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 4));
	pair_barrier(pair);
	dat_side_complete(&s, all, 4, DAT_DTO_ERR_FLUSHED, 0);
	take(&s, all, DAT_CONNECTION_EVENT_DISCONNECTED); /* after all completions */
	dat_side_nothing(&s, all, 20);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
merged_client(struct pair *pair)
{
	struct dat_buffer b;
	DAT_CONN_QUAL qual;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	pair_recv(pair, &qual, sizeof(qual));
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	dat_side_request(&s, s.ep, qual);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 1, DAT_COMPLETION_SUPPRESS_FLAG));
	pair_barrier(pair);
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- a thread waits for several events ---- */

struct waiter {
	pthread_t thread;
	DAT_EVD_HANDLE evd;
	DAT_COUNT threshold, more;
	DAT_EVENT event;
	DAT_RETURN ret;
	_Atomic bool done;
};

static void *
wait_main(void *arg)
{
	struct waiter *w = arg;

	w->ret = dat_evd_wait(w->evd, DAT_TIMEOUT_INFINITE, w->threshold, &w->event, &w->more);
	w->done = true;
	return NULL;
}

static void
start_waiter(struct dat_side *s, struct waiter *w, DAT_EVD_HANDLE evd, DAT_COUNT threshold)
{
	DAT_COUNT qlen = query(s, evd).evd_qlen;

	memset(w, 0, sizeof(*w));
	w->evd = evd;
	w->threshold = threshold;
	CHECK(s->pair, pthread_create(&w->thread, NULL, wait_main, w) == 0, "pthread_create");
	/* A resize is refused once the thread waits. */
	while (dat_evd_resize(evd, qlen) != DAT_BAD_STATE(EVD_WAITER))
		usleep(1000);
}

static void
waiting_server(struct pair *pair)
{
	struct dat_buffer b;
	DAT_COUNT more;
	struct waiter w;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (uint64_t i = 0; i < 20; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, i * 64, 64, i));
	dat_side_connect(&s, true);
	start_waiter(&s, &w, s.recv, 5);
	/* Other threads may query the EVD, but neither wait nor take events. */
	DAT_CHECK_CODE(&s, dat_evd_wait(s.recv, 0, 1, &event, &more), DAT_BAD_STATE(EVD_WAITER));
	DAT_CHECK_CODE(&s, dat_evd_dequeue(s.recv, &event), DAT_BAD_STATE(EVD_WAITER));
	DAT_CHECK_CODE(&s, dat_evd_free(s.recv), DAT_BAD_STATE(EVD_IN_USE));
	DAT_CHECK(&s, dat_evd_disable(s.recv));
	DAT_CHECK(&s, dat_evd_enable(s.recv));
	pair_barrier(pair); /* the client sends four messages */
	pair_barrier(pair);
	usleep(100000);
	CHECK(pair, !w.done, "a wait for 5 ended with 4");
	pair_barrier(pair); /* the client sends the fifth */
	pthread_join(w.thread, NULL);
	DAT_CHECK_CODE(&s, w.ret, DAT_SUCCESS);
	CHECK(pair, w.more == 4 && w.event.event_data.dto_completion_event_data.user_cookie.as_64 == 0,
	      "after a wait for 5: %d more", w.more);
	/* Too few events for the threshold: none is taken, all are counted. */
	CHECK(pair, dat_evd_wait(s.recv, 50000, 6, &event, &more) == DAT_TIMEOUT_EXPIRED && more == 4,
	      "a time-out with 4 there: %d more", more);
	for (uint64_t i = 1; i < 5; i++)
		dat_side_complete(&s, s.recv, i, DAT_DTO_SUCCESS, 64);
	/* Making an EVD unwaitable releases its waiter. */
	start_waiter(&s, &w, s.recv, 1);
	DAT_CHECK(&s, dat_evd_set_unwaitable(s.recv));
	pthread_join(w.thread, NULL);
	DAT_CHECK_CODE(&s, w.ret, DAT_BAD_STATE(EVD_UNWAITABLE));
	DAT_CHECK(&s, dat_evd_clear_unwaitable(s.recv));
	/*
	 * A disconnect releases waiters: the server's on the connection EVD, the client's for a flushed
	 * receive.
	 */
	start_waiter(&s, &w, s.conn, 1);
	pair_barrier(pair);
	pthread_join(w.thread, NULL);
	DAT_CHECK_CODE(&s, w.ret, DAT_SUCCESS);
	CHECK(pair, w.event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED, "event 0x%x",
	      w.event.event_number);
	for (uint64_t i = 5; i < 20; i++)
		dat_side_complete(&s, s.recv, i, DAT_DTO_ERR_FLUSHED, 0);
	/* Closing the IA releases a waiter. */
	start_waiter(&s, &w, s.request, 1);
	dat_side_close(&s);
	pthread_join(w.thread, NULL);
	DAT_CHECK_CODE(&s, w.ret, DAT_CODE(DAT_ABORT, 0));
}

static void
waiting_client(struct pair *pair)
{
	struct dat_buffer b;
	struct waiter w;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 9));
	dat_side_connect(&s, false);
	pair_barrier(pair);
	for (uint64_t i = 0; i < 4; i++)
		DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, i, DAT_COMPLETION_DEFAULT_FLAG));
	for (uint64_t i = 0; i < 4; i++)
		dat_side_complete(&s, s.request, i, DAT_DTO_SUCCESS, 64);
	pair_barrier(pair);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 4, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 4, DAT_DTO_SUCCESS, 64);
	start_waiter(&s, &w, s.recv, 1);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_GRACEFUL_FLAG));
	pthread_join(w.thread, NULL);
	DAT_CHECK_CODE(&s, w.ret, DAT_SUCCESS);
	CHECK(pair,
	      w.event.event_data.dto_completion_event_data.user_cookie.as_64 == 9 &&
		      w.event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED,
	      "a disconnect did not flush the receive");
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	dat_side_close(&s);
}

/* ---- repeated resizing while events arrive ---- */

#define STREAM 6000u
#define WINDOW 200u

static void
resize_server(struct pair *pair)
{
	static const DAT_COUNT lengths[] = {300, 20000, 700, 5000, 260, 10000};
	struct dat_buffer b;
	uint32_t resized = 0;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (uint64_t i = 0; i < WINDOW; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, i * 64, 64, i));
	dat_side_connect(&s, true);
	for (uint32_t i = 0; i < STREAM; i++) {
		uint32_t number;

		if (i % 37 == 0) {
			DAT_COUNT length = lengths[i / 37 % (sizeof(lengths) / sizeof(lengths[0]))];

			DAT_CHECK(&s, dat_evd_resize(s.recv, length));
			CHECK(pair, query(&s, s.recv).evd_qlen >= length, "shorter than resized to");
			resized++;
		}
		/* Alternate between waiting and polling. */
		if (i % 2 == 0) {
			dat_side_event(&s, s.recv, 20000, &event);
		} else {
			uint64_t start = pair_now_ms();

			while (dat_evd_dequeue(s.recv, &event) != DAT_SUCCESS)
				CHECK(pair, pair_now_ms() - start < 20000 * PAIR_SHARE, "event %u never came",
				      i);
		}
		CHECK(pair, event.event_data.dto_completion_event_data.user_cookie.as_64 == i % WINDOW,
		      "event %u: cookie %llu", i,
		      (unsigned long long)event.event_data.dto_completion_event_data.user_cookie.as_64);
		memcpy(&number, b.data + (size_t)(i % WINDOW) * 64, sizeof(number));
		CHECK(pair, number == i, "message %u instead of %u", number, i);
		DAT_CHECK(&s, dat_recv(s.ep, &b, i % WINDOW * 64, 64, i % WINDOW));
	}
	CHECK(pair, resized > 100, "resized only %u times", resized);
	dat_side_nothing(&s, s.recv, 20);
	dat_side_nothing(&s, s.async, 1);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
resize_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, SIZE);
	for (uint32_t i = 0; i < STREAM; i++) {
		uint64_t start = pair_now_ms();
		DAT_RETURN ret;

		/* Small enough to be sent inline: the buffer is free at once. */
		memcpy(b.data, &i, sizeof(i));
		do {
			ret = dat_send(s.ep, &b, 0, 8, i, DAT_COMPLETION_SUPPRESS_FLAG);
			CHECK(pair, pair_now_ms() - start < 20000 * PAIR_SHARE, "message %u: 0x%x", i, ret);
		} while (ret == DAT_CODE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
		DAT_CHECK(&s, ret);
	}
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"evd_repeated", dat_bystander, repeated_client, false},
	{"evd_merged", merged_server, merged_client, false},
	{"evd_waiting", waiting_server, waiting_client, false},
	{"evd_resize", resize_server, resize_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
