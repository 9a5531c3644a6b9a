/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `--check` and `--precheck`: a line for each thing that machine or configuration lack, with the command that
 * corrects it.
 */
#ifndef DATAPLANE_CHECK_H
#define DATAPLANE_CHECK_H

#include <stdbool.h>

#include "config/config.h"

/*
 * Prints to stdout and returns the number of essential things missing. `argv` are EAL's arguments, after the
 * program's name. With `start`, EAL is initialised unless something essential is missing, and cleaned up.
 */
unsigned int check_run(const struct config *config, bool start, int argc, char **argv);

/* Returns 0, or -EADDRINUSE and a sentence when a data plane answers on the socket. */
int check_socket_free(const struct config *config, char *why, size_t why_len);

/* rte_eal_init(), after removing a killed data plane's files that block a device. */
int check_eal_init(int argc, char **argv);

/* Explains in one sentence why rte_eal_init() just failed, with the remedy. */
void check_eal_failure(const struct config *config, int argc, char **argv, char *why, size_t why_len);

/* Call after rte_eal_init(): requires a control thread and at least one polling core. */
int check_lcores(char *why, size_t why_len);

#endif
