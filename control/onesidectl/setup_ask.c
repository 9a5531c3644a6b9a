/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions of `onesidectl setup`. Each is repeated until its answer is valid. */
#include <string.h>

#include "control/onesidectl/onesidectl.h"
#include "control/onesidectl/setup.h"

#define ANSWER 512

/* Reads a line, trimmed of blanks; "" if the user only presses Enter. */
static void
ask_line(const char *question, const char *otherwise, char answer[ANSWER])
{
	char line[ANSWER];
	size_t len, skip;
	int c;

	printf("%s [%s]: ", question, otherwise);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL)
		onesidectl_fail("setup: end of input; nothing has been written");
	/* Discard the rest of a long line: it must not answer the next question. */
	if (strchr(line, '\n') == NULL)
		while ((c = getchar()) != '\n' && c != EOF)
			;
	skip = strspn(line, " \t\r\n");
	len = strlen(line + skip);
	while (len > 0 && strchr(" \t\r\n", line[skip + len - 1]) != NULL)
		len--;
	snprintf(answer, ANSWER, "%.*s", (int)len, line + skip);
}

bool
onesidectl_setup_agrees(const char *question, bool otherwise)
{
	char answer[ANSWER];

	for (;;) {
		ask_line(question, otherwise ? "yes" : "no", answer);
		if (answer[0] == '\0')
			return otherwise;
		if (strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0)
			return true;
		if (strcmp(answer, "n") == 0 || strcmp(answer, "no") == 0)
			return false;
		puts("Write yes or no.");
	}
}

/* Repeats until `set` accepts the answer. Enter alone keeps the present value. */
static void
ask_for(struct onesidectl_setup *setup, const char *question, const char *otherwise,
	onesidectl_setup_set *set)
{
	char answer[ANSWER];

	for (;;) {
		ask_line(question, otherwise, answer);
		if (answer[0] == '\0' || set(setup, answer))
			return;
		puts(setup->why);
	}
}

static bool
set_fitting_mode(struct onesidectl_setup *setup, const char *text)
{
	struct setup_port *port = setup->port;
	const enum setup_mode best = port->mode;

	if (onesidectl_setup_mode(setup, text) &&
	    setup_mode_fits(setup->plan.machine, &port->device, port->mode, setup->why))
		return true;
	port->mode = best;
	return false;
}

static void
ask_address(struct onesidectl_setup *setup)
{
	struct config_addr addr;
	char text[CONFIG_ADDR_TEXT];

	setup_plan_address(setup->plan.machine, setup->port, &addr);
	ask_for(setup, "Its own address, ADDRESS/PREFIX, or several", config_addr_text(&addr, true, text),
		onesidectl_setup_address);
	if (setup->port->addr.family == 0)
		setup->port->addr = addr;
}

/* Asks for a further port's name; false: none. */
static bool
ask_name(struct onesidectl_setup *setup)
{
	const uint32_t ports = setup->plan.ports;
	enum setup_mode mode;
	struct setup_device best = setup_device_best(setup->plan.machine, &mode);
	const char *otherwise = ports == 0 ? setup_device_name(&best) : "none";

	ask_for(setup, ports == 0 ? "Port" : "Another port", otherwise, onesidectl_setup_port);
	if (setup->plan.ports == 0 && onesidectl_setup_port(setup, otherwise))
		setup->port->mode = mode;
	return setup->plan.ports > ports;
}

static void
ask_ports(struct onesidectl_setup *setup)
{
	while (ask_name(setup)) {
		if (setup->port->mode != SETUP_MEMIF)
			ask_for(setup, "Driven by", setup_mode_name(setup->port->mode), set_fitting_mode);
		ask_address(setup);
		if (setup_plan_check_ports(&setup->plan, setup->why))
			continue;
		puts(setup->why);
		setup->plan.ports--;
	}
}

static bool
set_good_peer(struct onesidectl_setup *setup, const char *text)
{
	const uint32_t peers = setup->plan.peers;

	if (onesidectl_setup_peer(setup, text) && setup_plan_check(&setup->plan, setup->why))
		return true;
	setup->plan.peers = peers;
	return false;
}

static void
ask_rsm(struct onesidectl_setup *setup)
{
	struct setup_plan *plan = &setup->plan;
	uint32_t peers;

	ask_for(setup, "Node of RSM, 1 to 63", "none", onesidectl_setup_node);
	do {
		peers = plan->peers;
		if (plan->node != 0)
			ask_for(setup, "Peer in RSM, NODE=ADDRESS", "none", set_good_peer);
	} while (plan->peers > peers);
}

void
onesidectl_setup_ask(struct onesidectl_setup *setup)
{
	struct setup_plan *plan = &setup->plan;
	bool named = plan->ports > 0;

	for (uint32_t i = 0; i < plan->ports; i++) {
		setup->port = &plan->port[i];
		if (setup->port->addr.family == 0) {
			printf("Port %s, by %s.\n", setup_device_name(&setup->port->device),
			       setup_mode_name(setup->port->mode));
			ask_address(setup);
		}
	}
	if (!named)
		ask_ports(setup);
	if (plan->node == 0)
		ask_rsm(setup);
	putchar('\n');
}
