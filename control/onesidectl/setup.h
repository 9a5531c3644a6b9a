/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `onesidectl setup` share. */
#ifndef CONTROL_ONESIDECTL_SETUP_H
#define CONTROL_ONESIDECTL_SETUP_H

#include "control/setup/plan.h"
#include "control/setup/write.h"

struct onesidectl_setup {
	struct setup_plan plan;
	struct setup_files files;
	bool yes, dry_run, replace;
};

/* The words of the command line into the plan; what is wrong ends the program. */
void onesidectl_setup_options(struct onesidectl_setup *setup, int count, char **words);
/* The device of that name as a further port, by the way that is best for it; -errno and a sentence. */
int onesidectl_setup_port(struct setup_plan *plan, const char *name, char *why, size_t why_len);
/* Each sets one value of the last port or of the plan: 0, or -EINVAL and a sentence. */
int onesidectl_setup_way(struct setup_port *port, const char *text, char *why, size_t why_len);
int onesidectl_setup_address(struct setup_port *port, const char *text, char *why, size_t why_len);
int onesidectl_setup_node(struct setup_plan *plan, const char *text, char *why, size_t why_len);
int onesidectl_setup_peer(struct setup_plan *plan, const char *text, char *why, size_t why_len);

/* What the machine has, and by which ways. */
void onesidectl_setup_show(const struct setup_machine *machine, const struct setup_files *files);
/* Asks for what the command line has left open, until it can be. */
void onesidectl_setup_ask(struct onesidectl_setup *setup);
/* `otherwise`: the answer of who only presses Enter. */
bool onesidectl_setup_agrees(const char *question, bool otherwise);

#endif
