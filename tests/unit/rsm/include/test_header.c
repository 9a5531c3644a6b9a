/* SPDX-License-Identifier: BSD-3-Clause */
/* Values, sizes and offsets of the public headers, and the exported names. */
#include <dlfcn.h>
#include <string.h>

#include "../../unit.h"
#include <rsmapi.h>

#define VALUE(name, value) _Static_assert((name) == (value), #name)
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
#define OFFSET(type, field, at) _Static_assert(offsetof(type, field) == (at), #type "." #field)

VALUE(RSM_SUCCESS, 0);
VALUE(RSMERR_BAD_LIBRARY_VERSION, 1);
VALUE(RSMERR_BAD_TOPOLOGY_PTR, 2);
VALUE(RSMERR_BAD_CTLR_HNDL, 3);
VALUE(RSMERR_CTLR_NOT_PRESENT, 4);
VALUE(RSMERR_BAD_SEG_HNDL, 5);
VALUE(RSMERR_SEG_ALREADY_PUBLISHED, 6);
VALUE(RSMERR_SEG_NOT_PUBLISHED, 7);
VALUE(RSMERR_SEG_NOT_PUBLISHED_TO_NODE, 8);
VALUE(RSMERR_SEG_ALREADY_MAPPED, 9);
VALUE(RSMERR_SEG_STILL_MAPPED, 10);
VALUE(RSMERR_SEG_NOT_MAPPED, 11);
VALUE(RSMERR_NOT_CREATOR, 12);
VALUE(RSMERR_BAD_BARRIER_PTR, 13);
VALUE(RSMERR_BAD_SGIO, 14);
VALUE(RSMERR_BAD_LOCALMEM_HNDL, 15);
VALUE(RSMERR_BAD_ADDR, 16);
VALUE(RSMERR_BAD_ADDRESS, 16);
VALUE(RSMERR_BAD_MEM_ALIGNMENT, 17);
VALUE(RSMERR_BAD_OFFSET, 18);
VALUE(RSMERR_MISALIGNED_OFFSET, 19);
VALUE(RSMERR_BAD_LENGTH, 20);
VALUE(RSMERR_BAD_ACL, 21);
VALUE(RSMERR_BAD_SEGID, 22);
VALUE(RSMERR_RESERVED_SEGID, 23);
VALUE(RSMERR_SEGID_IN_USE, 24);
VALUE(RSMERR_BAD_MODE, 25);
VALUE(RSMERR_BAD_PERMS, 26);
VALUE(RSMERR_PERM_DENIED, 27);
VALUE(RSMERR_LOCKS_NOT_SUPPORTED, 28);
VALUE(RSMERR_LOCKS_NOT_ENABLED, 29);
VALUE(RSMERR_REBIND_NOT_ALLOWED, 30);
VALUE(RSMERR_INSUFFICIENT_RESOURCES, 31);
VALUE(RSMERR_INSUFFICIENT_MEM, 32);
VALUE(RSMERR_MAP_FAILED, 33);
VALUE(RSMERR_POLLFD_IN_USE, 34);
VALUE(RSMERR_BARRIER_UNINITIALIZED, 35);
VALUE(RSMERR_BARRIER_OPEN_FAILED, 36);
VALUE(RSMERR_BARRIER_NOT_OPENED, 37);
VALUE(RSMERR_BARRIER_FAILURE, 38);
VALUE(RSMERR_REMOTE_NODE_UNREACHABLE, 39);
VALUE(RSMERR_CONN_ABORTED, 40);
VALUE(RSMERR_INTERRUPTED, 41);
VALUE(RSMERR_TIMEOUT, 42);
VALUE(RSMERR_BAD_APPID, 43);
VALUE(RSMERR_BAD_CONF, 44);
VALUE(RSMERR_SEG_NOT_CONNECTED, 45);
VALUE(RSMERR_INTERNAL_ERROR, 100);
VALUE(RSMERR_BAD_DRIVER_VERSION, 101);
VALUE(RSMERR_BAD_ARGS_ERRORS, 117);
VALUE(RSMERR_UNSUPPORTED_OPERATION, 127);
VALUE(RSMERR_QUEUE_FULL, 134);

VALUE(RSM_VERSION, 5);
VALUE(RSM_PERM_NONE, 0);
VALUE(RSM_PERM_READ, 0400);
VALUE(RSM_PERM_WRITE, 0200);
VALUE(RSM_PERM_RDWR, 0600);
VALUE(RSM_MAX_SGIOREQS, 16);
VALUE(RSM_HANDLE_TYPE, 1);
VALUE(RSM_VA_TYPE, 2);
VALUE(RSM_ALLOW_REBIND, 1);
VALUE(RSM_CREATE_SEG_DONTWAIT, 2);
VALUE(RSM_IMPLICIT_SIGPOST, 1);
VALUE(RSM_SIGPOST_NO_ACCUMULATE, 2);
VALUE(RSM_SIG_POST_NO_ACCUMULATE, 2);
VALUE(RSM_CONNECTION_ACTIVE, 3);
VALUE(MAXNAMELEN, 256);

VALUE(RSM_MAP_NONE, 0);
VALUE(RSM_MAP_FIXED, 1);
VALUE(RSM_MAP_RESERVED, 2);
VALUE(RSM_DAS8, 1);
VALUE(RSM_DAS16, 2);
VALUE(RSM_DAS32, 4);
VALUE(RSM_DAS64, 8);
VALUE(RSM_BARRIER_SEGMENT, 0x01);
VALUE(RSM_BARRIER_NODE, 0x02);
VALUE(RSM_BARRIER_SEGMENT_THREAD, 0x11);
VALUE(RSM_BARRIER_NODE_THREAD, 0x12);
VALUE(RSM_BAR_DEFAULT, RSM_BARRIER_SEGMENT);
VALUE(RSM_BARRIER_MODE_EXPLICIT, 0);
VALUE(RSM_BARRIER_MODE_IMPLICIT, 1);

VALUE(RSM_DRIVER_PRIVATE_ID_BASE, 0);
VALUE(RSM_DRIVER_PRIVATE_ID_END, 0xfffff);
VALUE(RSM_CLUSTER_TRANSPORT_ID_BASE, 0x100000);
VALUE(RSM_CLUSTER_TRANSPORT_ID_END, 0x1fffff);
VALUE(RSM_RSMLIB_ID_BASE, 0x200000);
VALUE(RSM_RSMLIB_ID_END, 0x2fffff);
VALUE(RSM_DLPI_ID_BASE, 0x300000);
VALUE(RSM_DLPI_ID_END, 0x3fffff);
VALUE(RSM_HPC_ID_BASE, 0x400000);
VALUE(RSM_HPC_ID_END, 0x4fffff);
VALUE(RSM_OPS_ID_BASE, 0x500000);
VALUE(RSM_OPS_ID_END, 0x5fffff);
VALUE(RSM_USER_APP_ID_BASE, 0x80000000u);
VALUE(RSM_USER_APP_ID_END, 0xffffffffu);

SIZE(uint_t, 4);
SIZE(ulong_t, 8);
SIZE(offset_t, 8);
SIZE(rsm_addr_t, 8);
SIZE(rsm_node_id_t, 4);
SIZE(rsm_memseg_id_t, 4);
SIZE(rsm_permission_t, 4);

SIZE(rsmapi_controller_attr_t, 64);
OFFSET(rsmapi_controller_attr_t, attr_direct_access_sizes, 0);
OFFSET(rsmapi_controller_attr_t, attr_atomic_sizes, 4);
OFFSET(rsmapi_controller_attr_t, attr_page_size, 8);
OFFSET(rsmapi_controller_attr_t, attr_max_export_segment_size, 16);
OFFSET(rsmapi_controller_attr_t, attr_tot_export_segment_size, 24);
OFFSET(rsmapi_controller_attr_t, attr_max_export_segments, 32);
OFFSET(rsmapi_controller_attr_t, attr_max_import_map_size, 40);
OFFSET(rsmapi_controller_attr_t, attr_tot_import_map_size, 48);
OFFSET(rsmapi_controller_attr_t, attr_max_import_segments, 56);

SIZE(rsmapi_access_entry_t, 8);
OFFSET(rsmapi_access_entry_t, ae_node, 0);
OFFSET(rsmapi_access_entry_t, ae_permission, 4);

SIZE(rsmapi_barrier_t, 24);
OFFSET(rsmapi_barrier_t, seg, 0);
OFFSET(rsmapi_barrier_t, gnum, 8);
OFFSET(rsmapi_barrier_t, privdata, 16);

SIZE(rsm_iovec_t, 40);
OFFSET(rsm_iovec_t, io_type, 0);
OFFSET(rsm_iovec_t, local.handle, 8);
OFFSET(rsm_iovec_t, local.vaddr, 8);
OFFSET(rsm_iovec_t, local_offset, 16);
OFFSET(rsm_iovec_t, remote_offset, 24);
OFFSET(rsm_iovec_t, transfer_length, 32);

SIZE(rsm_scat_gath_t, 48);
OFFSET(rsm_scat_gath_t, local_nodeid, 0);
OFFSET(rsm_scat_gath_t, io_request_count, 8);
OFFSET(rsm_scat_gath_t, io_residual_count, 16);
OFFSET(rsm_scat_gath_t, flags, 24);
OFFSET(rsm_scat_gath_t, remote_handle, 32);
OFFSET(rsm_scat_gath_t, iovec, 40);

SIZE(rsm_topology_hdr_t, 8);
OFFSET(struct rsm_topology_hdr, local_cntlr_count, 4);
SIZE(rsm_connections_hdr_t, 272);
OFFSET(struct rsm_connections_hdr, local_hwaddr, 256);
OFFSET(struct rsm_connections_hdr, remote_cntlr_count, 264);
SIZE(rsm_remote_cntlr_t, 280);
OFFSET(struct rsm_remote_cntlr, remote_cntlrname, 4);
OFFSET(struct rsm_remote_cntlr, remote_hwaddr, 264);
OFFSET(struct rsm_remote_cntlr, connection_state, 272);
SIZE(rsm_connections_t, 552);
OFFSET(struct rsm_connection, remote_cntlr, 272);
SIZE(rsm_topology_t, 16);
OFFSET(struct rsm_topology, connections, 8);
SIZE(rsm_barrier_component_t, 8);
SIZE(rsm_barrier_t, 32);

static void
test_zeroed_mode_is_explicit(void **state)
{
	static rsm_barrier_mode_t mode;

	assert_int_equal(mode, RSM_BARRIER_MODE_EXPLICIT);
}

/* Only the interface is exported, so that internal names cannot clash with an application's. */
static void
test_exports(void **state)
{
	assert_non_null(dlsym(RTLD_DEFAULT, "rsm_memseg_import_put"));
	assert_non_null(dlvsym(RTLD_DEFAULT, "rsm_get_controller", "RSMAPI_2"));
	assert_non_null(dlvsym(RTLD_DEFAULT, "rsm_strerror", "ONESIDE_1"));
	assert_null(dlsym(RTLD_DEFAULT, "rsm_slot_lock"));
	assert_null(dlsym(RTLD_DEFAULT, "one_client_span"));
}

static void
test_names(void **state)
{
	assert_string_equal(rsm_strerror(RSM_SUCCESS), "RSM_SUCCESS");
	assert_string_equal(rsm_strerror(RSMERR_BAD_LIBRARY_VERSION), "RSMERR_BAD_LIBRARY_VERSION");
	assert_string_equal(rsm_strerror(RSMERR_BAD_ADDR), "RSMERR_BAD_ADDR");
	assert_string_equal(rsm_strerror(RSMERR_SEG_NOT_CONNECTED), "RSMERR_SEG_NOT_CONNECTED");
	assert_string_equal(rsm_strerror(RSMERR_INTERNAL_ERROR), "RSMERR_INTERNAL_ERROR");
	assert_string_equal(rsm_strerror(RSMERR_QUEUE_FULL), "RSMERR_QUEUE_FULL");
	for (int error = 0; error <= RSMERR_QUEUE_FULL; error++)
		if (error <= RSMERR_SEG_NOT_CONNECTED || error >= RSMERR_INTERNAL_ERROR)
			assert_int_equal(strncmp(rsm_strerror(error), "RSM", 3), 0);
	assert_string_equal(rsm_strerror(RSMERR_SEG_NOT_CONNECTED + 1), "unknown RSMERR");
	assert_string_equal(rsm_strerror(RSMERR_QUEUE_FULL + 1), "unknown RSMERR");
	assert_string_equal(rsm_strerror(-1), "unknown RSMERR");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zeroed_mode_is_explicit),
		cmocka_unit_test(test_exports),
		cmocka_unit_test(test_names),
	};

	return rsm_get_controller(NULL, NULL) != RSMERR_BAD_CTLR_HNDL || /* links the library in */
	       cmocka_run_group_tests(tests, NULL, NULL);
}
