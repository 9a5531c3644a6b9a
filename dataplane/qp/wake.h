/* SPDX-License-Identifier: BSD-3-Clause */
/* Waking the threads of applications that sleep until a completion comes. */
#ifndef DATAPLANE_QP_WAKE_H
#define DATAPLANE_QP_WAKE_H

#include "dataplane/qp/client.h"

/**
 * Wake the threads that sleep on a channel of the client.
 * @return  False: the channel's socket had no room, or the kernel no memory; nobody was woken.
 */
bool wake_channel(struct core *core, struct engine_client *client, uint16_t channel, uint32_t cq);
/** @return  The client's user has used up its share of the core's time for wake-ups; a later loop wakes. */
bool wake_is_held(const struct core *core, const struct engine_client *client);

#endif
