/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments: the parts of an address range of this process, by how the data plane can share them. */
#ifndef CLIENT_SEGMENTS_H
#define CLIENT_SEGMENTS_H

#include "client/internal.h"
#include "files.h"

#define SEGMENTS_MAX 32768u /* of one registration: files of 2 MiB for 64 GiB */

enum segment_kind { SEGMENT_ANON, SEGMENT_ADOPTED, SEGMENT_FOREIGN };

struct segment {
	enum segment_kind kind;
	int prot;
	uint64_t start, end;
	uint64_t offset;   /* in the file */
	struct file *file; /* of ADOPTED; of FOREIGN: NULL unless in the table already */
	dev_t dev;         /* with `ino`: identity of the file; the rest: FOREIGN only */
	uint64_t ino, size;
	uint64_t page; /* page size of a hugetlbfs file; else 0 */
	int fd;        /* the program's descriptor; -1: none */
	uint32_t path; /* if no fd: offset of the file's stored name, plus 1 */
};

/* Finds the segments of [start, end); *count 0: the memory cannot be shared. Returns 0; or -errno, -EFAULT if
 * part of the memory is not mapped or lacks the right. Requires ranges_lock. The segments are valid until the
 * next call, which mem.c's lock prevents while they are in use. */
int segments_find(uint64_t start, uint64_t end, bool write, struct segment **out, uint32_t *count);
/* Returns a descriptor of a FOREIGN segment's file, which the caller closes if *opened. Negative: none. */
int segment_open(const struct segment *segment, bool *opened);

/* ---- joined.c ---- */
/* Creates a region joined of ADOPTED and FOREIGN segments in the given order, each of whole pages of its
 * file. At most ONE_MSG_FDS files opened by name are open at a time. Returns 0 and *id; or -errno, and no
 * region exists. */
int joined_add(struct one_client *client, const struct segment *segment, uint32_t count, uint32_t *id);

/* ---- shared.c: descriptors of the files of shared mappings that the application made ---- */
/* Finds a descriptor, open for reading and writing, of a mapping's file in memory (memfd, tmpfs, hugetlbfs).
 * The descriptor is the application's own (closing a duplicate would drop the application's record locks), or
 * a new one opened by `path` if *opened. *page: the page size of a hugetlbfs file; else 0. Returns -ENOENT if
 * there is none. Requires ranges_lock. */
int shared_find_fd(dev_t dev, uint64_t ino, const char *path, bool *opened, uint64_t *size, uint64_t *page);
/* Begins a series of lookups: the index of earlier ones is not used any more. */
void shared_begin(void);
/* Returns `fd` if it is not negative and still the file's; if negative, a new descriptor opened by `path`
 * (NULL: none), with *opened. Returns -ENOENT if there is none. */
int shared_open(dev_t dev, uint64_t ino, int fd, const char *path, bool *opened);

#endif
