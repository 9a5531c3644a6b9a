/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One client connects its endpoints, each with a private data that tells the
 * server what is coming; the server answers with the buffer that may be written
 * and read.  All endpoints share one buffer at each end, as in perftest.
 */
#include "dat_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dat_common.h"
#include "report.h"

#define MAGIC 0x46524550u
#define BUFFER_MAX (4ull << 20)
#define RECV_DEPTH 512u
#define EVENT_SECONDS 20u

enum { KIND_ONE_SIDED = 0, KIND_SEND = 1, KIND_IDLE = 2 };

struct greeting {
	uint32_t magic;
	uint32_t kind;
	uint64_t size;
};

/* ---- server ---- */

struct server {
	struct dat_adapter adapter;
	struct dat_memory memory;
	uint32_t live; /* established or being so */
	uint32_t seen;
};

static bool
server_post_recv(struct server *s, DAT_EP_HANDLE ep)
{
	DAT_LMR_TRIPLET iov = {.lmr_context = s->memory.lmr_context,
			       .virtual_address = (DAT_VADDR)(uintptr_t)s->memory.base,
			       .segment_length = s->memory.size};
	DAT_DTO_COOKIE cookie = {.as_ptr = ep};

	return dat_ok(dat_ep_post_recv(ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv");
}

static bool
server_accept(struct server *s, const DAT_EVENT *event)
{
	struct dat_target target = {.address = (uintptr_t)s->memory.base,
				    .length = s->memory.size,
				    .rmr_context = s->memory.rmr_context};
	DAT_CR_HANDLE cr = event->event_data.cr_arrival_event_data.cr_handle;
	struct greeting greeting;
	DAT_CR_PARAM param;
	DAT_EP_HANDLE ep;
	uint32_t recvs;

	if (!dat_ok(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param), "dat_cr_query"))
		return false;
	memset(&greeting, 0, sizeof(greeting));
	if (param.private_data_size >= (DAT_COUNT)sizeof(greeting))
		memcpy(&greeting, param.private_data, sizeof(greeting));
	if (greeting.magic != MAGIC || greeting.kind > KIND_IDLE) {
		fprintf(stderr, "oneside-perf: a request that is not from oneside-perf was rejected\n");
		return dat_ok(dat_cr_reject(cr), "dat_cr_reject");
	}
	recvs = greeting.kind == KIND_SEND ? RECV_DEPTH : 1;
	if (!dat_endpoint_create(&s->adapter, greeting.kind == KIND_IDLE ? 1 : 16, recvs, &ep))
		return false;
	for (uint32_t i = 0; greeting.kind == KIND_SEND && i < recvs; i++)
		if (!server_post_recv(s, ep))
			return false;
	if (!dat_ok(dat_cr_accept(cr, ep, sizeof(target), &target), "dat_cr_accept"))
		return false;
	s->live++;
	s->seen++;
	return true;
}

static bool
server_connection_event(struct server *s, const DAT_EVENT *event)
{
	switch (event->event_number) {
	case DAT_CONNECTION_REQUEST_EVENT:
		return server_accept(s, event);
	case DAT_CONNECTION_EVENT_ESTABLISHED:
		return true;
	default:
		s->live--;
		return dat_ok(dat_ep_free(event->event_data.connect_event_data.ep_handle), "dat_ep_free");
	}
}

/* Receives are given back at once; flushed ones belong to endpoints that end. */
static bool
server_drain_receives(struct server *s, bool *busy)
{
	DAT_EVENT event;
	DAT_RETURN ret;

	*busy = false;
	for (uint32_t i = 0; i < 64; i++) {
		const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

		ret = dat_evd_dequeue(s->adapter.recv_evd, &event);
		if (DAT_GET_TYPE(ret) == DAT_QUEUE_EMPTY)
			return true;
		if (!dat_ok(ret, "dat_evd_dequeue"))
			return false;
		*busy = true;
		if (dto->status == DAT_DTO_SUCCESS && !server_post_recv(s, dto->ep_handle))
			return false;
	}
	return true;
}

int
dat_serve(const struct perf_options *o)
{
	struct server s = {.live = 0};
	DAT_PSP_HANDLE psp;
	int status = EXIT_FAILURE;

	if (!dat_adapter_open(&s.adapter, o->ia, 16384, 16384) ||
	    !dat_memory_create(&s.adapter, o->size > BUFFER_MAX ? o->size : BUFFER_MAX, &s.memory) ||
	    !dat_ok(dat_psp_create(s.adapter.ia, o->port, s.adapter.conn_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		    "dat_psp_create"))
		goto out;
	fprintf(stderr, "oneside-perf: serving on %s, qualifier %u\n", o->ia, o->port);
	for (;;) {
		DAT_EVENT event;
		DAT_COUNT more;
		DAT_RETURN ret;
		bool busy;

		if (!server_drain_receives(&s, &busy))
			break;
		/* Asleep between events; a server of SENDs looks after its receives. */
		ret = dat_evd_wait(s.adapter.conn_evd, busy ? 0 : 2000, 1, &event, &more);
		if (DAT_GET_TYPE(ret) == DAT_TIMEOUT_EXPIRED)
			continue;
		if (!dat_ok(ret, "dat_evd_wait") || !server_connection_event(&s, &event))
			break;
		if (o->once && s.seen > 0 && s.live == 0) {
			status = EXIT_SUCCESS;
			break;
		}
	}
	dat_memory_free(&s.memory);
out:
	dat_adapter_close(&s.adapter);
	return status;
}

/* ---- client ---- */

struct endpoint {
	DAT_EP_HANDLE ep;
	uint32_t outstanding;
	uint32_t unsignalled; /* since the last one with a completion */
};

struct client {
	const struct perf_options *o;
	struct dat_adapter adapter;
	struct dat_memory memory;
	struct endpoint *busy;
	struct dat_target target;
	enum { OP_WRITE, OP_READ, OP_SEND } op;
	struct histogram latency;
};

static bool
client_connect(struct client *c, struct sockaddr_storage *addr, uint32_t kind, uint32_t index)
{
	struct greeting greeting = {.magic = MAGIC, .kind = kind, .size = c->o->size};
	DAT_EVENT event;
	DAT_EP_HANDLE ep;

	if (!dat_endpoint_create(&c->adapter, kind == KIND_IDLE ? 1 : c->o->depth, 1, &ep) ||
	    !dat_ok(dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)addr, c->o->port, 10000000, sizeof(greeting),
				   &greeting, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
		    "dat_ep_connect") ||
	    !dat_conn_wait(&c->adapter, EVENT_SECONDS, &event))
		return false;
	if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED) {
		fprintf(stderr, "oneside-perf: connecting to %s, qualifier %u: %s\n", c->o->host, c->o->port,
			dat_event_name(event.event_number));
		return false;
	}
	if (kind == KIND_IDLE)
		return true;
	if (event.event_data.connect_event_data.private_data_size < (DAT_COUNT)sizeof(c->target)) {
		fprintf(stderr, "oneside-perf: %s told no buffer: is it oneside-perf?\n", c->o->host);
		return false;
	}
	memcpy(&c->target, event.event_data.connect_event_data.private_data, sizeof(c->target));
	c->busy[index] = (struct endpoint){.ep = ep};
	return true;
}

static bool
client_post(struct client *c, uint32_t index, uint64_t size, bool signal)
{
	DAT_LMR_TRIPLET local = {.lmr_context = c->memory.lmr_context,
				 .virtual_address = (DAT_VADDR)(uintptr_t)c->memory.base,
				 .segment_length = size};
	DAT_RMR_TRIPLET remote = {.rmr_context = c->target.rmr_context,
				  .target_address = c->target.address,
				  .segment_length = size};
	DAT_COMPLETION_FLAGS flags = signal ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG;
	DAT_DTO_COOKIE cookie = {.as_64 = index};
	DAT_EP_HANDLE ep = c->busy[index].ep;

	switch (c->op) {
	case OP_WRITE:
		return dat_ok(dat_ep_post_rdma_write(ep, 1, &local, cookie, &remote, flags),
			      "dat_ep_post_rdma_write");
	case OP_READ:
		return dat_ok(dat_ep_post_rdma_read(ep, 1, &local, cookie, &remote, flags),
			      "dat_ep_post_rdma_read");
	default:
		return dat_ok(dat_ep_post_send(ep, 1, &local, cookie, flags), "dat_ep_post_send");
	}
}

/* Takes one completion if there is one (or must be); the endpoint's window opens. */
static bool
client_reap(struct client *c, bool must, uint64_t *done)
{
	DAT_EVENT event;
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	if (must) {
		if (!dat_dequeue_spin(c->adapter.request_evd, &event, EVENT_SECONDS))
			return false;
	} else {
		DAT_RETURN ret = dat_evd_dequeue(c->adapter.request_evd, &event);

		if (DAT_GET_TYPE(ret) == DAT_QUEUE_EMPTY)
			return true;
		if (!dat_ok(ret, "dat_evd_dequeue"))
			return false;
	}
	if (dto->status != DAT_DTO_SUCCESS) {
		fprintf(stderr, "oneside-perf: %s failed: %s\n", c->o->test,
			dat_dto_status_name(dto->status));
		return false;
	}
	c->busy[dto->user_cookie.as_64].outstanding -= c->o->signal_every;
	*done += c->o->signal_every;
	return true;
}

static bool
client_bandwidth(struct client *c, uint64_t size, struct result *r)
{
	uint64_t posted = 0, done = 0, want = c->o->iterations, start, stop = 0;
	uint32_t every = c->o->signal_every;

	want = (want + every - 1) / every * every;
	start = now_ns();
	if (c->o->duration > 0) {
		want = UINT64_MAX;
		stop = start + (uint64_t)(c->o->duration * 1e9);
	}
	while (done < want) {
		bool full = true;

		for (uint32_t i = 0; i < c->o->endpoints && posted < want; i++) {
			struct endpoint *e = &c->busy[i];

			/* A run of `every` at a time, of which the last has a completion. */
			if (e->outstanding + every > c->o->depth)
				continue;
			full = false;
			for (uint32_t k = 1; k <= every; k++)
				if (!client_post(c, i, size, k == every))
					return false;
			e->outstanding += every;
			posted += every;
		}
		if (!client_reap(c, full || posted == want, &done))
			return false;
		if (stop != 0 && want == UINT64_MAX && (done / every) % 1024 == 0 && now_ns() >= stop)
			want = posted;
	}
	r->seconds = (double)(now_ns() - start) / 1e9;
	r->iterations = done;
	return true;
}

static bool
client_latency(struct client *c, uint64_t size, struct result *r)
{
	uint64_t start = now_ns(), stop = start + (uint64_t)(c->o->duration * 1e9), before = start, done = 0;
	DAT_EVENT event;

	histogram_clear(&c->latency);
	while (c->o->duration > 0 ? before < stop : done < c->o->iterations) {
		uint64_t after;

		if (!client_post(c, 0, size, true) ||
		    !dat_dequeue_spin(c->adapter.request_evd, &event, EVENT_SECONDS))
			return false;
		if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS) {
			fprintf(stderr, "oneside-perf: %s failed: %s\n", c->o->test,
				dat_dto_status_name(event.event_data.dto_completion_event_data.status));
			return false;
		}
		after = now_ns();
		histogram_add(&c->latency, after - before);
		before = after;
		done++;
	}
	r->seconds = (double)(before - start) / 1e9;
	r->iterations = done;
	r->latency = &c->latency;
	return true;
}

static bool
client_test(struct client *c, bool latency, uint64_t size)
{
	struct result r = {.test = c->o->test, .size = size};

	if (!(latency ? client_latency(c, size, &r) : client_bandwidth(c, size, &r)))
		return false;
	report(&r, c->o->json, false);
	return true;
}

int
dat_measure(const struct perf_options *o)
{
	static const struct {
		const char *name;
		int op;
		bool latency;
	} tests[] = {
		{"write_bw", OP_WRITE, false}, {"write_lat", OP_WRITE, true}, {"read_bw", OP_READ, false},
		{"read_lat", OP_READ, true},   {"send_bw", OP_SEND, false},   {"send_lat", OP_SEND, true},
	};
	struct client *c = calloc(1, sizeof(*c));
	struct sockaddr_storage addr;
	bool latency = false, ok = false;
	uint64_t largest = o->all_sizes ? BUFFER_MAX : o->size;
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (strcmp(tests[i].name, o->test) == 0)
			break;
	if (i == sizeof(tests) / sizeof(tests[0])) {
		fprintf(stderr, "oneside-perf: --test: \"%s\" is not a test of uDAPL; see --help\n", o->test);
		free(c);
		return EXIT_FAILURE;
	}
	dat_spin_looks = o->spin;
	c->o = o;
	c->op = tests[i].op;
	latency = tests[i].latency;
	c->busy = calloc(o->endpoints, sizeof(*c->busy));
	if (!dat_resolve(o->host, &addr) ||
	    !dat_adapter_open(&c->adapter, o->ia, 64, o->depth * o->endpoints + 16) ||
	    !dat_memory_create(&c->adapter, largest, &c->memory))
		goto out;
	for (uint32_t k = 0; k < o->endpoints; k++)
		if (!client_connect(c, &addr, c->op == OP_SEND ? KIND_SEND : KIND_ONE_SIDED, k))
			goto out;
	for (uint32_t k = 0; k < o->idle_endpoints; k++)
		if (!client_connect(c, &addr, KIND_IDLE, 0))
			goto out;
	if (c->op != OP_SEND && c->target.length < largest) {
		fprintf(stderr, "oneside-perf: the server's buffer has %llu bytes; start it with -s %llu\n",
			(unsigned long long)c->target.length, (unsigned long long)largest);
		goto out;
	}
	if (!o->json)
		report_head(stdout, latency);
	ok = true;
	for (uint64_t size = o->all_sizes ? 8 : o->size; ok && size <= largest; size *= 2) {
		ok = client_test(c, latency, size);
		if (!o->all_sizes)
			break;
	}
	dat_memory_free(&c->memory);
out:
	dat_adapter_close(&c->adapter);
	free(c->busy);
	free(c);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
