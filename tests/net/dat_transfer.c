/* SPDX-License-Identifier: BSD-3-Clause */
/* uDAPL between two applications: data of every size by every operation, compared byte by byte. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dat_pair.h"

/* Sizes around the path MTUs of ports, with odd ends, and of several packets. */
static const size_t sizes[] = {0,    1,    2,     3,     4,     7,      8,       24,
			       25,   64,   255,   1023,  1024,  1025,   2047,    4095,
			       4096, 4097, 10001, 65536, 65537, 262143, 1048576, 1048579};
#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define LARGEST 1048579u
#define GUARD 64u

/* ---- SEND ---- */

static void
send_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, NUM_SIZES * (LARGEST + 1), DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (size_t i = 0; i < NUM_SIZES; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, i * LARGEST + i, LARGEST, 100 + i));
	dat_side_connect(&s, true);
	for (size_t i = 0; i < NUM_SIZES; i++) {
		dat_side_complete(&s, s.recv, 100 + i, DAT_DTO_SUCCESS, sizes[i]);
		CHECK(pair, pair_pattern_check(b.data + i * LARGEST + i, sizes[i], (uint32_t)i) == sizes[i],
		      "message of %zu bytes: wrong data", sizes[i]);
	}
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
send_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, NUM_SIZES * (LARGEST + 3), DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
	dat_side_connect(&s, false);
	for (size_t i = 0; i < NUM_SIZES; i++) {
		size_t at = i * (LARGEST + 3) + i % 3;

		pair_pattern(b.data + at, sizes[i], (uint32_t)i);
		DAT_CHECK(&s, dat_send(s.ep, &b, at, sizes[i], 7000 + i, DAT_COMPLETION_DEFAULT_FLAG));
	}
	for (size_t i = 0; i < NUM_SIZES; i++)
		dat_side_complete(&s, s.request, 7000 + i, DAT_DTO_SUCCESS, sizes[i]);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- scatter and gather ---- */

static const size_t pieces_out[4] = {5, 0, 3000, 995}, pieces_in[4] = {1000, 1, 0, 3999};

static void
scatter_server(struct pair *pair)
{
	DAT_LMR_TRIPLET iov[4];
	uint8_t got[4000];
	struct dat_buffer b;
	struct dat_side s;
	size_t at = 3, have = 0;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, 8192, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (size_t i = 0; i < 4; i++) {
		iov[i] = (DAT_LMR_TRIPLET){.lmr_context = b.lmr_context,
					   .virtual_address = (uintptr_t)b.data + at,
					   .segment_length = pieces_in[i]};
		at += pieces_in[i] + 5;
	}
	DAT_CHECK(&s,
		  dat_ep_post_recv(s.ep, 4, iov, (DAT_DTO_COOKIE){.as_64 = 1}, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_connect(&s, true);
	dat_side_complete(&s, s.recv, 1, DAT_DTO_SUCCESS, 4000);
	for (size_t i = 0; i < 4 && have < 4000; i++) {
		size_t n = pieces_in[i] < 4000 - have ? pieces_in[i] : 4000 - have;

		memcpy(got + have, (uint8_t *)(uintptr_t)iov[i].virtual_address, n);
		have += n;
	}
	CHECK(pair, pair_pattern_check(got, 4000, 9) == 4000, "scattered data is wrong");
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
scatter_client(struct pair *pair)
{
	uint8_t all[4000];
	DAT_LMR_TRIPLET iov[4];
	struct dat_buffer b;
	struct dat_side s;
	size_t at = 1, have = 0;

	dat_side_start(&s, pair, false, &b, 8192);
	pair_pattern(all, 4000, 9);
	for (size_t i = 0; i < 4; i++) {
		/* The context of an empty piece is ignored. */
		iov[i] = (DAT_LMR_TRIPLET){.lmr_context = pieces_out[i] == 0 ? 0xdead : b.lmr_context,
					   .virtual_address = (uintptr_t)b.data + at,
					   .segment_length = pieces_out[i]};
		memcpy(b.data + at, all + have, pieces_out[i]);
		have += pieces_out[i];
		at += pieces_out[i] + 11;
	}
	DAT_CHECK(&s,
		  dat_ep_post_send(s.ep, 4, iov, (DAT_DTO_COOKIE){.as_64 = 2}, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, 4000);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- RDMA WRITE and READ ---- */

static void
rdma_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, LARGEST + 2 * GUARD, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	for (size_t i = 0; i < NUM_SIZES; i++) {
		size_t at = GUARD + i % 7;

		memset(b.data, 0xEE, b.size);
		pair_barrier(pair); /* the client has written */
		pair_barrier(pair);
		CHECK(pair, pair_pattern_check(b.data + at, sizes[i], (uint32_t)i) == sizes[i],
		      "RDMA write of %zu bytes: wrong data", sizes[i]);
		for (size_t k = 0; k < at; k++)
			CHECK(pair, b.data[k] == 0xEE, "RDMA write of %zu bytes: touched %zu before it",
			      sizes[i], at - k);
		for (size_t k = at + sizes[i]; k < b.size; k++)
			CHECK(pair, b.data[k] == 0xEE, "RDMA write of %zu bytes: touched byte %zu behind it",
			      sizes[i], k - at - sizes[i]);
		pair_pattern(b.data + at, sizes[i], (uint32_t)(1000 + i));
		pair_barrier(pair); /* the client may read */
		pair_barrier(pair);
	}
	dat_side_close(&s);
}

static void
rdma_client(struct pair *pair)
{
	struct dat_remote r;
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, LARGEST + 2 * GUARD, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	for (size_t i = 0; i < NUM_SIZES; i++) {
		size_t from = GUARD + i % 5, at = GUARD + i % 7;

		pair_barrier(pair);
		pair_pattern(b.data + from, sizes[i], (uint32_t)i);
		DAT_CHECK(&s, dat_write(s.ep, &b, from, sizes[i], i, &r, at, DAT_COMPLETION_DEFAULT_FLAG));
		dat_side_complete(&s, s.request, i, DAT_DTO_SUCCESS, sizes[i]);
		pair_barrier(pair);
		pair_barrier(pair);
		memset(b.data, 0x11, b.size);
		DAT_CHECK(&s, dat_read(s.ep, &b, from, sizes[i], i, &r, at, DAT_COMPLETION_DEFAULT_FLAG));
		dat_side_complete(&s, s.request, i, DAT_DTO_SUCCESS, sizes[i]);
		CHECK(pair, pair_pattern_check(b.data + from, sizes[i], (uint32_t)(1000 + i)) == sizes[i],
		      "RDMA read of %zu bytes: wrong data", sizes[i]);
		for (size_t k = 0; k < from; k++)
			CHECK(pair, b.data[k] == 0x11, "RDMA read of %zu bytes: touched before it", sizes[i]);
		for (size_t k = from + sizes[i]; k < b.size; k++)
			CHECK(pair, b.data[k] == 0x11, "RDMA read of %zu bytes: touched behind it", sizes[i]);
		pair_barrier(pair);
	}
	dat_side_close(&s);
}

/* ---- many requests in flight, more READs than the target serves at once, a fence ---- */

#define FLIGHT 200u
#define BLOCK 3000u

static void
flight_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, FLIGHT * BLOCK, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	pair_barrier(pair);
	for (uint32_t i = 0; i < FLIGHT; i++)
		CHECK(pair, pair_pattern_check(b.data + i * BLOCK, BLOCK, i) == BLOCK, "block %u is wrong",
		      i);
	dat_side_close(&s);
}

static void
flight_client(struct pair *pair)
{
	struct dat_buffer out, in;
	struct dat_remote r;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &out, FLIGHT * BLOCK, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &in, FLIGHT * BLOCK, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	for (uint32_t i = 0; i < FLIGHT; i++) {
		pair_pattern(out.data + i * BLOCK, BLOCK, i);
		DAT_CHECK(&s, dat_write(s.ep, &out, i * BLOCK, BLOCK, i, &r, i * BLOCK,
					DAT_COMPLETION_SUPPRESS_FLAG));
	}
	for (uint32_t i = 0; i < 40; i++)
		DAT_CHECK(&s, dat_read(s.ep, &in, i * BLOCK, BLOCK, 1000 + i, &r, i * BLOCK,
				       DAT_COMPLETION_DEFAULT_FLAG));
	/* The fence completes the READs first, so this WRITE may overwrite their source. */
	DAT_CHECK(&s, dat_write(s.ep, &out, 0, 16, 2000, &r, 0, DAT_COMPLETION_BARRIER_FENCE_FLAG));
	/* The fence completes the READs first, so this WRITE may forward their data. */
	DAT_CHECK(&s, dat_write(s.ep, &in, 39 * BLOCK, 8, 2001, &r, 39 * BLOCK,
				DAT_COMPLETION_BARRIER_FENCE_FLAG));
	for (uint32_t i = 0; i < 40; i++)
		dat_side_complete(&s, s.request, 1000 + i, DAT_DTO_SUCCESS, BLOCK);
	dat_side_complete(&s, s.request, 2000, DAT_DTO_SUCCESS, 16);
	dat_side_complete(&s, s.request, 2001, DAT_DTO_SUCCESS, 8);
	for (uint32_t i = 0; i < 40; i++)
		CHECK(pair, pair_pattern_check(in.data + i * BLOCK, BLOCK, i) == BLOCK, "block %u read wrong",
		      i);
	dat_side_nothing(&s, s.request, 20);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- the last byte is stored last ---- */

#define POLL_ROUNDS 500u
#define POLL_LEN 9001u

static void
poll_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, true, &b, POLL_LEN);
	dat_buffer_offer(&s, &b);
	for (uint32_t round = 1; round <= POLL_ROUNDS; round++) {
		uint8_t want = (uint8_t)(round % 255 + 1);
		volatile _Atomic uint8_t *last = (volatile _Atomic uint8_t *)(b.data + POLL_LEN - 1);
		uint64_t start = pair_now_ms();

		/*
		 * Poll many times before yielding the processor, to catch a last byte that arrives before
		 * the rest.
		 */
		for (uint32_t looks = 1; atomic_load_explicit(last, memory_order_acquire) != want; looks++) {
			if (looks % 4096 != 0)
				continue;
			sched_yield();
			CHECK(pair, pair_now_ms() - start < 20000 * PAIR_SHARE, "round %u never arrived",
			      round);
		}
		for (uint32_t i = 0; i < POLL_LEN; i += 97)
			CHECK(pair, b.data[i] == want, "round %u: the last byte came before byte %u", round,
			      i);
		pair_barrier(pair);
	}
	dat_side_close(&s);
}

static void
poll_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, POLL_LEN);
	dat_remote_take(&s, &r);
	for (uint32_t round = 1; round <= POLL_ROUNDS; round++) {
		memset(b.data, (int)(round % 255 + 1), POLL_LEN);
		DAT_CHECK(&s, dat_write(s.ep, &b, 0, POLL_LEN, round, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
		dat_side_complete(&s, s.request, round, DAT_DTO_SUCCESS, POLL_LEN);
		pair_barrier(pair);
	}
	dat_side_close(&s);
}

/* ---- a sender waits for a late receive ---- */

static void
late_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, true, &b, 4096);
	pair_barrier(pair); /* the message has been sent */
	dat_side_nothing(&s, s.recv, 200);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 4096, 5));
	dat_side_complete(&s, s.recv, 5, DAT_DTO_SUCCESS, 3333);
	CHECK(pair, pair_pattern_check(b.data, 3333, 3) == 3333, "wrong data");
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
late_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	pair_pattern(b.data, 3333, 3);
	dat_side_connect(&s, false);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 3333, 6, DAT_COMPLETION_DEFAULT_FLAG));
	pair_barrier(pair);
	dat_side_complete(&s, s.request, 6, DAT_DTO_SUCCESS, 3333);
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"send", send_server, send_client, false},
	{"scatter", scatter_server, scatter_client, false},
	{"rdma", rdma_server, rdma_client, false},
	{"flight", flight_server, flight_client, false},
	{"last_byte_last", poll_server, poll_client, false},
	{"late_receive", late_server, late_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
