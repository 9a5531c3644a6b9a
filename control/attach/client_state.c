/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/attach/client.h"
#include "dataplane/base/state.h"

static const char *const names[] = {
	[CLIENT_CONNECTED] = "connected", [CLIENT_ATTACHED] = "attached",   [CLIENT_LEAVING] = "leaving",
	[CLIENT_REMOVING] = "removing",   [CLIENT_QUIESCING] = "quiescing", [CLIENT_GONE] = "gone",
};

static const uint16_t next[] = {
	[CLIENT_CONNECTED] = STATE_TO(CLIENT_ATTACHED) | STATE_TO(CLIENT_LEAVING),
	[CLIENT_ATTACHED] = STATE_TO(CLIENT_LEAVING),
	[CLIENT_LEAVING] = STATE_TO(CLIENT_REMOVING),
	[CLIENT_REMOVING] = STATE_TO(CLIENT_QUIESCING),
	[CLIENT_QUIESCING] = STATE_TO(CLIENT_GONE),
	[CLIENT_GONE] = 0, /* freed */
};

static const struct state_machine machine = {"attachment", names, next};

void
client_state_set(struct client *client, enum client_state to, const char *why)
{
	state_edge(&machine, client->number, client->state, to, why);
	client->state = to;
}

const char *
client_state_name(const struct client *client)
{
	return names[client->state];
}
