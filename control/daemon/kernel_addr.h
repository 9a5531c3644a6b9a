/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds addresses of the data plane or its peers that this host's kernel has as well. Any unprivileged
 * process can send UDP datagrams from such an address, including RoCE frames that a peer takes for the data
 * plane's.
 */
#ifndef DATAPLANE_KERNEL_ADDR_H
#define DATAPLANE_KERNEL_ADDR_H

#include "config/config.h"

/* Calls `notify` for each such address with a sentence that names the remedy. */
void kernel_addr_look(const struct config *config, void (*notify)(void *user, const char *text), void *user);

#endif
