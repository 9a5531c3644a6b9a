/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/setup/modes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[SETUP_MODES + 1] = {
	[SETUP_VFIO] = "vfio",           [SETUP_BIFURCATED] = "bifurcated", [SETUP_AF_XDP] = "af_xdp",
	[SETUP_AF_PACKET] = "af_packet", [SETUP_MEMIF] = "memif",           [SETUP_MODES] = "none",
};

static const char *const bound[] = {"vfio-pci", "uio_pci_generic", "igb_uio", NULL};
static const char *const bifurcated[] = {"mlx5_core", "mlx4_core", "mana", NULL};
/* Kernel drivers of NICs that DPDK can drive by vfio. */
static const char *const known[] = {"virtio-pci", "e1000", "e1000e",   "igb",   "igbvf", "igc",   "ixgbe",
				    "ixgbevf",    "i40e",  "iavf",     "ice",   "fm10k", "bnx2x", "bnxt_en",
				    "ena",        "enic",  "vmxnet3",  "cxgb4", "sfc",   "qede",  "hns3",
				    "nfp",        "ionic", "atlantic", "ngbe",  "txgbe", NULL};

bool
setup_refuse(char why[SETUP_WHY], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, SETUP_WHY, format, args);
	va_end(args);
	return false;
}

bool
setup_is_among(const char *name, const char *const *list)
{
	for (; *list != NULL; list++)
		if (strcmp(*list, name) == 0)
			return true;
	return false;
}

const char *
setup_mode_name(enum setup_mode mode)
{
	return names[mode];
}

bool
setup_mode_find(const char *name, enum setup_mode *mode)
{
	for (int i = 0; i < SETUP_MODES; i++) {
		if (strcmp(names[i], name) == 0) {
			*mode = (enum setup_mode)i;
			return true;
		}
	}
	return false;
}

bool
setup_device_find(const struct setup_machine *machine, const char *name, struct setup_device *device,
		  char why[SETUP_WHY])
{
	char full[SETUP_NAME + 8];

	*device = (struct setup_device){NULL, NULL};
	if (strcmp(name, "memif") == 0)
		return true;
	device->iface = setup_iface_find(machine, name);
	if (device->iface != NULL) {
		device->nic = setup_nic_find(machine, device->iface->pci);
		return true;
	}
	/* "01:00.0" is in domain 0. */
	snprintf(full, sizeof(full), "%s%.*s", strchr(name, ':') == strrchr(name, ':') ? "0000:" : "",
		 (int)SETUP_NAME, name);
	device->nic = setup_nic_find(machine, full);
	if (device->nic == NULL)
		return setup_refuse(
			why,
			"port %.40s: this machine has no such NIC or interface; onesidectl setup --dry-run lists them, and memif is a cable to another process",
			name);
	device->iface = setup_iface_of(machine, full);
	return true;
}

const char *
setup_device_name(const struct setup_device *device)
{
	return device->iface != NULL ? device->iface->name : device->nic != NULL ? device->nic->pci : "memif";
}

bool
setup_mode_takes(enum setup_mode mode)
{
	return mode == SETUP_VFIO || mode == SETUP_BIFURCATED || mode == SETUP_AF_XDP;
}

static bool
nic_fits(const struct setup_device *device, enum setup_mode mode, char why[SETUP_WHY])
{
	const struct setup_nic *nic = device->nic;
	bool beside = nic != NULL && setup_is_among(nic->driver, bifurcated);

	if (nic == NULL)
		return setup_refuse(why, "port %s: not a PCI device; choose af_packet or af_xdp",
				    setup_device_name(device));
	if (mode == SETUP_BIFURCATED && !beside)
		return setup_refuse(
			why,
			"port %s: driver %s is not mlx5_core, mlx4_core or mana; choose vfio or af_packet",
			setup_device_name(device), nic->driver[0] != '\0' ? nic->driver : "(none)");
	if (mode == SETUP_VFIO && beside)
		return setup_refuse(
			why, "port %s: DPDK shares the NIC with its kernel driver %s; choose bifurcated",
			setup_device_name(device), nic->driver);
	if (mode == SETUP_VFIO && nic->driver[0] != '\0' && !setup_is_among(nic->driver, bound) &&
	    !setup_is_among(nic->driver, known))
		return setup_refuse(why,
				    "port %s: DPDK has no driver for NICs of %s; choose af_packet or af_xdp",
				    setup_device_name(device), nic->driver);
	return true;
}

static bool
iface_fits(const struct setup_device *device, enum setup_mode mode, char why[SETUP_WHY])
{
	if (device->iface == NULL)
		return setup_refuse(why,
				    "port %s: the kernel has no interface for this NIC here; choose vfio",
				    setup_device_name(device));
	if (!device->iface->ethernet)
		return setup_refuse(why, "port %s: not an Ethernet interface; choose another port",
				    device->iface->name);
	return true;
}

bool
setup_mode_fits(const struct setup_machine *machine, const struct setup_device *device, enum setup_mode mode,
		char why[SETUP_WHY])
{
	bool memif = device->nic == NULL && device->iface == NULL;

	if (memif != (mode == SETUP_MEMIF))
		return setup_refuse(why, "port %s: %s cannot drive it; choose another --driver or port",
				    setup_device_name(device), names[mode]);
	if (memif)
		return true;
	if (mode == SETUP_VFIO || mode == SETUP_BIFURCATED)
		return nic_fits(device, mode, why);
	return iface_fits(device, mode, why);
}

static const char *
carried_traffic(const struct setup_iface *iface)
{
	return iface->session ? "an ssh session" : iface->default_route ? "the default route" : NULL;
}

/* Does interface `iface` go with the device? True for the device's own, and for one of the same NIC or IOMMU
 * group. */
static bool
goes_with(const struct setup_device *device, const struct setup_iface *iface)
{
	const struct setup_nic *nic = device->nic;

	if (iface == device->iface)
		return true;
	return nic != NULL && iface->pci[0] != '\0' &&
	       (strcmp(iface->pci, nic->pci) == 0 || strstr(nic->companions, iface->pci) != NULL);
}

/* The kernel drives the NIC, but another network namespace has the interface. */
static bool
is_elsewhere(const struct setup_device *device)
{
	const struct setup_nic *nic = device->nic;

	return nic != NULL && device->iface == NULL && nic->driver[0] != '\0' &&
	       !setup_is_among(nic->driver, bound);
}

const char *
setup_device_carries(const struct setup_machine *machine, const struct setup_device *device,
		     char name[SETUP_NAME])
{
	for (uint32_t i = 0; i < machine->ifaces; i++) {
		const struct setup_iface *iface = &machine->iface[i];

		if (carried_traffic(iface) == NULL || !goes_with(device, iface))
			continue;
		strcpy(name, iface->name);
		return carried_traffic(iface);
	}
	if (!is_elsewhere(device))
		return NULL;
	strcpy(name, device->nic->pci);
	return "an interface of another network namespace";
}

enum setup_mode
setup_mode_best(const struct setup_machine *machine, const struct setup_device *device)
{
	static const enum setup_mode order[] = {SETUP_MEMIF, SETUP_BIFURCATED, SETUP_VFIO, SETUP_AF_PACKET};
	char why[SETUP_WHY], iface[SETUP_NAME];
	bool missed = setup_device_carries(machine, device, iface) != NULL;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (!setup_mode_fits(machine, device, order[i], why) ||
		    (missed && setup_mode_takes(order[i])))
			continue;
		/* Without an IOMMU a NIC can write anywhere in memory: prefer other driver modes. */
		if (order[i] == SETUP_VFIO && !machine->iommu && device->iface != NULL &&
		    device->iface->ethernet)
			continue;
		return order[i];
	}
	return SETUP_MODES;
}

/* Rank as a proposal; 0: do not propose. */
static unsigned int
device_rank(const struct setup_machine *machine, const struct setup_device *device, enum setup_mode *mode)
{
	char why[SETUP_WHY];
	bool used = setup_iface_has_address(machine, device->iface);

	*mode = setup_mode_best(machine, device);
	if (*mode == SETUP_MODES)
		return 0;
	if (setup_mode_takes(*mode) && used) {
		*mode = SETUP_AF_PACKET;
		if (!setup_mode_fits(machine, device, *mode, why))
			return 0;
	}
	if (setup_mode_takes(*mode))
		return 4;
	/* Bridges, tunnels and containers' interfaces are in use. */
	if (device->nic == NULL)
		return 0;
	return carried_traffic(device->iface) != NULL ? 1 : used ? 2 : 3;
}

struct setup_device
setup_device_best(const struct setup_machine *machine, enum setup_mode *mode)
{
	struct setup_device best = {NULL, NULL};
	unsigned int best_rank = 0;

	*mode = SETUP_MEMIF;
	for (uint32_t i = 0; i < machine->nics; i++) {
		const struct setup_nic *nic = &machine->nic[i];
		const struct setup_device device = {nic, setup_iface_of(machine, nic->pci)};
		enum setup_mode its;
		unsigned int its_rank = device_rank(machine, &device, &its);

		if (its_rank <= best_rank)
			continue;
		best = device;
		best_rank = its_rank;
		*mode = its;
	}
	return best;
}
