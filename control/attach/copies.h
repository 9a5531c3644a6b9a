/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that an attachment's copy thread reaches, as the control thread sees it. */
#ifndef CONTROL_ATTACH_COPIES_H
#define CONTROL_ATTACH_COPIES_H

#include "control/attach/client.h"

int copies_start(struct client *client, const struct one_msg *msg);
/* If there is a copy thread, it serves the lane from now on. */
int copies_add_lane(struct client *client, struct engine_client *lane);
/* The registration or window is freed, and the request answered, when no copy from before is under way. */
void copies_settle(struct client *client, struct object *object);
void copies_poll(struct client *client);
uint64_t copies_deadline(const struct client *client);

#endif
