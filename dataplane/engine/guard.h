/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATAPLANE_GUARD_H
#define DATAPLANE_GUARD_H

#include <stdbool.h>

/* Install and remove the SIGBUS handler; what it guards is told by engine_guard_add(). */
int guard_init(void);
void guard_fini(void);
/* `address` is in a mapping of an application's memory. */
bool guard_has(const void *address);

#endif
