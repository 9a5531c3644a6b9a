/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving private pages aside by UFFDIO_MOVE (Linux 6.8), before other pages take their place.
 *
 * The kernel moves a page table entry under its lock and only if the page is not pinned (EBUSY).  It looks
 * again after it has cleared the entry, so get_user_pages_fast either has its pin by then, and is found, or
 * finds the entry gone. From then on nobody can pin the page: its new address is known to the caller alone.
 * Whoever uses the old address takes a fault, which waits for the userfaultfd that the range is registered
 * with.
 *
 * A page that is shared with a child since a fork, or by KSM, is refused with EBUSY as well.  To populate it
 * for writing makes it the process's own.
 *
 * System calls are raw: see raw.h.
 */
#ifndef CLIENT_ASIDE_H
#define CLIENT_ASIDE_H

#include <stdint.h>

/* Bit of uffdio_api.features; unknown to older headers. */
#define FEATURE_MOVE (1u << 16)

struct aside {
	uint64_t from, to; /* aligned alike; `to` is private anonymous memory without pages */
	uint64_t length;
	uint64_t moved; /* bytes from the beginning */
};

/* Both ends are registered for missing pages with `uffd`, `from` is one mapping, and both have the same
 * rights. 0; -EBUSY: there is a pinned or shared page at from + moved; or another -errno. */
long aside_move(int uffd, struct aside *aside);
/* All that was moved lies where it was. */
void aside_undo(int uffd, struct aside *aside);

#endif
