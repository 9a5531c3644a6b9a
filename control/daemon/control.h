/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control thread: the socket that applications attach to, their objects, connection management, permissions,
 * telemetry. Runs on the EAL main lcore, sleeps in epoll, and never waits for a polling core.
 *   engine_init, daemon_init, engine_start, daemon_run, daemon_fini, engine_stop, engine_fini
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stddef.h>

#include "control/ctl/ctl.h"

/*
 * Opens the listening socket and all that serves it. `config` must live until daemon_fini(). Returns -errno
 * with one sentence in `why` that names object, value and remedy.
 */
int daemon_init(const struct ctl_source *source, char *why, size_t why_len);

/* Serves until daemon_stop(). Returns 0, or -errno when epoll fails. */
int daemon_run(void);

/* Makes daemon_run() return. Callable from a signal handler or another thread. */
void daemon_stop(void);

/*
 * Closes the socket, ends every attachment (peers are notified), and waits a bounded time for the cores to
 * release them. Call before engine_stop(): the cores must still run.
 */
void daemon_fini(void);

#endif
