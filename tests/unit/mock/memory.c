/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions, registrations, and their keys, which a polling core revokes and renews. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

/* The data plane maps regions, too. The mock shares the application's process and maps MRs only: the library
 * would take a mapping of adopted memory that outlives its registration for one of the application's, and
 * make it private, too. */
void
mock_handle_region(struct mock *mock, struct mock_client *client, const struct one_region_add *add,
		   const int *fds, uint32_t num_fds, struct one_reply *reply)
{
	struct mock_object *o;
	struct stat st;
	int copy;

	if (num_fds != 1 || add->size == 0 || add->size % 4096 != 0 || fstat(fds[0], &st) != 0 ||
	    add->size > ((uint64_t)st.st_size + 4095) / 4096 * 4096 ||
	    ((add->flags & ONE_REGION_SEALED) != 0 && (fcntl(fds[0], F_GET_SEALS) & F_SEAL_SHRINK) == 0)) {
		reply->error = -EINVAL;
		reply->subject = ONE_SUBJECT_REGION;
		return;
	}
	/* a high number, out of the way of tests that lower the limit on descriptors */
	copy = fcntl(fds[0], F_DUPFD_CLOEXEC, 500);
	if (copy < 0) {
		reply->error = -errno;
		reply->subject = ONE_SUBJECT_MEMORY;
		return;
	}
	o = mock_object_new(mock, client, ONE_MSG_REGION_ADD);
	o->region.fd = copy;
	o->region.size = add->size;
	reply->id.id = o->id;
}

static uint8_t *
reserve_addresses(const struct one_region_join *join)
{
	uint8_t *all = mmap(NULL, join->size + join->page, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before = (join->va - (uintptr_t)all) & (join->page - 1);

	mock_check(all != MAP_FAILED, "mmap of a joined region");
	if (before != 0)
		munmap(all, before);
	munmap(all + before + join->size, join->page - before);
	return all + before;
}

/* Joined regions are mapped at once, because each belongs to a single registration. */
void
mock_handle_join(struct mock *mock, struct mock_client *client, const struct one_region_join *join,
		 const int *fds, uint32_t num_fds, struct one_reply *reply)
{
	struct mock_object *o = join->region == 0 ? mock_object_new(mock, client, ONE_MSG_REGION_ADD)
						  : mock_object(mock, join->region, ONE_MSG_REGION_ADD);

	mock_check(o != NULL && num_fds == join->num_files && num_fds > 0, "files of a joined region");
	if (join->region == 0) {
		o->region.fd = -1;
		o->region.size = join->size;
		o->region.base = reserve_addresses(join);
	}
	for (uint32_t i = 0; i < num_fds; i++) {
		const struct one_region_file *file = &join->file[i];
		uint8_t *at = o->region.base + o->region.joined;

		mock_check(file->length <= o->region.size - o->region.joined, "files beyond the region");
		mock_check(mmap(at, file->length, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fds[i], (off_t)file->offset) == at,
			   "mmap of a joined file");
		o->region.joined += file->length;
	}
	reply->id.id = o->id;
}

/* Maps nothing, and mr->size stays 0: the mapping belongs to the region. */
static int
take_joined(struct mock *mock, const struct one_mr_create *args, struct mock_mr *mr)
{
	const struct mock_object *region = mock_object(mock, args->piece[0].region, ONE_MSG_REGION_ADD);

	if (args->num_pieces != 1 || region == NULL || region->region.base == NULL)
		return -ENOENT;
	mock_check(region->region.joined == region->region.size, "a region that is not whole");
	mr->base = region->region.base + args->piece[0].offset;
	return 0;
}

static int
map_pieces(struct mock *mock, const struct mock_client *client, const struct one_mr_create *args,
	   struct mock_mr *mr)
{
	uint64_t total = 0, at = 0;

	for (uint32_t i = 0; i < args->num_pieces; i++) {
		const struct one_mr_piece *piece = &args->piece[i];
		struct mock_object *region = mock_object(mock, piece->region, ONE_MSG_REGION_ADD);

		if (region == NULL || region->client != client || piece->length == 0 ||
		    piece->offset % 4096 != 0 || piece->length % 4096 != 0 ||
		    piece->offset > region->region.size ||
		    piece->length > region->region.size - piece->offset)
			return -EINVAL;
		total += piece->length;
	}
	if (total != (args->va % 4096 + args->length + 4095) / 4096 * 4096)
		return -EINVAL;
	mr->base = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	mock_check(mr->base != MAP_FAILED, "mmap of an MR");
	mr->size = total;
	for (uint32_t i = 0; i < args->num_pieces; i++) {
		const struct one_mr_piece *piece = &args->piece[i];
		struct mock_object *region = mock_object(mock, piece->region, ONE_MSG_REGION_ADD);
		void *p = mmap(mr->base + at, piece->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			       region->region.fd, (off_t)piece->offset);

		mock_check(p == mr->base + at, "mmap of a piece");
		at += piece->length;
	}
	return 0;
}

void
mock_handle_mr(struct mock *mock, struct mock_client *client, const struct one_mr_create *args,
	       struct one_reply *reply)
{
	struct mock_mr mr = {.args = *args};
	struct mock_object *o;

	if (args->num_pieces > ONE_MR_PIECES || args->length == 0)
		reply->error = -EINVAL;
	else if (args->num_pieces > 0 && take_joined(mock, args, &mr) != 0)
		reply->error = map_pieces(mock, client, args, &mr);
	if (reply->error != 0) {
		reply->subject = ONE_SUBJECT_MR;
		return;
	}
	o = mock_object_new(mock, client, ONE_MSG_MR_CREATE);
	o->mr = mr;
	o->mr.lkey = o->id << 8 | 0x11;
	o->mr.rkey = (args->access & ~(ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE)) != 0 ? o->mr.lkey : 0;
	reply->mr.mr = o->id;
	reply->mr.lkey = o->mr.lkey;
	reply->mr.rkey = o->mr.rkey;
	reply->mr.renewable = mock->renewable && (args->flags & ONE_MR_RENEWABLE) != 0;
}

bool
mock_region_used(const struct mock *mock, uint32_t region)
{
	for (const struct mock_object *o = mock->objects; o != NULL; o = o->next) {
		for (uint32_t i = 0; o->type == ONE_MSG_MR_CREATE && i < o->mr.args.num_pieces; i++)
			if (o->mr.args.piece[i].region == region)
				return true;
	}
	return false;
}

/* Acts as mem_revoke() and mem_renew(). */
static bool
handle_key(struct mock *mock, const struct mock_client *client)
{
	uint32_t op = atomic_load(&client->keys->op), key = atomic_load(&client->keys->key);
	uint32_t next = atomic_load(&client->keys->next);

	for (struct mock_object *o = mock->objects; o != NULL && !mock->refuse_keys; o = o->next) {
		if (o->type != ONE_MSG_MR_CREATE || o->client != client || o->mr.lkey != key ||
		    (o->mr.args.flags & ONE_MR_RENEWABLE) == 0)
			continue;
		if (op == ONE_KEY_REVOKE && !o->mr.revoked) {
			o->mr.revoked = true;
			munmap(o->mr.base, o->mr.size);
			o->mr.base = NULL;
			mock->revoked++;
			return true;
		}
		if (op == ONE_KEY_RENEW && o->mr.revoked) {
			mock_check(next != key && ((next ^ key) & ONE_KEY_SLOT) == 0, "key of another slot");
			mock_check(map_pieces(mock, client, &o->mr.args, &o->mr) == 0, "a range has gone");
			o->mr.revoked = false;
			o->mr.lkey = next;
			o->mr.rkey = o->mr.rkey != 0 ? next : 0;
			mock->renewed++;
			return true;
		}
	}
	return false;
}

void
mock_serve_keys(struct mock *mock, const struct mock_client *client)
{
	uint32_t asked;

	if (atomic_exchange(&client->doorbells->keys, 0) == 0)
		return;
	asked = atomic_load(&client->keys->asked);
	if (asked == atomic_load(&client->keys->answered))
		return;
	atomic_store(&client->keys->refused, !handle_key(mock, client));
	atomic_store(&client->keys->answered, asked);
}

void
mock_renewable(struct mock *mock)
{
	pthread_mutex_lock(&mock->lock);
	mock->renewable = true;
	mock->welcome.idle = ONE_IDLE_SLEEP;
	pthread_mutex_unlock(&mock->lock);
}

void
mock_refuse_keys(struct mock *mock, bool refuse)
{
	pthread_mutex_lock(&mock->lock);
	mock->refuse_keys = refuse;
	pthread_mutex_unlock(&mock->lock);
}

uint32_t
mock_revoked(struct mock *mock)
{
	uint32_t n;

	pthread_mutex_lock(&mock->lock);
	n = mock->revoked;
	pthread_mutex_unlock(&mock->lock);
	return n;
}

uint32_t
mock_renewed(struct mock *mock)
{
	uint32_t n;

	pthread_mutex_lock(&mock->lock);
	n = mock->renewed;
	pthread_mutex_unlock(&mock->lock);
	return n;
}
