/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous messages cut off by a disconnect. As in MPI libraries, the owner of memory sends its address,
 * the peer reads it and sends that it is done; one of them, or both, disconnect at some moment. Each
 * request and receive of each end completes once, executed or flushed; nothing succeeds after a flushed
 * one; and data reported as transferred has arrived.
 */
#include <string.h>

#include "dat_pair.h"

#define PIECE 65536u
#define READS 6u
#define RECVS 3u
#define LENGTH (READS * PIECE)
#define ROUNDS 96u

enum closer { READER_ABRUPT, OWNER_ABRUPT, BOTH_ABRUPT, READER_GRACEFUL, CLOSERS };

/* Completions of a queue so far: they come in the order of posting. */
struct seen {
	uint64_t next;
	uint32_t succeeded;
	bool flushed;
};

static enum closer
closer_of(uint32_t round)
{
	return (enum closer)(round % CLOSERS);
}

/* Number of the reader's completions before the disconnect. */
static uint32_t
patience_of(uint32_t round)
{
	return round / CLOSERS % (READS + 2);
}

static uint8_t
pattern(uint32_t round, size_t at)
{
	return (uint8_t)(round * 37 + at / 8 + 1);
}

/* Takes the next completion of `evd`, due within `ms`; cookies count from 0. */
static void
take(struct dat_side *s, DAT_EVD_HANDLE evd, uint32_t ms, struct seen *seen)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;

	dat_side_expect(s, evd, DAT_DTO_COMPLETION_EVENT, ms, &event);
	dto = &event.event_data.dto_completion_event_data;
	CHECK(s->pair, dto->user_cookie.as_64 == seen->next, "cookie %llu instead of %llu",
	      (unsigned long long)dto->user_cookie.as_64, (unsigned long long)seen->next);
	CHECK(s->pair, dto->status == DAT_DTO_SUCCESS || dto->status == DAT_DTO_ERR_FLUSHED,
	      "cookie %llu: status %d", (unsigned long long)seen->next, dto->status);
	CHECK(s->pair, dto->status != DAT_DTO_SUCCESS || !seen->flushed, "success behind what was flushed");
	seen->next++;
	seen->flushed = dto->status != DAT_DTO_SUCCESS;
	seen->succeeded += dto->status == DAT_DTO_SUCCESS;
}

/*
 * Expects the end of the connection, and exactly the remaining completions of `requests` requests and of
 * all receives.
 */
static void
take_rest(struct dat_side *s, uint64_t requests, struct seen *request, struct seen *recv)
{
	DAT_EVENT event;

	while (request->next < requests)
		take(s, s->request, 20000, request);
	while (recv->next < RECVS)
		take(s, s->recv, 20000, recv);
	dat_side_expect(s, s->conn, DAT_CONNECTION_EVENT_DISCONNECTED, 20000, &event);
	dat_side_nothing(s, s->conn, 1);
	dat_side_nothing(s, s->request, 1);
	dat_side_nothing(s, s->recv, 1);
	CHECK(s->pair, dat_side_state(s, s->ep) == DAT_EP_STATE_DISCONNECTED, "not DISCONNECTED");
	DAT_CHECK(s, dat_ep_free(s->ep));
}

/* Connects an endpoint with posted receives. */
static void
begin(struct dat_side *s, const struct dat_buffer *b, uint32_t round, bool server)
{
	s->ep = dat_side_ep(s);
	for (uint64_t i = 0; i < RECVS; i++)
		DAT_CHECK(s, dat_recv(s->ep, b, i * 64, 64, i));
	dat_side_connect(s, server);
}

/*
 * The reader's successful READs, and whether its last message succeeded: the owner compares them with its
 * own view.
 */
struct verdict {
	uint32_t reads, done_sent;
};

static void
owner_round(struct dat_side *s, const struct dat_buffer *b, const struct dat_buffer *source, uint32_t round)
{
	struct seen request = {0}, recv = {0};
	struct verdict reported;

	for (size_t i = 0; i < LENGTH; i++)
		source->data[i] = pattern(round, i);
	begin(s, b, round, true);
	DAT_CHECK(s, dat_send(s->ep, b, 4096, 64, 0, DAT_COMPLETION_DEFAULT_FLAG));
	if (closer_of(round) == OWNER_ABRUPT || closer_of(round) == BOTH_ABRUPT) {
		for (uint32_t i = 0; i < patience_of(round);
		     i++) /* a short delay, whatever the reader does */
			dat_side_state(s, s->ep);
		if (patience_of(round) > READS / 2)
			take(s, s->request, 20000, &request);
		DAT_CHECK(s, dat_ep_disconnect(s->ep, DAT_CLOSE_ABRUPT_FLAG));
	}
	take_rest(s, 1, &request, &recv);
	pair_recv(s->pair, &reported, sizeof(reported));
	CHECK(s->pair, reported.reads == 0 || request.succeeded == 1, "read of what was not announced");
	CHECK(s->pair, recv.succeeded >= reported.done_sent,
	      "the reader was notified that its message arrived");
	if (closer_of(round) == READER_GRACEFUL)
		CHECK(s->pair, recv.succeeded == 1 && reported.reads == READS,
		      "a graceful disconnect carries out what was posted: %u reads, %u messages",
		      reported.reads, recv.succeeded);
}

static void
server(struct pair *pair)
{
	struct dat_buffer b, source;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, 65536, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &source, LENGTH, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_offer(&s, &source);
	for (uint32_t round = 0; round < ROUNDS; round++)
		owner_round(&s, &b, &source, round);
	dat_side_close(&s);
}

/* Posts the READs and the message, and sends the owner a verdict on those that succeeded. */
static void
reader_round(struct dat_side *s, const struct dat_buffer *b, const struct dat_buffer *target,
	     const struct dat_remote *remote, uint32_t round)
{
	struct seen request = {0}, recv = {0};
	enum closer closer = closer_of(round);
	uint64_t posted = 0;
	struct verdict reported;

	memset(target->data, 0, LENGTH);
	begin(s, b, round, false);
	take(s, s->recv, 20000, &recv);
	/*
	 * The owner's address has arrived. If the owner has disconnected since, the posts below are
	 * flushed.
	 */
	for (; posted < READS; posted++)
		DAT_CHECK(s, dat_read(s->ep, target, posted * PIECE, PIECE, posted, remote, posted * PIECE,
				      DAT_COMPLETION_DEFAULT_FLAG));
	DAT_CHECK(s, dat_send(s->ep, b, 4096, 64, posted++, DAT_COMPLETION_DEFAULT_FLAG));
	while (request.next < patience_of(round))
		take(s, s->request, 20000, &request);
	if (closer != OWNER_ABRUPT)
		DAT_CHECK(s, dat_ep_disconnect(s->ep, closer == READER_GRACEFUL ? DAT_CLOSE_GRACEFUL_FLAG
										: DAT_CLOSE_ABRUPT_FLAG));
	take_rest(s, posted, &request, &recv);
	reported.reads = request.succeeded < READS ? request.succeeded : READS;
	reported.done_sent = request.succeeded > READS;
	for (size_t i = 0; i < reported.reads * (size_t)PIECE; i++)
		CHECK(s->pair, target->data[i] == pattern(round, i), "round %u: byte %zu of what was read",
		      round, i);
	pair_send(s->pair, &reported, sizeof(reported));
}

static void
client(struct pair *pair)
{
	struct dat_buffer b, target;
	struct dat_remote remote;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, 65536, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &target, LENGTH, DAT_MEM_PRIV_ALL_FLAG);
	dat_remote_take(&s, &remote);
	for (uint32_t round = 0; round < ROUNDS; round++)
		reader_round(&s, &b, &target, &remote, round);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"rendezvous_cut_off", server, client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, 1);
}
