/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations of oneside-run.
 *
 * Errors: functions that return int return 0, or -errno after they have printed the reason (run_say), unless
 * documented otherwise.
 */
#ifndef RUN_H
#define RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/message.h"

#define RUN_PORTS_MAX 64u
#define RUN_VARIABLE "ONESIDE_RUN" /* environment variable with the path of run_present()'s folder */
#define RUN_SCRATCH "mount"        /* an empty folder in run_present()'s, used as a mount point */
#define RUN_ADDRESSES "addresses"  /* a file there: lines "INTERFACE ADDRESS", for getifaddrs() */
#define RUN_PRELOADED "liboneside-run.so"

struct run_ports {
	uint32_t num;
	struct one_port port[RUN_PORTS_MAX]; /* names end with a null byte */
};

/* Prints "oneside-run: ..." on standard error. */
void run_say(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* ---- where.c: the installation of this program ---- */
extern const char run_libraries[]; /* folders, each relative to the program's folder, separated by ':' */
extern const char run_settings[];  /* the table of variables, relative to the program's folder */
/*
 * Returns the absolute path of `relative`, a path from the program's folder.  The caller frees the result.
 * NULL if memory is exhausted.
 */
char *run_installed(const char *relative);
/* Finds `name` in a list of folders separated by ':', with access(2)'s `mode`.  True: its path is in `path`.
 */
bool run_find(const char *folders, const char *name, int mode, char path[PATH_MAX]);
/*
 * Returns the folders for LD_LIBRARY_PATH, without the user's.  The caller frees the result.  NULL, after a
 * message, if a library is missing.
 */
char *run_library_path(void);

/* ---- ask.c ---- */
/* Queries the ports of the data plane at one_socket_path(NULL). */
int run_ask(struct run_ports *ports);

/* ---- tree.c ---- */
/*
 * Creates the folder with the files that present the ports, unless an equal one exists.  Writes its path to
 * `path`.
 */
int run_present(const struct run_ports *ports, char *path, size_t size);

/* ---- device.c ---- */
struct tree;
/* Writes the files of port number `index`. */
void run_device(struct tree *tree, const struct one_port *port, uint32_t index);

/* ---- tree.c ---- */
/*
 * Creates a file or a link, with its folders.  After a failure, stored in tree->error, further calls do
 * nothing.
 */
void run_file(struct tree *tree, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void run_link(struct tree *tree, const char *path, const char *target);

/* ---- settings.c ---- */
/* Sets each variable of the table that the user has not set; lines "only-verbs" apply if `verbs_only`. */
int run_set_variables(const struct run_ports *ports, bool verbs_only, bool show);
/* Sets NAME to `value`; with `show` prints it instead. */
int run_set(const char *name, const char *value, bool show);

/* ---- program.c ---- */
/*
 * Warns if the loader cannot load the libraries: `program` is static, not in a namespace, or has rights by
 * its file.
 */
void run_look_at(const char *program, bool in_namespace);

/* ---- namespace.c ---- */
/* Mounts the presented files in /dev and /sys/class, in a mount namespace of this process. */
int run_namespace(const char *tree);

#endif
