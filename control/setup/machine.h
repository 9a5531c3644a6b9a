/* SPDX-License-Identifier: BSD-3-Clause */
/* Inventory of a machine from /sys and /proc: NICs, kernel interfaces and what they carry, processors,
 * hugepages. Read once; no driver is queried, and nothing is changed. */
#ifndef CONTROL_SETUP_MACHINE_H
#define CONTROL_SETUP_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define SETUP_NAME 16u  /* room for an interface's name (IFNAMSIZ) or a PCI address */
#define SETUP_NICS 256u /* further devices set setup_machine.more and are not proposed */
#define SETUP_IFACES 256u
#define SETUP_ADDRS 512u
#define SETUP_NODES 16u

struct setup_nic {
	char pci[SETUP_NAME];
	char driver[32];     /* "": none bound */
	char companions[96]; /* other devices of the IOMMU group, except bridges; "": none */
	int numa;            /* -1: unknown */
};

struct setup_iface {
	char name[SETUP_NAME];
	char pci[SETUP_NAME]; /* PCI address of the NIC; "": none */
	uint32_t mtu;
	bool up;
	bool ethernet; /* Ethernet frames, and not the loopback */
	/* carried directly, or by an interface stacked on this one (bridge, bond, VLAN) */
	bool default_route;
	bool session; /* ssh session */
};

struct setup_addr {
	char iface[SETUP_NAME]; /* "": unknown */
	struct config_addr addr;
};

struct setup_machine {
	const char *root; /* prefix of each path; "" for this machine */
	struct setup_nic nic[SETUP_NICS];
	uint32_t nics;
	struct setup_iface iface[SETUP_IFACES];
	uint32_t ifaces;
	struct setup_addr addr[SETUP_ADDRS];
	uint32_t addrs;
	bool more; /* some were omitted: the tables are full */
	bool iommu;
	cpu_set_t cpus;     /* usable by a data plane */
	cpu_set_t isolated; /* subset of `cpus` */
	cpu_set_t node[SETUP_NODES];
	uint64_t huge_bytes, huge_free; /* bytes reserved in pools, and bytes free */
	char huge_mount[128];           /* mount point of hugetlbfs; "": none */
};

/* `root` must outlive the machine. */
void setup_machine_read(struct setup_machine *machine, const char *root);

struct setup_iface *setup_iface_find(const struct setup_machine *machine, const char *name);
/* First interface of a NIC, or NULL. */
const struct setup_iface *setup_iface_of(const struct setup_machine *machine, const char *pci);
const struct setup_nic *setup_nic_find(const struct setup_machine *machine, const char *pci);
/* Has the kernel an address on the interface? `iface` may be NULL. */
bool setup_iface_has_address(const struct setup_machine *machine, const struct setup_iface *iface);
/* The kernel's entry for an address, or NULL. Ignores prefixes. */
const struct setup_addr *setup_addr_find(const struct setup_machine *machine, const struct config_addr *addr);

/* ---- each reads one part ---- */
void setup_pci_read(struct setup_machine *machine);
void setup_interfaces_read(struct setup_machine *machine);
void setup_routes_read(struct setup_machine *machine);      /* after the interfaces */
void setup_sessions_read(struct setup_machine *machine);    /* after the routes */
void setup_interfaces_carry(struct setup_machine *machine); /* after the sessions */
void setup_memory_read(struct setup_machine *machine);
/* Parses "0-3,8": ranges separated by commas. */
void setup_cpus_parse(const char *list, cpu_set_t *set);
/* Bytes that a data plane needs: without ports, and for the buffers of a port with frames or slots of `room`.
 */
uint64_t setup_memory_tables(uint64_t cores, uint64_t work_pool);
uint64_t setup_memory_port(uint64_t cores, uint64_t mbufs, uint64_t room);

/* ---- files.c reads /sys and /proc; a missing or overlong value reads as "" ---- */
/* Formats a path below the machine's root. Valid until this thread's next call. */
const char *setup_path(const struct setup_machine *machine, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Reads the first line; false: none. */
bool setup_line(const char *path, char *text, size_t room);
uint64_t setup_number(const char *path, uint64_t otherwise);
/* Reads the last component of a link's target. */
void setup_link(const char *path, char *name, size_t room);
/* Calls `entry` for each entry of a folder that does not begin with a dot. */
void setup_each(const char *path, void (*entry)(void *context, const char *name), void *context);
/* Calls `line` for each line of a file, without its end. */
void setup_lines(const char *path, void (*line)(void *context, char *line), void *context);

#endif
