/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands to the cores, and grace periods.
 *
 * Callbacks never run from within the call that registered them.
 */
#ifndef CONTROL_ATTACH_WORK_H
#define CONTROL_ATTACH_WORK_H

#include "control/attach/client.h"

typedef void command_done(struct engine_command *command, void *object);
/* Returns a command, never NULL.  `done` NULL: the acknowledgement does not wake the control thread.  The
 * client is not freed before the acknowledgement. */
struct engine_command *command_new(struct client *client, enum engine_command_type type, command_done *done,
				   void *object);
void command_send(struct engine_command *command);
/* Calls `done` (NULL: nothing) after every core has passed a quiescent state.  The client is not freed
 * before. */
typedef void grace_done(struct client *client, void *object);
void grace_defer(struct client *client, grace_done *done, void *object);
/* Frees a memory key's entry when no core can access it any more. */
void entry_retire(struct client *client, struct mem_region *entry);
uint64_t work_deadline(void);
void work_poll(void);
void work_init(void);

#endif
