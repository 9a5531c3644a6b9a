/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of the data plane, or of its peers, that this host's kernel has as
 * well.  From such an address any process can send UDP datagrams, without rights:
 * RoCE frames among them, which the other end takes for those of a data plane.
 */
#ifndef DATAPLANE_KERNEL_ADDR_H
#define DATAPLANE_KERNEL_ADDR_H

#include "config/config.h"

/* Calls `notify` for each with a sentence that names the remedy. */
void kernel_addr_look(const struct config *config, void (*notify)(void *user, const char *text), void *user);

#endif
