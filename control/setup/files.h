/* SPDX-License-Identifier: BSD-3-Clause */
/* Files, links and folders of /sys and /proc, below a root.  What is not there, or too long, reads as "". */
#ifndef CONTROL_SETUP_FILES_H
#define CONTROL_SETUP_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SETUP_PATH 512u

/* The path of a format, below `root`. */
const char *setup_path(char path[SETUP_PATH], const char *root, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The first line; false: none. */
bool setup_line(const char *path, char *text, size_t room);
uint64_t setup_number(const char *path, uint64_t otherwise);
/* The last part of where a link leads. */
bool setup_link(const char *path, char *name, size_t room);
/* Each entry of a folder that does not begin with a dot. */
void setup_each(const char *path, void (*entry)(void *context, const char *name), void *context);
/* Each line of a file, with its end cut off. */
void setup_lines(const char *path, void (*line)(void *context, char *line), void *context);

#endif
