/* SPDX-License-Identifier: BSD-3-Clause */
/* State transitions, reported to callers that trace. Each lcore writes its own ring, and the control thread
 * reads all. Nobody waits: a transition without room is counted as lost. Without a tracing caller, a
 * transition costs one load. */
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
#include "dataplane/base/clock.h"

#define TRANSITIONS 512u /* per ring */
#define AT_ONCE 64u      /* transitions per poll */
#define LOOK_NS (20 * NS_PER_MS)
#define LOOK_MOST_NS NS_PER_MS /* time limit of a poll, so that other work continues */
#define KNOWN 1024u

/* Attachment that owns an object. */
struct owner {
	uint32_t client; /* number of the attachment, or NOBODY */
	uint32_t pid;
};
#define NOBODY UINT32_MAX

struct transition {
	uint64_t at;
	const struct state_machine *machine;
	uint32_t id, from, to;
	struct owner owner; /* as far as the lcore knows */
	bool allowed;
	char why[51];
};

struct transition_ring {
	/* free-running; the lcore's release store pairs with the acquire in oldest_transition() */
	_Atomic uint32_t head;
	_Atomic uint32_t tail; /* the control thread's; its release add pairs with ctl_transition() */
	_Atomic uint64_t lost; /* incremented by the lcore, reset by the control thread */
	struct transition transition[TRANSITIONS];
};

/* allocated for the first caller, before `tracing` is set; never freed */
static struct transition_ring *rings[RTE_MAX_LCORE];
/* number of callers; the release add pairs with the acquire in ctl_transition() */
static _Atomic uint32_t tracing;
static uint64_t look_at;

/* Cache of owners by QPN: a queue pair may be gone when its last transitions are read. */
static struct {
	uint32_t qpn;
	struct owner owner;
} known[KNOWN];

static bool
is_attachment(const struct state_machine *machine)
{
	return strcmp(machine->object, "attachment") == 0;
}

/* True for queue pairs and their connections. CM connections have ids of their own. */
static bool
is_qp(const struct state_machine *machine)
{
	return strcmp(machine->object, "CM connection") != 0 && !is_attachment(machine);
}

/* Control thread only. */
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
ctl_transition(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to, const char *why,
	       bool allowed)
{
	unsigned int lcore = rte_lcore_id();
	struct transition_ring *ring;
	uint32_t head;
	struct transition *transition;

	if (atomic_load_explicit(&tracing, memory_order_acquire) == 0 || lcore >= RTE_MAX_LCORE)
		return;
	ring = rings[lcore];
	if (ring == NULL)
		return;
	head = atomic_load_explicit(&ring->head, memory_order_relaxed); /* only this lcore writes it */
	if (head - atomic_load_explicit(&ring->tail, memory_order_acquire) == TRANSITIONS) {
		atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed); /* statistics only */
		return;
	}
	transition = &ring->transition[head % TRANSITIONS];
	*transition = (struct transition){.at = clock_now(),
					  .machine = machine,
					  .id = id,
					  .from = from,
					  .to = to,
					  .owner.client = NOBODY,
					  .allowed = allowed};
	snprintf(transition->why, sizeof(transition->why), "%s", why);
	if (lcore == rte_get_main_lcore() && is_attachment(machine))
		transition->owner = owner_of_attachment(id);
	else if (lcore == rte_get_main_lcore() && is_qp(machine))
		transition->owner = owner_of_qp(id);
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

/* Oldest transition in all rings, or NULL. */
static const struct transition *
oldest_transition(struct transition_ring **from)
{
	const struct transition *first = NULL;

	for (unsigned int i = 0; i < RTE_MAX_LCORE; i++) {
		struct transition_ring *ring = rings[i];
		uint32_t tail;

		if (ring == NULL)
			continue;
		/* only this thread writes it */
		tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
		if (tail == atomic_load_explicit(&ring->head, memory_order_acquire))
			continue;
		if (first == NULL || ring->transition[tail % TRANSITIONS].at < first->at) {
			first = &ring->transition[tail % TRANSITIONS];
			*from = ring;
		}
	}
	return first;
}

/* Owner of the transition's object, as far as known. */
static struct owner
owner_of(const struct transition *transition)
{
	struct owner owner = transition->owner;
	uint32_t place = transition->id % KNOWN;

	if (!is_qp(transition->machine) || transition->id == 0)
		return owner;
	if (owner.client == NOBODY)
		owner = owner_of_qp(transition->id);
	if (owner.client == NOBODY)
		return known[place].qpn == transition->id ? known[place].owner : owner;
	known[place].qpn = transition->id;
	known[place].owner = owner;
	return owner;
}

static bool
filter_matches(const struct ctl_filter *filter, const struct transition *transition,
	       const struct owner *owner)
{
	if (filter->given == 0)
		return true;
	if (filter->given == CTL_M_QP)
		return is_qp(transition->machine) && transition->id == filter->number;
	if (owner->client == NOBODY)
		return false;
	return filter->number == (filter->given == CTL_M_CLIENT ? owner->client : owner->pid);
}

/* Converts to wall-clock time. ctl_transition() reads only the monotonic clock, to stay cheap. */
static json_int_t
wall_ns(uint64_t at)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (json_int_t)((uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec - (clock_now() - at));
}

static json_t *
describe_transition(const struct transition *transition, const struct owner *owner)
{
	const struct state_machine *machine = transition->machine;
	json_t *object = json_pack("{s:I, s:s, s:I, s:s, s:s, s:s, s:b}", "time_ns", wall_ns(transition->at),
				   "object", machine->object, "id", (json_int_t)transition->id, "from",
				   machine->name[transition->from], "to", machine->name[transition->to],
				   "why", transition->why, "allowed", transition->allowed);

	if (owner->client != NOBODY) {
		json_object_set_new(object, "client", json_integer(owner->client));
		json_object_set_new(object, "pid", json_integer(owner->pid));
	}
	return json_pack("{s:o}", "transition", object);
}

static void
report_transition(const struct transition *transition)
{
	struct owner owner = owner_of(transition);
	struct ctl_caller *caller;

	TAILQ_FOREACH(caller, &ctl_callers, link)
		if (caller->traces && !caller->gone && filter_matches(&caller->filter, transition, &owner) &&
		    !ctl_push(caller, describe_transition(transition, &owner)))
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

/* Losses are reported once the caller's socket has room again. */
static void
report_lost(void)
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
	struct transition_ring *ring = NULL;
	const struct transition *transition;

	if (atomic_load_explicit(&tracing, memory_order_relaxed) == 0 || control.now < look_at)
		return;
	begin = clock_now();
	for (uint32_t i = 0; i < AT_ONCE && clock_now() - begin < LOOK_MOST_NS; i++) {
		transition = oldest_transition(&ring);
		if (transition == NULL)
			break;
		report_transition(transition);
		atomic_fetch_add_explicit(&ring->tail, 1, memory_order_release);
	}
	report_lost();
	taken = clock_now() - begin;
	look_at = begin + (LOOK_NS > (1 + CTL_SHARE) * taken ? LOOK_NS : (1 + CTL_SHARE) * taken);
}

uint64_t
ctl_trace_deadline(void)
{
	return atomic_load_explicit(&tracing, memory_order_relaxed) != 0 ? look_at : NEVER;
}

/* Does the trace's object exist? A process may attach later; a queue pair or an attachment never returns. */
static bool
target_exists(const struct ctl_filter *filter)
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
		ctl_refuse(caller, "trace: out of memory for the rings of transitions; try again");
		return;
	}
	caller->filter.given = request->given;
	caller->filter.number = (request->given & CTL_M_QP) != 0       ? request->qp
				: (request->given & CTL_M_CLIENT) != 0 ? request->client
								       : request->pid;
	if (!target_exists(&caller->filter)) {
		ctl_refuse(caller, "trace: no such %s; see onesidectl show %s",
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

/* Rings are not freed: a core may be about to write to its own. */
void
ctl_trace_stop(void)
{
	atomic_fetch_sub_explicit(&tracing, 1, memory_order_relaxed);
}
