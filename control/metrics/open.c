/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/metrics/metrics.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "config/config.h"

#define BACKLOG 16
#define MODE 0660 /* owner and group may connect */

static int
bind_inet(int fd, const struct config_listen *where)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(where->port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(where->port)};
	int on = 1, error;

	memcpy(&in.sin_addr, where->addr, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, where->addr, sizeof(in6.sin6_addr));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (where->family == AF_INET)
		error = bind(fd, (const struct sockaddr *)&in, sizeof(in));
	else
		error = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0
				? bind(fd, (const struct sockaddr *)&in6, sizeof(in6))
				: -1;
	return error == 0 ? 0 : -errno;
}

static const char *
remedy(int error)
{
	return error == -EADDRINUSE
		       ? "another program listens there; end that program, or choose another address"
	       : error == -EADDRNOTAVAIL
		       ? "this host's kernel does not have the address; choose one of \"ip address\""
		       : "choose an address or a path that this user may listen on";
}

int
metrics_open(const struct config_listen *where, struct listening *listening, char *why, size_t why_len)
{
	int error;

	if (where->family == AF_UNIX)
		return listening_open_type(listening, SOCK_STREAM, "metrics", where->path, MODE, why,
					   why_len);
	*listening = (struct listening){
		.fd = socket(where->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
	error = listening->fd < 0 ? -errno : bind_inet(listening->fd, where);
	if (error == 0 && listen(listening->fd, BACKLOG) != 0)
		error = -errno;
	if (error == 0)
		return 0;
	listening_close(listening);
	return config_refuse(why, why_len, error, "metrics = %s: %s: %s", where->text, strerror(-error),
			     remedy(error));
}
