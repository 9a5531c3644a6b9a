/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle policies of a core after a loop that found nothing: spin, yield, or sleep.
 *
 * A sleeper announces its sleep (`asleep` to other threads, `engine_asleep` to applications), executes a full
 * fence, polls once more, and waits for: a doorbell's eventfd, its own eventfd, receive interrupts, the next
 * timer. A thread that queues something stores it, executes a full fence, and writes the eventfd if the
 * sleeper has announced its sleep. A port without interrupts wakes by its driver's socket (rx_wakeup.c), or
 * is polled by naps: short ones, and after a third of a second of silence longer ones.
 *
 * A core falls asleep only where that pays. After a loop that found something it keeps polling, yielding to
 * others, until it has spent poll_for of processor time in vain, or POLL_MAX_NS while packets are in flight:
 * their answers come within a round trip, and a nap is several. poll_for adapts like KVM's halt polling: it
 * becomes twice the silence that a sleep was too early for, and POLL_MIN_NS when a silence outlasts
 * POLL_MAX_NS. So a core polls in vain for at most POLL_MAX_NS after each find that came soon.
 *
 * Each producer and sleeper are a store-buffering litmus test with fences, "SB+mbs" in herd7's names:
 *
 *     the producer          the sleeper
 *     W news                W sleep
 *     F                     F
 *     R sleep               R news        never: both read the old value
 *
 *   news is                 stored by               polled again in
 *     a doorbell              one_doorbell_ring       poll_again: doorbell_scan
 *     a command, a frame      engine_command,         poll_again: ring_used
 *       for a core or port      hand_over, ...
 *     a link that came up     engine_port_repeat      poll_again: links_up
 *     up, control_frames      event_raise, ...        engine_sleep_begin: nothing_to_do
 *     a completion            cq_store                after one_wait_arm, by its callers
 *     a channel's word        wake_channel            futex(2), after `sleepers`
 *
 * Each producer writes the eventfd itself: no producer relies on another one that has seen the sleep, too,
 * and may lose its processor before it writes. An eventfd stays ready until it is collected, and is collected
 * before everything is polled. tests/unit/engine/test_sleep.c takes the steps of both sides in every order,
 * tests/unit/client/test_model.c shows the results on a machine with store buffers.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_interrupts.h>

#include "abi/slice.h"
#include "dataplane/port/rx_wakeup.h"
#include "dataplane/engine/loop.h"
#include "dataplane/core/stats.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/transport.h"

enum {
	POLL_MIN_NS = 25000,  /* processor time spent polling in vain before sleeping */
	POLL_MAX_NS = 500000, /* several round trips between cores that share processors with applications */
	NAP_NS = 50000,       /* interval at which ports are polled that cannot wake the core */
	NAP_MAX_NS = 100000,  /* interval after NAPS_SHORT naps */
	NAPS_SHORT = 1000,    /* naps before NAP_MAX_NS applies */
	NAP_QUIET_NS = 5000000, /* interval after NAPS_MANY naps */
	NAPS_MANY = 2000,       /* naps before NAP_QUIET_NS applies */
	SLEEP_NS = 100000000,   /* nothing can be missed, but published statistics should stay recent */
	LITTLE = 4,             /* work of a short loop: a frame or two, with their answers */
	GIVE_NS = 8000,         /* interval between yields while no other thread wants the processor */
	GIVEN_NS = 500,         /* duration of a sched_yield() that returns at once, until measured */
	GIVEN_MEASURED = 32,
	FDS_DRAINED = 16
};

static bool
cores_may_sleep(void)
{
	return engine.config->idle == ONE_IDLE_SLEEP;
}

void
idle_wake(struct core *core)
{
	if (!cores_may_sleep())
		return;
	/* Pairs with the fence in fall_asleep. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&core->asleep, memory_order_relaxed))
		eventfd_write(core->wake_fd, 1);
}

void
idle_wake_peers(struct core *core)
{
	uint64_t mask = core->wake_mask & ~(1ull << core->index);

	if (likely(core->wake_mask == 0))
		return;
	core->wake_mask = 0;
	while (mask != 0) {
		idle_wake(engine.core[__builtin_ctzll(mask)]);
		mask &= mask - 1;
	}
}

/* Watches a descriptor, edge-triggered. The eventfd is never read: its other holder may empty it or make it
 * block. */
static int
watch_fd(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void
idle_watch(struct core *core, struct engine_client *client)
{
	if (cores_may_sleep() && client->wake_fd >= 0 && watch_fd(core->epoll, client->wake_fd) != 0)
		client->wake_fd = -1; /* another lane of the attachment has it here, or doorbells are noticed
					 when a sleep ends */
}

void
idle_forget(struct core *core, struct engine_client *client)
{
	if (cores_may_sleep() && client->wake_fd >= 0)
		epoll_ctl(core->epoll, EPOLL_CTL_DEL, client->wake_fd, NULL);
}

int
idle_init(struct core *core)
{
	core->give_after = rte_get_tsc_hz() * GIVE_NS / NS_PER_S;
	core->least = rte_get_tsc_hz() * GIVEN_NS / NS_PER_S;
	core->poll_least = core->poll_for = rte_get_tsc_hz() * POLL_MIN_NS / NS_PER_S;
	core->poll_most = rte_get_tsc_hz() * POLL_MAX_NS / NS_PER_S;
	core->epoll = epoll_create1(EPOLL_CLOEXEC);
	core->rx_epoll = epoll_create1(EPOLL_CLOEXEC);
	core->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (core->epoll < 0 || core->rx_epoll < 0 || core->wake_fd < 0)
		return -errno;
	if (!cores_may_sleep())
		return 0;
	for (uint32_t i = 0; i < core->num_rx; i++) {
		core->rx[i].interrupt = rx_wakeup_interrupt(&core->rx[i], core->rx_epoll);
		core->rx[i].watched = !core->rx[i].interrupt && rx_wakeup_watch(&core->rx[i], core->epoll);
	}
	return watch_fd(core->epoll, core->wake_fd);
}

/* Returns how often another thread took this thread's processor. */
static long
count_switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Measures a sched_yield() that switches to no other thread: its duration differs several times between
 * processors and kernels. */
static void
measure_least(struct core *core)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < GIVEN_MEASURED; i++) {
		long before = count_switches();
		uint64_t began = rte_rdtsc(), took;

		sched_yield();
		took = rte_rdtsc() - began;
		if (count_switches() == before && took < least)
			least = took;
	}
	if (least != UINT64_MAX)
		core->least = least;
}

void
idle_begin(struct core *core)
{
	engine_leave_rseq();
	if (engine.config->idle != ONE_IDLE_SPIN) {
		one_slice_shorten();
		measure_least(core);
	}
	if (cores_may_sleep())
		prctl(PR_SET_TIMERSLACK, 1000);
}

void
idle_fini(struct core *core)
{
	const int fds[] = {core->epoll, core->rx_epoll, core->wake_fd};

	for (size_t i = 0; i < RTE_DIM(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void
say_asleep(struct core *core, bool asleep)
{
	struct engine_client *client;

	/* The fence orders both. It pairs with the fence in idle_wake, and with the application's fence
	 * between its doorbell and its load of engine_asleep. */
	atomic_store_explicit(&core->asleep, asleep, memory_order_relaxed);
	TAILQ_FOREACH(client, &core->clients, link)
		atomic_store_explicit(client->asleep, asleep, memory_order_relaxed);
	if (asleep)
		atomic_thread_fence(memory_order_seq_cst);
}

/* Returns true if frames may arrive by the queue: cores beyond those with rings of a memif receive none. */
static bool
is_in_use(const struct core *core, const struct rx_queue *queue)
{
	return !queue->rings || core->index < port_rings(&ports[queue->port]).own;
}

/* Switches receive interrupts on or off; false: some queue has neither an interrupt nor a watched socket. */
static bool
arm_interrupts(const struct core *core, bool on)
{
	bool all = true;

	for (uint32_t i = 0; i < core->num_rx; i++) {
		const struct rx_queue *queue = &core->rx[i];

		if ((port_flags(&ports[queue->port]) & PORT_FLAG_AWAY) != 0)
			continue; /* its device may be closed */
		if (!queue->interrupt)
			all = all && (queue->watched || !is_in_use(core, queue));
		else if (!on)
			rte_eth_dev_rx_intr_disable(queue->device, queue->queue);
		else if (rte_eth_dev_rx_intr_enable(queue->device, queue->queue) != 0)
			all = false;
	}
	return all;
}

/* Returns true if work must be retried for which no wake-up comes: frames held back by a port, queue pairs
 * that wait for room, events that found the control thread's ring full, wake-ups that are held. */
static bool
is_behind(const struct core *core)
{
	for (uint32_t i = 0; i < ports_num; i++)
		if (core->tx[i].count > 0 || core->far_busy[i] != 0)
			return true;
	return core->drr.clients > 0 || !STAILQ_EMPTY(&core->backlog) || !STAILQ_EMPTY(&core->dirty);
}

/* Polls everything once more after the sleep was announced; true: something has come meanwhile. */
static bool
poll_again(struct core *core)
{
	/* Loads `stop` of engine_stop, and `links_up` of engine_port_repeat: both write the eventfd later. */
	if (ring_used(core->commands) > 0 || ring_used(core->inbound) > 0 ||
	    atomic_load_explicit(&core->stop, memory_order_relaxed) ||
	    atomic_load_explicit(&core->links_up, memory_order_relaxed) != 0)
		return true;
	for (uint32_t i = 0; core->index == 0 && i < ports_num; i++)
		if (ring_used(ports[i].tx_ring) > 0 && core->tx[i].count < TX_HIGH)
			return true;
	return bounce_due(&core->reaching) || doorbell_scan(core) > 0 || rcio_receive(core) > 0;
}

/* Returns the interval after which sources without a wake-up are polled again. */
static uint64_t
nap_limit(const struct core *core)
{
	if (core->naps < NAPS_SHORT)
		return NAP_NS;
	return core->naps < NAPS_MANY || is_behind(core) ? NAP_MAX_NS : NAP_QUIET_NS;
}

static void
wait_for_something(struct core *core, bool interrupts)
{
	struct pollfd fds[2] = {{.fd = core->epoll, .events = POLLIN},
				{.fd = core->rx_epoll, .events = POLLIN}};
	uint64_t limit = SLEEP_NS, next = timer_next(core);
	uint64_t now = core->now + (engine_now(rte_rdtsc()) - core->real_at); /* core->now, renewed */
	struct timespec timeout;
	struct rte_epoll_event rx_events[FDS_DRAINED];
	struct epoll_event events[FDS_DRAINED];

	if (!interrupts || is_behind(core))
		limit = nap_limit(core);
	if (next != RC_NEVER)
		limit = next <= now ? 0 : RTE_MIN(limit, next - now);
	timeout = (struct timespec){.tv_nsec = (long)limit};
	core->slept = limit;
	stats_will_sleep(core, limit);
	if (limit > 0 && ppoll(fds, 2, &timeout, NULL) > 0) {
		if (fds[0].revents != 0)
			epoll_wait(core->epoll, events, FDS_DRAINED, 0);
		if (fds[1].revents != 0)
			rte_epoll_wait(core->rx_epoll, rx_events, FDS_DRAINED, 0);
		core->polled_in_vain = 0;
	}
	core->naps++;
	core->stats.sleeps++;
}

/* Adapts poll_for after a loop that found something. `naps` > 0: the core slept since the last find. */
static void
adapt_polling(struct core *core)
{
	uint64_t silence = core->loop_at - core->found_at;

	if (core->naps > 0 && silence > core->poll_most)
		core->poll_for = core->poll_least;
	else if (core->naps > 0 && 2 * silence > core->poll_for)
		core->poll_for = RTE_MIN(2 * silence, core->poll_most);
	core->found_at = core->loop_at;
	core->polled_in_vain = 0;
	core->naps = 0;
}

static void
fall_asleep(struct core *core)
{
	bool interrupts;

	stats_publish(core);
	interrupts = arm_interrupts(core, true);
	say_asleep(core, true);
	if (poll_again(core)) {
		adapt_polling(core);
	} else {
		rte_rcu_qsbr_thread_offline(engine.rcu, core->lcore);
		wait_for_something(core, interrupts);
		rte_rcu_qsbr_thread_online(engine.rcu, core->lcore);
	}
	arm_interrupts(core, false);
	say_asleep(core, false);
}

/*
 * Detects whether other threads ran since the last yield: then the yield took longer than one that switches
 * to no thread, which takes about as long as the shortest.
 */
static void
learn_sharing(struct core *core)
{
	uint64_t took = core->loop_at - core->gave_at;

	core->gave = false;
	core->takes = 0;
	core->shared = took > 2 * core->least;
	if (took < core->least)
		core->least = took;
}

/*
 * Decides on a yield after a loop that found something. Where other threads want the processor, one of them
 * probably waits for what was just done. A thread that posts receives must not wait long either: frames may
 * arrive without end, and a sender without a posted receive stops.
 */
static bool
yields_busy(const struct core *core, uint32_t done)
{
	return core->takes >= CORE_TAKES || (core->shared && done <= LITTLE && !is_behind(core));
}

/* Decides on a yield after a loop that found nothing: at once, or, if no other thread wants the processor, at
 * intervals. */
static bool
yields_idle(const struct core *core, uint64_t tsc)
{
	return core->shared || tsc - core->gave_at >= core->give_after;
}

static void
give_away(struct core *core, uint64_t tsc)
{
	core->gave = true;
	core->gave_at = tsc;
	core->timed_idle = true;
	sched_yield();
}

/* Returns true while answers are due or finds were frequent, and polling has not been in vain for too
 * long. */
static bool
polls_on(const struct core *core)
{
	return core->polled_in_vain < (core->drr.flight > 0 ? core->poll_most : core->poll_for);
}

void
idle_wait(struct core *core, uint32_t done)
{
	uint64_t tsc = rte_rdtsc(), *cycles = done > 0 ? &core->stats.busy_cycles : &core->stats.idle_cycles;
	enum one_idle how = engine.config->idle;

	*cycles += tsc - core->loop_at;
	core->stats.idle_cycles += core->loop_at - core->idle_at;
	core->idle_at = tsc;
	if (core->gave)
		learn_sharing(core);
	if (done > 0) {
		core->stats.busy_loops++;
		adapt_polling(core);
	} else {
		core->polled_in_vain += tsc - core->loop_at;
	}
	if (how == ONE_IDLE_SPIN)
		return;
	/* Queue pairs that are blocked may stay so asleep: each post rings the doorbell, hot or not. */
	if (how == ONE_IDLE_SLEEP && done == 0 && !polls_on(core))
		fall_asleep(core);
	else if (done > 0 ? yields_busy(core, done) : yields_idle(core, tsc))
		give_away(core, tsc);
}
