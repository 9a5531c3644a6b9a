/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles and UD queue pairs.
 */
#ifndef CONTROL_CONNECT_AH_H
#define CONTROL_CONNECT_AH_H

#include "control/objects/qp.h"
#include "control/path/path.h"

struct ah;

/* ---- ah.c ---- */
int ah_create(struct client *client, const struct one_msg *msg);
int ah_free(struct client *client, const struct one_msg *msg);
void ah_unhook(struct ah *ah);  /* cancels the resolution when the client ends */
void ah_destroy(struct ah *ah); /* after all cores have released the client */

/* Take-over. */
struct pass_in;
struct pass_out;
void ahs_write(struct client *client, struct pass_out *out);
int ahs_read(struct client *client, struct pass_in *in);

/* ---- ud.c ---- */
int qp_datagram(struct client *client, const struct one_msg *msg);

#endif
