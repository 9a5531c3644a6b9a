/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of a uDAPL application in a chaos run, with its memory. */
#ifndef TESTS_CHAOS_DAT_LINK_H
#define TESTS_CHAOS_DAT_LINK_H

#include <dat/udat.h>

#include "chaos.h"

#define LINKS 8u
#define LINK_COOKIE_INDEX(cookie) ((cookie) >> 8 & 0xff)

struct chaos_ia {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, cr, conn, recv, request;
	DAT_PSP_HANDLE psp;
	bool listens;
	bool lost; /* DAT_ASYNC_ERROR_IA_CATASTROPHIC has come */
};

/* The private data of a request, and of its answer: who it is, and where a peer may write. */
struct link_offer {
	uint64_t address;
	uint32_t context, size;
	uint32_t slot, to, stream;
	uint32_t plane, life, killed; /* of the sender's slot */
};

enum link_state { LINK_FREE, LINK_CONNECTING, LINK_ACCEPTING, LINK_OPEN, LINK_ENDED };

struct link {
	enum link_state state;
	bool client;
	bool leaving;        /* this end has disconnected */
	bool flushed;        /* work has failed: an event that ends the connection has to come */
	uint32_t index, use; /* in cookies: a completion of an earlier use is noticed */
	struct chaos_lives lives;
	uint32_t paused;
	DAT_EP_HANDLE ep;
	/* The peer's area, what it must be, what was read of it, messages. */
	uint8_t *memory;
	uint32_t size; /* of one of them */
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT context;
	struct link_offer own, peer;
	uint32_t sequence, at, len;
	uint32_t reading, noting, unanswered; /* of this round */
	uint32_t answering, answer_due;
	uint32_t outstanding; /* posted, and to complete */
};

/* True on success.  False: the data plane has gone; any other error fails the application. */
bool chaos_dat_ok(DAT_RETURN ret, const char *what);

/* An endpoint with memory and receives; false: the data plane has gone. */
bool link_make(struct link *link, struct chaos_ia *ia, bool client);
void link_offer(struct link *link, struct link_offer *offer);
void link_take(struct link *link, const struct link_offer *offer);
/* A connection that is over, and its endpoint. */
void link_free(struct link *link);
/* The same after the interface adapter was closed: the memory is the application's. */
void link_forget(struct link *link);

void link_event(struct link *link, const DAT_EVENT *event);
void link_completed(struct link *link, const DAT_DTO_COMPLETION_EVENT_DATA *dto);
void link_step(struct link *link);
void link_leave(struct link *link);
/* Ended, and all that was posted has been told of, also what was posted when the end was on its way. */
bool link_is_over(const struct link *link);

#endif
