/* SPDX-License-Identifier: BSD-3-Clause */
/* Proposals for machines of many makes, refusals, and that the data plane can read the written files. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "config/address.h"
#include "control/setup/plan.h"
#include "machine.h"

static struct setup_plan plan;
static char why[SETUP_WHY];

/* Adds a port with this address; `way` SETUP_MODES: the best one. */
static struct setup_port *
add_port(const char *name, enum setup_mode mode, const char *address)
{
	struct setup_port *port;
	bool has_prefix;

	if (plan.machine == NULL)
		plan = (struct setup_plan){.machine = &made, .cores = 1};
	port = &plan.port[plan.ports];
	assert_true(setup_device_find(&made, name, &port->device, why));
	port->mode = mode != SETUP_MODES ? mode : setup_mode_best(&made, &port->device);
	assert_int_equal(config_addr_parse(address, &port->addr, &has_prefix), 0);
	strcpy(port->cable, "/run/oneside/cable");
	plan.ports++;
	return port;
}

static void
take_away(const char *iface)
{
	strcpy(plan.given[plan.givens++], iface);
}

static void
assert_says(bool done, const char *sentence)
{
	assert_false(done);
	if (strstr(why, sentence) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, sentence);
}

static void
assert_refused(const char *sentence)
{
	why[0] = '\0';
	assert_says(setup_plan_check(&plan, why), sentence);
}

static void
steps(const struct setup_plan *of, FILE *out)
{
	setup_text_steps(of, "oneside", out);
}

static char *
text_of(void (*write)(const struct setup_plan *of, FILE *out))
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	write(&plan, out);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void
assert_text(void (*write)(const struct setup_plan *of, FILE *out), const char *part, bool there)
{
	char *text = text_of(write);

	if ((strstr(text, part) != NULL) != there)
		fail_msg("%s \"%s\":\n%s", there ? "there is no" : "there is", part, text);
	free(text);
}
#define assert_eal(part) assert_text(setup_text_eal, part, true)
#define assert_step(part) assert_text(steps, part, true)
#define assert_no_step(part) assert_text(steps, part, false)

/* The plan is valid, and the data plane's reader gets the plan's values from the written files. */
static void
assert_good(void)
{
	static struct config config;
	struct setup_files files;
	char path[128];

	if (!setup_plan_check(&plan, why))
		fail_msg("%s", why);
	snprintf(path, sizeof(path), "%s/oneside.conf", made_root);
	assert_true(setup_files_name(&files, path, why));
	if (!setup_files_write(&files, &plan, true, why))
		fail_msg("%s", why);
	config_defaults(&config);
	if (config_read(&config, path, why, sizeof(why)) != 0 ||
	    config_validate(&config, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	assert_int_equal(config.num_ports, plan.ports);
	assert_int_equal(config.node, plan.node);
	assert_int_equal(config.num_peers, plan.peers);
	for (uint32_t i = 0; i < plan.ports; i++) {
		const struct config_addr *addr;

		for (uint32_t j = 0; (addr = setup_port_addr(&plan.port[i], j)) != NULL; j++)
			assert_true(config_addr_equal(&config.port[i].addr[j], addr));
		for (uint32_t j = 0; j < CONFIG_GATEWAYS_MAX; j++)
			assert_true(config_addr_equal(&config.port[i].gateway[j], &plan.port[i].gateway[j]));
	}
}

static int
begin(void **state)
{
	memset(&plan, 0, sizeof(plan));
	return made_begin(state);
}

static void
assert_best(const char *name, enum setup_mode mode)
{
	enum setup_mode its;
	struct setup_device device = setup_device_best(&made, &its);

	assert_string_equal(setup_device_name(&device), name);
	assert_int_equal(its, mode);
}

/* ---- machines ---- */

/* Two sockets. A bifurcated NIC is at the second one, where two processors are isolated. */
static void
test_mlx5(void **state)
{
	made_nic("0000:01:00.0", "ixgbe", "eth0", 1);
	made_nic("0000:81:00.0", "mlx5_core", "ens1", 2);
	made_file("sys/bus/pci/devices/0000:81:00.0/numa_node", "1\n");
	made_file("sys/devices/system/node/node0/cpulist", "0-3\n");
	made_file("sys/devices/system/node/node1/cpulist", "4-7\n");
	made_file("sys/devices/system/cpu/isolated", "5-6\n");
	made_file("proc/self/status", "Cpus_allowed_list:\t0-4,7\n");
	made_file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1024\n");
	made_file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "1024\n");
	made_file(
		"proc/mounts",
		"proc /proc proc rw 0 0\nhugetlbfs /mnt/huge hugetlbfs rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw 0 0\n");
	made_address("eth0", 10, 0, 0, 5);
	made_default("eth0");
	made_read();
	assert_int_equal(made.nics, 2);
	assert_best("ens1", SETUP_BIFURCATED);
	add_port("ens1", SETUP_MODES, "192.0.2.1/24");
	plan.cores = 2;
	assert_good();
	assert_eal("EAL_OPTIONS=\"-l 0,5,6 --huge-dir=/dev/hugepages/oneside -a 0000:81:00.0\"\n");
	assert_text(setup_text_conf, "idle = spin\n", true);
	assert_no_step("\n"); /* no step is missing */
	plan.cores = 7;
	assert_good();
	plan.cores = 8;
	assert_refused("--cores 8: 8 processors");
	/* mlx5 cannot be bound to vfio, and ixgbe cannot be bifurcated. */
	plan.cores = 1;
	plan.port[0].mode = SETUP_VFIO;
	assert_refused("choose bifurcated");
	plan.ports = 0;
	add_port("0000:01:00.0", SETUP_BIFURCATED, "192.0.2.1/24");
	assert_refused("driver ixgbe is not mlx5_core");
}

/* The only NIC is bifurcated and carries the default route: DPDK would get the frames of its address. */
static void
test_mlx5_alone(void **state)
{
	made_nic("0000:81:00.0", "mlx5_core", "ens1", 0);
	made_address("ens1", 10, 0, 0, 5);
	made_default("ens1");
	made_read();
	assert_best("ens1", SETUP_AF_PACKET);
	add_port("ens1", SETUP_BIFURCATED, "10.0.0.6/24");
	assert_refused("ens1 carries the default route, and bifurcated would take");
	take_away("ens1");
	assert_good();
	/* The kernel's own address cannot be the port's. */
	plan.port[0].addr.bytes[3] = 5;
	assert_refused("the kernel has address 10.0.0.5/24, on ens1");
}

/* A server with an IOMMU: one NIC is idle, another is below a bridge that carries all traffic. */
static void
test_vfio(void **state)
{
	made_nic("0000:01:00.0", "igb", "eth0", 4);
	made_nic("0000:02:00.0", "i40e", "eth1", 5);
	made_nic("0000:02:00.1", "i40e", "eth2", 5);
	made_file("sys/bus/pci/devices/0000:02:00.2/class", "0x060400\n");
	made_file("sys/kernel/iommu_groups/5/devices/0000:02:00.2", "a bridge\n");
	made_iface("br0", 1500);
	made_link("sys/class/net/br0/lower_bond0", "../bond0");
	made_iface("bond0", 1500);
	made_link("sys/class/net/bond0/lower_eth0", "../eth0");
	made_address("br0", 10, 0, 0, 5);
	made_default("br0");
	made_read();
	assert_true(made.iommu);
	assert_best("eth1", SETUP_VFIO);
	add_port("02:00.0", SETUP_MODES, "192.0.2.1/24");
	assert_good();
	assert_eal("-l 0,7 --huge-dir=/dev/hugepages/oneside -a 0000:02:00.0\"\n");
	assert_step("modprobe vfio-pci\n");
	/* dpdk-devbind.py does not bind interfaces with routes, so they are set down first. */
	assert_step("ip link set eth1 down\ndpdk-devbind.py --bind=vfio-pci 0000:02:00.0 ");
	assert_step("ip link set eth2 down\n"
		    "dpdk-devbind.py --bind=vfio-pci 0000:02:00.1 "); /* of the same group */
	assert_no_step("0000:02:00.2");                               /* a bridge of the group stays */
	assert_step("vm.nr_hugepages = 512");
	assert_no_step("noiommu");
	assert_step("no-capabilities.conf");
	/* The bridge above eth0 needs it. */
	plan.ports = 0;
	add_port("eth0", SETUP_VFIO, "192.0.2.1/24");
	assert_refused("port eth0: eth0 carries the default route, and vfio would take");
	take_away("eth1"); /* not the interface in question */
	assert_refused("give --take-away eth0");
	take_away("eth0");
	assert_good();
	plan.givens = 0;
	plan.port[0].mode = SETUP_AF_XDP;
	assert_refused("af_xdp would take");
	plan.port[0].mode = setup_mode_best(&made, &plan.port[0].device);
	assert_int_equal(plan.port[0].mode, SETUP_AF_PACKET);
	assert_good();
}

/* An IPv6 default route counts, too; a route that rejects does not. */
static void
test_ipv6(void **state)
{
	static const char none[] = "00000000000000000000000000000000";

	made_nic("0000:01:00.0", "i40e", "eth0", 4);
	made_nic("0000:02:00.0", "i40e", "eth1", 5);
	made_file(
		"proc/net/ipv6_route",
		"20010db8000000000000000000000000 40 %s 00 %s 00000100 00000001 00000000 00000001     eth1\n"
		"%s 00 %s 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n"
		"%s 00 %s 00 %s ffffffff 00000001 00000000 00200200     eth1\n",
		none, none, none, none, none, none, none);
	made_file("proc/net/if_inet6", "20010db8000000000000000000000005 02 40 00 80     eth0\n");
	made_read();
	assert_true(made.iface[0].default_route);
	assert_false(made.iface[1].default_route);
	assert_best("eth1", SETUP_VFIO);
	add_port("eth0", SETUP_AF_PACKET, "2001:db8::5/64");
	assert_refused("the kernel has address 2001:db8::5/64, on eth0");
	add_port("eth0", SETUP_AF_PACKET, "2001:db8::6/64");
	plan.port[0] = plan.port[1];
	plan.ports = 1;
	assert_good();
}

/* The IOMMU group of an idle NIC has another NIC that is needed. */
static void
test_group(void **state)
{
	made_nic("0000:01:00.0", "i40e", "eth0", 4);
	made_nic("0000:01:00.1", "i40e", "eth1", 4);
	made_default("eth0");
	made_read();
	add_port("eth1", SETUP_VFIO, "192.0.2.1/24");
	assert_refused("port eth1: eth0 carries the default route");
	assert_best("eth1", SETUP_AF_PACKET);
}

/* In a container the host's NICs are visible, but not their interfaces. */
static void
test_container(void **state)
{
	made_nic("0000:01:00.0", "i40e", NULL, 4);
	made_nic("0000:02:00.0", NULL, NULL, 5);
	made_read();
	assert_best("0000:02:00.0", SETUP_VFIO); /* not used by anyone */
	add_port("0000:01:00.0", SETUP_VFIO, "192.0.2.1/24");
	plan.port[0].mode = setup_mode_best(&made, &plan.port[0].device);
	assert_string_equal(setup_mode_name(plan.port[0].mode), "none");
	assert_refused("port 0000:01:00.0: no driver mode fits");
	plan.port[0].mode = SETUP_VFIO;
	assert_refused("0000:01:00.0 carries an interface of another network namespace");
	take_away("0000:01:00.0");
	assert_good();
}

static void
parse(const char *text, struct config_addr *addr)
{
	bool has_prefix;

	assert_int_equal(config_addr_parse(text, addr, &has_prefix), 0);
}

/* A port may have several addresses, and a gateway of each family. Each is checked like a single one. */
static void
test_several_addresses(void **state)
{
	struct setup_port *port;
	char by[SETUP_PATH], path[128];
	struct config_addr addr;

	add_port("memif", SETUP_MEMIF, "192.0.2.1/24");
	port = &plan.port[0];
	parse("2001:db8::1/64", &port->more[port->mores++]);
	parse("198.51.100.1/24", &port->more[port->mores++]);
	parse("192.0.2.254", &port->gateway[0]);
	parse("2001:db8::fe", &port->gateway[1]);
	assert_good();
	made_file("etc/oneside/oneside.conf",
		  "[port p0]\naddress = 192.0.2.1/24 2001:db8::1/64 198.51.100.1/24\n");
	snprintf(path, sizeof(path), "%s/etc/oneside/x/oneside.conf", made_root);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(setup_instance_has_address(path, setup_port_addr(port, i), by));
	parse("203.0.113.1/24", &addr);
	assert_false(setup_instance_has_address(path, &addr, by));
	parse("2001:db8::1/64", &port->gateway[1]);
	assert_refused("the gateway cannot be another host on the link of address 2001:db8::1/64");
	parse("2001:db8::fe", &port->gateway[1]);
	parse("198.51.100.255/24", &port->more[1]);
	assert_refused("address 198.51.100.255/24 is the network or its broadcast");
	parse("192.0.2.1/24", &port->more[1]);
	assert_refused("an address is given twice");
	port->mores = 0;
	assert_refused("gateway 2001:db8::fe: the port has no address of its family");
}

/* When vfio takes the interface, its address can be the port's. */
static void
test_address(void **state)
{
	struct config_addr addr;

	made_nic("0000:01:00.0", "ice", "eth1", 4);
	made_address("eth1", 10, 1, 0, 5);
	made_read();
	assert_best("eth1", SETUP_AF_PACKET); /* an interface with an address is not proposed to be taken */
	add_port("eth1", SETUP_VFIO, "10.1.0.9/24");
	setup_plan_address(&made, &plan.port[0], &addr);
	assert_int_equal(addr.prefix, 24);
	assert_memory_equal(addr.bytes, "\x0a\x01\x00\x05", 4);
	plan.port[0].addr = addr;
	assert_good();
	plan.port[0].mode = SETUP_AF_PACKET;
	setup_plan_address(&made, &plan.port[0], &addr);
	assert_int_equal(addr.family, 0);
	assert_refused("the kernel has address 10.1.0.5/24, on eth1");
	plan.port[0].addr = addr;
	assert_refused("one that is unused on the link of 10.1.0.5/24");
}

/* A virtual machine: virtio, no IOMMU. */
static void
test_virtio(void **state)
{
	made_nic("0000:00:03.0", "virtio-pci", "eth0", 0);
	made_nic("0000:00:04.0", "virtio-pci", "eth1", 0);
	made_file("sys/devices/system/cpu/online", "0-1\n");
	made_address("eth0", 10, 0, 2, 15);
	made_default("eth0");
	made_read();
	assert_false(made.iommu);
	assert_string_equal(made.iface[0].pci, "0000:00:03.0");
	assert_best("eth1", SETUP_AF_PACKET);
	add_port("eth1", SETUP_MODES, "192.0.2.1/24");
	assert_good();
	assert_eal(
		"\"-l 0,1 --no-huge -m 512 --no-pci --iova-mode=va --vdev=net_af_packet0,iface=eth1,framesz=2048\"\n");
	assert_text(setup_text_conf, "idle = sleep\n", true);
	/* The interface is set up after a reboot, and the service waits for it. */
	assert_step("'[Match]' 'Name=eth1' '[Link]' 'MTUBytes=1500' ");
	assert_step(">/etc/systemd/network/70-oneside-eth1.network");
	assert_step(
		"'Wants=sys-subsystem-net-devices-eth1.device' 'After=sys-subsystem-net-devices-eth1.device' >/etc/systemd/system/oneside.service.d/interface-eth1.conf");
	plan.port[0].mode = SETUP_VFIO;
	assert_good();
	assert_step("enable_unsafe_noiommu_mode");
	assert_step("physical-addresses.conf");
	assert_step("no-capabilities.conf"); /* no other capabilities */
	plan.port[0].mode = SETUP_AF_XDP;
	assert_good();
	assert_step("af_xdp.conf");
	assert_no_step("no-capabilities.conf");
	/* A file for earlier ports is removed. */
	made_file("etc/systemd/system/oneside.service.d/no-capabilities.conf", "[Service]\n");
	assert_step("rm /etc/systemd/system/oneside.service.d/no-capabilities.conf && ");
	assert_text(setup_text_conf, "mtu = 1500\n", true);
	plan.port[0].mtu = 1501;
	assert_refused("ip link set eth1 mtu 1501");
	/* A single processor is too few. */
	plan.port[0].mtu = 0;
	made_file("sys/devices/system/cpu/online", "0\n");
	made_read();
	assert_refused("a data plane needs 2");
}

/* A machine without NIC and interface. */
static void
test_nothing(void **state)
{
	struct setup_device device;

	made_file("sys/class/net/lo/type", "772\n");
	made_read();
	assert_int_equal(made.nics + made.ifaces, 0);
	assert_best("memif", SETUP_MEMIF);
	add_port("memif", SETUP_MODES, "192.0.2.1/24");
	assert_good();
	assert_eal("--vdev=net_memif0,role=server,socket=/run/oneside/"
		   "cable,socket-abstract=no,bsize=4352,rsize=10");
	strcpy(plan.port[0].cable, "relative");
	assert_refused("--cable relative");
	strcpy(plan.port[0].cable, "/run/a b");
	assert_refused("--cable /run/a b");
	assert_says(setup_device_find(&made, "eth0", &device, why),
		    "port eth0: this machine has no such NIC");
	assert_says(setup_device_find(&made, "0000:01:00.0-and-much-more-than-that", &device, why),
		    "setup --dry-run");
}

/* A NIC that DPDK has already, one of an unknown make, a veth with a large MTU. */
static void
test_others(void **state)
{
	struct setup_device device;

	made_nic("0000:05:00.0", "r8169", "eth5", 0);
	made_nic("0000:06:00.0", "vfio-pci", NULL, 7);
	made_iface("veth0", 4200);
	made_iface("wide", 65535);
	made_iface("tun0", 1500);
	made_file("sys/class/net/tun0/type", "65534\n");
	made_read();
	assert_best("0000:06:00.0", SETUP_VFIO);
	add_port("0000:06:00.0", SETUP_MODES, "192.0.2.1/24");
	add_port("veth0", SETUP_MODES, "198.51.100.1/24");
	add_port("wide", SETUP_MODES, "2001:db8::1/64");
	add_port("eth5", SETUP_MODES, "203.0.113.1/24");
	assert_good();
	assert_eal(
		" --huge-dir=/dev/hugepages/oneside -a 0000:06:00.0 --vdev=net_af_packet1,iface=veth0,framesz=8192,blocksz=65536,framecnt=1024 --vdev=net_af_packet2,iface=wide,framesz=16384,blocksz=65536,framecnt=1024 --vdev=net_af_packet3,iface=eth5,framesz=2048\"\n");
	assert_text(setup_text_conf, "mtu = 9216\n", true);
	assert_no_step("modprobe");
	plan.port[3].mode = SETUP_VFIO;
	assert_refused("DPDK has no driver for NICs of r8169");
	plan.ports = 3;
	add_port("veth0", SETUP_AF_PACKET, "10.0.0.1/24");
	assert_refused("port veth0: given twice");
	assert_true(setup_device_find(&made, "tun0", &device, why));
	assert_int_equal(setup_mode_best(&made, &device), SETUP_MODES);
}

/* ---- ssh ---- */

static void
test_sessions(void **state)
{
	made_nic("0000:01:00.0", "i40e", "eth0", 4);
	made_nic("0000:02:00.0", "i40e", "eth1", 5);
	made_nic("0000:03:00.0", "i40e", "eth2", 6);
	made_nic("0000:04:00.0", "i40e", "eth3", 7);
	made_address("eth0", 10, 0, 0, 5);
	made_address("eth1", 10, 1, 0, 5);
	made_address("eth3", 10, 3, 0, 5);
	made_file("proc/net/if_inet6", "20010db8000000000000000000000001 03 40 00 80     eth2\n");
	made_file("etc/ssh/sshd_config", "# Port 5000\n  Port 2222\nPort 22\n");
	/* Port 22: a session, and a listening socket. Another port: a session. */
	made_file("proc/net/tcp", "  sl  local_address rem_address   st\n"
				  "   0: 0500000A:0016 0600000A:C000 01 0 0 0\n"
				  "   1: 0500030A:0016 00000000:0000 0A 0 0 0\n"
				  "   2: 0500030A:1388 0600000A:C000 01 0 0 0\n");
	/* The other port of sshd_config, IPv4 in IPv6; and a session by IPv6. */
	made_file(
		"proc/net/tcp6",
		"   0: 0000000000000000FFFF00000500010A:08AE 0000000000000000FFFF00000600010A:C000 01 0 0 0\n"
		"   1: B80D0120000000000000000001000000:0016 B80D0120000000000000000002000000:C000 01 0 0 0\n");
	made_read();
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(made.iface[i].session, i != 3);
	add_port("eth1", SETUP_VFIO, "192.0.2.1/24");
	assert_refused("eth1 carries an ssh session");
	/* sudo leaves SSH_CONNECTION, which names this session's port. */
	assert_int_equal(setenv("SSH_CONNECTION", "10.0.0.6 49152 10.3.0.5 5000", 1), 0);
	made_read();
	assert_true(made.iface[3].session);
}

/* ---- malformed input ---- */

static void
test_rubbish(void **state)
{
	char longest[600];

	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	made_iface("a,b=c", 1500);
	made_iface("$(reboot)", 1500);
	made_iface("a\"b", 1500);
	made_file("sys/bus/pci/devices/nonsense-that-is-too-long/class", "0x020000\n");
	made_file("sys/bus/pci/devices/0000:01:00.0/class", "%s\n", longest);
	made_file("sys/devices/system/cpu/online", "0-99999999999,%s\n", longest);
	made_file("proc/mounts", "h /mnt/$(x) hugetlbfs rw\nh %s hugetlbfs rw\n", longest);
	made_file("proc/net/if_inet6", "2001 03 40 00 80 eth2\n%s\n", longest);
	made_file("proc/net/tcp", "%s\n 0: %s:0016\n 1: 05:0016 06:1 01\n", longest, longest);
	made_file("proc/net/ipv6_route", "%s\n", longest);
	made_file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "many\n");
	made_default(longest);
	made_read();
	assert_int_equal(made.nics + made.ifaces + made.addrs, 0);
	assert_string_equal(made.huge_mount, "");
	assert_int_equal(made.huge_bytes, 0);
	assert_best("memif", SETUP_MEMIF);
}

static void
test_many(void **state)
{
	for (int i = 0; i < 300; i++) {
		char name[32];

		snprintf(name, sizeof(name), "v%d", i);
		made_iface(name, 1500);
	}
	made_read();
	assert_int_equal(made.ifaces, SETUP_IFACES);
	assert_true(made.more);
}

static void
add_peer(uint32_t node, const char *address)
{
	bool has_prefix;

	plan.peer[plan.peers].node = node;
	assert_int_equal(config_addr_parse(address, &plan.peer[plan.peers++].addr, &has_prefix), 0);
}

static void
test_peers(void **state)
{
	bool has_prefix;

	made_read();
	add_port("memif", SETUP_MODES, "192.0.2.1/24");
	add_peer(2, "192.0.2.2");
	assert_refused("give --node");
	plan.node = 2;
	assert_refused("this node's own id");
	plan.node = 1;
	assert_good();
	add_peer(3, "192.0.2.2");
	assert_refused("--peer 3");
	plan.peers = 1;
	add_peer(3, "192.0.2.1");
	assert_refused("is port memif's");
	plan.peers = 1;
	add_peer(3, "10.0.0.3");
	assert_refused("no port reaches address 10.0.0.3");
	config_addr_parse("192.0.2.254", &plan.port[0].gateway[0], &has_prefix);
	assert_good();
	config_addr_parse("169.254.0.1", &plan.port[0].gateway[0], &has_prefix);
	assert_good();
	config_addr_parse("192.0.2.255", &plan.port[0].gateway[0], &has_prefix);
	assert_refused("gateway cannot be another host");
	plan.port[0].gateway[0].family = 0;
	plan.peers = 0;
	plan.port[0].addr.bytes[3] = 255;
	assert_refused("the network or its broadcast");
	plan.port[0].addr.bytes[3] = 1;
	take_away("eth9");
	assert_refused("--take-away eth9");
}

/* ---- files ---- */

static void
read_all(const char *path, char text[4096])
{
	FILE *file = fopen(path, "r");

	text[0] = '\0';
	if (file == NULL)
		return;
	text[fread(text, 1, 4095, file)] = '\0';
	fclose(file);
}

/* The folder of an instance is made when needed, and removed if no file could be written. */
static void
check_folder(void)
{
	struct setup_files files;
	char path[512], folder[128];
	struct stat st;
	mode_t mask;

	snprintf(folder, sizeof(folder), "%s/b", made_root);
	snprintf(path, sizeof(path), "%s/%0250d.conf", folder, 0);
	assert_true(setup_files_name(&files, path, why));
	assert_says(setup_files_write(&files, &plan, false, why), "File name too long");
	assert_int_equal(stat(folder, &st), -1);
	snprintf(path, sizeof(path), "%s/oneside.conf", folder);
	assert_true(setup_files_name(&files, path, why));
	mask = umask(077);
	assert_true(setup_files_write(&files, &plan, false, why));
	umask(mask);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
}

static void
test_files(void **state)
{
	struct setup_files files;
	char path[128], old[160], text[4096];
	struct stat st;

	made_read();
	add_port("memif", SETUP_MODES, "192.0.2.1/24");
	assert_true(setup_plan_check(&plan, why));
	snprintf(path, sizeof(path), "%s/oneside.conf", made_root);
	assert_true(setup_files_name(&files, path, why));
	assert_null(setup_files_there(&files));
	/* Both files are written, or none: a folder is in the place of one. */
	made_file("eal.conf/file", "x");
	assert_says(setup_files_write(&files, &plan, false, why), "eal.conf: exists");
	assert_says(setup_files_write(&files, &plan, true, why), "eal.conf: File exists");
	assert_int_equal(stat(path, &st), -1);
	snprintf(old, sizeof(old), "%s/eal.conf/file", made_root);
	unlink(old);
	assert_int_equal(rmdir(files.eal), 0);
	assert_true(setup_files_write(&files, &plan, false, why));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(st.st_nlink, 1);
	/* Existing files are not overwritten; replaced ones are kept as .old. */
	made_file("oneside.conf", "mine\n");
	assert_says(setup_files_write(&files, &plan, false, why), "--replace");
	read_all(path, text);
	assert_string_equal(text, "mine\n");
	assert_true(setup_files_write(&files, &plan, true, why));
	read_all(path, text);
	assert_non_null(strstr(text, "address = 192.0.2.1/24"));
	snprintf(old, sizeof(old), "%s.old", path);
	read_all(old, text);
	assert_string_equal(text, "mine\n");
	check_folder();
	assert_true(setup_files_name(&files, "/nowhere/at/all.conf", why));
	assert_says(setup_files_write(&files, &plan, false, why), "No such file");
	assert_says(setup_files_name(&files, "", why), "not a file's name");
	assert_says(setup_files_name(&files, "/tmp/", why), "not a file's name");
	assert_says(setup_files_name(&files, "/tmp/eal.conf", why), "name of EAL's options file");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, made_end)
	const struct CMUnitTest tests[] = {
		TEST(test_mlx5),    TEST(test_mlx5_alone), TEST(test_vfio),
		TEST(test_group),   TEST(test_ipv6),       TEST(test_several_addresses),
		TEST(test_address), TEST(test_virtio),     TEST(test_nothing),
		TEST(test_others),  TEST(test_container),  TEST(test_sessions),
		TEST(test_rubbish), TEST(test_many),       TEST(test_peers),
		TEST(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
