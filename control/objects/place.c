/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placement of queue pairs.  A queue pair of QP_CREATE gets a core with its first command, which mostly is
 * for its connection, when the peer is known.  Until then no core knows the queue pair, and posted receives
 * wait in its ring.
 *
 * A lane needs memory for doorbells, and for a ring in each completion queue of the queue pair.  Without that
 * memory the queue pair gets the first core, which has all rings.
 *
 * After a take-over by a process with fewer cores an attachment may have several lanes on one core
 * (engine_lane_number()).  The two ends of a local connection are on lanes of one number, which stay together
 * when the number of cores changes again.
 */
#include "control/attach/client.h"
#include "control/objects/place.h"
#include "dataplane/engine/place.h"

/* A completion queue's core gets at most this many queue pairs more than the core with the fewest. */
#define AHEAD_MAX 16u

static uint32_t num_qps[ONE_LANES_MAX]; /* queue pairs of each core */
static uint32_t placed_clients;         /* attachments that have queue pairs on cores */

static uint32_t
home_core(const struct client *client)
{
	return engine_lane_core(client->engine);
}

/* ---- lanes ---- */

/* Returns the number of a lane that the client has on the core, or will have. */
static uint32_t
lane_on(const struct client *client, uint32_t core)
{
	const struct engine_client *lane = client->engine;

	while (lane != NULL && engine_lane_core(lane) != core)
		lane = engine_lane_next(lane);
	return lane != NULL ? engine_lane_number(lane) : core;
}

static struct engine_client *
make_lane(struct client *client, uint32_t number)
{
	struct engine_command *command;
	struct engine_client *lane;
	uint64_t doorbells;

	if (client_alloc(client, sizeof(struct one_doorbells), &doorbells) != 0)
		return NULL;
	lane = engine_lane_new(client->engine, number, doorbells);
	if (lane == NULL) {
		client_free(client, doorbells, sizeof(struct one_doorbells));
		return NULL;
	}
	command = command_new(client, ENGINE_CLIENT_ADD, NULL, NULL);
	command->client = lane;
	command_send(command);
	return lane;
}

static struct engine_client *
lane_with_rings(struct qp *qp, uint32_t number)
{
	struct client *client = qp->object.client;
	struct engine_client *lane = engine_lane_find(client->engine, number);
	/* The asynchronous ring comes first, because the others report to it. */
	struct cq *const cqs[] = {client->async_cq, qp->send_cq, qp->recv_cq, qp->conn_cq};

	if (lane == NULL)
		lane = make_lane(client, number);
	if (lane != NULL && copies_add_lane(client, lane) != 0)
		return NULL;
	for (size_t i = 0; i < RTE_DIM(cqs) && lane != NULL; i++)
		if (cqs[i] != NULL && cq_extend(cqs[i], lane) != 0)
			lane = NULL;
	return lane;
}

struct engine_client *
place_lane(struct qp *qp, uint32_t number)
{
	struct client *client = qp->object.client;
	const struct one_reply reply = client->reply;
	bool starved = client->starved;
	bool is_home = number == engine_lane_number(client->engine);
	struct engine_client *lane = is_home ? client->engine : lane_with_rings(qp, number);

	/* Missing memory for a lane is no refusal of the request under way: restore the reply. */
	client->reply = reply;
	client->starved = starved;
	return lane;
}

/* ---- completion queues of requests ---- */

void
place_use_cq(struct cq *cq, bool for_requests)
{
	struct client *client = cq->object.client;

	if (for_requests) {
		client->other_cqs -= cq->use == CQ_OF_OTHERS;
		cq->use = CQ_OF_REQUESTS;
	} else if (cq->use == CQ_UNUSED) {
		client->other_cqs++;
		cq->use = CQ_OF_OTHERS;
	}
}

void
place_forget_cq(const struct cq *cq)
{
	cq->object.client->other_cqs -= cq->use == CQ_OF_OTHERS;
}

/* True if requests complete in two queues at least, or will: a queue that nothing uses yet counts, because a
 * program may create all of its queues before its first connection.  The queue of asynchronous events, which
 * each attachment has, does not count. */
static bool
has_request_cqs(const struct client *client)
{
	return client->table[OBJECT_CQ].used >= client->other_cqs + 1 + 2;
}

/* True if there are as many programs as cores, so that each core has work where each program uses one. */
static bool
fills_cores(const struct client *client)
{
	return placed_clients + (client->placed_qps == 0) >= engine_num_cores();
}

/* ---- the choice ---- */

/* Returns the core with the fewest queue pairs among the first `cores`; of equal ones the client's first
 * core. */
static uint32_t
least_busy(const struct client *client, uint32_t cores)
{
	uint32_t home = home_core(client), best = home < cores ? home : 0;

	for (uint32_t i = 0; i < cores; i++)
		if (num_qps[i] < num_qps[best])
			best = i;
	return best;
}

uint32_t
place_wish(const struct qp *qp)
{
	uint32_t vector = qp->recv_cq != NULL ? qp->recv_cq->vector : 0;

	if (vector == 0 && qp->send_cq != NULL)
		vector = qp->send_cq->vector;
	return vector < engine_num_cores() ? vector : 0;
}

/*
 * True if the queue pair gets the core of the first one with the same completion queue of requests.  Requests
 * that complete in one queue are mostly one thread's: a thread that posts to all cores waits for cache lines
 * of each.  Within the host the balance spreads them if that core gets too busy.  Frames may be unable to
 * follow a move, so connections by frames spread at once if the core is ahead, or if other cores would be
 * idle: the queue is the only one, and there are fewer programs than cores.
 */
static bool
follows_cq(const struct qp *qp, const struct qp *near, uint32_t least)
{
	const struct cq *cq = qp->send_cq;
	uint32_t core;

	if (cq == NULL || !cq->has_lane)
		return false;
	if (near != NULL)
		return true;
	core = cq->lane % engine_num_cores();
	return (has_request_cqs(qp->object.client) || fills_cores(qp->object.client)) &&
	       core < engine_port_cores(qp->config.port) && num_qps[core] < num_qps[least] + AHEAD_MAX;
}

/* Returns the number of a lane. */
static uint32_t
choose_lane(struct qp *qp, const struct qp *near)
{
	struct client *client = qp->object.client;
	enum config_placement how = control.config->placement;
	uint32_t least;

	if (how == CONFIG_PLACEMENT_ONE || !client_alive(client))
		return engine_lane_number(client->engine);
	if (how == CONFIG_PLACEMENT_NEXT)
		return lane_on(client, client->next_core++ % engine_num_cores());
	if (near != NULL && near->placed)
		return engine_lane_number(near->lane);
	if (place_wish(qp) != 0)
		return lane_on(client, place_wish(qp));
	/* Prefer cores at which frames of the port arrive: frames for other cores have to be handed over. */
	least = least_busy(client, near != NULL ? engine_num_cores() : engine_port_cores(qp->config.port));
	return follows_cq(qp, near, least) ? qp->send_cq->lane : lane_on(client, least);
}

/* ---- the queue pair ---- */

static void
note_place(struct qp *qp, struct engine_client *lane)
{
	qp->placed = true;
	qp->lane = lane;
	num_qps[engine_lane_core(lane)]++;
	placed_clients += qp->object.client->placed_qps++ == 0;
	if (qp->send_cq != NULL && !qp->send_cq->has_lane) {
		qp->send_cq->has_lane = true;
		qp->send_cq->lane = engine_lane_number(lane);
	}
}

void
place_at_home(struct qp *qp)
{
	note_place(qp, qp->object.client->engine);
}

void
place_qp(struct qp *qp, struct qp *near)
{
	struct client *client = qp->object.client;
	struct engine_client *lane;

	if (qp->placed)
		return;
	lane = place_lane(qp, choose_lane(qp, near));
	note_place(qp, lane != NULL ? lane : client->engine);
	qp_give_to_core(qp);
}

void
place_resumed(struct qp *qp)
{
	note_place(qp, qp->lane);
}

void
place_moved(struct qp *qp, struct engine_client *lane)
{
	place_forget(qp);
	note_place(qp, lane);
	qp->config = qp_config_on(qp, lane);
	qp_store_doorbells(qp);
}

uint32_t
place_count(uint32_t core)
{
	return num_qps[core];
}

void
place_forget(const struct qp *qp)
{
	if (!qp->placed)
		return;
	num_qps[engine_lane_core(qp->lane)]--;
	placed_clients -= --qp->object.client->placed_qps == 0;
}
