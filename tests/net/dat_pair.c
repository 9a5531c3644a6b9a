/* SPDX-License-Identifier: BSD-3-Clause */
#include "dat_pair.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

void
dat_side_open(struct dat_side *s, struct pair *pair, bool server)
{
	static char name[] = "oneside";
	DAT_IA_ATTR attr;

	memset(s, 0, sizeof(*s));
	s->pair = pair;
	DAT_CHECK(s, dat_ia_open(name, 8, &s->async, &s->ia));
	DAT_CHECK(s, dat_pz_create(s->ia, &s->pz));
	DAT_CHECK(s, dat_evd_create(s->ia, 1024, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &s->cr));
	DAT_CHECK(s, dat_evd_create(s->ia, 1024, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &s->conn));
	DAT_CHECK(s, dat_evd_create(s->ia, 1024, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &s->recv));
	DAT_CHECK(s, dat_evd_create(s->ia, 1024, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
				    &s->request));
	if (server) {
		DAT_CHECK(s, dat_ia_query(s->ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
		memcpy(&s->address, attr.ia_address_ptr,
		       attr.ia_address_ptr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
								  : sizeof(struct sockaddr_in));
		DAT_CHECK(s, dat_psp_create_any(s->ia, &s->qual, s->cr, DAT_PSP_CONSUMER_FLAG, &s->psp));
		pair_send(pair, &s->address, sizeof(s->address));
		pair_send(pair, &s->qual, sizeof(s->qual));
	} else {
		pair_recv(pair, &s->address, sizeof(s->address));
		pair_recv(pair, &s->qual, sizeof(s->qual));
	}
}

void
dat_check_code(struct dat_side *s, DAT_RETURN got, DAT_RETURN code, const char *call, const char *file,
	       int line)
{
	const char *major = "?", *minor = "?", *wanted = "?", *wanted_minor = "?";

	if (got == code)
		return;
	dat_strerror(code, &wanted, &wanted_minor);
	dat_strerror(got, &major, &minor);
	pair_fail(s->pair, file, line, "%s: 0x%x %s %s instead of 0x%x %s %s", call, got, major, minor, code,
		  wanted, wanted_minor);
}

void
dat_bystander(struct pair *pair)
{
	struct dat_side s;

	dat_side_open(&s, pair, true);
	pair_barrier(pair);
	dat_side_close(&s);
}

DAT_EP_STATE
dat_side_state(struct dat_side *s, DAT_EP_HANDLE ep)
{
	DAT_EP_STATE state;

	DAT_CHECK(s, dat_ep_get_status(ep, &state, NULL, NULL));
	return state;
}

void
dat_side_request(struct dat_side *s, DAT_EP_HANDLE ep, DAT_CONN_QUAL qual)
{
	DAT_CHECK(s, dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&s->address, qual, 10000000 * PAIR_SHARE, 0, NULL,
				    DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

DAT_CR_HANDLE
dat_side_cr(struct dat_side *s)
{
	DAT_EVENT event;

	dat_side_expect(s, s->cr, DAT_CONNECTION_REQUEST_EVENT, 10000, &event);
	return event.event_data.cr_arrival_event_data.cr_handle;
}

void
dat_side_close(struct dat_side *s)
{
	DAT_CHECK(s, dat_ia_close(s->ia, DAT_CLOSE_ABRUPT_FLAG));
}

DAT_EP_HANDLE
dat_side_ep_in(struct dat_side *s, DAT_PZ_HANDLE pz)
{
	DAT_EP_ATTR attr = {.service_type = DAT_SERVICE_TYPE_RC,
			    .max_recv_dtos = 256,
			    .max_request_dtos = 256,
			    .max_recv_iov = 4,
			    .max_request_iov = 4,
			    .max_rdma_read_in = 4,
			    .max_rdma_read_out = 4,
			    .max_rdma_read_iov = 4,
			    .max_rdma_write_iov = 4};
	DAT_EP_HANDLE ep;

	DAT_CHECK(s, dat_ep_create(s->ia, pz, s->recv, s->request, s->conn, &attr, &ep));
	return ep;
}

DAT_CONN_QUAL
dat_side_free_qual(struct dat_side *s)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;

	DAT_CHECK(s, dat_psp_create_any(s->ia, &qual, s->cr, DAT_PSP_CONSUMER_FLAG, &psp));
	DAT_CHECK(s, dat_psp_free(psp));
	return qual;
}

DAT_EP_HANDLE
dat_side_ep(struct dat_side *s)
{
	return dat_side_ep_in(s, s->pz);
}

void
dat_side_event(struct dat_side *s, DAT_EVD_HANDLE evd, uint32_t ms, DAT_EVENT *event)
{
	DAT_COUNT more;

	DAT_CHECK(s, dat_evd_wait(evd, ms * 1000 * PAIR_SHARE, 1, event, &more));
}

void
dat_side_expect(struct dat_side *s, DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, uint32_t ms,
		DAT_EVENT *event)
{
	dat_side_event(s, evd, ms, event);
	CHECK(s->pair, event->event_number == number, "expected event 0x%x, got 0x%x", number,
	      event->event_number);
}

void
dat_side_connect(struct dat_side *s, bool server)
{
	DAT_EVENT event;

	if (s->ep == DAT_HANDLE_NULL)
		s->ep = dat_side_ep(s);
	pair_barrier(s->pair);
	if (server) {
		dat_side_expect(s, s->cr, DAT_CONNECTION_REQUEST_EVENT, 10000, &event);
		DAT_CHECK(s, dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, s->ep, 0, NULL));
	} else {
		DAT_CHECK(s, dat_ep_connect(s->ep, (DAT_IA_ADDRESS_PTR)&s->address, s->qual,
					    10000000 * PAIR_SHARE, 0, NULL, DAT_QOS_BEST_EFFORT,
					    DAT_CONNECT_DEFAULT_FLAG));
	}
	dat_side_expect(s, s->conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	CHECK(s->pair, event.event_data.connect_event_data.ep_handle == s->ep,
	      "ESTABLISHED for another endpoint");
	pair_barrier(s->pair);
}

void
dat_side_nothing(struct dat_side *s, DAT_EVD_HANDLE evd, uint32_t ms)
{
	DAT_EVENT event;
	DAT_COUNT more;
	DAT_RETURN ret = dat_evd_wait(evd, ms * 1000, 1, &event, &more);

	CHECK(s->pair, DAT_GET_TYPE(ret) == DAT_TIMEOUT_EXPIRED,
	      "an event (0x%x, of a completion status %d) that nobody caused", event.event_number,
	      event.event_data.dto_completion_event_data.status);
}

void
dat_side_quiet(struct dat_side *s, DAT_EVD_HANDLE evd, DAT_COUNT events, DAT_COUNT threshold)
{
	DAT_EVENT event;
	DAT_COUNT more;

	do
		CHECK(s->pair,
		      dat_evd_wait(evd, 100000, threshold, &event, &more) == DAT_TIMEOUT_EXPIRED &&
			      more <= events,
		      "events woke a waiter, and should not have (%d more)", more);
	while (more < events);
}

void
dat_side_expect_end(struct dat_side *s)
{
	DAT_EVENT event;

	dat_side_event(s, s->conn, 20000, &event);
	CHECK(s->pair,
	      event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED ||
		      event.event_number == DAT_CONNECTION_EVENT_BROKEN,
	      "expected DISCONNECTED or BROKEN, got 0x%x", event.event_number);
	dat_side_nothing(s, s->conn, 50);
}

void
dat_side_complete(struct dat_side *s, DAT_EVD_HANDLE evd, uint64_t cookie, DAT_DTO_COMPLETION_STATUS status,
		  uint64_t length)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;

	dat_side_expect(s, evd, DAT_DTO_COMPLETION_EVENT, 20000, &event);
	dto = &event.event_data.dto_completion_event_data;
	CHECK(s->pair, dto->ep_handle == s->ep, "a completion of another endpoint");
	CHECK(s->pair, dto->user_cookie.as_64 == cookie, "cookie 0x%llx instead of 0x%llx (status %d)",
	      (unsigned long long)dto->user_cookie.as_64, (unsigned long long)cookie, dto->status);
	CHECK(s->pair, dto->status == status, "cookie 0x%llx: status %d instead of %d",
	      (unsigned long long)cookie, dto->status, status);
	CHECK(s->pair, status != DAT_DTO_SUCCESS || dto->transfered_length == length,
	      "cookie 0x%llx: length %llu instead of %llu", (unsigned long long)cookie,
	      (unsigned long long)dto->transfered_length, (unsigned long long)length);
}

void
dat_buffer_make(struct dat_side *s, struct dat_buffer *b, size_t size, DAT_MEM_PRIV_FLAGS privileges)
{
	DAT_REGION_DESCRIPTION region;
	DAT_VLEN registered;
	DAT_VADDR address;

	memset(b, 0, sizeof(*b));
	memset(&region, 0, sizeof(region));
	b->size = size;
	b->data = malloc(size);
	memset(b->data, 0, size);
	region.for_va = b->data;
	DAT_CHECK(s, dat_lmr_create(s->ia, DAT_MEM_TYPE_VIRTUAL, region, size, s->pz, privileges, &b->lmr,
				    &b->lmr_context, &b->rmr_context, &registered, &address));
	CHECK(s->pair, address <= (uintptr_t)b->data && address + registered >= (uintptr_t)b->data + size,
	      "the registered range does not cover the one asked for");
}

void
dat_buffer_free(struct dat_side *s, struct dat_buffer *b)
{
	DAT_CHECK(s, dat_lmr_free(b->lmr));
	free(b->data);
}

void
dat_buffer_offer(struct dat_side *s, const struct dat_buffer *b)
{
	struct dat_remote remote = {
		.address = (uintptr_t)b->data, .length = b->size, .context = b->rmr_context};

	pair_send(s->pair, &remote, sizeof(remote));
}

void
dat_remote_take(struct dat_side *s, struct dat_remote *remote)
{
	pair_recv(s->pair, remote, sizeof(*remote));
}

static DAT_LMR_TRIPLET
piece(const struct dat_buffer *b, size_t offset, size_t len)
{
	return (DAT_LMR_TRIPLET){.lmr_context = b->lmr_context,
				 .virtual_address = (DAT_VADDR)(uintptr_t)(b->data + offset),
				 .segment_length = len};
}

DAT_RETURN
dat_send(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie,
	 DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);

	return dat_ep_post_send(ep, 1, &iov, (DAT_DTO_COOKIE){.as_64 = cookie}, flags);
}

DAT_RETURN
dat_recv(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);

	return dat_ep_post_recv(ep, 1, &iov, (DAT_DTO_COOKIE){.as_64 = cookie}, DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN
dat_write(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie,
	  const struct dat_remote *r, uint64_t at, DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);
	DAT_RMR_TRIPLET remote = {
		.rmr_context = r->context, .target_address = r->address + at, .segment_length = len};

	return dat_ep_post_rdma_write(ep, 1, &iov, (DAT_DTO_COOKIE){.as_64 = cookie}, &remote, flags);
}

DAT_RETURN
dat_read(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie,
	 const struct dat_remote *r, uint64_t at, DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);
	DAT_RMR_TRIPLET remote = {
		.rmr_context = r->context, .target_address = r->address + at, .segment_length = len};

	return dat_ep_post_rdma_read(ep, 1, &iov, (DAT_DTO_COOKIE){.as_64 = cookie}, &remote, flags);
}

void
dat_side_start(struct dat_side *side, struct pair *pair, bool server, struct dat_buffer *buffer, size_t size)
{
	dat_side_open(side, pair, server);
	dat_buffer_make(side, buffer, size, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(side, server);
}
