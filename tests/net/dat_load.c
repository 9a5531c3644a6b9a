/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uDAPL under load: thousands of connections in succession, hundreds of endpoints at once, and a soak of
 * mixed operations over many endpoints, in which every byte is checked.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dat_pair.h"

static DAT_EVENT event;

static void
connect_ep(struct dat_side *s, DAT_EP_HANDLE ep)
{
	DAT_CHECK(s, dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&s->address, s->qual, 30000000, 0, NULL,
				    DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

static void
accept_ep(struct dat_side *s, DAT_EP_HANDLE ep)
{
	dat_side_expect(s, s->cr, DAT_CONNECTION_REQUEST_EVENT, 30000, &event);
	DAT_CHECK(s, dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, ep, 0, NULL));
}

/* ---- connect and disconnect, repeatedly ---- */

#define STORM 2000u
#define STORM_AT_ONCE 8u

/* No event is left, and no object but those of dat_side_open(). */
static void
storm_over(struct dat_side *s)
{
	dat_side_nothing(s, s->conn, 50);
	dat_side_nothing(s, s->cr, 1);
	dat_side_nothing(s, s->async, 1);
}

static void
storm_close(struct dat_side *s)
{
	DAT_CHECK(s, dat_evd_free(s->cr));
	DAT_CHECK(s, dat_evd_free(s->conn));
	DAT_CHECK(s, dat_evd_free(s->recv));
	DAT_CHECK(s, dat_evd_free(s->request));
	DAT_CHECK(s, dat_pz_free(s->pz));
	DAT_CHECK(s, dat_ia_close(s->ia, DAT_CLOSE_GRACEFUL_FLAG));
}

static void
storm_server(struct pair *pair)
{
	uint32_t requests = 0, established = 0, ended = 0;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	while (ended < STORM) {
		DAT_EVENT e;
		DAT_COUNT more;

		if (requests < STORM && dat_evd_wait(s.cr, 1000, 1, &e, &more) == DAT_SUCCESS) {
			DAT_EP_HANDLE ep = dat_side_ep(&s);

			DAT_CHECK(&s,
				  dat_cr_accept(e.event_data.cr_arrival_event_data.cr_handle, ep, 0, NULL));
			requests++;
		}
		while (dat_evd_dequeue(s.conn, &e) == DAT_SUCCESS) {
			if (e.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
				established++;
				continue;
			}
			CHECK(pair, e.event_number == DAT_CONNECTION_EVENT_DISCONNECTED,
			      "connection %u ended with 0x%x", ended, e.event_number);
			DAT_CHECK(&s, dat_ep_free(e.event_data.connect_event_data.ep_handle));
			ended++;
		}
	}
	CHECK(pair, requests == STORM && established == STORM, "%u requests, %u established", requests,
	      established);
	storm_over(&s);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_psp_free(s.psp));
	storm_close(&s);
}

static void
storm_client(struct pair *pair)
{
	DAT_EP_HANDLE ep[STORM_AT_ONCE];
	struct dat_side s;

	dat_side_open(&s, pair, false);
	for (uint32_t done = 0; done < STORM; done += STORM_AT_ONCE) {
		for (uint32_t i = 0; i < STORM_AT_ONCE; i++) {
			ep[i] = dat_side_ep(&s);
			connect_ep(&s, ep[i]);
		}
		for (uint32_t i = 0; i < STORM_AT_ONCE; i++)
			dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 30000, &event);
		for (uint32_t i = 0; i < STORM_AT_ONCE; i++)
			DAT_CHECK(&s, dat_ep_disconnect(ep[i], DAT_CLOSE_ABRUPT_FLAG));
		for (uint32_t i = 0; i < STORM_AT_ONCE; i++)
			dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 30000, &event);
		for (uint32_t i = 0; i < STORM_AT_ONCE; i++)
			DAT_CHECK(&s, dat_ep_free(ep[i]));
	}
	storm_over(&s);
	pair_barrier(pair);
	storm_close(&s);
}

/* ---- many endpoints at once: each is used, and ended by one event ---- */

#define MANY 500u

static void
expect_ends(struct dat_side *s, DAT_EP_HANDLE ep[MANY])
{
	static bool over[MANY];

	memset(over, 0, sizeof(over));
	for (uint32_t n = 0; n < MANY; n++) {
		uint32_t i = 0;

		dat_side_expect(s, s->conn, DAT_CONNECTION_EVENT_DISCONNECTED, 30000, &event);
		while (i < MANY && ep[i] != event.event_data.connect_event_data.ep_handle)
			i++;
		CHECK(s->pair, i < MANY && !over[i], "DISCONNECTED of nobody, or a second one");
		over[i] = true;
	}
	dat_side_nothing(s, s->conn, 50);
	for (uint32_t i = 0; i < MANY; i++)
		DAT_CHECK(s, dat_ep_free(ep[i]));
}

static void
many_server(struct pair *pair)
{
	static DAT_EP_HANDLE ep[MANY];
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, MANY * 8, DAT_MEM_PRIV_ALL_FLAG);
	for (uint32_t i = 0; i < MANY; i++) {
		ep[i] = dat_side_ep(&s);
		accept_ep(&s, ep[i]);
	}
	for (uint32_t i = 0; i < MANY; i++)
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 30000, &event);
	dat_buffer_offer(&s, &b);
	pair_barrier(pair);
	for (uint32_t i = 0; i < MANY; i++)
		CHECK(pair, ((uint64_t *)(void *)b.data)[i] == 1000 + i, "endpoint %u wrote nothing", i);
	expect_ends(&s, ep);
	dat_side_close(&s);
}

static void
many_client(struct pair *pair)
{
	static DAT_EP_HANDLE ep[MANY];
	struct dat_remote r;
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, MANY * 8, DAT_MEM_PRIV_ALL_FLAG);
	for (uint32_t i = 0; i < MANY; i++) {
		ep[i] = dat_side_ep(&s);
		connect_ep(&s, ep[i]);
	}
	for (uint32_t i = 0; i < MANY; i++)
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 30000, &event);
	dat_remote_take(&s, &r);
	for (uint32_t i = 0; i < MANY; i++) {
		((uint64_t *)(void *)b.data)[i] = 1000 + i;
		DAT_CHECK(&s, dat_write(ep[i], &b, i * 8, 8, i, &r, i * 8, DAT_COMPLETION_DEFAULT_FLAG));
	}
	for (uint32_t i = 0; i < MANY; i++) {
		dat_side_expect(&s, s.request, DAT_DTO_COMPLETION_EVENT, 20000, &event);
		CHECK(pair, event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS,
		      "a write failed: %d", event.event_data.dto_completion_event_data.status);
	}
	pair_barrier(pair);
	for (uint32_t i = 0; i < MANY; i++)
		DAT_CHECK(&s, dat_ep_disconnect(ep[i], DAT_CLOSE_ABRUPT_FLAG));
	expect_ends(&s, ep);
	dat_side_close(&s);
}

/* ---- soak ---- */

/*
 * Each round does WRITEs, a READ of all that was written, and a fenced SEND on each of 64 endpoints, for
 * ONESIDE_SOAK_SECONDS (10 if unset), or until the file UNTIL exists. The server checks each message and
 * answers with another. Sometimes the client first requests a new window; WRITEs through the old context
 * would then break the connection. The client checks the data of its READs and the answers.
 */
#define SOAK_EPS 64u
#define SOAK_REGION 65536u
#define SOAK_MESSAGE 9000u
#define SOAK_WRITES 4u
#define SOAK_SECONDS 10u

struct soak_ep {
	DAT_EP_HANDLE ep;
	DAT_RMR_HANDLE rmr;
	struct dat_remote window;
};

/*
 * Head of a message; a pattern from `seed` fills the rest. To the server it says whether to bind a new
 * window and whether the message is the endpoint's last; to the client it gives the window.
 */
struct soak_note {
	uint32_t endpoint, seed, bind, last;
	struct dat_remote window;
};

static uint32_t
soak_seconds(void)
{
	const char *wanted = getenv("ONESIDE_SOAK_SECONDS");
	uint32_t seconds = wanted != NULL ? (uint32_t)strtoul(wanted, NULL, 10) : SOAK_SECONDS;

	/* The test ends after `seconds`; if it hangs, the alarm kills it. */
	alarm(seconds + 120);
	return seconds;
}

static bool
soak_is_over(uint64_t start, uint32_t seconds)
{
	const char *until = getenv("UNTIL");

	return until != NULL ? access(until, F_OK) == 0 : pair_now_ms() - start >= seconds * 1000ull;
}

static void
soak_bind(struct dat_side *s, struct soak_ep *e, const struct dat_buffer *b, uint32_t index)
{
	DAT_LMR_TRIPLET range = {.lmr_context = b->lmr_context,
				 .virtual_address = (uintptr_t)b->data + index * SOAK_REGION,
				 .segment_length = SOAK_REGION};

	DAT_CHECK(s,
		  dat_rmr_bind(e->rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
			       e->ep, (DAT_RMR_COOKIE){.as_64 = index}, DAT_COMPLETION_SUPPRESS_FLAG,
			       &e->window.context));
	e->window.address = range.virtual_address;
	e->window.length = SOAK_REGION;
}

/* Sends a message of random length from its place in `out`, after everything posted before. */
static void
soak_send(struct dat_side *s, struct soak_ep *e, const struct dat_buffer *out, const struct soak_note *note,
	  uint32_t len, DAT_COMPLETION_FLAGS flags)
{
	uint8_t *message = out->data + note->endpoint * SOAK_MESSAGE;

	memcpy(message, note, sizeof(*note));
	pair_pattern(message + sizeof(*note), len, note->seed);
	DAT_CHECK(s, dat_send(e->ep, out, note->endpoint * SOAK_MESSAGE, sizeof(*note) + len,
			      200 + note->endpoint, flags));
}

/* Takes the next message, checks it, and posts its receive again. */
static struct soak_note
soak_receive(struct dat_side *s, struct soak_ep *e, const struct dat_buffer *in)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
	struct soak_note note;
	uint64_t rest;
	uint32_t i;

	dat_side_expect(s, s->recv, DAT_DTO_COMPLETION_EVENT, 60000, &event);
	CHECK(s->pair, dto->status == DAT_DTO_SUCCESS, "receive: status %d", dto->status);
	i = (uint32_t)dto->user_cookie.as_64;
	CHECK(s->pair, i < SOAK_EPS && dto->ep_handle == e[i].ep, "a receive of endpoint %u", i);
	memcpy(&note, in->data + i * SOAK_MESSAGE, sizeof(note));
	CHECK(s->pair, note.endpoint == i, "endpoint %u got a message of endpoint %u", i, note.endpoint);
	rest = dto->transfered_length - sizeof(note);
	CHECK(s->pair,
	      pair_pattern_check(in->data + i * SOAK_MESSAGE + sizeof(note), rest, note.seed) == rest,
	      "endpoint %u: message of %llu bytes is wrong", i, (unsigned long long)dto->transfered_length);
	DAT_CHECK(s, dat_recv(e[i].ep, in, i * SOAK_MESSAGE, SOAK_MESSAGE, i));
	return note;
}

static void
soak_end(struct dat_side *s, bool server)
{
	dat_side_nothing(s, s->request, 20);
	dat_side_nothing(s, s->async, 1);
	dat_side_nothing(s, s->conn, 1);
	pair_barrier(s->pair);
	if (!server)
		dat_side_close(s);
	pair_barrier(s->pair);
	if (server)
		dat_side_close(s);
}

static void
soak_server(struct pair *pair)
{
	static struct soak_ep e[SOAK_EPS];
	struct dat_buffer target, in, out;
	uint32_t open = SOAK_EPS, seed = 1;
	struct dat_side s;

	soak_seconds();
	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &target, SOAK_EPS * SOAK_REGION, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &in, SOAK_EPS * SOAK_MESSAGE, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &out, SOAK_EPS * SOAK_MESSAGE, DAT_MEM_PRIV_ALL_FLAG);
	for (uint32_t i = 0; i < SOAK_EPS; i++) {
		e[i].ep = dat_side_ep(&s);
		DAT_CHECK(&s, dat_rmr_create(s.pz, &e[i].rmr));
		DAT_CHECK(&s, dat_recv(e[i].ep, &in, i * SOAK_MESSAGE, SOAK_MESSAGE, i));
		accept_ep(&s, e[i].ep);
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 30000, &event);
		soak_bind(&s, &e[i], &target, i);
	}
	while (open > 0) {
		struct soak_note note = soak_receive(&s, e, &in);
		struct soak_ep *from = &e[note.endpoint];

		if (note.bind)
			soak_bind(&s, from, &target, note.endpoint);
		open -= note.last;
		note.seed = seed++;
		note.window = from->window;
		/*
		 * The SEND starts only after the bind is done, so the message can announce the new window
		 * at once.
		 */
		soak_send(&s, from, &out, &note, note.seed % (SOAK_MESSAGE - sizeof(note)),
			  DAT_COMPLETION_SUPPRESS_FLAG);
	}
	soak_end(&s, true);
}

static uint32_t
soak_random(uint32_t *state, uint32_t below)
{
	*state = *state * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)(*state >> 8) * below) >> 24);
}

static void
soak_wait(struct dat_side *s, uint32_t completions)
{
	for (uint32_t i = 0; i < completions; i++) {
		dat_side_expect(s, s->request, DAT_DTO_COMPLETION_EVENT, 60000, &event);
		CHECK(s->pair, event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS,
		      "operation 0x%llx: status %d",
		      (unsigned long long)event.event_data.dto_completion_event_data.user_cookie.as_64,
		      event.event_data.dto_completion_event_data.status);
	}
}

static void
soak_client(struct pair *pair)
{
	static struct soak_ep e[SOAK_EPS];
	const uint32_t seconds = soak_seconds();
	struct dat_buffer mirror, back, in, out;
	uint32_t random = 20031117, round = 0, binds = 0;
	uint64_t start;
	struct dat_side s;
	bool last = false;

	dat_side_open(&s, pair, false);
	/* The expected contents of the server's memory, the destination of READs, and messages. */
	dat_buffer_make(&s, &mirror, SOAK_EPS * SOAK_REGION, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &back, SOAK_EPS * SOAK_REGION, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &in, SOAK_EPS * SOAK_MESSAGE, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &out, SOAK_EPS * SOAK_MESSAGE, DAT_MEM_PRIV_ALL_FLAG);
	for (uint32_t i = 0; i < SOAK_EPS; i++) {
		e[i].ep = dat_side_ep(&s);
		DAT_CHECK(&s, dat_recv(e[i].ep, &in, i * SOAK_MESSAGE, SOAK_MESSAGE, i));
		connect_ep(&s, e[i].ep);
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 30000, &event);
	}
	start = pair_now_ms();
	for (; !last; round++) {
		last = soak_is_over(start, seconds);
		for (uint32_t i = 0; i < SOAK_EPS; i++) {
			struct soak_note note = {.endpoint = i, .seed = round * SOAK_EPS + i, .last = last};

			/* The first round's messages only request a window. */
			for (uint32_t w = 0; w < SOAK_WRITES && round > 0; w++) {
				uint32_t part = SOAK_REGION / SOAK_WRITES;
				uint32_t at = w * part + soak_random(&random, part / 2);
				uint32_t n = soak_random(&random, part / 2);

				pair_pattern(mirror.data + i * SOAK_REGION + at, n, note.seed * 7 + w);
				DAT_CHECK(&s, dat_write(e[i].ep, &mirror, i * SOAK_REGION + at, n, w,
							&e[i].window, at, DAT_COMPLETION_SUPPRESS_FLAG));
			}
			if (round > 0)
				DAT_CHECK(&s, dat_read(e[i].ep, &back, i * SOAK_REGION, SOAK_REGION, 100 + i,
						       &e[i].window, 0, DAT_COMPLETION_DEFAULT_FLAG));
			note.bind = soak_random(&random, 4) == 0;
			binds += note.bind;
			/*
			 * The fence completes all accesses through this window first, so the server may
			 * bind it anew.
			 */
			soak_send(&s, &e[i], &out, &note, soak_random(&random, SOAK_MESSAGE - sizeof(note)),
				  DAT_COMPLETION_BARRIER_FENCE_FLAG);
		}
		soak_wait(&s, (round > 0 ? 2 : 1) * SOAK_EPS);
		for (uint32_t i = 0; i < SOAK_EPS && round > 0; i++)
			CHECK(pair,
			      memcmp(mirror.data + i * SOAK_REGION, back.data + i * SOAK_REGION,
				     SOAK_REGION) == 0,
			      "round %u, endpoint %u: what was written is not what is read", round, i);
		for (uint32_t i = 0; i < SOAK_EPS; i++) {
			struct soak_note note = soak_receive(&s, e, &in);

			e[note.endpoint].window = note.window;
		}
		if (getenv("UNTIL") != NULL)
			printf("round %u\n", round);
	}
	CHECK(pair, round > 2, "only %u rounds in %u seconds", round, seconds);
	printf("       %u rounds, %u windows bound anew\n", round, binds);
	soak_end(&s, false);
}

static const struct pair_case cases[] = {
	{"storm", storm_server, storm_client, false},
	{"endpoints", many_server, many_client, false},
	{"soak", soak_server, soak_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
