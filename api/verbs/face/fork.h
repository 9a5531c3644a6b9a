/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After fork the child has no part in the parent's contexts: their objects refuse what is asked of them with
 * ECHILD, whichever locks other threads of the parent held.
 */
#ifndef VERBS_FORK_H
#define VERBS_FORK_H

#include "verbs/base/context.h"

int verbs_watch_forks(void); /* -errno; once is enough */
void verbs_fork_add(struct context *context);
void verbs_fork_remove(struct context *context);

#endif
