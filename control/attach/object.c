/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects of an attachment, by the ids that its application knows.
 */
#include <errno.h>
#include <stdlib.h>

#include "control/attach/client.h"

/* Busy; NULL when the table is full: then the refusal is noted, as far as it concerns a request. */
void *
object_new(struct client *client, enum object_kind kind, size_t size)
{
	struct table *table = &client->table[kind];
	struct object *object = calloc(1, size);

	if (object == NULL)
		return NULL;
	object->id = table_add(table, object);
	if (object->id == 0) {
		free(object);
		return NULL;
	}
	object->kind = kind;
	object->client = client;
	object->busy = true;
	return object;
}

void
object_free(void *memory)
{
	struct object *object = memory;

	table_remove(&object->client->table[object->kind], object->id);
	free(object);
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

	if (table->used >= table->max)
		return client_refuse(client, -EDQUOT, ONE_SUBJECT_QUOTA, table->max);
	return client_refuse(client, -ENOMEM, attach_calls->class[kind].subject, 0);
}
