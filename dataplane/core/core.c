/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cores share, and the grace periods after which no core looks at what was taken from it. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>

struct engine engine;

uint64_t
engine_grace_start(void)
{
	return rte_rcu_qsbr_start(engine.rcu);
}

bool
engine_grace_over(uint64_t token)
{
	return rte_rcu_qsbr_check(engine.rcu, token, false) == 1;
}

int
core_refuse(char *why, size_t why_len, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, why_len, format, args);
	va_end(args);
	return error;
}
