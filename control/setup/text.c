/* SPDX-License-Identifier: BSD-3-Clause */
/* Text of a plan's files, and of the remaining steps. */
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "control/setup/machine.h"
#include "control/setup/plan.h"

#define LCORES_MAX 128u /* DPDK's limit of lcore numbers */
#define FEW_CPUS 4      /* with fewer processors, cores sleep when idle */
#define MIB (1ull << 20)
#define MBUFS 8192ull /* defaults of the configuration */
#define WORK_POOL 65536ull
#define PLAIN_MTU 1500u
#define CABLE_MTU 4200u /* path MTU 4096 plus headers */
#define SLOT_MORE 80u   /* size of af_packet's slots beyond the MTU */
#define PCI_MTU_MOST 9216u
#define DROP_INS "etc/systemd/system/%s.service.d"

static bool
is_pci(const struct setup_port *port)
{
	return port->mode == SETUP_VFIO || port->mode == SETUP_BIFURCATED;
}

static bool
any_pci(const struct setup_plan *plan)
{
	for (uint32_t i = 0; i < plan->ports; i++)
		if (is_pci(&plan->port[i]))
			return true;
	return false;
}

/* Slot size of an af_packet ring, a power of two. */
static uint32_t
slot_of(const struct setup_port *port)
{
	uint32_t slot = 2048;

	while (slot < port->device.iface->mtu + SLOT_MORE && slot < 16384)
		slot *= 2;
	return slot;
}

/* Value of the configuration's key `mtu`; 0: omit the key. */
static uint32_t
mtu_of(const struct setup_port *port)
{
	uint32_t mtu = port->mtu;

	if (mtu == 0 && port->mode == SETUP_MEMIF)
		mtu = CABLE_MTU;
	if (port->mode == SETUP_AF_XDP && (mtu == 0 || mtu > PLAIN_MTU)) /* a frame must fit its page */
		mtu = port->device.iface->mtu < PLAIN_MTU ? port->device.iface->mtu : PLAIN_MTU;
	if (mtu == 0 && port->mode == SETUP_AF_PACKET && port->device.iface->mtu > PCI_MTU_MOST)
		mtu = PCI_MTU_MOST;
	return mtu;
}

static uint64_t
memory_needed(const struct setup_plan *plan)
{
	uint64_t bytes = setup_memory_tables(plan->cores, WORK_POOL);

	for (uint32_t i = 0; i < plan->ports; i++) {
		const struct setup_port *port = &plan->port[i];
		uint32_t room = port->mode == SETUP_AF_PACKET ? slot_of(port) : mtu_of(port);

		bytes += setup_memory_port(plan->cores, MBUFS, room != 0 ? room : PLAIN_MTU);
	}
	return bytes;
}

/* ---- oneside.conf ---- */

/* Name of the device for DPDK and the configuration: a PCI address, or this port's virtual device. */
static const char *
device_name(const struct setup_plan *plan, uint32_t index, char name[SETUP_NAME + 8])
{
	static const char *const kinds[SETUP_MODES] = {[SETUP_AF_XDP] = "net_af_xdp",
						       [SETUP_AF_PACKET] = "net_af_packet",
						       [SETUP_MEMIF] = "net_memif"};
	const struct setup_port *port = &plan->port[index];

	if (is_pci(port))
		return port->device.nic->pci;
	snprintf(name, SETUP_NAME + 8, "%s%u", kinds[port->mode], index);
	return name;
}

static void
write_port(const struct setup_plan *plan, uint32_t index, FILE *out)
{
	const struct setup_port *port = &plan->port[index];
	char name[SETUP_NAME + 8], text[CONFIG_ADDR_TEXT];
	const struct config_addr *addr;
	bool first = true;

	fprintf(out, "\n[port p%u]\ndevice = %s\naddress =", index, device_name(plan, index, name));
	for (uint32_t i = 0; (addr = setup_port_addr(port, i)) != NULL; i++)
		fprintf(out, " %s", config_addr_text(addr, true, text));
	putc('\n', out);
	for (uint32_t i = 0; i < CONFIG_GATEWAYS_MAX; i++) {
		if (port->gateway[i].family == 0)
			continue;
		fprintf(out, "%s %s", first ? "gateway =" : "",
			config_addr_text(&port->gateway[i], false, text));
		first = false;
	}
	if (!first)
		putc('\n', out);
	if (mtu_of(port) != 0)
		fprintf(out, "mtu = %u\n", mtu_of(port));
}

void
setup_text_conf(const struct setup_plan *plan, FILE *out)
{
	const char *idle = plan->idle;
	char text[CONFIG_ADDR_TEXT];

	if (idle == NULL)
		idle = CPU_COUNT(&plan->machine->cpus) < FEW_CPUS ? "sleep" : "spin";
	fprintf(out, "# Made by onesidectl setup.  All keys: oneside.conf(5).\n[dataplane]\n");
	if (plan->node != 0)
		fprintf(out, "node = %u\n", plan->node);
	fprintf(out, "idle = %s\n", idle);
	for (uint32_t i = 0; i < plan->ports; i++)
		write_port(plan, i, out);
	for (uint32_t i = 0; i < plan->peers; i++)
		fprintf(out, "\n[peer %u]\naddress = %s\n", plan->peer[i].node,
			config_addr_text(&plan->peer[i].addr, false, text));
}

/* ---- eal.conf ---- */

static void
write_cores(const struct setup_plan *plan, FILE *out)
{
	/* The lowest lcore runs the control thread. */
	bool plain = plan->control < plan->polling[0] && plan->polling[plan->cores - 1] < LCORES_MAX;

	fprintf(out, plain ? "-l %u" : "--lcores=0@%u", plan->control);
	for (uint32_t i = 0; i < plan->cores; i++) {
		if (plain)
			fprintf(out, ",%u", plan->polling[i]);
		else
			fprintf(out, ",%u@%u", i + 1, plan->polling[i]);
	}
}

static void
write_memory(const struct setup_plan *plan, FILE *out)
{
	const uint64_t unit = 256 * MIB;
	const char *mount = plan->machine->huge_mount;

	if (any_pci(plan))
		fprintf(out, " --huge-dir=%s/oneside", mount[0] != '\0' ? mount : "/dev/hugepages");
	else
		fprintf(out, " --no-huge -m %llu --no-pci --iova-mode=va",
			(unsigned long long)((memory_needed(plan) + 2 * unit - 1) / unit * (unit / MIB)));
}

static void
write_device(const struct setup_plan *plan, uint32_t index, FILE *out)
{
	const struct setup_port *port = &plan->port[index];
	char name[SETUP_NAME + 8];
	const char *device = device_name(plan, index, name);

	switch (port->mode) {
	case SETUP_AF_XDP:
		fprintf(out, " --vdev=%s,iface=%s,start_queue=0,queue_count=1", device,
			port->device.iface->name);
		break;
	case SETUP_AF_PACKET:
		fprintf(out, " --vdev=%s,iface=%s,framesz=%u", device, port->device.iface->name,
			slot_of(port));
		if (slot_of(port) > 2048)
			fputs(",blocksz=65536,framecnt=1024", out);
		break;
	case SETUP_MEMIF:
		fprintf(out, " --vdev=%s,role=%s,socket=%s,socket-abstract=no,bsize=%u,rsize=10", device,
			port->client ? "client" : "server", port->cable,
			(mtu_of(port) + 14 + 255) / 256 * 256);
		break;
	default:
		fprintf(out, " -a %s", device);
		break;
	}
}

void
setup_text_eal(const struct setup_plan *plan, FILE *out)
{
	fprintf(out,
		"# Made by onesidectl setup: processors, memory and devices; oneside-dataplane(8).\nEAL_OPTIONS=\"");
	write_cores(plan, out);
	write_memory(plan, out);
	for (uint32_t i = 0; i < plan->ports; i++)
		write_device(plan, i, out);
	fputs("\"\n", out);
}

/* ---- remaining steps ---- */

static void
write_hugepages(const struct setup_plan *plan, FILE *out)
{
	const struct setup_machine *machine = plan->machine;
	const uint64_t page = 2 * MIB, needed = memory_needed(plan) + 64 * MIB;
	uint64_t pages = (needed + page - 1) / page;

	if (pages < 512)
		pages = 512;
	if (machine->huge_free < needed)
		fprintf(out,
			"echo 'vm.nr_hugepages = %llu' >/etc/sysctl.d/80-oneside.conf && sysctl --system\n",
			(unsigned long long)((machine->huge_bytes - machine->huge_free) / page + pages));
	if (machine->huge_mount[0] == '\0')
		fputs("systemctl start dev-hugepages.mount\n", out);
	else if (strcmp(machine->huge_mount, "/dev/hugepages") != 0)
		fprintf(out, "install -d -m 0700 -o oneside -g oneside %s/oneside\n", machine->huge_mount);
}

static void
write_drop_in(const char *name, const char *unit, FILE *out)
{
	fprintf(out, "install -D -m 644 " EXAMPLES "/%s -t /" DROP_INS " && systemctl daemon-reload\n", name,
		unit);
}

/* Removes a drop-in of former ports that would deny these ports what they need. */
static void
write_removal(const struct setup_plan *plan, const char *name, const char *unit, FILE *out)
{
	if (access(setup_path(plan->machine, DROP_INS "/%s", unit, name), F_OK) == 0)
		fprintf(out, "rm /" DROP_INS "/%s && systemctl daemon-reload\n", unit, name);
}

/* dpdk-devbind.py refuses an interface that has routes. */
static void
write_bind(const struct setup_plan *plan, const char *pci, FILE *out)
{
	const struct setup_iface *iface = setup_iface_of(plan->machine, pci);

	if (iface != NULL && iface->up)
		fprintf(out, "ip link set %s down\n", iface->name);
	fprintf(out,
		"dpdk-devbind.py --bind=vfio-pci %s   # at each boot: driverctl set-override %s vfio-pci\n",
		pci, pci);
}

static void
write_vfio(const struct setup_plan *plan, const struct setup_nic *nic, FILE *out)
{
	const char *end;

	if (strcmp(nic->driver, "vfio-pci") != 0) {
		fputs("modprobe vfio-pci\n", out);
		if (!plan->machine->iommu)
			fputs("echo 1 >/sys/module/vfio/parameters/enable_unsafe_noiommu_mode\n", out);
		write_bind(plan, nic->pci, out);
	}
	/* All devices of an IOMMU group must have one owner. */
	for (const char *at = nic->companions; *at != '\0'; at = end + (*end == ' ')) {
		char pci[SETUP_NAME];

		end = at + strcspn(at, " ");
		snprintf(pci, sizeof(pci), "%.*s", (int)(end - at), at);
		write_bind(plan, pci, out);
	}
}

/* Writes systemd's name of an interface's device unit, which escapes all but letters, digits, ':', '_' and
 * '.'. */
static void
write_device_unit(const char *iface, FILE *out)
{
	fputs("sys-subsystem-net-devices-", out);
	for (; *iface != '\0'; iface++) {
		if (isalnum((unsigned char)*iface) || strchr(":_.", *iface) != NULL)
			putc(*iface, out);
		else
			fprintf(out, "\\x%02x", (unsigned char)*iface);
	}
	fputs(".device", out);
}

/* Interface shared with the kernel: up, with its MTU, also after a reboot; and the service waits for it. An
 * interface with addresses is configured elsewhere, so it gets no network file. */
static void
write_interface(const struct setup_plan *plan, const struct setup_iface *iface, const char *unit, FILE *out)
{
	const char *name = iface->name;

	if (!iface->up)
		fprintf(out, "ip link set %s up\n", name);
	if (!setup_iface_has_address(plan->machine, iface))
		fprintf(out,
			"printf '%%s\\n' '[Match]' 'Name=%s' '[Link]' 'MTUBytes=%u' 'ActivationPolicy=always-up' '[Network]' 'LinkLocalAddressing=no' >/etc/systemd/network/70-oneside-%s.network   # at each boot, by systemd-networkd\n",
			name, iface->mtu, name);
	fprintf(out, "install -d /" DROP_INS " && printf '%%s\\n' '[Unit]' 'Wants=", unit);
	write_device_unit(name, out);
	fputs("' 'After=", out);
	write_device_unit(name, out);
	fprintf(out, "' >/" DROP_INS "/interface-%s.conf && systemctl daemon-reload\n", unit, name);
}

void
setup_text_steps(const struct setup_plan *plan, const char *unit, FILE *out)
{
	bool unsafe = false, xdp = false, kernel = false;

	if (any_pci(plan))
		write_hugepages(plan, out);
	for (uint32_t i = 0; i < plan->ports; i++) {
		const struct setup_port *port = &plan->port[i];

		if (port->mode == SETUP_VFIO)
			write_vfio(plan, port->device.nic, out);
		else if (port->mode == SETUP_AF_PACKET || port->mode == SETUP_AF_XDP)
			write_interface(plan, port->device.iface, unit, out);
		else if (port->device.iface != NULL && !port->device.iface->up)
			fprintf(out, "ip link set %s up\n", port->device.iface->name);
		unsafe |= port->mode == SETUP_VFIO && !plan->machine->iommu;
		xdp |= port->mode == SETUP_AF_XDP;
		kernel |= port->mode != SETUP_VFIO && port->mode != SETUP_MEMIF;
	}
	if (kernel)
		write_removal(plan, "no-capabilities.conf", unit, out);
	else
		write_drop_in("no-capabilities.conf", unit, out);
	if (unsafe)
		write_drop_in("physical-addresses.conf", unit, out);
	if (xdp)
		write_drop_in("af_xdp.conf", unit, out);
}
