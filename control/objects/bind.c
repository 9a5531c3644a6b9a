/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows.
 *
 * A window owns a slot of the key table from its creation.  While the window is not bound, the slot's entry
 * grants nothing.  Binding publishes an entry with the key that the application chose: one store replaces
 * whatever the window granted before.
 */
#include <errno.h>
#include <stdlib.h>

#include "control/objects/qp.h"

#define REMOTE (ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)
#define BIND_COST 2u
#define VARIANT 0xffu /* the bits of a key that the application chooses */

static struct mw *mw_of_slot[1u << 16];

static struct mem_region *
entry_new(struct mw *mw, uint32_t key)
{
	struct mem_region *entry = calloc(1, sizeof(*entry));

	if (entry != NULL)
		*entry = (struct mem_region){.key = key, .pz = mw->pz->number, .owner = mw};
	return entry;
}

/* Publishes another entry for the window.  True if bounced accesses that the previous entry granted may be
 * under way. */
static bool
entry_replace(struct mw *mw, struct mem_region *entry)
{
	struct mem_region *old = mw->entry;
	bool copies = old->bounce != NULL;

	mw->entry = entry;
	mem_publish(engine_mem_table(), entry);
	entry_retire(mw->object.client, old);
	return copies;
}

static void
let_go(struct mw *mw)
{
	if (mw->mr != NULL)
		LIST_REMOVE(mw, mr_link);
	mw->mr = NULL;
}

void
mw_publish(struct mw *mw, struct mem_region *entry)
{
	struct mem_table *table = engine_mem_table();

	mw->entry = entry;
	mem_publish(table, entry);
	mw_of_slot[mem_key_slot(table, entry->key)] = mw;
}

int
mw_create(struct client *client, const struct one_msg *msg)
{
	const struct one_mw_create *args = &msg->mw_create;
	struct pz *pz = object_get(client, OBJECT_PZ, args->pz);
	struct quota_limit limit;
	struct mw *mw;
	uint32_t key;

	if (pz == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, args->pz);
	mw = object_new(client, OBJECT_MW, sizeof(*mw));
	if (mw == NULL)
		return object_refuse_new(client, OBJECT_MW);
	mw->pz = pz;
	key = key_new(client, &limit);
	if (key == 0) {
		object_free(mw);
		return client_refuse_limit(client, &limit);
	}
	mw->entry = entry_new(mw, key);
	if (mw->entry == NULL) {
		key_free(client);
		object_free(mw);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	mw_publish(mw, mw->entry);
	pz->object.users++;
	mw->object.busy = false;
	client->reply.mw = (struct one_mw_created){.mw = mw->object.id, .key = key};
	return 0;
}

void
mw_withdraw(struct mw *mw)
{
	if (mw->entry == NULL)
		return;
	mw_of_slot[mem_key_slot(engine_mem_table(), mw->entry->key)] = NULL;
	key_withdraw(mw->object.client, &mw->entry);
	let_go(mw);
}

void
mw_destroy(struct mw *mw)
{
	mw->pz->object.users--;
	object_free(mw);
}

void
mw_unbind_lost(struct mr *mr)
{
	struct mem_table *table = engine_mem_table();
	struct mw *mw;

	while ((mw = LIST_FIRST(&mr->windows)) != NULL && mem_lookup(table, mw->entry->key) != mw->entry)
		let_go(mw);
}

/* ---- the operation ---- */

/* Returns the MR that a bind names, if the window may lie in the MR; else NULL. */
static struct mr *
find_range(const struct qp *qp, const struct mw *mw, const struct engine_bind *bind)
{
	const struct mem_region *entry = mem_lookup(engine_mem_table(), bind->lkey);
	const struct object *object = entry == NULL ? NULL : entry->owner;
	struct mr *mr;

	if (object == NULL || object->kind != OBJECT_MR || object->client != qp->object.client ||
	    object->busy)
		return NULL;
	mr = entry->owner;
	if (mr->pz != mw->pz || !mem_covers(entry, bind->addr, bind->length))
		return NULL;
	if ((bind->flags & ONE_ACCESS_REMOTE_READ) != 0 && (mr->access & ONE_ACCESS_LOCAL_READ) == 0)
		return NULL;
	if ((bind->flags & (ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)) != 0 &&
	    (mr->access & ONE_ACCESS_LOCAL_WRITE) == 0)
		return NULL;
	/* The application may have renewed the MR under another key since the lookup. */
	return mr_settle(mr) && mr->entry->key == bind->lkey ? mr : NULL;
}

/* True if the window is bound and no peer has invalidated it. */
static bool
is_bound(const struct mw *mw)
{
	return mw->mr != NULL && mem_lookup(engine_mem_table(), mw->entry->key) == mw->entry;
}

/* Checks the additional rules of window types: a window of type 2 must be invalidated before it is bound
 * again, and only a queue pair that may use the window can invalidate it. */
static bool
is_in_turn(const struct qp *qp, const struct mw *mw, const struct engine_bind *bind)
{
	if ((bind->flags & ONE_BIND_INVALIDATE) != 0)
		return bind->length == 0 && is_bound(mw) && mw->entry->key == bind->key &&
		       mw->entry->window && (mw->entry->qpn == 0 || mw->entry->qpn == qp->config.qpn);
	return (bind->flags & ONE_BIND_TYPE_2) == 0 || (bind->length != 0 && !is_bound(mw));
}

static void
grant_range(struct mem_region *entry, const struct qp *qp, const struct mr *mr,
	    const struct engine_bind *bind)
{
	const struct mem_region *all = mr->entry;

	entry->access = bind->flags & REMOTE;
	entry->va = (bind->flags & ONE_BIND_ZERO_BASED) != 0 ? 0 : bind->addr;
	entry->shift = entry->va - bind->addr + all->shift;
	entry->length = bind->length;
	entry->base = all->base == NULL ? NULL : all->base + (bind->addr - all->va);
	entry->bounce = all->bounce;
	entry->window = (bind->flags & ONE_BIND_TYPE_1) == 0;
	entry->qpn = (bind->flags & ONE_BIND_TYPE_2) != 0 ? qp->config.qpn : 0;
}

static bool
carry_out(const struct qp *qp, const struct engine_bind *bind, bool *copies)
{
	struct mem_table *table = engine_mem_table();
	struct mw *mw = mw_of_slot[mem_key_slot(table, bind->key)];
	struct mem_region *entry;
	struct mr *mr = NULL;

	if (mw == NULL || mw->object.client != qp->object.client || mw->object.busy ||
	    ((mw->entry->key ^ bind->key) & ~VARIANT) != 0 || bind->key == 0 || mw->pz != qp->pz)
		return false;
	if (!is_in_turn(qp, mw, bind))
		return false;
	if (bind->length != 0) {
		mr = find_range(qp, mw, bind);
		if (mr == NULL)
			return false;
	}
	entry = entry_new(mw, bind->key);
	if (entry == NULL)
		return false;
	let_go(mw);
	if (mr != NULL) {
		grant_range(entry, qp, mr, bind);
		mw->mr = mr;
		LIST_INSERT_HEAD(&mr->windows, mw, mr_link);
	}
	*copies = entry_replace(mw, entry);
	return true;
}

/* A bind that has been carried out, and is reported to the queue pair's core after a grace period. */
struct bind_wait {
	struct qp *qp; /* NULL: the queue pair no longer waits */
	struct engine_command *command;
	struct bounce_marks marks;
};

static void
bind_grace_passed(struct client *client, void *object)
{
	struct bind_wait *wait = object;

	if (wait->qp == NULL) {
		free(wait->command);
		free(wait);
		return;
	}
	/* Wait for accesses that other lanes had begun before.  The queue pair's core waits for those of its
	 * own lane. */
	if (wait->command->copies && !bounce_passed_all(client->bounce, &wait->marks)) {
		grace_defer(client, bind_grace_passed, wait);
		return;
	}
	wait->qp->bind_wait = NULL;
	command_send(wait->command);
	free(wait);
}

static void
copies_begun(struct client *client, void *object)
{
	struct bind_wait *wait = object;

	if (wait->command->copies)
		bounce_mark_all(client->bounce, &wait->marks);
	bind_grace_passed(client, wait);
}

static void
wait_for_lanes(struct qp *qp, struct engine_command *command)
{
	struct bind_wait *wait = calloc(1, sizeof(*wait));

	if (wait == NULL) {
		log_error("event=memory_out bytes=%zu text=\"the data plane cannot go on\"\n", sizeof(*wait));
		abort();
	}
	wait->qp = qp;
	wait->command = command;
	qp->bind_wait = wait;
	grace_defer(qp->object.client, copies_begun, wait);
}

/* When the bind completes, no core uses what the window granted before.  The queue pair's core has stopped
 * when it gets the command, and the cores of other lanes have stopped after a grace period. */
static void
serve_bind(struct drr_item *turn)
{
	struct qp *qp = (struct qp *)(void *)((char *)turn - offsetof(struct qp, bind));
	struct client *client = qp->object.client;
	struct engine_command *command = qp_command(qp, ENGINE_QP_BIND_DONE, NULL, NULL);

	command->copies = false;
	command->ok = client_alive(client) && carry_out(qp, engine_qp_bind(qp->engine), &command->copies);
	if (engine_lane_next(client->engine) == NULL)
		command_send(command);
	else
		wait_for_lanes(qp, command);
}

void
bind_event(struct qp *qp)
{
	qp->bind.cost = BIND_COST;
	qp->bind.serve = serve_bind;
	drr_wait(&control.drr, &qp->object.client->account->drr, &qp->bind);
}

void
bind_forget(struct qp *qp)
{
	if (qp->bind_wait != NULL)
		qp->bind_wait->qp = NULL;
	qp->bind_wait = NULL;
	drr_leave(&control.drr, &qp->object.client->account->drr, &qp->bind);
}
