/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface adapters on real data planes: opening, attributes, contexts, closing in every order. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dat_pair.h"
#include "tests/asleep.h"

static DAT_EVENT event;
static char name[] = "oneside";

#define NOT_FOUND(why) DAT_CODE(DAT_PROVIDER_NOT_FOUND, DAT_##why)

/* ---- opening ---- */

static void
open_client(struct pair *pair)
{
	DAT_EVD_HANDLE none = DAT_HANDLE_NULL, evd, asked, foreign;
	DAT_IA_HANDLE ia, guest;
	struct dat_side s;
	DAT_PZ_HANDLE pz;
	DAT_EP_HANDLE ep;

	dat_side_open(&s, pair, false);
	evd = none;
	DAT_CHECK_CODE(&s, dat_ia_open((char[]){"oneside-none"}, 8, &evd, &ia),
		       NOT_FOUND(NAME_NOT_REGISTERED));
	DAT_CHECK_CODE(&s, dat_ia_openv(name, 8, &evd, &ia, 2, 0, DAT_FALSE), NOT_FOUND(MAJOR_NOT_FOUND));
	DAT_CHECK_CODE(&s, dat_ia_openv(name, 8, &evd, &ia, 1, 3, DAT_FALSE), NOT_FOUND(MINOR_NOT_FOUND));
	/* Thread safety and lower minor versions can be requested. */
	DAT_CHECK(&s, dat_ia_openv((char[]){"oneside-p0"}, 8, &evd, &ia, 1, 1, DAT_TRUE));
	DAT_CHECK(&s, dat_ia_query(ia, &asked, 0, NULL, 0, NULL));
	CHECK(pair, asked == evd && evd != s.async && ia != s.ia, "a second open is the first");
	/* An IA refuses objects of another IA. */
	DAT_CHECK(&s, dat_pz_create(ia, &pz));
	DAT_CHECK_CODE(&s, dat_ep_create(s.ia, pz, none, none, none, NULL, &ep), DAT_BAD_HANDLE(PZ));
	DAT_CHECK_CODE(&s, dat_ep_create(ia, pz, s.recv, none, none, NULL, &ep), DAT_BAD_HANDLE(EVD_RECV));
	DAT_CHECK(&s, dat_pz_free(pz));
	/* A third IA reports to the asynchronous EVD of the second. */
	foreign = evd;
	DAT_CHECK(&s, dat_ia_open(name, 0, &foreign, &guest));
	CHECK(pair, foreign == evd, "another asynchronous EVD than the one given");
	DAT_CHECK_CODE(&s, dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_BAD_STATE(IA_IN_USE));
	DAT_CHECK(&s, dat_ia_close(guest, DAT_CLOSE_GRACEFUL_FLAG));
	DAT_CHECK(&s, dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	DAT_CHECK_CODE(&s, dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_BAD_HANDLE(IA));
	/* An IA may have no asynchronous EVD. */
	evd = DAT_EVD_ASYNC_EXISTS;
	DAT_CHECK(&s, dat_ia_open(name, 0, &evd, &ia));
	CHECK(pair, evd == DAT_EVD_OUT_OF_SCOPE, "an asynchronous EVD nobody asked for");
	DAT_CHECK(&s, dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- attributes ---- */

static void
query_client(struct pair *pair)
{
	DAT_PROVIDER_INFO info[16], *list[16];
	DAT_PROVIDER_ATTR provider;
	DAT_EVD_HANDLE async;
	struct dat_side s;
	DAT_COUNT n = 0;
	DAT_IA_ATTR ia;
	bool found = false;

	dat_side_open(&s, pair, false);
	memset(&ia, 0xff, sizeof(ia));
	DAT_CHECK(&s, dat_ia_query(s.ia, &async, DAT_IA_ALL, &ia, DAT_PROVIDER_FIELD_ALL, &provider));
	CHECK(pair, async == s.async, "another asynchronous EVD");
	CHECK(pair, strcmp(ia.adapter_name, name) == 0 && strcmp(ia.vendor_name, "oneside") == 0, "names");
	CHECK(pair, ia.ia_address_ptr->sa_family == s.address.ss_family, "the family of the address");
	/* doc/udapl.md documents these values, for a data plane with default settings. */
	CHECK(pair,
	      ia.max_eps == 16384 && ia.max_dto_per_ep == 4096 && ia.max_evds == 16384 &&
		      ia.max_evd_qlen == 32768 && ia.max_lmrs == 32768 && ia.max_pzs == 16384 &&
		      ia.max_rmrs == 16384 && ia.max_iov_segments_per_dto == 8 &&
		      ia.max_iov_segments_per_rdma_read == 8 && ia.max_iov_segments_per_rdma_write == 8 &&
		      ia.max_rdma_read_per_ep_in == 16 && ia.max_rdma_read_per_ep_out == 16 &&
		      ia.max_message_size == 1u << 31 && ia.max_rdma_size == 1u << 31,
	      "limits");
	CHECK(pair,
	      ia.max_lmr_block_size > 0 && ia.max_lmr_virtual_address > (uintptr_t)&ia &&
		      ia.max_rmr_target_address > (uintptr_t)&ia,
	      "limits of memory");
	CHECK(pair, ia.num_transport_attr == 0 && ia.num_vendor_attr == 0, "named attributes");
	CHECK(pair,
	      strcmp(provider.provider_name, "oneside") == 0 && provider.dapl_version_major == 1 &&
		      provider.dapl_version_minor == 2 && provider.is_thread_safe == DAT_TRUE,
	      "the provider's identity");
	CHECK(pair,
	      provider.lmr_mem_types_supported == (DAT_MEM_TYPE_LMR | DAT_MEM_TYPE_SHARED_VIRTUAL) &&
		      provider.iov_ownership_on_return == DAT_IOV_CONSUMER &&
		      provider.dat_qos_supported == DAT_QOS_BEST_EFFORT &&
		      provider.completion_flags_supported == 0x1f && provider.max_private_data_size == 64 &&
		      provider.supports_multipath == DAT_FALSE &&
		      provider.ep_creator == DAT_PSP_CREATES_EP_IFASKED &&
		      provider.pz_support == DAT_PZ_UNIQUE && 256 % provider.optimal_buffer_alignment == 0 &&
		      provider.lmr_sync_req == DAT_FALSE,
	      "the provider's attributes");
	for (int i = 0; i < 6; i++)
		for (int j = 0; j < 6; j++)
			CHECK(pair, provider.evd_stream_merging_supported[i][j] == (i < 5 && j < 5),
			      "merging");
	/* Every attribute listed has a name; the list includes oneside's own. */
	for (int i = 0; i < 16; i++)
		list[i] = &info[i];
	DAT_CHECK(&s, dat_registry_list_providers(16, &n, list));
	for (DAT_COUNT i = 0; i < n; i++)
		found |= strcmp(info[i].ia_name, name) == 0;
	CHECK(pair, found, "the name that was opened is not in the list");
	DAT_CHECK_CODE(&s, dat_registry_list_providers(0, &n, list), DAT_BAD_ARG(1));
	DAT_CHECK_CODE(&s, dat_registry_list_providers(16, NULL, list), DAT_BAD_ARG(2));
	DAT_CHECK_CODE(&s, dat_registry_list_providers(16, &n, NULL), DAT_BAD_ARG(3));
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- one of everything ---- */

enum { PZ, EVD, CNO, LMR, RMR, EP, PSP, RESERVED_EP, RSP, CR, KINDS };

struct all {
	DAT_HANDLE handle[KINDS];
	struct dat_buffer b;
};

static const DAT_HANDLE_TYPE types[KINDS] = {
	[PZ] = DAT_HANDLE_TYPE_PZ,   [EVD] = DAT_HANDLE_TYPE_EVD,        [CNO] = DAT_HANDLE_TYPE_CNO,
	[LMR] = DAT_HANDLE_TYPE_LMR, [RMR] = DAT_HANDLE_TYPE_RMR,        [EP] = DAT_HANDLE_TYPE_EP,
	[PSP] = DAT_HANDLE_TYPE_PSP, [RESERVED_EP] = DAT_HANDLE_TYPE_EP, [RSP] = DAT_HANDLE_TYPE_RSP,
	[CR] = DAT_HANDLE_TYPE_CR};

/* Makes the server's objects: a connected endpoint, a bound window, a request that is never answered. */
static void
make_all(struct dat_side *s, struct all *a)
{
	DAT_RMR_CONTEXT context;
	DAT_LMR_TRIPLET range;

	dat_buffer_make(s, &a->b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	a->handle[LMR] = a->b.lmr;
	a->handle[PZ] = s->pz;
	a->handle[EVD] = s->request;
	a->handle[PSP] = s->psp;
	s->ep = dat_side_ep(s);
	for (uint64_t i = 0; i < 10; i++)
		DAT_CHECK(s, dat_recv(s->ep, &a->b, 0, 64, i));
	dat_side_connect(s, true);
	a->handle[EP] = s->ep;
	DAT_CHECK(s, dat_cno_create(s->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &a->handle[CNO]));
	DAT_CHECK(s, dat_evd_modify_cno(s->request, a->handle[CNO]));
	DAT_CHECK(s, dat_rmr_create(s->pz, &a->handle[RMR]));
	range = (DAT_LMR_TRIPLET){a->b.lmr_context, 0, (uintptr_t)a->b.data, 64};
	DAT_CHECK(s, dat_rmr_bind(a->handle[RMR], &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, s->ep,
				  (DAT_RMR_COOKIE){.as_64 = 0}, DAT_COMPLETION_DEFAULT_FLAG, &context));
	dat_side_expect(s, s->request, DAT_RMR_BIND_COMPLETION_EVENT, 10000, &event);
	a->handle[RESERVED_EP] = dat_side_ep(s);
	DAT_CHECK(s, dat_rsp_create(s->ia, dat_side_free_qual(s), a->handle[RESERVED_EP], s->cr,
				    &a->handle[RSP]));
	a->handle[CR] = dat_side_cr(s);
}

static void
contexts_server(struct pair *pair)
{
	DAT_CONTEXT context;
	DAT_HANDLE_TYPE type;
	struct dat_side s;
	struct all a;

	dat_side_open(&s, pair, true);
	make_all(&s, &a);
	for (uint64_t i = 0; i < KINDS; i++) {
		DAT_CHECK(&s, dat_get_handle_type(a.handle[i], &type));
		CHECK(pair, type == types[i], "object %d has type %d", (int)i, type);
		DAT_CHECK(&s, dat_get_consumer_context(a.handle[i], &context));
		CHECK(pair, context.as_ptr == NULL, "a context nobody set");
		context.as_64 = 0x1122334455667788u * (i + 1);
		DAT_CHECK(&s, dat_set_consumer_context(a.handle[i], context));
	}
	context.as_ptr = &s;
	DAT_CHECK(&s, dat_set_consumer_context(s.ia, context));
	for (uint64_t i = 0; i < KINDS; i++) {
		DAT_CHECK(&s, dat_get_consumer_context(a.handle[i], &context));
		CHECK(pair, context.as_64 == 0x1122334455667788u * (i + 1), "the context of object %d",
		      (int)i);
	}
	DAT_CHECK(&s, dat_get_consumer_context(s.ia, &context));
	CHECK(pair, context.as_ptr == &s, "the context of the IA");
	DAT_CHECK(&s, dat_get_handle_type(s.ia, &type));
	CHECK(pair, type == DAT_HANDLE_TYPE_IA, "the type of the IA");
	DAT_CHECK_CODE(&s, dat_get_consumer_context(s.ia, NULL), DAT_BAD_ARG(2));
	DAT_CHECK_CODE(&s, dat_get_handle_type(s.ia, NULL), DAT_BAD_ARG(2));
	DAT_CHECK_CODE(&s, dat_get_handle_type(DAT_HANDLE_NULL, &type),
		       DAT_CODE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	DAT_CHECK(&s, dat_cr_reject(a.handle[CR]));
	DAT_CHECK_CODE(&s, dat_get_consumer_context(a.handle[CR], &context),
		       DAT_CODE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	DAT_CHECK_CODE(&s, dat_set_consumer_context(a.handle[CR], context),
		       DAT_CODE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
contexts_client(struct pair *pair)
{
	DAT_EP_HANDLE second;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_side_connect(&s, false);
	second = dat_side_ep(&s);
	dat_side_request(&s, second, s.qual);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_PEER_REJECTED, 20000, &event);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- gracefully: each kind of object in turn prevents the close ---- */

static void
graceful_server(struct pair *pair)
{
	struct dat_side s;
	struct all a;

	dat_side_open(&s, pair, true);
	make_all(&s, &a);
	DAT_CHECK_CODE(&s, dat_ia_close(s.ia, (DAT_CLOSE_FLAGS)2), DAT_BAD_ARG(2));
	DAT_CHECK_CODE(&s, dat_ia_close(s.pz, DAT_CLOSE_ABRUPT_FLAG), DAT_BAD_HANDLE(IA));
	DAT_CHECK_CODE(&s, dat_ia_close(DAT_HANDLE_NULL, DAT_CLOSE_ABRUPT_FLAG), DAT_BAD_HANDLE(IA));
#define NOT_YET DAT_CHECK_CODE(&s, dat_ia_close(s.ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_BAD_STATE(IA_IN_USE))
	/* Freeing in the wrong order is refused at each step, and changes nothing. */
	DAT_CHECK_CODE(&s, dat_pz_free(s.pz), DAT_BAD_STATE(PZ_IN_USE));
	DAT_CHECK_CODE(&s, dat_cno_free(a.handle[CNO]), DAT_BAD_STATE(CNO_IN_USE));
	DAT_CHECK_CODE(&s, dat_lmr_free(a.b.lmr), DAT_BAD_STATE(LMR_IN_USE));
	DAT_CHECK_CODE(&s, dat_evd_free(s.request), DAT_BAD_STATE(EVD_IN_USE));
	DAT_CHECK_CODE(&s, dat_ep_free(a.handle[RESERVED_EP]), DAT_BAD_STATE(EP_RESERVED));
	DAT_CHECK(&s, dat_cr_reject(a.handle[CR]));
	NOT_YET;
	pair_barrier(pair);
	DAT_CHECK(&s, dat_rsp_free(a.handle[RSP]));
	DAT_CHECK(&s, dat_psp_free(s.psp));
	DAT_CHECK(&s, dat_ep_free(a.handle[RESERVED_EP]));
	NOT_YET;
	DAT_CHECK(&s, dat_ep_free(s.ep)); /* still connected */
	DAT_CHECK(&s, dat_rmr_free(a.handle[RMR]));
	NOT_YET;
	DAT_CHECK(&s, dat_lmr_free(a.b.lmr));
	DAT_CHECK(&s, dat_pz_free(s.pz));
	NOT_YET;
	DAT_CHECK(&s, dat_evd_free(s.request));
	DAT_CHECK(&s, dat_evd_free(s.recv));
	DAT_CHECK(&s, dat_evd_free(s.conn));
	DAT_CHECK(&s, dat_evd_free(s.cr));
	NOT_YET;
	DAT_CHECK(&s, dat_cno_free(a.handle[CNO]));
	DAT_CHECK(&s, dat_ia_close(s.ia, DAT_CLOSE_GRACEFUL_FLAG));
	free(a.b.data);
	pair_barrier(pair);
}

static void
graceful_client(struct pair *pair)
{
	DAT_EP_HANDLE second;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_side_connect(&s, false);
	second = dat_side_ep(&s);
	dat_side_request(&s, second, s.qual);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_PEER_REJECTED, 20000, &event);
	/* Events of two endpoints on two polling cores have no order (doc/cores.md). */
	pair_barrier(pair);
	dat_side_expect_end(&s); /* the peer has freed its endpoint */
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- abruptly, while threads wait ---- */

struct waiter {
	pthread_t thread;
	_Atomic pid_t tid;
	DAT_EVD_HANDLE evd;
	DAT_CNO_HANDLE cno;
	DAT_RETURN ret;
	DAT_EVD_HANDLE got;
};

static void *
wait_main(void *arg)
{
	struct waiter *w = arg;
	DAT_EVENT got;
	DAT_COUNT more;

	atomic_store(&w->tid, gettid());
	if (w->cno != DAT_HANDLE_NULL)
		w->ret = dat_cno_wait(w->cno, DAT_TIMEOUT_INFINITE, &w->got);
	else
		w->ret = dat_evd_wait(w->evd, DAT_TIMEOUT_INFINITE, 1, &got, &more);
	return NULL;
}

static void
abrupt_server(struct pair *pair)
{
	struct waiter w[4] = {{0}};
	DAT_HANDLE_TYPE type;
	struct dat_side s;
	struct all a;

	dat_side_open(&s, pair, true);
	make_all(&s, &a);
	w[0].evd = s.async;
	w[1].evd = s.conn;
	w[2].evd = s.recv;
	w[3].cno = a.handle[CNO];
	w[3].got = s.recv;
	for (int i = 0; i < 4; i++) {
		CHECK(pair, pthread_create(&w[i].thread, NULL, wait_main, &w[i]) == 0, "pthread_create");
		await_asleep(&w[i].tid);
	}
	DAT_CHECK(&s, dat_ia_close(s.ia, DAT_CLOSE_ABRUPT_FLAG));
	for (int i = 0; i < 4; i++)
		pthread_join(w[i].thread, NULL);
	for (int i = 0; i < 3; i++)
		DAT_CHECK_CODE(&s, w[i].ret, DAT_CODE(DAT_ABORT, 0));
	DAT_CHECK_CODE(&s, w[3].ret, DAT_SUCCESS);
	CHECK(pair, w[3].got == DAT_HANDLE_NULL, "a waiter on a CNO was let go with an EVD");
	for (int i = 0; i < KINDS; i++)
		DAT_CHECK_CODE(&s, dat_get_handle_type(a.handle[i], &type),
			       DAT_CODE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	/* The memory belongs to the program again, and an IA can be opened anew. */
	memset(a.b.data, 1, a.b.size);
	free(a.b.data);
	s.async = DAT_HANDLE_NULL;
	DAT_CHECK(&s, dat_ia_open(name, 8, &s.async, &s.ia));
	DAT_CHECK(&s, dat_ia_close(s.ia, DAT_CLOSE_GRACEFUL_FLAG));
	pair_barrier(pair);
}

static void
abrupt_client(struct pair *pair)
{
	DAT_EP_HANDLE second;
	struct dat_side s;
	int rejected = 0, ended = 0;

	dat_side_open(&s, pair, false);
	dat_side_connect(&s, false);
	second = dat_side_ep(&s);
	dat_side_request(&s, second, s.qual);
	/* The unanswered request is refused and the connection ends, in either order. */
	while (rejected + ended < 2) {
		dat_side_event(&s, s.conn, 20000, &event);
		if (event.event_data.connect_event_data.ep_handle == second) {
			CHECK(pair, event.event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
			      "event 0x%x", event.event_number);
			rejected++;
		} else {
			CHECK(pair,
			      event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED ||
				      event.event_number == DAT_CONNECTION_EVENT_BROKEN,
			      "event 0x%x", event.event_number);
			ended++;
		}
	}
	CHECK(pair, rejected == 1 && ended == 1, "%d refusals, %d ends", rejected, ended);
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"ia_open", dat_bystander, open_client, false},
	{"ia_query", dat_bystander, query_client, false},
	{"contexts", contexts_server, contexts_client, false},
	{"ia_close_graceful", graceful_server, graceful_client, false},
	{"ia_close_abrupt", abrupt_server, abrupt_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
