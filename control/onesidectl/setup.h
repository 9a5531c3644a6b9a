/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by the files of `onesidectl setup`. */
#ifndef CONTROL_ONESIDECTL_SETUP_H
#define CONTROL_ONESIDECTL_SETUP_H

#include "control/setup/plan.h"

struct onesidectl_setup {
	struct setup_plan plan;
	struct setup_port *port; /* port that options apply to; NULL: none yet */
	struct setup_files files;
	bool yes, dry_run, replace;
	char why[SETUP_WHY];
};

/* Parses the command line into the plan; errors end the program. */
void onesidectl_setup_options(struct onesidectl_setup *setup, int count, char **words);
/* Sets one value of the port or the plan. False: invalid, with a sentence in setup->why. */
typedef bool onesidectl_setup_set(struct onesidectl_setup *setup, const char *text);
/* Adds a port for the named device, with its best driver mode. */
onesidectl_setup_set onesidectl_setup_port;
onesidectl_setup_set onesidectl_setup_mode, onesidectl_setup_address, onesidectl_setup_node,
	onesidectl_setup_peer;

/* Prints the machine's inventory, with the driver modes of each device. */
void onesidectl_setup_show(const struct setup_machine *machine, const struct setup_files *files);
/* Asks for what the command line left open, until it is valid. */
void onesidectl_setup_ask(struct onesidectl_setup *setup);
/* `otherwise`: the answer if the user only presses Enter. */
bool onesidectl_setup_agrees(const char *question, bool otherwise);

#endif
