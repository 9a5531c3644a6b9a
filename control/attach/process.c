/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a process that could not be adopted, and is reached through the process
 * (dataplane/mem/reach.h): who may, for how long an access may go unanswered, and what
 * is left of it afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "dataplane/mem/reach.h"

/* A page from a slow disk has come by then, and peers have not given up yet (connection.h). */
#define PATIENCE_NS (3 * NS_PER_S)
#define LOOK_NS (NS_PER_S / 2)
#define SETTLE_NS (NS_PER_MS / 10)

/*
 * Opened at the first use only, since an unprivileged data plane has to be allowed
 * to by the process first.  What is asked afterwards tells that the memory was
 * that of a program with no more rights than the one that attached: of a
 * program that has gained some, /proc/PID belongs to somebody else.
 */
static int
open_memory(struct client *client)
{
	struct pollfd process = {.fd = client->pidfd, .events = POLLIN};
	char path[32];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)client->pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*strrchr(path, '/') = '\0';
	if (stat(path, &st) != 0 || st.st_uid != client->uid || poll(&process, 1, 0) != 0) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

int
process_reach(struct client *client)
{
	struct mem_process *process;
	int error;

	if (!control.config->process_memory)
		return -EOPNOTSUPP;
	if (client->process != NULL)
		return 0;
	process = calloc(1, sizeof(*process));
	if (process == NULL)
		return -ENOMEM;
	process->pid = client->pid;
	process->by_file = true;
	process->fd = open_memory(client);
	error = process->fd < 0 ? process->fd : engine_client_reach(client->engine, process);
	if (error != 0) {
		if (process->fd >= 0)
			close(process->fd);
		free(process);
		return error;
	}
	client->process = process;
	client->process_at = control.now + LOOK_NS;
	return 0;
}

void
process_settle(struct client *client, struct object *mr)
{
	if (client->process != NULL) {
		/* A grace period has passed since the key was removed: no core begins another. */
		client->leaving_mark = reach_mark(client->process);
		if (!reach_passed(client->process, client->leaving_mark)) {
			client->leaving = mr;
			return;
		}
	}
	attach_calls->class[mr->kind].release(mr);
}

void
process_leave(struct client *client)
{
	if (client->process == NULL)
		return;
	reach_stop(client->process);
	if (reach_since(client->process) != 0)
		log_notice("memory of pid %d (uid %u) still does not answer: a thread waits for it\n",
			   (int)client->pid, client->uid);
}

bool
process_left(struct client *client)
{
	if (client->process == NULL)
		return true;
	if (!reach_stopped(client->process))
		return false;
	reach_free(client->process);
	close(client->process->fd);
	free(client->process);
	client->process = NULL;
	return true;
}

void
process_poll(struct client *client)
{
	struct object *mr = client->leaving;
	uint64_t since;

	if (client->process == NULL)
		return;
	if (mr != NULL && client_alive(client) && reach_passed(client->process, client->leaving_mark)) {
		client->leaving = NULL;
		attach_calls->class[mr->kind].release(mr);
	}
	if (control.now < client->process_at)
		return;
	client->process_at = control.now + LOOK_NS;
	since = reach_since(client->process);
	if (since != 0 && control.now > since && control.now - since > PATIENCE_NS)
		client_kill(client, ONE_FAULT_MEMORY, "its memory does not answer");
}

uint64_t
process_deadline(const struct client *client)
{
	if (client->process == NULL)
		return NEVER;
	if (client->state == CLIENT_GONE && reach_since(client->process) == 0)
		return control.now + NS_PER_MS; /* it is about to end */
	return client->leaving != NULL ? control.now + SETTLE_NS : client->process_at;
}
