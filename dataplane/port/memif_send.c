/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sendmsg() for the server of a memif.  A client that has gone before it was greeted (its process was killed
 * a moment after it connected) makes the greeting fail, and the driver then closes the descriptor and frees
 * what belongs to it while DPDK's interrupt thread still has both in its list: that thread panics.  Here such
 * a greeting is sent to nobody.  The hang-up is the next that the driver reads, and that it handles in order.
 *
 * In effect only where there is a memif, and on DPDK's interrupt thread.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "dataplane/port/port.h"

static _Atomic bool hides;

void
memif_send_hides(void)
{
	/* Pairs with the load in sendmsg(). */
	atomic_store_explicit(&hides, true, memory_order_release);
}

static ssize_t
length_of(const struct msghdr *message)
{
	size_t len = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++)
		len += message->msg_iov[i].iov_len;
	return (ssize_t)len;
}

ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t n = syscall(SYS_sendmsg, fd, message, flags);

	/* Pairs with the store in memif_send_hides. */
	if (n < 0 && (errno == EPIPE || errno == ECONNRESET) &&
	    atomic_load_explicit(&hides, memory_order_acquire) && rte_thread_is_intr())
		return length_of(message);
	return n;
}
