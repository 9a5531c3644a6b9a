/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients that share a core. Each posts to itself, as much as its rings accept. */
#ifndef TESTS_QP_SIDES_H
#define TESTS_QP_SIDES_H

#include "fixture.h"

#define PAIRS 16
#define LONG (1u << 20)

struct side {
	struct app app;
	struct ring sends;
	struct memory memory;
	struct pair from[PAIRS], to[PAIRS];
	uint32_t pairs, open[PAIRS], len;
	uint64_t done; /* completed writes */
};

static inline void
begin_of(struct side *s, struct engine_user *user, uint32_t pairs, uint32_t len, bool local)
{
	if (user != NULL)
		app_start_of(&s->app, user);
	else
		app_start(&s->app);
	ring_new(&s->app, 12, &s->sends, NULL);
	memory_new(&s->app, ONE_ACCESS_ALL, LONG, &s->memory);
	s->pairs = pairs;
	s->len = len;
	s->done = 0;
	for (uint32_t i = 0; i < pairs; i++) {
		pair_new(&s->app, &s->sends, &s->sends, NULL, NULL, &s->from[i]);
		pair_new(&s->app, &s->sends, &s->sends, NULL, NULL, &s->to[i]);
		pair_connect(&s->from[i], &s->to[i], RC_RTS, local);
		pair_connect(&s->to[i], &s->from[i], RC_RTS, local);
		s->open[i] = 0;
	}
}

/* The side gets a user of its own. */
static inline void
begin(struct side *s, uint32_t pairs, uint32_t len, bool local)
{
	begin_of(s, NULL, pairs, len, local);
}

static inline void
end(struct side *s)
{
	for (uint32_t i = 0; i < s->pairs; i++) {
		pair_end(&s->from[i]);
		pair_end(&s->to[i]);
	}
	ring_end(&s->sends);
	memory_end(&s->memory);
	app_end(&s->app);
}

static inline void
post_all(struct side *s)
{
	struct one_cqe cqe;

	while (ring_poll(&s->sends, &cqe)) {
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
		s->open[cqe.cookie]--;
		s->done++;
	}
	for (uint32_t i = 0; i < s->pairs; i++)
		for (; s->open[i] < MAX_WR; s->open[i]++)
			post_write(&s->from[i], &s->memory, &s->memory, s->len, i);
}

#endif
