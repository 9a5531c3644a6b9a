/* SPDX-License-Identifier: BSD-3-Clause */
/* Wake-ups of a sleeping core by receive interrupts, or for ports whose driver has none, but receives from a
 * kernel socket: af_packet and af_xdp. The driver does not watch that socket; the core does. A core polls a
 * port with neither (memif) between short naps (idle.c). */
#ifndef DATAPLANE_RX_WAKEUP_H
#define DATAPLANE_RX_WAKEUP_H

#include "dataplane/core/core.h"

/* Call after the ports' start, before the core's: adds the socket that `queue` receives from to `epoll`.
 * False: the driver has none. */
bool rx_wakeup_watch(const struct rx_queue *queue, int epoll);
/* Adds the interrupt of `queue` to `epoll`, a set of rte_epoll_wait(). False: the driver has none. */
bool rx_wakeup_interrupt(const struct rx_queue *queue, int epoll);

#endif
