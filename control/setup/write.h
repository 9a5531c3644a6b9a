/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes both files of a plan in one folder: both or none, without losing existing files. */
#ifndef CONTROL_SETUP_WRITE_H
#define CONTROL_SETUP_WRITE_H

#include "control/setup/plan.h"

#define SETUP_FILE_MAX 3072u

struct setup_files {
	char conf[SETUP_FILE_MAX]; /* oneside.conf, or the name given by --output */
	char eal[SETUP_FILE_MAX];  /* eal.conf in the same folder */
};

/* Functions return false with a sentence in `why`. */
bool setup_files_name(struct setup_files *files, const char *conf, char why[SETUP_WHY]);
/* The file of the two that exists, or NULL. */
const char *setup_files_there(const struct setup_files *files);
/* With `replace`, existing files are saved as NAME.old. */
bool setup_files_write(const struct setup_files *files, const struct setup_plan *plan, bool replace,
		       char why[SETUP_WHY]);

#endif
