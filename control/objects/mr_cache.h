/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cached registrations: memory that a library keeps registered after its last deregistration, so that
 * registering it again is cheap.  Cached memory counts for its user, and is released when a request of the
 * user lacks room.
 *
 * The cache has registrations whose key the application has revoked through its core (struct one_keys), and
 * regions that had registrations and have none now.  The library is not asked: released ids become unknown,
 * and one_arena.reclaimed counts released regions.
 */
#ifndef CONTROL_OBJECTS_MR_CACHE_H
#define CONTROL_OBJECTS_MR_CACHE_H

#include "control/objects/objects.h"

/* mr_cache_put() caches a region that has lost its last registration; mr_cache_take() ends that, when the
 * region is registered again or freed. */
void mr_cache_put(struct region *region);
void mr_cache_take(struct region *region);
/* Track a renewable registration, from its creation to its end. */
void mr_cache_watch(struct mr *mr);
void mr_cache_forget(struct mr *mr);
/* Releases some cached memory of all attachments of the user.  account->left changes when the memory is free.
 * False: none was found. */
bool mr_cache_reclaim(struct quota_account *account);

#endif
