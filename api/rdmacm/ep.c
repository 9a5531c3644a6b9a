/* SPDX-License-Identifier: BSD-3-Clause */
/* Migration of ids to another event channel, waiting for requests, and endpoints. */
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

#include "rdmacm/channel.h"
#include "rdmacm/id.h"

#define RESOLVE_MS 2000

/* ---- rdma_migrate_id ---- */

/* Moves the queued events of the id, in order, to the end of the new channel.  Ids of requests for the id
 * move along, with their events. */
static void
move_events(const struct id *id, struct channel *from, struct channel *to)
{
	struct event *event;

	while ((event = event_remove(from, id)) != NULL) {
		event->base.id->channel = &to->base;
		event_append(to, event);
		if (event->base.id != &id->base)
			move_events(TO_ID(event->base.id), from, to);
	}
	channel_changed(from);
}

int
rdma_migrate_id(struct rdma_cm_id *base, struct rdma_event_channel *channel)
{
	struct rdma_event_channel *from = base->channel, *own = NULL;
	struct id *id = TO_ID(base);
	int error = cma_own(id->process, "id", base);

	if (error != 0)
		return cma_end(__func__, error, base);
	if (id->sync && channel == NULL) {
		refused_because(EINVAL, "channel = 0: the id has its own channel already; give another");
		return cma_end(__func__, EINVAL, base);
	}
	if (channel == from)
		return 0;
	if (channel == NULL) {
		own = channel = rdma_create_event_channel();
		if (own == NULL)
			return -1;
	}
	if (id->sync)
		channel_drop_event(id);
	pthread_mutex_lock(&cma_lock);
	ids_drain();
	move_events(id, (struct channel *)(void *)from, (struct channel *)(void *)channel);
	base->channel = channel;
	while (id->acked != id->got)
		pthread_cond_wait(&cma_acked, &cma_lock);
	pthread_mutex_unlock(&cma_lock);
	if (id->sync)
		rdma_destroy_event_channel(from);
	id->sync = own != NULL;
	return 0;
}

/* ---- requests ---- */

static int
take_request(struct id *listen, struct rdma_cm_event *event)
{
	struct ibv_qp_init_attr init;
	int error = channel_outcome(event, RDMA_CM_EVENT_CONNECT_REQUEST);

	if (error != 0)
		return fail(error);
	/* The new id gets its own channel; its request was taken from the listener's. */
	if (rdma_migrate_id(event->id, NULL) != 0)
		return -1;
	if (listen->qp_init == NULL)
		return 0;
	init = *listen->qp_init;
	return rdma_create_qp(event->id, listen->base.pd, &init);
}

int
rdma_get_request(struct rdma_cm_id *base, struct rdma_cm_id **out)
{
	struct id *listen = TO_ID(base);
	struct rdma_cm_event *event;
	int error;

	if (!listen->sync || !listen->listens) {
		refused_because(
			EINVAL,
			"listen = %p: the id does not listen, or has an event channel; call rdma_listen, or rdma_get_cm_event",
			(const void *)base);
		return cma_end(__func__, EINVAL, base);
	}
	channel_drop_event(listen);
	if (rdma_get_cm_event(base->channel, &event) != 0)
		return -1;
	if (take_request(listen, event) == 0) {
		*out = event->id;
		event->id->event = event;
		return 0;
	}
	error = errno;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct rdma_cm_id *requested = event->id;

		rdma_ack_cm_event(event);
		rdma_destroy_id(requested);
	} else {
		base->event = event;
	}
	return fail(error);
}

/* ---- endpoints ---- */

static int
open_passive(struct id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
	     const struct ibv_qp_init_attr *init)
{
	if (rdma_bind_addr(&id->base, res->ai_src_addr) != 0)
		return -1;
	if (pd != NULL)
		id->base.pd = pd;
	if (init == NULL)
		return 0;
	id->qp_init = malloc(sizeof(*init));
	if (id->qp_init == NULL)
		return -1;
	*id->qp_init = *init;
	id->qp_init->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int
open_active(struct id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	if (rdma_resolve_addr(&id->base, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) != 0 ||
	    rdma_resolve_route(&id->base, RESOLVE_MS) != 0)
		return -1;
	if (init == NULL)
		return 0;
	init->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return rdma_create_qp(&id->base, pd, init);
}

static int
create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
	  struct ibv_qp_init_attr *init)
{
	bool listens = (res->ai_flags & RAI_PASSIVE) != 0;
	struct rdma_cm_id *base;
	int error;

	if (res->ai_qp_type != IBV_QPT_RC && res->ai_qp_type != IBV_QPT_UD)
		return fail(refused_because(
			EOPNOTSUPP,
			"res->ai_qp_type = %d: supported are IBV_QPT_RC and IBV_QPT_UD; give one of these",
			res->ai_qp_type));
	if ((listens ? res->ai_src_addr : res->ai_dst_addr) == NULL)
		return fail(refused_because(
			EINVAL, "res->ai_%s_addr = 0: an address is needed; see rdma_getaddrinfo(3)",
			listens ? "src" : "dst"));
	if (rdma_create_id(NULL, &base, NULL, (enum rdma_port_space)res->ai_port_space) != 0)
		return -1;
	if ((listens ? open_passive(TO_ID(base), res, pd, init) : open_active(TO_ID(base), res, pd, init)) ==
	    0) {
		*out = base;
		return 0;
	}
	error = errno;
	rdma_destroy_ep(base);
	return fail(
		refused_because(error, "res = %p: a step failed; see the message above", (const void *)res));
}

int
rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
	       struct ibv_qp_init_attr *init)
{
	return cma_result(__func__, create_ep(out, res, pd, init), res);
}

void
rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp != NULL)
		rdma_destroy_qp(id);
	if (id->srq != NULL)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}
