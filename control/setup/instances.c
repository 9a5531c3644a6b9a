/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds other data planes of this machine by their files: DIRECTORY/oneside.conf and eal.conf, and those of
 * instances in DIRECTORY/NAME. No two data planes may share an address or an end of a memif. */
#include "control/setup/plan.h"

#include <stdio.h>
#include <string.h>

#include "config/address.h"
#include "control/setup/machine.h"

#define MAIN "oneside.conf"

struct search {
	const char *own, *folder; /* file being written; folder of instances */
	const struct config_addr *addr;
	const char *cable; /* used if addr is NULL */
	bool client;
	bool found;
	char *by;
};

static void
match_address(void *context, char *line)
{
	struct search *search = context;
	struct config_addr addr;
	int at = 0, len = 0;
	bool has_prefix;
	char text[80];

	if (sscanf(line, " address = %n", &at) == EOF || at == 0)
		return;
	for (; sscanf(line + at, " %79[0-9a-fA-F:./]%n", text, &len) == 1; at += len)
		if (config_addr_parse(text, &addr, &has_prefix) == 0 && has_prefix &&
		    config_addr_equal(&addr, search->addr))
			search->found = true;
}

static void
match_device(void *context, char *line)
{
	struct search *search = context;
	char wanted[160];
	size_t len;

	for (char *device = strstr(line, "--vdev=net_memif"); device != NULL;
	     device = strstr(device + 1, "--vdev=net_memif")) {
		char *end = device + strcspn(device, " \"");
		char kept = *end;
		bool client;

		*end = '\0';
		client = strstr(device, "role=client") != NULL || strstr(device, "role=slave") != NULL;
		snprintf(wanted, sizeof(wanted), "socket=%s", search->cable);
		len = strlen(wanted);
		device = strstr(device, wanted) != NULL ? strstr(device, wanted) : end;
		if (client == search->client && device != end && (device[len] == ',' || device[len] == '\0'))
			search->found = true;
		*end = kept;
		device = end > line ? end - 1 : line;
	}
}

static void
match_instance(struct search *search, const char *folder)
{
	char conf[SETUP_PATH], path[SETUP_PATH];

	snprintf(conf, sizeof(conf), "%s/" MAIN, folder);
	if (search->found || strcmp(conf, search->own) == 0)
		return;
	snprintf(path, sizeof(path), "%s/eal.conf", folder);
	if (search->addr != NULL)
		setup_lines(conf, match_address, search);
	else
		setup_lines(path, match_device, search);
	if (search->found)
		snprintf(search->by, SETUP_PATH, "%s", folder);
}

static void
look_below(void *context, const char *name)
{
	struct search *search = context;
	char folder[SETUP_PATH];

	if (snprintf(folder, sizeof(folder), "%s/%s", search->folder, name) < (int)sizeof(folder))
		match_instance(search, folder);
}

/* Folder of oneside.conf; for an instance, its parent. */
static bool
find_folder(const char *conf, char folder[SETUP_PATH])
{
	char *end;

	if (snprintf(folder, SETUP_PATH, "%s", conf) >= SETUP_PATH)
		return false;
	end = strrchr(folder, '/');
	if (end == NULL || strcmp(end, "/" MAIN) != 0)
		return false;
	*end = '\0';
	end = strrchr(folder, '/');
	if (end == NULL)
		return false;
	if (strcmp(end, "/oneside") != 0)
		*end = '\0';
	end = strrchr(folder, '/');
	return end != NULL && strcmp(end, "/oneside") == 0;
}

static bool
search_instances(struct search *search)
{
	char folder[SETUP_PATH];

	if (!find_folder(search->own, folder))
		return false;
	search->folder = folder;
	match_instance(search, folder);
	setup_each(folder, look_below, search);
	return search->found;
}

bool
setup_instance_has_address(const char *own, const struct config_addr *addr, char by[SETUP_PATH])
{
	struct search search = {.own = own, .addr = addr, .by = by};

	return search_instances(&search);
}

bool
setup_instance_has_cable(const char *own, const char *cable, bool client, char by[SETUP_PATH])
{
	struct search search = {.own = own, .cable = cable, .client = client, .by = by};

	return search_instances(&search);
}
