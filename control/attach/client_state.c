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
	state_transition(&machine, client->number, client->state, to, why);
	client->state = to;
}

/* Each message causes legal transitions, so only illegal ones are reported. */
void
client_request_set(struct client *client, enum client_request to)
{
	static const char *const request_names[] = {
		[CLIENT_REQUEST_NONE] = "none",
		[CLIENT_REQUEST_HELD] = "held",
		[CLIENT_REQUEST_TAKEN] = "taken",
		[CLIENT_REQUEST_FAILED] = "failed",
	};
	static const uint16_t follows[] = {
		[CLIENT_REQUEST_NONE] = STATE_TO(CLIENT_REQUEST_HELD) | STATE_TO(CLIENT_REQUEST_TAKEN),
		[CLIENT_REQUEST_HELD] = STATE_TO(CLIENT_REQUEST_NONE),
		[CLIENT_REQUEST_TAKEN] = STATE_TO(CLIENT_REQUEST_NONE) | STATE_TO(CLIENT_REQUEST_FAILED),
		[CLIENT_REQUEST_FAILED] = STATE_TO(CLIENT_REQUEST_TAKEN),
	};
	static const struct state_machine requests = {"attachment's request", request_names, follows};

	if ((follows[client->request] & STATE_TO(to)) == 0)
		state_transition(&requests, client->number, client->request, to, "a message");
	client->request = to;
}

const char *
client_state_name(const struct client *client)
{
	return names[client->state];
}
