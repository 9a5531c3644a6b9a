/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waking application threads that sleep until a completion arrives, and charging their user for that.
 *
 * The application decides what the core's system call does: any number of epoll instances may watch the
 * socket of a channel, and the socket may send a signal to each process of a group. So the time of slow
 * wake-ups is limited by a ceiling of the user (user.h), WAKE_RATE of each second. Above that the user has no
 * turns. The user's wake-ups wait, too, since entries also come from peers.
 *
 * A wake-up can also take long on a busy machine, if another thread gets the processor. So the first slow
 * wake-up is not charged. From then on all wake-ups of the user are measured in processor time, which costs
 * two more system calls each.
 */
#include <errno.h>
#include <sys/socket.h>

#include "dataplane/base/clock.h"
#include "dataplane/core/stats.h"
#include "dataplane/mem/channel.h"
#include "dataplane/qp/share.h"
#include "dataplane/qp/wake.h"

#define CHEAP_NS 20000u

static bool
send_id(int fd, uint32_t cq)
{
	return send(fd, &cq, sizeof(cq), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(cq) ||
	       (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM);
}

static _Atomic int *
socket_place(struct engine_client *client, uint32_t id)
{
	/* Pairs with the release store in engine_client_channels(). */
	struct channel_table *table =
		atomic_load_explicit(&client->home->channel_table, memory_order_acquire);

	return table != NULL ? &table->fd[id % CHANNEL_PLACES] : NULL;
}

void
wake_by_socket(struct engine_client *client, uint32_t id, int fd)
{
	/* Relaxed: pairs with the load in wake_sleepers() on cores of other lanes. The library arms with this
	 * id only after the control thread has answered, and the control thread closes a socket only after a
	 * grace period. */
	atomic_store_explicit(socket_place(client, id), fd + 1, memory_order_relaxed);
}

static bool
wake_sleepers(struct engine_client *client, uint16_t channel, uint32_t descriptor, uint32_t cq)
{
	const _Atomic int *place = descriptor != 0 ? socket_place(client, descriptor) : NULL;
	/* Pairs with the store in wake_by_socket(). */
	int fd = place != NULL ? atomic_load_explicit(place, memory_order_relaxed) - 1 : -1;

	if (fd >= 0 && !send_id(fd, cq))
		return false;
	channel_signal(&client->channels[channel], ONE_CHANNEL_WAKES);
	return true;
}

static void
charge_time(const struct core *core, struct engine_user *user, uint64_t ns, bool measured)
{
	const uint64_t done[CEILINGS] = {[CEILING_WAKES] = ns};

	if (ns <= CHEAP_NS)
		return;
	if (measured)
		user_charge(user, core->real_at, done);
	else
		/* Relaxed: pairs with the load in user_wakes_slowly(); the value orders nothing else. */
		atomic_store_explicit(&user->slow_wakes, true, memory_order_relaxed);
}

bool
wake_channel(struct core *core, struct engine_client *client, uint16_t channel, uint32_t descriptor,
	     uint32_t cq)
{
	struct engine_user *user = client->share.group->user;
	bool measured = user_wakes_slowly(user), woken;
	uint64_t began;

	if (channel >= ONE_CHANNELS) {
		client_fault(client, ONE_FAULT_RING);
		return true;
	}
	core->stats.wakes++;
	share_charge(core, client, SHARE_WAKE);
	began = measured ? clock_thread() : rte_rdtsc();
	woken = wake_sleepers(client, channel, descriptor, cq);
	charge_time(core, user, measured ? clock_thread() - began : engine_now(rte_rdtsc() - began),
		    measured);
	return woken;
}

bool
wake_is_held(const struct core *core, const struct engine_client *client)
{
	const struct engine_user *user = client->share.group->user;

	return user_wakes_slowly(user) && !user_may_wake(user, core->real_at);
}
