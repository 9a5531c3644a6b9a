/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uDAPL between two applications: an access that must be refused fails with the right status at the
 * initiator, breaks the connection on both sides, and leaves the target's memory untouched.
 */
#include <stdlib.h>
#include <string.h>

#include "dat_pair.h"

#define SIZE 8192u

static DAT_EVENT event;

/*
 * Server of the cases in which the client's access must fail: offers a buffer, awaits the end, checks its
 * memory.
 */
static void
target(struct pair *pair, DAT_MEM_PRIV_FLAGS privileges, bool accessed)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, privileges);
	memset(b.data, 0x5A, SIZE);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	dat_side_expect_end(&s);
	/* Nothing is outstanding here whose completion could fail: the asynchronous EVD reports the error. */
	if (accessed) {
		dat_side_expect(&s, s.async, DAT_ASYNC_ERROR_EP_BROKEN, 10000, &event);
		CHECK(pair, event.event_data.asynch_error_event_data.dat_handle == s.ep,
		      "another endpoint is broken");
	}
	dat_side_nothing(&s, s.async, 1);
	pair_barrier(pair);
	for (size_t i = 0; i < SIZE; i++)
		CHECK(pair, b.data[i] == 0x5A, "byte %zu was changed by an access that had to fail", i);
	dat_side_close(&s);
}

static void
target_all(struct pair *pair)
{
	target(pair, DAT_MEM_PRIV_ALL_FLAG, true);
}

static void
target_untouched(struct pair *pair)
{
	target(pair, DAT_MEM_PRIV_ALL_FLAG, false);
}

static void
target_read_only(struct pair *pair)
{
	target(pair,
	       DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG,
	       true);
}

static void
target_write_only(struct pair *pair)
{
	target(pair,
	       DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
	       true);
}

struct start {
	struct dat_side s;
	struct dat_buffer b;
	struct dat_remote r;
};

static void
begin(struct start *x, struct pair *pair)
{
	dat_side_open(&x->s, pair, false);
	dat_buffer_make(&x->s, &x->b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&x->s, false);
	dat_remote_take(&x->s, &x->r);
}

/* Expects that request 1 fails with `status`, request 2 is flushed, and the connection breaks. */
static void
finish(struct start *x, DAT_DTO_COMPLETION_STATUS status)
{
	dat_side_complete(&x->s, x->s.request, 1, status, 0);
	dat_side_complete(&x->s, x->s.request, 2, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_expect_end(&x->s);
	pair_barrier(x->s.pair);
	dat_side_close(&x->s);
}

static void
wrong_key_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	x.r.context ^= 0x00010000;
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 1, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

static void
wrong_variant_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	x.r.context ^= 1;
	DAT_CHECK(&x.s, dat_read(x.s.ep, &x.b, 0, 64, 1, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_read(x.s.ep, &x.b, 0, 64, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

static void
no_write_right_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	/* The peer may read. */
	DAT_CHECK(&x.s, dat_read(x.s.ep, &x.b, 0, 64, 9, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&x.s, x.s.request, 9, DAT_DTO_SUCCESS, 64);
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 1, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

static void
no_read_right_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	DAT_CHECK(&x.s, dat_read(x.s.ep, &x.b, 0, 64, 1, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_read(x.s.ep, &x.b, 0, 64, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

static void
past_end_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 1, &x.r, SIZE - 63, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

static void
before_start_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	x.r.address -= 1;
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 1, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

static void
address_wraps_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	x.r.address = UINT64_MAX - 31;
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 1, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

/* A local key that names no region is refused at once, and the connection stays. */
static void
wrong_local_key_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	x.b.lmr_context ^= 0x00020000;
	DAT_CHECK_CODE(&x.s, dat_write(x.s.ep, &x.b, 0, 640, 1, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG),
		       DAT_CODE(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ));
	dat_side_nothing(&x.s, x.s.request, 20);
	CHECK(pair, dat_side_state(&x.s, x.s.ep) == DAT_EP_STATE_CONNECTED,
	      "a refused post ended the connection");
	DAT_CHECK(&x.s, dat_ep_disconnect(x.s.ep, DAT_CLOSE_ABRUPT_FLAG));
	dat_side_expect_end(&x.s);
	pair_barrier(pair);
	dat_side_close(&x.s);
}

/* ---- the message is longer than the receive ---- */

static void
too_long_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	memset(b.data, 0x5A, SIZE);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 100, 1));
	DAT_CHECK(&s, dat_recv(s.ep, &b, 200, 100, 2));
	dat_side_connect(&s, true);
	dat_side_complete(&s, s.recv, 1, DAT_DTO_ERR_LOCAL_LENGTH, 0);
	dat_side_complete(&s, s.recv, 2, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_expect_end(&s);
	for (size_t i = 100; i < SIZE; i++)
		CHECK(pair, b.data[i] == 0x5A, "byte %zu behind the receive was changed", i);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
too_long_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, SIZE);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 101, 1, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_ERR_REMOTE_RESPONDER, 0);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- a target in another protection zone ---- */

static void
zone_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;
	DAT_PZ_HANDLE other;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	memset(b.data, 0x5A, SIZE);
	DAT_CHECK(&s, dat_pz_create(s.ia, &other));
	s.ep = dat_side_ep_in(&s, other);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	for (size_t i = 0; i < SIZE; i++)
		CHECK(pair, b.data[i] == 0x5A, "byte %zu of another protection zone was changed", i);
	DAT_CHECK_ERROR(&s, dat_pz_free(other), DAT_INVALID_STATE);
	dat_side_close(&s);
}

/* ---- memory that is no longer registered ---- */

static void
freed_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, true, &b, SIZE);
	dat_buffer_offer(&s, &b);
	pair_barrier(pair); /* the client has written once */
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	memset(b.data, 0x5A, SIZE);
	pair_barrier(pair);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	for (size_t i = 0; i < SIZE; i++)
		CHECK(pair, b.data[i] == 0x5A, "byte %zu was changed after dat_lmr_free", i);
	dat_side_close(&s);
}

static void
freed_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 9, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&x.s, x.s.request, 9, DAT_DTO_SUCCESS, 64);
	pair_barrier(pair);
	pair_barrier(pair);
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 1, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 64, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

/* ---- windows ---- */

static DAT_RMR_CONTEXT
bind_window(struct dat_side *s, DAT_RMR_HANDLE rmr, const struct dat_buffer *b, size_t offset, size_t len,
	    DAT_MEM_PRIV_FLAGS privileges, DAT_DTO_COMPLETION_STATUS status)
{
	DAT_LMR_TRIPLET range = {.lmr_context = b->lmr_context,
				 .virtual_address = (uintptr_t)b->data + offset,
				 .segment_length = len};
	DAT_RMR_CONTEXT context = 0;

	DAT_CHECK(s, dat_rmr_bind(rmr, &range, privileges, s->ep, (DAT_RMR_COOKIE){.as_64 = 77},
				  DAT_COMPLETION_DEFAULT_FLAG, &context));
	dat_side_expect(s, s->request, DAT_RMR_BIND_COMPLETION_EVENT, 5000, &event);
	CHECK(s->pair, event.event_data.rmr_completion_event_data.rmr_handle == rmr, "a bind of another RMR");
	CHECK(s->pair, event.event_data.rmr_completion_event_data.user_cookie.as_64 == 77,
	      "wrong cookie of a bind");
	CHECK(s->pair, event.event_data.rmr_completion_event_data.status == status,
	      "bind: status %d instead of %d", event.event_data.rmr_completion_event_data.status, status);
	return context;
}

static void
window_server(struct pair *pair)
{
	struct dat_remote offer;
	struct dat_buffer b;
	struct dat_side s;
	DAT_RMR_HANDLE rmr;

	dat_side_start(&s, pair, true, &b, SIZE);
	DAT_CHECK(&s, dat_rmr_create(s.pz, &rmr));
	offer = (struct dat_remote){.address = (uintptr_t)b.data + 1000, .length = 500};
	offer.context = bind_window(&s, rmr, &b, 1000, 500, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, DAT_DTO_SUCCESS);
	CHECK(pair, offer.context != b.rmr_context, "a window has the context of its LMR");
	pair_send(pair, &offer, sizeof(offer));
	DAT_CHECK_ERROR(&s, dat_lmr_free(b.lmr), DAT_INVALID_STATE);
	pair_barrier(pair); /* the client has written through the window */
	CHECK(pair, pair_pattern_check(b.data + 1000, 500, 4) == 500, "a write through a window: wrong data");
	/* A new binding ends the old context. */
	offer.reserved = offer.context;
	offer.context = bind_window(&s, rmr, &b, 2000, 500, DAT_MEM_PRIV_WRITE_FLAG, DAT_DTO_SUCCESS);
	CHECK(pair, offer.context != offer.reserved, "a new binding kept the context");
	offer.address += 1000;
	pair_send(pair, &offer, sizeof(offer));
	pair_barrier(pair);
	CHECK(pair, pair_pattern_check(b.data + 2000, 500, 5) == 500,
	      "a write after a new binding: wrong data");
	dat_side_expect_end(&s); /* the client used the old context */
	CHECK(pair, pair_pattern_check(b.data + 1000, 500, 4) == 500, "the old context still gave access");
	DAT_CHECK(&s, dat_rmr_free(rmr));
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
window_client(struct pair *pair)
{
	struct start x;
	uint32_t old;

	begin(&x, pair);
	pair_pattern(x.b.data, 500, 4);
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 500, 3, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&x.s, x.s.request, 3, DAT_DTO_SUCCESS, 500);
	pair_barrier(pair);
	dat_remote_take(&x.s, &x.r);
	old = x.r.reserved;
	pair_pattern(x.b.data, 500, 5);
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 500, 4, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&x.s, x.s.request, 4, DAT_DTO_SUCCESS, 500);
	pair_barrier(pair);
	x.r.context = old;
	x.r.address -= 1000;
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 500, 1, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 500, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

/* A client reads through a window with write right only, or accesses one byte beyond a window. */
static void
window_limits_server(struct pair *pair, DAT_MEM_PRIV_FLAGS privileges)
{
	struct dat_remote offer;
	struct dat_buffer b;
	struct dat_side s;
	DAT_RMR_HANDLE rmr;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	memset(b.data, 0x5A, SIZE);
	dat_side_connect(&s, true);
	DAT_CHECK(&s, dat_rmr_create(s.pz, &rmr));
	offer = (struct dat_remote){.address = (uintptr_t)b.data + 1000, .length = 500};
	offer.context = bind_window(&s, rmr, &b, 1000, 500, privileges, DAT_DTO_SUCCESS);
	pair_send(pair, &offer, sizeof(offer));
	dat_side_expect_end(&s);
	for (size_t i = 0; i < SIZE; i++)
		CHECK(pair, b.data[i] == 0x5A, "byte %zu was changed", i);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
window_write_only_server(struct pair *pair)
{
	window_limits_server(pair, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
}

static void
window_end_client(struct pair *pair)
{
	struct start x;

	begin(&x, pair);
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 500, 1, &x.r, 1, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(&x.s, dat_write(x.s.ep, &x.b, 0, 500, 2, &x.r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	finish(&x, DAT_DTO_ERR_REMOTE_ACCESS);
}

/* A range outside its LMR cannot be bound. */
static void
bind_range_server(struct pair *pair)
{
	DAT_RMR_CONTEXT context;
	DAT_LMR_TRIPLET range;
	struct dat_buffer b;
	struct dat_side s;
	DAT_RMR_HANDLE rmr;

	dat_side_start(&s, pair, true, &b, SIZE);
	DAT_CHECK(&s, dat_rmr_create(s.pz, &rmr));
	range = (DAT_LMR_TRIPLET){.lmr_context = b.lmr_context,
				  .virtual_address = (uintptr_t)b.data + 1,
				  .segment_length = SIZE};
	DAT_CHECK_CODE(&s,
		       dat_rmr_bind(rmr, &range, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, s.ep,
				    (DAT_RMR_COOKIE){.as_64 = 1}, DAT_COMPLETION_DEFAULT_FLAG, &context),
		       DAT_BAD_ARG(2));
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
see_end_client(struct pair *pair)
{
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_side_connect(&s, false);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"wrong_key", target_all, wrong_key_client, false},
	{"wrong_variant", target_all, wrong_variant_client, false},
	{"no_write_right", target_read_only, no_write_right_client, false},
	{"no_read_right", target_write_only, no_read_right_client, false},
	{"past_end", target_all, past_end_client, false},
	{"before_start", target_all, before_start_client, false},
	{"address_wraps", target_all, address_wraps_client, false},
	{"wrong_local_key", target_untouched, wrong_local_key_client, false},
	{"too_long", too_long_server, too_long_client, false},
	{"other_zone", zone_server, no_read_right_client, false},
	{"freed", freed_server, freed_client, false},
	{"window", window_server, window_client, false},
	{"window_end", window_write_only_server, window_end_client, false},
	{"window_write_only", window_write_only_server, no_read_right_client, false},
	{"bind_range", bind_range_server, see_end_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
