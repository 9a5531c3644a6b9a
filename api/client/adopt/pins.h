/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a device or the kernel may have pinned pages of this process.
 *
 * A pin is a reference to a page that outlives the system call or mapping that made it: io_uring's fixed
 * buffers, direct I/O in flight, vfio, a GPU's driver, AF_XDP.  Pinned pages must not be replaced: the device
 * would go on using the old ones.  The kernel reports pins of private pages exactly (UFFDIO_MOVE, see
 * aside.h).  It reports those of shared pages to nobody; for these the only evidence is what the process has
 * open:
 *
 *   VmPin in /proc/self/status     io_uring's fixed buffers, RDMA adapters
 *   io_uring, vfio                 also while nothing is registered: direct I/O through them
 *   AF_XDP sockets, block devices, character devices that are neither terminals nor /dev/null and its like
 *   files open with O_DIRECT
 *
 * Not evidence: sockets (MSG_ZEROCOPY) and pipes (vmsplice).  They only read, and the program must not store
 * to the buffer meanwhile, so the old page holds the right bytes until it is released.
 *
 * Under ranges_lock.  The answer is remembered until pins_forget.
 */
#ifndef CLIENT_PINS_H
#define CLIENT_PINS_H

#include <stdbool.h>

/* Something may have pinned pages; also true if the process may not look. */
bool pins_possible(void);
/* Direct I/O is possible by a file system that may hold pages without pinning them: UFFDIO_MOVE does not see
 * it. */
bool pins_hidden(void);
void pins_forget(void);

#endif
