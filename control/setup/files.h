/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads files, links and folders of /sys and /proc. A missing or overlong value reads as "". */
#ifndef CONTROL_SETUP_FILES_H
#define CONTROL_SETUP_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/setup/machine.h"

/* Formats a path below the machine's root. Valid until this thread's next call. */
const char *setup_path(const struct setup_machine *machine, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Reads the first line; false: none. */
bool setup_line(const char *path, char *text, size_t room);
uint64_t setup_number(const char *path, uint64_t otherwise);
/* Reads the last component of a link's target. */
void setup_link(const char *path, char *name, size_t room);
/* Calls `entry` for each entry of a folder that does not begin with a dot. */
void setup_each(const char *path, void (*entry)(void *context, const char *name), void *context);
/* Calls `line` for each line of a file, without its end. */
void setup_lines(const char *path, void (*line)(void *context, char *line), void *context);

#endif
