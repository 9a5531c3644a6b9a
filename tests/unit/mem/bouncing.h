/* SPDX-License-Identifier: BSD-3-Clause */
/* Parties that make bounced accesses to memory of this process, and how often each was woken. */
#ifndef TESTS_BOUNCING_H
#define TESTS_BOUNCING_H

#include "tests/unit/unit.h"

#include <sched.h>
#include <stdlib.h>

#include "tests/copying.h"

#define PARTIES (2 * ONE_COPIES + 24u)

struct fixture {
	struct copying c;
	struct bounce_party party[PARTIES];
	uint32_t woken[PARTIES];
	uint32_t order[PARTIES], num_order;
};

static inline void
wake(void *context, void *user)
{
	struct fixture *f = context;
	uint32_t *woken = user;

	(*woken)++;
	f->order[f->num_order++ % PARTIES] = (uint32_t)(woken - f->woken);
}

static inline int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	copying_open(&f->c);
	for (uint32_t i = 0; i < PARTIES; i++)
		f->party[i].user = &f->woken[i];
	*state = f;
	return 0;
}

static inline int
teardown(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < PARTIES; i++)
		bounce_leave(&f->party[i]);
	bounce_detach(f->c.bounce, wake, f);
	assert_true(LIST_EMPTY(&f->c.list));
	copying_close(&f->c);
	free(f);
	return 0;
}

/* Wait until the party has been woken `times` more times. */
static inline void
await(struct fixture *f, uint32_t party, uint32_t times)
{
	uint32_t until = f->woken[party] + times;

	while (f->woken[party] < until) {
		if (!LIST_EMPTY(&f->c.list))
			bounce_poll(&f->c.list, wake, f);
		sched_yield();
	}
	assert_int_equal(f->woken[party], until);
}

static inline struct mem_region
region_of(struct bounce *bounce, void *memory, size_t len)
{
	return (struct mem_region){.va = (uintptr_t)memory, .length = len, .bounce = bounce};
}

static inline struct mem_sge
piece_of(const struct mem_region *region, size_t offset, uint32_t len)
{
	return (struct mem_sge){region, region->va + offset, len};
}

#endif
