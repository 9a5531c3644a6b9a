/* SPDX-License-Identifier: BSD-3-Clause */
/* Command `onesidectl setup`: from a machine to its data plane's files. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/onesidectl/onesidectl.h"
#include "control/onesidectl/setup.h"
#include "control/setup/plan.h"

/* Gives a second data plane the free end of the first one's cable. */
static void
choose_end(const struct onesidectl_setup *setup, struct setup_port *port)
{
	char by[SETUP_PATH];

	if (port->mode == SETUP_MEMIF && !port->role_given &&
	    setup_instance_has_cable(setup->files.conf, port->cable, false, by))
		port->client = true;
}

static void
check_instances(const struct onesidectl_setup *setup, const struct setup_port *port)
{
	char by[SETUP_PATH], text[CONFIG_ADDR_TEXT];
	const struct config_addr *addr;

	if (port->mode == SETUP_MEMIF &&
	    setup_instance_has_cable(setup->files.conf, port->cable, port->client, by))
		onesidectl_fail(
			"port %s: the data plane in %s is the %s of the cable %s; give --role %s, or another --cable",
			setup_device_name(&port->device), by, port->client ? "client" : "server", port->cable,
			port->client ? "server" : "client");
	for (uint32_t i = 0; (addr = setup_port_addr(port, i)) != NULL; i++)
		if (setup_instance_has_address(setup->files.conf, addr, by))
			onesidectl_fail(
				"port %s: the data plane in %s has address %s; give another by --address",
				setup_device_name(&port->device), by, config_addr_text(addr, true, text));
}

/* Fills in ports and addresses that neither command line nor dialogue named. */
static void
fill_in(struct onesidectl_setup *setup)
{
	struct setup_plan *plan = &setup->plan;

	if (plan->ports == 0) {
		enum setup_mode mode;
		struct setup_device device = setup_device_best(plan->machine, &mode);

		if (!onesidectl_setup_port(setup, setup_device_name(&device)))
			onesidectl_fail("%s", setup->why);
		plan->port[0].mode = mode;
	}
	for (uint32_t i = 0; i < plan->ports; i++) {
		choose_end(setup, &plan->port[i]);
		if (plan->port[i].addr.family == 0)
			setup_plan_address(plan->machine, &plan->port[i], &plan->port[i].addr);
		check_instances(setup, &plan->port[i]);
	}
}

static void
show_proposal(const struct setup_machine *machine)
{
	enum setup_mode mode;
	struct setup_device device = setup_device_best(machine, &mode);

	printf("Proposed:  onesidectl setup --port %s --driver %s --address ADDRESS/PREFIX\n",
	       setup_device_name(&device), setup_mode_name(mode));
}

static void
show_plan(const struct onesidectl_setup *setup)
{
	printf("%s:\n\n", setup->files.eal);
	setup_text_eal(&setup->plan, stdout);
	printf("\n%s:\n\n", setup->files.conf);
	setup_text_conf(&setup->plan, stdout);
	putchar('\n');
}

static void
show_steps(const struct onesidectl_setup *setup)
{
	char service[ONESIDECTL_SERVICE];
	bool serves = onesidectl_service(setup->files.conf, service);

	puts("Then, as root:\n");
	setup_text_steps(&setup->plan, service, stdout);
	if (serves && strcmp(service, "oneside") == 0)
		puts("onesidectl check");
	else
		printf("onesidectl check %s\n", setup->files.conf);
	if (serves)
		printf("systemctl enable --now %s\n", service);
	fflush(stdout);
}

static void
confirm_writing(struct onesidectl_setup *setup)
{
	const char *there = setup_files_there(&setup->files);
	char question[SETUP_FILE_MAX + 128];

	if (there != NULL && !setup->replace) {
		snprintf(question, sizeof(question), "%s exists.  Replace it, and save it as %s.old?",
			 basename(there), basename(there));
		setup->replace = onesidectl_setup_agrees(question, false);
		if (!setup->replace)
			onesidectl_fail("setup: nothing has been written");
	} else if (!onesidectl_setup_agrees("Write these files?", true)) {
		onesidectl_fail("setup: nothing has been written");
	}
}

int
onesidectl_setup_run(int count, char **words)
{
	static struct setup_machine machine;
	static struct onesidectl_setup setup;
	bool asks;

	if (onesidectl_options.json)
		onesidectl_misused("setup: no JSON output; leave --json out");
	setup_machine_read(&machine, "");
	setup.plan.machine = &machine;
	onesidectl_setup_options(&setup, count, words);
	asks = !setup.yes && !setup.dry_run;
	if (asks && !isatty(STDIN_FILENO))
		onesidectl_fail(
			"setup: no terminal for questions; give --yes, or --dry-run to see what would be written");
	if (!setup.yes)
		onesidectl_setup_show(&machine, &setup.files);
	if (setup.dry_run && setup.plan.ports == 0) {
		show_proposal(&machine);
		return EXIT_SUCCESS;
	}
	if (asks)
		onesidectl_setup_ask(&setup);
	fill_in(&setup);
	if (!setup_plan_check(&setup.plan, setup.why))
		onesidectl_fail("%s", setup.why);
	show_plan(&setup);
	if (asks)
		confirm_writing(&setup);
	if (!setup.dry_run && !setup_files_write(&setup.files, &setup.plan, setup.replace, setup.why))
		onesidectl_fail("%s", setup.why);
	show_steps(&setup);
	return EXIT_SUCCESS;
}
