/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of the control thread as named facts. Control thread only. */
#ifndef CONTROL_SHOW_SHOW_H
#define CONTROL_SHOW_SHOW_H

#include "control/attach/client.h"
#include "dataplane/engine/tell.h"

void show_client(struct tell *tell, const struct client *client);
void show_core(struct tell *tell, uint32_t core);
/* Shows an object of an attachment. */
typedef void show_object(struct tell *tell, const void *object);
show_object show_qp, show_mr, show_segment, show_listener, show_connection;
void show_neighbour(struct tell *tell, uint32_t index); /* an entry in use */
void show_port(struct tell *tell, uint32_t port);
void show_quota(struct tell *tell, const struct quota_account *account);
void show_peer(struct tell *tell, uint32_t number); /* index in the configuration's list */

#endif
