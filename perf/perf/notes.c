/* SPDX-License-Identifier: BSD-3-Clause */
#include "notes.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define SLACK_SECONDS 30u /* seconds that the server may lag behind the client */

static bool
post_recv(struct notes *n)
{
	DAT_LMR_TRIPLET iov = {.lmr_context = n->memory.lmr_context,
			       .virtual_address = (DAT_VADDR)(uintptr_t)n->memory.base + sizeof(struct note),
			       .segment_length = sizeof(struct note)};
	DAT_DTO_COOKIE cookie = {.as_64 = NOTE_COOKIE};

	return dat_ok(dat_ep_post_recv(n->ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG),
		      "dat_ep_post_recv");
}

bool
notes_open(struct notes *n, struct traffic *t, DAT_EP_HANDLE ep)
{
	n->ep = ep;
	return dat_memory_create(t->adapter, 2 * sizeof(struct note), &n->memory) && post_recv(n);
}

bool
notes_send(struct notes *n, const struct note *note)
{
	DAT_LMR_TRIPLET iov = {.lmr_context = n->memory.lmr_context,
			       .virtual_address = (DAT_VADDR)(uintptr_t)n->memory.base,
			       .segment_length = sizeof(*note)};
	DAT_DTO_COOKIE cookie = {.as_64 = NOTE_COOKIE};

	memcpy(n->memory.base, note, sizeof(*note));
	return dat_ok(dat_ep_post_send(n->ep, 1, &iov, cookie, DAT_COMPLETION_SUPPRESS_FLAG),
		      "dat_ep_post_send");
}

bool
notes_take(struct notes *n, struct traffic *t, struct note *note)
{
	t->noted = false;
	memcpy(note, (const uint8_t *)n->memory.base + sizeof(*note), sizeof(*note));
	return post_recv(n);
}

bool
notes_wait(struct notes *n, struct traffic *t, enum note_verb verb, struct note *note)
{
	uint64_t deadline = now_ns() + SLACK_SECONDS * 1000000000ull;
	bool busy;

	while (!t->noted) {
		if (!traffic_drain(t, &busy))
			return false;
		if (!busy)
			sched_yield();
		if (!t->noted && !busy && now_ns() > deadline) {
			fprintf(stderr, "oneside-perf: the server does not answer\n");
			return false;
		}
	}
	if (!notes_take(n, t, note))
		return false;
	if (note->verb != verb) {
		fprintf(stderr, "oneside-perf: the server's note is not the one expected\n");
		return false;
	}
	return true;
}

void
notes_close(struct notes *n)
{
	dat_memory_free(&n->memory);
	n->ep = DAT_HANDLE_NULL;
}
