/* SPDX-License-Identifier: BSD-3-Clause */
/* The mock's thread, its attachments, and their requests. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

static void
put_new_cq(struct mock *mock, struct mock_client *client, uint32_t entries, struct one_cq_created *out,
	   struct mock_object *cq)
{
	uint32_t log2 = 0;

	/* one more than requested: room for ONE_CQE_SWITCHED */
	while (1u << log2 < entries + 1)
		log2++;
	mock_check(log2 <= ONE_RING_LOG2_MAX, "CQ too large");
	out->cq = cq->id;
	out->log2 = log2;
	out->offset = mock_arena_alloc(client, sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << log2));
	if (cq->cq.bundle == NULL) {
		out->bundle = (uint32_t)mock_arena_alloc(client, sizeof(struct one_cq_bundle));
		cq->cq.bundle = (void *)(client->arena + out->bundle);
		atomic_store(&cq->cq.bundle->rings, 1);
	}
	cq->cq.log2 = log2;
	cq->cq.shm = (void *)(client->arena + out->offset);
	cq->cq.ring = (void *)(client->arena + out->offset + sizeof(struct one_cq_shm));
	cq->cq.tail = 0;
	cq->cq.notified = 0;
	cq->cq.solicited = 0;
}

uint64_t
mock_arena_alloc(struct mock_client *client, uint64_t size)
{
	uint64_t at = client->used;

	client->used += (size + 63) / 64 * 64;
	mock_check(client->used <= ONE_ARENA_SIZE, "arena full");
	return at;
}

struct mock_object *
mock_object_new(struct mock *mock, struct mock_client *client, enum one_msg_type type)
{
	struct mock_object *o = calloc(1, sizeof(*o));

	mock_check(o != NULL, "memory");
	o->id = ++mock->last_id;
	o->type = type;
	o->client = client;
	o->next = mock->objects;
	mock->objects = o;
	mock->newest[type] = o->id;
	return o;
}

struct mock_object *
mock_object(struct mock *mock, uint32_t id, enum one_msg_type type)
{
	for (struct mock_object *o = mock->objects; o != NULL; o = o->next) {
		if (o->id == id && o->type == type)
			return o;
	}
	return NULL;
}

static void
object_release(struct mock_object *o)
{
	if (o->type == ONE_MSG_REGION_ADD && o->region.base != NULL)
		munmap(o->region.base, o->region.size);
	else if (o->type == ONE_MSG_REGION_ADD)
		close(o->region.fd);
	if (o->type == ONE_MSG_CHANNEL_OPEN)
		close(o->channel.fd);
	if (o->type == ONE_MSG_MR_CREATE && o->mr.base != NULL)
		munmap(o->mr.base, o->mr.size);
	free(o);
}

static bool
object_free(struct mock *mock, uint32_t id, enum one_msg_type type)
{
	for (struct mock_object **at = &mock->objects; *at != NULL; at = &(*at)->next) {
		struct mock_object *o = *at;

		if (o->id == id && o->type == type) {
			*at = o->next;
			object_release(o);
			return true;
		}
	}
	return false;
}

static struct mock_client *
client_new(struct mock *mock, int sock)
{
	struct mock_client *client = calloc(1, sizeof(*client));
	struct one_arena *header;

	mock_check(client != NULL, "memory");
	client->mock = mock;
	client->sock = sock;
	client->arena_fd = memfd_create("mock-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mock_check(client->arena_fd >= 0 && client->wake_fd >= 0 &&
			   ftruncate(client->arena_fd, (off_t)ONE_ARENA_SIZE) == 0 &&
			   fcntl(client->arena_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0,
		   "arena");
	client->arena = mmap(NULL, ONE_ARENA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			     client->arena_fd, 0);
	mock_check(client->arena != MAP_FAILED, "mmap of the arena");
	client->used = 4096;
	header = (void *)client->arena;
	header->magic = ONE_ARENA_MAGIC;
	header->version = ONE_ABI_VERSION;
	header->size = ONE_ARENA_SIZE;
	header->doorbells = mock_arena_alloc(client, sizeof(struct one_doorbells));
	header->channels = mock_arena_alloc(client, ONE_CHANNELS * sizeof(struct one_channel));
	header->keys = mock_arena_alloc(client, sizeof(struct one_keys));
	client->header = header;
	client->doorbells = (void *)(client->arena + header->doorbells);
	client->channels = (void *)(client->arena + header->channels);
	client->keys = (void *)(client->arena + header->keys);
	atomic_store(&header->engine_asleep, mock->renewable);
	client->next = mock->clients;
	mock->clients = client;
	mock->num_clients++;
	return client;
}

static void
client_free(struct mock *mock, struct mock_client *client)
{
	struct mock_client **at = &mock->clients;
	struct mock_object **o = &mock->objects;

	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	mock->num_clients--;
	while (*o != NULL) {
		struct mock_object *gone = *o;

		if (gone->client == client) {
			*o = gone->next;
			object_release(gone);
		} else {
			o = &gone->next;
		}
	}
	munmap(client->arena, ONE_ARENA_SIZE);
	close(client->arena_fd);
	close(client->wake_fd);
	close(client->sock);
	free(client);
}

static void
handle_hello(struct mock *mock, struct mock_client *client, const struct one_msg *msg,
	     struct one_reply *reply)
{
	struct mock_object *cq;
	struct one_cq_created made;

	if (msg->hello.magic != ONE_MSG_MAGIC || msg->hello.version != ONE_ABI_VERSION) {
		reply->error = -EPROTO;
		reply->subject = ONE_SUBJECT_VERSION;
		return;
	}
	if (msg->hello.port[0] != '\0' &&
	    strncmp(msg->hello.port, mock->welcome.port, sizeof(msg->hello.port)) != 0) {
		reply->error = -ENODEV;
		reply->subject = ONE_SUBJECT_PORT;
		return;
	}
	cq = mock_object_new(mock, client, ONE_MSG_CQ_CREATE);
	put_new_cq(mock, client, 255, &made, cq);
	client->async_cq = cq->id;
	reply->welcome = mock->welcome;
	reply->welcome.async_cq = made.cq;
	reply->welcome.async_cq_log2 = made.log2;
	reply->welcome.async_cq_offset = made.offset;
	reply->welcome.async_cq_bundle = made.bundle;
	client->greeted = true;
}

static uint32_t
ring_log2(uint32_t wr, uint32_t sge)
{
	uint32_t log2 = 0;

	while (1u << log2 < wr * one_wqe_slots(sge))
		log2++;
	mock_check(log2 <= ONE_RING_LOG2_MAX, "work ring too large");
	return log2;
}

static void
handle_qp_create(struct mock *mock, struct mock_client *client, enum one_msg_type type,
		 const struct one_qp_create *args, struct one_qp_created *out)
{
	struct mock_object *o = mock_object_new(mock, client, type);
	struct mock_qp *qp = &o->qp;

	o->type = ONE_MSG_QP_CREATE;
	qp->args = *args;
	out->qp = o->id;
	out->qpn = 0x100 + o->id;
	out->doorbell = client->next_doorbell++;
	mock_check(out->doorbell < ONE_QPS_MAX, "too many queue pairs");
	out->sq_log2 = ring_log2(args->max_send_wr, args->max_send_sge);
	out->rq_log2 = ring_log2(args->max_recv_wr, args->max_recv_sge);
	out->shm = mock_arena_alloc(client, sizeof(struct one_qp_shm));
	out->sq = mock_arena_alloc(client, sizeof(struct one_wqe) << out->sq_log2);
	out->rq = mock_arena_alloc(client, sizeof(struct one_wqe) << out->rq_log2);
	qp->doorbell = out->doorbell;
	qp->shm = (void *)(client->arena + out->shm);
	qp->sq = (struct mock_ring){.ring = (void *)(client->arena + out->sq), .log2 = out->sq_log2};
	qp->rq = (struct mock_ring){.ring = (void *)(client->arena + out->rq), .log2 = out->rq_log2};
}

static void
handle_resize(struct mock *mock, struct mock_client *client, const struct one_cq_resize *args,
	      struct one_reply *reply)
{
	struct mock_object *cq = mock_object(mock, args->cq, ONE_MSG_CQ_CREATE);
	struct one_cqe last = {.type = ONE_CQE_SWITCHED};

	if (cq == NULL) {
		reply->error = -EINVAL;
		reply->subject = ONE_SUBJECT_CQ_RECV;
		return;
	}
	mock_cq_store(cq, &last);
	put_new_cq(mock, client, args->entries, &reply->cq, cq);
}

static void
handle_reset(struct mock *mock, uint32_t id, struct one_reply *reply)
{
	struct mock_object *o = mock_object(mock, id, ONE_MSG_QP_CREATE);
	struct one_wqe wqe;

	if (o == NULL) {
		reply->error = -EINVAL;
		reply->subject = ONE_SUBJECT_QP;
		return;
	}
	while (mock_ring_take(&o->qp.sq, &wqe, NULL))
		;
	o->qp.sq.done = o->qp.sq.taken;
	mock_qp_store(&o->qp);
	atomic_store(&o->qp.shm->state, ONE_QP_IDLE);
}

static void
handle_srq_swap(struct mock *mock, const struct one_srq_swap *args, struct one_reply *reply)
{
	struct mock_object *one = mock_object(mock, args->srq, ONE_MSG_SRQ_CREATE);
	struct mock_object *other = mock_object(mock, args->other, ONE_MSG_SRQ_CREATE);
	struct mock_ring was;

	if (one == NULL || other == NULL) {
		reply->error = -EINVAL;
		reply->subject = ONE_SUBJECT_SRQ;
		return;
	}
	was = one->srq.rq;
	one->srq.rq.ring = other->srq.rq.ring;
	one->srq.rq.log2 = other->srq.rq.log2;
	other->srq.rq.ring = was.ring;
	other->srq.rq.log2 = was.log2;
}

static void
handle_free(struct mock *mock, uint32_t id, enum one_msg_type type, enum one_subject subject,
	    struct one_reply *reply)
{
	if (!object_free(mock, id, type)) {
		reply->error = -EINVAL;
		reply->subject = subject;
	}
}

static void
handle_default(struct mock *mock, struct mock_client *client, const struct one_msg *msg, const int *fds,
	       uint32_t num_fds, struct one_reply *reply)
{
	struct one_qp_create import;
	struct mock_object *o;

	switch ((enum one_msg_type)msg->type) {
	case ONE_MSG_HELLO:
		handle_hello(mock, client, msg, reply);
		break;
	case ONE_MSG_PZ_CREATE:
		reply->id.id = mock_object_new(mock, client, ONE_MSG_PZ_CREATE)->id;
		break;
	case ONE_MSG_PZ_FREE:
		handle_free(mock, msg->id.id, ONE_MSG_PZ_CREATE, ONE_SUBJECT_PZ, reply);
		break;
	case ONE_MSG_CQ_CREATE:
		o = mock_object_new(mock, client, ONE_MSG_CQ_CREATE);
		put_new_cq(mock, client, msg->cq_create.entries, &reply->cq, o);
		break;
	case ONE_MSG_CQ_RESIZE:
		handle_resize(mock, client, &msg->cq_resize, reply);
		break;
	case ONE_MSG_CQ_FREE:
		handle_free(mock, msg->id.id, ONE_MSG_CQ_CREATE, ONE_SUBJECT_CQ_RECV, reply);
		break;
	case ONE_MSG_QP_CREATE:
		handle_qp_create(mock, client, ONE_MSG_QP_CREATE, &msg->qp_create, &reply->qp);
		break;
	case ONE_MSG_QP_MODIFY:
		o = mock_object(mock, msg->qp_modify.qp, ONE_MSG_QP_CREATE);
		if (o != NULL)
			o->qp.args = msg->qp_modify.to;
		break;
	case ONE_MSG_QP_RESET:
		handle_reset(mock, msg->id.id, reply);
		break;
	case ONE_MSG_QP_FREE:
		handle_free(mock, msg->id.id, ONE_MSG_QP_CREATE, ONE_SUBJECT_QP, reply);
		break;
	case ONE_MSG_LISTEN:
		if (msg->listen.listener != 0) {
			reply->listening.listener = msg->listen.listener;
			break;
		}
		o = mock_object_new(mock, client, ONE_MSG_LISTEN);
		o->listener.cq = msg->listen.cq;
		reply->listening.listener = o->id;
		reply->listening.service = msg->listen.service != 0 ? msg->listen.service : 1024 + o->id;
		break;
	case ONE_MSG_UNLISTEN:
		handle_free(mock, msg->id.id, ONE_MSG_LISTEN, ONE_SUBJECT_LISTENER, reply);
		break;
	case ONE_MSG_REGION_ADD:
		mock_handle_region(mock, client, &msg->region_add, fds, num_fds, reply);
		break;
	case ONE_MSG_REGION_JOIN:
		mock_handle_join(mock, client, &msg->region_join, fds, num_fds, reply);
		break;
	case ONE_MSG_REGION_REMOVE:
		mock_check(!mock_region_used(mock, msg->id.id),
			   "a region is removed under its registrations");
		handle_free(mock, msg->id.id, ONE_MSG_REGION_ADD, ONE_SUBJECT_REGION, reply);
		break;
	case ONE_MSG_MR_CREATE:
		mock_check(msg->mr_create.num_pieces > 0 || client->copies != 0, "memory that nobody copies");
		mock_handle_mr(mock, client, &msg->mr_create, reply);
		break;
	case ONE_MSG_MR_FREE:
		handle_free(mock, msg->id.id, ONE_MSG_MR_CREATE, ONE_SUBJECT_MR, reply);
		break;
	case ONE_MSG_MW_CREATE:
		o = mock_object_new(mock, client, ONE_MSG_MW_CREATE);
		reply->mw.mw = o->id;
		reply->mw.key = 0xa0000000u | o->id << 8;
		break;
	case ONE_MSG_MW_FREE:
		handle_free(mock, msg->id.id, ONE_MSG_MW_CREATE, ONE_SUBJECT_MW, reply);
		break;
	case ONE_MSG_SRQ_CREATE:
		o = mock_object_new(mock, client, ONE_MSG_SRQ_CREATE);
		reply->srq.srq = o->id;
		reply->srq.log2 = ring_log2(msg->srq_create.max_wr, msg->srq_create.max_sge);
		reply->srq.lanes = 1;
		reply->srq.shm = mock_arena_alloc(client, one_srq_shm_size(1));
		reply->srq.rq = mock_arena_alloc(client, sizeof(struct one_wqe) << reply->srq.log2);
		o->srq.shm = (void *)(client->arena + reply->srq.shm);
		o->srq.rq = (struct mock_ring){.ring = (void *)(client->arena + reply->srq.rq),
					       .log2 = reply->srq.log2};
		break;
	case ONE_MSG_SRQ_SWAP:
		handle_srq_swap(mock, &msg->srq_swap, reply);
		break;
	case ONE_MSG_SRQ_FREE:
		handle_free(mock, msg->id.id, ONE_MSG_SRQ_CREATE, ONE_SUBJECT_SRQ, reply);
		break;
	case ONE_MSG_COPIES:
		reply->copies.offset =
			(mock_arena_alloc(client, sizeof(struct one_copies) + 4096) + 4095) & ~4095ull;
		client->copies = reply->copies.offset;
		break;
	case ONE_MSG_STAGING:
		o = mock_object_new(mock, client, ONE_MSG_STAGING);
		reply->staged.size = (msg->staging.size + 4095) / 4096 * 4096;
		reply->staged.offset = mock_arena_alloc(client, reply->staged.size);
		reply->staged.lkey = o->id << 8 | 0x22;
		break;
	case ONE_MSG_AH_CREATE:
		reply->id.id = mock_object_new(mock, client, ONE_MSG_AH_CREATE)->id;
		break;
	case ONE_MSG_AH_FREE:
		handle_free(mock, msg->id.id, ONE_MSG_AH_CREATE, ONE_SUBJECT_AH, reply);
		break;
	case ONE_MSG_SIDR_ASK:
		o = mock_object_new(mock, client, ONE_MSG_SIDR_ASK);
		o->listener.cq = msg->sidr_ask.cq;
		reply->id.id = o->id;
		break;
	case ONE_MSG_SIDR_FREE:
		if (mock_object(mock, msg->id.id, ONE_MSG_SIDR_ASK) != NULL) /* else a question of a peer */
			handle_free(mock, msg->id.id, ONE_MSG_SIDR_ASK, ONE_SUBJECT_CR, reply);
		break;
	case ONE_MSG_SIDR_ANSWER:
		break;
	case ONE_MSG_QP_DATAGRAM:
		o = mock_object(mock, msg->qp_datagram.qp, ONE_MSG_QP_CREATE);
		if (o != NULL)
			atomic_store(&o->qp.shm->state, msg->qp_datagram.state == ONE_DATAGRAM_RTS
								? ONE_QP_CONNECTED
								: ONE_QP_CONNECTING);
		break;
	case ONE_MSG_CHANNEL_OPEN:
		mock_channel_open(mock, client, reply);
		break;
	case ONE_MSG_CHANNEL_CLOSE:
		handle_free(mock, msg->id.id, ONE_MSG_CHANNEL_OPEN, ONE_SUBJECT_CHANNEL, reply);
		break;
	case ONE_MSG_PORT:
		reply->port.num_ports = 1;
		reply->port.mbps = 100000;
		reply->port.hwaddr = 0x020304050607ull;
		reply->port.link_up = 1;
		mock_addr(mock, &reply->port);
		memcpy(reply->port.name, mock->welcome.port, sizeof(reply->port.name));
		if (msg->port_query.port != 0)
			reply->error = -ENODEV;
		break;
	case ONE_MSG_QP_RTR:
	case ONE_MSG_QP_RTS:
	case ONE_MSG_QP_ERROR:
		/* `qp` is the first member of all these messages. */
		o = mock_object(mock, msg->id.id, ONE_MSG_QP_CREATE);
		if (o != NULL)
			atomic_store(&o->qp.shm->state, msg->type == ONE_MSG_QP_RTR   ? ONE_QP_CONNECTING
							: msg->type == ONE_MSG_QP_RTS ? ONE_QP_CONNECTED
										      : ONE_QP_ERROR);
		break;
	case ONE_MSG_QP_SET:
		o = mock_object(mock, msg->id.id, ONE_MSG_QP_CREATE);
		if (o != NULL) /* default, until a test changes it */
			atomic_store(&o->qp.shm->sq_draining, msg->qp_set.to.stopped);
		break;
	case ONE_MSG_RSM_PUBLISH:
		o = mock_object_new(mock, client, ONE_MSG_RSM_PUBLISH);
		reply->rsm.segment = msg->rsm_publish.segment != 0 ? msg->rsm_publish.segment : o->id;
		mock->newest[ONE_MSG_RSM_PUBLISH] = reply->rsm.segment;
		break;
	case ONE_MSG_RSM_CONNECT:
		memset(&import, 0, sizeof(import));
		import.send_cq = import.recv_cq = import.conn_cq = msg->rsm_connect.cq;
		import.max_send_wr = msg->rsm_connect.max_send_wr;
		import.max_send_sge = ONE_MAX_SGE;
		handle_qp_create(mock, client, ONE_MSG_RSM_CONNECT, &import, &reply->qp);
		o = mock_object(mock, reply->qp.qp, ONE_MSG_QP_CREATE);
		atomic_store(&o->qp.shm->state, ONE_QP_CONNECTING);
		break;
	case ONE_MSG_QP_CONNECT:
		o = mock_object(mock, msg->qp_connect.qp, ONE_MSG_QP_CREATE);
		if (o != NULL)
			atomic_store(&o->qp.shm->state, ONE_QP_CONNECTING);
		break;
	case ONE_MSG_RSM_DISCONNECT:
		handle_free(mock, msg->id.id, ONE_MSG_QP_CREATE, ONE_SUBJECT_QP, reply);
		break;
	default:
		break;
	}
}

/* Stores the number also if the request is refused, because the connection's events carry it. */
static void
note_number(struct mock *mock, const struct one_msg *msg)
{
	bool connects = msg->type == ONE_MSG_QP_CONNECT;
	struct mock_object *o;

	if (!connects && msg->type != ONE_MSG_CR_ACCEPT)
		return;
	o = mock_object(mock, connects ? msg->qp_connect.qp : msg->cr_accept.qp, ONE_MSG_QP_CREATE);
	if (o != NULL)
		o->qp.number = connects ? msg->qp_connect.param.number : msg->cr_accept.param.number;
}

/* Serves one request; false: hang up. */
static bool
serve(struct mock *mock, struct mock_client *client)
{
	union {
		char bytes[CMSG_SPACE(ONE_MSG_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct one_msg msg;
	struct one_reply reply;
	struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	int fds[ONE_MSG_FDS];
	uint32_t num_fds = 0;
	mock_handler handler;
	void *user;
	bool done = false;
	int theirs;
	struct cmsghdr *cmsg;

	if (recvmsg(client->sock, &hdr, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != (ssize_t)sizeof(msg))
		return false;
	cmsg = CMSG_FIRSTHDR(&hdr);
	if (cmsg != NULL && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS) {
		num_fds = (uint32_t)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(cmsg), num_fds * sizeof(int));
	}
	mock_check(msg.type > 0 && msg.type < ONE_MSG_MAX, "request of unknown type");
	mock_check(client->greeted || msg.type == ONE_MSG_HELLO, "request before HELLO");
	memset(&reply, 0, sizeof(reply));
	reply.type = msg.type;
	reply.seq = msg.seq;

	mock->seen[msg.type]++;
	mock->last[msg.type] = msg;
	note_number(mock, &msg);
	if (mock->refusal[msg.type].times > 0) {
		mock->refusal[msg.type].times--;
		reply.error = mock->refusal[msg.type].error;
		reply.subject = mock->refusal[msg.type].subject;
		reply.value = mock->refusal[msg.type].value;
		if (reply.subject == ONE_SUBJECT_QUOTA)
			reply.limit = (struct one_limit){"max_mock"};
		done = true;
	}
	handler = mock->handler[msg.type].call;
	user = mock->handler[msg.type].user;
	if (!done && handler != NULL)
		done = handler(mock, &msg, fds, num_fds, &reply, user);
	if (!done)
		handle_default(mock, client, &msg, fds, num_fds, &reply);
	for (uint32_t i = 0; i < num_fds; i++)
		close(fds[i]);

	if (mock->park[msg.type]) {
		mock_check(mock->num_pending < ONE_CALLS_MAX, "too many requests without a reply");
		mock->pending[mock->num_pending].sock = client->sock;
		mock->pending[mock->num_pending++].reply = reply;
		return true;
	}
	memset(&hdr, 0, sizeof(hdr));
	hdr.msg_iov = &iov;
	hdr.msg_iovlen = 1;
	iov.iov_base = &reply;
	iov.iov_len = sizeof(reply);
	num_fds = 0;
	theirs = mock_channel_end(mock, &reply);
	if (theirs >= 0)
		fds[num_fds++] = theirs;
	else if (msg.type == ONE_MSG_HELLO && reply.error == 0 && !mock->no_fds) {
		fds[num_fds++] = client->arena_fd;
		fds[num_fds++] = client->wake_fd;
	} else if (mock->given_fd[msg.type] > 0 && reply.error == 0) {
		fds[num_fds++] = mock->given_fd[msg.type] - 1;
	}
	if (num_fds > 0) {
		memset(&control, 0, sizeof(control));
		hdr.msg_control = control.bytes;
		hdr.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
		cmsg = &control.align;
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, num_fds * sizeof(int));
	}
	done = sendmsg(client->sock, &hdr, MSG_NOSIGNAL) == (ssize_t)sizeof(reply);
	if (theirs >= 0)
		close(theirs);
	return done;
}

static void *
run(void *arg)
{
	struct mock *mock = arg;
	struct pollfd set[2 + 2 * MOCK_CLIENTS];

	pthread_mutex_lock(&mock->lock);
	while (!mock->stop) {
		uint32_t n = 0, last;
		int timeout;

		set[n++] = (struct pollfd){.fd = mock->wake_fd, .events = POLLIN};
		set[n++] = (struct pollfd){.fd = mock->listener, .events = POLLIN};
		for (struct mock_client *c = mock->clients; c != NULL && n < 2 + MOCK_CLIENTS; c = c->next)
			set[n++] = (struct pollfd){.fd = c->sock, .events = POLLIN};
		last = n;
		for (struct mock_client *c = mock->clients;
		     c != NULL && mock->renewable && n < 2 + 2 * MOCK_CLIENTS; c = c->next)
			set[n++] = (struct pollfd){.fd = c->wake_fd, .events = POLLIN};
		/* Clients with renewable keys wake this thread, which acts as the core. For others it
		 * polls. */
		timeout = mock->clients != NULL && !mock->renewable ? KEYS_LOOK_MS : -1;
		pthread_mutex_unlock(&mock->lock);
		poll(set, n, timeout);
		pthread_mutex_lock(&mock->lock);
		if (set[0].revents != 0) {
			uint64_t value;

			mock_check(read(mock->wake_fd, &value, sizeof(value)) == sizeof(value), "wake_fd");
			continue;
		}
		for (uint32_t i = last; i < n; i++) {
			uint64_t value;

			if (set[i].revents != 0 && read(set[i].fd, &value, sizeof(value)) < 0)
				continue;
		}
		for (struct mock_client *c = mock->clients; c != NULL; c = c->next)
			mock_serve_keys(mock, c);
		for (uint32_t i = 2; i < last; i++) {
			struct mock_client *client = mock->clients;

			while (client != NULL && client->sock != set[i].fd)
				client = client->next;
			if (set[i].revents != 0 && client != NULL && !serve(mock, client))
				client_free(mock, client);
		}
		if (set[1].revents != 0 && mock->listener >= 0) {
			int sock = accept4(mock->listener, NULL, NULL, SOCK_CLOEXEC);

			if (sock >= 0)
				client_new(mock, sock);
		}
	}
	pthread_mutex_unlock(&mock->lock);
	return NULL;
}

static void
wake(struct mock *mock)
{
	uint64_t one = 1;

	mock_check(write(mock->wake_fd, &one, sizeof(one)) == sizeof(one), "wake_fd");
}

static void
hang_up(struct mock *mock)
{
	while (mock->clients != NULL)
		client_free(mock, mock->clients);
	wake(mock);
}

void
mock_revive(struct mock *mock)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	/* Nonblocking: this listener may get the previous one's descriptor number, and poll() may report the
	 * previous one's event. */
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(addr.sun_path, mock->path, sizeof(mock->path));
	unlink(mock->path);
	mock_check(sock >= 0 && bind(sock, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
			   listen(sock, 16) == 0,
		   "socket");
	pthread_mutex_lock(&mock->lock);
	mock->listener = sock;
	wake(mock);
	pthread_mutex_unlock(&mock->lock);
}

struct mock *
mock_start(void)
{
	struct mock *mock = calloc(1, sizeof(*mock));
	struct one_limits limits = {
		.max_pz = 256,
		.max_cq = 1024,
		.max_cq_entries = 32768,
		.max_qp = 1024,
		.max_qp_wr = 4096,
		.max_sge = ONE_MAX_SGE,
		.max_listen = 256,
		.max_mr = 65535,
		.max_mw = 4096,
		.max_srq = 256,
		.max_srq_wr = 4096,
		.max_ah = 1024,
		.max_channels = 1024,
		.vectors = 1,
		.max_rd_atomic = 16,
		.max_private_data = 64,
		.max_segments = 256,
		.max_mr_bytes = 1ull << 36,
		.max_mr_total = 1ull << 38,
		.max_message = ONE_MESSAGE_MAX,
	};
	pthread_mutexattr_t recursive;
	sigset_t all, old;

	mock_check(mock != NULL, "memory");
	snprintf(mock->dir, sizeof(mock->dir), "/tmp/oneside-mock-XXXXXX");
	mock_check(mkdtemp(mock->dir) != NULL, "directory");
	chmod(mock->dir, 0755);
	snprintf(mock->path, sizeof(mock->path), "%s/socket", mock->dir);
	setenv(ONE_SOCKET_ENV, mock->path, 1);
	/* handlers may call back */
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&mock->lock, &recursive);
	mock->wake_fd = eventfd(0, EFD_CLOEXEC);
	mock->welcome = (struct one_welcome){
		.version = ONE_ABI_VERSION,
		.idle = ONE_IDLE_SPIN,
		.node_id = 1,
		.port = "mock0",
		.family = AF_INET,
		.mtu = 1024,
		.addr = {10, 0, 0, 1},
		.arena_size = ONE_ARENA_SIZE,
		.limits = limits,
	};
	mock_revive(mock);
	chmod(mock->path, 0777);
	/* signals are for the test's own threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	mock_check(pthread_create(&mock->thread, NULL, run, mock) == 0, "thread");
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return mock;
}

void
mock_kill(struct mock *mock)
{
	pthread_mutex_lock(&mock->lock);
	if (mock->listener >= 0)
		close(mock->listener);
	mock->listener = -1;
	unlink(mock->path);
	hang_up(mock);
	pthread_mutex_unlock(&mock->lock);
}

void
mock_fault(struct mock *mock, uint32_t fault)
{
	pthread_mutex_lock(&mock->lock);
	for (struct mock_client *c = mock->clients; c != NULL; c = c->next)
		atomic_store(&c->header->fault, fault);
	hang_up(mock);
	pthread_mutex_unlock(&mock->lock);
}

void
mock_stop(struct mock *mock)
{
	mock_kill(mock);
	pthread_mutex_lock(&mock->lock);
	mock->stop = true;
	wake(mock);
	pthread_mutex_unlock(&mock->lock);
	pthread_join(mock->thread, NULL);
	while (mock->objects != NULL) {
		struct mock_object *o = mock->objects;

		mock->objects = o->next;
		object_release(o);
	}
	close(mock->wake_fd);
	rmdir(mock->dir);
	unsetenv(ONE_SOCKET_ENV);
	pthread_mutex_destroy(&mock->lock);
	free(mock);
}
