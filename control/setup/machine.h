/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a machine has that a data plane could use, as /sys and /proc tell it: NICs, interfaces of the kernel
 * and what they carry, processors, hugepages.  Read once; nothing is asked of drivers, and nothing is
 * changed.
 */
#ifndef CONTROL_SETUP_MACHINE_H
#define CONTROL_SETUP_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

#define SETUP_NAME 16u  /* of an interface (IFNAMSIZ), and of a PCI device */
#define SETUP_NICS 256u /* what is beyond these is not proposed; setup_machine.more */
#define SETUP_IFACES 256u
#define SETUP_ADDRS 512u
#define SETUP_NODES 16u

struct setup_nic {
	char pci[SETUP_NAME];
	char driver[32];     /* "": none is bound */
	char companions[96]; /* other devices of its IOMMU's group, bridges left out; "": none */
	int numa;            /* -1: not known */
};

struct setup_iface {
	char name[SETUP_NAME];
	char pci[SETUP_NAME]; /* of its NIC; "": it has none */
	uint32_t mtu;
	bool up;
	bool ethernet; /* its frames are Ethernet's, and it is not the loopback */
	/* By itself, or by what stands on it (a bridge, a bond, a VLAN): */
	bool default_route;
	bool session; /* of ssh */
};

struct setup_addr {
	char iface[SETUP_NAME]; /* "": not known */
	struct config_addr addr;
};

struct setup_machine {
	const char *root; /* before each path: "" for this machine */
	struct setup_nic nic[SETUP_NICS];
	uint32_t nics;
	struct setup_iface iface[SETUP_IFACES];
	uint32_t ifaces;
	struct setup_addr addr[SETUP_ADDRS];
	uint32_t addrs;
	bool more; /* there are more of these */
	bool iommu;
	cpu_set_t cpus;     /* that a data plane could run on */
	cpu_set_t isolated; /* of these */
	cpu_set_t node[SETUP_NODES];
	uint64_t huge_bytes, huge_free; /* reserved in pools, and free of these */
	char huge_mount[128];           /* of hugetlbfs; "": none */
};

/* `root` has to stay. */
void setup_machine_read(struct setup_machine *machine, const char *root);

struct setup_iface *setup_iface_find(const struct setup_machine *machine, const char *name);
/* The first of a NIC; NULL: it has none. */
const struct setup_iface *setup_iface_of(const struct setup_machine *machine, const char *pci);
const struct setup_nic *setup_nic_find(const struct setup_machine *machine, const char *pci);
/* The kernel's own; NULL: it has not this one.  Prefixes do not count. */
const struct setup_addr *setup_addr_find(const struct setup_machine *machine, const struct config_addr *addr);

/* ---- each reads its part ---- */
void setup_pci_read(struct setup_machine *machine);
void setup_interfaces_read(struct setup_machine *machine);
void setup_routes_read(struct setup_machine *machine);      /* after the interfaces: */
void setup_sessions_read(struct setup_machine *machine);    /* after the routes: */
void setup_interfaces_carry(struct setup_machine *machine); /* after these */
void setup_processors_read(struct setup_machine *machine);
void setup_memory_read(struct setup_machine *machine);

#endif
