/* SPDX-License-Identifier: BSD-3-Clause */
/* Adopted ranges become private memory again, wherever their pages are mapped now. */
#include <sys/mman.h>

#include "keep.h"
#include "maps.h"
#include "parked.h"
#include "pins.h"
#include "place.h"
#include "ranges.h"
#include "stay.h"
#include "transplant.h"

/* A file of its own holds the range and what mremap has put behind it. */
static bool
has_own_file(const struct range *range)
{
	return range->file->lasting && !range->file->slab;
}

/* The next mapping of the range that begins in [from, below), cut to the range; *got: there is one. */
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
		/* An mremap may have added pages after the end of the file: they go with it. */
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

/* Makes one mapping of the range private.  `place`: of its first byte, or 0. */
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

	keep_unguard(range, e->start, e->end);
	error = transplant(&t);
	*bytes += t.done;
	if (error == 0 && e->start + t.length < e->end &&
	    mmap((void *)(uintptr_t)(e->start + t.length), e->end - e->start - t.length, e->prot,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		error = -errno;
	return error;
}

/* Makes private what is mapped of the range in [from, below); *bytes: how much that was. */
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

/* Where the mappings end that lie at the range's address as they were adopted. */
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

/* The same, and nothing was put behind it. */
static bool
range_is_exact(const struct range *range)
{
	uint64_t end = range->start + range->length;
	struct map_entry e;
	bool more;

	return range_end_in_place(range) == end && range_mapping(range, end, end + 1, &e, &more) == 0 &&
	       !more;
}

/* All of it lies where it was adopted: the mappings go home into its place. */
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

/*
 * Fails where writers cannot be held off (no userfaultfd for shared pages, before Linux 5.19, and more than
 * one thread): then the pages stay what they are, and the range is there for the next registration.
 */
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
	else if (has_own_file(range)) /* Pages that were put after it may be anywhere. */
		error = 0;
	else
		error = range_restore_part(range, range->start, range->start + range->length, &bytes);
	if (range->place != 0) {
		place_drop(range->place, bytes, range->length);
		range->place = 0;
	}
	/* Parts of it were unmapped or moved: moved where to? */
	if (error == 0 && (bytes < range->length || keep_was_touched(range)))
		error = range_restore_part(range, 0, UINT64_MAX, &bytes);
	return error;
}

/* Some of it is mapped: where it was adopted, or anywhere. */
static bool
range_is_mapped(const struct range *range)
{
	struct map_entry e;
	bool more = false;

	if (range_mapping(range, range->start, range->start + range->length, &e, &more) == 0 && !more)
		range_mapping(range, 0, UINT64_MAX, &e, &more);
	return more;
}

/* Not what something may have pinned: a device would go on using the old pages. */
int
range_give_back(struct range *range)
{
	if (pins_possible() && range_is_mapped(range))
		return -EBUSY;
	return range_restore(range);
}

/* It stays shared, and is watched. */
void
range_stay(struct range *range)
{
	keep_unguard(range, range->start, range->start + range->length);
	keep_leave(range);
	parked_lose(range);
	stay_add(range);
}
