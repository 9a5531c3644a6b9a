/* SPDX-License-Identifier: BSD-3-Clause */
/* A data plane and a controller for each test, and memory for segments. */
#ifndef TESTS_UNIT_RSM_FIXTURE_H
#define TESTS_UNIT_RSM_FIXTURE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "peer.h"

#define PAGE 4096u

static struct peer *peer;
static rsmapi_controller_handle_t controller;
static char port[] = "mock0";

static inline int
setup(void **state)
{
	peer = peer_start(64 * 1024);
	mock_welcome(peer->mock)->node_id = 1;
	return rsm_get_controller(port, &controller);
}

static inline int
teardown(void **state)
{
	peer_forget(peer);
	rsm_release_controller(controller);
	peer_stop(peer);
	return 0;
}

static inline uint8_t *
pages(size_t count)
{
	uint8_t *memory =
		mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

/* Maps pages far from where the kernel places mappings, so that no other mapping fills a hole made in
 * them. */
static inline uint8_t *
lonely_pages(size_t count)
{
	uint8_t *near = pages(1);
	uint8_t *memory = mmap(near - (64ull << 30), count * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_true(memory != MAP_FAILED);
	munmap(near, PAGE);
	return memory;
}

#define GARBAGE(type) ((type)(uintptr_t)0x1234567)

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
