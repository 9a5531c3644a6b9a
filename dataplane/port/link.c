/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links that do not come back by themselves.  DPDK's memif connects to its
 * server once, when the port is started: when the far end was not there yet, or
 * died and was started anew, the port has to be started again.  The control
 * thread has that done about once a second while such a link is down.  Cores leave
 * the port alone meanwhile: it is paused, and a grace period later nobody is
 * inside a burst any more.  It is done on DPDK's interrupt thread, since that is
 * where memif follows its socket: a handshake that is slow would otherwise have
 * its state freed under it.
 *
 * A memif that loses its far end unmaps the rings and buffers it shared, on
 * DPDK's interrupt thread, whatever the cores are doing with them.  It marks the
 * device as not connected first, so bursts that begin later leave them alone; for
 * those under way our munmap() makes that thread wait.  Our mmap() has them populated.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "rx_wakeup.h"
#include "dataplane/port/port.h"

#define LINK_INTERVAL_NS 1000000000ull
#define LINK_GRACE_NS 1000000ull
#define UNMAP_POLL_US 50
#define BELLS_INTERVAL_NS 500000000ull /* a link that comes up has new ones */

static uint64_t rx_wakeups_at;

/* Before libc's for the whole process.  The control thread and the cores are lcores: they see to such
 * things themselves, and never wait here. */
int
munmap(void *addr, size_t len)
{
	uint64_t token;
	int result;

	if (rte_lcore_id() != LCORE_ID_ANY || !__atomic_load_n(&engine.running, __ATOMIC_ACQUIRE))
		return (int)syscall(SYS_munmap, addr, len);
	rx_wakeup_unmap_begin(addr, len);
	token = engine_grace_start();
	while (__atomic_load_n(&engine.running, __ATOMIC_ACQUIRE) && !engine_grace_over(token))
		usleep(UNMAP_POLL_US);
	result = (int)syscall(SYS_munmap, addr, len);
	rx_wakeup_unmap_end();
	return result;
}

/*
 * As well.  DPDK's interrupt thread maps a memif's buffers, 9 MB of them as README.md has it, and a core
 * would be the first to touch each when its turn comes: that costs 15 us with what a message has to wait for.
 * So they are there from the beginning.
 */
void *
mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	/* Stored in engine_init before ports are started; what EAL maps earlier is its own affair. */
	bool running = __atomic_load_n(&engine.config, __ATOMIC_RELAXED) != NULL;

	if (running && rte_lcore_id() == LCORE_ID_ANY && (flags & MAP_SHARED) != 0 && fd >= 0)
		flags |= MAP_POPULATE;
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

static bool
is_down(const struct port *port)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(port->device, &link) != 0 || link.link_status != RTE_ETH_LINK_UP;
}

uint64_t
engine_links_deadline(void)
{
	uint64_t deadline = engine.config->idle != ONE_IDLE_SPIN ? rx_wakeups_at : UINT64_MAX;

	for (uint32_t i = 0; i < ports_num; i++)
		if (ports[i].reconnects && ports[i].link_at < deadline)
			deadline = ports[i].link_at;
	return deadline;
}

static void
restart(void *argument)
{
	struct port *port = argument;

	if (port->started)
		rte_eth_dev_stop(port->device);
	port->started = rte_eth_dev_start(port->device) == 0;
	/* A port that did not start stays paused: it is tried again. */
	if (port->started)
		/* Pairs with port_usable. */
		atomic_store_explicit(&port->paused, false, memory_order_release);
	/* Pairs with the load in engine_links_poll: `started` is the control thread's again. */
	atomic_store_explicit(&port->restarting, false, memory_order_release);
}

static void
begin_restart(struct port *port)
{
	port->link_grace = 0;
	atomic_store_explicit(&port->restarting, true, memory_order_relaxed);
	if (rte_eal_alarm_set(1, restart, port) != 0)
		restart(port);
}

void
links_fini(void)
{
	/* Waits for one that is under way. */
	for (uint32_t i = 0; i < ports_num; i++)
		rte_eal_alarm_cancel(restart, &ports[i]);
}

void
engine_links_poll(uint64_t now)
{
	if (now >= rx_wakeups_at) {
		rx_wakeups_find();
		rx_wakeups_at = now + BELLS_INTERVAL_NS;
	}
	for (uint32_t i = 0; i < ports_num; i++) {
		struct port *port = &ports[i];
		bool first;

		if (!port->reconnects || now < port->link_at)
			continue;
		/* The handshake of a port that has just been started is under way. */
		first = port->link_at == 0 && port->started;
		port->link_at = now + LINK_INTERVAL_NS;
		if (first)
			continue;
		/* Pairs with the store in restart(). */
		if (atomic_load_explicit(&port->restarting, memory_order_acquire)) {
			port->link_at = now + LINK_GRACE_NS;
		} else if (port->link_grace != 0) {
			if (engine_grace_over(port->link_grace))
				begin_restart(port);
			else
				port->link_at = now + LINK_GRACE_NS;
		} else if (!port->started || is_down(port)) {
			/* Pairs with port_usable. */
			atomic_store_explicit(&port->paused, true, memory_order_release);
			port->link_grace = engine_grace_start();
			port->link_at = now + LINK_GRACE_NS;
		}
	}
}
