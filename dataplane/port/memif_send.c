/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sendmsg() and recvmsg() for the driver of memif: memif_rings.c reads and completes the messages of its
 * handshakes, and link.c hears of peers that leave. Active only if there is a memif, and on DPDK's
 * interrupt thread.
 *
 * If a client has gone before its server greets it (its process was killed just after connecting), the
 * greeting fails. Then the driver closes the descriptor and frees its state, while DPDK's interrupt thread
 * still has both in its list: that thread panics. So a failed send is reported as success here. The driver
 * reads the hang-up next, and handles that correctly.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "dataplane/port/port.h"

/* Types of messages by which a memif connects, numbered as in the driver: the first and the last one. */
#define MEMIF_ACK 1u
#define MEMIF_CONNECTED 7u

static _Atomic bool passes;

void
memif_messages_pass(void)
{
	/* Pairs with the load in is_memif(). */
	atomic_store_explicit(&passes, true, memory_order_release);
}

static bool
is_memif(void)
{
	/* Pairs with the store in memif_messages_pass(). */
	return atomic_load_explicit(&passes, memory_order_acquire) && rte_thread_is_intr();
}

static ssize_t
length_of(const struct msghdr *message)
{
	size_t len = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++)
		len += message->msg_iov[i].iov_len;
	return (ssize_t)len;
}

static bool
is_whole(const struct msghdr *message)
{
	return message->msg_iovlen == 1 && message->msg_iov[0].iov_len == RINGS_MESSAGE;
}

ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
	bool memif = is_memif();
	ssize_t n;

	if (memif && is_whole(message))
		rings_sending(fd, message->msg_iov[0].iov_base);
	n = syscall(SYS_sendmsg, fd, message, flags);
	if (n < 0 && (errno == EPIPE || errno == ECONNRESET) && memif)
		return length_of(message);
	return n;
}

/* True for the messages by which a memif connects. After any other one, or the end, the driver disconnects.
 */
static bool
keeps_connection(const struct msghdr *message, size_t len)
{
	uint16_t type;

	if (len < sizeof(type) || message->msg_iovlen == 0)
		return false;
	memcpy(&type, message->msg_iov[0].iov_base, sizeof(type));
	return type >= MEMIF_ACK && type <= MEMIF_CONNECTED;
}

/* Uses recvmmsg() of libc, which is a cancellation point, too: EAL's end cancels a thread that waits here. */
ssize_t
recvmsg(int fd, struct msghdr *message, int flags)
{
	struct mmsghdr one = {.msg_hdr = *message};
	bool memif = is_memif();

	if (recvmmsg(fd, &one, 1, flags, NULL) < 0) {
		if (memif)
			link_lost();
		return -1;
	}
	*message = one.msg_hdr;
	if (memif && !keeps_connection(message, one.msg_len))
		link_lost();
	if (one.msg_len == RINGS_MESSAGE && memif && is_whole(message))
		rings_received(fd, message->msg_iov[0].iov_base);
	return one.msg_len;
}
