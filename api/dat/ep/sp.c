/* SPDX-License-Identifier: BSD-3-Clause */
/* What public and reserved service points have in common. */
#include <sched.h>

#include "dat/ep/ep.h"

static DAT_RETURN
listen_errno(int error)
{
	switch (error) {
	case -EADDRINUSE:
		return DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE);
	case -EADDRNOTAVAIL:
		return DAT_ERROR(DAT_CONN_QUAL_UNAVAILABLE, DAT_NO_SUBTYPE);
	case -EACCES:
		return BECAUSE(BAD_ARG(2),
			       "conn_qual = not admitted: the data plane keeps it; choose another, or call "
			       "dat_psp_create_any");
	default:
		return dat_errno(error, DAT_RESOURCE_MEMORY);
	}
}

/*
 * Listens and gives the service point its handle.  A request may be in the EVD before the reply: a thread
 * that finds one of an unknown listener waits for listen_lock and looks again.
 */
DAT_RETURN
sp_listen(struct sp *sp, uint32_t flags, DAT_CONN_QUAL qual)
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
		return listen_errno(error);
	}
	sp->qual = reply.listening.service;
	pthread_mutex_lock(&ia->lock);
	error = object_publish(&sp->o, reply.listening.listener);
	pthread_mutex_unlock(&ia->lock);
	pthread_mutex_unlock(&ia->listen_lock);
	if (error != 0)
		one_call_id(ia->client, ONE_MSG_UNLISTEN, reply.listening.listener);
	return dat_errno(error, DAT_RESOURCE_MEMORY);
}

struct refused {
	struct ia *ia;
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

/* Another thread may be changing the endpoint's attributes: that takes a moment only. */
static void
ep_release_reserved(struct ep *ep)
{
	while (!ep_move(ep, EP_RESERVED, EP_UNCONNECTED) && ep_phase(ep) == EP_CHANGING)
		sched_yield();
}

void
sp_destroy(struct sp *sp)
{
	struct ia *ia = sp->o.ia;
	struct refused refused = {.ia = ia, .listener = idmap_key(&sp->o.node)};

	one_call_id(ia->client, ONE_MSG_UNLISTEN, refused.listener);
	/* Requests that the consumer has not seen are refused. */
	do {
		refused.count = 0;
		lock_take(&sp->evd->lock);
		evd_purge(sp->evd, request_of, &refused);
		lock_drop(&sp->evd->lock);
		for (uint32_t i = 0; i < refused.count; i++)
			cr_refuse(ia, refused.offset[i]);
	} while (refused.count > 0);
	pthread_mutex_lock(&ia->lock);
	if (sp->ep != NULL)
		ep_release_reserved(sp->ep);
	object_unref(sp->evd);
	object_discard(&sp->o);
	pthread_mutex_unlock(&ia->lock);
}

/* Frees the service point of this handle. */
DAT_RETURN
sp_free(DAT_HANDLE handle, DAT_HANDLE_TYPE type, DAT_RETURN bad_handle)
{
	DAT_RETURN ret;
	struct sp *sp = object_take(handle, type, bad_handle, DAT_SUCCESS, &ret);

	if (sp != NULL)
		sp_destroy(sp);
	return ret;
}

/* A service point that has its EVD, not yet listening; NULL with *ret. */
struct sp *
sp_make(struct ia *ia, DAT_HANDLE_TYPE type, DAT_EVD_HANDLE evd_handle, DAT_RETURN *ret)
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

/* One that never listened. */
void
sp_discard(struct sp *sp)
{
	struct ia *ia = sp->o.ia;

	pthread_mutex_lock(&ia->lock);
	object_unref(sp->evd);
	object_discard(&sp->o);
	pthread_mutex_unlock(&ia->lock);
}
