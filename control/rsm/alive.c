/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keep-alive between data planes with RSM connections. Each such host is asked periodically, however many
 * connections it has. An answer contains the answering process's incarnation, a random number, so that a
 * restarted process is not mistaken for the one that had the connections.
 *
 * A question is a vendor datagram on QP1. It is answered whether or not the sender is known, with an answer
 * of the same size (no amplification).
 *
 *   0 base version 1 | class 0x4f | class version 1 | method 1 (ask), 0x81 (answer)
 *   8 transaction id   16 attribute 1   37 OUI   40 magic "ALIV"   44 incarnation (big-endian)
 *
 * Losing a host breaks all connections with it, and any host can forge its address. So an answer counts only
 * with the random transaction id of an open question, and once.
 *
 * A host is lost after ASKS unanswered questions, not by the clock alone: this process may have slept. Time
 * during which others had the processor of the core that sends questions and receives answers does not count
 * either (engine_clock), as in the transport.
 *
 * Any host can flood the queue to a control thread. So keep-alive datagrams arrive by a ring of their own,
 * and leave with the MAC of the connections if the neighbour table has lost it. Packets that a connection's
 * transport receives from the host count like an answer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/rsm/rsm.h"
#include "dataplane/wire/bytes.h"

#define METHOD_ASK 0x01
#define METHOD_ANSWER 0x81
#define ASKS 4u        /* unanswered questions until a host is lost, spread over the keep-alive time */
#define ASKS_SILENT 2u /* unanswered questions until its path is suspect and its MAC resolved again */

struct host {
	LIST_ENTRY(host) link;
	struct path_port *port;
	struct wire_addr addr, own; /* own: our address, as in the connections */
	uint64_t ask_at;            /* time of the next question, by engine_clock() */
	uint64_t open[ASKS];        /* transaction ids of the last questions; 0: answered or unused */
	uint32_t asked;             /* index of the next question, modulo ASKS */
	uint32_t unanswered;
	LIST_HEAD(, conn) conns;
};

static LIST_HEAD(, host) hosts = LIST_HEAD_INITIALIZER(hosts);
static const uint8_t mark[7] = {0x02, 0x4f, 0x4e, 'A', 'L', 'I', 'V'};

static uint64_t
keepalive_ns(void)
{
	return (uint64_t)control.config->keepalive_ms * NS_PER_MS;
}

static uint64_t
ask_interval(void)
{
	return keepalive_ns() / (ASKS + 1);
}

static struct host *
host_find(const struct path_port *port, const struct wire_addr *addr)
{
	struct host *host;

	LIST_FOREACH(host, &hosts, link)
		if (host->port == port && wire_addr_equal(&host->addr, addr))
			return host;
	return NULL;
}

int
host_watch(struct conn *conn, uint64_t incarnation)
{
	struct host *host;

	if (path_own(&conn->path.dst) != NULL || keepalive_ns() == 0)
		return 0;
	host = host_find(conn->port, &conn->path.dst);
	if (host == NULL) {
		host = calloc(1, sizeof(*host));
		if (host == NULL)
			return -ENOMEM;
		host->port = conn->port;
		host->addr = conn->path.dst;
		host->own = conn->path.src;
		host->ask_at = engine_clock() + ask_interval();
		LIST_INIT(&host->conns);
		LIST_INSERT_HEAD(&hosts, host, link);
	}
	conn->host = host;
	conn->over = host_unwatch;
	conn->incarnation = incarnation;
	LIST_INSERT_HEAD(&host->conns, conn, host_link);
	return 0;
}

void
host_unwatch(struct conn *conn)
{
	struct host *host = conn->host;

	if (host == NULL)
		return;
	conn->host = NULL;
	LIST_REMOVE(conn, host_link);
	/* hosts_poll() frees an empty host: callers may be walking its list. */
	if (LIST_EMPTY(&host->conns))
		host->ask_at = 0;
}

static void
build_mad(uint8_t mad[CM_MAD_LEN], uint8_t method, const uint8_t transaction[8])
{
	memset(mad, 0, CM_MAD_LEN);
	mad[0] = 1;
	mad[1] = ENGINE_CLASS_KEEP_ALIVE;
	mad[2] = 1;
	mad[3] = method;
	memcpy(&mad[8], transaction, 8);
	mad[17] = 1;
	memcpy(&mad[37], mark, sizeof(mark));
	store_be64(&mad[44], control.incarnation);
}

/* Sends to a host; NULL: not known, so the neighbour table must have the MAC. */
static void
send_to(const struct host *host, struct path_port *port, const struct cm_path *path,
	const uint8_t mad[CM_MAD_LEN])
{
	static const uint8_t none[6];
	const struct conn *conn;

	if (host != NULL)
		LIST_FOREACH(conn, &host->conns, host_link)
			if (memcmp(conn->mac, none, sizeof(none)) != 0) {
				path_send_mad_known(port, path, conn->mac, mad);
				return;
			}
	path_send_mad(port, path, mad);
}

static void
ask_host(struct host *host)
{
	struct cm_path path = {
		.port = host->port->index, .src = host->own, .dst = host->addr, .hop_limit = 64};
	uint64_t transaction = control_random() | 1;
	uint8_t mad[CM_MAD_LEN];

	host->open[host->asked++ % ASKS] = transaction;
	build_mad(mad, METHOD_ASK, (const uint8_t *)&transaction);
	send_to(host, host->port, &path, mad);
	if (host->unanswered >= ASKS_SILENT && !LIST_EMPTY(&host->conns))
		path_suspect(&LIST_FIRST(&host->conns)->path_user);
	host->unanswered++;
	host->ask_at = engine_clock() + ask_interval();
}

static void
lose_conns(struct host *host, uint64_t but)
{
	struct conn *conn, *next;

	for (conn = LIST_FIRST(&host->conns); conn != NULL; conn = next) {
		next = LIST_NEXT(conn, host_link);
		if (but == 0 || conn->incarnation != but)
			conn_end(conn, ONE_CONN_BROKEN, RSM_CONN_ABORTED, true);
	}
}

/* True if the datagram answers an open question, which is closed. */
static bool
is_answer(struct host *host, const uint8_t *mad)
{
	uint64_t transaction;

	memcpy(&transaction, &mad[8], sizeof(transaction));
	for (uint32_t i = 0; i < ASKS; i++)
		if (host->open[i] == transaction && transaction != 0) {
			host->open[i] = 0;
			return true;
		}
	return false;
}

bool
host_mad(struct path_port *port, const struct cm_path *reply_path, const uint8_t *mad)
{
	uint8_t answer[CM_MAD_LEN];
	struct host *host;
	uint64_t incarnation;

	if (mad[0] != 1 || mad[1] != ENGINE_CLASS_KEEP_ALIVE || memcmp(&mad[37], mark, sizeof(mark)) != 0)
		return false;
	host = host_find(port, &reply_path->dst);
	if (mad[3] == METHOD_ASK) {
		build_mad(answer, METHOD_ANSWER, &mad[8]);
		send_to(host, port, reply_path, answer);
		return true;
	}
	if (mad[3] != METHOD_ANSWER || host == NULL || !is_answer(host, mad))
		return true;
	incarnation = load_be64(&mad[44]);
	host->unanswered = 0;
	if (incarnation != 0)
		lose_conns(host, incarnation);
	return true;
}

/* True if the transport of a connection has received a packet since the last call. */
static bool
transport_heard(struct host *host)
{
	struct conn *conn;
	bool any = false;

	LIST_FOREACH(conn, &host->conns, host_link) {
		uint32_t psns = conn->qp != NULL ? engine_qp_heard(conn->qp->engine) : conn->heard;

		any = any || psns != conn->heard;
		conn->heard = psns;
	}
	return any;
}

void
hosts_poll(void)
{
	uint64_t clock = LIST_EMPTY(&hosts) ? 0 : engine_clock();
	struct host *host, *next;

	for (host = LIST_FIRST(&hosts); host != NULL; host = next) {
		bool due = clock >= host->ask_at;

		next = LIST_NEXT(host, link);
		/* At unanswered = 1, transport_heard() only records the numbers that later calls compare
		 * with. */
		if (due && host->unanswered > 0 && transport_heard(host))
			host->unanswered = 1;
		if (due && !LIST_EMPTY(&host->conns) && host->unanswered >= ASKS) {
			log_notice(
				"event=peer_lost peer=%s silent_ms=%u text=\"it does not answer: its imports and exports are lost\"\n",
				addr_text(&host->addr), control.config->keepalive_ms);
			lose_conns(host, 0);
		}
		if (LIST_EMPTY(&host->conns)) {
			LIST_REMOVE(host, link);
			free(host);
		} else if (due) {
			ask_host(host);
		}
	}
}

uint64_t
hosts_deadline(void)
{
	uint64_t first = NEVER, least = keepalive_ns() / 100, clock;
	struct host *host;

	LIST_FOREACH(host, &hosts, link)
		if (host->ask_at < first)
			first = host->ask_at;
	if (first == NEVER)
		return NEVER;
	clock = engine_clock();
	if (first <= clock)
		return control.now;
	/* The engine's clock may be stopped. Without a minimum, this thread would then poll continuously and
	 * keep the core off its processor. */
	return control.now + (first - clock < least ? least : first - clock);
}
