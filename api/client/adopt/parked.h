/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations whose key has been revoked (struct one_keys), and that the data plane still has: registering
 * the same memory again is to renew the key.  Each belongs to a range, which is held by others or kept
 * (keep.h).  When the range goes, at any time and by any thread, the registration is only good for MR_FREE:
 * whoever registers or deregisters does that for GONE_MAX of them, or before a file is removed at the data
 * plane.  Another range may have the file before: nothing can be done with a key that is revoked.
 *
 * There are PARKED_MAX at most; beyond them the one that was parked first goes.
 *
 * All calls with ranges_lock held; none allocates.
 */
#ifndef CLIENT_PARKED_H
#define CLIENT_PARKED_H

#include <stdbool.h>
#include <stdint.h>

struct one_client;
struct range;

#define PARKED_MAX 64u
#define GONE_MAX 16u

struct parked {
	struct parked *next; /* of those that are gone */
	struct one_client *client;
	struct range *range;
	uint64_t offset; /* of the page of `va` in the range's file */
	uint64_t va, length, shift;
	uint32_t pz, access;
	uint64_t when;
	uint32_t place; /* in the table */
};

void parked_put(struct parked *parked);
/* One that is just like this, or, without a range, over any; NULL: there is none. */
struct parked *parked_find(const struct parked *like);
/* It is the caller's. */
void parked_take(struct parked *parked);
/* All over the range go. */
void parked_lose(const struct range *range);
/* All of the client (NULL: of any) in the zone (0: in any) go. */
void parked_drop(const struct one_client *client, uint32_t pz);
/* Those that are gone, if there are so many, linked by next: the caller's. */
struct parked *parked_gone(uint32_t least);
/* In a child: forgets everything. */
void parked_fork_child(void);

#endif
