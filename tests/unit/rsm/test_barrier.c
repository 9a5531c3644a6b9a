/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers and their modes. */
#include "connected.h"

static void
test_barrier_states(void **state)
{
	rsmapi_barrier_t b = {0};
	rsm_barrier_mode_t mode = RSM_BARRIER_MODE_EXPLICIT;
	uint32_t word = 1;

	assert_int_equal(rsm_memseg_import_init_barrier(NULL, RSM_BAR_DEFAULT, &b), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, NULL),
			 RSMERR_BAD_BARRIER_PTR);
	assert_int_equal(rsm_memseg_import_open_barrier(NULL), RSMERR_BAD_BARRIER_PTR);
	assert_int_equal(rsm_memseg_import_order_barrier(NULL), RSMERR_BAD_BARRIER_PTR);
	assert_int_equal(rsm_memseg_import_close_barrier(NULL), RSMERR_BAD_BARRIER_PTR);
	assert_int_equal(rsm_memseg_import_destroy_barrier(NULL), RSMERR_BAD_BARRIER_PTR);
	assert_int_equal(rsm_memseg_import_open_barrier(&b), RSMERR_BARRIER_UNINITIALIZED);
	assert_int_equal(rsm_memseg_import_order_barrier(&b), RSMERR_BARRIER_UNINITIALIZED);
	assert_int_equal(rsm_memseg_import_close_barrier(&b), RSMERR_BARRIER_UNINITIALIZED);
	assert_int_equal(rsm_memseg_import_destroy_barrier(&b), RSMERR_BARRIER_UNINITIALIZED);

	for (unsigned type = 0; type <= 0x12; type++)
		assert_int_equal(rsm_memseg_import_init_barrier(import, (rsm_barrier_type_t)type, &b),
				 RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_order_barrier(&b), RSMERR_BARRIER_NOT_OPENED);
	assert_int_equal(rsm_memseg_import_close_barrier(&b), RSMERR_BARRIER_NOT_OPENED);
	assert_int_equal(rsm_memseg_import_open_barrier(&b), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_order_barrier(&b), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_close_barrier(&b), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_close_barrier(&b), RSMERR_BARRIER_NOT_OPENED);
	assert_int_equal(rsm_memseg_import_open_barrier(&b), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&b), RSM_SUCCESS); /* begins a new span */
	assert_int_equal(rsm_memseg_import_close_barrier(&b), RSM_SUCCESS);

	/* Implicit mode uses the barrier initialised last. */
	assert_int_equal(rsm_memseg_import_destroy_barrier(&barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put32(import, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_destroy_barrier(&b), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put32(import, 0, &word, 1), RSMERR_BARRIER_UNINITIALIZED);

	assert_int_equal(rsm_memseg_import_get_mode(NULL, &mode), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_get_mode(import, NULL), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_import_get_mode(import, &mode), RSM_SUCCESS);
	assert_int_equal(mode, RSM_BARRIER_MODE_IMPLICIT);
	assert_int_equal(rsm_memseg_import_set_mode(import, (rsm_barrier_mode_t)2), RSMERR_BAD_MODE);
	assert_int_equal(rsm_memseg_import_set_mode(NULL, (rsm_barrier_mode_t)2), RSMERR_BAD_SEG_HNDL);
	/* Explicit mode needs no barrier. */
	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_get_mode(import, &mode), RSM_SUCCESS);
	assert_int_equal(mode, RSM_BARRIER_MODE_EXPLICIT);
	word = 77;
	assert_int_equal(rsm_memseg_import_put32(import, 0, &word, 1), RSM_SUCCESS);
	word = 0;
	assert_int_equal(rsm_memseg_import_get32(import, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(word, 77); /* without an open span the get has completed */
}

/* A barrier that is initialised again, for the same import or another, ends its open span. Without a span, a
 * get waits for its data. */
static void
test_initialised_again(void **state)
{
	rsm_memseg_import_handle_t other = connect_with(RSM_PERM_RDWR);
	rsmapi_barrier_t b = {0}, copy;
	uint8_t *data = pattern(4096, 3), *back = calloc(1, 4096);

	memcpy(peer->memory, data, 4096);
	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &b), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_open_barrier(&b), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_init_barrier(i == 0 ? import : other, RSM_BAR_DEFAULT, &b),
				 RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_close_barrier(&b), RSMERR_BARRIER_NOT_OPENED);
		memset(back, 0, 4096);
		atomic_store(&peer->delay_us, 20000);
		assert_int_equal(rsm_memseg_import_get(import, 0, back, 4096), RSM_SUCCESS);
		atomic_store(&peer->delay_us, 0);
		assert_memory_equal(back, data, 4096);
	}
	/* A copy of an open barrier is not open. */
	assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &b), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&b), RSM_SUCCESS);
	copy = b;
	assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &copy), RSM_SUCCESS);
	peer_hold(peer);
	assert_int_equal(rsm_memseg_import_get(import, 0, back, 4096), RSM_SUCCESS);
	atomic_store(&peer->hold, false);
	assert_int_equal(rsm_memseg_import_close_barrier(&b), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_disconnect(other), RSM_SUCCESS);
	free(data);
	free(back);
}

static void
test_barrier_after_disconnect(void **state)
{
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	import = NULL;
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_destroy_barrier(&barrier), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_destroy_barrier(&barrier), RSMERR_BARRIER_UNINITIALIZED);
}

/* Explicit mode waits only at order and close. */
static void
test_explicit_pipelines(void **state)
{
	uint8_t *data = pattern(200 * 512, 1), *back = calloc(1, 200 * 512);

	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	peer_hold(peer);
	memset(peer->memory, 0, 200 * 512);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t word = i;

		assert_int_equal(rsm_memseg_import_put(import, i * 512, data + i * 512, 512), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_put64(import, 100 * 512 + i * 8, &word, 1), RSM_SUCCESS);
		/* the data has been copied */
		memset(data + i * 512, (int)i, 512);
	}
	assert_int_equal(peer->ops, 0);
	assert_int_equal(mock_posted(peer->mock, mock_newest(peer->mock, ONE_MSG_RSM_CONNECT), false), 200);
	atomic_store(&peer->hold, false);
	assert_int_equal(rsm_memseg_import_order_barrier(&barrier), RSM_SUCCESS);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(((uint64_t *)(void *)(peer->memory + 100 * 512))[i], i);
	assert_true(peer->suppressed > 150); /* few completions */
	assert_true(peer->ops >= 200);

	peer_hold(peer);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(rsm_memseg_import_get(import, i * 512, back + i * 512, 512), RSM_SUCCESS);
	atomic_store(&peer->hold, false);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSM_SUCCESS);
	assert_memory_equal(back, peer->memory, 100 * 512);
	free(data);
	free(back);
}

/* More than the queue and the staging ring hold: calls wait for room, and all data arrives. */
static void
test_explicit_volume(void **state)
{
	uint8_t *data = pattern(SIZE, 77), *back = calloc(1, SIZE);
	uint32_t seed = 1;

	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	for (size_t at = 0; at < SIZE;) {
		size_t n = 1 + (seed = seed * 1103515245 + 12345) % (at % 3 == 0 ? 70000 : 300);

		n = n < SIZE - at ? n : SIZE - at;
		assert_int_equal(rsm_memseg_import_put(import, (off_t)at, data + at, n), RSM_SUCCESS);
		at += n;
	}
	assert_int_equal(rsm_memseg_import_order_barrier(&barrier), RSM_SUCCESS);
	assert_memory_equal(peer->memory, data, SIZE);
	for (size_t at = 0; at < SIZE;) {
		size_t n = 1 + (seed = seed * 1103515245 + 12345) % (at % 3 == 0 ? 70000 : 300);

		n = n < SIZE - at ? n : SIZE - at;
		assert_int_equal(rsm_memseg_import_get(import, (off_t)at, back + at, n), RSM_SUCCESS);
		at += n;
	}
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSM_SUCCESS);
	assert_memory_equal(back, data, SIZE);
	free(data);
	free(back);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_barrier_states),           TEST(test_initialised_again),
		TEST(test_barrier_after_disconnect), TEST(test_explicit_pipelines),
		TEST(test_explicit_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
