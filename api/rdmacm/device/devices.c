/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, which stay open, and their addresses. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/device/device.h"

struct device *devices;

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
		if (error == 0)
			return device;
		ibv_close_device(device->verbs);
	} else {
		error = errno;
	}
	free(device);
	errno = error;
	return NULL;
}

int
devices_open(void)
{
	struct ibv_device **list;
	struct device **last = &devices;

	if (devices != NULL)
		return 0;
	list = ibv_get_device_list(NULL);
	if (list == NULL)
		return -errno;
	for (int i = 0; list[i] != NULL; i++) {
		struct device *device = device_open(list[i]);

		if (device == NULL)
			break;
		*last = device;
		last = &device->next;
	}
	ibv_free_device_list(list);
	return devices != NULL ? 0 : -ENODEV;
}

struct ibv_pd *
device_pd(struct device *device)
{
	if (device->pd == NULL)
		device->pd = ibv_alloc_pd(device->verbs);
	return device->pd;
}

bool
device_has(const struct device *device, const struct sockaddr *addr)
{
	const struct one_welcome *info = verbs_cm_info(device->verbs);
	const struct sockaddr_in6 *v6 = (const void *)addr;
	const struct sockaddr_in *v4 = (const void *)addr;

	if (info->family != addr->sa_family)
		return false;
	return addr->sa_family == AF_INET6 ? memcmp(&v6->sin6_addr, info->addr, 16) == 0
					   : memcmp(&v4->sin_addr, info->addr, 4) == 0;
}

void
device_addr(const struct device *device, uint16_t port, struct sockaddr_storage *out)
{
	const struct one_welcome *info = verbs_cm_info(device->verbs);

	addr_fill(info->family, info->addr, port, out);
}

struct ibv_context **
rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	int n = 0;

	pthread_mutex_lock(&cma_lock);
	devices_open();
	for (struct device *d = devices; d != NULL; d = d->next)
		n++;
	list = calloc((size_t)n + 1, sizeof(struct ibv_context *));
	n = 0;
	for (struct device *d = devices; list != NULL && d != NULL; d = d->next)
		list[n++] = d->verbs;
	pthread_mutex_unlock(&cma_lock);
	if (num_devices != NULL)
		*num_devices = list != NULL ? n : 0;
	return list;
}

void
rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
