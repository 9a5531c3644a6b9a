/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of oneside-rates. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/lib/dat_common.h"
#include "rates.h"
#include "perf/lib/report.h"

#define ONCE_US 500000 /* time without a connection until the client counts as finished */
#define EVENT_SECONDS 20u
#define EVENTS_MAX 16384u
#define MEMORY (1u << 20)
#define WINDOW 4096u

/* Endpoints made before the measurement; if none is left, pool_take() makes one. */
struct pool {
	DAT_EP_HANDLE *ep;
	uint32_t left;
	uint32_t requests;
};

static bool
pool_fill(struct pool *pool, struct dat_adapter *adapter, uint32_t count, uint32_t requests)
{
	pool->requests = requests;
	pool->ep = calloc(count + 1, sizeof(*pool->ep));
	if (pool->ep == NULL)
		return false;
	while (pool->left < count) {
		if (!dat_endpoint_create(adapter, requests, 1, &pool->ep[pool->left]))
			return false;
		pool->left++;
	}
	return true;
}

static bool
pool_take(struct pool *pool, struct dat_adapter *adapter, DAT_EP_HANDLE *ep)
{
	if (pool->left == 0)
		return dat_endpoint_create(adapter, pool->requests, 1, ep);
	*ep = pool->ep[--pool->left];
	return true;
}

/* ---- server ---- */

struct server {
	struct dat_adapter adapter;
	struct dat_memory memory;
	struct pool pool;
	bool keep; /* endpoints are freed at the end only */
	uint32_t live, seen;
};

static bool
server_event(struct server *s, const DAT_EVENT *event)
{
	struct dat_target target = {.address = (uintptr_t)s->memory.base,
				    .length = s->memory.size,
				    .rmr_context = s->memory.rmr_context};
	DAT_EP_HANDLE ep;

	switch (event->event_number) {
	case DAT_CONNECTION_REQUEST_EVENT:
		s->live++;
		s->seen++;
		return pool_take(&s->pool, &s->adapter, &ep) &&
		       dat_ok(dat_cr_accept(event->event_data.cr_arrival_event_data.cr_handle, ep,
					    sizeof(target), &target),
			      "dat_cr_accept");
	case DAT_CONNECTION_EVENT_ESTABLISHED:
		return true;
	default:
		s->live--;
		return s->keep ||
		       dat_ok(dat_ep_free(event->event_data.connect_event_data.ep_handle), "dat_ep_free");
	}
}

int
rates_serve(const struct rates_options *o)
{
	struct server s = {.keep = o->pool > 0};
	DAT_PSP_HANDLE psp;
	int status = EXIT_FAILURE;

	if (!dat_adapter_open(&s.adapter, o->ia, EVENTS_MAX * 2, EVENTS_MAX) ||
	    !dat_memory_create(&s.adapter, MEMORY, &s.memory) ||
	    !pool_fill(&s.pool, &s.adapter, o->pool, 1) ||
	    !dat_ok(dat_psp_create(s.adapter.ia, o->port, s.adapter.conn_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		    "dat_psp_create"))
		goto out;
	fprintf(stderr, "oneside-rates: serving on %s, qualifier %u\n", o->ia, o->port);
	for (;;) {
		/* A client may briefly have no connection between two of them. */
		bool over = o->once && s.seen > 0 && s.live == 0;
		DAT_EVENT event;
		DAT_COUNT more;
		DAT_RETURN ret = dat_evd_wait(s.adapter.conn_evd, over ? ONCE_US : DAT_TIMEOUT_INFINITE, 1,
					      &event, &more);

		if (over && DAT_GET_TYPE(ret) == DAT_TIMEOUT_EXPIRED) {
			status = EXIT_SUCCESS;
			break;
		}
		if (!dat_ok(ret, "dat_evd_wait"))
			break;
		do {
			if (!server_event(&s, &event))
				goto out;
		} while (dat_evd_dequeue(s.adapter.conn_evd, &event) == DAT_SUCCESS);
	}
out:
	dat_adapter_close(&s.adapter);
	free(s.pool.ep);
	return status;
}

/* ---- client ---- */

struct client {
	const struct rates_options *o;
	struct dat_adapter adapter;
	struct dat_memory memory;
	struct dat_target target;
	struct sockaddr_storage addr;
	struct pool pool;
	DAT_EP_HANDLE *ep; /* connected */
	DAT_RMR_HANDLE *rmr;
	struct histogram latency;
};

static bool
client_connect(struct client *c, DAT_EP_HANDLE ep)
{
	return dat_ok(dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&c->addr, c->o->port, EVENT_SECONDS * 1000000, 0,
				     NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
		      "dat_ep_connect");
}

/* Connects `count` endpoints with queues for `requests`, `batch` at a time. */
static bool
client_connect_many(struct client *c, uint32_t count, uint32_t requests, uint32_t batch)
{
	DAT_EVENT event;

	c->ep = calloc(count, sizeof(*c->ep));
	if (c->ep == NULL)
		return false;
	for (uint32_t done = 0; done < count;) {
		uint32_t n = count - done < batch ? count - done : batch;

		for (uint32_t i = 0; i < n; i++)
			if (!dat_endpoint_create(&c->adapter, requests, 1, &c->ep[done + i]) ||
			    !client_connect(c, c->ep[done + i]))
				return false;
		for (uint32_t i = 0; i < n; i++)
			if (!dat_conn_wait(&c->adapter, EVENT_SECONDS, &event) ||
			    !dat_event_is(&event, DAT_CONNECTION_EVENT_ESTABLISHED))
				return false;
		done += n;
	}
	if (event.event_data.connect_event_data.private_data_size < (DAT_COUNT)sizeof(c->target)) {
		fprintf(stderr, "oneside-rates: %s reported no buffer: is it oneside-rates?\n", c->o->host);
		return false;
	}
	memcpy(&c->target, event.event_data.connect_event_data.private_data, sizeof(c->target));
	return true;
}

static bool
client_bind(struct client *c, uint32_t endpoint, uint32_t window)
{
	DAT_LMR_TRIPLET range = {.lmr_context = c->memory.lmr_context,
				 .virtual_address = (DAT_VADDR)(uintptr_t)c->memory.base,
				 .segment_length = WINDOW};
	DAT_RMR_COOKIE cookie = {.as_64 = endpoint};
	DAT_RMR_CONTEXT context;

	return dat_ok(dat_rmr_bind(c->rmr[window], &range, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, c->ep[endpoint],
				   cookie, DAT_COMPLETION_DEFAULT_FLAG, &context),
		      "dat_rmr_bind");
}

static bool
client_bound(struct client *c, uint32_t *endpoint)
{
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA *data;
	DAT_EVENT event;

	if (!dat_dequeue_spin(c->adapter.request_evd, &event, EVENT_SECONDS) ||
	    !dat_event_is(&event, DAT_RMR_BIND_COMPLETION_EVENT))
		return false;
	data = &event.event_data.rmr_completion_event_data;
	if (data->status != DAT_RMR_BIND_SUCCESS) {
		fprintf(stderr, "oneside-rates: a bind failed: status %d\n", (int)data->status);
		return false;
	}
	*endpoint = (uint32_t)data->user_cookie.as_64;
	return true;
}

/* Makes a window for each bind in flight. */
static bool
client_windows(struct client *c, uint32_t count)
{
	c->rmr = calloc(count, sizeof(*c->rmr));
	if (c->rmr == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!dat_ok(dat_rmr_create(c->adapter.pz, &c->rmr[i]), "dat_rmr_create"))
			return false;
	return true;
}

static bool
measure_bind_rate(struct client *c, struct result *r)
{
	uint32_t q = c->o->endpoints, depth = c->o->depth, endpoint;
	uint64_t want = c->o->iterations > 0 ? c->o->iterations : 300000, posted = 0, start;

	if (want < (uint64_t)q * depth)
		want = (uint64_t)q * depth;
	if (!client_connect_many(c, q, depth, 16) || !client_windows(c, q * depth))
		return false;
	start = now_ns();
	for (uint32_t k = 0; k < depth; k++)
		for (uint32_t i = 0; i < q; i++, posted++)
			if (!client_bind(c, i, (uint32_t)posted))
				return false;
	/* Binds of an endpoint complete in order, so the window of the oldest is free again. */
	for (uint64_t done = 0; done < want; done++) {
		if (!client_bound(c, &endpoint))
			return false;
		if (posted < want && !client_bind(c, endpoint, (uint32_t)(posted++ % ((uint64_t)q * depth))))
			return false;
	}
	r->seconds = (double)(now_ns() - start) / 1e9;
	r->iterations = want;
	return true;
}

static bool
measure_bind_lat(struct client *c, struct result *r)
{
	uint64_t want = c->o->iterations > 0 ? c->o->iterations : 50000, start, before, after;
	uint32_t endpoint;

	if (!client_connect_many(c, 1, 1, 1) || !client_windows(c, 1))
		return false;
	histogram_clear(&c->latency);
	start = before = now_ns();
	for (uint64_t i = 0; i < want; i++, before = after) {
		if (!client_bind(c, 0, 0) || !client_bound(c, &endpoint))
			return false;
		after = now_ns();
		histogram_add(&c->latency, after - before);
	}
	r->seconds = (double)(before - start) / 1e9;
	r->iterations = want;
	r->latency = &c->latency;
	return true;
}

/* Keeps --qp connections in progress, and disconnects each as soon as it is established. */
static bool
measure_conn_rate(struct client *c, struct result *r)
{
	uint64_t want = c->o->iterations > 0 ? c->o->iterations : 5000, begun = 0, start;
	bool keep = c->o->pool > 0;
	DAT_EP_HANDLE ep;
	DAT_EVENT event;

	if (!pool_fill(&c->pool, &c->adapter, c->o->pool, 1))
		return false;
	start = now_ns();
	for (uint64_t ended = 0; ended < want;) {
		while (begun < want && begun - ended < c->o->endpoints) {
			if (!pool_take(&c->pool, &c->adapter, &ep) || !client_connect(c, ep))
				return false;
			begun++;
		}
		if (!dat_conn_wait(&c->adapter, EVENT_SECONDS, &event))
			return false;
		ep = event.event_data.connect_event_data.ep_handle;
		if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
			if (!dat_ok(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG), "dat_ep_disconnect"))
				return false;
			continue;
		}
		if (!dat_event_is(&event, DAT_CONNECTION_EVENT_DISCONNECTED) ||
		    (!keep && !dat_ok(dat_ep_free(ep), "dat_ep_free")))
			return false;
		ended++;
	}
	r->seconds = (double)(now_ns() - start) / 1e9;
	r->iterations = want;
	return true;
}

static bool
write_and_wait(struct client *c, DAT_LMR_TRIPLET *local, const DAT_RMR_TRIPLET *remote)
{
	DAT_EVENT event;
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
	DAT_DTO_COOKIE cookie = {.as_64 = 0};

	if (!dat_ok(dat_ep_post_rdma_write(c->ep[0], 1, local, cookie, remote, DAT_COMPLETION_DEFAULT_FLAG),
		    "dat_ep_post_rdma_write") ||
	    !dat_dequeue_spin(c->adapter.request_evd, &event, EVENT_SECONDS))
		return false;
	if (dto->status == DAT_DTO_SUCCESS)
		return true;
	fprintf(stderr, "oneside-rates: a write failed: %s\n", dat_dto_status_name(dto->status));
	return false;
}

static bool
measure_wake_lat(struct client *c, struct result *r)
{
	DAT_LMR_TRIPLET local = {.lmr_context = c->memory.lmr_context,
				 .virtual_address = (DAT_VADDR)(uintptr_t)c->memory.base,
				 .segment_length = 8};
	uint64_t want = c->o->iterations > 0 ? c->o->iterations : 300, start = now_ns();
	DAT_RMR_TRIPLET remote = {.segment_length = 8};

	if (!client_connect_many(c, 1, 1, 1))
		return false;
	remote.rmr_context = c->target.rmr_context;
	remote.target_address = c->target.address;
	histogram_clear(&c->latency);
	for (uint64_t i = 0; i < want; i++) {
		uint64_t before;

		usleep(c->o->pause_us);
		before = now_ns();
		if (!write_and_wait(c, &local, &remote))
			return false;
		histogram_add(&c->latency, now_ns() - before);
	}
	r->size = 8;
	r->seconds = (double)(now_ns() - start) / 1e9;
	r->iterations = want;
	r->latency = &c->latency;
	return true;
}

/* Registers, writes and deregisters the same memory, like an application without a registration cache. */
static bool
write_once(struct client *c, void *p, const DAT_RMR_TRIPLET *remote)
{
	DAT_REGION_DESCRIPTION region = {.for_va = p};
	DAT_LMR_TRIPLET local = {.virtual_address = (DAT_VADDR)(uintptr_t)p, .segment_length = c->o->size};
	DAT_RMR_CONTEXT rmr_context;
	DAT_LMR_HANDLE lmr;
	DAT_VADDR address;
	DAT_VLEN length;

	if (!dat_ok(dat_lmr_create(c->adapter.ia, DAT_MEM_TYPE_VIRTUAL, region, c->o->size, c->adapter.pz,
				   DAT_MEM_PRIV_LOCAL_READ_FLAG, &lmr, &local.lmr_context, &rmr_context,
				   &length, &address),
		    "dat_lmr_create") ||
	    !write_and_wait(c, &local, remote))
		return false;
	return dat_ok(dat_lmr_free(lmr), "dat_lmr_free");
}

static bool
measure_once_lat(struct client *c, struct result *r)
{
	uint64_t want = c->o->iterations > 0 ? c->o->iterations : 300, start;
	DAT_RMR_TRIPLET remote = {.segment_length = c->o->size};
	void *p = aligned_alloc(4096, (c->o->size + 4095) & ~(size_t)4095);
	bool ok = p != NULL && client_connect_many(c, 1, 1, 1);

	if (ok && c->o->size > c->target.length) {
		fprintf(stderr, "oneside-rates: --size: the server's memory has %" PRIu64 " bytes\n",
			c->target.length);
		ok = false;
	}
	remote.rmr_context = c->target.rmr_context;
	remote.target_address = c->target.address;
	histogram_clear(&c->latency);
	start = now_ns();
	for (uint64_t i = 0; i < want && ok; i++) {
		uint64_t before = now_ns();

		memset(p, (int)i, c->o->size);
		ok = write_once(c, p, &remote);
		histogram_add(&c->latency, now_ns() - before);
	}
	free(p);
	r->size = c->o->size;
	r->seconds = (double)(now_ns() - start) / 1e9;
	r->iterations = want;
	r->latency = &c->latency;
	return ok;
}

/*
 * The first `warm` endpoints warm up allocators, tables and the buffers of the port. The next `want` are
 * measured.
 */
static bool
measure_idle_memory(struct client *c, struct result *r)
{
	uint32_t want = c->o->iterations > 0 ? (uint32_t)c->o->iterations : 10000,
		 warm = want / 2 < 4000 ? want / 2 : 4000;
	struct process_memory before[RATES_PIDS], after;

	if (c->o->num_pids == 0) {
		fprintf(stderr, "oneside-rates: idle_memory: of which data plane? give --pid\n");
		return false;
	}
	if (!client_connect_many(c, warm > 0 ? warm : 1, 1, 16))
		return false;
	for (uint32_t i = 0; i < c->o->num_pids; i++)
		if (!process_memory(c->o->pid[i], &before[i]))
			return false;
	free(c->ep);
	if (!client_connect_many(c, want, 1, 16))
		return false;
	for (uint32_t i = 0; i < c->o->num_pids; i++) {
		double own, shared;

		if (!process_memory(c->o->pid[i], &after))
			return false;
		own = ((double)after.private_bytes - (double)before[i].private_bytes) / want;
		shared = ((double)after.shared_bytes - (double)before[i].shared_bytes) / want;
		if (c->o->json)
			printf("{\"test\":\"idle_memory\",\"pid\":%d,\"endpoints\":%u,\"private\":%.1f,\"shared\":%.1f}\n",
			       (int)c->o->pid[i], want, own, shared);
		else
			printf(" idle_memory: process %d: %.0f bytes for each of %u endpoints, and %.0f that applications share\n",
			       (int)c->o->pid[i], own, want, shared);
	}
	r->test = NULL; /* already printed */
	return true;
}

int
rates_measure(const struct rates_options *o)
{
	static const struct {
		const char *name;
		bool (*measure)(struct client *c, struct result *r);
	} tests[] = {
		{"bind_rate", measure_bind_rate},     {"bind_lat", measure_bind_lat},
		{"conn_rate", measure_conn_rate},     {"wake_lat", measure_wake_lat},
		{"idle_memory", measure_idle_memory}, {"once_lat", measure_once_lat},
	};
	struct client *c = calloc(1, sizeof(*c));
	struct result r = {.test = o->test};
	bool ok = false;
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (strcmp(tests[i].name, o->test) == 0)
			break;
	if (c == NULL || i == sizeof(tests) / sizeof(tests[0])) {
		fprintf(stderr, "oneside-rates: --test: \"%s\" is not a test; see --help\n", o->test);
		free(c);
		return EXIT_FAILURE;
	}
	dat_spin_looks = o->spin;
	c->o = o;
	c->pool.requests = 1;
	if (dat_resolve(o->host, &c->addr) && dat_adapter_open(&c->adapter, o->ia, EVENTS_MAX, EVENTS_MAX) &&
	    dat_memory_create(&c->adapter, MEMORY, &c->memory))
		ok = tests[i].measure(c, &r);
	r.latency_test = r.latency != NULL;
	if (ok && r.test != NULL)
		report(&r, o->json);
	dat_adapter_close(&c->adapter);
	free(c->pool.ep);
	free(c->ep);
	free(c->rmr);
	free(c);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
