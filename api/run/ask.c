/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries the ports of the data plane over its socket. */
#include <errno.h>

#include "client/attach.h"
#include "client/explain.h"
#include "run/run.h"

static int
ask_port(struct one_client *client, uint32_t index, struct one_port *port)
{
	struct one_msg msg = {.type = ONE_MSG_PORT};
	struct one_reply reply;
	int error;

	msg.port_query.port = index;
	error = one_call(client, &msg, NULL, 0, &reply);
	if (error != 0)
		return error;
	*port = reply.port;
	port->name[ONE_PORT_NAME - 1] = '\0';
	return port->num_addrs <= ONE_PORT_ADDRS_MAX && port->num_ports <= RUN_PORTS_MAX ? 0 : -EPROTO;
}

static int
ask_all_ports(struct one_client *client, struct run_ports *ports)
{
	int error = 0;

	ports->num = 0;
	do {
		error = ask_port(client, ports->num, &ports->port[ports->num]);
		if (error == 0)
			ports->num++;
	} while (error == 0 && ports->num < ports->port[0].num_ports);
	return error;
}

int
run_ask(struct run_ports *ports)
{
	struct one_attach attach = {.kind = ONE_KIND_VERBS};
	struct one_client *client;
	char text[ONE_ATTACH_TEXT];
	int error = one_attach(&attach, &client);

	if (error == 0) {
		error = ask_all_ports(client, ports);
		one_detach(client);
	}
	if (error != 0) {
		one_attach_text(error, one_socket_path(NULL), text);
		run_say("%s", text);
	}
	return error;
}
