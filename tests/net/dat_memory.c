/* SPDX-License-Identifier: BSD-3-Clause */
/* Each kind of memory, registered by uDAPL, as source and destination of WRITE, READ, SEND and receive. */
#include <string.h>

#include "dat_pair.h"
#include "memory_kinds.h"

#define PIECE (1ul << 20)
#define ODD 12345u /* bytes that cross the end of a 2 MiB page */
#define ODD_AT ((2ul << 20) - 777)

static DAT_EVENT event;

static void
kind_register(struct dat_side *s, const struct kind *kind, uint8_t *at, struct dat_buffer *b)
{
	DAT_REGION_DESCRIPTION region = {.for_va = at};
	const char *copied;
	DAT_RETURN ret;

	*b = (struct dat_buffer){.data = at, .size = KIND_SIZE};
	kind_listen();
	ret = dat_lmr_create(s->ia, DAT_MEM_TYPE_VIRTUAL, region, KIND_SIZE, s->pz, DAT_MEM_PRIV_ALL_FLAG,
			     &b->lmr, &b->lmr_context, &b->rmr_context, NULL, NULL);
	copied = kind_copied();
	DAT_CHECK(s, ret);
	CHECK(s->pair, (copied != NULL) == (kind->way == KIND_COPIED), "%s: %s", kind->name,
	      copied != NULL ? copied : "in place");
}

static void
whole_there_and_back(struct dat_side *s, struct dat_buffer *b, const struct dat_remote *r, const char *name)
{
	pair_pattern(b->data, KIND_SIZE, 1);
	for (size_t at = 0; at < KIND_SIZE; at += PIECE) {
		DAT_CHECK(s, dat_write(s->ep, b, at, PIECE, at, r, at, DAT_COMPLETION_DEFAULT_FLAG));
		dat_side_complete(s, s->request, at, DAT_DTO_SUCCESS, PIECE);
	}
	memset(b->data, 0, KIND_SIZE);
	for (size_t at = 0; at < KIND_SIZE; at += PIECE) {
		DAT_CHECK(s, dat_read(s->ep, b, at, PIECE, at, r, at, DAT_COMPLETION_DEFAULT_FLAG));
		dat_side_complete(s, s->request, at, DAT_DTO_SUCCESS, PIECE);
	}
	CHECK(s->pair, pair_pattern_check(b->data, KIND_SIZE, 1) == KIND_SIZE, "%s: written and read", name);
}

/* The server sends each message back. */
static void
message_there_and_back(struct dat_side *s, struct dat_buffer *b, const char *name)
{
	pair_pattern(b->data + ODD_AT, ODD, 7);
	DAT_CHECK(s, dat_recv(s->ep, b, 4 * PIECE - 99, ODD, 2));
	DAT_CHECK(s, dat_send(s->ep, b, ODD_AT, ODD, 1, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(s, s->request, 1, DAT_DTO_SUCCESS, ODD);
	dat_side_complete(s, s->recv, 2, DAT_DTO_SUCCESS, ODD);
	CHECK(s->pair, pair_pattern_check(b->data + 4 * PIECE - 99, ODD, 7) == ODD, "%s: sent and received",
	      name);
}

static void
try_kind(struct dat_side *s, const struct kind *kind, const struct dat_remote *r)
{
	const char *reason = "";
	uint8_t *at = kind->make(&reason);
	struct dat_buffer b;
	uint32_t go = at != NULL;

	pair_send(s->pair, &go, sizeof(go));
	if (at == NULL) {
		printf("  left out: %s: %s\n", kind->name, reason);
		return;
	}
	/* Two rounds: the second may find the registration cached. */
	for (int round = 0; round < 2; round++) {
		pair_barrier(s->pair);
		kind_register(s, kind, at, &b);
		whole_there_and_back(s, &b, r, kind->name);
		message_there_and_back(s, &b, kind->name);
		DAT_CHECK(s, dat_lmr_free(b.lmr));
		CHECK(s->pair, pair_pattern_check(at + ODD_AT, ODD, 7) == ODD, "%s: after deregistering",
		      kind->name);
	}
}

static void
kinds_client(struct pair *pair)
{
	struct dat_buffer own;
	struct dat_remote r;
	struct dat_side s;

	dat_side_start(&s, pair, false, &own, 4096);
	dat_remote_take(&s, &r);
	for (uint32_t i = 0; i < num_memory_kinds; i++)
		try_kind(&s, &memory_kinds[i], &r);
	dat_side_close(&s);
}

static void
kinds_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;
	uint32_t go;

	dat_side_start(&s, pair, true, &b, KIND_SIZE);
	dat_buffer_offer(&s, &b);
	for (uint32_t i = 0; i < num_memory_kinds; i++) {
		pair_recv(pair, &go, sizeof(go));
		for (int round = 0; go != 0 && round < 2; round++) {
			DAT_CHECK(&s, dat_recv(s.ep, &b, 0, ODD, 1));
			pair_barrier(pair);
			dat_side_complete(&s, s.recv, 1, DAT_DTO_SUCCESS, ODD);
			DAT_CHECK(&s, dat_send(s.ep, &b, 0, ODD, 2, DAT_COMPLETION_DEFAULT_FLAG));
			dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, ODD);
		}
	}
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_DISCONNECTED, 600000, &event);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"kinds", kinds_server, kinds_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
