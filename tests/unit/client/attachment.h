/* SPDX-License-Identifier: BSD-3-Clause */
/* Attachments to a mock data plane, for tests that begin one for each case. */
#ifndef TESTS_UNIT_CLIENT_ATTACHMENT_H
#define TESTS_UNIT_CLIENT_ATTACHMENT_H

#include <unistd.h>

#include "tests/unit/unit.h"
#include "client/client.h"
#include "client/internal.h"
#include "tests/unit/mock/mock.h"

static struct mock *mock;
static _Atomic int lost_calls;

static void
on_lost(void *user)
{
	assert_ptr_equal(user, &lost_calls);
	lost_calls++;
}

static int
try_attach(struct one_client **client)
{
	const struct one_attach args = {.kind = ONE_KIND_DAT, .lost = on_lost, .user = &lost_calls};

	return one_attach(&args, client);
}

static struct one_client *
attach(void)
{
	struct one_client *client;

	assert_int_equal(try_attach(&client), 0);
	return client;
}

static int
setup(void **state)
{
	mock = mock_start();
	lost_calls = 0;
	return 0;
}

static int
teardown(void **state)
{
	mock_stop(mock);
	return 0;
}

/* Wait for an effect of another thread. */
#define EVENTUALLY(condition)         \
	do {                          \
		while (!(condition))  \
			usleep(1000); \
	} while (0)

#endif
