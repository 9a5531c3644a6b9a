/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATAPLANE_MEM_GUARD_H
#define DATAPLANE_MEM_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Mappings that clients could make fault (truncation): the SIGBUS handler puts zeroed memory there
 * and remembers; the control thread is woken (`event_fd`), asks and detaches the owner. */
#define ENGINE_GUARDS_MAX (1u << 17)
int engine_guard_add(void *base, size_t len, void *owner);
void engine_guard_remove(void *base);
void *engine_guard_fault(void); /* owner of a mapping that faulted since, or NULL; clears it */

/* Install and remove the SIGBUS handler.  `event_fd` is written when a mapping has faulted. */
int guard_init(int event_fd);
void guard_fini(void);

#endif
