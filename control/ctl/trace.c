/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State-machine edges as they happen, for callers that trace.  Each lcore has a ring that it writes alone and
 * the control thread reads; nobody waits: an edge without room is counted as lost.  Without a caller that
 * traces, an edge costs one load.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_lcore.h>

#include "control/ctl/internal.h"
#include "control/objects/qp.h"
#include "dataplane/compat/clock.h"

#define EDGES 512u  /* of a ring */
#define AT_ONCE 64u /* edges of one look, */
#define LOOK_NS (20 * NS_PER_MS)
#define LOOK_MOST_NS NS_PER_MS /* of telling them, and others go on */
#define KNOWN 1024u

/* Whose an object is. */
struct owner {
	uint32_t client; /* number of the attachment; NOBODY */
	uint32_t pid;
};
#define NOBODY UINT32_MAX

struct edge {
	uint64_t at;
	const struct state_machine *machine;
	uint32_t id, from, to;
	struct owner owner; /* as far as the lcore knows it */
	bool allowed;
	char why[51];
};

struct edge_ring {
	_Atomic uint32_t head; /* free-running; stored by the lcore with release, for take() */
	_Atomic uint32_t tail; /* stored by the control thread with release, for ctl_edge() */
	_Atomic uint64_t lost; /* counted by the lcore, taken by the control thread */
	struct edge edge[EDGES];
};

static struct edge_ring *rings[RTE_MAX_LCORE]; /* made with the first caller, before `tracing`; kept */
static _Atomic uint32_t tracing;               /* callers; stored with release, for ctl_edge() */
static uint64_t look_at;

/* Whose a queue pair is: it may be gone when its last edges are read.  A cache, by number. */
static struct {
	uint32_t qpn;
	struct owner owner;
} known[KNOWN];

static bool
is_attachment(const struct state_machine *machine)
{
	return strcmp(machine->object, "attachment") == 0;
}

/* Of queue pairs and their connections; the connection manager has numbers of its own. */
static bool
is_qp(const struct state_machine *machine)
{
	return strcmp(machine->object, "CM connection") != 0 && !is_attachment(machine);
}

/* On the control thread. */
static struct owner
owner_of_qp(uint32_t qpn)
{
	const struct qp *qp = qpn != 0 ? engine_qp_owner(qpn) : NULL;
	const struct client *client = qp != NULL ? qp->object.client : NULL;

	return client != NULL ? (struct owner){client->number, (uint32_t)client->pid}
			      : (struct owner){NOBODY, 0};
}

static struct owner
owner_of_attachment(uint32_t number)
{
	const struct client *client;

	TAILQ_FOREACH(client, &control.clients, link)
		if (client->number == number)
			return (struct owner){number, (uint32_t)client->pid};
	return (struct owner){number, 0};
}

/* ---- any lcore ---- */

void
ctl_edge(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to, const char *why,
	 bool allowed)
{
	unsigned int lcore = rte_lcore_id();
	struct edge_ring *ring;
	uint32_t head;
	struct edge *edge;

	if (atomic_load_explicit(&tracing, memory_order_acquire) == 0 || lcore >= RTE_MAX_LCORE)
		return;
	ring = rings[lcore];
	if (ring == NULL)
		return;
	head = atomic_load_explicit(&ring->head, memory_order_relaxed); /* ours */
	if (head - atomic_load_explicit(&ring->tail, memory_order_acquire) == EDGES) {
		atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed); /* only counted */
		return;
	}
	edge = &ring->edge[head % EDGES];
	*edge = (struct edge){.at = clock_now(),
			      .machine = machine,
			      .id = id,
			      .from = from,
			      .to = to,
			      .owner.client = NOBODY,
			      .allowed = allowed};
	snprintf(edge->why, sizeof(edge->why), "%s", why);
	if (lcore == rte_get_main_lcore() && is_attachment(machine))
		edge->owner = owner_of_attachment(id);
	else if (lcore == rte_get_main_lcore() && is_qp(machine))
		edge->owner = owner_of_qp(id);
	atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/* ---- the control thread ---- */

static bool
make_rings(void)
{
	unsigned int lcore;

	RTE_LCORE_FOREACH(lcore) {
		if (rings[lcore] == NULL)
			rings[lcore] = calloc(1, sizeof(*rings[lcore]));
		if (rings[lcore] == NULL)
			return false;
	}
	return true;
}

/* The oldest edge of all rings; NULL: there is none. */
static const struct edge *
oldest(struct edge_ring **from)
{
	const struct edge *first = NULL;

	for (unsigned int i = 0; i < RTE_MAX_LCORE; i++) {
		struct edge_ring *ring = rings[i];
		uint32_t tail;

		if (ring == NULL)
			continue;
		tail = atomic_load_explicit(&ring->tail, memory_order_relaxed); /* ours */
		if (tail == atomic_load_explicit(&ring->head, memory_order_acquire))
			continue;
		if (first == NULL || ring->edge[tail % EDGES].at < first->at) {
			first = &ring->edge[tail % EDGES];
			*from = ring;
		}
	}
	return first;
}

/* Whose the edge is, as far as it is known. */
static struct owner
owner_of(const struct edge *edge)
{
	struct owner owner = edge->owner;
	uint32_t place = edge->id % KNOWN;

	if (!is_qp(edge->machine) || edge->id == 0)
		return owner;
	if (owner.client == NOBODY)
		owner = owner_of_qp(edge->id);
	if (owner.client == NOBODY)
		return known[place].qpn == edge->id ? known[place].owner : owner;
	known[place].qpn = edge->id;
	known[place].owner = owner;
	return owner;
}

static bool
matches(const struct ctl_filter *filter, const struct edge *edge, const struct owner *owner)
{
	if (filter->given == 0)
		return true;
	if (filter->given == CTL_M_QP)
		return is_qp(edge->machine) && edge->id == filter->number;
	if (owner->client == NOBODY)
		return false;
	return filter->number == (filter->given == CTL_M_CLIENT ? owner->client : owner->pid);
}

/* As of the wall's clock, which edges do not ask. */
static json_int_t
wall_ns(uint64_t at)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (json_int_t)((uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec - (clock_now() - at));
}

static json_t *
describe(const struct edge *edge, const struct owner *owner)
{
	const struct state_machine *machine = edge->machine;
	json_t *object =
		json_pack("{s:I, s:s, s:I, s:s, s:s, s:s, s:b}", "time_ns", wall_ns(edge->at), "object",
			  machine->object, "id", (json_int_t)edge->id, "from", machine->name[edge->from],
			  "to", machine->name[edge->to], "why", edge->why, "allowed", edge->allowed);

	if (owner->client != NOBODY) {
		json_object_set_new(object, "client", json_integer(owner->client));
		json_object_set_new(object, "pid", json_integer(owner->pid));
	}
	return json_pack("{s:o}", "edge", object);
}

static void
tell(const struct edge *edge)
{
	struct owner owner = owner_of(edge);
	struct ctl_caller *caller;

	TAILQ_FOREACH(caller, &ctl_callers, link)
		if (caller->traces && !caller->gone && matches(&caller->filter, edge, &owner) &&
		    !ctl_push(caller, describe(edge, &owner)))
			caller->lost++;
}

static uint64_t
lost_in_rings(void)
{
	uint64_t lost = 0;

	for (unsigned int i = 0; i < RTE_MAX_LCORE; i++)
		if (rings[i] != NULL)
			lost += atomic_exchange_explicit(&rings[i]->lost, 0, memory_order_relaxed);
	return lost;
}

/* What has been lost is told when there is room again. */
static void
tell_lost(void)
{
	uint64_t more = lost_in_rings();
	struct ctl_caller *caller;

	TAILQ_FOREACH(caller, &ctl_callers, link) {
		if (!caller->traces)
			continue;
		caller->lost += more;
		if (caller->lost != 0 &&
		    ctl_push(caller, json_pack("{s:I}", "lost", (json_int_t)caller->lost)))
			caller->lost = 0;
	}
}

void
ctl_trace_poll(void)
{
	uint64_t begin, taken;
	struct edge_ring *ring = NULL;
	const struct edge *edge;

	if (atomic_load_explicit(&tracing, memory_order_relaxed) == 0 || control.now < look_at)
		return;
	begin = clock_now();
	for (uint32_t i = 0; i < AT_ONCE && clock_now() - begin < LOOK_MOST_NS; i++) {
		edge = oldest(&ring);
		if (edge == NULL)
			break;
		tell(edge);
		atomic_fetch_add_explicit(&ring->tail, 1, memory_order_release);
	}
	tell_lost();
	taken = clock_now() - begin;
	look_at = begin + (LOOK_NS > (1 + CTL_SHARE) * taken ? LOOK_NS : (1 + CTL_SHARE) * taken);
}

uint64_t
ctl_trace_deadline(void)
{
	return atomic_load_explicit(&tracing, memory_order_relaxed) != 0 ? look_at : NEVER;
}

/* Is there what a trace asks for?  A process may attach later, a queue pair or an attachment is gone for
 * good. */
static bool
is_there(const struct ctl_filter *filter)
{
	const struct client *client;

	if (filter->given == CTL_M_QP)
		return engine_qp_owner((uint32_t)filter->number) != NULL;
	if (filter->given == 0 ||
	    (filter->given == CTL_M_PID && (kill((pid_t)filter->number, 0) == 0 || errno == EPERM)))
		return true;
	TAILQ_FOREACH(client, &control.clients, link)
		if (filter->number ==
		    (filter->given == CTL_M_CLIENT ? client->number : (uint32_t)client->pid))
			return true;
	return false;
}

void
ctl_trace_start(struct ctl_caller *caller, const struct ctl_request *request)
{
	if (!make_rings()) {
		ctl_refuse(caller, "trace: no memory");
		return;
	}
	caller->filter.given = request->given;
	caller->filter.number = (request->given & CTL_M_QP) != 0       ? request->qp
				: (request->given & CTL_M_CLIENT) != 0 ? request->client
								       : request->pid;
	if (!is_there(&caller->filter)) {
		ctl_refuse(caller, "trace: there is no such %s; onesidectl show %s has those there are",
			   caller->filter.given == CTL_M_QP    ? "queue pair"
			   : caller->filter.given == CTL_M_PID ? "process"
							       : "client",
			   caller->filter.given == CTL_M_QP ? "endpoints" : "clients");
		return;
	}
	caller->traces = true;
	if (atomic_load_explicit(&tracing, memory_order_relaxed) == 0)
		look_at = control.now;
	atomic_fetch_add_explicit(&tracing, 1, memory_order_release);
	ctl_done(caller, "tracing");
}

/* The rings stay: a core may be about to write to its own. */
void
ctl_trace_stop(void)
{
	atomic_fetch_sub_explicit(&tracing, 1, memory_order_relaxed);
}
