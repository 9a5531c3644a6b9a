/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory regions on real data planes: every call, every documented return value. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dat_pair.h"

#define SIZE 16384u

static DAT_EVENT event;

static DAT_RETURN
bind_range(struct dat_side *s, DAT_RMR_HANDLE rmr, const struct dat_buffer *b, size_t offset, size_t len,
	   uint32_t privileges, uint32_t flags, DAT_RMR_CONTEXT *context)
{
	DAT_LMR_TRIPLET range = {.lmr_context = b->lmr_context,
				 .virtual_address = (uintptr_t)b->data + offset,
				 .segment_length = len};

	return dat_rmr_bind(rmr, &range, (DAT_MEM_PRIV_FLAGS)privileges, s->ep,
			    (DAT_RMR_COOKIE){.as_64 = 0xb1d0000000000000u + offset},
			    (DAT_COMPLETION_FLAGS)flags, context);
}

/* Expects the completion of the bind at `offset`. */
static void
expect_bound(struct dat_side *s, DAT_RMR_HANDLE rmr, size_t offset, DAT_DTO_COMPLETION_STATUS status)
{
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA *data = &event.event_data.rmr_completion_event_data;

	dat_side_expect(s, s->request, DAT_RMR_BIND_COMPLETION_EVENT, 10000, &event);
	CHECK(s->pair,
	      data->rmr_handle == rmr && data->user_cookie.as_64 == 0xb1d0000000000000u + offset &&
		      data->status == status,
	      "bind: handle %p, cookie 0x%llx, status %d", data->rmr_handle,
	      (unsigned long long)data->user_cookie.as_64, data->status);
}

/* ---- DISCONNECTED accepts binds and flushes them ---- */

static void
ended_server(struct pair *pair)
{
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_side_connect(&s, true);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 20000, &event);
	dat_side_close(&s);
}

static void
ended_client(struct pair *pair)
{
	DAT_RMR_CONTEXT context;
	struct dat_buffer b;
	DAT_RMR_HANDLE rmr;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, false);
	DAT_CHECK(&s, dat_rmr_create(s.pz, &rmr));
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 10000, &event);
	DAT_CHECK(&s, bind_range(&s, rmr, &b, 16, 8, 0x33, DAT_COMPLETION_SUPPRESS_FLAG, &context));
	expect_bound(&s, rmr, 16, DAT_DTO_ERR_FLUSHED);
	/* A flushed bind does not keep the region in use. */
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	DAT_CHECK(&s, dat_rmr_free(rmr));
	dat_side_close(&s);
}

/* ---- binding, rebinding, unbinding; each completion flag ---- */

struct note {
	struct dat_remote window;
	uint64_t seed;
};

static void
use_server(struct pair *pair)
{
	struct dat_buffer b, out;
	struct dat_side s;
	DAT_RMR_PARAM param;
	DAT_RMR_HANDLE rmr;
	struct note *note;
	DAT_EP_ATTR attr = {.max_recv_dtos = 64,
			    .max_request_dtos = 64,
			    .max_recv_iov = 4,
			    .max_request_iov = 4,
			    .max_rdma_read_in = 4,
			    .max_rdma_read_out = 4,
			    .request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG};
	DAT_RMR_CONTEXT context, before = 0;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &out, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CHECK(&s, dat_ep_create(s.ia, s.pz, s.recv, s.request, s.conn, &attr, &s.ep));
	for (uint64_t i = 0; i < 32; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &out, SIZE / 2, 8, i));
	dat_side_connect(&s, true);
	DAT_CHECK(&s, dat_rmr_create(s.pz, &rmr));
	note = (struct note *)(void *)out.data;
	/*
	 * A SEND after a bind starts only when the bind is done: there is no need to wait for its
	 * completion.
	 */
	for (uint32_t i = 0; i < 16; i++) {
		size_t at = i * 512, len = 500 - i;

		DAT_CHECK(&s, bind_range(&s, rmr, &b, at, len, DAT_MEM_PRIV_WRITE_FLAG,
					 i % 2 == 0 ? DAT_COMPLETION_SUPPRESS_FLAG
						    : DAT_COMPLETION_BARRIER_FENCE_FLAG,
					 &context));
		CHECK(pair, context != before, "bind %u has the context of the one before", i);
		before = context;
		note[i].window = (struct dat_remote){
			.address = (uintptr_t)b.data + at, .length = len, .context = context};
		note[i].seed = i;
		DAT_CHECK(&s, dat_send(s.ep, &out, i * sizeof(*note), sizeof(*note), 100 + i,
				       DAT_COMPLETION_SUPPRESS_FLAG));
		if (i % 2 != 0)
			expect_bound(&s, rmr, at, DAT_DTO_SUCCESS);
		DAT_CHECK(&s, dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
		CHECK(pair,
		      param.rmr_context == context && param.lmr_triplet.segment_length == len &&
			      param.lmr_triplet.virtual_address == (uintptr_t)b.data + at &&
			      param.mem_priv == DAT_MEM_PRIV_WRITE_FLAG,
		      "dat_rmr_query of a bound window is wrong");
		/* The peer has written through the window. */
		dat_side_complete(&s, s.recv, i, DAT_DTO_SUCCESS, 8);
		CHECK(pair, pair_pattern_check(b.data + at, len, i) == len, "window %u: wrong data", i);
		DAT_CHECK_CODE(&s, dat_lmr_free(b.lmr), DAT_BAD_STATE(LMR_IN_USE));
	}
	/* An unsignalled bind queues an event without waking a waiter. */
	DAT_CHECK(&s, bind_range(&s, rmr, &b, 8192, 100, DAT_MEM_PRIV_REMOTE_READ_FLAG,
				 DAT_COMPLETION_UNSIGNALLED_FLAG, &context));
	dat_side_quiet(&s, s.request, 1, 1);
	CHECK(pair,
	      dat_evd_dequeue(s.request, &event) == DAT_SUCCESS &&
		      event.event_number == DAT_RMR_BIND_COMPLETION_EVENT,
	      "an unsignalled bind left no event");
	/* Unbinding ends the context and releases the region. */
	note[0].window =
		(struct dat_remote){.address = (uintptr_t)b.data + 8192, .length = 100, .context = context};
	DAT_CHECK(&s, bind_range(&s, rmr, &b, 0, 0, 0, 0, NULL));
	DAT_CHECK(&s, dat_send(s.ep, &out, 0, sizeof(*note), 200, DAT_COMPLETION_SUPPRESS_FLAG));
	expect_bound(&s, rmr, 0, DAT_DTO_SUCCESS);
	DAT_CHECK_CODE(&s, dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &param), DAT_BAD_ARG(2));
	dat_side_complete(&s, s.recv, 16, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_expect_end(&s);
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	DAT_CHECK(&s, dat_rmr_free(rmr));
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
use_client(struct pair *pair)
{
	struct dat_buffer in, out;
	const struct note *note;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &in, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &out, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (uint64_t i = 0; i < 17; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &in, i * sizeof(*note), sizeof(*note), i));
	dat_side_connect(&s, false);
	note = (const struct note *)(const void *)in.data;
	for (uint32_t i = 0; i < 16; i++) {
		dat_side_complete(&s, s.recv, i, DAT_DTO_SUCCESS, sizeof(*note));
		pair_pattern(out.data, note[i].window.length, i);
		DAT_CHECK(&s, dat_write(s.ep, &out, 0, note[i].window.length, 300 + i, &note[i].window, 0,
					DAT_COMPLETION_DEFAULT_FLAG));
		DAT_CHECK(&s, dat_send(s.ep, &out, 0, 8, 400 + i, DAT_COMPLETION_SUPPRESS_FLAG));
		dat_side_complete(&s, s.request, 300 + i, DAT_DTO_SUCCESS, note[i].window.length);
	}
	/* The message follows the unbinding. */
	dat_side_complete(&s, s.recv, 16, DAT_DTO_SUCCESS, sizeof(*note));
	DAT_CHECK(&s, dat_read(s.ep, &out, 0, 100, 500, &note[0].window, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 500, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

/*
 * ---- a window is freed while bound; other endpoints of its zone may use it, those of another zone may not
 * ----
 */

static void
zone_server(struct pair *pair)
{
	DAT_EP_HANDLE binder, same, other;
	struct dat_remote offer;
	struct dat_buffer b;
	struct dat_side s;
	DAT_RMR_HANDLE rmr;
	DAT_PZ_HANDLE pz;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CHECK(&s, dat_pz_create(s.ia, &pz));
	dat_side_connect(&s, true);
	binder = s.ep;
	same = s.ep = dat_side_ep(&s);
	dat_side_connect(&s, true);
	other = s.ep = dat_side_ep_in(&s, pz);
	dat_side_connect(&s, true);
	s.ep = binder;
	DAT_CHECK(&s, dat_rmr_create(s.pz, &rmr));
	offer = (struct dat_remote){.address = (uintptr_t)b.data, .length = SIZE};
	DAT_CHECK(&s, bind_range(&s, rmr, &b, 0, SIZE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 0, &offer.context));
	expect_bound(&s, rmr, 0, DAT_DTO_SUCCESS);
	pair_send(pair, &offer, sizeof(offer));
	pair_barrier(pair); /* the second endpoint has written, the third was refused */
	CHECK(pair, pair_pattern_check(b.data, 1000, 8) == 1000, "another endpoint of the zone: wrong data");
	s.ep = other;
	dat_side_expect_end(&s);
	CHECK(pair, dat_side_state(&s, same) == DAT_EP_STATE_CONNECTED, "a fault spread to another endpoint");
	/* A region cannot be freed before its window. */
	DAT_CHECK_CODE(&s, dat_lmr_free(b.lmr), DAT_BAD_STATE(LMR_IN_USE));
	DAT_CHECK(&s, dat_rmr_free(rmr));
	memset(b.data, 0x5A, SIZE);
	pair_barrier(pair);
	dat_side_expect_end(&s); /* of the second endpoint, whose window has gone */
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	for (size_t i = 0; i < SIZE; i++)
		CHECK(pair, b.data[i] == 0x5A, "byte %zu was written through a freed window", i);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
zone_client(struct pair *pair)
{
	DAT_EP_HANDLE same, other;
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, SIZE);
	same = s.ep = dat_side_ep(&s);
	dat_side_connect(&s, false);
	other = s.ep = dat_side_ep(&s);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	pair_pattern(b.data, 1000, 8);
	s.ep = same;
	DAT_CHECK(&s, dat_write(same, &b, 0, 1000, 1, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 1000);
	s.ep = other;
	DAT_CHECK(&s, dat_write(other, &b, 0, 1000, 2, &r, 2000, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 2, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	pair_barrier(pair); /* the window has been freed */
	s.ep = same;
	DAT_CHECK(&s, dat_write(same, &b, 0, 1000, 3, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 3, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- a window longer than 32 bits can express, on memory that is allocated only when touched ---- */

#define LARGE (5ull << 30)
#define FAR (4ull << 30)

static void
large_server(struct pair *pair)
{
	int fd = memfd_create("large", MFD_CLOEXEC);
	struct dat_remote offer;
	struct dat_buffer b;
	struct dat_side s;
	DAT_REGION_DESCRIPTION region;
	DAT_RMR_HANDLE rmr;

	dat_side_open(&s, pair, true);
	memset(&b, 0, sizeof(b));
	/*
	 * A private mapping of a file cannot be adopted: accesses are bounced, and the memory stays sparse.
	 */
	CHECK(pair, fd >= 0 && ftruncate(fd, (off_t)LARGE) == 0, "memfd_create");
	b.data = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
	CHECK(pair, b.data != MAP_FAILED, "mmap of 5 GiB");
	memset(&region, 0, sizeof(region));
	region.for_va = b.data;
	DAT_CHECK(&s, dat_lmr_create(s.ia, DAT_MEM_TYPE_VIRTUAL, region, LARGE, s.pz, DAT_MEM_PRIV_ALL_FLAG,
				     &b.lmr, &b.lmr_context, &b.rmr_context, NULL, NULL));
	dat_side_connect(&s, true);
	DAT_CHECK(&s, dat_rmr_create(s.pz, &rmr));
	offer = (struct dat_remote){.address = (uintptr_t)b.data + 100, .length = LARGE - 200};
	DAT_CHECK(&s, bind_range(&s, rmr, &b, 100, LARGE - 200, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 0,
				 &offer.context));
	expect_bound(&s, rmr, 100, DAT_DTO_SUCCESS);
	pair_send(pair, &offer, sizeof(offer));
	pair_barrier(pair);
	CHECK(pair, pair_pattern_check(b.data + 100 + FAR, 3000, 5) == 3000, "data beyond 4 GiB is wrong");
	dat_side_expect_end(&s); /* the client accessed one byte beyond the window */
	CHECK(pair, b.data[LARGE - 100] == 0, "a byte behind the window was written");
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
large_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	pair_pattern(b.data, 3000, 5);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 3000, 1, &r, FAR, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 3000);
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 64, 2, &r, r.length - 64, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, 64);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 64, 3, &r, r.length - 63, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 3, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"bind_errors", ended_server, ended_client, false},
	{"bind_use", use_server, use_client, false},
	{"bind_zone", zone_server, zone_client, false},
	{"bind_large", large_server, large_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
