/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uDAPL with the deepest queues that can be configured (limits.sh): an endpoint holds as many requests and
 * receives as asked for.
 */
#include <string.h>

#include "dat_pair.h"

#define DEEP 65535u
#define LEN 8u

static void
deep_ep(struct dat_side *s)
{
	DAT_EP_ATTR attr = {.service_type = DAT_SERVICE_TYPE_RC,
			    .max_recv_dtos = DEEP,
			    .max_request_dtos = DEEP,
			    .max_recv_iov = 8,
			    .max_request_iov = 8,
			    .max_rdma_read_iov = 1,
			    .max_rdma_write_iov = 1};
	DAT_EVD_HANDLE evd;
	DAT_IA_ATTR ia;

	DAT_CHECK(s, dat_ia_query(s->ia, NULL, DAT_IA_FIELD_ALL, &ia, 0, NULL));
	CHECK(s->pair, ia.max_dto_per_ep == (DAT_COUNT)DEEP, "max_dto_per_ep is %d", (int)ia.max_dto_per_ep);
	DAT_CHECK(s, dat_evd_create(s->ia, DEEP, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd));
	s->recv = evd;
	DAT_CHECK(s, dat_evd_create(s->ia, DEEP, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd));
	s->request = evd;
	DAT_CHECK(s, dat_ep_create(s->ia, s->pz, s->recv, s->request, s->conn, &attr, &s->ep));
	attr.max_recv_dtos = DEEP + 1;
	DAT_CHECK_ERROR(s, dat_ep_create(s->ia, s->pz, s->recv, s->request, s->conn, &attr, &evd),
			DAT_INVALID_PARAMETER);
}

static void
server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	deep_ep(&s);
	for (uint64_t i = 0; i < DEEP; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, i));
	dat_side_connect(&s, true);
	for (uint64_t i = 0; i < DEEP; i++)
		dat_side_complete(&s, s.recv, i, DAT_DTO_SUCCESS, LEN);
	for (uint64_t i = 0; i < DEEP; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, i));
	pair_barrier(pair);
	for (uint64_t i = 0; i < DEEP; i++)
		dat_side_complete(&s, s.recv, i, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_nothing(&s, s.recv, 1);
	dat_side_close(&s);
}

static void
client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	deep_ep(&s);
	dat_side_connect(&s, false);
	for (uint64_t i = 0; i < DEEP; i++)
		DAT_CHECK(&s, dat_send(s.ep, &b, 0, LEN, i, DAT_COMPLETION_DEFAULT_FLAG));
	for (uint64_t i = 0; i < DEEP; i++)
		dat_side_complete(&s, s.request, i, DAT_DTO_SUCCESS, LEN);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
	dat_side_expect_end(&s);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"deepest_queues", server, client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, 1);
}
