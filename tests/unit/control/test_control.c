/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests.h"

int
main(void)
{
	return memory_tests() + worker_tests() + rules_tests() + drr_tests();
}
