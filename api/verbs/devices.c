/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, one per port of the data plane.  A device exists until the process ends. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/explain.h"
#include "verbs/refused.h"
#include "verbs/device.h"

#define DEVICES_MAX 64u

static struct device *devices; /* guarded by verbs_lock */

int
device_port(struct one_client *client, uint32_t index, struct one_port *out)
{
	struct one_msg msg = {.type = ONE_MSG_PORT};
	struct one_reply reply;
	int error;

	msg.port_query.port = index;
	error = one_call(client, &msg, NULL, 0, &reply);
	if (error == 0)
		*out = reply.port;
	return error;
}

/* Returns the EUI-64 of the MAC address. */
__be64
device_guid(uint64_t hwaddr)
{
	uint64_t high = hwaddr >> 24 & 0xffffff, low = hwaddr & 0xffffff;

	return htobe64((high ^ 0x020000) << 40 | 0xfffeull << 24 | low);
}

static struct device *
device_find(const struct one_port *port, uint32_t index)
{
	struct device *device;

	for (device = devices; device != NULL; device = device->next)
		if (strncmp(device->base.name, port->name, ONE_PORT_NAME) == 0)
			break;
	if (device == NULL) {
		device = calloc(1, sizeof(*device));
		if (device == NULL)
			return NULL;
		snprintf(device->base.name, sizeof(device->base.name), "%.*s", (int)ONE_PORT_NAME,
			 port->name);
		snprintf(device->base.dev_name, sizeof(device->base.dev_name), "oneside%u", index);
		device->base.node_type = IBV_NODE_CA;
		device->base.transport_type = IBV_TRANSPORT_IB;
		device->next = devices;
		devices = device;
	}
	device->hwaddr = port->hwaddr;
	return device;
}

/* Lists the devices of the current ports, in the ports' order.  NULL with errno. */
static struct ibv_device **
list_devices(struct one_client *client, int *num)
{
	struct ibv_device **list = calloc(DEVICES_MAX + 1, sizeof(struct ibv_device *));
	uint32_t n, count = 1;

	for (n = 0; n < count; n++) {
		struct device *device = NULL;
		struct one_port port;
		int error = list == NULL ? -ENOMEM : device_port(client, n, &port);

		if (error == 0 && port.num_ports > DEVICES_MAX)
			error = -EPROTO;
		if (error == 0) {
			device = device_find(&port, n);
			error = device == NULL ? -ENOMEM : 0;
		}
		if (error != 0) {
			free(list);
			errno = -error;
			return NULL;
		}
		/* The first reply has the number of ports, at least 1. */
		if (n == 0 && port.num_ports > 1)
			count = port.num_ports;
		list[n] = &device->base;
	}
	*num = (int)n;
	return list;
}

struct ibv_device **
ibv_get_device_list(int *num_devices)
{
	struct one_attach attach = {.kind = ONE_KIND_VERBS};
	struct ibv_device **list;
	struct one_client *client;
	int num = 0, error = verbs_watch_forks();

	if (error == 0)
		error = one_attach(&attach, &client);

	if (error == -ENOENT || error == -ECONNREFUSED) {
		/* Without a data plane the list is empty. */
		list = calloc(1, sizeof(struct ibv_device *));
		refused_because(
			-error,
			"devices = 0: no data plane answers at %s; start oneside-dataplane(8), or set ONESIDE_SOCKET",
			one_socket_path(NULL));
		refused_explain("ibv_get_device_list", -error, "num_devices", num_devices);
		errno = -error; /* librdmacm reports the reason as well */
	} else if (error != 0) {
		refused_because(-error, "devices = 0: no attachment to the data plane at %s: %s; %s",
				one_socket_path(NULL), one_attach_reason(error), one_attach_remedy(error));
		list = refused_null("ibv_get_device_list", -error, "num_devices", num_devices);
	} else {
		pthread_mutex_lock(&verbs_lock);
		list = list_devices(client, &num);
		pthread_mutex_unlock(&verbs_lock);
		error = errno;
		one_detach(client);
		errno = error;
	}
	if (num_devices != NULL)
		*num_devices = num;
	return list;
}

void
ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *
ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

/* The index is the kernel's, which knows no device of a data plane: UCX would ask it by netlink, and report
 * that it cannot. */
int
ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1;
}

__be64
ibv_get_device_guid(struct ibv_device *device)
{
	return device_guid(TO(device, device)->hwaddr);
}
