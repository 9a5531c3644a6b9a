/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wake-ups of a sleeping core for ports whose driver has no receive interrupts, but receives from a socket
 * of the kernel's: af_packet and af_xdp.  The driver holds the socket and does not watch it; the core does.
 * A port with neither (memif) is looked at by short naps (idle.c).
 */
#ifndef DATAPLANE_RX_WAKEUP_H
#define DATAPLANE_RX_WAKEUP_H

#include "dataplane/core/core.h"

/* After the ports' start, before the core's: adds the socket that `queue` receives from to `epoll`; false:
 * the driver has none. */
bool rx_wakeup_watch(const struct rx_queue *queue, int epoll);

#endif
