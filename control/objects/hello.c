/* SPDX-License-Identifier: BSD-3-Clause */
/* HELLO: the first request of an attachment, which creates its arena. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "control/objects/objects.h"
#include "control/path/path.h"

#define KEYS_AT 2048u
#define DOORBELLS_AT 4096u
#define CHANNELS_AT (DOORBELLS_AT + ((sizeof(struct one_doorbells) + 4095u) & ~4095u))
#define ARENA_RESERVED (CHANNELS_AT + ONE_CHANNELS * sizeof(struct one_channel))
/* The data plane's own memory for an attachment without objects: populated pages of its arena, and the
 * structures of control thread and core. */
#define ATTACHMENT_BYTES (((ARENA_RESERVED + 4095u) & ~4095u) + 65536u)

static void
lay_out(struct client *client)
{
	struct one_arena *header = (struct one_arena *)client->arena.base;

	header->magic = ONE_ARENA_MAGIC;
	header->version = ONE_ABI_VERSION;
	header->size = ONE_ARENA_SIZE;
	header->doorbells = DOORBELLS_AT;
	header->channels = CHANNELS_AT;
	header->keys = KEYS_AT;
}

static void
init_tables(struct client *client)
{
	const struct one_limits *limits = &control.config->limits;

	table_init(&client->table[OBJECT_PZ], limits->max_pz);
	table_init(&client->table[OBJECT_CQ], limits->max_cq + 1); /* plus the asynchronous CQ */
	table_init(&client->table[OBJECT_QP], limits->max_qp < ONE_QPS_MAX ? limits->max_qp : ONE_QPS_MAX);
	/* Besides listeners that accept requests (listen_create()), each queue pair that connects may have a
	 * port. */
	table_init(&client->table[OBJECT_LISTENER], limits->max_listen + limits->max_qp);
	table_init(&client->table[OBJECT_CR], CLIENT_CRS_MAX);
	table_init(&client->table[OBJECT_SIDR], CLIENT_CRS_MAX);
	table_init(&client->table[OBJECT_REGION], TABLE_MAX);
	table_init(&client->table[OBJECT_MR], limits->max_mr);
	table_init(&client->table[OBJECT_MW], limits->max_mw);
	table_init(&client->table[OBJECT_SRQ], limits->max_srq);
	table_init(&client->table[OBJECT_CHANNEL], limits->max_channels);
	table_init(&client->table[OBJECT_AH], limits->max_ah);
}

static void
fill_welcome(struct client *client)
{
	struct one_welcome *w = &client->reply.welcome;
	const struct path_port *port = client->port;

	w->version = ONE_ABI_VERSION;
	w->idle = control.config->idle;
	w->node_id = control.config->node;
	w->port_index = port->index;
	memcpy(w->port, port->info->name, sizeof(w->port));
	w->mtu = port->info->path_mtu;
	w->family = addr_from_wire(&port->info->addr[0], w->addr);
	w->async_cq = client->async_cq->object.id;
	w->arena_size = ONE_ARENA_SIZE;
	w->async_cq_offset = client->async_cq->first.offset;
	w->async_cq_log2 = client->async_cq->first.log2;
	w->async_cq_bundle = (uint32_t)client->async_cq->bundle;
	w->limits = control.config->limits;
	w->limits.vectors = engine_num_cores();
}

static void
refused_by_core(struct client *client, int error)
{
	if (client->state != CLIENT_CONNECTED)
		return;
	client_reply(client, error);
	client_kill(client, 0, "its core refused the attachment");
}

static void
async_added(struct engine_command *command, void *object)
{
	struct cq *cq = object;
	struct client *client = cq->object.client;

	if (command->status != 0) {
		cq_destroy(cq);
		refused_by_core(client, command->status);
		return;
	}
	cq->object.busy = false;
	if (client->state != CLIENT_CONNECTED)
		return;
	client_state_set(client, CLIENT_ATTACHED, "HELLO");
	control.attached_ever++;
	fill_welcome(client);
	client_reply(client, 0);
	log_info("event=attached pid=%d program=\"%s\" uid=%u port=%s\n", (int)client->pid, client->program,
		 client->uid, client->port->info->name);
}

static void
client_added(struct engine_command *command, void *object)
{
	struct client *client = object;
	int error = command->status;

	if (error != 0) {
		engine_client_free(client->engine);
		client->engine = NULL;
	}
	if (client->state != CLIENT_CONNECTED)
		return;
	if (error == 0)
		error = cq_start(client, ASYNC_CQ_LOG2, &client->async_cq, async_added);
	if (error != 0)
		refused_by_core(client, error);
}

int
hello_make_lane(struct client *client, struct engine_client_config config)
{
	/* An access to the sealed arena may still fault, because of huge pages or a memory limit. */
	int error = engine_guard_add(client->arena.base, ONE_ARENA_SIZE, client);

	if (error < 0)
		return client_refuse(client, error, ONE_SUBJECT_MEMORY, 0);
	client->arena_mapping->guard = error;
	init_tables(client);
	config.owner = client;
	config.arena = client->arena.base;
	config.wake_fd = client->wake_fd;
	config.user = user_of(client->account);
	client->engine = config.user != NULL ? engine_client_new(&config) : NULL;
	return client->engine != NULL ? 0 : client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
}

static int
start_attachment(struct client *client)
{
	int error;

	client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (client->wake_fd < 0)
		return client_refuse(client, -errno, ONE_SUBJECT_MEMORY, 0);
	error = lane_open(&client->lane, client->uid);
	if (error != 0)
		return client_refuse(client, error, ONE_SUBJECT_MEMORY, 0);
	client->arena_mapping = mapping_of_arena(client);
	if (client->arena_mapping == NULL)
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	error = arena_open(&client->arena, ONE_ARENA_SIZE, ARENA_RESERVED);
	if (error < 0)
		return client_refuse(client, error, ONE_SUBJECT_MEMORY, ARENA_RESERVED);
	client->reply_fd = error;
	lay_out(client);
	error = hello_make_lane(client, (struct engine_client_config){
						.doorbells = DOORBELLS_AT,
						.channels = CHANNELS_AT,
						.keys = KEYS_AT,
					});
	if (error != 0)
		return error;
	command_send(command_new(client, ENGINE_CLIENT_ADD, client_added, client));
	return REQUEST_LATER;
}

int
hello_port_request(struct client *client, const struct one_msg *msg)
{
	uint32_t index = msg->port_query.port;
	const struct engine_port_info *info;
	struct one_port *out = &client->reply.port;

	if (index >= path_num_ports)
		return client_refuse(client, -ENODEV, ONE_SUBJECT_PORT, path_num_ports);
	info = engine_port(path_port[index].index);
	out->num_ports = path_num_ports;
	out->mbps = info->mbps;
	out->hwaddr = mac_number(info->mac);
	out->link_up = info->link_up;
	memcpy(out->name, info->name, sizeof(out->name));
	out->num_addrs = info->num_addrs;
	for (uint32_t i = 0; i < info->num_addrs; i++) {
		out->addr[i].family = addr_from_wire(&info->addr[i], out->addr[i].addr);
		out->addr[i].prefix = path_port[index].config->addr[i].prefix;
	}
	return 0;
}

int
hello_source_request(struct client *client, const struct one_msg *msg)
{
	const struct one_source_query *args = &msg->source_query;
	const struct path_port *port = client->port;
	struct one_source *out = &client->reply.source;
	struct wire_addr dst, src;
	int bits;

	if (args->family != AF_INET && args->family != AF_INET6)
		return client_refuse(client, -EAFNOSUPPORT, ONE_SUBJECT_ADDRESS, args->family);
	addr_to_wire(args->family, args->addr, &dst);
	out->source = path_addr_number(port, &dst);
	out->bits = ONE_SOURCE_OWN;
	if (out->source != 0)
		return 0;
	bits = neigh_source(control.neigh, port->index, &dst, &src);
	if (bits < 0)
		return client_refuse(client, bits, ONE_SUBJECT_ADDRESS, 0);
	out->source = path_addr_number(port, &src);
	out->bits = (uint32_t)bits;
	return 0;
}

/* Gives the attachment metrics of its own, unless too many have them. */
static void
hello_label(struct client *client)
{
	client->labelled = client_totals.labelled < CLIENT_LABELS;
	client_totals.labelled += client->labelled;
}

/* A refused HELLO ends the attachment, since nothing else may follow. */
int
hello_request(struct client *client, const struct one_msg *msg)
{
	const struct one_hello *hello = &msg->hello;
	char name[ONE_PORT_NAME];
	struct quota_limit limit;
	int error;

	memcpy(name, hello->port, sizeof(name));
	name[sizeof(name) - 1] = '\0';
	memcpy(client->program, hello->program, sizeof(client->program));
	client->program[sizeof(client->program) - 1] = '\0';
	for (char *c = client->program; *c != '\0'; c++)
		if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') /* the log prints the name in quotes */
			*c = '?';
	client->kind = hello->kind;
	client->port = name[0] == '\0' ? &path_port[0] : path_port_by_name(name);
	if (hello->magic != ONE_MSG_MAGIC || hello->version != ONE_ABI_VERSION)
		error = client_refuse(client, -EPROTO, ONE_SUBJECT_VERSION, ONE_ABI_VERSION);
	else if (hello->kind < ONE_KIND_DAT || hello->kind > ONE_KIND_VERBS)
		error = client_refuse(client, -EINVAL, ONE_SUBJECT_NONE, hello->kind);
	else if (client->port == NULL)
		error = client_refuse(client, -ENODEV, ONE_SUBJECT_PORT, path_num_ports);
	else if (control.draining)
		error = client_refuse(client, -EDQUOT, ONE_SUBJECT_QUOTA, 0);
	else if (quota_attach(&control.quota, client->account, &limit) != 0)
		error = quota_is_leaving(client->account) ? REQUEST_AGAIN
							  : client_refuse_limit(client, &limit);
	else if (quota_charge_own(&control.quota, client->account, ATTACHMENT_BYTES, &limit) != 0) {
		quota_detach(&control.quota, client->account);
		error = client_awaits_room(client) ? REQUEST_AGAIN : client_refuse_limit(client, &limit);
	} else {
		client->arena_charged = ATTACHMENT_BYTES;
		hello_label(client);
		error = start_attachment(client);
	}
	if (error == REQUEST_LATER || error == REQUEST_AGAIN)
		return error;
	client_reply(client, error);
	client_kill(client, 0, "its HELLO was refused");
	return REQUEST_LATER;
}
