/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/base/state.h"

#include <stdlib.h>

state_trace_fn *state_trace;

void
state_transition(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to,
		 const char *why)
{
	bool allowed = (machine->next[from] & STATE_TO(to)) != 0;

	if (state_trace != NULL)
		state_trace(machine, id, from, to, why, allowed);
	else if (!allowed)
		abort();
}
