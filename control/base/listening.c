/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/base/listening.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/address.h"

#define BACKLOG 128
#define LOCK_TRIES 50
#define DIRECTORY_MODE 0755
#define PATH_ROOM (sizeof(((struct sockaddr_un *)0)->sun_path) + 2)

static int inherited[LISTENING_MAX]; /* descriptors + 1; 0: none, or taken */
static bool provisional;             /* the other process still serves */
static const struct listening *open_ones[LISTENING_MAX];

bool
listening_inherit(int fd)
{
	for (uint32_t i = 0; i < LISTENING_MAX; i++) {
		if (inherited[i] != 0)
			continue;
		inherited[i] = fd + 1;
		provisional = true;
		return true;
	}
	return false;
}

/* Ends a socket that this process's configuration does not have: callers would wait at it for ever. */
static void
drop_inherited(uint32_t i)
{
	struct sockaddr_un address = {.sun_family = AF_UNSPEC};
	socklen_t len = sizeof(address) - 1; /* the path ends with a zero */
	int fd = inherited[i] - 1;

	inherited[i] = 0;
	if (fd < 0)
		return;
	if (getsockname(fd, (struct sockaddr *)&address, &len) == 0 && address.sun_family == AF_UNIX)
		unlink(address.sun_path);
	close(fd);
}

/* Makes the sockets this process's: the kernel reports to callers the process that called listen() last. The
 * configuration may have another mode, or no longer the path. */
void
listening_commit(void)
{
	provisional = false;
	for (uint32_t i = 0; i < LISTENING_MAX; i++) {
		const struct listening *listening = open_ones[i];

		if (listening == NULL)
			continue;
		listen(listening->fd, BACKLOG);
		if (listening->address.sun_family == AF_UNIX)
			chmod(listening->address.sun_path, listening->mode);
	}
	for (uint32_t i = 0; i < LISTENING_MAX; i++)
		drop_inherited(i);
}

int
listening_fd(uint32_t i)
{
	for (uint32_t j = 0; j < LISTENING_MAX; j++)
		if (open_ones[j] != NULL && i-- == 0)
			return open_ones[j]->fd;
	return -1;
}

static void
note_open(const struct listening *listening, bool is_open)
{
	const struct listening *from = is_open ? NULL : listening;

	for (uint32_t i = 0; i < LISTENING_MAX; i++) {
		if (open_ones[i] != from)
			continue;
		open_ones[i] = is_open ? listening : NULL;
		return;
	}
}

void
listening_opened(const struct listening *listening)
{
	note_open(listening, true);
}

int
listening_inherited(int type, const void *address, socklen_t len)
{
	for (uint32_t i = 0; i < LISTENING_MAX; i++) {
		struct sockaddr_storage its_address = {.ss_family = AF_UNSPEC};
		socklen_t its_len = sizeof(its_address), type_len = sizeof(int);
		int fd = inherited[i] - 1, its_type;

		if (fd < 0 || getsockname(fd, (struct sockaddr *)&its_address, &its_len) != 0 ||
		    memcmp(&its_address, address, len) != 0 ||
		    getsockopt(fd, SOL_SOCKET, SO_TYPE, &its_type, &type_len) != 0 || its_type != type)
			continue;
		inherited[i] = 0;
		return fd;
	}
	return -1;
}

/* Prefix of the path in the configuration. */
static const char *
path_scheme(const struct listening *listening)
{
	return listening->type == SOCK_STREAM ? "unix:" : "";
}

static int
make_parent(const struct listening *listening, char *why, size_t why_len, char *parent, size_t parent_len)
{
	const char *path = listening->address.sun_path, *key = listening->key;
	char copy[PATH_ROOM]; /* dirname() modifies it */
	struct stat st;

	snprintf(copy, sizeof(copy), "%s", path);
	snprintf(parent, parent_len, "%s", dirname(copy));
	if (mkdir(parent, DIRECTORY_MODE) == 0)
		chmod(parent,
		      /* independent of the umask: the socket's mode decides who may attach */
		      DIRECTORY_MODE);
	else if (errno != EEXIST)
		return config_refuse(
			why, why_len, -errno,
			"%s %s: cannot create directory %s: %s; create it (mkdir -p %s) or choose %s = %sPATH",
			key, path, parent, strerror(errno), parent, key, path_scheme(listening));
	if (stat(parent, &st) != 0 || !S_ISDIR(st.st_mode))
		return config_refuse(why, why_len, -ENOTDIR,
				     "%s %s: %s is not a directory; choose %s = %sPATH", key, path, parent,
				     key, path_scheme(listening));
	return 0;
}

/* Removes a dead data plane's socket. The caller holds the directory's lock. */
static int
remove_stale(const struct listening *listening, char *why, size_t why_len)
{
	const char *path = listening->address.sun_path, *key = listening->key;
	struct stat st;
	int fd, error;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return config_refuse(why, why_len, -EEXIST,
				     "%s %s: exists and is not a socket; remove it or choose %s = %sPATH",
				     key, path, key, path_scheme(listening));
	fd = socket(AF_UNIX, listening->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	error = connect(fd, (const struct sockaddr *)&listening->address, sizeof(listening->address)) == 0
			? 0
			: errno;
	close(fd);
	if (error != ECONNREFUSED)
		return config_refuse(
			why, why_len, -EADDRINUSE,
			"%s %s: another program listens there; end that program, or choose %s = %sPATH", key,
			path, key, path_scheme(listening));
	return unlink(path) == 0 || errno == ENOENT ? 0 : -errno;
}

static int
bind_locked(struct listening *listening, mode_t mode, char *why, size_t why_len)
{
	const char *path = listening->address.sun_path;
	char parent[PATH_ROOM];
	int dir, error = make_parent(listening, why, why_len, parent, sizeof(parent));
	struct stat st;

	if (error != 0)
		return error;
	/* The lock keeps two processes that start at once from removing each other's socket. A process that
	 * holds the lock longer than half a second is not a data plane; go on without. */
	dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; dir >= 0 && i < LOCK_TRIES && flock(dir, LOCK_EX | LOCK_NB) != 0; i++)
		usleep(10000);
	error = remove_stale(listening, why, why_len);
	/* Before bind(): the socket never has a wider mode than configured, */
	fchmod(listening->fd, mode);
	if (error == 0 && bind(listening->fd, (const struct sockaddr *)&listening->address,
			       sizeof(listening->address)) != 0)
		error = -errno;
	/* and after it: the umask may have narrowed the mode. */
	if (error == 0 && (chmod(path, mode) != 0 || listen(listening->fd, BACKLOG) != 0))
		error = -errno;
	if (error == 0 && lstat(path, &st) == 0)
		listening->inode = st.st_ino;
	if (dir >= 0)
		close(dir);
	if (error != 0 && why[0] == '\0')
		config_refuse(why, why_len, error, "%s %s: %s; choose %s = %sPATH where this user may write",
			      listening->key, path, strerror(-error), listening->key, path_scheme(listening));
	return error;
}

int
listening_open_type(struct listening *listening, int type, const char *key, const char *path, mode_t mode,
		    char *why, size_t why_len)
{
	int error;

	why[0] = '\0';
	*listening = (struct listening){
		.fd = -1, .type = type, .key = key, .address.sun_family = AF_UNIX, .mode = mode};
	if (strlen(path) >= sizeof(listening->address.sun_path))
		return config_refuse(why, why_len, -ENAMETOOLONG,
				     "%s %s: longer than %zu bytes; choose a shorter %s = %sPATH", key, path,
				     sizeof(listening->address.sun_path) - 1, key, path_scheme(listening));
	strcpy(listening->address.sun_path, path);
	listening->fd = listening_inherited(type, &listening->address, sizeof(listening->address));
	if (listening->fd >= 0) {
		struct stat st;

		listening->inode = lstat(path, &st) == 0 ? st.st_ino : 0;
		note_open(listening, true);
		return 0;
	}
	listening->fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listening->fd < 0)
		return config_refuse(why, why_len, -errno, "%s %s: %s", key, path, strerror(errno));
	error = bind_locked(listening, mode, why, why_len);
	if (error != 0)
		listening_close(listening);
	else
		note_open(listening, true);
	return error;
}

void
listening_close(struct listening *listening)
{
	struct stat st;

	note_open(listening, false);
	if (listening->fd >= 0)
		close(listening->fd);
	listening->fd = -1;
	/* Unlink only our own socket: another process may have replaced it. */
	if (!provisional && listening->inode != 0 && lstat(listening->address.sun_path, &st) == 0 &&
	    st.st_ino == listening->inode)
		unlink(listening->address.sun_path);
	listening->inode = 0;
}
