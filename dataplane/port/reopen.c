/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Current state of a port, and reopening its device.
 *
 * Another process may take a device over that only one process can have open: a PCI device, or the socket of
 * a memif. The device is removed for that, and probed again if that process does not go on with it.
 *
 * A packet socket stays dead after its interface is deleted, and DPDK's af_packet opens its sockets only when
 * the device is probed. So when an interface of that name exists again, the device is removed and probed once
 * more, with the arguments given to EAL. Before that, link.c has paused the port, and a grace period has
 * passed.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_ethdev.h>

#include "dataplane/port/device.h"
#include "dataplane/port/port.h"
#include "dataplane/port/rx_wakeup.h"

/* Held while a device is replaced, against threads that read its counters. */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;

static void
check_kernel(struct port *port)
{
	struct engine_port_info *info = &port->info;
	struct kernel_state state;

	if (!kernel_side_read(&port->kernel, &state))
		return;
	memcpy(info->interface, port->kernel.name, sizeof(info->interface));
	info->interface_mtu = state.there ? state.mtu : 0;
	info->link_up = info->link_up && state.same && state.running;
	port->replaced = state.there && !state.same;
	if (state.same)
		memcpy(info->mac, state.mac, sizeof(info->mac));
}

/* A device that could not be opened again is absent; DPDK would log an error for each question about it. */
static bool
is_absent(const struct port *port)
{
	return rte_eth_dev_is_valid_port(port->device) == 0;
}

static bool
link_is_up(const struct port *port, struct rte_eth_link *link)
{
	return !is_absent(port) && rte_eth_link_get_nowait(port->device, link) == 0 &&
	       link->link_status == RTE_ETH_LINK_UP;
}

bool
port_link_is_up(const struct port *port)
{
	struct rte_eth_link link;

	return link_is_up(port, &link);
}

void
port_refresh(struct port *port)
{
	struct rte_eth_link link;

	port->info.link_up = link_is_up(port, &link);
	port->info.mbps =
		port->info.link_up && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN ? link.link_speed : 0;
	if (port->kernel.name[0] != '\0')
		check_kernel(port);
}

/* `times`: 1, or -1 to subtract, which may wrap around: unsigned sums are right again. */
static void
add_stats(struct engine_port_stats *to, const struct engine_port_stats *from, uint64_t times)
{
	to->rx_packets += times * from->rx_packets;
	to->tx_packets += times * from->tx_packets;
	to->rx_bytes += times * from->rx_bytes;
	to->tx_bytes += times * from->tx_bytes;
	to->rx_missed += times * from->rx_missed;
	to->rx_errors += times * from->rx_errors;
	to->tx_errors += times * from->tx_errors;
	to->rx_no_buffer += times * from->rx_no_buffer;
}

static bool
device_stats(const struct port *port, struct engine_port_stats *out)
{
	struct rte_eth_stats stats;

	if (is_absent(port) || rte_eth_stats_get(port->device, &stats) != 0)
		return false;
	*out = (struct engine_port_stats){.rx_packets = stats.ipackets,
					  .tx_packets = stats.opackets,
					  .rx_bytes = stats.ibytes,
					  .tx_bytes = stats.obytes,
					  .rx_missed = stats.imissed,
					  .rx_errors = stats.ierrors,
					  .tx_errors = stats.oerrors,
					  .rx_no_buffer = stats.rx_nombuf};
	return true;
}

bool
port_stats(struct port *port, struct engine_port_stats *out)
{
	bool counts;

	pthread_mutex_lock(&devices_lock);
	counts = device_stats(port, out);
	if (counts) {
		add_stats(out, &port->before, 1);
		out->rx_missed += kernel_side_lost(&port->kernel);
	}
	pthread_mutex_unlock(&devices_lock);
	return counts;
}

/* A device that two processes have open has counted frames that the other process has counted, too. */
void
port_inherit(struct port *port, const struct engine_port_stats *stats)
{
	struct engine_port_stats counted;

	pthread_mutex_lock(&devices_lock);
	port->before = *stats;
	if (device_stats(port, &counted))
		add_stats(&port->before, &counted, (uint64_t)-1);
	port->before.rx_missed -= kernel_side_lost(&port->kernel);
	pthread_mutex_unlock(&devices_lock);
}

/* Removing the device closes its sockets. */
static int
remove_device(struct port *port)
{
	struct engine_port_stats stats;
	char name[RTE_ETH_NAME_MAX_LEN];
	const char *bus = device_full_name(port->device_name, name, sizeof(name));
	int error;

	if (device_stats(port, &stats)) {
		add_stats(&port->before, &stats, 1);
		kernel_side_lost(&port->kernel);
	}
	port->kernel.num_sockets = 0;
	flows_suspend(port);
	if (port->started && port_is_memif(port))
		link_close(port);
	else
		port_stop_device(port);
	port_multicast_leave(port);
	error = rte_eal_hotplug_remove(bus, name);
	xdp_sockets_close(&port->xdp);
	/* The device is absent if it is closed, or could not be opened the last time. */
	return error == -EINVAL || error == -ENOENT ? 0 : error;
}

static int
probe_again(struct port *port)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	const char *bus = device_full_name(port->device_name, name, sizeof(name));
	int error = remove_device(port);

	if (error != 0)
		return error;
	/* A process that had the device meanwhile may have been killed. */
	device_remove_stale(name, port->arguments);
	/* DPDK's memif keeps the name of a device whose socket it could not open, and then never opens it. */
	if (device_is_held(name, port->arguments))
		return -EADDRINUSE;
	error = rte_eal_hotplug_add(bus, name, port->arguments);
	return error != 0 ? error : rte_eth_dev_get_port_by_name(name, &port->device);
}

static int
start_again(struct port *port, char *why, size_t why_len)
{
	uint32_t index = (uint32_t)(port - ports);
	int error = port_configure(index, why, why_len);

	if (error == 0)
		error = port_start_device(index, why, why_len);
	if (error != 0)
		return error;
	flows_resume(port);
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		struct core *core = engine.core[i];

		for (uint32_t j = 0; j < core->num_rx; j++) {
			if (core->rx[j].port != index)
				continue;
			/* The core reads `device` when the port is no longer paused: port_set_flag() orders
			 * that. */
			core->rx[j].device = port->device;
			if (core->rx[j].interrupt)
				core->rx[j].interrupt = rx_wakeup_interrupt(&core->rx[j], core->rx_epoll);
			if (core->rx[j].watched)
				rx_wakeup_watch(&core->rx[j], core->epoll);
		}
	}
	return 0;
}

int
port_reopen(struct port *port, char *why, size_t why_len)
{
	int error;

	pthread_mutex_lock(&devices_lock);
	error = probe_again(port);
	if (error != 0)
		config_refuse(why, why_len, error, "device %s does not open: %s", port->device_name,
			      strerror(-error));
	else
		error = start_again(port, why, why_len);
	pthread_mutex_unlock(&devices_lock);
	return error;
}

#define FREED_TRIES 3 /* each that fails leaks packet buffers of DPDK's driver */

bool
port_awaits_queues(const struct port *port)
{
	return port_is_driven_by(port, "net_af_xdp");
}

int
port_reopen_freed(struct port *port, char *why, size_t why_len)
{
	int tries = port_awaits_queues(port) ? FREED_TRIES : 1, error;

	do {
		if (port_awaits_queues(port))
			xdp_await_queues();
		error = port_reopen(port, why, why_len);
	} while (error != 0 && --tries > 0);
	return error;
}

int
port_close(struct port *port)
{
	int error;

	link_quiesce(port);
	pthread_mutex_lock(&devices_lock);
	error = remove_device(port);
	pthread_mutex_unlock(&devices_lock);
	return error;
}
