/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels, and sleeping on them. */
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi/slice.h"
#include "client/cq.h"
#include "client/internal.h"
#include "client/explain.h"

#define SPIN_US_DEFAULT 20u
#define SPIN_US_MAX 1000000u
#define SPIN_LOOKS 32   /* polls between two readings of the clock */
#define BUSY_POLLS 512u /* a thread that has polled as often in vain is taken for one that polls always */

uint64_t
one_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Not locked: two threads that read the environment at once get the same value. */
static uint64_t
spin_ns(void)
{
	static _Atomic uint64_t cached = UINT64_MAX;
	uint64_t value = one_load_alone(&cached);

	if (value == UINT64_MAX) {
		const char *text = secure_getenv("ONESIDE_SPIN_US");
		char *end = NULL;
		unsigned long us = text != NULL ? strtoul(text, &end, 10) : SPIN_US_DEFAULT;

		if (text != NULL && (end == text || *end != '\0' || text[0] == '-')) {
			us = SPIN_US_DEFAULT;
			one_warn("ONESIDE_SPIN_US = %.32s: not a number of microseconds; using %lu", text,
				 us);
		}
		value = (us < SPIN_US_MAX ? us : SPIN_US_MAX) * 1000u;
		one_store_alone(&cached, value);
	}
	return value;
}

/* Wakes without FUTEX_PRIVATE_FLAG: the words are shared with another process. */
static long
futex_wake(struct one_channel *channel)
{
	return syscall(SYS_futex, &channel->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static long
futex_wait(struct one_channel *channel, uint32_t ticket, uint64_t deadline, bool restarts)
{
	struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000u),
				 .tv_nsec = (long)(deadline % 1000000000u)};
	const struct timespec *limit = deadline == UINT64_MAX ? NULL : &until;
	const struct futex_waitv word = {
		.val = ticket, .uaddr = (uintptr_t)&channel->word, .flags = FUTEX_32};

	/* futex(2) with a time limit returns EINTR after every signal handler, futex_waitv(2) only after
	 * handlers without SA_RESTART. */
	if (restarts) {
		long ret = syscall(SYS_futex_waitv, &word, 1, 0, limit, CLOCK_MONOTONIC);

		/* Unknown before Linux 5.16, and refused by some sandboxes. */
		if (ret >= 0 || (errno != ENOSYS && errno != EPERM))
			return ret;
	}
	return syscall(SYS_futex, &channel->word, FUTEX_WAIT_BITSET, ticket, limit, NULL,
		       FUTEX_BITSET_MATCH_ANY);
}

static void
wake_sleepers(struct one_channel *channel)
{
	/* The addition pairs with the kernel's check of the word in futex_wait, the load with the addition to
	 * sleepers in one_wait_sleep: either this load sees the sleeper, or the sleeper's futex call sees the
	 * new word. The engine does the same. */
	atomic_fetch_add_explicit(&channel->word, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&channel->sleepers, memory_order_seq_cst) != 0)
		futex_wake(channel);
}

void
wait_wake_all(struct one_client *client)
{
	for (uint32_t i = 0; i < ONE_CHANNELS; i++)
		wake_sleepers(&client->channels[i]);
}

int
one_channel_alloc(struct one_client *client, uint16_t *channel)
{
	int error = client_check(client);

	if (error != 0)
		return error;
	error = -ENOSPC;
	pthread_mutex_lock(&client->channel_lock);
	for (uint32_t i = 0; i < ONE_CHANNELS / 64; i++) {
		uint64_t vacant = ~client->channel_used[i];

		if (vacant != 0) {
			uint32_t bit = (uint32_t)__builtin_ctzll(vacant);

			client->channel_used[i] |= 1ull << bit;
			*channel = (uint16_t)(i * 64 + bit);
			error = 0;
			break;
		}
	}
	pthread_mutex_unlock(&client->channel_lock);
	return error;
}

void
one_channel_free(struct one_client *client, uint16_t channel)
{
	if (client_foreign(client) || channel == 0 || channel >= ONE_CHANNELS)
		return;
	pthread_mutex_lock(&client->channel_lock);
	client->channel_used[channel / 64] &= ~(1ull << channel % 64);
	pthread_mutex_unlock(&client->channel_lock);
}

void
one_channel_wake(struct one_client *client, uint16_t channel)
{
	wake_sleepers(&client->channels[channel % ONE_CHANNELS]);
}

uint32_t
one_wait_begin(struct one_client *client, uint16_t channel)
{
	/* Acquire pairs with the additions in wake_sleepers() and in the engine. */
	return atomic_load_explicit(&client->channels[channel % ONE_CHANNELS].word, memory_order_acquire);
}

static _Thread_local uint32_t polled; /* in vain, up to BUSY_POLLS */

void
one_polled_in_vain(void)
{
	if (polled < BUSY_POLLS && ++polled == BUSY_POLLS)
		one_slice_shorten();
}

uint64_t
one_yield(void)
{
	uint64_t before = one_now_ns();

	if (polled < BUSY_POLLS) {
		polled = BUSY_POLLS;
		one_slice_shorten();
	}
	sched_yield();
	return one_now_ns() - before;
}

/* Returns 1: the word has changed; 0: not within the time. */
static int
spin_on(const struct one_client *client, struct one_channel *channel, uint32_t ticket, uint64_t deadline)
{
	uint64_t limit = spin_ns();
	uint64_t now = one_now_ns();
	uint64_t until = deadline - now < limit ? deadline : now + limit;

	if (limit == 0 || now >= deadline)
		return 0;
	do {
		for (int i = 0; i < SPIN_LOOKS; i++) {
			/* Pairs with the additions in wake_sleepers() and in the engine. */
			if (atomic_load_explicit(&channel->word, memory_order_acquire) != ticket)
				return 1;
			one_cpu_relax();
		}
		if (client_check(client) != 0)
			return 1;
		one_yield(); /* the engine may need this very processor */
	} while (one_now_ns() < until);
	return 0;
}

static void
leave_sleepers(void *memory)
{
	struct one_channel *channel = memory;

	/* A core wakes at most ONE_CHANNEL_WAKES threads. The first of them that comes here still counts all,
	 * and those that the core left asleep. A wake-up that still counts this sleeper costs one system call
	 * too many. */
	if (atomic_fetch_sub_explicit(&channel->sleepers, 1, memory_order_relaxed) > ONE_CHANNEL_WAKES)
		futex_wake(channel);
}

/* Sleeps; for verbs a cancellation point, like read(2) in rdma-core. */
static int
sleep_on(struct one_client *client, struct one_channel *channel, uint32_t ticket, uint64_t deadline)
{
	int error, type;

	/* Pairs with the load of sleepers in wake_sleepers() and in the engine. */
	atomic_fetch_add_explicit(&channel->sleepers, 1, memory_order_seq_cst);
	pthread_cleanup_push(leave_sleepers, channel);
	/* The client is marked dead before the words are added to: a sleeper that missed the addition sees
	 * the mark. */
	error = client_check(client);
	if (error == 0) {
		if (client->restarts)
			pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
		if (futex_wait(channel, ticket, deadline, client->restarts) < 0 && errno != EAGAIN)
			error = -errno;
		if (client->restarts)
			pthread_setcanceltype(type, NULL);
	}
	pthread_cleanup_pop(1);
	return error;
}

int
one_wait_sleep(struct one_client *client, uint16_t number, uint32_t ticket, uint64_t deadline)
{
	struct one_channel *channel = &client->channels[number % ONE_CHANNELS];
	int error = client_check(client);

	if (error != 0)
		return error;
	if (!spin_on(client, channel, ticket, deadline)) {
		error = sleep_on(client, channel, ticket, deadline);
		if (error != 0 && error != -ECONNRESET && error != -ECHILD)
			return error;
	}
	return client_check(client);
}
