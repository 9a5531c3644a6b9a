/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening socket. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "control/attach/reaper.h"
#include "control/base/listening.h"

#define ACCEPTS 16 /* connections accepted per loop */

static struct watch listen_watch;
static struct listening listening = {.fd = -1};
static int spare_fd = -1; /* closed for a moment when descriptors run out, to accept and close a connection */
static bool paused;

/* Stops accepting: connections wait in the backlog, and use up no other user's descriptors. */
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
	if (control.passing)
		return;
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
			/* Refuse by closing: a connection in the backlog would wake this thread again and
			 * again. */
			close(spare_fd);
			fd = accept4(control.listen_fd, NULL, NULL, SOCK_CLOEXEC);
			if (fd >= 0)
				reaper_close_socket(getuid(), fd);
			spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
			log_of_others(
				warning,
				"event=descriptors_out text=\"a connection was turned away\" remedy=\"raise LimitNOFILE\"\n");
		}
		return;
	}
}

int
server_open(const struct config *config, char *why, size_t why_len)
{
	int error, on = 1;

	paused = false;
	spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	error = spare_fd < 0 ? -errno : reapers_start();
	if (error != 0) {
		snprintf(why, why_len, "socket %s: cannot start a thread, or open /dev/null: %s",
			 config->socket, strerror(-error));
		goto no_reapers;
	}
	error = listening_open(&listening, "socket", config->socket, config->socket_mode, why, why_len);
	if (error != 0)
		goto fail;
	control.listen_fd = listening.fd;
	/* Accepted sockets inherit SO_PASSCRED: the kernel adds the sender's credentials to every message. */
	listen_watch.ready = listen_ready;
	error = setsockopt(listening.fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0
			? control_watch(listening.fd, &listen_watch, EPOLLIN)
			: -errno;
	if (error == 0)
		return 0;
	snprintf(why, why_len, "socket %s: %s", config->socket, strerror(-error));
fail:
	reapers_stop();
no_reapers:
	server_close();
	return error;
}

void
server_close(void)
{
	listening_close(&listening);
	control.listen_fd = -1;
	if (spare_fd >= 0)
		close(spare_fd);
	spare_fd = -1;
}
