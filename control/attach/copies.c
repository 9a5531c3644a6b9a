/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounced accesses (dataplane/mem/bounce.h) on the control thread: their staging memory, the time limit for
 * an answer of the copy thread, and the wait for accesses under way before a registration or a window is
 * freed. */
#include <errno.h>

#include "control/attach/client.h"
#include "dataplane/mem/bounce.h"

/* Time limit for an answer: longer than a page fault on a slow disk, shorter than the timeout of peers
 * (connection.h). */
#define PATIENCE_NS (3 * NS_PER_S)
#define LOOK_NS (NS_PER_S / 2)
#define SETTLE_NS (NS_PER_MS / 10)

/* Allocates the staging memory of one lane. */
static int
start_lane(struct client *client, struct engine_client *lane, uint64_t *offset)
{
	struct bounce *bounce;
	int error = client_alloc(client, sizeof(struct one_copies), offset);

	if (error != 0)
		return error;
	bounce = engine_client_bounce(lane, *offset);
	if (bounce == NULL) {
		client_free(client, *offset, sizeof(struct one_copies));
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	if (client->bounce == NULL)
		client->bounce = bounce;
	return 0;
}

int
copies_add_lane(struct client *client, struct engine_client *lane)
{
	struct one_copies *last;
	uint64_t offset;
	int error;

	if (client->bounce == NULL || engine_client_bounce(lane, 0) != NULL)
		return 0;
	error = start_lane(client, lane, &offset);
	if (error != 0)
		return error;
	last = (struct one_copies *)(client->arena.base + client->copies_last);
	/* Pairs with the copy thread's load of `next`. */
	atomic_store_explicit(&last->next, offset, memory_order_release);
	client->copies_last = offset;
	return 0;
}

static int
start_other_lanes(struct client *client)
{
	struct engine_client *lane = engine_lane_next(client->engine);
	int error = 0;

	for (; lane != NULL && error == 0; lane = engine_lane_next(lane))
		error = copies_add_lane(client, lane);
	return error;
}

int
copies_start(struct client *client, const struct one_msg *msg)
{
	int error;

	if (!control.config->process_memory)
		return client_refuse(client, -EOPNOTSUPP, ONE_SUBJECT_MEMORY, 0);
	if (client->bounce == NULL) {
		error = start_lane(client, client->engine, &client->copies_offset);
		if (error != 0)
			return error;
		client->copies_last = client->copies_offset;
		client->copies_at = control.now + LOOK_NS;
	}
	error = start_other_lanes(client);
	client->reply.copies.offset = client->copies_offset;
	return error;
}

void
copies_drain(struct client *client, struct object *object)
{
	if (client->bounce != NULL) {
		/* A grace period has passed since the key was removed: no core begins another access. */
		bounce_mark_all(client->bounce, &client->leaving_marks);
		if (!bounce_passed_all(client->bounce, &client->leaving_marks)) {
			client->leaving = object;
			return;
		}
	}
	object_release(object);
}

void
copies_poll(struct client *client)
{
	struct object *object = client->leaving;
	uint64_t since;

	if (client->bounce == NULL || !client_alive(client))
		return;
	if (object != NULL && bounce_passed_all(client->bounce, &client->leaving_marks)) {
		client->leaving = NULL;
		object_release(object);
	}
	if (control.now < client->copies_at)
		return;
	client->copies_at = control.now + LOOK_NS;
	since = bounce_since(client->bounce);
	if (since != 0 && control.now > since && control.now - since > PATIENCE_NS)
		client_kill(client, ONE_FAULT_MEMORY, "its copy thread does not answer");
}

uint64_t
copies_deadline(const struct client *client)
{
	if (client->bounce == NULL || !client_alive(client))
		return NEVER;
	return client->leaving != NULL ? control.now + SETTLE_NS : client->copies_at;
}
