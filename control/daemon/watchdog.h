/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service manager's watchdog (WATCHDOG_USEC, sd_watchdog_enabled(3)): it hears of us while the control
 * thread comes by and every polling core has turned since it came by last.  A core that stands, in a driver
 * or by a fault of ours, is as bad as a process that is gone, but nobody else notices.
 */
#ifndef CONTROL_WATCHDOG_H
#define CONTROL_WATCHDOG_H

#include <stdint.h>

/* Before the cores are started; nothing is done later where no manager asked. */
void watchdog_init(uint64_t now);

/* When watchdog_poll() is to be called; UINT64_MAX: never. */
uint64_t watchdog_deadline(void);
void watchdog_poll(uint64_t now);

#endif
