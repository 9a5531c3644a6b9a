/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: files of shared memory, mapped whole. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "control/attach/reaper.h"
#include "control/objects/objects.h"

/* Reads the page size of a file.  On tmpfs st_blksize is 2 MiB if huge pages are allowed, but the file is
 * still truncated and mapped by the smallest page. */
static int
page_of(int fd, const struct stat *st, uint64_t *page)
{
	uint64_t least = (uint64_t)sysconf(_SC_PAGESIZE);
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0)
		return -errno;
	*page = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)st->st_blksize : least;
	return *page >= least && (*page & (*page - 1)) == 0 ? 0 : -EBADF;
}

int
region_check(int fd, uint64_t size, bool must_be_sealed, uint64_t *page)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	int error;

	/* Only tmpfs, memfds and hugetlbfs have seals.  For other files even fstat() could block on a server
	 * that the client runs. */
	if (seals < 0)
		return -EBADF;
	if (must_be_sealed && (seals & F_SEAL_SHRINK) == 0)
		return -EPERM;
	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADF;
	error = page_of(fd, &st, page);
	if (error != 0)
		return error;
	/* The file may end within the last page. */
	if (size == 0 || size % *page != 0 || size > ((uint64_t)st.st_size + *page - 1) / *page * *page)
		return -EINVAL;
	return 0;
}

static int
map_region(struct region *region, int fd)
{
	struct client *client = region->object.client;
	struct mapping *mapping = region->mapping;
	int error;

	mapping->base = mmap(NULL, mapping->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (mapping->base == MAP_FAILED) {
		error = errno;
		mapping->len = 0;
		return client_refuse(client, -error, ONE_SUBJECT_REGION, 0);
	}
	/* Guard sealed files, too: a page may be punched out of them later. */
	error = mapping_guard(mapping);
	return error == 0 ? 0 : client_refuse(client, error, ONE_SUBJECT_MEMORY, 0);
}

int
region_new(struct client *client, uint64_t size, uint64_t page, uint32_t files, struct region **out)
{
	struct mapping *mapping;
	struct region *region;
	int error = mapping_new(client, size, files, &mapping);

	if (error != 0)
		return error;
	region = object_new(client, OBJECT_REGION, sizeof(*region));
	if (region == NULL) {
		mapping_free(mapping, false);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	region->mapping = mapping;
	region->size = size;
	region->page = page;
	*out = region;
	return 0;
}

int
region_add(struct client *client, const struct one_msg *msg)
{
	const struct one_region_add *args = &msg->region_add;
	int fd = client_fd(client, 0), error;
	struct region *region = NULL;
	uint64_t page;

	if (fd < 0)
		return client_refuse(client, -EBADF, ONE_SUBJECT_REGION, 0);
	error = region_check(fd, args->size, (args->flags & ONE_REGION_SEALED) != 0, &page);
	if (error != 0)
		client_refuse(client, error, error == -EINVAL ? ONE_SUBJECT_LENGTH : ONE_SUBJECT_REGION,
			      args->size);
	else
		error = region_new(client, args->size, page, 1, &region);
	if (error != 0)
		return error;
	region->joined = args->size;
	region->sealed = (args->flags & ONE_REGION_SEALED) != 0;
	error = map_region(region, fd);
	if (error != 0) {
		region_destroy(region);
		return error;
	}
	client_take_fd(client, 0);
	if (client->kind != ONE_KIND_RSM || args->flags != (ONE_REGION_SEALED | ONE_REGION_MAPPABLE) ||
	    !mapping_store_fd(region->mapping, fd))
		close(fd); /* frees nothing: the file is mapped */
	region->object.busy = false;
	client->reply.id.id = region->object.id;
	return 0;
}

void
region_release(struct region *region)
{
	mr_cache_take(region);
	mapping_free(region->mapping, true);
	object_free(region);
}

void
region_destroy(struct region *region)
{
	mr_cache_take(region);
	mapping_free(region->mapping, false);
	object_free(region);
}
