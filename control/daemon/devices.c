/* SPDX-License-Identifier: BSD-3-Clause */
#include "daemon.h"

#include <errno.h>
#include <string.h>

#include <rte_dev.h>

#include "config/config.h"
#include "dataplane/port/device.h"

#define VDEV "--vdev"
#define SHARED_DRIVER "net_af_packet"

static const char *withheld[CONFIG_PORTS_MAX];
static uint32_t num_withheld;

/* Returns the device that argument `i` names, and in *args the number of its arguments; NULL: none. */
static const char *
device_of(int argc, char **argv, int i, int *args)
{
	const char *arg = argv[i], *text = NULL;

	*args = 1;
	if (strncmp(arg, VDEV "=", strlen(VDEV) + 1) == 0) {
		text = arg + strlen(VDEV) + 1;
	} else if (strcmp(arg, VDEV) == 0 && i + 1 < argc) {
		text = argv[i + 1];
		*args = 2;
	}
	return text != NULL && strncmp(text, "net_", 4) == 0 ? text : NULL;
}

int
devices_withhold(int argc, char **argv)
{
	int kept = 0;

	for (int i = 0, args; i < argc; i += args) {
		const char *device = i == 0 ? NULL : device_of(argc, argv, i, &args);

		if (i == 0)
			args = 1;
		if (device != NULL && num_withheld < CONFIG_PORTS_MAX) {
			withheld[num_withheld++] = device;
			continue;
		}
		for (int j = 0; j < args; j++)
			argv[kept++] = argv[i + j];
	}
	return kept;
}

bool
devices_can_share(uint32_t ports)
{
	for (uint32_t i = 0; i < num_withheld; i++)
		if (strncmp(withheld[i], SHARED_DRIVER, strlen(SHARED_DRIVER)) != 0)
			return false;
	return num_withheld == ports;
}

int
devices_open(char *why, size_t why_len)
{
	for (uint32_t i = 0; i < num_withheld; i++) {
		size_t len = strcspn(withheld[i], ",");
		const char *args;
		char name[64];
		int error;

		if (len >= sizeof(name))
			len = sizeof(name) - 1;
		memcpy(name, withheld[i], len);
		name[len] = '\0';
		args = withheld[i][len] == ',' ? withheld[i] + len + 1 : "";
		/* The process that served may have been killed. */
		device_remove_stale(name, args);
		error = rte_eal_hotplug_add("vdev", name, args);
		if (error != 0)
			return config_refuse(why, why_len, error,
					     "device %s does not open: %s; see the lines above", name,
					     strerror(-error));
	}
	return 0;
}
