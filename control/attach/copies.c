/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that could not be shared, and is moved by the copy thread of its application
 * (dataplane/mem/reach.h): its staging memory, for how long a copy may go unanswered, and
 * what has to be answered before a registration or a window is freed.
 */
#include <errno.h>

#include "control/attach/client.h"
#include "control/attach/copies.h"
#include "dataplane/mem/reach.h"

/* A page from a slow disk has come by then, and peers have not given up yet (connection.h). */
#define PATIENCE_NS (3 * NS_PER_S)
#define LOOK_NS (NS_PER_S / 2)
#define SETTLE_NS (NS_PER_MS / 10)

int
copies_start(struct client *client, const struct one_msg *msg)
{
	int error;

	if (!control.config->process_memory)
		return client_refuse(client, -EOPNOTSUPP, ONE_SUBJECT_MEMORY, 0);
	if (client->reach == NULL) {
		uint64_t offset;

		error = client_alloc(client, sizeof(struct one_copies), &offset);
		if (error != 0)
			return client_refuse(client, error, ONE_SUBJECT_QUOTA,
					     control.config->max_bytes_per_uid);
		client->reach = engine_client_reach(client->engine, offset);
		if (client->reach == NULL) {
			client_free(client, offset, sizeof(struct one_copies));
			return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
		}
		client->copies_offset = offset;
		client->copies_at = control.now + LOOK_NS;
	}
	client->reply.copies.offset = client->copies_offset;
	return 0;
}

void
copies_settle(struct client *client, struct object *object)
{
	if (client->reach != NULL) {
		/* A grace period has passed since the key was removed: no core begins another. */
		client->leaving_mark = reach_mark(client->reach);
		if (!reach_passed(client->reach, client->leaving_mark)) {
			client->leaving = object;
			return;
		}
	}
	attach_calls->class[object->kind].release(object);
}

void
copies_poll(struct client *client)
{
	struct object *object = client->leaving;
	uint64_t since;

	if (client->reach == NULL || !client_alive(client))
		return;
	if (object != NULL && reach_passed(client->reach, client->leaving_mark)) {
		client->leaving = NULL;
		attach_calls->class[object->kind].release(object);
	}
	if (control.now < client->copies_at)
		return;
	client->copies_at = control.now + LOOK_NS;
	since = reach_since(client->reach);
	if (since != 0 && control.now > since && control.now - since > PATIENCE_NS)
		client_kill(client, ONE_FAULT_MEMORY, "its copy thread does not answer");
}

uint64_t
copies_deadline(const struct client *client)
{
	if (client->reach == NULL || !client_alive(client))
		return NEVER;
	return client->leaving != NULL ? control.now + SETTLE_NS : client->copies_at;
}
