/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A data plane with small limits, set by tests/net/limits.sh. Each constructor fails with the specified
 * error at its limit, works again when one object is freed, and reaches the same limit when all are freed.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dat_pair.h"

/* Values that limits.sh configures. */
#define MAX_PZ 5u
#define MAX_CQ 12u
#define MAX_CQ_ENTRIES 16
#define MAX_QP 48u
#define MAX_QP_WR 64
#define MAX_SGE 3
#define MAX_LISTEN 4u
#define MAX_MR 7u
#define MAX_MW 6u
#define MAX_SRQ 3u
#define MAX_MR_BYTES (1u << 20)
#define MAX_MESSAGE 65536u
#define MAX_CLIENTS_PER_UID 6u

#define MOST 2000u

static DAT_EVENT event;
static uint8_t memory[2 * MAX_MR_BYTES];

/* Opens an IA with EVDs within the limits, without a listener. */
static void
open_side(struct dat_side *s, struct pair *pair)
{
	memset(s, 0, sizeof(*s));
	s->pair = pair;
	DAT_CHECK(s, dat_ia_open((char[]){"oneside"}, 8, &s->async, &s->ia));
	DAT_CHECK(s, dat_pz_create(s->ia, &s->pz));
	DAT_CHECK(s, dat_evd_create(s->ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &s->cr));
	DAT_CHECK(s, dat_evd_create(s->ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &s->conn));
	DAT_CHECK(s, dat_evd_create(s->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &s->recv));
	DAT_CHECK(s, dat_evd_create(s->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &s->request));
}

/* ---- the attributes report the limits; asking for more is refused ---- */

static void
bystander(struct pair *pair)
{
	pair_barrier(pair);
}

static void
reported(struct pair *pair)
{
	DAT_REGION_DESCRIPTION region;
	DAT_EP_ATTR attr;
	DAT_EP_PARAM param;
	DAT_LMR_HANDLE lmr;
	struct dat_side s;
	DAT_EVD_HANDLE evd;
	DAT_EP_HANDLE ep;
	DAT_IA_ATTR ia;

	open_side(&s, pair);
	DAT_CHECK(&s, dat_ia_query(s.ia, NULL, DAT_IA_ALL, &ia, 0, NULL));
	CHECK(pair,
	      ia.max_pzs == MAX_PZ && ia.max_evds == MAX_CQ && ia.max_evd_qlen == MAX_CQ_ENTRIES &&
		      ia.max_eps == MAX_QP && ia.max_dto_per_ep == MAX_QP_WR &&
		      ia.max_iov_segments_per_dto == MAX_SGE &&
		      ia.max_iov_segments_per_rdma_read == MAX_SGE && ia.max_lmrs == MAX_MR &&
		      ia.max_rmrs == MAX_MW && ia.max_srqs == MAX_SRQ &&
		      ia.max_lmr_block_size == MAX_MR_BYTES && ia.max_message_size == MAX_MESSAGE &&
		      ia.max_rdma_size == MAX_MESSAGE && ia.max_rdma_read_per_ep_in == 2 &&
		      ia.max_rdma_read_per_ep_out == 2,
	      "the attributes are not what was configured");
	/* The default attributes of an endpoint are within the limits. */
	DAT_CHECK(&s, dat_ep_create(s.ia, s.pz, s.recv, s.request, s.conn, NULL, &ep));
	DAT_CHECK(&s, dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
	attr = param.ep_attr;
	CHECK(pair,
	      attr.max_recv_dtos == MAX_QP_WR && attr.max_request_dtos == MAX_QP_WR &&
		      attr.max_recv_iov == MAX_SGE && attr.max_rdma_read_in == 2 &&
		      attr.max_message_size == MAX_MESSAGE,
	      "the default attributes are above the limits");
	DAT_CHECK(&s, dat_ep_free(ep));
	attr.max_recv_dtos++;
	DAT_CHECK_CODE(&s, dat_ep_create(s.ia, s.pz, s.recv, s.request, s.conn, &attr, &ep), DAT_BAD_ARG(6));
	DAT_CHECK_CODE(&s, dat_evd_create(s.ia, MAX_CQ_ENTRIES + 1, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd),
		       DAT_CODE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
	DAT_CHECK_CODE(&s, dat_evd_resize(s.recv, MAX_CQ_ENTRIES + 1), DAT_BAD_ARG(2));
	memset(&region, 0, sizeof(region));
	region.for_va = memory;
	DAT_CHECK_CODE(&s,
		       dat_lmr_create(s.ia, DAT_MEM_TYPE_VIRTUAL, region, MAX_MR_BYTES + 1, s.pz,
				      DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL),
		       DAT_CODE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION));
	DAT_CHECK(&s, dat_lmr_create(s.ia, DAT_MEM_TYPE_VIRTUAL, region, MAX_MR_BYTES, s.pz,
				     DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL));
	DAT_CHECK(&s, dat_lmr_free(lmr));
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- process_memory = no ---- */

static void
unshared(struct pair *pair)
{
	static const size_t size = 8192;
	DAT_REGION_DESCRIPTION region;
	uint8_t on_stack[4096];
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *private = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	DAT_LMR_HANDLE lmr;
	struct dat_side s;

	CHECK(pair, private != MAP_FAILED, "no private mapping of a file");
	open_side(&s, pair);
	memset(&region, 0, sizeof(region));
	region.for_va = on_stack;
	DAT_CHECK_CODE(&s,
		       dat_lmr_create(s.ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(on_stack), s.pz,
				      DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL),
		       DAT_CODE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE));
	region.for_va = private;
	DAT_CHECK_CODE(&s,
		       dat_lmr_create(s.ia, DAT_MEM_TYPE_VIRTUAL, region, size, s.pz, DAT_MEM_PRIV_ALL_FLAG,
				      &lmr, NULL, NULL, NULL, NULL),
		       DAT_CODE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE));
	/* Memory that can be shared is not affected. */
	region.for_va = memory;
	DAT_CHECK(&s, dat_lmr_create(s.ia, DAT_MEM_TYPE_VIRTUAL, region, size, s.pz, DAT_MEM_PRIV_ALL_FLAG,
				     &lmr, NULL, NULL, NULL, NULL));
	DAT_CHECK(&s, dat_lmr_free(lmr));
	munmap(private, size);
	close(fd);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- every constructor ---- */

static DAT_RETURN
make_pz(struct dat_side *s, DAT_HANDLE *out)
{
	return dat_pz_create(s->ia, out);
}

static DAT_RETURN
make_cno(struct dat_side *s, DAT_HANDLE *out)
{
	return dat_cno_create(s->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, out);
}

static DAT_RETURN
make_evd(struct dat_side *s, DAT_HANDLE *out)
{
	return dat_evd_create(s->ia, 4, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, out);
}

static DAT_RETURN
make_software_evd(struct dat_side *s, DAT_HANDLE *out)
{
	return dat_evd_create(s->ia, 4, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, out);
}

static DAT_RETURN
make_ep(struct dat_side *s, DAT_HANDLE *out)
{
	return dat_ep_create(s->ia, s->pz, s->recv, s->request, s->conn, NULL, out);
}

static DAT_RETURN
make_lmr(struct dat_side *s, DAT_HANDLE *out)
{
	DAT_REGION_DESCRIPTION region;

	memset(&region, 0, sizeof(region));
	region.for_va = memory;
	return dat_lmr_create(s->ia, DAT_MEM_TYPE_VIRTUAL, region, 5000, s->pz, DAT_MEM_PRIV_ALL_FLAG, out,
			      NULL, NULL, NULL, NULL);
}

static DAT_RETURN
make_rmr(struct dat_side *s, DAT_HANDLE *out)
{
	return dat_rmr_create(s->pz, out);
}

static DAT_RETURN
make_psp(struct dat_side *s, DAT_HANDLE *out)
{
	DAT_CONN_QUAL qual;

	return dat_psp_create_any(s->ia, &qual, s->cr, DAT_PSP_CONSUMER_FLAG, out);
}

static DAT_RETURN
make_srq(struct dat_side *s, DAT_HANDLE *out)
{
	DAT_SRQ_ATTR attr = {.max_recv_dtos = 8, .max_recv_iov = 1, .low_watermark = DAT_SRQ_LW_DEFAULT};

	return dat_srq_create(s->ia, s->pz, &attr, out);
}

/* Opens another attachment, whose handle is its IA's. */
static DAT_RETURN
make_ia(struct dat_side *s, DAT_HANDLE *out)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;

	return dat_ia_open((char[]){"oneside"}, 8, &async, out);
}

static DAT_RETURN
close_ia(DAT_HANDLE ia)
{
	return dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG);
}

static const struct constructor {
	const char *name;
	DAT_RETURN (*make)(struct dat_side *s, DAT_HANDLE *out);
	DAT_RETURN (*end)(DAT_HANDLE handle);
	uint32_t limit; /* number of objects, in addition to those that open_side makes */
	DAT_RETURN_SUBTYPE subtype;
	bool slow; /* freed places become usable with a delay */
} constructors[] = {
	{"PZ", make_pz, dat_pz_free, MAX_PZ - 1, DAT_RESOURCE_PROTECTION_DOMAIN, false},
	{"CNO", make_cno, dat_cno_free, 512, DAT_RESOURCE_MEMORY, false},
	{"EVD", make_evd, dat_evd_free, MAX_CQ - 4, DAT_RESOURCE_TEVD, false},
	{"EVD for software events", make_software_evd, dat_evd_free, MAX_CQ - 4, DAT_RESOURCE_TEVD, false},
	{"EP", make_ep, dat_ep_free, MAX_QP, DAT_RESOURCE_TEP, false},
	{"LMR", make_lmr, dat_lmr_free, MAX_MR, DAT_RESOURCE_MEMORY_REGION, false},
	{"RMR", make_rmr, dat_rmr_free, MAX_MW, DAT_RESOURCE_MEMORY_REGION, false},
	{"PSP", make_psp, dat_psp_free, MAX_LISTEN, DAT_RESOURCE_MEMORY, false},
	{"SRQ", make_srq, dat_srq_free, MAX_SRQ, DAT_RESOURCE_SRQ, false},
	{"IA", make_ia, close_ia, MAX_CLIENTS_PER_UID - 1, DAT_RESOURCE_DEVICE, true},
};

static void
exhausted(struct pair *pair)
{
	static DAT_HANDLE made[MOST];
	struct dat_side s;
	DAT_COUNT more;

	open_side(&s, pair);
	for (size_t i = 0; i < sizeof(constructors) / sizeof(constructors[0]); i++) {
		const struct constructor *c = &constructors[i];

		for (uint32_t round = 0; round < 3; round++) {
			DAT_RETURN ret = DAT_SUCCESS;
			uint64_t start = pair_now_ms();
			uint32_t n = 0;

			while (n < MOST) {
				ret = c->make(&s, &made[n]);
				if (ret == DAT_SUCCESS)
					n++;
				else if (!c->slow || n == c->limit ||
					 pair_now_ms() - start > 10000 * PAIR_SHARE)
					break;
			}
			CHECK(pair, n == c->limit && ret == DAT_CODE(DAT_INSUFFICIENT_RESOURCES, c->subtype),
			      "%s: %u instead of %u, then 0x%x", c->name, n, c->limit, ret);
			/* Existing objects still work. */
			CHECK(pair, dat_evd_wait(s.recv, 1000, 1, &event, &more) == DAT_TIMEOUT_EXPIRED,
			      "%s: nobody can wait any more", c->name);
			/*
			 * Freeing one object makes room for one. A closed attachment frees its place with a
			 * delay.
			 */
			DAT_CHECK(&s, c->end(made[n / 2]));
			for (start = pair_now_ms(); c->make(&s, &made[n / 2]) != DAT_SUCCESS;)
				CHECK(pair, c->slow && pair_now_ms() - start < 10000 * PAIR_SHARE,
				      "%s: freeing one makes no room", c->name);
			CHECK(pair, c->make(&s, &made[n]) != DAT_SUCCESS, "%s: one more than the limit",
			      c->name);
			for (uint32_t k = 0; k < n; k++)
				DAT_CHECK(&s, c->end(made[k]));
		}
	}
	pair_barrier(pair);
	dat_side_close(&s);
}

/* Reserved service points, which need endpoints, have the same limit as public ones. */
static void
reserved(struct pair *pair)
{
	DAT_RSP_HANDLE rsp[MAX_LISTEN + 1];
	DAT_EP_HANDLE ep[MAX_LISTEN + 1];
	DAT_CONN_QUAL qual = 20000;
	struct dat_side s;

	open_side(&s, pair);
	for (uint32_t i = 0; i < MAX_LISTEN; i++) {
		DAT_CHECK(&s, make_ep(&s, &ep[i]));
		DAT_CHECK(&s, dat_rsp_create(s.ia, qual + i, ep[i], s.cr, &rsp[i]));
	}
	DAT_CHECK(&s, make_ep(&s, &ep[MAX_LISTEN]));
	DAT_CHECK_CODE(&s, dat_rsp_create(s.ia, qual + MAX_LISTEN, ep[MAX_LISTEN], s.cr, &rsp[MAX_LISTEN]),
		       DAT_CODE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
	CHECK(pair, dat_side_state(&s, ep[MAX_LISTEN]) == DAT_EP_STATE_UNCONNECTED, "reserved by nothing");
	for (uint32_t i = 0; i < MAX_LISTEN; i++)
		DAT_CHECK(&s, dat_rsp_free(rsp[i]));
	for (uint32_t i = 0; i <= MAX_LISTEN; i++)
		DAT_CHECK(&s, dat_ep_free(ep[i]));
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- a full EVD: excess connection requests are refused, lost flushed receives are reported ---- */

#define REQUESTS (MAX_QP - 2)

static void
full_server(struct pair *pair)
{
	DAT_SOCK_ADDR6 address;
	struct dat_side s;
	uint32_t admitted = 1;
	DAT_CR_HANDLE first;
	DAT_IA_ATTR ia;

	open_side(&s, pair);
	DAT_CHECK(&s, dat_ia_query(s.ia, NULL, DAT_IA_ALL, &ia, 0, NULL));
	memset(&address, 0, sizeof(address));
	memcpy(&address, ia.ia_address_ptr, sizeof(DAT_SOCK_ADDR));
	DAT_CHECK(&s, dat_psp_create_any(s.ia, &s.qual, s.cr, DAT_PSP_CONSUMER_FLAG, &s.psp));
	pair_send(pair, &address, sizeof(address));
	pair_send(pair, &s.qual, sizeof(s.qual));
	pair_barrier(pair); /* all requests that do not fit have been refused */
	first = dat_side_cr(&s);
	s.ep = DAT_HANDLE_NULL;
	DAT_CHECK(&s, make_ep(&s, &s.ep));
	DAT_CHECK(&s, dat_cr_accept(first, s.ep, 0, NULL));
	while (dat_evd_dequeue(s.cr, &event) == DAT_SUCCESS) {
		DAT_CHECK(&s, dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle));
		admitted++;
	}
	pair_send(pair, &admitted, sizeof(admitted));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	pair_barrier(pair);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
full_client(struct pair *pair)
{
	const DAT_ASYNCH_ERROR_EVENT_DATA *error = &event.event_data.asynch_error_event_data;
	uint32_t established = 0, rejected = 0, refused = 0, flushed = 0, admitted;
	DAT_EP_HANDLE ep[REQUESTS];
	DAT_SOCK_ADDR6 address;
	DAT_CONN_QUAL qual;
	struct dat_side s;
	DAT_COUNT more;

	open_side(&s, pair);
	pair_recv(pair, &address, sizeof(address));
	pair_recv(pair, &qual, sizeof(qual));
	for (uint32_t i = 0; i < REQUESTS; i++) {
		DAT_CHECK(&s, make_ep(&s, &ep[i]));
		for (uint64_t k = 0; k < MAX_QP_WR; k++)
			DAT_CHECK(&s, dat_ep_post_recv(ep[i], 0, NULL, (DAT_DTO_COOKIE){.as_64 = k}, 0));
	}
	for (uint32_t i = 0; i < REQUESTS; i++)
		DAT_CHECK(&s, dat_ep_connect(ep[i], (DAT_IA_ADDRESS_PTR)&address, qual, 30000000, 0, NULL,
					     DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	/* The EVD is somewhat longer than asked for: requests beyond its length are refused. */
	while (dat_evd_wait(s.conn, refused == 0 ? 20000000 : 1000000, 1, &event, &more) == DAT_SUCCESS) {
		CHECK(pair, event.event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED, "event 0x%x",
		      event.event_number);
		refused++;
	}
	/*
	 * Each refusal flushed 64 receives into an EVD of 16 events: the rest was lost, and one event
	 * reports the loss.
	 */
	dat_side_expect(&s, s.async, DAT_ASYNC_ERROR_EVD_OVERFLOW, 10000, &event);
	CHECK(pair, error->dat_handle == s.recv && error->reason == DAT_EVD_OVERFLOW_ERROR,
	      "the overflow of another EVD");
	while (dat_evd_dequeue(s.recv, &event) == DAT_SUCCESS)
		flushed++;
	CHECK(pair, flushed >= MAX_CQ_ENTRIES && flushed < refused * MAX_QP_WR, "%u events of a full EVD",
	      flushed);
	pair_barrier(pair);
	pair_recv(pair, &admitted, sizeof(admitted));
	while (established + rejected + refused < REQUESTS) {
		dat_side_event(&s, s.conn, 20000, &event);
		established += event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
		rejected += event.event_number == DAT_CONNECTION_EVENT_PEER_REJECTED;
		refused += event.event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED;
		CHECK(pair, event.event_number != DAT_CONNECTION_EVENT_TIMED_OUT,
		      "a request was neither delivered nor refused");
	}
	CHECK(pair,
	      admitted >= MAX_CQ_ENTRIES && established == 1 && rejected == admitted - 1 &&
		      refused == REQUESTS - admitted,
	      "%u admitted: %u established, %u rejected, %u refused", admitted, established, rejected,
	      refused);
	/* The EVD is usable as before. */
	while (dat_evd_dequeue(s.recv, &event) == DAT_SUCCESS) {
	}
	DAT_CHECK(&s, dat_ep_reset(ep[REQUESTS - 1])); /* one of the refused endpoints */
	DAT_CHECK(&s, dat_ep_free(ep[REQUESTS - 1]));
	pair_barrier(pair);
	dat_side_close(&s);
	pair_barrier(pair);
}

/* ---- a message that finds no receive, at a port with a limit of RNR retries ---- */

static void
receive_server(struct pair *pair)
{
	DAT_SOCK_ADDR6 address;
	struct dat_side s;
	DAT_IA_ATTR ia;

	open_side(&s, pair);
	DAT_CHECK(&s, dat_ia_query(s.ia, NULL, DAT_IA_ALL, &ia, 0, NULL));
	memset(&address, 0, sizeof(address));
	memcpy(&address, ia.ia_address_ptr, sizeof(DAT_SOCK_ADDR));
	DAT_CHECK(&s, dat_psp_create_any(s.ia, &s.qual, s.cr, DAT_PSP_CONSUMER_FLAG, &s.psp));
	pair_send(pair, &address, sizeof(address));
	pair_send(pair, &s.qual, sizeof(s.qual));
	DAT_CHECK(&s, make_ep(&s, &s.ep));
	DAT_CHECK(&s, dat_cr_accept(dat_side_cr(&s), s.ep, 0, NULL));
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
receive_client(struct pair *pair)
{
	DAT_SOCK_ADDR6 address;
	struct dat_side s;

	open_side(&s, pair);
	pair_recv(pair, &address, sizeof(address));
	pair_recv(pair, &s.qual, sizeof(s.qual));
	memcpy(&s.address, &address, sizeof(address));
	DAT_CHECK(&s, make_ep(&s, &s.ep));
	dat_side_request(&s, s.ep, s.qual);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	DAT_CHECK(&s, dat_ep_post_send(s.ep, 0, NULL, (DAT_DTO_COOKIE){.as_64 = 1}, 0));
	DAT_CHECK(&s, dat_ep_post_send(s.ep, 0, NULL, (DAT_DTO_COOKIE){.as_64 = 2}, 0));
	dat_side_complete(&s, s.request, 1, DAT_DTO_ERR_RECEIVER_NOT_READY, 0);
	dat_side_complete(&s, s.request, 2, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_BROKEN, 10000, &event);
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"limits_reported", bystander, reported, false},
	{"limits_unshared", bystander, unshared, false},
	{"limits_exhausted", bystander, exhausted, false},
	{"limits_reserved", bystander, reserved, false},
	{"limits_full", full_server, full_client, false},
	{"limits_receive", receive_server, receive_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
