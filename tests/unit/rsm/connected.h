/* SPDX-License-Identifier: BSD-3-Clause */
/* Fixture of tests of transfers: a connected import and its barrier. */
#ifndef TESTS_UNIT_RSM_CONNECTED_H
#define TESTS_UNIT_RSM_CONNECTED_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "peer.h"

#define SIZE (8u << 20)
#define PAGE 4096u
#define GARBAGE(type) ((type)(uintptr_t)0x1234567)

static struct peer *peer;
static rsmapi_controller_handle_t controller;
static rsm_memseg_import_handle_t import;
static rsmapi_barrier_t barrier;

static inline rsm_memseg_import_handle_t
connect_with(rsm_permission_t perm)
{
	rsm_memseg_import_handle_t handle;

	assert_int_equal(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, perm, &handle),
			 RSM_SUCCESS);
	return handle;
}

static inline int
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

static inline int
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

static inline uint8_t *
pattern(size_t size, uint8_t seed)
{
	uint8_t *memory = malloc(size + 1);

	for (size_t i = 0; i < size; i++)
		memory[i] = (uint8_t)(seed + i * 13 + (i >> 10));
	return memory;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
