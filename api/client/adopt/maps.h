/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's mappings, from /proc/self/maps.  No allocation; one reader at a time (ranges_lock).
 * Where the kernel can be asked for one address (PROCMAP_QUERY, Linux 6.11), that is done; else
 * the text is read from its beginning.
 */
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
	const char *name; /* until the next call; "" if none */
};

/* 0, or -errno.  Mappings that end at or before `from` are left out. */
int maps_open(uint64_t from);
/* The same from the beginning, of /proc/self/maps that is open already and stays so. */
int maps_open_lent(int fd);
/* In order of addresses; false: no more. */
bool maps_next(struct map_entry *entry);
void maps_close(void);

/* Whether part of [start, end) is locked into memory (mlock). */
bool maps_locked(uint64_t start, uint64_t end);
/* KiB of this process that the kernel counts as pinned (VmPin). */
uint64_t maps_pinned(void);
/* Threads of this process; 0: unknown. */
uint32_t maps_threads(void);

#endif
