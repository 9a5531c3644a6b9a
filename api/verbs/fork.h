/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After fork, calls on the parent's contexts and their objects fail with ECHILD in the child.  No such call
 * blocks, even if another thread of the parent held a lock when it forked.
 */
#ifndef VERBS_FORK_H
#define VERBS_FORK_H

#include "verbs/context.h"

int verbs_watch_forks(void); /* idempotent; returns 0 or -errno */
void verbs_fork_add(struct context *context);
void verbs_fork_remove(struct context *context);

#endif
