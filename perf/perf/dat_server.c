/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server of uDAPL tests: provides memory, reposts receives, and, if notes request it, sends like the
 * client. It serves one client's test at a time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dat_run.h"
#include "notes.h"

#define ENDPOINTS_MAX 4096u
#define QUEUE 16384u  /* length of the event queues; fewer receives are posted at once */
#define LOOK_US 2000u /* microseconds between polls of connection events while nothing is received */

struct server {
	struct dat_adapter adapter;
	struct traffic traffic;
	struct notes notes;
	struct histogram latency;
	struct endpoint busy[ENDPOINTS_MAX]; /* endpoints on which this end sends */
	enum perf_kind test;
	uint32_t live;    /* connections established or being established */
	uint32_t pending; /* accepted, not established yet */
	uint32_t seen;
	bool failed;    /* a test has failed */
	bool receiving; /* an endpoint has receives, which must be reposted */
};

static bool
greet(const DAT_CR_PARAM *param, struct greeting *greeting)
{
	memset(greeting, 0, sizeof(*greeting));
	if (param->private_data_size < (DAT_COUNT)sizeof(*greeting))
		return false;
	memcpy(greeting, param->private_data, sizeof(*greeting));
	return greeting->magic == GREETING_MAGIC && greeting->kind < KIND_MAX && greeting->depth <= 4096 &&
	       greeting->every >= 1 && greeting->every <= 4096 && greeting->rx_depth <= 4096;
}

/* Prepares the endpoint for the purpose in its client's greeting. */
static bool
prepare(struct server *s, const struct greeting *g, DAT_EP_HANDLE ep)
{
	struct traffic *t = &s->traffic;

	if (g->kind == KIND_NOTES) {
		t->endpoints = 0; /* a new test */
		return notes_open(&s->notes, t, ep);
	}
	for (uint32_t i = 0; g->kind == KIND_SEND && i < g->rx_depth; i++)
		if (!traffic_post_recv(t, ep))
			return false;
	if (g->depth > 0 && g->kind != KIND_IDLE && t->endpoints < ENDPOINTS_MAX) {
		s->test = g->test;
		t->op = g->op;
		t->receives = g->op == PERF_SEND;
		t->depth = g->depth;
		t->every = g->every;
		t->target = g->target;
		s->busy[t->endpoints++] = (struct endpoint){.ep = ep};
	}
	return true;
}

static bool
accept_one(struct server *s, const DAT_EVENT *event)
{
	struct traffic *t = &s->traffic;
	struct dat_target target = {.address = (uintptr_t)traffic_landing(t),
				    .length = t->memory.size / 2,
				    .rmr_context = t->memory.rmr_context};
	DAT_CR_HANDLE cr = event->event_data.cr_arrival_event_data.cr_handle;
	struct greeting g;
	DAT_CR_PARAM param;
	DAT_EP_HANDLE ep;

	if (!dat_ok(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param), "dat_cr_query"))
		return false;
	if (!greet(&param, &g)) {
		fprintf(stderr, "oneside-perf: a request that is not from this oneside-perf was rejected\n");
		return dat_ok(dat_cr_reject(cr), "dat_cr_reject");
	}
	if (!dat_endpoint_create(&s->adapter, g.depth > 0 ? g.depth : 1, g.rx_depth > 0 ? g.rx_depth : 1,
				 &ep) ||
	    !prepare(s, &g, ep) || !dat_ok(dat_cr_accept(cr, ep, sizeof(target), &target), "dat_cr_accept"))
		return false;
	s->receiving = s->receiving || g.kind == KIND_SEND || g.kind == KIND_NOTES;
	s->live++;
	s->pending++;
	s->seen++;
	return true;
}

static bool
connection_event(struct server *s, const DAT_EVENT *event)
{
	DAT_EP_HANDLE ep = event->event_data.connect_event_data.ep_handle;

	switch (event->event_number) {
	case DAT_CONNECTION_REQUEST_EVENT:
		return accept_one(s, event);
	case DAT_CONNECTION_EVENT_ESTABLISHED:
		s->pending--;
		return true;
	default:
		if (event->event_number != DAT_CONNECTION_EVENT_DISCONNECTED &&
		    event->event_number != DAT_CONNECTION_EVENT_BROKEN)
			s->pending--; /* the connection was never established */
		if (--s->live == 0)
			s->receiving = false;
		if (ep == s->notes.ep)
			notes_close(&s->notes);
		for (uint32_t i = 0; i < s->traffic.endpoints; i++)
			if (s->busy[i].ep == ep)
				s->traffic.endpoints = 0; /* that test is over */
		return dat_ok(dat_ep_free(ep), "dat_ep_free");
	}
}

/* Discards completions of an earlier test that failed. */
static bool
forget_completions(struct server *s)
{
	DAT_EVENT event;
	DAT_RETURN ret;

	for (uint32_t i = 0; i < s->traffic.endpoints; i++)
		s->busy[i].outstanding = 0;
	do
		ret = dat_evd_dequeue(s->adapter.request_evd, &event);
	while (ret == DAT_SUCCESS);
	return DAT_GET_TYPE(ret) == DAT_QUEUE_EMPTY || dat_ok(ret, "dat_evd_dequeue");
}

/* Runs the server's part of a test with two active ends. */
static bool
take_part(struct server *s)
{
	struct traffic *t = &s->traffic;
	struct result r = {.test = "server"};
	struct note note, ready = {.verb = NOTE_READY};

	if (!notes_take(&s->notes, t, &note) || !forget_completions(s))
		return false;
	if (note.verb != NOTE_START || note.stint.size == 0 || note.stint.size > t->memory.size / 2 ||
	    t->endpoints == 0) {
		fprintf(stderr,
			"oneside-perf: the client asks for what this server cannot do; start it with the client's -s\n");
		return false;
	}
	traffic_landing(t)[note.stint.size - 1] = 0;
	if (!notes_send(&s->notes, &ready) ||
	    !(s->test == PERF_PINGPONG ? traffic_pingpong(t, &note.stint, false, &r)
				       : traffic_bandwidth(t, &note.stint, &r)))
		return false;
	note = (struct note){
		.verb = NOTE_DONE, .iterations = r.iterations, .seconds = r.seconds, .peak = r.peak};
	return notes_send(&s->notes, &note);
}

/* Waits up to `timeout` microseconds for an event. *had: an event came. False: failed, error printed. */
static bool
wait_event(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_EVENT *event, bool *had)
{
	DAT_COUNT more;
	DAT_RETURN ret = dat_evd_wait(evd, timeout, 1, event, &more);

	*had = ret == DAT_SUCCESS;
	return *had || DAT_GET_TYPE(ret) == DAT_TIMEOUT_EXPIRED || dat_ok(ret, "dat_evd_wait");
}

/*
 * Serves one step. A failed test ends with its client's connections; other clients may follow. Between events
 * the server sleeps, so that it disturbs no latency measurement. While receives must be reposted, it sleeps
 * on receive events, because the peer's messages wait for the receives, and polls connection events every
 * LOOK_US.
 */
static bool
serve(struct server *s)
{
	bool busy, had;
	DAT_EVENT event;

	if (!traffic_drain(&s->traffic, &busy))
		return false;
	/* The note may arrive before the last connection's ESTABLISHED event. */
	if (s->traffic.noted && s->pending == 0 && !take_part(s))
		s->failed = true;
	if (s->receiving && !busy && !s->traffic.noted) {
		if (!wait_event(s->adapter.recv_evd, LOOK_US, &event, &had) ||
		    (had && !traffic_received(&s->traffic, &event)))
			return false;
	}
	if (!wait_event(s->adapter.conn_evd, s->receiving ? 0 : 1000000, &event, &had))
		return false;
	return !had || connection_event(s, &event);
}

int
dat_serve(const struct perf_options *o)
{
	uint64_t half = o->size > PERF_SIZE_LAST ? o->size : PERF_SIZE_LAST;
	struct server *s = calloc(1, sizeof(*s));
	int status = EXIT_FAILURE;
	DAT_PSP_HANDLE psp;

	dat_spin_looks = o->spin;
	s->traffic = (struct traffic){.adapter = &s->adapter,
				      .name = "the server's part",
				      .busy = s->busy,
				      .peak = o->peak,
				      .every = 1,
				      .latency = &s->latency};
	if (!dat_adapter_open(&s->adapter, o->ia, QUEUE, QUEUE) ||
	    !(o->copied ? dat_memory_create_copied : dat_memory_create)(&s->adapter, 2 * half,
									&s->traffic.memory) ||
	    !dat_ok(dat_psp_create(s->adapter.ia, o->port, s->adapter.conn_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		    "dat_psp_create"))
		goto out;
	fprintf(stderr, "oneside-perf: serving on %s, qualifier %u\n", o->ia, o->port);
	while (serve(s))
		if (o->once && s->seen > 0 && s->live == 0) {
			status = s->failed ? EXIT_FAILURE : EXIT_SUCCESS;
			break;
		}
out:
	dat_memory_free(&s->traffic.memory);
	dat_adapter_close(&s->adapter);
	free(s);
	return status;
}
