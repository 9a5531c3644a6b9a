/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/attach/passing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pass_map {
	uint64_t start, end, offset;
	bool file;
};

/* ---- the old process ---- */

void
pass_fail(struct pass_out *out, const char *format, ...)
{
	va_list args;

	if (out->why[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(out->why, sizeof(out->why), format, args);
	va_end(args);
}

static int
add_map(struct pass_out *out, const struct pass_map *map, uint32_t *room)
{
	struct pass_map *grown = out->map;

	if (out->num_maps == *room) {
		*room = *room == 0 ? 1024 : 2 * *room;
		grown = realloc(out->map, *room * sizeof(*grown));
	}
	if (grown == NULL)
		return -ENOMEM;
	out->map = grown;
	out->map[out->num_maps++] = *map;
	return 0;
}

/* Descriptors of mapped files are closed when the file is mapped.  The kernel opens them again by the exact
 * bounds of a mapping, which may differ from those of mmap(): it joins and splits mappings. */
int
pass_out_begin(struct pass_out *out)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long start, end, offset, inode;
	uint32_t room = 0;
	int error = 0;
	size_t line_room = 0;
	char *line = NULL;

	memset(out, 0, sizeof(*out));
	if (maps == NULL)
		return -errno;
	/* Applications name files, so only whole lines count. */
	while (error == 0 && getline(&line, &line_room, maps) >= 0)
		if (sscanf(line, "%llx-%llx %*s %llx %*s %llu", &start, &end, &offset, &inode) == 4)
			error = add_map(out, &(struct pass_map){start, end, offset, inode != 0}, &room);
	free(line);
	fclose(maps);
	return error;
}

void
pass_out_end(struct pass_out *out)
{
	for (uint32_t i = 0; i < out->num_fds; i++)
		if (out->opened[i])
			close(out->fd[i]);
	free(out->fd);
	free(out->opened);
	free(out->map);
	record_out_free(&out->records);
}

static uint64_t
add_fd(struct pass_out *out, int fd, bool opened)
{
	if (out->num_fds == out->room) {
		uint32_t room = out->room == 0 ? 64 : 2 * out->room;
		int *fds = realloc(out->fd, room * sizeof(*fds));
		bool *flags = realloc(out->opened, room * sizeof(*flags));

		out->fd = fds != NULL ? fds : out->fd;
		out->opened = flags != NULL ? flags : out->opened;
		if (fds == NULL || flags == NULL) {
			pass_fail(out, "no memory");
			return 0;
		}
		out->room = room;
	}
	out->fd[out->num_fds] = fd;
	out->opened[out->num_fds] = opened;
	return ++out->num_fds;
}

uint64_t
pass_fd(struct pass_out *out, int fd)
{
	return fd < 0 ? 0 : add_fd(out, fd, false);
}

/* Index of the first mapping that ends beyond `address`. */
static uint32_t
first_beyond(const struct pass_out *out, uint64_t address)
{
	uint32_t low = 0, high = out->num_maps;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (out->map[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Returns a descriptor of the mapped file, or -1 with errno. */
static int
open_map(const struct pass_map *map)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/map_files/%llx-%llx", (unsigned long long)map->start,
		 (unsigned long long)map->end);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int
open_mapped(struct pass_out *out, const struct pass_map *map)
{
	const struct client *client = out->context.owner;
	int fd = open_map(map);

	if (fd >= 0)
		return fd;
	if (errno == EPERM || errno == EACCES)
		pass_fail(
			out,
			"this data plane may not open memory of %s (pid %d) again: %s; give it the capabilities CAP_CHECKPOINT_RESTORE and CAP_DAC_OVERRIDE (take-over.conf), or end the program",
			client->program, (int)client->pid, strerror(errno));
	else
		pass_fail(out, "memory of %s (pid %d) cannot be opened again: %s; end the program",
			  client->program, (int)client->pid, strerror(errno));
	return -1;
}

bool
pass_may_open(char *why, size_t why_len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int file = memfd_create("oneside-own", MFD_CLOEXEC), fd = -1, error;
	void *at = MAP_FAILED;

	if (file >= 0 && ftruncate(file, (off_t)page) == 0)
		at = mmap(NULL, page, PROT_READ, MAP_SHARED, file, 0);
	if (at != MAP_FAILED)
		fd = open_map(&(struct pass_map){(uintptr_t)at, (uintptr_t)at + page, 0, true});
	error = errno;
	if (at != MAP_FAILED)
		munmap(at, page);
	if (fd >= 0)
		close(fd);
	if (file >= 0)
		close(file);
	if (fd < 0)
		snprintf(
			why, why_len,
			"this data plane may not open memory of programs again: %s; give it the capability CAP_CHECKPOINT_RESTORE, or restart it",
			strerror(error));
	return fd >= 0;
}

static void
write_piece(struct pass_out *out, const struct pass_piece *piece)
{
	struct pass_piece *at = record_append(&out->records, RECORD_PIECE, 1, 0, sizeof(*at));

	if (at != NULL)
		*at = *piece;
}

void
pass_file(struct pass_out *out, int fd, uint64_t len)
{
	write_piece(out, &(struct pass_piece){.length = len, .fd = pass_fd(out, fd)});
}

void
pass_pieces(struct pass_out *out, const uint8_t *base, uint64_t len)
{
	uint64_t from = (uintptr_t)base, end = from + len;

	for (uint32_t i = first_beyond(out, from); i < out->num_maps && out->map[i].start < end; i++) {
		const struct pass_map *map = &out->map[i];
		uint64_t start = map->start > from ? map->start : from;
		uint64_t stop = map->end < end ? map->end : end;
		int fd = map->file ? open_mapped(out, map) : -1;

		if (fd >= 0)
			write_piece(out, &(struct pass_piece){.at = start - from,
							      .offset = map->offset + (start - map->start),
							      .length = stop - start,
							      .fd = add_fd(out, fd, true)});
	}
}

/* ---- the new process ---- */

/* Alignment of a mapping that is too short for the largest pages. */
#define SMALL_ALIGN (2ull << 20)

int
pass_refuse(struct pass_in *in, const char *format, ...)
{
	va_list args;

	if (in->why[0] == '\0') {
		va_start(args, format);
		vsnprintf(in->why, sizeof(in->why), format, args);
		va_end(args);
	}
	return -EINVAL;
}

static void
next_record(struct pass_in *in)
{
	int more = record_take(&in->records, &in->record);

	in->more = more > 0;
	if (more < 0)
		pass_refuse(in, "the state of the data plane that serves ends within a record");
}

void
pass_in_begin(struct pass_in *in)
{
	in->records.at = 0;
	next_record(in);
}

bool
pass_is(const struct pass_in *in, enum record_type type)
{
	return in->more && in->record.head.type == type;
}

int
pass_take(struct pass_in *in, enum record_type type, struct record *record)
{
	if (!pass_is(in, type))
		return pass_refuse(in, "record %u where %u is expected", in->more ? in->record.head.type : 0,
				   type);
	*record = in->record;
	next_record(in);
	return 0;
}

int
pass_each(struct client *client, struct pass_in *in, enum record_type type,
	  int (*read)(struct client *client, struct pass_in *in))
{
	int error = 0;

	while (error == 0 && pass_is(in, type))
		error = read(client, in);
	return error;
}

int
pass_get(struct pass_in *in, const struct record_form *form, void *to, uint64_t *id)
{
	struct record record;
	int error = pass_take(in, form->type, &record);

	if (error != 0)
		return error;
	*id = record.head.id;
	if (record_get(&record, form, to, &in->context) == 0)
		return 0;
	return pass_refuse(in, "record %u of object %#llx: version, length or a field is not valid",
			   form->type, (unsigned long long)record.head.id);
}

int
pass_take_fd(struct pass_in *in, uint64_t number)
{
	int fd;

	if (number == 0 || number > in->num_fds)
		return -1;
	fd = in->fd[number - 1];
	in->fd[number - 1] = -1;
	return fd;
}

/* Maps the next piece, which begins at *at.  Memory between two pieces would not be accessible to the cores.
 */
static int
map_piece(struct pass_in *in, uint8_t *base, uint64_t len, uint64_t *at)
{
	const struct client *client = in->context.owner;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct record record = {.bytes = NULL};
	struct pass_piece piece;
	int fd, error = pass_take(in, RECORD_PIECE, &record);

	if (error != 0)
		return error;
	if (record.head.version != 1 || record.head.length != sizeof(piece))
		return pass_refuse(in, "a piece of memory has a record of another form");
	memcpy(&piece, record.bytes, sizeof(piece));
	fd = pass_take_fd(in, piece.fd);
	if (fd < 0 || piece.length == 0 || piece.length % page != 0 || piece.at != *at ||
	    piece.length > len - *at)
		return pass_refuse(
			in,
			"a piece of memory is not where the one before ends, or exceeds its mapping, or has no descriptor");
	*at += piece.length;
	if (mmap(base + piece.at, piece.length, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, (off_t)piece.offset) == MAP_FAILED)
		error = pass_refuse(in, "memory of %s (pid %d) cannot be mapped: %s; end the program",
				    client->program, (int)client->pid, strerror(errno));
	close(fd); /* frees nothing: the file is mapped */
	return error;
}

uint8_t *
pass_map_pieces(struct pass_in *in, uint64_t len, uint64_t phase, uint32_t *count)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = 0;
	uint8_t *base =
		len == 0 || len > INT64_MAX / 2 || len % page != 0 || phase % page != 0
			? NULL
			: arena_reserve(len, len < ONE_REGION_PAGE_MAX ? SMALL_ALIGN : ONE_REGION_PAGE_MAX,
					phase);
	*count = 0;
	if (base == NULL) {
		pass_refuse(in, "memory of %llu bytes cannot be mapped", (unsigned long long)len);
		return NULL;
	}
	for (; at < len && pass_is(in, RECORD_PIECE); ++*count)
		if (map_piece(in, base, len, &at) != 0)
			return NULL;
	if (at < len) {
		pass_refuse(in, "memory of %llu bytes is not whole", (unsigned long long)len);
		return NULL;
	}
	return base;
}

/* ---- naming ---- */

static uint64_t
name_object(const void *pointer, const struct record_context *context)
{
	return ((const struct object *)pointer)->id;
}

/* References are found by the rules of requests. */
#define FIND(kind)                                                                                           \
	static void *find_##kind(uint64_t name, const struct record_context *context)                        \
	{                                                                                                    \
		return name > UINT32_MAX ? NULL : object_get(context->owner, OBJECT_##kind, (uint32_t)name); \
	}
#define NAMING(kind) [OBJECT_##kind] = {name_object, find_##kind}

FIND(QP)
FIND(SRQ)
FIND(CQ)
FIND(MR)
FIND(REGION)
FIND(PZ)

const struct record_naming pass_object[OBJECT_KINDS] = {
	NAMING(QP), NAMING(SRQ), NAMING(CQ), NAMING(MR), NAMING(REGION), NAMING(PZ),
};

static uint64_t
name_lane(const void *pointer, const struct record_context *context)
{
	return engine_lane_number(pointer) + 1ull;
}

static void *
find_lane(uint64_t name, const struct record_context *context)
{
	struct engine_client *home = ((const struct client *)context->owner)->engine;

	return name > ONE_LANES_MAX ? NULL : engine_lane_find(home, (uint32_t)name - 1);
}

const struct record_naming pass_lane = {name_lane, find_lane};
