/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATAPLANE_MEM_GUARD_H
#define DATAPLANE_MEM_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Mappings of files that another process can truncate.  The SIGBUS handler puts zeroed memory under a fault
 * and marks the mapping; `event_fd` wakes the control thread, which detaches the owner.  Control thread.
 */
#define ENGINE_GUARDS_MAX (1u << 17)
/** @return  Its number, above 0; or -ENOSPC: ENGINE_GUARDS_MAX mappings are guarded. */
int engine_guard_add(void *base, size_t len, void *owner);
/**
 * Call it before the mapping goes.
 * @return  The number of pieces of the mapping that the handler replaced, for engine_guard_unmapped().
 */
uint32_t engine_guard_remove(int guard);
/** The mapping with so many replaced pieces is unmapped. */
void engine_guard_unmapped(uint32_t pieces);
/** @return  The owner of a mapping that has faulted, whose mark is cleared; NULL: none has. */
void *engine_guard_fault(void);

/* Install and remove the SIGBUS handler.  `event_fd` is written when a mapping has faulted. */
int guard_init(int event_fd);
void guard_fini(void);

#endif
