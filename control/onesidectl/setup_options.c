/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of `onesidectl setup`. --port begins a port, and the options after it describe that port. */
#include <string.h>

#include "config/address.h"
#include "control/onesidectl/onesidectl.h"
#include "control/onesidectl/setup.h"

#define CABLE "/run/oneside/cable" /* the service may create sockets there */

/* ---- values ---- */

bool
onesidectl_setup_port(struct onesidectl_setup *setup, const char *name)
{
	struct setup_plan *plan = &setup->plan;
	struct setup_port *port = &plan->port[plan->ports];

	if (plan->ports == CONFIG_PORTS_MAX)
		return setup_refuse(setup->why, "port %.40s: more than %u ports; leave one out", name,
				    CONFIG_PORTS_MAX);
	memset(port, 0, sizeof(*port));
	if (!setup_device_find(plan->machine, name, &port->device, setup->why))
		return false;
	port->mode = setup_mode_best(plan->machine, &port->device);
	strcpy(port->cable, CABLE);
	setup->port = port;
	plan->ports++;
	return true;
}

bool
onesidectl_setup_mode(struct onesidectl_setup *setup, const char *text)
{
	return setup_mode_find(text, &setup->port->mode) ||
	       setup_refuse(
		       setup->why,
		       "--driver %.40s: no such driver mode; write vfio, bifurcated, af_xdp, af_packet or memif",
		       text);
}

static bool
parse_address(const char *option, const char *text, bool of_port, struct config_addr *addr,
	      char why[SETUP_WHY])
{
	bool has_prefix;

	if (config_addr_parse(text, addr, &has_prefix) != 0 || !config_addr_unicast(addr))
		return setup_refuse(why, "%s %.60s: not a host's address; write, for example, %s", option,
				    text,
				    of_port ? "192.0.2.1/24 or 2001:db8::1/64" : "192.0.2.2 or 2001:db8::2");
	if (has_prefix == of_port && (!of_port || addr->prefix > 0))
		return true;
	return setup_refuse(why, "%s %.60s: %s", option, text,
			    of_port ? "the prefix of the link is missing; write, for example, 192.0.2.1/24"
				    : "an address of one host has no prefix; leave it out");
}

static bool
add_address(struct setup_port *port, const char *text, char why[SETUP_WHY])
{
	struct config_addr addr;

	if (!parse_address("--address", text, true, &addr, why))
		return false;
	if (port->mores == CONFIG_ADDRS_MAX - 1)
		return setup_refuse(why, "--address %.60s: more than %u addresses of a port; leave one out",
				    text, CONFIG_ADDRS_MAX);
	if (port->addr.family == 0)
		port->addr = addr;
	else
		port->more[port->mores++] = addr;
	return true;
}

/* Appends all words as addresses of the port, or none. */
bool
onesidectl_setup_address(struct onesidectl_setup *setup, const char *text)
{
	struct setup_port port = *setup->port;
	char words[512], *save = NULL;

	if (strlen(text) >= sizeof(words))
		return setup_refuse(setup->why,
				    "--address %.60s...: more than 511 bytes; give fewer addresses", text);
	strcpy(words, text);
	for (char *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
		if (!add_address(&port, word, setup->why))
			return false;
	*setup->port = port;
	return true;
}

static bool
set_gateway(struct onesidectl_setup *setup, const char *text)
{
	struct config_addr *gateway = setup->port->gateway, addr;
	uint32_t i = 0;

	if (!parse_address("--gateway", text, false, &addr, setup->why))
		return false;
	while (i < CONFIG_GATEWAYS_MAX && gateway[i].family != 0 && gateway[i].family != addr.family)
		i++;
	if (i == CONFIG_GATEWAYS_MAX || gateway[i].family != 0)
		return setup_refuse(setup->why,
				    "--gateway %.60s: the port has a gateway of this family; leave one out",
				    text);
	gateway[i] = addr;
	return true;
}

/* Number from 1 to `max`, or 0 if the text is none. */
static uint32_t
small_number(const char *text, uint32_t max)
{
	uint64_t value;

	return config_number(text, &value) == 0 && value <= max ? (uint32_t)value : 0;
}

static bool
set_number(const char *option, const char *text, uint32_t max, uint32_t *value, char why[SETUP_WHY])
{
	*value = small_number(text, max);
	return *value != 0 ||
	       setup_refuse(why, "%s %.20s: not a number in range; write 1 to %u", option, text, max);
}

static bool
set_mtu(struct onesidectl_setup *setup, const char *text)
{
	return set_number("--mtu", text, 9216, &setup->port->mtu, setup->why);
}

static bool
set_cores(struct onesidectl_setup *setup, const char *text)
{
	return set_number("--cores", text, CPU_SETSIZE, &setup->plan.cores, setup->why);
}

bool
onesidectl_setup_node(struct onesidectl_setup *setup, const char *text)
{
	setup->plan.node = small_number(text, 63);
	return setup->plan.node != 0 ||
	       setup_refuse(setup->why, "--node %.20s: not a node; write 1 to 63", text);
}

bool
onesidectl_setup_peer(struct onesidectl_setup *setup, const char *text)
{
	struct setup_plan *plan = &setup->plan;
	struct config_peer *peer = &plan->peer[plan->peers];
	const char *equals = strchr(text, '=');
	char node[8];

	if (plan->peers == CONFIG_PEERS_MAX)
		return setup_refuse(setup->why, "--peer %.60s: more than %u peers; leave one out", text,
				    CONFIG_PEERS_MAX);
	memset(peer, 0, sizeof(*peer));
	if (equals != NULL && (size_t)(equals - text) < sizeof(node)) {
		snprintf(node, sizeof(node), "%.*s", (int)(equals - text), text);
		peer->node = small_number(node, 63);
	}
	if (peer->node == 0)
		return setup_refuse(
			setup->why,
			"--peer %.60s: write NODE=ADDRESS, with a node from 1 to 63, for example 2=192.0.2.2",
			text);
	if (!parse_address("--peer", equals + 1, false, &peer->addr, setup->why))
		return false;
	plan->peers++;
	return true;
}

static bool
set_idle(struct onesidectl_setup *setup, const char *text)
{
	static const char *const idles[] = {"spin", "yield", "sleep", NULL};

	setup->plan.idle = text;
	return setup_is_among(text, idles) ||
	       setup_refuse(setup->why, "--idle %.20s: no such idle method; write spin, yield or sleep",
			    text);
}

static bool
set_given(struct onesidectl_setup *setup, const char *text)
{
	struct setup_plan *plan = &setup->plan;

	if (plan->givens == CONFIG_PORTS_MAX || strlen(text) >= SETUP_NAME)
		return setup_refuse(setup->why,
				    "--take-away %.40s: not an interface's name, or too many of them", text);
	strcpy(plan->given[plan->givens++], text);
	return true;
}

static bool
set_cable(struct onesidectl_setup *setup, const char *text)
{
	if (strlen(text) >= sizeof(setup->port->cable))
		return setup_refuse(setup->why,
				    "--cable %.40s...: too long for a Unix socket's path; shorten it", text);
	strcpy(setup->port->cable, text);
	return true;
}

static bool
set_role(struct onesidectl_setup *setup, const char *text)
{
	setup->port->role_given = true;
	setup->port->client = strcmp(text, "client") == 0;
	return setup->port->client || strcmp(text, "server") == 0 ||
	       setup_refuse(setup->why, "--role %.20s: no such role; write server or client", text);
}

static bool
set_output(struct onesidectl_setup *setup, const char *text)
{
	return setup_files_name(&setup->files, text, setup->why);
}

/* ---- options ---- */

static const struct option {
	const char *name;
	bool of_port; /* applies to the latest --port */
	onesidectl_setup_set *set;
} options[] = {
	{"--port", false, onesidectl_setup_port},
	{"--driver", true, onesidectl_setup_mode},
	{"--address", true, onesidectl_setup_address},
	{"--gateway", true, set_gateway},
	{"--mtu", true, set_mtu},
	{"--cable", true, set_cable},
	{"--role", true, set_role},
	{"--node", false, onesidectl_setup_node},
	{"--peer", false, onesidectl_setup_peer},
	{"--cores", false, set_cores},
	{"--idle", false, set_idle},
	{"--take-away", false, set_given},
	{"--output", false, set_output},
};

static bool
take_switch(struct onesidectl_setup *setup, const char *name)
{
	if (strcmp(name, "--yes") == 0)
		setup->yes = true;
	else if (strcmp(name, "--dry-run") == 0)
		setup->dry_run = true;
	else if (strcmp(name, "--replace") == 0)
		setup->replace = true;
	else
		return false;
	return true;
}

static void
take_option(struct onesidectl_setup *setup, const char *name, const char *value)
{
	const struct option *option = options, *end = &options[sizeof(options) / sizeof(options[0])];

	while (option < end && strcmp(option->name, name) != 0)
		option++;
	if (option == end)
		onesidectl_misused("setup %s: no such option", name);
	if (value == NULL || *value == '\0')
		onesidectl_misused("setup %s: the value is missing; write %s VALUE", name, name);
	if (option->of_port && setup->port == NULL)
		onesidectl_misused("setup %s: no --port precedes it; write --port NAME %s VALUE", name, name);
	if (!option->set(setup, value))
		onesidectl_fail("%s", setup->why);
}

void
onesidectl_setup_options(struct onesidectl_setup *setup, int count, char **words)
{
	setup->plan.cores = 1;
	if (!set_output(setup, SYSCONFDIR "/oneside/oneside.conf"))
		onesidectl_fail("%s", setup->why);
	for (int i = 0; i < count; i++) {
		char *equals = strchr(words[i], '=');

		if (take_switch(setup, words[i]))
			continue;
		if (equals != NULL)
			*equals = '\0';
		take_option(setup, words[i],
			    equals != NULL  ? equals + 1
			    : i + 1 < count ? words[i + 1]
					    : NULL);
		i += equals == NULL;
	}
}
