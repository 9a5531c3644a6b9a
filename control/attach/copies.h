/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounced accesses of an attachment, as the control thread sees them. */
#ifndef CONTROL_ATTACH_COPIES_H
#define CONTROL_ATTACH_COPIES_H

#include "control/attach/client.h"

int copies_start(struct client *client, const struct one_msg *msg);
/* Makes the copy thread, if there is one, serve the lane.  Returns 0, or the refusal. */
int copies_add_lane(struct client *client, struct engine_client *lane);
/* Frees the registration or window, and answers the request under way, when no access begun before is under
 * way. */
void copies_settle(struct client *client, struct object *object);
void copies_poll(struct client *client);
uint64_t copies_deadline(const struct client *client);

#endif
