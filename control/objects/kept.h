/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a library keeps registered after its last deregistration, so that registering it again is
 * quick.  It counts for its user, and is given up when a request of the user lacks room.
 *
 * Kept are registrations whose key the application has revoked by its core (struct one_keys), and regions
 * without a registration that have had one.  A library is not asked: the ids are unknown from then on, and
 * one_arena.reclaimed counts the regions.
 */
#ifndef CONTROL_OBJECTS_KEPT_H
#define CONTROL_OBJECTS_KEPT_H

#include "control/objects/objects.h"

/* A region has lost its last registration; it has one again, or goes. */
void kept_put(struct region *region);
void kept_take(struct region *region);
/* A renewable registration, from its making to its end. */
void kept_watch(struct mr *mr);
void kept_forget(struct mr *mr);
/* Some of what is kept in all attachments of the user goes, and account->left changes when it has gone;
 * false: none was found. */
bool kept_reclaim(struct quota_account *account);

#endif
