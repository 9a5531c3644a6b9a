/* SPDX-License-Identifier: BSD-3-Clause */
/* Attachments: socket, arena and its allocators, lanes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/objects/pass.h"
#include "control/path/path.h"

#define CLIENT(member) RECORD_FIELD(client, member, RECORD_VALUE, 0, NULL)

static uint64_t
name_port(const void *pointer, const struct record_context *context)
{
	return ((const struct path_port *)pointer)->index + 1u;
}

static void *
find_port(uint64_t name, const struct record_context *context)
{
	return name <= path_num_ports ? &path_port[name - 1] : NULL;
}

const struct record_naming attachment_port = {name_port, find_port};

static const struct record_field client_fields[] = {
	RECORD_FIELD(client, state, RECORD_VALUE, CLIENT_ATTACHED + 1, NULL),
	CLIENT(number),
	RECORD_FIELD(client, kind, RECORD_VALUE, ONE_KIND_VERBS + 1, NULL),
	CLIENT(program),
	RECORD_FIELD(client, labelled, RECORD_VALUE, 2, NULL),
	RECORD_FIELD(client, port, RECORD_NAME, 0, &attachment_port),
	CLIENT(requests),
	CLIENT(arena_charged),
	CLIENT(arena.used),
	CLIENT(arena.end),
	RECORD_FIELD(client, arena.parts, RECORD_VALUE, 1u << 24, NULL),
	RECORD_FIELD(client, arena.num_free, RECORD_VALUE, 1u << 24, NULL),
	CLIENT(copies_offset),
	CLIENT(copies_last),
	CLIENT(staged),
	CLIENT(next_core),
};
static RECORD_FORM(client_form, RECORD_CLIENT, 1, client_fields);

/* The descriptors of a client, and a lane; both are written from and read to these. */
struct client_fds {
	uint64_t fd, pidfd, wake_fd, arena;
};
struct lane_place {
	uint64_t doorbells, channels, keys, copies, handed_over;
	uint64_t copied; /* bytes, by all lanes: of the first lane */
};

/* ---- the old process ---- */

static const char *
lanes_obstacle(const struct client *client)
{
	for (const struct engine_client *lane = client->engine; lane != NULL; lane = engine_lane_next(lane))
		if (!engine_lane_is_quiet(lane))
			return "a core carries out a request of it";
	return NULL;
}

const char *
attachment_obstacle(const struct client *client)
{
	if (client->state > CLIENT_ATTACHED)
		return "it is ending";
	if (client->request != CLIENT_REQUEST_NONE || client->suspended != 0)
		return "a request of it waits";
	if (client->commands != 0 || client->jobs != 0 || client->slice != NULL || client->extents.busy)
		return "work for it is under way";
	if (client->account->leaving != 0)
		return "memory of its user is being released";
	if (client->table[OBJECT_SIDR].used != 0)
		return "it resolves service IDs of datagrams";
	return lanes_obstacle(client);
}

static void
slots_write(const struct arena_slabs *slabs, struct pass_out *out)
{
	for (uint32_t i = 0; i < RTE_DIM(slabs->slab); i++) {
		const struct arena_slab *slab = &slabs->slab[i];
		uint32_t *at;

		if (slab->total == 0)
			continue;
		at = record_append(&out->records, RECORD_SLOTS, 1, i,
				   (uint32_t)sizeof(uint32_t) * (1 + slab->num_free));
		if (at == NULL)
			return;
		at[0] = slab->total;
		memcpy(at + 1, slab->free, slab->num_free * sizeof(uint32_t));
	}
}

static void
arena_write(const struct arena *arena, struct pass_out *out)
{
	uint32_t size = arena->num_free * (uint32_t)sizeof(*arena->free);
	void *at = record_append(&out->records, RECORD_EXTENT, 1, 0, size);

	if (at != NULL)
		memcpy(at, arena->free, size);
}

static void
lane_write(const struct client *client, const struct engine_client *lane, struct pass_out *out)
{
	struct lane_place *place =
		record_append(&out->records, RECORD_LANE, 1, engine_lane_number(lane), sizeof(*place));

	if (place == NULL)
		return;
	*place = (struct lane_place){
		.doorbells = engine_lane_doorbells(lane),
		.channels = engine_lane_channels(lane),
		.keys = engine_lane_keys(lane),
		.copies = engine_lane_copies(lane),
		.handed_over = engine_lane_handed_over(lane),
		.copied = lane == client->engine && client->bounce != NULL ? bounce_bytes(client->bounce) : 0,
	};
	engine_lane_write(lane, &out->records);
}

static void
fds_write(const struct client *client, struct pass_out *out)
{
	struct client_fds *fds = record_append(&out->records, RECORD_CLIENT_FDS, 1, 0, sizeof(*fds));

	if (fds != NULL)
		*fds = (struct client_fds){pass_fd(out, client->fd), pass_fd(out, client->pidfd),
					   pass_fd(out, client->wake_fd), 0};
}

/* Ids of freed objects, which the application may still name. */
static void
tables_write(const struct client *client, struct pass_out *out)
{
	for (uint32_t i = 0; i < OBJECT_KINDS; i++) {
		const struct table *table = &client->table[i];
		uint16_t *at = record_append(&out->records, RECORD_TABLE, 1, i, table->size * sizeof(*at));

		if (at != NULL)
			table_generations(table, at);
	}
}

void
attachment_write(struct client *client, struct pass_out *out)
{
	out->context.owner = client;
	fds_write(client, out);
	record_put(&out->records, &client_form, client->number, client, &out->context);
	if (client->state != CLIENT_ATTACHED)
		return;
	arena_write(&client->arena, out);
	slots_write(&client->slabs, out);
	pass_pieces(out, client->arena.base, client->arena.size);
	for (const struct engine_client *lane = client->engine; lane != NULL; lane = engine_lane_next(lane))
		lane_write(client, lane, out);
	engine_forwards_write(client->engine, &out->records);
	tables_write(client, out);
}

/* ---- the new process ---- */

/* The extents must be free space of the arena, in order: an allocation that overlaps another would break the
 * attachment. */
static int
check_extents(const struct arena *arena)
{
	uint64_t end = 0, free = 0;

	for (uint32_t i = 0; i < arena->num_free; i++) {
		const struct arena_extent *extent = &arena->free[i];

		if (extent->size == 0 || extent->offset < end || extent->offset % 4096 != 0 ||
		    extent->size % 4096 != 0 || extent->size > arena->size ||
		    extent->offset > arena->size - extent->size)
			return -EINVAL;
		end = extent->offset + extent->size;
		free += extent->size;
	}
	return free + arena->used == arena->size && arena->end <= arena->size ? 0 : -EINVAL;
}

static int
arena_read(struct arena *arena, struct pass_in *in)
{
	struct record record;
	int error = pass_take(in, RECORD_EXTENT, &record);

	if (error != 0)
		return error;
	if (record.head.version != 1 ||
	    record.head.length != (uint64_t)arena->num_free * sizeof(*arena->free))
		return pass_refuse(in, "the free memory of an arena has a record of another form");
	arena->cap_free = arena->num_free + arena->parts + 8;
	arena->free = malloc((size_t)arena->cap_free * sizeof(*arena->free));
	if (arena->free == NULL)
		return pass_refuse(in, "no memory");
	memcpy(arena->free, record.bytes, record.head.length);
	return check_extents(arena) == 0 ? 0
					 : pass_refuse(in, "free memory of an arena overlaps or exceeds it");
}

static int
slots_read(struct client *client, struct pass_in *in)
{
	struct arena_slab *slab;
	struct record record;
	uint32_t total;

	pass_take(in, RECORD_SLOTS, &record);
	if (record.head.version != 1 || record.head.id >= RTE_DIM(client->slabs.slab) ||
	    record.head.length < sizeof(total) || record.head.length % sizeof(uint32_t) != 0)
		return pass_refuse(in, "slots of an arena have a record of another form");
	memcpy(&total, record.bytes, sizeof(total));
	slab = &client->slabs.slab[record.head.id];
	slab->num_free = record.head.length / (uint32_t)sizeof(uint32_t) - 1;
	slab->total = total;
	if (slab->free != NULL || total < slab->num_free || total > ONE_ARENA_SIZE / ONE_CACHE_LINE)
		return pass_refuse(in, "slots of an arena are more than it has");
	slab->free = malloc((size_t)total * sizeof(uint32_t));
	if (slab->free == NULL)
		return pass_refuse(in, "no memory");
	memcpy(slab->free, record.bytes + sizeof(total), slab->num_free * sizeof(uint32_t));
	for (uint32_t i = 0; i < slab->num_free; i++)
		if ((slab->free[i] + record.head.id) * ONE_CACHE_LINE > client->arena.size)
			return pass_refuse(in, "a slot exceeds its arena");
	return 0;
}

static int
map_arena(struct client *client, struct pass_in *in)
{
	uint32_t count;
	uint8_t *base = pass_map_pieces(in, ONE_ARENA_SIZE, 0, &count);

	if (base == NULL)
		return -EINVAL;
	if (count != 1)
		return pass_refuse(in, "an arena has %u files instead of one", count);
	arena_adopt(&client->arena, base);
	return 0;
}

/* The application may have changed what the arena says of its layout, so the record says it. */
static struct engine_client *
make_lane(struct client *client, uint32_t number, const struct lane_place *place)
{
	const struct engine_client_config config = {
		.lane = number + 1,
		.doorbells = place->doorbells,
		.channels = place->channels,
		.keys = place->keys,
	};

	if (client->engine != NULL)
		return engine_lane_new(client->engine, number, place->doorbells);
	return hello_make_lane(client, config) == 0 ? client->engine : NULL;
}

static int
lane_read(struct client *client, struct pass_in *in)
{
	struct engine_client *lane;
	struct lane_place place;
	struct record record;

	pass_take(in, RECORD_LANE, &record);
	if (record.head.version != 1 || record.head.length != sizeof(place) ||
	    record.head.id >= ONE_LANES_MAX)
		return pass_refuse(in, "a lane has a record of another form, or a number beyond the limit");
	memcpy(&place, record.bytes, sizeof(place));
	lane = make_lane(client, (uint32_t)record.head.id, &place);
	if (lane == NULL || !engine_lane_continue(lane, place.copies, (uint32_t)place.handed_over))
		return pass_refuse(
			in,
			"no memory for a lane, or its number is that of another one, or its offsets exceed the arena");
	if (client->bounce == NULL)
		client->bounce = engine_client_bounce(lane, 0);
	if (client->bounce != NULL)
		bounce_inherit(client->bounce, place.copied);
	if (pass_take(in, RECORD_LANE_CORE, &record) != 0 || engine_lane_read(lane, &record) != 0)
		return pass_refuse(in, "the state of a lane is not valid");
	return 0;
}

static int
forward_read(struct client *client, struct pass_in *in)
{
	struct record record;

	pass_take(in, RECORD_FORWARD, &record);
	return engine_forward_read(client->engine, &record) == 0
		       ? 0
		       : pass_refuse(in, "a doorbell leads to a lane that is not there");
}

static int
table_read(struct client *client, struct pass_in *in)
{
	struct record record;
	const uint16_t *from;

	pass_take(in, RECORD_TABLE, &record);
	if (record.head.version != 1 || record.head.id >= OBJECT_KINDS ||
	    record.head.length > TABLE_MAX * sizeof(*from) || record.head.length % sizeof(*from) != 0)
		return pass_refuse(in, "the ids of objects have a record of another form");
	from = (const void *)record.bytes; /* records are aligned to eight bytes */
	if (table_resume(&client->table[record.head.id], from,
			 record.head.length / (uint32_t)sizeof(*from)) != 0)
		return pass_refuse(in, "no memory");
	return 0;
}

static int
charge_client(struct client *client, struct pass_in *in)
{
	struct quota_limit limit;

	if (quota_attach(&control.quota, client->account, &limit) != 0 ||
	    quota_charge_own(&control.quota, client->account, client->arena_charged, &limit) != 0)
		return pass_refuse(in, "%s = %llu is less than user %u has in use; raise it", limit.key,
				   (unsigned long long)limit.value, client->uid);
	return 0;
}

static int
arena_and_lanes_read(struct client *client, struct pass_in *in)
{
	int error = charge_client(client, in);

	client->arena.size = ONE_ARENA_SIZE;
	if (error == 0 && lane_open(&client->lane, client->uid) != 0)
		error = pass_refuse(in, "no thread for an attachment; raise LimitNPROC or TasksMax");
	client->arena_mapping = mapping_of_arena(client);
	if (error == 0 && client->arena_mapping == NULL)
		error = pass_refuse(in, "no memory");
	if (error == 0)
		error = arena_read(&client->arena, in);
	if (error == 0 && extents_reserve(client) != 0)
		error = pass_refuse(in, "no memory");
	if (error == 0)
		error = pass_each(client, in, RECORD_SLOTS, slots_read);
	if (error == 0)
		error = map_arena(client, in);
	if (error == 0 && !pass_is(in, RECORD_LANE))
		error = pass_refuse(in, "an attachment has no lane");
	if (error == 0)
		error = pass_each(client, in, RECORD_LANE, lane_read);
	if (error == 0)
		error = pass_each(client, in, RECORD_FORWARD, forward_read);
	return error != 0 ? error : pass_each(client, in, RECORD_TABLE, table_read);
}

/* True if the arena has a struct one_copies there. */
static bool
has_copies(uint64_t offset)
{
	return offset % ONE_CACHE_LINE == 0 && offset <= ONE_ARENA_SIZE - sizeof(struct one_copies);
}

struct client *
attachment_read(struct pass_in *in)
{
	struct client_fds fds;
	struct client *client;
	struct record record;
	uint64_t id;
	int fd;

	pass_take(in, RECORD_CLIENT_FDS, &record);
	if (record.head.version != 1 || record.head.length != sizeof(fds)) {
		pass_refuse(in, "the descriptors of an attachment have a record of another form");
		return NULL;
	}
	memcpy(&fds, record.bytes, sizeof(fds));
	fd = pass_take_fd(in, fds.fd);
	client = fd < 0 ? NULL : client_admit(fd, pass_take_fd(in, fds.pidfd), true);
	if (client == NULL) {
		pass_refuse(in, "the socket of an attachment is not admitted; see the log");
		return NULL;
	}
	in->context.owner = client;
	client->wake_fd = pass_take_fd(in, fds.wake_fd);
	if (pass_get(in, &client_form, client, &id) != 0 || !has_copies(client->copies_offset) ||
	    !has_copies(client->copies_last) ||
	    (client->state == CLIENT_ATTACHED && (client->port == NULL || client->wake_fd < 0)) ||
	    (client->state == CLIENT_ATTACHED && arena_and_lanes_read(client, in) != 0)) {
		pass_refuse(in, "an attachment is not valid");
		return NULL;
	}
	if (client->labelled &&
	    (client->state != CLIENT_ATTACHED || client_totals.labelled == CLIENT_LABELS)) {
		pass_refuse(in,
			    "more than %u attachments, or one that has not begun, have metrics of their own",
			    CLIENT_LABELS);
		return NULL;
	}
	client_totals.labelled += client->labelled;
	client_take_number(client, client->number);
	client->program[sizeof(client->program) - 1] = '\0';
	return client;
}

void
attachment_relink(struct client *client)
{
	for (int kind = 0; kind < OBJECT_KINDS; kind++)
		table_relink(&client->table[kind]);
}
