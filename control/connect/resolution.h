/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions for the queue pair of a service that takes datagrams, and those of others (control/cm/sidr.h).
 */
#ifndef CONTROL_CONNECT_RESOLUTION_H
#define CONTROL_CONNECT_RESOLUTION_H

#include "control/cm/sidr.h"
#include "control/connect/connect.h"

struct resolution;

int resolution_ask(struct client *client, const struct one_msg *msg);
int resolution_answer(struct client *client, const struct one_msg *msg);
int resolution_forget(struct client *client, const struct one_msg *msg);
void resolution_end(struct resolution *resolution); /* whoever waits for an answer gets none, or a refusal */
bool resolution_event(struct path_port *port, enum sidr_event_type type, struct sidr_query *query,
		      const struct sidr_remote *remote);

#endif
