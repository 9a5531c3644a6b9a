/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oneside-run: what its parts share.
 *
 * Errno: functions that return int return 0, or -errno after they have printed why (run_say), unless they say
 * otherwise.
 */
#ifndef RUN_H
#define RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/message.h"

#define RUN_PORTS_MAX 64u
#define RUN_VARIABLE "ONESIDE_RUN" /* the environment's name for the folder that run_present makes */
#define RUN_SCRATCH "mount"        /* an empty folder in it, to mount at */
#define RUN_ADDRESSES "addresses"  /* a file in it: "INTERFACE ADDRESS" in each line, for getifaddrs */
#define RUN_PRELOADED "liboneside-run.so"

struct run_ports {
	uint32_t num;
	struct one_port port[RUN_PORTS_MAX]; /* names end with a null byte */
};

/* Prints "oneside-run: ..." on standard error. */
void run_say(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* ---- where.c: the installation that this program is part of ---- */
extern const char run_libraries[]; /* folders, each relative to the program's, separated by ':' */
extern const char run_settings[];  /* the table of variables, relative to the program's folder */
/* The absolute path of `relative`, which begins at the program's folder; the caller frees it; NULL: no
 * memory. */
char *run_installed(const char *relative);
/* The value of LD_LIBRARY_PATH without the user's part; the caller frees it; NULL: the libraries are not
 * there. */
char *run_library_path(void);

/* ---- ask.c ---- */
/* Asks the data plane at one_socket_path(NULL) for its ports. */
int run_ask(struct run_ports *ports);

/* ---- tree.c ---- */
/* Makes the folder with the files that present the ports, or finds it as it should be; its path is written to
 * `path`. */
int run_present(const struct run_ports *ports, char *path, size_t size);

/* ---- device.c ---- */
struct tree;
/* Writes the files of port number `index`. */
void run_device(struct tree *tree, const struct one_port *port, uint32_t index);
/* Makes a file or a link, with its folders; the first failure is noted in the tree, and the calls after it do
 * nothing. */
void run_file(struct tree *tree, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void run_link(struct tree *tree, const char *path, const char *target);

/* ---- settings.c ---- */
/* Sets each variable of the table that the user has not set; `verbs_only` takes its lines "only-verbs", too.
 */
int run_set_variables(const struct run_ports *ports, bool verbs_only, bool show);
/* Sets NAME to `value`; with `show` prints it instead. */
int run_set(const char *name, const char *value, bool show);

/* ---- program.c ---- */
/* Warns of a program that the libraries cannot reach: one without a loader, unless in a namespace, or with
 * rights of its own. */
void run_look_at(const char *program, bool in_namespace);

/* ---- namespace.c ---- */
/* Mounts the presented files at their places, in a mount namespace of this process. */
int run_namespace(const char *tree);

#endif
