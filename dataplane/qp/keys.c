/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys that an application revokes and renews through its core (struct one_keys).
 *
 * Requests that were posted before a key is revoked are executed with the key, as by an adapter that has
 * fetched them by then. So the doorbells are scanned once more, and the core answers when each hot queue pair
 * has begun what its ring held. The core does not wait for a queue pair that waits for its peer (RNR, a
 * receive, silence), and for none longer than KEYS_WAIT_NS. The first lane asks the other lanes to do the
 * same, and waits twice as long at most. The other cores may use the key until their current loops end, so a
 * grace period follows.
 *
 * Queue pairs are visited from the end of the hot list: if one leaves the list, the last takes its place. So
 * each one that was hot at first is visited. Queue pairs that left the list while sending are in a list of
 * their own until they are visited, break, or end.
 */
#include "dataplane/qp/transport.h"

enum {
	KEYS_WAIT_NS = 10000000,
	KEYS_VISITS = 64 /* queue pairs visited in one poll */
};

/* Returns the index after the newest posted request, by binary search of the phases that ring_take()
 * acquires. */
static uint32_t
posted_until(const struct engine_qp *qp)
{
	uint32_t slots = 0;

	if (qp->sq == NULL)
		return qp->sq_head;
	for (uint32_t step = 1u << qp->sq_log2; step > 0; step /= 2)
		if (qp_sq_ready(qp, slots + step - 1))
			slots += step;
	return qp->sq_head + slots;
}

static bool
has_taken(const struct engine_qp *qp, uint32_t until)
{
	return qp->request == QP_REQUEST_NONE && (int32_t)(qp->sq_head - until) >= 0;
}

/* True if the queue pair has begun what its ring held when it was visited first, or cannot begin it now. */
static bool
has_begun(struct keys_wait *wait, struct engine_qp *qp)
{
	bool by_wire = qp_has_rc(qp);

	if (qp->state != RC_RTS || qp->request == QP_REQUEST_WAITS || qp_is_stopped(qp) ||
	    (by_wire && !rc_goes_on(qp->rc) && qp->request != QP_REQUEST_NONE))
		return true;
	if (wait->qp != qp) {
		wait->qp = qp;
		wait->until = posted_until(qp);
		wait->taken = false;
	}
	if (!wait->taken && !has_taken(qp, wait->until))
		return false;
	if (by_wire && !wait->taken)
		wait->posted = rc_posted(qp->rc);
	wait->taken = true;
	return !by_wire || !rc_goes_on(qp->rc) || rc_has_sent(qp->rc, wait->posted);
}

void
keys_note(struct engine_qp *qp)
{
	if ((qp->lists & QP_IN_SENDING) || !qp_has_rc(qp) || qp->state != RC_RTS || !rc_goes_on(qp->rc))
		return;
	qp->lists |= QP_IN_SENDING;
	TAILQ_INSERT_TAIL(&qp->client->sending, qp, sending_link);
}

void
keys_forget(struct engine_qp *qp)
{
	if (!(qp->lists & QP_IN_SENDING))
		return;
	qp->lists &= (uint8_t)~QP_IN_SENDING;
	TAILQ_REMOVE(&qp->client->sending, qp, sending_link);
}

static bool
all_have_begun(struct engine_client *client)
{
	struct keys_wait *wait = &client->keys_wait;
	const struct share *share = &client->share;
	uint32_t visits = KEYS_VISITS;
	struct engine_qp *qp;

	for (wait->left = RTE_MIN(wait->left, share->hot_count); wait->left > 0; wait->left--)
		if (visits-- == 0 || !has_begun(wait, share->hot[wait->left - 1]))
			return false;
	while ((qp = TAILQ_FIRST(&client->sending)) != NULL) {
		/* Hot queue pairs were visited above. */
		if (visits-- == 0 || (!(qp->lists & QP_IN_HOT) && !has_begun(wait, qp)))
			return false;
		keys_forget(qp);
	}
	return true;
}

static struct engine_client *
other_lanes(const struct engine_client *client)
{
	/* Pairs with the release store in engine_lane_new(). */
	return atomic_load_explicit(&client->home->next_lane, memory_order_acquire);
}

static void
answer_request(struct engine_client *client, bool ok)
{
	struct one_keys *shm = client->keys;

	client->keys_answered = client->keys_wait.asked;
	client->keys_wait.stage = KEYS_IDLE;
	/* Release: pairs with the load in begin_without_keys(). */
	atomic_store_explicit(&client->keys_busy, false, memory_order_release);
	atomic_store_explicit(&shm->refused, !ok, memory_order_relaxed);
	/* Pairs with the load in await_key(): all reads and stores with the key, by any core, are done
	 * before. */
	atomic_store_explicit(&shm->answered, client->keys_answered, memory_order_release);
}

/*
 * Between the turns of two queue pairs this core has no access under way, and only lanes of this client have
 * queue pairs of its zones. So a key revoked here can be in use only by other lanes, in their current loops.
 */
static void
carry_out(struct engine_client *client)
{
	struct one_keys *shm = client->keys;
	uint32_t op = atomic_load_explicit(&shm->op, memory_order_relaxed);
	uint32_t key = atomic_load_explicit(&shm->key, memory_order_relaxed);
	uint32_t next = atomic_load_explicit(&shm->next, memory_order_relaxed);
	bool ok = op == ONE_KEY_NONE;

	if (op == ONE_KEY_REVOKE)
		ok = mem_revoke(engine.mem, client, key);
	else if (op == ONE_KEY_RENEW)
		ok = mem_renew(engine.mem, client, key, next);
	if (op != ONE_KEY_REVOKE || other_lanes(client) == NULL) {
		answer_request(client, ok);
		return;
	}
	client->keys_wait.ok = ok;
	client->keys_wait.token = engine_grace_start();
	client->keys_wait.stage = KEYS_GRACE;
}

/* ---- several lanes ---- */

/* Ask the other lanes to begin what was posted there before. */
static void
ask_lanes(struct core *core, struct engine_client *client)
{
	const struct engine_client *lane = other_lanes(client);

	if (lane == NULL)
		return;
	/* Pairs with the load in notice_ask(). */
	atomic_store_explicit(&client->keys_ask, client->keys_wait.asked, memory_order_release);
	for (; lane != NULL; lane = atomic_load_explicit(&lane->next_lane, memory_order_acquire))
		core->wake_mask |= 1ull << lane->core->index;
}

static bool
lanes_have_begun(const struct engine_client *client)
{
	const struct engine_client *lane = other_lanes(client);
	/* Relaxed: this core's own store. */
	uint32_t asked = atomic_load_explicit(&client->keys_ask, memory_order_relaxed);

	/* keys_begun: pairs with the release store in go_on_beside(). */
	for (; lane != NULL; lane = atomic_load_explicit(&lane->next_lane, memory_order_acquire))
		if (atomic_load_explicit(&lane->keys_begun, memory_order_acquire) != asked)
			return false;
	return true;
}

/* On other lanes: notice a request of the first lane. Returns true while one is in progress. */
static bool
notice_ask(struct core *core, struct engine_client *client)
{
	struct keys_wait *wait = &client->keys_wait;
	/* Pairs with the store in ask_lanes(): work posted before is in the rings, and its doorbells were
	 * rung. */
	uint32_t asked = atomic_load_explicit(&client->home->keys_ask, memory_order_acquire);

	/* Relaxed: only this core stores keys_begun. */
	if (wait->stage == KEYS_IDLE &&
	    asked != atomic_load_explicit(&client->keys_begun, memory_order_relaxed))
		*wait = (struct keys_wait){.stage = KEYS_SCAN, .asked = asked, .since = core->now};
	return wait->stage != KEYS_IDLE;
}

static void
go_on_beside(struct engine_client *client)
{
	/* Pairs with the load in lanes_have_begun(). */
	atomic_store_explicit(&client->keys_begun, client->keys_wait.asked, memory_order_release);
	client->keys_wait.stage = KEYS_IDLE;
}

/* Lets no further queue pair leave its lane. False: one is on its way, and the request waits for it. */
static bool
exclude_moves(struct engine_client *client)
{
	/* Both sequentially consistent: pairs with begin_without_keys(). */
	atomic_store_explicit(&client->keys_busy, true, memory_order_seq_cst);
	return atomic_load_explicit(&client->moving, memory_order_seq_cst) == 0;
}

/* Begin a request. The application may also have rung twice, or without a new request. */
static void
notice_request(struct core *core, struct engine_client *client)
{
	struct keys_wait *wait = &client->keys_wait;
	/* Pairs with the store in call_key(): work posted before is in the rings, and its doorbells were
	 * rung. */
	uint32_t asked = atomic_load_explicit(&client->keys->asked, memory_order_acquire);

	if (asked == client->keys_answered) {
		/* Relaxed: the application has withdrawn a request before it began. */
		atomic_store_explicit(&client->keys_busy, false, memory_order_relaxed);
		return;
	}
	if (!exclude_moves(client)) {
		/* Relaxed: only this core polls the byte, in its next scan. */
		atomic_store_explicit(&client->doorbells->keys, 1, memory_order_relaxed);
		return;
	}
	*wait = (struct keys_wait){.stage = KEYS_SCAN, .asked = asked, .since = core->now};
	/* No posted work can use a key that was revoked: renew at once. */
	if (atomic_load_explicit(&client->keys->op, memory_order_relaxed) == ONE_KEY_RENEW)
		carry_out(client);
	else
		ask_lanes(core, client);
}

bool
keys_scan(struct core *core, struct engine_client *client)
{
	if (unlikely(client->home != client))
		return notice_ask(core, client);
	/* Only a hint; the exchange pairs with the store in ring_keys(). */
	if (likely(atomic_load_explicit(&client->doorbells->keys, memory_order_relaxed) == 0) &&
	    likely(client->keys_wait.stage == KEYS_IDLE))
		return false;
	if (atomic_exchange_explicit(&client->doorbells->keys, 0, memory_order_acquire) != 0 &&
	    client->keys_wait.stage == KEYS_IDLE)
		notice_request(core, client);
	return true;
}

/* On the first lane: continue when its own queue pairs have begun what was posted. */
static void
go_on_with_lanes(const struct core *core, struct engine_client *client)
{
	struct keys_wait *wait = &client->keys_wait;

	if (wait->stage == KEYS_GRACE) {
		if (engine_grace_over(wait->token))
			answer_request(client, wait->ok);
		return;
	}
	wait->stage = KEYS_LANES;
	if (lanes_have_begun(client) || core->now - wait->since > 2 * KEYS_WAIT_NS)
		carry_out(client);
}

void
keys_go_on(struct core *core, struct engine_client *client, bool scanned)
{
	struct keys_wait *wait = &client->keys_wait;

	if (likely(wait->stage == KEYS_IDLE))
		return;
	if (wait->stage == KEYS_SCAN && scanned) {
		wait->stage = KEYS_BEGIN;
		wait->left = client->share.hot_count;
	}
	if (wait->stage <= KEYS_BEGIN && !(wait->stage == KEYS_BEGIN && all_have_begun(client)) &&
	    core->now - wait->since <= KEYS_WAIT_NS)
		return;
	if (client->home != client)
		go_on_beside(client);
	else
		go_on_with_lanes(core, client);
}
