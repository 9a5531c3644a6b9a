/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of an attachment: their kinds, their ids, and what the rooms above do with them. */
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

/* In the order in which an attachment lets go of them: none comes after what it refers to. */
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
	uint32_t id;    /* the application's */
	uint32_t users; /* objects that refer to this one */
	enum object_kind kind;
	bool busy; /* being made or freed: unknown to the application */
	struct client *client;
};

typedef int request_handler(struct client *client,
			    const struct one_msg *msg); /* 0, -errno or REQUEST_LATER */

/* The four steps of an attachment's end (client.c), for each object of a kind; NULL: nothing to do. */
struct object_class {
	enum one_subject subject; /* what a refusal calls it */
	uint32_t bytes;           /* of the data plane's own memory, which its user is charged */
	const char *limit;        /* the key of [limits] that says how many there may be; "": it is fixed */
	enum one_msg_type free;   /* the request for object_free_request(); 0: none */
	void (*unhook)(void *object); /* it can no longer be found; peers are notified */
	/* The core lets go of it, and `done` (NULL: nothing) is called with it. */
	void (*remove)(void *object, void (*done)(struct engine_command *command, void *object));
	void (*withdraw)(void *object); /* its keys */
	void (*destroy)(void *object);  /* no core looks at it any more */
	/* The same at the request under way, which it answers when it is free and no longer counts; NULL:
	 * that is at once. */
	void (*release)(void *object);
};

struct attach_calls {
	struct {
		const char *name;
		request_handler *handler;
	} request[ONE_MSG_MAX]; /* by enum one_msg_type; NULL: there is none */
	struct object_class class[OBJECT_KINDS];
	/* It ends: before its objects are unhooked, a slice (client_slice) at a time. */
	bool (*leave)(struct client *client);
	/* Some of what is kept for the user's attachments goes; false: there is none. */
	bool (*reclaim)(struct quota_account *account);
	const struct qp_kind *endpoint; /* the kind of queue pairs that QP_CREATE makes */
	void (*rsm_request)(struct segment *segment, struct conn *conn); /* a request for an RSM segment */
};
/* All that lower rooms call in higher ones but for ports (path_calls); set by daemon_init. */
extern const struct attach_calls *attach_calls;

void *object_new(struct client *client, enum object_kind kind, size_t size);
void object_free(void *object); /* forgets the id */
/* NULL when there is no such object, or it is busy. */
void *object_get(struct client *client, enum object_kind kind, uint32_t id);
/* Frees what its class says the request is for; refused while others refer to it. */
int object_free_request(struct client *client, const struct one_msg *msg);
/* Nothing uses it any more: it is freed, and the request under way answered. */
void object_release(struct object *object);
/* The core's answer to its ADD: the request is answered, and when that failed it is destroyed. */
void object_added(struct engine_command *command, void *object);
int object_refuse_new(struct client *client,
		      enum object_kind kind); /* what to say when object_new() is NULL */
/* A request lacks room of its user's: whether something is on its way out, or memory that was kept goes now.
 * The request is to be tried again when account->left has changed. */
bool client_awaits_room(struct client *client);

#endif
