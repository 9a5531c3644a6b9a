/* SPDX-License-Identifier: BSD-3-Clause */
/* Attachments and their objects in a take-over (control/attach/passing.h). */
#ifndef CONTROL_OBJECTS_PASS_H
#define CONTROL_OBJECTS_PASS_H

#include "control/attach/passing.h"
#include "control/objects/qp.h"

/* ---- pass_client.c ---- */
/* Returns the reason why the attachment cannot be passed on now, as the end of a sentence; NULL: it can. */
const char *attachment_obstacle(const struct client *client);
void attachment_write(struct client *client, struct pass_out *out);
/* Reads a client up to its first object.  NULL: refused, with a sentence in in->why. */
struct client *attachment_read(struct pass_in *in);
extern const struct record_naming attachment_port; /* by index */
/* Call after all objects of the client have been read. */
void attachment_relink(struct client *client);

/* ---- pass_objects.c, pass_qp.c: in this order ---- */
void zones_write(struct client *client, struct pass_out *out);
int zones_read(struct client *client, struct pass_in *in);
void memory_write(struct client *client, struct pass_out *out);
int memory_read(struct client *client, struct pass_in *in);
/* Makes page table entries while the cores already run: a page that they need before costs them a fault. */
void memory_populate(struct client *client);
void cqs_write(struct client *client, struct pass_out *out);
int cqs_read(struct client *client, struct pass_in *in);
void channels_write(struct client *client, struct pass_out *out);
int channels_read(struct client *client, struct pass_in *in);
void srqs_write(struct client *client, struct pass_out *out);
int srqs_read(struct client *client, struct pass_in *in);

/* Maps memory for qps_freeze(), before the cores stop. */
void qps_reserve(void);
/* Freezes the queue pairs of all attachments.  Returns 0; -EAGAIN or -ENOMEM: none is frozen. */
int qps_freeze(void);
void qps_unfreeze(void);
void qps_write(struct client *client, struct pass_out *out);
int qps_read(struct client *client, struct pass_in *in);
void qps_go_on(struct client *client); /* after the queue pairs of all attachments have been read */

#endif
