/* SPDX-License-Identifier: BSD-3-Clause */
/* putv and getv. */
#include "connected.h"

static void
test_vector_arguments(void **state)
{
	uint8_t bytes[16] = {0};
	rsm_iovec_t pieces[17] = {
		{.io_type = RSM_VA_TYPE, .local.vaddr = (caddr_t)bytes, .transfer_length = 16}};
	rsm_scat_gath_t sg = {.io_request_count = 0};

	assert_int_equal(rsm_memseg_import_putv(NULL), RSMERR_BAD_SGIO);
	assert_int_equal(rsm_memseg_import_getv(&sg), RSMERR_BAD_SEG_HNDL);
	sg.remote_handle = import;
	sg.iovec = pieces;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_SGIO);
	sg.io_request_count = 17;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_SGIO);
	sg.io_request_count = 1;
	sg.iovec = NULL;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_SGIO);
	sg.iovec = pieces;
	sg.remote_handle = GARBAGE(rsm_memseg_import_handle_t);
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_SEG_HNDL);
	sg.remote_handle = import;
	pieces[0].io_type = 3;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_SGIO);
	pieces[0].io_type = RSM_HANDLE_TYPE;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_SGIO);
	assert_int_equal(sg.io_residual_count, 1);
	pieces[0].io_type = RSM_VA_TYPE;
	pieces[0].local.vaddr = NULL;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_ADDR);
	pieces[0].local.vaddr = (caddr_t)bytes;
	pieces[0].remote_offset = SIZE - 15;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_LENGTH);
	pieces[0].remote_offset = SIZE_MAX;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_LENGTH);
	pieces[0].remote_offset = SIZE - 16;
	assert_int_equal(peer->ops, 0);
	sg.flags = RSM_SIGPOST_NO_ACCUMULATE; /* this flag alone posts nothing */
	assert_int_equal(rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	assert_int_equal(sg.io_residual_count, 0);
	assert_int_equal(peer->signals, 0);
}

static void
test_vector_mixed(void **state)
{
	uint8_t *memory = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *data = pattern(16 * 5000, 3), *back = calloc(16, 5000);
	rsm_localmemory_handle_t handle;
	rsm_iovec_t pieces[16];
	rsm_scat_gath_t sg = {.io_request_count = 16,
			      .io_residual_count = 99,
			      .remote_handle = import,
			      .iovec = pieces,
			      .flags = 0};

	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, (caddr_t)memory, 8 * PAGE),
			 RSM_SUCCESS);
	for (unsigned i = 0; i < 16; i++) {
		size_t len = i == 5 ? 0 : i == 7 ? 3 : 1000 + i * 100;

		pieces[i] = (rsm_iovec_t){.io_type = RSM_VA_TYPE,
					  .local.vaddr = (caddr_t)data,
					  .local_offset = i * 5000,
					  .remote_offset = i * 10001,
					  .transfer_length = len};
		if (i % 2 == 0) {
			memcpy(memory + i * 1999, data + i * 5000, len);
			pieces[i].io_type = RSM_HANDLE_TYPE;
			pieces[i].local.handle = handle;
			pieces[i].local_offset = i * 1999;
		}
	}
	assert_int_equal(rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	assert_int_equal(sg.io_residual_count, 0);
	assert_int_equal(peer->direct, 8);
	for (unsigned i = 0; i < 16; i++) {
		assert_memory_equal(peer->memory + pieces[i].remote_offset, data + i * 5000,
				    pieces[i].transfer_length);
		pieces[i].io_type = RSM_VA_TYPE;
		pieces[i].local.vaddr = (caddr_t)back;
		pieces[i].local_offset = i * 5000;
	}
	assert_int_equal(rsm_memseg_import_getv(&sg), RSM_SUCCESS);
	for (unsigned i = 0; i < 16; i++)
		assert_memory_equal(back + i * 5000, data + i * 5000, pieces[i].transfer_length);
	/* beyond the handle's memory, also by overflow */
	pieces[0].io_type = RSM_HANDLE_TYPE;
	pieces[0].local.handle = handle;
	pieces[0].local_offset = 8 * PAGE - pieces[0].transfer_length + 1;
	assert_int_equal(rsm_memseg_import_getv(&sg), RSMERR_BAD_LENGTH);
	pieces[0].local_offset = SIZE_MAX - 8;
	assert_int_equal(rsm_memseg_import_getv(&sg), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_free_localmemory_handle(controller, handle), RSM_SUCCESS);
	pieces[0].local_offset = 0;
	assert_int_equal(rsm_memseg_import_getv(&sg), RSMERR_BAD_SGIO);
	munmap(memory, 8 * PAGE);
	free(data);
	free(back);
}

static void
test_vector_residual(void **state)
{
	uint8_t *data = pattern(16 * 64, 9);
	rsm_iovec_t pieces[16];
	rsm_scat_gath_t sg = {.io_request_count = 16, .remote_handle = import, .iovec = pieces};

	for (unsigned i = 0; i < 16; i++)
		pieces[i] = (rsm_iovec_t){.io_type = RSM_VA_TYPE,
					  .local.vaddr = (caddr_t)data + i * 64,
					  .remote_offset = i * 64,
					  .transfer_length = 64};
	/* A wrong argument in the middle: pieces before it are done. */
	pieces[10].remote_offset = SIZE;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_LENGTH);
	assert_int_equal(sg.io_residual_count, 6);
	assert_memory_equal(peer->memory, data, 640);
	pieces[10].remote_offset = 640;
	/* A failed transfer in the middle. */
	atomic_store(&peer->fail_after, 5);
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_CONN_ABORTED);
	assert_int_equal(sg.io_residual_count, 11);
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_CONN_ABORTED);
	assert_int_equal(sg.io_residual_count, 16);
	free(data);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_vector_arguments),
		TEST(test_vector_mixed),
		TEST(test_vector_residual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
