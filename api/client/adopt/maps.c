/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client/explain.h"
#include "maps.h"
#include "raw.h"

/* struct procmap_query of <linux/fs.h> since Linux 6.11, for older headers. */
struct procmap_query_v1 {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
_Static_assert(sizeof(struct procmap_query_v1) == 104, "procmap_query_v1");
#define QUERY _IOWR('f', 17, struct procmap_query_v1)
#define QUERY_COVERING_OR_NEXT 0x10u
#define QUERY_READABLE 0x01u
#define QUERY_WRITABLE 0x02u
#define QUERY_EXECUTABLE 0x04u
#define QUERY_SHARED 0x08u

/* Lines longer than the buffer (very long paths) are cut. */
static struct {
	int fd;
	size_t len, pos;
	uint64_t from;
	bool query; /* QUERY is supported, as far as known */
	bool lent;  /* `fd` is the caller's: not closed here */
	char buffer[16384];
} reader;

static int
reader_open(const char *path)
{
	long fd = raw_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);

	if (fd < 0)
		return (int)fd;
	reader.fd = (int)fd;
	reader.len = reader.pos = 0;
	reader.lent = false;
	return 0;
}

static void
reader_close(void)
{
	if (!reader.lent)
		close(reader.fd);
}

static bool
reader_fill(void)
{
	long n;

	memmove(reader.buffer, reader.buffer + reader.pos, reader.len - reader.pos);
	reader.len -= reader.pos;
	reader.pos = 0;
	if (reader.len == sizeof(reader.buffer) - 1)
		reader.len = sizeof(reader.buffer) / 2; /* an overlong line: drop its middle */
	n = raw_syscall(SYS_read, reader.fd, (long)(reader.buffer + reader.len),
			(long)(sizeof(reader.buffer) - 1 - reader.len), 0, 0);
	if (n <= 0)
		return false;
	reader.len += (size_t)n;
	return true;
}

/* Returns the next line without its newline; NULL: no more. */
static char *
reader_line(void)
{
	char *line, *end;

	while ((end = memchr(reader.buffer + reader.pos, '\n', reader.len - reader.pos)) == NULL) {
		if (!reader_fill())
			return NULL;
	}
	line = reader.buffer + reader.pos;
	*end = '\0';
	reader.pos = (size_t)(end - reader.buffer) + 1;
	return line;
}

static const char *
parse_hex(const char *at, uint64_t *value)
{
	*value = 0;
	for (;; at++) {
		if (*at >= '0' && *at <= '9')
			*value = *value << 4 | (uint64_t)(*at - '0');
		else if (*at >= 'a' && *at <= 'f')
			*value = *value << 4 | (uint64_t)(*at - 'a' + 10);
		else
			return at;
	}
}

/* Parses "start-end perms offset major:minor inode   name". False: a line of another kind. */
static bool
parse_line(const char *line, struct map_entry *entry)
{
	uint64_t major, minor;
	const char *perms, *at;
	char *end;

	at = parse_hex(line, &entry->start);
	if (at == line || *at != '-')
		return false;
	at = parse_hex(at + 1, &entry->end);
	if (*at != ' ' || strlen(at) < 6 || at[5] != ' ')
		return false;
	perms = at + 1;
	at = parse_hex(perms + 5, &entry->offset);
	if (*at != ' ')
		return false;
	at = parse_hex(at + 1, &major);
	if (*at != ':')
		return false;
	at = parse_hex(at + 1, &minor);
	if (*at != ' ')
		return false;
	entry->ino = strtoull(at + 1, &end, 10);
	entry->dev = makedev((unsigned int)major, (unsigned int)minor);
	entry->prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
		      (perms[2] == 'x' ? PROT_EXEC : 0);
	entry->shared = perms[3] == 's';
	entry->name = end + strspn(end, " ");
	return true;
}

/* Returns 1 and the next mapping; 0 if there is none; -1 if the kernel does not support QUERY. */
static int
query_mapping(uint64_t from, struct map_entry *entry)
{
	struct procmap_query_v1 q = {.size = sizeof(q),
				     .query_flags = QUERY_COVERING_OR_NEXT,
				     .query_addr = from,
				     .vma_name_size = sizeof(reader.buffer),
				     .vma_name_addr = (uint64_t)(uintptr_t)reader.buffer};
	long error = raw_syscall(SYS_ioctl, reader.fd, (long)QUERY, (long)&q, 0, 0);

	if (error != 0)
		return error == -ENOENT ? 0 : -1;
	if (q.vma_name_size == 0)
		reader.buffer[0] = '\0';
	entry->start = q.vma_start;
	entry->end = q.vma_end;
	entry->offset = q.vma_offset;
	entry->ino = q.inode;
	entry->dev = makedev(q.dev_major, q.dev_minor);
	entry->prot = ((q.vma_flags & QUERY_READABLE) != 0 ? PROT_READ : 0) |
		      ((q.vma_flags & QUERY_WRITABLE) != 0 ? PROT_WRITE : 0) |
		      ((q.vma_flags & QUERY_EXECUTABLE) != 0 ? PROT_EXEC : 0);
	entry->shared = (q.vma_flags & QUERY_SHARED) != 0;
	entry->name = reader.buffer;
	return 1;
}

int
maps_open(uint64_t from)
{
	int error = reader_open("/proc/self/maps");

	if (error != 0 && one_explaining)
		one_note_reason(
			"/proc/self/maps cannot be read: %s; mount /proc, also in a chroot, and leave a descriptor free",
			strerror(-error));
	reader.from = from;
	reader.query = true;
	return error;
}

int
maps_open_lent(int fd)
{
	if (lseek(fd, 0, SEEK_SET) != 0)
		return -errno;
	reader.fd = fd;
	reader.len = reader.pos = 0;
	reader.lent = true;
	reader.from = 0;
	reader.query = true;
	return 0;
}

bool
maps_next(struct map_entry *entry)
{
	if (reader.query) {
		int found = query_mapping(reader.from, entry);

		if (found >= 0) {
			reader.from = found != 0 ? entry->end : UINT64_MAX;
			return found != 0;
		}
		reader.query = false;
	}
	for (;;) {
		const char *line = reader_line();

		if (line == NULL || !parse_line(line, entry))
			return false;
		if (entry->end > reader.from)
			return true;
	}
}

void
maps_close(void)
{
	reader_close();
}

/* Returns the number after `field` in /proc/self/status; 0 if there is none. */
static uint64_t
status_number(const char *field)
{
	size_t len = strlen(field);
	uint64_t number = 0;
	const char *line;

	if (reader_open("/proc/self/status") != 0)
		return 0;
	while ((line = reader_line()) != NULL) {
		if (strncmp(line, field, len) == 0) {
			number = strtoull(line + len, NULL, 10);
			break;
		}
	}
	reader_close();
	return number;
}

bool
maps_locked(uint64_t start, uint64_t end)
{
	struct map_entry entry = {0};
	bool inside = false, locked = false;
	const char *line;

	/* Reading smaps walks all pages of the process: skip it if nothing is locked at all. */
	if (status_number("VmLck:") == 0 || reader_open("/proc/self/smaps") != 0)
		return false;
	while (!locked && (line = reader_line()) != NULL) {
		if (strncmp(line, "VmFlags:", 8) == 0) {
			locked = inside && strstr(line, " lo") != NULL;
		} else if (parse_line(line, &entry)) {
			inside = entry.start < end && entry.end > start;
			if (entry.start >= end)
				break;
		}
	}
	reader_close();
	return locked;
}

uint64_t
maps_pinned(void)
{
	return status_number("VmPin:");
}

uint32_t
maps_threads(void)
{
	return (uint32_t)status_number("Threads:");
}
