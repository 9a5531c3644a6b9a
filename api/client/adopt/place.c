/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/mman.h>

#include "place.h"
#include "raw.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* Linux 5.7 */
#endif
#define HUGE (2ull << 20)

static uint32_t places;

uint64_t
place_reserve(uint64_t like, uint64_t length)
{
	uint64_t slack = length >= HUGE ? HUGE : 0, skip;
	uint8_t *at =
		mmap(NULL, length + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return 0;
	skip = slack != 0 ? (like - (uint64_t)(uintptr_t)at) & (HUGE - 1) : 0;
	if (skip > 0)
		munmap(at, skip);
	if (slack > skip)
		munmap(at + skip + length, slack - skip);
	return (uint64_t)(uintptr_t)at + skip;
}

uint64_t
place_new(uint64_t like, uint64_t length)
{
	uint64_t place = places < PLACES_MAX ? place_reserve(like, length) : 0;

	if (place != 0)
		places++;
	return place;
}

void
place_drop(uint64_t place, uint64_t from, uint64_t length)
{
	if (from < length)
		munmap((void *)(uintptr_t)(place + from), length - from);
	places--;
}

long
place_move(uint64_t at, uint64_t length, uint64_t to)
{
	long moved = raw_syscall(SYS_mremap, (long)at, (long)length, (long)length,
				 MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, (long)to);

	if (moved != (long)to)
		return moved;
	raw_syscall(SYS_madvise, (long)to, (long)length, MADV_DONTNEED, 0, 0);
	return 0;
}

long
place_open(uint64_t place, uint64_t length)
{
	return raw_syscall(SYS_mprotect, (long)place, (long)length, PROT_READ | PROT_WRITE, 0, 0);
}
