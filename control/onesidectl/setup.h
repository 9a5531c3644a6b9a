/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `onesidectl setup` share. */
#ifndef CONTROL_ONESIDECTL_SETUP_H
#define CONTROL_ONESIDECTL_SETUP_H

#include "control/setup/plan.h"
#include "control/setup/write.h"

struct onesidectl_setup {
	struct setup_plan plan;
	struct setup_port *port; /* of which something is said; NULL: none is named yet */
	struct setup_files files;
	bool yes, dry_run, replace;
	char why[SETUP_WHY];
};

/* The words of the command line into the plan; what is wrong ends the program. */
void onesidectl_setup_options(struct onesidectl_setup *setup, int count, char **words);
/* Each sets one value of the port or of the plan; false: it is none, says setup->why. */
typedef bool onesidectl_setup_set(struct onesidectl_setup *setup, const char *text);
/* The device of that name is a further port, by the way that is best for it. */
onesidectl_setup_set onesidectl_setup_port;
onesidectl_setup_set onesidectl_setup_way, onesidectl_setup_address, onesidectl_setup_node,
	onesidectl_setup_peer;

/* What the machine has, and by which ways. */
void onesidectl_setup_show(const struct setup_machine *machine, const struct setup_files *files);
/* Asks for what the command line has left open, until it can be. */
void onesidectl_setup_ask(struct onesidectl_setup *setup);
/* `otherwise`: the answer of who only presses Enter. */
bool onesidectl_setup_agrees(const char *question, bool otherwise);

#endif
