/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_DEFAULT "/run/oneside/oneside.sock"

void
plane_explain(void)
{
	const char *own = getenv("ONESIDE_SOCKET"),
		   *path = own != NULL && *own != '\0' ? own : SOCKET_DEFAULT;
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0)
		fprintf(stderr,
			"%s: no data plane serves at %s: %s; start oneside-dataplane(8), or set "
			"ONESIDE_SOCKET to where "
			"it listens\n",
			program_invocation_short_name, path, strerror(errno));
	if (fd >= 0)
		close(fd);
}
