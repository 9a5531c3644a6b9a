/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a device or the kernel may have pinned pages of this process.
 *
 * A pin is a reference to a page that outlives the system call or mapping that made it: io_uring's fixed
 * buffers, direct I/O in flight, vfio, a GPU's driver, AF_XDP. Pinned pages must not be replaced: the device
 * would continue to use the old ones. UFFDIO_MOVE finds pins of private pages exactly (aside.h). Pins of
 * shared pages are reported nowhere; the only evidence is what the process has open:
 *
 *   VmPin in /proc/self/status     io_uring's fixed buffers, RDMA adapters
 *   io_uring, vfio                 also while nothing is registered: direct I/O through them
 *   AF_XDP sockets, block devices, character devices that are neither terminals nor /dev/null and its like
 *   files open with O_DIRECT
 *
 * Sockets (MSG_ZEROCOPY) and pipes (vmsplice) are no evidence: the kernel only reads such a buffer, and the
 * program must not store to it meanwhile, so the old page holds the right bytes until it is released.
 *
 * All calls require ranges_lock. The answer is determined once, until pins_forget.
 */
#ifndef CLIENT_PINS_H
#define CLIENT_PINS_H

#include <stdbool.h>

/* True if pages may be pinned, or if the process cannot list its descriptors. */
bool pins_possible(void);
/* True if direct I/O is possible by a file system that may hold pages without pinning them, which UFFDIO_MOVE
 * does not find, or if the process cannot list its descriptors. */
bool pins_hidden(void);
void pins_forget(void);

#endif
