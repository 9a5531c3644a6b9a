/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges whose file others may be given: RSM segments that importers map.
 *
 * Before the file is lent it is sealed for good.  When nobody is to write, new mappings for writing and
 * write(2) are ruled out as well: the mappings there are, the data plane's and the range's own, keep
 * working, and no descriptor of whatever kind, opened again by whomever, makes another one.  (A seal is the
 * file's, not a descriptor's: while some may map it for writing, those who may only read are held by their
 * descriptor and the file's mode.)
 *
 * What was lent is taken back even if something may have pinned it: importers must not go on sharing the
 * memory. Nothing is lent that could not be taken back: other threads must be held off while the pages move,
 * which takes a userfaultfd that protects shared pages.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>

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

int
ranges_claim(struct range *range, uint64_t start, uint64_t length, bool writable)
{
	int seals = F_SEAL_SEAL | (writable ? 0 : F_SEAL_FUTURE_WRITE), error = -EBUSY;

	ranges_lock();
	if (is_single(range, start, length) && transplant_holds_shared()) {
		error = fcntl(range->file->fd, F_ADD_SEALS, seals) == 0 ? 0 : -errno;
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

/* Pages at `start` become the range's; those of a failed attempt private again. */
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

/* Back in their old place, if what to replace them with is no good and that memory is still there. */
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
		/* What cannot be mapped for writing any more is mapped so already: here. */
		if (error == 0 && (seals & F_SEAL_FUTURE_WRITE) != 0) {
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
