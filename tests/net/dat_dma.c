/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long transfers between two applications of one data plane, as DMA devices are given them:
 * every byte is checked; an end is killed, or memory deregistered, in the middle.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dat_pair.h"

#define LEN (1u << 20)
#define DEPTH 4u
#define ROUNDS 100u

static DAT_EVENT event;

/* ---- writes and reads ---- */

/* Last bytes of four messages, which arrive in order; then those of four others are read. */
static void
moves_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, DEPTH * LEN, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		for (uint32_t i = 0; i < DEPTH; i++) {
			uint8_t *at = b.data + i * LEN;
			volatile _Atomic uint8_t *last = (volatile _Atomic uint8_t *)(at + LEN - 1);
			uint64_t start = pair_now_ms();

			while (atomic_load_explicit(last, memory_order_acquire) != (uint8_t)round) {
				usleep(50);
				CHECK(pair, pair_now_ms() - start < 20000, "round %u never arrived", round);
			}
			CHECK(pair, pair_pattern_check(at, LEN - 1, round * DEPTH + i) == LEN - 1,
			      "round %u: the last byte of message %u came before others", round, i);
		}
		for (uint32_t i = 0; i < DEPTH; i++) {
			pair_pattern(b.data + i * LEN, LEN, round * DEPTH + i + 5000);
			b.data[(i + 1) * LEN - 1] = 0; /* no round's */
		}
		pair_barrier(pair); /* to be read */
		pair_barrier(pair);
	}
	dat_side_close(&s);
}

static void
moves_client(struct pair *pair)
{
	struct dat_remote r;
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, DEPTH * LEN, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		for (uint32_t i = 0; i < DEPTH; i++) {
			pair_pattern(b.data + i * LEN, LEN, round * DEPTH + i);
			b.data[(i + 1) * LEN - 1] = (uint8_t)round;
			DAT_CHECK(&s, dat_write(s.ep, &b, i * LEN, LEN, i, &r, i * LEN,
						DAT_COMPLETION_DEFAULT_FLAG));
		}
		for (uint32_t i = 0; i < DEPTH; i++)
			dat_side_complete(&s, s.request, i, DAT_DTO_SUCCESS, LEN);
		pair_barrier(pair);
		memset(b.data, 0, b.size);
		for (uint32_t i = 0; i < DEPTH; i++)
			DAT_CHECK(&s, dat_read(s.ep, &b, i * LEN, LEN, i, &r, i * LEN,
					       DAT_COMPLETION_DEFAULT_FLAG));
		for (uint32_t i = 0; i < DEPTH; i++)
			dat_side_complete(&s, s.request, i, DAT_DTO_SUCCESS, LEN);
		for (uint32_t i = 0; i < DEPTH; i++)
			CHECK(pair,
			      pair_pattern_check(b.data + i * LEN, LEN - 1, round * DEPTH + i + 5000) ==
				      LEN - 1,
			      "round %u: message %u was read wrong", round, i);
		pair_barrier(pair);
	}
	dat_side_close(&s);
}

/* ---- one end is killed ---- */

/* Writes for ever, until one fails. */
static void
write_on(struct dat_side *s, struct dat_buffer *b, const struct dat_remote *r, pid_t kill_after)
{
	uint64_t start = pair_now_ms();
	uint32_t outstanding = 0;
	bool failed = false;

	while (!failed || outstanding > 0) {
		while (!failed && outstanding < DEPTH) {
			failed = dat_write(s->ep, b, outstanding * LEN, LEN, 1, r, outstanding * LEN,
					   DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS;
			outstanding += !failed;
		}
		if (dat_evd_dequeue(s->request, &event) == DAT_SUCCESS) {
			outstanding--;
			failed |= event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS;
		}
		if (kill_after != 0 && pair_now_ms() - start > 20 + (uint64_t)getpid() % 16) {
			CHECK(s->pair, kill(kill_after, SIGKILL) == 0, "kill");
			kill_after = 0;
		}
		CHECK(s->pair, pair_now_ms() - start < 20000,
		      "%u requests are still open after 20 s (failed: %d)", outstanding, failed);
	}
}

static void
target_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, DEPTH * LEN, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	for (;;)
		pause();
}

static void
target_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, DEPTH * LEN, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	write_on(&s, &b, &r, pair->peer);
	dat_side_expect_end(&s);
	DAT_CHECK(&s, dat_ep_reset(s.ep));
	dat_side_close(&s);
}

static void
source_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, DEPTH * LEN, DAT_MEM_PRIV_ALL_FLAG);
	memset(b.data, 1, b.size);
	dat_side_connect(&s, true);
	dat_remote_take(&s, &r);
	write_on(&s, &b, &r, 0);
}

static void
await_data(struct pair *pair, const struct dat_buffer *b)
{
	uint64_t start = pair_now_ms();

	while (*(const volatile uint8_t *)b->data == 0) {
		usleep(50);
		CHECK(pair, pair_now_ms() - start < 20000, "nothing arrives");
	}
}

static void
expect_untouched(struct pair *pair, struct dat_buffer *b, const char *since)
{
	memset(b->data, 9, b->size);
	usleep(20000);
	for (size_t i = 0; i < b->size; i++)
		CHECK(pair, b->data[i] == 9, "byte %zu was written after %s", i, since);
}

/* When it has been told of the end, nothing is written to its memory any more. */
static void
source_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, DEPTH * LEN, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, false);
	dat_buffer_offer(&s, &b);
	await_data(pair, &b);
	CHECK(pair, kill(pair->peer, SIGKILL) == 0, "kill");
	dat_side_expect_end(&s);
	expect_untouched(pair, &b, "the end of the connection");
	dat_side_close(&s);
}

/* ---- memory is deregistered ---- */

static void
deregister_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, DEPTH * LEN, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	await_data(pair, &b);
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	expect_untouched(pair, &b, "the deregistration");
	dat_side_expect_end(&s);
	free(b.data);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
deregister_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, DEPTH * LEN, DAT_MEM_PRIV_ALL_FLAG);
	memset(b.data, 1, b.size);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	write_on(&s, &b, &r, 0);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"moves", moves_server, moves_client, false},
	{"target_killed", target_server, target_client, true},
	{"source_killed", source_server, source_client, true},
	{"deregister", deregister_server, deregister_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
