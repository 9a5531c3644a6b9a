/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening, at one device or at all: an id that is bound to no address of a device listens wherever there is
 * one, as with the kernel's rdma_cm: it goes on when a device goes, and begins at those that come.  All with
 * the lock held.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>

#include "rdmacm/device/device.h"
#include "rdmacm/id/id.h"

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
	/* Where it is in an address of either family. */
	((struct sockaddr_in *)(void *)&id->base.route.addr.src_addr)->sin_port = htons(port);
}

/* An unspecified address is any device's; with AFONLY, of those of its family. */
static bool
is_wanted(const struct id *id, const struct device *device)
{
	uint32_t index;

	if (id->device != NULL)
		return id->device == device;
	return !id->afonly || device_has_family(device, id->base.route.addr.src_addr.sa_family, &index);
}

/* Where the one at a device is, or the end of the list. */
static struct listening **
find(struct id *id, const struct device *device)
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
ask(struct device *device, struct listening *l, struct one_msg *msg, struct one_reply *reply)
{
	uint16_t port = (uint16_t)msg->listen.service;
	int error;

	msg->type = ONE_MSG_LISTEN;
	msg->listen.cq = device->cm.ring.id;
	error = verbs_cm_call(device->verbs, msg, reply);
	if (error == -EADDRINUSE)
		refused_because(error,
				"port = %u: another id or program has it at this port of the data plane; "
				"choose another, or 0 to be given one",
				port);
	if (error == 0)
		l->later = (msg->listen.flags & ONE_LISTEN_LATER) != 0;
	return error == -EDQUOT ? -ENOMEM : error;
}

/* At one device more; `later`: the port is held, and nobody let in. */
static int
add(struct id *id, struct device *device, bool later)
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
	error = ask(device, l, &msg, &reply);
	if (error != 0) {
		free(l);
		return error;
	}
	/* Chosen by the data plane when it was 0. */
	set_port(id, (uint16_t)reply.listening.service);
	l->device = device;
	l->afonly = id->afonly;
	l->listener = reply.listening.listener;
	l->next = id->listening;
	id->listening = l;
	return 0;
}

/* It listens at the device, where its port may be held already. */
static int
begin(struct id *id, struct device *device)
{
	struct listening **link = find(id, device), *l = *link;
	struct one_msg msg = {0};
	struct one_reply reply;

	/* What it may be restricted to after its port was held, it is not held for. */
	if (l != NULL && l->later && l->afonly != id->afonly) {
		let_go(link);
		l = NULL;
	}
	if (l == NULL)
		return add(id, device, false);
	if (!l->later)
		return 0;
	msg.listen.listener = l->listener;
	msg.listen.service = ids_service(id, port_of(id)); /* which a refusal names */
	return ask(device, l, &msg, &reply);
}

/* ---- rdma_bind_addr, rdma_resolve_addr ---- */

static int
hold_all(struct id *id)
{
	int error = 0;

	for (struct device *d = devices; d != NULL && error == 0; d = d->next)
		if (is_wanted(id, d) && *find(id, d) == NULL)
			error = add(id, d, true);
	return error;
}

/* Of the port space TCP the first device chooses it, which knows those that are free, if there is one. */
static uint16_t
suggestion(const struct id *id)
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
		set_port(id, suggestion(id));
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
	const struct listening *l = *find(id, id->device);

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
nowhere(void)
{
	return refused_because(-ENODEV,
			       "ports = 0: the data plane is not there, or the port has gone that the id "
			       "is bound to; see `onesidectl show ports`, oneside-dataplane(8), and "
			       "ONESIDE_SOCKET");
}

/* At an unspecified address it listens though no device is there yet that it wants. */
static int
listen_at_all(struct id *id)
{
	int error = id->device == NULL && devices != NULL ? 0 : -ENODEV;

	listening_narrow(id);
	for (struct device *d = devices; d != NULL; d = d->next) {
		if (!is_wanted(id, d))
			continue;
		error = begin(id, d);
		if (error != 0)
			return error;
	}
	return error != 0 ? nowhere() : 0;
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
		if (error != 0) { /* no device lets others in, and the port remains the id's */
			listening_end(id);
			listening_hold(id);
		}
	} else {
		refused_because(error, "id = %p: it is %s", (const void *)base,
				id->bound ? "listening; one rdma_listen is enough"
					  : "bound to no address; rdma_bind_addr first");
	}
	pthread_mutex_unlock(&cma_lock);
	return cma_end(__func__, error, base);
}

/* ---- devices go and come ---- */

void
listening_leave(struct id *id, const struct device *device)
{
	struct listening **link = find(id, device), *l = *link;

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
		everywhere &= !is_wanted(id, d) || begin(id, d) == 0;
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
