/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions as applications know them: a range of addresses over pieces of
 * mapped files, or over memory that its application copies (copies.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/internal.h"

static uint64_t
page_mask(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE) - 1;
}

static void
drop_regions(struct mr *mr)
{
	for (uint32_t i = 0; i < mr->num_regions; i++)
		mr->region[i]->object.users--;
	mr->num_regions = 0;
	free(mr->region);
	mr->region = NULL;
}

static void
unmap_pieces(struct mr *mr)
{
	struct client *client = mr->object.client;

	if (mr->mapping != NULL) {
		engine_guard_remove(mr->mapping);
		munmap(mr->mapping, mr->mapping_len);
		mr->mapping = NULL;
	}
	quota_give(&control.quota, client->account, QUOTA_MAPPINGS, mr->mappings);
	mr->mappings = 0;
}

/* ---- keys ---- */

uint32_t
key_new(struct client *client, uint64_t *limit)
{
	const struct mem_table *table = engine_mem_table();
	uint32_t key;

	if (quota_take(&control.quota, client->account, QUOTA_KEYS, 1, limit) != 0)
		return 0;
	key = mem_key_new(table);
	if (key == 0) {
		*limit = 1u << table->log2;
		key_free(client);
	}
	return key;
}

void
key_free(struct client *client)
{
	quota_give(&control.quota, client->account, QUOTA_KEYS, 1);
}

/* No core can look at it any more. */
void
mr_destroy(struct mr *mr)
{
	unmap_pieces(mr);
	drop_regions(mr);
	if (mr->pz != NULL)
		mr->pz->object.users--;
	object_free(mr);
}

void
mr_withdraw(struct mr *mr)
{
	struct mem_region *entry = mr->entry;

	if (entry == NULL)
		return;
	mr->entry = NULL;
	mem_remove(engine_mem_table(), entry->key);
	key_free(mr->object.client);
	entry_retire(mr->object.client, entry);
}

/* ---- making ---- */

static int
check_pieces(struct client *client, const struct one_mr_create *args)
{
	uint64_t covered = 0, need = args->length + (args->va & page_mask());

	if (args->num_pieces > ONE_MR_PIECES)
		return refuse(client, -EINVAL, ONE_SUBJECT_COUNT, ONE_MR_PIECES);
	for (uint32_t i = 0; i < args->num_pieces; i++) {
		const struct one_mr_piece *piece = &args->piece[i];
		struct region *region = object_get(client, OBJECT_REGION, piece->region);

		if (region == NULL)
			return refuse(client, -EINVAL, ONE_SUBJECT_REGION, piece->region);
		if (piece->offset % region->page != 0 && piece->offset % (page_mask() + 1) != 0)
			return refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, piece->offset);
		if (piece->length == 0 || piece->length > region->size ||
		    piece->offset > region->size - piece->length ||
		    (i + 1 < args->num_pieces && (piece->length & page_mask()) != 0))
			return refuse(client, -EINVAL, ONE_SUBJECT_LENGTH, piece->length);
		covered += piece->length; /* at most 32 times a size that was mapped: no overflow */
	}
	if (args->num_pieces != 0 && covered < need)
		return refuse(client, -EINVAL, ONE_SUBJECT_LENGTH, covered);
	return 0;
}

static int
hold_regions(struct mr *mr, const struct one_mr_create *args)
{
	if (args->num_pieces == 0)
		return 0;
	mr->region = calloc(args->num_pieces, sizeof(struct region *));
	if (mr->region == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < args->num_pieces; i++) {
		struct region *region = object_get(mr->object.client, OBJECT_REGION, args->piece[i].region);

		region->object.users++;
		mr->region[mr->num_regions++] = region;
	}
	return 0;
}

/* Several pieces, one behind the other: a second mapping of the same pages. */
static int
map_pieces(struct mr *mr, const struct one_mr_create *args)
{
	uint64_t at = 0;
	int error = 0;

	for (uint32_t i = 0; i < args->num_pieces; i++)
		mr->mapping_len += (args->piece[i].length + page_mask()) & ~page_mask();
	mr->mapping =
		mmap(NULL, mr->mapping_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mr->mapping == MAP_FAILED) {
		mr->mapping = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < args->num_pieces && error == 0; i++) {
		uint64_t length = (args->piece[i].length + page_mask()) & ~page_mask();

		/* Old length 0: of a shared mapping, one more. */
		if (mremap(mr->region[i]->base + args->piece[i].offset, 0, length,
			   MREMAP_MAYMOVE | MREMAP_FIXED, mr->mapping + at) == MAP_FAILED)
			error = -errno;
		at += length;
	}
	if (error == 0)
		error = engine_guard_add(mr->mapping, mr->mapping_len, mr->object.client);
	if (error != 0) {
		munmap(mr->mapping, mr->mapping_len);
		mr->mapping = NULL;
	}
	return error;
}

static int
publish(struct mr *mr, uint8_t *base, uint64_t *limit)
{
	struct mem_region *entry = calloc(1, sizeof(*entry));
	uint32_t key;

	if (entry == NULL)
		return -ENOMEM;
	key = key_new(mr->object.client, limit);
	if (key == 0) {
		free(entry);
		return -EDQUOT;
	}
	*entry = (struct mem_region){
		.key = key,
		.pz = mr->pz->number,
		.access = mr->access,
		.va = mr->va,
		.length = mr->length,
		.base = base,
		.reach = base == NULL ? mr->object.client->reach : NULL,
		.owner = mr,
	};
	mr->entry = entry;
	mem_publish(engine_mem_table(), entry);
	return 0;
}

static int
finish(struct mr *mr, uint8_t *base)
{
	struct client *client = mr->object.client;
	uint64_t limit = 0;
	int error = publish(mr, base, &limit);

	if (error != 0) {
		mr_destroy(mr);
		return refuse(client, error, error == -EDQUOT ? ONE_SUBJECT_QUOTA : ONE_SUBJECT_MEMORY,
			      limit);
	}
	mr->object.busy = false;
	client->reply.mr = (struct one_mr_created){
		.mr = mr->object.id,
		.lkey = mr->entry->key,
		.rkey = (mr->access &
			 (ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)) != 0
				? mr->entry->key
				: 0,
	};
	return 0;
}

struct populate {
	struct job job; /* first */
	struct mr *mr;
	uint64_t done;
};

static int
populate_step(struct job *job)
{
	struct populate *populate = (struct populate *)job;
	struct mr *mr = populate->mr;
	uint64_t chunk = mr->mapping_len - populate->done;
	int error;

	if (chunk > POPULATE_CHUNK)
		chunk = POPULATE_CHUNK;
	error = memory_populate(mr->mapping + populate->done, chunk);
	if (error != 0)
		return error;
	populate->done += chunk;
	return populate->done < mr->mapping_len;
}

static void
populate_done(struct job *job, int error)
{
	struct populate *populate = (struct populate *)job;
	struct mr *mr = populate->mr;
	struct client *client = mr->object.client;

	free(populate);
	if (error != 0) {
		mr_destroy(mr);
		client_reply(client, refuse(client, error, ONE_SUBJECT_MEMORY, 0));
		return;
	}
	client_reply(client, finish(mr, mr->mapping + (mr->va & page_mask())));
}

static struct mr *
mr_new(struct client *client, struct pz *pz, uint64_t va, uint64_t length, uint32_t access)
{
	struct mr *mr = object_new(client, OBJECT_MR, sizeof(*mr));

	if (mr == NULL)
		return NULL;
	mr->pz = pz;
	pz->object.users++;
	mr->va = va;
	mr->length = length;
	mr->access = access;
	LIST_INIT(&mr->windows);
	return mr;
}

int
mr_create(struct client *client, const struct one_mr_create *args)
{
	struct pz *pz = object_get(client, OBJECT_PZ, args->pz);
	struct populate *populate;
	uint64_t limit;
	struct mr *mr;
	int error;

	if (pz == NULL)
		return refuse(client, -EINVAL, ONE_SUBJECT_PZ, args->pz);
	if ((args->access & ~ONE_ACCESS_ALL) != 0)
		return refuse(client, -EINVAL, ONE_SUBJECT_ACCESS, args->access);
	if (args->length == 0 || args->length > INT64_MAX || args->va + args->length - 1 < args->va ||
	    args->length > control.config->limits.max_mr_bytes)
		return refuse(client, -EINVAL, ONE_SUBJECT_LENGTH, control.config->limits.max_mr_bytes);
	error = check_pieces(client, args);
	if (error != 0)
		return error;
	if (args->num_pieces == 0 && client->reach == NULL)
		return refuse(client, -EOPNOTSUPP, ONE_SUBJECT_MEMORY, 0);
	mr = mr_new(client, pz, args->va, args->length, args->access);
	if (mr == NULL)
		return refuse(client, -EDQUOT, ONE_SUBJECT_QUOTA, client->table[OBJECT_MR].max);
	error = hold_regions(mr, args);
	if (error != 0) {
		mr_destroy(mr);
		return refuse(client, error, ONE_SUBJECT_MEMORY, 0);
	}
	if (args->num_pieces == 0)
		return finish(mr, NULL);
	if (args->num_pieces == 1)
		mr->offset = args->piece[0].offset;
	if (args->num_pieces == 1)
		return finish(mr, mr->region[0]->base + args->piece[0].offset + (args->va & page_mask()));
	error = quota_take(&control.quota, client->account, QUOTA_MAPPINGS, args->num_pieces, &limit);
	if (error != 0) {
		mr_destroy(mr);
		return refuse(client, error, ONE_SUBJECT_QUOTA, limit);
	}
	mr->mappings = args->num_pieces;
	error = map_pieces(mr, args);
	populate = error == 0 ? calloc(1, sizeof(*populate)) : NULL;
	if (populate == NULL) {
		mr_destroy(mr);
		return refuse(client, error != 0 ? error : -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	populate->job = (struct job){.step = populate_step, .done = populate_done, .client = client};
	populate->mr = mr;
	job_start(&populate->job);
	return REQUEST_LATER;
}

/* Addresses of staging memory are offsets in the arena.  It lives as long as the attachment. */
struct mr *
mr_staging(struct client *client, struct pz *pz, uint64_t offset, uint64_t size)
{
	struct mr *mr = mr_new(client, pz, offset, size, ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE);
	uint64_t limit;

	if (mr == NULL)
		return NULL;
	if (publish(mr, client->arena.base + offset, &limit) != 0) {
		mr_destroy(mr);
		return NULL;
	}
	return mr; /* busy for ever: the application has no id of it */
}

/* ---- freeing ---- */

static void
mr_quiesced(struct client *client, void *object)
{
	copies_settle(client, object);
}

int
mr_free(struct client *client, uint32_t id)
{
	struct mr *mr = object_get(client, OBJECT_MR, id);

	if (mr == NULL)
		return refuse(client, -EINVAL, ONE_SUBJECT_MR, id);
	mw_unbind_lost(mr);
	if (!LIST_EMPTY(&mr->windows))
		return refuse(client, -EBUSY, ONE_SUBJECT_MW, LIST_FIRST(&mr->windows)->object.id);
	if (mr->object.users != 0)
		return refuse(client, -EBUSY, ONE_SUBJECT_SEGMENT, mr->object.users);
	mr->object.busy = true;
	mr_withdraw(mr);
	grace_defer(client, mr_quiesced, mr);
	return REQUEST_LATER;
}
