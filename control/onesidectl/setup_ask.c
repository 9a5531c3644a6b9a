/* SPDX-License-Identifier: BSD-3-Clause */
/* The questions of `onesidectl setup`: each is asked again until its answer can be. */
#include <string.h>

#include "control/onesidectl/onesidectl.h"
#include "control/onesidectl/setup.h"

#define ANSWER 512

/* A line without its ends' blanks; "" of who only presses Enter. */
static void
ask(const char *question, const char *otherwise, char answer[ANSWER])
{
	char line[ANSWER];
	size_t len, skip;
	int c;

	printf("%s [%s]: ", question, otherwise);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL)
		onesidectl_fail("setup: the answers have ended; nothing has been written");
	/* The end of a line that is too long answers no other question. */
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
		ask(question, otherwise ? "yes" : "no", answer);
		if (answer[0] == '\0')
			return otherwise;
		if (strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0)
			return true;
		if (strcmp(answer, "n") == 0 || strcmp(answer, "no") == 0)
			return false;
		puts("Write yes or no.");
	}
}

static void
ask_way(struct setup_plan *plan, struct setup_port *port)
{
	char answer[ANSWER], why[1024] = "";
	enum setup_way best = port->way;

	if (port->way == SETUP_MEMIF)
		return;
	do {
		if (why[0] != '\0')
			puts(why);
		port->way = best;
		ask("Driven by", setup_way_name(best), answer);
	} while (answer[0] != '\0' &&
		 (onesidectl_setup_way(port, answer, why, sizeof(why)) != 0 ||
		  setup_way_fits(plan->machine, &port->device, port->way, why, sizeof(why)) != 0));
}

static void
ask_address(struct setup_plan *plan, struct setup_port *port)
{
	char answer[ANSWER], text[CONFIG_ADDR_TEXT], why[1024] = "";

	setup_plan_address(plan->machine, port, &port->addr);
	do {
		if (why[0] != '\0')
			puts(why);
		ask("Its own address, ADDRESS/PREFIX", config_addr_text(&port->addr, true, text), answer);
	} while (answer[0] != '\0' && onesidectl_setup_address(port, answer, why, sizeof(why)) != 0);
}

/* The name of one more; false: none. */
static bool
ask_name(struct setup_plan *plan)
{
	enum setup_way way;
	struct setup_device best = setup_device_best(plan->machine, &way);
	const char *otherwise = plan->ports == 0 ? setup_device_name(&best) : "none";
	char answer[ANSWER], why[1024] = "";

	do {
		if (why[0] != '\0')
			puts(why);
		ask(plan->ports == 0 ? "Port" : "Another port", otherwise, answer);
		if (answer[0] == '\0' && plan->ports > 0)
			return false;
	} while (onesidectl_setup_port(plan, answer[0] == '\0' ? otherwise : answer, why, sizeof(why)) != 0);
	if (answer[0] == '\0')
		plan->port[plan->ports - 1].way = way;
	return true;
}

static void
ask_ports(struct setup_plan *plan)
{
	char why[1024];

	while (ask_name(plan)) {
		struct setup_port *port = &plan->port[plan->ports - 1];

		ask_way(plan, port);
		ask_address(plan, port);
		if (setup_plan_check_ports(plan, why, sizeof(why)) == 0)
			continue;
		puts(why);
		plan->ports--;
	}
}

static void
ask_rsm(struct setup_plan *plan)
{
	char answer[ANSWER], why[1024] = "";

	do {
		if (why[0] != '\0')
			puts(why);
		ask("Node of RSM, 1 to 63", "none", answer);
	} while (answer[0] != '\0' && onesidectl_setup_node(plan, answer, why, sizeof(why)) != 0);
	while (plan->node != 0) {
		uint32_t peers = plan->peers;

		ask("Peer in RSM, NODE=ADDRESS", "none", answer);
		if (answer[0] == '\0')
			break;
		if (onesidectl_setup_peer(plan, answer, why, sizeof(why)) == 0 &&
		    setup_plan_check(plan, why, sizeof(why)) == 0)
			continue;
		plan->peers = peers;
		puts(why);
	}
}

void
onesidectl_setup_ask(struct onesidectl_setup *setup)
{
	struct setup_plan *plan = &setup->plan;
	bool named = plan->ports > 0;

	for (uint32_t i = 0; i < plan->ports; i++) {
		struct setup_port *port = &plan->port[i];

		if (port->addr.family == 0) {
			printf("Port %s, by %s.\n", setup_device_name(&port->device),
			       setup_way_name(port->way));
			ask_address(plan, port);
		}
	}
	if (!named)
		ask_ports(plan);
	if (plan->node == 0)
		ask_rsm(plan);
	putchar('\n');
}
