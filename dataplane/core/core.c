/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cores share, and the grace periods after which no core looks at what was taken from it. */
#include "core.h"

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
