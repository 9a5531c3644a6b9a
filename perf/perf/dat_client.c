/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client of uDAPL tests. Each endpoint's private data announces its purpose to the server, which answers
 * with the buffer that may be written and read. All endpoints share one buffer at each end.
 */
#include <inttypes.h>
#include <pthread.h>
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

/* A thread of the client, and its part of the endpoints. */
struct part {
	struct dat_adapter adapter;
	struct traffic traffic;
	pthread_t thread;
	const struct stint *stint;
	struct result result;
	bool ok;
};

struct client {
	const struct perf_options *o;
	struct part *part; /* one for each thread; the first one runs on the program's */
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
connect_begin(struct client *c, struct part *part, enum greeting_kind kind, DAT_EP_HANDLE *ep)
{
	const struct perf_options *o = c->o;
	struct traffic *t = &part->traffic;
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

	if (!dat_endpoint_create(&part->adapter, depth, t->receives && kind == KIND_SEND ? o->rx_depth : 1,
				 ep))
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
	return dat_conn_wait(&c->part->adapter, EVENT_SECONDS, event) &&
	       dat_event_is(event, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static bool
connect_busy(struct client *c, enum greeting_kind kind, uint32_t index)
{
	struct part *part = &c->part[index / c->part->traffic.endpoints];
	struct traffic *t = &part->traffic;
	DAT_EVENT event;
	DAT_EP_HANDLE ep;

	if (!connect_begin(c, part, kind, &ep) || !connect_end(c, &event))
		return false;
	if (event.event_data.connect_event_data.private_data_size < (DAT_COUNT)sizeof(t->target)) {
		fprintf(stderr, "oneside-perf: %s reported no buffer: is it oneside-perf?\n", c->o->host);
		return false;
	}
	memcpy(&t->target, event.event_data.connect_event_data.private_data, sizeof(t->target));
	if (kind != KIND_NOTES)
		t->busy[index - t->first] = (struct endpoint){.ep = ep};
	return true;
}

static bool
connect_idle(struct client *c, uint32_t count)
{
	for (uint32_t begun = 0, done = 0; done < count; done++) {
		DAT_EP_HANDLE ep;
		DAT_EVENT event;

		while (begun < count && begun - done < CONNECTS) {
			if (!connect_begin(c, c->part, KIND_IDLE, &ep))
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
	struct traffic *t = &c->part->traffic;
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

static void *
run_part(void *argument)
{
	struct part *part = argument;

	part->ok = traffic_bandwidth(&part->traffic, part->stint, &part->result);
	return NULL;
}

static bool
add_parts(const struct client *c, struct result *r)
{
	double rate = 0;

	r->iterations = 0;
	r->peak = 0;
	for (uint32_t i = 0; i < c->o->threads; i++) {
		const struct result *own = &c->part[i].result;

		if (!c->part[i].ok)
			return false;
		rate += (double)own->iterations / own->seconds;
		r->iterations += own->iterations;
		r->peak += own->peak;
	}
	r->seconds = (double)r->iterations / rate;
	return true;
}

static bool
run_parts(struct client *c, const struct stint *stint, struct result *r)
{
	uint32_t begun = 1, threads = c->o->threads;

	for (uint32_t i = 0; i < threads; i++)
		c->part[i].stint = stint;
	while (begun < threads &&
	       pthread_create(&c->part[begun].thread, NULL, run_part, &c->part[begun]) == 0)
		begun++;
	if (begun == threads)
		run_part(c->part);
	else
		fprintf(stderr, "oneside-perf: --threads %u: no more than %u can be started\n", threads,
			begun);
	for (uint32_t i = 1; i < begun; i++)
		pthread_join(c->part[i].thread, NULL);
	return begun == threads && add_parts(c, r);
}

static bool
run(void *client, uint64_t size, const struct perf_options *o, struct result *r)
{
	const struct stint stint = {.size = size,
				    .iterations = (o->iterations + o->threads - 1) / o->threads,
				    .seconds = o->duration};
	struct client *c = client;

	if (two_sided(o))
		return run_together(c, &stint, r);
	return o->test->kind == PERF_LATENCY ? traffic_latency(&c->part->traffic, &stint, r)
					     : run_parts(c, &stint, r);
}

/* Divides the endpoints among threads. Each has memory of its own, like a program; the target is one. */
static bool
open_parts(struct client *c, struct endpoint *endpoints)
{
	const struct perf_options *o = c->o;
	uint32_t each = o->endpoints / o->threads;
	bool receives = two_sided(o) && o->test->op == PERF_SEND;
	uint32_t events = (o->depth + (receives ? o->rx_depth : 0)) * each + QUEUE_SPARE;
	bool (*create)(struct dat_adapter *, size_t, struct dat_memory *) =
		o->copied ? dat_memory_create_copied : dat_memory_create;

	if (!dat_adapter_open(&c->part->adapter, o->ia, 64, events))
		return false;
	for (uint32_t i = 0; i < o->threads; i++) {
		struct part *part = &c->part[i];

		part->traffic =
			(struct traffic){.adapter = &part->adapter,
					 .name = o->test->name,
					 .op = o->test->op,
					 .busy = endpoints + i * each,
					 .first = i * each,
					 .endpoints = each,
					 .depth = o->depth,
					 .every = o->test->kind == PERF_BANDWIDTH ? o->signal_every : 1,
					 .receives = receives,
					 .peak = o->peak,
					 .tty = i == 0,
					 .latency = &c->latency};
		if ((i > 0 && !dat_adapter_share(&c->part->adapter, events, &part->adapter)) ||
		    !create(&part->adapter, 2 * perf_largest(o), &part->traffic.memory))
			return false;
	}
	return true;
}

int
dat_measure(const struct perf_options *o)
{
	struct client *c = calloc(1, sizeof(*c));
	struct endpoint *endpoints = calloc(o->endpoints, sizeof(*endpoints));
	const struct dat_target *target;
	bool ok = false;

	dat_spin_looks = o->spin;
	c->o = o;
	c->part = calloc(o->threads, sizeof(*c->part));
	if (!perf_json_open(o, &c->json) || !dat_resolve(o->host, &c->addr) || !open_parts(c, endpoints) ||
	    !connect_all(c))
		goto out;
	target = &c->part->traffic.target;
	if (target->length < perf_largest(o)) {
		fprintf(stderr,
			"oneside-perf: the server's buffer has %" PRIu64 " bytes; start it with -s %" PRIu64
			"\n",
			target->length, perf_largest(o));
		goto out;
	}
	ok = perf_measure(o, c->json, run, c);
out:
	notes_close(&c->notes);
	for (uint32_t i = 0; i < o->threads; i++)
		dat_memory_free(&c->part[i].traffic.memory);
	dat_adapter_close(&c->part->adapter);
	ok = perf_json_close(c->json) && ok;
	free(c->part);
	free(endpoints);
	free(c);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
