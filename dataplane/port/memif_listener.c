/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listening socket of a memif server. DPDK's driver does not close it with the device: the socket goes on
 * to accept connections, and its handler on the interrupt thread stays registered, though its memory is
 * freed. A peer that connects then waits for an answer that never comes, and the handler runs without end. So
 * before the device is closed, an eventfd that nobody writes replaces the socket: peers are refused, and try
 * again.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/port/device.h"
#include "dataplane/port/port.h"

static bool
listens_at(int fd, const struct sockaddr_un *cable, socklen_t cable_len)
{
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr), size = sizeof(int);
	int listens = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
		return false;
	memset(&addr, 0, sizeof(addr));
	/* A file's name ends with the first zero byte, an abstract one with the address. */
	return getsockname(fd, (struct sockaddr *)&addr, &len) == 0 && memcmp(&addr, cable, cable_len) == 0 &&
	       (cable->sun_path[0] != '\0' || len == cable_len);
}

static int
find_listener(const char *arguments)
{
	struct sockaddr_un cable;
	socklen_t len = device_cable(arguments, &cable);
	DIR *all = len > 0 ? opendir("/proc/self/fd") : NULL;
	struct dirent *entry;
	int found = -1;

	while (all != NULL && found < 0 && (entry = readdir(all)) != NULL) {
		int fd = atoi(entry->d_name);

		if (listens_at(fd, &cable, len))
			found = fd;
	}
	if (all != NULL)
		closedir(all);
	return found;
}

void
memif_close_listener(const struct port *port)
{
	int fd = find_listener(port->arguments), silent;

	if (fd < 0)
		return;
	silent = eventfd(0, EFD_CLOEXEC);
	if (silent < 0)
		return;
	dup3(silent, fd, O_CLOEXEC);
	close(silent);
}
