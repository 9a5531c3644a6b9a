/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes adopted ranges private memory again, wherever their pages are mapped now. */
#include <sys/mman.h>

#include "range_cache.h"
#include "maps.h"
#include "mr_cache.h"
#include "pins.h"
#include "place.h"
#include "ranges.h"
#include "stay.h"
#include "transplant.h"

/* True if the range has a file of its own, which also holds what mremap added behind the range. */
static bool
has_own_file(const struct range *range)
{
	return range->file->lasting && !range->file->slab;
}

/* Finds the next mapping of the range that begins in [from, below), cut to the range. *got: there is one. */
static int
range_mapping(const struct range *range, uint64_t from, uint64_t below, struct map_entry *found, bool *got)
{
	struct map_entry e;
	int error = maps_open(from);

	*got = false;
	if (error != 0)
		return error;
	while (!*got && maps_next(&e) && e.start < below) {
		uint64_t low = range->offset;
		uint64_t high = low + range->length + (has_own_file(range) ? BEHIND : 0);

		if (!e.shared || e.ino != range->file->ino || e.dev != range->file->dev)
			continue;
		if (e.offset >= high || e.offset + (e.end - e.start) <= low)
			continue;
		/* Not cut at the end of the file: pages that mremap added there belong to the range. */
		if (e.offset + (e.end - e.start) > high && high < range->file->size)
			e.end = e.start + (high - e.offset);
		if (e.offset < low) {
			e.start += low - e.offset;
			e.offset = low;
		}
		if (e.start < from || e.start >= below)
			continue;
		*found = e;
		*got = true;
	}
	maps_close();
	return 0;
}

/* Makes one mapping of the range private. `place`: for its first byte (place.h); 0: none. */
static int
mapping_restore(const struct range *range, const struct map_entry *e, uint64_t place, uint64_t *bytes)
{
	uint64_t rest = range->offset + range->length - e->offset;
	bool all = has_own_file(range) || rest >= e->end - e->start;
	struct transplant t = {.start = e->start,
			       .length = all ? e->end - e->start : rest,
			       .prot = e->prot,
			       .lock = range->locked,
			       .to_fd = -1,
			       .from_fd = range->file->fd,
			       .from_offset = e->offset,
			       .place = place};
	int error;

	range_cache_unguard(range, e->start, e->end);
	error = transplant(&t);
	*bytes += t.done;
	if (error == 0 && e->start + t.length < e->end &&
	    mmap((void *)(uintptr_t)(e->start + t.length), e->end - e->start - t.length, e->prot,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		error = -errno;
	return error;
}

/* Makes all mappings of the range in [from, below) private. Adds their size to *bytes. */
static int
range_restore_part(const struct range *range, uint64_t from, uint64_t below, uint64_t *bytes)
{
	struct map_entry e;
	int error = 0;
	bool more;

	while (error == 0 && from < below) {
		error = range_mapping(range, from, below, &e, &more);
		if (error != 0 || !more)
			break;
		error = mapping_restore(range, &e, 0, bytes);
		from = e.end;
	}
	return error;
}

/* Returns the end of the mappings that are still at the range's address as they were adopted. */
static uint64_t
range_end_in_place(const struct range *range)
{
	uint64_t at = range->start, end = range->start + range->length;
	struct map_entry e;
	bool more = true;

	while (at < end && more && range_mapping(range, at, end, &e, &more) == 0 && more && e.start == at &&
	       e.offset == range->offset + (at - range->start))
		at = e.end;
	return at;
}

bool
range_is_whole(const struct range *range)
{
	return range_end_in_place(range) >= range->start + range->length;
}

/* True if the range is whole, and mremap added nothing behind it. */
static bool
range_is_exact(const struct range *range)
{
	uint64_t end = range->start + range->length;
	struct map_entry e;
	bool more;

	return range_end_in_place(range) == end && range_mapping(range, end, end + 1, &e, &more) == 0 &&
	       !more;
}

/* Makes a range private that is mapped where it was adopted: its place is filled and moved home. */
static int
range_restore_home(const struct range *range, uint64_t *bytes)
{
	uint64_t at = range->start, end = range->start + range->length;
	struct map_entry e;
	int error = 0;
	bool more = true;

	while (error == 0 && at < end) {
		error = range_mapping(range, at, end, &e, &more);
		if (error != 0 || !more)
			break;
		error = mapping_restore(
			range, &e, range->place == 0 ? 0 : range->place + (e.start - range->start), bytes);
		at = e.end;
	}
	return error;
}

/* Fails where writers cannot be held off (more than one thread, and no userfaultfd for shared pages, before
 * Linux 5.19): then the pages stay shared, and the range remains for the next registration. */
int
range_restore(struct range *range)
{
	bool home = range_is_exact(range);
	uint64_t bytes = 0;
	int error;

	if (!home && range->place != 0) {
		place_drop(range->place, 0, range->length);
		range->place = 0;
	}
	if (home)
		error = range_restore_home(range, &bytes);
	else if (has_own_file(range)) /* Pages added behind the range may be anywhere. */
		error = 0;
	else
		error = range_restore_part(range, range->start, range->start + range->length, &bytes);
	if (range->place != 0) {
		place_drop(range->place, bytes, range->length);
		range->place = 0;
	}
	/* Parts were unmapped or moved: search all mappings. */
	if (error == 0 && (bytes < range->length || range_cache_was_touched(range)))
		error = range_restore_part(range, 0, UINT64_MAX, &bytes);
	return error;
}

/* True if part of the range is mapped, where it was adopted or elsewhere. */
static bool
range_is_mapped(const struct range *range)
{
	struct map_entry e;
	bool more = false;

	if (range_mapping(range, range->start, range->start + range->length, &e, &more) == 0 && !more)
		range_mapping(range, 0, UINT64_MAX, &e, &more);
	return more;
}

/* Pages that may be pinned are not replaced: a device would continue to use the old ones. */
int
range_give_back(struct range *range)
{
	if (pins_possible() && range_is_mapped(range))
		return -EBUSY;
	return range_restore(range);
}

/* Leaves the range shared, and watched by stay.h. */
void
range_stay(struct range *range)
{
	if (!stay_add(range, range_cache_guard_fd(range)))
		range_cache_unguard(range, range->start, range->start + range->length);
	range_cache_leave(range);
	mr_cache_lose(range);
}
