/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread's clock and timers: its headers and those of the cores each define NS_PER_S. */
#ifndef TESTS_FUZZ_LATER_H
#define TESTS_FUZZ_LATER_H

/* Lets the timers of all connections expire. */
void later(void);

#endif
