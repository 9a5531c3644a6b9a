/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles, and queue pairs for datagrams.
 */
#ifndef CONTROL_CONNECT_AH_H
#define CONTROL_CONNECT_AH_H

#include "control/objects/qp.h"
#include "control/path/path.h"

struct ah;

/* ---- ah.c ---- */
int ah_create(struct client *client, const struct one_msg *msg);
int ah_free(struct client *client, const struct one_msg *msg);
void ah_unhook(struct ah *ah);  /* at the client's end */
void ah_destroy(struct ah *ah); /* no core has its client any more */

/* ---- ud.c ---- */
int qp_datagram(struct client *client, const struct one_msg *msg);

#endif
