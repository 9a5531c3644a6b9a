/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of this process: its kind, and the registered ranges, which transfers use without a copy. */
#include "rsm/link.h"
#include "rsm/transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#define TMPFS 0x01021994
#define HUGETLBFS 0x958458f6

/* ---- kind of memory ---- */

static bool
has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* True if the file behind a shared mapping is in memory, not on a disk. */
static bool
is_memory_file(const char *path)
{
	struct statfs fs;

	if (path[0] == '\0' || has_prefix(path, "/SYSV") || has_prefix(path, "/memfd:") ||
	    has_prefix(path, "/dev/zero") || has_prefix(path, "/anon_hugepage") ||
	    has_prefix(path, "/dev/shm/") || path[0] == '[')
		return true;
	return statfs(path, &fs) == 0 &&
	       ((unsigned long)fs.f_type == TMPFS || (unsigned long)fs.f_type == HUGETLBFS);
}

#define FIT 1u /* can be shared with the data plane */
#define READABLE 2u
#define WRITABLE 4u
#define UNKNOWN 8u /* no procfs */

/* Returns the flags that hold for all of [va, end); 0 if a part is not mapped. */
static uint32_t
survey_memory(uint64_t va, uint64_t end)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint32_t what = FIT | READABLE | WRITABLE;
	char *line = NULL;
	size_t room = 0;

	if (maps == NULL)
		return UNKNOWN;
	while (va < end && getline(&line, &room, maps) > 0) {
		uint64_t from, to;
		char perms[5];
		int path = 0;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &from, &to, perms, &path) <
			    3 ||
		    to <= va)
			continue;
		if (from > va)
			break;
		line[strcspn(line, "\n")] = '\0';
		if (perms[3] == 's' && !is_memory_file(line + path))
			what &= ~FIT;
		if (perms[0] != 'r')
			what &= ~READABLE;
		if (perms[1] != 'w')
			what &= ~WRITABLE;
		va = to;
	}
	free(line);
	fclose(maps);
	return va < end ? 0 : what;
}

int
rsm_memory_check(uint64_t va, uint64_t length)
{
	uint32_t what = va + length < va ? 0 : survey_memory(va, va + length);

	if (what == UNKNOWN)
		return RSM_SUCCESS; /* the registration will fail if necessary */
	if ((what & FIT) == 0)
		return RSMERR_BAD_ADDR;
	return what == (FIT | READABLE | WRITABLE) ? RSM_SUCCESS : RSMERR_PERM_DENIED;
}

bool
rsm_memory_writable(uint64_t va, uint64_t end)
{
	return (survey_memory(va, end) & WRITABLE) != 0;
}

/* ---- registered memory ---- */

/* Ranges may overlap. A search examines this many neighbours. */
#define NEIGHBOURS 8u

/* Returns the index of the first range that begins after va. */
static uint32_t
upper_bound(const struct rsm_link *link, uint64_t va)
{
	uint32_t low = 0, high = link->num_ranges;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (link->ranges[mid].va <= va)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int
rsm_range_add(struct rsm_link *link, const struct one_mr *mr)
{
	uint32_t at;

	pthread_mutex_lock(&link->lock);
	if (link->num_ranges == link->max_ranges) {
		uint32_t max = link->max_ranges == 0 ? 16 : link->max_ranges * 2;
		struct rsm_range *ranges = realloc(link->ranges, max * sizeof(*ranges));

		if (ranges == NULL) {
			pthread_mutex_unlock(&link->lock);
			return -ENOMEM;
		}
		link->ranges = ranges;
		link->max_ranges = max;
	}
	at = upper_bound(link, mr->va);
	memmove(&link->ranges[at + 1], &link->ranges[at], (link->num_ranges - at) * sizeof(link->ranges[0]));
	link->ranges[at] = (struct rsm_range){.va = mr->va, .length = mr->length, .lkey = mr->lkey};
	link->num_ranges++;
	pthread_mutex_unlock(&link->lock);
	return 0;
}

int
rsm_range_register(struct rsm_link *link, uint64_t va, uint64_t length, bool alone, struct one_mr *mr)
{
	const uint32_t access = ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE;
	int error = alone ? one_mem_register_alone(link->client, link->pz, va, length, access, mr)
			  : one_mem_register(link->client, link->pz, va, length, access, mr);

	if (error != 0) /* the only quota here is of memory */
		return error == -EDQUOT ? RSMERR_INSUFFICIENT_MEM : rsm_error(error);
	if (rsm_range_add(link, mr) == 0)
		return RSM_SUCCESS;
	one_mem_deregister(link->client, mr);
	return RSMERR_INSUFFICIENT_MEM;
}

uint32_t
rsm_range_find(struct rsm_link *link, uint64_t va, uint64_t len)
{
	uint32_t lkey = 0, at;

	pthread_mutex_lock(&link->lock);
	at = upper_bound(link, va);
	for (uint32_t i = 0; i < NEIGHBOURS && at-- > 0; i++) {
		const struct rsm_range *range = &link->ranges[at];

		if (len <= range->length && va - range->va <= range->length - len) {
			lkey = range->lkey;
			break;
		}
	}
	pthread_mutex_unlock(&link->lock);
	return lkey;
}

void
rsm_range_remove(struct rsm_link *link, const struct one_mr *mr)
{
	uint32_t used;

	pthread_mutex_lock(&link->lock);
	for (uint32_t i = 0; i < link->num_ranges; i++) {
		if (link->ranges[i].lkey != mr->lkey)
			continue;
		memmove(&link->ranges[i], &link->ranges[i + 1],
			(link->num_ranges - i - 1) * sizeof(link->ranges[0]));
		link->num_ranges--;
		break;
	}
	pthread_mutex_unlock(&link->lock);

	/* A transfer that found the range before its removal holds its import's lock, or is not finished. The
	 * imports are counted after link->lock was released, so that they include any import that found the
	 * range. */
	used = rsm_table_used(&rsm_imports);
	for (uint32_t i = 0; i < used; i++) {
		struct rsm_import *import = rsm_slot_at(&rsm_imports, i);

		if (import == NULL)
			continue;
		if (import->link == link)
			rsm_wait_done(import, import->pinned);
		rsm_slot_unlock(import);
	}
}
