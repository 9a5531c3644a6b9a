/* SPDX-License-Identifier: BSD-3-Clause */
/* ONESIDE_DEBUG=1: messages of refused calls. */
#include <stdbool.h>
#include <stdio.h>

#include "connected.h"

#include "../said.h"

static void
accesses(void **state)
{
	rsm_memseg_import_handle_t reader = connect_with(RSM_PERM_READ);
	rsmapi_barrier_t of_reader = {0};
	uint64_t words[4] = {0};
	char text[128];

	assert_says(rsm_memseg_import_put(reader, 0, words, 8), RSMERR_PERM_DENIED,
		    "rsm_memseg_import_put: im_memseg, rights = 0x",
		    "it was connected without RSM_PERM_WRITE; ", "give that to rsm_memseg_import_connect",
		    "(RSMERR_PERM_DENIED)");
	assert_says(rsm_memseg_import_get64(reader, 0, words, 1), RSMERR_BARRIER_UNINITIALIZED,
		    "rsm_memseg_import_get64: im_memseg = 0x", "transfers need a barrier; ",
		    "rsm_memseg_import_init_barrier first", "(RSMERR_BARRIER_UNINITIALIZED)");
	snprintf(text, sizeof(text), "offset = %u: with length 32 it is beyond the segment's %u bytes; ",
		 SIZE - 16, SIZE);
	assert_says(rsm_memseg_import_get(import, SIZE - 16, words, 32), RSMERR_BAD_LENGTH,
		    "rsm_memseg_import_get: ", text, "stay inside (RSMERR_BAD_LENGTH)");
	assert_says(rsm_memseg_import_put64(import, 4, words, 1), RSMERR_BAD_MEM_ALIGNMENT,
		    "rsm_memseg_import_put64: datap = 0x", "offset = 0x4: elements of 8 bytes",
		    "; align them");
	assert_says(rsm_memseg_import_put8(import, 0, NULL, 1), RSMERR_BAD_ADDR,
		    "rsm_memseg_import_put8: datap = 0: null, or not memory of this process",
		    "(RSMERR_BAD_ADDR)");
	assert_says(rsm_memseg_import_open_barrier(&of_reader), RSMERR_BARRIER_UNINITIALIZED,
		    "rsm_memseg_import_open_barrier: barrier = 0x", "rsm_memseg_import_init_barrier first");
	assert_int_equal(rsm_memseg_import_disconnect(reader), RSM_SUCCESS);
	assert_says(rsm_memseg_import_disconnect(reader), RSMERR_BAD_SEG_HNDL,
		    "rsm_memseg_import_disconnect: im_memseg = 0x", "no live segment", "; give what",
		    "(RSMERR_BAD_SEG_HNDL)");
}

static void
segments(void **state)
{
	uint8_t *memory = aligned_alloc(PAGE, PAGE);
	rsm_memseg_export_handle_t export;
	rsm_localmemory_handle_t local;
	rsm_memseg_id_t id = 5;

	assert_says(rsm_memseg_export_create(controller, &export, memory + 8, PAGE, 0),
		    RSMERR_BAD_MEM_ALIGNMENT, "rsm_memseg_export_create: vaddr = 0x", "not whole pages of ",
		    "; get it from mmap", "(RSMERR_BAD_MEM_ALIGNMENT)");
	assert_says(rsm_memseg_export_create(controller, &export, memory, 0, 0), RSMERR_BAD_LENGTH,
		    "rsm_memseg_export_create: size = 0: ");
	assert_says(rsm_create_localmemory_handle(controller, &local, (caddr_t)(uintptr_t)0x1000, PAGE),
		    RSMERR_BAD_ADDR,
		    "rsm_create_localmemory_handle: local_vaddr = 0x1000: ", "(RSMERR_BAD_ADDR)");
	assert_says(rsm_memseg_export_create(NULL, &export, memory, PAGE, 0), RSMERR_BAD_CTLR_HNDL,
		    "controller = 0: no live controller; give what rsm_get_controller stored");
	assert_int_equal(rsm_memseg_export_create(controller, &export, memory, PAGE, 0), RSM_SUCCESS);
	assert_says(rsm_memseg_export_publish(export, &id, NULL, 0), RSMERR_RESERVED_SEGID,
		    "rsm_memseg_export_publish: segment_id = 0x5: it is reserved; ", "0x400000 to 0x7fffffff",
		    "(RSMERR_RESERVED_SEGID)");
	assert_says(rsm_memseg_export_unpublish(export), RSMERR_SEG_NOT_PUBLISHED,
		    "rsm_memseg_export_unpublish: memseg = 0x", "publish first");
	id = 0x500000;
	mock_refuse(peer->mock, ONE_MSG_RSM_PUBLISH, -EDQUOT, ONE_SUBJECT_QUOTA, 23, 1);
	assert_says(rsm_memseg_export_publish(export, &id, NULL, 0), RSMERR_INSUFFICIENT_RESOURCES,
		    "rsm_memseg_export_publish: memseg = 0x", "the data plane's limit = 23: it is reached; ",
		    "oneside.conf(5)", "(RSMERR_INSUFFICIENT_RESOURCES)");
	assert_int_equal(rsm_memseg_export_destroy(export), RSM_SUCCESS);
	free(memory);
}

static void
connecting(void **state)
{
	char socket[256], nobody[] = "eth7", nowhere[] = "/nonexistent/oneside.sock", text[320];
	rsmapi_controller_handle_t other;
	rsm_memseg_import_handle_t handle;
	rsm_topology_t *topology;

	atomic_store(&peer->outcome, RSMERR_SEG_NOT_PUBLISHED);
	assert_says(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, RSM_PERM_READ, &handle),
		    RSMERR_SEG_NOT_PUBLISHED, "rsm_memseg_import_connect: segment_id = 0x",
		    "nothing is published so on that node; ", "(RSMERR_SEG_NOT_PUBLISHED)");
	atomic_store(&peer->outcome, RSM_SUCCESS);
	assert_says(rsm_memseg_import_connect(controller, 77, PEER_SEGMENT, RSM_PERM_READ, &handle),
		    RSMERR_REMOTE_NODE_UNREACHABLE, "node_id = 0x4d: ", "[peer] in oneside.conf(5)");
	snprintf(socket, sizeof(socket), "%s", getenv("ONESIDE_SOCKET"));
	setenv("ONESIDE_SOCKET", nowhere, 1);
	snprintf(text, sizeof(text), "name = \"eth7\": no data plane serves at %s: ", nowhere);
	assert_says(rsm_get_controller(nobody, &other), RSMERR_CTLR_NOT_PRESENT, "rsm_get_controller: ", text,
		    "; start oneside-dataplane(8), or set ONESIDE_SOCKET", "(RSMERR_CTLR_NOT_PRESENT)");
	assert_says(rsm_get_interconnect_topology(&topology), RSMERR_CTLR_NOT_PRESENT,
		    "rsm_get_interconnect_topology: topology_data = ", "no data plane serves at ");
	setenv("ONESIDE_SOCKET", socket, 1);
}

/* The data plane ended: the segment was not unpublished. */
static void
exporter_lost(void **state)
{
	uint8_t *memory = aligned_alloc(PAGE, PAGE);
	rsm_memseg_export_handle_t export;
	rsm_memseg_id_t id = 0x500000;

	assert_int_equal(rsm_memseg_export_create(controller, &export, memory, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(export, &id, NULL, 0), RSM_SUCCESS);
	peer_forget(peer);
	mock_kill(peer->mock);
	assert_says(rsm_intr_signal_wait(export, -1), RSMERR_CONN_ABORTED,
		    "rsm_intr_signal_wait: memseg = 0x", "this host's data plane ended",
		    "(RSMERR_CONN_ABORTED)");
	rsm_memseg_export_destroy(export);
	free(memory);
}

static void
silence(void **state)
{
	uint64_t words[4] = {0};

	assert_silent(rsm_memseg_import_put(import, 0, words, 32), RSM_SUCCESS);
	assert_silent(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	assert_silent(rsm_memseg_import_close_barrier(&barrier), RSM_SUCCESS);
	assert_silent(rsm_intr_signal_wait(import, 0), RSMERR_TIMEOUT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {TEST(accesses), TEST(segments), TEST(connecting), TEST(silence),
					   TEST(exporter_lost)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
