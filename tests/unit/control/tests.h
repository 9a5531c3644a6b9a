/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_CONTROL_TESTS_H
#define TEST_CONTROL_TESTS_H

#include "tests/unit/unit.h"

int memory_tests(void); /* table, arena, quota, region */
int worker_tests(void);
int drr_tests(void);
int rules_tests(void); /* access list, services, private data, negotiation */

#endif
