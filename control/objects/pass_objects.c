/* SPDX-License-Identifier: BSD-3-Clause */
/* Zones, memory and its keys, completion queues, channels and shared receive queues. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/objects/pass.h"

#define VALUE(of, member) RECORD_FIELD(of, member, RECORD_VALUE, 0, NULL)
#define FLAG(of, member) RECORD_FIELD(of, member, RECORD_VALUE, 2, NULL)
#define OBJECT(of, member, kind) RECORD_FIELD(of, member, RECORD_NAME, 0, &pass_object[OBJECT_##kind])

static const struct record_field pz_fields[] = {VALUE(pz, number)};
static RECORD_FORM(pz_form, RECORD_PZ, 1, pz_fields);

static const struct record_field region_fields[] = {
	VALUE(region, size),      VALUE(region, page),      VALUE(region, joined),
	FLAG(region, sealed),     VALUE(region, populated), VALUE(region, populated_end),
	FLAG(region, registered),
};
static RECORD_FORM(region_form, RECORD_REGION, 1, region_fields);

static const struct record_field mr_fields[] = {
	OBJECT(mr, pz, PZ),
	VALUE(mr, va),
	VALUE(mr, length),
	VALUE(mr, shift),
	RECORD_FIELD(mr, access, RECORD_VALUE, ONE_ACCESS_ALL + 1, NULL),
	VALUE(mr, uid),
	VALUE(mr, gid),
	VALUE(mr, offset),
	FLAG(mr, renewable),
	FLAG(mr, object.busy), /* staging memory, which the application has no id of */
};
static RECORD_FORM(mr_form, RECORD_MR, 1, mr_fields);

static const struct record_field copy_fields[] = {VALUE(mr, copy_at)};
static RECORD_FORM(copy_form, RECORD_MR_COPY, 1, copy_fields); /* of an MR with copy_at */

static const struct record_field mw_fields[] = {OBJECT(mw, pz, PZ), OBJECT(mw, mr, MR)};
static RECORD_FORM(mw_form, RECORD_MW, 1, mw_fields);

/* A key: the entry, and how the table has it. */
struct key {
	struct mem_region entry;
	bool renewable; /* its application may revoke and renew it */
	bool revoked;   /* the application has, or a peer has invalidated the window */
};
static const struct record_field key_fields[] = {
	VALUE(key, entry.key),   RECORD_FIELD(key, entry.access, RECORD_VALUE, ONE_ACCESS_ALL + 1, NULL),
	VALUE(key, entry.qpn),   VALUE(key, entry.va),
	VALUE(key, entry.shift), VALUE(key, entry.length),
	FLAG(key, entry.window), FLAG(key, renewable),
	FLAG(key, revoked),
};
static RECORD_FORM(key_form, RECORD_KEY, 1, key_fields);

static const struct record_field cq_fields[] = {
	VALUE(cq, bundle),
	RECORD_FIELD(cq, num_rings, RECORD_VALUE, ONE_LANES_MAX + 1, NULL),
	RECORD_FIELD(cq, entries, RECORD_VALUE, ONE_RING_LOG2_MAX + 1, NULL),
	VALUE(cq, vector),
};
static RECORD_FORM(cq_form, RECORD_CQ, 1, cq_fields);

static const struct record_field ring_fields[] = {
	RECORD_FIELD(cq_ring, lane, RECORD_NAME, 0, &pass_lane),
	VALUE(cq_ring, offset),
	RECORD_FIELD(cq_ring, log2, RECORD_VALUE, ONE_RING_LOG2_MAX + 1, NULL),
};
static RECORD_FORM(ring_form, RECORD_CQ_RING, 1, ring_fields);

static const struct record_field old_fields[] = {
	VALUE(old_ring, offset),
	RECORD_FIELD(old_ring, log2, RECORD_VALUE, ONE_RING_LOG2_MAX + 1, NULL),
};
static RECORD_FORM(old_form, RECORD_CQ_OLD, 1, old_fields);

static const struct record_field srq_fields[] = {
	OBJECT(srq, pz, PZ),   VALUE(srq, max_wr),
	VALUE(srq, shm),       VALUE(srq, ring),
	VALUE(srq, ring_size), RECORD_FIELD(srq, lanes, RECORD_VALUE, ONE_LANES_MAX + 1, NULL),
};
static RECORD_FORM(srq_form, RECORD_SRQ, 2, srq_fields);

/* Calls `write` for each object of a kind. */
static void
write_all(struct client *client, enum object_kind kind, struct pass_out *out,
	  void (*write)(void *object, struct pass_out *out))
{
	const struct table *table = &client->table[kind];

	for (uint32_t i = 0; i < table->size; i++)
		if (table_at(table, i) != NULL)
			write(table_at(table, i), out);
}

/* Makes an object of the next record's id; NULL: refused. */
static void *
new_object(struct client *client, enum object_kind kind, size_t size, struct pass_in *in)
{
	uint64_t id = in->record.head.id;
	struct object *object = id <= UINT32_MAX ? object_new_as(client, kind, size, (uint32_t)id) : NULL;

	if (object == NULL)
		pass_refuse(in, "object %#llx: its id is taken, or its user is over a limit",
			    (unsigned long long)id);
	else
		object->busy = false;
	return object;
}

/* ---- zones ---- */

static void
pz_write(void *object, struct pass_out *out)
{
	struct pz *pz = object;

	record_put(&out->records, &pz_form, pz->object.id, pz, &out->context);
}

void
zones_write(struct client *client, struct pass_out *out)
{
	write_all(client, OBJECT_PZ, out, pz_write);
}

static int
pz_read(struct client *client, struct pass_in *in)
{
	struct pz *pz = new_object(client, OBJECT_PZ, sizeof(*pz), in);
	struct quota_limit limit;
	uint64_t id;

	if (pz == NULL || pass_get(in, &pz_form, pz, &id) != 0)
		return -EINVAL;
	if (quota_take(&control.quota, client->account, QUOTA_ZONES, 1, &limit) != 0 ||
	    table_put(&control.pz_numbers, pz->number, pz) != 0)
		return pass_refuse(in, "zone number %#x is taken, or a limit is too low", pz->number);
	return 0;
}

int
zones_read(struct client *client, struct pass_in *in)
{
	return pass_each(client, in, RECORD_PZ, pz_read);
}

/* ---- memory ---- */

/*
 * The file of an RSM segment that importers map for reading only is sealed: nobody can map it for writing any
 * more.  It crosses without pieces.  The new process keeps it for importers, and has the exporter's copy
 * thread move the memory, under addresses that the exporter has named (copy_at).
 */
struct region_place {
	uint64_t phase, cached;
	uint64_t fd; /* of the file, for importers; 0: none */
};

static bool
is_sealed(const struct region *region)
{
	int fd = region->mapping->fd;

	return fd >= 0 && (fcntl(fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE) != 0;
}

static void
region_write(void *object, struct pass_out *out)
{
	struct region *region = object;
	struct region_place *place;
	int fd = region->mapping->fd;

	record_put(&out->records, &region_form, region->object.id, region, &out->context);
	place = record_append(&out->records, RECORD_REGION_PLACE, 1, region->object.id, sizeof(*place));
	if (place == NULL)
		return;
	*place = (struct region_place){(uintptr_t)region->mapping->base % ONE_REGION_PAGE_MAX, region->cached,
				       pass_fd(out, fd)};
	if (is_sealed(region))
		return;
	if (fd >= 0)
		pass_file(out, fd, region->size);
	else if (region->joined == region->size)
		pass_pieces(out, region->mapping->base, region->size);
	else if (region->unjoined != 0)
		pass_fail(out, "memory is being joined; try again");
}

/* Maps what follows, with the charges of mapping_new(). */
static int
map_memory(struct client *client, struct pass_in *in, uint64_t len, uint64_t phase, struct mapping **out)
{
	uint32_t count;
	uint8_t *base = pass_map_pieces(in, len, phase, &count);

	if (base == NULL)
		return -EINVAL;
	if (count == 0 || mapping_new(client, len, count, out) != 0)
		return pass_refuse(in, "memory of user %u exceeds a limit; raise it", client->uid);
	(*out)->base = base;
	if (mapping_guard(*out) != 0)
		return pass_refuse(in, "memory of an application cannot be guarded");
	return 0;
}

/* Checks the file as region_add() does. */
static int
mappable_read(const struct region *region, uint64_t number, struct pass_in *in)
{
	int fd = pass_take_fd(in, number);
	uint64_t page;

	if (region->object.client->kind != ONE_KIND_RSM || fd < 0 ||
	    region_check(fd, region->size, true, &page) != 0)
		pass_refuse(in, "region %#x has a file that importers cannot map", region->object.id);
	else if (!mapping_store_fd(region->mapping, fd))
		pass_refuse(in, "more files for importers than LimitNOFILE allows; raise it");
	else
		return 0;
	if (fd >= 0)
		close(fd);
	return -EINVAL;
}

static int
region_read(struct client *client, struct pass_in *in)
{
	struct region *region = new_object(client, OBJECT_REGION, sizeof(*region), in);
	struct region_place place;
	struct record record;
	uint64_t id;

	if (region == NULL || pass_get(in, &region_form, region, &id) != 0 ||
	    pass_take(in, RECORD_REGION_PLACE, &record) != 0)
		return -EINVAL;
	if (record.head.version != 1 || record.head.length != sizeof(place) ||
	    (region->joined != 0 && region->joined != region->size) || region->populated_end > region->size)
		return pass_refuse(in, "region %#x is not valid", region->object.id);
	memcpy(&place, record.bytes, sizeof(place));
	if (region->joined == 0)
		return pass_refuse(in, "region %#x has no memory", region->object.id);
	if (place.fd != 0 && !pass_is(in, RECORD_PIECE)) {
		if (mapping_new(client, region->size, 1, &region->mapping) != 0)
			return pass_refuse(in, "memory of user %u exceeds a limit; raise it", client->uid);
		region->mapping->len = 0;
	} else if (map_memory(client, in, region->size, place.phase % ONE_REGION_PAGE_MAX,
			      &region->mapping) != 0) {
		return -EINVAL;
	}
	if (place.fd != 0 && mappable_read(region, place.fd, in) != 0)
		return -EINVAL;
	if (place.cached != 0)
		mr_cache_put(region);
	return 0;
}

static bool
mr_is_sealed(const struct mr *mr)
{
	for (uint32_t i = 0; i < mr->num_regions; i++)
		if (is_sealed(mr->region[i]))
			return true;
	return false;
}

/* Writes the key of an MR, or of a window of it (`mr` NULL: of none). */
static void
key_write(const struct mem_region *entry, const struct mr *mr, struct pass_out *out)
{
	struct key key = {.entry = *entry,
			  .renewable = entry->renewable != NULL,
			  .revoked = mem_lookup(engine_mem_table(), entry->key) != entry};

	if (mr != NULL && mr->copy_at != 0 && entry->base != NULL && mr_is_sealed(mr))
		key.entry.shift += mr->va - mr->copy_at;
	record_put(&out->records, &key_form, entry->key, &key, &out->context);
}

static int
key_read(struct client *client, struct pass_in *in, struct key *key)
{
	struct quota_limit limit;
	uint64_t id;

	memset(key, 0, sizeof(*key));
	if (pass_get(in, &key_form, key, &id) != 0)
		return -EINVAL;
	if (key->entry.key == 0 || key->entry.length > INT64_MAX ||
	    !mem_slot_is_free(engine_mem_table(), key->entry.key) ||
	    quota_take(&control.quota, client->account, QUOTA_KEYS, 1, &limit) != 0)
		return pass_refuse(in, "key %#x is taken or not valid, or a limit is too low",
				   key->entry.key);
	return 0;
}

static void
mr_write(void *object, struct pass_out *out)
{
	struct mr *mr = object;
	const struct client *client = mr->object.client;

	if (mr->entry == NULL) {
		pass_fail(out, "memory is being revoked; try again");
		return;
	}
	if (mr_is_sealed(mr) && (mr->copy_at == 0 || mr->num_regions != 1)) {
		pass_fail(
			out,
			"an importer maps an RSM segment of %s (pid %d) for reading, so its file is sealed, and the program's library cannot copy it (an older version, process_memory = no, or a sandbox); unpublish the segment, or end the program",
			client->program, (int)client->pid);
		return;
	}
	record_put(&out->records, &mr_form, mr->object.id, mr, &out->context);
	if (mr->copy_at != 0)
		record_put(&out->records, &copy_form, mr->object.id, mr, &out->context);
	for (uint32_t i = 0; i < mr->num_regions; i++)
		record_append(&out->records, RECORD_MR_REGION, 1, mr->region[i]->object.id, 0);
	if (mr->mapping != NULL)
		pass_pieces(out, mr->mapping->base, mr->mapping->len);
	key_write(mr->entry, mr, out);
}

static int
mr_regions_read(struct mr *mr, struct pass_in *in)
{
	struct record record;

	for (; pass_is(in, RECORD_MR_REGION); mr->num_regions++) {
		struct region **grown = realloc(mr->region, (mr->num_regions + 1) * sizeof(struct region *)),
			      *region;

		pass_take(in, RECORD_MR_REGION, &record);
		region = object_get(mr->object.client, OBJECT_REGION, (uint32_t)record.head.id);
		if (grown == NULL || region == NULL || mr->num_regions == ONE_MR_PIECES)
			return pass_refuse(in, "memory %#x names region %#llx, which is not there",
					   mr->object.id, (unsigned long long)record.head.id);
		mr->region = grown;
		mr->region[mr->num_regions] = region;
		region->object.users++;
		mr_cache_take(region);
	}
	return 0;
}

/* Checks the bounds of MR_CREATE again. */
static bool
mr_is_valid(const struct mr *mr)
{
	const struct client *client = mr->object.client;
	uint64_t iova = mr->va + mr->shift;

	if (mr->pz == NULL || mr->length == 0 || mr->length > INT64_MAX || mr->va + mr->length - 1 < mr->va ||
	    iova + mr->length - 1 < iova)
		return false;
	if (mr->object.busy)
		return mr->num_regions == 0 && mr->length <= client->arena.size &&
		       mr->va <= client->arena.size - mr->length;
	if (mr->num_regions == 0)
		return client->bounce != NULL;
	for (uint32_t i = 0; i < mr->num_regions; i++)
		if (mr->region[i]->mapping->base == NULL &&
		    (mr->num_regions > 1 || mr->copy_at == 0 || client->bounce == NULL))
			return false;
	if (mr->num_regions > 1)
		return true;
	return mr->region[0]->joined == mr->region[0]->size && mr_pages(mr) <= mr->region[0]->size &&
	       mr->offset <= mr->region[0]->size - mr_pages(mr);
}

static uint8_t *
address_of(const struct mr *mr)
{
	if (mr->object.busy)
		return mr->object.client->arena.base + mr->va;
	return mr->num_regions == 0 || mr->region[0]->mapping->base == NULL ? NULL : mr_base(mr);
}

static int
mr_key_read(struct mr *mr, struct pass_in *in)
{
	struct client *client = mr->object.client;
	bool renewable = mr->renewable;
	struct mem_region *entry;
	struct key key;

	if (key_read(client, in, &key) != 0)
		return -EINVAL;
	mr->renewable = key.renewable; /* chooses the form of the entry */
	entry = mr_entry_new(mr);
	mr->renewable = renewable;
	if (entry == NULL)
		return pass_refuse(in, "no memory");
	*entry = (struct mem_region){
		.key = key.entry.key,
		.pz = mr->pz->number,
		.access = mr->access,
		.va = mr->va + mr->shift,
		.shift = mr->shift,
		.length = mr->length,
		.base = address_of(mr),
		.owner = mr,
		.renewable = key.renewable ? (struct mem_renewable *)entry : NULL,
	};
	if (entry->base == NULL)
		entry->bounce = client->bounce;
	if (entry->base == NULL && mr->num_regions != 0)
		entry->shift += mr->va - mr->copy_at;
	mr->entry = entry;
	mem_publish(engine_mem_table(), entry);
	if (key.revoked && !mem_revoke(engine_mem_table(), client->engine, entry->key))
		return pass_refuse(in, "key %#x is revoked, and is not renewable", entry->key);
	return 0;
}

static int
mr_read(struct client *client, struct pass_in *in)
{
	struct mr *mr = new_object(client, OBJECT_MR, sizeof(*mr), in);
	uint64_t id;

	if (mr == NULL || pass_get(in, &mr_form, mr, &id) != 0 ||
	    (pass_is(in, RECORD_MR_COPY) && pass_get(in, &copy_form, mr, &id) != 0) ||
	    mr_regions_read(mr, in) != 0)
		return -EINVAL;
	LIST_INIT(&mr->windows);
	if (!mr_is_valid(mr) || (mr->renewable && mr->num_regions != 1))
		return pass_refuse(in, "memory %#x exceeds its region", mr->object.id);
	mr->pz->object.users++;
	if (mr->num_regions > 1 && map_memory(client, in, mr_pages(mr), 0, &mr->mapping) != 0)
		return -EINVAL;
	if (mr->renewable)
		mr_cache_watch(mr);
	return mr_key_read(mr, in);
}

static void
mw_write(void *object, struct pass_out *out)
{
	struct mw *mw = object;

	record_put(&out->records, &mw_form, mw->object.id, mw, &out->context);
	key_write(mw->entry, mw->mr, out);
}

/* The window covers a part of its MR, by the addresses of the application. */
static int
cover_range(struct mem_region *entry, const struct mr *mr, struct pass_in *in)
{
	const struct mem_region *all = mr->entry;
	uint64_t addr = entry->va - entry->shift + all->shift;

	if (!mem_covers(all, addr, entry->length))
		return pass_refuse(in, "window key %#x exceeds its memory", entry->key);
	entry->base = all->base == NULL ? NULL : all->base + (addr - all->va);
	entry->bounce = all->bounce;
	return 0;
}

static int
mw_read(struct client *client, struct pass_in *in)
{
	struct mw *mw = new_object(client, OBJECT_MW, sizeof(*mw), in);
	struct mem_region *entry = calloc(1, sizeof(*entry));
	struct key key;
	uint64_t id;

	if (mw == NULL || entry == NULL || pass_get(in, &mw_form, mw, &id) != 0 || mw->pz == NULL ||
	    key_read(client, in, &key) != 0)
		return pass_refuse(in, "a window is not valid");
	mw->pz->object.users++;
	*entry = key.entry;
	entry->pz = mw->pz->number;
	entry->owner = mw;
	if (mw->mr == NULL) /* grants nothing: there is no memory */
		entry->access = entry->length = 0;
	else if (mw->mr->pz != mw->pz || cover_range(entry, mw->mr, in) != 0)
		return pass_refuse(in, "window %#x is of another zone than its memory", mw->object.id);
	else
		LIST_INSERT_HEAD(&mw->mr->windows, mw, mr_link);
	mw_publish(mw, entry);
	if (key.revoked && !mem_invalidate(engine_mem_table(), entry->key, entry->pz, entry->qpn))
		return pass_refuse(in, "window key %#x is revoked, and peers may not invalidate it",
				   entry->key);
	return 0;
}

void
memory_write(struct client *client, struct pass_out *out)
{
	write_all(client, OBJECT_REGION, out, region_write);
	write_all(client, OBJECT_MR, out, mr_write);
	write_all(client, OBJECT_MW, out, mw_write);
}

static void
populate_done(struct job *job, int error)
{
	free(job);
}

static void
populate(struct mapping *mapping)
{
	struct populate *populate = calloc(1, sizeof(*populate));

	if (populate == NULL)
		return;
	*populate = (struct populate){
		.job = {.step = mapping_populate_step,
			.done = populate_done,
			.client = mapping->job.client,
			.cancelable = true},
		.base = mapping->base,
		.len = mapping->len,
		.gently = true,
	};
	job_start(&populate->job);
}

void
memory_populate(struct client *client)
{
	const struct table *table = &client->table[OBJECT_REGION];

	for (uint32_t i = 0; i < table->size; i++) {
		struct region *region = table_at(table, i);

		if (region != NULL && region->mapping->base != NULL)
			populate(region->mapping);
	}
}

int
memory_read(struct client *client, struct pass_in *in)
{
	int error = pass_each(client, in, RECORD_REGION, region_read);

	if (error == 0)
		error = pass_each(client, in, RECORD_MR, mr_read);
	return error != 0 ? error : pass_each(client, in, RECORD_MW, mw_read);
}

/* ---- completion queues ---- */

static void
cq_write(void *object, struct pass_out *out)
{
	struct cq *cq = object;
	int last = engine_cq_last_report(cq->first.engine);

	record_put(&out->records, &cq_form, cq->object.id, cq, &out->context);
	for (uint32_t i = 0; i < cq->num_rings; i++) {
		const struct cq_ring *ring = cq_ring_at(cq, i);

		record_put(&out->records, &ring_form, i, ring, &out->context);
		engine_cq_write(ring->engine, &out->records);
	}
	for (const struct old_ring *old = cq->old; old != NULL; old = old->next)
		record_put(&out->records, &old_form, 0, old, &out->context);
	if (last >= 0)
		record_append(&out->records, RECORD_CQ_REPORT, 1, (uint64_t)last, 0);
}

void
cqs_write(struct client *client, struct pass_out *out)
{
	write_all(client, OBJECT_CQ, out, cq_write);
}

static int
ring_read(struct cq *cq, uint32_t number, struct pass_in *in)
{
	struct cq_ring *ring = cq_ring_at(cq, number);
	const struct client *client = cq->object.client;
	struct engine_cq_config config = {.id = cq->object.id,
					  .bundle = cq->bundle,
					  .number = number,
					  .first = number == 0 ? NULL : cq->first.engine,
					  .resumes = true};
	struct record record;
	uint64_t id;

	if (pass_get(in, &ring_form, ring, &id) != 0 || id != number || ring->lane == NULL ||
	    pass_take(in, RECORD_CQ_CORE, &record) != 0)
		return pass_refuse(in, "ring %u of queue %#x is not valid", number, cq->object.id);
	if (number == 0 ? ring->lane != client->engine : cq_engine(cq, ring->lane) != NULL)
		return pass_refuse(in, "ring %u of queue %#x is on a wrong core", number, cq->object.id);
	config.offset = ring->offset;
	config.log2 = ring->log2;
	config.async_cq = client->async_cq == cq ? NULL : cq_engine(client->async_cq, ring->lane);
	ring->engine = engine_cq_new(ring->lane, &config);
	if (ring->engine == NULL || engine_cq_read(ring->engine, &record) != 0)
		return pass_refuse(in, "ring %u of queue %#x exceeds the arena", number, cq->object.id);
	return 0;
}

static int
old_read(struct cq *cq, struct old_ring **end, struct pass_in *in)
{
	struct old_ring *old = calloc(1, sizeof(*old));
	uint64_t id;

	if (old == NULL || pass_get(in, &old_form, old, &id) != 0)
		return -EINVAL;
	if (old->offset > ONE_ARENA_SIZE || cq_ring_size(old->log2) > ONE_ARENA_SIZE - old->offset)
		return pass_refuse(in, "an old ring of queue %#x exceeds the arena", cq->object.id);
	*end = old;
	cq->num_old++;
	return 0;
}

static int
rings_read(struct cq *cq, struct pass_in *in)
{
	struct old_ring **end = &cq->old;
	uint32_t num = cq->num_rings;
	struct record record;
	int error = 0;

	cq->more = num > 1 ? calloc(num - 1, sizeof(*cq->more)) : NULL;
	if (num == 0 || (num > 1 && cq->more == NULL))
		return pass_refuse(in, "queue %#x has no ring, or no memory", cq->object.id);
	cq->num_rings = 0;
	for (; cq->num_rings < num && error == 0; cq->num_rings += error == 0)
		error = ring_read(cq, cq->num_rings, in);
	for (; error == 0 && pass_is(in, RECORD_CQ_OLD); end = &(*end)->next)
		error = old_read(cq, end, in);
	if (error != 0 || !pass_is(in, RECORD_CQ_REPORT))
		return error;
	pass_take(in, RECORD_CQ_REPORT, &record);
	if (record.head.id >= num)
		return pass_refuse(in, "queue %#x has no ring %llu", cq->object.id,
				   (unsigned long long)record.head.id);
	engine_cq_set_last_report(cq->first.engine, cq_ring_at(cq, (uint32_t)record.head.id)->engine);
	return 0;
}

static int
cq_read(struct client *client, struct pass_in *in)
{
	struct cq *cq = new_object(client, OBJECT_CQ, sizeof(*cq), in);
	uint64_t id;

	if (cq == NULL || pass_get(in, &cq_form, cq, &id) != 0)
		return -EINVAL;
	if (client->async_cq == NULL) /* made first, and never freed */
		client->async_cq = cq;
	return rings_read(cq, in);
}

int
cqs_read(struct client *client, struct pass_in *in)
{
	int error = pass_each(client, in, RECORD_CQ, cq_read);

	return error != 0 || client->async_cq != NULL ? error : pass_refuse(in, "an attachment has no queue");
}

/* ---- channels and shared receive queues ---- */

static void
write_channel(void *object, struct pass_out *out)
{
	channel_write(object, out);
}

void
channels_write(struct client *client, struct pass_out *out)
{
	write_all(client, OBJECT_CHANNEL, out, write_channel);
}

int
channels_read(struct client *client, struct pass_in *in)
{
	return pass_each(client, in, RECORD_CHANNEL, channel_read);
}

static void
srq_write(void *object, struct pass_out *out)
{
	struct srq *srq = object;

	record_put(&out->records, &srq_form, srq->object.id, srq, &out->context);
	engine_srq_write(srq->engine, &out->records);
}

void
srqs_write(struct client *client, struct pass_out *out)
{
	write_all(client, OBJECT_SRQ, out, srq_write);
}

static struct engine_srq *
make_srq(const struct srq *srq)
{
	struct client *client = srq->object.client;
	struct engine_srq_config config = {.id = srq->object.id,
					   .shm = srq->shm,
					   .rq = srq->ring,
					   .lanes = srq->lanes,
					   .async_cq = cq_engine(client->async_cq, client->engine)};

	while (config.log2 <= ONE_RING_LOG2_MAX && sizeof(struct one_wqe) << config.log2 != srq->ring_size)
		config.log2++;
	return engine_srq_new(client->engine, &config);
}

static int
srq_read(struct client *client, struct pass_in *in)
{
	struct srq *srq = new_object(client, OBJECT_SRQ, sizeof(*srq), in);
	struct record record;
	uint64_t id;
	int error;

	if (srq == NULL || pass_get(in, &srq_form, srq, &id) != 0 || srq->pz == NULL)
		return pass_refuse(in, "a shared receive queue is not valid");
	srq->pz->object.users++;
	srq->engine = make_srq(srq);
	error = srq->engine == NULL ? -EINVAL : pass_take(in, RECORD_SRQ_CORE, &record);
	if (error == 0)
		error = engine_srq_read(srq->engine, &record);
	return error == 0 ? 0 : pass_refuse(in, "shared receive queue %#x is not valid", srq->object.id);
}

int
srqs_read(struct client *client, struct pass_in *in)
{
	return pass_each(client, in, RECORD_SRQ, srq_read);
}
