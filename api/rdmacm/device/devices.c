/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, which stay open until they are lost, and their addresses. */
#include <stdlib.h>
#include <unistd.h>

#include "rdmacm/device/device.h"

struct device *devices;
static struct device *gone; /* lost; applications may have objects of their contexts */
static bool complete;       /* there is one for each port */

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
	list = ibv_get_device_list(NULL);
	if (list == NULL && devices == NULL)
		return -errno;
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
device_at(const struct sockaddr *addr)
{
	struct device *device = devices;

	for (; device != NULL; device = device->next) {
		const struct one_welcome *info = verbs_cm_info(device->verbs);

		if (addr_is(addr, info->family, info->addr))
			break;
	}
	return device;
}

void
device_addr(const struct device *device, uint16_t port, struct sockaddr_storage *out)
{
	const struct one_welcome *info = verbs_cm_info(device->verbs);

	addr_fill(info->family, info->addr, port, out);
}

/* Those that there were are the parent's; what they hold stays allocated. */
void
devices_fork_child(void)
{
	devices = NULL;
	gone = NULL;
	complete = false;
	reader_fork_child();
}
