/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory file shared with one attachment, and the parts of it that are in use.
 *
 * The allocator's bookkeeping is private; nothing in the shared memory is read to decide anything.  The
 * application can write to all of the file at any time, to free parts as well.
 *
 * Pages are given back by arena_punch(), which waits as long as a write(2) of the
 * application to the file does: for ever if it likes.  So it is not called on the
 * control thread, and a part is freed when its pages are gone.
 */
#ifndef CONTROL_ARENA_H
#define CONTROL_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_extent {
	uint64_t offset, size;
};

struct arena {
	uint8_t *base;
	uint64_t size;
	uint64_t used;             /* bytes handed out */
	uint64_t end;              /* of all that ever were */
	uint32_t parts;            /* in how many parts */
	struct arena_extent *free; /* by offset; neighbours are merged */
	uint32_t num_free, cap_free;
};

/* Makes the file, seals its size, maps it, and hands out its first `reserved` bytes.
 * Returns a descriptor for the application (the caller closes it), or -errno. */
int arena_open(struct arena *arena, uint64_t size, uint64_t reserved);
void arena_leave(struct arena *arena); /* all but the mapping, which is the caller's to end */

/* Page-aligned; with the contents that the application left there, perhaps without pages (arena_populate). 0,
 * -ENOSPC, -ENOMEM. */
int arena_alloc(struct arena *arena, uint64_t size, uint64_t *offset);
/* `size` as it was asked for. */
void arena_free(struct arena *arena, uint64_t offset, uint64_t size);
/* What arena_alloc takes for `size` bytes. */
uint64_t arena_rounded(uint64_t size);

/* Give every page of [base, base+len) of a shared mapping a page table entry for writing. */
int arena_populate(void *base, size_t len);
/* Give the pages of it back to the system.  Any thread; may wait for the application. */
void arena_punch(void *base, size_t len);

#endif
