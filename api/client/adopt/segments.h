/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments: the parts of an address range of this process, by how the data plane can share them. */
#ifndef CLIENT_SEGMENTS_H
#define CLIENT_SEGMENTS_H

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

/*
 * Finds the segments of [start, end); *count 0: the memory cannot be shared. Returns 0; or -errno, -EFAULT if
 * part of the memory is not mapped or lacks the right. Requires ranges_lock. The segments are valid until the
 * next call, which mem.c's lock prevents while they are in use.
 */
int segments_find(uint64_t start, uint64_t end, bool write, struct segment **out, uint32_t *count);
/* Returns a descriptor of a FOREIGN segment's file, which the caller closes if *opened. Negative: none. */
int segment_open(const struct segment *segment, bool *opened);

#endif
