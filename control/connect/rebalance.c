/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves connections away from busy polling cores, as balance.h chooses them, and to the core at which their
 * frames arrive if the port cannot lead the frames to another one. */
#include "control/connect/connect.h"
#include "control/objects/qp_move.h"
#include "control/objects/place.h"
#include "dataplane/engine/place.h"

#define PAGE 4096u

static struct balance balance;

uint64_t
conns_balance_deadline(void)
{
	if (engine_num_cores() < 2 || control.config->placement != CONFIG_PLACEMENT_AUTO ||
	    TAILQ_EMPTY(&control.conns))
		return NEVER;
	return balance.looked_at + BALANCE_LOOK_NS;
}

static bool
is_on_busy_core(const struct conn *conn)
{
	return conn->qp != NULL && conn->qp->placed && engine_lane_core(conn->qp->lane) == balance.from;
}

static void
sample_conns(void)
{
	struct conn *conn;

	TAILQ_FOREACH(conn, &control.conns, link)
		if (is_on_busy_core(conn))
			balance_sample(&balance, &conn->balance, engine_qp_heard(conn->qp->engine));
}

static uint64_t
work_of_conn(const struct conn *conn)
{
	return is_on_busy_core(conn)
		       ? balance_work(&balance, &conn->balance, engine_qp_heard(conn->qp->engine))
		       : 0;
}

/* The application asked for no core, and the queue pair has not moved a short while ago. */
static bool
may_move(const struct conn *conn)
{
	return !balance_rests(&conn->balance, control.now) && place_wish(conn->qp) == 0 &&
	       qp_move_refusal(conn->qp) == NULL;
}

/* Both ends of a local connection move together, so the second one does not offer it again. */
static void
offer_conn(struct conn *conn)
{
	const struct qp *peer = conn_own_peer(conn->qp);
	uint64_t part = work_of_conn(conn);

	if (peer != NULL && !is_on_busy_core(peer->conn))
		peer = NULL;
	if (peer != NULL) {
		if (peer->config.qpn < conn->qp->config.qpn || !may_move(peer->conn))
			return;
		part += work_of_conn(peer->conn);
	}
	if (part > 0 && (peer != NULL || engine_port_follows(conn->qp->config.port, balance.to)))
		balance_offer(&balance, conn, part);
}

static void
choose_conns(void)
{
	struct conn *conn;
	uint64_t work = 0;

	TAILQ_FOREACH(conn, &control.conns, link)
		work += work_of_conn(conn);
	balance_choose_begin(&balance, work);
	TAILQ_FOREACH(conn, &control.conns, link)
		if (is_on_busy_core(conn) && may_move(conn))
			offer_conn(conn);
}

static void
move_chosen_conns(void)
{
	uint32_t picks = balance_choose_end(&balance), moves = 0;

	for (uint32_t i = 0; i < picks; i++) {
		struct conn *conn = balance.pick[i].item;

		if (conn_move(conn->qp, balance.to) != NULL)
			continue;
		balance_try(&balance, &conn->balance);
		moves++;
	}
	if (moves > 0)
		log_info("event=cores_balanced from=%u to=%u moves=%u busy_permille=%u gap_permille=%u\n",
			 engine_core_lcore(balance.from), engine_core_lcore(balance.to), moves, balance.load,
			 balance.gap);
}

static void
move_tried_conns_back(void)
{
	struct conn *conn;
	uint32_t moves = 0;

	TAILQ_FOREACH(conn, &control.conns, link)
		if (balance_is_tried(&balance, &conn->balance) && conn->qp != NULL && conn->qp->placed &&
		    engine_lane_core(conn->qp->lane) == balance.to)
			moves += conn_move(conn->qp, balance.from) == NULL;
	log_info("event=cores_balance_undone from=%u to=%u moves=%u\n", engine_core_lcore(balance.to),
		 engine_core_lcore(balance.from), moves);
}

/* Requests, frames, and pages that were copied. */
static uint64_t
work_of_core(const struct engine_stats *stats)
{
	return stats->work + stats->rx_packets + stats->tx_packets + stats->local_bytes / PAGE;
}

void
conns_balance_poll(void)
{
	uint64_t busy[ONE_LANES_MAX], work = 0;
	struct engine_stats stats;

	if (control.now < conns_balance_deadline())
		return;
	for (uint32_t i = 0; i < engine_num_cores(); i++) {
		engine_stats(i, &stats);
		busy[i] = (uint64_t)((unsigned __int128)stats.busy_cycles * NS_PER_S / engine_hz());
		work += work_of_core(&stats);
	}
	switch (balance_look(&balance, control.now, busy, work, engine_num_cores())) {
	case BALANCE_NOTHING:
		break;
	case BALANCE_SAMPLE:
		sample_conns();
		break;
	case BALANCE_CHOOSE:
		choose_conns();
		move_chosen_conns();
		break;
	case BALANCE_UNDO:
		move_tried_conns_back();
		break;
	}
}

void
conn_follow(struct conn *conn, uint32_t core)
{
	const struct qp *qp = conn->qp;

	if (control.config->placement != CONFIG_PLACEMENT_AUTO || qp == NULL || !qp->placed ||
	    !may_move(conn) || engine_port_follows(qp->config.port, engine_lane_core(qp->lane)))
		return;
	conn_move(conn->qp, core);
}
