/* SPDX-License-Identifier: BSD-3-Clause */
/* Users of the fake engine, and the order in which they are served. */
#include <pthread.h>
#include <stdlib.h>

#include "fake_engine.h"

#define MADE 1024

struct engine_user {
	uint8_t number;
	uint32_t clients;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct engine_share given;
static uint8_t made[MADE];
static uint32_t num_made, users, users_made;
static uint64_t debt;

static uint32_t sent[ENGINE_CHANNEL_FD + 1];
static enum engine_command_type hooked_type;
static void (*hook)(void);

static pthread_mutex_t stop_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stop_news = PTHREAD_COND_INITIALIZER;
static bool stop_wanted, stopped;

void
fake_stop(bool stop)
{
	pthread_mutex_lock(&stop_lock);
	stop_wanted = stop;
	pthread_cond_broadcast(&stop_news);
	fake_wake();
	while (stop && !stopped)
		pthread_cond_wait(&stop_news, &stop_lock);
	pthread_mutex_unlock(&stop_lock);
}

void
fake_stopped(void)
{
	pthread_mutex_lock(&stop_lock);
	while (stop_wanted) {
		stopped = true;
		pthread_cond_broadcast(&stop_news);
		pthread_cond_wait(&stop_news, &stop_lock);
	}
	stopped = false;
	pthread_mutex_unlock(&stop_lock);
}

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

void
fake_user_served(struct engine_user *user)
{
	pthread_mutex_lock(&lock);
	if (num_made < MADE)
		made[num_made++] = user->number;
	pthread_mutex_unlock(&lock);
}

uint32_t
fake_made(uint8_t *out, uint32_t max)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	n = num_made < max ? num_made : max;
	for (uint32_t i = 0; i < n; i++)
		out[i] = made[i];
	num_made = 0;
	pthread_mutex_unlock(&lock);
	return n;
}

struct engine_user *
engine_user_new(const struct engine_share *share)
{
	struct engine_user *user = calloc(1, sizeof(*user));

	if (user == NULL)
		return NULL;
	pthread_mutex_lock(&lock);
	user->number = (uint8_t)users++;
	users_made++;
	pthread_mutex_unlock(&lock);
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

uint64_t
engine_user_debt(const struct engine_user *user)
{
	uint64_t owes;

	pthread_mutex_lock(&lock);
	owes = debt;
	pthread_mutex_unlock(&lock);
	return owes;
}

void
fake_debt(uint64_t owes)
{
	pthread_mutex_lock(&lock);
	debt = owes;
	pthread_mutex_unlock(&lock);
}

uint32_t
fake_users(void)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	n = users;
	pthread_mutex_unlock(&lock);
	return n;
}

uint32_t
fake_users_made(void)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	n = users_made;
	pthread_mutex_unlock(&lock);
	return n;
}

void
engine_user_free(struct engine_user *user)
{
	if (user != NULL && user->clients != 0)
		abort(); /* attachments of this user remain */
	pthread_mutex_lock(&lock);
	users -= user != NULL;
	pthread_mutex_unlock(&lock);
	free(user);
}

/* ---- commands sent ---- */

void
fake_sending(enum engine_command_type type)
{
	void (*call)(void) = NULL;

	pthread_mutex_lock(&lock);
	sent[type]++;
	if (type == hooked_type) {
		call = hook;
		hook = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (call != NULL)
		call();
}

uint32_t
fake_sent(enum engine_command_type type)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	n = sent[type];
	pthread_mutex_unlock(&lock);
	return n;
}

void
fake_on(enum engine_command_type type, void (*call)(void))
{
	pthread_mutex_lock(&lock);
	hooked_type = type;
	hook = call;
	pthread_mutex_unlock(&lock);
}
