/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles: destinations of datagrams.  The application names an address.  The control thread resolves
 * the address by the same rules as for a connection, and gives the cores a frame template, indexed by the
 * handle's id.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "control/attach/passing.h"
#include "control/connect/ah.h"
#include "control/connect/ends.h"

#define FLOW_LABEL_MAX 0xfffffu
#define HOP_LIMIT 64

struct ah {
	struct object object;
	struct pz *pz;
	struct path_port *port;
	struct wire_path path;
	struct neigh_waiter waiter;
	struct path_user path_user;
	struct suspended_request request; /* AH_CREATE, while `engine` is NULL */
	struct engine_ah *engine;         /* NULL: the next hop is being resolved */
};

/* Returns 0, or the refusal. */
static int
create_check(struct client *client, const struct one_ah_create *args, struct cm_path *ends)
{
	const struct conn_peer peer = {args->family, args->addr, args->source};

	if (object_get(client, OBJECT_PZ, args->pz) == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, args->pz);
	if (args->flow_label > FLOW_LABEL_MAX)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, args->flow_label);
	return conn_ends(client, &peer, ends);
}

static void
ah_fill(struct ah *ah, const struct one_ah_create *args, const struct cm_path *ends)
{
	struct client *client = ah->object.client;

	ah->pz = object_get(client, OBJECT_PZ, args->pz);
	ah->pz->object.users++;
	ah->port = client->port;
	ah->path.src = ends->src;
	ah->path.dst = ends->dst;
	memcpy(ah->path.src_mac, client->port->info->mac, sizeof(ah->path.src_mac));
	ah->path.tos = wire_without_ecn(args->traffic_class);
	ah->path.ttl = args->hop_limit > 1 ? args->hop_limit : HOP_LIMIT;
	ah->path.flow_label = args->flow_label;
	/* A source port per handle lets switches and receive queues distinguish the handles' flows. */
	ah->path.udp_src_port =
		wire_udp_source_port(args->flow_label, ah->object.id, (uint32_t)control_random());
}

/* Returns 0, or the refusal. */
static int
ah_new(struct client *client, const struct one_ah_create *args, const struct cm_path *ends, struct ah **out)
{
	struct ah *ah = object_new(client, OBJECT_AH, sizeof(*ah));
	struct quota_limit limit;

	if (ah == NULL)
		return object_refuse_new(client, OBJECT_AH);
	if (quota_take(&control.quota, client->account, QUOTA_AHS, 1, &limit) != 0) {
		object_free(ah);
		return client_refuse_limit(client, &limit);
	}
	ah_fill(ah, args, ends);
	*out = ah;
	return 0;
}

/* Gives the cores a template in place of the previous one.  False without memory. */
static bool
ah_publish(struct ah *ah)
{
	const struct engine_ah_config config = {
		.id = ah->object.id, .pz = ah->pz->number, .port = ah->port->index, .path = ah->path};
	struct engine_ah *before = ah->engine, *now = engine_ah_new(ah->object.client->engine, &config);

	if (now == NULL)
		return false;
	ah->engine = now;
	engine_ah_free(ah->object.client->engine, before);
	return true;
}

static struct ah *
ah_of_user(struct path_user *user)
{
	return (struct ah *)(void *)((char *)user - offsetof(struct ah, path_user));
}

static void
publish_anew(struct ah *ah)
{
	if (!ah_publish(ah))
		log_error(
			"event=path_lost text=\"no memory to update an address handle: its datagrams keep the old MAC addresses\"\n");
}

static void
path_moved(struct path_user *user, const uint8_t mac[6])
{
	struct ah *ah = ah_of_user(user);

	if (memcmp(ah->path.dst_mac, mac, sizeof(ah->path.dst_mac)) == 0)
		return;
	memcpy(ah->path.dst_mac, mac, sizeof(ah->path.dst_mac));
	publish_anew(ah);
}

static void
port_renamed(struct path_user *user)
{
	struct ah *ah = ah_of_user(user);

	memcpy(ah->path.src_mac, user->own_mac, sizeof(ah->path.src_mac));
	publish_anew(ah);
}

static void
begin_use(struct ah *ah)
{
	ah->path_user.moved = path_moved;
	ah->path_user.renamed = port_renamed;
	path_watch(&ah->path_user, ah->port, &ah->path.dst);
	ah->object.busy = false;
}

/* Completes AH_CREATE and fills `reply`.  On an error the handle is freed. */
static void
finish_ah(struct ah *ah, int status, struct one_reply *reply)
{
	if (status == 0 && !ah_publish(ah)) {
		status = -ENOMEM;
		reply->subject = ONE_SUBJECT_MEMORY;
	} else if (status != 0) {
		reply->subject = ONE_SUBJECT_ADDRESS;
	}
	reply->error = status;
	if (status != 0) {
		ah_destroy(ah);
		return;
	}
	begin_use(ah);
	reply->id.id = ah->object.id;
}

static void
on_neighbour(void *user, int status, const uint8_t mac[6])
{
	struct ah *ah = user;
	struct client *client = ah->object.client;
	struct suspended_request request = ah->request;
	struct one_reply reply = {0};

	if (status == 0)
		memcpy(ah->path.dst_mac, mac, sizeof(ah->path.dst_mac));
	finish_ah(ah, status, &reply);
	client_reply_suspended(client, &request, &reply);
}

int
ah_create(struct client *client, const struct one_msg *msg)
{
	const struct one_ah_create *args = &msg->ah_create;
	struct cm_path ends;
	int error = create_check(client, args, &ends);
	struct ah *ah = NULL;

	if (error == 0)
		error = ah_new(client, args, &ends, &ah);
	if (error != 0)
		return error;
	ah->waiter = (struct neigh_waiter){.done = on_neighbour, .user = ah};
	error = neigh_resolve(control.neigh, ah->port->index, &ah->path.dst, control.now, ah->path.dst_mac,
			      client->uid, &ah->waiter);
	if (error == -EINPROGRESS) {
		client_suspend(client, &ah->request);
		return REQUEST_LATER;
	}
	finish_ah(ah, error, &client->reply);
	return client->reply.error;
}

int
ah_free(struct client *client, const struct one_msg *msg)
{
	struct ah *ah = object_get(client, OBJECT_AH, msg->id.id);

	if (ah == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_AH, msg->id.id);
	ah_destroy(ah);
	return 0;
}

void
ah_unhook(struct ah *ah)
{
	neigh_cancel(&ah->waiter);
}

void
ah_destroy(struct ah *ah)
{
	struct client *client = ah->object.client;

	path_unwatch(&ah->path_user);
	engine_ah_free(client->engine, ah->engine);
	quota_give(&control.quota, client->account, QUOTA_AHS, 1);
	ah->pz->object.users--;
	object_free(ah);
}

/* ---- take-over ---- */

static const struct record_field fields[] = {
	RECORD_FIELD(ah, pz, RECORD_NAME, 0, &pass_object[OBJECT_PZ]),
	RECORD_FIELD(ah, path, RECORD_VALUE, 0, NULL),
};
static RECORD_FORM(form, RECORD_AH, 1, fields);

void
ahs_write(struct client *client, struct pass_out *out)
{
	const struct table *table = &client->table[OBJECT_AH];

	for (uint32_t i = 0; i < table->size; i++) {
		const struct ah *ah = table_at(table, i);

		if (ah != NULL)
			record_put(&out->records, &form, ah->object.id, ah, &out->context);
	}
}

static int
ah_read(struct client *client, struct pass_in *in)
{
	struct ah *ah = object_new_as(client, OBJECT_AH, sizeof(*ah), (uint32_t)in->record.head.id);
	struct quota_limit limit;
	uint64_t id;

	if (ah == NULL || pass_get(in, &form, ah, &id) != 0 || ah->pz == NULL ||
	    path_addr_number(client->port, &ah->path.src) == 0 ||
	    quota_take(&control.quota, client->account, QUOTA_AHS, 1, &limit) != 0)
		return pass_refuse(in, "an address handle is not valid, or a limit is too low");
	ah->pz->object.users++;
	ah->port = client->port;
	memcpy(ah->path.src_mac, client->port->info->mac, sizeof(ah->path.src_mac));
	if (!ah_publish(ah))
		return pass_refuse(in, "no memory");
	begin_use(ah);
	return 0;
}

int
ahs_read(struct client *client, struct pass_in *in)
{
	return pass_each(client, in, RECORD_AH, ah_read);
}
