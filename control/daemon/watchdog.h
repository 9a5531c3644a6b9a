/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Service manager's watchdog (WATCHDOG_USEC, sd_watchdog_enabled(3)). A notification proves that the control
 * thread runs and that every polling core has made progress since the last one. A core stuck in a driver or
 * by a bug is as bad as a dead process, but goes unnoticed otherwise.
 */
#ifndef CONTROL_WATCHDOG_H
#define CONTROL_WATCHDOG_H

#include <stdint.h>

/* Call before the cores start. Disables the watchdog where the manager requested none. */
void watchdog_init(uint64_t now);

/* Time of the next watchdog_poll(); UINT64_MAX: never. */
uint64_t watchdog_deadline(void);
void watchdog_poll(uint64_t now);

#endif
