/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The place of an adopted range: the mapping that the range had before, without its pages, moved to another
 * address.
 *
 * The kernel merges neighbouring private mappings only if they have the same origin (anon_vma and page
 * offset, which mremap preserves). If pages were given back in a new mapping, three mappings would remain
 * where there was one. So adoption moves the old mapping away (MREMAP_DONTUNMAP). Giving a range back fills
 * that mapping and moves it home, where the kernel merges it with its neighbours.
 *
 * A place costs a mapping; PLACES_MAX bounds them to a quarter of vm.max_map_count's default.
 *
 * All calls require ranges_lock.
 */
#ifndef CLIENT_PLACE_H
#define CLIENT_PLACE_H

#include <stdint.h>

#define PLACES_MAX 16384u

/* Reserves `length` bytes of addresses, with the alignment of `like` to huge pages. 0: none are free. */
uint64_t place_reserve(uint64_t like, uint64_t length);
/* place_reserve(), but 0 if PLACES_MAX are in use. */
uint64_t place_new(uint64_t like, uint64_t length);
/* Frees a place, of which the first `from` bytes are no longer mapped there. */
void place_drop(uint64_t place, uint64_t from, uint64_t length);
/* Moves the mapping at `at`, which is registered with a userfaultfd for missing pages, to `to`. A mapping
 * without pages remains at `at`. Returns 0 or -errno. */
long place_move(uint64_t at, uint64_t length, uint64_t to);
/* Makes the place accessible, to be filled and moved home. Returns 0 or -errno. */
long place_open(uint64_t place, uint64_t length);

#endif
