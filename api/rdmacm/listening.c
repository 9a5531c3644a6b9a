/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening, at one device or at all.  As in the kernel's rdma_cm, an id that is bound to an unspecified or
 * loopback address listens at all devices: it continues when a device is lost, and begins at new ones.  All
 * functions but rdma_listen() are called with the lock held. */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>

#include "rdmacm/device.h"
#include "rdmacm/id.h"

/* Linux's default range of ephemeral ports. */
#define EPHEMERAL_FIRST 32768u
#define EPHEMERAL_COUNT 28232u
#define HOLD_TRIES 100

static uint16_t
port_of(const struct id *id)
{
	return addr_port(&id->base.route.addr.src_addr);
}

static void
set_port(struct id *id, uint16_t port)
{
	/* sin_port and sin6_port have the same offset. */
	((struct sockaddr_in *)(void *)&id->base.route.addr.src_addr)->sin_port = htons(port);
}

/* True if the id listens at the device.  AFONLY excludes devices without an address of the id's family. */
static bool
is_wanted(const struct id *id, const struct device *device)
{
	uint32_t index;

	if (id->device != NULL)
		return id->device == device;
	return !id->afonly || device_has_family(device, id->base.route.addr.src_addr.sa_family, &index);
}

/* Returns the link to the listener at a device, or the end of the list. */
static struct listening **
find_listening(struct id *id, const struct device *device)
{
	struct listening **link = &id->listening;

	while (*link != NULL && (*link)->device != device)
		link = &(*link)->next;
	return link;
}

static void
let_go(struct listening **link)
{
	struct listening *l = *link;
	struct one_msg msg = {.type = ONE_MSG_UNLISTEN, .id.id = l->listener};

	verbs_cm_call(l->device->verbs, &msg, NULL);
	*link = l->next;
	free(l);
}

void
listening_end(struct id *id)
{
	while (id->listening != NULL)
		let_go(&id->listening);
}

static int
send_listen(struct device *device, struct listening *l, struct one_msg *msg, struct one_reply *reply)
{
	uint16_t port = (uint16_t)msg->listen.service;
	int error;

	msg->type = ONE_MSG_LISTEN;
	msg->listen.cq = device->cm.ring.id;
	error = verbs_cm_call(device->verbs, msg, reply);
	if (error == -EADDRINUSE)
		refused_because(
			error,
			"port = %u: another id or program uses it at this port of the data plane; choose another, or 0 for a free one",
			port);
	if (error == 0)
		l->later = (msg->listen.flags & ONE_LISTEN_LATER) != 0;
	return error == -EDQUOT ? -ENOMEM : error;
}

/* Adds a listener at a device; with `later` it holds the port, but accepts no requests yet. */
static int
add_listening(struct id *id, struct device *device, bool later)
{
	struct listening *l = calloc(1, sizeof(*l));
	struct one_msg msg = {0};
	struct one_reply reply;
	int error;

	if (l == NULL)
		return -ENOMEM;
	msg.listen.service = ids_service(id, port_of(id));
	msg.listen.flags = later ? ONE_LISTEN_LATER | (id->reuseaddr ? ONE_LISTEN_SHARED : 0) : 0;
	msg.listen.family = id->afonly ? id->base.route.addr.src_addr.sa_family : 0;
	msg.listen.source = id->device != NULL ? (uint16_t)(id->addr + 1) : 0;
	error = send_listen(device, l, &msg, &reply);
	if (error != 0) {
		free(l);
		return error;
	}
	/* If the port was 0, the data plane has chosen one. */
	set_port(id, (uint16_t)reply.listening.service);
	l->device = device;
	l->afonly = id->afonly;
	l->listener = reply.listening.listener;
	l->next = id->listening;
	id->listening = l;
	return 0;
}

/* Begins to listen at the device, where the id may hold its port already. */
static int
begin_listening(struct id *id, struct device *device)
{
	struct listening **link = find_listening(id, device), *l = *link;
	struct one_msg msg = {0};
	struct one_reply reply;

	/* AFONLY changed after the port was held: hold the port with the new restriction. */
	if (l != NULL && l->later && l->afonly != id->afonly) {
		let_go(link);
		l = NULL;
	}
	if (l == NULL)
		return add_listening(id, device, false);
	if (!l->later)
		return 0;
	msg.listen.listener = l->listener;
	msg.listen.service = ids_service(id, port_of(id)); /* for the message of a refusal */
	return send_listen(device, l, &msg, &reply);
}

/* ---- rdma_bind_addr, rdma_resolve_addr ---- */

static int
hold_all(struct id *id)
{
	int error = 0;

	for (struct device *d = devices; d != NULL && error == 0; d = d->next)
		if (is_wanted(id, d) && *find_listening(id, d) == NULL)
			error = add_listening(id, d, true);
	return error;
}

/* Suggests a random ephemeral port; in port space TCP, if a wanted device exists, 0, so that the first device
 * chooses a free port. */
static uint16_t
suggest_port(const struct id *id)
{
	const struct device *d = devices;
	uint16_t number = 0;

	while (d != NULL && !is_wanted(id, d))
		d = d->next;
	if ((id->base.ps != RDMA_PS_TCP || d == NULL) &&
	    getrandom(&number, sizeof(number), 0) == (ssize_t)sizeof(number))
		number = (uint16_t)(EPHEMERAL_FIRST + number % EPHEMERAL_COUNT);
	return number;
}

static int
hold_any(struct id *id)
{
	int error = -EADDRINUSE;

	for (int i = 0; i < HOLD_TRIES && error == -EADDRINUSE; i++) {
		set_port(id, suggest_port(id));
		error = hold_all(id);
		if (error != 0)
			listening_end(id);
	}
	if (error != 0)
		set_port(id, 0);
	return error == -EADDRINUSE ? -EADDRNOTAVAIL : error;
}

int
listening_hold(struct id *id)
{
	int error = port_of(id) == 0 ? hold_any(id) : hold_all(id);

	if (error != 0)
		listening_end(id);
	return error;
}

uint32_t
listening_at_device(struct id *id)
{
	const struct listening *l = *find_listening(id, id->device);

	return l != NULL ? l->listener : 0;
}

/* ---- rdma_listen ---- */

void
listening_narrow(struct id *id)
{
	struct listening **link = &id->listening;

	while (*link != NULL)
		if (is_wanted(id, (*link)->device))
			link = &(*link)->next;
		else
			let_go(link);
}

static int
no_device_left(void)
{
	return refused_because(
		-ENODEV,
		"ports = 0: no data plane, or the port that the id is bound to is lost; see `onesidectl show ports`, oneside-dataplane(8), and ONESIDE_SOCKET");
}

/* Listens at all wanted devices.  Without one it fails, unless the id is bound to no device and any is
 * open. */
static int
listen_at_all(struct id *id)
{
	int error = id->device == NULL && devices != NULL ? 0 : -ENODEV;

	listening_narrow(id);
	for (struct device *d = devices; d != NULL; d = d->next) {
		if (!is_wanted(id, d))
			continue;
		error = begin_listening(id, d);
		if (error != 0)
			return error;
	}
	return error != 0 ? no_device_left() : 0;
}

int
rdma_listen(struct rdma_cm_id *base, int backlog)
{
	struct id *id = TO_ID(base);
	int error = -EINVAL;

	pthread_mutex_lock(&cma_lock);
	id->backlog = backlog > 0 ? (uint32_t)backlog : 0;
	if (id->bound && !id->listens) {
		error = listen_at_all(id);
		id->listens = error == 0;
		if (error != 0) { /* no device accepts requests, and the id still holds its port */
			listening_end(id);
			listening_hold(id);
		}
	} else {
		refused_because(error, "id = %p: the id is %s", (const void *)base,
				id->bound ? "listening already; one rdma_listen is enough"
					  : "bound to no address; rdma_bind_addr first");
	}
	pthread_mutex_unlock(&cma_lock);
	return cma_end(__func__, error, base);
}

/* ---- lost and new devices ---- */

void
listening_leave(struct id *id, const struct device *device)
{
	struct listening **link = find_listening(id, device), *l = *link;

	if (l == NULL)
		return;
	*link = l->next;
	free(l);
}

static bool
listens_everywhere(struct id *id)
{
	bool everywhere = devices_complete();

	for (struct device *d = devices; d != NULL; d = d->next)
		everywhere &= !is_wanted(id, d) || begin_listening(id, d) == 0;
	return everywhere;
}

bool
listening_resume(void)
{
	bool everywhere = true;

	for (struct id *id = ids; id != NULL; id = id->next) {
		if (!id->listens || id->device != NULL)
			continue;
		if (everywhere && !devices_complete())
			devices_open();
		everywhere &= listens_everywhere(id);
	}
	return everywhere;
}
