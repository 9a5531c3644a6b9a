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
	bool lost; /* DAT_ASYNC_ERROR_IA_CATASTROPHIC has arrived */
};

/* Private data of a request and of its answer: who sends it, and where the peer may write. */
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
	bool flushed;        /* work has failed: an event that ends the connection must follow */
	uint32_t index, use; /* part of cookies, to detect completions of an earlier use */
	struct chaos_lives lives;
	uint32_t paused;
	DAT_EP_HANDLE ep;
	/* The peer's area, its expected contents, the contents read from the peer's memory, messages. */
	uint8_t *memory;
	uint32_t size; /* of each of the first three parts */
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT context;
	struct link_offer own, peer;
	uint32_t sequence, at, len;
	uint32_t reading, noting, unanswered; /* state of the current round */
	uint32_t answering, answer_due;
	uint32_t outstanding; /* posted work that must still complete */
};

/* Returns true on success, false if the data plane has gone. Any other error fails the application. */
bool chaos_dat_ok(DAT_RETURN ret, const char *what);

/* Makes an endpoint with memory and receives. Returns false if the data plane has gone. */
bool link_make(struct link *link, struct chaos_ia *ia, bool client);
void link_offer(struct link *link, struct link_offer *offer);
void link_take(struct link *link, const struct link_offer *offer);
/* Frees a connection that is over, with its endpoint. */
void link_free(struct link *link);
/* Frees a link's memory after the interface adapter was closed. */
void link_forget(struct link *link);

void link_event(struct link *link, const DAT_EVENT *event);
void link_completed(struct link *link, const DAT_DTO_COMPLETION_EVENT_DATA *dto);
void link_step(struct link *link);
void link_leave(struct link *link);
/* True if the connection has ended and all posted work has completed, including work posted while the end was
 * on its way. */
bool link_is_over(const struct link *link);

#endif
