/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that hold adopted pages, and those of the application's that are registered: a table by
 * device and inode.  Under ranges_lock, where nothing else is said.
 */
#ifndef CLIENT_FILES_H
#define CLIENT_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct range;
struct region; /* mem.c: a file as one attachment's data plane knows it */

#define MEMFD_NAME "oneside"
#define MEMFD_MAPPED "/memfd:" MEMFD_NAME
#define SLAB_PAGES 128u
/*
 * A file that may be kept (keep.h) goes on behind its range: mremap may lengthen the mapping of
 * what is private memory to the program, and finds zeros there.
 */
#define BEHIND (1ull << 40)

struct file {
	struct file *next; /* in its hash bucket */
	dev_t dev;
	uint64_t ino;
	uint64_t size;  /* whole pages */
	uint32_t users; /* adopted: ranges; foreign: pieces of registrations */
	int fd;         /* adopted only; foreign: -1 */
	bool slab;
	bool claimed; /* others may have it: no second registration */
	bool lasting; /* its regions stay until it goes */
	bool exec;    /* may be mapped to be executed */
	struct range *ranges;
	struct region *regions;         /* under mem.c's lock */
	uint64_t used[SLAB_PAGES / 64]; /* pages of a slab */
};

uint64_t page_size(void);

/* Memory for one of the structures here and in ranges.h, all zero; not malloc's. */
void *cell_new(void);
void cell_free(void *p);
/* Makes room for `wanted` bytes at *table, which is NULL at first and may move; not malloc's.  Small at
 * first, since all of it is locked in a program with mlockall.  False: no memory. */
bool cell_table_grow(void **table, uint64_t *room, uint64_t wanted);

struct file *file_find(dev_t dev, uint64_t ino);
/* NULL: no memory. */
struct file *file_add(dev_t dev, uint64_t ino, uint64_t size, int fd);
/* In the table again. */
void file_link(struct file *file);
/* Out of the table; its identity may come again (inode numbers are reused once it is closed). */
void file_unlink(struct file *file);
/* A file of `size` bytes may be made: beyond RLIMIT_FSIZE the program would get SIGXFSZ. */
bool file_size_is_allowed(uint64_t size);
/* A new one, for adopted pages; NULL: none is to be had.  `alone`: it may be lent. */
struct file *file_adopted(uint64_t size, bool exec, bool alone, bool lasting);
/* How many there are of those. */
uint32_t files_adopted(void);
/* All files, one after the other; NULL: the first, and no more.  Also under mem.c's lock alone: files
 * are only added and removed with that held, but for those that keep.c gives up, which have to be none. */
struct file *files_next(const struct file *file);
/* In a child: closes them; the table is empty. */
void files_forget(void);

#endif
