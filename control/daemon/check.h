/* SPDX-License-Identifier: BSD-3-Clause */
/* `--check` and `--precheck`: what machine and configuration lack, a line each with the command that mends
 * it. */
#ifndef DATAPLANE_CHECK_H
#define DATAPLANE_CHECK_H

#include <stdbool.h>

#include "config/config.h"

/*
 * Prints to stdout and returns how many essential things are missing.  `argv` are the arguments for EAL,
 * the program's name first; with `start`, EAL is initialised when nothing essential is missing before it, and
 * cleaned up.
 */
unsigned int check_run(const struct config *config, bool start, int argc, char **argv);

/* A data plane answers on the socket: 0 when not, else -EADDRINUSE and a sentence. */
int check_socket_free(const struct config *config, char *why, size_t why_len);

/* rte_eal_init(), after removing what a killed data plane left in the way of a device. */
int check_eal_init(int argc, char **argv);

/* Why rte_eal_init() has just failed, and the remedy, in one sentence. */
void check_eal_failure(const struct config *config, int argc, char **argv, char *why, size_t why_len);

/* After rte_eal_init(): a control thread and at least one polling core. */
int check_lcores(char *why, size_t why_len);

#endif
