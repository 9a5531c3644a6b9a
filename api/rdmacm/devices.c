/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, which stay open until they are lost, and their addresses. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm/device.h"

struct device *devices;
static struct device *gone; /* lost devices, not freed: applications may have objects of their contexts */
static bool complete;       /* each port has an open device */
static int attach_error;    /* -errno of the last attempt to attach; 0 if successful */

static struct device *
device_open(struct ibv_device *which)
{
	struct device *device = calloc(1, sizeof(*device));
	int error = ENOMEM;

	if (device == NULL)
		return NULL;
	device->verbs = ibv_open_device(which);
	if (device->verbs != NULL) {
		error = -verbs_cm_open(device->verbs, &device->cm);
		if (error == 0) {
			error = -reader_watch(device);
			if (error == 0)
				return device;
			close(device->cm.fd);
		}
		ibv_close_device(device->verbs);
	} else {
		error = errno;
	}
	free(device);
	errno = error;
	return NULL;
}

static bool
is_open(const struct ibv_device *which)
{
	const struct device *device = devices;

	while (device != NULL && device->verbs->device != which)
		device = device->next;
	return device != NULL;
}

int
devices_open(void)
{
	struct device **last = &devices;
	struct ibv_device **list;
	bool all;

	if (complete)
		return 0;
	errno = 0;
	list = ibv_get_device_list(NULL);
	attach_error = list == NULL || list[0] == NULL ? -errno : 0;
	if (list == NULL && devices == NULL)
		return attach_error;
	while (*last != NULL)
		last = &(*last)->next;
	all = list != NULL && list[0] != NULL;
	for (int i = 0; all && list[i] != NULL; i++) {
		if (is_open(list[i]))
			continue;
		*last = device_open(list[i]);
		all = *last != NULL;
		if (all)
			last = &(*last)->next;
	}
	complete = all;
	ibv_free_device_list(list);
	return devices != NULL ? 0 : -ENODEV;
}

int
devices_refuse(int error)
{
	return verbs_cm_refuse_absent(error, attach_error);
}

bool
devices_complete(void)
{
	return complete;
}

void
devices_leave(struct device *device)
{
	struct device **link = &devices;

	while (*link != device)
		link = &(*link)->next;
	*link = device->next;
	device->next = gone;
	gone = device;
	complete = false;
	reader_leave(device);
}

struct ibv_pd *
device_pd(struct device *device)
{
	if (device->pd == NULL)
		device->pd = ibv_alloc_pd(device->verbs);
	return device->pd;
}

struct device *
device_at(const struct sockaddr *addr, uint32_t *index)
{
	for (struct device *device = devices; device != NULL; device = device->next) {
		uint32_t num;
		const struct one_port_addr *own = verbs_cm_addrs(device->verbs, &num);

		for (*index = 0; *index < num; ++*index)
			if (addr_is(addr, own[*index].family, own[*index].addr))
				return device;
	}
	*index = 0;
	return NULL;
}

uint32_t
device_addr_index(const struct device *device, uint32_t number)
{
	uint32_t num;

	verbs_cm_addrs(device->verbs, &num);
	return number != 0 && number <= num ? number - 1 : 0;
}

static const struct one_port_addr *
own_addr(const struct device *device, uint32_t index)
{
	uint32_t num;

	return &verbs_cm_addrs(device->verbs, &num)[index];
}

uint16_t
device_family(const struct device *device, uint32_t index)
{
	return own_addr(device, index)->family;
}

void
device_addr(const struct device *device, uint32_t index, uint16_t port, struct sockaddr_storage *out)
{
	const struct one_port_addr *own = own_addr(device, index);

	addr_fill(own->family, own->addr, port, out);
}

bool
device_has_family(const struct device *device, uint16_t family, uint32_t *index)
{
	uint32_t num;
	const struct one_port_addr *own = verbs_cm_addrs(device->verbs, &num);

	for (*index = 0; *index < num; ++*index)
		if (own[*index].family == family)
			return true;
	*index = 0;
	return false;
}

/* Returns the length of the prefix of the device's route to `dst`; -1 without a route. */
static int
prefix_towards(const struct device *device, const struct sockaddr *dst, uint32_t *index)
{
	struct one_msg msg = {.type = ONE_MSG_SOURCE};
	struct one_reply reply;

	msg.source_query.family = dst->sa_family;
	memcpy(msg.source_query.addr, addr_bytes(dst), addr_length(dst->sa_family));
	if (verbs_cm_call(device->verbs, &msg, &reply) != 0 || reply.source.source == 0)
		return -1;
	*index = device_addr_index(device, reply.source.source);
	return (int)reply.source.bits;
}

/* Without a route chooses the first device with an address of the family: connecting reports the error. */
struct device *
device_towards(const struct sockaddr *dst, uint32_t *index)
{
	struct device *best = NULL;
	int best_bits = -1;
	uint32_t at;

	for (struct device *device = devices; device != NULL && !addr_names_no_device(dst);
	     device = device->next) {
		int bits = prefix_towards(device, dst, &at);

		if (bits <= best_bits)
			continue;
		best = device;
		best_bits = bits;
		*index = at;
	}
	for (struct device *device = devices; device != NULL && best == NULL; device = device->next)
		if (device_has_family(device, dst->sa_family, index))
			best = device;
	return best;
}

/* Drops the parent's devices, whose memory stays allocated. */
void
devices_fork_child(void)
{
	devices = NULL;
	gone = NULL;
	complete = false;
	reader_fork_child();
}
