/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * munmap() for the driver of memif, which unmaps rings and buffers on DPDK's interrupt thread as soon as the
 * far end closes its socket or dies, and gives the application no notice before.  A core inside a burst would
 * go on in memory that is gone, or another mapping by then.  The driver marks the device as not connected
 * first, so bursts that begin later leave the memory alone; those under way are over after a grace period.
 *
 * In effect only where there is a port whose driver gives no notice.  With doc/dpdk's patch it does
 * (link.c), and this function is libc's.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "dataplane/port/port.h"

static _Atomic bool waits;

void
memif_unmap_waits(void)
{
	/* Pairs with the load in munmap(): cores run no earlier than this is stored. */
	atomic_store_explicit(&waits, true, memory_order_release);
}

int
munmap(void *addr, size_t len)
{
	/* Pairs with the store in memif_unmap_waits. */
	if (atomic_load_explicit(&waits, memory_order_acquire) && rte_thread_is_intr()) {
		rings_forget();
		links_quiesce();
	}
	return (int)syscall(SYS_munmap, addr, len);
}
