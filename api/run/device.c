/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Presents a port in /sys and /dev, with the formats of Linux.  UCX, NCCL, libfabric and rdma-core's tools
 * read these files in addition to their calls of libibverbs.
 *
 * The folder of a device has the name of a PCI function, because NCCL and libfabric parse such names.  No PCI
 * bus of Linux has PCI_DOMAIN.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "run/run.h"

#define PATH_OF_DEVICE 160
#define PCI_DOMAIN 0x1de5u

/* The files of one device. */
struct device_files {
	struct tree *tree;
	char folder[PATH_OF_DEVICE];
};

static void write_file(const struct device_files *files, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void
write_file(const struct device_files *files, const char *name, const char *format, ...)
{
	char path[PATH_MAX], text[256];
	va_list args;

	snprintf(path, sizeof(path), "%s/%s", files->folder, name);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	run_file(files->tree, path, "%s\n", text);
}

/* Writes the EUI-64 of the MAC, equal to the result of ibv_get_device_guid(). */
static void
write_guid(const struct device_files *files, const char *name, uint64_t hwaddr)
{
	uint64_t high = (hwaddr >> 24 & 0xffffff) ^ 0x020000,
		 guid = high << 40 | 0xfffeull << 24 | (hwaddr & 0xffffff);

	write_file(files, name, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
		   (unsigned)(guid >> 32 & 0xffff), (unsigned)(guid >> 16 & 0xffff),
		   (unsigned)(guid & 0xffff));
}

static void
write_gid(const struct device_files *files, uint32_t index, const struct one_port_addr *addr)
{
	uint8_t gid[16] = {[10] = 0xff, [11] = 0xff};
	char text[40], name[64];

	if (addr->family == AF_INET)
		memcpy(gid + 12, addr->addr, 4);
	else
		memcpy(gid, addr->addr, 16);
	for (int i = 0; i < 8; i++)
		sprintf(text + 5 * i, "%02x%02x%s", gid[2 * i], gid[2 * i + 1], i < 7 ? ":" : "");
	snprintf(name, sizeof(name), "ports/1/gids/%u", index);
	write_file(files, name, "%s", text);
	snprintf(name, sizeof(name), "ports/1/gid_attrs/types/%u", index);
	write_file(files, name, "RoCE v2");
}

/* Returns IBTA's fastest rate up to `mbps`, at least the slowest, equal to the result of ibv_query_port(). */
static const char *
rate_text(uint32_t mbps)
{
	static const struct {
		uint32_t mbps;
		const char *text;
	} known[] = {
		{400000, "400 Gb/sec (4X NDR)"}, {200000, "200 Gb/sec (4X HDR)"},
		{100000, "100 Gb/sec (4X EDR)"}, {50000, "50 Gb/sec (1X HDR)"},
		{40000, "40 Gb/sec (4X QDR)"},   {25000, "25 Gb/sec (1X EDR)"},
		{10000, "10 Gb/sec (1X QDR)"},   {0, "2.5 Gb/sec (1X SDR)"},
	};
	size_t i = 0;

	while (mbps < known[i].mbps)
		i++;
	return known[i].text;
}

static void
write_port(const struct device_files *files, const struct one_port *port, uint32_t index)
{
	write_file(files, "ports/1/state", port->link_up != 0 ? "4: ACTIVE" : "1: DOWN");
	write_file(files, "ports/1/phys_state", port->link_up != 0 ? "5: LinkUp" : "3: Disabled");
	write_file(files, "ports/1/rate", "%s", rate_text(port->mbps));
	write_file(files, "ports/1/link_layer", "Ethernet");
	write_file(files, "ports/1/lid", "0x0");
	write_file(files, "ports/1/lid_mask_count", "0");
	write_file(files, "ports/1/sm_lid", "0x0");
	write_file(files, "ports/1/sm_sl", "0");
	write_file(files, "ports/1/cap_mask", "0x00010000");
	write_file(files, "ports/1/pkeys/0", "0xffff");
	for (uint32_t i = 0; i < port->num_addrs; i++) {
		char name[64];

		write_gid(files, i, &port->addr[i]);
		snprintf(name, sizeof(name), "ports/1/gid_attrs/ndevs/%u", i);
		write_file(files, name, "oneside%u", index);
	}
}

static void
write_adapter(const struct device_files *files, const struct one_port *port)
{
	write_guid(files, "node_guid", port->hwaddr);
	write_guid(files, "sys_image_guid", port->hwaddr);
	write_file(files, "node_type", "1: CA");
	write_file(files, "node_desc", "oneside %s", port->name);
	write_file(files, "fw_ver", "%s", ONESIDE_VERSION);
	write_file(files, "hca_type", "oneside");
	write_file(files, "board_id", "oneside");
	write_file(files, "hw_rev", "%u", ONE_ABI_VERSION);
}

/* Links a character device as well: UCX never opens it, but skips a device without read and write access. */
static void
link_device(struct tree *tree, const char *pci, const char *name, uint32_t index)
{
	char path[PATH_MAX], target[PATH_MAX];

	snprintf(path, sizeof(path), "sys/class/infiniband/%s", name);
	snprintf(target, sizeof(target), "../../devices/%s/infiniband/%s", pci, name);
	run_link(tree, path, target);
	snprintf(path, sizeof(path), "sys/devices/%s/infiniband/%s/device", pci, name);
	run_link(tree, path, "../..");
	snprintf(path, sizeof(path), "dev/infiniband/oneside%u", index);
	run_link(tree, path, "/dev/null");
}

void
run_device(struct tree *tree, const struct one_port *port, uint32_t index)
{
	struct device_files files = {.tree = tree};
	char pci[32];

	snprintf(pci, sizeof(pci), "%04x:%02x:00.0", PCI_DOMAIN, index);
	snprintf(files.folder, sizeof(files.folder), "sys/devices/%s", pci);
	write_file(&files, "vendor", "0x0000");
	write_file(&files, "device", "0x0000");
	write_file(&files, "class", "0x020700");
	write_file(&files, "numa_node", "-1");
	snprintf(files.folder, sizeof(files.folder), "sys/devices/%s/infiniband/%s", pci, port->name);
	write_adapter(&files, port);
	write_port(&files, port, index);
	link_device(tree, pci, port->name, index);
}
