/* SPDX-License-Identifier: BSD-3-Clause */
/* Controllers and topology: names, references, attributes, refusals. */
#include <sys/resource.h>

#include "fixture.h"

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

/* Names match by type and unit even when nothing is open yet. */
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

static bool
on_endless(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	   struct one_reply *reply, void *user)
{
	reply->rsm_port.num_ports = UINT32_MAX;
	strcpy(reply->rsm_port.name, "other3");
	return true;
}

/* A data plane never has as many ports. */
static void
test_controller_endless(void **state)
{
	rsmapi_controller_handle_t handle;
	char name[] = "nowhere";

	mock_on(peer->mock, ONE_MSG_RSM_TOPOLOGY, on_endless, NULL);
	assert_int_equal(rsm_get_controller(name, &handle), RSMERR_CTLR_NOT_PRESENT);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_TOPOLOGY), 1);
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
	assert_ptr_not_equal(controller, again); /* the stale handle stays recognisable */
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
	/* Loopback can map all that it accesses, and has no other limits. */
	zero.attr_page_size = 0x4;
	zero.attr_direct_access_sizes = zero.attr_atomic_sizes = 0xf;
	zero.attr_max_import_map_size = zero.attr_tot_import_map_size = limits->max_mr_bytes;
	assert_memory_equal(&attr, &zero, sizeof(attr));
	assert_int_equal(rsm_release_controller(loopback), RSM_SUCCESS);
}

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

	mock_refuse(peer->mock, ONE_MSG_RSM_TOPOLOGY, -ENOMEM, ONE_SUBJECT_MEMORY, 0, 1);
	assert_int_equal(rsm_get_interconnect_topology(&topology), RSMERR_INSUFFICIENT_MEM);
	mock_kill(peer->mock);
	assert_int_equal(rsm_get_interconnect_topology(&topology), RSMERR_CTLR_NOT_PRESENT);
}

/* There is no descriptor for the attachment. */
static void
test_no_descriptors(void **state)
{
	rsmapi_controller_handle_t handle;
	rsm_topology_t *topology;
	struct rlimit before, none;
	int asked, got;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	asked = rsm_get_interconnect_topology(&topology);
	got = rsm_get_controller("loopback", &handle);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(asked, RSMERR_INSUFFICIENT_RESOURCES);
	assert_int_equal(got, RSMERR_INSUFFICIENT_RESOURCES);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_controller_names),   TEST(test_controller_spelling),
		TEST(test_controller_endless), TEST(test_controller_counting),
		TEST(test_controller_refused), TEST(test_controller_attr),
		TEST(test_topology),           TEST(test_no_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
