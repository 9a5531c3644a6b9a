/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting and disconnecting; and both kinds of segments in a forked child. */
#include <sys/wait.h>

#include "fixture.h"

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
				 2 * (i + 1)); /* rings of completions and signals */
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
	if (rsm_memseg_export_rebind(published, memory, 0, PAGE) != RSMERR_NOT_CREATOR)
		return 8;
	if (rsm_memseg_import_put64(import, 0, &word, 1) != RSMERR_CONN_ABORTED ||
	    rsm_memseg_import_disconnect(import) != RSM_SUCCESS ||
	    rsm_memseg_import_disconnect(import) != RSMERR_BAD_SEG_HNDL)
		return 4;
	if (rsm_memseg_export_destroy(published) != RSM_SUCCESS ||
	    rsm_memseg_export_destroy(published) != RSMERR_BAD_SEG_HNDL)
		return 5;
	/* The child has a new attachment. */
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

	assert_int_equal(rsm_memseg_export_create(controller, &published, memory, PAGE, RSM_ALLOW_REBIND),
			 RSM_SUCCESS);
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
	/* The child's own segment was unpublished, the parent's was not. */
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_UNPUBLISH), unpublished + 1);
	assert_int_equal(rsm_memseg_export_unpublish(published), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(published), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(bound), RSM_SUCCESS);
	munmap(memory, 2 * PAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_connect_arguments),
		TEST(test_connect_outcomes),
		TEST(test_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
