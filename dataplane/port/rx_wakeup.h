/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What wakes a sleeping core for ports whose DPDK driver has no receive interrupts.
 * The kernel, or the far end of the cable, rings all the same, at descriptors
 * that the driver holds and does not watch:
 *
 *   af_packet, af_xdp   the socket: readable when a frame is in its ring
 *   memif               an eventfd, written by who puts frames into a ring whose
 *                       reader has cleared the ring's "no interrupts" flag
 *                       (memif's protocol; other implementations do the same)
 *
 * Without a rx_wakeup a core looks at the port by short naps (idle.c).
 *
 * Who knows memif's rings also knows which lines the next frame will be in: rx_wakeup_fetch().
 */
#ifndef DATAPLANE_BELL_H
#define DATAPLANE_BELL_H

#include "dataplane/port/port.h"

/* Before the cores run, and then on the control thread: looks for rx_wakeups that are not known yet. */
void rx_wakeups_find(void);
void rx_wakeups_fini(void); /* when nothing runs any more */
/* On the core, not offline: rx_wakeups of `port` on or off; false: it has none. */
bool rx_wakeup_arm(struct core *core, uint16_t port, bool on);
/* A ring might be missed when a core falls asleep: how long that may go unnoticed; ns. */
uint64_t rx_wakeup_limit(const struct core *core);
/* On the core, not offline: a frame may have come while others had the processor.  The lines that reading and
 * answering it takes from the far end's processor are asked for all at once; the driver comes upon one after
 * the other. */
void rx_wakeup_fetch(struct core *core);
/* Around an munmap() of a driver's: no core uses the memory when rx_wakeup_unmap_begin() and a grace period
 * have passed, and none is found there until rx_wakeup_unmap_end(). */
void rx_wakeup_unmap_begin(const void *address, size_t len);
void rx_wakeup_unmap_end(void);

#endif
