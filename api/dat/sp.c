/* SPDX-License-Identifier: BSD-3-Clause */
/* Service points: public (PSP), and reserved (RSP), which take one request for one endpoint. */
#include <sched.h>

#include "dat/ep.h"

static DAT_RETURN
listen_errno(int error)
{
	switch (error) {
	case -EADDRINUSE:
		return DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE);
	case -EADDRNOTAVAIL:
		return DAT_ERROR(DAT_CONN_QUAL_UNAVAILABLE, DAT_NO_SUBTYPE);
	case -EACCES:
		return BECAUSE(
			BAD_ARG(2),
			"conn_qual = not admitted: the data plane reserves it; choose another, or call dat_psp_create_any");
	default:
		return dat_errno(error, DAT_RESOURCE_MEMORY);
	}
}

/* Returns a service point with its EVD that does not listen yet; NULL with *ret set. */
static struct sp *
make_sp(struct ia *ia, DAT_HANDLE_TYPE type, DAT_EVD_HANDLE evd_handle, DAT_RETURN *ret)
{
	struct sp *sp = object_new(ia, type);

	if (sp == NULL) {
		*ret = DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
		return NULL;
	}
	pthread_mutex_lock(&ia->lock);
	sp->evd = evd_ref(ia, evd_handle, DAT_EVD_CR_FLAG);
	if (sp->evd == NULL) {
		object_discard(&sp->o);
		sp = NULL;
		*ret = BAD_HANDLE(EVD_CR);
	}
	pthread_mutex_unlock(&ia->lock);
	return sp;
}

struct ep *
sp_take_ep(struct sp *sp, enum ep_phase to)
{
	struct ep *ep;

	pthread_mutex_lock(&sp->o.ia->lock);
	ep = sp->ep;
	sp->ep = NULL;
	pthread_mutex_unlock(&sp->o.ia->lock);
	/* While a thread changes the endpoint's attributes the phase is EP_CHANGING: wait until it is over.
	 * No lock is held, because the change needs ia.lock. */
	while (ep != NULL && !ep_move(ep, EP_RESERVED, to)) {
		enum ep_phase phase = ep_phase(ep);

		if (phase == EP_CHANGING)
			sched_yield();
		else if (phase != EP_RESERVED)
			return NULL;
	}
	return ep;
}

/* Frees a service point that does not listen. */
static void
discard_sp(struct sp *sp)
{
	struct ia *ia = sp->o.ia;

	sp_take_ep(sp, EP_UNCONNECTED);
	pthread_mutex_lock(&ia->lock);
	object_unref(sp->evd);
	object_discard(&sp->o);
	pthread_mutex_unlock(&ia->lock);
}

/* Listens and gives the service point its handle; discards it on failure.  A request may reach the EVD before
 * the reply arrives: a thread that finds a request of an unknown listener waits for listen_lock and searches
 * again. */
static DAT_RETURN
start_listening(struct sp *sp, uint32_t flags, DAT_CONN_QUAL qual, DAT_HANDLE *handle)
{
	struct one_msg msg = {.type = ONE_MSG_LISTEN};
	struct ia *ia = sp->o.ia;
	struct one_reply reply;
	int error;

	msg.listen.service = qual;
	msg.listen.cq = sp->evd->cq.id;
	msg.listen.flags = flags;
	pthread_mutex_lock(&ia->listen_lock);
	error = one_call(ia->client, &msg, NULL, 0, &reply);
	if (error != 0) {
		pthread_mutex_unlock(&ia->listen_lock);
		discard_sp(sp);
		return listen_errno(error);
	}
	sp->qual = reply.listening.service;
	error = object_publish_alone(&sp->o, reply.listening.listener);
	pthread_mutex_unlock(&ia->listen_lock);
	if (error == 0) {
		*handle = sp->o.handle;
		return DAT_SUCCESS;
	}
	one_call_id(ia->client, ONE_MSG_UNLISTEN, reply.listening.listener);
	discard_sp(sp);
	return dat_errno(error, DAT_RESOURCE_MEMORY);
}

struct refused {
	uint32_t listener;
	uint32_t count;
	uint64_t offset[64]; /* of requests in the arena */
};

static bool
request_of(const struct one_cqe *cqe, void *arg)
{
	struct refused *refused = arg;

	if (cqe->type != ONE_CQE_REQUEST || cqe->object != refused->listener ||
	    refused->count == sizeof(refused->offset) / sizeof(refused->offset[0]))
		return false;
	refused->offset[refused->count++] = cqe->cookie;
	return true;
}

void
sp_destroy(struct object *o)
{
	struct sp *sp = (struct sp *)o;
	struct ia *ia = o->ia;
	struct refused refused = {.listener = idmap_key(&o->node)};

	one_call_id(ia->client, ONE_MSG_UNLISTEN, refused.listener);
	/* Refuse the requests that the consumer has not seen. */
	do {
		refused.count = 0;
		lock_take(&sp->evd->lock);
		evd_purge(sp->evd, request_of, &refused);
		lock_drop(&sp->evd->lock);
		for (uint32_t i = 0; i < refused.count; i++)
			cr_refuse(ia, refused.offset[i]);
	} while (refused.count > 0);
	discard_sp(sp);
}

/* ---- public ---- */

static DAT_RETURN
create_public(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qual, DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
	      DAT_PSP_HANDLE *psp_handle, DAT_CONN_QUAL *found)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	DAT_RETURN ret = DAT_SUCCESS;
	struct sp *psp;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (qual == 0 && found == NULL)
		return BECAUSE(BAD_ARG(2),
			       "conn_qual = 0: 0 is no qualifier; choose one, or call dat_psp_create_any");
	if (psp_flags != DAT_PSP_CONSUMER_FLAG && psp_flags != DAT_PSP_PROVIDER_FLAG)
		return BECAUSE(BAD_ARG(4),
			       "psp_flags = %#x: give DAT_PSP_CONSUMER_FLAG or DAT_PSP_PROVIDER_FLAG",
			       psp_flags);
	if (psp_handle == NULL)
		return BAD_ARG(5);
	psp = make_sp(ia, DAT_HANDLE_TYPE_PSP, evd_handle, &ret);
	if (psp == NULL)
		return ret;
	psp->flags = psp_flags;
	ret = start_listening(psp, 0, qual, psp_handle);
	if (ret == DAT_SUCCESS && found != NULL)
		*found = psp->qual;
	return ret;
}

DAT_RETURN
dapl_psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual, DAT_EVD_HANDLE evd_handle,
		DAT_PSP_FLAGS psp_flags, DAT_PSP_HANDLE *psp_handle)
{
	return create_public(ia_handle, conn_qual, evd_handle, psp_flags, psp_handle, NULL);
}

DAT_RETURN
dapl_psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *conn_qual, DAT_EVD_HANDLE evd_handle,
		    DAT_PSP_FLAGS psp_flags, DAT_PSP_HANDLE *psp_handle)
{
	if (handle_object(ia_handle, DAT_HANDLE_TYPE_IA) == NULL)
		return BAD_HANDLE(IA);
	if (conn_qual == NULL)
		return BAD_ARG(2);
	return create_public(ia_handle, 0, evd_handle, psp_flags, psp_handle, conn_qual);
}

DAT_RETURN
dapl_psp_query(DAT_PSP_HANDLE psp_handle, DAT_PSP_PARAM_MASK psp_param_mask, DAT_PSP_PARAM *psp_param)
{
	struct sp *psp = handle_object(psp_handle, DAT_HANDLE_TYPE_PSP);

	if (psp == NULL)
		return BAD_HANDLE(PSP);
	if (psp_param == NULL)
		return BAD_ARG(3);
	*psp_param = (DAT_PSP_PARAM){
		.ia_handle = psp->o.ia->o.handle,
		.conn_qual = psp->qual,
		.evd_handle = psp->evd->o.handle,
		.psp_flags = psp->flags,
	};
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_psp_free(DAT_PSP_HANDLE psp_handle)
{
	return object_free(psp_handle, DAT_HANDLE_TYPE_PSP, BAD_HANDLE(PSP), DAT_SUCCESS, sp_destroy);
}

/* ---- reserved ---- */

DAT_RETURN
dapl_rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual, DAT_EP_HANDLE ep_handle,
		DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE *rsp_handle)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	DAT_RETURN ret = DAT_SUCCESS;
	struct sp *rsp;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (ep == NULL || ep->o.ia != ia)
		return BAD_HANDLE(EP);
	if (conn_qual == 0)
		return BECAUSE(BAD_ARG(2), "conn_qual = 0: 0 is no qualifier; choose one");
	if (rsp_handle == NULL)
		return BAD_ARG(5);
	rsp = make_sp(ia, DAT_HANDLE_TYPE_RSP, evd_handle, &ret);
	if (rsp == NULL)
		return ret;
	/* Reserve the endpoint before listening: the request may arrive before the call returns. */
	if (!ep_move(ep, EP_UNCONNECTED, EP_RESERVED)) {
		discard_sp(rsp);
		return ep_state_error(ep_state(ep));
	}
	rsp->ep = ep;
	rsp->ep_handle = ep_handle;
	return start_listening(rsp, ONE_LISTEN_ONCE, conn_qual, rsp_handle);
}

DAT_RETURN
dapl_rsp_query(DAT_RSP_HANDLE rsp_handle, DAT_RSP_PARAM_MASK rsp_param_mask, DAT_RSP_PARAM *rsp_param)
{
	struct sp *rsp = handle_object(rsp_handle, DAT_HANDLE_TYPE_RSP);

	if (rsp == NULL)
		return BAD_HANDLE(RSP);
	if (rsp_param == NULL)
		return BAD_ARG(3);
	*rsp_param = (DAT_RSP_PARAM){
		.ia_handle = rsp->o.ia->o.handle,
		.conn_qual = rsp->qual,
		.evd_handle = rsp->evd->o.handle,
		.ep_handle = rsp->ep_handle,
	};
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_rsp_free(DAT_RSP_HANDLE rsp_handle)
{
	return object_free(rsp_handle, DAT_HANDLE_TYPE_RSP, BAD_HANDLE(RSP), DAT_SUCCESS, sp_destroy);
}
