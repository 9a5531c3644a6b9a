/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATAPLANE_GUARD_H
#define DATAPLANE_GUARD_H

/* Install and remove the SIGBUS handler; what it guards is told by engine_guard_add(). */
int guard_init(void);
void guard_fini(void);

#endif
