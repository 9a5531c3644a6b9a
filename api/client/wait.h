/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until the engine has something. attach.h has the rules for all calls.
 *
 * With the caller's lock around everything but one_wait_sleep:
 *
 *   ticket = one_wait_begin(client, channel);       loads the word
 *   one_wait_arm(cq, channel, need);                for each ring: wake when `need` entries are there
 *   ... look at all sources again; if something is there, do not sleep ...
 *   error = one_wait_sleep(client, channel, ticket, deadline);
 */
#ifndef CLIENT_WAIT_H
#define CLIENT_WAIT_H

#include "client/attach.h"

struct one_cq;

/* Allocates a channel to sleep on. Never 0.
 * Lifetime: until one_channel_free or one_detach.
 * Errno: -ENOSPC: all ONE_CHANNELS are in use. */
int one_channel_alloc(struct one_client *client, uint16_t *channel);

/* Frees a channel. No thread may sleep on the channel, and no ring armed with it may still be waited for. */
void one_channel_free(struct one_client *client, uint16_t channel);

/* Wakes all sleepers; a thread that has its ticket but does not sleep yet will not sleep. */
void one_channel_wake(struct one_client *client, uint16_t channel);

/* Returns the ticket, the current value of the channel's word. An acquire: the caller sees what was stored
 * before a wake-up. */
uint32_t one_wait_begin(struct one_client *client, uint16_t channel);

/* Makes the engine wake `channel` once `need` entries (0 means 1) are in the ring. A full fence: the engine
 * sees the arm, or the caller's next look sees the entries.
 * Lock: the ring's. */
void one_wait_arm(struct one_cq *cq, uint16_t channel, uint32_t need);

/* Returns true if the ring's last arm was for `channel`, and the engine has not answered it. Lock: the
 * ring's. */
bool one_wait_armed(const struct one_cq *cq, uint16_t channel);

/* Sleeps until the channel is woken after its ticket was taken. Spins for $ONESIDE_SPIN_US microseconds (20
 * if unset) first: during that time the engine wakes without a system call.
 * Lock: none. Several threads may sleep on one channel.
 * deadline: CLOCK_MONOTONIC ns, UINT64_MAX for none.
 * Errno: 0: woken, look again; -ETIMEDOUT; -EINTR: a signal handler ran (with one_attach.restarts: one
 * without SA_RESTART). */
int one_wait_sleep(struct one_client *client, uint16_t channel, uint32_t ticket, uint64_t deadline);

/* Polling cores have short time slices (abi/slice.h). A thread that polls or yields beside one needs them,
 * too: with a longer slice it would get the processor back only after many turns of the core. */

/* Call when a poll has found nothing. A thread that does so often has short time slices from then on. */
void one_polled_in_vain(void);
/* Calls sched_yield(), and returns how long it took, in ns. The thread has short time slices from then on. */
uint64_t one_yield(void);

/* CLOCK_MONOTONIC. */
uint64_t one_now_ns(void);

#endif
