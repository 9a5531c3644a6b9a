/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/base/state.h"
#include "control/connect/connect.h"

static const char *const names[] = {
	[CONN_WAITING] = "waiting",     [CONN_RESOLVING] = "resolving",
	[CONN_REQUESTED] = "requested", [CONN_STARTING] = "starting",
	[CONN_OFFERED] = "offered",     [CONN_PREPARING] = "preparing",
	[CONN_REPLIED] = "replied",     [CONN_UP] = "up",
	[CONN_OVER] = "over",
};

static const uint16_t next[] = {
	[CONN_WAITING] = STATE_TO(CONN_WAITING) | STATE_TO(CONN_RESOLVING) | STATE_TO(CONN_OVER),
	/* An out-of-band connection has nothing to negotiate, and is UP once resolved. */
	[CONN_RESOLVING] =
		STATE_TO(CONN_REQUESTED) | STATE_TO(CONN_PREPARING) | STATE_TO(CONN_UP) | STATE_TO(CONN_OVER),
	[CONN_REQUESTED] = STATE_TO(CONN_STARTING) | STATE_TO(CONN_WAITING) | STATE_TO(CONN_OVER),
	[CONN_STARTING] = STATE_TO(CONN_UP) | STATE_TO(CONN_OVER),
	[CONN_OFFERED] = STATE_TO(CONN_WAITING) | STATE_TO(CONN_RESOLVING) | STATE_TO(CONN_OVER),
	[CONN_PREPARING] = STATE_TO(CONN_REPLIED) | STATE_TO(CONN_OVER),
	[CONN_REPLIED] = STATE_TO(CONN_UP) | STATE_TO(CONN_OVER),
	[CONN_UP] = STATE_TO(CONN_OVER),
	/* OVER: released by its queue pair.  OFFERED: accepted after its requester has gone. */
	[CONN_OVER] = STATE_TO(CONN_OVER) | STATE_TO(CONN_OFFERED),
};

static const struct state_machine machine = {"connection", names, next};

void
conn_state_set(struct conn *conn, enum conn_state to, const char *why)
{
	state_transition(&machine, conn->qp != NULL ? conn->qp->config.qpn : 0, conn->state, to, why);
	conn->state = to;
}

const char *
conn_state_name(const struct conn *conn)
{
	return names[conn->state];
}
