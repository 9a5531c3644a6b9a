/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Consumer notification objects.  An EVD triggers its CNO once for each notification that arrives while the
 * EVD is enabled and no thread waits on the EVD: consumers take one event for each trigger.  An EVD records
 * up to which arrival it has triggered, and a wait searches for an EVD with more arrivals.  So a trigger
 * without a waiter is not lost, and no trigger remains for an event that was dequeued otherwise.
 *
 * Waiters arm the rings of the CNO's EVDs and sleep on the CNO's channel.  A thread of the CNO calls the
 * agent, if one is set.
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "client/wait.h"
#include "dat/evd.h"

/* Each CNO has a channel; the other half of the channels is for threads that wait on EVDs. */
#define CNOS_MAX (ONE_CHANNELS / 2)

void
cno_poke(struct cno *cno)
{
	one_channel_wake(cno->o.ia->client, cno->channel);
}

static uint64_t *
seen_by(struct evd *evd, bool agent)
{
	return agent ? &evd->agent_seen : &evd->cno_seen;
}

/* Arms the rings and returns the EVD that triggers now, or NULL; of several EVDs the one with the oldest
 * trigger. Sets *host to an EVD that other IAs report to, or NULL.  cno.lock held. */
static struct evd *
find_triggered(struct cno *cno, bool for_agent, struct evd **host)
{
	struct evd *first = NULL, *evd;
	uint64_t since = 0;

	*host = NULL;
	LIST_FOREACH(evd, &cno->evds, cno_entry) {
		const struct stash_entry *unreported;

		lock_take(&evd->lock);
		if (!evd->disabled && !evd->waiter && evd->end == EVD_LIVE) {
			if (evd->has_cq)
				one_wait_arm(&evd->cq, cno->channel, 1);
			evd_collect(evd);
			if (evd->guests != NULL)
				*host = evd;
			unreported = evd_next_trigger(evd, seen_by(evd, for_agent));
			if (unreported != NULL && (first == NULL || unreported->came < since)) {
				first = evd;
				since = unreported->came;
			}
		}
		lock_drop(&evd->lock);
	}
	if (first != NULL) {
		lock_take(&first->lock);
		*seen_by(first, for_agent) += *seen_by(first, for_agent) != first->arrived;
		lock_drop(&first->lock);
	}
	return first;
}

/* evd_sleep() on the CNO's channel, until cno_poke(); `host` is from find_triggered().  No lock held. */
static int
sleep_until_poked(struct cno *cno, uint32_t ticket, struct evd *host, uint64_t deadline)
{
	struct ia *ia = cno->o.ia;

	if (ia_lost(ia)) {
		lost_sweep(ia);
		return 0;
	}
	return evd_sleep(ia, cno->channel, ticket, host, deadline);
}

/* Removes and returns the agent, because an agent is called once.  cno.lock held. */
static DAT_OS_WAIT_PROXY_AGENT
take_agent(struct cno *cno)
{
	DAT_OS_WAIT_PROXY_AGENT agent = cno->agent;

	cno->agent = (DAT_OS_WAIT_PROXY_AGENT){0};
	return agent;
}

void
cno_call_agent(DAT_OS_WAIT_PROXY_AGENT agent, DAT_EVD_HANDLE evd_handle)
{
	if (agent.proxy_agent_func != NULL)
		agent.proxy_agent_func(agent.instance_data, evd_handle);
}

/* The CNO whose agent thread this thread is, or NULL. */
static _Thread_local struct cno *own_cno __attribute__((tls_model("initial-exec")));

bool
cno_is_agent_of(const struct ia *ia)
{
	return own_cno != NULL && own_cno->o.ia == ia;
}

/* True if no more events arrive except software events.  Must be called before find_triggered(), which then
 * finds all events. */
static bool
is_dead(const struct ia *ia)
{
	/* ia_swept() pairs with the release in lost_sweep: the events are in the queues. */
	return ia_lost(ia) && ia_swept(ia);
}

static void *
agent_main(void *arg)
{
	struct cno *cno = arg;
	struct ia *ia = cno->o.ia;

	own_cno = cno;
	pthread_mutex_lock(&cno->lock);
	while (!cno->closing) {
		struct evd *evd, *host;
		uint32_t ticket;
		bool dead;

		if (cno->agent.proxy_agent_func == NULL) {
			pthread_cond_wait(&cno->agent_news, &cno->lock);
			continue;
		}
		ticket = one_wait_begin(ia->client, cno->channel);
		dead = is_dead(ia);
		evd = find_triggered(cno, true, &host);
		if (evd != NULL) {
			DAT_OS_WAIT_PROXY_AGENT agent = take_agent(cno);
			DAT_EVD_HANDLE evd_handle = evd->o.handle;

			pthread_mutex_unlock(&cno->lock);
			cno_call_agent(agent, evd_handle);
			pthread_mutex_lock(&cno->lock);
			continue;
		}
		if (dead) {
			struct timespec until;

			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_sec++;
			pthread_cond_timedwait(&cno->agent_news, &cno->lock, &until);
			continue;
		}
		pthread_mutex_unlock(&cno->lock);
		sleep_until_poked(cno, ticket, host, UINT64_MAX);
		pthread_mutex_lock(&cno->lock);
	}
	pthread_mutex_unlock(&cno->lock);
	return NULL;
}

static int
start_thread(struct cno *cno)
{
	sigset_t all, old;
	int error;

	/* Block all signals: the program's signal handlers must not run on this thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&cno->thread, NULL, agent_main, cno);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	cno->has_thread = error == 0;
	return error == 0 ? 0 : -ENOMEM;
}

/* Sets the agent.  Events that are queued already do not trigger a new agent.  cno.lock held. */
static int
set_agent(struct cno *cno, DAT_OS_WAIT_PROXY_AGENT agent)
{
	struct evd *evd;

	if (agent.proxy_agent_func != NULL) {
		LIST_FOREACH(evd, &cno->evds, cno_entry) {
			lock_take(&evd->lock);
			evd_collect(evd);
			evd->agent_seen = evd->arrived;
			lock_drop(&evd->lock);
		}
		if (!cno->has_thread && start_thread(cno) != 0)
			return -ENOMEM;
	}
	cno->agent = agent;
	pthread_cond_signal(&cno->agent_news);
	/* Wake the thread: it may sleep on behalf of the old agent. */
	cno_poke(cno);
	return 0;
}

DAT_RETURN
dapl_cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *cno_handle)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	struct cno *cno;
	int error;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (agent.proxy_agent_func == NULL && agent.instance_data != NULL)
		return BAD_ARG(2);
	if (cno_handle == NULL)
		return BAD_ARG(3);
	cno = object_new(ia, DAT_HANDLE_TYPE_CNO);
	if (cno == NULL)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	error = one_channel_alloc(ia->client, &cno->channel);
	if (error != 0) {
		object_drop(&cno->o);
		return dat_errno(error, DAT_RESOURCE_MEMORY);
	}
	pthread_mutex_init(&cno->lock, NULL);
	pthread_cond_init(&cno->agent_news, NULL);
	pthread_mutex_lock(&ia->lock);
	pthread_mutex_lock(&cno->lock);
	error = set_agent(cno, agent);
	pthread_mutex_unlock(&cno->lock);
	if (error == 0)
		error = ia->count[DAT_HANDLE_TYPE_CNO] < CNOS_MAX ? object_publish(&cno->o, 0) : -ENOSPC;
	pthread_mutex_unlock(&ia->lock);
	if (error != 0) {
		cno_destroy(&cno->o);
		return dat_errno(error, DAT_RESOURCE_MEMORY);
	}
	*cno_handle = cno->o.handle;
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_cno_modify_agent(DAT_CNO_HANDLE cno_handle, DAT_OS_WAIT_PROXY_AGENT agent)
{
	struct cno *cno = handle_object(cno_handle, DAT_HANDLE_TYPE_CNO);
	int error;

	if (cno == NULL)
		return BAD_HANDLE(CNO);
	if (agent.proxy_agent_func == NULL && agent.instance_data != NULL)
		return BAD_ARG(2);
	pthread_mutex_lock(&cno->lock);
	error = set_agent(cno, agent);
	pthread_mutex_unlock(&cno->lock);
	return dat_errno(error, DAT_RESOURCE_MEMORY);
}

DAT_RETURN
dapl_cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK cno_param_mask, DAT_CNO_PARAM *cno_param)
{
	struct cno *cno = handle_object(cno_handle, DAT_HANDLE_TYPE_CNO);

	if (cno == NULL)
		return BAD_HANDLE(CNO);
	if (cno_param == NULL)
		return BAD_ARG(3);
	pthread_mutex_lock(&cno->lock);
	cno_param->ia_handle = cno->o.ia->o.handle;
	cno_param->agent = cno->agent;
	pthread_mutex_unlock(&cno->lock);
	return DAT_SUCCESS;
}

void
cno_attach_evd(struct cno *cno, struct evd *evd)
{
	pthread_mutex_lock(&cno->lock);
	lock_take(&evd->lock);
	evd_collect(evd);
	evd->cno_seen = evd->agent_seen = evd->arrived;
	evd->cno = cno;
	lock_drop(&evd->lock);
	LIST_INSERT_HEAD(&cno->evds, evd, cno_entry);
	pthread_mutex_unlock(&cno->lock);
	cno_poke(cno);
}

DAT_OS_WAIT_PROXY_AGENT
cno_detach_evd(struct evd *evd, bool freed)
{
	DAT_OS_WAIT_PROXY_AGENT agent = {0};
	struct cno *cno = evd->cno;

	if (cno == NULL)
		return agent;
	pthread_mutex_lock(&cno->lock);
	LIST_REMOVE(evd, cno_entry);
	lock_take(&evd->lock);
	evd->cno = NULL;
	lock_drop(&evd->lock);
	if (freed && LIST_EMPTY(&cno->evds)) {
		cno->releases++;
		cno_poke(cno);
		agent = take_agent(cno);
	}
	pthread_mutex_unlock(&cno->lock);
	return agent;
}

/* Waits for a trigger and sets *evd_handle.  cno.lock held, and dropped while asleep. */
static DAT_RETURN
wait_for_trigger(struct cno *cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd_handle)
{
	struct ia *ia = cno->o.ia;
	uint64_t deadline =
		timeout == DAT_TIMEOUT_INFINITE ? UINT64_MAX : one_now_ns() + (uint64_t)timeout * 1000;
	uint64_t releases = cno->releases;
	int error = 0;

	for (;;) {
		uint32_t ticket = one_wait_begin(ia->client, cno->channel);
		bool dead = is_dead(ia);
		struct evd *host, *evd = find_triggered(cno, false, &host);

		if (evd != NULL) {
			*evd_handle = evd->o.handle;
			return DAT_SUCCESS;
		}
		if (cno->releases != releases || cno->closing)
			return DAT_SUCCESS;
		if (dead)
			return BAD_STATE(CNO_DEAD);
		if (timeout == 0 && !ia_lost(ia))
			error = -ETIMEDOUT;
		if (error != 0)
			return evd_wait_error(error, DAT_QUEUE_EMPTY);
		pthread_mutex_unlock(&cno->lock);
		error = sleep_until_poked(cno, ticket, host, deadline);
		pthread_mutex_lock(&cno->lock);
	}
}

DAT_RETURN
dapl_cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd_handle)
{
	struct cno *cno = handle_object(cno_handle, DAT_HANDLE_TYPE_CNO);
	DAT_RETURN ret;

	if (cno == NULL)
		return BAD_HANDLE(CNO);
	if (evd_handle == NULL)
		return BAD_ARG(3);
	*evd_handle = DAT_HANDLE_NULL;
	pthread_mutex_lock(&cno->lock);
	cno->waiters++;
	ret = wait_for_trigger(cno, timeout, evd_handle);
	cno->waiters--;
	pthread_mutex_unlock(&cno->lock);
	return ret;
}

/* Ends the waits and the agent's thread, and returns after they have left. */
static void
expel_threads(struct cno *cno)
{
	const struct timespec moment = {.tv_nsec = 50000};
	DAT_OS_WAIT_PROXY_AGENT agent;

	pthread_mutex_lock(&cno->lock);
	cno->closing = true;
	agent = take_agent(cno);
	pthread_cond_broadcast(&cno->agent_news);
	while (cno->waiters > 0) {
		cno_poke(cno);
		pthread_mutex_unlock(&cno->lock);
		nanosleep(&moment, NULL);
		pthread_mutex_lock(&cno->lock);
	}
	cno_poke(cno);
	pthread_mutex_unlock(&cno->lock);
	if (cno->has_thread)
		pthread_join(cno->thread, NULL);
	cno_call_agent(agent, DAT_HANDLE_NULL);
}

void
cno_destroy(struct object *o)
{
	struct cno *cno = (struct cno *)o;

	expel_threads(cno);
	one_channel_free(cno->o.ia->client, cno->channel);
	pthread_cond_destroy(&cno->agent_news);
	pthread_mutex_destroy(&cno->lock);
	object_drop(&cno->o);
}

DAT_RETURN
dapl_cno_free(DAT_CNO_HANDLE cno_handle)
{
	struct cno *cno = object_lock(cno_handle, DAT_HANDLE_TYPE_CNO);
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;

	if (cno == NULL)
		return BAD_HANDLE(CNO);
	ia = cno->o.ia;
	pthread_mutex_lock(&cno->lock);
	if (!LIST_EMPTY(&cno->evds) || cno->waiters > 0 || own_cno == cno)
		ret = BAD_STATE(CNO_IN_USE);
	/* The agent is not called when the consumer frees the CNO. */
	if (ret == DAT_SUCCESS)
		cno->agent = (DAT_OS_WAIT_PROXY_AGENT){0};
	pthread_mutex_unlock(&cno->lock);
	if (ret == DAT_SUCCESS)
		object_retire(&cno->o);
	pthread_mutex_unlock(&ia->lock);
	if (ret == DAT_SUCCESS)
		cno_destroy(&cno->o);
	return ret;
}
