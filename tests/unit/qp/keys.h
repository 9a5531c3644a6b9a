/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a client library to its core through struct one_keys. */
#ifndef TESTS_UNIT_QP_KEYS_H
#define TESTS_UNIT_QP_KEYS_H

#include "fixture.h"

static inline struct one_keys *
keys_of(struct app *app)
{
	return (struct one_keys *)(app->arena + app->header->keys);
}

static inline void
ask(struct app *app, uint32_t op, uint32_t key, uint32_t next)
{
	struct one_keys *keys = keys_of(app);

	atomic_store(&keys->op, op);
	atomic_store(&keys->key, key);
	atomic_store(&keys->next, next);
	atomic_store(&keys->asked, atomic_load(&keys->asked) + 1);
	atomic_store(&app->doorbells->keys, 1);
}

static inline bool
is_answered(struct app *app)
{
	return atomic_load(&keys_of(app)->answered) == atomic_load(&keys_of(app)->asked);
}

/* Make a request; returns whether the core carried it out. */
static inline bool
done(struct app *app, uint32_t op, uint32_t key, uint32_t next)
{
	ask(app, op, key, next);
	TURN_UNTIL(is_answered(app));
	return atomic_load(&keys_of(app)->refused) == 0;
}

#endif
