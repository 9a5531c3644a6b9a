/* SPDX-License-Identifier: BSD-3-Clause */
/* Users of the fake engine. */
#include <pthread.h>
#include <stdlib.h>

#include "fake_engine.h"

struct engine_user {
	uint32_t clients;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct engine_share given;

struct engine_share
fake_share(void)
{
	struct engine_share share;

	pthread_mutex_lock(&lock);
	share = given;
	pthread_mutex_unlock(&lock);
	return share;
}

void
fake_user_hold(struct engine_user *user, bool hold)
{
	user->clients += hold ? 1u : -1u;
}

struct engine_user *
engine_user_new(const struct engine_share *share)
{
	struct engine_user *user = calloc(1, sizeof(*user));

	if (user != NULL)
		engine_user_set(user, share);
	return user;
}

void
engine_user_set(struct engine_user *user, const struct engine_share *share)
{
	pthread_mutex_lock(&lock);
	given = *share;
	pthread_mutex_unlock(&lock);
}

void
engine_user_free(struct engine_user *user)
{
	if (user != NULL && user->clients != 0)
		abort(); /* attachments of it are there */
	free(user);
}
