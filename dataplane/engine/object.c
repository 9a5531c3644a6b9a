/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients, completion rings, receive queues and queue pairs: created and freed by the control thread, owned
 * by a core in between. An object is complete before its core is notified. Freeing waits for a grace period,
 * since other cores find queue pairs by number.
 */
#include <stdlib.h>

#include "dataplane/esp/esp.h"
#include "dataplane/mem/slab.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/share.h"

/* Frees an object after a grace period: `memory` comes from slab_alloc(), `more` from malloc(). */
static void
object_free(struct reap *reap, void *memory, void *more)
{
	reap->memory[0] = memory;
	reap->memory[1] = more;
	reap->token = engine_grace_start();
	reap->next = NULL;
	*engine.reap_tail = reap;
	engine.reap_tail = &reap->next;
}

static struct core *
least_busy(void)
{
	struct core *best = engine.core[0];

	for (uint32_t i = 1; i < engine.num_cores; i++) {
		struct core *core = engine.core[i];

		if (core->num_clients + core->num_qps < best->num_clients + best->num_qps)
			best = core;
	}
	return best;
}

/* Stores of engine_user_set pair with the loads of the DRR scheduler: see user.h. */
static void
ceiling_set(struct ceiling *ceiling, uint64_t rate)
{
	if (atomic_load_explicit(&ceiling->rate, memory_order_relaxed) == rate)
		return;
	atomic_store_explicit(&ceiling->rate, rate, memory_order_relaxed);
	/* Work done under another rate causes no debt under this one. */
	atomic_store_explicit(&ceiling->arrival, 0, memory_order_relaxed);
}

void
engine_user_set(struct engine_user *user, const struct engine_share *share)
{
	atomic_store_explicit(&user->weight, share->weight, memory_order_relaxed);
	ceiling_set(&user->ceiling[CEILING_OPS], share->max_ops);
	ceiling_set(&user->ceiling[CEILING_BYTES], share->max_bytes);
	atomic_store_explicit(&user->limited, share->max_ops != 0 || share->max_bytes != 0,
			      memory_order_relaxed);
}

struct engine_user *
engine_user_new(const struct engine_share *share)
{
	struct engine_user *user = slab_alloc(sizeof(*user) + engine.num_cores * sizeof(user->group[0]));

	if (user == NULL)
		return NULL;
	engine_user_set(user, share);
	ceiling_set(&user->ceiling[CEILING_WAKES], WAKE_RATE);
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		struct share_group *group = &user->group[i];

		group->user = user;
		group->core = engine.core[i];
		TAILQ_INIT(&group->busy);
		group->timer.at = TIMER_NEVER;
		group->timer.calls = &share_timer_calls;
	}
	return user;
}

uint64_t
engine_user_debt(const struct engine_user *user)
{
	uint64_t now = engine_now(rte_rdtsc()), debt = 0;

	for (int i = 0; i < CEILINGS; i++) {
		/* Relaxed as in user_charge: no core has a client of the user that could advance the time. */
		uint64_t arrival = atomic_load_explicit(&user->ceiling[i].arrival, memory_order_relaxed);

		if (arrival > now)
			debt = RTE_MAX(debt, arrival - now);
	}
	return debt;
}

void
engine_user_free(struct engine_user *user)
{
	if (user != NULL)
		object_free(&user->reap, user, NULL);
}

static struct engine_client *
lane_alloc(uint32_t number, struct engine_user *user)
{
	struct engine_client *lane = slab_alloc(sizeof(*lane));

	if (lane == NULL)
		return NULL;
	lane->qps = calloc(ONE_QPS_MAX, 2 * sizeof(*lane->qps)); /* by doorbell, and hot ones */
	if (lane->qps == NULL) {
		slab_free(lane);
		return NULL;
	}
	lane->share.hot = lane->qps + ONE_QPS_MAX;
	TAILQ_INIT(&lane->share.run);
	TAILQ_INIT(&lane->quiescing);
	TAILQ_INIT(&lane->sending);
	lane->number = number;
	lane->core = engine.core[number % engine.num_cores];
	lane->core->num_clients++;
	lane->share.group = &user->group[lane->core->index];
	return lane;
}

struct engine_client *
engine_client_new(const struct engine_client_config *config)
{
	struct engine_client *client;

	if (!client_owns(config->doorbells, sizeof(struct one_doorbells)) ||
	    !client_owns(config->channels, sizeof(struct one_channel) * ONE_CHANNELS) ||
	    !client_owns(config->keys, sizeof(struct one_keys)))
		return NULL;
	if (config->lane > ONE_LANES_MAX)
		return NULL;
	client = lane_alloc(config->lane != 0 ? config->lane - 1 : least_busy()->index, config->user);
	if (client == NULL)
		return NULL;
	client->home = client;
	client->node.owner = config->owner;
	client->arena = config->arena;
	client->header = (struct one_arena *)config->arena;
	client->doorbells = (struct one_doorbells *)(config->arena + config->doorbells);
	client->channels = (struct one_channel *)(config->arena + config->channels);
	client->keys = (struct one_keys *)(config->arena + config->keys);
	client->asleep = &client->header->engine_asleep;
	client->wake_fd = config->wake_fd;
	return client;
}

bool
engine_client_channels(struct engine_client *client)
{
	struct channel_table *table;

	/* Relaxed: only this thread stores. */
	if (atomic_load_explicit(&client->channel_table, memory_order_relaxed) != NULL)
		return true;
	table = calloc(1, sizeof(*table)); /* allocates pages only for channels in use */
	/* Pairs with the acquire loads in wake.c. */
	atomic_store_explicit(&client->channel_table, table, memory_order_release);
	return table != NULL;
}

/* ---- lanes ---- */

struct engine_client *
engine_lane_next(const struct engine_client *lane)
{
	/* Relaxed: only this thread stores. */
	return atomic_load_explicit(&lane->next_lane, memory_order_relaxed);
}

uint32_t
engine_lane_number(const struct engine_client *lane)
{
	return lane->number;
}

uint32_t
engine_lane_core(const struct engine_client *lane)
{
	return lane->core->index;
}

uint64_t
engine_lane_doorbells(const struct engine_client *lane)
{
	return (uint64_t)((uint8_t *)lane->doorbells - lane->arena);
}

struct engine_client *
engine_lane_new(struct engine_client *home, uint32_t number, uint64_t doorbells)
{
	struct engine_client *lane;

	if (number >= ONE_LANES_MAX || engine_lane_find(home, number) != NULL ||
	    !client_owns(doorbells, sizeof(struct one_doorbells)))
		return NULL;
	lane = lane_alloc(number, home->share.group->user);
	if (lane == NULL)
		return NULL;
	lane->home = home;
	lane->node.owner = home->node.owner;
	lane->arena = home->arena;
	lane->header = home->header;
	lane->doorbells = (struct one_doorbells *)(home->arena + doorbells);
	lane->channels = home->channels;
	lane->asleep = &lane->doorbells->engine_asleep;
	lane->wake_fd = home->wake_fd;
	atomic_store_explicit(&lane->next_lane, engine_lane_next(home), memory_order_relaxed);
	/* Pairs with the acquire load in other_lanes(), on the first lane's core. */
	atomic_store_explicit(&home->next_lane, lane, memory_order_release);
	return lane;
}

/* Called on the core of the client. */
static void
bounce_broken(void *owner)
{
	client_fault(owner, ONE_FAULT_RING);
}

struct bounce *
engine_client_bounce(struct engine_client *client, uint64_t offset)
{
	if (client->bounce == NULL && client_owns(offset, sizeof(struct one_copies)))
		client->bounce = bounce_new((struct one_copies *)(client->arena + offset),
					    &client->core->reaching, bounce_broken, client, client->number,
					    client->home == client ? NULL : client->home->bounce);
	return client->bounce;
}

static void
lanes_free(struct engine_client *lane)
{
	struct engine_client *next;

	for (; lane != NULL; lane = next) {
		next = engine_lane_next(lane);
		lane->core->num_clients--;
		bounce_free(lane->bounce);
		object_free(&lane->reap, lane, lane->qps);
	}
}

void
engine_client_free(struct engine_client *client)
{
	if (client == NULL)
		return;
	lanes_free(engine_lane_next(client));
	client->core->num_clients--;
	client->reap.memory[2] =
		atomic_load_explicit(&client->ahs, memory_order_relaxed); /* as in ah_table_of */
	/* Relaxed: only this thread stores. */
	client->reap.memory[3] = atomic_load_explicit(&client->channel_table, memory_order_relaxed);
	bounce_free(client->bounce); /* keys of that memory were revoked a grace period ago */
	object_free(&client->reap, client, client->qps);
}

void
engine_client_counts(const struct engine_client *client, uint64_t *work, uint64_t *completions)
{
	*work = *completions = 0;
	for (; client != NULL; client = engine_lane_next(client)) {
		*work += atomic_load_explicit(&client->work, memory_order_relaxed); /* of client_count() */
		*completions += atomic_load_explicit(&client->completions, memory_order_relaxed);
	}
}

uint32_t
engine_client_lcore(const struct engine_client *client)
{
	return client->core->lcore;
}

struct engine_cq *
engine_cq_new(struct engine_client *client, const struct engine_cq_config *config)
{
	struct engine_cq *cq = slab_alloc(sizeof(*cq));

	if (cq == NULL)
		return NULL;
	cq->client = client;
	cq->id = config->id;
	cq->number = config->number;
	cq->first = config->first != NULL ? config->first : cq;
	cq->async_cq = config->async_cq;
	if (cq_attach(cq, config->bundle, config->offset, config->log2, config->resumes) != 0) {
		slab_free(cq);
		return NULL;
	}
	return cq;
}

void
engine_cq_free(struct engine_cq *cq)
{
	if (cq != NULL)
		object_free(&cq->reap, cq, NULL);
}

static bool
ring_fits(uint64_t offset, uint32_t log2)
{
	return offset == 0 ||
	       (log2 <= ONE_RING_LOG2_MAX && client_owns(offset, sizeof(struct one_wqe) << log2));
}

struct engine_srq *
engine_srq_new(struct engine_client *client, const struct engine_srq_config *config)
{
	struct engine_srq *srq;

	if (config->rq == 0 || !ring_fits(config->rq, config->log2) || config->lanes == 0 ||
	    config->lanes > ONE_LANES_MAX || !client_owns(config->shm, one_srq_shm_size(config->lanes)))
		return NULL;
	srq = slab_alloc(sizeof(*srq) + engine.num_cores * sizeof(srq->done[0]));
	if (srq == NULL)
		return NULL;
	srq->client = client;
	srq->id = config->id;
	srq->lanes = config->lanes;
	srq->async_cq = config->async_cq;
	srq->shm = (struct one_srq_shm *)(client->arena + config->shm);
	srq_set_ring(srq, (struct one_wqe *)(client->arena + config->rq), config->log2);
	return srq;
}

void
engine_srq_free(struct engine_srq *srq)
{
	if (srq != NULL)
		object_free(&srq->reap, srq, NULL);
}

struct engine_qp *
engine_qp_new(struct engine_client *client, const struct engine_qp_config *config)
{
	size_t size = RTE_ALIGN_CEIL(sizeof(struct engine_qp), RTE_CACHE_LINE_SIZE);
	size_t rc_size = config->ud ? 0 : rc_qp_size();
	struct engine_qp *qp;

	if (config->doorbell >= ONE_QPS_MAX || config->port >= ports_num ||
	    !ring_fits(config->sq, config->sq_log2) || !ring_fits(config->rq, config->rq_log2) ||
	    (config->srq != NULL && config->srq->client != client->home) ||
	    (config->shm != 0 && !client_owns(config->shm, sizeof(struct one_qp_shm))))
		return NULL;
	qp = slab_alloc(size + rc_size);
	if (qp == NULL)
		return NULL;
	if (qpn_reserve(config->qpn, config->owner) != 0) {
		slab_free(qp);
		return NULL;
	}
	qp->client = client;
	/* Relaxed: no core knows the queue pair yet. */
	atomic_store_explicit(&qp->core, client->core, memory_order_relaxed);
	client->core->num_qps++;
	qp->node.owner = config->owner;
	qp->id = config->id;
	qp->qpn = config->qpn;
	qp->doorbell = config->doorbell;
	qp->shm = config->shm != 0 ? (struct one_qp_shm *)(client->arena + config->shm) : NULL;
	qp->sq = config->sq != 0 ? (struct one_wqe *)(client->arena + config->sq) : NULL;
	qp->srq = config->srq;
	qp->rq = config->rq != 0 && config->srq == NULL ? (struct one_wqe *)(client->arena + config->rq)
							: NULL;
	qp->sq_log2 = (uint8_t)config->sq_log2;
	qp->rq_log2 = (uint8_t)config->rq_log2;
	qp->max_send_wr = config->max_send_wr;
	qp_configure(qp, config);
	qp->signals = config->signals;
	qp->port = config->port;
	qp->to = TX_TO(config->port, 0);
	qp->timer.at = TIMER_NEVER;
	qp->timer.calls = &qp_timer_calls;
	qp->bounce.user = qp;
	qp->bounce.lane = client->number;
	qp->transport = config->ud ? QP_UD : QP_WIRE;
	if (!config->ud) {
		qp->rc = (struct rc_qp *)((uint8_t *)qp + size);
		rc_init(qp->rc, &client->core->env, client->number, qp);
	}
	return qp;
}

void
engine_qp_place(struct engine_qp *qp, struct engine_client *lane, const struct engine_qp_config *config)
{
	qp->client->core->num_qps--;
	qp->client = lane;
	/* Relaxed: no core knows the queue pair yet. */
	atomic_store_explicit(&qp->core, lane->core, memory_order_relaxed);
	qp->bounce.lane = lane->number;
	lane->core->num_qps++;
	qp_configure(qp, config);
	if (qp->rc != NULL)
		rc_init(qp->rc, &lane->core->env, lane->number, qp);
}

uint32_t
engine_qp_refusal(const struct engine_qp *qp)
{
	/* Pairs with the store in env_failed. */
	return atomic_load_explicit(&qp->refusal, memory_order_relaxed);
}

uint32_t
engine_qp_unacknowledged(const struct engine_qp *qp)
{
	/* Pairs with the store in env_failed. */
	return atomic_load_explicit(&qp->unacknowledged, memory_order_relaxed);
}

uint32_t
engine_qp_heard(const struct engine_qp *qp)
{
	/* Pairs with the store in rcio.c: only a mark. */
	return atomic_load_explicit(&qp->heard, memory_order_relaxed);
}

uint16_t
engine_qp_source_port(const struct engine_qp *qp)
{
	/* Pairs with the store in rcio.c: only a number. */
	return atomic_load_explicit(&qp->source_port, memory_order_relaxed);
}

bool
engine_qp_heard_there(const struct engine_qp *qp, uint64_t ns)
{
	/* Pairs with the store in rcio.c: only a time. */
	uint64_t at = atomic_load_explicit(&qp->heard_there, memory_order_relaxed);
	uint64_t now = engine_now(rte_rdtsc());

	return at != 0 && (now <= at || now - at <= ns);
}

void
engine_qp_free(struct engine_qp *qp)
{
	if (qp == NULL)
		return;
	qpn_release(qp->qpn);
	qp_core(qp)->num_qps--;
	object_free(&qp->reap, qp, NULL);
}

uint32_t
engine_qp_core(const struct engine_qp *qp)
{
	return qp_core(qp)->index;
}

uint16_t
engine_steering_port(uint32_t port, uint32_t core, const struct wire_addr *peer, const struct wire_addr *own,
		     uint64_t (*draw)(void))
{
	/* The device does not see UDP ports inside of ESP. */
	if (port >= ports_num || core >= ports[port].rx_queues || esp_encrypts(peer))
		return 0;
	return rss_draw_port(&ports[port].rss, peer, own, (uint16_t)core, draw);
}

const struct engine_bind *
engine_qp_bind(const struct engine_qp *qp)
{
	return &qp->bind_asked;
}

/* ---- address handles ---- */

static struct ah_table *
ah_table_of(struct engine_client *client)
{
	/* Relaxed: only this thread stores. */
	struct ah_table *table = atomic_load_explicit(&client->ahs, memory_order_relaxed);

	if (table == NULL) {
		table = calloc(1, sizeof(*table));
		/* Pairs with the acquire load in ah_find. */
		atomic_store_explicit(&client->ahs, table, memory_order_release);
	}
	return table;
}

static uint32_t
ah_place(uint32_t id)
{
	return id & 0xffff;
}

struct engine_ah *
engine_ah_new(struct engine_client *client, const struct engine_ah_config *config)
{
	uint32_t place = ah_place(config->id);
	struct ah_table *table;
	struct engine_ah *ah;

	if (place >= ONE_AHS_MAX || config->port >= ports_num)
		return NULL;
	table = ah_table_of(client);
	ah = table == NULL ? NULL : slab_alloc(sizeof(*ah));
	if (ah == NULL)
		return NULL;
	ah->id = config->id;
	ah->pz = config->pz;
	ah->port = config->port;
	ah->loop = port_by_addr(&config->path.dst) != NULL;
	wire_template_init(&ah->template, &config->path);
	/* Pairs with the acquire load in ah_find. */
	atomic_store_explicit(&table->slot[place], ah, memory_order_release);
	return ah;
}

void
engine_ah_free(struct engine_client *client, struct engine_ah *ah)
{
	struct ah_table *table = atomic_load_explicit(&client->ahs, memory_order_relaxed); /* own store */
	_Atomic(struct engine_ah *) *slot;

	if (ah == NULL)
		return;
	slot = &table->slot[ah_place(ah->id)];
	if (atomic_load_explicit(slot, memory_order_relaxed) == ah)
		atomic_store_explicit(slot, NULL, memory_order_release); /* pairs with ah_find */
	object_free(&ah->reap, ah, NULL);
}
