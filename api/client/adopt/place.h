/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The place of an adopted range: the mapping that it had, without its pages, at another address.
 *
 * The kernel merges neighbouring private mappings only if they have the same origin (anon_vma and page
 * offset, which mremap preserves).  Pages given back in a new mapping would leave three mappings where there
 * was one, for good.  So adoption moves the old mapping away (MREMAP_DONTUNMAP), and giving back fills it and
 * moves it home, where it merges.
 *
 * A place costs a mapping; PLACES_MAX bounds them to a quarter of vm.max_map_count's default.
 *
 * Under ranges_lock.
 */
#ifndef CLIENT_PLACE_H
#define CLIENT_PLACE_H

#include <stdint.h>

#define PLACES_MAX 16384u

/* Addresses of `length` bytes that nobody uses, aligned to huge pages as `like` is; 0: there are none. */
uint64_t place_reserve(uint64_t like, uint64_t length);
/* place_reserve, if there may be another place. */
uint64_t place_new(uint64_t like, uint64_t length);
/* Unmaps [from, length) of the place, and forgets the place. */
void place_drop(uint64_t place, uint64_t from, uint64_t length);
/* The mapping at `at`, which is registered with a userfaultfd for missing pages, lies at `to` from now on.
 * Empty pages stay at `at`.  0 or -errno. */
long place_park(uint64_t at, uint64_t length, uint64_t to);
/* It may be filled, and moved home. */
long place_open(uint64_t place, uint64_t length);

#endif
