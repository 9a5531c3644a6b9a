/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions (MRs): ranges of addresses over pieces of mapped files, or over memory that the
 * application's copy thread accesses (copies.c). */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/objects/objects.h"

static uint64_t
page_mask(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE) - 1;
}

uint64_t
mr_pages(const struct mr *mr)
{
	return (mr->length + (mr->va & page_mask()) + page_mask()) & ~page_mask();
}

static void
drop_regions(struct mr *mr)
{
	for (uint32_t i = 0; i < mr->num_regions; i++)
		if (--mr->region[i]->object.users == 0 && mr->region[i]->registered)
			mr_cache_put(mr->region[i]);
	mr->num_regions = 0;
	free(mr->region);
	mr->region = NULL;
}

/* ---- keys ---- */

uint32_t
key_new(struct client *client, struct quota_limit *limit)
{
	const struct mem_table *table = engine_mem_table();
	uint32_t key;

	if (quota_take(&control.quota, client->account, QUOTA_KEYS, 1, limit) != 0)
		return 0;
	key = mem_key_new(table);
	if (key == 0) {
		*limit = (struct quota_limit){1u << table->log2, ""};
		key_free(client);
	}
	return key;
}

void
key_free(struct client *client)
{
	quota_give(&control.quota, client->account, QUOTA_KEYS, 1);
}

void
key_withdraw(struct client *client, struct mem_region **entry)
{
	struct mem_region *old = *entry;

	if (old == NULL)
		return;
	*entry = NULL;
	mem_remove(engine_mem_table(), mem_key_of(old));
	key_free(client);
	entry_retire(client, old);
}

/* Call when no core can access the MR any more. */
void
mr_destroy(struct mr *mr)
{
	if (mr->mapping != NULL)
		mapping_free(mr->mapping, false);
	if (mr->renewable)
		mr_cache_forget(mr);
	drop_regions(mr);
	if (mr->pz != NULL)
		mr->pz->object.users--;
	object_free(mr);
}

void
mr_withdraw(struct mr *mr)
{
	key_withdraw(mr->object.client, &mr->entry);
}

/* ---- making ---- */

/* Returns 0, or the refusal. */
static int
check_piece(struct client *client, const struct one_mr_piece *piece, const struct region *region, bool last)
{
	if (region == NULL || region->joined != region->size || region->mapping->base == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_REGION, piece->region);
	if ((piece->offset & page_mask()) != 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, piece->offset);
	if (piece->length == 0 || piece->length > region->size ||
	    piece->offset > region->size - piece->length || (!last && (piece->length & page_mask()) != 0))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LENGTH, piece->length);
	return 0;
}

/* Checks the pieces, and takes a reference to the region of each piece before a wrong one; mr_destroy() drops
 * the references.  Returns 0, or the refusal. */
static int
take_pieces(struct mr *mr, const struct one_mr_create *args)
{
	struct client *client = mr->object.client;
	uint64_t covered = 0;

	if (args->num_pieces == 0)
		return 0;
	if (args->num_pieces > ONE_MR_PIECES)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, ONE_MR_PIECES);
	mr->region = calloc(args->num_pieces, sizeof(struct region *));
	if (mr->region == NULL)
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	for (uint32_t i = 0; i < args->num_pieces; i++) {
		const struct one_mr_piece *piece = &args->piece[i];
		struct region *region = object_get(client, OBJECT_REGION, piece->region);
		int error = check_piece(client, piece, region, i + 1 == args->num_pieces);

		/* mremap() cannot map large pages a second time.  Files of large pages are to be joined
		 * instead. */
		if (error == 0 && args->num_pieces > 1 && region->page > page_mask() + 1)
			error = client_refuse(client, -EOPNOTSUPP, ONE_SUBJECT_REGION, piece->region);
		if (error != 0)
			return error;
		region->object.users++;
		mr_cache_take(region);
		if ((args->flags & ONE_MR_FRESH) != 0)
			region->populated = region->populated_end = 0;
		mr->region[mr->num_regions++] = region;
		covered += piece->length; /* no overflow: at most ONE_MR_PIECES times the size of a mapping */
	}
	/* Refuse more than is needed, too: each piece is mapped a second time. */
	if (covered < mr->length + (mr->va & page_mask()) || covered > mr_pages(mr))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LENGTH, covered);
	return 0;
}

/* Maps several pieces at consecutive addresses: a second mapping of the same pages. */
static int
map_pieces(struct mr *mr, const struct one_mr_create *args)
{
	struct mapping *mapping;
	uint64_t at = 0;
	int error = mapping_new(mr->object.client, mr_pages(mr), args->num_pieces, &mr->mapping);

	if (error != 0)
		return error;
	mapping = mr->mapping;
	mapping->base =
		mmap(NULL, mapping->len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapping->base == MAP_FAILED) {
		mapping->len = 0;
		return client_refuse(mr->object.client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	for (uint32_t i = 0; i < args->num_pieces; i++) {
		uint64_t length = (args->piece[i].length + page_mask()) & ~page_mask();

		/* With old length 0, mremap() adds a mapping of the same shared pages. */
		if (mremap(mr->region[i]->mapping->base + args->piece[i].offset, 0, length,
			   MREMAP_MAYMOVE | MREMAP_FIXED, mapping->base + at) == MAP_FAILED)
			return client_refuse(mr->object.client, -errno, ONE_SUBJECT_MEMORY, 0);
		at += length;
	}
	error = mapping_guard(mapping);
	return error == 0 ? 0 : client_refuse(mr->object.client, error, ONE_SUBJECT_MEMORY, 0);
}

/* Allocates an entry; for a renewable MR, as part of a struct mem_renewable. */
struct mem_region *
mr_entry_new(const struct mr *mr)
{
	struct mem_renewable *renewable;

	if (!mr->renewable)
		return calloc(1, sizeof(struct mem_region));
	renewable = calloc(1, sizeof(*renewable));
	if (renewable == NULL)
		return NULL;
	renewable->none.pz = UINT32_MAX;
	renewable->none.renewable = renewable;
	renewable->holder = mr->object.client->engine;
	return &renewable->region;
}

static int
mr_publish(struct mr *mr, uint8_t *base, struct quota_limit *limit)
{
	struct mem_region *entry = mr_entry_new(mr);
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
		.va = mr->va + mr->shift,
		.shift = mr->shift,
		.length = mr->length,
		.base = base,
		.bounce = base == NULL ? mr->object.client->bounce : NULL,
		.owner = mr,
		.renewable = mr->renewable ? (struct mem_renewable *)entry : NULL,
	};
	mr->entry = entry;
	mem_publish(engine_mem_table(), entry);
	return 0;
}

static int
mr_finish(struct mr *mr, uint8_t *base)
{
	struct client *client = mr->object.client;
	struct quota_limit limit = {0};
	int error = mr_publish(mr, base, &limit);

	if (error != 0) {
		mr_destroy(mr);
		return error == -EDQUOT ? client_refuse_limit(client, &limit)
					: client_refuse(client, error, ONE_SUBJECT_MEMORY, 0);
	}
	for (uint32_t i = 0; i < mr->num_regions; i++)
		mr->region[i]->registered = true;
	mr->object.busy = false;
	client->reply.mr = (struct one_mr_created){
		.mr = mr->object.id,
		.lkey = mr->entry->key,
		.rkey = (mr->access &
			 (ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)) != 0
				? mr->entry->key
				: 0,
		.renewable = mr->renewable,
	};
	return 0;
}

/* Returns where mr->va is mapped. */
uint8_t *
mr_base(const struct mr *mr)
{
	const uint8_t *page =
		mr->mapping != NULL ? mr->mapping->base : mr->region[0]->mapping->base + mr->offset;

	return (uint8_t *)(uintptr_t)page + (mr->va & page_mask());
}

/* True if the region's record shows that all pages were populated before: memory that is registered
 * repeatedly is not walked each time.  If the owner has removed a page since, an access meets the guard, as
 * it does for a page removed later. */
static bool
is_populated(const struct mr *mr)
{
	const struct region *region = mr->region[0];

	return mr->mapping == NULL && mr->offset >= region->populated &&
	       mr->offset + mr_pages(mr) <= region->populated_end;
}

static void
note_populated(const struct mr *mr)
{
	struct region *region = mr->region[0];
	uint64_t end = mr->offset + mr_pages(mr);

	if (mr->mapping != NULL || !region->sealed)
		return;
	/* The record is one range.  If this range does not adjoin, the larger of the two is recorded. */
	if (mr->offset > region->populated_end || end < region->populated) {
		if (end - mr->offset < region->populated_end - region->populated)
			return;
		region->populated = mr->offset;
		region->populated_end = end;
	}
	if (mr->offset < region->populated)
		region->populated = mr->offset;
	if (end > region->populated_end)
		region->populated_end = end;
}

static int
populated(struct mr *mr, int error, uint64_t done)
{
	struct client *client = mr->object.client;
	uint64_t hole = (mr->va & ~page_mask()) + done;

	if (error == 0) {
		note_populated(mr);
		return mr_finish(mr, mr_base(mr));
	}
	if (error == -EFAULT)
		log_of_user(
			client->uid, info,
			"event=registration_refused pid=%d program=\"%s\" uid=%u length=0x%llx address=0x%llx hole=0x%llx text=\"its file has no page there\" remedy=\"it has to populate them (MADV_POPULATE_WRITE, fallocate)\"\n",
			(int)client->pid, client->program, client->uid, (unsigned long long)mr->length,
			(unsigned long long)mr->va, (unsigned long long)hole);
	mr_destroy(mr);
	return client_refuse(client, error, error == -EFAULT ? ONE_SUBJECT_ADDRESS : ONE_SUBJECT_MEMORY,
			     error == -EFAULT ? hole : 0);
}

static void
populate_done(struct job *job, int error)
{
	struct populate *populate = (struct populate *)job;
	struct client *client = job->client;

	client_reply(client, populated(populate->object, error, populate->done));
	free(populate);
}

/* Populates the MR, so that no core takes a page fault at its first access.  Memory with a hole is refused.
 */
static int
mr_populate(struct mr *mr)
{
	uint64_t len = mr_pages(mr);
	struct populate *populate;
	int result;

	if (is_populated(mr))
		return mr_finish(mr, mr_base(mr));
	populate = calloc(1, sizeof(*populate));
	if (populate == NULL)
		return populated(mr, -ENOMEM, 0);
	*populate = (struct populate){
		.job = {.step = mapping_populate_step,
			.done = populate_done,
			.client = mr->object.client,
			.cancelable = true},
		.base = (uint8_t *)((uintptr_t)mr_base(mr) & ~page_mask()),
		.len = len,
		.object = mr,
	};
	if (len > POPULATE_AT_ONCE) {
		job_start(&populate->job);
		return REQUEST_LATER;
	}
	do
		result = mapping_populate_step(&populate->job);
	while (result > 0);
	result = populated(mr, result, populate->done);
	free(populate);
	return result;
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
	mr->uid = client->sender.uid;
	mr->gid = client->sender.gid;
	LIST_INIT(&mr->windows);
	return mr;
}

/* True if offsets within a page are unchanged, so that aligned words stay aligned, or the addresses begin at
 * 0. */
static bool
shift_is_right(const struct one_mr_create *args)
{
	uint64_t iova = args->va + args->shift;

	return iova + args->length - 1 >= iova && ((args->shift & page_mask()) == 0 || iova == 0);
}

int
mr_create(struct client *client, const struct one_msg *msg)
{
	const struct one_mr_create *args = &msg->mr_create;
	struct pz *pz = object_get(client, OBJECT_PZ, args->pz);
	struct mr *mr;
	int error;

	if (pz == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, args->pz);
	if ((args->access & ~ONE_ACCESS_ALL) != 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ACCESS, args->access);
	if (args->length == 0 || args->length > INT64_MAX || args->va + args->length - 1 < args->va ||
	    args->length > control.config->limits.max_mr_bytes)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LENGTH,
				     control.config->limits.max_mr_bytes);
	if (!shift_is_right(args))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, args->va + args->shift);
	if (args->num_pieces == 0 && client->bounce == NULL)
		return client_refuse(client, -EOPNOTSUPP, ONE_SUBJECT_MEMORY, 0);
	mr = mr_new(client, pz, args->va, args->length, args->access);
	if (mr == NULL)
		return client_awaits_room(client) ? REQUEST_AGAIN : object_refuse_new(client, OBJECT_MR);
	mr->shift = args->shift;
	error = take_pieces(mr, args);
	if (error == 0 && args->num_pieces > 1)
		error = map_pieces(mr, args);
	if (error != 0) {
		mr_destroy(mr);
		return error;
	}
	if (args->num_pieces == 0)
		return mr_finish(mr, NULL);
	if (args->num_pieces == 1) {
		mr->offset = args->piece[0].offset;
		mr->renewable = (args->flags & ONE_MR_RENEWABLE) != 0;
		if (mr->renewable)
			mr_cache_watch(mr);
	}
	return mr_populate(mr);
}

/* Addresses of staging memory are offsets in the arena.  The MR lives as long as the attachment. */
static struct mr *
mr_staging(struct client *client, struct pz *pz, uint64_t offset, uint64_t size)
{
	struct mr *mr = mr_new(client, pz, offset, size, ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE);
	struct quota_limit limit;

	if (mr == NULL)
		return NULL;
	if (mr_publish(mr, client->arena.base + offset, &limit) != 0) {
		mr_destroy(mr);
		return NULL;
	}
	return mr; /* stays busy: the application has no id for the MR */
}

bool
mr_settle(struct mr *mr)
{
	struct mem_region *old = mr->entry, *entry;

	if (old->renewable == NULL)
		return true;
	entry = calloc(1, sizeof(*entry));
	if (entry == NULL || !mem_settle(engine_mem_table(), old->renewable, entry)) {
		free(entry);
		return false;
	}
	mr->entry = entry;
	entry_retire(mr->object.client, old);
	return true;
}

/* ---- freeing ---- */

void
mr_release(struct mr *mr)
{
	struct client *client = mr->object.client;
	struct mapping *mapping = mr->mapping;

	mr->mapping = NULL;
	mr_destroy(mr);
	if (mapping != NULL)
		mapping_free(mapping, true);
	else
		client_reply(client, 0);
}

/* Returns an MR without windows and segments; NULL: refused with *error. */
static struct mr *
mr_alone(struct client *client, uint32_t id, int *error)
{
	struct mr *mr = object_get(client, OBJECT_MR, id);

	if (mr == NULL) {
		*error = client_refuse(client, -EINVAL, ONE_SUBJECT_MR, id);
		return NULL;
	}
	mw_unbind_lost(mr);
	if (!LIST_EMPTY(&mr->windows))
		*error = client_refuse(client, -EBUSY, ONE_SUBJECT_MW, LIST_FIRST(&mr->windows)->object.id);
	else if (mr->object.users != 0)
		*error = client_refuse(client, -EBUSY, ONE_SUBJECT_SEGMENT, mr->object.users);
	else
		return mr;
	return NULL;
}

static void
publish_as(struct mr *mr, struct mem_region *entry, uint32_t key)
{
	struct mem_region *old = mr->entry;

	*entry = *old;
	entry->key = key;
	mr->entry = entry;
	mem_publish(engine_mem_table(), entry);
	entry_retire(mr->object.client, old);
}

/* A core that uses one of the keys meanwhile finds one of the two MRs under the key, never a mixture. */
int
mr_swap(struct client *client, const struct one_msg *msg)
{
	int error = 0;
	struct mr *one = mr_alone(client, msg->mr_swap.mr, &error), *other = NULL;
	struct mem_region *entries[2];
	uint32_t key;

	if (one != NULL)
		other = mr_alone(client, msg->mr_swap.other, &error);
	if (other == NULL)
		return error;
	if (one == other || !mr_settle(one))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_MR, msg->mr_swap.mr);
	if (!mr_settle(other))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_MR, msg->mr_swap.other);
	entries[0] = calloc(1, sizeof(*entries[0]));
	entries[1] = calloc(1, sizeof(*entries[1]));
	if (entries[0] == NULL || entries[1] == NULL) {
		free(entries[0]);
		free(entries[1]);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	key = one->entry->key;
	publish_as(one, entries[0], other->entry->key);
	publish_as(other, entries[1], key);
	return 0;
}

int
mr_free(struct client *client, const struct one_msg *msg)
{
	int error = 0;

	return mr_alone(client, msg->id.id, &error) == NULL ? error : object_free_request(client, msg);
}

/* ---- staging memory: a part of the arena that the library copies through ---- */

int
staging_create(struct client *client, const struct one_msg *msg)
{
	const struct one_staging *args = &msg->staging;
	struct pz *pz = object_get(client, OBJECT_PZ, args->pz);
	uint64_t offset, size = arena_rounded(args->size);
	struct mr *mr;
	int error;

	if (pz == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, args->pz);
	if (args->size == 0 || args->size > STAGING_ONCE || client->staged + size > STAGING_MAX)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LENGTH,
				     args->size > STAGING_ONCE ? STAGING_ONCE : STAGING_MAX);
	error = client_alloc(client, size, &offset);
	if (error != 0)
		return error;
	mr = mr_staging(client, pz, offset, size);
	if (mr == NULL) {
		client_free(client, offset, size);
		return object_refuse_new(client, OBJECT_MR);
	}
	client->staged += size;
	client->reply.staged = (struct one_staged){
		.offset = offset,
		.size = size,
		.lkey = mr->entry->key,
	};
	return 0;
}
