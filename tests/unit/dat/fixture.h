/* SPDX-License-Identifier: BSD-3-Clause */
/* Fixture of the DAT provider's tests: an IA on a mock data plane, and shorthands. */
#ifndef TESTS_UNIT_DAT_FIXTURE_H
#define TESTS_UNIT_DAT_FIXTURE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/unit.h"

#include <dat/udat.h>

#include "../mock/mock.h"

#define ERROR(type, subtype) ((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_UINT32)(type) | (DAT_UINT32)(subtype)))
#define BAD_HANDLE(kind) ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define BAD_ARG(n) ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG##n)
#define BAD_STATE(state) ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_##state)

#define assert_ok(call) assert_ret(call, DAT_SUCCESS)
#define assert_ret(call, expected) check_ret(call, expected, #call, __FILE__, __LINE__)
void check_ret(DAT_RETURN got, DAT_RETURN expected, const char *call, const char *file, int line);

struct fixture {
	struct mock *mock;
	DAT_IA_HANDLE ia;
	DAT_EVD_HANDLE async;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE dto, recv, conn, cr; /* DTO|RMR_BIND, DTO, CONNECTION, CR */
};

/* Starts a mock and opens an IA with a zone and EVDs; `state` is a struct fixture *. */
int fixture_setup(void **state);
int fixture_teardown(void **state); /* also checks that no attachment is left */

/* Values that are not handles. */
extern const DAT_HANDLE not_handles[];
extern const size_t num_not_handles;

void default_attr(DAT_EP_ATTR *attr);
DAT_EP_HANDLE make_ep(struct fixture *f, uint32_t *qp); /* NULL attributes, all EVDs */
/* An endpoint that the mock has connected (active side); the event has been taken. */
DAT_EP_HANDLE connected_ep(struct fixture *f, uint32_t *qp);
void connect_to(DAT_EP_HANDLE ep, DAT_CONN_QUAL qual);
DAT_EP_STATE state_of(DAT_EP_HANDLE ep);
void expect_untouched(DAT_EP_HANDLE ep); /* unconnected, and without a peer */
DAT_EVENT take(DAT_EVD_HANDLE evd);
void expect_empty(DAT_EVD_HANDLE evd);
DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number); /* waits for the event */
/* Completes a send on the request EVD of the endpoint made last; `flags`: ONE_WQE_UNSIGNALED or 0. */
void complete(struct fixture *f, uint32_t qp, uint64_t cookie, uint8_t flags);
/* Stores a completion that notifies, as mock_cqe_early() does; returns its ring, for mock_publish(). */
uint32_t complete_early(struct fixture *f, uint32_t qp, uint64_t cookie);
void post_software(DAT_EVD_HANDLE evd, uintptr_t value);
uint64_t now_us(void);

#endif
