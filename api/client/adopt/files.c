/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranges.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3 */
#endif

#define BUCKETS 256u
#define CELL 128u
#define CELLS 64u /* allocated at once */
#define TABLE_LEAST (16u << 10)

static struct file *bucket[BUCKETS];
static uint32_t adopted_files;

/* ---- memory for the structures ----
 * Cells do not come from malloc: ranges_lock is held while a fork is prepared, when the allocator may be
 * locked. */

union cell {
	union cell *next;
	struct file file;
	struct range range;
	uint8_t bytes[CELL];
};
_Static_assert(sizeof(union cell) == CELL, "a cell holds every structure");

static union cell *free_cells;

void *
cell_new(void)
{
	union cell *cell = free_cells;

	if (cell == NULL) {
		union cell *more = mmap(NULL, CELLS * sizeof(*more), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (more == MAP_FAILED)
			return NULL;
		for (uint32_t i = 0; i < CELLS; i++) {
			more[i].next = free_cells;
			free_cells = &more[i];
		}
		cell = free_cells;
	}
	free_cells = cell->next;
	memset(cell, 0, sizeof(*cell));
	return cell;
}

void
cell_free(void *p)
{
	union cell *cell = p;

	cell->next = free_cells;
	free_cells = cell;
}

bool
cell_table_grow(void **table, uint64_t *room, uint64_t wanted)
{
	uint64_t more = *room != 0 ? *room : TABLE_LEAST;
	void *at;

	if (wanted <= *room)
		return true;
	while (more < wanted)
		more *= 2;
	at = *table != NULL ? mremap(*table, *room, more, MREMAP_MAYMOVE)
			    : mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return false;
	*table = at;
	*room = more;
	return true;
}

/* ---- files ---- */

uint64_t
page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct file **
file_bucket(uint64_t ino)
{
	return &bucket[ino % BUCKETS];
}

struct file *
file_find(dev_t dev, uint64_t ino)
{
	struct file *file = *file_bucket(ino);

	while (file != NULL && (file->dev != dev || file->ino != ino))
		file = file->next;
	return file;
}

void
file_link(struct file *file)
{
	file->next = *file_bucket(file->ino);
	*file_bucket(file->ino) = file;
	if (file->fd >= 0)
		adopted_files++;
}

struct file *
file_add(dev_t dev, uint64_t ino, uint64_t size, int fd)
{
	struct file *file = cell_new();

	if (file == NULL)
		return NULL;
	file->dev = dev;
	file->ino = ino;
	file->size = size;
	file->fd = fd;
	file_link(file);
	return file;
}

void
file_unlink(struct file *file)
{
	struct file **at = file_bucket(file->ino);

	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	if (file->fd >= 0)
		adopted_files--;
}

/* At least half of the descriptors of RLIMIT_NOFILE remain for the application. */
static bool
too_many_files(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && adopted_files >= limit.rlim_cur / 2;
}

bool
file_size_is_allowed(uint64_t size)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	       (limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur);
}

static int
memfd_new(uint64_t size, bool exec, bool alone)
{
	int fd = -1;

	if (!file_size_is_allowed(size))
		return -EFBIG;
	if (!exec)
		fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0)
		fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	/* Mode 0444: the receiver of a read-only descriptor must not be able to open the file for writing.
	 * lend.c adds the last seals to a file that may be lent. */
	if (ftruncate(fd, (off_t)size) != 0 || fchmod(fd, 0444) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | (alone ? 0 : F_SEAL_SEAL)) != 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

struct file *
file_adopted(uint64_t size, bool exec, bool alone, bool lasting)
{
	struct file *file;
	struct stat st;
	int fd;

	if (too_many_files())
		return NULL;
	fd = memfd_new(size + (lasting ? BEHIND : 0), exec, alone);
	if (fd < 0)
		return NULL;
	file = fstat(fd, &st) == 0 ? file_add(st.st_dev, st.st_ino, size, fd) : NULL;
	if (file == NULL) {
		close(fd);
		return NULL;
	}
	file->lasting = lasting;
	file->exec = exec;
	return file;
}

uint32_t
files_adopted(void)
{
	return adopted_files;
}

struct file *
files_next(const struct file *file)
{
	uint64_t i = file != NULL ? file->ino % BUCKETS + 1 : 0;

	if (file != NULL && file->next != NULL)
		return file->next;
	while (i < BUCKETS && bucket[i] == NULL)
		i++;
	return i < BUCKETS ? bucket[i] : NULL;
}

void
files_forget(void)
{
	for (const struct file *file = files_next(NULL); file != NULL; file = files_next(file)) {
		if (file->fd >= 0)
			close(file->fd);
	}
	memset(bucket, 0, sizeof(bucket));
	adopted_files = 0;
	free_cells = NULL; /* leaks the cells in use: a few pages at most */
}
