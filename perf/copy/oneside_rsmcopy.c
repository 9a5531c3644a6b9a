/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oneside-rsmcopy: copies a file between two applications by RSM puts.
 *
 *   oneside-rsmcopy -d CONTROLLER receive OUTFILE SIZE     exports a segment of that size and waits
 *   oneside-rsmcopy -d CONTROLLER send FILE NODE           imports the segment and puts the file into it
 *
 * The last page of the segment holds a note: the sender puts the file's size, then a flag, which implicit
 * mode orders after the data.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/lib/file.h"
#include "perf/lib/report.h"
#include "perf/lib/rsm_common.h"

#define PIECE (1u << 20)
#define SECONDS 60u

struct note {
	uint64_t size;
	_Atomic uint64_t done; /* 1: the file is complete */
};

static uint64_t
pages(uint64_t bytes)
{
	return (bytes + 4095) & ~4095ull;
}

static bool
receive(rsmapi_controller_handle_t controller, rsm_memseg_id_t id, const char *path, uint64_t size)
{
	uint64_t length = pages(size) + 4096, deadline = now_ns() + SECONDS * 1000000000ull;
	rsmapi_access_entry_t everyone[63];
	rsm_memseg_export_handle_t export;
	struct note *note;
	uint8_t *base = aligned_alloc(4096, length);
	bool ok = false;

	if (base == NULL) {
		fprintf(stderr, "oneside-rsmcopy: no memory for a segment of %" PRIu64 " bytes\n", length);
		return false;
	}
	memset(base, 0, length);
	note = (struct note *)(void *)(base + length - 4096);
	for (uint32_t i = 0; i < 63; i++)
		everyone[i] = (rsmapi_access_entry_t){.ae_node = i + 1, .ae_permission = 0666};
	if (!rsm_ok(rsm_memseg_export_create(controller, &export, base, length, 0),
		    "rsm_memseg_export_create") ||
	    !rsm_ok(rsm_memseg_export_publish(export, &id, everyone, 63), "rsm_memseg_export_publish"))
		return false;
	/* Pairs with the data plane's release store of the flag: data put before the flag is visible. */
	while (atomic_load_explicit(&note->done, memory_order_acquire) == 0 && now_ns() < deadline)
		usleep(1000);
	if (atomic_load(&note->done) == 0 || note->size > size)
		fprintf(stderr, "oneside-rsmcopy: nothing complete came in %u seconds\n", SECONDS);
	else
		ok = file_write(path, base, note->size);
	ok = rsm_ok(rsm_memseg_export_destroy(export), "rsm_memseg_export_destroy") && ok;
	free(base);
	return ok;
}

static bool
put_all(rsm_memseg_import_handle_t import, uint8_t *data, uint64_t size, struct histogram *latency,
	struct peak *peak)
{
	uint64_t before = now_ns(), after, done = 0;
	bool tty = isatty(STDERR_FILENO);

	peak_begin(peak, before);
	for (uint64_t offset = 0; offset < size; offset += PIECE, before = after) {
		uint64_t len = size - offset < PIECE ? size - offset : PIECE;

		/* Implicit mode: the piece is in place when the call returns. */
		if (!rsm_ok(rsm_memseg_import_put(import, (off_t)offset, data + offset, len),
			    "rsm_memseg_import_put"))
			return false;
		after = now_ns();
		histogram_add(latency, after - before);
		done++;
		peak_look(peak, after, done, done);
		if (tty)
			fprintf(stderr, "\r  %3" PRIu64 "%%", (offset + len) * 100 / size);
	}
	if (tty)
		fprintf(stderr, "\r      \r");
	return true;
}

static bool
send_file(rsmapi_controller_handle_t controller, rsm_memseg_id_t id, const char *path, uint32_t node,
	  bool json)
{
	struct result r = {.test = "rsm_put", .size = PIECE};
	struct histogram *latency = malloc(sizeof(*latency));
	rsm_localmemory_handle_t local;
	rsm_memseg_import_handle_t import;
	rsmapi_barrier_t barrier;
	uint64_t size, start, done = 1;
	struct peak peak;
	off_t note;
	uint8_t *data = file_read(path, &size);
	bool ok = false;

	memset(&barrier, 0, sizeof(barrier));
	histogram_clear(latency);
	if (data == NULL ||
	    !rsm_ok(rsm_create_localmemory_handle(controller, &local, (caddr_t)data, pages(size + 1)),
		    "rsm_create_localmemory_handle") ||
	    !rsm_connect_wait(controller, node, id, RSM_PERM_RDWR, 20, &import) ||
	    !rsm_ok(rsm_memseg_import_init_barrier(import, RSM_BARRIER_SEGMENT, &barrier),
		    "rsm_memseg_import_init_barrier"))
		goto out;
	start = now_ns();
	if (!put_all(import, data, size, latency, &peak))
		goto out;
	r.seconds = (double)(now_ns() - start) / 1e9;
	note = (off_t)pages(size);
	ok = rsm_ok(rsm_memseg_import_put64(import, note, &size, 1), "rsm_memseg_import_put64") &&
	     rsm_ok(rsm_memseg_import_put64(import, note + 8, &done, 1), "rsm_memseg_import_put64") &&
	     rsm_ok(rsm_memseg_import_destroy_barrier(&barrier), "rsm_memseg_import_destroy_barrier") &&
	     rsm_ok(rsm_memseg_import_disconnect(import), "rsm_memseg_import_disconnect") &&
	     rsm_ok(rsm_free_localmemory_handle(controller, local), "rsm_free_localmemory_handle");
	r.iterations = size / PIECE;
	if (r.iterations == 0) {
		r.iterations = 1;
		r.size = size;
	}
	r.latency = latency;
	peak_end(&peak, &r);
	report(&r, json);
out:
	free(data);
	free(latency);
	return ok;
}

int
main(int argc, char **argv)
{
	static const struct option longopts[] = {{"help", no_argument, NULL, 'h'}, {0}};
	static const char usage[] =
		"usage: oneside-rsmcopy [-d CONTROLLER] [-g SEGMENT] [-j] receive OUTFILE SIZE\n"
		"       oneside-rsmcopy [-d CONTROLLER] [-g SEGMENT] [-j] send FILE NODE\n";
	rsmapi_controller_handle_t controller;
	rsm_memseg_id_t segment = 0x400100;
	char name[64] = "p0";
	bool json = false, ok;
	int c;

	while ((c = getopt_long(argc, argv, "d:g:jh", longopts, NULL)) != -1) {
		switch (c) {
		case 'd':
			snprintf(name, sizeof(name), "%s", optarg);
			break;
		case 'g':
			segment = (rsm_memseg_id_t)strtoul(optarg, NULL, 0);
			break;
		case 'j':
			json = true;
			break;
		default:
			fputs(usage, c == 'h' ? stdout : stderr);
			return c == 'h' ? EXIT_SUCCESS : EXIT_FAILURE;
		}
	}
	argc -= optind;
	argv += optind;
	if (argc != 3 || (strcmp(argv[0], "receive") != 0 && strcmp(argv[0], "send") != 0)) {
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}
	if (!rsm_ok(rsm_get_controller(name, &controller), "rsm_get_controller"))
		return EXIT_FAILURE;
	if (strcmp(argv[0], "receive") == 0)
		ok = receive(controller, segment, argv[1], strtoull(argv[2], NULL, 0));
	else
		ok = send_file(controller, segment, argv[1], (uint32_t)strtoul(argv[2], NULL, 0), json);
	ok = rsm_ok(rsm_release_controller(controller), "rsm_release_controller") && ok;
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
