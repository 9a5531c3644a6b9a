/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: their life, addresses, queue pairs and connections. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"

/* ---- life ---- */

static int
create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps)
{
	struct id *id;

	if (ps != RDMA_PS_TCP && ps != RDMA_PS_IB && ps != RDMA_PS_UDP)
		return fail(refused_because(
			EOPNOTSUPP,
			"ps = %#x: supported are RDMA_PS_TCP, RDMA_PS_IB and RDMA_PS_UDP; give one of these",
			(unsigned int)ps));
	if (channel != NULL) {
		int error = cma_own(((struct channel *)(void *)channel)->process, "channel", channel);

		if (error != 0)
			return fail(error);
	}
	id = calloc(1, sizeof(*id));
	if (id == NULL)
		return fail(ENOMEM);
	id->sync = channel == NULL;
	id->base.channel = id->sync ? rdma_create_event_channel() : channel;
	if (id->base.channel == NULL) {
		free(id);
		return -1;
	}
	id->process = cma_process;
	id->base.context = context;
	id->base.ps = ps;
	id->base.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	pthread_mutex_lock(&cma_lock);
	id->next = ids;
	ids = id;
	pthread_mutex_unlock(&cma_lock);
	*out = &id->base;
	return 0;
}

int
rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
	       enum rdma_port_space ps)
{
	return cma_result(__func__, create_id(channel, out, context, ps), channel);
}

/* Rejects a request.  As in the kernel, the reason is the consumer, even if its id is destroyed
 * unanswered. */
static int
reject_request(struct id *id, const void *data, uint8_t len)
{
	struct one_msg msg = {.type = ONE_MSG_CR_REJECT};
	int error;

	if (is_udp(id))
		return udp_reject(id, data, len);
	msg.cr_reject.cr = id->cr;
	msg.cr_reject.private_len = len;
	memcpy(msg.cr_reject.private_data, data, len);
	error = verbs_cm_call(id->device->verbs, &msg, NULL);
	if (error != -EMSGSIZE)
		id->cr = 0;
	return error == -EMSGSIZE ? -EINVAL : 0;
}

static void
id_unlink(const struct id *id)
{
	struct id **link = &ids;

	while (*link != id)
		link = &(*link)->next;
	*link = id->next;
}

/* Drops the queued events of the id.  Requests for the id, which the application will never get, are
 * rejected; their ids are freed with their own queued events. */
static void
forget_events(const struct id *id)
{
	struct channel *channel = (struct channel *)(void *)id->base.channel;
	struct event *event;

	while ((event = event_remove(channel, id)) != NULL) {
		if (event->base.id != &id->base) {
			struct id *requested = TO_ID(event->base.id);

			reject_request(requested, "", 0);
			id_unlink(requested);
			forget_events(requested);
			free(requested);
		}
		free(event);
	}
	channel_changed(channel);
}

/* Ends the connection of an id that is destroyed, as the kernel does.  Ignores errors: the application may
 * have destroyed its own queue pair before. */
static void
end_connection(const struct id *id)
{
	struct one_msg msg = {.type = ONE_MSG_QP_DISCONNECT};

	msg.qp_disconnect.qp = id->qp;
	if (id->qp != 0 && !id->ended)
		verbs_cm_call(id->base.verbs, &msg, NULL);
}

int
rdma_destroy_id(struct rdma_cm_id *base)
{
	struct id *id = TO_ID(base);

	if (base->event != NULL)
		rdma_ack_cm_event(base->event);
	pthread_mutex_lock(&cma_lock);
	ids_drain(); /* rejects requests that have arrived, too */
	listening_end(id);
	if (id->cr != 0)
		reject_request(id, "", 0);
	end_connection(id);
	carrier_forget(id);
	udp_forget(id);
	id_unlink(id);
	forget_events(id);
	/* A child does not wait: threads of the parent that had events do not exist there. */
	while (id->acked != id->got && id->process == cma_process)
		pthread_cond_wait(&cma_acked, &cma_lock);
	pthread_mutex_unlock(&cma_lock);
	if (base->qp == NULL)
		rings_destroy(id); /* retries what rdma_destroy_qp() could not close */
	if (id->sync)
		rdma_destroy_event_channel(base->channel);
	free(id->qp_init);
	free(id);
	return 0;
}

/* ---- addresses ---- */

static size_t
size_of(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void
bind_device(struct id *id, struct device *device, uint32_t index, uint16_t port)
{
	id->device = device;
	id->addr = index;
	id->base.verbs = device->verbs;
	id->base.port_num = 1;
	id->base.pd = device_pd(device);
	device_addr(device, index, port, &id->base.route.addr.src_storage);
}

static int
no_family(const struct sockaddr *addr, const char *argument)
{
	char text[ADDR_TEXT_MAX];

	return refused_because(
		-EAFNOSUPPORT,
		"%s = %s: the id's own address has another family, or this one is neither AF_INET nor AF_INET6; give one of the id's family, or bind to another address",
		argument, addr_text(addr, text));
}

static int
no_port(const struct sockaddr *addr)
{
	char text[ADDR_TEXT_MAX];

	if (devices == NULL)
		return devices_refuse(-ENODEV);
	return refused_because(
		-EADDRNOTAVAIL,
		"addr = %s: no port of the data plane has this address (the kernel's do not count); give one that `onesidectl show ports` lists, or the unspecified address",
		addr_text(addr, text));
}

static int
bind_addr(struct id *id, const struct sockaddr *addr)
{
	if (id->bound)
		return refused_because(-EINVAL,
				       "id = %p: the id is bound to an address already; use another id",
				       (const void *)&id->base);
	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return no_family(addr, "addr");
	if (!addr_names_no_device(addr)) {
		uint32_t index;
		struct device *device = device_at(addr, &index);

		if (device == NULL)
			return no_port(addr);
		bind_device(id, device, index, addr_port(addr));
	} else {
		memcpy(&id->base.route.addr.src_storage, addr, size_of(addr));
	}
	id->bound = true;
	return 0;
}

static void
unbind_id(struct id *id)
{
	id->bound = false;
	id->device = NULL;
	id->addr = 0;
	id->base.verbs = NULL;
	id->base.pd = NULL;
	id->base.port_num = 0;
	memset(&id->base.route.addr.src_storage, 0, sizeof(id->base.route.addr.src_storage));
}

int
rdma_bind_addr(struct rdma_cm_id *base, struct sockaddr *addr)
{
	struct id *id = TO_ID(base);
	struct sockaddr_storage room;
	int error;

	pthread_mutex_lock(&cma_lock);
	devices_open(); /* lost devices may have come back */
	error = bind_addr(id, addr_unmapped(addr, &room));
	if (error == 0) {
		error = listening_hold(id);
		if (error != 0)
			unbind_id(id);
	}
	pthread_mutex_unlock(&cma_lock);
	return cma_end(__func__, error, base);
}

static int
queue_event(struct id *id, enum rdma_cm_event_type type)
{
	struct event *event = event_new(id, type, 0);

	if (event == NULL)
		return -ENOMEM;
	event_put(id, event);
	return 0;
}

static int
no_device_towards(const struct sockaddr *dst)
{
	char text[ADDR_TEXT_MAX];

	return refused_because(
		-ENODEV, "dst_addr = %s: no port has an address of this family; see `onesidectl show ports`",
		addr_text(dst, text));
}

/* Binds the id to a device with a route to `dst`, and to a port at the device's address. */
static int
bind_towards(struct id *id, const struct sockaddr *dst)
{
	struct device *device;
	uint32_t index = 0;

	if (id->device == NULL) {
		device = device_towards(dst, &index);
		if (device == NULL)
			return devices == NULL ? no_port(dst) : no_device_towards(dst);
		bind_device(id, device, index, id->bound ? addr_port(&id->base.route.addr.src_addr) : 0);
		id->bound = true;
	}
	if (!addr_names_no_device(dst) && device_family(id->device, id->addr) != dst->sa_family)
		return no_family(dst, "dst_addr");
	listening_narrow(id);
	return listening_hold(id);
}

static int
resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	int error = 0;

	if (dst->sa_family != AF_INET && dst->sa_family != AF_INET6)
		return no_family(dst, "dst_addr");
	if (src != NULL && !id->bound)
		error = bind_addr(id, src);
	if (error == 0)
		error = bind_towards(id, dst);
	if (error != 0)
		return error;
	if (addr_names_no_device(dst))
		device_addr(id->device, id->addr, addr_port(dst), &id->base.route.addr.dst_storage);
	else
		memcpy(&id->base.route.addr.dst_storage, dst, size_of(dst));
	return queue_event(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}

/* Succeeds without asking the network: when the id connects, the data plane resolves the address. */
int
rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	struct sockaddr_storage src_room, dst_room;
	struct id *id = TO_ID(base);
	bool was_bound;
	int error;

	pthread_mutex_lock(&cma_lock);
	devices_open();
	was_bound = id->bound;
	error = resolve_addr(id, src != NULL ? addr_unmapped(src, &src_room) : NULL,
			     addr_unmapped(dst, &dst_room));
	if (error != 0 && !was_bound) { /* restored, so that the application can try another address */
		listening_end(id);
		unbind_id(id);
	}
	pthread_mutex_unlock(&cma_lock);
	return channel_end(__func__, TO_ID(base), error, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static int
not_resolved(const struct id *id)
{
	return refused_because(
		-EINVAL, "id = %p: no peer address is resolved; rdma_resolve_addr first, and get its event",
		(const void *)&id->base);
}

int
rdma_resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
	struct id *id = TO_ID(base);
	int error = -EINVAL;

	pthread_mutex_lock(&cma_lock);
	if (id->device != NULL && base->route.addr.dst_addr.sa_family != 0)
		error = queue_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	else
		not_resolved(id);
	pthread_mutex_unlock(&cma_lock);
	return channel_end(__func__, id, error, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

__be16
rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(addr_port(&id->route.addr.src_addr));
}

__be16
rdma_get_dst_port(struct rdma_cm_id *id)
{
	return htons(addr_port(&id->route.addr.dst_addr));
}

/* ---- queue pairs ---- */

/* Completes what the application leaves out: PD, CQs, SRQ. */
static int
fill_init(struct id *id, struct ibv_qp_init_attr_ex *init)
{
	struct rdma_cm_id *base = &id->base;

	if ((init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || init->pd == NULL)
		init->pd = base->pd;
	init->comp_mask |= IBV_QP_INIT_ATTR_PD;
	if (init->pd == NULL || init->pd->context != base->verbs)
		return fail(refused_because(
			EINVAL,
			"pd = %p: the PD belongs to another device; allocate it with id->verbs, or give NULL",
			(const void *)init->pd));
	if ((base->send_cq != NULL && init->send_cq != NULL && base->send_cq != init->send_cq) ||
	    (base->recv_cq != NULL && init->recv_cq != NULL && base->recv_cq != init->recv_cq))
		return fail(refused_because(EINVAL,
					    "qp_init_attr = %p: the id has other CQs; give these, or NULL",
					    (const void *)init));
	/* At least 1 entry each, because a queue pair needs both CQs. */
	if (rings_make(id, init->send_cq != NULL ? 0 : init->cap.max_send_wr + !init->cap.max_send_wr,
		       init->recv_cq != NULL ? 0 : init->cap.max_recv_wr + !init->cap.max_recv_wr) != 0)
		return -1;
	if (init->send_cq == NULL)
		init->send_cq = base->send_cq;
	if (init->recv_cq == NULL)
		init->recv_cq = base->recv_cq;
	if (init->srq == NULL)
		init->srq = base->srq;
	return 0;
}

static int
not_bound(void)
{
	return refused_because(
		-EINVAL,
		"id->verbs = 0: the id is bound to no device; rdma_resolve_addr, or rdma_bind_addr to a port's address, first");
}

/* Moves a queue pair to INIT, from where the CM connects it. */
static int
move_to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	return ibv_modify_qp(qp, &attr, external_qp_init_attr(&attr));
}

static int
create_qp(struct id *id, struct ibv_qp_init_attr_ex *init)
{
	struct ibv_qp *qp;
	int error;

	if (id->device == NULL)
		return fail(not_bound());
	if (id->base.qp != NULL)
		return fail(refused_because(
			EINVAL, "id->qp = %p: the id has a queue pair; rdma_destroy_qp first, or use it",
			(const void *)id->base.qp));
	if (init->qp_type != id->base.qp_type)
		return fail(refused_because(
			EINVAL, "qp_init_attr->qp_type = %u: ids of this port space have type %u; give that",
			(unsigned int)init->qp_type, (unsigned int)id->base.qp_type));
	if (fill_init(id, init) != 0)
		return -1;
	qp = ibv_create_qp_ex(id->base.verbs, init);
	error = qp == NULL ? errno : is_udp(id) ? udp_take(qp) : move_to_init(qp);
	if (error != 0) {
		if (qp != NULL)
			ibv_destroy_qp(qp);
		rings_destroy(id);
		return fail(refused_because(
			error, "qp_init_attr = %p: libibverbs refused the queue pair; see its message above",
			(const void *)init));
	}
	id->base.pd = init->pd;
	id->base.qp = qp;
	return 0;
}

static int
create_qp_for(const char *function, struct rdma_cm_id *base, struct ibv_qp_init_attr_ex *init)
{
	int result;

	pthread_mutex_lock(&cma_lock);
	result = create_qp(TO_ID(base), init);
	pthread_mutex_unlock(&cma_lock);
	return cma_result(function, result, base);
}

int
rdma_create_qp_ex(struct rdma_cm_id *base, struct ibv_qp_init_attr_ex *init)
{
	return create_qp_for(__func__, base, init);
}

int
rdma_create_qp(struct rdma_cm_id *base, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex full = {.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};
	int result;

	/* Both structures have the same layout up to comp_mask. */
	memcpy(&full, init, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	result = create_qp_for(__func__, base, &full);
	if (result == 0)
		init->cap = full.cap;
	return result;
}

static int
report_end(struct id *id)
{
	int error = queue_event(id, RDMA_CM_EVENT_DISCONNECTED);

	id->ended = error == 0;
	return error;
}

void
rdma_destroy_qp(struct rdma_cm_id *base)
{
	struct id *id = TO_ID(base);
	struct ibv_qp *qp = base->qp;

	/* Later events of the queue pair find no id, so report the end of a disconnect under way now. */
	pthread_mutex_lock(&cma_lock);
	ids_drain();
	base->qp = NULL;
	id->qp = 0;
	if (id->disconnecting && !id->ended)
		report_end(id);
	pthread_mutex_unlock(&cma_lock);
	ibv_destroy_qp(qp);
	rings_destroy(id);
}

/* ---- connections ---- */

static int
prepare_qp(struct id *id, const struct rdma_conn_param *param, struct one_conn_param *asked)
{
	uint32_t in = param != NULL ? param->responder_resources : RDMA_MAX_RESP_RES;
	uint32_t out = param != NULL ? param->initiator_depth : RDMA_MAX_INIT_DEPTH;
	struct ibv_qp *qp = external_qp(id, param);
	const struct one_qp_shm *shm;
	int error;

	if (!param_valid(id, param))
		return -EINVAL;
	if (qp == NULL)
		return refused_because(
			-EINVAL,
			"id->qp = 0: the id has no queue pair; rdma_create_qp first, or give a QPN in conn_param->qp_num");
	param_fill(id, param, asked);
	if (qp->qp_type == IBV_QPT_UD) {
		asked->known_as = verbs_cm_id(qp);
		qp = carrier_make(id);
		if (qp == NULL)
			return -errno;
	}
	error = verbs_cm_prepare(qp, &id->device->cm, in, out, asked, &shm);
	if (error != 0)
		return error;
	id->qp = verbs_cm_id(qp);
	id->shm = shm;
	if (id->base.qp == NULL && id->cr != 0) { /* the application made its RTR before it accepts */
		asked->given |= ONE_CONN_ACCESS;
		asked->access = (uint8_t)verbs_cm_access(qp);
	}
	return 0;
}

static int
too_long(const struct rdma_conn_param *param)
{
	return refused_because(
		-EINVAL, "conn_param->private_data_len = %u: more than the CM's message holds; give less",
		param->private_data_len);
}

static int
connect_id(struct id *id, const struct rdma_conn_param *param)
{
	const struct rdma_addr *addr = &id->base.route.addr;
	struct one_msg msg = {.type = ONE_MSG_QP_CONNECT};
	int error = prepare_qp(id, param, &msg.qp_connect.param);

	if (error != 0)
		return error;
	msg.qp_connect.qp = id->qp;
	msg.qp_connect.family = addr->dst_addr.sa_family;
	memcpy(msg.qp_connect.addr, addr_bytes(&addr->dst_addr), addr_length(msg.qp_connect.family));
	msg.qp_connect.service = ids_service(id, addr_port(&addr->dst_addr));
	msg.qp_connect.timeout_us = UINT64_MAX;
	msg.qp_connect.source = id->addr + 1;
	msg.qp_connect.listener = listening_at_device(id);
	if (param != NULL && param->private_data_len != 0) {
		msg.qp_connect.private_len = param->private_data_len;
		memcpy(msg.qp_connect.private_data, param->private_data, param->private_data_len);
	}
	id->connecting = true;
	id->ended = id->disconnecting = false;
	error = verbs_cm_call(id->base.verbs, &msg, NULL);
	return error == -EMSGSIZE ? too_long(param) : error;
}

int
rdma_connect(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
	struct id *id = TO_ID(base);
	int error = -EINVAL;

	pthread_mutex_lock(&cma_lock);
	if (id->device != NULL && base->route.addr.dst_addr.sa_family != 0)
		error = is_udp(id) ? udp_connect(id, param) : connect_id(id, param);
	else
		not_resolved(id);
	pthread_mutex_unlock(&cma_lock);
	return channel_end(__func__, id, error,
			   base->qp != NULL || is_udp(id) ? RDMA_CM_EVENT_ESTABLISHED
							  : RDMA_CM_EVENT_CONNECT_RESPONSE);
}

static int
accept_id(struct id *id, const struct rdma_conn_param *param)
{
	struct one_msg msg = {.type = ONE_MSG_CR_ACCEPT};
	int error = prepare_qp(id, param, &msg.cr_accept.param);

	if (error != 0)
		return error;
	msg.cr_accept.cr = id->cr;
	msg.cr_accept.qp = id->qp;
	if (param != NULL && param->private_data_len != 0) {
		msg.cr_accept.private_len = param->private_data_len;
		memcpy(msg.cr_accept.private_data, param->private_data, param->private_data_len);
	}
	error = verbs_cm_call(id->base.verbs, &msg, NULL);
	if (error != 0)
		return error == -EMSGSIZE ? too_long(param) : error;
	id->cr = 0;
	/* Requests posted from now on wait in the ring until the connection is established. */
	if (id->base.qp != NULL)
		verbs_cm_connected(id->base.qp, 0);
	return 0;
}

static int
no_request(const struct id *id)
{
	return refused_because(
		-EINVAL,
		"id = %p: no request is pending; answer the id of RDMA_CM_EVENT_CONNECT_REQUEST, once",
		(const void *)&id->base);
}

int
rdma_accept(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
	struct id *id = TO_ID(base);
	int error;

	pthread_mutex_lock(&cma_lock);
	error = id->cr == 0 ? no_request(id) : is_udp(id) ? udp_accept(id, param) : accept_id(id, param);
	pthread_mutex_unlock(&cma_lock);
	if (is_udp(id)) /* no event follows the answer */
		return cma_end(__func__, error, base);
	return channel_end(__func__, id, error, RDMA_CM_EVENT_ESTABLISHED);
}

int
rdma_reject(struct rdma_cm_id *base, const void *data, uint8_t len)
{
	struct id *id = TO_ID(base);
	int error;

	pthread_mutex_lock(&cma_lock);
	error = id->cr != 0 ? reject_request(id, len != 0 ? data : "", len) : no_request(id);
	pthread_mutex_unlock(&cma_lock);
	return cma_end(__func__, error, base);
}

static int
no_connection(const struct id *id)
{
	return refused_because(-EINVAL,
			       "id = %p: no connection, or its end was reported; connect or accept first",
			       (const void *)&id->base);
}

static int
disconnect_id(struct id *id)
{
	struct one_msg msg = {.type = ONE_MSG_QP_DISCONNECT};
	int error;

	if (is_udp(id))
		return no_connection(id);
	/* A connection whose queue pair was destroyed has ended, perhaps without an event. */
	if (id->qp == 0 && !id->established)
		return no_connection(id);
	if (id->qp == 0)
		return id->ended ? 0 : report_end(id);
	msg.qp_disconnect.qp = id->qp;
	error = verbs_cm_call(id->base.verbs, &msg, NULL);
	if (error == -EINVAL && id->base.qp == NULL) { /* the application destroyed its own queue pair */
		id->qp = 0;
		return disconnect_id(id);
	}
	id->disconnecting |= error == 0;
	return error == -ENOTCONN ? no_connection(id) : error;
}

/* True if the peer disconnected and the application has got that event: no further event follows. */
static bool
end_is_known(const struct id *id)
{
	return id->ended && ((const struct channel *)(const void *)id->base.channel)->first == NULL;
}

int
rdma_disconnect(struct rdma_cm_id *base)
{
	struct id *id = TO_ID(base);
	bool known;
	int error;

	pthread_mutex_lock(&cma_lock);
	known = end_is_known(id);
	error = disconnect_id(id);
	pthread_mutex_unlock(&cma_lock);
	if (known)
		return cma_end(__func__, error, base);
	return channel_end(__func__, id, error, RDMA_CM_EVENT_DISCONNECTED);
}

/* Only checks its arguments: the data plane has seen the peer's first packet before the application. */
int
rdma_notify(struct rdma_cm_id *base, enum ibv_event_type event)
{
	const struct id *id = TO_ID(base);
	int error = EINVAL;

	pthread_mutex_lock(&cma_lock);
	if (event == IBV_EVENT_COMM_EST && !id->ended &&
	    (base->qp != NULL ? base->qp->state == IBV_QPS_RTS : id->qp != 0))
		error = 0;
	else
		refused_because(error,
				"event = %u: only IBV_EVENT_COMM_EST of a connection is accepted; give that",
				(unsigned int)event);
	pthread_mutex_unlock(&cma_lock);
	return cma_end(__func__, error, base);
}
