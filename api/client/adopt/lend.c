/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges whose file others may receive: RSM segments that importers map.
 *
 * ranges_claim seals the file for good before it is lent if importers may write. Otherwise the data plane
 * does so when the first importer gets the file (control/rsm/share.c), with a seal that rules out new
 * writable mappings and write(2). Existing mappings, the data plane's and the range's own, keep working, and
 * no descriptor, not even a reopened one, can make another. A data plane that takes over afterwards has the
 * copy thread copy (one_mem_copy_at). (A seal applies to the file, not to a descriptor: while some importers
 * may map the file for writing, those that may only read are restricted by their descriptor and the file's
 * mode.)
 *
 * Lent memory is taken back even if pages may be pinned, because importers must not continue to share it. So
 * memory is lent only if it can be taken back: other threads must be held off while the pages move, which
 * needs a userfaultfd that protects shared pages.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "pins.h"
#include "ranges.h"
#include "transplant.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

static bool
is_single(const struct range *range, uint64_t start, uint64_t length)
{
	return range->refs == 1 && !range->file->slab && range->file->users == 1 && range->start == start &&
	       range->length == length;
}

static bool
may_be_sealed(int seals)
{
	return (seals & F_SEAL_SEAL) == 0 || (seals & F_SEAL_FUTURE_WRITE) != 0;
}

int
ranges_claim(struct range *range, uint64_t start, uint64_t length, bool writable)
{
	int error = -EBUSY;

	ranges_lock();
	if (is_single(range, start, length) && transplant_holds_shared()) {
		error = writable && fcntl(range->file->fd, F_ADD_SEALS, F_SEAL_SEAL) != 0 ? -errno : 0;
		range->file->claimed = error == 0;
	}
	ranges_unlock();
	return error;
}

int
ranges_recall(struct range *range)
{
	int error;

	ranges_lock();
	error = range_restore(range);
	ranges_unlock();
	return error;
}

/* Moves the pages at `start` into the range. After an error, pages moved so far become private again. */
static int
range_fill(struct range *range, uint64_t start, int prot, const uint8_t *twin, bool unpinned)
{
	struct transplant t = {.start = start,
			       .length = range->length,
			       .prot = prot,
			       .lock = range->locked,
			       .to_fd = range->file->fd,
			       .to_offset = range->offset,
			       .to_twin = twin,
			       .from_fd = -1,
			       .unpinned = unpinned};
	int error = transplant(&t);

	range->start = start;
	if (error != 0 && t.done != 0)
		range_restore(range);
	return error;
}

/* Makes the range private, and moves the pages at `to` into it; if these cannot be adopted, the old ones. */
static int
range_refill(struct range *range, uint64_t start, uint64_t to, const uint8_t *twin)
{
	int error = range_restore(range), prot;

	if (error != 0)
		return error;
	error = ranges_private(to, to + range->length, &prot);
	if (error == 0)
		error = range_fill(range, to, prot, twin, !pins_possible());
	if (error != 0)
		range_fill(range, start, PROT_READ | PROT_WRITE, twin, true);
	return error;
}

int
ranges_move(struct range *range, uint64_t start, uint64_t length, uint64_t to)
{
	uint8_t *twin = NULL;
	int error = -EBUSY;

	ranges_lock();
	if (is_single(range, start, length)) {
		int seals = fcntl(range->file->fd, F_GET_SEALS);

		error = seals < 0 ? -errno : 0;
		/* The data plane has sealed the file against new writable mappings, or may do so at any
		 * time: duplicate the one at `start`. */
		if (error == 0 && range->file->claimed && may_be_sealed(seals)) {
			twin = mremap((void *)(uintptr_t)start, 0, length, MREMAP_MAYMOVE);
			error = twin == MAP_FAILED ? -errno : 0;
		}
	}
	if (error == 0) {
		error = range_refill(range, start, to, twin);
		if (twin != NULL)
			munmap(twin, length);
	}
	ranges_unlock();
	return error;
}
