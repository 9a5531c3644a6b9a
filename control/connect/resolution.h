/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries for the UD queue pair of a service, and peers' queries to listeners (control/cm/sidr.h).
 */
#ifndef CONTROL_CONNECT_RESOLUTION_H
#define CONTROL_CONNECT_RESOLUTION_H

#include "control/cm/sidr.h"
#include "control/connect/connect.h"

struct resolution;

int resolution_ask(struct client *client, const struct one_msg *msg);
int resolution_answer(struct client *client, const struct one_msg *msg);
int resolution_forget(struct client *client, const struct one_msg *msg);
void resolution_end(struct resolution *resolution); /* drops our query, or rejects a peer's */
bool resolution_event(struct path_port *port, enum sidr_event_type type, struct sidr_query *query,
		      const struct sidr_remote *remote);

#endif
