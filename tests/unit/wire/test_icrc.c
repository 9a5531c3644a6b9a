/* SPDX-License-Identifier: BSD-3-Clause */
/* Each implementation of the ICRC that this CPU has, against the definition, bit by bit. The test uses no
 * library, so that it also runs under an emulator of another CPU. */
#include <stdio.h>
#include <stdlib.h>

#include "dataplane/wire/icrc.h"
#include "reference.h"

#define PAYLOAD_MAX 4500u /* above the largest MTU and the bytes of one fold */
#define GUARD 64u

struct work {
	uint8_t frame[64 + 64 + FRAME_MAX + GUARD], expected[64 + 64 + FRAME_MAX + GUARD];
	uint8_t from[FRAME_MAX + 64], to[FRAME_MAX + 128], moved[FRAME_MAX + 128];
	uint64_t seed;
};

/* A frame, and the offsets of the frame and its payload. */
struct shape {
	const char *name;
	uint32_t ip_len, headers, payload, at, source, move;
};

static uint32_t
below(struct work *w, uint32_t limit)
{
	return (uint32_t)(next_random(&w->seed) % limit);
}

static void
check(bool good, const struct shape *s, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s: IP header of %u, headers of %u, payload of %u bytes, offsets %u and %u\n",
		s->name, what, s->ip_len, s->headers, s->payload, s->at, s->source);
	exit(1);
}

static void
fill(struct work *w, uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)next_random(&w->seed);
}

/* Writes the headers and the bytes around the frame, but not the payload; w->expected is the complete
 * frame. */
static uint8_t *
prepare(struct work *w, const struct shape *s)
{
	uint8_t *ip = w->frame + 64 + s->at;

	fill(w, w->frame, 64 + s->at + s->headers);
	ip[0] = s->ip_len == 20 ? 0x45 : 0x60;
	memset(ip + s->headers, 0xcc, s->payload + GUARD);
	memcpy(w->expected, w->frame, sizeof(w->frame));
	memcpy(w->expected + 64 + s->at + s->headers, w->from + s->source, s->payload);
	return ip;
}

static void
passes(struct work *w, const struct icrc_impl *impl, const struct shape *s)
{
	uint32_t len = s->headers + s->payload, expected;
	uint8_t *ip = prepare(w, s);

	expected = slow_icrc(w->expected + (ip - w->frame), s->ip_len, len);
	check(impl->copy(ip, s->ip_len, len, w->from + s->source, s->payload) == expected, s, "copy");
	check(memcmp(w->frame, w->expected, sizeof(w->frame)) == 0, s, "what was copied");
	check(impl->compute(ip, s->ip_len, len) == expected, s, "compute");
	memset(w->to, 0xee, sizeof(w->to));
	memset(w->moved, 0xee, sizeof(w->moved));
	memcpy(w->moved + s->at, w->from + s->source, s->move);
	check(impl->beside(ip, s->ip_len, len, w->to + s->at, w->from + s->source, s->move) == expected, s,
	      "beside");
	check(memcmp(w->to, w->moved, sizeof(w->to)) == 0, s, "what was moved");
	check(memcmp(w->frame, w->expected, sizeof(w->frame)) == 0, s, "the frame is not written");
}

/* Payloads of every length, at random offsets, behind extension headers of random length. */
static void
each_length(struct work *w, const struct icrc_impl *impl)
{
	for (uint32_t n = 0; n <= PAYLOAD_MAX; n++) {
		for (uint32_t ip_len = 20; ip_len <= 40; ip_len += 20) {
			struct shape s = {impl->name,   ip_len,       ip_len + 20 + below(w, 29), n,
					  below(w, 64), below(w, 64), 64 * below(w, 65)};

			passes(w, impl, &s);
		}
	}
}

int
main(void)
{
	struct work *w = calloc(1, sizeof(*w));
	uint32_t tested = 0;

	w->seed = 0x1c9c;
	fill(w, w->from, sizeof(w->from));
	icrc_init(0);
	printf("chosen here: %s\n", icrc->name);
	for (const struct icrc_impl *const *impl = icrc_impls; *impl != NULL; impl++) {
		bool available = (*impl)->available();

		printf("%s: %s\n", (*impl)->name, available ? "tested" : "not on this CPU");
		if (available) {
			each_length(w, *impl);
			tested++;
		}
	}
	free(w);
	return tested > 0 ? 0 : 1;
}
