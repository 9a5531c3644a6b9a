/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread between hostile applications and a hostile network: sequences of requests, with handles
 * of present and former objects; frames; reports of the cores; the clock. In the end nothing is left, and
 * every object was put on its core and taken off in the right order. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jansson.h>

#include "control/cm/cm_internal.h"
#include "control/cm/cm_mad.h"
#include "control/ctl/request.h"
#include "control/objects/objects.h"
#include "control/objects/qp.h"
#include "control/rsm/rsm_wire.h"
#include "messages.h"

#define APPS 2
#define FDS 4u
#define TIME_LOG2_MAX 34u
#define VA 0x10000000ull
#define SECONDS 6 /* covers all retries of address resolution */

static struct {
	int fd; /* -1: not attached */
	uint32_t requests;
	uint32_t number;               /* of its struct client */
	uint32_t asked[ONE_CALLS_MAX]; /* types of the last requests, by number; 0: answered */
} app[APPS];
static int files[FDS]; /* sent by applications: memory of different sizes and seals, sockets */

static struct client *
client_of(uint32_t which)
{
	struct client *client;

	TAILQ_FOREACH(client, &control.clients, link)
		if (app[which].fd >= 0 && client->number == app[which].number &&
		    client->state <= CLIENT_ATTACHED)
			return client;
	return NULL;
}

static void
leave(uint32_t which)
{
	if (app[which].fd >= 0)
		close(app[which].fd);
	app[which].fd = -1;
	stage_run();
}

/* Fails unless the reply belongs to a request that was not answered before. */
static void
check_reply(uint32_t which, const struct one_reply *reply)
{
	uint32_t *asked = &app[which].asked[reply->seq % ONE_CALLS_MAX];

	if (reply->seq - 1 >= app[which].requests || app[which].requests - reply->seq >= ONE_CALLS_MAX ||
	    *asked == 0 || *asked != reply->type)
		fuzz_fail("this is no reply to a request");
	*asked = 0;
}

/* Takes a reply; false: there is none. End of file ends the attachment. */
static bool
take_reply(uint32_t which)
{
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct one_reply reply;
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = &ancillary,
				.msg_controllen = sizeof(ancillary)};
	ssize_t n = recvmsg(app[which].fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg;
	int fds[4];

	if (n < 0)
		return false;
	if (n == 0) {
		leave(which);
		return false;
	}
	if (n != (ssize_t)sizeof(reply))
		fuzz_fail("this is no reply");
	check_reply(which, &reply);
	cmsg = CMSG_FIRSTHDR(&header);
	if (cmsg == NULL)
		return true;
	n = (ssize_t)(cmsg->cmsg_len - CMSG_LEN(0));
	memcpy(fds, CMSG_DATA(cmsg), (size_t)n);
	for (size_t i = 0; i < (size_t)n / sizeof(int); i++)
		close(fds[i]);
	return true;
}

static void
take_replies(uint32_t which)
{
	while (take_reply(which))
		;
}

static void
wait_for_replies(uint32_t which)
{
	for (int i = 0; i < SECONDS; i++)
		stage_pass(NS_PER_S);
	take_replies(which);
}

static void
send_message(uint32_t which, struct one_msg *msg, size_t len, uint32_t num_fds, uint32_t first)
{
	union {
		char bytes[CMSG_SPACE(16 * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec iov = {msg, len};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

	memset(&ancillary, 0, sizeof(ancillary));
	if (num_fds > 0) {
		struct cmsghdr *cmsg = &ancillary.align;

		header.msg_control = &ancillary;
		header.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
		for (uint32_t i = 0; i < num_fds; i++)
			((int *)(void *)CMSG_DATA(cmsg))[i] = files[(first + i) % FDS];
	}
	msg->seq = ++app[which].requests;
	if (app[which].asked[msg->seq % ONE_CALLS_MAX] != 0) { /* the reply waits for silent neighbours */
		wait_for_replies(which);
		if (client_of(which) == NULL && msg->type != ONE_MSG_HELLO)
			return;
	}
	app[which].asked[msg->seq % ONE_CALLS_MAX] = msg->type;
	if (sendmsg(app[which].fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		leave(which);
		return;
	}
	stage_run();
	take_replies(which);
}

static void
attach(uint32_t which, enum one_kind kind)
{
	struct one_msg msg = {.type = ONE_MSG_HELLO};
	const struct client *client;

	app[which].fd = stage_connect(stage_config.socket);
	app[which].requests = 0;
	memset(app[which].asked, 0, sizeof(app[which].asked));
	client = TAILQ_LAST(&control.clients, client_list);
	if (client == NULL) {
		leave(which);
		return;
	}
	app[which].number = client->number;
	msg.hello = (struct one_hello){.magic = ONE_MSG_MAGIC, .version = ONE_ABI_VERSION, .kind = kind};
	send_message(which, &msg, sizeof(msg), 0, 0);
}

static void
request(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1) % APPS, type = (uint32_t)record_number(record, 1);
	uint8_t fds = (uint8_t)record_number(record, 1);
	struct client *client = client_of(which);
	struct one_msg msg;

	if (client == NULL)
		return;
	if (client->request != CLIENT_REQUEST_NONE && (fds & 0x80) == 0)
		wait_for_replies(which);
	client = client_of(which);
	if (client == NULL)
		return;
	memset(&msg, 0, sizeof(msg));
	message_fill(&msg, client, type % (ONE_MSG_MAX + 1), record);
	send_message(which, &msg, sizeof(msg), fds % 16 < 12 ? fds % 16 % 3 : fds % 16, fds >> 4 & 7u);
}

static void
raw_request(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1) % APPS;
	size_t len = record_number(record, 1) == 0xff ? record_number(record, 1) + 1 : sizeof(struct one_msg);
	struct one_msg msg;

	if (client_of(which) == NULL)
		return;
	memset(&msg, 0, sizeof(msg));
	msg.type = (uint32_t)record_number(record, 1) % ONE_MSG_MAX;
	record_fill(record, msg.bytes, sizeof(msg.bytes));
	send_message(which, &msg, len, 0, 0);
}

static void
come_or_go(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1) % APPS;
	enum one_kind kind = (enum one_kind)(1 + record_number(record, 1) % 3);

	if (app[which].fd >= 0)
		leave(which);
	else
		attach(which, kind);
}

/* ---- the network ---- */

static struct wire_addr
peer(uint8_t last)
{
	return (struct wire_addr){{[10] = 0xff, 0xff, 192, 0, 2, last}};
}

/* Hands up a MAD in a frame, as a core does. */
static void
give_mad(const uint8_t mad[CM_MAD_LEN], uint8_t from)
{
	uint8_t frame[512];
	const struct wire_path path = {.src = peer(from), .dst = peer(1), .ttl = 64, .udp_src_port = 0xc000};
	struct wire_build b = {.opcode = WIRE_UD_SEND_ONLY,
			       .qpn = 1,
			       .src_qpn = 1,
			       .qkey = WIRE_QKEY_GSI,
			       .payload_len = CM_MAD_LEN};
	struct wire_template template;
	struct wire_packet packet;
	uint32_t len;

	wire_template_init(&template, &path);
	len = wire_frame_len(&template, b.opcode, CM_MAD_LEN);
	memcpy(wire_build(&template, &b, frame), mad, CM_MAD_LEN);
	wire_seal(frame, len);
	if (wire_parse(frame, len, &packet) != WIRE_OK)
		fuzz_fail("a frame of ours is none");
	path_frame(0, frame, len, &packet);
	stage_run();
}

/* Inputs a request to connect to an existing listener or segment. */
static void
connect_request(struct bytes *record)
{
	uint8_t from = 2 + (uint8_t)record_number(record, 1) % 2, bytes[CM_MAD_LEN];
	uint8_t what = (uint8_t)record_number(record, 1);
	struct cm_ip_header header = {4321, peer(from), peer(1)};
	struct cm_mad mad = {.attribute = CM_REQ, .tid = 99};
	struct rsm_req rsm = {.order = RSM_LITTLE};

	mad.local_id = (uint32_t)record_number(record, 1) + 1;
	mad.req = (struct cm_req){.guid = from,
				  .qpn = (uint32_t)record_number(record, 1) + 2,
				  .psn = 5,
				  .responder_resources = 4,
				  .initiator_depth = (uint8_t)record_number(record, 1),
				  .remote_response_timeout = 20,
				  .local_response_timeout = 20,
				  .ack_timeout = 17,
				  .retry_count = 7,
				  .rnr_retry = 7,
				  .max_cm_retries = 15,
				  .pkey = 0xffff,
				  .mtu = 3,
				  .local_lid = 0xffff,
				  .remote_lid = 0xffff,
				  .hop_limit = 64};
	memcpy(mad.req.local_gid, peer(from).gid, 16);
	memcpy(mad.req.remote_gid, peer(1).gid, 16);
	if (what >= 0x80) {
		mad.req.service_id = CM_SERVICE_RSM(message_segment(what & 7));
		rsm.who.node = (what & 0x40) != 0 ? 1 : from;
		rsm.segment = message_segment(what & 7);
		rsm.permission = (uint32_t)record_number(record, 2);
		rsm.who.uid = (uint32_t)record_number(record, 1);
		rsm.who.num_groups = (uint32_t)record_number(record, 1) % (ACL_GROUPS + 1);
		rsm.incarnation = record_number(record, 1);
		rsm.secret = (what & 0x10) != 0;
		rsm_req_build(&rsm, mad.private_data);
	} else {
		mad.req.service_id = CM_SERVICE_TCP(what);
		cm_ip_header_build(&header, mad.private_data);
	}
	while (record->left >= 2) {
		uint8_t at = (uint8_t)record_number(record, 1);

		if (at < sizeof(mad.private_data))
			mad.private_data[at] = (uint8_t)record_number(record, 1);
	}
	if ((what & 0x20) != 0)
		cm_announce_req_build(&mad,
				      &(struct cm_announce){WIRE_CAPABILITY_SELECTIVE_REPEAT |
								    WIRE_CAPABILITY_STEERED |
								    WIRE_CAPABILITY_PACKED,
							    {(uint8_t)what, (uint16_t)(what << 8 | 0xc000)},
							    (uint16_t)(what * CM_MTU_UNIT),
							    56},
				      mad.private_data, 92);
	cm_mad_build(&mad, bytes);
	give_mad(bytes, from);
}

/* Inputs any MAD, with the ids of a connection if the MAD is to be a message of that connection. */
static void
mad(struct bytes *record)
{
	uint8_t from = 2 + (uint8_t)record_number(record, 1) % 2, which = (uint8_t)record_number(record, 1);
	const struct cm_conn *conn;
	uint8_t bytes[CM_MAD_LEN];
	uint32_t i = 0, id, tid[2];

	record_fill(record, bytes, sizeof(bytes));
	LIST_FOREACH(conn, &path_port[0].cm->conns, all) {
		if (i++ != (which & 7u) || (which & 8) == 0)
			continue;
		from = conn->path.dst.gid[15];
		bytes[0] = 1;
		bytes[1] = 7;
		bytes[2] = 2;
		bytes[3] = 3;
		tid[0] = htonl((uint32_t)(conn->tid >> 32));
		tid[1] = htonl((uint32_t)conn->tid);
		memcpy(bytes + 8, tid, sizeof(tid));
		bytes[16] = 0;
		bytes[17] = (uint8_t)(CM_REQ + (which >> 4) % 7);
		id = htonl(conn->remote_id != 0 ? conn->remote_id : 0x4444);
		memcpy(bytes + 24, &id, sizeof(id));
		id = htonl(conn->local_id);
		memcpy(bytes + 28, &id, sizeof(id));
	}
	if (from != 1)
		give_mad(bytes, from);
}

/* Inputs a frame that is not RoCE, in a buffer of exact size. */
static void
frame(struct bytes *record)
{
	uint32_t len = (uint32_t)record->left;
	uint8_t *bytes = malloc(len > 0 ? len : 1);

	record_fill(record, bytes, len);
	path_frame(0, bytes, len, NULL);
	free(bytes);
	stage_run();
}

/* ---- the cores ---- */

static uint32_t
qpn_of(uint8_t which)
{
	struct client *client = client_of(which % APPS);
	const struct table *table = client != NULL ? &client->table[OBJECT_QP] : NULL;
	uint32_t n = which / APPS % 8;

	for (uint32_t i = 0; table != NULL && i < table->size; i++)
		if (table_at(table, i) != NULL && n-- == 0)
			return ((const struct qp *)table_at(table, i))->config.qpn;
	return 0;
}

static void
core(struct bytes *record)
{
	uint32_t qpn = qpn_of((uint8_t)record_number(record, 1));
	uint8_t what = (uint8_t)record_number(record, 1) % 8;
	struct engine_bind bind = {.addr = VA};

	if (what == 7) {
		fake_fault_first_client();
	} else if (what == 6) {
		fake_guard_first_region();
	} else if (what == 5) {
		fake_refuse((enum engine_command_type)(1 + record_number(record, 1) % ENGINE_CHANNEL_FD),
			    -ENOMEM);
	} else if (what == 4) {
		struct client *client = client_of(0);
		const struct table *mws = client != NULL ? &client->table[OBJECT_MW] : NULL;
		const struct table *mrs = client != NULL ? &client->table[OBJECT_MR] : NULL;

		if (mws != NULL && mws->used > 0 && table_at(mws, 0) != NULL)
			bind.key = ((const struct mw *)table_at(mws, 0))->entry->key +
				   (uint32_t)record_number(record, 1);
		bind.flags = (uint32_t)record_number(record, 2);
		bind.addr += record_number(record, 2);
		bind.length = record_number(record, 2);
		if (mrs != NULL && mrs->used > 0 && table_at(mrs, 0) != NULL &&
		    ((const struct mr *)table_at(mrs, 0))->entry != NULL)
			bind.lkey = ((const struct mr *)table_at(mrs, 0))->entry->key;
		fake_bind(qpn, &bind);
	} else {
		static const enum engine_event_type types[] = {ENGINE_EVENT_FAILED, ENGINE_EVENT_ESTABLISHED,
							       ENGINE_EVENT_DRAINED, ENGINE_EVENT_FAILED};

		fake_raise(qpn, types[what], 1 + what % 2);
	}
	stage_run();
}

/* ---- the control socket ---- */

/* True for commands that end the data plane, or concern its files or log; other tests cover them. */
static bool
is_left_out(const char *text, size_t len)
{
	struct ctl_request request;
	char why[256];

	return ctl_parse(text, len, &request, why, sizeof(why)) == 0 &&
	       (request.command == CTL_DRAIN || request.command == CTL_RELOAD ||
		request.command == CTL_LOG_LEVEL || request.command == CTL_UPGRADE);
}

static void
ask(struct bytes *record)
{
	static char answer[1 << 17];
	size_t len = record->left;
	json_t *said;
	ssize_t n;
	int fd;

	if (len == 0 || len > CTL_REQUEST_MAX || is_left_out((const char *)record->at, len))
		return;
	fd = stage_connect(stage_ctl);
	if (send(fd, record->at, len, MSG_NOSIGNAL) == (ssize_t)len)
		stage_pass(NS_PER_S / 10);
	n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
	said = n > 0 ? json_loadb(answer, (size_t)n, 0, NULL) : NULL;
	if (n > 0 && !json_is_object(said))
		fuzz_fail("an answer that is no JSON object");
	json_decref(said);
	close(fd);
	stage_run();
}

static void
pass(struct bytes *record)
{
	stage_pass(1ull << record_number(record, 1) % TIME_LOG2_MAX);
	for (uint32_t i = 0; i < APPS; i++)
		if (app[i].fd >= 0)
			take_replies(i);
}

static void
files_open(void)
{
	int pair[2];

	if (files[0] != 0)
		return;
	for (uint32_t i = 0; i < 3; i++) {
		files[i] = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (files[i] < 0 || fallocate(files[i], 0, 0, 65536 << i) != 0)
			fuzz_fail("no file in memory");
	}
	fcntl(files[0], F_ADD_SEALS, F_SEAL_SHRINK);
	fcntl(files[1], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		fuzz_fail("no sockets");
	files[3] = pair[0];
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(struct bytes *) = {
		request, request, request, raw_request, come_or_go, connect_request,
		mad,     frame,   core,    pass,        ask};
	struct bytes input = {data, size}, record;
	struct fake_event events[64];
	static struct config before;

	stage_start();
	config_copy(&before, &stage_config);
	files_open();
	messages_begin();
	for (uint32_t i = 0; i < APPS; i++)
		attach(i, i == 0 ? ONE_KIND_DAT : ONE_KIND_RSM);
	while (record_next(&input, &record))
		kinds[record_number(&record, 1) % (sizeof(kinds) / sizeof(kinds[0]))](&record);
	for (uint32_t i = 0; i < APPS; i++)
		leave(i);
	stage_clear();
	config_release(&stage_config);
	stage_config = before;
	while (fake_events(events, 64) == 64)
		;
	return 0;
}
