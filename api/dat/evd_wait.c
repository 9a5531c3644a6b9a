/* SPDX-License-Identifier: BSD-3-Clause */
/* Dequeue, wait, and posting of software events. */
#include "client/wait.h"
#include "dat/evd.h"

DAT_RETURN
dapl_evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event)
{
	struct evd *evd = handle_object(evd_handle, DAT_HANDLE_TYPE_EVD);
	struct one_cqe cqe;
	bool got;

	if (evd == NULL)
		return BAD_HANDLE(EVD_REQUEST);
	if (event == NULL)
		return BAD_ARG(2);
	for (;;) {
		lock_take(&evd->lock);
		if (__builtin_expect(evd->waiter || evd->end != EVD_LIVE, 0)) {
			bool waiter = evd->end == EVD_LIVE;

			lock_drop(&evd->lock);
			return waiter ? BAD_STATE(EVD_WAITER) : BAD_HANDLE(EVD_REQUEST);
		}
		got = evd_pop(evd, &cqe);
		lock_drop(&evd->lock);
		if (got) {
			if (event_fill(evd, &cqe, event))
				return DAT_SUCCESS;
		} else if (!ia_sweep_if_lost(evd)) {
			one_polled_in_vain();
			return DAT_QUEUE_EMPTY;
		}
	}
}

DAT_RETURN
dapl_evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT *event)
{
	struct evd *evd = handle_object(evd_handle, DAT_HANDLE_TYPE_EVD);
	struct one_cqe cqe = {.type = CQE_SOFTWARE, .flags = ONE_CQE_NOTIFY};
	DAT_RETURN ret = DAT_SUCCESS;

	if (evd == NULL)
		return BAD_HANDLE(EVD_REQUEST);
	if ((evd->flags & DAT_EVD_SOFTWARE_FLAG) == 0)
		return BECAUSE(
			BAD_ARG(1),
			"evd_handle = %p: it takes no software events; create it with DAT_EVD_SOFTWARE_FLAG",
			evd_handle);
	if (event == NULL || event->event_number != DAT_SOFTWARE_EVENT)
		return BECAUSE(BAD_ARG(2),
			       "event = %p: null, or its event_number is not DAT_SOFTWARE_EVENT; set that",
			       (const void *)event);
	cqe.cookie = (uintptr_t)event->event_data.software_event_data.pointer;
	lock_take(&evd->lock);
	if (evd->end != EVD_LIVE)
		ret = BAD_HANDLE(EVD_REQUEST);
	else if (evd_count(evd) >= evd->qlen || !evd_push(evd, &cqe))
		ret = DAT_ERROR(DAT_QUEUE_FULL, DAT_NO_SUBTYPE);
	else
		evd_kick(evd);
	lock_drop(&evd->lock);
	return ret;
}

/* Poll interval for other IAs that report to an EVD: their attachments do not wake a sleeper of this
 * attachment. */
#define GUEST_LOOK_NS 20000000ull

int
evd_sleep(struct ia *ia, uint16_t channel, uint32_t ticket, struct evd *host, uint64_t deadline)
{
	uint64_t until = deadline;
	int error;

	if (host != NULL) {
		if (lost_sweep_reporters(host))
			return 0;
		until = one_now_ns() + GUEST_LOOK_NS;
		if (until > deadline)
			until = deadline;
	}
	error = one_wait_sleep(ia->client, channel, ticket, until);
	if (error == -ECONNRESET) {
		lost_mark(ia);
		return 0;
	}
	return error == -ETIMEDOUT && until != deadline ? 0 : error;
}

DAT_RETURN
evd_wait_error(int error, DAT_RETURN expired)
{
	return error == -ETIMEDOUT ? expired
	       : error == -EINTR   ? DAT_ERROR(DAT_INTERRUPTED_CALL, DAT_NO_SUBTYPE)
				   : DAT_ERROR(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE);
}

static bool
is_ready(const struct evd *evd, uint32_t threshold)
{
	return evd->stash.count >= threshold && evd->stash.notify > 0;
}

static void
arm_ring(struct evd *evd, uint32_t threshold)
{
	uint32_t have = evd->stash.count;
	uint32_t need = threshold > have ? threshold - have : 1;

	if (evd->has_cq)
		one_wait_arm(&evd->cq, evd->channel, need);
}

/* Returns DAT_SUCCESS if a wait may begin or go on, else the error. */
static DAT_RETURN
check_waitable(const struct evd *evd)
{
	if (evd->end != EVD_LIVE)
		return evd->end == EVD_ABORTED ? DAT_ERROR(DAT_ABORT, DAT_NO_SUBTYPE)
					       : BAD_HANDLE(EVD_REQUEST);
	return evd->unwaitable ? BAD_STATE(EVD_UNWAITABLE) : DAT_SUCCESS;
}

/* Ends a wait after the loss of the data plane: DAT_SUCCESS if its last events make the EVD ready, else
 * DAT_ABORT. evd.lock held, and dropped meanwhile. */
static DAT_RETURN
wait_lost(struct evd *evd, uint32_t threshold)
{
	lock_drop(&evd->lock);
	ia_sweep_if_lost(evd);
	lock_take(&evd->lock);
	/* Include the events of a concurrent sweep by another thread. */
	evd_collect(evd);
	return is_ready(evd, threshold) ? DAT_SUCCESS : DAT_ERROR(DAT_ABORT, DAT_NO_SUBTYPE);
}

/* Sleeps on evd.channel until the EVD is ready or the wait must end.  evd.lock held, and dropped while
 * asleep. */
static DAT_RETURN
sleep_on_channel(struct evd *evd, uint32_t threshold, uint64_t deadline)
{
	struct ia *ia = evd->o.ia;
	int error = 0;

	for (;;) {
		uint32_t ticket = one_wait_begin(ia->client, evd->channel);
		struct evd *host;
		DAT_RETURN ret;

		arm_ring(evd, threshold);
		evd_collect(evd);
		ret = check_waitable(evd);
		if (ret != DAT_SUCCESS || is_ready(evd, threshold))
			return ret;
		if (ia_lost(ia))
			return wait_lost(evd, threshold);
		if (error != 0)
			return evd_wait_error(error, DAT_TIMEOUT_EXPIRED);
		host = evd->guests != NULL ? evd : NULL;
		lock_drop(&evd->lock);
		error = evd_sleep(ia, evd->channel, ticket, host, deadline);
		lock_take(&evd->lock);
	}
}

/* sleep_on_channel() with a channel allocated for the wait; evd.waiter excludes other waiters meanwhile. */
static DAT_RETURN
sleep_until_ready(struct evd *evd, uint32_t threshold, uint64_t deadline)
{
	struct one_client *client = evd->o.ia->client;
	DAT_RETURN ret;
	int error;

	evd->waiter = true;
	error = one_channel_alloc(client, &evd->channel);
	if (error == 0) {
		ret = sleep_on_channel(evd, threshold, deadline);
		one_channel_free(client, evd->channel);
	} else if (error == -ECONNRESET) {
		lost_mark(evd->o.ia);
		ret = wait_lost(evd, threshold);
	} else {
		ret = DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
	}
	evd->waiter = false;
	/* Threads that wait on the CNO have not armed this ring during this wait. */
	if (evd->cno != NULL && !evd->disabled && evd->end == EVD_LIVE)
		cno_poke(evd->cno);
	return ret;
}

DAT_RETURN
dapl_evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT *event,
	      DAT_COUNT *nmore)
{
	struct evd *evd = handle_object(evd_handle, DAT_HANDLE_TYPE_EVD);
	uint64_t deadline = UINT64_MAX;
	struct one_cqe cqe;
	DAT_RETURN ret;

	if (evd == NULL)
		return BAD_HANDLE(EVD_REQUEST);
	if (event == NULL)
		return BAD_ARG(4);
	if (nmore == NULL)
		return BAD_ARG(5);
	if (threshold <= 0)
		return BECAUSE(BAD_ARG(3), "threshold = %d: it is 1 or more; give 1 to wait for any event",
			       threshold);
	if (timeout != 0 && timeout != DAT_TIMEOUT_INFINITE)
		deadline = one_now_ns() + (uint64_t)timeout * 1000;
	for (;;) {
		lock_take(&evd->lock);
		ret = check_waitable(evd);
		if (ret == DAT_SUCCESS && evd->waiter)
			ret = BAD_STATE(EVD_WAITER);
		if (ret == DAT_SUCCESS && (uint32_t)threshold > evd->qlen)
			ret = BECAUSE(
				BAD_ARG(3),
				"threshold = %d: the EVD holds only %u events; wait for fewer, or call dat_evd_resize",
				threshold, evd->qlen);
		if (ret == DAT_SUCCESS && threshold > 1)
			ret = evd_config_error(evd);
		if (ret != DAT_SUCCESS) {
			lock_drop(&evd->lock);
			return ret;
		}
		evd_collect(evd);
		if (!is_ready(evd, (uint32_t)threshold))
			ret = timeout == 0 ? DAT_TIMEOUT_EXPIRED
					   : sleep_until_ready(evd, (uint32_t)threshold, deadline);
		if (ret == DAT_SUCCESS)
			evd_pop(evd, &cqe);
		*nmore = (DAT_COUNT)evd->stash.count;
		lock_drop(&evd->lock);
		if (ret == DAT_TIMEOUT_EXPIRED && timeout == 0 && ia_sweep_if_lost(evd))
			continue;
		if (ret != DAT_SUCCESS || event_fill(evd, &cqe, event))
			return ret;
	}
}
