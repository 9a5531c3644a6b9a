/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_internal.h"
#include "dataplane/base/state.h"

static const char *const names[] = {
	[CM_STATE_REQ_SENT] = "REQ sent",       [CM_STATE_MRA_REQ_RCVD] = "MRA(REQ) rcvd",
	[CM_STATE_REP_RCVD] = "REP rcvd",       [CM_STATE_REQ_RCVD] = "REQ rcvd",
	[CM_STATE_REP_SENT] = "REP sent",       [CM_STATE_MRA_REP_RCVD] = "MRA(REP) rcvd",
	[CM_STATE_ESTABLISHED] = "established", [CM_STATE_DREQ_SENT] = "DREQ sent",
	[CM_STATE_TIMEWAIT] = "timewait",
};

/* A state follows itself when its message is retransmitted, or postponed by another MRA. */
static const uint16_t next[] = {
	[CM_STATE_REQ_SENT] = STATE_TO(CM_STATE_REQ_SENT) | STATE_TO(CM_STATE_MRA_REQ_RCVD) |
			      STATE_TO(CM_STATE_REP_RCVD) | STATE_TO(CM_STATE_TIMEWAIT),
	[CM_STATE_MRA_REQ_RCVD] = STATE_TO(CM_STATE_REQ_SENT) | STATE_TO(CM_STATE_MRA_REQ_RCVD) |
				  STATE_TO(CM_STATE_REP_RCVD) | STATE_TO(CM_STATE_TIMEWAIT),
	[CM_STATE_REP_RCVD] = STATE_TO(CM_STATE_ESTABLISHED) | STATE_TO(CM_STATE_TIMEWAIT),
	[CM_STATE_REQ_RCVD] = STATE_TO(CM_STATE_REP_SENT) | STATE_TO(CM_STATE_TIMEWAIT),
	[CM_STATE_REP_SENT] = STATE_TO(CM_STATE_REP_SENT) | STATE_TO(CM_STATE_MRA_REP_RCVD) |
			      STATE_TO(CM_STATE_ESTABLISHED) | STATE_TO(CM_STATE_DREQ_SENT) |
			      STATE_TO(CM_STATE_TIMEWAIT),
	[CM_STATE_MRA_REP_RCVD] = STATE_TO(CM_STATE_REP_SENT) | STATE_TO(CM_STATE_MRA_REP_RCVD) |
				  STATE_TO(CM_STATE_ESTABLISHED) | STATE_TO(CM_STATE_DREQ_SENT) |
				  STATE_TO(CM_STATE_TIMEWAIT),
	[CM_STATE_ESTABLISHED] = STATE_TO(CM_STATE_DREQ_SENT) | STATE_TO(CM_STATE_TIMEWAIT),
	[CM_STATE_DREQ_SENT] = STATE_TO(CM_STATE_TIMEWAIT),
	[CM_STATE_TIMEWAIT] = 0, /* freed */
};

static const struct state_machine machine = {"CM connection", names, next};

void
cm_conn_state_set(struct cm_conn *conn, enum cm_state to, const char *why)
{
	state_transition(&machine, conn->local_id, conn->state, to, why);
	conn->state = to;
}
