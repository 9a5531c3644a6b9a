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
	struct sockaddr_storage address; /* the server's, at both sides */
	DAT_CONN_QUAL qual;
};

struct dat_buffer {
	uint8_t *data;
	size_t size;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
};

/* What the peer needs to reach a buffer. */
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

/* The type of `call`'s error is exactly `type`. */
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

/* `call` returns exactly `code`, class, type and subtype. */
#define DAT_CHECK_CODE(side, call, code) dat_check_code(side, call, code, #call, __FILE__, __LINE__)
void dat_check_code(struct dat_side *side, DAT_RETURN got, DAT_RETURN code, const char *call,
		    const char *file, int line);

/* IA, PZ, EVDs; the server listens and tells the client where. */
void dat_side_open(struct dat_side *side, struct pair *pair, bool server);
void dat_side_close(struct dat_side *side);
/* Opened and connected, with a buffer that all may be done with. */
void dat_side_start(struct dat_side *side, struct pair *pair, bool server, struct dat_buffer *buffer,
		    size_t size);
/* The server of a case that is about the client's calls alone: it listens until the client's barrier. */
void dat_bystander(struct pair *pair);

DAT_EP_STATE dat_side_state(struct dat_side *side, DAT_EP_HANDLE ep);
/* dat_ep_connect to the server with ten seconds and no private data. */
void dat_side_request(struct dat_side *side, DAT_EP_HANDLE ep, DAT_CONN_QUAL qual);
/* The next request on side->cr, within ten seconds. */
DAT_CR_HANDLE dat_side_cr(struct dat_side *side);

/* Nobody listens on it.  Programs run side by side, so none chooses one by itself: the data plane gives them
 * out in turn, and gives a free one to nobody else for long. */
DAT_CONN_QUAL dat_side_free_qual(struct dat_side *side);
DAT_EP_HANDLE dat_side_ep(struct dat_side *side);
/* An endpoint in another protection zone. */
DAT_EP_HANDLE dat_side_ep_in(struct dat_side *side, DAT_PZ_HANDLE pz);
/* Connects side->ep (made if null) of both sides; each checks its ESTABLISHED. */
void dat_side_connect(struct dat_side *side, bool server);
void dat_side_event(struct dat_side *side, DAT_EVD_HANDLE evd, uint32_t ms, DAT_EVENT *event);
/* The next event of `evd` within `ms` is `number`. */
void dat_side_expect(struct dat_side *side, DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, uint32_t ms,
		     DAT_EVENT *event);
/* The connection ended: one DISCONNECTED or BROKEN, and no second one. */
void dat_side_expect_end(struct dat_side *side);
/* The next completion has this cookie, status and, on success, length. */
void dat_side_complete(struct dat_side *side, DAT_EVD_HANDLE evd, uint64_t cookie,
		       DAT_DTO_COMPLETION_STATUS status, uint64_t length);
void dat_side_nothing(struct dat_side *side, DAT_EVD_HANDLE evd, uint32_t ms);
/* So many events come, and do not end a wait for as many as `threshold`: none of them notifies. */
void dat_side_quiet(struct dat_side *side, DAT_EVD_HANDLE evd, DAT_COUNT events, DAT_COUNT threshold);

void dat_buffer_make(struct dat_side *side, struct dat_buffer *buffer, size_t size,
		     DAT_MEM_PRIV_FLAGS privileges);
void dat_buffer_free(struct dat_side *side, struct dat_buffer *buffer);
void dat_buffer_offer(struct dat_side *side, const struct dat_buffer *buffer);
void dat_remote_take(struct dat_side *side, struct dat_remote *remote);

/* Posts with one piece of a buffer; return what the call returned. */
DAT_RETURN dat_send(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie,
		    DAT_COMPLETION_FLAGS flags);
DAT_RETURN dat_recv(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie);
DAT_RETURN dat_write(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie,
		     const struct dat_remote *r, uint64_t at, DAT_COMPLETION_FLAGS flags);
DAT_RETURN dat_read(DAT_EP_HANDLE ep, const struct dat_buffer *b, size_t offset, size_t len, uint64_t cookie,
		    const struct dat_remote *r, uint64_t at, DAT_COMPLETION_FLAGS flags);

#endif
