/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that is replaced. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_eal.h>

#include "control/base/listening.h"
#include "control/connect/ah.h"
#include "control/connect/connect.h"
#include "control/objects/pass.h"
#include "control/rsm/rsm.h"
#include "control/takeover/common.h"
#include "control/takeover/state_file.h"
#include "control/takeover/wire.h"
#include "dataplane/base/clock.h"
#include "dataplane/mem/slab.h"

#define STATE_PREPARED_MAX ((size_t)64 << 20)

static int asked_fd = -1;
static int asking_process = -1; /* a pidfd */
static struct ucred asker;
static struct watch asked_watch;
static bool begin_heard;
static bool ports_shared; /* the new process has opened its own beside ours */

/* ---- the request ---- */

static void
send_offer(int fd)
{
	struct takeover_offer offer = {.magic = TAKEOVER_MAGIC,
				       .kind = TAKEOVER_OFFER,
				       .version = TAKEOVER_VERSION,
				       .node = control.config->node,
				       .num_ports = path_num_ports,
				       .room = engine_room(),
				       .physical = rte_eal_iova_mode() == RTE_IOVA_PA};
	int directory = engine_ipsec_directory();

	for (uint32_t i = 0; i < path_num_ports; i++) {
		const struct engine_port_info *info = path_port[i].info;
		struct takeover_port *port = &offer.port[i];

		memcpy(port->name, info->name, sizeof(port->name));
		port->mtu = info->mtu;
		port->path_mtu = info->path_mtu;
		port->num_addrs = info->num_addrs;
		port->link_reported = path_port[i].link_reported;
		memcpy(port->addr, info->addr, info->num_addrs * sizeof(port->addr[0]));
	}
	qps_reserve();
	takeover_state_prepare(RTE_MIN(slab_mapped(), STATE_PREPARED_MAX));
	offer.num_sizes = slab_uses(offer.size, TAKEOVER_SIZES);
	takeover_send(fd, &offer, sizeof(offer), &directory, directory >= 0 ? 1 : 0, clock_now());
}

static void
forget_asker(void)
{
	if (asked_fd < 0)
		return;
	epoll_ctl(control.epoll, EPOLL_CTL_DEL, asked_fd, NULL);
	close(asked_fd);
	if (asking_process >= 0)
		close(asking_process);
	asked_fd = asking_process = -1;
	begin_heard = false;
	takeover_state_end(NULL);
}

/* The new process is ready, or has gone. */
static void
asker_ready(struct watch *watch, uint32_t events)
{
	struct takeover_message message;

	if (takeover_hear(asked_fd, &message, clock_now()) != TAKEOVER_BEGIN) {
		forget_asker();
		return;
	}
	begin_heard = true;
	ports_shared = message.count != 0;
}

/* True if there is something that no take-over passes on, and that does not go away by itself. */
static bool
is_excluded(char *why, size_t why_len)
{
	for (uint32_t i = 0; i < path_num_ports; i++) {
		const char *obstacle = engine_port_obstacle(i);

		if (obstacle == NULL)
			continue;
		snprintf(why, why_len, "port %s: %s; restart the data plane", engine_port(i)->name, obstacle);
		return true;
	}
	if (control.draining)
		snprintf(why, why_len,
			 "it drains, and ends with its last connection; start another one then");
	else
		return !TAILQ_EMPTY(&control.clients) && !pass_may_open(why, why_len);
	return true;
}

bool
takeover_ask(int fd)
{
	char why[300];

	if (asked_fd >= 0)
		snprintf(why, sizeof(why),
			 "another take-over is under way; try again, or end its new process");
	if (asked_fd >= 0 || is_excluded(why, sizeof(why))) {
		log_warning("event=takeover_refused text=\"%s\"\n", why);
		takeover_refuse(fd, why);
		return false;
	}
	asked_fd = fd;
	begin_heard = false;
	asked_watch.ready = asker_ready;
	if (control_watch(fd, &asked_watch, EPOLLIN) != 0) {
		asked_fd = -1;
		return false;
	}
	asking_process = takeover_peer(fd, &asker);
	send_offer(fd);
	return true;
}

bool
takeover_asked(void)
{
	return begin_heard;
}

/* ---- a quiet point ---- */

/* Returns the reason why nothing can be passed on now, in `why`. */
static bool
find_obstacle(char *why, size_t why_len)
{
	const struct client *client;
	const char *obstacle = NULL;

	TAILQ_FOREACH(client, &control.clients, link) {
		obstacle = attachment_obstacle(client);
		if (obstacle == NULL)
			continue;
		snprintf(why, why_len, "attachment of %s (pid %d): %s; try again", client->program,
			 (int)client->pid, obstacle);
		return true;
	}
	obstacle = conns_obstacle();
	if (obstacle != NULL)
		snprintf(why, why_len, "a connection: %s; try again", obstacle);
	else if (drr_waiting(&control.drr) || paths_pending())
		snprintf(why, why_len, "requests wait; try again");
	else
		return false;
	return true;
}

/* Processes what the stopped cores have sent, and freezes the queue pairs. */
static bool
freeze_plane(const struct takeover_calls *calls, char *why, size_t why_len)
{
	int error;

	while (calls->poll())
		;
	if (find_obstacle(why, why_len))
		return false;
	snprintf(why, why_len, "a core has unfinished commands; try again");
	if (!engine_is_quiet())
		return false;
	snprintf(why, why_len,
		 "a queue pair binds, moves, or writes to memory that is not shared; try again");
	error = qps_freeze();
	if (error != 0)
		return false;
	snprintf(why, why_len, "sequence numbers of [ipsec] are being saved; try again");
	if (engine_ipsec_hold())
		return true;
	qps_unfreeze();
	return false;
}

static bool
quiesce_plane(const struct takeover_calls *calls, char *why, size_t why_len)
{
	uint64_t deadline = clock_now() + TAKEOVER_QUIET_NS;

	if (is_excluded(why, why_len))
		return false;
	control.passing = true;
	while (clock_now() < deadline) {
		if (calls->loop() != 0 || !begin_heard) {
			snprintf(why, why_len, "one of the two data planes is ending");
			break;
		}
		if (find_obstacle(why, why_len))
			continue;
		if (calls->changing()) {
			snprintf(why, why_len, "its configuration is being changed; try again");
			continue;
		}
		engine_stop();
		if (freeze_plane(calls, why, why_len))
			return true;
		engine_start();
	}
	control.passing = false;
	return false;
}

/* ---- the state ---- */

static void
write_client(struct client *client, struct pass_out *out)
{
	attachment_write(client, out);
	if (client->state != CLIENT_ATTACHED)
		return;
	zones_write(client, out);
	memory_write(client, out);
	cqs_write(client, out);
	channels_write(client, out);
	srqs_write(client, out);
	ahs_write(client, out);
	rsm_segments_write(client, out);
	qps_write(client, out);
	listeners_write(client, out);
}

static void
write_attachments(struct pass_out *out)
{
	struct client *client;
	uint32_t num = 0;

	for (int fd; (fd = listening_fd(num)) >= 0; num++)
		pass_fd(out, fd);
	record_append(&out->records, RECORD_START, TAKEOVER_VERSION, num, 0);
	rsm_write(out);
	takeover_common_write(out);
	TAILQ_FOREACH(client, &control.clients, link)
		write_client(client, out);
	conns_write(out);
	engine_ipsec_write(&out->records);
	record_append(&out->records, RECORD_END, TAKEOVER_VERSION, control.attached_ever, 0);
	if (out->records.failed)
		pass_fail(out, "no memory to write down the state");
}

static int
send_state(struct pass_out *out, uint64_t deadline)
{
	int file = takeover_state_seal(&out->records), error = file < 0 ? file : 0;

	for (uint32_t i = 0; i < out->num_fds && error == 0; i += TAKEOVER_FDS) {
		uint32_t num = RTE_MIN(out->num_fds - i, TAKEOVER_FDS);

		error = takeover_say(asked_fd, TAKEOVER_BATCH, num, out->fd + i, num, deadline);
	}
	if (error == 0)
		error = takeover_say(asked_fd, TAKEOVER_STATE, out->num_fds, &file, 1, deadline);
	if (file >= 0)
		close(file);
	return error;
}

/* Waits for the commit.  What has arrived counts, even if this process was stopped beyond the deadline. */
static bool
await_commit(uint64_t deadline, char *why, size_t why_len)
{
	struct takeover_message message;
	int heard = takeover_hear(asked_fd, &message, deadline);

	if (heard == TAKEOVER_COMMIT)
		return true;
	if (heard == TAKEOVER_REFUSED)
		snprintf(why, why_len, "the new data plane refuses: %s", message.text);
	else if (heard == -ETIMEDOUT)
		snprintf(why, why_len, "the new data plane was not ready in time; try again");
	else
		snprintf(why, why_len, "the new data plane has ended");
	return false;
}

static void
refuse_takeover(const char *why)
{
	log_warning("event=takeover_refused text=\"%s\"\n", why);
	if (asked_fd >= 0)
		takeover_refuse(asked_fd, why);
	forget_asker();
}

/* The end of the new process frees the ports that it has opened.  One that hangs must not keep them. */
static void
await_end(int process)
{
	if (takeover_wait(process, POLLIN, clock_now() + TAKEOVER_END_NS) == 0)
		return;
	syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0);
	/* Ports that it still has after that are tried again every second. */
	takeover_wait(process, POLLIN, clock_now() + TAKEOVER_END_NS);
}

/* The refusal comes first: a commit that arrives from now on finds it, even if this process dies. */
static void
take_back(char *why, size_t why_len)
{
	int process = asking_process;

	asking_process = -1;
	refuse_takeover(why);
	if (process >= 0 && !ports_shared)
		await_end(process);
	if (process >= 0)
		close(process);
	if (!ports_shared && engine_ports_reopen(why, why_len) != 0)
		log_error("event=takeover_port text=\"%s\"\n", why);
}

/* The cores are stopped, and the ports are open. */
static bool
pass_on(char *why, size_t why_len)
{
	uint64_t deadline = clock_now() + TAKEOVER_WAIT_NS;
	struct pass_out out;
	bool given = false;
	int error = pass_out_begin(&out);

	takeover_state_begin(&out.records);
	out.context.now = control.now = clock_now();
	if (error == 0)
		write_attachments(&out);
	takeover_step(TAKEOVER_GIVE_WRITTEN);
	if (error != 0 || out.why[0] != '\0') {
		snprintf(why, why_len, "%s", error != 0 ? strerror(-error) : out.why);
		takeover_state_end(&out.records);
		pass_out_end(&out);
		refuse_takeover(why);
		return false;
	}
	if (!ports_shared)
		engine_ports_close();
	takeover_step(TAKEOVER_GIVE_CLOSED);
	error = send_state(&out, deadline);
	takeover_step(TAKEOVER_GIVE_SENT);
	if (error != 0)
		snprintf(why, why_len, "the state cannot be sent: %s", strerror(-error));
	else
		given = await_commit(deadline, why, why_len);
	pass_out_end(&out);
	if (!given)
		take_back(why, why_len);
	return given;
}

/* The cores start again: until the commit, this process has everything. */
static void
go_on(void)
{
	engine_ipsec_release();
	qps_unfreeze();
	engine_start();
	control.passing = false;
}

bool
takeover_give(const struct takeover_calls *calls)
{
	char why[400] = "";

	takeover_step(TAKEOVER_GIVE_ASKED);
	if (!quiesce_plane(calls, why, sizeof(why))) {
		refuse_takeover(why);
		return false;
	}
	takeover_step(TAKEOVER_GIVE_STOPPED);
	if (!pass_on(why, sizeof(why))) {
		go_on();
		return false;
	}
	takeover_step(TAKEOVER_GIVE_COMMITTED);
	takeover_say(asked_fd, TAKEOVER_BYE, calls->committed(asker.pid), NULL, 0, clock_now());
	takeover_step(TAKEOVER_GIVE_ANSWERED);
	log_notice("event=taken_over text=\"another data plane serves now; this one ends\"\n");
	return true;
}
