/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine for the control thread: start and end, commands, acknowledgements and events from the cores,
 * grace periods. Everything here runs on the control thread, unless engine.h states otherwise.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "dataplane/engine/place.h"
#include "dataplane/engine/telemetry_reply.h"
#include "dataplane/esp/change.h"
#include "dataplane/esp/sa.h"
#include "dataplane/engine/loop.h"
#include "dataplane/engine/move.h"
#include "dataplane/engine/takeover.h"
#include "dataplane/mem/guard.h"
#include "dataplane/mem/slab.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/transport.h"
#include "dataplane/wire/icrc.h"

#define MEM_TABLE_LOG2 16
#define UP_BURST 64u
#define FRAME_BURST 32u
#define STOP_LOOK_US 20u
#define REAPS 64u /* objects freed per round: a client may have tens of thousands */

/* ---- start and end ---- */

static struct rte_ring *
core_ring(const char *what, uint32_t core, uint32_t size, uint32_t flags)
{
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "oneside_%s_%u", what, core);
	return rte_ring_create(name, size, SOCKET_ID_ANY, flags);
}

static struct core *
core_new(uint32_t index, uint32_t lcore)
{
	struct core *core =
		aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*core), RTE_CACHE_LINE_SIZE));
	char name[RTE_RING_NAMESIZE];

	if (core == NULL)
		return NULL;
	memset(core, 0, sizeof(*core));
	core->index = index;
	core->lcore = lcore;
	core->epoll = core->rx_epoll = core->wake_fd = -1;
	core->now = core->real_at = engine_now(rte_rdtsc());
	core->unsent_tail = &core->unsent;
	core->drr.poll_budget = CORE_WORK_BUDGET;
	core->drr.run_budget = CORE_RUN_BUDGET;
	core->drr.tx_most = TX_HIGH;
	TAILQ_INIT(&core->drr.busy);
	TAILQ_INIT(&core->clients);
	STAILQ_INIT(&core->dirty);
	TAILQ_INIT(&core->quiescing);
	LIST_INIT(&core->reaching);
	STAILQ_INIT(&core->backlog);
	timer_init(core);
	rcio_init(core);
	core->env.mem = engine.mem;
	core->rc_memory = calloc(1, rc_pool_size(engine.config->work_pool));
	if (core->rc_memory != NULL)
		core->env.pool = rc_pool_init(core->rc_memory, engine.config->work_pool);
	core->scoreboards_memory = calloc(1, rc_scoreboards_size(CORE_BOARDS));
	if (core->scoreboards_memory != NULL)
		core->env.scoreboards = rc_scoreboards_init(core->scoreboards_memory, CORE_BOARDS);
	core->commands = core_ring("commands", index, CORE_COMMAND_RING, RING_F_SP_ENQ | RING_F_SC_DEQ);
	core->inbound = core_ring("inbound", index, CORE_INBOUND_RING, RING_F_SC_DEQ);
	snprintf(name, sizeof(name), "oneside_up_%u", index);
	core->up = rte_ring_create_elem(name, sizeof(struct up), CORE_UP_RING, SOCKET_ID_ANY,
					RING_F_SP_ENQ | RING_F_SC_DEQ);
	return core;
}

static bool
core_is_whole(const struct core *core)
{
	return core->env.pool != NULL && core->env.scoreboards != NULL && core->commands != NULL &&
	       core->inbound != NULL && core->up != NULL;
}

static int
cores_init(char *why, size_t why_len)
{
	uint32_t lcore;

	RTE_LCORE_FOREACH_WORKER(lcore) {
		struct core *core;

		if (engine.num_cores == CORE_MAX)
			return config_refuse(why, why_len, -E2BIG,
					     "more than %u polling cores; give EAL fewer (-l)", CORE_MAX);
		core = core_new(engine.num_cores, lcore);
		if (core != NULL)
			engine.core[engine.num_cores++] = core;
		if (core == NULL || !core_is_whole(core))
			return config_refuse(
				why, why_len, -ENOMEM,
				"core %u: no memory for its rings and %u work nodes; give EAL more (-m), or write a lower work_pool",
				lcore, engine.config->work_pool);
	}
	if (engine.num_cores == 0)
		return config_refuse(
			why, why_len, -EINVAL,
			"one lcore is not enough: the first is the control thread's, every further one polls; give EAL two or more (-l 0,1)");
	return 0;
}

/* Creates the packet pools. The control thread has its own pool for its short frames, so that no load starves
 * it. */
static int
pools_init(char *why, size_t why_len)
{
	uint32_t count = engine.config->mbufs * engine.config->num_ports;
	uint16_t priv = RTE_ALIGN_CEIL(sizeof(struct frame_info), RTE_MBUF_PRIV_ALIGN);
	uint16_t room = (uint16_t)(engine.data_room + RTE_PKTMBUF_HEADROOM);

	for (uint32_t i = 0; i < engine.num_cores; i++) {
		struct core *core = engine.core[i];
		char name[RTE_MEMPOOL_NAMESIZE];

		core->holds_max = count / CORE_HOLDS;
		snprintf(name, sizeof(name), "oneside_mbufs_%u", i);
		core->pool = rte_pktmbuf_pool_create(name, count, count >= 4096 ? 256 : 32, priv, room,
						     (int)rte_lcore_to_socket_id(core->lcore));
		if (core->pool == NULL)
			return config_refuse(
				why, why_len, -rte_errno,
				"mbufs %u: no memory for %u packet buffers of %u bytes; give EAL more (hugepages, or -m), or write a lower mbufs",
				engine.config->mbufs, count, room);
	}
	engine.control_pool = rte_pktmbuf_pool_create("oneside_control", CONTROL_MBUFS, 0, priv, room,
						      SOCKET_ID_ANY); /* room for replies to jumbo echoes */
	engine.control_frames =
		rte_ring_create("oneside_control", CONTROL_FRAME_RING, SOCKET_ID_ANY, RING_F_SC_DEQ);
	engine.alive_frames =
		rte_ring_create("oneside_alive", CONTROL_FRAME_RING, SOCKET_ID_ANY, RING_F_SC_DEQ);
	engine.neigh_frames =
		rte_ring_create("oneside_neigh", NEIGH_FRAME_RING, SOCKET_ID_ANY, RING_F_SC_DEQ);
	if (engine.control_pool == NULL || engine.control_frames == NULL || engine.alive_frames == NULL ||
	    engine.neigh_frames == NULL)
		return config_refuse(why, why_len, -ENOMEM,
				     "no memory for the control thread's buffers; give EAL more (-m)");
	return 0;
}

static int
tables_init(char *why, size_t why_len)
{
	size_t size = rte_rcu_qsbr_get_memsize(RTE_MAX_LCORE);

	engine.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	engine.mem = mem_table_new(MEM_TABLE_LOG2);
	engine.rcu = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(size, RTE_CACHE_LINE_SIZE));
	if (engine.event_fd < 0 || engine.mem == NULL || engine.rcu == NULL || qpn_init() != 0 ||
	    rte_rcu_qsbr_init(engine.rcu, RTE_MAX_LCORE) != 0)
		return config_refuse(why, why_len, -ENOMEM,
				     "no memory for the tables of keys and queue pairs");
	return guard_init(engine.event_fd);
}

/* Chooses the ICRC implementation by CPU and EAL, unless the environment names one for a test or a
 * measurement. */
static int
icrc_choose(char *why, size_t why_len)
{
	const char *name = getenv("ONESIDE_ICRC");

	wire_init();
	if (name == NULL || icrc_use(name))
		return 0;
	return config_refuse(
		why, why_len, -EINVAL,
		"ONESIDE_ICRC=%s: no implementation of the ICRC that this processor has; unset it to have the best (%s)",
		name, icrc->name);
}

static int
ipsec_prepare(char *why, size_t why_len)
{
	int error = esp_init(engine.num_cores, why, why_len);

	if (error != 0 || engine.config->num_ipsec == 0)
		return error;
	return engine_ipsec_prepare(engine.config, false, &engine.ipsec, why, why_len);
}

/* Numbers and files belong to the data plane that serves, until engine_ipsec_release(). */
static int
ipsec_prepare_on_hold(char *why, size_t why_len)
{
	if (!engine_ipsec_hold())
		return config_refuse(why, why_len, -EBUSY, "sequence numbers of [ipsec] are being saved");
	return ipsec_prepare(why, why_len);
}

/* The ports' MTUs are known now. */
static int
ipsec_commit(char *why, size_t why_len)
{
	int error = engine_ipsec_fits(engine.config, why, why_len);

	if (error != 0 || engine.ipsec == NULL)
		return error;
	engine_ipsec_commit(engine.ipsec);
	engine.ipsec = NULL;
	return 0;
}

static int
waits_init(char *why, size_t why_len)
{
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		int error = idle_init(engine.core[i]);

		if (error != 0)
			return config_refuse(why, why_len, error, "core %u: cannot wait for events: %s",
					     engine.core[i]->lcore, strerror(-error));
	}
	return 0;
}

typedef int init_step(char *why, size_t why_len);

/* Ends the engine if a step fails. */
static int
take_steps(init_step *const steps[], size_t num, char *why, size_t why_len)
{
	for (size_t i = 0; i < num; i++) {
		int error = steps[i](why, why_len);

		if (error != 0) {
			engine_fini();
			return error;
		}
	}
	return 0;
}

static void
engine_begin(const struct config *config)
{
	memset(&engine, 0, sizeof(engine));
	engine.event_fd = -1;
	engine.reap_tail = &engine.reap;
	engine.config = config;
	engine.scan_cycles = rte_get_tsc_hz() / 1000000 * CORE_SCAN_NS / 1000;
	engine.tsc_mult = (uint64_t)(((unsigned __int128)1000000000 << 32) / rte_get_tsc_hz());
}

int
engine_init(const struct config *config, char *why, size_t why_len)
{
	static init_step *const steps[] = {icrc_choose,     tables_init,  cores_init,
					   ports_configure, pools_init,   ports_start,
					   ipsec_prepare,   ipsec_commit, waits_init};
	int error;

	engine_begin(config);
	error = take_steps(steps, RTE_DIM(steps), why, why_len);
	if (error == 0)
		telemetry_register();
	return error;
}

int
engine_prepare(const struct config *config, uint16_t room, char *why, size_t why_len)
{
	static init_step *const steps[] = {icrc_choose, tables_init, cores_init, pools_init,
					   ipsec_prepare_on_hold};
	int error;

	engine_begin(config);
	engine.data_room = room;
	error = take_steps(steps, RTE_DIM(steps), why, why_len);
	/* All queue pairs will come while the cores are stopped. */
	if (error == 0)
		qpn_populate();
	return error;
}

/* The packet buffers exist, so a longer frame has no room. */
static int
check_room(char *why, size_t why_len)
{
	uint16_t room = engine.data_room;
	int error = ports_configure(why, why_len);

	if (error != 0 || engine.data_room <= room)
		return error;
	return config_refuse(
		why, why_len, -EMSGSIZE,
		"ports: packet buffers of %u bytes are needed, and the data plane that serves has %u; give both the same mtu",
		engine.data_room, room);
}

int
engine_open(char *why, size_t why_len)
{
	static init_step *const steps[] = {check_room, ports_start, ipsec_commit, waits_init};
	int error = take_steps(steps, RTE_DIM(steps), why, why_len);

	if (error == 0)
		telemetry_register();
	return error;
}

uint16_t
engine_room(void)
{
	return engine.data_room;
}

int
engine_start(void)
{
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		int error;

		/* Relaxed: the launch orders them. The cores may have been stopped before. */
		atomic_store_explicit(&engine.core[i]->stop, false, memory_order_relaxed);
		atomic_store_explicit(&engine.core[i]->stopped, false, memory_order_relaxed);
		error = rte_eal_remote_launch(loop_main, engine.core[i], engine.core[i]->lcore);

		if (error != 0) {
			__atomic_store_n(&engine.running, i > 0,
					 __ATOMIC_RELEASE); /* pairs with links_quiesce */
			engine_stop();
			return error;
		}
	}
	__atomic_store_n(&engine.running, true, __ATOMIC_RELEASE); /* pairs with links_quiesce */
	return 0;
}

void
engine_stop(void)
{
	if (!engine.running)
		return;
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		/* Pairs with the acquire load in loop_main. */
		atomic_store_explicit(&engine.core[i]->stop, true, memory_order_release);
		eventfd_write(engine.core[i]->wake_fd, 1);
	}
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		/* rte_eal_wait_lcore() does not sleep, and this thread may share the core's processor. */
		while (rte_eal_get_lcore_state(engine.core[i]->lcore) == RUNNING)
			usleep(STOP_LOOK_US);
		rte_eal_wait_lcore(engine.core[i]->lcore);
		/* Always true after a launch. Pairs with the release store in loop_main. */
		(void)atomic_load_explicit(&engine.core[i]->stopped, memory_order_acquire);
	}
	__atomic_store_n(&engine.running, false, __ATOMIC_RELEASE); /* pairs with links_quiesce */
}

static void
free_frames(struct rte_ring *ring)
{
	void *m;

	while (ring != NULL && rte_ring_dequeue(ring, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(ring);
}

static void
command_drop(struct engine_command *command)
{
	/* Memory of a command with done() belongs to its owner. */
	if (command->done == NULL)
		free(command);
}

static void
core_free(struct core *core)
{
	struct engine_command *command;
	struct up up;
	void *item;

	tx_free(core);
	while (core->commands != NULL && rte_ring_dequeue(core->commands, &item) == 0)
		command_drop(item);
	while (core->up != NULL && rte_ring_sc_dequeue_elem(core->up, &up, sizeof(up)) == 0)
		if (up.type == 0)
			command_drop(up.pointer);
	while ((command = core->unsent) != NULL) {
		core->unsent = command->next;
		command_drop(command);
	}
	rte_ring_free(core->commands);
	rte_ring_free(core->up);
	free_frames(core->inbound);
	idle_fini(core);
	free(core->rc_memory);
	free(core->scoreboards_memory);
}

static uint32_t
reap_objects(bool all)
{
	struct reap *one;
	uint32_t n = 0;

	/* Tokens grow: if a grace period is not over, the following ones are not over either. */
	for (; (one = engine.reap) != NULL && (all || (n < REAPS && engine_grace_over(one->token))); n++) {
		engine.reap = one->next; /* unlinked first: the element is freed with its object */
		free(one->memory[3]);
		free(one->memory[2]);
		free(one->memory[1]);
		slab_free(one->memory[0]);
	}
	if (engine.reap == NULL)
		engine.reap_tail = &engine.reap;
	return n;
}

void
engine_fini(void)
{
	engine_ipsec_abandon(engine.ipsec);
	esp_keeper_stop(); /* before the devices stop */
	ports_stop();
	esp_fini();
	for (uint32_t i = 0; i < engine.num_cores; i++)
		core_free(engine.core[i]);
	ports_fini();
	free_frames(engine.control_frames);
	free_frames(engine.alive_frames);
	free_frames(engine.neigh_frames);
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		rte_mempool_free(engine.core[i]->pool);
		free(engine.core[i]);
	}
	rte_mempool_free(engine.control_pool);
	reap_objects(true);
	guard_fini();
	qpn_fini();
	mem_table_free(engine.mem);
	free(engine.rcu);
	if (engine.event_fd >= 0)
		close(engine.event_fd);
	memset(&engine, 0, sizeof(engine));
	engine.event_fd = -1;
}

/* ---- state ---- */

uint32_t
engine_num_cores(void)
{
	return engine.num_cores;
}

uint32_t
engine_num_ports(void)
{
	return ports_num;
}

const struct engine_port_info *
engine_port(uint32_t port)
{
	if (port >= ports_num)
		return NULL;
	port_refresh(&ports[port]);
	return &ports[port].info;
}

bool
engine_port_stats(uint32_t port, struct engine_port_stats *out)
{
	return port < ports_num && port_stats(&ports[port], out);
}

uint32_t
engine_core_lcore(uint32_t core)
{
	return engine.core[core]->lcore;
}

uint32_t
engine_port_cores(uint32_t port)
{
	const struct port *at = &ports[port];

	if (port >= ports_num)
		return engine.num_cores;
	return at->far_rings > 0 ? port_rings(at).own : at->rx_queues;
}

bool
engine_port_follows(uint32_t port, uint32_t core)
{
	/* A memif peer learns the ring from the frames that come from the new core. A peer behind another
	 * port keeps its UDP source port, so only a flow rule helps. Relaxed: the rules may end at any time.
	 */
	return core < engine_port_cores(port) &&
	       (port >= ports_num || ports[port].far_rings > 0 ||
		atomic_load_explicit(&ports[port].flows.open, memory_order_relaxed));
}

uint32_t
engine_core_lanes(uint32_t core)
{
	return engine.core[core]->num_clients;
}

uint64_t
engine_hz(void)
{
	return rte_get_tsc_hz();
}

struct mem_table *
engine_mem_table(void)
{
	return engine.mem;
}

/* ---- commands ---- */

static struct core *
core_of_command(const struct engine_command *command)
{
	switch (command->type) {
	case ENGINE_CLIENT_ADD:
	case ENGINE_CLIENT_REMOVE:
	case ENGINE_CLIENT_SYNC:
	case ENGINE_CHANNEL_FD:
		return command->client != NULL ? command->client->core : NULL;
	case ENGINE_CQ_ADD:
	case ENGINE_CQ_RESIZE:
	case ENGINE_CQ_REMOVE:
	case ENGINE_CQ_POST:
		return command->cq != NULL ? command->cq->client->core : NULL;
	case ENGINE_SRQ_ADD:
	case ENGINE_SRQ_LIMIT:
	case ENGINE_SRQ_SWAP:
	case ENGINE_SRQ_REMOVE:
		return command->srq != NULL ? command->srq->client->core : NULL;
	case ENGINE_QP_MOVED:
		return engine_move_old_core(command->move);
	default:
		return command->qp != NULL ? qp_core(command->qp) : NULL;
	}
}

/* Moves commands from the list of unsent ones to the ring until it is full. */
static void
send_commands(struct core *core)
{
	struct engine_command *command;
	bool sent = false;

	while ((command = core->unsent) != NULL && rte_ring_sp_enqueue(core->commands, command) == 0) {
		core->unsent = command->next;
		sent = true;
	}
	if (core->unsent == NULL)
		core->unsent_tail = &core->unsent;
	if (sent)
		idle_wake(core);
}

/* Returns the ring of the command's event; NULL: it has none. No core changes the queue pair's rings now. */
static struct engine_cq *
report_ring(const struct engine_command *command)
{
	switch (command->type) {
	case ENGINE_CQ_POST:
		return command->cq;
	case ENGINE_QP_RTS:
	case ENGINE_QP_FLUSH:
		return command->event.type != 0 ? command->qp->conn_cq : NULL;
	default:
		return NULL;
	}
}

/* Give the command's event its place among those of its bundle: commands of two cores overtake each other. */
static void
number_report(struct engine_command *command)
{
	struct engine_cq *cq = report_ring(command), *last;

	command->report = (struct engine_report){.number = 0};
	if (cq == NULL)
		return;
	last = cq->first->last_report;
	if (last != NULL && last != cq) {
		command->report.ring = last->number;
		command->report.after = last->reports_sent;
	}
	if (++cq->reports_sent == 0)
		cq->reports_sent = 1;
	command->report.number = cq->reports_sent;
	cq->first->last_report = cq;
}

int
engine_command(struct engine_command *command)
{
	struct core *core = core_of_command(command);

	if (core == NULL)
		return -EINVAL;
	if (engine_move_holds(command))
		return 0;
	command->status = 0;
	number_report(command);
	steer_command(command);
	/* Write `next` before the core can have the command: afterwards the core owns the memory. */
	command->next = NULL;
	*core->unsent_tail = command;
	core->unsent_tail = &command->next;
	send_commands(core);
	return 0;
}

/* ---- acknowledgements, events and frames from the cores ---- */

int
engine_event_fd(void)
{
	return engine.event_fd;
}

/* Unsent commands count as work: a core does not notify when its ring has room again. */
static bool
nothing_to_do(void)
{
	for (uint32_t i = 0; i < engine.num_cores; i++)
		if (ring_used(engine.core[i]->up) > 0 || engine.core[i]->unsent != NULL)
			return false;
	return ring_used(engine.control_frames) == 0 && ring_used(engine.alive_frames) == 0 &&
	       ring_used(engine.neigh_frames) == 0;
}

bool
engine_sleep_begin(void)
{
	atomic_store_explicit(&engine.control_sleep, ++engine.control_sleeps, memory_order_relaxed);
	/* Pairs with the fence in event_notify_control. */
	atomic_thread_fence(memory_order_seq_cst);
	if (nothing_to_do())
		return true;
	engine_sleep_end();
	return false;
}

void
engine_sleep_end(void)
{
	/* Relaxed: event_notify_control at worst writes the eventfd once in vain. */
	atomic_store_explicit(&engine.control_sleep, 0, memory_order_relaxed);
}

/* `value`: see event_strays(). */
static void
lead_strays(struct engine_qp *qp, uint32_t value, const struct engine_handlers *handlers)
{
	const struct engine_event event = {
		.type = ENGINE_EVENT_STRAYS, .value = value >> 16, .owner = qp->node.owner};

	if (!steer_learn(qp, (uint16_t)value))
		handlers->on_event(&event);
}

static uint32_t
poll_core(struct core *core, const struct engine_handlers *handlers)
{
	struct up ups[UP_BURST];
	uint32_t n = rte_ring_sc_dequeue_burst_elem(core->up, ups, sizeof(ups[0]), UP_BURST, NULL);

	for (uint32_t i = 0; i < n; i++) {
		struct engine_command *command = ups[i].pointer;
		struct engine_event event = {
			.type = ups[i].type, .value = ups[i].value, .owner = ups[i].pointer};

		if (ups[i].type == UP_STRAYS)
			lead_strays(ups[i].pointer, ups[i].value, handlers);
		else if (ups[i].type != 0)
			handlers->on_event(&event);
		else if (command->done != NULL)
			command->done(command);
		else
			free(command);
	}
	send_commands(core);
	return n;
}

static uint32_t
poll_frames(struct rte_ring *ring, const struct engine_handlers *handlers)
{
	struct rte_mbuf *frames[FRAME_BURST];
	uint32_t n = rte_ring_sc_dequeue_burst(ring, (void **)frames, FRAME_BURST, NULL);

	for (uint32_t i = 0; i < n; i++) {
		const struct frame_info *info = frame_info(frames[i]);

		handlers->on_frame(info->port, rte_pktmbuf_mtod(frames[i], uint8_t *), frames[i]->data_len,
				   info->parsed ? &info->packet : NULL);
	}
	rte_pktmbuf_free_bulk(frames, n);
	return n;
}

uint32_t
engine_poll(const struct engine_handlers *handlers)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < engine.num_cores; i++)
		total += poll_core(engine.core[i], handlers);
	if (ring_used(engine.alive_frames) > 0)
		total += poll_frames(engine.alive_frames, handlers);
	if (ring_used(engine.neigh_frames) > 0)
		total += poll_frames(engine.neigh_frames, handlers);
	if (ring_used(engine.control_frames) > 0)
		total += poll_frames(engine.control_frames, handlers);
	if (engine.reap != NULL)
		total += reap_objects(false);
	return total;
}

uint32_t
engine_neigh_lost(void)
{
	/* Pairs with the increment in rcio.c: only a count. */
	return atomic_load_explicit(&engine.neigh_lost, memory_order_relaxed);
}

int
engine_send_frame(uint16_t port, const uint8_t *frame, uint32_t len)
{
	struct rte_mbuf *m;
	char *data;

	if (port >= ports_num || len == 0)
		return -EINVAL;
	m = rte_pktmbuf_alloc(engine.control_pool);
	if (m == NULL)
		return -ENOBUFS;
	data = rte_pktmbuf_append(m, (uint16_t)RTE_MIN(len, (uint32_t)UINT16_MAX));
	if (data == NULL || len > UINT16_MAX) {
		rte_pktmbuf_free(m);
		return -EMSGSIZE;
	}
	memcpy(data, frame, len);
	frame_info(m)->far = 0;
	if (rte_ring_mp_enqueue(ports[port].tx_ring, m) != 0) {
		rte_pktmbuf_free(m);
		return -ENOBUFS;
	}
	idle_wake(engine.core[0]);
	return 0;
}
