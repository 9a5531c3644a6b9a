/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of an attachment: kinds, ids, and the functions of higher rooms for them. */
#ifndef CONTROL_ATTACH_OBJECT_H
#define CONTROL_ATTACH_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/message.h"

struct client;
struct conn;
struct engine_command;
struct qp_kind;
struct quota_account;
struct segment;

/* In the order in which an attachment releases them: no kind comes after one that it refers to. */
enum object_kind {
	OBJECT_LISTENER,
	OBJECT_CR,
	OBJECT_SIDR,
	OBJECT_QP,
	OBJECT_SRQ,
	OBJECT_CQ,
	OBJECT_CHANNEL,
	OBJECT_AH,
	OBJECT_MW,
	OBJECT_MR,
	OBJECT_REGION,
	OBJECT_PZ,
	OBJECT_KINDS
};

struct object {
	uint32_t id;    /* by which the application knows the object */
	uint32_t users; /* number of objects that refer to this one */
	enum object_kind kind;
	bool busy; /* being created or freed: requests cannot find the object */
	struct client *client;
};

typedef int request_handler(struct client *client,
			    const struct one_msg *msg); /* 0, -errno, REQUEST_LATER or REQUEST_AGAIN */

/* A kind of objects, and the four steps of an attachment's end (client.c) for an object of the kind.  A step
 * NULL: nothing to do. */
struct object_class {
	enum one_subject subject;     /* the kind in a refusal */
	uint32_t bytes;               /* the data plane's own memory per object, charged to the user */
	const char *limit;            /* key of [limits] for the maximum number; "": the number is fixed */
	enum one_msg_type free;       /* type of the request that object_free_request() handles; 0: none */
	void (*unhook)(void *object); /* makes the object impossible to find, and notifies peers */
	/* Removes the object from its cores, and then calls `done` (NULL: nothing) with it. */
	void (*remove)(void *object, void (*done)(struct engine_command *command, void *object));
	void (*withdraw)(void *object); /* revokes the object's keys */
	void (*destroy)(void *object);  /* frees the object, which no core can access any more */
	/* Like `destroy`, but for the request under way, which is answered when the object is freed and no
	 * longer charged.  NULL: `destroy` does both at once. */
	void (*release)(void *object);
};

struct attach_calls {
	struct {
		const char *name;
		request_handler *handler;
	} request[ONE_MSG_MAX]; /* by enum one_msg_type; NULL: no such request */
	struct object_class class[OBJECT_KINDS];
	/* Called at a client's end, before objects are unhooked, once for each slice (client_slice()), until
	 * true. */
	bool (*leave)(struct client *client);
	/* Releases some cached registrations of the user.  False: there are none. */
	bool (*reclaim)(struct quota_account *account);
	const struct qp_kind *endpoint; /* kind of the queue pairs that QP_CREATE creates */
	const struct qp_kind *import, *export;
	void (*rsm_request)(struct segment *segment,
			    struct conn *conn); /* connection request for a segment */
};
/* All calls from lower rooms to higher ones, except those about ports (path_calls).  daemon_init() sets this
 * pointer. */
extern const struct attach_calls *attach_calls;

void *object_new(struct client *client, enum object_kind kind, size_t size);
/* object_new() with an id that another process has given out. */
void *object_new_as(struct client *client, enum object_kind kind, size_t size, uint32_t id);
void object_free(void *object); /* the id becomes invalid */
/* Returns NULL if there is no such object, or the object is busy. */
void *object_get(struct client *client, enum object_kind kind, uint32_t id);
/* Frees the object that the request names, of the class whose `free` is the request's type.  Refused while
 * other objects refer to it. */
int object_free_request(struct client *client, const struct one_msg *msg);
/* Frees an object that nothing uses any more, and answers the request under way. */
void object_release(struct object *object);
/* Handles the core's answer to ADD: answers the request, and destroys the object if ADD failed. */
void object_added(struct engine_command *command, void *object);
int object_refuse_new(struct client *client,
		      enum object_kind kind); /* the refusal, if object_new() returned NULL */
/* True if a request that exceeds a limit of its user is to be retried when account->left has changed:
 * something is being released, or cached memory now is. */
bool client_awaits_room(struct client *client);

#endif
