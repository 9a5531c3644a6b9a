/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/explain.h"
#include "range_cache.h"
#include "maps.h"
#include "mr_cache.h"
#include "pins.h"
#include "place.h"
#include "ranges.h"
#include "segments.h"
#include "stay.h"
#include "transplant.h"

/* From this size on, a range's offset in its file lets huge pages fit, at the cost of a hole before it. */
#define HUGE_LAYOUT (16ull << 20)
#define HUGE (2ull << 20)
#define SPARE_FILES 16u
#define SPARE_SIZE (64ull << 20)
#define SMALL_FILES 64u /* below this number of adopted files small ranges are not put into slabs */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *given_up; /* emptied files, the newest first, linked by next: reused or retired */

/* ---- ranges ---- */

static bool
slab_find(const struct file *file, uint32_t pages, uint32_t *first)
{
	uint32_t run = 0;

	for (uint32_t i = 0; i < SLAB_PAGES; i++) {
		run = (file->used[i / 64] >> i % 64 & 1) != 0 ? 0 : run + 1;
		if (run == pages) {
			*first = i + 1 - pages;
			return true;
		}
	}
	return false;
}

static void
slab_mark(struct file *file, uint32_t first, uint32_t pages, bool used)
{
	for (uint32_t i = first; i < first + pages; i++) {
		uint64_t bit = 1ull << i % 64;

		file->used[i / 64] = used ? file->used[i / 64] | bit : file->used[i / 64] & ~bit;
	}
}

static struct file *
slab_with_room(uint32_t pages, uint32_t *first)
{
	struct file *file;

	for (file = files_next(NULL); file != NULL; file = files_next(file)) {
		if (file->slab && slab_find(file, pages, first))
			return file;
	}
	file = file_adopted(SLAB_PAGES * page_size(), false, false, false);
	if (file != NULL) {
		file->slab = file->lasting = true;
		*first = 0;
	}
	return file;
}

/* Reuses an emptied file, which the data plane knows already. NULL: none of that size. */
static struct file *
file_again(uint64_t size)
{
	for (struct file **at = &given_up; *at != NULL; at = &(*at)->next) {
		struct file *file = *at;

		if (file->exec || file->size < size || file->size / 2 > size)
			continue;
		*at = file->next;
		file_link(file);
		return file;
	}
	return NULL;
}

/* Allocates room in a file for the `length` bytes at `start`. NULL: no file or no memory. */
static struct range *
range_new(uint64_t start, uint64_t length, bool exec, bool alone)
{
	struct range *range = cell_new();
	uint32_t pages = (uint32_t)(length / page_size()), first = 0;
	bool small = length <= SLAB_RANGE_PAGES * page_size() && !exec && !alone;
	bool cacheable = !alone && range_cache_usable() && file_size_is_allowed(length + HUGE + BEHIND) &&
			 (!small || files_adopted() < SMALL_FILES ||
			  (range_cache_drop_oldest() && files_adopted() < SMALL_FILES));
	uint64_t skip = 0;
	struct file *file;

	if (range == NULL)
		return NULL;
	if (small && !cacheable) {
		file = slab_with_room(pages, &first);
		if (file != NULL) {
			slab_mark(file, first, pages, true);
			skip = first * page_size();
		}
	} else {
		if (length >= HUGE_LAYOUT)
			skip = start & (HUGE - 1);
		file = cacheable && !exec ? file_again(skip + length) : NULL;
		if (file == NULL)
			file = file_adopted(skip + length, exec, alone, cacheable);
	}
	if (file == NULL) {
		cell_free(range);
		return NULL;
	}
	range->file = file;
	range->offset = skip;
	range->length = length;
	range->start = start;
	range->next = file->ranges;
	file->ranges = range;
	file->users++;
	return range;
}

static bool
has_other_slab(const struct file *file)
{
	for (const struct file *f = files_next(NULL); f != NULL; f = files_next(f)) {
		if (f != file && f->slab)
			return true;
	}
	return false;
}

/* Frees the range, and its room in the file. */
static void
range_free(struct range *range, struct file **retired)
{
	struct file *file = range->file;
	struct range **at = &file->ranges;

	while (*at != range)
		at = &(*at)->next;
	*at = range->next;
	if (file->slab)
		slab_mark(file, (uint32_t)(range->offset / page_size()),
			  (uint32_t)(range->length / page_size()), false);
	mr_cache_lose(range);
	stay_remove(range);
	cell_free(range);
	/* An empty slab stays, for programs that register and deregister repeatedly. */
	if (--file->users == 0 && (!file->slab || has_other_slab(file))) {
		file_unlink(file);
		file->next = *retired;
		*retired = file;
	}
}

bool
ranges_give_up(struct range *range)
{
	int fd = range->file->fd, error = range_give_back(range);
	uint64_t end = range->file->size + BEHIND;
	struct file *empty = NULL;

	if (error != 0) {
		range_stay(range);
		return false;
	}
	range_cache_leave(range);
	/* The data plane still maps the pages, until the next call that registers or deregisters. */
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)end) != 0)
		range->file->exec = true; /* not empty: must not be reused */
	range_free(range, &empty);
	empty->next = given_up;
	given_up = empty;
	return true;
}

static void
note_unadopted(int error)
{
	switch (error) {
	case -EBUSY:
		one_note_reason(
			"a device or the kernel has pinned its pages, or may have (io_uring, direct I/O, vfio, a GPU's driver); register it before it is pinned");
		break;
	case -EMFILE:
		one_note_reason(
			"no file can be made for it: half of the descriptors that the limit allows (RLIMIT_NOFILE) are in use, or it is larger than RLIMIT_FSIZE; raise it");
		break;
	case -EPERM:
		one_note_reason(
			"userfaultfd is denied, and the program has several threads; allow the system call, or register it earlier");
		break;
	default:
		one_note_reason(
			"its pages cannot be replaced (%s), as those of private huge pages; use shared ones",
			strerror(-error));
	}
}

static struct range *
adopt_pages(uint64_t start, uint64_t end, int prot, bool alone, struct file **retired)
{
	struct range *range =
		pins_hidden() ? NULL : range_new(start, end - start, (prot & PROT_EXEC) != 0, alone);
	struct transplant t = {.start = start, .length = end - start, .prot = prot, .from_fd = -1};
	int error;

	if (range == NULL && one_explaining)
		note_unadopted(pins_hidden() ? -EBUSY : -EMFILE);
	if (range == NULL)
		return NULL;
	range->locked = maps_locked(start, end);
	t.lock = range->locked;
	t.unpinned = !pins_possible();
	t.to_fd = range->file->fd;
	t.to_offset = range->offset;
	if (!range->locked && (prot & PROT_WRITE) != 0)
		t.place = place_new(start, end - start);
	error = transplant(&t);
	range->place = t.place;
	if (error == 0)
		return range;
	if (one_explaining)
		note_unadopted(error);
	/* Give back what was replaced before the failure. */
	if (t.done != 0)
		error = range_give_back(range);
	else if (range->place != 0)
		place_drop(range->place, 0, range->length);
	if (t.done == 0 || error == 0)
		range_free(range, retired);
	else
		range_stay(range);
	return NULL;
}

int
ranges_private(uint64_t start, uint64_t end, int *prot)
{
	struct segment *segment;
	uint32_t count;
	int error = segments_find(start, end, true, &segment, &count);

	if (error == 0 && (count != 1 || segment->kind != SEGMENT_ANON))
		error = -EFAULT;
	if (error == 0)
		*prot = segment->prot;
	return error;
}

/* ---- acquire and release ---- */

static bool
take_range(struct acquired *out, struct range *range)
{
	if (out->num_ranges == RANGES_MAX)
		return false;
	if (range->refs++ == 0) {
		range_cache_take(range);
		stay_remove(range);
	}
	out->fresh = out->fresh || range->punched;
	range->punched = false;
	out->range[out->num_ranges++] = range;
	return true;
}

/* Takes references on all ranges of an adopted segment. False: too many, or they do not cover it. */
static bool
take_adopted(struct acquired *out, const struct segment *s)
{
	uint64_t low = s->offset, high = s->offset + (s->end - s->start), covered = 0;

	for (struct range *r = s->file->ranges; r != NULL; r = r->next) {
		uint64_t from = r->offset > low ? r->offset : low;
		uint64_t to = r->offset + r->length < high ? r->offset + r->length : high;

		if (from >= to)
			continue;
		if (!take_range(out, r))
			return false;
		covered += to - from;
	}
	return covered == high - low;
}

static struct range *
take_private(struct acquired *out, const struct segment *s, struct file **retired)
{
	struct range *range = out->num_ranges == RANGES_MAX
				      ? NULL
				      : adopt_pages(s->start, s->end, s->prot, out->alone, retired);

	if (range == NULL)
		return NULL;
	take_range(out, range);
	out->fresh = true;
	return range;
}

static bool
take_foreign(struct piece *piece, const struct segment *s)
{
	/* An earlier segment may have added the file. */
	piece->file = file_find(s->dev, s->ino);
	if (piece->file == NULL)
		piece->file = file_add(s->dev, s->ino, s->size, -1);
	if (piece->file == NULL)
		return false;
	piece->file->size = (s->size + page_size() - 1) / page_size() * page_size();
	if (piece->offset + piece->length > piece->file->size) /* mapped beyond the file's end */
		return false;
	piece->fd = segment_open(s, &piece->opened);
	if (piece->fd < 0)
		return false;
	piece->file->users++;
	return true;
}

static bool
take_segment(struct acquired *out, const struct segment *s, struct file **retired)
{
	struct piece *piece = &out->piece[out->num_pieces];
	struct range *range;

	*piece = (struct piece){.file = s->file, .offset = s->offset, .length = s->end - s->start};
	if (s->kind == SEGMENT_ANON) {
		range = take_private(out, s, retired);
		if (range == NULL)
			return false;
		piece->file = range->file;
		piece->offset = range->offset;
	} else if (s->kind == SEGMENT_FOREIGN && !take_foreign(piece, s)) {
		return false;
	}
	if (piece->file->fd >= 0)
		piece->fd = piece->file->fd;
	out->num_pieces++;
	return true;
}

/* True if the segments need a joined region: a registration has at most PIECES_MAX pieces. The data plane
 * maps several pieces next to each other by mremap, which cannot map large pages a second time. */
static bool
has_to_be_joined(const struct segment *segment, uint32_t count)
{
	for (uint32_t i = 0; count > 1 && count <= PIECES_MAX && i < count; i++) {
		if (segment[i].page != 0)
			return true;
	}
	return count > PIECES_MAX;
}

/* True if the segments are too many pieces, and all adopted or adoptable: one range is better than many. */
static bool
is_scattered(const struct segment *segment, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (segment[i].kind == SEGMENT_FOREIGN)
			return false;
	}
	return count > PIECES_MAX;
}

/* Rounds both ends of a joined region to the pages of their files, which are mapped by whole pages. */
static void
round_ends(struct acquired *out, struct segment *segment, uint32_t count)
{
	struct segment *last = &segment[count - 1];
	uint64_t before = segment->page != 0 ? segment->offset % segment->page : 0;

	out->piece[0] = (struct piece){.offset = before, .length = last->end - segment->start};
	segment->start -= before;
	segment->offset -= before;
	if (last->page != 0)
		last->end = (last->end + last->page - 1) / last->page * last->page;
}

/* Takes all segments as one piece, for which the caller creates a joined region. */
static bool
take_joined(struct acquired *out, struct segment *segment, uint32_t count, struct file **retired)
{
	for (uint32_t i = 0; i < count; i++) {
		struct segment *s = &segment[i];
		struct range *range;

		if (s->kind != SEGMENT_ANON)
			continue;
		range = take_private(out, s, retired);
		if (range == NULL)
			return false;
		s->kind = SEGMENT_ADOPTED;
		s->file = range->file;
		s->offset = range->offset;
	}
	round_ends(out, segment, count);
	out->num_pieces = 1;
	out->joined = segment;
	out->num_joined = count;
	return true;
}

static void
release_locked(struct range *const *range, uint32_t num_ranges, struct file *const *foreign,
	       uint32_t num_foreign, struct file **retired)
{
	int error;

	for (uint32_t i = 0; i < num_ranges; i++) {
		if (--range[i]->refs != 0 || range_cache_put(range[i]))
			continue;
		error = range_give_back(range[i]);
		if (error == 0) {
			range_cache_leave(range[i]);
			range_free(range[i], retired);
		} else {
			range_stay(range[i]);
		}
	}
	for (uint32_t i = 0; i < num_foreign; i++) {
		if (--foreign[i]->users == 0) {
			file_unlink(foreign[i]);
			foreign[i]->next = *retired;
			*retired = foreign[i];
		}
	}
}

/* Undoes all that acquire_locked() did. */
static void
give_back(struct acquired *out, struct file **retired)
{
	struct file *foreign[PIECES_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < out->num_pieces; i++) {
		if (is_foreign(out->piece[i].file))
			foreign[n++] = out->piece[i].file;
	}
	piece_close_fds(out);
	release_locked(out->range, out->num_ranges, foreign, n, retired);
	out->num_pieces = 0;
	out->num_ranges = 0;
}

/* Requires the lock. Unless `scattered` is NULL, takes nothing of scattered memory, and sets *scattered. */
static int
acquire_locked(uint64_t start, uint64_t end, bool write, bool *scattered, struct acquired *out,
	       struct file **retired)
{
	struct segment *segment;
	uint32_t count;
	int error = segments_find(start, end, write, &segment, &count);
	bool ok = true, join;

	if (error != 0)
		return error;
	if (scattered != NULL && is_scattered(segment, count)) {
		*scattered = true;
		return 0;
	}
	/* Adopted segments come first: adopting the rest may drop cached ranges, and reuse their files. */
	for (uint32_t i = 0; ok && i < count; i++)
		ok = segment[i].kind != SEGMENT_ADOPTED || take_adopted(out, &segment[i]);
	join = ok && has_to_be_joined(segment, count);
	if (join)
		ok = take_joined(out, segment, count, retired);
	for (uint32_t i = 0; ok && !join && i < count; i++)
		ok = take_segment(out, &segment[i], retired);
	if (!ok)
		give_back(out, retired);
	return 0;
}

/* Tries again to give back ranges that stayed shared: the reason may have passed. */
static void
retry_stayed(struct file **retired)
{
	struct range *range = stay_next(NULL), *next;

	for (; range != NULL; range = next) {
		next = stay_next(range);
		if (range_give_back(range) == 0)
			range_free(range, retired);
	}
}

/* Retires emptied files, but at most `stay` small ones, which other ranges can reuse. */
static void
collect_given_up(uint32_t stay, struct file **retired)
{
	struct file **at = &given_up;

	if (stay == 0 || stay_is_due())
		retry_stayed(retired);

	while (*at != NULL) {
		struct file *file = *at;

		if (stay > 0 && file->size <= SPARE_SIZE) {
			stay--;
			at = &file->next;
			continue;
		}
		*at = file->next;
		file->next = *retired;
		*retired = file;
	}
}

int
ranges_acquire(uint64_t start, uint64_t end, bool write, struct acquired *out, struct file **retired)
{
	bool scattered = false;
	int error;

	out->num_pieces = 0;
	out->num_ranges = 0;
	out->num_joined = 0;
	out->fresh = false;
	ranges_lock();
	error = acquire_locked(start, end, write, &scattered, out, retired);
	/* Cached ranges are too fragmented, or were grown by mremap: drop them and try again. */
	if (error == 0 && out->num_pieces == 0 && (range_cache_drop(start, end) || scattered))
		error = acquire_locked(start, end, write, NULL, out, retired);
	collect_given_up(SPARE_FILES, retired);
	ranges_unlock();
	return error;
}

bool
ranges_give_up_all(struct file **retired)
{
	bool any;

	ranges_lock();
	any = range_cache_drop(0, UINT64_MAX) || given_up != NULL;
	collect_given_up(0, retired);
	ranges_unlock();
	return any;
}

void
piece_close_fds(struct acquired *acquired)
{
	for (uint32_t i = 0; i < acquired->num_pieces; i++) {
		if (acquired->piece[i].opened)
			close(acquired->piece[i].fd);
		acquired->piece[i].opened = false;
	}
}

void
ranges_release(struct range *const *range, uint32_t num_ranges, struct file *const *foreign,
	       uint32_t num_foreign, struct file **retired)
{
	ranges_lock();
	release_locked(range, num_ranges, foreign, num_foreign, retired);
	collect_given_up(SPARE_FILES, retired);
	ranges_unlock();
}

void
ranges_cache_mr(struct cached_mr *cached, struct file **retired)
{
	ranges_lock();
	mr_cache_put(cached);
	release_locked(&cached->range, 1, NULL, 0, retired);
	collect_given_up(SPARE_FILES, retired);
	ranges_unlock();
}

/* True if `va` has the same offset in the file as when it was registered: mremap may have moved the range. */
static bool
is_in_place(const struct cached_mr *cached)
{
	const struct range *range = cached->range;

	return (cached->va & ~(page_size() - 1)) - range->start == cached->offset - range->offset;
}

struct cached_mr *
ranges_uncache_mr(const struct cached_mr *like, bool write)
{
	struct cached_mr *cached;

	ranges_lock();
	cached = mr_cache_find(like);
	if (cached != NULL && like->range == NULL) {
		if (!is_in_place(cached) || !range_cache_intact(cached->range, write))
			cached = NULL;
		else if (cached->range->refs++ == 0)
			range_cache_take(cached->range);
	}
	if (cached != NULL)
		mr_cache_take(cached);
	ranges_unlock();
	return cached;
}

struct cached_mr *
ranges_cached_mrs_gone(uint32_t least)
{
	struct cached_mr *gone;

	ranges_lock();
	gone = mr_cache_gone(least);
	ranges_unlock();
	return gone;
}

void
ranges_cached_mrs_drop(const struct one_client *client, uint32_t pz)
{
	ranges_lock();
	mr_cache_drop(client, pz);
	ranges_unlock();
}

void
file_free(struct file *file)
{
	ranges_lock();
	if (file->fd >= 0)
		close(file->fd);
	cell_free(file);
	ranges_unlock();
}

/* ---- lock, fork ---- */

void
ranges_lock(void)
{
	pthread_mutex_lock(&lock);
}

bool
ranges_trylock(void)
{
	return pthread_mutex_trylock(&lock) == 0;
}

void
ranges_unlock(void)
{
	pins_forget();
	pthread_mutex_unlock(&lock);
}

struct file *
ranges_find(dev_t dev, uint64_t ino)
{
	struct file *file = file_find(dev, ino);

	return file != NULL && file->fd >= 0 ? file : NULL;
}

void
ranges_unguard(struct file *file, uint64_t start, uint64_t end)
{
	for (struct range *range = file->ranges; range != NULL; range = range->next) {
		range_cache_unguard(range, start, end);
		range_cache_leave(range);
	}
}

bool
ranges_any(void)
{
	return files_adopted() > 0;
}

/* A child has no ranges, but inherits their places. */
static void
drop_places(void)
{
	for (const struct file *file = files_next(NULL); file != NULL; file = files_next(file)) {
		for (const struct range *range = file->ranges; range != NULL; range = range->next) {
			if (range->place != 0)
				place_drop(range->place, 0, range->length);
		}
	}
}

void
ranges_fork_child(void)
{
	drop_places();
	files_forget();
	for (struct file *file = given_up; file != NULL; file = file->next)
		close(file->fd);
	given_up = NULL;
	mr_cache_fork_child();
	stay_fork_child();
	range_cache_fork_child();
	transplant_fork_child();
	pthread_mutex_init(&lock, NULL);
}
