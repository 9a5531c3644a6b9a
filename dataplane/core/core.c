/* SPDX-License-Identifier: BSD-3-Clause */
/* State that the cores share, and grace periods, after which no core uses what was withdrawn from it. */
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
