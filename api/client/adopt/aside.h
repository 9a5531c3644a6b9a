/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving private pages aside by UFFDIO_MOVE (Linux 6.8), before other pages replace them.
 *
 * The kernel moves a page table entry under the entry's lock, and only if the page is not pinned (EBUSY). The
 * kernel checks for pins again after clearing the entry: get_user_pages_fast either has taken a pin by then,
 * which is found, or finds the entry cleared. Afterwards the page cannot be pinned: only the caller knows the
 * new address. A thread that accesses the old address faults, and waits, because the range is registered with
 * a userfaultfd.
 *
 * A page shared with a child since a fork, or by KSM, is refused with EBUSY as well. Populating such a page
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
	uint64_t from, to; /* of equal alignment; `to` is private anonymous memory without pages */
	uint64_t length;
	uint64_t moved; /* bytes moved so far, from the beginning */
};

/* Requires that `from` and `to` are registered for missing pages with `uffd` and have the same rights, and
 * that `from` is one mapping. Returns 0; -EBUSY if the page at from + moved is pinned or shared; or another
 * -errno. */
long aside_move(int uffd, struct aside *aside);
/* Moves all moved pages back. */
void aside_undo(int uffd, struct aside *aside);

#endif
