/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifies the service manager by a datagram to the socket in NOTIFY_SOCKET. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"

void
notify_service(const char *state, bool waits)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = name == NULL ? 0 : strlen(name);
	int fd;

	if (len < 2 || len > sizeof(addr.sun_path) || (name[0] != '/' && name[0] != '@'))
		return;
	memcpy(addr.sun_path, name, len);
	if (name[0] == '@')
		addr.sun_path[0] = '\0'; /* abstract namespace */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, state, strlen(state), MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT),
	       (const struct sockaddr *)&addr, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}
