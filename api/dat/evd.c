/* SPDX-License-Identifier: BSD-3-Clause */
/* Event dispatchers: create, free, resize, query, enable.  Waiting is in evd_wait.c, the queue in
 * evd_queue.c. */
#include <stdlib.h>
#include <time.h>

#include "dat/evd.h"

#define RING_FLAGS (DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG | DAT_EVD_RMR_BIND_FLAG)
#define CONSUMER_FLAGS (DAT_EVD_SOFTWARE_FLAG | RING_FLAGS)

#define ENTRIES_MIN 128u

/* Returns the size of a ring that always has room for `events`: twice as many entries, because the core
 * learns of consumed entries in batches, and applications post more receives than they requested. */
static uint32_t
entries_for(const struct ia *ia, uint64_t events)
{
	uint32_t max = one_client_info(ia->client)->limits.max_cq_entries;
	uint32_t entries = ENTRIES_MIN;

	while (entries < 2 * events && entries < 1u << ONE_RING_LOG2_MAX)
		entries *= 2;
	return entries < max ? entries : max;
}

static uint32_t
ring_size(const struct one_cq *cq)
{
	return 1u << (cq->at.next_ring != NULL ? cq->at.next_log2 : cq->at.log2);
}

/* Creates the ring; the asynchronous EVD uses the attachment's ring for asynchronous errors. */
static int
make_ring(struct evd *evd, uint32_t entries)
{
	struct one_client *client = evd->o.ia->client;

	if ((evd->flags & DAT_EVD_ASYNC_FLAG) == 0)
		return one_cq_create(client, entries, &evd->cq);
	one_cq_async(client, &evd->cq);
	return ring_size(&evd->cq) < entries ? one_cq_resize(&evd->cq, entries) : 0;
}

static void
free_ring(struct evd *evd)
{
	if ((evd->flags & DAT_EVD_ASYNC_FLAG) == 0)
		one_cq_free(&evd->cq);
	else
		one_cq_forget(&evd->cq);
}

/* Returns the queue length to report: at least `events`, more if the ring is larger. */
static uint32_t
length_for(const struct evd *evd, uint32_t events)
{
	uint32_t length = (evd->has_cq ? ring_size(&evd->cq) : ENTRIES_MIN) / 2;

	return length > events ? length : events;
}

struct evd *
evd_make(struct ia *ia, uint32_t qlen, DAT_EVD_FLAGS flags, DAT_RETURN *ret)
{
	struct evd *evd = object_new(ia, DAT_HANDLE_TYPE_EVD);
	uint32_t entries = entries_for(ia, qlen);
	int error = 0;

	if (evd == NULL) {
		*ret = DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
		return NULL;
	}
	evd->flags = flags;
	evd->has_cq = (flags & (RING_FLAGS | DAT_EVD_ASYNC_FLAG)) != 0;
	if (evd->has_cq)
		error = make_ring(evd, entries);
	if (error == 0) {
		evd->qlen = length_for(evd, qlen);
	} else {
		one_cq_forget(&evd->cq); /* frees the memory that a failed resize leaves */
		object_drop(&evd->o);
	}
	*ret = dat_errno(error, DAT_RESOURCE_TEVD);
	return error == 0 ? evd : NULL;
}

struct evd *
evd_ref(struct ia *ia, DAT_EVD_HANDLE handle, DAT_EVD_FLAGS needed)
{
	struct evd *evd = object_ref(ia, handle, DAT_HANDLE_TYPE_EVD);

	if (evd == NULL || (evd->flags & needed) == (uint32_t)needed)
		return evd;
	object_unref(evd);
	return NULL;
}

void
evd_abort(struct evd *evd)
{
	lock_take(&evd->lock);
	evd->end = EVD_ABORTED;
	if (evd->waiter)
		evd_kick(evd);
	lock_drop(&evd->lock);
}

/* Waits until the thread that evd_abort() woke has left dat_evd_wait. */
static void
await_waiter(struct evd *evd)
{
	const struct timespec moment = {.tv_nsec = 50000};

	lock_take(&evd->lock);
	while (evd->waiter) {
		evd_kick(evd);
		lock_drop(&evd->lock);
		nanosleep(&moment, NULL);
		lock_take(&evd->lock);
	}
	lock_drop(&evd->lock);
}

void
evd_destroy(struct object *o)
{
	struct evd *evd = (struct evd *)o;
	DAT_OS_WAIT_PROXY_AGENT agent;
	struct ia *ia = o->ia;

	await_waiter(evd);
	pthread_mutex_lock(&ia->lock);
	agent = cno_detach_evd(evd, true);
	idmap_remove(object_map(ia, DAT_HANDLE_TYPE_EVD), &evd->o.node);
	pthread_mutex_unlock(&ia->lock);
	if (evd->has_cq)
		free_ring(evd);
	lock_take(&evd->lock);
	stash_fini(&evd->stash);
	evd->has_cq = false;
	lock_drop(&evd->lock);
	object_drop(&evd->o);
	cno_call_agent(agent, DAT_HANDLE_NULL);
}

DAT_RETURN
dapl_evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT evd_min_qlen, DAT_CNO_HANDLE cno_handle,
		DAT_EVD_FLAGS evd_flags, DAT_EVD_HANDLE *evd_handle)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	struct cno *cno = NULL;
	struct evd *evd;
	DAT_RETURN ret;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (evd_min_qlen <= 0)
		return BECAUSE(
			BAD_ARG(2),
			"evd_min_qlen = %d: a queue has at least 1 entry; give as many as may be outstanding",
			evd_min_qlen);
	if (cno_handle != DAT_HANDLE_NULL) {
		cno = handle_object(cno_handle, DAT_HANDLE_TYPE_CNO);
		if (cno == NULL || cno->o.ia != ia)
			return BAD_HANDLE(CNO);
	}
	if (evd_flags == 0 || ((uint32_t)evd_flags & ~(uint32_t)CONSUMER_FLAGS) != 0)
		return BECAUSE(
			BAD_ARG(4),
			"evd_flags = %#x: no or unknown event kinds; give one or more DAT_EVD_*_FLAG except ASYNC (dat_ia_open creates that EVD)",
			evd_flags);
	if (evd_handle == NULL)
		return BAD_ARG(5);
	if ((uint32_t)evd_min_qlen > one_client_info(ia->client)->limits.max_cq_entries)
		return BECAUSE(
			DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD),
			"evd_min_qlen = %d: the data plane allows %u; ask for less, or raise max_cq_entries in oneside.conf(5)",
			evd_min_qlen, one_client_info(ia->client)->limits.max_cq_entries);
	evd = evd_make(ia, (uint32_t)evd_min_qlen, evd_flags, &ret);
	if (evd == NULL)
		return ret;
	pthread_mutex_lock(&ia->lock);
	if (cno_handle != DAT_HANDLE_NULL && handle_object(cno_handle, DAT_HANDLE_TYPE_CNO) != cno)
		ret = BAD_HANDLE(CNO); /* freed meanwhile */
	/* The limit includes EVDs without a ring, but not the IA's asynchronous EVD. */
	else if (ia->count[DAT_HANDLE_TYPE_EVD] - ia->async_mine >=
		 one_client_info(ia->client)->limits.max_cq)
		ret = DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
	if (ret == DAT_SUCCESS)
		ret = dat_errno(object_publish(&evd->o, evd->has_cq ? evd->cq.id : 0), DAT_RESOURCE_TEVD);
	if (ret == DAT_SUCCESS && cno != NULL)
		cno_attach_evd(cno, evd);
	pthread_mutex_unlock(&ia->lock);
	if (ret != DAT_SUCCESS) {
		evd_destroy(&evd->o);
		return ret;
	}
	*evd_handle = evd->o.handle;
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_evd_free(DAT_EVD_HANDLE evd_handle)
{
	struct evd *evd = object_lock(evd_handle, DAT_HANDLE_TYPE_EVD);
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;

	if (evd == NULL)
		return BAD_HANDLE(EVD_REQUEST);
	ia = evd->o.ia;
	lock_take(&evd->lock);
	if (evd->o.refs > 0)
		ret = BAD_STATE(EVD_IN_USE);
	else if (evd->waiter)
		ret = BAD_STATE(EVD_WAITER);
	else
		evd->end = EVD_FREED;
	lock_drop(&evd->lock);
	if (ret == DAT_SUCCESS)
		object_retire(&evd->o);
	pthread_mutex_unlock(&ia->lock);
	if (ret == DAT_SUCCESS)
		evd_destroy(&evd->o);
	return ret;
}

static uint32_t
config_of(const struct evd *evd)
{
	if (evd->unsignalled > 0)
		return DAT_EVD_STATE_CONFIG_NOTIFY;
	return evd->solicited > 0 ? DAT_EVD_STATE_CONFIG_SOLICITED : DAT_EVD_STATE_CONFIG_THRESHOLD;
}

DAT_RETURN
evd_config_error(const struct evd *evd)
{
	switch (config_of(evd)) {
	case DAT_EVD_STATE_CONFIG_NOTIFY:
		return BAD_STATE(EVD_CONFIG_NOTIFY);
	case DAT_EVD_STATE_CONFIG_SOLICITED:
		return BAD_STATE(EVD_CONFIG_SOLICITED);
	default:
		return DAT_SUCCESS;
	}
}

DAT_RETURN
dapl_evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK evd_param_mask, DAT_EVD_PARAM *evd_param)
{
	struct evd *evd = handle_object(evd_handle, DAT_HANDLE_TYPE_EVD);

	if (evd == NULL)
		return BAD_HANDLE(EVD_REQUEST);
	if (evd_param == NULL)
		return BAD_ARG(3);
	lock_take(&evd->lock);
	evd_param->ia_handle = evd->o.ia->o.handle;
	evd_param->evd_qlen = (DAT_COUNT)evd->qlen;
	evd_param->evd_state =
		(DAT_EVD_STATE)((evd->disabled ? DAT_EVD_STATE_DISABLED : DAT_EVD_STATE_ENABLED) |
				(evd->unwaitable ? DAT_EVD_STATE_UNWAITABLE : DAT_EVD_STATE_WAITABLE) |
				config_of(evd));
	evd_param->cno_handle = evd->cno != NULL ? evd->cno->o.handle : DAT_HANDLE_NULL;
	evd_param->evd_flags = evd->flags;
	lock_drop(&evd->lock);
	return DAT_SUCCESS;
}

/* Resizes the ring so that it holds `events` and the events that the endpoints can have outstanding. evd.lock
 * held.
 */
static int
set_ring(struct evd *evd, uint64_t events)
{
	uint32_t entries = entries_for(evd->o.ia, events > evd->demand ? events : evd->demand);
	uint32_t size = ring_size(&evd->cq);

	/* Shrink only by a factor of 4 or more. */
	return size < entries || size / 4 >= entries ? one_cq_resize(&evd->cq, entries) : 0;
}

void
evd_demand(struct evd *evd, int64_t events)
{
	if (evd == NULL)
		return;
	lock_take(&evd->lock);
	evd->demand += (uint64_t)events;
	/* A failed resize is no error: the ring may then overflow, which the consumer must prevent. */
	if (events > 0 && evd->has_cq && entries_for(evd->o.ia, evd->demand) > ring_size(&evd->cq) &&
	    set_ring(evd, evd->qlen) == 0)
		evd->qlen = length_for(evd, evd->qlen);
	lock_drop(&evd->lock);
}

DAT_RETURN
dapl_evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT evd_min_qlen)
{
	struct evd *evd = handle_object(evd_handle, DAT_HANDLE_TYPE_EVD);
	uint32_t want = (uint32_t)evd_min_qlen;
	DAT_RETURN ret = DAT_SUCCESS;

	if (evd == NULL)
		return BAD_HANDLE(EVD_REQUEST);
	if (evd_min_qlen <= 0 || want > one_client_info(evd->o.ia->client)->limits.max_cq_entries)
		return BECAUSE(
			BAD_ARG(2),
			"evd_min_qlen = %d: it may be 1 to %u; give a value between, or raise max_cq_entries in oneside.conf(5)",
			evd_min_qlen, one_client_info(evd->o.ia->client)->limits.max_cq_entries);
	lock_take(&evd->lock);
	if (evd->end != EVD_LIVE)
		ret = BAD_HANDLE(EVD_REQUEST);
	else if (evd->waiter)
		ret = BAD_STATE(EVD_WAITER);
	else if (evd_count(evd) > want)
		ret = BAD_STATE(EVD_IN_USE);
	else if (want != evd->qlen && evd->has_cq)
		ret = dat_errno(set_ring(evd, want), DAT_RESOURCE_TEVD);
	if (ret == DAT_SUCCESS)
		evd->qlen = length_for(evd, want);
	lock_drop(&evd->lock);
	return ret;
}

DAT_RETURN
dapl_evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle)
{
	struct evd *evd = object_lock(evd_handle, DAT_HANDLE_TYPE_EVD);
	struct cno *cno = NULL;
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;

	if (evd == NULL)
		return BAD_HANDLE(EVD_REQUEST);
	ia = evd->o.ia;
	if (cno_handle != DAT_HANDLE_NULL) {
		cno = handle_object(cno_handle, DAT_HANDLE_TYPE_CNO);
		if (cno == NULL || cno->o.ia != ia)
			ret = BAD_HANDLE(CNO);
	}
	if (ret == DAT_SUCCESS && cno != evd->cno) {
		cno_detach_evd(evd, false);
		if (cno != NULL)
			cno_attach_evd(cno, evd);
	}
	pthread_mutex_unlock(&ia->lock);
	return ret;
}

static DAT_RETURN
set_disabled(DAT_EVD_HANDLE evd_handle, bool disabled)
{
	struct evd *evd = handle_object(evd_handle, DAT_HANDLE_TYPE_EVD);

	if (evd == NULL)
		return BAD_HANDLE(EVD_REQUEST);
	lock_take(&evd->lock);
	if (evd->disabled && !disabled) {
		/* Events that arrived while disabled do not trigger: the consumer polls for them. */
		evd_collect(evd);
		evd->cno_seen = evd->arrived;
		evd->agent_seen = evd->arrived;
	}
	evd->disabled = disabled;
	/* Wake the waiters of the CNO, so that they arm this ring, too. */
	if (!disabled && evd->cno != NULL)
		cno_poke(evd->cno);
	lock_drop(&evd->lock);
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_evd_enable(DAT_EVD_HANDLE evd_handle)
{
	return set_disabled(evd_handle, false);
}

DAT_RETURN
dapl_evd_disable(DAT_EVD_HANDLE evd_handle)
{
	return set_disabled(evd_handle, true);
}

static DAT_RETURN
set_unwaitable(DAT_EVD_HANDLE evd_handle, bool unwaitable)
{
	struct evd *evd = handle_object(evd_handle, DAT_HANDLE_TYPE_EVD);

	if (evd == NULL)
		return BAD_HANDLE(EVD_REQUEST);
	lock_take(&evd->lock);
	evd->unwaitable = unwaitable;
	if (unwaitable && evd->waiter)
		evd_kick(evd);
	lock_drop(&evd->lock);
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_evd_set_unwaitable(DAT_EVD_HANDLE evd_handle)
{
	return set_unwaitable(evd_handle, true);
}

DAT_RETURN
dapl_evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle)
{
	return set_unwaitable(evd_handle, false);
}
