/* SPDX-License-Identifier: BSD-3-Clause */
/* Controllers, topology, exports, local memory handles and connecting: arguments, their order, messages. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "peer.h"

#define PAGE 4096u

static struct peer *peer;
static rsmapi_controller_handle_t controller;
static char port[] = "mock0";

static int
setup(void **state)
{
	peer = peer_start(64 * 1024);
	mock_welcome(peer->mock)->node_id = 1;
	return rsm_get_controller(port, &controller);
}

static int
teardown(void **state)
{
	peer_forget(peer);
	rsm_release_controller(controller);
	peer_stop(peer);
	return 0;
}

static uint8_t *
pages(size_t count)
{
	uint8_t *memory =
		mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

/* Far from where the system puts mappings by itself: a hole made in it stays one. */
static uint8_t *
lonely_pages(size_t count)
{
	uint8_t *near = pages(1);
	uint8_t *memory = mmap(near - (64ull << 30), count * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_true(memory != MAP_FAILED);
	munmap(near, PAGE);
	return memory;
}

#define GARBAGE(type) ((type)(uintptr_t)0x1234567)

/* ---- controllers ---- */

static void
test_controller_names(void **state)
{
	static char *const same[] = {"mock0", "mock", "MOCK0", "Mock000"};
	static char *const other[] = {"mock1", "moc0", "mock0x", "", "0", "wrsm0", "mock4294967296"};
	static char *const loopback[] = {"loopback", "LOOPBACK0", "loopback17", NULL};
	rsmapi_controller_handle_t handle, first = NULL;
	char *longest = calloc(1, 5000);

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		assert_int_equal(rsm_get_controller(same[i], &handle), RSM_SUCCESS);
		assert_ptr_equal(handle, controller);
		assert_int_equal(rsm_release_controller(handle), RSM_SUCCESS);
	}
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		assert_int_equal(rsm_get_controller(other[i], &handle), RSMERR_CTLR_NOT_PRESENT);
	memset(longest, 'a', 4999);
	assert_int_equal(rsm_get_controller(longest, &handle), RSMERR_CTLR_NOT_PRESENT);
	free(longest);
	for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++) {
		assert_int_equal(rsm_get_controller(loopback[i], &handle), RSM_SUCCESS);
		assert_ptr_not_equal(handle, controller);
		if (first == NULL)
			first = handle;
		assert_ptr_equal(handle, first);
	}
	for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++)
		assert_int_equal(rsm_release_controller(first), RSM_SUCCESS);
	assert_int_equal(rsm_release_controller(first), RSMERR_BAD_CTLR_HNDL);
}

/* Names are found by type and unit even when nothing is open yet. */
static bool
on_topology(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	    struct one_reply *reply, void *user)
{
	uint32_t n = msg->rsm_topology.port, first = msg->rsm_topology.first;

	if (n >= 2) {
		reply->error = -ENODEV;
		return true;
	}
	reply->rsm_port.num_ports = 2;
	reply->rsm_port.num_peers = n == 0 ? 7 : 0;
	reply->rsm_port.hwaddr = 0x1000 + n;
	strcpy(reply->rsm_port.name, n == 0 ? "other3" : "mock0");
	for (uint32_t i = 0; i < ONE_RSM_PEERS; i++) {
		reply->rsm_port.peer[i].node = 10 + first + i;
		reply->rsm_port.peer[i].state = (first + i) % 4 + 1;
		reply->rsm_port.peer[i].hwaddr = 0x2000 + first + i;
		snprintf(reply->rsm_port.peer[i].name, ONE_PORT_NAME, "far%u", first + i);
	}
	return true;
}

static void
test_controller_spelling(void **state)
{
	rsmapi_controller_handle_t handle;
	char spelling[] = "MOCK";

	assert_int_equal(rsm_release_controller(controller), RSM_SUCCESS);
	mock_on(peer->mock, ONE_MSG_RSM_TOPOLOGY, on_topology, NULL);
	assert_int_equal(rsm_get_controller(spelling, &handle), RSM_SUCCESS);
	assert_int_equal(rsm_get_controller(port, &controller), RSM_SUCCESS);
	assert_ptr_equal(handle, controller);
	assert_int_equal(rsm_release_controller(handle), RSM_SUCCESS);
}

static void
test_controller_counting(void **state)
{
	rsmapi_controller_handle_t again;
	rsmapi_controller_attr_t attr;

	assert_int_equal(rsm_get_controller(port, NULL), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_release_controller(NULL), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_release_controller(GARBAGE(rsmapi_controller_handle_t)), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_get_controller(port, &again), RSM_SUCCESS);
	assert_int_equal(mock_attached(peer->mock), 1);
	assert_int_equal(rsm_release_controller(again), RSM_SUCCESS);
	assert_int_equal(rsm_get_controller_attr(again, &attr), RSM_SUCCESS);
	assert_int_equal(rsm_release_controller(again), RSM_SUCCESS);
	assert_int_equal(rsm_release_controller(again), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_get_controller_attr(again, &attr), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_get_controller(port, &controller), RSM_SUCCESS);
	assert_ptr_not_equal(controller, again); /* the stale one stays recognisable */
	assert_int_equal(rsm_release_controller(again), RSMERR_BAD_CTLR_HNDL);
}

static void
test_controller_refused(void **state)
{
	rsmapi_controller_handle_t handle;
	char loopback[] = "loopback";

	mock_refuse(peer->mock, ONE_MSG_HELLO, -EPROTO, ONE_SUBJECT_VERSION, 1, 1);
	assert_int_equal(rsm_get_controller(loopback, &handle), RSMERR_BAD_LIBRARY_VERSION);
	mock_refuse(peer->mock, ONE_MSG_HELLO, -EDQUOT, ONE_SUBJECT_QUOTA, 1, 1);
	assert_int_equal(rsm_get_controller(loopback, &handle), RSMERR_INSUFFICIENT_MEM);
	mock_refuse(peer->mock, ONE_MSG_PZ_CREATE, -ENOMEM, ONE_SUBJECT_NONE, 0, 1);
	assert_int_equal(rsm_get_controller(loopback, &handle), RSMERR_INSUFFICIENT_MEM);
	mock_kill(peer->mock);
	assert_int_equal(rsm_get_controller(loopback, &handle), RSMERR_CTLR_NOT_PRESENT);
}

static void
test_controller_attr(void **state)
{
	const struct one_limits *limits = &mock_welcome(peer->mock)->limits;
	rsmapi_controller_handle_t loopback;
	rsmapi_controller_attr_t attr, zero = {0};

	assert_int_equal(rsm_get_controller_attr(NULL, &attr), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_get_controller_attr(NULL, NULL), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_get_controller_attr(controller, NULL), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_get_controller_attr(controller, &attr), RSM_SUCCESS);
	assert_int_equal(attr.attr_page_size, 0x4); /* bit 2: 4 KiB */
	assert_int_equal(attr.attr_max_export_segment_size, limits->max_mr_bytes);
	assert_int_equal(attr.attr_tot_export_segment_size, limits->max_mr_total);
	assert_int_equal(attr.attr_max_export_segments, limits->max_segments);
	assert_int_equal(attr.attr_max_import_segments, limits->max_qp);
	assert_int_equal(attr.attr_direct_access_sizes, 0);
	assert_int_equal(attr.attr_max_import_map_size, 0);

	assert_int_equal(rsm_get_controller(NULL, &loopback), RSM_SUCCESS);
	assert_int_equal(rsm_get_controller_attr(loopback, &attr), RSM_SUCCESS);
	/* All that loopback reaches can be mapped; it limits nothing else. */
	zero.attr_page_size = 0x4;
	zero.attr_direct_access_sizes = zero.attr_atomic_sizes = 0xf;
	zero.attr_max_import_map_size = zero.attr_tot_import_map_size = limits->max_mr_bytes;
	assert_memory_equal(&attr, &zero, sizeof(attr));
	assert_int_equal(rsm_release_controller(loopback), RSM_SUCCESS);
}

/* ---- topology ---- */

static void
test_topology(void **state)
{
	rsm_topology_t *topology;
	rsm_connections_t *connections;

	assert_int_equal(rsm_get_interconnect_topology(NULL), RSMERR_BAD_TOPOLOGY_PTR);
	rsm_free_interconnect_topology(NULL);
	mock_on(peer->mock, ONE_MSG_RSM_TOPOLOGY, on_topology, NULL);
	assert_int_equal(rsm_get_interconnect_topology(&topology), RSM_SUCCESS);
	assert_int_equal(topology->topology_hdr.local_nodeid, 1);
	assert_int_equal(topology->topology_hdr.local_cntlr_count, 2);
	connections = topology->connections[0];
	assert_string_equal(connections->hdr.cntlr_name, "other3");
	assert_int_equal(connections->hdr.local_hwaddr, 0x1000);
	assert_int_equal(connections->hdr.remote_cntlr_count, 7);
	for (uint32_t i = 0; i < 7; i++) {
		const rsm_remote_cntlr_t *remote = &connections->remote_cntlr[0] + i;
		char name[16];

		snprintf(name, sizeof(name), "far%u", i);
		assert_int_equal(remote->remote_nodeid, 10 + i);
		assert_string_equal(remote->remote_cntlrname, name);
		assert_int_equal(remote->remote_hwaddr, 0x2000 + i);
		assert_int_equal(remote->connection_state, i % 4 + 1);
	}
	connections = topology->connections[1];
	assert_string_equal(connections->hdr.cntlr_name, "mock0");
	assert_int_equal(connections->hdr.remote_cntlr_count, 0);
	rsm_free_interconnect_topology(topology);

	mock_kill(peer->mock);
	assert_int_equal(rsm_get_interconnect_topology(&topology), RSMERR_CTLR_NOT_PRESENT);
}

/* ---- export ---- */

static void
test_create_arguments(void **state)
{
	rsm_memseg_export_handle_t seg = GARBAGE(rsm_memseg_export_handle_t);
	uint8_t *memory = pages(4);
	uint64_t limit = 1ull << 40;

	/* each wrong argument in the order of the checks, all later ones wrong as well */
	assert_int_equal(rsm_memseg_export_create(NULL, NULL, NULL, 0, 0), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_memseg_export_create(GARBAGE(rsmapi_controller_handle_t), &seg, memory, PAGE, 0),
			 RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_memseg_export_create(controller, NULL, NULL, 0, 0), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, NULL, 0, 0), RSMERR_BAD_ADDR);
	assert_null(seg);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory + 1, 0, 0), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory + 8, PAGE, 0),
			 RSMERR_BAD_MEM_ALIGNMENT);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE + 8, 0),
			 RSMERR_BAD_MEM_ALIGNMENT);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE / 2, 0),
			 RSMERR_BAD_MEM_ALIGNMENT);
	if (mock_welcome(peer->mock)->limits.max_mr_bytes < limit)
		assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, limit, 0),
				 RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, ~0u), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_destroy(NULL), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_destroy(GARBAGE(rsm_memseg_export_handle_t)), RSMERR_BAD_SEG_HNDL);
	munmap(memory, 4 * PAGE);
}

static void
test_create_memory(void **state)
{
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = lonely_pages(4), *map;
	char path[] = "rsm-objects-XXXXXX";
	int fd;

	assert_int_equal(munmap(memory + 3 * PAGE, PAGE), 0);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 4 * PAGE, 0), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory + 3 * PAGE, PAGE, 0),
			 RSMERR_BAD_ADDR);
	assert_int_equal(mprotect(memory + 2 * PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 3 * PAGE, 0), RSMERR_PERM_DENIED);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 2 * PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, 3 * PAGE);

	/* a file on a disk, shared: refused; shared memory: taken.  The build directory is on a disk,
	 * or on tmpfs, where a file is memory. */
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	unlink(path); /* now no filesystem can be asked about its name: taken for a file */
	assert_int_equal(rsm_memseg_export_create(controller, &seg, map, PAGE, 0), RSMERR_BAD_ADDR);
	munmap(map, PAGE);
	close(fd);
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, map, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(map, PAGE);
}

static void
test_create_refused(void **state)
{
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(1);

	mock_refuse(peer->mock, ONE_MSG_MR_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 1);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0),
			 RSMERR_INSUFFICIENT_MEM);
	assert_null(seg);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, PAGE);
}

static void
test_publish_arguments(void **state)
{
	rsmapi_access_entry_t list[65] = {{.ae_node = 1, .ae_permission = 0666}};
	rsm_memseg_id_t id = 0x100, none = 0, good = 0x400000;
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(1);

	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_republish(seg, NULL, 1), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_publish(NULL, NULL, NULL, 1), RSMERR_BAD_SEGID);
	assert_int_equal(rsm_memseg_export_publish(NULL, &id, NULL, 1), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 1), RSMERR_BAD_ACL);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, list, 65), RSMERR_RESERVED_SEGID);
	assert_int_equal(rsm_memseg_export_publish(seg, &none, list, 65), RSMERR_BAD_ACL);
	list[1].ae_node = 65;
	assert_int_equal(rsm_memseg_export_publish(seg, &none, list, 2), RSMERR_BAD_ACL);
	list[1].ae_node = 64;
	list[1].ae_permission = 0667;
	assert_int_equal(rsm_memseg_export_publish(seg, &none, list, 2), RSMERR_BAD_ACL);
	assert_int_equal(rsm_memseg_export_publish(seg, &none, GARBAGE(rsmapi_access_entry_t *), 1),
			 RSMERR_BAD_ADDR);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_PUBLISH), 0);

	list[1].ae_permission = 0;
	assert_int_equal(rsm_memseg_export_publish(seg, &good, list, 2), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSMERR_SEG_ALREADY_PUBLISHED);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 1), RSMERR_BAD_ACL);
	assert_int_equal(rsm_memseg_export_republish(seg, NULL, 1), RSMERR_BAD_ACL);
	list[0].ae_permission = 0700;
	assert_int_equal(rsm_memseg_export_republish(seg, list, 1), RSMERR_BAD_ACL);
	assert_int_equal(rsm_memseg_export_republish(NULL, list, 1), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_unpublish(NULL), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, PAGE);
}

static void
test_publish_ids(void **state)
{
	static const struct {
		rsm_memseg_id_t id;
		int result;
	} cases[] = {
		{1, RSMERR_RESERVED_SEGID},
		{0x0fffff, RSMERR_RESERVED_SEGID},
		{0x100000, RSMERR_RESERVED_SEGID},
		{0x200000, RSMERR_RESERVED_SEGID},
		{0x3fffff, RSMERR_RESERVED_SEGID},
		{0x400000, RSM_SUCCESS},
		{0x5fffff, RSM_SUCCESS},
		{0x7fffffff, RSM_SUCCESS},
		{0x80000000, RSMERR_RESERVED_SEGID},
		{0xffffffff, RSMERR_RESERVED_SEGID},
	};
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(1);
	rsm_memseg_id_t id;

	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0), RSM_SUCCESS);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		id = cases[i].id;
		assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), cases[i].result);
		assert_int_equal(id, cases[i].id);
		if (cases[i].result == RSM_SUCCESS)
			assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	}
	id = 0;
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_int_equal(id, mock_newest(peer->mock, ONE_MSG_RSM_PUBLISH));
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	id = 0x400000;
	mock_refuse(peer->mock, ONE_MSG_RSM_PUBLISH, RSMERR_SEGID_IN_USE, ONE_SUBJECT_SEGMENT, id, 1);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSMERR_SEGID_IN_USE);
	mock_refuse(peer->mock, ONE_MSG_RSM_PUBLISH, -EDQUOT, ONE_SUBJECT_QUOTA, 1, 1);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSMERR_INSUFFICIENT_RESOURCES);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, PAGE);
}

static void
test_publish_messages(void **state)
{
	rsmapi_access_entry_t list[2] = {{.ae_node = 1, .ae_permission = 0624},
					 {.ae_node = 9, .ae_permission = 0}};
	rsm_memseg_id_t id = PEER_SEGMENT;
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(2);
	struct one_mr_create mr;
	struct one_msg msg;
	mode_t mask = umask(027);

	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 2 * PAGE, 0), RSM_SUCCESS);
	umask(mask); /* the mode is that of create */
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_PUBLISH, &msg));
	assert_int_equal(msg.rsm_publish.num_access, 0);
	assert_int_equal(msg.rsm_publish.default_permission, 0750);
	assert_int_equal(msg.rsm_publish.segment, PEER_SEGMENT);
	assert_true(mock_mr(peer->mock, msg.rsm_publish.mr, &mr));
	assert_int_equal(mr.va, (uintptr_t)memory);
	assert_int_equal(mr.length, 2 * PAGE);
	assert_int_equal(mr.access, ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE);
	assert_int_equal(rsm_memseg_export_republish(seg, list, 2), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_REPUBLISH, &msg));
	assert_int_equal(msg.rsm_publish.segment, PEER_SEGMENT);
	assert_int_equal(msg.rsm_publish.num_access, 2);
	assert_int_equal(msg.rsm_publish.access[0].node, 1);
	assert_int_equal(msg.rsm_publish.access[0].permission, 0624);
	assert_int_equal(msg.rsm_publish.access[1].node, 9);
	/* destroy unpublishes */
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_UNPUBLISH, &msg));
	assert_int_equal(msg.rsm_publish.segment, PEER_SEGMENT);
	munmap(memory, 2 * PAGE);
}

static void
test_loopback_rules(void **state)
{
	rsmapi_access_entry_t list[2] = {{.ae_node = 1, .ae_permission = 0666},
					 {.ae_node = 1, .ae_permission = 0666}};
	rsmapi_controller_handle_t loopback;
	rsm_memseg_import_handle_t import;
	rsm_memseg_export_handle_t seg;
	rsm_memseg_id_t id = 0;
	uint8_t *memory = pages(1);
	struct one_msg msg;

	assert_int_equal(rsm_get_controller(NULL, &loopback), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_create(loopback, &seg, memory, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, list, 2), RSMERR_BAD_ACL);
	list[0].ae_node = 2;
	assert_int_equal(rsm_memseg_export_publish(seg, &id, list, 1), RSMERR_BAD_ACL);
	list[0].ae_node = 1;
	assert_int_equal(rsm_memseg_export_publish(seg, &id, list, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_connect(loopback, 2, id, RSM_PERM_READ, &import),
			 RSMERR_CTLR_NOT_PRESENT);
	assert_null(import);
	assert_int_equal(rsm_memseg_import_connect(loopback, 1, id, RSM_PERM_READ, &import), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_CONNECT, &msg));
	assert_int_equal(msg.rsm_connect.flags, ONE_RSM_LOOPBACK);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	peer_forget(peer);
	assert_int_equal(rsm_release_controller(loopback), RSM_SUCCESS);
	munmap(memory, PAGE);
}

/* ---- local memory handles ---- */

static void
test_localmem(void **state)
{
	rsm_localmemory_handle_t handle;
	rsmapi_controller_handle_t loopback;
	caddr_t memory = (caddr_t)lonely_pages(3);
	struct one_mr_create mr;

	assert_int_equal(rsm_create_localmemory_handle(NULL, NULL, memory + 8, 0), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_create_localmemory_handle(NULL, NULL, memory, 0), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_create_localmemory_handle(controller, NULL, memory, 0),
			 RSMERR_BAD_LOCALMEM_HNDL);
	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, memory, 0), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, memory, SIZE_MAX),
			 RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, NULL, PAGE), RSMERR_BAD_ADDR);
	munmap(memory + 2 * PAGE, PAGE);
	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, memory, 3 * PAGE),
			 RSMERR_BAD_ADDR);
	mock_refuse(peer->mock, ONE_MSG_MR_CREATE, -ENOMEM, ONE_SUBJECT_MEMORY, 0, 1);
	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, memory, PAGE),
			 RSMERR_INSUFFICIENT_MEM);

	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, memory, PAGE + 1), RSM_SUCCESS);
	assert_true(mock_mr(peer->mock, mock_newest(peer->mock, ONE_MSG_MR_CREATE), &mr));
	assert_int_equal(mr.length, 2 * PAGE); /* rounded up */

	assert_int_equal(rsm_get_controller(NULL, &loopback), RSM_SUCCESS);
	assert_int_equal(rsm_free_localmemory_handle(NULL, handle), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_free_localmemory_handle(loopback, handle), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_free_localmemory_handle(controller, NULL), RSMERR_BAD_LOCALMEM_HNDL);
	assert_int_equal(rsm_free_localmemory_handle(controller, handle), RSM_SUCCESS);
	assert_int_equal(rsm_free_localmemory_handle(controller, handle), RSMERR_BAD_LOCALMEM_HNDL);
	assert_int_equal(rsm_release_controller(loopback), RSM_SUCCESS);
	munmap(memory, 2 * PAGE);
}

/* ---- connecting ---- */

static void
test_connect_arguments(void **state)
{
	rsm_memseg_import_handle_t import = GARBAGE(rsm_memseg_import_handle_t);

	assert_int_equal(rsm_memseg_import_connect(NULL, 99, 0, 1, NULL), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_memseg_import_connect(controller, 99, 0, 1, NULL), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_connect(controller, 99, 0, 0700, &import), RSMERR_PERM_DENIED);
	assert_int_equal(rsm_memseg_import_connect(controller, 99, 0, 04, &import), RSMERR_PERM_DENIED);
	assert_int_equal(rsm_memseg_import_connect(controller, 64, 0, 0400, &import),
			 RSMERR_REMOTE_NODE_UNREACHABLE);
	assert_null(import);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_CONNECT), 0);
	assert_int_equal(rsm_memseg_import_disconnect(NULL), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_disconnect(GARBAGE(rsm_memseg_import_handle_t)),
			 RSMERR_BAD_SEG_HNDL);
}

static void
test_connect_outcomes(void **state)
{
	static const int outcomes[] = {
		RSMERR_SEG_NOT_PUBLISHED,  RSMERR_SEG_NOT_PUBLISHED_TO_NODE,
		RSMERR_PERM_DENIED,        RSMERR_REMOTE_NODE_UNREACHABLE,
		RSMERR_INTERRUPTED,        RSMERR_CONN_ABORTED,
		RSMERR_BAD_DRIVER_VERSION,
	};
	rsm_memseg_import_handle_t import;
	struct one_msg msg;

	for (uint32_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
		atomic_store(&peer->outcome, outcomes[i]);
		assert_int_equal(
			rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, 0600, &import),
			outcomes[i]);
		assert_null(import);
		assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_DISCONNECT), i + 1);
		assert_int_equal(mock_count(peer->mock, ONE_MSG_CQ_FREE),
				 2 * (i + 1)); /* completions, signals */
	}
	atomic_store(&peer->outcome, RSM_SUCCESS);
	mock_refuse(peer->mock, ONE_MSG_RSM_CONNECT, -EDQUOT, ONE_SUBJECT_QUOTA, 1, 1);
	assert_int_equal(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, 0600, &import),
			 RSMERR_INSUFFICIENT_RESOURCES);
	mock_refuse(peer->mock, ONE_MSG_RSM_CONNECT, RSMERR_REMOTE_NODE_UNREACHABLE, ONE_SUBJECT_ADDRESS, 1,
		    1);
	assert_int_equal(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, 0600, &import),
			 RSMERR_REMOTE_NODE_UNREACHABLE);
	mock_refuse(peer->mock, ONE_MSG_CQ_CREATE, -ENOMEM, ONE_SUBJECT_QUOTA, 1, 1);
	assert_int_equal(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, 0600, &import),
			 RSMERR_INSUFFICIENT_MEM);

	assert_int_equal(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, 0600, &import),
			 RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_CONNECT, &msg));
	assert_int_equal(msg.rsm_connect.node, PEER_NODE);
	assert_int_equal(msg.rsm_connect.segment, PEER_SEGMENT);
	assert_int_equal(msg.rsm_connect.permission, 0600);
	assert_int_equal(msg.rsm_connect.flags, 0);
	assert_int_equal(msg.rsm_connect.pz, mock_newest(peer->mock, ONE_MSG_PZ_CREATE));
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSMERR_BAD_SEG_HNDL);
}

/* ---- fork ---- */

static int
in_child(rsm_memseg_export_handle_t published, rsm_memseg_export_handle_t bound,
	 rsm_memseg_import_handle_t import)
{
	rsm_memseg_id_t id = 0x400000, reserved = 1;
	rsmapi_controller_handle_t own, again;
	rsm_memseg_export_handle_t seg;
	uint64_t word = 1;
	uint8_t *memory = pages(1);

	if (rsm_memseg_export_publish(published, &id, NULL, 0) != RSMERR_SEG_ALREADY_PUBLISHED ||
	    rsm_memseg_export_publish(bound, &reserved, NULL, 0) != RSMERR_RESERVED_SEGID ||
	    rsm_memseg_export_publish(bound, &id, NULL, 0) != RSMERR_NOT_CREATOR)
		return 1;
	if (rsm_memseg_export_republish(published, NULL, 0) != RSMERR_NOT_CREATOR ||
	    rsm_memseg_export_republish(bound, NULL, 0) != RSMERR_SEG_NOT_PUBLISHED)
		return 2;
	if (rsm_memseg_export_unpublish(published) != RSMERR_NOT_CREATOR ||
	    rsm_memseg_export_unpublish(bound) != RSMERR_SEG_NOT_PUBLISHED)
		return 3;
	if (rsm_memseg_import_put64(import, 0, &word, 1) != RSMERR_CONN_ABORTED ||
	    rsm_memseg_import_disconnect(import) != RSM_SUCCESS ||
	    rsm_memseg_import_disconnect(import) != RSMERR_BAD_SEG_HNDL)
		return 4;
	if (rsm_memseg_export_destroy(published) != RSM_SUCCESS ||
	    rsm_memseg_export_destroy(published) != RSMERR_BAD_SEG_HNDL)
		return 5;
	/* an attachment of its own */
	if (rsm_get_controller(port, &own) != RSM_SUCCESS || own == controller ||
	    rsm_get_controller(port, &again) != RSM_SUCCESS || again != own)
		return 6;
	if (rsm_memseg_export_create(own, &seg, memory, PAGE, 0) != RSM_SUCCESS ||
	    rsm_memseg_export_publish(seg, &id, NULL, 0) != RSM_SUCCESS ||
	    rsm_memseg_export_destroy(seg) != RSM_SUCCESS)
		return 7;
	return 0;
}

static void
test_fork(void **state)
{
	rsm_memseg_export_handle_t published, bound;
	rsm_memseg_import_handle_t import;
	rsm_memseg_id_t id = PEER_SEGMENT;
	uint8_t *memory = pages(2);
	uint32_t unpublished;
	int status;
	pid_t pid;

	assert_int_equal(rsm_memseg_export_create(controller, &published, memory, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_create(controller, &bound, memory + PAGE, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(published, &id, NULL, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, 0600, &import),
			 RSM_SUCCESS);
	unpublished = mock_count(peer->mock, ONE_MSG_RSM_UNPUBLISH);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(in_child(published, bound, import));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	/* the child's own segment was unpublished, the parent's was not */
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_UNPUBLISH), unpublished + 1);
	assert_int_equal(rsm_memseg_export_unpublish(published), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(published), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(bound), RSM_SUCCESS);
	munmap(memory, 2 * PAGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_controller_names),
		TEST(test_controller_spelling),
		TEST(test_controller_counting),
		TEST(test_controller_refused),
		TEST(test_controller_attr),
		TEST(test_topology),
		TEST(test_create_arguments),
		TEST(test_create_memory),
		TEST(test_create_refused),
		TEST(test_publish_arguments),
		TEST(test_publish_ids),
		TEST(test_publish_messages),
		TEST(test_loopback_rules),
		TEST(test_localmem),
		TEST(test_connect_arguments),
		TEST(test_connect_outcomes),
		TEST(test_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
