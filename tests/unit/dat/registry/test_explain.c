/* SPDX-License-Identifier: BSD-3-Clause */
/* ONESIDE_DEBUG=1: messages of refused calls. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>

#include "client/explain.h"
#include "fixture.h"

#include <dat/dat_registry.h>

#include "../../said.h"

#define MEMORY 65536u

static const DAT_DTO_COOKIE cookie = {.as_64 = 1};

struct bench {
	struct fixture *f;
	DAT_EP_HANDLE ep;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT key;
	uint8_t *memory;
};

static struct bench
set_up(void **state)
{
	struct bench b = {.f = *state, .memory = malloc(MEMORY)};
	DAT_REGION_DESCRIPTION desc = {.for_va = b.memory};
	uint32_t qp;

	assert_ok(dat_lmr_create(b.f->ia, DAT_MEM_TYPE_VIRTUAL, desc, MEMORY, b.f->pz, DAT_MEM_PRIV_ALL_FLAG,
				 &b.lmr, &b.key, NULL, NULL, NULL));
	b.ep = connected_ep(b.f, &qp);
	return b;
}

static void
tear_down(struct bench *b)
{
	assert_ok(dat_lmr_free(b->lmr));
	free(b->memory);
}

static DAT_RETURN
post(DAT_EP_HANDLE ep, DAT_LMR_CONTEXT key, const void *at, uint64_t length)
{
	DAT_LMR_TRIPLET piece = {
		.lmr_context = key, .virtual_address = (uintptr_t)at, .segment_length = length};

	return dat_ep_post_send(ep, 1, &piece, cookie, DAT_COMPLETION_DEFAULT_FLAG);
}

static void
segments(void **state)
{
	struct bench b = set_up(state);
	DAT_RMR_TRIPLET remote = {.rmr_context = 1, .segment_length = 8};
	DAT_LMR_TRIPLET piece = {
		.lmr_context = b.key, .virtual_address = (uintptr_t)b.memory, .segment_length = 9};
	DAT_REGION_DESCRIPTION desc = {.for_va = b.memory};
	DAT_LMR_CONTEXT read_only;
	DAT_LMR_HANDLE reader;
	char range[64];

	assert_says(post(b.ep, 0x1234, b.memory, 8), ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ),
		    "dat_ep_post_send: ", "lmr_context = 0x1234: ", "no LMR of this IA has this context; ",
		    "give the lmr_context (not rmr_context) of dat_lmr_create",
		    "(DAT_PRIVILEGES_VIOLATION, ");
	snprintf(range, sizeof(range), "local_iov = %#lx + %u: ", (unsigned long)(uintptr_t)b.memory,
		 MEMORY + 1);
	assert_says(post(b.ep, b.key, b.memory, MEMORY + 1), BAD_ARG(3), "dat_ep_post_send: ", range,
		    "outside its LMR", "register as much as is posted",
		    "(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3)");
	assert_says(dat_ep_post_rdma_write(b.ep, 1, &piece, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG),
		    ERROR(DAT_LENGTH_ERROR, 0), "dat_ep_post_rdma_write: ", "remote_iov.segment_length = 8: ",
		    "less than local_iov's 9 bytes", "make the remote segment as long", "(DAT_LENGTH_ERROR)");
	assert_says(dat_ep_post_rdma_write(b.ep, 1, &piece, cookie, NULL, DAT_COMPLETION_DEFAULT_FLAG),
		    BAD_ARG(5), "dat_ep_post_rdma_write: remote_iov = 0: it may not be null; ",
		    "(DAT_INVALID_PARAMETER");
	assert_says(dat_ep_post_send(b.ep, 99, &piece, cookie, DAT_COMPLETION_DEFAULT_FLAG), BAD_ARG(2),
		    "num_segments = 99: the endpoint takes 0 to ", "; give fewer");
	assert_says(dat_ep_post_send(b.ep, 1, &piece, cookie, (DAT_COMPLETION_FLAGS)0x80), BAD_ARG(5),
		    "completion_flags = 0x80: ", "leave them out");
	assert_ok(dat_lmr_create(b.f->ia, DAT_MEM_TYPE_VIRTUAL, desc, MEMORY, b.f->pz,
				 DAT_MEM_PRIV_LOCAL_READ_FLAG, &reader, &read_only, NULL, NULL, NULL));
	piece.lmr_context = read_only;
	assert_says(dat_ep_post_recv(b.ep, 1, &piece, cookie, DAT_COMPLETION_DEFAULT_FLAG),
		    ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE),
		    "dat_ep_post_recv: ", "data comes in here",
		    "DAT_MEM_PRIV_LOCAL_WRITE_FLAG; give it to dat_lmr_create");
	assert_ok(dat_lmr_free(reader));
	tear_down(&b);
}

static void
states(void **state)
{
	struct bench b = set_up(state);
	struct sockaddr_in6 other = {.sin6_family = AF_INET6,
				     .sin6_addr = {.s6_addr = {0x20, 1, 0xd, 0xb8, 1}}};
	DAT_EP_HANDLE idle = make_ep(b.f, NULL);

	assert_says(post(idle, b.key, b.memory, 8), BAD_STATE(EP_UNCONNECTED),
		    "dat_ep_post_send: ep_handle = 0x",
		    "state = UNCONNECTED: ", "wait for DAT_CONNECTION_EVENT_ESTABLISHED",
		    "(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_UNCONNECTED)");
	assert_says(dat_ep_connect(b.ep, (DAT_IA_ADDRESS_PTR)&other, 1, 1, 0, NULL, DAT_QOS_BEST_EFFORT,
				   DAT_CONNECT_DEFAULT_FLAG),
		    BAD_STATE(EP_CONNECTED), "dat_ep_connect: ", "state = CONNECTED: ", "dat_ep_reset");
	mock_refuse(b.f->mock, ONE_MSG_QP_CONNECT, -EAFNOSUPPORT, ONE_SUBJECT_ADDRESS, AF_INET6, 1);
	assert_says(dat_ep_connect(idle, (DAT_IA_ADDRESS_PTR)&other, 1, 1, 0, NULL, DAT_QOS_BEST_EFFORT,
				   DAT_CONNECT_DEFAULT_FLAG),
		    ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
		    "remote_ia_address->sa_family = 10: the IA's port has no address of this family",
		    "show ports");
	assert_says(dat_ep_connect(idle, (DAT_IA_ADDRESS_PTR)&other, 1, 0, 0, NULL, DAT_QOS_BEST_EFFORT,
				   DAT_CONNECT_DEFAULT_FLAG),
		    BAD_ARG(4), "timeout = 0: ", "DAT_TIMEOUT_INFINITE");
	assert_says(dat_pz_free(b.f->pz), BAD_STATE(PZ_IN_USE), "dat_pz_free: pz_handle = 0x",
		    "free those first");
	assert_ok(dat_ep_free(idle));
	tear_down(&b);
}

static void
handles(void **state)
{
	struct bench b = set_up(state);
	DAT_EP_HANDLE idle = make_ep(b.f, NULL), ep;

	assert_says(dat_ep_free(DAT_HANDLE_NULL), BAD_HANDLE(EP), "dat_ep_free: ep_handle = 0: ",
		    "it is DAT_HANDLE_NULL; give an EP, as dat_ep_create made it",
		    "(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP)");
	assert_says(dat_ep_free((DAT_EP_HANDLE)0x40), BAD_HANDLE(EP),
		    "ep_handle = 0x40: this was never a handle; ");
	assert_says(dat_ep_free(b.f->pz), BAD_HANDLE(EP), "ep_handle = 0x", "it is a PZ, not an EP; ");
	assert_ok(dat_ep_free(idle));
	assert_says(dat_ep_free(idle), BAD_HANDLE(EP), "ep_handle = 0x", "it was freed");
	assert_says(dat_ep_create(b.f->ia, b.f->pz, b.f->conn, b.f->dto, b.f->conn, NULL, &ep),
		    BAD_HANDLE(EVD_RECV), "dat_ep_create: recv_evd_handle = 0x", "not made for this use",
		    "an EVD with DAT_EVD_DTO_FLAG of the same IA");
	tear_down(&b);
}

static void
arguments(void **state)
{
	struct fixture *f = *state;
	uint32_t qlen = mock_welcome(f->mock)->limits.max_cq_entries + 1;
	DAT_REGION_DESCRIPTION desc = {.for_va = NULL};
	char memory[64], text[96];
	DAT_EP_ATTR attr;
	DAT_EP_HANDLE ep;
	DAT_EVD_HANDLE evd;
	DAT_LMR_HANDLE lmr;
	DAT_PSP_HANDLE psp;

	snprintf(text, sizeof(text), "evd_min_qlen = %u: the data plane allows %u; ", qlen, qlen - 1);
	assert_says(dat_evd_create(f->ia, (DAT_COUNT)qlen, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd),
		    ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD), "dat_evd_create: ", text,
		    "max_cq_entries");
	default_attr(&attr);
	attr.max_rdma_read_in = 12345;
	assert_says(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, &attr, &ep), BAD_ARG(6),
		    "dat_ep_create: ep_attributes->max_rdma_read_in = 12345: it may be 0 to ",
		    "; ask for less");
	default_attr(&attr);
	attr.max_recv_dtos = 0;
	assert_says(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, &attr, &ep), BAD_ARG(6),
		    "ep_attributes->max_recv_dtos = 0", "make them agree with recv_evd_handle");
	assert_says(dat_psp_create(f->ia, 0, f->cr, DAT_PSP_CONSUMER_FLAG, &psp), BAD_ARG(2),
		    "dat_psp_create: conn_qual = 0: ", "dat_psp_create_any");
	assert_says(dat_lmr_create(f->ia, DAT_MEM_TYPE_VIRTUAL, desc, 4096, f->pz, DAT_MEM_PRIV_ALL_FLAG,
				   &lmr, NULL, NULL, NULL, NULL),
		    BAD_ARG(3),
		    "dat_lmr_create: region_description = not mapped: ", "; give what is allocated");
	desc.for_va = memory;
	assert_says(dat_lmr_create(f->ia, DAT_MEM_TYPE_VIRTUAL, desc, 0, f->pz, DAT_MEM_PRIV_ALL_FLAG, &lmr,
				   NULL, NULL, NULL, NULL),
		    ERROR(DAT_LENGTH_ERROR, 0), "dat_lmr_create: length = 0: ", "; give the length");
	/* Without a specific reason, the message has the argument, its value, and the manual page. */
	assert_says(dat_ia_close(f->ia, (DAT_CLOSE_FLAGS)7), BAD_ARG(2),
		    "dat_ia_close: ia_flags = 0x7: give DAT_CLOSE_ABRUPT_FLAG or ");
	assert_says(dat_ia_query(f->ia, NULL, UINT64_C(1) << 60, NULL, 0, NULL), BAD_ARG(3),
		    "dat_ia_query: ia_attr_mask = ", "see dat_ia_query(3DAT)");
	assert_says(dat_registry_add_provider(NULL, NULL), BAD_ARG(1),
		    "dat_registry_add_provider: provider = 0: it may not be null");
	assert_says(dat_evd_resize(f->dto, 0), BAD_ARG(2),
		    "dat_evd_resize: evd_min_qlen = 0: it may be 1 to ");
}

/* A refusal of the data plane is explained by the data plane's reason. */
static void
refused_below(void **state)
{
	struct fixture *f = *state;
	DAT_EP_HANDLE ep;
	DAT_PZ_HANDLE pz;

	mock_refuse(f->mock, ONE_MSG_QP_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 17, 1);
	assert_says(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, NULL, &ep),
		    ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP), "dat_ep_create: ia_handle = 0x",
		    "the data plane's limit = 17: it is reached; ", "oneside.conf(5)",
		    "(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP)");
	/* The reason applies once: the next refusal has another. */
	assert_ok(dat_pz_create(f->ia, &pz));
	assert_says(dat_pz_create(f->ia, NULL), BAD_ARG(2),
		    "dat_pz_create: pz_handle = 0: it may not be null");
	assert_ok(dat_pz_free(pz));
}

static void
opening(void **state)
{
	struct fixture *f = *state;
	char name[] = "oneside-p9", unknown[] = "ib0", own[] = "oneside", text[256];
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	assert_says(dat_ia_open(unknown, 8, &evd, &ia),
		    ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
		    "dat_ia_open: ia_name_ptr = \"ib0\": no interface adapter has this name; ",
		    "the names are in");
	mock_refuse(f->mock, ONE_MSG_HELLO, -ENODEV, ONE_SUBJECT_PORT, 0, 1);
	assert_says(dat_ia_open(name, 8, &evd, &ia), ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
		    "ia_name_ptr = \"oneside-p9\": ", "has no port \"p9\"; ");
	assert_says(dat_ia_open(own, 0, &evd, &ia), BAD_ARG(2), "async_evd_min_qlen = 0: ", "; give 8, say");
	mock_kill(f->mock);
	snprintf(text, sizeof(text), "no data plane serves at %s: ", getenv("ONESIDE_SOCKET"));
	assert_says(dat_ia_open(own, 8, &evd, &ia), ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE),
		    "dat_ia_open: ia_name_ptr = \"oneside\": ", text,
		    "; start oneside-dataplane(8), or set ONESIDE_SOCKET",
		    "(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE)");
	mock_revive(f->mock);
}

/* Results that are not refusals print nothing. */
static void
silence(void **state)
{
	struct bench b = set_up(state);
	DAT_EVENT event;
	DAT_COUNT more;

	assert_silent(post(b.ep, b.key, b.memory, 8), DAT_SUCCESS);
	assert_silent(dat_evd_dequeue(b.f->dto, &event), DAT_QUEUE_EMPTY);
	assert_silent(dat_evd_wait(b.f->dto, 0, 1, &event, &more), DAT_TIMEOUT_EXPIRED);
	tear_down(&b);
}

/* Without ONESIDE_DEBUG refused calls print nothing. */
static void
not_asked(void **state)
{
	struct bench b = set_up(state);
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	char name[] = "ib0";
	DAT_IA_HANDLE ia;

	assert_silent(post(b.ep, 0x1234, b.memory, 8), ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ));
	assert_silent(dat_ep_free(DAT_HANDLE_NULL), BAD_HANDLE(EP));
	assert_silent(dat_ia_open(name, 8, &evd, &ia),
		      ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
	tear_down(&b);
}

#define THREADS 4
#define TIMES 200

static void *
many(void *arg)
{
	for (int i = 0; i < TIMES; i++)
		dat_ep_free((DAT_EP_HANDLE)(0x1000 + (uintptr_t)arg));
	return NULL;
}

/* Lines of several threads are not mixed. */
static void
threads(void **state)
{
	char line[512];
	pthread_t thread[THREADS];
	int count = 0, file, before = said_begin(&file);
	FILE *lines;

	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, many, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	lines = fdopen(dup(file), "r");
	said_end(before, file);
	rewind(lines);
	while (fgets(line, sizeof(line), lines) != NULL) {
		unsigned long handle = 0;

		assert_int_equal(
			sscanf(line, "oneside: dat_ep_free: ep_handle = %lx: this was never", &handle), 1);
		assert_in_range(handle, 0x1000, 0x1000 + THREADS - 1);
		assert_non_null(strstr(line, " (DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP)\n"));
		count++;
	}
	fclose(lines);
	assert_int_equal(count, THREADS * TIMES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest asked[] = {
		TEST(segments),      TEST(states),  TEST(handles), TEST(arguments),
		TEST(refused_below), TEST(opening), TEST(silence), TEST(threads),
	};
	const struct CMUnitTest unasked[] = {TEST(not_asked)};

	if (one_explaining != (getenv("ONESIDE_DEBUG") != NULL)) {
		fputs("the environment was not read\n", stderr);
		return 1;
	}
	return one_explaining ? cmocka_run_group_tests(asked, NULL, NULL)
			      : cmocka_run_group_tests(unasked, NULL, NULL);
}
