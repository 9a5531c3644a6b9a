/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls by which tests play the engine. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

const char *
mock_socket(const struct mock *mock)
{
	return mock->path;
}

struct one_welcome *
mock_welcome(struct mock *mock)
{
	return &mock->welcome;
}

void
mock_addr(struct mock *mock, struct one_port *port)
{
	port->num_addrs = 1;
	port->addr[0].family = mock->welcome.family;
	port->addr[0].prefix = mock->welcome.family == AF_INET6 ? 64 : 24;
	memcpy(port->addr[0].addr, mock->welcome.addr, sizeof(mock->welcome.addr));
}

void
mock_give_fd(struct mock *mock, enum one_msg_type type, int fd)
{
	pthread_mutex_lock(&mock->lock);
	mock->given_fd[type] = fd + 1;
	pthread_mutex_unlock(&mock->lock);
}

void
mock_defer(struct mock *mock, enum one_msg_type type)
{
	pthread_mutex_lock(&mock->lock);
	mock->park[type] = true;
	pthread_mutex_unlock(&mock->lock);
}

void
mock_answer(struct mock *mock, enum one_msg_type type)
{
	uint32_t left = 0;

	pthread_mutex_lock(&mock->lock);
	mock->park[type] = false;
	for (uint32_t i = 0; i < mock->num_pending; i++) {
		const struct one_reply *reply = &mock->pending[i].reply;

		if (reply->type != type)
			mock->pending[left++] = mock->pending[i];
		else
			mock_check(send(mock->pending[i].sock, reply, sizeof(*reply), MSG_NOSIGNAL) ==
					   (ssize_t)sizeof(*reply),
				   "a pending reply");
	}
	mock->num_pending = left;
	pthread_mutex_unlock(&mock->lock);
}

void
mock_withhold_fds(struct mock *mock, bool withhold)
{
	pthread_mutex_lock(&mock->lock);
	mock->no_fds = withhold;
	pthread_mutex_unlock(&mock->lock);
}

uint32_t
mock_attached(struct mock *mock)
{
	uint32_t n;

	pthread_mutex_lock(&mock->lock);
	n = mock->num_clients;
	pthread_mutex_unlock(&mock->lock);
	return n;
}

void
mock_on(struct mock *mock, enum one_msg_type type, mock_handler handler, void *user)
{
	pthread_mutex_lock(&mock->lock);
	mock->handler[type].call = handler;
	mock->handler[type].user = user;
	pthread_mutex_unlock(&mock->lock);
}

void
mock_refuse(struct mock *mock, enum one_msg_type type, int error, enum one_subject subject, uint64_t value,
	    uint32_t times)
{
	pthread_mutex_lock(&mock->lock);
	mock->refusal[type].error = error;
	mock->refusal[type].subject = subject;
	mock->refusal[type].value = value;
	mock->refusal[type].times = times;
	pthread_mutex_unlock(&mock->lock);
}

uint32_t
mock_count(struct mock *mock, enum one_msg_type type)
{
	uint32_t n;

	pthread_mutex_lock(&mock->lock);
	n = mock->seen[type];
	pthread_mutex_unlock(&mock->lock);
	return n;
}

bool
mock_last(struct mock *mock, enum one_msg_type type, struct one_msg *out)
{
	bool seen;

	pthread_mutex_lock(&mock->lock);
	seen = mock->seen[type] > 0;
	if (seen)
		*out = mock->last[type];
	pthread_mutex_unlock(&mock->lock);
	return seen;
}

uint32_t
mock_newest(struct mock *mock, enum one_msg_type type)
{
	uint32_t id;

	pthread_mutex_lock(&mock->lock);
	id = mock->newest[type];
	pthread_mutex_unlock(&mock->lock);
	return id;
}

void
mock_number(struct mock *mock, uint32_t id)
{
	pthread_mutex_lock(&mock->lock);
	mock->last_id = id - 1;
	pthread_mutex_unlock(&mock->lock);
}

static void
wake(struct mock_client *client, uint16_t number)
{
	struct one_channel *channel = &client->channels[number % ONE_CHANNELS];

	atomic_fetch_add(&channel->word, 1);
	/* Pairs with the sleeper's add to `sleepers` before its futex call. */
	if (atomic_load(&channel->sleepers) != 0)
		syscall(SYS_futex, &channel->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void
mock_channel_open(struct mock *mock, struct mock_client *client, struct one_reply *reply)
{
	struct mock_object *o = mock_object_new(mock, client, ONE_MSG_CHANNEL_OPEN);
	int ends[2];

	mock_check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
	o->channel.fd = ends[0];
	o->channel.theirs = ends[1];
	reply->id.id = o->id;
}

int
mock_channel_end(struct mock *mock, const struct one_reply *reply)
{
	struct mock_object *o;
	int fd = -1;

	if (reply->type != ONE_MSG_CHANNEL_OPEN || reply->error != 0)
		return -1;
	o = mock_object(mock, reply->id.id, ONE_MSG_CHANNEL_OPEN);
	if (o != NULL) {
		fd = o->channel.theirs;
		o->channel.theirs = -1;
	}
	return fd;
}

static void
notify(struct mock_object *o, uint16_t channel)
{
	uint32_t id = atomic_load(&o->cq.bundle->descriptor);
	const struct mock_object *by =
		id != 0 ? mock_object(o->client->mock, id, ONE_MSG_CHANNEL_OPEN) : NULL;

	if (by != NULL)
		mock_check(send(by->channel.fd, &o->id, sizeof(o->id), MSG_DONTWAIT | MSG_NOSIGNAL) ==
				   sizeof(o->id),
			   "channel");
	wake(o->client, channel);
}

static bool
store(struct mock_cq *cq, const struct one_cqe *cqe)
{
	struct one_cqe *slot = &cq->ring[one_ring_slot(cq->tail, cq->log2)];
	/* Acquire pairs with the application's release of head: it has copied those entries. */
	uint32_t head = atomic_load_explicit(&cq->shm->head, memory_order_acquire);
	uint32_t room = (1u << cq->log2) - (cq->tail - head);

	/* the last slot is reserved for ONE_CQE_SWITCHED */
	if (room < (cqe->type == ONE_CQE_SWITCHED ? 1u : 2u))
		return false;
	memcpy((void *)slot, (const void *)cqe, offsetof(struct one_cqe, phase));
	/* Pairs with the acquire load in one_cq_poll. */
	atomic_store_explicit(&slot->phase, one_ring_phase(cq->tail, cq->log2), memory_order_release);
	cq->tail++;
	if ((cqe->flags & ONE_CQE_NOTIFY) != 0)
		cq->notified = cq->tail;
	if ((cqe->flags & ONE_CQE_SOLICITED) != 0)
		cq->solicited = cq->tail;
	return true;
}

static void
publish(struct mock_object *o)
{
	struct mock_cq *cq = &o->cq;
	uint32_t taken = atomic_load_explicit(&cq->shm->head, memory_order_relaxed);
	uint64_t arm, claimed;

	atomic_store_explicit(&cq->shm->tail, cq->tail, memory_order_release);
	/* Pairs with the fence in one_wait_arm. */
	atomic_thread_fence(memory_order_seq_cst);
	arm = atomic_load_explicit(&cq->shm->arm, memory_order_acquire);
	claimed = atomic_load(&cq->bundle->arm);
	if (ONE_ARM_SEQ(arm) == 0)
		arm = claimed; /* the library has not armed this ring */
	/* An entry that notifies must be among those not yet taken, as with the engine. */
	if ((ONE_ARM_CHANNEL(arm) & ONE_ARM_SOLICITED) != 0 &&
	    (int32_t)(cq->solicited - ONE_ARM_INDEX(arm)) <= 0)
		return;
	if ((ONE_ARM_CHANNEL(arm) & ONE_ARM_NEXT) != 0)
		taken = ONE_ARM_INDEX(arm);
	if (arm != cq->served && ONE_ARM_SEQ(arm) != 0 && (int32_t)(cq->tail - ONE_ARM_INDEX(arm)) > 0 &&
	    (int32_t)(cq->notified - taken) > 0) {
		cq->served = arm;
		if (ONE_ARM_SEQ(claimed) == ONE_ARM_SEQ(arm) &&
		    atomic_compare_exchange_strong(&cq->bundle->arm, &claimed, 0))
			notify(o, ONE_ARM_CHANNEL(arm));
	}
}

bool
mock_cq_store(struct mock_object *o, const struct one_cqe *cqe)
{
	bool stored = store(&o->cq, cqe);

	if (stored)
		publish(o);
	return stored;
}

static struct mock_object *
need_cq(struct mock *mock, uint32_t id)
{
	struct mock_object *cq = mock_object(mock, id, ONE_MSG_CQ_CREATE);

	mock_check(cq != NULL, "no such CQ");
	return cq;
}

bool
mock_cqe(struct mock *mock, uint32_t id, const struct one_cqe *cqe)
{
	bool stored;

	pthread_mutex_lock(&mock->lock);
	stored = mock_cq_store(need_cq(mock, id), cqe);
	pthread_mutex_unlock(&mock->lock);
	return stored;
}

bool
mock_cqe_early(struct mock *mock, uint32_t id, const struct one_cqe *cqe)
{
	bool stored;

	pthread_mutex_lock(&mock->lock);
	stored = store(&need_cq(mock, id)->cq, cqe);
	pthread_mutex_unlock(&mock->lock);
	return stored;
}

void
mock_publish(struct mock *mock, uint32_t id)
{
	pthread_mutex_lock(&mock->lock);
	publish(need_cq(mock, id));
	pthread_mutex_unlock(&mock->lock);
}

static uint32_t
asleep(struct mock *mock)
{
	uint32_t threads = 0;

	pthread_mutex_lock(&mock->lock);
	mock_check(mock->clients != NULL, "nobody attached");
	for (uint32_t i = 0; i < ONE_CHANNELS; i++)
		threads += atomic_load(&mock->clients->channels[i].sleepers);
	pthread_mutex_unlock(&mock->lock);
	return threads;
}

void
mock_wait_asleep(struct mock *mock, uint32_t threads)
{
	while (asleep(mock) < threads)
		usleep(1000);
}

uint32_t
mock_async_cq(struct mock *mock)
{
	uint32_t id;

	pthread_mutex_lock(&mock->lock);
	mock_check(mock->clients != NULL, "nobody attached");
	id = mock->clients->async_cq;
	pthread_mutex_unlock(&mock->lock);
	return id;
}

static struct mock_object *
need_qp(struct mock *mock, uint32_t qp)
{
	struct mock_object *o = mock_object(mock, qp, ONE_MSG_QP_CREATE);

	mock_check(o != NULL, "no such QP");
	return o;
}

void
mock_qp_store(struct mock_qp *qp)
{
	/* Release pairs with the acquire loads in refresh(): the slots have been read. */
	atomic_store_explicit(&qp->shm->sq_head, qp->sq.head, memory_order_release);
	atomic_store_explicit(&qp->shm->sq_done, qp->sq.done, memory_order_release);
	atomic_store_explicit(&qp->shm->rq_head, qp->rq.head, memory_order_release);
	atomic_store_explicit(&qp->shm->rq_done, qp->rq.done, memory_order_release);
}

bool
mock_ring_take(struct mock_ring *ring, struct one_wqe *wqe, struct one_sge *sge)
{
	const struct one_wqe *slot = &ring->ring[one_ring_slot(ring->head, ring->log2)];
	uint32_t slots;

	/* Pairs with the release store in one_ring_commit. */
	if (atomic_load_explicit(&slot->phase, memory_order_acquire) !=
	    one_ring_phase(ring->head, ring->log2))
		return false;
	memcpy((void *)wqe, (const void *)slot, sizeof(*wqe));
	mock_check(wqe->num_sge <= ONE_MAX_SGE, "num_sge of a posted request");
	for (uint32_t i = 0; i < sizeof(wqe->reserved); i++)
		mock_check(wqe->reserved[i] == 0, "reserved bytes of a posted request");
	slots = one_wqe_slots(wqe->num_sge);
	if (sge != NULL && wqe->num_sge > 0)
		sge[0] = wqe->sge;
	for (uint32_t i = 1; i < slots; i++) {
		uint32_t index = ring->head + i;
		const struct one_wqe_ext *ext = (const void *)&ring->ring[one_ring_slot(index, ring->log2)];

		mock_check(atomic_load_explicit(&ext->phase, memory_order_relaxed) ==
				   one_ring_phase(index, ring->log2),
			   "phase of an extension slot");
		for (uint32_t b = 0; b < sizeof(ext->reserved); b++)
			mock_check(ext->reserved[b] == 0, "reserved bytes of an extension slot");
		for (uint32_t j = 0; j < ONE_SGE_PER_EXT; j++) {
			uint32_t n = 1 + (i - 1) * ONE_SGE_PER_EXT + j;

			if (sge != NULL && n < wqe->num_sge)
				sge[n] = ext->sge[j];
		}
	}
	ring->head += slots;
	ring->taken++;
	return true;
}

bool
mock_take(struct mock *mock, uint32_t id, bool recv, struct one_wqe *wqe, struct one_sge *sge)
{
	struct mock_qp *qp;
	bool taken;

	pthread_mutex_lock(&mock->lock);
	qp = &need_qp(mock, id)->qp;
	taken = mock_ring_take(recv ? &qp->rq : &qp->sq, wqe, sge);
	mock_qp_store(qp);
	pthread_mutex_unlock(&mock->lock);
	return taken;
}

void
mock_done(struct mock *mock, uint32_t id, bool recv)
{
	struct mock_ring *ring;
	struct mock_qp *qp;

	pthread_mutex_lock(&mock->lock);
	qp = &need_qp(mock, id)->qp;
	ring = recv ? &qp->rq : &qp->sq;
	mock_check(ring->done != ring->taken, "more done than taken");
	ring->done++;
	mock_qp_store(qp);
	pthread_mutex_unlock(&mock->lock);
}

void
mock_complete(struct mock *mock, uint32_t id, const struct one_wqe *wqe, enum one_status status)
{
	bool recv = wqe->op == ONE_OP_RECV;
	bool success = status == ONE_STATUS_SUCCESS;
	struct one_cqe cqe = {
		.cookie = wqe->cookie,
		.length = success ? wqe->length : 0,
		.object = id,
		.imm = wqe->op == ONE_OP_BIND ? wqe->rkey : 0,
		.type = recv                     ? ONE_CQE_RECV
			: wqe->op == ONE_OP_BIND ? ONE_CQE_BIND
						 : ONE_CQE_SEND,
		.status = (uint8_t)status,
		.flags = success && (wqe->flags & ONE_WQE_UNSIGNALED) != 0 ? 0 : ONE_CQE_NOTIFY,
		.op = wqe->op,
	};
	struct mock_object *cq;
	struct mock_qp *qp;

	pthread_mutex_lock(&mock->lock);
	mock_done(mock, id, recv);
	qp = &need_qp(mock, id)->qp;
	cq = mock_object(mock, recv ? qp->args.recv_cq : qp->args.send_cq, ONE_MSG_CQ_CREATE);
	if (cq != NULL && !(success && (wqe->flags & ONE_WQE_SUPPRESS) != 0))
		mock_check(mock_cq_store(cq, &cqe), "CQ full");
	pthread_mutex_unlock(&mock->lock);
}

static struct mock_srq *
need_srq(struct mock *mock, uint32_t srq)
{
	struct mock_object *o = mock_object(mock, srq, ONE_MSG_SRQ_CREATE);

	mock_check(o != NULL, "no such SRQ");
	return &o->srq;
}

bool
mock_srq_take(struct mock *mock, uint32_t id, uint32_t qp_id, struct one_wqe *wqe, struct one_sge *sge)
{
	struct mock_srq *srq;
	struct mock_qp *qp;
	bool taken;

	pthread_mutex_lock(&mock->lock);
	srq = need_srq(mock, id);
	qp = &need_qp(mock, qp_id)->qp;
	taken = mock_ring_take(&srq->rq, wqe, sge);
	if (taken) {
		qp->rq.head = ++qp->rq.taken;
		mock_qp_store(qp);
		atomic_store_explicit(&srq->shm->lane[0].taken, srq->rq.taken, memory_order_release);
		atomic_store_explicit(&srq->shm->lane[0].head, srq->rq.head, memory_order_release);
	}
	pthread_mutex_unlock(&mock->lock);
	return taken;
}

void
mock_srq_complete(struct mock *mock, uint32_t id, uint32_t qp, const struct one_wqe *wqe,
		  enum one_status status)
{
	struct mock_srq *srq;

	pthread_mutex_lock(&mock->lock);
	srq = need_srq(mock, id);
	mock_check(srq->rq.done != srq->rq.taken, "more done than taken");
	atomic_store_explicit(&srq->shm->lane[0].done, ++srq->rq.done, memory_order_release);
	mock_complete(mock, qp, wqe, status);
	pthread_mutex_unlock(&mock->lock);
}

bool
mock_doorbell(struct mock *mock, uint32_t id)
{
	struct mock_object *o;
	bool rung;

	pthread_mutex_lock(&mock->lock);
	o = need_qp(mock, id);
	/* Acquire pairs with the release stores in one_doorbell_ring. */
	rung = atomic_exchange(&o->client->doorbells->group[o->qp.doorbell / ONE_DOORBELL_GROUP], 0) != 0;
	rung = atomic_exchange(&o->client->doorbells->qp[o->qp.doorbell], 0) != 0 && rung;
	pthread_mutex_unlock(&mock->lock);
	return rung;
}

uint32_t
mock_posted(struct mock *mock, uint32_t id, bool recv)
{
	struct mock_ring copy;
	struct one_wqe wqe;
	uint32_t n = 0;

	pthread_mutex_lock(&mock->lock);
	copy = recv ? need_qp(mock, id)->qp.rq : need_qp(mock, id)->qp.sq;
	while (n < 1u << copy.log2 && mock_ring_take(&copy, &wqe, NULL))
		n++;
	pthread_mutex_unlock(&mock->lock);
	return n;
}

void
mock_sleep(struct mock *mock, bool asleep)
{
	pthread_mutex_lock(&mock->lock);
	mock_check(mock->clients != NULL, "nobody attached");
	atomic_store(&mock->clients->header->engine_asleep, asleep);
	pthread_mutex_unlock(&mock->lock);
}

uint64_t
mock_woken(struct mock *mock)
{
	uint64_t value = 0;

	pthread_mutex_lock(&mock->lock);
	mock_check(mock->clients != NULL, "nobody attached");
	if (read(mock->clients->wake_fd, &value, sizeof(value)) < 0)
		mock_check(errno == EAGAIN, "eventfd");
	pthread_mutex_unlock(&mock->lock);
	return value;
}

struct one_qp_shm *
mock_qp_shm(struct mock *mock, uint32_t id)
{
	struct one_qp_shm *shm;

	pthread_mutex_lock(&mock->lock);
	shm = need_qp(mock, id)->qp.shm;
	pthread_mutex_unlock(&mock->lock);
	return shm;
}

void
mock_qp_state(struct mock *mock, uint32_t id, enum one_qp_state state)
{
	atomic_store_explicit(&mock_qp_shm(mock, id)->state, state, memory_order_release);
}

static void
post_event(struct mock *mock, uint32_t id, enum one_conn_event event)
{
	struct one_cqe cqe = {.type = ONE_CQE_CONNECT,
			      .status = (uint8_t)event,
			      .object = id,
			      .imm = need_qp(mock, id)->qp.number,
			      .flags = ONE_CQE_NOTIFY};
	struct mock_object *cq;

	cq = mock_object(mock, need_qp(mock, id)->qp.args.conn_cq, ONE_MSG_CQ_CREATE);
	if (cq != NULL)
		mock_check(mock_cq_store(cq, &cqe), "CQ full");
}

void
mock_connected(struct mock *mock, uint32_t id, const void *private_data, uint16_t len)
{
	struct one_qp_shm *shm;

	pthread_mutex_lock(&mock->lock);
	shm = need_qp(mock, id)->qp.shm;
	mock_check(len <= ONE_PRIVATE_DATA_MAX, "private data too long");
	shm->private_len = len;
	if (len > 0)
		memcpy(shm->private_data, private_data, len);
	shm->family = mock->welcome.family;
	memcpy(shm->remote_addr, mock->welcome.addr, sizeof(shm->remote_addr));
	shm->rd_atomic_in = shm->rd_atomic_out = mock->welcome.limits.max_rd_atomic;
	shm->retry_count = MOCK_RETRY_COUNT;
	shm->rnr_retry = MOCK_RNR_RETRY;
	shm->timeout = MOCK_TIMEOUT;
	shm->min_rnr_timer = MOCK_MIN_RNR_TIMER;
	mock_qp_state(mock, id, ONE_QP_CONNECTED);
	post_event(mock, id, ONE_CONN_ESTABLISHED);
	pthread_mutex_unlock(&mock->lock);
}

void
mock_conn_event(struct mock *mock, uint32_t id, enum one_conn_event event)
{
	pthread_mutex_lock(&mock->lock);
	mock_qp_state(mock, id, ONE_QP_ERROR);
	post_event(mock, id, event);
	pthread_mutex_unlock(&mock->lock);
}

uint32_t
mock_request(struct mock *mock, uint32_t listener, uint64_t conn_qual, const void *private_data, uint16_t len)
{
	struct one_cqe cqe = {.type = ONE_CQE_REQUEST, .object = listener, .flags = ONE_CQE_NOTIFY};
	struct mock_object *o, *cq;
	struct one_cr_shm *cr;
	uint32_t id;

	pthread_mutex_lock(&mock->lock);
	o = mock_object(mock, listener, ONE_MSG_LISTEN);
	mock_check(o != NULL, "no such listener");
	mock_check(len <= ONE_PRIVATE_DATA_MAX, "private data too long");
	id = ++mock->last_id;
	cqe.cookie = mock_arena_alloc(o->client, sizeof(*cr));
	cr = (void *)(o->client->arena + cqe.cookie);
	cr->cr = id;
	cr->family = mock->welcome.family;
	cr->remote_port = 40000;
	memcpy(cr->remote_addr, mock->welcome.addr, sizeof(cr->remote_addr));
	cr->remote_qpn = 0x4321;
	cr->conn_qual = conn_qual;
	cr->rd_atomic_in = cr->rd_atomic_out = mock->welcome.limits.max_rd_atomic;
	cr->retry_count = MOCK_RETRY_COUNT;
	cr->rnr_retry = MOCK_RNR_RETRY;
	cr->private_len = len;
	if (len > 0)
		memcpy(cr->private_data, private_data, len);
	cq = mock_object(mock, o->listener.cq, ONE_MSG_CQ_CREATE);
	mock_check(cq != NULL && mock_cq_store(cq, &cqe), "CQ of a listener");
	pthread_mutex_unlock(&mock->lock);
	return id;
}

void
mock_sidr(struct mock *mock, uint32_t object, uint8_t status, const struct one_sidr_shm *what)
{
	struct one_cqe cqe = {
		.type = ONE_CQE_SIDR, .status = status, .object = object, .flags = ONE_CQE_NOTIFY};
	struct mock_object *o, *cq;

	pthread_mutex_lock(&mock->lock);
	o = mock_object(mock, object, ONE_MSG_SIDR_ASK);
	if (o == NULL) {
		o = mock_object(mock, object, ONE_MSG_LISTEN);
		cqe.type = ONE_CQE_SIDR_REQUEST;
	}
	mock_check(o != NULL, "no such question, and no such listener");
	cqe.cookie = mock_arena_alloc(o->client, sizeof(*what));
	memcpy(o->client->arena + cqe.cookie, what, sizeof(*what));
	cq = mock_object(mock, o->listener.cq, ONE_MSG_CQ_CREATE);
	mock_check(cq != NULL && mock_cq_store(cq, &cqe), "CQ of a listener");
	pthread_mutex_unlock(&mock->lock);
}

bool
mock_mr(struct mock *mock, uint32_t id, struct one_mr_create *out)
{
	struct mock_object *o;

	pthread_mutex_lock(&mock->lock);
	o = mock_object(mock, id, ONE_MSG_MR_CREATE);
	if (o != NULL && out != NULL)
		*out = o->mr.args;
	pthread_mutex_unlock(&mock->lock);
	return o != NULL;
}

uint8_t *
mock_mr_ptr(struct mock *mock, uint32_t id, uint64_t va, uint64_t len)
{
	struct mock_object *o;
	uint8_t *p = NULL;

	pthread_mutex_lock(&mock->lock);
	o = mock_object(mock, id, ONE_MSG_MR_CREATE);
	mock_check(o != NULL, "no such MR");
	mock_check(va >= o->mr.args.va && len <= o->mr.args.length &&
			   va - o->mr.args.va <= o->mr.args.length - len,
		   "outside of the MR");
	if (o->mr.base != NULL)
		p = o->mr.base + o->mr.args.va % 4096 + (va - o->mr.args.va);
	pthread_mutex_unlock(&mock->lock);
	return p;
}

uint32_t
mock_mr_of_key(struct mock *mock, uint32_t key)
{
	uint32_t id = 0;

	pthread_mutex_lock(&mock->lock);
	for (struct mock_object *o = mock->objects; o != NULL && id == 0; o = o->next) {
		if (o->type == ONE_MSG_MR_CREATE && !o->mr.revoked &&
		    (o->mr.lkey == key || o->mr.rkey == key))
			id = o->id;
	}
	pthread_mutex_unlock(&mock->lock);
	return id;
}

uint32_t
mock_regions(struct mock *mock)
{
	uint32_t n = 0;

	pthread_mutex_lock(&mock->lock);
	for (struct mock_object *o = mock->objects; o != NULL; o = o->next)
		n += o->type == ONE_MSG_REGION_ADD;
	pthread_mutex_unlock(&mock->lock);
	return n;
}

uint8_t *
mock_arena(struct mock *mock)
{
	uint8_t *arena;

	pthread_mutex_lock(&mock->lock);
	mock_check(mock->clients != NULL, "nobody attached");
	arena = mock->clients->arena;
	pthread_mutex_unlock(&mock->lock);
	return arena;
}

struct one_copies *
mock_copies(struct mock *mock)
{
	struct one_copies *copies = NULL;

	pthread_mutex_lock(&mock->lock);
	mock_check(mock->clients != NULL, "nobody attached");
	if (mock->clients->copies != 0)
		copies = (void *)(mock->clients->arena + mock->clients->copies);
	pthread_mutex_unlock(&mock->lock);
	return copies;
}
