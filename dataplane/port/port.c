/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports: device, number of queues, largest frame.
 *
 * Each core gets a receive and a transmit queue of its own if the device has enough. Otherwise core 0
 * receives for all and hands frames over, and cores without a transmit queue hand frames to core 0.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "dataplane/esp/esp.h"
#include "dataplane/port/device.h"
#include "dataplane/port/port.h"

RTE_LOG_REGISTER(port_logtype, oneside.port, NOTICE);
#define log_warning(...) rte_log(RTE_LOG_WARNING, (uint32_t)port_logtype, "port: " __VA_ARGS__)

enum {
	DESCRIPTORS = 1024,
	SENTENCE = 400, /* bytes of a fault's description */
	/* Ethernet header, VLAN tag, the checksum that some devices deliver, and the header in front of the
	 * frame that virtio's driver needs room for. */
	FRAME_OVERHEAD = RTE_ETHER_HDR_LEN + 4 + 4 + 12
};

struct port ports[CONFIG_PORTS_MAX];
uint32_t ports_num;

const struct port *
port_by_addr(const struct wire_addr *addr)
{
	for (uint32_t i = 0; i < ports_num; i++)
		if (port_has_addr(&ports[i], addr))
			return &ports[i];
	return NULL;
}

static bool
device_taken(uint16_t device, uint32_t before)
{
	for (uint32_t i = 0; i < before; i++)
		if (ports[i].device == device)
			return true;
	return false;
}

/* Returns the arguments of a device that was given to EAL; NULL: it was not. */
static const char *
given_arguments(const char *name)
{
	const struct rte_devargs *devargs;

	RTE_EAL_DEVARGS_FOREACH(NULL, devargs) {
		if (strcmp(devargs->name, name) == 0)
			return devargs->args != NULL ? devargs->args : "";
	}
	return NULL;
}

/* Returns a virtual network device that was given to EAL and did not open; NULL: none. */
static const char *
unopened_device(void)
{
	const struct rte_devargs *devargs;
	uint16_t port;

	RTE_EAL_DEVARGS_FOREACH("vdev", devargs) {
		if (strncmp(devargs->name, "net_", 4) == 0 &&
		    rte_eth_dev_get_port_by_name(devargs->name, &port) != 0)
			return devargs->name;
	}
	return NULL;
}

static void
take_first(void *first, const char *sentence)
{
	if (*(char *)first == '\0')
		snprintf(first, SENTENCE, "%s", sentence);
}

/* The device was given to EAL but cannot be used: report the reason, as far as known. */
static int
fail_device(uint32_t index, const char *device, const char *what, int error, char *why, size_t why_len)
{
	const char *args = given_arguments(device), *name = engine.config->port[index].name;
	char first[SENTENCE] = "";

	if (args != NULL) {
		device_faults(device, args, take_first, first);
		device_conflicts(device, args, take_first, first);
	}
	if (first[0] != '\0')
		return config_refuse(why, why_len, error, "port %s: device %s %s: %s", name, device, what,
				     first);
	return config_refuse(
		why, why_len, error,
		"port %s: device %s %s (%s; its driver's reason is in the lines above); correct its arguments",
		name, device, what, strerror(-error));
}

/* Equivalent of fail_device() for a device that is open. */
static int
fail_open(uint32_t index, const char *what, int error, char *why, size_t why_len)
{
	char device[RTE_ETH_NAME_MAX_LEN] = "";

	rte_eth_dev_get_name_by_port(ports[index].device, device);
	return fail_device(index, device, what, error, why, why_len);
}

static int
find_named(uint32_t index, char *why, size_t why_len)
{
	const struct config_port *config = &engine.config->port[index];
	char name[RTE_DEV_NAME_MAX_LEN];

	device_full_name(config->device, name, sizeof(name));
	if (rte_eth_dev_get_port_by_name(name, &ports[index].device) != 0) {
		if (given_arguments(name) != NULL)
			return fail_device(index, name, "does not open", -ENODEV, why, why_len);
		return config_refuse(
			why, why_len, -ENODEV,
			"port %s: DPDK has no device %s; give it to EAL (--vdev=%s,... or -a for PCI), or name one of those there are",
			config->name, config->device, config->device);
	}
	if (device_taken(ports[index].device, index))
		return config_refuse(why, why_len, -EBUSY,
				     "port %s: device %s is another port's; give each its own", config->name,
				     config->device);
	return 0;
}

static int
find_device(uint32_t index, char *why, size_t why_len)
{
	uint16_t device;

	if (engine.config->port[index].device[0] != '\0')
		return find_named(index, why, why_len);
	RTE_ETH_FOREACH_DEV(device) {
		if (!device_taken(device, index)) {
			ports[index].device = device;
			return 0;
		}
	}
	if (unopened_device() != NULL)
		return fail_device(index, unopened_device(), "does not open", -ENODEV, why, why_len);
	return config_refuse(
		why, why_len, -ENODEV,
		"port %s: DPDK has only %u devices; give EAL one more (--vdev=... or -a for PCI)",
		engine.config->port[index].name, rte_eth_dev_count_avail());
}

static bool
driven_by(const struct rte_eth_dev_info *info, const char *driver)
{
	return info->driver_name != NULL && strcmp(info->driver_name, driver) == 0;
}

static const char *
device_arguments(const struct rte_eth_dev_info *info)
{
	const struct rte_devargs *devargs = info->device != NULL ? rte_dev_devargs(info->device) : NULL;

	return devargs != NULL ? devargs->args : NULL;
}

/* Drivers that carry longer frames than they report: the limit is that of the buffers, or of the kernel's
 * interface. */
static bool
understates_frames(const struct rte_eth_dev_info *info)
{
	return driven_by(info, "net_memif") || driven_by(info, "net_af_packet") || driven_by(info, "net_tap");
}

static uint16_t
kernel_mtu(unsigned int if_index, char name[IF_NAMESIZE])
{
	struct ifreq request = {0};
	int fd, error;

	if (if_index == 0 || if_indextoname(if_index, request.ifr_name) == NULL)
		return 0;
	memcpy(name, request.ifr_name, IF_NAMESIZE);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	error = ioctl(fd, SIOCGIFMTU, &request);
	close(fd);
	return error == 0 ? (uint16_t)RTE_MIN(request.ifr_mtu, UINT16_MAX) : 0;
}

/* Choose the MTU of the port; *configure: the MTU for the device. */
static int
choose_mtu(uint32_t index, const struct rte_eth_dev_info *info, uint16_t *configure, char *why,
	   size_t why_len)
{
	const struct config_port *config = &engine.config->port[index];
	struct engine_port_info *port = &ports[index].info;
	char name[IF_NAMESIZE] = "";
	/* Reserve room for ESP if any peer has it: the MTU is the same for all peers of a port. */
	uint32_t overhead = ENGINE_PATH_OVERHEAD + (engine.config->num_ipsec > 0 ? ESP_OVERHEAD_ROCE : 0);
	uint16_t kernel = 0, largest = 256;

	port->mtu = config->mtu != 0 ? config->mtu : RTE_ETHER_MTU;
	if (understates_frames(info)) {
		kernel = kernel_mtu(info->if_index, name);
		*configure = RTE_MIN(port->mtu, RTE_ETHER_MTU);
	} else {
		if (config->mtu == 0 && rte_eth_dev_get_mtu(ports[index].device, &port->mtu) != 0)
			port->mtu = RTE_ETHER_MTU;
		*configure = port->mtu;
	}
	if (config->mtu == 0 && kernel != 0)
		port->mtu = RTE_MIN(port->mtu, kernel);
	if (kernel != 0 && port->mtu > kernel)
		return config_refuse(
			why, why_len, -EMSGSIZE,
			"port %s: mtu %u: interface %s has only %u; write mtu = %u, or: ip link set %s mtu %u",
			config->name, port->mtu, name, kernel, kernel, name, port->mtu);
	if (!understates_frames(info) && port->mtu > info->max_mtu)
		return config_refuse(why, why_len, -EMSGSIZE,
				     "port %s: mtu %u: the device takes at most %u; write mtu = %u",
				     config->name, port->mtu, info->max_mtu, info->max_mtu);
	if (port->mtu < 256 + overhead)
		return config_refuse(why, why_len, -EMSGSIZE,
				     "port %s: mtu %u: RoCE needs %u at least; write mtu = 1500 or more",
				     config->name, port->mtu, 256 + overhead);
	while (largest < 4096 && largest * 2 + overhead <= port->mtu)
		largest *= 2;
	if (config->path_mtu > largest)
		return config_refuse(
			why, why_len, -EMSGSIZE,
			"port %s: path_mtu %u: an mtu of %u allows %u; write path_mtu = %u or mtu = %u",
			config->name, config->path_mtu, port->mtu, largest, largest,
			config->path_mtu + overhead);
	port->path_mtu = config->path_mtu != 0 ? config->path_mtu : largest;
	return 0;
}

/* Maximum of rings that a peer may agree upon: until one does, a memif has one in each direction. */
static void
choose_rings(struct port *port, const char *args)
{
	uint16_t limit = port->listens ? PORT_RINGS_MAX : rings_limit(args);

	port->rx_queues = port->tx_queues = limit;
	port->far_rings = (uint8_t)limit;
	atomic_init(&port->rings, 1 | 1 << 8);
}

/* Choose one queue per core, if the device has enough. */
static void
choose_queues(struct port *port, const struct rte_eth_dev_info *info)
{
	if (driven_by(info, "net_memif")) {
		choose_rings(port, device_arguments(info));
		return;
	}
	port->rx_queues = info->max_rx_queues >= engine.num_cores ? (uint16_t)engine.num_cores : 1;
	port->tx_queues = info->max_tx_queues >= engine.num_cores ? (uint16_t)engine.num_cores : 1;
	if (port->rx_queues < engine.num_cores)
		log_warning(
			"event=port_slow port=%s text=\"the device has %u receive queues for %u polling cores: the first core receives for all, and hands frames over; use one polling core, or a device with more queues\"\n",
			engine.config->port[port - ports].name, info->max_rx_queues, engine.num_cores);
}

static void
add_rx_queues(uint32_t index)
{
	struct port *port = &ports[index];

	for (uint16_t i = 0; i < port->rx_queues && i < engine.num_cores; i++) {
		struct core *core = engine.core[i];

		core->rx[core->num_rx++] = (struct rx_queue){.port = (uint16_t)index,
							     .device = port->device,
							     .queue = i,
							     .rings = port->far_rings > 0};
	}
}

static void
choose_link(struct port *port, const struct rte_eth_dev_info *info)
{
	if (!driven_by(info, "net_memif"))
		return;
	port->listens = device_is_memif_server(device_arguments(info));
	/* The client connects when it is started, and never again by itself. */
	port->reconnects = !port->listens;
	memif_messages_pass();
}

static bool
has_zero_copy(const struct port *port, const struct rte_eth_dev_info *info)
{
	char text[16];

	return port->reconnects && device_argument(device_arguments(info), "zero-copy", text, sizeof(text)) &&
	       strcmp(text, "yes") == 0;
}

static void
log_advice(void *context, const char *sentence)
{
	const struct port *port = context;

	log_warning("event=port_slow port=%s text=\"%s\"\n", engine.config->port[port - ports].name,
		    sentence);
}

static void
log_no_failover(void *context, const char *sentence)
{
	const struct port *port = context;

	log_warning("event=port_no_failover port=%s text=\"%s\"\n", engine.config->port[port - ports].name,
		    sentence);
}

/* Bytes that a packet buffer must hold: a frame; for af_packet, which requires it, all that a slot of its
 * ring can deliver. */
static int
choose_room(uint32_t index, const struct rte_eth_dev_info *info, char *why, size_t why_len)
{
	/* Bytes that the kernel puts in front of a frame in a slot, plus the frame's own header. */
	static const uint32_t SLOT_OVERHEAD = 80;
	static const uint32_t LARGEST_SLOT = UINT16_MAX - RTE_PKTMBUF_HEADROOM - RTE_CACHE_LINE_SIZE;
	struct port *port = &ports[index];
	const char *name = engine.config->port[index].name;
	uint32_t slot;

	char device[RTE_ETH_NAME_MAX_LEN] = "";

	port->room = port->info.mtu + FRAME_OVERHEAD;
	rte_eth_dev_get_name_by_port(port->device, device);
	device_advice(device, given_arguments(device), port->info.mtu,
		      driven_by(info, "net_bonding") ? log_no_failover : log_advice, port);
	if (!driven_by(info, "net_af_packet"))
		return 0;
	slot = device_slot(device_arguments(info));
	if (slot == 0)
		return fail_open(index, "cannot be used", -EINVAL, why, why_len);
	if (slot > LARGEST_SLOT)
		return config_refuse(
			why, why_len, -EMSGSIZE,
			"port %s: framesz=%u: a packet buffer holds at most %u; write framesz=8192", name,
			slot, LARGEST_SLOT);
	if (port->info.mtu + SLOT_OVERHEAD > slot)
		return config_refuse(
			why, why_len, -EMSGSIZE,
			"port %s: mtu %u: a slot of framesz=%u cuts off all above %u; write mtu = %u or framesz=%u,blocksz=65536,framecnt=1024",
			name, port->info.mtu, slot, slot - SLOT_OVERHEAD, slot - SLOT_OVERHEAD,
			rte_align32pow2(port->info.mtu + SLOT_OVERHEAD));
	port->room = RTE_MAX(port->room, slot);
	return 0;
}

/* Check before the device is configured: a bond that does not start leaves an alarm of DPDK's, which would
 * run after the device is closed. */
static int
check_conflicts(uint32_t index, char *why, size_t why_len)
{
	char first[SENTENCE] = "";
	char device[RTE_ETH_NAME_MAX_LEN] = "";
	const char *args;

	rte_eth_dev_get_name_by_port(ports[index].device, device);
	args = given_arguments(device);
	if (args == NULL)
		return 0;
	device_conflicts(device, args, take_first, first);
	return first[0] == '\0' ? 0 : fail_open(index, "cannot be used", -ENOTSUP, why, why_len);
}

/* Configure without interrupts if the device refuses them. */
static int
configure_queues(struct port *port, const struct rte_eth_conf *wanted)
{
	struct rte_eth_conf conf = *wanted;
	int error = rte_eth_dev_configure(port->device, port->rx_queues, port->tx_queues, &conf);

	if (error != 0 && conf.intr_conf.rxq != 0) {
		conf.intr_conf.rxq = 0;
		error = rte_eth_dev_configure(port->device, port->rx_queues, port->tx_queues, &conf);
	}
	port->interrupts = conf.intr_conf.rxq != 0;
	return error;
}

/* Start from the first address again: a device may be configured a second time. */
static void
set_addresses(struct engine_port_info *info, const struct config_port *config)
{
	uint32_t n = 0;

	for (; n < CONFIG_ADDRS_MAX && config->addr[n].family != 0; n++)
		info->addr[n] = wire_addr_of(config->addr[n].family == AF_INET, config->addr[n].bytes);
	info->num_addrs = n;
}

int
port_configure(uint32_t index, char *why, size_t why_len)
{
	struct port *port = &ports[index];
	struct rte_eth_conf conf = {.intr_conf.rxq = engine.config->idle == ONE_IDLE_SLEEP};
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	const char *name = engine.config->port[index].name;
	uint16_t mtu;
	int error;

	error = rte_eth_dev_info_get(port->device, &info);
	if (error != 0)
		return config_refuse(why, why_len, error, "port %s: the device reports no information: %s",
				     name, strerror(-error));
	port->multicast_fd = -1;
	choose_link(port, &info);
	kernel_side_open(&port->kernel, &info);
	/* With zero-copy, memif's client closes EAL's own descriptors when it connects. On reconnecting it
	 * sends whatever has those numbers by then, and never frees what is in its rings. The server ignores
	 * the option. */
	if (has_zero_copy(port, &info))
		return config_refuse(
			why, why_len, -ENOTSUP,
			"port %s: zero-copy=yes: DPDK's memif cannot connect such a cable twice; leave it out",
			name);
	error = driven_by(&info, "net_bonding") || driven_by(&info, "net_af_packet")
			? check_conflicts(index, why, why_len)
			: 0;
	if (error == 0)
		error = choose_mtu(index, &info, &mtu, why, why_len);
	if (error == 0)
		error = choose_room(index, &info, why, why_len);
	if (error != 0)
		return error;
	choose_queues(port, &info);
	conf.rxmode.mtu = mtu;
	/* DPDK's tap driver computes checksums in software, those of payloads as well: our own check is
	 * faster. */
	port->checks_ipv4 =
		(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) != 0 && !driven_by(&info, "net_tap");
	if (port->checks_ipv4)
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
	if (port->rx_queues > 1 && port->far_rings == 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
		if (conf.rx_adv_conf.rss_conf.rss_hf == 0)
			conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
	}
	error = configure_queues(port, &conf);
	if (error != 0)
		return fail_open(index, "refuses its configuration", error, why, why_len);
	error = rte_eth_macaddr_get(port->device, &mac);
	if (error != 0)
		return config_refuse(why, why_len, error, "port %s: the device has no MAC address: %s", name,
				     strerror(-error));
	memcpy(port->info.mac, mac.addr_bytes, sizeof(port->info.mac));
	snprintf(port->info.name, sizeof(port->info.name), "%s", name);
	set_addresses(&port->info, &engine.config->port[index]);
	return 0;
}

/* Save name and arguments for opening the device again. */
static void
note_device(struct port *port)
{
	const char *arguments = NULL;

	if (rte_eth_dev_get_name_by_port(port->device, port->device_name) == 0)
		arguments = given_arguments(port->device_name);
	snprintf(port->arguments, sizeof(port->arguments), "%s", arguments != NULL ? arguments : "");
}

int
ports_configure(char *why, size_t why_len)
{
	uint32_t room = RTE_MBUF_DEFAULT_DATAROOM;

	for (uint32_t i = 0; i < engine.config->num_ports; i++) {
		char name[RTE_RING_NAMESIZE];
		int error = find_device(i, why, why_len);

		if (error == 0) {
			note_device(&ports[i]);
			error = port_configure(i, why, why_len);
		}
		if (error != 0)
			return error;
		snprintf(name, sizeof(name), "oneside_tx_%u", i);
		ports[i].tx_ring = rte_ring_create(name, PORT_TX_RING, SOCKET_ID_ANY, RING_F_SC_DEQ);
		if (ports[i].tx_ring == NULL)
			return config_refuse(why, why_len, -ENOMEM,
					     "port %s: no memory for its rings; give EAL more (-m)",
					     ports[i].info.name);
		room = RTE_MAX(room, ports[i].room);
		ports_num = i + 1;
	}
	if (room > UINT16_MAX - RTE_PKTMBUF_HEADROOM)
		return config_refuse(why, why_len, -EMSGSIZE,
				     "mtu %u does not fit a packet buffer; write mtu = 9000 or less",
				     room - FRAME_OVERHEAD);
	engine.data_room = (uint16_t)RTE_ALIGN_CEIL(room, RTE_CACHE_LINE_SIZE);
	return 0;
}

int
port_start_device(uint32_t index, char *why, size_t why_len)
{
	struct port *port = &ports[index];
	/* Buffers are held in the rings of a device; most must stay free. */
	uint16_t rx = (uint16_t)RTE_MIN((uint32_t)DESCRIPTORS, rte_align32prevpow2(engine.config->mbufs / 4));
	uint16_t tx = rx;
	int error = rte_eth_dev_adjust_nb_rx_tx_desc(port->device, &rx, &tx);
	struct xdp_sockets before;

	/* The list takes a system call for each descriptor of this process. */
	if (port_awaits_queues(port))
		xdp_sockets_list(&before, NULL);
	for (uint16_t i = 0; i < port->rx_queues && error == 0; i++)
		error = rte_eth_rx_queue_setup(port->device, i, rx, SOCKET_ID_ANY, NULL,
					       engine.core[i % engine.num_cores]->pool);
	for (uint16_t i = 0; i < port->tx_queues && error == 0; i++)
		error = rte_eth_tx_queue_setup(port->device, i, tx, SOCKET_ID_ANY, NULL);
	if (port_awaits_queues(port))
		xdp_sockets_list(&port->xdp, &before);
	if (error != 0)
		return fail_open(index, "refuses its queues", error, why, why_len);
	error = rte_eth_dev_start(port->device);
	if (error != 0 && !port->reconnects)
		return fail_open(index, "does not start", error, why, why_len);
	port->started = error == 0;
	if (port->started && port->far_rings == 0 && port->rx_queues > 1)
		rss_read(port->device, &port->rss);
	return port_multicast_join(port, why, why_len);
}

static int
start_port(uint32_t index, char *why, size_t why_len)
{
	struct port *port = &ports[index];
	int error = port_start_device(index, why, why_len);

	if (error != 0 && port_awaits_queues(port))
		error = port_reopen_freed(port, why, why_len);
	if (error != 0)
		return error;
	/* The peer may appear later: link.c retries. */
	atomic_init(&port->flags, port->started ? 0 : PORT_FLAG_PAUSED);
	add_rx_queues(index);
	if (port->started && port->far_rings == 0)
		flows_init(port);
	return 0;
}

int
ports_start(char *why, size_t why_len)
{
	for (uint32_t i = 0; i < ports_num; i++) {
		int error = start_port(i, why, why_len);

		if (error != 0)
			return error;
	}
	for (uint32_t i = 0; i < engine.num_cores; i++)
		if (tx_init(engine.core[i]) != 0)
			return config_refuse(
				why, why_len, -ENOMEM,
				"no memory for the frames of core %u to a memif; it needs 4 KiB for each ring",
				engine.core[i]->lcore);
	return 0;
}

void
port_stop_device(struct port *port)
{
	if (port->started && port_is_memif(port))
		link_stop(port);
	else if (port->started)
		rte_eth_dev_stop(port->device);
	port->started = false;
}

void
ports_stop(void)
{
	links_fini();
	for (uint32_t i = 0; i < ports_num; i++) {
		struct port *port = &ports[i];

		flows_fini(port);
		port_stop_device(port);
	}
}

void
ports_fini(void)
{
	for (uint32_t i = 0; i < ports_num; i++) {
		struct port *port = &ports[i];

		if (!port->listens) /* link.c */
			rte_eth_dev_close(port->device);
		port_multicast_leave(port);
		rte_ring_free(port->tx_ring);
	}
	memset(ports, 0, sizeof(ports));
	ports_num = 0;
}
