/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that replaces another. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/base/listening.h"
#include "control/base/log.h"
#include "control/connect/ah.h"
#include "control/connect/connect.h"
#include "control/objects/pass.h"
#include "control/rsm/rsm.h"
#include "control/takeover/common.h"
#include "control/takeover/wire.h"
#include "dataplane/base/clock.h"

#define OFFER_NS (10 * NS_PER_S)
#define STATE_NS (10 * NS_PER_S) /* for the quiet point and the state */
#define ASK "{\"command\":\"take-over\"}"

static int old_fd = -1;
static int old_process = -1; /* a pidfd */
static pid_t old_pid;        /* 0: in another pid namespace */
static struct takeover_offer offer;
static struct pass_in in;
static size_t state_len;
static uint64_t begun, stopped; /* time of the request to stop, and the time since then at the commit */
static bool reload_is_due;

/* ---- before the old process stops ---- */

static int
connect_ctl(const struct config *config)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	config_ctl_path(config, address.sun_path);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The sealed file will contain keys: only the data plane's own user, or root, may give and get it. */
static int
check_owner(char *why, size_t why_len)
{
	struct ucred cred;

	old_process = takeover_peer(old_fd, &cred);
	old_pid = cred.pid;
	if (cred.uid == 0 || cred.uid == geteuid())
		return 0;
	return config_refuse(why, why_len, -EPERM,
			     "the data plane that serves is of user %u; take over as that user, or as root",
			     cred.uid);
}

/* Receives the offer, or a refusal in its place. Returns its size or -errno. */
static int
receive_offer(uint64_t deadline)
{
	int fds[TAKEOVER_FDS];
	uint32_t num = 0;
	int n = takeover_receive_into(old_fd, &offer, sizeof(offer), fds, &num, deadline);

	for (uint32_t i = 1; n > 0 && i < num; i++)
		close(fds[i]);
	if (n > 0 && num > 0)
		engine_ipsec_inherit(fds[0]);
	return n;
}

/* The answer of the control socket comes first: an older data plane, or one that refuses, has only that. */
static int
hear_offer(char *why, size_t why_len)
{
	struct takeover_message refusal;
	char text[1024] = "";
	uint64_t deadline = clock_now() + OFFER_NS;
	int n = takeover_receive_into(old_fd, text, sizeof(text) - 1, NULL, NULL, deadline);

	if (n > 0 && strstr(text, "\"error\"") != NULL)
		return config_refuse(why, why_len, -EBUSY, "the data plane that serves answers: %s", text);
	if (n > 0)
		n = receive_offer(deadline);
	if (n == (int)sizeof(refusal)) {
		memcpy(&refusal, &offer, sizeof(refusal));
		if (refusal.magic == TAKEOVER_MAGIC && refusal.kind == TAKEOVER_REFUSED)
			return config_refuse(why, why_len, -EBUSY,
					     "the data plane that serves goes on: %.299s", refusal.text);
	}
	if (n == (int)sizeof(offer) && offer.magic == TAKEOVER_MAGIC && offer.kind == TAKEOVER_OFFER &&
	    offer.num_ports <= CONFIG_PORTS_MAX)
		return 0;
	return config_refuse(why, why_len, -EPROTO,
			     "the data plane that serves answers in another format; restart it instead");
}

int
takeover_connect(const struct config *config, char *why, size_t why_len)
{
	int error;

	old_fd = connect_ctl(config);
	if (old_fd < 0)
		return 0;
	error = check_owner(why, why_len);
	if (error == 0 && send(old_fd, ASK, strlen(ASK), MSG_NOSIGNAL) < 0)
		error = -errno;
	if (error == 0)
		error = hear_offer(why, why_len);
	takeover_step(TAKEOVER_TAKE_CONNECTED);
	return error != 0 ? error : 1;
}

static int
compare_port(const struct config_port *ours, const struct takeover_port *theirs, char *why, size_t why_len)
{
	uint32_t n = 0;
	bool equal = true;

	if (strncmp(ours->name, theirs->name, sizeof(theirs->name)) != 0)
		return config_refuse(
			why, why_len, -EBUSY,
			"port %s: it is called %.31s in the data plane that serves; restart it instead",
			ours->name, theirs->name);
	if (ours->mtu != 0 && ours->mtu != theirs->mtu)
		return config_refuse(
			why, why_len, -EBUSY,
			"port %s: mtu %u differs from the %u of the data plane that serves; write mtu = %u, or restart it",
			ours->name, ours->mtu, theirs->mtu, theirs->mtu);
	for (; n < CONFIG_ADDRS_MAX && ours->addr[n].family != 0; n++) {
		struct wire_addr addr = wire_addr_of(ours->addr[n].family == AF_INET, ours->addr[n].bytes);

		equal = equal && n < theirs->num_addrs && wire_addr_equal(&addr, &theirs->addr[n]);
	}
	if (equal && n == theirs->num_addrs)
		return 0;
	return config_refuse(
		why, why_len, -EBUSY,
		"port %s: its addresses differ from those of the data plane that serves; write the same, or restart it",
		ours->name);
}

int
takeover_compare(const struct config *config, char *why, size_t why_len)
{
	int error = 0;

	if (offer.version != TAKEOVER_VERSION)
		return config_refuse(
			why, why_len, -EBUSY,
			"the data plane that serves writes format %u, this one reads %u; restart it instead",
			offer.version, TAKEOVER_VERSION);
	if (offer.node != config->node)
		return config_refuse(why, why_len, -EBUSY,
				     "node = %u: the data plane that serves is node %u; write node = %u",
				     config->node, offer.node, offer.node);
	if (offer.num_ports != config->num_ports)
		return config_refuse(
			why, why_len, -EBUSY,
			"%u ports: the data plane that serves has %u; write the same ports, or restart it",
			config->num_ports, offer.num_ports);
	for (uint32_t i = 0; i < offer.num_ports && error == 0; i++)
		error = compare_port(&config->port[i], &offer.port[i], why, why_len);
	return error;
}

/* DPDK numbers the groups of packet sockets of an interface, among which the kernel divides frames, by the
 * lower bits of the process id in its own namespace. */
bool
takeover_may_share_ports(void)
{
	return old_pid > 0 && ((old_pid ^ getpid()) & 0xffff) != 0;
}

bool
takeover_is_physical(void)
{
	return offer.physical != 0;
}

uint16_t
takeover_room(void)
{
	return (uint16_t)offer.room;
}

/* ---- the state ---- */

static int
add_fds(const int *fds, uint32_t num)
{
	int *grown = num <= TAKEOVER_FDS_MAX - in.num_fds
			     ? realloc(in.fd, (in.num_fds + num + 1) * sizeof(*grown))
			     : NULL;

	if (grown == NULL)
		return -ENOMEM;
	in.fd = grown;
	memcpy(in.fd + in.num_fds, fds, num * sizeof(*fds));
	in.num_fds += num;
	return 0;
}

/* The file does not change any more, so each record is checked and used without a copy. */
static int
map_state(int fd, char *why, size_t why_len)
{
	int seals = fcntl(fd, F_GET_SEALS), wanted = F_SEAL_WRITE | F_SEAL_SHRINK;
	struct stat st;
	void *bytes;

	if (seals < 0 || (seals & wanted) != wanted || fstat(fd, &st) != 0 || st.st_size == 0)
		return config_refuse(why, why_len, -EPROTO, "the state is not in a sealed file");
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		return config_refuse(why, why_len, -ENOMEM, "no memory for the state");
	state_len = (size_t)st.st_size;
	in.records = (struct record_in){.bytes = bytes, .length = state_len};
	return 0;
}

/* Returns the kind of the message, or -errno. */
static int
receive_one(int *state, char *why, size_t why_len)
{
	struct takeover_message message;
	int fds[TAKEOVER_FDS];
	uint32_t num = 0;
	int n = takeover_receive_into(old_fd, &message, sizeof(message), fds, &num, clock_now() + STATE_NS);

	if (n == -EPIPE)
		return n;
	if (n == -EMFILE)
		return config_refuse(why, why_len, n,
				     "no descriptors left for those of the attachments; raise LimitNOFILE");
	if (n != (int)sizeof(message) || message.magic != TAKEOVER_MAGIC)
		return config_refuse(why, why_len, -EPROTO, "the data plane that serves does not answer");
	message.text[sizeof(message.text) - 1] = '\0';
	if (message.kind == TAKEOVER_REFUSED)
		return config_refuse(why, why_len, -EBUSY, "the data plane that serves goes on: %s",
				     message.text);
	if (message.kind == TAKEOVER_BATCH && add_fds(fds, num) == 0)
		return TAKEOVER_BATCH;
	if (message.kind != TAKEOVER_STATE || num != 1 || message.count != in.num_fds)
		return config_refuse(why, why_len, -EPROTO, "descriptors are missing (raise LimitNOFILE)");
	*state = fds[0];
	return TAKEOVER_STATE;
}

/* Checks the whole stream once, before anything is made: bounds, types, versions and the end. */
static int
check_stream(char *why, size_t why_len)
{
	struct record_in at = in.records;
	struct record record = {.head = {.type = 0}};
	int more;

	while ((more = record_take(&at, &record)) > 0)
		if (record.head.type == 0 || record.head.type >= RECORD_TYPES || !record_is_known(&record))
			return config_refuse(
				why, why_len, -EPROTO,
				"the state has a record of type %u, version %u and %u bytes, which this version does not know; restart instead",
				record.head.type, record.head.version, record.head.length);
	if (more == 0 && record.head.type == RECORD_END)
		return 0;
	return config_refuse(why, why_len, -EPROTO, "the state is cut off");
}

static int
take_listening(char *why, size_t why_len)
{
	struct record record;

	pass_in_begin(&in);
	if (pass_take(&in, RECORD_START, &record) != 0 || record.head.version != TAKEOVER_VERSION ||
	    record.head.id > LISTENING_MAX)
		return config_refuse(why, why_len, -EPROTO, "the state begins with another record");
	for (uint64_t i = 1; i <= record.head.id; i++) {
		int fd = pass_take_fd(&in, i);

		if (fd < 0 || !listening_inherit(fd))
			return config_refuse(why, why_len, -EPROTO, "a listening socket is missing");
	}
	return 0;
}

/* Sockets of applications stay open as long as a descriptor of them is.  A process that dies closes its
 * descriptors one after the other: its listening sockets may still be open when this connection is not. */
static int
nothing_to_take(void)
{
	struct pollfd death = {.fd = old_process, .events = POLLIN};

	(void)poll(&death, 1, old_process < 0 ? 0 : (int)(TAKEOVER_LAST_NS / NS_PER_MS));
	for (uint32_t i = 0; i < in.num_fds; i++)
		close(in.fd[i]);
	free(in.fd);
	in = (struct pass_in){.fd = NULL};
	close(old_fd);
	if (old_process >= 0)
		close(old_process);
	old_fd = old_process = -1;
	return 0;
}

int
takeover_receive(bool ports_open, char *why, size_t why_len)
{
	int state = -1, heard, error;

	slab_reserve(offer.size, RTE_MIN(offer.num_sizes, TAKEOVER_SIZES));
	takeover_step(TAKEOVER_TAKE_PREPARED);
	begun = clock_now();
	if (takeover_say(old_fd, TAKEOVER_BEGIN, ports_open, NULL, 0, clock_now()) != 0)
		return nothing_to_take();
	do
		heard = receive_one(&state, why, why_len);
	while (heard == TAKEOVER_BATCH);
	if (heard == -EPIPE)
		return nothing_to_take();
	if (heard < 0)
		return heard;
	error = map_state(state, why, why_len);
	if (error == 0)
		error = check_stream(why, why_len);
	if (error == 0)
		error = take_listening(why, why_len);
	takeover_step(TAKEOVER_TAKE_RECEIVED);
	return error != 0 ? error : 1;
}

/* ---- building ---- */

static int
read_client(void)
{
	struct client *client = attachment_read(&in);
	int error = client == NULL ? -EINVAL : 0;

	if (error != 0 || client->state != CLIENT_ATTACHED)
		return error;
	/* In the order of doc/upgrade.md: no object comes before one that it refers to. */
	error = zones_read(client, &in);
	if (error == 0)
		error = memory_read(client, &in);
	if (error == 0)
		error = cqs_read(client, &in);
	if (error == 0)
		error = channels_read(client, &in);
	if (error == 0)
		error = srqs_read(client, &in);
	if (error == 0)
		error = ahs_read(client, &in);
	if (error == 0)
		error = rsm_segments_read(client, &in);
	if (error == 0)
		error = qps_read(client, &in);
	if (error == 0)
		error = listeners_read(client, &in);
	attachment_relink(client);
	return error;
}

static int
read_ipsec(void)
{
	struct record record;

	while (pass_is(&in, RECORD_ESP_SA))
		if (pass_take(&in, RECORD_ESP_SA, &record) != 0 || engine_ipsec_read(&record) != 0)
			return pass_refuse(
				&in,
				"a security association has a record that does not agree with the file of its sequence numbers");
	return 0;
}

static int
read_all(struct config *config)
{
	struct record record;
	struct client *client;
	int error;

	in.context.now = control.now = clock_now();
	error = rsm_read(&in);
	if (error == 0)
		error = takeover_common_read(&in, config);
	while (error == 0 && pass_is(&in, RECORD_CLIENT_FDS))
		error = read_client();
	table_relink(&control.pz_numbers);
	if (error == 0)
		error = conns_read(&in);
	if (error == 0)
		error = read_ipsec();
	if (error == 0)
		error = pass_take(&in, RECORD_END, &record);
	if (error != 0)
		return error;
	control.attached_ever = record.head.id;
	TAILQ_FOREACH(client, &control.clients, link) {
		/* Connection requests, made after all clients. */
		table_relink(&client->table[OBJECT_CR]);
		qps_go_on(client);
	}
	return 0;
}

/* Connections keep their path MTU, for which ESP may leave no room. */
static int
compare_opened(const struct engine_port_info *ours, const struct takeover_port *theirs, char *why,
	       size_t why_len)
{
	if (ours->mtu != theirs->mtu)
		return config_refuse(why, why_len, -EBUSY, "port %s: mtu %u, and before %u", ours->name,
				     ours->mtu, theirs->mtu);
	if (control.config->num_ipsec > 0 && ours->path_mtu < theirs->path_mtu)
		return config_refuse(
			why, why_len, -EMSGSIZE,
			"port %s: with [ipsec] sections its path MTU is %u, and connections have up to %u; write a larger mtu, or restart the data plane",
			ours->name, ours->path_mtu, theirs->path_mtu);
	return 0;
}

int
takeover_build(struct config *config, char *why, size_t why_len)
{
	int error = 0;

	takeover_step(TAKEOVER_TAKE_OPENED);
	for (uint32_t i = 0; i < offer.num_ports && error == 0; i++)
		error = compare_opened(engine_port(i), &offer.port[i], why, why_len);
	if (error != 0)
		return error;
	error = read_all(config);
	for (uint32_t i = 0; i < offer.num_ports; i++)
		path_link_inherit(&path_port[i], offer.port[i].link_reported != 0);
	if (error != 0)
		return config_refuse(why, why_len, error, "the state is refused: %s", in.why);
	error = engine_ipsec_begin(why, why_len);
	if (error != 0)
		return error;
	munmap((void *)(uintptr_t)in.records.bytes, state_len);
	free(in.fd);
	takeover_step(TAKEOVER_TAKE_BUILT);
	return 0;
}

/* ---- the commit ---- */

/* The old process answers, or it has ended, or is ended: never two.  Its sockets close when its cores have
 * ended; so this one waits for that, even if it cannot end it: in another pid namespace, for example. */
static int
hear_end(char *why, size_t why_len)
{
	struct takeover_message message;
	int heard = takeover_hear(old_fd, &message, clock_now() + TAKEOVER_LAST_NS);

	if (heard == -ETIMEDOUT) {
		log_warning(
			"event=takeover_silent text=\"the old data plane does not answer the commit; it is killed\" remedy=\"kill it if this process does not serve soon\"\n");
		if (old_process >= 0)
			syscall(SYS_pidfd_send_signal, old_process, SIGKILL, NULL, 0);
		heard = takeover_hear(old_fd, &message, UINT64_MAX);
	}
	if (heard == TAKEOVER_REFUSED)
		return config_refuse(why, why_len, -EBUSY, "the data plane that serves goes on: %s",
				     message.text);
	reload_is_due = heard == TAKEOVER_BYE && message.count != 0;
	return 0;
}

int
takeover_commit(char *why, size_t why_len)
{
	int error;

	/* A core that ran before the commit would take work and frames that the old process, which may go on,
	 * knows nothing of. */
	if (!engine_cores_respond())
		return config_refuse(why, why_len, -EBUSY, "a polling core does not run");
	takeover_step(TAKEOVER_TAKE_READY);
	takeover_say(old_fd, TAKEOVER_COMMIT, 0, NULL, 0, clock_now());
	error = hear_end(why, why_len);
	if (error != 0)
		return error;
	takeover_step(TAKEOVER_TAKE_COMMITTED);
	close(old_fd);
	close(old_process);
	old_fd = old_process = -1;
	listening_commit();
	engine_ipsec_release();
	stopped = clock_now() - begun;
	return 0;
}

void
takeover_finish(void)
{
	struct client *client;

	TAILQ_FOREACH(client, &control.clients, link)
		if (client->state == CLIENT_ATTACHED)
			memory_populate(client);
}

bool
takeover_reload_is_due(void)
{
	return reload_is_due;
}

uint64_t
takeover_stopped_ns(void)
{
	return stopped;
}
