/* SPDX-License-Identifier: BSD-3-Clause */
/* Driver modes in which DPDK could use the machine's devices, and what the kernel loses by each. */
#ifndef CONTROL_SETUP_MODES_H
#define CONTROL_SETUP_MODES_H

#include <stddef.h>

#include "control/setup/machine.h"

enum setup_mode {
	SETUP_VFIO,       /* DPDK owns the NIC through vfio-pci, and the kernel loses it; virtio, too */
	SETUP_BIFURCATED, /* DPDK shares the NIC with the kernel's driver, which keeps the interface */
	SETUP_AF_XDP,     /* frames of one receive queue */
	SETUP_AF_PACKET,  /* copies of all frames */
	SETUP_MEMIF,      /* cable between two processes */
	SETUP_MODES
};

/* NIC, interface, or an interface and its NIC; both NULL: a memif. */
struct setup_device {
	const struct setup_nic *nic;
	const struct setup_iface *iface;
};

#define SETUP_WHY 1024u /* room for a sentence that names object, value and remedy */
/* Writes the sentence, and returns false. */
bool setup_refuse(char why[SETUP_WHY], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* `list` ends with NULL. */
bool setup_is_among(const char *name, const char *const *list);
const char *setup_mode_name(enum setup_mode mode); /* SETUP_MODES: "none" */
/* False: no such driver mode. */
bool setup_mode_find(const char *name, enum setup_mode *mode);
/* Finds "eth1", "0000:01:00.0" or "memif"; false: no such device, with a sentence in `why`. */
bool setup_device_find(const struct setup_machine *machine, const char *name, struct setup_device *device,
		       char why[SETUP_WHY]);
/* Name of the interface, or PCI address. */
const char *setup_device_name(const struct setup_device *device);

/* False: the device does not support the driver mode, with a sentence in `why`. */
bool setup_mode_fits(const struct setup_machine *machine, const struct setup_device *device,
		     enum setup_mode mode, char why[SETUP_WHY]);
/* True if the kernel loses the interface's frames. */
bool setup_mode_takes(enum setup_mode mode);
/* Returns what users would miss without the device, such as "the default route", with the interface's or
 * NIC's name in `iface`; NULL: nothing. */
const char *setup_device_carries(const struct setup_machine *machine, const struct setup_device *device,
				 char iface[SETUP_NAME]);
/* Best driver mode that takes nothing users would miss; SETUP_MODES: none. */
enum setup_mode setup_mode_best(const struct setup_machine *machine, const struct setup_device *device);
/* Device to propose if none is named; never takes anything that the kernel uses. */
struct setup_device setup_device_best(const struct setup_machine *machine, enum setup_mode *mode);

#endif
