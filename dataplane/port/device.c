/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "dataplane/base/compat.h"
#include "dataplane/core/limits.h"
#include "device.h"
#include "memif_rings.h"

struct device_report {
	device_fault *fault;
	void *context;
};

static void __attribute__((format(printf, 2, 3)))
report_fault(const struct device_report *report, const char *format, ...)
{
	char sentence[512];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	report->fault(report->context, sentence);
}

static bool
path_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static bool
starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

bool
device_argument(const char *args, const char *key, char *value, size_t value_len)
{
	size_t len = strlen(key);

	for (const char *at = args; at != NULL; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, key, len) == 0 && at[len] == '=') {
			snprintf(value, value_len, "%.*s", (int)strcspn(at + len + 1, ","), at + len + 1);
			return true;
		}
	}
	return false;
}

unsigned long
device_number(const char *args, const char *key, unsigned long otherwise)
{
	char value[32];

	return device_argument(args, key, value, sizeof(value)) ? strtoul(value, NULL, 10) : otherwise;
}

/* ---- PCI ---- */

bool
device_is_pci(const char *name)
{
	unsigned int domain, bus, slot, function;
	int used = 0;

	return (sscanf(name, "%4x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &used) == 4 ||
		sscanf(name, "%2x:%2x.%1x%n", &bus, &slot, &function, &used) == 3) &&
	       name[used] == '\0';
}

const char *
device_full_name(const char *name, char *full, size_t full_len)
{
	unsigned int domain, bus, slot, function;

	if (!device_is_pci(name)) {
		snprintf(full, full_len, "%s", name);
		return "vdev";
	}
	if (sscanf(name, "%4x:%2x:%2x.%1x", &domain, &bus, &slot, &function) != 4) {
		sscanf(name, "%2x:%2x.%1x", &bus, &slot, &function);
		domain = 0;
	}
	snprintf(full, full_len, "%04x:%02x:%02x.%x", domain, bus, slot, function);
	return "pci";
}

static bool
has_iommu(void)
{
	struct stat groups;

	return stat("/sys/kernel/iommu_groups", &groups) == 0 && groups.st_nlink > 2; /* one per group */
}

static void
pci_faults(const struct device_report *report, const char *name)
{
	static const char *const drivers[] = {"vfio-pci",  "uio_pci_generic", "igb_uio",
					      "mlx5_core", "mlx4_core",       "mana"};
	const char *driver = "none";
	char path[256], link[256], device[80];

	device_full_name(name, device, sizeof(device));
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", device);
	if (!path_exists(path)) {
		report_fault(report,
			     "there is no PCI device %s; list them with dpdk-devbind.py --status-dev net",
			     device);
		return;
	}
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", device);
	ssize_t len = readlink(path, link, sizeof(link) - 1);
	if (len > 0) {
		link[len] = '\0';
		driver = basename(link);
	}
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
		if (strcmp(driver, drivers[i]) == 0)
			return;
	}
	if (!path_exists("/sys/module/vfio_pci"))
		report_fault(report, "the module vfio-pci is not loaded; load it with %smodprobe vfio-pci",
			     privilege_sudo());
	report_fault(
		report,
		"it has the driver %s, which DPDK cannot use; bind it with %sdpdk-devbind.py --bind=vfio-pci %s",
		driver, privilege_sudo(), device);
	if (!has_iommu())
		report_fault(
			report,
			"there is no IOMMU; boot with intel_iommu=on or amd_iommu=on, or accept the risk with echo 1 | %stee /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
			privilege_sudo());
}

/* ---- memif ---- */

bool
device_is_memif_server(const char *args)
{
	char role[16];

	return device_argument(args, "role", role, sizeof(role)) &&
	       (strcmp(role, "server") == 0 || strcmp(role, "master") == 0);
}

socklen_t
device_cable(const char *args, struct sockaddr_un *addr, bool *named)
{
	char path[256] = "/run/memif.sock", abstract[8] = "yes";

	device_argument(args, "socket", path, sizeof(path));
	device_argument(args, "socket-abstract", abstract, sizeof(abstract));
	*named = strcmp(abstract, "no") == 0;
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) + 2 > sizeof(addr->sun_path))
		return 0;
	strcpy(addr->sun_path + !*named, path);
	return *named ? (socklen_t)sizeof(*addr)
		      : (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(path));
}

/* True if a socket is bound there. Its owner must not notice: EAL's thread dies of a memif connection that
 * opens and closes. So a file is connected to by a socket of another type, which the kernel refuses with
 * EPROTOTYPE if the file has an owner. An abstract name is bound, if possible, and released. */
static bool
is_bound(const struct sockaddr_un *addr, socklen_t len, bool named)
{
	int fd = socket(AF_UNIX, (named ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool bound;

	if (fd < 0)
		return false;
	if (named)
		bound = connect(fd, (const struct sockaddr *)addr, len) == 0 ||
			(errno != ECONNREFUSED && errno != ENOENT);
	else
		bound = bind(fd, (const struct sockaddr *)addr, len) < 0 && errno == EADDRINUSE;
	close(fd);
	return bound;
}

static bool
is_memif_server(const char *name, const char *args)
{
	return starts_with(name, "net_memif") && device_is_memif_server(args);
}

/* Remove the socket of a killed data plane, which does not answer. */
void
device_remove_stale(const char *name, const char *args)
{
	struct sockaddr_un addr;
	struct stat st;
	socklen_t len;
	bool named;

	if (!is_memif_server(name, args))
		return;
	len = device_cable(args, &addr, &named);
	if (len > 0 && named && lstat(addr.sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    !is_bound(&addr, len, named))
		unlink(addr.sun_path);
}

/* Returns another device of this process with the memif's socket, which their driver shares; NULL: none. */
static const struct rte_devargs *
cable_sharer(const char *name, const char *args)
{
	const struct rte_devargs *other;
	struct sockaddr_un addr, theirs;
	bool named;
	socklen_t len = device_cable(args, &addr, &named);

	RTE_EAL_DEVARGS_FOREACH("vdev", other)
		if (is_memif_server(other->name, other->args) && strcmp(other->name, name) != 0 &&
		    device_cable(other->args, &theirs, &named) == len && memcmp(&theirs, &addr, len) == 0)
			return other;
	return NULL;
}

bool
device_is_held(const char *name, const char *args)
{
	struct sockaddr_un addr;
	bool named;
	socklen_t len = device_cable(args, &addr, &named);

	return len > 0 && is_memif_server(name, args) && cable_sharer(name, args) == NULL &&
	       is_bound(&addr, len, named);
}

static void
memif_faults(const struct device_report *report, const char *args)
{
	struct sockaddr_un addr;
	bool named;
	socklen_t len = device_cable(args, &addr, &named);
	char copy[sizeof(addr.sun_path)];

	if (len == 0)
		report_fault(report, "its socket's path is too long; shorten it to %zu bytes by socket=",
			     sizeof(addr.sun_path) - 2);
	if (len == 0 || !named)
		return;
	strcpy(copy, addr.sun_path);
	const char *directory = dirname(copy);
	if (access(directory, R_OK | W_OK | X_OK) < 0)
		report_fault(
			report,
			"the socket %s cannot be made in %s; make that directory yours with %sinstall -d -o %u %s, or choose another",
			addr.sun_path, directory, privilege_sudo(), geteuid(), directory);
}

static void
memif_conflicts(const struct device_report *report, const char *name, const char *args)
{
	struct sockaddr_un addr;
	bool named;
	socklen_t len = device_cable(args, &addr, &named);
	const char *path = addr.sun_path + !named;
	const struct rte_devargs *other;

	if (len == 0 || !device_is_memif_server(args))
		return;
	other = cable_sharer(name, args);
	if (other != NULL && device_number(other->args, "id", 0) == device_number(args, "id", 0))
		report_fault(report,
			     "device %s has its socket %s and its id; give each another id=", other->name,
			     path);
	/* No other process has a socket that this one has. */
	if (other != NULL || (named && !path_exists(path)))
		return;
	if (is_bound(&addr, len, named))
		report_fault(
			report,
			"the socket %s is taken: a program listens there; end it, or choose another by socket=",
			path);
	else if (named)
		report_fault(report,
			     "%s is there already; remove it, or choose another socket by socket=", path);
}

static void
memif_advice(const struct device_report *report, const char *args, uint32_t mtu)
{
	enum { ETHERNET = 14, UNIT = 256 };
	unsigned long buffer = device_number(args, "bsize", 2048);
	unsigned long wanted = (mtu + ETHERNET + UNIT - 1) / UNIT * UNIT;
	struct sockaddr_un addr;
	bool named;

	if (buffer < mtu + ETHERNET)
		report_fault(
			report,
			"frames of mtu %u take several buffers of bsize=%lu each, at a third of the speed or less; give bsize=%lu at both ends, or a lower mtu",
			mtu, buffer, wanted);
	if (device_cable(args, &addr, &named) > 0 && !named && device_is_memif_server(args))
		report_fault(
			report,
			"every process of this network namespace can connect to the abstract socket %s, and so make DPDK abort; give socket-abstract=no and a socket= in a directory of its own",
			addr.sun_path + 1);
}

/* The peer is not known yet: the advice assumes that it has as many cores. */
void
device_core_advice(const char *name, const char *args, uint64_t cores, device_fault *advise, void *context)
{
	const struct device_report report = {advise, context};
	uint16_t limit = device_is_memif_server(args) ? PORT_RINGS_MAX : rings_limit(args);
	uint32_t pairs = 1;

	if (!starts_with(name, "net_memif"))
		return;
	while ((pairs + 1) * (pairs + 1) <= limit)
		pairs++;
	if (cores > pairs)
		report_fault(
			&report,
			"it has at most %u rings, so with %lu polling cores at both ends only %u at each have rings, and the others hand their frames over; use fewer cores, or a smaller bsize= or rsize=",
			limit, (unsigned long)cores, pairs);
}

/* ---- interfaces of the kernel ---- */

/* Defaults of af_packet. */
enum { SLOT = 2048, SLOTS = 512 };

/* DPDK's driver takes slot after slot regardless of the ends of blocks, and the kernel requires blocks of
 * whole pages. So slots must fill blocks completely. */
uint32_t
device_slot(const char *args)
{
	unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE);
	unsigned long slot = device_number(args, "framesz", SLOT),
		      block = device_number(args, "blocksz", page);
	unsigned long slots = device_number(args, "framecnt", SLOTS);

	if (slot == 0 || slot % 16 != 0 || block > INT_MAX || block % page != 0 || block < slot ||
	    block % slot != 0 || slots == 0 || slots % (block / slot) != 0)
		return 0;
	return (uint32_t)slot;
}

static void
interface_faults(const struct device_report *report, const char *name, const char *args)
{
	char iface[64], path[128];
	int fd;

	if (!device_argument(args, "iface", iface, sizeof(iface))) {
		report_fault(report, "it names no interface; write as in --vdev=%.20s,iface=eth0", name);
		return;
	}
	snprintf(path, sizeof(path), "/sys/class/net/%s", iface);
	if (!path_exists(path))
		report_fault(
			report,
			"there is no interface %s; make a pair with %sip link add %s type veth peer name %.10s-peer, or list those there are with ip link",
			iface, privilege_sudo(), iface, iface);
	/* Protocol 0: the socket receives nothing. */
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0 && errno == EPERM)
		report_fault(
			report,
			"raw packets need CAP_NET_RAW; run as root, or %ssetcap cap_net_raw,cap_net_admin+ep on this program",
			privilege_sudo());
	if (fd >= 0)
		close(fd);
	if (!starts_with(name, "net_af_xdp") && device_slot(args) == 0)
		report_fault(
			report,
			"framesz=%lu, blocksz=%lu and framecnt=%lu do not fit together; let blocksz be a multiple of framesz and of %ld, and framecnt one of blocksz/framesz, as in framesz=8192,blocksz=65536,framecnt=1024",
			device_number(args, "framesz", SLOT),
			device_number(args, "blocksz", (unsigned long)sysconf(_SC_PAGESIZE)),
			device_number(args, "framecnt", SLOTS), sysconf(_SC_PAGESIZE));
}

static bool
is_af_packet(const char *name)
{
	return starts_with(name, "net_af_packet") || starts_with(name, "eth_af_packet");
}

/* The kernel delivers all frames of an interface to each device, or each frame to one of several devices
 * (fan-out), regardless of addresses. */
static void
interface_conflicts(const struct device_report *report, const char *name, const char *args)
{
	const struct rte_devargs *other;
	char iface[64], theirs[64];

	if (!device_argument(args, "iface", iface, sizeof(iface)))
		return;
	RTE_EAL_DEVARGS_FOREACH("vdev", other) {
		if (!is_af_packet(other->name) || strcmp(other->name, name) == 0 ||
		    !device_argument(other->args, "iface", theirs, sizeof(theirs)) ||
		    strcmp(theirs, iface) != 0)
			continue;
		report_fault(
			report,
			"device %s has interface %s, too, and one would get frames of the other; give one port several addresses instead, as in address = 192.0.2.1/24 192.0.2.2/24",
			other->name, iface);
		return;
	}
}

static void
tap_faults(const struct device_report *report)
{
	if (!path_exists("/dev/net/tun"))
		report_fault(report, "there is no /dev/net/tun; load it with %smodprobe tun",
			     privilege_sudo());
	if (!privilege_has(CAP_NET_ADMIN))
		report_fault(
			report,
			"it needs CAP_NET_ADMIN; run as root, or %ssetcap cap_net_admin+ep on this program",
			privilege_sudo());
}

/* ---- bonds ---- */

static void
bond_faults(const struct device_report *report, const char *args)
{
	char value[64];

	if (!device_argument(args, "mode", value, sizeof(value)))
		report_fault(report, "a bond needs a mode; write as in mode=1");
	if (!device_argument(args, COMPAT_BOND_MEMBER, value, sizeof(value)))
		report_fault(report, "a bond needs members; name each by " COMPAT_BOND_MEMBER "=DEVICE");
}

/* The bond gives a member its own MAC address, which not every driver can set. */
static void
member_faults(const struct device_report *report, const char *member)
{
	struct rte_ether_addr mac;
	uint16_t port;

	if (rte_eth_dev_get_port_by_name(member, &port) != 0)
		report_fault(report, "its member %s is no device of DPDK; give it to EAL as well", member);
	else if (rte_eth_macaddr_get(port, &mac) == 0 &&
		 rte_eth_dev_default_mac_addr_set(port, &mac) == -ENOTSUP)
		report_fault(
			report,
			"its member %s cannot take the bond's MAC address; use devices that can, or %s without a bond",
			member, member);
}

/* DPDK's drivers of these devices report a link that is always up, or report its state too late for a
 * bond. */
static void
member_advice(const struct device_report *report, const char *member)
{
	if (starts_with(member, "net_af_packet") || starts_with(member, "eth_af_packet") ||
	    starts_with(member, "net_af_xdp") || starts_with(member, "net_tap"))
		report_fault(
			report,
			"DPDK does not see when the link of its member %s fails, so the bond never changes over; make a bond of the kernel's (ip link add type bond), and give oneside that interface",
			member);
}

static void
each_member(const struct device_report *report, const char *args,
	    void (*look)(const struct device_report *report, const char *member))
{
	char member[64];

	for (const char *at = args; at != NULL; at = strchr(at, ',')) {
		at += *at == ',';
		if (starts_with(at, COMPAT_BOND_MEMBER "=") &&
		    device_argument(at, COMPAT_BOND_MEMBER, member, sizeof(member)))
			look(report, member);
	}
}

void
device_advice(const char *name, const char *args, uint32_t mtu, device_fault *advise, void *context)
{
	const struct device_report report = {advise, context};

	if (starts_with(name, "net_memif"))
		memif_advice(&report, args, mtu);
	if (starts_with(name, "net_bonding"))
		each_member(&report, args, member_advice);
}

void
device_conflicts(const char *name, const char *args, device_fault *fault, void *context)
{
	const struct device_report report = {fault, context};

	if (starts_with(name, "net_memif"))
		memif_conflicts(&report, name, args);
	if (is_af_packet(name))
		interface_conflicts(&report, name, args);
	if (starts_with(name, "net_bonding"))
		each_member(&report, args, member_faults);
}

void
device_faults(const char *name, const char *args, device_fault *fault, void *context)
{
	const struct device_report report = {fault, context};

	if (device_is_pci(name))
		pci_faults(&report, name);
	else if (starts_with(name, "net_memif"))
		memif_faults(&report, args);
	else if (is_af_packet(name) || starts_with(name, "net_af_xdp"))
		interface_faults(&report, name, args);
	else if (starts_with(name, "net_tap"))
		tap_faults(&report);
	else if (starts_with(name, "net_bonding"))
		bond_faults(&report, args);
}

/* ---- privileges of this process, for messages that name a remedy ---- */

bool
privilege_has(unsigned int capability)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return (data[capability / 32].effective >> (capability % 32)) & 1;
}

const char *
privilege_sudo(void)
{
	return geteuid() == 0 ? "" : "sudo ";
}
