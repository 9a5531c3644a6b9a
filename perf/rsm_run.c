/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server exports one segment; the client puts into it or gets from it.
 * The last 8 bytes of the segment count the clients that are done.
 */
#include "rsm_run.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"
#include "rsm_common.h"

#define SEGMENT_MIN (4ull << 20)

static uint64_t
segment_size(const struct perf_options *o)
{
	uint64_t size = o->size > SEGMENT_MIN ? o->size : SEGMENT_MIN;

	return ((size + 4095) & ~4095ull) + 4096;
}

int
rsm_serve(const struct perf_options *o)
{
	uint64_t size = segment_size(o);
	rsmapi_controller_handle_t controller;
	rsm_memseg_export_handle_t export;
	rsm_memseg_id_t id = o->segment;
	_Atomic uint64_t *done;
	char name[64];
	uint8_t *base = aligned_alloc(4096, size);

	if (base == NULL) {
		fprintf(stderr, "oneside-perf: no memory for a segment of %" PRIu64 " bytes\n", size);
		return EXIT_FAILURE;
	}
	memset(base, 0, size);
	snprintf(name, sizeof(name), "%s", o->ia);
	if (!rsm_ok(rsm_get_controller(name, &controller), "rsm_get_controller"))
		return EXIT_FAILURE;
	if (!rsm_ok(rsm_memseg_export_create(controller, &export, base, size, 0), "rsm_memseg_export_create"))
		return EXIT_FAILURE;
	rsmapi_access_entry_t everyone[63];

	/* Every node, every user: this is a benchmark. */
	for (uint32_t i = 0; i < 63; i++)
		everyone[i] = (rsmapi_access_entry_t){.ae_node = i + 1, .ae_permission = 0666};
	if (!rsm_ok(rsm_memseg_export_publish(export, &id, everyone, 63), "rsm_memseg_export_publish"))
		return EXIT_FAILURE;
	fprintf(stderr, "oneside-perf: segment 0x%x of %" PRIu64 " bytes published on %s\n", id, size, name);
	done = (_Atomic uint64_t *)(void *)(base + size - 8);
	while (!o->once || atomic_load(done) == 0)
		usleep(10000);
	return rsm_ok(rsm_memseg_export_destroy(export), "rsm_memseg_export_destroy") ? EXIT_SUCCESS
										      : EXIT_FAILURE;
}

struct client {
	const struct perf_options *o;
	rsm_memseg_import_handle_t import;
	rsmapi_barrier_t barrier;
	uint8_t *buffer;
	bool get, latency;
	struct histogram histogram;
};

static bool
one(struct client *c, uint64_t size)
{
	if (c->get)
		return rsm_ok(rsm_memseg_import_get(c->import, 0, c->buffer, size), "rsm_memseg_import_get");
	return rsm_ok(rsm_memseg_import_put(c->import, 0, c->buffer, size), "rsm_memseg_import_put");
}

/* Implicit mode: each call returns when the data is there. */
static bool
latency(struct client *c, uint64_t size, struct result *r)
{
	uint64_t start = now_ns(), stop = start + (uint64_t)(c->o->duration * 1e9), before = start, done = 0;

	histogram_clear(&c->histogram);
	while (c->o->duration > 0 ? before < stop : done < c->o->iterations) {
		uint64_t after;

		if (!one(c, size))
			return false;
		after = now_ns();
		histogram_add(&c->histogram, after - before);
		before = after;
		done++;
	}
	r->seconds = (double)(before - start) / 1e9;
	r->iterations = done;
	r->latency = &c->histogram;
	return true;
}

/* Explicit mode: spans of `depth` accesses, each closed and checked. */
static bool
bandwidth(struct client *c, uint64_t size, struct result *r)
{
	uint64_t start = now_ns(), stop = start + (uint64_t)(c->o->duration * 1e9), done = 0;

	if (!rsm_ok(rsm_memseg_import_set_mode(c->import, RSM_BARRIER_MODE_EXPLICIT),
		    "rsm_memseg_import_set_mode"))
		return false;
	while (c->o->duration > 0 ? now_ns() < stop : done < c->o->iterations) {
		if (!rsm_ok(rsm_memseg_import_open_barrier(&c->barrier), "rsm_memseg_import_open_barrier"))
			return false;
		for (uint32_t i = 0; i < c->o->depth; i++)
			if (!one(c, size))
				return false;
		if (!rsm_ok(rsm_memseg_import_close_barrier(&c->barrier), "rsm_memseg_import_close_barrier"))
			return false;
		done += c->o->depth;
	}
	r->seconds = (double)(now_ns() - start) / 1e9;
	r->iterations = done;
	return rsm_ok(rsm_memseg_import_set_mode(c->import, RSM_BARRIER_MODE_IMPLICIT),
		      "rsm_memseg_import_set_mode");
}

static bool
run(struct client *c, uint64_t size)
{
	struct result r = {.test = c->o->test, .size = size};

	if (!(c->latency ? latency(c, size, &r) : bandwidth(c, size, &r)))
		return false;
	report(&r, c->o->json, false);
	return true;
}

int
rsm_measure(const struct perf_options *o)
{
	uint64_t largest = o->all_sizes ? SEGMENT_MIN : o->size, one_more = 1;
	rsmapi_controller_handle_t controller;
	rsm_localmemory_handle_t local = NULL;
	struct client *c;
	bool ok = true;
	char name[64];

	if (strcmp(o->test, "put_bw") != 0 && strcmp(o->test, "put_lat") != 0 &&
	    strcmp(o->test, "get_bw") != 0 && strcmp(o->test, "get_lat") != 0) {
		fprintf(stderr, "oneside-perf: --test: \"%s\" is not a test of RSMAPI; see --help\n",
			o->test);
		return EXIT_FAILURE;
	}
	c = calloc(1, sizeof(*c));
	c->o = o;
	c->get = strncmp(o->test, "get", 3) == 0;
	c->latency = strcmp(o->test + 4, "lat") == 0;
	c->buffer = aligned_alloc(4096, (largest + 4095) & ~4095ull);
	memset(c->buffer, 0, largest);
	snprintf(name, sizeof(name), "%s", o->ia);
	if (!rsm_ok(rsm_get_controller(name, &controller), "rsm_get_controller") ||
	    !rsm_ok(rsm_create_localmemory_handle(controller, &local, (caddr_t)c->buffer, largest),
		    "rsm_create_localmemory_handle") ||
	    !rsm_connect_wait(controller, o->node, o->segment, RSM_PERM_RDWR, 10, &c->import) ||
	    !rsm_ok(rsm_memseg_import_init_barrier(c->import, RSM_BARRIER_SEGMENT, &c->barrier),
		    "rsm_memseg_import_init_barrier")) {
		free(c->buffer);
		free(c);
		return EXIT_FAILURE;
	}
	if (!o->json)
		report_head(stdout, c->latency);
	for (uint64_t size = o->all_sizes ? 8 : o->size; ok && size <= largest; size *= 2) {
		ok = run(c, size);
		if (!o->all_sizes)
			break;
	}
	if (ok)
		ok = rsm_ok(rsm_memseg_import_put64(c->import, (off_t)(segment_size(o) - 8), &one_more, 1),
			    "rsm_memseg_import_put64");
	ok = rsm_ok(rsm_memseg_import_destroy_barrier(&c->barrier), "rsm_memseg_import_destroy_barrier") &&
	     ok;
	ok = rsm_ok(rsm_memseg_import_disconnect(c->import), "rsm_memseg_import_disconnect") && ok;
	ok = rsm_ok(rsm_free_localmemory_handle(controller, local), "rsm_free_localmemory_handle") && ok;
	ok = rsm_ok(rsm_release_controller(controller), "rsm_release_controller") && ok;
	free(c->buffer);
	free(c);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
