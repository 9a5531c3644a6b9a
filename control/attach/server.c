/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening socket. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "control/attach/reaper.h"
#include "control/attach/server.h"

#define BACKLOG 128
#define ACCEPTS 16 /* in one loop */
#define LOCK_TRIES 50
#define DIRECTORY_MODE 0755

static struct watch listen_watch;
static struct sockaddr_un address;
static ino_t socket_inode;
static int spare_fd = -1; /* given up for a moment when descriptors run out */
static bool paused;

/* Connections wait in the backlog meanwhile, and no other user's descriptors are used up. */
static void
pause_listening(void)
{
	epoll_ctl(control.epoll, EPOLL_CTL_DEL, control.listen_fd, NULL);
	paused = true;
	log_of_others(warning, "event=accept_paused text=\"too many connections are still to be closed\"\n");
}

void
server_poll(void)
{
	if (paused && control.listen_fd >= 0 && !reapers_late())
		paused = control_watch(control.listen_fd, &listen_watch, EPOLLIN) != 0;
}

static void
listen_ready(struct watch *watch, uint32_t events)
{
	if (reapers_late()) {
		pause_listening();
		return;
	}
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(control.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			client_accept(fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE) {
			/* Refuse by closing, rather than be woken for ever. */
			close(spare_fd);
			fd = accept4(control.listen_fd, NULL, NULL, SOCK_CLOEXEC);
			if (fd >= 0)
				reaper_close_socket(getuid(), fd);
			spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
			log_of_others(warning, "event=descriptors_out text=\"a connection was turned away\" "
					       "remedy=\"raise LimitNOFILE\"\n");
		}
		return;
	}
}

static int
make_parent(const char *path, char *why, size_t why_len, char *parent, size_t parent_len)
{
	char copy[CONFIG_PATH_MAX + 2]; /* which dirname() writes to */
	struct stat st;

	snprintf(copy, sizeof(copy), "%s", path);
	snprintf(parent, parent_len, "%s", dirname(copy));
	if (mkdir(parent, DIRECTORY_MODE) == 0) {
		chmod(parent,
		      DIRECTORY_MODE); /* whatever the umask: the socket's mode decides who may attach */
	} else if (errno != EEXIST) {
		int error = errno;

		snprintf(why, why_len,
			 "socket %s: cannot make directory %s: %s; make it (mkdir -p %s) or choose socket = "
			 "PATH",
			 path, parent, strerror(error), parent);
		return -error;
	}
	if (stat(parent, &st) != 0 || !S_ISDIR(st.st_mode)) {
		snprintf(why, why_len, "socket %s: %s is not a directory; choose socket = PATH", path,
			 parent);
		return -ENOTDIR;
	}
	return 0;
}

/* What another data plane may have left; the directory is locked. */
static int
remove_stale(const char *path, char *why, size_t why_len)
{
	struct stat st;
	int fd, error;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(why, why_len,
			 "socket %s: exists and is not a socket; remove it or choose socket = PATH", path);
		return -EEXIST;
	}
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	error = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
	close(fd);
	if (error != ECONNREFUSED) {
		snprintf(why, why_len,
			 "socket %s: another data plane serves it; end that one or choose socket = PATH",
			 path);
		return -EADDRINUSE;
	}
	return unlink(path) == 0 || errno == ENOENT ? 0 : -errno;
}

static int
bind_locked(const struct config *config, char *why, size_t why_len)
{
	char parent[CONFIG_PATH_MAX + 2];
	int dir, error = make_parent(config->socket, why, why_len, parent, sizeof(parent));
	struct stat st;

	if (error != 0)
		return error;
	/* Two that start at once must not remove each other's socket.  A process that holds the lock for long
	 * is not a data plane, and is not waited for. */
	dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; dir >= 0 && i < LOCK_TRIES && flock(dir, LOCK_EX | LOCK_NB) != 0; i++)
		usleep(10000);
	error = remove_stale(config->socket, why, why_len);
	if (error == 0 && bind(control.listen_fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		error = -errno;
	if (error == 0 && chmod(config->socket, config->socket_mode) != 0)
		error = -errno;
	if (error == 0 && listen(control.listen_fd, BACKLOG) != 0)
		error = -errno;
	if (error == 0 && lstat(config->socket, &st) == 0)
		socket_inode = st.st_ino;
	if (dir >= 0)
		close(dir);
	if (error != 0 && why[0] == '\0')
		snprintf(why, why_len, "socket %s: %s; choose socket = PATH where this user may write",
			 config->socket, strerror(-error));
	return error;
}

int
server_open(const struct config *config, char *why, size_t why_len)
{
	struct rlimit limit;
	int error, on = 1;

	why[0] = '\0';
	paused = false;
	address.sun_family = AF_UNIX;
	if (strlen(config->socket) >= sizeof(address.sun_path)) {
		snprintf(why, why_len, "socket %s: longer than %zu bytes; choose a shorter socket = PATH",
			 config->socket, sizeof(address.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", config->socket);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	control.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* The kernel adds the credentials of the sender to every message. */
	if (control.listen_fd < 0 || spare_fd < 0 ||
	    setsockopt(control.listen_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
		error = -errno;
		snprintf(why, why_len, "socket %s: %s", config->socket, strerror(errno));
		goto fail;
	}
	error = reapers_start();
	if (error != 0) {
		snprintf(why, why_len, "socket %s: cannot start a thread: %s", config->socket,
			 strerror(-error));
		goto fail;
	}
	error = bind_locked(config, why, why_len);
	if (error != 0)
		goto fail;
	listen_watch.ready = listen_ready;
	error = control_watch(control.listen_fd, &listen_watch, EPOLLIN);
	if (error == 0)
		return 0;
	snprintf(why, why_len, "socket %s: epoll: %s", config->socket, strerror(-error));
	unlink(config->socket);
fail:
	server_close();
	reapers_stop();
	return error;
}

void
server_close(void)
{
	struct stat st;

	if (control.listen_fd >= 0)
		close(control.listen_fd);
	control.listen_fd = -1;
	/* Not one that another process has put there since. */
	if (socket_inode != 0 && lstat(address.sun_path, &st) == 0 && st.st_ino == socket_inode)
		unlink(address.sun_path);
	socket_inode = 0;
	if (spare_fd >= 0)
		close(spare_fd);
	spare_fd = -1;
}
