/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log output: one event per line to standard error; with a priority for systemd's journal, else with the
 * time.
 */
#ifndef CONTROL_DAEMON_JOURNAL_H
#define CONTROL_DAEMON_JOURNAL_H

#include <stdint.h>

/* Redirects all log lines of DPDK and of the data plane to standard error. Call before rte_eal_init(). */
void journal_open(void);
/* Prefix of a `level` (RTE_LOG_*) line that bypasses the log to standard error; "" or "<3>". */
const char *journal_priority(uint32_t level);

#endif
