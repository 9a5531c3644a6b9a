/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions: files of shared memory, mapped whole.
 */
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/attach/closer.h"
#include "control/objects/objects.h"

int
region_check(int fd, uint64_t size, bool must_be_sealed, uint64_t *page)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	/* Nothing but tmpfs, memfds and hugetlbfs has seals; for other files even fstat() could wait for
	 * a server that the client runs. */
	if (seals < 0)
		return -EBADF;
	if (must_be_sealed && (seals & F_SEAL_SHRINK) == 0)
		return -EPERM;
	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADF;
	*page = st.st_blksize > 0 ? (uint64_t)st.st_blksize : 4096;
	if (*page < (uint64_t)sysconf(_SC_PAGESIZE) || (*page & (*page - 1)) != 0)
		*page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (size == 0 || size % *page != 0 || size > (uint64_t)st.st_size)
		return -EINVAL;
	return 0;
}

struct populate {
	struct job job; /* first */
	struct region *region;
	uint64_t done;
};

static int
populate_step(struct job *job)
{
	struct populate *populate = (struct populate *)job;
	struct region *region = populate->region;
	uint64_t chunk = region->page > POPULATE_CHUNK ? region->page : POPULATE_CHUNK;
	int error;

	if (chunk > region->size - populate->done)
		chunk = region->size - populate->done;
	error = memory_populate(region->base + populate->done, chunk);
	if (error != 0)
		return error;
	populate->done += chunk;
	return populate->done < region->size;
}

static void
populate_done(struct job *job, int error)
{
	struct populate *populate = (struct populate *)job;
	struct region *region = populate->region;
	struct client *client = region->object.client;

	free(populate);
	region->object.busy = false;
	if (error != 0) {
		region_destroy(region);
		client_reply(client, refuse(client, error, ONE_SUBJECT_MEMORY, 0));
		return;
	}
	client->reply.id.id = region->object.id;
	client_reply(client, 0);
}

static int
map(struct client *client, struct region *region, int fd)
{
	int error;

	region->base = mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (region->base == MAP_FAILED) {
		error = errno;
		region->base = NULL;
		return refuse(client, -error, ONE_SUBJECT_REGION, 0);
	}
	madvise(region->base, region->size, MADV_DONTDUMP);
	/* Sealed files too: a hole punched into one of huge pages may find no page later. */
	error = engine_guard_add(region->base, region->size, client);
	if (error != 0)
		return refuse(client, error, ONE_SUBJECT_MEMORY, 0);
	region->guarded = true;
	return 0;
}

/*
 * Half of the descriptors there are may be kept for importers, an eighth of those
 * for one attachment; memory beyond that works, but cannot be mapped.
 */
static uint32_t kept_fds;

static bool
keep_fd(struct client *client)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || kept_fds >= limit.rlim_cur / 2 ||
	    client->kept_fds >= limit.rlim_cur / 16)
		return false;
	client->kept_fds++;
	kept_fds++;
	return true;
}

int
region_add(struct client *client, const struct one_msg *msg)
{
	const struct one_region_add *args = &msg->region_add;
	int fd = client_take_fd(client, 0), error;
	struct populate *populate;
	struct region *region;
	uint64_t page, limit;

	if (fd < 0)
		return refuse(client, -EBADF, ONE_SUBJECT_REGION, 0);
	error = region_check(fd, args->size, (args->flags & ONE_REGION_SEALED) != 0, &page);
	if (error != 0) {
		fd_discard(client->uid, fd);
		return refuse(client, error, error == -EINVAL ? ONE_SUBJECT_LENGTH : ONE_SUBJECT_REGION,
			      args->size);
	}
	error = quota_charge(&control.quota, client->account, &client->mapped,
			     control.config->limits.max_mr_total, args->size, &limit);
	if (error != 0) {
		close(fd);
		return refuse(client, error, ONE_SUBJECT_QUOTA, limit);
	}
	error = quota_take(&control.quota, client->account, QUOTA_MAPPINGS, 1, &limit);
	if (error != 0) {
		quota_release(client->account, &client->mapped, args->size);
		close(fd);
		return refuse(client, error, ONE_SUBJECT_QUOTA, limit);
	}
	region = object_new(client, OBJECT_REGION, sizeof(*region));
	populate = calloc(1, sizeof(*populate));
	if (region == NULL || populate == NULL) {
		quota_release(client->account, &client->mapped, args->size);
		quota_give(&control.quota, client->account, QUOTA_MAPPINGS, 1);
		if (region != NULL)
			object_free(region);
		free(populate);
		close(fd);
		return refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	region->size = args->size;
	region->page = page;
	region->fd = -1;
	error = map(client, region, fd);
	if (client->kind == ONE_KIND_RSM && args->flags == (ONE_REGION_SEALED | ONE_REGION_MAPPABLE) &&
	    keep_fd(client))
		region->fd = fd;
	else
		close(fd);
	if (error != 0) {
		region_destroy(region);
		free(populate);
		return error;
	}
	populate->job = (struct job){.step = populate_step, .done = populate_done, .client = client};
	populate->region = region;
	job_start(&populate->job);
	return REQUEST_LATER;
}

/* MRs are gone, and a grace period has passed since. */
void
region_destroy(struct region *region)
{
	struct client *client = region->object.client;

	if (region->guarded)
		engine_guard_remove(region->base);
	if (region->base != NULL)
		munmap(region->base, region->size);
	if (region->fd >= 0) {
		close(region->fd);
		client->kept_fds--;
		kept_fds--;
	}
	quota_release(client->account, &client->mapped, region->size);
	quota_give(&control.quota, client->account, QUOTA_MAPPINGS, 1);
	object_free(region);
}

int
region_remove(struct client *client, const struct one_msg *msg)
{
	uint32_t id = msg->id.id;
	struct region *region = object_get(client, OBJECT_REGION, id);

	if (region == NULL)
		return refuse(client, -EINVAL, ONE_SUBJECT_REGION, id);
	if (region->object.users != 0)
		return refuse(client, -EBUSY, ONE_SUBJECT_REGION, region->object.users);
	region_destroy(region);
	return 0;
}
