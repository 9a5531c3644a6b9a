/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that wait for the network while others of their attachment are carried out. */
#ifndef CONTROL_ATTACH_PARKED_H
#define CONTROL_ATTACH_PARKED_H

#include <stdint.h>

struct client;
struct one_reply;

struct parked_request {
	uint32_t type, seq;
	uint64_t asked_at;
};

/* The request under way waits; its handler returns REQUEST_LATER.  What it is about stays busy. */
void client_park(struct client *client, struct parked_request *parked);
/* `reply` has its error, subject and value, or its result. */
void client_reply_parked(struct client *client, const struct parked_request *parked, struct one_reply *reply);

#endif
