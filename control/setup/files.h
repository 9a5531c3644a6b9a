/* SPDX-License-Identifier: BSD-3-Clause */
/* Files, links and folders of /sys and /proc.  What is not there, or too long, reads as "". */
#ifndef CONTROL_SETUP_FILES_H
#define CONTROL_SETUP_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/setup/machine.h"

/* The path of a format below the machine's root, until this thread's next. */
const char *setup_path(const struct setup_machine *machine, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The first line; false: none. */
bool setup_line(const char *path, char *text, size_t room);
uint64_t setup_number(const char *path, uint64_t otherwise);
/* The last part of where a link leads. */
void setup_link(const char *path, char *name, size_t room);
/* Each entry of a folder that does not begin with a dot. */
void setup_each(const char *path, void (*entry)(void *context, const char *name), void *context);
/* Each line of a file, with its end cut off. */
void setup_lines(const char *path, void (*line)(void *context, char *line), void *context);

#endif
