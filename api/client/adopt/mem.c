/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations, and the regions of each attachment.
 *
 * A registration (struct mem_use) holds ranges, which keep its pages adopted, and regions, which are the
 * files as the data plane knows them. Deregistering frees the data plane's side first: after its answer to
 * MR_FREE nothing is stored any more, and only then are pages given back. If the one range of a registration
 * may be cached (range_cache.h), the polling core alone revokes the key and later renews it, with another key
 * each time; in between the registration is cached (mr_cache.h).
 *
 * The data plane never allocates pages, which would be charged to it. Adopted pages are always present. Pages
 * of the application's own shared files that the data plane reports missing are populated here, under this
 * process's limits.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/copier.h"
#include "client/explain.h"
#include "segments.h"
#include "ranges.h"
#include "transplant.h"

#define WRITES (ONE_ACCESS_LOCAL_WRITE | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)

struct region {
	struct region *next; /* of the file; unused in a joined region, which has no file */
	struct one_client *client;
	uint32_t id;
	uint32_t refs; /* pieces of registrations */
	uint64_t size;
};

struct mem_use {
	struct cached_mr cached;      /* first, for casts; the arguments */
	struct mem_use *next, **link; /* list of the client */
	uint32_t mr;                  /* 0: not registered with the data plane yet */
	uint32_t lkey;                /* if revoked: the last one */
	bool remote;                  /* there is an rkey, equal to lkey */
	bool renewable;
	struct copied copied; /* what the copy thread may access */
	uint32_t num_pieces;
	uint32_t num_ranges;
	struct {
		struct file *file;
		struct region *region;
	} piece[PIECES_MAX];
	struct range *range[];
};

/* Protects all state here, and is held during calls: references on regions are counted across calls. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- regions ---- */

static void
region_remove(struct file *file, struct region *region)
{
	struct region **at = &file->regions;

	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	one_call_id(region->client, ONE_MSG_REGION_REMOVE, region->id); /* fails if the attachment is gone */
	free(region);
}

/* Finds or creates the client's region with at least `size` bytes of the file, and takes a reference. */
static int
region_get(struct one_client *client, struct file *file, int fd, uint64_t size, struct region **out)
{
	struct one_msg msg = {.type = ONE_MSG_REGION_ADD};
	struct one_reply reply;
	struct region *region;
	int error;

	for (region = file->regions; region != NULL; region = region->next) {
		if (region->client == client && region->size >= size) {
			region->refs++;
			*out = region;
			return 0;
		}
	}
	region = malloc(sizeof(*region));
	if (region == NULL)
		return -ENOMEM;
	msg.region_add.size = file->size;
	msg.region_add.flags = file->fd >= 0 ? ONE_REGION_SEALED : 0;
	if (file->fd >= 0 && !file->slab)
		msg.region_add.flags |= ONE_REGION_MAPPABLE;
	error = one_call(client, &msg, &fd, 1, &reply);
	if (error != 0) {
		free(region);
		return error < 0 ? error : -EPROTO;
	}
	*region = (struct region){
		.next = file->regions, .client = client, .id = reply.id.id, .refs = 1, .size = file->size};
	file->regions = region;
	*out = region;
	return 0;
}

/* Creates a region joined of several files, for one registration. */
static int
region_join(struct one_client *client, const struct acquired *acquired, struct region **out)
{
	struct region *region = malloc(sizeof(*region));
	int error;

	if (region == NULL)
		return -ENOMEM;
	*region = (struct region){.client = client, .refs = 1};
	error = joined_add(client, acquired->joined, acquired->num_joined, &region->id);
	if (error == 0)
		*out = region;
	else
		free(region);
	return error;
}

static void
region_put(struct file *file, struct region *region)
{
	if (file == NULL) {
		one_call_id(region->client, ONE_MSG_REGION_REMOVE, region->id);
		free(region);
		return;
	}
	/* Regions of a lasting file stay until the file is removed. */
	if (--region->refs == 0 && !file->lasting)
		region_remove(file, region);
}

static bool uncache_gone(uint32_t least);

/* Removes files. Lost registrations are freed first: the data plane refuses to remove regions in use. */
static void
retire_files(struct file *retired)
{
	uncache_gone(retired != NULL ? 1 : GONE_MAX);
	while (retired != NULL) {
		struct file *file = retired;

		retired = file->next;
		while (file->regions != NULL)
			region_remove(file, file->regions);
		file_free(file);
	}
}

/* ---- registrations ---- */

/* Frees a cached registration that will not be renewed. */
static void
use_forget(struct cached_mr *cached)
{
	struct mem_use *use = (struct mem_use *)cached;

	one_call_id(cached->client, ONE_MSG_MR_FREE, use->mr); /* fails if the attachment is gone */
	region_put(use->piece[0].file, use->piece[0].region);
	free(use);
}

/* Frees all lost registrations (mr_cache.h) if there are at least `least`. True if there were. */
static bool
uncache_gone(uint32_t least)
{
	struct cached_mr *next, *cached = ranges_cached_mrs_gone(least);
	bool any = cached != NULL;

	for (; cached != NULL; cached = next) {
		next = cached->next;
		use_forget(cached);
	}
	return any;
}

static void
use_drop(struct mem_use *use)
{
	struct file *foreign[PIECES_MAX], *retired = NULL;
	uint32_t num_foreign = 0;

	copier_forbid(&use->copied);
	for (uint32_t i = 0; i < use->num_pieces; i++) {
		struct file *file = use->piece[i].file;

		if (use->piece[i].region != NULL)
			region_put(file, use->piece[i].region);
		if (is_foreign(file))
			foreign[num_foreign++] = file;
	}
	ranges_release(use->range, use->num_ranges, foreign, num_foreign, &retired);
	retire_files(retired);
	free(use);
}

static struct mem_use *
use_new(const struct acquired *acquired)
{
	struct mem_use *use = calloc(1, sizeof(*use) + acquired->num_ranges * sizeof(use->range[0]));

	if (use == NULL)
		return NULL;
	use->num_pieces = acquired->num_pieces;
	use->num_ranges = acquired->num_ranges;
	for (uint32_t i = 0; i < acquired->num_pieces; i++)
		use->piece[i].file = acquired->piece[i].file;
	memcpy(use->range, acquired->range, acquired->num_ranges * sizeof(use->range[0]));
	return use;
}

static void
acquired_drop(const struct acquired *acquired)
{
	struct file *foreign[PIECES_MAX], *retired = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < acquired->num_pieces; i++) {
		if (is_foreign(acquired->piece[i].file))
			foreign[n++] = acquired->piece[i].file;
	}
	ranges_release(acquired->range, acquired->num_ranges, foreign, n, &retired);
	retire_files(retired);
}

/* Lists the pieces for MR_CREATE; adjoining pieces of one region become one. */
static void
fill_pieces(struct one_mr_create *create, const struct mem_use *use, const struct acquired *acquired)
{
	for (uint32_t i = 0; i < use->num_pieces; i++) {
		struct one_mr_piece *last =
			create->num_pieces > 0 ? &create->piece[create->num_pieces - 1] : NULL;
		const struct piece *piece = &acquired->piece[i];
		uint32_t region = use->piece[i].region->id;

		if (last != NULL && last->region == region && last->offset + last->length == piece->offset) {
			last->length += piece->length;
			continue;
		}
		create->piece[create->num_pieces++] = (struct one_mr_piece){
			.region = region, .offset = piece->offset, .length = piece->length};
	}
}

/* Random numbers not used yet; 0 in a child after fork, which draws its own. */
static uint32_t keys_drawn;

/* Returns a key in the slot of `last` whose other 16 bits are random and differ; 0: no random numbers. */
static uint32_t
key_after(uint32_t last)
{
	static uint32_t random[16];
	uint32_t key;

	do {
		if (keys_drawn == 0 && getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random))
			keys_drawn = sizeof(random) / sizeof(random[0]);
		if (keys_drawn == 0)
			return 0;
		key = (last & ONE_KEY_SLOT) | (random[--keys_drawn] & ~ONE_KEY_SLOT);
	} while (key == last || key == 0);
	return key;
}

static bool
may_cache(const struct acquired *acquired)
{
	return !acquired->alone && acquired->num_joined == 0 && acquired->num_pieces == 1 &&
	       acquired->num_ranges == 1 && acquired->piece[0].file->lasting &&
	       !acquired->piece[0].file->slab;
}

static struct cached_mr
what_of(struct one_client *client, const struct one_mr_create *create)
{
	return (struct cached_mr){.client = client,
				  .va = create->va,
				  .length = create->length,
				  .shift = create->shift,
				  .pz = create->pz,
				  .access = create->access};
}

static struct cached_mr
as_cached(struct one_client *client, const struct one_mr_create *create, const struct acquired *acquired)
{
	struct cached_mr cached = what_of(client, create);

	cached.range = acquired->range[0];
	cached.offset = acquired->piece[0].offset;
	return cached;
}

/* Renews the key of a cached registration. False: the memory must be registered anew. */
static bool
use_renew(struct mem_use *use)
{
	uint32_t key = key_after(use->lkey);

	if (key == 0 || call_key(use->cached.client, ONE_KEY_RENEW, use->lkey, key) != 0)
		return false;
	use->lkey = key;
	return true;
}

/* Renews a cached registration of exactly this memory, whose range the caller has acquired. NULL: none. */
static struct mem_use *
renew_acquired(struct one_client *client, const struct one_mr_create *create, const struct acquired *acquired)
{
	struct cached_mr like = as_cached(client, create, acquired), *cached;

	cached = may_cache(acquired) ? ranges_uncache_mr(&like, false) : NULL;
	if (cached == NULL)
		return NULL;
	if (use_renew((struct mem_use *)cached))
		return (struct mem_use *)cached;
	use_forget(cached);
	return NULL;
}

/* Renews a cached registration of exactly this memory if its mappings are intact. NULL: none, or unknown. */
static struct mem_use *
renew_cached(struct one_client *client, const struct one_mr_create *create, bool write)
{
	struct cached_mr like = what_of(client, create), *cached = ranges_uncache_mr(&like, write);
	struct file *retired = NULL;

	if (cached == NULL)
		return NULL;
	if (use_renew((struct mem_use *)cached))
		return (struct mem_use *)cached;
	ranges_release(&cached->range, 1, NULL, 0, &retired);
	use_forget(cached);
	retire_files(retired);
	return NULL;
}

static bool
has_foreign(const struct acquired *acquired)
{
	bool foreign = acquired->num_joined != 0;

	for (uint32_t i = 0; i < acquired->num_pieces; i++)
		foreign = foreign || is_foreign(acquired->piece[i].file);
	return foreign;
}

/* Gets the regions that the registration still lacks. */
static int
regions_get(struct one_client *client, struct mem_use *use, const struct acquired *acquired)
{
	int error = 0;

	if (acquired->num_joined != 0)
		return region_join(client, acquired, &use->piece[0].region);
	for (uint32_t i = 0; error == 0 && i < acquired->num_pieces; i++) {
		const struct piece *piece = &acquired->piece[i];

		if (use->piece[i].region == NULL)
			error = region_get(client, piece->file, piece->fd, piece->offset + piece->length,
					   &use->piece[i].region);
	}
	return error;
}

static bool give_up_cached(void);

/* Adopts memory and creates its regions. Without pieces, *out is memory for the copy thread. A region of a
 * foreign file that the data plane refuses is no error either: the copy thread serves that memory, too. A
 * renewed registration in *out has its `mr` already. */
static int
use_make(struct one_client *client, uint64_t start, uint64_t end, bool write, bool alone,
	 struct mem_use **out, struct one_mr_create *create)
{
	struct file *retired = NULL;
	struct acquired acquired;
	struct mem_use *use;
	int error;

	*out = alone ? NULL : renew_cached(client, create, write);
	if (*out != NULL)
		return 0;
	acquired.alone = alone;
	error = ranges_acquire(start, end, write, &acquired, &retired);

	retire_files(retired);
	if (error != 0)
		return error;
	*out = renew_acquired(client, create, &acquired);
	if (*out != NULL)
		return 0;
	use = use_new(&acquired);
	if (use == NULL) {
		piece_close_fds(&acquired);
		acquired_drop(&acquired);
		return -ENOMEM;
	}
	error = regions_get(client, use, &acquired);
	if (error == -EDQUOT && has_foreign(&acquired) && give_up_cached())
		error = regions_get(client, use, &acquired);
	piece_close_fds(&acquired);
	if (error != 0) {
		use_drop(use);
		if (!has_foreign(&acquired) || error == -ECONNRESET || error == -ENOMEM)
			return error;
		acquired.num_pieces = 0;
		acquired.num_ranges = 0;
		use = use_new(&acquired);
		if (use == NULL)
			return -ENOMEM;
	}
	fill_pieces(create, use, &acquired);
	create->flags = acquired.fresh ? ONE_MR_FRESH : 0;
	if (may_cache(&acquired)) {
		create->flags |= ONE_MR_RENEWABLE;
		use->cached = as_cached(client, create, &acquired);
	}
	*out = use;
	return 0;
}

/* ---- the copy thread ---- */

/* Starts the copy thread, with the first registration that needs one. */
static int
copies_make(struct one_client *client, struct copied *first)
{
	struct one_msg msg = {.type = ONE_MSG_COPIES};
	const struct copier_place place = {.arena_fd = client->arena_fd,
					   .wake_fd = client->info.idle == ONE_IDLE_SLEEP ? client->wake_fd
											  : -1};
	struct one_reply reply;
	int error;

	error = one_call(client, &msg, NULL, 0, &reply);
	if (error != 0)
		return error < 0 ? error : -EPROTO;
	if (one_client_span(client, reply.copies.offset, sizeof(struct one_copies)) == NULL)
		return -EPROTO;
	return copier_start(&place, reply.copies.offset, first, &client->copier);
}

static int
copies_allow(struct one_client *client, struct copied *memory)
{
	if (client->copier == NULL)
		return copies_make(client, memory);
	copier_allow(client->copier, memory);
	return 0;
}

static void
copies_end(struct one_client *client)
{
	if (client->copier != NULL)
		copier_stop(client->copier);
	client->copier = NULL;
}

/* ---- registrations with the data plane ---- */

/* Reports, with ONESIDE_DEBUG, memory that is copied. The reason is the last one noted. */
static void
report_copied(const struct one_mr_create *create)
{
	const char *reason = one_noted_cause();

	one_warn("the %" PRIu64 " bytes at %#" PRIx64 " are copied by a thread of this program: %s",
		 create->length, create->va, reason != NULL ? reason : "they cannot be shared");
	one_explain_nothing();
}

static int
try_register(struct one_client *client, struct one_msg *msg, bool alone, struct one_reply *reply,
	     struct mem_use **out)
{
	uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	uint64_t start = msg->mr_create.va & ~mask;
	uint64_t end = (msg->mr_create.va + msg->mr_create.length + mask) & ~mask;
	int error;

	msg->mr_create.num_pieces = 0;
	if (one_explaining)
		one_explain_nothing();
	error = use_make(client, start, end, (msg->mr_create.access & WRITES) != 0, alone, out,
			 &msg->mr_create);
	if (error != 0 || (*out)->mr != 0)
		return error;
	(*out)->copied.start = msg->mr_create.va;
	(*out)->copied.length = msg->mr_create.length;
	(*out)->copied.write = (msg->mr_create.access & WRITES) != 0;
	if (msg->mr_create.num_pieces == 0)
		error = copies_allow(client, &(*out)->copied);
	if (error == 0)
		error = one_call(client, msg, NULL, 0, reply);
	if (error == -EFAULT && reply->subject == ONE_SUBJECT_ADDRESS) {
		error = transplant_populate(start, end - start);
		if (error == 0)
			error = one_call(client, msg, NULL, 0, reply);
	}
	if (error != 0) {
		use_drop(*out);
		return error;
	}
	if (one_explaining && msg->mr_create.num_pieces == 0)
		report_copied(&msg->mr_create);
	(*out)->mr = reply->mr.mr;
	(*out)->lkey = reply->mr.lkey;
	(*out)->remote = reply->mr.rkey != 0;
	/* Only a registration requested as renewable can be cached, whatever the reply says. */
	(*out)->renewable = (msg->mr_create.flags & ONE_MR_RENEWABLE) != 0 && reply->mr.renewable != 0;
	return 0;
}

/* Removes all regions without registrations. */
static void
trim_regions(void)
{
	for (struct file *file = files_next(NULL); file != NULL; file = files_next(file)) {
		for (struct region *next, *region = file->regions; region != NULL; region = next) {
			next = region->next;
			if (region->refs == 0)
				region_remove(file, region);
		}
	}
}

/* Empties the registration cache. True if it held anything. */
static bool
give_up_cached(void)
{
	struct file *retired = NULL;
	bool any;

	ranges_cached_mrs_drop(NULL, 0);
	any = ranges_give_up_all(&retired);
	any = uncache_gone(1) || any;
	trim_regions();
	retire_files(retired);
	return any;
}

/* Removes the client's regions without registrations. The data plane may have removed some already. */
static void
drop_idle_regions(const struct one_client *client)
{
	for (struct file *file = files_next(NULL); file != NULL; file = files_next(file)) {
		for (struct region *next, *region = file->regions; region != NULL; region = next) {
			next = region->next;
			if (region->client == client && region->refs == 0)
				region_remove(file, region);
		}
	}
}

/* Drops everything cached, after the data plane has given up cached regions of this client. */
static void
drop_reclaimed(struct one_client *client)
{
	/* Pairs with the control thread's addition. Relaxed: only a count. */
	client->reclaimed = atomic_load_explicit(&client->header->reclaimed, memory_order_relaxed);
	give_up_cached();
	drop_idle_regions(client);
}

static int
mem_register(struct one_client *client, struct one_msg *msg, bool alone, struct one_reply *reply,
	     struct mem_use **out)
{
	const _Atomic uint32_t *reclaimed = &client->header->reclaimed;
	int error;

	/* Pairs with the control thread's addition. Relaxed: only a count. */
	if (atomic_load_explicit(reclaimed, memory_order_relaxed) != client->reclaimed)
		drop_reclaimed(client);
	error = try_register(client, msg, alone, reply, out);
	/* Cached regions were given up meanwhile. New ones stay until registered: one more try suffices. */
	if (error == -EINVAL && reply->subject == ONE_SUBJECT_REGION) {
		drop_reclaimed(client);
		error = try_register(client, msg, alone, reply, out);
	}
	/* Cached memory counts towards the data plane's limits: drop it, and try again. */
	if ((error == -EDQUOT || error == -ENOMEM) && give_up_cached())
		error = try_register(client, msg, alone, reply, out);
	return error;
}

static int
register_memory(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint64_t iova,
		uint32_t access, bool alone, struct one_mr *mr)
{
	struct one_msg msg = {.type = ONE_MSG_MR_CREATE};
	struct one_reply reply;
	struct mem_use *use;
	int error = client_check(client);

	if (error != 0)
		return error;
	if (length == 0 || va + length < va)
		return -EINVAL;
	if (va + length > (uint64_t)INTPTR_MAX)
		return -EFAULT;
	if (length > client->info.limits.max_mr_bytes)
		return -EDQUOT;
	msg.mr_create.pz = pz;
	msg.mr_create.access = access;
	msg.mr_create.va = va;
	msg.mr_create.length = length;
	msg.mr_create.shift = iova - va;
	pthread_mutex_lock(&lock);
	error = mem_register(client, &msg, alone, &reply, &use);
	if (error == 0) {
		use->next = client->uses;
		use->link = &client->uses;
		if (use->next != NULL)
			use->next->link = &use->next;
		client->uses = use;
		*mr = (struct one_mr){.id = use->mr,
				      .lkey = use->lkey,
				      .rkey = use->remote ? use->lkey : 0,
				      .va = va,
				      .length = length,
				      .adopted = use};
	}
	pthread_mutex_unlock(&lock);
	return error;
}

int
one_mem_register(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint32_t access,
		 struct one_mr *mr)
{
	return register_memory(client, pz, va, length, va, access, false, mr);
}

int
one_mem_register_iova(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint64_t iova,
		      uint32_t access, struct one_mr *mr)
{
	return register_memory(client, pz, va, length, iova, access, false, mr);
}

int
one_mem_register_alone(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint32_t access,
		       struct one_mr *mr)
{
	return register_memory(client, pz, va, length, va, access, true, mr);
}

static bool
is_one_piece(const struct mem_use *use)
{
	return use != NULL && use->num_ranges == 1 && use->num_pieces == 1;
}

int
one_mem_claim(struct one_client *client, struct one_mr *mr, bool writable)
{
	const struct mem_use *use = mr->adopted;
	int error = client_check(client);

	if (error != 0)
		return error;
	pthread_mutex_lock(&lock);
	error = is_one_piece(use) ? ranges_claim(use->range[0], mr->va, mr->length, writable) : -EBUSY;
	pthread_mutex_unlock(&lock);
	return error;
}

uint64_t
one_mem_copy_at(struct one_client *client, struct one_mr *mr)
{
	static uint64_t next = 1ull << 63; /* above all addresses of a process; each is given out once */
	struct mem_use *use = mr->adopted;
	uint64_t at = 0;

	if (client_check(client) != 0)
		return 0;
	pthread_mutex_lock(&lock);
	if (is_one_piece(use) && use->copied.set == NULL && mr->length < -next) {
		use->copied.start = next;
		use->copied.shift = mr->va - next;
		if (copies_allow(client, &use->copied) == 0) {
			at = next;
			next += mr->length;
		}
	}
	pthread_mutex_unlock(&lock);
	return at;
}

int
one_mem_recall(struct one_client *client, struct one_mr *mr)
{
	const struct mem_use *use = mr->adopted;
	int error;

	/* No client_check(): memory is taken back after the data plane's death, too. */
	if (atomic_load_explicit(&client->foreign, memory_order_relaxed))
		return -ECHILD;
	pthread_mutex_lock(&lock);
	error = is_one_piece(use) ? ranges_recall(use->range[0]) : -EBUSY;
	pthread_mutex_unlock(&lock);
	return error;
}

int
one_mem_move(struct one_client *client, struct one_mr *mr, uint64_t va)
{
	struct mem_use *use = mr->adopted;
	int error = client_check(client);

	if (error != 0)
		return error;
	if (va + mr->length < va || va + mr->length > (uint64_t)INTPTR_MAX)
		return -EFAULT;
	pthread_mutex_lock(&lock);
	error = is_one_piece(use) ? ranges_move(use->range[0], mr->va, mr->length, va) : -EBUSY;
	if (error == 0) {
		mr->va = va;
		if (use->copied.set != NULL)
			copier_move(&use->copied, va);
	}
	pthread_mutex_unlock(&lock);
	return error;
}

static void
use_unlink(struct mem_use *use)
{
	*use->link = use->next;
	if (use->next != NULL)
		use->next->link = use->link;
}

static void
use_remove(struct mem_use *use)
{
	use_unlink(use);
	use_drop(use);
}

/* Revokes the key without the control thread. False: the control thread must be asked. */
static bool
use_revoke(struct one_client *client, const struct one_mr *mr)
{
	struct file *retired = NULL;
	struct mem_use *use = mr->adopted;

	/* After ONE_MSG_MR_SWAP the region has another key than its registration here. */
	if (use == NULL || !use->renewable || use->lkey != mr->lkey ||
	    call_key(client, ONE_KEY_REVOKE, use->lkey, 0) != 0)
		return false;
	use_unlink(use);
	ranges_cache_mr(&use->cached, &retired);
	retire_files(retired);
	return true;
}

int
one_mem_deregister(struct one_client *client, struct one_mr *mr)
{
	int error;

	/* Before the lock, as in one_call. Memory is given back after the data plane's death, too. */
	if (atomic_load_explicit(&client->foreign, memory_order_relaxed))
		return -ECHILD;
	pthread_mutex_lock(&lock);
	if (use_revoke(client, mr)) {
		mr->adopted = NULL;
		pthread_mutex_unlock(&lock);
		return 0;
	}
	/* The core begins the requests posted before. The result is ignored: the memory is freed in any case.
	 */
	call_key(client, ONE_KEY_NONE, 0, 0);
	error = one_call_id(client, ONE_MSG_MR_FREE, mr->id);
	/* The copy thread must not carry out accesses that the data plane requested before its death. */
	if (error == -ECONNRESET)
		copies_end(client);
	if ((error == 0 || error == -ECONNRESET) && mr->adopted != NULL) {
		use_remove(mr->adopted);
		mr->adopted = NULL;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

void
one_posted_begin(struct one_client *client)
{
	if (atomic_load_explicit(&client->foreign, memory_order_relaxed))
		return;
	pthread_mutex_lock(&lock);
	call_key(client, ONE_KEY_NONE, 0, 0);
	pthread_mutex_unlock(&lock);
}

int
one_pz_free(struct one_client *client, uint32_t pz)
{
	int error = client_check(client);

	if (error != 0)
		return error;
	pthread_mutex_lock(&lock);
	ranges_cached_mrs_drop(client, pz);
	uncache_gone(1);
	pthread_mutex_unlock(&lock);
	return one_call_id(client, ONE_MSG_PZ_FREE, pz);
}

static void
forget_regions(struct file *file, const struct one_client *client)
{
	struct region **at = &file->regions;

	while (*at != NULL) {
		struct region *region = *at;

		if (region->client == client) {
			*at = region->next;
			free(region);
		} else {
			at = &region->next;
		}
	}
}

void
mem_release_all(struct one_client *client)
{
	pthread_mutex_lock(&lock);
	while (client->uses != NULL) {
		one_call_id(client, ONE_MSG_MR_FREE, client->uses->mr);
		use_remove(client->uses);
	}
	copies_end(client);
	give_up_cached();
	/* The remaining files are slabs, or registered by other attachments. The data plane frees its regions
	 * with the attachment. */
	for (struct file *file = files_next(NULL); file != NULL; file = files_next(file))
		forget_regions(file, client);
	pthread_mutex_unlock(&lock);
}

void
mem_fork_child(void)
{
	keys_drawn = 0;
	copiers_fork_child();
	pthread_mutex_init(&lock, NULL);
}
