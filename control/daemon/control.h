/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread: the socket that applications attach to, the objects they
 * make, connection management, permissions, telemetry.  It runs on the EAL main
 * lcore, sleeps in epoll, and never waits for a polling core.
 *
 *   engine_init, daemon_init, engine_start, daemon_run, daemon_fini, engine_stop, engine_fini
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stddef.h>

#include "control/ctl/ctl.h"

/*
 * Opens the listening socket and everything behind it; `config` must live until daemon_fini().  -errno,
 * with one sentence in `why` that names object, value and remedy.
 */
int daemon_init(const struct ctl_source *source, char *why, size_t why_len);

/* Serves until daemon_stop().  0, or -errno when epoll fails. */
int daemon_run(void);

/* Makes daemon_run() return; may be called from a signal handler or another thread. */
void daemon_stop(void);

/*
 * Closes the socket, ends every attachment (the peers of their connections are told), and waits a bounded
 * time for the cores to let go.  Call it while the cores still run: before engine_stop().
 */
void daemon_fini(void);

#endif
