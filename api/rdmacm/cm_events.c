/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts entries of the devices' rings, on connections and requests, to events of ids. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"

/* Reasons of a REJ (IBTA vol. 1, 12.6.7.2). */
#define REJECT_NO_SERVICE 8
#define REJECT_CONSUMER 28

/* Timers of a request: the data plane chooses them when rdma_accept() grants RNR retries.  By default: */
#define TIMEOUT 18u       /* code: 1 s */
#define MIN_RNR_TIMER 12u /* 640 us */

struct id *ids;

static bool
backlog_full(const struct id *listen)
{
	const struct channel *channel = (const struct channel *)(const void *)listen->base.channel;
	uint32_t waiting = 0;

	if (listen->backlog == 0)
		return false;
	for (const struct event *event = channel->first; event != NULL; event = event->next)
		waiting += event->base.listen_id == &listen->base;
	return waiting >= listen->backlog;
}

/* A connection or SIDR request. */
struct request {
	uint32_t cr;
	uint16_t port, family, remote_port;
	uint16_t local; /* number of the requested local address, from 1 */
	const uint8_t *remote_addr;
};

/* A listener at a loopback address takes requests only from the device's own addresses. */
static bool
may_ask(const struct device *device, const struct id *listen, uint16_t family, const uint8_t *remote_addr)
{
	uint32_t num;
	const struct one_port_addr *own = verbs_cm_addrs(device->verbs, &num);

	if (!addr_is_loopback(&listen->base.route.addr.src_addr))
		return true;
	for (uint32_t i = 0; i < num; i++)
		if (own[i].family == family && memcmp(remote_addr, own[i].addr, addr_length(family)) == 0)
			return true;
	return false;
}

/* Creates the id of a request, with the listener's context and channel; NULL to reject the request. */
static struct id *
request_new(struct device *device, const struct id *listen, const struct request *request)
{
	bool wanted = may_ask(device, listen, request->family, request->remote_addr) && !backlog_full(listen);
	struct id *id = wanted ? calloc(1, sizeof(*id)) : NULL;

	if (id == NULL)
		return NULL;
	id->process = cma_process;
	id->device = device;
	id->cr = request->cr;
	id->bound = true;
	id->base.verbs = device->verbs;
	id->base.channel = listen->base.channel;
	id->base.context = listen->base.context;
	id->base.ps = listen->base.ps;
	id->base.qp_type = listen->base.qp_type;
	id->base.port_num = 1;
	id->base.pd = device_pd(device);
	id->addr = device_addr_index(device, request->local);
	device_addr(device, id->addr, request->port, &id->base.route.addr.src_storage);
	addr_fill(request->family, request->remote_addr, request->remote_port,
		  &id->base.route.addr.dst_storage);
	return id;
}

static void
offer_request(struct id *listen, struct id *id, struct event *event)
{
	id->next = ids;
	ids = id;
	event->base.listen_id = &listen->base;
	event_put(listen, event);
}

/* Limits the peer's depth of READs and atomics to the device's. */
static uint8_t
limit_depth(const struct device *device, uint32_t said)
{
	uint32_t max = verbs_cm_info(device->verbs)->limits.max_rd_atomic;

	return (uint8_t)(said < max ? said : max);
}

static void
on_request(struct device *device, struct id *listen, const struct one_cr_shm *shm)
{
	const struct request request = {shm->cr,    (uint16_t)shm->conn_qual, shm->family, shm->remote_port,
					shm->local, shm->remote_addr};
	struct id *id = request_new(device, listen, &request);
	struct event *event = id != NULL ? event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0) : NULL;

	if (event == NULL) {
		struct one_msg msg = {.type = ONE_MSG_CR_REJECT, .cr_reject.cr = shm->cr};

		verbs_cm_call(device->verbs, &msg, NULL);
		free(id);
		return;
	}
	id->peer_qpn = shm->remote_qpn;
	id->depth_in = limit_depth(device, shm->rd_atomic_in);
	id->depth_out = limit_depth(device, shm->rd_atomic_out);
	id->retry_count = shm->retry_count;
	id->rnr_retry = shm->rnr_retry;
	id->timeout = TIMEOUT;
	id->min_rnr_timer = MIN_RNR_TIMER;
	event_private(event, shm->private_data, shm->private_len, PRIVATE_MAX);
	event->base.param.conn.responder_resources = (uint8_t)shm->rd_atomic_in;
	event->base.param.conn.initiator_depth = (uint8_t)shm->rd_atomic_out;
	event->base.param.conn.retry_count = shm->retry_count;
	event->base.param.conn.rnr_retry_count = shm->rnr_retry;
	event->base.param.conn.qp_num = shm->remote_qpn;
	event->base.param.conn.flow_control = 1;
	offer_request(listen, id, event);
}

/* Offers a SIDR request to a listener of the UDP port space. */
static void
on_question(struct device *device, struct id *listen, const struct one_sidr_shm *shm)
{
	const struct request request = {shm->id,    (uint16_t)shm->service, shm->family, shm->remote_port,
					shm->local, shm->remote_addr};
	struct id *id = request_new(device, listen, &request);
	struct event *event = id != NULL ? udp_requested(id, shm) : NULL;

	if (event == NULL) {
		struct one_msg msg = {.type = ONE_MSG_SIDR_FREE, .id.id = shm->id};

		verbs_cm_call(device->verbs, &msg, NULL);
		free(id);
		return;
	}
	offer_request(listen, id, event);
}

static struct id *
id_of_listener(const struct device *device, uint32_t listener)
{
	for (struct id *id = ids; id != NULL; id = id->next)
		for (struct listening *l = id->listening; l != NULL; l = l->next)
			if (l->device == device && l->listener == listener)
				return id;
	return NULL;
}

/* Finds the id of a connection, or of a connection in time wait, by its queue pair; 0 finds none. */
static struct id *
id_of_qp(const struct device *device, uint32_t qp, bool timewait)
{
	struct id *id = qp != 0 ? ids : NULL;

	while (id != NULL && (id->device != device || (timewait ? id->timewait : id->qp) != qp))
		id = id->next;
	return id;
}

static void
on_established(struct id *id, struct event *event)
{
	const struct one_qp_shm *shm = id->shm;

	if (id->connecting && id->base.qp == NULL)
		event->base.event = RDMA_CM_EVENT_CONNECT_RESPONSE; /* rdma_establish() has to follow */
	else if (!id->connecting && id->base.qp != NULL)
		verbs_cm_connected(id->base.qp, shm->remote_qpn);
	id->established = true;
	id->timewait = id->qp;
	id->peer_qpn = shm->remote_qpn;
	id->depth_in = (uint8_t)shm->rd_atomic_in;
	id->depth_out = (uint8_t)shm->rd_atomic_out;
	id->retry_count = shm->retry_count;
	id->rnr_retry = shm->rnr_retry;
	id->timeout = shm->timeout;
	id->min_rnr_timer = shm->min_rnr_timer;
	event->base.param.conn.responder_resources = (uint8_t)shm->rd_atomic_in;
	event->base.param.conn.initiator_depth = (uint8_t)shm->rd_atomic_out;
	event->base.param.conn.qp_num = shm->remote_qpn;
	if (id->connecting)
		event_private(event, shm->private_data, shm->private_len, PRIVATE_MAX);
}

static void
on_connection(struct id *id, enum one_conn_event what)
{
	static const struct {
		enum rdma_cm_event_type type;
		int status;
	} reported[] = {
		[ONE_CONN_ESTABLISHED] = {RDMA_CM_EVENT_ESTABLISHED, 0},
		[ONE_CONN_PEER_REJECTED] = {RDMA_CM_EVENT_REJECTED, REJECT_CONSUMER},
		[ONE_CONN_NON_PEER_REJECTED] = {RDMA_CM_EVENT_REJECTED, REJECT_NO_SERVICE},
		[ONE_CONN_ACCEPT_ERROR] = {RDMA_CM_EVENT_CONNECT_ERROR, -ECONNABORTED},
		[ONE_CONN_DISCONNECTED] = {RDMA_CM_EVENT_DISCONNECTED, 0},
		[ONE_CONN_BROKEN] = {RDMA_CM_EVENT_DISCONNECTED, 0},
		[ONE_CONN_TIMED_OUT] = {RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
		[ONE_CONN_UNREACHABLE] = {RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
	};
	struct event *event;

	if (what < ONE_CONN_ESTABLISHED || what > ONE_CONN_UNREACHABLE)
		return;
	id->ended = what != ONE_CONN_ESTABLISHED;
	event = event_new(id, reported[what].type, reported[what].status);
	if (event == NULL)
		return;
	if (what == ONE_CONN_ESTABLISHED) {
		on_established(id, event);
	} else if (what == ONE_CONN_PEER_REJECTED) {
		event_private(event, id->shm->private_data, id->shm->private_len, PRIVATE_MAX);
	}
	event_put(id, event);
}

/* A synchronous id gets no event: a waiting call would take it for its own. */
static void
on_timewait_exit(struct id *id)
{
	struct event *event = NULL;

	id->timewait = 0;
	if (id->ended && !id->sync)
		event = event_new(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	if (event != NULL)
		event_put(id, event);
}

static void
on_sidr(struct device *device, const struct one_cqe *cqe)
{
	const struct one_sidr_shm *shm = verbs_cm_at(device->verbs, cqe->cookie, sizeof(*shm));
	struct id *id;

	if (shm == NULL || cqe->object == 0)
		return;
	if (cqe->type == ONE_CQE_SIDR_REQUEST) {
		id = id_of_listener(device, cqe->object);
		if (id != NULL)
			on_question(device, id, shm);
	} else if (cqe->type == ONE_CQE_SIDR) {
		for (id = ids; id != NULL && (id->device != device || id->sidr != cqe->object);)
			id = id->next;
		if (id != NULL)
			udp_answered(id, cqe->status, shm);
	}
}

static void
drain_device(struct device *device)
{
	struct one_cqe cqe;
	struct id *id;

	while (verbs_cm_next(&device->cm, &cqe) != 0) {
		if (cqe.type == ONE_CQE_REQUEST) {
			const struct one_cr_shm *shm = verbs_cm_at(device->verbs, cqe.cookie, sizeof(*shm));

			id = id_of_listener(device, cqe.object);
			if (id != NULL && shm != NULL)
				on_request(device, id, shm);
		} else if (cqe.type == ONE_CQE_CONNECT && cqe.status == ONE_CONN_TIMEWAIT_EXIT) {
			id = id_of_qp(device, cqe.object, true);
			if (id != NULL)
				on_timewait_exit(id);
		} else if (cqe.type == ONE_CQE_CONNECT) {
			id = id_of_qp(device, cqe.object, false);
			if (id != NULL)
				on_connection(id, cqe.status);
		} else {
			on_sidr(device, &cqe);
		}
	}
}

/* If the data plane of the device is lost, reports that once to each id on the device.  Ids that listen at
 * all devices continue at the others. */
static void
report_loss(struct device *device)
{
	char byte;

	if (recv(device->cm.fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK) != 0)
		return;
	devices_leave(device);
	for (struct id *id = ids; id != NULL; id = id->next) {
		struct event *event = NULL;

		if (id->device == device)
			event = event_new(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
		else
			listening_leave(id, device);
		if (event != NULL)
			event_put(id, event);
	}
}

void
ids_drain(void)
{
	struct device *next;

	for (struct device *d = devices; d != NULL; d = next) {
		next = d->next;
		drain_device(d);
		report_loss(d);
	}
}

/* ---- event channels and the list of devices ---- */

static bool
serve_devices(void)
{
	ids_drain();
	return listening_resume();
}

struct rdma_event_channel *
rdma_create_event_channel(void)
{
	struct channel *channel = channel_new();
	int error;

	if (channel == NULL)
		return NULL;
	ids_watch_forks();
	pthread_mutex_lock(&cma_lock);
	error = devices_open();
	if (error == 0)
		error = reader_start(serve_devices);
	pthread_mutex_unlock(&cma_lock);
	if (error == 0)
		return &channel->base;
	rdma_destroy_event_channel(&channel->base);
	if (error == -ENODEV || devices == NULL)
		devices_refuse(error);
	cma_end(__func__, error, NULL);
	return NULL;
}

struct ibv_context **
rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	int n = 0;

	ids_watch_forks();
	pthread_mutex_lock(&cma_lock);
	devices_open();
	for (struct device *d = devices; d != NULL; d = d->next)
		n++;
	list = calloc((size_t)n + 1, sizeof(struct ibv_context *));
	n = 0;
	for (struct device *d = devices; list != NULL && d != NULL; d = d->next)
		list[n++] = d->verbs;
	pthread_mutex_unlock(&cma_lock);
	if (num_devices != NULL)
		*num_devices = list != NULL ? n : 0;
	return list;
}

void
rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
