/* SPDX-License-Identifier: BSD-3-Clause */
/* Local memory handles: arguments, the order of checks, and messages. */
#include "fixture.h"

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
	mock_refuse(peer->mock, ONE_MSG_MR_CREATE, -EOPNOTSUPP, ONE_SUBJECT_MEMORY, 0, 1);
	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, memory, PAGE), RSMERR_BAD_ADDR);
	/* Two refusals: the library releases cached registrations of the memory above, and tries once
	 * more. */
	mock_refuse(peer->mock, ONE_MSG_MR_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 2);
	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, memory, PAGE),
			 RSMERR_INSUFFICIENT_MEM);
	mock_refuse(peer->mock, ONE_MSG_MR_CREATE, -ENOMEM, ONE_SUBJECT_MEMORY, 0, 2);
	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, memory, PAGE),
			 RSMERR_INSUFFICIENT_MEM);
	mock_refuse(peer->mock, ONE_MSG_MR_CREATE, 0, ONE_SUBJECT_NONE, 0, 0);

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_localmem),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
