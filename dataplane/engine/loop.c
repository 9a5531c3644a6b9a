/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of a polling core. Its cost depends on what is busy, not on what is attached: doorbells are a few
 * cache lines, and only queue pairs that rang, have something to emit, or have a timer due are touched.
 */
#include "dataplane/engine/loop.h"
#include "dataplane/core/stats.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/transport.h"

/*
 * Advances the transport's clock. While other threads have the core's processor (the scheduler or a
 * hypervisor switched, or the process is stopped), answers of peers wait in queues that are not read, and the
 * core's own packets are not sent: that is no silence of the peers. So a gap between two loops counts up to
 * CORE_GAP_NS, and all deadlines move by the rest. Sleeping until a deadline is waiting, and counts.
 */
void
loop_clock(struct core *core, uint64_t tsc)
{
	uint64_t real = engine_now(tsc), passed = real - core->real_at;

	if (unlikely(passed > core->slept + CORE_GAP_NS)) {
		core->stats.gaps++;
		core->stats.gaps_ns += passed - core->slept - CORE_GAP_NS;
		passed = core->slept + CORE_GAP_NS;
	}
	core->now += passed;
	core->real_at = real;
	core->slept = 0;
}

/* Drain receive queues before timers: the awaited packet may be queued. Bounded, so that a busy queue cannot
 * starve timers. */
static inline bool
timers_wait(struct core *core)
{
	if (likely(!core->rx_more) || core->timer_waits >= DRAIN_BURSTS) {
		core->timer_waits = 0;
		return false;
	}
	core->timer_waits++;
	return true;
}

uint32_t
loop_iterate(struct core *core, uint64_t tsc)
{
	uint32_t done;

	core->loop_at = tsc;
	loop_clock(core, tsc);
	/* Pairs with the store in engine_time_stages; seeing it a loop later does no harm. */
	if (unlikely(core->timed | atomic_load_explicit(&engine.time_stages, memory_order_relaxed)))
		stages_begin(core, tsc);
	done = loop_commands(core);
	/* Only a hint; the exchange pairs with the addition in engine_port_repeat(). */
	if (unlikely(atomic_load_explicit(&core->links_up, memory_order_relaxed) != 0))
		done += loop_repeat(core);
	stage_end(core, ENGINE_STAGE_COMMANDS);
	done += rcio_receive(core);
	done += rcio_inbound(core);
	stage_end(core, ENGINE_STAGE_INBOUND);
	if (core->hot_count == 0 || core->loop % CORE_SCAN_INTERVAL == 0 || tsc >= core->scan_at) {
		core->scan_at = tsc + engine.scan_cycles;
		done += doorbell_scan(core);
	}
	stage_end(core, ENGINE_STAGE_DOORBELLS);
	if (unlikely(!LIST_EMPTY(&core->reaching)))
		done += bounce_poll(&core->reaching, qp_bounced, core);
	if (unlikely(!TAILQ_EMPTY(&core->quiescing)))
		done += qp_bind_poll(core);
	if (core->drr.clients > 0)
		done += share_run(core);
	if (!timers_wait(core))
		timer_run(core);
	stage_end(core, ENGINE_STAGE_TIMERS);
	cq_publish(core);
	stage_end(core, ENGINE_STAGE_PUBLISH);
	done += tx_flush(core);
	stage_end(core, ENGINE_STAGE_TX);
	core->loop++;
	core->stats.loops++;
	if (core->wake_control)
		event_notify_control(core);
	idle_wake_peers(core);
	if (core->now - core->published_at >= 1000000)
		stats_publish(core);
	if (unlikely(core->timed))
		stages_end(core, done > 0);
	return done;
}

int
loop_main(void *argument)
{
	struct core *core = argument;

	idle_begin(core);
	rte_rcu_qsbr_thread_register(engine.rcu, core->lcore);
	rte_rcu_qsbr_thread_online(engine.rcu, core->lcore);
	core->idle_at = rte_rdtsc();
	/* Pairs with the store in engine_stop. */
	while (!atomic_load_explicit(&core->stop, memory_order_acquire)) {
		uint32_t done = loop_iterate(core, rte_rdtsc());

		rte_rcu_qsbr_quiescent(engine.rcu, core->lcore);
		idle_wait(core, done);
	}
	cq_publish(core); /* of frames that it received when it was about to sleep */
	stats_publish(core);
	rte_rcu_qsbr_thread_offline(engine.rcu, core->lcore);
	rte_rcu_qsbr_thread_unregister(engine.rcu, core->lcore);
	/* Pairs with the acquire load in engine_stop: from now on the control thread owns the core's
	 * memory. */
	atomic_store_explicit(&core->stopped, true, memory_order_release);
	return 0;
}
