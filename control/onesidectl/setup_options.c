/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `onesidectl setup`: --port begins a port, and what follows is said of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/address.h"
#include "control/onesidectl/onesidectl.h"
#include "control/onesidectl/setup.h"

#define CABLE "/run/oneside/cable" /* where the service may make sockets */

/* ---- values ---- */

int
onesidectl_setup_port(struct setup_plan *plan, const char *name, char *why, size_t why_len)
{
	struct setup_port *port = &plan->port[plan->ports];
	int error;

	if (plan->ports == CONFIG_PORTS_MAX)
		return config_refuse(why, why_len, -EINVAL,
				     "port %.40s: this is more than %u ports; leave one out", name,
				     CONFIG_PORTS_MAX);
	memset(port, 0, sizeof(*port));
	error = setup_device_find(plan->machine, name, &port->device, why, why_len);
	if (error != 0)
		return error;
	port->way = setup_way_best(plan->machine, &port->device);
	strcpy(port->cable, CABLE);
	plan->ports++;
	return 0;
}

int
onesidectl_setup_way(struct setup_port *port, const char *text, char *why, size_t why_len)
{
	if (setup_way_find(text, &port->way))
		return 0;
	return config_refuse(
		why, why_len, -EINVAL,
		"--driver %.40s: there is no such way; write vfio, bifurcated, af_xdp, af_packet or memif",
		text);
}

static int
parse_address(const char *option, const char *text, bool of_port, struct config_addr *addr, char *why,
	      size_t why_len)
{
	bool has_prefix;
	int error = config_addr_parse(text, addr, &has_prefix);

	if (error != 0 || !config_addr_unicast(addr))
		return config_refuse(why, why_len, -EINVAL,
				     "%s %.60s: this is no address that a host can have; write as in %s",
				     option, text,
				     of_port ? "192.0.2.1/24 or 2001:db8::1/64" : "192.0.2.2 or 2001:db8::2");
	if (has_prefix == of_port && (!of_port || addr->prefix > 0))
		return 0;
	return config_refuse(why, why_len, -EINVAL, "%s %.60s: %s", option, text,
			     of_port ? "the prefix of the link is missing; write as in 192.0.2.1/24"
				     : "this is one host, not a network; write it without a prefix");
}

int
onesidectl_setup_address(struct setup_port *port, const char *text, char *why, size_t why_len)
{
	struct config_addr addr;
	int error = parse_address("--address", text, true, &addr, why, why_len);

	if (error == 0)
		port->addr = addr;
	return error;
}

/* 1 to `max`; 0: it is none. */
static uint32_t
small_number(const char *text, uint32_t max)
{
	uint64_t value;

	return config_number(text, &value) == 0 && value <= max ? (uint32_t)value : 0;
}

int
onesidectl_setup_node(struct setup_plan *plan, const char *text, char *why, size_t why_len)
{
	plan->node = small_number(text, 63);
	return plan->node != 0 ? 0
			       : config_refuse(why, why_len, -EINVAL,
					       "--node %.20s: this is no node; write 1 to 63", text);
}

int
onesidectl_setup_peer(struct setup_plan *plan, const char *text, char *why, size_t why_len)
{
	struct config_peer *peer = &plan->peer[plan->peers];
	const char *equals = strchr(text, '=');
	char node[8];
	int error;

	if (plan->peers == CONFIG_PEERS_MAX)
		return config_refuse(why, why_len, -EINVAL,
				     "--peer %.60s: this is more than %u; leave one out", text,
				     CONFIG_PEERS_MAX);
	memset(peer, 0, sizeof(*peer));
	if (equals != NULL && (size_t)(equals - text) < sizeof(node)) {
		snprintf(node, sizeof(node), "%.*s", (int)(equals - text), text);
		peer->node = small_number(node, 63);
	}
	if (peer->node == 0)
		return config_refuse(
			why, why_len, -EINVAL,
			"--peer %.60s: write NODE=ADDRESS, with a node from 1 to 63, as in 2=192.0.2.2",
			text);
	error = parse_address("--peer", equals + 1, false, &peer->addr, why, why_len);
	plan->peers += error == 0;
	return error;
}

static int
set_idle(struct setup_plan *plan, const char *text, char *why, size_t why_len)
{
	plan->idle = text;
	if (strcmp(text, "spin") == 0 || strcmp(text, "yield") == 0 || strcmp(text, "sleep") == 0)
		return 0;
	return config_refuse(why, why_len, -EINVAL,
			     "--idle %.20s: no such way to idle; write spin, yield or sleep", text);
}

static int
set_given(struct setup_plan *plan, const char *text, char *why, size_t why_len)
{
	if (plan->givens == CONFIG_PORTS_MAX || strlen(text) >= SETUP_NAME)
		return config_refuse(why, why_len, -EINVAL,
				     "--take-away %.40s: this is no interface's name, or there are too many",
				     text);
	strcpy(plan->given[plan->givens++], text);
	return 0;
}

static int
set_cable(struct setup_port *port, const char *text, char *why, size_t why_len)
{
	if (strlen(text) >= sizeof(port->cable))
		return config_refuse(
			why, why_len, -EINVAL,
			"--cable %.40s...: the path is longer than a Unix socket's may be; shorten it", text);
	strcpy(port->cable, text);
	return 0;
}

static int
set_role(struct setup_port *port, const char *text, char *why, size_t why_len)
{
	port->client = strcmp(text, "client") == 0;
	return port->client || strcmp(text, "server") == 0
		       ? 0
		       : config_refuse(
				 why, why_len, -EINVAL,
				 "--role %.20s: there is no such end of a cable; write server or client",
				 text);
}

static int
set_number(const char *option, const char *text, uint32_t max, uint32_t *value, char *why, size_t why_len)
{
	*value = small_number(text, max);
	return *value != 0
		       ? 0
		       : config_refuse(why, why_len, -EINVAL,
				       "%s %.20s: this is no such number; write 1 to %u", option, text, max);
}

/* ---- options ---- */

/* What is said of a port. */
static int
set_of_port(struct setup_port *port, const char *name, const char *value, char *why, size_t why_len)
{
	if (strcmp(name, "--driver") == 0)
		return onesidectl_setup_way(port, value, why, why_len);
	if (strcmp(name, "--address") == 0)
		return onesidectl_setup_address(port, value, why, why_len);
	if (strcmp(name, "--gateway") == 0)
		return parse_address(name, value, false, &port->gateway, why, why_len);
	if (strcmp(name, "--mtu") == 0)
		return set_number(name, value, 9216, &port->mtu, why, why_len);
	if (strcmp(name, "--cable") == 0)
		return set_cable(port, value, why, why_len);
	return set_role(port, value, why, why_len);
}

static int
set_of_plan(struct onesidectl_setup *setup, const char *name, const char *value, char *why, size_t why_len)
{
	struct setup_plan *plan = &setup->plan;

	if (strcmp(name, "--port") == 0)
		return onesidectl_setup_port(plan, value, why, why_len);
	if (strcmp(name, "--node") == 0)
		return onesidectl_setup_node(plan, value, why, why_len);
	if (strcmp(name, "--peer") == 0)
		return onesidectl_setup_peer(plan, value, why, why_len);
	if (strcmp(name, "--cores") == 0)
		return set_number(name, value, CPU_SETSIZE, &plan->cores, why, why_len);
	if (strcmp(name, "--idle") == 0)
		return set_idle(plan, value, why, why_len);
	if (strcmp(name, "--take-away") == 0)
		return set_given(plan, value, why, why_len);
	return setup_files_name(&setup->files, value, why, why_len);
}

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
	static const char *const of_port[] = {"--driver", "--address", "--gateway", "--mtu",
					      "--cable",  "--role",    NULL};
	static const char *const of_plan[] = {"--port", "--node",      "--peer",   "--cores",
					      "--idle", "--take-away", "--output", NULL};
	struct setup_plan *plan = &setup->plan;
	bool port = setup_is_among(name, of_port);
	char why[1024];
	int error;

	if (!port && !setup_is_among(name, of_plan))
		onesidectl_misused("setup %s: there is no such option", name);
	if (value == NULL || *value == '\0')
		onesidectl_misused("setup %s: its value is missing; write %s VALUE", name, name);
	if (port && plan->ports == 0)
		onesidectl_misused("setup %s: no port is named before it; write --port NAME %s VALUE", name,
				   name);
	error = port ? set_of_port(&plan->port[plan->ports - 1], name, value, why, sizeof(why))
		     : set_of_plan(setup, name, value, why, sizeof(why));
	if (error != 0)
		onesidectl_fail("%s", why);
}

void
onesidectl_setup_options(struct onesidectl_setup *setup, int count, char **words)
{
	char why[1024];

	setup->plan.cores = 1;
	if (setup_files_name(&setup->files, SYSCONFDIR "/oneside/oneside.conf", why, sizeof(why)) != 0)
		onesidectl_fail("%s", why);
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
