/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands for a queue pair that moves: see engine_move_new(). */
#ifndef DATAPLANE_ENGINE_MOVE_H
#define DATAPLANE_ENGINE_MOVE_H

#include "dataplane/engine.h"

struct core;

/* The core of the lane that the queue pair has left. */
struct core *engine_move_old_core(const struct engine_move *move);
/* True if the command waits until the move of its queue pair is over. */
bool engine_move_holds(struct engine_command *command);

#endif
