/* SPDX-License-Identifier: BSD-3-Clause */
/* Both files of a plan, beside each other: both or none, and nothing that is there is lost. */
#ifndef CONTROL_SETUP_WRITE_H
#define CONTROL_SETUP_WRITE_H

#include "control/setup/plan.h"

#define SETUP_FILE_MAX 3072u

struct setup_files {
	char conf[SETUP_FILE_MAX]; /* oneside.conf, or as somebody called it */
	char eal[SETUP_FILE_MAX];  /* eal.conf of the same folder */
};

/* False: it cannot be, says `why`; so with what follows. */
bool setup_files_name(struct setup_files *files, const char *conf, char why[SETUP_WHY]);
/* That of the two which is there already; NULL: none. */
const char *setup_files_there(const struct setup_files *files);
/* With `replace` what is there is kept beside it, as NAME.old. */
bool setup_files_write(const struct setup_files *files, const struct setup_plan *plan, bool replace,
		       char why[SETUP_WHY]);

#endif
