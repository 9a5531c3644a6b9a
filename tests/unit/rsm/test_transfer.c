/* SPDX-License-Identifier: BSD-3-Clause */
/* put, get, vectors and barriers over a connection. */
#include <byteswap.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "peer.h"

#define SIZE (8u << 20)
#define PAGE 4096u
#define GARBAGE(type) ((type)(uintptr_t)0x1234567)

static struct peer *peer;
static rsmapi_controller_handle_t controller;
static rsm_memseg_import_handle_t import;
static rsmapi_barrier_t barrier;

static rsm_memseg_import_handle_t
connect_with(rsm_permission_t perm)
{
	rsm_memseg_import_handle_t handle;

	assert_int_equal(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, perm, &handle),
			 RSM_SUCCESS);
	return handle;
}

static int
setup(void **state)
{
	static char port[] = "mock0";

	peer = peer_start(SIZE);
	for (size_t i = 0; i < SIZE; i++)
		peer->memory[i] = (uint8_t)(i * 7 + (i >> 8));
	assert_int_equal(rsm_get_controller(port, &controller), RSM_SUCCESS);
	import = connect_with(RSM_PERM_RDWR);
	memset(&barrier, 0, sizeof(barrier));
	return rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &barrier);
}

static int
teardown(void **state)
{
	atomic_store(&peer->hold, false);
	if (import != NULL)
		assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	peer_forget(peer);
	assert_int_equal(rsm_release_controller(controller), RSM_SUCCESS);
	peer_stop(peer);
	return 0;
}

static uint8_t *
pattern(size_t size, uint8_t seed)
{
	uint8_t *memory = malloc(size + 1);

	for (size_t i = 0; i < size; i++)
		memory[i] = (uint8_t)(seed + i * 13 + (i >> 10));
	return memory;
}

/* ---- arguments ---- */

static void
test_order_of_checks(void **state)
{
	rsm_memseg_import_handle_t reader = connect_with(RSM_PERM_READ);
	uint64_t words[2] = {0};
	uint16_t *odd = (uint16_t *)(void *)((uint8_t *)words + 1);

	assert_int_equal(rsm_memseg_import_put16(NULL, 1, NULL, 1), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_import_put16(reader, 1, NULL, 1), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_import_put16(reader, 1, odd, 1), RSMERR_BAD_MEM_ALIGNMENT);
	assert_int_equal(rsm_memseg_import_put16(reader, 1, (uint16_t *)words, 1), RSMERR_BAD_MEM_ALIGNMENT);
	assert_int_equal(
		rsm_memseg_import_put16(GARBAGE(rsm_memseg_import_handle_t), 0, (uint16_t *)words, 1),
		RSMERR_BAD_SEG_HNDL);
	/* no right, beyond the end, no barrier: in that order */
	assert_int_equal(rsm_memseg_import_put16(reader, SIZE, (uint16_t *)words, 1), RSMERR_PERM_DENIED);
	assert_int_equal(rsm_memseg_import_get16(reader, SIZE, (uint16_t *)words, 1), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_get16(reader, 0, (uint16_t *)words, 1),
			 RSMERR_BARRIER_UNINITIALIZED);
	assert_int_equal(rsm_memseg_import_get(reader, 0, words, 0), RSMERR_BARRIER_UNINITIALIZED);
	assert_int_equal(peer->ops, 0);
	assert_int_equal(rsm_memseg_import_disconnect(reader), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_get(reader, 0, words, 8), RSMERR_BAD_SEG_HNDL);
}

static void
test_alignment(void **state)
{
	uint64_t words[4] = {0};
	uint8_t *bytes = (uint8_t *)words;

	for (unsigned i = 1; i < 8; i++) {
		assert_int_equal(rsm_memseg_import_get64(import, i, words, 1), RSMERR_BAD_MEM_ALIGNMENT);
		assert_int_equal(rsm_memseg_import_get64(import, 0, (uint64_t *)(void *)(bytes + i), 1),
				 RSMERR_BAD_MEM_ALIGNMENT);
		assert_int_equal(rsm_memseg_import_put64(import, i, words, 1), RSMERR_BAD_MEM_ALIGNMENT);
		assert_int_equal(rsm_memseg_import_get32(import, i, (uint32_t *)words, 1),
				 i % 4 == 0 ? RSM_SUCCESS : RSMERR_BAD_MEM_ALIGNMENT);
		assert_int_equal(rsm_memseg_import_put16(import, 0, (uint16_t *)(void *)(bytes + i), 1),
				 i % 2 == 0 ? RSM_SUCCESS : RSMERR_BAD_MEM_ALIGNMENT);
		assert_int_equal(rsm_memseg_import_get8(import, i, bytes + i, 1), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_put(import, i, bytes + 3, 5), RSM_SUCCESS);
	}
}

static void
test_bounds(void **state)
{
	uint8_t bytes[64];

	assert_int_equal(rsm_memseg_import_get(import, SIZE - 64, bytes, 64), RSM_SUCCESS);
	assert_memory_equal(bytes, peer->memory + SIZE - 64, 64);
	assert_int_equal(rsm_memseg_import_get(import, SIZE - 63, bytes, 64), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_get(import, SIZE, bytes, 1), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_get(import, SIZE, bytes, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_get(import, SIZE + 1, bytes, 0), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_get(import, -8, bytes, 8), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_get(import, 16, bytes, SIZE_MAX), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_put64(import, 0, (uint64_t *)(void *)bytes, 1ul << 61),
			 RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_put64(import, 8, (uint64_t *)(void *)bytes, ULONG_MAX),
			 RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_put8(import, 0, bytes, 0), RSM_SUCCESS);
}

static void
test_rights(void **state)
{
	rsm_memseg_import_handle_t writer = connect_with(RSM_PERM_WRITE), none = connect_with(RSM_PERM_NONE);
	rsmapi_barrier_t of_writer = {0}, of_none = {0};
	uint32_t word = 5;

	assert_int_equal(rsm_memseg_import_init_barrier(writer, RSM_BARRIER_NODE, &of_writer), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_init_barrier(none, RSM_BARRIER_NODE, &of_none), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put32(writer, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_get32(writer, 0, &word, 1), RSMERR_PERM_DENIED);
	assert_int_equal(rsm_memseg_import_put32(none, 0, &word, 1), RSMERR_PERM_DENIED);
	assert_int_equal(rsm_memseg_import_get32(none, 0, &word, 1), RSMERR_PERM_DENIED);
	assert_int_equal(rsm_memseg_import_disconnect(writer), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_disconnect(none), RSM_SUCCESS);
}

/* ---- data ---- */

static void
test_sizes(void **state)
{
	static const size_t sizes[] = {1,    7,     8,     24,     25,     63,     64,       4095,
				       4096, 32768, 32769, 100001, 524288, 600000, 1u << 20, 3000001};
	static const size_t offsets[] = {0, 1, 4093, 65536};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t j = 0; j < sizeof(offsets) / sizeof(offsets[0]); j++) {
			uint8_t *data = pattern(sizes[i], (uint8_t)(i + j)), *back = calloc(1, sizes[i]);
			uint8_t before = j > 0 ? peer->memory[offsets[j] - 1] : 0;
			uint8_t after = peer->memory[offsets[j] + sizes[i]];

			assert_int_equal(rsm_memseg_import_put(import, (off_t)offsets[j], data, sizes[i]),
					 RSM_SUCCESS);
			assert_memory_equal(peer->memory + offsets[j], data, sizes[i]);
			assert_int_equal(peer->memory[offsets[j] + sizes[i]], after);
			if (j > 0)
				assert_int_equal(peer->memory[offsets[j] - 1], before);
			assert_int_equal(rsm_memseg_import_get(import, (off_t)offsets[j], back, sizes[i]),
					 RSM_SUCCESS);
			assert_memory_equal(back, data, sizes[i]);
			free(data);
			free(back);
		}
	}
	assert_int_equal(peer->direct, 0);
	/* one ring of staging memory served them all */
	assert_int_equal(mock_count(peer->mock, ONE_MSG_STAGING), 1);
}

static void
test_elements(void **state)
{
	uint64_t w64[40], r64[40];
	uint32_t w32[40], r32[40];
	uint16_t w16[40], r16[40];
	uint8_t w8[40], r8[40];

	for (unsigned i = 0; i < 40; i++) {
		w64[i] = 0x0102030405060708ull * (i + 1);
		w32[i] = 0x01020304u * (i + 1);
		w16[i] = (uint16_t)(0x0102u * (i + 1));
		w8[i] = (uint8_t)(i + 1);
	}
	for (unsigned n = 1; n <= 40; n += 13) {
		assert_int_equal(rsm_memseg_import_put64(import, 0, w64, n), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_put32(import, 1024, w32, n), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_put16(import, 2048, w16, n), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_put8(import, 3072, w8, n), RSM_SUCCESS);
		assert_memory_equal(peer->memory, w64, n * 8);
		assert_memory_equal(peer->memory + 1024, w32, n * 4);
		assert_memory_equal(peer->memory + 2048, w16, n * 2);
		assert_memory_equal(peer->memory + 3072, w8, n);
		assert_int_equal(rsm_memseg_import_get64(import, 0, r64, n), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_get32(import, 1024, r32, n), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_get16(import, 2048, r16, n), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_get8(import, 3072, r8, n), RSM_SUCCESS);
		assert_memory_equal(r64, w64, n * 8);
		assert_memory_equal(r32, w32, n * 4);
		assert_memory_equal(r16, w16, n * 2);
		assert_memory_equal(r8, w8, n);
	}
}

/* Elements are swapped towards a node of the other byte order, bytes never. */
static void
test_byte_order(void **state)
{
	rsm_memseg_import_handle_t foreign;
	rsmapi_barrier_t b = {0};
	uint64_t *words = malloc(8192 * 8), *back = malloc(8192 * 8);
	uint32_t w32 = 0x11223344, r32;
	uint16_t w16 = 0x1122, r16;
	uint8_t bytes[4] = {1, 2, 3, 4};

	atomic_store(&peer->flags, ONE_RSM_SWAP);
	foreign = connect_with(RSM_PERM_RDWR);
	assert_int_equal(rsm_memseg_import_init_barrier(foreign, RSM_BAR_DEFAULT, &b), RSM_SUCCESS);
	for (unsigned i = 0; i < 8192; i++)
		words[i] = 0x0102030405060708ull + i;
	assert_int_equal(rsm_memseg_import_put64(foreign, 0, words, 8192), RSM_SUCCESS);
	for (unsigned i = 0; i < 8192; i++)
		assert_int_equal(((uint64_t *)(void *)peer->memory)[i], bswap_64(words[i]));
	assert_int_equal(rsm_memseg_import_get64(foreign, 0, back, 8192), RSM_SUCCESS);
	assert_memory_equal(back, words, 8192 * 8);
	assert_int_equal(rsm_memseg_import_put32(foreign, 4, &w32, 1), RSM_SUCCESS);
	assert_int_equal(((uint32_t *)(void *)peer->memory)[1], bswap_32(w32));
	assert_int_equal(rsm_memseg_import_get32(foreign, 4, &r32, 1), RSM_SUCCESS);
	assert_int_equal(r32, w32);
	assert_int_equal(rsm_memseg_import_put16(foreign, 2, &w16, 1), RSM_SUCCESS);
	assert_int_equal(((uint16_t *)(void *)peer->memory)[1], bswap_16(w16));
	assert_int_equal(rsm_memseg_import_get16(foreign, 2, &r16, 1), RSM_SUCCESS);
	assert_int_equal(r16, w16);
	assert_int_equal(rsm_memseg_import_put8(foreign, 8, bytes, 4), RSM_SUCCESS);
	assert_memory_equal(peer->memory + 8, bytes, 4);
	assert_int_equal(rsm_memseg_import_put(foreign, 16, bytes, 4), RSM_SUCCESS);
	assert_memory_equal(peer->memory + 16, bytes, 4);
	assert_int_equal(rsm_memseg_import_disconnect(foreign), RSM_SUCCESS);
	free(words);
	free(back);
}

static void
test_direct(void **state)
{
	uint8_t *memory = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rsm_memseg_export_handle_t seg;
	rsm_localmemory_handle_t handle;

	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, (caddr_t)memory, 32 * PAGE),
			 RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory + 48 * PAGE, 16 * PAGE, 0),
			 RSM_SUCCESS);
	memset(memory, 0x5a, 64 * PAGE);
	/* covered by the handle: not copied */
	assert_int_equal(rsm_memseg_import_put(import, 100, memory + 10, 31 * PAGE), RSM_SUCCESS);
	assert_int_equal(peer->direct, 1);
	assert_int_equal(peer->staged, 0);
	assert_memory_equal(peer->memory + 100, memory + 10, 31 * PAGE);
	/* by an export segment of this process */
	assert_int_equal(rsm_memseg_import_get(import, 12345, memory + 48 * PAGE, 16 * PAGE), RSM_SUCCESS);
	assert_int_equal(peer->direct, 2);
	assert_memory_equal(peer->memory + 12345, memory + 48 * PAGE, 16 * PAGE);
	/* partly covered, or not any more: copied */
	assert_int_equal(rsm_memseg_import_get(import, 0, memory + 28 * PAGE, 8 * PAGE), RSM_SUCCESS);
	assert_int_equal(peer->direct, 2);
	assert_int_equal(rsm_free_localmemory_handle(controller, handle), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put(import, 0, memory, 64 * PAGE), RSM_SUCCESS);
	assert_int_equal(peer->direct, 2);
	assert_memory_equal(peer->memory, memory, 64 * PAGE);
	munmap(memory, 64 * PAGE);
}

/* In explicit mode too: the memory is the caller's again when put returns, so only the tail is copied. */
static void
test_direct_explicit(void **state)
{
	const size_t size = 100 * PAGE;
	uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *expected = pattern(size, 9);
	rsm_localmemory_handle_t handle;

	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, (caddr_t)memory, size),
			 RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	atomic_store(&peer->delay_us, 2000);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	for (size_t i = 0; i < 4; i++) {
		memcpy(memory, expected, size);
		assert_int_equal(rsm_memseg_import_put(import, (off_t)(i * size), memory, size), RSM_SUCCESS);
		memset(memory, 0xEE, size);
	}
	assert_int_equal(peer->direct, 4);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSM_SUCCESS);
	assert_true(peer->staged >= 4);
	for (size_t i = 0; i < 4; i++)
		assert_memory_equal(peer->memory + i * size, expected, size);
	/* a lost connection is no matter of put's */
	atomic_store(&peer->fail_status, ONE_STATUS_RETRY_EXCEEDED);
	atomic_store(&peer->fail_after, 0);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put(import, 0, memory, size), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put(import, 0, memory, size), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSMERR_CONN_ABORTED);
	assert_int_equal(rsm_free_localmemory_handle(controller, handle), RSM_SUCCESS);
	munmap(memory, size);
	free(expected);
}

/* ---- vectors ---- */

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
	sg.flags = RSM_SIGPOST_NO_ACCUMULATE; /* alone it posts nothing */
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
	/* an argument in the middle: those before it are done */
	pieces[10].remote_offset = SIZE;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_LENGTH);
	assert_int_equal(sg.io_residual_count, 6);
	assert_memory_equal(peer->memory, data, 640);
	pieces[10].remote_offset = 640;
	/* a transfer in the middle */
	atomic_store(&peer->fail_after, 5);
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_CONN_ABORTED);
	assert_int_equal(sg.io_residual_count, 11);
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_CONN_ABORTED);
	assert_int_equal(sg.io_residual_count, 16);
	free(data);
}

/* ---- barriers ---- */

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
	assert_int_equal(rsm_memseg_import_open_barrier(&b), RSM_SUCCESS); /* a new span */
	assert_int_equal(rsm_memseg_import_close_barrier(&b), RSM_SUCCESS);

	/* the barrier initialised last is the one of implicit mode */
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
	/* explicit mode needs no barrier */
	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_get_mode(import, &mode), RSM_SUCCESS);
	assert_int_equal(mode, RSM_BARRIER_MODE_EXPLICIT);
	word = 77;
	assert_int_equal(rsm_memseg_import_put32(import, 0, &word, 1), RSM_SUCCESS);
	word = 0;
	assert_int_equal(rsm_memseg_import_get32(import, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(word, 77); /* with no span open there is nothing to wait for later */
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

/* In explicit mode nothing waits before order and close. */
static void
test_explicit_pipelines(void **state)
{
	uint8_t *data = pattern(200 * 512, 1), *back = calloc(1, 200 * 512);

	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	atomic_store(&peer->hold, true);
	memset(peer->memory, 0, 200 * 512);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t word = i;

		assert_int_equal(rsm_memseg_import_put(import, i * 512, data + i * 512, 512), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_put64(import, 100 * 512 + i * 8, &word, 1), RSM_SUCCESS);
		/* the data has been taken */
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

	atomic_store(&peer->hold, true);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(rsm_memseg_import_get(import, i * 512, back + i * 512, 512), RSM_SUCCESS);
	atomic_store(&peer->hold, false);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSM_SUCCESS);
	assert_memory_equal(back, peer->memory, 100 * 512);
	free(data);
	free(back);
}

/* More than the queue and the staging ring hold: issuing waits for room, and all arrives. */
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

/* A transfer that takes long: waiters go to sleep and are woken. */
static void
test_sleep(void **state)
{
	uint64_t word = 99, back = 0;

	atomic_store(&peer->delay_us, 20000);
	assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_get64(import, 0, &back, 1), RSM_SUCCESS);
	assert_int_equal(back, 99);
	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(rsm_memseg_import_put64(import, 8 * i, &word, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSM_SUCCESS);
	assert_int_equal(peer->memory[72], 99);
}

static void
test_no_staging(void **state)
{
	uint8_t bytes[100] = {0};
	uint64_t word = 1;

	mock_refuse(peer->mock, ONE_MSG_STAGING, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 1);
	assert_int_equal(rsm_memseg_import_put(import, 0, bytes, 100), RSM_SUCCESS); /* a smaller one */
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	import = connect_with(RSM_PERM_RDWR);
	assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put(import, 0, bytes, 100), RSM_SUCCESS);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_STAGING),
			 2); /* the ring went from one to the other */
	{
		rsm_memseg_import_handle_t second = connect_with(RSM_PERM_RDWR);
		rsmapi_barrier_t b = {0};

		assert_int_equal(rsm_memseg_import_init_barrier(second, RSM_BAR_DEFAULT, &b), RSM_SUCCESS);
		mock_refuse(peer->mock, ONE_MSG_STAGING, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 10);
		assert_int_equal(rsm_memseg_import_put(second, 0, bytes, 100), RSMERR_INSUFFICIENT_RESOURCES);
		assert_int_equal(rsm_memseg_import_get64(second, 0, &word, 1), RSMERR_INSUFFICIENT_RESOURCES);
		assert_int_equal(rsm_memseg_import_put64(second, 0, &word, 1), RSM_SUCCESS); /* inline */
		assert_int_equal(rsm_memseg_import_disconnect(second), RSM_SUCCESS);
	}
}

/* ---- threads ---- */

static void *
hammer(void *arg)
{
	uint64_t base = (uintptr_t)arg * 65536, value, back;

	for (uint64_t i = 0; i < 300; i++) {
		value = base + i;
		if (rsm_memseg_import_put64(import, (off_t)(base + i % 100 * 8), &value, 1) != RSM_SUCCESS ||
		    rsm_memseg_import_get64(import, (off_t)(base + i % 100 * 8), &back, 1) != RSM_SUCCESS ||
		    back != value)
			return (void *)1;
	}
	return NULL;
}

static void
test_threads(void **state)
{
	pthread_t threads[4];

	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
	for (unsigned i = 0; i < 4; i++) {
		void *failed;

		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order_of_checks), TEST(test_alignment),
		TEST(test_bounds),          TEST(test_rights),
		TEST(test_sizes),           TEST(test_elements),
		TEST(test_byte_order),      TEST(test_direct),
		TEST(test_direct_explicit), TEST(test_vector_arguments),
		TEST(test_vector_mixed),    TEST(test_vector_residual),
		TEST(test_barrier_states),  TEST(test_explicit_pipelines),
		TEST(test_explicit_volume), TEST(test_barrier_after_disconnect),
		TEST(test_sleep),           TEST(test_no_staging),
		TEST(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
