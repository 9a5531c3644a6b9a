/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/base/clock.h"
#include "dataplane/engine/place.h"
#include "fake_engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#define GUARDS 4096

struct engine_client {
	struct engine_client_config config;
	bool added, removed;
	uint32_t cqs, qps; /* added and not removed */
	struct bounce *bounce;
	struct engine_client *next_lane;
	uint32_t number, core;
	LIST_ENTRY(engine_client) link;
};

struct engine_cq {
	struct engine_client *client;
	struct engine_cq_config config;
	bool added, removed;
	uint32_t qps;
};

struct engine_srq {
	struct engine_client *client;
	bool added, removed;
	uint32_t qps;
};

struct engine_qp {
	struct engine_client *client;
	struct engine_qp_config config;
	bool added, removed, flushed;
	bool refused; /* ENGINE_QP_ADD was refused, so later commands have no effect */
	struct engine_bind bind;
	LIST_ENTRY(engine_qp) link;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, engine_client) clients = LIST_HEAD_INITIALIZER(clients);
static LIST_HEAD(, engine_qp) qps = LIST_HEAD_INITIALIZER(qps);
static struct engine_command *first, **last = &first;
static uint32_t waiting, done[ENGINE_CHANNEL_FD + 1], num_cqs, num_srqs, num_ahs, num_guards, num_events;
static struct fake_event events[FAKE_EVENTS];
static struct engine_event reported[64];
static uint32_t num_reported;
static bool hold_commands, hold_graces;
static enum engine_command_type refused_type;
static int refused_error, bind_result = -1, event_fd = -1;
_Atomic uint32_t fake_refusal;
static struct {
	void *base, *owner;
} guard[GUARDS];
static void *guard_fault;
static char mistake[200];
static struct engine_connection connection;
static struct engine_datagram datagram;
static struct one_qp_settings settings;
static struct engine_ah_config ah_made;
static struct mem_table *table;
static struct bounce_list reaching = LIST_HEAD_INITIALIZER(reaching); /* of the test's thread, as a core */
static struct engine_port_info port = {.name = "p0",
				       .mac = {2, 0, 0, 0, 0, 1},
				       .mtu = 4300,
				       .path_mtu = 4096,
				       .num_addrs = 1,
				       .addr = {{{[10] = 0xff, 0xff, 192, 0, 2, 1}}},
				       .link_up = true};

#define MISTAKE(...)                                                     \
	do {                                                             \
		if (mistake[0] == '\0')                                  \
			snprintf(mistake, sizeof(mistake), __VA_ARGS__); \
	} while (0)

void
fake_wake(void)
{
	const uint64_t one = 1;

	if (write(engine_event_fd(), &one, sizeof(one)) != (ssize_t)sizeof(one))
		abort();
}

/* ---- calls of tests ---- */

void
fake_hold(bool commands, bool graces)
{
	pthread_mutex_lock(&lock);
	hold_commands = commands;
	hold_graces = graces;
	pthread_mutex_unlock(&lock);
	fake_wake();
}

void
fake_quiescent(void)
{
	pthread_mutex_lock(&lock); /* waits for an engine_grace_over() in progress */
	pthread_mutex_unlock(&lock);
}

void
fake_refuse(enum engine_command_type type, int error)
{
	pthread_mutex_lock(&lock);
	refused_type = type;
	refused_error = error;
	pthread_mutex_unlock(&lock);
}

uint32_t
fake_waiting(void)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	n = waiting;
	pthread_mutex_unlock(&lock);
	return n;
}

uint32_t
fake_done(enum engine_command_type type)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	n = done[type];
	pthread_mutex_unlock(&lock);
	return n;
}

uint32_t
fake_keys(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < 1u << engine_mem_table()->log2; i++)
		n += atomic_load(&engine_mem_table()->slot[i]) != NULL;
	return n;
}

uint32_t
fake_objects(void)
{
	struct engine_client *client;
	struct engine_qp *qp;
	uint32_t n = fake_keys();

	pthread_mutex_lock(&lock);
	LIST_FOREACH(client, &clients, link)
		n++;
	LIST_FOREACH(qp, &qps, link)
		n++;
	n += num_cqs + num_srqs + num_ahs + num_guards;
	pthread_mutex_unlock(&lock);
	return n;
}

const char *
fake_mistake(void)
{
	static char text[sizeof(mistake)];

	pthread_mutex_lock(&lock);
	memcpy(text, mistake, sizeof(text));
	pthread_mutex_unlock(&lock);
	return text[0] == '\0' ? NULL : text;
}

uint32_t
fake_events(struct fake_event *out, uint32_t max)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	n = num_events < max ? num_events : max;
	memcpy(out, events, n * sizeof(events[0]));
	num_events = 0;
	pthread_mutex_unlock(&lock);
	return n;
}

static void
sink(enum engine_event_type type, void *owner, uint32_t value)
{
	if (num_reported < sizeof(reported) / sizeof(reported[0]))
		reported[num_reported++] = (struct engine_event){type, value, owner};
}

void
fake_raise(uint32_t qpn, enum engine_event_type type, uint32_t value)
{
	struct engine_qp *qp;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(qp, &qps, link)
		if (qp->config.qpn == qpn)
			sink(type, qp->config.owner, value);
	pthread_mutex_unlock(&lock);
	fake_wake();
}

void
fake_fault_first_client(void)
{
	pthread_mutex_lock(&lock);
	if (!LIST_EMPTY(&clients))
		sink(ENGINE_EVENT_FAULT, LIST_FIRST(&clients)->config.owner, ONE_FAULT_RING);
	pthread_mutex_unlock(&lock);
	fake_wake();
}

void
fake_guard_first_region(void)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < GUARDS && guard_fault == NULL; i++)
		guard_fault = guard[i].owner;
	pthread_mutex_unlock(&lock);
	fake_wake();
}

void
fake_bind(uint32_t qpn, const struct engine_bind *bind)
{
	struct engine_qp *qp;

	pthread_mutex_lock(&lock);
	bind_result = -1;
	LIST_FOREACH(qp, &qps, link)
		if (qp->config.qpn == qpn)
			qp->bind = *bind;
	pthread_mutex_unlock(&lock);
	fake_raise(qpn, ENGINE_EVENT_BIND, 0);
}

int
fake_bind_result(void)
{
	int result;

	pthread_mutex_lock(&lock);
	result = bind_result;
	pthread_mutex_unlock(&lock);
	return result;
}

/* Defines a getter of what the last command of a type brought. */
#define LAST(type, name, from)               \
	type name(void)                      \
	{                                    \
		type copy;                   \
		pthread_mutex_lock(&lock);   \
		copy = from;                 \
		pthread_mutex_unlock(&lock); \
		return copy;                 \
	}
LAST(struct one_qp_settings, fake_settings, settings)
LAST(struct engine_datagram, fake_datagram, datagram)
LAST(struct engine_ah_config, fake_ah, ah_made)
LAST(struct engine_connection, fake_connection, connection)

/* ---- objects ---- */

_Atomic uint32_t fake_cores = 1, fake_home;
_Atomic bool fake_lanes;

struct engine_client *
engine_client_new(const struct engine_client_config *config)
{
	struct engine_client *client = calloc(1, sizeof(*client));

	if (client == NULL)
		return NULL;
	client->config = *config;
	client->number = fake_home;
	client->core = fake_home % fake_cores;
	fake_home = fake_lanes ? (fake_home + 1) % fake_cores : 0;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&clients, client, link);
	pthread_mutex_unlock(&lock);
	fake_user_hold(config->user, true);
	return client;
}

bool
engine_client_channels(struct engine_client *client)
{
	if (!client->added)
		MISTAKE("a channel of a client that no core has");
	return true;
}

struct bounce *
engine_client_bounce(struct engine_client *client, uint64_t offset)
{
	if (!client->added)
		MISTAKE("copies are begun for a client that no core has");
	if (client->bounce == NULL)
		client->bounce = bounce_new((struct one_copies *)(client->config.arena + offset), &reaching,
					    NULL, NULL, 0, NULL);
	return client->bounce;
}

struct bounce_list *
fake_bouncing(void)
{
	return &reaching;
}

static void
lanes_free(struct engine_client *lane)
{
	struct engine_client *next;

	for (; lane != NULL; lane = next) {
		next = lane->next_lane;
		if (lane->added && !lane->removed)
			MISTAKE("a lane was freed before the core let go");
		bounce_free(lane->bounce);
		free(lane);
	}
}

void
engine_client_free(struct engine_client *client)
{
	pthread_mutex_lock(&lock);
	lanes_free(client->next_lane);
	if (client->added && !client->removed)
		MISTAKE("a client was freed before the core let go");
	LIST_REMOVE(client, link);
	pthread_mutex_unlock(&lock);
	fake_user_hold(client->config.user, false);
	bounce_free(client->bounce);
	free(client);
}

uint32_t
engine_link_overhead(void)
{
	return 84;
}

uint32_t
engine_client_lcore(const struct engine_client *client)
{
	return 1;
}

struct engine_cq *
engine_cq_new(struct engine_client *client, const struct engine_cq_config *config)
{
	struct engine_cq *cq = calloc(1, sizeof(*cq));

	if (cq == NULL)
		return NULL;
	cq->client = client;
	cq->config = *config;
	pthread_mutex_lock(&lock);
	num_cqs++;
	pthread_mutex_unlock(&lock);
	return cq;
}

void
engine_cq_free(struct engine_cq *cq)
{
	pthread_mutex_lock(&lock);
	if (cq->added && !cq->removed)
		MISTAKE("a completion ring was freed before the core let go");
	num_cqs--;
	pthread_mutex_unlock(&lock);
	free(cq);
}

struct engine_ah *
engine_ah_new(struct engine_client *client, const struct engine_ah_config *config)
{
	pthread_mutex_lock(&lock);
	ah_made = *config;
	num_ahs++;
	pthread_mutex_unlock(&lock);
	return malloc(1);
}

void
engine_ah_free(struct engine_client *client, struct engine_ah *ah)
{
	if (ah == NULL)
		return;
	pthread_mutex_lock(&lock);
	num_ahs--;
	pthread_mutex_unlock(&lock);
	free(ah);
}

struct engine_srq *
engine_srq_new(struct engine_client *client, const struct engine_srq_config *config)
{
	struct engine_srq *srq = calloc(1, sizeof(*srq));

	if (srq == NULL)
		return NULL;
	srq->client = client;
	pthread_mutex_lock(&lock);
	num_srqs++;
	pthread_mutex_unlock(&lock);
	return srq;
}

void
engine_srq_free(struct engine_srq *srq)
{
	if (srq == NULL)
		return;
	pthread_mutex_lock(&lock);
	if (srq->added && !srq->removed)
		MISTAKE("a receive queue was freed before the core let go");
	num_srqs--;
	pthread_mutex_unlock(&lock);
	free(srq);
}

struct engine_qp *
engine_qp_new(struct engine_client *client, const struct engine_qp_config *config)
{
	struct engine_qp *qp = calloc(1, sizeof(*qp));

	if (qp == NULL)
		return NULL;
	qp->client = client;
	qp->config = *config;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&qps, qp, link);
	pthread_mutex_unlock(&lock);
	return qp;
}

void
engine_qp_place(struct engine_qp *qp, struct engine_client *lane, const struct engine_qp_config *config)
{
	qp->client = lane;
	qp->config = *config;
}

/* No queue pair moves, since there are no other lanes. */
uint32_t
engine_move_size(const struct engine_qp *qp)
{
	return 0;
}

struct engine_move *
engine_move_new(struct engine_qp *qp, struct engine_client *lane, const struct engine_qp_config *config)
{
	MISTAKE("a queue pair moves to a lane that does not exist");
	return NULL;
}

bool
engine_move_over(struct engine_move *move)
{
	return false;
}

void
engine_move_free(struct engine_move *move)
{
}

struct engine_client *
engine_lane_new(struct engine_client *home, uint32_t number, uint64_t doorbells)
{
	struct engine_client *lane;

	if (number >= ONE_LANES_MAX || engine_lane_find(home, number) != NULL)
		MISTAKE("there is such a lane, or there cannot be one");
	if (!fake_lanes)
		return NULL; /* as without memory: the queue pair stays on the first core */
	lane = calloc(1, sizeof(*lane));
	if (lane == NULL)
		return NULL;
	lane->config = home->config;
	lane->number = number;
	lane->core = number % fake_cores;
	lane->next_lane = home->next_lane;
	home->next_lane = lane;
	return lane;
}

struct engine_client *
engine_lane_next(const struct engine_client *lane)
{
	return lane->next_lane;
}

uint32_t
engine_lane_number(const struct engine_client *lane)
{
	return lane->number;
}

uint32_t
engine_lane_core(const struct engine_client *lane)
{
	return lane->core;
}

uint32_t
engine_port_cores(uint32_t number)
{
	return 1;
}

bool
engine_port_follows(uint32_t number, uint32_t core)
{
	return core == 0;
}

uint32_t
engine_core_lanes(uint32_t core)
{
	return 0;
}

uint64_t
engine_lane_doorbells(const struct engine_client *lane)
{
	return lane->config.doorbells;
}

void
engine_qp_free(struct engine_qp *qp)
{
	pthread_mutex_lock(&lock);
	if (qp->added && !qp->removed)
		MISTAKE("a queue pair was freed before the core let go");
	LIST_REMOVE(qp, link);
	pthread_mutex_unlock(&lock);
	free(qp);
}

uint64_t
engine_clock(void)
{
	return clock_now();
}

uint32_t
engine_qp_refusal(const struct engine_qp *qp)
{
	return FAKE_REFUSAL;
}

uint32_t fake_unacknowledged;

uint32_t
engine_qp_unacknowledged(const struct engine_qp *qp)
{
	return fake_unacknowledged;
}

uint32_t
engine_qp_heard(const struct engine_qp *qp)
{
	return 0;
}

bool
engine_qp_heard_there(const struct engine_qp *qp, uint64_t ns)
{
	return false;
}

uint16_t fake_source_port;

uint16_t
engine_qp_source_port(const struct engine_qp *qp)
{
	return fake_source_port;
}

uint32_t
engine_neigh_lost(void)
{
	return 0;
}

uint32_t
engine_qp_core(const struct engine_qp *qp)
{
	return 0;
}

uint16_t fake_steering_port;

uint16_t
engine_steering_port(uint32_t port_index, uint32_t core, const struct wire_addr *peer,
		     const struct wire_addr *own, uint64_t (*draw)(void))
{
	return fake_steering_port != 0 ? fake_steering_port++ : 0;
}

const struct engine_bind *
engine_qp_bind(const struct engine_qp *qp)
{
	return &qp->bind;
}

void *
engine_qp_owner(uint32_t qpn)
{
	struct engine_qp *qp;
	void *owner = NULL;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(qp, &qps, link)
		if (qp->config.qpn == qpn)
			owner = qp->config.owner;
	pthread_mutex_unlock(&lock);
	return owner;
}

uint32_t
engine_qpn_new(void)
{
	static uint32_t qpn = 0x123456;

	return qpn++;
}

/* ---- commands ---- */

static void
post(const struct engine_cq *cq, const struct one_cqe *event)
{
	if (event->type == 0 || cq == NULL)
		return;
	if (!cq->added || cq->removed)
		MISTAKE("an event for a completion ring that is not there");
	if (num_events < FAKE_EVENTS)
		events[num_events++] =
			(struct fake_event){event->object, event->type, event->status, event->cookie};
}

static void
count_rings(const struct engine_qp_config *config, int by)
{
	struct engine_cq *cqs[] = {config->send_cq, config->recv_cq, config->conn_cq};

	if (config->srq != NULL) {
		if (!config->srq->added || config->srq->removed)
			MISTAKE("a queue pair has a receive queue that is not there");
		config->srq->qps += (uint32_t)by;
	}

	for (int i = 0; i < 3; i++) {
		if (cqs[i] == NULL)
			continue;
		if (!cqs[i]->added || cqs[i]->removed)
			MISTAKE("a queue pair has a completion ring that is not there");
		cqs[i]->qps += (uint32_t)by;
	}
}

static void
execute(struct engine_command *command)
{
	struct engine_client *client = command->client;
	struct engine_cq *cq = command->cq;
	struct engine_qp *qp = command->qp;

	if (qp != NULL && qp->refused)
		return;
	if (command->type > ENGINE_QP_ADD && command->type < ENGINE_SRQ_ADD &&
	    command->type != ENGINE_CQ_POST && (!qp->added || qp->removed))
		MISTAKE("command %d for a queue pair that is not there", (int)command->type);
	switch (command->type) {
	case ENGINE_CLIENT_ADD:
		client->added = true;
		break;
	case ENGINE_CLIENT_REMOVE:
		if (!client->added || client->removed || client->cqs != 0 || client->qps != 0)
			MISTAKE("a client was removed before what it has");
		client->removed = true;
		break;
	case ENGINE_SRQ_ADD:
		if (!client->added)
			MISTAKE("a receive queue before its client");
		command->srq->added = true;
		break;
	case ENGINE_SRQ_LIMIT:
	case ENGINE_SRQ_SWAP:
		if (!command->srq->added || command->srq->removed)
			MISTAKE("a limit for a receive queue that is not there");
		break;
	case ENGINE_SRQ_REMOVE:
		if (!command->srq->added || command->srq->removed || command->srq->qps != 0)
			MISTAKE("a receive queue was removed before its queue pairs");
		command->srq->removed = true;
		break;
	case ENGINE_CQ_ADD:
		if (!client->added)
			MISTAKE("a completion ring before its client");
		cq->added = true;
		client->cqs++;
		fake_user_served(client->config.user);
		break;
	case ENGINE_CQ_RESIZE:
		cq->config.offset = command->cq_config.offset;
		break;
	case ENGINE_CQ_REMOVE:
		if (!cq->added || cq->removed || cq->qps != 0)
			MISTAKE("a completion ring was removed before its queue pairs");
		cq->removed = true;
		client->cqs--;
		break;
	case ENGINE_QP_ADD:
		qp->added = true;
		qp->client->qps++;
		count_rings(&qp->config, 1);
		break;
	case ENGINE_QP_MODIFY:
		count_rings(&qp->config, -1);
		qp->config = command->qp_config;
		count_rings(&qp->config, 1);
		break;
	case ENGINE_QP_DATAGRAM:
		if (!qp->added || qp->removed || !qp->config.ud)
			MISTAKE("datagrams of a queue pair that has none");
		datagram = command->datagram;
		break;
	case ENGINE_QP_SET:
		settings = command->settings;
		break;
	case ENGINE_QP_CONNECT:
		connection = command->connection;
		break;
	case ENGINE_QP_RTS:
		post(qp->config.conn_cq, &command->event);
		break;
	case ENGINE_QP_FLUSH:
		if (qp->flushed)
			MISTAKE("a second end of one connection");
		qp->flushed = true;
		fake_refusal = command->refusal;
		post(qp->config.conn_cq, &command->event);
		break;
	case ENGINE_QP_RESET:
		qp->flushed = false;
		break;
	case ENGINE_QP_REMOVE:
		qp->removed = true;
		qp->client->qps--;
		count_rings(&qp->config, -1);
		break;
	case ENGINE_QP_BIND_DONE:
		bind_result = command->ok ? 1 + command->copies : 0;
		break;
	case ENGINE_CQ_POST:
		if (command->event.type == ONE_CQE_CONNECT &&
		    command->event.status != ONE_CONN_TIMEWAIT_EXIT && qp == NULL)
			MISTAKE("the end of a connection does not wait for the move of its queue pair");
		post(cq, &command->event);
		break;
	case ENGINE_QP_DRAIN:
		sink(ENGINE_EVENT_DRAINED, qp->config.owner, 0);
		break;
	default: /* no other command is checked */
		break;
	}
}

int
engine_command(struct engine_command *command)
{
	fake_sending(command->type);
	pthread_mutex_lock(&lock);
	command->next = NULL;
	*last = command;
	last = &command->next;
	waiting++;
	pthread_mutex_unlock(&lock);
	fake_wake();
	return 0;
}

uint32_t
engine_poll(const struct engine_handlers *handlers)
{
	struct engine_command *command = NULL;
	struct engine_event event = {0};
	uint64_t value;

	/* A call handles one event or command. The descriptor only wakes, and is written again below. */
	if (read(engine_event_fd(), &value, sizeof(value)) < 0 && errno != EAGAIN)
		abort();
	fake_stopped();
	pthread_mutex_lock(&lock);
	/* Events of a core precede its later acknowledgements. */
	if (num_reported != 0) {
		event = reported[0];
		memmove(reported, reported + 1, --num_reported * sizeof(reported[0]));
	} else if (!hold_commands && first != NULL) {
		command = first;
		first = command->next;
		if (first == NULL)
			last = &first;
		waiting--;
		if (command->type == refused_type) {
			command->status = refused_error;
			refused_type = 0;
			if (command->type == ENGINE_QP_ADD)
				command->qp->refused = true;
		} else {
			command->status = 0;
			execute(command);
		}
		done[command->type]++;
	}
	pthread_mutex_unlock(&lock);
	if (command != NULL) {
		command->done(command);
		fake_wake();
		return 1;
	}
	if (event.type != 0) {
		handlers->on_event(&event);
		fake_wake();
		return 1;
	}
	return 0;
}

int
engine_event_fd(void)
{
	if (event_fd < 0)
		event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return event_fd;
}

bool
engine_sleep_begin(void)
{
	return true;
}

void
engine_sleep_end(void)
{
}

/* ---- the rest ---- */

uint32_t
engine_num_cores(void)
{
	return fake_cores;
}

uint32_t
engine_num_ports(void)
{
	return 1;
}

const struct engine_port_info *
engine_port(uint32_t index)
{
	return &port;
}

struct mem_table *
engine_mem_table(void)
{
	if (table == NULL)
		table = mem_table_new(16);
	return table;
}

int
engine_send_frame(uint16_t index, const uint8_t *frame, uint32_t len)
{
	return 0; /* no host receives */
}

uint64_t
engine_links_deadline(void)
{
	return UINT64_MAX;
}

bool
engine_links_poll(uint64_t now)
{
	return false;
}

void
engine_port_repeat(uint32_t number)
{
}

uint64_t
engine_grace_start(void)
{
	static uint64_t token;

	return ++token;
}

bool
engine_grace_over(uint64_t token)
{
	bool over;

	pthread_mutex_lock(&lock);
	over = !hold_graces;
	pthread_mutex_unlock(&lock);
	return over;
}

int
engine_guard_add(void *base, size_t len, void *owner)
{
	int i = 0;

	pthread_mutex_lock(&lock);
	while (i < GUARDS && guard[i].base != NULL)
		i++;
	if (i < GUARDS) {
		guard[i].base = base;
		guard[i].owner = owner;
		num_guards++;
	}
	pthread_mutex_unlock(&lock);
	return i < GUARDS ? i + 1 : -ENOSPC;
}

uint32_t
engine_guard_remove(int number)
{
	pthread_mutex_lock(&lock);
	if (guard[number - 1].base != NULL) {
		guard[number - 1].base = guard[number - 1].owner = NULL;
		num_guards--;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

void
engine_guard_unmapped(uint32_t pieces)
{
}

void *
engine_guard_fault(void)
{
	void *owner;

	pthread_mutex_lock(&lock);
	owner = guard_fault;
	guard_fault = NULL;
	pthread_mutex_unlock(&lock);
	return owner;
}
