/* SPDX-License-Identifier: BSD-3-Clause */
/* The server of RSM tests: exports a segment and answers signals. The data plane does everything else. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/lib/rsm_common.h"
#include "rsm_run.h"

#define SIGNAL_WAIT_MS 100
#define NODES 63u

static bool
answer_signals(rsm_memseg_export_handle_t export)
{
	int error = rsm_intr_signal_wait(export, SIGNAL_WAIT_MS);

	if (error == RSMERR_TIMEOUT || error == RSMERR_INTERRUPTED)
		return true;
	return rsm_ok(error, "rsm_intr_signal_wait") &&
	       rsm_ok(rsm_intr_signal_post(export, 0), "rsm_intr_signal_post");
}

static bool
publish(rsm_memseg_export_handle_t export, const struct perf_options *o)
{
	rsmapi_access_entry_t everyone[NODES];
	rsm_memseg_id_t id = o->segment;

	/* All nodes and users may read and write: a benchmark needs no protection. */
	for (uint32_t i = 0; i < NODES; i++)
		everyone[i] = (rsmapi_access_entry_t){.ae_node = i + 1, .ae_permission = 0666};
	return rsm_ok(rsm_memseg_export_publish(export, &id, everyone, NODES), "rsm_memseg_export_publish");
}

int
rsm_serve(const struct perf_options *o)
{
	uint64_t room = o->size > PERF_SIZE_LAST ? o->size : PERF_SIZE_LAST,
		 size = RSM_RUN_DATA + ((room + 4095) & ~4095ull);
	uint8_t *base = aligned_alloc(4096, size);
	rsmapi_controller_handle_t controller;
	rsm_memseg_export_handle_t export;
	const _Atomic uint64_t *done;
	char name[64];
	bool ok = true;

	if (base == NULL) {
		fprintf(stderr, "oneside-perf: no memory for a segment of %" PRIu64 " bytes\n", size);
		return EXIT_FAILURE;
	}
	memset(base, 0, size);
	snprintf(name, sizeof(name), "%s", o->ia);
	if (!rsm_ok(rsm_get_controller(name, &controller), "rsm_get_controller") ||
	    !rsm_ok(rsm_memseg_export_create(controller, &export, base, size, 0),
		    "rsm_memseg_export_create") ||
	    !publish(export, o)) {
		free(base);
		return EXIT_FAILURE;
	}
	fprintf(stderr, "oneside-perf: segment 0x%x of %" PRIu64 " bytes published on %s\n", o->segment, size,
		o->ia);
	done = (const _Atomic uint64_t *)(const void *)base;
	/* Pairs with the data plane's release store of the client's last put. */
	while (ok && (!o->once || atomic_load_explicit(done, memory_order_acquire) == 0))
		ok = answer_signals(export);
	ok = rsm_ok(rsm_memseg_export_destroy(export), "rsm_memseg_export_destroy") && ok;
	free(base);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
