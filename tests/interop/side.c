/* SPDX-License-Identifier: BSD-3-Clause */
#include "side.h"

#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void
side_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void
side_must(DAT_RETURN ret, const char *what)
{
	const char *major = "?", *minor = "?";

	if (ret == DAT_SUCCESS)
		return;
	dat_strerror(ret, &major, &minor);
	side_die("%s: %s %s", what, major, minor);
}

static void
make_endpoint(struct side *s)
{
	DAT_EP_ATTR attr = {.service_type = DAT_SERVICE_TYPE_RC,
			    .max_recv_dtos = SIDE_DEPTH,
			    .max_request_dtos = SIDE_DEPTH,
			    .max_recv_iov = 1,
			    .max_request_iov = 1,
			    .max_rdma_read_in = s->reads_in,
			    .max_rdma_read_out = s->reads_out,
			    .max_rdma_read_iov = 1,
			    .max_rdma_write_iov = 1};

	MUST(dat_ep_create(s->ia, s->pz, s->recv, s->request, s->conn, &attr, &s->ep));
}

static void
open_endpoint(struct side *s, int reads_in, int reads_out)
{
	s->reads_in = reads_in;
	s->reads_out = reads_out;
	MUST(dat_evd_create(s->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &s->conn));
	MUST(dat_evd_create(s->ia, SIDE_DEPTH * 2, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &s->recv));
	MUST(dat_evd_create(s->ia, SIDE_DEPTH * 2, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
			    &s->request));
	make_endpoint(s);
}

void
side_open(struct side *s, int reads_in, int reads_out)
{
	static char name[] = "oneside";

	memset(s, 0, sizeof(*s));
	MUST(dat_ia_open(name, 8, &s->async, &s->ia));
	MUST(dat_pz_create(s->ia, &s->pz));
	MUST(dat_evd_create(s->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &s->cr));
	open_endpoint(s, reads_in, reads_out);
}

void
side_open_beside(struct side *s, const struct side *first, int reads_in, int reads_out)
{
	*s = *first;
	open_endpoint(s, reads_in, reads_out);
}

void
side_close_beside(struct side *s)
{
	MUST(dat_ep_free(s->ep));
	MUST(dat_evd_free(s->conn));
	MUST(dat_evd_free(s->recv));
	MUST(dat_evd_free(s->request));
}

void
side_close(struct side *s)
{
	MUST(dat_ia_close(s->ia, DAT_CLOSE_ABRUPT_FLAG));
}

void
side_listen(struct side *s, unsigned port)
{
	MUST(dat_psp_create(s->ia, port, s->cr, DAT_PSP_CONSUMER_FLAG, &s->psp));
	printf("listening on port %u\n", port);
	fflush(stdout);
}

void
side_request(struct side *s)
{
	DAT_EVENT event;
	DAT_COUNT more;

	MUST(dat_evd_wait(s->cr, SIDE_WAIT_US, 1, &event, &more));
	if (event.event_number != DAT_CONNECTION_REQUEST_EVENT)
		side_die("event 0x%x instead of a connection request", event.event_number);
	s->request_handle = event.event_data.cr_arrival_event_data.cr_handle;
}

void
side_accept(struct side *s, void *private_data, size_t len)
{
	MUST(dat_cr_accept(s->request_handle, s->ep, (DAT_COUNT)len, private_data));
}

void
side_reject(struct side *s, void *private_data, size_t len)
{
#ifdef SIDE_DAT2
	MUST(dat_cr_reject(s->request_handle, (DAT_COUNT)len, private_data));
#else
	(void)private_data;
	(void)len;
	MUST(dat_cr_reject(s->request_handle));
#endif
}

void
side_connect(struct side *s, const char *address, unsigned port, void *private_data, size_t len)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *info;

	if (getaddrinfo(address, NULL, &hints, &info))
		side_die("\"%s\" is not an address", address);
	MUST(dat_ep_connect(s->ep, (DAT_IA_ADDRESS_PTR)info->ai_addr, port, SIDE_WAIT_US, (DAT_COUNT)len,
			    private_data, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	freeaddrinfo(info);
}

void
side_connect_until(struct side *s, const char *address, unsigned port, void *private_data, size_t len,
		   void (*prepare)(struct side *s, void *arg), void *arg, DAT_EVENT *event)
{
	time_t until = time(NULL) + SIDE_WAIT_US / 1000000;
	DAT_EVENT_NUMBER number;

	for (;;) {
		if (prepare)
			prepare(s, arg);
		side_connect(s, address, port, private_data, len);
		number = side_connection_event(s, event);
		if (number == DAT_CONNECTION_EVENT_ESTABLISHED)
			return;
		if (number != DAT_CONNECTION_EVENT_NON_PEER_REJECTED || time(NULL) > until)
			side_die("connection event 0x%x instead of ESTABLISHED", number);
		nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
		/* Receives posted for a failed attempt may or may not have been flushed: the next attempt
		 * uses a new endpoint. */
		MUST(dat_ep_free(s->ep));
		while (dat_evd_dequeue(s->recv, event) == DAT_SUCCESS)
			continue;
		make_endpoint(s);
	}
}

DAT_EVENT_NUMBER
side_connection_event(struct side *s, DAT_EVENT *event)
{
	DAT_COUNT more;

	MUST(dat_evd_wait(s->conn, SIDE_WAIT_US, 1, event, &more));
	return event->event_number;
}

void
side_established(struct side *s)
{
	DAT_EVENT event;

	if (side_connection_event(s, &event) != DAT_CONNECTION_EVENT_ESTABLISHED)
		side_die("connection event 0x%x instead of ESTABLISHED", event.event_number);
}

void
side_expect_state(struct side *s, DAT_EP_STATE wanted, const char *name)
{
	DAT_BOOLEAN recv_idle, request_idle;
	DAT_EP_STATE state;

	MUST(dat_ep_get_status(s->ep, &state, &recv_idle, &request_idle));
	if (state != wanted)
		side_die("%s: the endpoint is in state %d instead of %d", name, state, wanted);
}

void
side_expect_end(struct side *s, DAT_EVENT_NUMBER wanted, const char *name)
{
	DAT_EVENT event;
	DAT_EVENT_NUMBER number = side_connection_event(s, &event);

	if (number != wanted)
		side_die("%s: connection event 0x%x instead of 0x%x", name, number, wanted);
	side_expect_state(s, DAT_EP_STATE_DISCONNECTED, name);
	if (dat_evd_dequeue(s->conn, &event) == DAT_SUCCESS)
		side_die("%s: connection event 0x%x behind 0x%x", name, event.event_number, number);
}

void
side_disconnect(struct side *s)
{
	MUST(dat_ep_disconnect(s->ep, DAT_CLOSE_ABRUPT_FLAG));
	side_expect_end(s, DAT_CONNECTION_EVENT_DISCONNECTED, "disconnect");
}

void
buffer_make(struct side *s, struct buffer *b, size_t size, DAT_MEM_PRIV_FLAGS rights)
{
	DAT_REGION_DESCRIPTION region;
	DAT_VLEN registered;
	DAT_VADDR address;

	memset(&region, 0, sizeof(region));
	b->size = size;
	b->data = calloc(1, size);
	if (!b->data)
		side_die("no memory for %zu bytes", size);
	region.for_va = b->data;
#ifdef SIDE_DAT2
	MUST(dat_lmr_create(s->ia, DAT_MEM_TYPE_VIRTUAL, region, size, s->pz, rights, DAT_VA_TYPE_VA, &b->lmr,
			    &b->lmr_context, &b->rmr_context, &registered, &address));
#else
	MUST(dat_lmr_create(s->ia, DAT_MEM_TYPE_VIRTUAL, region, size, s->pz, rights, &b->lmr,
			    &b->lmr_context, &b->rmr_context, &registered, &address));
#endif
}

static DAT_LMR_TRIPLET
piece(const struct buffer *b, size_t offset, size_t len)
{
	return (DAT_LMR_TRIPLET){.lmr_context = b->lmr_context,
				 .virtual_address = (uintptr_t)(b->data + offset),
				 .segment_length = (uint32_t)len};
}

static DAT_RMR_TRIPLET
place(const struct target *t, uint64_t at, size_t len)
{
	return (DAT_RMR_TRIPLET){
		.rmr_context = t->key,
#ifdef SIDE_DAT2
		.virtual_address = t->address + at,
#else
		.target_address = t->address + at,
#endif
		.segment_length = (uint32_t)len,
	};
}

DAT_RMR_CONTEXT
side_bind(struct side *s, DAT_RMR_HANDLE window, const struct buffer *b)
{
	DAT_LMR_TRIPLET all = piece(b, 0, b->size);
	DAT_RMR_COOKIE cookie = {.as_64 = 1};
	DAT_RMR_CONTEXT key;
	DAT_EVENT event;
	DAT_COUNT more;

#ifdef SIDE_DAT2
	MUST(dat_rmr_bind(window, b->lmr, &all, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, DAT_VA_TYPE_VA, s->ep, cookie,
			  DAT_COMPLETION_DEFAULT_FLAG, &key));
#else
	MUST(dat_rmr_bind(window, &all, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, s->ep, cookie,
			  DAT_COMPLETION_DEFAULT_FLAG, &key));
#endif
	MUST(dat_evd_wait(s->request, SIDE_WAIT_US, 1, &event, &more));
	if (event.event_number != DAT_RMR_BIND_COMPLETION_EVENT ||
	    event.event_data.rmr_completion_event_data.status != DAT_RMR_BIND_SUCCESS)
		side_die("the window is not bound: event 0x%x", event.event_number);
	return key;
}

void
side_post_recv(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);

	MUST(dat_ep_post_recv(s->ep, 1, &iov, (DAT_DTO_COOKIE){.as_64 = cookie},
			      DAT_COMPLETION_DEFAULT_FLAG));
}

void
side_post_send(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);

	MUST(dat_ep_post_send(s->ep, len ? 1 : 0, &iov, (DAT_DTO_COOKIE){.as_64 = cookie},
			      DAT_COMPLETION_DEFAULT_FLAG));
}

void
side_post_write(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
		const struct target *t, uint64_t at)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);
	DAT_RMR_TRIPLET remote = place(t, at, len);

	MUST(dat_ep_post_rdma_write(s->ep, len ? 1 : 0, &iov, (DAT_DTO_COOKIE){.as_64 = cookie}, &remote,
				    DAT_COMPLETION_DEFAULT_FLAG));
}

void
side_post_read(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
	       const struct target *t, uint64_t at)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);
	DAT_RMR_TRIPLET remote = place(t, at, len);

	MUST(dat_ep_post_rdma_read(s->ep, len ? 1 : 0, &iov, (DAT_DTO_COOKIE){.as_64 = cookie}, &remote,
				   DAT_COMPLETION_DEFAULT_FLAG));
}

#ifdef SIDE_DAT2
void
side_post_send_inv(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
		   uint32_t key)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);

	DAT_DTO_COOKIE dto_cookie = {.as_64 = cookie};

	/* libdat2 exports no function for this call, but its headers define it. */
	MUST(DAT_EP_POST_SEND_WITH_INVALIDATE(s->ep, len ? 1 : 0, &iov, dto_cookie,
					      DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, key));
}

void
side_post_write_imm(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
		    const struct target *t, uint64_t at, uint32_t immediate)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, len);
	DAT_RMR_TRIPLET remote = place(t, at, len);
	DAT_DTO_COOKIE dto_cookie = {.as_64 = cookie};

	MUST(dat_ib_post_rdma_write_immed(s->ep, len ? 1 : 0, &iov, dto_cookie, &remote, immediate,
					  DAT_COMPLETION_DEFAULT_FLAG));
}

void
side_post_fetch_add(struct side *s, const struct buffer *b, size_t offset, uint64_t cookie,
		    const struct target *t, uint64_t at, uint64_t add)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, 8);
	DAT_RMR_TRIPLET remote = place(t, at, 8);
	DAT_DTO_COOKIE dto_cookie = {.as_64 = cookie};

	MUST(dat_ib_post_fetch_and_add(s->ep, add, &iov, dto_cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG));
}

void
side_post_cmp_swap(struct side *s, const struct buffer *b, size_t offset, uint64_t cookie,
		   const struct target *t, uint64_t at, uint64_t compare, uint64_t swap)
{
	DAT_LMR_TRIPLET iov = piece(b, offset, 8);
	DAT_RMR_TRIPLET remote = place(t, at, 8);
	DAT_DTO_COOKIE dto_cookie = {.as_64 = cookie};

	MUST(dat_ib_post_cmp_and_swap(s->ep, compare, swap, &iov, dto_cookie, &remote,
				      DAT_COMPLETION_DEFAULT_FLAG));
}
#endif

bool
side_completion_immediate(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_EVENT_DATA *dto, uint32_t *immediate)
{
	bool brought = false;
	DAT_EVENT event;
	DAT_COUNT more;

	MUST(dat_evd_wait(evd, SIDE_WAIT_US, 1, &event, &more));
	*dto = event.event_data.dto_completion_event_data;
#ifdef SIDE_DAT2
	if (event.event_number == (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT) {
		DAT_IB_EXTENSION_EVENT_DATA extension;

		memcpy(&extension, event.event_extension_data, sizeof(extension));
		if ((extension.status == DAT_OP_SUCCESS) != (dto->status == DAT_DTO_SUCCESS))
			side_die("an extension's status %d with status %d", extension.status, dto->status);
		brought = extension.type == DAT_IB_RDMA_WRITE_IMMED_DATA ||
			  extension.type == DAT_IB_RECV_IMMED_DATA;
		*immediate = extension.val.immed.data;
		return brought;
	}
#endif
	if (event.event_number != DAT_DTO_COMPLETION_EVENT)
		side_die("event 0x%x instead of a completion", event.event_number);
	*immediate = 0;
	return brought;
}

void
side_completion(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_EVENT_DATA *dto)
{
	uint32_t immediate;

	(void)side_completion_immediate(evd, dto, &immediate);
}

void
side_complete(struct side *s, uint64_t cookie)
{
	DAT_DTO_COMPLETION_EVENT_DATA dto;
	DAT_EVENT_NUMBER number = 0;
	DAT_EVENT event;

	side_completion(s->request, &dto);
	if (dto.user_cookie.as_64 == cookie && dto.status == DAT_DTO_SUCCESS)
		return;
	if (dto.status != DAT_DTO_SUCCESS) {
		number = side_connection_event(s, &event);
		side_expect_state(s, DAT_EP_STATE_DISCONNECTED, "a request that fails");
	}
	side_die("completion 0x%llx with status %d instead of 0x%llx, then connection event 0x%x",
		 (unsigned long long)dto.user_cookie.as_64, dto.status, (unsigned long long)cookie, number);
}

int64_t
side_message(struct side *s, uint64_t *cookie)
{
	DAT_DTO_COMPLETION_EVENT_DATA dto;

	side_completion(s->recv, &dto);
	if (dto.status == DAT_DTO_ERR_FLUSHED)
		return -1;
	if (dto.status != DAT_DTO_SUCCESS)
		side_die("a receive ended with status %d", dto.status);
	if (cookie)
		*cookie = dto.user_cookie.as_64;
	return (int64_t)dto.transfered_length;
}
