/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the log goes: standard error, a line an event; systemd's journal gets priorities, others the time. */
#ifndef CONTROL_DAEMON_JOURNAL_H
#define CONTROL_DAEMON_JOURNAL_H

#include <stdint.h>

/* All that DPDK and we log from now on, on standard error; before rte_eal_init(). */
void journal_open(void);
/* What stands before a line of `level` (RTE_LOG_*) that goes to standard error by another way; "" or "<3>".
 */
const char *journal_priority(uint32_t level);

#endif
