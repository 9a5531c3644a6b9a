/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listening socket of a memif server. DPDK's driver does not close it with the device: the socket goes on
 * to accept connections, and its handler on the interrupt thread stays registered, though its memory is
 * freed. A peer that connects then waits for an answer that never comes, and the handler runs without end. So
 * before the device is closed, an eventfd that nobody writes replaces the socket: peers are refused, and try
 * again.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/port/device.h"
#include "dataplane/port/port.h"

struct listener_search {
	struct sockaddr_un cable;
	socklen_t len;
	bool named;
	int found;
};

static void
look_for_listener(void *context, int fd)
{
	struct listener_search *search = context;
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr), size = sizeof(int);
	int listens = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
		return;
	memset(&addr, 0, sizeof(addr));
	/* A file's name ends with the first zero byte, an abstract one with the address. */
	if (getsockname(fd, (struct sockaddr *)&addr, &len) == 0 &&
	    memcmp(&addr, &search->cable, search->len) == 0 && (search->named || len == search->len))
		search->found = fd;
}

void
memif_close_listener(const struct port *port)
{
	struct listener_search search = {.found = -1};
	int silent;

	search.len = device_cable(port->arguments, &search.cable, &search.named);
	if (search.len > 0)
		kernel_side_descriptors(look_for_listener, &search);
	silent = search.found < 0 ? -1 : eventfd(0, EFD_CLOEXEC);
	if (silent < 0)
		return;
	dup3(silent, search.found, O_CLOEXEC);
	close(silent);
}
