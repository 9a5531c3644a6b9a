/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joined regions: several files, mapped at consecutive addresses as they arrive.  DPDK's memory has one file
 * for each hugepage.
 *
 * Only the mappings hold the files: descriptors are closed with the message that brought them.  Mappings are
 * charged when the region is created.  A file that cannot be mapped leaves the region unchanged.  Nothing can
 * be registered in the region before it is complete.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/objects/objects.h"

static int
join_new(struct client *client, const struct one_region_join *args, struct region **out)
{
	uint64_t least = (uint64_t)sysconf(_SC_PAGESIZE);
	int error;

	if (args->page < least || args->page > ONE_REGION_PAGE_MAX || (args->page & (args->page - 1)) != 0 ||
	    args->va % least != 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, args->va);
	if (args->size == 0 || args->size % least != 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LENGTH, args->size);
	if (args->total < args->num_files)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, args->total);
	error = region_new(client, args->size, least, args->total, out);
	if (error != 0)
		return error;
	(*out)->unjoined = args->total;
	(*out)->mapping->base = arena_reserve(args->size, args->page, args->va);
	if ((*out)->mapping->base != NULL)
		return 0;
	(*out)->mapping->len = 0;
	region_destroy(*out);
	return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
}

/* Maps the next file of the region.  Returns 0, or the refusal. */
static int
map_file(struct client *client, struct region *region, const struct one_region_file *file, int fd)
{
	uint64_t left = region->size - region->joined, end = file->offset + file->length, page;
	uint8_t *at = region->mapping->base + region->joined;
	int error;

	if (file->length == 0 || file->length > left || end < file->offset)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LENGTH, file->length);
	error = fd < 0 ? -EBADF : region_check(fd, end, false, &page);
	if (error == -EINVAL)
		return client_refuse(client, error, ONE_SUBJECT_LENGTH, end);
	if (error != 0)
		return client_refuse(client, error, ONE_SUBJECT_REGION, region->object.id);
	if (file->offset % page != 0 || (uintptr_t)at % page != 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, file->offset);
	if (mmap(at, file->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
		 (off_t)file->offset) == MAP_FAILED)
		error = -errno;
	else
		error = mapping_refuse_holes(at, file->length);
	return error == 0 ? 0 : client_refuse(client, error, ONE_SUBJECT_MEMORY, 0);
}

static int
join_files(struct client *client, struct region *region, const struct one_region_join *args)
{
	int error = 0;

	for (uint32_t i = 0; i < args->num_files; i++) {
		error = map_file(client, region, &args->file[i], client_fd(client, i));
		if (error != 0)
			return error;
		close(client_take_fd(client, i)); /* frees nothing: the file is mapped */
		region->joined += args->file[i].length;
		region->unjoined--;
	}
	if (region->joined == region->size)
		error = mapping_watch(region->mapping);
	if (error == 0)
		return 0;
	/* Without a guard nothing may be registered in the region. */
	region->joined = 0;
	region->unjoined = 0;
	return client_refuse(client, error, ONE_SUBJECT_MEMORY, 0);
}

int
region_join(struct client *client, const struct one_msg *msg)
{
	const struct one_region_join *args = &msg->region_join;
	struct region *region = NULL;
	int error = 0;

	if (args->num_files == 0 || args->num_files > ONE_MSG_FDS)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, ONE_MSG_FDS);
	if (args->region != 0) {
		region = object_get(client, OBJECT_REGION, args->region);
		if (region == NULL || args->num_files > region->unjoined)
			return client_refuse(client, -EINVAL, ONE_SUBJECT_REGION, args->region);
	} else {
		error = join_new(client, args, &region);
	}
	if (error != 0)
		return error;
	error = join_files(client, region, args);
	if (error != 0 && args->region == 0)
		region_destroy(region);
	if (error != 0)
		return error;
	region->object.busy = false;
	client->reply.id.id = region->object.id;
	return 0;
}
