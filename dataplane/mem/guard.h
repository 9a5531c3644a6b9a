/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATAPLANE_MEM_GUARD_H
#define DATAPLANE_MEM_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Mappings of files that another process can truncate. The SIGBUS handler puts zeroed memory under a fault
 * and marks the mapping; `event_fd` wakes the control thread, which detaches the owner. Control thread
 * only. */
#define ENGINE_GUARDS_MAX (1u << 17)
/** @return Number of the guard, above 0; -ENOSPC: ENGINE_GUARDS_MAX mappings are guarded. */
int engine_guard_add(void *base, size_t len, void *owner);
/**
 * Call before the mapping is unmapped.
 * @return  The number of pieces of the mapping that the handler replaced, for engine_guard_unmapped().
 */
uint32_t engine_guard_remove(int guard);
/** A mapping with `pieces` replaced pieces has been unmapped. */
void engine_guard_unmapped(uint32_t pieces);
/** @return The owner of a mapping that has faulted, whose mark is cleared; NULL: none has. */
void *engine_guard_fault(void);

/* Install and remove the SIGBUS handler, which writes `event_fd` when a mapping has faulted. */
int guard_init(int event_fd);
void guard_fini(void);

#endif
