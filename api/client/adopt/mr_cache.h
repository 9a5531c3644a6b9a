/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cached registrations: the key has been revoked (struct one_keys), but the data plane still has the
 * registration, so that registering the same memory again only renews the key. Each belongs to a range that
 * other registrations hold, or that is cached (range_cache.h).
 *
 * When the range goes, at any time and by any thread, the registration is lost: only MR_FREE is left to do. A
 * thread that registers or deregisters sends MR_FREE as soon as GONE_MAX are lost, or before a file is
 * removed at the data plane. Another range may use the file before that: a revoked key permits nothing.
 *
 * At most MR_CACHE_MAX registrations are cached; beyond that the oldest is lost.
 *
 * All calls require ranges_lock; none allocates.
 */
#ifndef CLIENT_MR_CACHE_H
#define CLIENT_MR_CACHE_H

#include <stdbool.h>
#include <stdint.h>

struct one_client;
struct range;

#define MR_CACHE_MAX 64u
#define GONE_MAX 16u

struct cached_mr {
	struct cached_mr *next; /* list of lost registrations */
	struct one_client *client;
	struct range *range;
	uint64_t offset; /* in the range's file, of the page with `va` */
	uint64_t va, length, shift;
	uint32_t pz, access;
	uint64_t when;  /* order of mr_cache_put() */
	uint32_t place; /* index in the table */
};

void mr_cache_put(struct cached_mr *cached);
/* Finds a registration with the arguments of `like`, and its range unless NULL. NULL: there is none. */
struct cached_mr *mr_cache_find(const struct cached_mr *like);
/* Hands the registration to the caller. */
void mr_cache_take(struct cached_mr *cached);
/* All registrations of the range are lost. */
void mr_cache_lose(const struct range *range);
/* All registrations of the client (NULL: of any) in the zone (0: in any) are lost. */
void mr_cache_drop(const struct one_client *client, uint32_t pz);
/* Hands all lost registrations, linked by next, to the caller. NULL: fewer than `least` are lost. */
struct cached_mr *mr_cache_gone(uint32_t least);
/* In a child after fork: empties the table. */
void mr_cache_fork_child(void);

#endif
