/* SPDX-License-Identifier: BSD-3-Clause */
/* State machines: a table of the states that may follow each, and for each kind of object one function that
 * changes its state, which calls state_transition(). */
#ifndef DATAPLANE_STATE_H
#define DATAPLANE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define STATE_TO(state) (1u << (state))

struct state_machine {
	const char *object;
	const char *const *name; /* of each state */
	const uint16_t *next;    /* of each state: STATE_TO() those that may follow */
};

/* Sees every transition, on whatever thread it is taken; `allowed`: it is in the table.  NULL, as in unit
 * tests: one that is not aborts. */
typedef void state_trace_fn(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to,
			    const char *why, bool allowed);
extern state_trace_fn *state_trace; /* set before the first object is made */

/* Object `id` (a queue pair number, a communication id) goes from one state to another, on `why`. */
void state_transition(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to,
		      const char *why);

#endif
