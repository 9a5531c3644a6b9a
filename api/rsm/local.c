/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The caller's memory. Put and get refuse unmapped memory instead of faulting halfway through a transfer.
 *
 * The check is a system call that accesses a byte of each page. To save calls, each thread remembers ranges
 * that passed: for FRESH_NS, or, for transfers faster than reading a clock (in explicit mode, and through a
 * mapping), until other ranges replace them. An access to memory unmapped since then may therefore fault,
 * like any other copy. Registered memory is not checked: it stays mapped while it is registered.
 */
#include "client/wait.h"
#include "rsm/transfer.h"
#include "rsm/link.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define FRESH_NS 100000u  /* the time of some dozens of transfers */
#define BATCH 64u         /* pages per system call */
#define POPULATE_PAGES 4u /* from here on one madvise() checks all pages, if the kernel has it */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

_Thread_local struct rsm_known rsm_known[2];

/* True if the call failed because of the memory. Any other error, as in a sandbox, proves nothing. */
static bool
is_refusal(ssize_t n, size_t asked)
{
	return n >= 0 ? (size_t)n < asked : errno == EFAULT;
}

/* True if the bytes can be read. Copies them to a buffer. */
static bool
can_read(const struct iovec *byte, unsigned count)
{
	char away[BATCH];
	struct iovec to = {.iov_base = away, .iov_len = count};

	return !is_refusal(process_vm_writev(getpid(), byte, count, &to, 1, 0), count);
}

/* True if the bytes can be written. Stores each byte's own value, so that no reader sees a change. */
static bool
can_write(const struct iovec *byte, unsigned count)
{
	return !is_refusal(process_vm_readv(getpid(), byte, count, byte, count, 0), count);
}

static bool
probe_pages(uintptr_t from, uintptr_t to, enum rsm_direction direction)
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

/* A failed store of the kernel does not prove that the caller cannot store: while another thread registers
 * the memory, stores of the process wait but those of the kernel fail; and the kernel cannot store to device
 * memory in this way. */
static bool
is_usable(uintptr_t from, uintptr_t to, enum rsm_direction direction)
{
	return probe_pages(from, to, direction) || (direction == RSM_GET && rsm_memory_writable(from, to));
}

/* Makes whole pages of a get's destination writable, as the copy would. */
static bool
populate_pages(uintptr_t from, uintptr_t to, enum rsm_direction direction)
{
	return direction == RSM_GET && to - from >= POPULATE_PAGES * rsm_page_size() &&
	       madvise((void *)from, to - from, MADV_POPULATE_WRITE) == 0;
}

/* True if the range was checked less than FRESH_NS ago. */
static bool
is_fresh(const struct rsm_known *known, uintptr_t start, uint64_t len, uint64_t now)
{
	for (unsigned i = 0; i < RSM_KNOWN; i++)
		if (start >= known->from[i] && start <= known->to[i] && len <= known->to[i] - start)
			return now - known->at[i] < FRESH_NS;
	return false;
}

/* A fresh range that the new one overlaps or adjoins grows, and keeps its time. */
static void
remember_range(struct rsm_known *known, uintptr_t from, uintptr_t to, uint64_t now)
{
	unsigned i = 0;

	while (i < RSM_KNOWN && (from > known->to[i] || to < known->from[i]))
		i++;
	if (i < RSM_KNOWN && now - known->at[i] < FRESH_NS) {
		from = from < known->from[i] ? from : known->from[i];
		to = to > known->to[i] ? to : known->to[i];
		now = known->at[i];
	} else if (i == RSM_KNOWN) {
		i = known->next;
		known->next = (i + 1) % RSM_KNOWN;
	}
	known->from[i] = from;
	known->to[i] = to;
	known->at[i] = now;
}

int
rsm_local_check(const struct rsm_import *import, const void *local, uint64_t len,
		enum rsm_direction direction)
{
	uintptr_t start = (uintptr_t)local, page, end, from, to;
	struct rsm_known *known = &rsm_known[direction];
	uint64_t now;

	if (import->explicit_mode && rsm_local_known(local, len, direction))
		return RSM_SUCCESS;
	now = one_now_ns();
	if (is_fresh(known, start, len, now))
		return RSM_SUCCESS;
	page = rsm_page_size();
	if (start > UINTPTR_MAX - page || len > UINTPTR_MAX - page - start)
		return RSMERR_BAD_ADDR;
	end = start + len;
	from = start / page * page;
	to = (end + page - 1) / page * page;
	if ((len < RSM_DIRECT_MIN || rsm_range_find(import->link, start, len) == 0) &&
	    !populate_pages(from, to, direction) && !is_usable(start, end, direction))
		return RSMERR_BAD_ADDR;
	remember_range(known, from, to, now);
	return RSM_SUCCESS;
}
