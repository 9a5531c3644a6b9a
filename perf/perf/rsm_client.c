/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client of RSM tests: puts into the server's segment or gets from it, over the network or through a
 * mapping.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/lib/rsm_common.h"
#include "rsm_run.h"
#include "print_result.h"

#define CONNECT_SECONDS 10u
#define SIGNAL_WAIT_MS 20000

struct client {
	const struct perf_options *o;
	rsmapi_controller_handle_t controller;
	rsm_memseg_import_handle_t *import;
	rsmapi_barrier_t *barrier;
	uint32_t connected;
	uint8_t *buffer;
	rsm_localmemory_handle_t local;
	rsm_iovec_t iovec[RSM_MAX_SGIOREQS];
	rsm_scat_gath_t vector;
	struct progress progress;
	struct histogram latency;
	FILE *json;
};

/* ---- one operation ---- */

static bool
transfer(struct client *c, uint32_t index, uint64_t size)
{
	switch (c->o->test->op) {
	case PERF_GET:
		return rsm_ok(rsm_memseg_import_get(c->import[index], RSM_RUN_DATA, c->buffer, size),
			      "rsm_memseg_import_get");
	case PERF_PUTV:
		c->vector.remote_handle = c->import[index];
		return rsm_ok(rsm_memseg_import_putv(&c->vector), "rsm_memseg_import_putv");
	case PERF_GETV:
		c->vector.remote_handle = c->import[index];
		return rsm_ok(rsm_memseg_import_getv(&c->vector), "rsm_memseg_import_getv");
	default:
		return rsm_ok(rsm_memseg_import_put(c->import[index], RSM_RUN_DATA, c->buffer, size),
			      "rsm_memseg_import_put");
	}
}

static bool
span_open(struct client *c, uint32_t index)
{
	return rsm_ok(rsm_memseg_import_open_barrier(&c->barrier[index]), "rsm_memseg_import_open_barrier");
}

static bool
span_close(struct client *c, uint32_t index)
{
	return rsm_ok(rsm_memseg_import_close_barrier(&c->barrier[index]), "rsm_memseg_import_close_barrier");
}

static bool
once(struct client *c, uint64_t size)
{
	switch (c->o->test->op) {
	case PERF_BARRIER:
		return span_open(c, 0) && transfer(c, 0, size) && span_close(c, 0);
	case PERF_SIGNAL:
		return rsm_ok(rsm_intr_signal_post(c->import[0], 0), "rsm_intr_signal_post") &&
		       rsm_ok(rsm_intr_signal_wait(c->import[0], SIGNAL_WAIT_MS), "rsm_intr_signal_wait");
	default:
		return transfer(c, 0, size);
	}
}

static bool
set_modes(struct client *c, rsm_barrier_mode_t mode)
{
	for (uint32_t i = 0; i < c->connected; i++)
		if (!rsm_ok(rsm_memseg_import_set_mode(c->import[i], mode), "rsm_memseg_import_set_mode"))
			return false;
	return true;
}

/* The pieces of a vector are contiguous at both ends. */
static void
make_vector(struct client *c, uint64_t size)
{
	uint32_t pieces = size < c->o->pieces ? (uint32_t)size : c->o->pieces;

	for (uint32_t i = 0; i < pieces; i++) {
		uint64_t from = size * i / pieces, to = size * (i + 1) / pieces;

		c->iovec[i] = (rsm_iovec_t){.io_type = RSM_HANDLE_TYPE,
					    .local.handle = c->local,
					    .local_offset = from,
					    .remote_offset = RSM_RUN_DATA + from,
					    .transfer_length = to - from};
	}
	c->vector = (rsm_scat_gath_t){.io_request_count = pieces, .iovec = c->iovec};
}

/* ---- measurements ---- */

/* Implicit mode: each call returns when the data is in place. Signals: half a round trip. */
static bool
latency(struct client *c, uint64_t size, const struct perf_options *o, struct result *r)
{
	uint64_t start = now_ns(), stop = start + (uint64_t)(o->duration * 1e9), before = start, done = 0;
	uint64_t divisor = o->test->kind == PERF_PINGPONG ? 2 : 1;

	histogram_clear(&c->latency);
	while (o->duration > 0 ? before < stop : done < o->iterations) {
		uint64_t after;

		if (!once(c, size))
			return false;
		after = now_ns();
		histogram_add(&c->latency, (after - before) / divisor);
		before = after;
		if (++done % 1024 == 0) {
			progress_show(&c->progress, after,
				      o->duration > 0 ? (double)(after - start) / (double)(stop - start)
						      : (double)done / (double)o->iterations,
				      done, size);
			before = now_ns();
		}
	}
	r->seconds = (double)(before - start) / 1e9;
	r->iterations = done;
	r->latency = &c->latency;
	return true;
}

/* Runs a barrier span with `depth` accesses on each import, and checks the close. */
static bool
span(struct client *c, uint64_t size)
{
	for (uint32_t i = 0; i < c->connected; i++)
		if (!span_open(c, i))
			return false;
	for (uint32_t k = 0; k < c->o->depth; k++)
		for (uint32_t i = 0; i < c->connected; i++)
			if (!transfer(c, i, size))
				return false;
	for (uint32_t i = 0; i < c->connected; i++)
		if (!span_close(c, i))
			return false;
	return true;
}

static bool
bandwidth(struct client *c, uint64_t size, const struct perf_options *o, struct result *r)
{
	uint64_t start = now_ns(), stop = start + (uint64_t)(o->duration * 1e9), now = start, done = 0;
	struct peak peak;

	peak_begin(&peak, start);
	while (o->duration > 0 ? now < stop : done < o->iterations) {
		if (!span(c, size))
			return false;
		done += (uint64_t)o->depth * c->connected;
		now = now_ns();
		peak_look(&peak, now, done, done);
		progress_show(&c->progress, now,
			      o->duration > 0 ? (double)(now - start) / (double)(stop - start)
					      : (double)done / (double)o->iterations,
			      done, size);
	}
	r->seconds = (double)(now - start) / 1e9;
	r->iterations = done;
	r->peak = 0;
	if (o->peak)
		peak_end(&peak, r);
	return true;
}

static bool
run(void *client, uint64_t size, const struct perf_options *o, struct result *r)
{
	struct client *c = client;
	bool spans = o->test->kind == PERF_BANDWIDTH || o->test->op == PERF_BARRIER, ok;

	make_vector(c, size);
	progress_begin(&c->progress, true);
	ok = set_modes(c, spans ? RSM_BARRIER_MODE_EXPLICIT : RSM_BARRIER_MODE_IMPLICIT) &&
	     (o->test->kind == PERF_BANDWIDTH ? bandwidth(c, size, o, r) : latency(c, size, o, r));
	progress_end(&c->progress);
	return ok;
}

/* ---- begin and end ---- */

static bool
prepare(struct client *c)
{
	const struct perf_options *o = c->o;
	uint64_t pages = (perf_largest(o) + 4095) & ~4095ull;
	char name[64];

	c->import = calloc(o->endpoints, sizeof(c->import[0]));
	c->barrier = calloc(o->endpoints, sizeof(c->barrier[0]));
	c->buffer = aligned_alloc(4096, pages);
	if (c->import == NULL || c->barrier == NULL || c->buffer == NULL) {
		fprintf(stderr, "oneside-perf: no memory\n");
		return false;
	}
	memset(c->buffer, 0, pages);
	snprintf(name, sizeof(name), "%s", o->ia);
	if (!rsm_ok(rsm_get_controller(name, &c->controller), "rsm_get_controller") ||
	    !rsm_ok(rsm_create_localmemory_handle(c->controller, &c->local, (caddr_t)c->buffer, pages),
		    "rsm_create_localmemory_handle"))
		return false;
	for (uint32_t i = 0; i < o->endpoints; i++) {
		void *address = NULL;

		if (!rsm_connect_wait(c->controller, o->node, o->segment, RSM_PERM_RDWR, CONNECT_SECONDS,
				      &c->import[i]))
			return false;
		c->connected++;
		if (!rsm_ok(rsm_memseg_import_init_barrier(c->import[i], RSM_BARRIER_SEGMENT, &c->barrier[i]),
			    "rsm_memseg_import_init_barrier") ||
		    (o->test->mapped &&
		     !rsm_ok(rsm_memseg_import_map(c->import[i], &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0,
						   RSM_RUN_DATA + pages),
			     "rsm_memseg_import_map (mappings are for segments of the same host)")))
			return false;
	}
	return true;
}

/* Notifies the server of the end, and frees everything. */
static bool
finish(struct client *c)
{
	uint64_t one = 1;
	bool ok = set_modes(c, RSM_BARRIER_MODE_IMPLICIT) &&
		  rsm_ok(rsm_memseg_import_put64(c->import[0], 0, &one, 1), "rsm_memseg_import_put64");

	for (uint32_t i = 0; i < c->connected; i++) {
		if (c->o->test->mapped)
			ok = rsm_ok(rsm_memseg_import_unmap(c->import[i]), "rsm_memseg_import_unmap") && ok;
		ok = rsm_ok(rsm_memseg_import_destroy_barrier(&c->barrier[i]),
			    "rsm_memseg_import_destroy_barrier") &&
		     ok;
		ok = rsm_ok(rsm_memseg_import_disconnect(c->import[i]), "rsm_memseg_import_disconnect") && ok;
	}
	ok = rsm_ok(rsm_free_localmemory_handle(c->controller, c->local), "rsm_free_localmemory_handle") &&
	     ok;
	return rsm_ok(rsm_release_controller(c->controller), "rsm_release_controller") && ok;
}

int
rsm_measure(const struct perf_options *o)
{
	struct client *c = calloc(1, sizeof(*c));
	bool ok;

	c->o = o;
	/* After a failure the exit of the process frees the rest. */
	ok = perf_json_open(o, &c->json) && prepare(c) && perf_measure(o, c->json, run, c) && finish(c);
	ok = perf_json_close(c->json) && ok;
	free(c->buffer);
	free(c->barrier);
	free(c->import);
	free(c);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
