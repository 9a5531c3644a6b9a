/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A PCI device, or the socket of a memif, can be open in one process. So the EAL of a process that takes over
 * must not open them when it starts: their options are removed from its arguments.
 *
 * EAL without an option for a PCI device opens all that a driver knows. It gets an address in their place
 * that no device has. --no-pci would not do: EAL could not open a PCI device afterwards, either.
 */
#include "daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_dev.h>

#include "config/config.h"
#include "dataplane/port/device.h"

#define SHARED_DRIVER "net_af_packet"
#define NO_DEVICE "--allow=ffff:ff:1f.7"
#define IOVA_MODE "--iova-mode"

struct withheld {
	char name[64];
	const char *bus, *args;
};

static struct withheld withheld[2 * CONFIG_PORTS_MAX];
static uint32_t num_withheld;

/* Returns the value of argument `i` if it is the option `name`, or `brief` (NULL: it has none); NULL: it is
 * another one. *args: the number of arguments that it takes. */
static const char *
option_value(int argc, char **argv, int i, const char *name, const char *brief, int *args)
{
	const char *arg = argv[i];
	size_t len = strlen(name);

	*args = 1;
	if (strncmp(arg, name, len) == 0 && arg[len] == '=')
		return arg + len + 1;
	if (brief != NULL && strncmp(arg, brief, 2) == 0 && arg[2] != '\0')
		return arg + 2;
	if (i + 1 == argc || (strcmp(arg, name) != 0 && (brief == NULL || strcmp(arg, brief) != 0)))
		return NULL;
	*args = 2;
	return argv[i + 1];
}

/* Splits "NAME,ARGUMENTS". */
static void
split_device(const char *text, struct withheld *device)
{
	size_t len = strcspn(text, ",");
	char name[sizeof(device->name)];

	if (strncmp(text, "pci:", 4) == 0) {
		text += 4;
		len -= 4;
	}
	snprintf(name, sizeof(name), "%.*s", (int)len, text);
	device->bus = device_full_name(name, device->name, sizeof(device->name));
	device->args = text[len] == ',' ? text + len + 1 : "";
}

static bool
is_pci(const struct withheld *device)
{
	return strcmp(device->bus, "pci") == 0;
}

/* In the order in which EAL opens them, and numbers ports: PCI devices by address, then virtual ones. */
static void
insert_device(const struct withheld *device)
{
	uint32_t at = num_withheld++;

	for (; is_pci(device) && at > 0; at--) {
		if (is_pci(&withheld[at - 1]) && strcmp(withheld[at - 1].name, device->name) <= 0)
			break;
		withheld[at] = withheld[at - 1];
	}
	withheld[at] = *device;
}

/* True if a port has the PCI device, or may have it: other ones can stay with the process that serves. */
static bool
is_wanted(const char *name, const struct config *config)
{
	char full[sizeof(withheld[0].name)];

	for (uint32_t i = 0; i < config->num_ports; i++) {
		device_full_name(config->port[i].device, full, sizeof(full));
		if (full[0] == '\0' || strcmp(full, name) == 0)
			return true;
	}
	return false;
}

/* False: the option stays. */
static bool
withhold_device(const char *text, bool pci, const struct config *config)
{
	struct withheld device;

	split_device(text, &device);
	if (is_pci(&device) != pci || (!pci && strncmp(device.name, "net_", 4) != 0) ||
	    num_withheld == sizeof(withheld) / sizeof(withheld[0]))
		return false;
	if (!pci || is_wanted(device.name, config))
		insert_device(&device);
	return true;
}

/* Arguments about PCI devices. */
struct choice {
	bool none, named, addresses;
};

static bool
withhold_option(int argc, char **argv, int i, int *args, struct choice *choice, const struct config *config)
{
	const char *text = option_value(argc, argv, i, "--vdev", NULL, args);

	if (text != NULL)
		return withhold_device(text, false, config);
	text = option_value(argc, argv, i, "--allow", "-a", args);
	if (text != NULL) {
		choice->named = true;
		return withhold_device(text, true, config);
	}
	choice->none = choice->none || strcmp(argv[i], "--no-pci") == 0;
	choice->addresses = choice->addresses || strncmp(argv[i], IOVA_MODE, strlen(IOVA_MODE)) == 0;
	/* EAL refuses it beside NO_DEVICE. */
	return option_value(argc, argv, i, "--block", "-b", args) != NULL;
}

char **
devices_withhold(int *argc, char **argv, const struct config *config, bool physical)
{
	char **kept = calloc((size_t)*argc + 3, sizeof(*kept));
	struct choice choice = {false, false, false};
	int n = 0;

	if (kept == NULL)
		return NULL;
	kept[n++] = argv[0];
	for (int i = 1, args; i < *argc; i += args) {
		bool removed = withhold_option(*argc, argv, i, &args, &choice, config);

		for (int j = 0; j < args && !removed; j++)
			kept[n++] = argv[i + j];
	}
	/* EAL opens PCI devices without an option, too, if it has none for any. */
	for (uint32_t i = 0; i < config->num_ports && !choice.none && !choice.named; i++)
		if (device_is_pci(config->port[i].device))
			withhold_device(config->port[i].device, true, config);
	if (!choice.none)
		kept[n++] = (char *)(uintptr_t)NO_DEVICE;
	/* PCI devices are the first. */
	if (num_withheld > 0 && is_pci(&withheld[0]) && !choice.addresses)
		kept[n++] = (char *)(uintptr_t)(physical ? IOVA_MODE "=pa" : IOVA_MODE "=va");
	*argc = n;
	return kept;
}

bool
devices_can_share(uint32_t ports)
{
	for (uint32_t i = 0; i < num_withheld; i++)
		if (strncmp(withheld[i].name, SHARED_DRIVER, strlen(SHARED_DRIVER)) != 0)
			return false;
	return num_withheld == ports;
}

int
devices_open(char *why, size_t why_len)
{
	for (uint32_t i = 0; i < num_withheld; i++) {
		const struct withheld *device = &withheld[i];
		int error;

		/* The process that served may have been killed. */
		device_remove_stale(device->name, device->args);
		error = rte_eal_hotplug_add(device->bus, device->name, device->args);
		if (error != 0)
			return config_refuse(why, why_len, error,
					     "device %s does not open: %s; see the lines above", device->name,
					     strerror(-error));
	}
	return 0;
}
