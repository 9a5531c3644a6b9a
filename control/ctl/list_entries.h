/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of the control thread as named facts. Control thread only. */
#ifndef CONTROL_SHOW_LIST_ENTRIES_H
#define CONTROL_SHOW_LIST_ENTRIES_H

#include "control/attach/client.h"
#include "dataplane/engine/fact_sink.h"

void show_client(struct fact_sink *sink, const struct client *client);
void show_core(struct fact_sink *sink, uint32_t core);
/* Shows an object of an attachment. */
typedef void show_object(struct fact_sink *sink, const void *object);
show_object show_qp, show_mr, show_segment, show_listener, show_connection;
void show_neighbour(struct fact_sink *sink, uint32_t index); /* an entry in use */
void show_port(struct fact_sink *sink, uint32_t port);
void show_quota(struct fact_sink *sink, const struct quota_account *account);
void show_peer(struct fact_sink *sink, uint32_t number); /* index in the configuration's list */

#endif
