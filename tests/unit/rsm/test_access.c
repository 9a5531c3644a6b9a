/* SPDX-License-Identifier: BSD-3-Clause */
/* put and get of elements and of blocks. */
#include <byteswap.h>

#include "connected.h"

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
	/* Missing right, beyond the end, no barrier: checked in that order. */
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
	/* A single ring of staging memory served all transfers. */
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

/* Elements are swapped for a node of the other byte order, bytes never. */
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
	/* Covered by the handle: not copied. */
	assert_int_equal(rsm_memseg_import_put(import, 100, memory + 10, 31 * PAGE), RSM_SUCCESS);
	assert_int_equal(peer->direct, 1);
	assert_int_equal(peer->staged, 0);
	assert_memory_equal(peer->memory + 100, memory + 10, 31 * PAGE);
	/* Covered by an export segment of this process. */
	assert_int_equal(rsm_memseg_import_get(import, 12345, memory + 48 * PAGE, 16 * PAGE), RSM_SUCCESS);
	assert_int_equal(peer->direct, 2);
	assert_memory_equal(peer->memory + 12345, memory + 48 * PAGE, 16 * PAGE);
	/* Covered partly, or no longer: copied. */
	assert_int_equal(rsm_memseg_import_get(import, 0, memory + 28 * PAGE, 8 * PAGE), RSM_SUCCESS);
	assert_int_equal(peer->direct, 2);
	assert_int_equal(rsm_free_localmemory_handle(controller, handle), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put(import, 0, memory, 64 * PAGE), RSM_SUCCESS);
	assert_int_equal(peer->direct, 2);
	assert_memory_equal(peer->memory, memory, 64 * PAGE);
	munmap(memory, 64 * PAGE);
}

/* Explicit mode transfers directly, too. The caller may reuse the memory when put returns, so only the tail
 * is copied. */
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
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	for (size_t i = 0; i < 4; i++) {
		memcpy(memory, expected, size);
		/* Pairs with the peer's load of delay_us, before the peer's thread reads the memory. */
		atomic_store(&peer->delay_us, 2000);
		assert_int_equal(rsm_memseg_import_put(import, (off_t)(i * size), memory, size), RSM_SUCCESS);
		/* Pairs with the peer's count, after the peer's thread has read the memory: the sanitizer
		 * does not see the rings. */
		assert_true(atomic_load(&peer->served) > i);
		memset(memory, 0xEE, size);
	}
	assert_int_equal(peer->direct, 4);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSM_SUCCESS);
	assert_true(peer->staged >= 4);
	for (size_t i = 0; i < 4; i++)
		assert_memory_equal(peer->memory + i * size, expected, size);
	/* A put in a span does not report a lost connection. */
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

/* Waiters of a long transfer sleep, and are woken. */
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
	assert_int_equal(rsm_memseg_import_put(import, 0, bytes, 100), RSM_SUCCESS); /* gets a smaller ring */
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	import = connect_with(RSM_PERM_RDWR);
	assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put(import, 0, bytes, 100), RSM_SUCCESS);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_STAGING),
			 2); /* the ring was passed from one import to the other */
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

/* ---- each call, with each error ---- */

#define CALL(name, type)                                                                 \
	static int call_##name(rsm_memseg_import_handle_t handle, off_t offset, void *p) \
	{                                                                                \
		return rsm_memseg_import_##name(handle, offset, (type *)p, 1);           \
	}
#define BLOCK_SIZE 4096u
#define BLOCK(name)                                                                      \
	static int call_##name(rsm_memseg_import_handle_t handle, off_t offset, void *p) \
	{                                                                                \
		return rsm_memseg_import_##name(handle, offset, p, BLOCK_SIZE);          \
	}
CALL(get8, uint8_t)
CALL(get16, uint16_t)
CALL(get32, uint32_t)
CALL(get64, uint64_t)
BLOCK(get)
CALL(put8, uint8_t)
CALL(put16, uint16_t)
CALL(put32, uint32_t)
CALL(put64, uint64_t)
BLOCK(put)

static int
call_vector(rsm_memseg_import_handle_t handle, off_t offset, void *p, int (*vector)(rsm_scat_gath_t *sg))
{
	rsm_iovec_t piece = {.io_type = RSM_VA_TYPE,
			     .local.vaddr = p,
			     .remote_offset = (size_t)offset,
			     .transfer_length = BLOCK_SIZE};
	rsm_scat_gath_t sg = {
		.io_request_count = 1, .io_residual_count = 77, .remote_handle = handle, .iovec = &piece};
	int error = vector(&sg);

	/* With a valid handle, the call reports the number of unfinished pieces. */
	if (sg.io_residual_count != 77)
		assert_int_equal(sg.io_residual_count, error == RSM_SUCCESS ? 0 : 1);
	return error;
}

static int
call_getv(rsm_memseg_import_handle_t handle, off_t offset, void *p)
{
	return call_vector(handle, offset, p, rsm_memseg_import_getv);
}

static int
call_putv(rsm_memseg_import_handle_t handle, off_t offset, void *p)
{
	return call_vector(handle, offset, p, rsm_memseg_import_putv);
}

static const struct call {
	int (*call)(rsm_memseg_import_handle_t handle, off_t offset, void *p);
	uint32_t size, align;
	bool put;
} calls[] = {
	{call_get8, 1, 1, false},        {call_get16, 2, 2, false},         {call_get32, 4, 4, false},
	{call_get64, 8, 8, false},       {call_get, BLOCK_SIZE, 1, false},  {call_put8, 1, 1, true},
	{call_put16, 2, 2, true},        {call_put32, 4, 4, true},          {call_put64, 8, 8, true},
	{call_put, BLOCK_SIZE, 1, true}, {call_getv, BLOCK_SIZE, 1, false}, {call_putv, BLOCK_SIZE, 1, true},
};
#define EACH_CALL(c) for (const struct call *c = calls; c < calls + sizeof(calls) / sizeof(calls[0]); c++)

static void
connect_again(void)
{
	atomic_store(&peer->fail_after, -1);
	peer_forget(peer);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	import = connect_with(RSM_PERM_RDWR);
	assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &barrier), RSM_SUCCESS);
}

static void
test_each_call_refused(void **state)
{
	rsm_memseg_import_handle_t reader = connect_with(RSM_PERM_READ),
				   writer = connect_with(RSM_PERM_WRITE), stale = connect_with(RSM_PERM_RDWR);
	uint8_t *bytes = aligned_alloc(64, 2 * BLOCK_SIZE);

	memset(bytes, 0, 2 * BLOCK_SIZE);
	assert_int_equal(rsm_memseg_import_disconnect(stale), RSM_SUCCESS);
	EACH_CALL(c)
	{
		assert_int_equal(c->call(NULL, 0, bytes), RSMERR_BAD_SEG_HNDL);
		assert_int_equal(c->call(stale, 0, bytes), RSMERR_BAD_SEG_HNDL);
		assert_int_equal(c->call(GARBAGE(rsm_memseg_import_handle_t), 0, bytes), RSMERR_BAD_SEG_HNDL);
		assert_int_equal(c->call(import, 0, NULL), RSMERR_BAD_ADDR);
		if (c->align > 1) {
			assert_int_equal(c->call(import, 0, bytes + c->align / 2), RSMERR_BAD_MEM_ALIGNMENT);
			assert_int_equal(c->call(import, c->align / 2, bytes), RSMERR_BAD_MEM_ALIGNMENT);
		} else {
			assert_int_equal(c->call(import, 3, bytes + 1), RSM_SUCCESS);
		}
		assert_int_equal(c->call(c->put ? reader : writer, 0, bytes), RSMERR_PERM_DENIED);
		assert_int_equal(c->call(c->put ? writer : reader, 0, bytes), RSMERR_BARRIER_UNINITIALIZED);
		assert_int_equal(c->call(import, (off_t)(SIZE - c->size), bytes), RSM_SUCCESS);
		assert_int_equal(c->call(import, (off_t)(SIZE - c->size + c->align), bytes),
				 RSMERR_BAD_LENGTH);
		assert_int_equal(c->call(import, -8, bytes), RSMERR_BAD_LENGTH);
	}
	assert_int_equal(rsm_memseg_import_disconnect(reader), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_disconnect(writer), RSM_SUCCESS);
	free(bytes);
}

/* Memory that a put cannot read, or a get cannot write, is refused, and nothing is transferred. */
static void
test_each_call_bad_address(void **state)
{
	/* An address at which mmap() of other threads does not fill the hole. */
	uint8_t *memory = mmap((void *)0x40000000, 4 * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	uint8_t *absent = memory + PAGE, *closed = memory + 2 * PAGE, *constant = memory + 3 * PAGE;

	assert_true(memory != MAP_FAILED);
	memset(memory, 7, 4 * PAGE);
	assert_int_equal(munmap(absent, PAGE), 0);
	assert_int_equal(mprotect(closed, PAGE, PROT_NONE), 0);
	assert_int_equal(mprotect(constant, PAGE, PROT_READ), 0);
	for (int explicit = 0; explicit < 2; explicit ++) {
		rsm_memseg_import_set_mode(import,
					   explicit ? RSM_BARRIER_MODE_EXPLICIT : RSM_BARRIER_MODE_IMPLICIT);
		EACH_CALL(c)
		{
			uint64_t ops;

			/* All earlier requests have completed. */
			assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
			assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSM_SUCCESS);
			ops = peer->ops;
			assert_int_equal(c->call(import, 0, (void *)64), RSMERR_BAD_ADDR);
			assert_int_equal(c->call(import, 0, (void *)(UINTPTR_MAX - 63)), RSMERR_BAD_ADDR);
			assert_int_equal(c->call(import, 0, absent), RSMERR_BAD_ADDR);
			assert_int_equal(c->call(import, 0, closed + 64), RSMERR_BAD_ADDR);
			if (c->align == 1 && c->size > 1) /* only the first byte is accessible */
				assert_int_equal(c->call(import, 0, absent - 1), RSMERR_BAD_ADDR);
			if (!c->put)
				assert_int_equal(c->call(import, 0, constant), RSMERR_BAD_ADDR);
			assert_int_equal(peer->ops, ops);
			if (c->put)
				assert_int_equal(c->call(import, 0, constant), RSM_SUCCESS);
			assert_int_equal(c->call(import, 0, memory), RSM_SUCCESS);
		}
	}
	assert_int_equal(munmap(memory, 4 * PAGE), 0);
}

/* An address that was valid once is checked again. */
static void
test_bad_address_later(void **state)
{
	uint8_t *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	EACH_CALL(c)
	{
		assert_int_equal(mprotect(memory, PAGE, PROT_READ | PROT_WRITE), 0);
		assert_int_equal(c->call(import, 0, memory), RSM_SUCCESS);
		assert_int_equal(mprotect(memory, PAGE, PROT_NONE), 0);
		usleep(1000); /* ten times the lifetime of a cached check */
		assert_int_equal(c->call(import, 0, memory), RSMERR_BAD_ADDR);
	}
	assert_int_equal(munmap(memory, PAGE), 0);
}

/* A hole in the middle is found, and the check leaves valid memory unchanged. */
static void
test_bad_address_large(void **state)
{
	size_t pages = 300;
	uint8_t *memory =
		mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	for (size_t i = 0; i < pages * PAGE; i++)
		memory[i] = (uint8_t)(i / PAGE + 1);
	assert_int_equal(mprotect(memory + 150 * PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(rsm_memseg_import_put(import, 0, memory, pages * PAGE), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_import_get(import, 0, memory, pages * PAGE), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_import_get(import, 0, memory + 148 * PAGE, 3 * PAGE), RSMERR_BAD_ADDR);
	assert_int_equal(peer->ops, 0);
	assert_int_equal(mprotect(memory + 150 * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
	for (size_t i = 0; i < pages * PAGE; i++)
		assert_int_equal(memory[i], (uint8_t)(i / PAGE + 1));
	assert_int_equal(rsm_memseg_import_put(import, 0, memory, pages * PAGE), RSM_SUCCESS);
	assert_memory_equal(peer->memory, memory, pages * PAGE);
	memset(memory, 0, pages * PAGE);
	assert_int_equal(rsm_memseg_import_get(import, 0, memory, pages * PAGE), RSM_SUCCESS);
	assert_memory_equal(peer->memory, memory, pages * PAGE);
	assert_int_equal(munmap(memory, pages * PAGE), 0);
}

static void
test_each_call_fails(void **state)
{
	uint8_t *bytes = aligned_alloc(64, BLOCK_SIZE);

	memset(bytes, 0, BLOCK_SIZE);
	EACH_CALL(c)
	{
		/* A local error is reported once as such. */
		atomic_store(&peer->fail_status, ONE_STATUS_LOCAL_PROTECTION);
		atomic_store(&peer->fail_after, 0);
		assert_int_equal(c->call(import, 0, bytes), RSMERR_BARRIER_FAILURE);
		assert_int_equal(c->call(import, 0, bytes), RSMERR_CONN_ABORTED);
		connect_again();
		atomic_store(&peer->fail_status, ONE_STATUS_RETRY_EXCEEDED);
		atomic_store(&peer->fail_after, 0);
		assert_int_equal(c->call(import, 0, bytes), RSMERR_CONN_ABORTED);
		connect_again();
		peer_abort(peer, RSMERR_CONN_ABORTED);
		assert_int_equal(c->call(import, 0, bytes), RSMERR_CONN_ABORTED);
		connect_again();
		peer_abort(peer, RSMERR_REMOTE_NODE_UNREACHABLE);
		assert_int_equal(c->call(import, 0, bytes), RSMERR_REMOTE_NODE_UNREACHABLE);
		connect_again();
		/* In a span nothing is reported before its end. */
		assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
		atomic_store(&peer->fail_status, ONE_STATUS_LOCAL_PROTECTION);
		atomic_store(&peer->fail_after, 0);
		assert_int_equal(c->call(import, 0, bytes), RSM_SUCCESS);
		assert_int_equal(c->call(import, 0, bytes), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_order_barrier(&barrier), RSMERR_BARRIER_FAILURE);
		assert_int_equal(c->call(import, 0, bytes), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSMERR_CONN_ABORTED);
		connect_again();
	}
	free(bytes);
}

/* Without staging memory only puts that fit into the request succeed. */
static void
test_each_call_without_staging(void **state)
{
	uint8_t *bytes = aligned_alloc(64, BLOCK_SIZE);

	memset(bytes, 0, BLOCK_SIZE);
	mock_refuse(peer->mock, ONE_MSG_STAGING, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 1000);
	EACH_CALL(c)
	assert_int_equal(c->call(import, 0, bytes),
			 c->put && c->size <= ONE_INLINE_MAX ? RSM_SUCCESS : RSMERR_INSUFFICIENT_RESOURCES);
	free(bytes);
}

/* Sends an invalid reply, so that the attachment ends. */
static bool
on_staging_nonsense(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
		    struct one_reply *reply, void *user)
{
	reply->type = msg->type;
	reply->seq = msg->seq + 1;
	return true;
}

/* The data plane is lost before a request is posted: no call may succeed. */
static void
test_each_call_lost(void **state)
{
	uint8_t *bytes = aligned_alloc(64, BLOCK_SIZE);

	memset(bytes, 0, BLOCK_SIZE);
	EACH_CALL(c)
	{
		if (c->put && c->size <= ONE_INLINE_MAX)
			continue;
		mock_on(peer->mock, ONE_MSG_STAGING, on_staging_nonsense, NULL);
		peer_forget(peer); /* the peer's queue pair ends with the attachment */
		assert_int_equal(c->call(import, 0, bytes), RSMERR_CONN_ABORTED);
		mock_on(peer->mock, ONE_MSG_STAGING, NULL, NULL);
		connect_again();
	}
	free(bytes);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order_of_checks),
		TEST(test_alignment),
		TEST(test_bounds),
		TEST(test_rights),
		TEST(test_sizes),
		TEST(test_elements),
		TEST(test_byte_order),
		TEST(test_direct),
		TEST(test_direct_explicit),
		TEST(test_sleep),
		TEST(test_no_staging),
		TEST(test_each_call_refused),
		TEST(test_each_call_fails),
		TEST(test_each_call_without_staging),
		TEST(test_each_call_lost),
		TEST(test_threads),
		TEST(test_each_call_bad_address),
		TEST(test_bad_address_later),
		TEST(test_bad_address_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
