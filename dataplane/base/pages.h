/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages of memory that is about to be written. */
#ifndef DATAPLANE_BASE_PAGES_H
#define DATAPLANE_BASE_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Makes the pages that lie wholly in this memory present, in one call: a page fault for each takes several
 * times as long.  Contents stay.  Kernels before 5.14 refuse, and the faults come later. */
static inline void
pages_populate(void *memory, size_t length)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)memory, end = start + length;

	start = (start + page - 1) & ~(page - 1);
	end &= ~(page - 1);
	if (start < end)
		(void)madvise((void *)start, end - start, MADV_POPULATE_WRITE);
}

/* Writes to each page without changing contents. */
static inline void
pages_write(void *memory, size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < length; i += page)
		__atomic_fetch_or((uint8_t *)memory + i, 0, __ATOMIC_RELAXED);
}

/* Populates, and writes, too: the first access may fault in a hypervisor although the page is present. */
static inline void
pages_touch(void *memory, size_t length)
{
	pages_populate(memory, length);
	pages_write(memory, length);
}

#endif
