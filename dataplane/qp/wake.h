/* SPDX-License-Identifier: BSD-3-Clause */
/* Waking application threads that sleep until a completion arrives. */
#ifndef DATAPLANE_QP_WAKE_H
#define DATAPLANE_QP_WAKE_H

#include "dataplane/qp/client.h"

/**
 * Wake the threads that sleep on a channel of the client, and send the ring's id to the socket of
 * `descriptor` (0: none).
 * @return False: the socket was full, or the kernel had no memory; nobody was woken.
 */
bool wake_channel(struct core *core, struct engine_client *client, uint16_t channel, uint32_t descriptor,
		  uint32_t cq);
/** From now on the channel of that id wakes by `fd` (-1: by none); after engine_client_channels(). */
void wake_by_socket(struct engine_client *client, uint32_t id, int fd);
/** @return True: the user has used up its share of the core's time for wake-ups; a later loop wakes. */
bool wake_is_held(const struct core *core, const struct engine_client *client);

#endif
