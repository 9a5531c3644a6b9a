/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/explain.h"
#include "maps.h"
#include "segments.h"

#define PATHS_SIZE (4ull << 20)

static struct segment *segments;
static char *paths;
static uint64_t segments_room, paths_room, paths_used; /* bytes */

/* Returns the offset of the stored path plus 1; 0: no memory, or too many paths. */
static uint32_t
path_store(const char *path)
{
	uint64_t size = strlen(path) + 1, at = paths_used;

	if (size > PATHS_SIZE - at || !cell_table_grow((void **)&paths, &paths_room, at + size))
		return 0;
	memcpy(paths + at, path, size);
	paths_used += size;
	return (uint32_t)at + 1;
}

/* ---- segments ---- */

/* False: the file cannot be shared. */
static bool
foreign_find(const struct map_entry *e, struct segment *s)
{
	bool opened = false;

	s->kind = SEGMENT_FOREIGN;
	s->fd = -1;
	/* A memfd adopted by another copy of this code (libdat and librsm in one process) cannot be shared:
	 * that copy may take the pages back at any time. */
	if (e->ino != 0 && strncmp(e->name, MEMFD_MAPPED, strlen(MEMFD_MAPPED)) != 0)
		s->fd = shared_find_fd(e->dev, e->ino, e->name, &opened, &s->size, &s->page);
	if (s->fd < 0 && one_explaining)
		one_note_reason(
			"%.80s is a shared mapping, and no descriptor for reading and writing of a file in memory (memfd, tmpfs, hugetlbfs) belongs to it; keep that open",
			e->name[0] != '\0' ? e->name : "it");
	if (s->fd < 0 || !opened)
		return s->fd >= 0;
	/* Files may outnumber descriptors: close each, and open it again when needed. */
	close(s->fd);
	s->fd = -1;
	s->path = path_store(e->name);
	return s->path != 0;
}

/* False: the memory cannot be shared. */
static bool
segment_of(const struct map_entry *e, struct segment *s)
{
	bool plain;

	*s = (struct segment){.start = e->start,
			      .end = e->end,
			      .offset = e->offset,
			      .prot = e->prot,
			      .dev = e->dev,
			      .ino = e->ino,
			      .fd = -1};
	if (!e->shared) {
		s->kind = SEGMENT_ANON;
		/* neither a file nor one of the kernel's own mappings: [stack], [vdso] ... */
		plain = e->ino == 0 && (e->name[0] == '\0' || strcmp(e->name, "[heap]") == 0 ||
					strncmp(e->name, "[anon:", 6) == 0);
		if (!plain && one_explaining)
			one_note_reason(
				"%.80s is a private mapping of a file, or the kernel's; use malloc() or a memfd",
				e->name);
		return plain;
	}
	s->file = file_find(e->dev, e->ino);
	if (s->file == NULL || s->file->fd < 0)
		return foreign_find(e, s);
	s->kind = SEGMENT_ADOPTED;
	if (s->file->claimed && one_explaining)
		one_note_reason("it belongs to a segment that importers map; register other memory");
	return !s->file->claimed;
}

/* True if `b` continues `a` in memory, and in the file if there is one. */
static bool
segment_joins(const struct segment *a, const struct segment *b)
{
	if (a->kind != b->kind || a->end != b->start)
		return false;
	if (a->kind == SEGMENT_ANON)
		return a->prot == b->prot;
	return a->dev == b->dev && a->ino == b->ino && a->offset + (a->end - a->start) == b->offset;
}

/* False if the mapping cannot be shared, or the segments are too many. */
static bool
add_segment(const struct map_entry *e, uint32_t *count)
{
	struct segment *last = *count > 0 ? &segments[*count - 1] : NULL, s;

	if (!segment_of(e, &s))
		return false;
	if (last != NULL && segment_joins(last, &s)) {
		last->end = s.end;
		return true;
	}
	if (*count == SEGMENTS_MAX) {
		if (one_explaining)
			one_note_reason(
				"it has more than %u mappings; register it in parts, or use larger pages",
				SEGMENTS_MAX);
		return false;
	}
	if (!cell_table_grow((void **)&segments, &segments_room, (*count + 1) * sizeof(*segments)))
		return false;
	segments[(*count)++] = s;
	return true;
}

int
segments_find(uint64_t start, uint64_t end, bool write, struct segment **out, uint32_t *count)
{
	int need = PROT_READ | (write ? PROT_WRITE : 0), error = maps_open(start);
	uint64_t at = start;
	struct map_entry e;
	bool shareable = true;
	uint32_t n = 0;

	*count = 0;
	if (error != 0)
		return error;
	paths_used = 0;
	shared_begin();
	while (at < end && maps_next(&e)) {
		if (e.end <= at)
			continue;
		if (e.start > at || (e.prot & need) != need)
			break;
		e.offset += at - e.start;
		e.start = at;
		e.end = e.end < end ? e.end : end;
		at = e.end;
		/* Goes on if not shareable: an unmapped part is an error in any case. */
		shareable = shareable && add_segment(&e, &n);
	}
	maps_close();
	if (at < end)
		return -EFAULT;
	*out = segments;
	*count = shareable ? n : 0;
	return 0;
}

int
segment_open(const struct segment *segment, bool *opened)
{
	return shared_open(segment->dev, segment->ino, segment->fd,
			   segment->path != 0 ? paths + segment->path - 1 : NULL, opened);
}
