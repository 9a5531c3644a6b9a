/* SPDX-License-Identifier: BSD-3-Clause */
/* By which driver DPDK would use what a machine has, and what the kernel loses by that. */
#ifndef CONTROL_SETUP_WAYS_H
#define CONTROL_SETUP_WAYS_H

#include <stddef.h>

#include "control/setup/machine.h"

enum setup_way {
	SETUP_VFIO,       /* DPDK has the NIC by vfio-pci, and the kernel nothing: virtio as well */
	SETUP_BIFURCATED, /* DPDK beside the kernel's driver, which keeps the interface */
	SETUP_AF_XDP,     /* frames of a receive queue */
	SETUP_AF_PACKET,  /* copies of all frames */
	SETUP_MEMIF,      /* a cable between processes */
	SETUP_WAYS
};

/* A NIC, an interface, or one of the other; neither: a memif. */
struct setup_device {
	const struct setup_nic *nic;
	const struct setup_iface *iface;
};

#define SETUP_WHY 1024u /* room for a sentence that names object, value and remedy */
/* Writes it, and is false. */
bool setup_refuse(char why[SETUP_WHY], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Of a list that NULL ends. */
bool setup_is_among(const char *name, const char *const *list);
const char *setup_way_name(enum setup_way way); /* SETUP_WAYS: "none" */
/* False: there is none of that name. */
bool setup_way_find(const char *name, enum setup_way *way);
/* "eth1", "0000:01:00.0" or "memif"; false: there is none, says `why`. */
bool setup_device_find(const struct setup_machine *machine, const char *name, struct setup_device *device,
		       char why[SETUP_WHY]);
/* Its address on PCI or the interface's name. */
const char *setup_device_name(const struct setup_device *device);

/* False: it cannot be driven so, says `why`. */
bool setup_way_fits(const struct setup_machine *machine, const struct setup_device *device,
		    enum setup_way way, char why[SETUP_WHY]);
/* The kernel no longer gets the interface's frames. */
bool setup_way_takes(enum setup_way way);
/* What is lost with the device, that people would miss: "the default route", with the interface's name in
 * `iface`, or the NIC's; NULL: nothing. */
const char *setup_device_carries(const struct setup_machine *machine, const struct setup_device *device,
				 char iface[SETUP_NAME]);
/* That which is best and takes away nothing that people would miss; SETUP_WAYS: none. */
enum setup_way setup_way_best(const struct setup_machine *machine, const struct setup_device *device);
/* The device to propose where none is named: nothing that the kernel uses is taken from it. */
struct setup_device setup_device_best(const struct setup_machine *machine, enum setup_way *way);

#endif
