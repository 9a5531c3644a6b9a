/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uDAPL under load: a storm of connections, hundreds of endpoints at once, and a
 * soak of mixed operations over many endpoints in which every byte is checked.
 */
#include <stdlib.h>
#include <string.h>

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

/* ---- connect and disconnect, over and over ---- */

#define STORM 2000u
#define STORM_AT_ONCE 8u

static void
storm_server(struct pair *pair)
{
	uint32_t requests = 0, ended = 0;
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
			if (e.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
				continue;
			CHECK(pair, e.event_number == DAT_CONNECTION_EVENT_DISCONNECTED,
			      "connection %u ended with 0x%x", ended, e.event_number);
			DAT_CHECK(&s, dat_ep_free(e.event_data.connect_event_data.ep_handle));
			ended++;
		}
	}
	dat_side_close(&s);
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
	dat_side_nothing(&s, s.conn, 50);
	dat_side_close(&s);
}

/* ---- many at once, each used ---- */

#define MANY 500u

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
	dat_side_close(&s);
}

/* ---- soak ---- */

#define SOAK_EPS 64u
#define SOAK_REGION 65536u
#define SOAK_MESSAGE 9000u
#define SOAK_ROUNDS 40u
#define SOAK_WRITES 4u

struct soak_ep {
	DAT_EP_HANDLE ep;
	DAT_RMR_HANDLE rmr;
	struct dat_remote window;
};

/* What the client sends: `seed` fills the rest of the message; `bind` asks for a new window. */
struct soak_note {
	uint32_t endpoint, seed, bind, reserved;
};

static void
soak_bind(struct dat_side *s, struct soak_ep *e, const struct dat_buffer *b, uint32_t index, uint32_t length)
{
	DAT_LMR_TRIPLET range = {.lmr_context = b->lmr_context,
				 .virtual_address = (uintptr_t)b->data + index * SOAK_REGION,
				 .segment_length = length};

	DAT_CHECK(s,
		  dat_rmr_bind(e->rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
			       e->ep, (DAT_RMR_COOKIE){.as_64 = index}, DAT_COMPLETION_DEFAULT_FLAG,
			       &e->window.context));
	dat_side_expect(s, s->request, DAT_RMR_BIND_COMPLETION_EVENT, 20000, &event);
	CHECK(s->pair, event.event_data.rmr_completion_event_data.status == DAT_DTO_SUCCESS,
	      "bind: status %d", event.event_data.rmr_completion_event_data.status);
	e->window.address = range.virtual_address;
	e->window.length = length;
}

static void
soak_server(struct pair *pair)
{
	static struct soak_ep e[SOAK_EPS];
	struct dat_buffer target, in;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &target, SOAK_EPS * SOAK_REGION, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &in, SOAK_EPS * SOAK_MESSAGE, DAT_MEM_PRIV_ALL_FLAG);
	for (uint32_t i = 0; i < SOAK_EPS; i++) {
		e[i].ep = dat_side_ep(&s);
		DAT_CHECK(&s, dat_rmr_create(s.pz, &e[i].rmr));
		DAT_CHECK(&s, dat_recv(e[i].ep, &in, i * SOAK_MESSAGE, SOAK_MESSAGE, i));
		accept_ep(&s, e[i].ep);
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 30000, &event);
		soak_bind(&s, &e[i], &target, i, SOAK_REGION);
		pair_send(pair, &e[i].window, sizeof(e[i].window));
	}
	for (uint32_t n = 0; n < SOAK_EPS * SOAK_ROUNDS; n++) {
		const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
		struct soak_note note;
		uint32_t i;

		dat_side_expect(&s, s.recv, DAT_DTO_COMPLETION_EVENT, 40000, &event);
		CHECK(pair, dto->status == DAT_DTO_SUCCESS, "receive: status %d", dto->status);
		i = (uint32_t)dto->user_cookie.as_64;
		memcpy(&note, in.data + i * SOAK_MESSAGE, sizeof(note));
		CHECK(pair, note.endpoint == i, "endpoint %u got a message of endpoint %u", i, note.endpoint);
		CHECK(pair,
		      pair_pattern_check(in.data + i * SOAK_MESSAGE + sizeof(note),
					 dto->transfered_length - sizeof(note),
					 note.seed) == dto->transfered_length - sizeof(note),
		      "endpoint %u: message of %llu bytes is wrong", i,
		      (unsigned long long)dto->transfered_length);
		DAT_CHECK(&s, dat_recv(e[i].ep, &in, i * SOAK_MESSAGE, SOAK_MESSAGE, i));
		if (note.bind) {
			soak_bind(&s, &e[i], &target, i, SOAK_REGION);
			pair_send(pair, &e[i].window, sizeof(e[i].window));
		}
	}
	pair_barrier(pair);
	dat_side_close(&s);
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
		dat_side_expect(s, s->request, DAT_DTO_COMPLETION_EVENT, 40000, &event);
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
	struct dat_buffer mirror, back, out;
	struct dat_side s;
	uint32_t random = 20031117;

	dat_side_open(&s, pair, false);
	/* What the server's memory must be; where it is read back to; messages. */
	dat_buffer_make(&s, &mirror, SOAK_EPS * SOAK_REGION, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &back, SOAK_EPS * SOAK_REGION, DAT_MEM_PRIV_ALL_FLAG);
	dat_buffer_make(&s, &out, SOAK_EPS * SOAK_MESSAGE, DAT_MEM_PRIV_ALL_FLAG);
	for (uint32_t i = 0; i < SOAK_EPS; i++) {
		e[i].ep = dat_side_ep(&s);
		connect_ep(&s, e[i].ep);
		dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 30000, &event);
		dat_remote_take(&s, &e[i].window);
	}
	for (uint32_t round = 0; round < SOAK_ROUNDS; round++) {
		bool bind[SOAK_EPS];

		for (uint32_t i = 0; i < SOAK_EPS; i++) {
			struct soak_note note = {.endpoint = i, .seed = round * SOAK_EPS + i};
			uint8_t *message = out.data + i * SOAK_MESSAGE;
			uint32_t len = soak_random(&random, SOAK_MESSAGE - sizeof(note));

			for (uint32_t w = 0; w < SOAK_WRITES; w++) {
				uint32_t part = SOAK_REGION / SOAK_WRITES;
				uint32_t at = w * part + soak_random(&random, part / 2);
				uint32_t n = soak_random(&random, part / 2);

				pair_pattern(mirror.data + i * SOAK_REGION + at, n, note.seed * 7 + w);
				DAT_CHECK(&s, dat_write(e[i].ep, &mirror, i * SOAK_REGION + at, n, w,
							&e[i].window, at, DAT_COMPLETION_SUPPRESS_FLAG));
			}
			note.bind = bind[i] = soak_random(&random, 8) == 0;
			memcpy(message, &note, sizeof(note));
			pair_pattern(message + sizeof(note), len, note.seed);
			DAT_CHECK(&s, dat_read(e[i].ep, &back, i * SOAK_REGION, SOAK_REGION, 100 + i,
					       &e[i].window, 0, DAT_COMPLETION_DEFAULT_FLAG));
			/* Behind the fence nothing of this window is under way any more: it may be bound
			 * anew. */
			DAT_CHECK(&s, dat_send(e[i].ep, &out, i * SOAK_MESSAGE, sizeof(note) + len, 200 + i,
					       DAT_COMPLETION_BARRIER_FENCE_FLAG));
		}
		soak_wait(&s, 2 * SOAK_EPS);
		for (uint32_t i = 0; i < SOAK_EPS; i++) {
			CHECK(pair,
			      memcmp(mirror.data + i * SOAK_REGION, back.data + i * SOAK_REGION,
				     SOAK_REGION) == 0,
			      "round %u, endpoint %u: what was written is not what is read", round, i);
		}
		/* The server binds in the order of arrival, which between endpoints is nobody's promise. */
		for (uint32_t i = 0; i < SOAK_EPS; i++) {
			struct dat_remote window;

			if (!bind[i])
				continue;
			dat_remote_take(&s, &window);
			for (uint32_t k = 0; k < SOAK_EPS; k++)
				if (e[k].window.address == window.address)
					e[k].window = window;
		}
	}
	pair_barrier(pair);
	dat_side_close(&s);
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
