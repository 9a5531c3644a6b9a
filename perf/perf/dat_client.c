/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client of uDAPL tests. Each endpoint's private data announces its purpose to the server, which answers
 * with the buffer that may be written and read. All endpoints share one buffer at each end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dat_run.h"
#include "notes.h"
#include "print_result.h"

#define QUEUE_SPARE 16u
#define CONNECTS 32u        /* limit of idle endpoints being connected at once */
#define SERVER_RECVS 15000u /* receives whose completions fit the server's queue of events */

struct client {
	const struct perf_options *o;
	struct dat_adapter adapter;
	struct traffic traffic;
	struct notes notes;
	struct histogram latency;
	struct sockaddr_storage addr;
	FILE *json;
};

static bool
two_sided(const struct perf_options *o)
{
	return o->bidirectional || o->test->kind == PERF_PINGPONG;
}

static bool
connect_begin(struct client *c, enum greeting_kind kind, DAT_EP_HANDLE *ep)
{
	const struct perf_options *o = c->o;
	struct traffic *t = &c->traffic;
	uint32_t share = SERVER_RECVS / o->endpoints, depth = kind == KIND_IDLE ? 1 : o->depth;
	struct greeting greeting = {
		.magic = GREETING_MAGIC,
		.kind = kind,
		.test = o->test->kind,
		.op = o->test->op,
		.depth = two_sided(o) && kind != KIND_IDLE ? o->depth : 0,
		.every = t->every,
		.rx_depth = kind == KIND_SEND ? (o->rx_depth < share ? o->rx_depth : share) : 0,
		.endpoints = o->endpoints,
		.target = {.address = (uintptr_t)traffic_landing(t),
			   .length = t->memory.size / 2,
			   .rmr_context = t->memory.rmr_context},
	};

	if (!dat_endpoint_create(&c->adapter, depth, t->receives && kind == KIND_SEND ? o->rx_depth : 1, ep))
		return false;
	for (uint32_t i = 0; t->receives && kind == KIND_SEND && i < greeting.rx_depth; i++)
		if (!traffic_post_recv(t, *ep))
			return false;
	if (kind == KIND_NOTES && !notes_open(&c->notes, t, *ep))
		return false;
	return dat_ok(dat_ep_connect(*ep, (DAT_IA_ADDRESS_PTR)&c->addr, o->port, 10000000, sizeof(greeting),
				     &greeting, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
		      "dat_ep_connect");
}

static bool
connect_end(struct client *c, DAT_EVENT *event)
{
	return dat_conn_wait(&c->adapter, EVENT_SECONDS, event) &&
	       dat_event_is(event, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static bool
connect_busy(struct client *c, enum greeting_kind kind, uint32_t index)
{
	struct traffic *t = &c->traffic;
	DAT_EVENT event;
	DAT_EP_HANDLE ep;

	if (!connect_begin(c, kind, &ep) || !connect_end(c, &event))
		return false;
	if (event.event_data.connect_event_data.private_data_size < (DAT_COUNT)sizeof(t->target)) {
		fprintf(stderr, "oneside-perf: %s told no buffer: is it oneside-perf?\n", c->o->host);
		return false;
	}
	memcpy(&t->target, event.event_data.connect_event_data.private_data, sizeof(t->target));
	if (kind != KIND_NOTES)
		t->busy[index] = (struct endpoint){.ep = ep};
	return true;
}

static bool
connect_idle(struct client *c, uint32_t count)
{
	for (uint32_t begun = 0, done = 0; done < count; done++) {
		DAT_EP_HANDLE ep;
		DAT_EVENT event;

		while (begun < count && begun - done < CONNECTS) {
			if (!connect_begin(c, KIND_IDLE, &ep))
				return false;
			begun++;
		}
		if (!connect_end(c, &event))
			return false;
	}
	return true;
}

static bool
connect_all(struct client *c)
{
	const struct perf_options *o = c->o;

	if (two_sided(o) && !connect_busy(c, KIND_NOTES, 0))
		return false;
	for (uint32_t i = 0; i < o->endpoints; i++)
		if (!connect_busy(c, o->test->op == PERF_SEND ? KIND_SEND : KIND_ONE_SIDED, i))
			return false;
	return connect_idle(c, o->idle_endpoints);
}

/*
 * Runs a test in which the server is active, too: starts both ends together, and adds the server's figures.
 */
static bool
run_together(struct client *c, const struct stint *stint, struct result *r)
{
	struct traffic *t = &c->traffic;
	struct note note = {.verb = NOTE_START, .stint = *stint};
	bool pingpong = c->o->test->kind == PERF_PINGPONG;
	double rate;

	traffic_landing(t)[stint->size - 1] = 0;
	if (!notes_send(&c->notes, &note) || !notes_wait(&c->notes, t, NOTE_READY, &note))
		return false;
	if (!(pingpong ? traffic_pingpong(t, stint, true, r) : traffic_bandwidth(t, stint, r)) ||
	    !notes_wait(&c->notes, t, NOTE_DONE, &note))
		return false;
	if (!pingpong && note.seconds > 0) {
		rate = (double)r->iterations / r->seconds + (double)note.iterations / note.seconds;
		r->iterations += note.iterations;
		r->seconds = (double)r->iterations / rate;
		r->peak = r->peak > 0 ? r->peak + note.peak : 0;
	}
	return true;
}

static bool
run(void *client, uint64_t size, const struct perf_options *o, struct result *r)
{
	const struct stint stint = {.size = size, .iterations = o->iterations, .seconds = o->duration};
	struct client *c = client;

	if (two_sided(o))
		return run_together(c, &stint, r);
	return o->test->kind == PERF_LATENCY ? traffic_latency(&c->traffic, &stint, r)
					     : traffic_bandwidth(&c->traffic, &stint, r);
}

int
dat_measure(const struct perf_options *o)
{
	struct client *c = calloc(1, sizeof(*c));
	struct traffic *t = &c->traffic;
	bool ok = false;

	dat_spin_looks = o->spin;
	c->o = o;
	*t = (struct traffic){.adapter = &c->adapter,
			      .name = o->test->name,
			      .op = o->test->op,
			      .busy = calloc(o->endpoints, sizeof(*t->busy)),
			      .endpoints = o->endpoints,
			      .depth = o->depth,
			      .every = o->test->kind == PERF_BANDWIDTH ? o->signal_every : 1,
			      .receives = two_sided(o) && o->test->op == PERF_SEND,
			      .peak = o->peak,
			      .tty = true,
			      .latency = &c->latency};
	if (!perf_json_open(o, &c->json) || !dat_resolve(o->host, &c->addr) ||
	    !dat_adapter_open(&c->adapter, o->ia, 64,
			      o->depth * o->endpoints + o->rx_depth * (t->receives ? o->endpoints : 0) +
				      QUEUE_SPARE) ||
	    !(o->copied ? dat_memory_create_copied : dat_memory_create)(&c->adapter, 2 * perf_largest(o),
									&t->memory) ||
	    !connect_all(c))
		goto out;
	if (t->target.length < perf_largest(o)) {
		fprintf(stderr,
			"oneside-perf: the server's buffer has %" PRIu64 " bytes; start it with -s %" PRIu64
			"\n",
			t->target.length, perf_largest(o));
		goto out;
	}
	ok = perf_measure(o, c->json, run, c);
out:
	notes_close(&c->notes);
	dat_memory_free(&t->memory);
	dat_adapter_close(&c->adapter);
	ok = perf_json_close(c->json) && ok;
	free(t->busy);
	free(c);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
