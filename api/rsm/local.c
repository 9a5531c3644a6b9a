/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The caller's memory: put and get refuse what is not mapped, instead of faulting
 * halfway through a transfer.
 *
 * The kernel is asked, a byte of each page, and each thread remembers some ranges that were
 * good, so that a buffer that is used again costs a comparison.  What is unmapped after it was
 * used is therefore not always noticed, and faults as it would in any other copy.
 */
#include "rsm.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define BATCH 64u         /* pages in a question */
#define POPULATE_PAGES 4u /* from here on one question is asked about all pages, where the kernel can */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

_Thread_local struct rsm_known rsm_known[2];

/* A call that a sandbox forbids says nothing about the memory. */
static bool
is_refusal(ssize_t n, size_t asked)
{
	return n >= 0 ? (size_t)n < asked : errno == EFAULT;
}

/* Bytes of the caller's, `count` of them, can be read: they are copied away. */
static bool
can_read(const struct iovec *byte, unsigned count)
{
	char away[BATCH];
	struct iovec to = {.iov_base = away, .iov_len = count};

	return !is_refusal(process_vm_writev(getpid(), byte, count, &to, 1, 0), count);
}

/* Each can be written: it is stored where it is, so that nobody sees a change. */
static bool
can_write(const struct iovec *byte, unsigned count)
{
	return !is_refusal(process_vm_readv(getpid(), byte, count, byte, count, 0), count);
}

static bool
probe(uintptr_t from, uintptr_t to, enum rsm_direction direction)
{
	uintptr_t page = rsm_page_size();
	struct iovec byte[BATCH];

	while (from < to) {
		unsigned count = 0;

		for (; from < to && count < BATCH; from = (from / page + 1) * page)
			byte[count++] = (struct iovec){.iov_base = (void *)from, .iov_len = 1};
		if (direction == RSM_PUT ? !can_read(byte, count) : !can_write(byte, count))
			return false;
	}
	return true;
}

/* Whole pages; the kernel makes the destination's pages writable, as the copy would do. */
static bool
populate(uintptr_t from, uintptr_t to, enum rsm_direction direction)
{
	return direction == RSM_GET && to - from >= POPULATE_PAGES * rsm_page_size() &&
	       madvise((void *)from, to - from, MADV_POPULATE_WRITE) == 0;
}

static void
remember(struct rsm_known *known, uintptr_t from, uintptr_t to)
{
	for (unsigned i = 0; i < RSM_KNOWN; i++) {
		if (from > known->to[i] || to < known->from[i])
			continue;
		known->from[i] = from < known->from[i] ? from : known->from[i];
		known->to[i] = to > known->to[i] ? to : known->to[i];
		return;
	}
	known->from[known->next] = from;
	known->to[known->next] = to;
	known->next = (known->next + 1) % RSM_KNOWN;
}

int
rsm_local_check(const void *local, uint64_t len, enum rsm_direction direction)
{
	uintptr_t page = rsm_page_size(), start = (uintptr_t)local, end, from, to;

	if (rsm_local_known(local, len, direction))
		return RSM_SUCCESS;
	if (start > UINTPTR_MAX - page || len > UINTPTR_MAX - page - start)
		return RSMERR_BAD_ADDR;
	end = start + len;
	from = start / page * page;
	to = (end + page - 1) / page * page;
	if (!populate(from, to, direction) && !probe(start, end, direction))
		return RSMERR_BAD_ADDR;
	remember(&rsm_known[direction], from, to);
	return RSM_SUCCESS;
}
