/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of an attachment, by the ids that the application knows. */
#include <errno.h>

#include "control/attach/client.h"
#include "dataplane/mem/slab.h"

static uint64_t
object_bytes(enum object_kind kind)
{
	return attach_calls->class[kind].bytes;
}

/* Enters the object into its table, under a new id (0) or this one.  Returns the id; 0: no room. */
static uint32_t
enter_table(struct table *table, uint32_t id, struct object *object)
{
	if (id == 0)
		return table_add(table, object);
	return table_put(table, id, object) == 0 ? id : 0;
}

static void *
make_object(struct client *client, enum object_kind kind, size_t size, uint32_t id)
{
	struct object *object = slab_alloc(size);
	struct quota_limit limit;

	if (object == NULL)
		return NULL;
	if (quota_charge_own(&control.quota, client->account, object_bytes(kind), &limit) != 0) {
		slab_free(object);
		return NULL;
	}
	object->id = enter_table(&client->table[kind], id, object);
	if (object->id == 0) {
		quota_release_own(client->account, object_bytes(kind));
		slab_free(object);
		return NULL;
	}
	object->kind = kind;
	object->client = client;
	object->busy = true;
	return object;
}

/* Returns a busy object; NULL: no memory, the table is full, or the user has used its share of memory
 * (object_refuse_new()). */
void *
object_new(struct client *client, enum object_kind kind, size_t size)
{
	return make_object(client, kind, size, 0);
}

void *
object_new_as(struct client *client, enum object_kind kind, size_t size, uint32_t id)
{
	return id == 0 ? NULL : make_object(client, kind, size, id);
}

void
object_free(void *memory)
{
	struct object *object = memory;

	table_remove(&object->client->table[object->kind], object->id);
	quota_release_own(object->client->account, object_bytes(object->kind));
	slab_free(object);
}

void *
object_get(struct client *client, enum object_kind kind, uint32_t id)
{
	struct object *object = table_get(&client->table[kind], id);

	return object != NULL && !object->busy ? object : NULL;
}

int
object_refuse_new(struct client *client, enum object_kind kind)
{
	const struct table *table = &client->table[kind];
	struct quota_limit limit;

	if (table->used >= table->max)
		return client_refuse_limit(
			client, &(struct quota_limit){table->max, attach_calls->class[kind].limit});
	if (quota_charge_own(&control.quota, client->account, object_bytes(kind), &limit) != 0)
		return client_awaits_room(client) ? REQUEST_AGAIN : client_refuse_limit(client, &limit);
	quota_release_own(client->account, object_bytes(kind));
	return client_refuse(client, -ENOMEM, attach_calls->class[kind].subject, 0);
}

void
object_added(struct engine_command *command, void *memory)
{
	struct object *object = memory;
	struct client *client = object->client;

	if (command->status == 0) {
		object->busy = false;
		client_reply(client, 0);
		return;
	}
	attach_calls->class[object->kind].destroy(object);
	client_reply(client, client_refuse(client, command->status, ONE_SUBJECT_MEMORY, 0));
}

static void
memory_removed(struct engine_command *command, void *memory)
{
	object_release(memory);
}

static void
memory_withdrawn(struct client *client, void *memory)
{
	copies_drain(client, memory);
}

void
object_release(struct object *object)
{
	const struct object_class *class = &attach_calls->class[object->kind];
	struct client *client = object->client;

	if (class->release != NULL) {
		class->release(object);
		return;
	}
	class->destroy(object);
	client_reply(client, 0);
}

int
object_free_request(struct client *client, const struct one_msg *msg)
{
	const struct object_class *row = attach_calls->class;
	struct object *object;

	while (row->free != msg->type)
		row++;
	object = object_get(client, (enum object_kind)(row - attach_calls->class), msg->id.id);
	if (object == NULL)
		return client_refuse(client, -EINVAL, row->subject, msg->id.id);
	if (object->users != 0)
		return client_refuse(client, -EBUSY, row->subject, object->users);
	object->busy = true;
	if (row->remove != NULL) {
		row->remove(object, memory_removed);
	} else if (row->withdraw != NULL) {
		row->withdraw(object);
		grace_defer(client, memory_withdrawn, object);
	} else {
		object_release(object);
	}
	return REQUEST_LATER;
}
