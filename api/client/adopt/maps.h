/* SPDX-License-Identifier: BSD-3-Clause */
/* The mappings of this process, from /proc/self/maps, read without allocation. One reader at a time
 * (ranges_lock). Single addresses are looked up by PROCMAP_QUERY where the kernel has it (Linux 6.11);
 * otherwise the text is read from its beginning. */
#ifndef CLIENT_MAPS_H
#define CLIENT_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct map_entry {
	uint64_t start, end;
	uint64_t offset; /* in the file */
	uint64_t ino;    /* 0: no file */
	dev_t dev;
	int prot; /* PROT_* */
	bool shared;
	const char *name; /* valid until the next call; "": none */
};

/* Begins to read, without mappings that end at or before `from`. Returns 0 or -errno. */
int maps_open(uint64_t from);
/* Begins to read all mappings from `fd`, /proc/self/maps, which the caller closes. Returns 0 or -errno. */
int maps_open_lent(int fd);
/* Gets the next mapping in order of addresses. False: no more. */
bool maps_next(struct map_entry *entry);
void maps_close(void);

/* True if part of [start, end) is locked into memory (mlock). */
bool maps_locked(uint64_t start, uint64_t end);
/* KiB of this process that the kernel counts as pinned (VmPin). */
uint64_t maps_pinned(void);
/* Threads of this process; 0: unknown. */
uint32_t maps_threads(void);

#endif
