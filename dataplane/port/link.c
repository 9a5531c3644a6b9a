/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links that do not come back by themselves. DPDK's memif client connects only when the port is started. If
 * the peer was not there yet, or was restarted, the port has to be started again. The control thread requests
 * that about once a second while such a link is down, and more often just after the peer has hung up: another
 * data plane may be taking over from it. The port is paused first, so that cores leave it alone; after a
 * grace period no core is inside a burst. The port is restarted on DPDK's interrupt thread, since memif
 * handles its socket there: otherwise the restart would free the state of a slow handshake in progress.
 *
 * A memif that loses its peer marks itself as down and unmaps the shared rings and buffers, on DPDK's
 * interrupt thread. Bursts that begin after the mark do not access the memory, but the driver does not wait
 * for bursts under way. So that thread keeps the cores away from memifs, and waits until no core is inside a
 * burst, before the driver reads that its peer has left (memif_send.c).
 *
 * For the same reason a memif is stopped on that thread, and closed there if another data plane takes it
 * over: a peer that connects again in between would be answered with a device that is half closed. At the end
 * of the data plane a memif server is not closed here: it continues to listen, and a client that has lost it
 * reconnects. The code that ends EAL closes it (control/daemon/eal_end.c).
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "dataplane/port/port.h"

#define log_notice(...) rte_log(RTE_LOG_NOTICE, (uint32_t)port_logtype, "port: " __VA_ARGS__)
#define log_error(...) rte_log(RTE_LOG_ERR, (uint32_t)port_logtype, "port: " __VA_ARGS__)

#define SENTENCE 512
#define LINK_INTERVAL_NS 1000000000ull
#define LINK_GRACE_NS 1000000ull
#define LINK_RETRY_NS 10000000ull /* between attempts, for LINK_HURRY_NS after the peer has hung up */
#define LINK_HURRY_NS 2000000000ull
#define LINK_HANDSHAKE_NS 250000000ull /* until an attempt that found a peer counts as failed */
#define QUIESCE_POLL_US 50

/* Lcores (the control thread and the cores) pass quiescent states themselves, and must never wait here. */
void
links_quiesce(void)
{
	uint64_t token;

	/* Pairs with the stores in engine_start() and engine_stop(). */
	if (rte_lcore_id() != LCORE_ID_ANY || !__atomic_load_n(&engine.running, __ATOMIC_ACQUIRE))
		return;
	token = engine_grace_start();
	while (__atomic_load_n(&engine.running, __ATOMIC_ACQUIRE) && !engine_grace_over(token))
		usleep(QUIESCE_POLL_US);
}

static _Atomic bool lost;

static void
allow_bursts(void *argument)
{
	(void)argument;
	for (uint32_t i = 0; i < ports_num; i++)
		port_set_flag(&ports[i], PORT_FLAG_LOST, false);
}

/* The alarm runs on this thread, so not before the driver has dealt with what it reads now. */
static void
forbid_bursts(void)
{
	if (rte_eal_alarm_set(1, allow_bursts, NULL) == 0)
		for (uint32_t i = 0; i < ports_num; i++)
			if (port_is_memif(&ports[i]))
				port_set_flag(&ports[i], PORT_FLAG_LOST, true);
	links_quiesce();
}

void
link_lost(void)
{
	int saved = errno; /* the driver's */

	forbid_bursts();
	/* Pairs with the exchange in engine_links_poll(). */
	atomic_store_explicit(&lost, true, memory_order_release);
	eventfd_write(engine.event_fd, 1);
	errno = saved;
}

/* True if the port must be started, or opened, again when its link is lost. */
static bool
needs_restart(const struct port *port)
{
	return port->reconnects || port->replaced || port->link_grace != 0;
}

uint64_t
engine_links_deadline(void)
{
	uint64_t deadline = UINT64_MAX;

	for (uint32_t i = 0; i < ports_num; i++)
		if (needs_restart(&ports[i]) && ports[i].link_at < deadline)
			deadline = ports[i].link_at;
	return deadline;
}

static void
take_back(struct port *port)
{
	/* Pairs with the loads in poll_port() and hand_over_and_wait(): `started` is the control thread's
	 * again. */
	atomic_store_explicit(&port->handed_over, false, memory_order_release);
}

static void
restart_port(void *argument)
{
	struct port *port = argument;

	if (port->started)
		rte_eth_dev_stop(port->device);
	port->started = rte_eth_dev_start(port->device) == 0;
	/* A port that did not start stays paused and is retried. */
	if (port->started)
		port_set_flag(port, PORT_FLAG_PAUSED, false);
	take_back(port);
}

static void
stop_port(void *argument)
{
	struct port *port = argument;

	rte_eth_dev_stop(port->device);
	port->started = false;
	take_back(port);
}

/* Run `change` on DPDK's interrupt thread, so that it cannot interrupt the driver's own work there. */
static void
hand_over(struct port *port, rte_eal_alarm_callback change)
{
	/* Relaxed: only this thread loads true, until take_back() has stored false. */
	atomic_store_explicit(&port->handed_over, true, memory_order_relaxed);
	if (rte_eal_alarm_set(1, change, port) != 0)
		change(port);
}

static void
close_port(void *argument)
{
	struct port *port = argument;

	rte_eth_dev_stop(port->device);
	rte_eth_dev_close(port->device);
	port->started = false;
	take_back(port);
}

static void
hand_over_and_wait(struct port *port, rte_eal_alarm_callback change)
{
	hand_over(port, change);
	/* Pairs with the store in take_back(). */
	while (atomic_load_explicit(&port->handed_over, memory_order_acquire))
		usleep(QUIESCE_POLL_US);
}

void
link_stop(struct port *port)
{
	hand_over_and_wait(port, stop_port);
}

static void
close_listener(void *argument)
{
	struct port *port = argument;

	memif_close_listener(port);
	take_back(port);
}

/* The listener first: its events that the thread has already collected are handled before the device closes.
 */
void
link_close(struct port *port)
{
	if (port->listens)
		hand_over_and_wait(port, close_listener);
	hand_over_and_wait(port, close_port);
}

/* Waits for a restart in progress, and drops one that is to come. */
void
link_quiesce(struct port *port)
{
	rte_eal_alarm_cancel(restart_port, port);
	take_back(port);
	port->link_grace = 0;
}

void
links_fini(void)
{
	for (uint32_t i = 0; i < ports_num; i++)
		link_quiesce(&ports[i]);
}

/* A port that did not open stays paused and is retried. */
static void
reopen_device(struct port *port)
{
	char why[SENTENCE];

	if (port_reopen(port, why, sizeof(why)) == 0) {
		port->replaced = port->refused = false;
		port_set_flag(port, PORT_FLAG_PAUSED, false);
		log_notice(
			"event=interface_new port=%s interface=%s text=\"the interface was recreated; the device is open on it\"\n",
			port->info.name, port->kernel.name);
	} else if (!port->refused) {
		port->refused = true;
		log_error("event=interface_refused port=%s text=\"%s; retrying every second\"\n",
			  port->info.name, why);
	}
}

static void
restart_or_reopen(struct port *port)
{
	port->link_grace = 0;
	if (port->reconnects)
		hand_over(port, restart_port);
	else
		reopen_device(port);
}

static void
hurry_restarts(uint64_t now)
{
	for (uint32_t i = 0; i < ports_num; i++) {
		struct port *port = &ports[i];
		uint64_t next = port->link_tried + LINK_RETRY_NS;

		if (!port->reconnects)
			continue;
		port->link_hurry = now + LINK_HURRY_NS;
		port->link_at = next > now ? next : now + LINK_GRACE_NS;
		port->link_tried = 0; /* the handshake has failed, if one was in progress */
	}
}

static void
poll_port(struct port *port, uint64_t now)
{
	/* Skip the first interval: the handshake of a memif that was just started is in progress. */
	bool first = port->reconnects && port->link_at == 0 && port->started;
	bool hurries = now < port->link_hurry;

	port->link_at = now + (hurries ? LINK_RETRY_NS : LINK_INTERVAL_NS);
	if (first)
		return;
	/* Pairs with the store in take_back(). */
	if (atomic_load_explicit(&port->handed_over, memory_order_acquire)) {
		port->link_at = now + LINK_GRACE_NS;
	} else if (port->link_grace != 0) {
		if (engine_grace_over(port->link_grace)) {
			port->link_tried = now;
			restart_or_reopen(port);
		} else {
			port->link_at = now + LINK_GRACE_NS;
		}
	} else if (hurries && port->started && now - port->link_tried < LINK_HANDSHAKE_NS) {
		return;
	} else if (!port->started || port->replaced || !port_link_is_up(port)) {
		port_set_flag(port, PORT_FLAG_PAUSED, true);
		port->link_grace = engine_grace_start();
		port->link_at = now + LINK_GRACE_NS;
	}
}

bool
engine_links_poll(uint64_t now)
{
	/* Pairs with the store in link_lost(). */
	bool was_lost = atomic_exchange_explicit(&lost, false, memory_order_acquire);

	if (was_lost)
		hurry_restarts(now);
	for (uint32_t i = 0; i < ports_num; i++)
		if (needs_restart(&ports[i]) && now >= ports[i].link_at)
			poll_port(&ports[i], now);
	return was_lost;
}
