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
	struct file *file; /* ADOPTED; FOREIGN if known already */
	dev_t dev;         /* these are FOREIGN's */
	uint64_t ino, size;
	uint64_t page; /* of hugetlbfs: the size of its pages; else 0 */
	int fd;        /* the program's descriptor; -1: it has none */
	uint32_t path; /* or where the name that the file still has is kept, from 1 on */
};

/*
 * The segments of [start, end); *count 0: that memory cannot be shared.  0, or -EFAULT: part of it is not
 * mapped, or lacks the right.  Under ranges_lock, and under mem.c's lock until the segments were used: they
 * stay until the next call.
 */
int segments_find(uint64_t start, uint64_t end, bool write, struct segment **out, uint32_t *count);
/* A descriptor of a FOREIGN segment's file; *opened: it is to be closed.  Below 0: there is none any more. */
int segment_open(const struct segment *segment, bool *opened);

#endif
