/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/metrics/open.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

#define BACKLOG 16
#define MODE 0660 /* owner and group */

/* One that another data plane has left; -EADDRINUSE: it is served, -EEXIST: it is no socket. */
static int
remove_stale(const struct sockaddr_un *path)
{
	struct stat st;
	int fd, error;

	if (lstat(path->sun_path, &st) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	error = connect(fd, (const struct sockaddr *)path, sizeof(*path)) == 0 ? 0 : errno;
	close(fd);
	if (error != ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(path->sun_path) == 0 || errno == ENOENT ? 0 : -errno;
}

static int
bind_unix(int fd, const char *path, struct metrics_address *address)
{
	struct stat st;
	int error;

	address->path.sun_family = AF_UNIX;
	snprintf(address->path.sun_path, sizeof(address->path.sun_path), "%s", path);
	error = remove_stale(&address->path);
	if (error != 0)
		return error;
	/* From the first moment not for more than it is to be, */
	fchmod(fd, MODE);
	if (bind(fd, (const struct sockaddr *)&address->path, sizeof(address->path)) != 0)
		return -errno;
	/* and whatever the umask not for less. */
	if (lstat(path, &st) != 0 || chmod(path, MODE) != 0)
		return -errno;
	address->inode = st.st_ino;
	return 0;
}

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
	switch (error) {
	case -EADDRINUSE:
		return "another program serves it; end that one or choose another";
	case -EEXIST:
		return "it exists and is not a socket; remove it or choose another path";
	case -EADDRNOTAVAIL:
		return "this host's kernel does not have the address; choose one of \"ip address\"";
	default:
		return "choose an address or a path that this user may listen on";
	}
}

int
metrics_open(const struct config_listen *where, struct metrics_address *address, char *why, size_t why_len)
{
	int fd = socket(where->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	memset(address, 0, sizeof(*address));
	if (fd < 0)
		error = -errno;
	else if (where->family == AF_UNIX)
		error = bind_unix(fd, where->path, address);
	else
		error = bind_inet(fd, where);
	if (error == 0 && listen(fd, BACKLOG) != 0)
		error = -errno;
	if (error == 0)
		return fd;
	snprintf(why, why_len, "metrics = %s: %s: %s", where->text, strerror(-error), remedy(error));
	if (fd >= 0)
		metrics_close(fd, address);
	return error;
}

void
metrics_close(int fd, struct metrics_address *address)
{
	struct stat st;

	close(fd);
	/* Not one that another process has put there since. */
	if (address->inode != 0 && lstat(address->path.sun_path, &st) == 0 && st.st_ino == address->inode)
		unlink(address->path.sun_path);
	address->inode = 0;
}
