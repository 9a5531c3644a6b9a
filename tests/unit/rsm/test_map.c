/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings, and transfers through them, which take no lock and send nothing to the data plane. */
#include "connected.h"

/* Maps the peer's memory next, as the data plane would. */
static bool
on_map(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
       struct one_reply *reply, void *user)
{
	reply->rsm_mapped = (struct one_rsm_mapped){.offset = 0, .length = *(uint64_t *)user};
	return true;
}

static uint64_t mappable = SIZE;

static void
serve_maps(void)
{
	mappable = SIZE;
	mock_on(peer->mock, ONE_MSG_RSM_MAP, on_map, &mappable);
	mock_give_fd(peer->mock, ONE_MSG_RSM_MAP, peer->fd);
}

static int
map(rsm_memseg_import_handle_t handle, rsm_permission_t perm, off_t offset, size_t length, uint8_t **address)
{
	return rsm_memseg_import_map(handle, (void **)address, RSM_MAP_NONE, perm, offset, length);
}

/* ---- arguments ---- */

static void
test_order_of_checks(void **state)
{
	rsm_memseg_import_handle_t reader = connect_with(RSM_PERM_READ);
	void *odd = (void *)0x100008, *address = NULL;
	uint8_t *window;

	serve_maps();
	/* Each wrong argument in the order of checks, with later ones wrong, too. */
	assert_int_equal(rsm_memseg_import_map(NULL, NULL, RSM_MAP_FIXED, 0700, 8, 0), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_map(reader, NULL, RSM_MAP_FIXED, 0700, 8, 0), RSMERR_BAD_ADDR);
	assert_int_equal(
		rsm_memseg_import_map(GARBAGE(rsm_memseg_import_handle_t), &odd, RSM_MAP_FIXED, 0700, 8, 0),
		RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_map(reader, &odd, RSM_MAP_FIXED, 0700, 8, 0), RSMERR_BAD_PERMS);
	assert_int_equal(rsm_memseg_import_map(reader, &odd, RSM_MAP_FIXED, 0, 8, 0), RSMERR_BAD_PERMS);
	assert_int_equal(rsm_memseg_import_map(reader, &odd, RSM_MAP_FIXED, RSM_PERM_RDWR, 8, 0),
			 RSMERR_BAD_PERMS);
	assert_int_equal(rsm_memseg_import_map(reader, &odd, RSM_MAP_FIXED, RSM_PERM_READ, 8, 0),
			 RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_map(reader, &odd, RSM_MAP_FIXED, RSM_PERM_READ, 8, SIZE),
			 RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_map(reader, &address, RSM_MAP_NONE, RSM_PERM_READ, PAGE, SIZE_MAX),
			 RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_map(reader, &odd, RSM_MAP_FIXED, RSM_PERM_READ, 8, PAGE),
			 RSMERR_BAD_MEM_ALIGNMENT);
	assert_int_equal(rsm_memseg_import_map(reader, &odd, RSM_MAP_FIXED, RSM_PERM_READ, 0, PAGE),
			 RSMERR_BAD_MEM_ALIGNMENT);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_MAP), 0);
	/* A refusal holds no resources: the next call works. */
	assert_int_equal(map(reader, RSM_PERM_READ, 0, SIZE, &window), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_map(reader, &odd, RSM_MAP_FIXED, 0700, 8, 0),
			 RSMERR_SEG_ALREADY_MAPPED);
	assert_int_equal(rsm_memseg_import_disconnect(reader), RSMERR_SEG_STILL_MAPPED);
	assert_int_equal(rsm_memseg_import_unmap(reader), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_unmap(reader), RSMERR_SEG_NOT_MAPPED);
	assert_int_equal(rsm_memseg_import_unmap(NULL), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_disconnect(reader), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_unmap(reader), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(map(reader, RSM_PERM_READ, 0, SIZE, &window), RSMERR_BAD_SEG_HNDL);
}

/* Refusals of the data plane, and invalid replies. */
static void
test_refused(void **state)
{
	static const struct {
		int error, expected;
	} answers[] = {
		{RSMERR_MAP_FAILED, RSMERR_MAP_FAILED},
		{RSMERR_CONN_ABORTED, RSMERR_CONN_ABORTED},
		{RSMERR_BAD_PERMS, RSMERR_BAD_PERMS},
		{RSMERR_INSUFFICIENT_RESOURCES, RSMERR_INSUFFICIENT_RESOURCES},
		{-EMFILE, RSMERR_INSUFFICIENT_RESOURCES},
	};
	uint8_t *window = NULL;
	int fd;

	serve_maps();
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		mock_refuse(peer->mock, ONE_MSG_RSM_MAP, answers[i].error, ONE_SUBJECT_SEGMENT, 0, 1);
		assert_int_equal(map(import, RSM_PERM_RDWR, 0, PAGE, &window), answers[i].expected);
	}
	mock_give_fd(peer->mock, ONE_MSG_RSM_MAP, -1);
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, PAGE, &window), RSMERR_MAP_FAILED);
	serve_maps();
	mappable = SIZE - PAGE; /* a file that is shorter than the segment */
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, PAGE, &window), RSMERR_MAP_FAILED);
	mappable = 2 * SIZE; /* claims to be longer than the file */
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, PAGE, &window), RSMERR_MAP_FAILED);
	mappable = SIZE;
	fd = memfd_create("shrinks", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	mock_give_fd(peer->mock, ONE_MSG_RSM_MAP, fd);
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, PAGE, &window), RSMERR_MAP_FAILED);
	close(fd);
	assert_null(window);
	assert_int_equal(rsm_memseg_import_unmap(import), RSMERR_SEG_NOT_MAPPED);
	peer_abort(peer, RSMERR_CONN_ABORTED);
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, PAGE, &window), RSMERR_CONN_ABORTED);
}

/* ---- transfers ---- */

static void
test_in_the_caller(void **state)
{
	uint64_t words[3] = {1, 2, 3}, back[3] = {0};
	uint8_t *window = NULL, *data = pattern(100001, 3);
	rsm_iovec_t piece = {.io_type = RSM_VA_TYPE, .remote_offset = 5 * PAGE, .transfer_length = 1000};
	rsm_scat_gath_t sg = {.io_request_count = 1, .remote_handle = import, .iovec = &piece};

	serve_maps();
	assert_int_equal(map(import, RSM_PERM_RDWR, PAGE, 40 * PAGE + 100, &window), RSM_SUCCESS);
	assert_int_equal(window[0], peer->memory[PAGE]);
	assert_int_equal(rsm_memseg_import_put64(import, PAGE + 8, words, 3), RSM_SUCCESS);
	assert_memory_equal(peer->memory + PAGE + 8, words, sizeof(words));
	assert_int_equal(rsm_memseg_import_get64(import, PAGE + 8, back, 3), RSM_SUCCESS);
	assert_memory_equal(back, words, sizeof(words));
	assert_int_equal(rsm_memseg_import_put(import, 2 * PAGE + 1, data, 100001), RSM_SUCCESS);
	assert_memory_equal(peer->memory + 2 * PAGE + 1, data, 100001);
	piece.local.vaddr = (caddr_t)data;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	assert_memory_equal(peer->memory + 5 * PAGE, data, 1000);
	assert_int_equal(peer->ops, 0);
	/* Outside of the window, though inside the segment. */
	assert_int_equal(rsm_memseg_import_put64(import, PAGE - 8, words, 1), RSMERR_BAD_OFFSET);
	assert_int_equal(rsm_memseg_import_put64(import, 41 * PAGE + 96, words, 1), RSMERR_BAD_OFFSET);
	assert_int_equal(rsm_memseg_import_get(import, -8, back, 8), RSMERR_BAD_OFFSET);
	assert_int_equal(rsm_memseg_import_get(import, PAGE, back, SIZE_MAX), RSMERR_BAD_OFFSET);
	assert_int_equal(rsm_memseg_import_put64(import, PAGE, words, ~0ul / 8 + 2), RSMERR_BAD_OFFSET);
	assert_int_equal(rsm_memseg_import_put64(import, PAGE + 4, words, 1), RSMERR_BAD_MEM_ALIGNMENT);
	assert_int_equal(rsm_memseg_import_put64(import, PAGE, NULL, 1), RSMERR_BAD_ADDR);
	piece.remote_offset = 0;
	assert_int_equal(rsm_memseg_import_getv(&sg), RSMERR_BAD_OFFSET);
	assert_int_equal(sg.io_residual_count, 1);
	assert_int_equal(rsm_memseg_import_destroy_barrier(&barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put64(import, PAGE, words, 1), RSMERR_BARRIER_UNINITIALIZED);
	assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_unmap(import), RSM_SUCCESS);
	/* Transfers go through the data plane again. */
	assert_int_equal(rsm_memseg_import_put64(import, 0, words, 1), RSM_SUCCESS);
	assert_int_equal(peer->ops, 1);
	free(data);
}

/* Invalid local memory, and a fixed address where nothing can be mapped. */
static void
test_bad_addresses(void **state)
{
	uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *window = NULL, *hole = pages + PAGE;
	void *beyond = (void *)(UINTPTR_MAX - (PAGE - 1));

	serve_maps();
	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(hole, PAGE, PROT_NONE), 0);
	assert_int_equal(rsm_memseg_import_map(import, &beyond, RSM_MAP_FIXED, RSM_PERM_RDWR, 0, PAGE),
			 RSMERR_BAD_ADDR);
	assert_ptr_equal(beyond, (void *)(UINTPTR_MAX - (PAGE - 1)));
	assert_int_equal(rsm_memseg_import_unmap(import), RSMERR_SEG_NOT_MAPPED);
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, SIZE, &window), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put64(import, 0, (uint64_t *)(void *)hole, 1), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_import_get64(import, 0, (uint64_t *)(void *)hole, 1), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_import_get(import, 0, hole - 1, 2), RSMERR_BAD_ADDR);
	assert_int_equal(peer->ops, 0);
	assert_int_equal(rsm_memseg_import_unmap(import), RSM_SUCCESS);
	munmap(pages, 2 * PAGE);
}

/* A read-only window: puts go through the data plane. */
static void
test_reading_window(void **state)
{
	uint8_t *window = NULL;
	uint64_t word = 7;

	serve_maps();
	assert_int_equal(map(import, RSM_PERM_READ, 0, SIZE, &window), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put64(import, 64, &word, 1), RSM_SUCCESS);
	assert_int_equal(peer->ops, 1);
	word = 0;
	assert_int_equal(rsm_memseg_import_get64(import, 64, &word, 1), RSM_SUCCESS);
	assert_int_equal(word, 7);
	assert_int_equal(peer->ops, 1);
	assert_int_equal(rsm_memseg_import_unmap(import), RSM_SUCCESS);
}

static void
test_withdrawn(void **state)
{
	uint8_t *window = NULL;
	uint64_t word = 7;

	serve_maps();
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, SIZE, &window), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), RSM_SUCCESS);
	peer_withdraw(peer);
	/* Only the close reports the withdrawal. */
	assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_get64(import, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSMERR_CONN_ABORTED);
	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_IMPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), RSMERR_CONN_ABORTED);
	assert_int_equal(rsm_memseg_import_get64(import, 0, &word, 1), RSMERR_CONN_ABORTED);
	window[0] = 1; /* does not fault */
	assert_int_equal(rsm_memseg_import_unmap(import), RSM_SUCCESS);
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, SIZE, &window), RSMERR_CONN_ABORTED);
}

/* ---- threads ---- */

#define THREADS 4u
static _Atomic bool done;

#define TEARS 300000u

/* Puts elements of equal bytes, one value after the other. */
static void *
put_elements(void *arg)
{
	uint32_t size = (uint32_t)(uintptr_t)arg;
	int result = RSM_SUCCESS;

	for (uint32_t i = 0; i < TEARS && result == RSM_SUCCESS; i++) {
		uint64_t word = 0x0101010101010101ull * (i & 0xff);
		uint16_t w16 = (uint16_t)word;
		uint32_t w32 = (uint32_t)word;

		result = size == 2   ? rsm_memseg_import_put16(import, 0, &w16, 1)
			 : size == 4 ? rsm_memseg_import_put32(import, 0, &w32, 1)
				     : rsm_memseg_import_put64(import, 0, &word, 1);
	}
	atomic_store(&done, true);
	return (void *)(intptr_t)result;
}

static bool
is_whole(uint64_t word, uint32_t size)
{
	return word == (0x0101010101010101ull >> (64 - 8 * size)) * (word & 0xff);
}

/* attr_atomic_sizes: neither the exporter nor a get sees an element half written. */
static void
test_elements_are_whole(void **state)
{
	uint8_t *window = NULL;

	serve_maps();
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, SIZE, &window), RSM_SUCCESS);
	for (uint32_t size = 2; size <= 8; size *= 2) {
		uint32_t torn = 0;
		pthread_t thread;
		void *result;

		memset(peer->memory, 0, 8);
		atomic_store(&done, false);
		assert_int_equal(pthread_create(&thread, NULL, put_elements, (void *)(uintptr_t)size), 0);
		while (!atomic_load(&done)) {
			uint64_t here = 0, got = 0;

			if (size == 2) {
				here = *(volatile uint16_t *)(void *)peer->memory;
				rsm_memseg_import_get16(import, 0, (uint16_t *)(void *)&got, 1);
			} else if (size == 4) {
				here = *(volatile uint32_t *)(void *)peer->memory;
				rsm_memseg_import_get32(import, 0, (uint32_t *)(void *)&got, 1);
			} else {
				here = *(volatile uint64_t *)(void *)peer->memory;
				rsm_memseg_import_get64(import, 0, &got, 1);
			}
			torn += !is_whole(here, size) + !is_whole(got, size);
		}
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_int_equal((intptr_t)result, RSM_SUCCESS);
		assert_int_equal(torn, 0);
	}
	assert_int_equal(peer->ops, 0);
	assert_int_equal(rsm_memseg_import_unmap(import), RSM_SUCCESS);
}

/* Each thread accesses a part of its own, until the segment is withdrawn. */
static void *
hammer(void *arg)
{
	uint64_t base = (uintptr_t)arg * 65536, value, back;
	int error;

	for (uint64_t i = 0;; i++) {
		off_t at = (off_t)(base + i % 1000 * 8);

		value = base + i;
		error = rsm_memseg_import_put64(import, at, &value, 1);
		if (error == RSM_SUCCESS)
			error = rsm_memseg_import_get64(import, at, &back, 1);
		if (error != RSM_SUCCESS)
			break;
		if (back != value)
			return (void *)1;
	}
	return error == RSMERR_CONN_ABORTED ? NULL : (void *)2;
}

/* Republishes again and again what fast accesses rely on. */
static void *
trouble(void *arg)
{
	rsmapi_barrier_t other = {0};
	uint64_t word = 0;

	while (!atomic_load(&done)) {
		if (rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &other) != RSM_SUCCESS ||
		    rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT) != RSM_SUCCESS ||
		    rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_IMPLICIT) != RSM_SUCCESS ||
		    rsm_memseg_import_put64(import, SIZE, &word, 1) != RSMERR_BAD_OFFSET)
			return (void *)1;
	}
	return NULL;
}

static void
test_threads(void **state)
{
	pthread_t threads[THREADS], troubling;
	uint8_t *window = NULL;
	void *failed;

	serve_maps();
	atomic_store(&done, false);
	assert_int_equal(map(import, RSM_PERM_RDWR, 0, SIZE, &window), RSM_SUCCESS);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
	assert_int_equal(pthread_create(&troubling, NULL, trouble, NULL), 0);
	usleep(300000);
	peer_withdraw(peer);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	atomic_store(&done, true);
	assert_int_equal(pthread_join(troubling, &failed), 0);
	assert_null(failed);
	assert_int_equal(peer->ops, 0);
	assert_int_equal(rsm_memseg_import_unmap(import), RSM_SUCCESS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order_of_checks), TEST(test_refused),       TEST(test_in_the_caller),
		TEST(test_reading_window),  TEST(test_withdrawn),     TEST(test_elements_are_whole),
		TEST(test_threads),         TEST(test_bad_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
