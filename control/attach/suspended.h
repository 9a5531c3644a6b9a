/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that wait for the network while later requests of the attachment are carried out. */
#ifndef CONTROL_ATTACH_SUSPENDED_H
#define CONTROL_ATTACH_SUSPENDED_H

#include <stdint.h>

struct client;
struct one_reply;

struct suspended_request {
	uint32_t type, seq;
	uint64_t asked_at;
};

/* Suspends the request under way, whose handler then returns REQUEST_LATER.  The object of the request stays
 * busy. */
void client_suspend(struct client *client, struct suspended_request *suspended);
/* Answers a suspended request.  `reply` has the error, subject and value, or the result. */
void client_reply_suspended(struct client *client, const struct suspended_request *suspended,
			    struct one_reply *reply);

#endif
