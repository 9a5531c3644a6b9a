/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between the two ends of a uDAPL test: a greeting in the private data of each connection, and, if
 * the server is active, too, notes on a separate endpoint. Both ends must have the same byte order.
 */
#ifndef PERF_NOTES_H
#define PERF_NOTES_H

#include "traffic.h"

#define GREETING_MAGIC 0x32524550u /* change it when the structs below change */

enum greeting_kind { KIND_ONE_SIDED, KIND_SEND, KIND_IDLE, KIND_NOTES, KIND_MAX };

struct greeting {
	uint32_t magic;
	uint32_t kind;            /* enum greeting_kind */
	uint32_t test;            /* enum perf_kind */
	uint32_t op;              /* enum perf_op */
	uint32_t depth;           /* 0: the server posts no requests of its own */
	uint32_t every;           /* requests per completion, --cq-mod */
	uint32_t rx_depth;        /* KIND_SEND */
	uint32_t endpoints;       /* in the whole test */
	struct dat_target target; /* memory that the server may write and read */
};

enum note_verb { NOTE_START = 1, NOTE_READY, NOTE_DONE };

struct note {
	uint64_t verb;
	struct stint stint;  /* START */
	uint64_t iterations; /* DONE: the server's own figures */
	double seconds, peak;
};

struct notes {
	DAT_EP_HANDLE ep;
	struct dat_memory memory; /* two notes: one to send, one received */
};

/* Call before the endpoint is connected. */
bool notes_open(struct notes *notes, struct traffic *t, DAT_EP_HANDLE ep);
bool notes_send(struct notes *notes, const struct note *note);
/* Takes the received note. Another note may arrive from now on. */
bool notes_take(struct notes *notes, struct traffic *t, struct note *note);
/* Waits for a note with `verb`, and reposts receives of data meanwhile. */
bool notes_wait(struct notes *notes, struct traffic *t, enum note_verb verb, struct note *note);
void notes_close(struct notes *notes);

#endif
