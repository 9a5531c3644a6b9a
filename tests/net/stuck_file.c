/* SPDX-License-Identifier: BSD-3-Clause */
#include "stuck_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_NODE 2u
#define REQUEST_MAX 65536u
#define READ_MAX 131072u
#define WAITING_MAX 64u

struct server {
	int fuse;
	size_t size;
	bool answers, closes;
	uint32_t num_waiting;
	struct {
		uint64_t unique;
		uint32_t size;
	} waiting[WAITING_MAX];
};

static void
reply(const struct server *server, uint64_t unique, int error, const void *data, size_t len)
{
	static uint8_t buffer[sizeof(struct fuse_out_header) + READ_MAX];
	struct fuse_out_header *out = (struct fuse_out_header *)(void *)buffer;

	*out = (struct fuse_out_header){
		.len = (uint32_t)(sizeof(*out) + len), .error = -error, .unique = unique};
	if (len > 0)
		memcpy(buffer + sizeof(*out), data, len);
	/* The write fails if the request was interrupted. */
	(void)!write(server->fuse, buffer, out->len);
}

static void
reply_zeros(const struct server *server, uint64_t unique, uint32_t size)
{
	static const uint8_t zeros[READ_MAX];

	reply(server, unique, 0, zeros, size < READ_MAX ? size : READ_MAX);
}

static struct fuse_attr
attr_of(const struct server *server, uint64_t node)
{
	struct fuse_attr attr = {.ino = node, .nlink = 1, .mode = S_IFDIR | 0755, .blksize = 4096};

	if (node == FILE_NODE) {
		attr.mode = S_IFREG | 0644;
		attr.size = server->size;
	}
	return attr;
}

static void
serve(struct server *server, const struct fuse_in_header *in)
{
	const void *body = in + 1;
	struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
				     .minor = FUSE_KERNEL_MINOR_VERSION,
				     .max_readahead = READ_MAX,
				     .max_write = 4096,
				     .flags = FUSE_ASYNC_READ};
	struct fuse_entry_out entry = {.nodeid = FILE_NODE, .attr_valid = 1000, .entry_valid = 1000};
	struct fuse_attr_out attr = {.attr_valid = 1000};
	struct fuse_open_out opened = {.open_flags = FOPEN_KEEP_CACHE};
	const struct fuse_read_in *read_in = body;

	switch (in->opcode) {
	case FUSE_INIT:
		reply(server, in->unique, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		entry.attr = attr_of(server, FILE_NODE);
		reply(server, in->unique, 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
		attr.attr = attr_of(server, in->nodeid);
		reply(server, in->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		reply(server, in->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		if (server->answers || server->num_waiting == WAITING_MAX) {
			reply_zeros(server, in->unique, read_in->size);
			break;
		}
		server->waiting[server->num_waiting].unique = in->unique;
		server->waiting[server->num_waiting++].size = read_in->size;
		break;
	case FUSE_FLUSH:
		if (!server->closes)
			break;
		/* fall through */
	case FUSE_RELEASE:
		reply(server, in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		reply(server, in->unique, ENOSYS, NULL, 0);
		break;
	}
}

static void
server_run(int fuse, size_t size, bool closes, int control)
{
	_Alignas(8) static uint8_t request[REQUEST_MAX];
	struct server server = {.fuse = fuse, .size = size, .closes = closes};
	struct pollfd fds[2] = {{.fd = fuse, .events = POLLIN}, {.fd = control, .events = POLLIN}};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		char byte;

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents != 0) {
			if (recv(control, &byte, 1, 0) <= 0)
				return;
			server.answers = true;
			for (uint32_t i = 0; i < server.num_waiting; i++)
				reply_zeros(&server, server.waiting[i].unique, server.waiting[i].size);
			server.num_waiting = 0;
		}
		if (fds[0].revents != 0) {
			if (read(fuse, request, sizeof(request)) >= (ssize_t)sizeof(struct fuse_in_header))
				serve(&server, (struct fuse_in_header *)(void *)request);
			else if (errno == ENODEV)
				return;
		}
	}
}

static bool
mount_here(int fuse, char *directory)
{
	char options[64];

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fuse,
		 (unsigned int)getuid(), (unsigned int)getgid());
	return mkdtemp(directory) != NULL && unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("stuck", directory, "fuse", MS_NOSUID | MS_NODEV, options) == 0;
}

static bool
open_file(struct stuck_file *file, size_t size, bool closes)
{
	char directory[] = "/tmp/oneside.stuck.XXXXXX", path[64];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC), fds[2];
	bool mounted;

	file->fd = -1;
	if (fuse < 0)
		return false;
	mounted = mount_here(fuse, directory);
	if (mounted && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0) {
		file->server = fork();
		if (file->server == 0) {
			close(fds[0]);
			server_run(fuse, size, closes, fds[1]);
			_exit(0);
		}
		file->control = fds[0];
		close(fds[1]);
		snprintf(path, sizeof(path), "%s/file", directory);
		file->fd = open(path, O_RDWR | O_CLOEXEC);
		if (file->fd < 0)
			stuck_file_close(file);
	}
	close(fuse);
	/* The file remains while it is open. */
	if (mounted)
		umount2(directory, MNT_DETACH);
	rmdir(directory);
	return file->fd >= 0;
}

bool
stuck_file_open(struct stuck_file *file, size_t size)
{
	return open_file(file, size, true);
}

bool
stuck_file_open_for_good(struct stuck_file *file)
{
	return open_file(file, 4096, false);
}

void
stuck_file_answer(const struct stuck_file *file)
{
	(void)!send(file->control, "a", 1, MSG_NOSIGNAL);
}

void
stuck_file_close(const struct stuck_file *file)
{
	int status;

	/* Closing the socket would not do: a child of the test may hold its other end. */
	kill(file->server, SIGKILL);
	waitpid(file->server, &status, 0);
	close(file->control);
	if (file->fd >= 0)
		close(file->fd);
}
