/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/takeover/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataplane/base/pages.h"

static struct {
	int fd;
	uint8_t *bytes; /* NULL: none is mapped */
	size_t room;
} file = {.fd = -1};

static bool
set_room(size_t room)
{
	uint8_t *bytes;

	if (file.fd < 0)
		file.fd = memfd_create("oneside-takeover", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (file.fd < 0 || ftruncate(file.fd, (off_t)room) < 0)
		return false;
	bytes = file.bytes == NULL ? mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0)
				   : mremap(file.bytes, file.room, room, MREMAP_MAYMOVE);
	if (bytes == MAP_FAILED)
		return false;
	pages_populate(bytes + file.room, room - file.room);
	file.bytes = bytes;
	file.room = room;
	return true;
}

static bool
grow_records(struct record_out *out, size_t room)
{
	if (!set_room(room))
		return false;
	out->bytes = file.bytes;
	out->room = file.room;
	return true;
}

static void
unmap_file(void)
{
	if (file.bytes != NULL)
		munmap(file.bytes, file.room);
	file.bytes = NULL;
	file.room = 0;
}

void
takeover_state_prepare(size_t size)
{
	if (size > file.room)
		set_room(size);
}

void
takeover_state_begin(struct record_out *out)
{
	*out = (struct record_out){.bytes = file.bytes, .room = file.room, .grow = grow_records};
}

/* A file with a writable mapping cannot be sealed. */
int
takeover_state_seal(struct record_out *out)
{
	int fd = file.fd, error = 0;

	unmap_file();
	if (fd < 0)
		return -ENOMEM;
	if (ftruncate(fd, (off_t)out->length) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		error = -errno;
	out->bytes = NULL;
	file.fd = -1;
	if (error == 0)
		return fd;
	close(fd);
	return error;
}

void
takeover_state_end(struct record_out *out)
{
	unmap_file();
	if (file.fd >= 0)
		close(file.fd);
	file.fd = -1;
	if (out != NULL)
		*out = (struct record_out){.bytes = NULL};
}
