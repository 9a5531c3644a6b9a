/* SPDX-License-Identifier: BSD-3-Clause */
/* A uDAPL application in a case of two processes. */
#ifndef TESTS_NET_DAT_PAIR_H
#define TESTS_NET_DAT_PAIR_H

#include <dat/udat.h>

#include "pair.h"

struct dat_side {
	struct pair *pair;
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, cr, conn, recv, request;
	DAT_EP_HANDLE ep;
	DAT_PSP_HANDLE psp;
	struct sockaddr_storage address; /* the server's, on both sides */
	DAT_CONN_QUAL qual;
};

struct dat_buffer {
	uint8_t *data;
	size_t size;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
};

/* Address, length and context that the peer needs to access a buffer. */
struct dat_remote {
	uint64_t address;
	uint64_t length;
	uint32_t context;
	uint32_t reserved;
};

#define DAT_CHECK(side, call)                                                                 \
	do {                                                                                  \
		DAT_RETURN ret_ = (call);                                                     \
		const char *major_ = "?", *minor_ = "?";                                      \
                                                                                              \
		dat_strerror(ret_, &major_, &minor_);                                         \
		CHECK((side)->pair, ret_ == DAT_SUCCESS, "%s: %s %s", #call, major_, minor_); \
	} while (0)

/* Checks that the type of `call`'s error is exactly `type`. */
#define DAT_CHECK_ERROR(side, call, type)                                                              \
	do {                                                                                           \
		DAT_RETURN ret_ = (call);                                                              \
		const char *major_ = "?", *minor_ = "?";                                               \
                                                                                                       \
		dat_strerror(ret_, &major_, &minor_);                                                  \
		CHECK((side)->pair, DAT_GET_TYPE(ret_) == (type), "%s: expected %s, got %s %s", #call, \
		      #type, major_, minor_);                                                          \
	} while (0)

#define DAT_CODE(type, subtype) ((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_UINT32)(type) | (DAT_UINT32)(subtype)))
#define DAT_BAD_HANDLE(kind) DAT_CODE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define DAT_BAD_ARG(n) DAT_CODE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG##n)
#define DAT_BAD_STATE(state) DAT_CODE(DAT_INVALID_STATE, DAT_INVALID_STATE_##state)
#define DAT_UNSUPPORTED DAT_CODE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

/* Checks that `call` returns exactly `code`: class, type and subtype. */
#define DAT_CHECK_CODE(side, call, code) dat_check_code(side, call, code, #call, __FILE__, __LINE__)
void dat_check_code(struct dat_side *side, DAT_RETURN got, DAT_RETURN code, const char *call,
		    const char *file, int line);

/* Opens an IA, a PZ and EVDs. The server listens and sends its address to the client. */
void dat_side_open(struct dat_side *side, struct pair *pair, bool server);
void dat_side_close(struct dat_side *side);
/* Opens and connects a side, with a buffer that has all rights. */
void dat_side_start(struct dat_side *side, struct pair *pair, bool server, struct dat_buffer *buffer,
		    size_t size);
/* Server of a case that only tests the client's calls: listens until the client's barrier. */
void dat_bystander(struct pair *pair);

DAT_EP_STATE dat_side_state(struct dat_side *side, DAT_EP_HANDLE ep);
/* Calls dat_ep_connect() to the server, with a timeout of ten seconds and no private data. */
void dat_side_request(struct dat_side *side, DAT_EP_HANDLE ep, DAT_CONN_QUAL qual);
/* Returns the next request on side->cr; fails after ten seconds. */
DAT_CR_HANDLE dat_side_cr(struct dat_side *side);

/*
 * Returns a connection qualifier on which nobody listens. Programs run in parallel, so none may choose a
 * qualifier by itself: the data plane allocates them in turn, and allocates a freed one again only much
 * later.
 */
DAT_CONN_QUAL dat_side_free_qual(struct dat_side *side);
DAT_EP_HANDLE dat_side_ep(struct dat_side *side);
/* Makes an endpoint in the given protection zone. */
DAT_EP_HANDLE dat_side_ep_in(struct dat_side *side, DAT_PZ_HANDLE pz);
/* Connects side->ep of both sides, made if null; each side checks its ESTABLISHED event. */
void dat_side_connect(struct dat_side *side, bool server);
void dat_side_event(struct dat_side *side, DAT_EVD_HANDLE evd, uint32_t ms, DAT_EVENT *event);
/* Checks that the next event of `evd`, within `ms`, is `number`. */
void dat_side_expect(struct dat_side *side, DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, uint32_t ms,
		     DAT_EVENT *event);
/* Checks that the connection ends with exactly one DISCONNECTED or BROKEN event. */
void dat_side_expect_end(struct dat_side *side);
/* Checks the cookie and status of the next completion and, on success, its length. */
void dat_side_complete(struct dat_side *side, DAT_EVD_HANDLE evd, uint64_t cookie,
		       DAT_DTO_COMPLETION_STATUS status, uint64_t length);
void dat_side_nothing(struct dat_side *side, DAT_EVD_HANDLE evd, uint32_t ms);
/* Checks that `events` events arrive without ending a wait for `threshold` events: none of them notifies. */
void dat_side_quiet(struct dat_side *side, DAT_EVD_HANDLE evd, DAT_COUNT events, DAT_COUNT threshold);

void dat_buffer_make(struct dat_side *side, struct dat_buffer *buffer, size_t size,
		     DAT_MEM_PRIV_FLAGS privileges);
void dat_buffer_free(struct dat_side *side, struct dat_buffer *buffer);
void dat_buffer_offer(struct dat_side *side, const struct dat_buffer *buffer);
void dat_remote_take(struct dat_side *side, struct dat_remote *remote);

/* Post operations with one piece of a buffer; return the uDAPL call's result. */
DAT_RETURN dat_send(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie,
		    DAT_COMPLETION_FLAGS flags);
DAT_RETURN dat_recv(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie);
DAT_RETURN dat_write(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie,
		     const struct dat_remote *r, uint64_t at, DAT_COMPLETION_FLAGS flags);
DAT_RETURN dat_read(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie,
		    const struct dat_remote *r, uint64_t at, DAT_COMPLETION_FLAGS flags);

#endif
