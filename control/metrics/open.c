/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/metrics/metrics.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "config/config.h"

#define BACKLOG 16
#define MODE 0660 /* owner and group may connect */

static socklen_t
inet_address(const struct config_listen *where, struct sockaddr_storage *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(where->port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(where->port)};

	memset(address, 0, sizeof(*address));
	memcpy(&in.sin_addr, where->addr, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, where->addr, sizeof(in6.sin6_addr));
	if (where->family == AF_INET)
		memcpy(address, &in, sizeof(in));
	else
		memcpy(address, &in6, sizeof(in6));
	return where->family == AF_INET ? sizeof(in) : sizeof(in6);
}

static int
listen_inet(int fd, const struct sockaddr_storage *address, socklen_t len)
{
	int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0)
		return -errno;
	return bind(fd, (const struct sockaddr *)address, len) == 0 && listen(fd, BACKLOG) == 0 ? 0 : -errno;
}

static const char *
remedy_of(int error)
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
	struct sockaddr_storage address;
	socklen_t len;
	int error = 0;

	if (where->family == AF_UNIX)
		return listening_open_type(listening, SOCK_STREAM, "metrics", where->path, MODE, why,
					   why_len);
	len = inet_address(where, &address);
	*listening = (struct listening){.fd = listening_inherited(SOCK_STREAM, &address, len)};
	if (listening->fd < 0) {
		listening->fd = socket(where->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		error = listening->fd < 0 ? -errno : listen_inet(listening->fd, &address, len);
	}
	if (error == 0) {
		listening_opened(listening);
		return 0;
	}
	listening_close(listening);
	return config_refuse(why, why_len, error, "metrics = %s: %s: %s", where->text, strerror(-error),
			     remedy_of(error));
}
