/* SPDX-License-Identifier: BSD-3-Clause */
/* The table, by device and inode, of adopted files (memfds of ours, which hold adopted pages) and of foreign
 * files (registered files of the application's own). Calls require ranges_lock unless noted. */
#ifndef CLIENT_FILES_H
#define CLIENT_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct range;
struct region; /* mem.c: a file that one attachment's data plane knows */

#define MEMFD_NAME "oneside"
#define MEMFD_MAPPED "/memfd:" MEMFD_NAME
#define SLAB_PAGES 128u
/* Bytes that a file continues for behind its range, if the range may be cached (range_cache.h). The program
 * may lengthen its mapping by mremap, as with private memory, and must find zeros there. */
#define BEHIND (1ull << 40)

struct file {
	struct file *next; /* in its hash bucket */
	dev_t dev;
	uint64_t ino;
	uint64_t size;  /* bytes, whole pages */
	uint32_t users; /* ranges of an adopted file, pieces of registrations of a foreign one */
	int fd;         /* -1: a foreign file */
	bool slab;
	bool claimed; /* may be lent to importers: not registered a second time */
	bool lasting; /* regions without registrations stay until the file is removed */
	bool exec;    /* may be mapped executable; not used for another range */
	struct range *ranges;
	struct region *regions;         /* protected by mem.c's lock */
	uint64_t used[SLAB_PAGES / 64]; /* bitmap of allocated pages of a slab */
};

uint64_t page_size(void);

/* Allocates zeroed memory for one structure of this room, without malloc. NULL: no memory. */
void *cell_new(void);
void cell_free(void *p);
/* Grows the table at *table, which is NULL at first and may move, to `wanted` bytes, without malloc. Tables
 * begin small, because mlockall locks them whole. False: no memory. */
bool cell_table_grow(void **table, uint64_t *room, uint64_t wanted);

struct file *file_find(dev_t dev, uint64_t ino);
/* NULL: no memory. */
struct file *file_add(dev_t dev, uint64_t ino, uint64_t size, int fd);
/* Puts a removed file back into the table. */
void file_link(struct file *file);
/* Removes the file from the table. Once it is closed, another file may get its inode number. */
void file_unlink(struct file *file);
/* False if a file of `size` bytes exceeds RLIMIT_FSIZE: creating one would raise SIGXFSZ. */
bool file_size_is_allowed(uint64_t size);
/* Creates a file for adopted pages. `alone`: may be lent, so seals can be added. NULL: limits are reached, or
 * no memory. */
struct file *file_adopted(uint64_t size, bool exec, bool alone, bool lasting);
/* Number of adopted files in the table. */
uint32_t files_adopted(void);
/* Iterates over all files: NULL gives the first, and ends the list. mem.c's lock alone suffices once all
 * cached ranges were dropped: all files are added and removed with that lock held, except those of ranges
 * that range_cache.c gives up. */
struct file *files_next(const struct file *file);
/* In a child after fork: closes all files and empties the table. */
void files_forget(void);

#endif
