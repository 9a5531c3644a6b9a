/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control thread: the socket that applications attach to, their objects, connection management, permissions,
 * telemetry. Runs on the EAL main lcore, sleeps in epoll, and never waits for a polling core.
 *   engine_init, daemon_init, engine_start, daemon_run, daemon_fini, engine_stop, engine_fini
 */
#ifndef CONTROL_DAEMON_DAEMON_H
#define CONTROL_DAEMON_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/ctl/ctl.h"

/* Opens the listening socket and all that serves it. `config` must live until daemon_fini(). Returns -errno
 * with one sentence in `why` that names object, value and remedy. */
int daemon_init(const struct ctl_source *source, char *why, size_t why_len);

/* Serves until daemon_stop(). Returns 0; 1: another process has taken over, and nothing may be closed in
 * order; or -errno when epoll fails. */
int daemon_run(void);

/* Makes daemon_run() return. Callable from a signal handler or another thread. */
void daemon_stop(void);

/* Closes the socket, ends every attachment (peers are notified), and waits a bounded time for the cores to
 * release them. Call before engine_stop(): the cores must still run. */
void daemon_fini(void);

/* ---- calls.c: tables by which lower rooms call upper ones: requests, object classes, events of ports ----
 */
struct attach_calls;
struct path_calls;
extern const struct attach_calls calls_of_attach;
extern const struct path_calls calls_of_path;

/* ---- check.c: `--check` and `--precheck` ---- */
/* Prints a line for each thing that machine or configuration lack, with the command that corrects it; returns
 * the number of essential ones. `argv` are EAL's arguments, after the
 * program's name. With `start`, EAL is initialised unless something essential is missing, and cleaned up. */
unsigned int check_run(const struct config *config, bool start, int argc, char **argv);

/* Returns 0, or -EADDRINUSE and a sentence when a data plane answers on the socket. */
int check_socket_free(const struct config *config, char *why, size_t why_len);

/* rte_eal_init(), after removing a killed data plane's files that block a device. */
int check_eal_init(int argc, char **argv);

/* Explains in one sentence why rte_eal_init() just failed, with the remedy. */
void check_eal_failure(const struct config *config, int argc, char **argv, char *why, size_t why_len);

/* Call after rte_eal_init(): requires a control thread and at least one polling core. */
int check_lcores(char *why, size_t why_len);

/* ---- devices.c: PCI devices and virtual network devices, which a take-over opens later than EAL ---- */
/* Returns EAL's arguments without their options, and keeps those devices; NULL: no memory. `physical`: EAL
 * does not see the PCI devices, for which it would choose IOVA mode PA. */
char **devices_withhold(int *argc, char **argv, const struct config *config, bool physical);
/* True if they are those of all ports, and can be open in two processes at once. */
bool devices_can_share(uint32_t ports);
/* Opens them. Returns 0, or -errno and a sentence. */
int devices_open(char *why, size_t why_len);

/* ---- step_aside.c ---- */
/* Lets all other processes run before this one, which another has replaced. */
void daemon_step_aside(void);

/* ---- eal_end.c ---- */
/* Ends EAL in this process; the caller must not call DPDK afterwards. */
void daemon_eal_end(void);

/* ---- hugepages.c ---- */
/* Bytes of free hugepages, plus those that a killed process left under this file prefix, in the hugetlbfs
 * mounts or in `folder` (may be NULL). EAL removes the latter first. */
uint64_t hugepages_free(const char *prefix, const char *folder);

/* Is a hugetlbfs mounted? */
bool hugepages_mounted(void);

/* ---- journal.c: one event per line to standard error, with a priority for systemd's journal, else the time
 * ---- */
/* Redirects all log lines of DPDK and of the data plane to standard error. Call before rte_eal_init(). */
void journal_open(void);
/* Prefix of a `level` (RTE_LOG_*) line that bypasses the log to standard error; "" or "<3>". */
const char *journal_priority(uint32_t level);

/* ---- kernel_addr.c ---- */
/* Calls `notify`, with a sentence that names the remedy, for each address of the data plane or its peers that
 * this host's kernel has as well. Any unprivileged process can send UDP datagrams from such an address,
 * including RoCE frames that a peer takes for the data plane's. */
void kernel_addr_check(const struct config *config, void (*notify)(void *user, const char *text), void *user);

/* ---- telemetry.c: DPDK telemetry of attachments, /oneside/clients and others ---- */
void telemetry_init(const struct config *config); /* call after ctl_open() */

/* ---- watchdog.c: the service manager's watchdog (WATCHDOG_USEC, sd_watchdog_enabled(3)) ---- */
/* A notification proves that the control thread runs and that every polling core has made progress since the
 * last one. A core stuck in a driver or by a bug is as bad as a dead process, but goes unnoticed
 * otherwise. */
/* Call before the cores start. Disables the watchdog where the manager requested none. */
void watchdog_init(uint64_t now);

/* Time of the next watchdog_poll(); UINT64_MAX: never. */
uint64_t watchdog_deadline(void);
void watchdog_poll(uint64_t now);

/* Sends assignments as sd_notify(3) does, such as "READY=1"; does nothing without a service manager. With
 * `waits` false, the message is lost if the manager's socket is full; use that for what is repeated. */
void notify_service(const char *state, bool waits);

#endif
