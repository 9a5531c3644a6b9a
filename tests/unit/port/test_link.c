/* SPDX-License-Identifier: BSD-3-Clause */
/* A memif client starts its port again: soon after the peer has hung up, since another data plane may be
 * taking over from it, and otherwise once a second. The driver, the peer and the time are simulated. */
#include <stdlib.h>
#include <string.h>

#include <rte_alarm.h>
#include <rte_ethdev.h>

#include "dataplane/port/port.h"
#include "tests/unit/unit.h"

#define MS 1000000ull
#define NEVER UINT64_MAX

struct engine engine = {.event_fd = -1};
struct port ports[CONFIG_PORTS_MAX];
uint32_t ports_num;
int port_logtype;

static uint64_t now;
static bool peer_listens;
static uint64_t handshake;        /* time that the peer takes for it */
static uint64_t up_at;            /* NEVER: there is no connection */
static uint32_t attempts, broken; /* starts of the port; handshakes that a start has cut off */

int
rte_eth_dev_start(uint16_t device)
{
	attempts++;
	if (!peer_listens)
		return -1;
	broken += up_at != NEVER;
	up_at = now + handshake;
	return 0;
}

int
rte_eth_dev_stop(uint16_t device)
{
	return 0;
}

bool
port_link_is_up(const struct port *port)
{
	return now >= up_at;
}

static struct alarm {
	rte_eal_alarm_callback callback;
	void *argument;
} alarms[4];
static uint32_t num_alarms;

/* Alarms run on DPDK's interrupt thread, after what is under way there. */
int
rte_eal_alarm_set(uint64_t us, rte_eal_alarm_callback callback, void *argument)
{
	assert_true(num_alarms < RTE_DIM(alarms));
	alarms[num_alarms++] = (struct alarm){callback, argument};
	return 0;
}

static void
run_alarms(void)
{
	for (; num_alarms > 0; num_alarms--)
		alarms[num_alarms - 1].callback(alarms[num_alarms - 1].argument);
}

int
rte_eth_dev_close(uint16_t device)
{
	return 0;
}

int
rte_eal_alarm_cancel(rte_eal_alarm_callback callback, void *argument)
{
	return 0;
}

static uint8_t flags_at_grace; /* what cores see that begin a burst during the newest grace period */

uint64_t
engine_grace_start(void)
{
	flags_at_grace = atomic_load(&ports[0].flags);
	return now + 1;
}

bool
engine_grace_over(uint64_t token)
{
	now += engine.running; /* links_quiesce() waits */
	return now >= token;
}

void
memif_close_listener(const struct port *port)
{
}

int
port_reopen(struct port *port, char *why, size_t why_len)
{
	return -1;
}

void
rings_forget(void)
{
}

void
memif_messages_pass(void)
{
}

/* The control thread's loop, until `end`. */
static void
run_until(uint64_t end)
{
	for (; now < end; now += MS / 2) {
		run_alarms();
		engine_links_poll(now);
	}
}

static bool
is_up(void)
{
	return now >= up_at && atomic_load(&ports[0].flags) == 0;
}

static int
setup(void **state)
{
	now = 1000 * MS;
	ports_num = 1;
	ports[0] = (struct port){.started = true, .reconnects = true};
	peer_listens = true;
	handshake = MS;
	up_at = now;
	attempts = broken = 0;
	run_until(now + 3000 * MS);
	assert_int_equal(attempts, 0);
	return 0;
}

static void
hang_up(void)
{
	peer_listens = false;
	up_at = NEVER;
	link_lost();
}

/* A take-over: the peer listens again after a while. */
static void
test_peer_returns(void **state)
{
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t away = (10 + 37 * i) * MS, begun = now;

		hang_up();
		run_until(begun + away);
		assert_false(is_up());
		peer_listens = true;
		run_until(begun + away + 15 * MS);
		assert_true(is_up());
		run_until(now + 200 * MS);
		assert_true(is_up());
	}
}

/* A peer that is slow to answer is left the time for it. */
static void
test_slow_handshake(void **state)
{
	hang_up();
	peer_listens = true;
	handshake = 200 * MS;
	run_until(now + 230 * MS);
	assert_true(is_up());
	assert_int_equal(attempts, 1);
	assert_int_equal(broken, 0);
}

/* The connection of an attempt ends, too: the next attempt does not wait for its handshake. */
static void
test_lost_again(void **state)
{
	hang_up();
	peer_listens = true;
	handshake = NEVER / 2;
	run_until(now + 20 * MS);
	assert_int_equal(attempts, 1);
	hang_up();
	peer_listens = true;
	handshake = MS;
	run_until(now + 15 * MS);
	assert_true(is_up());
}

/* While the driver unmaps the peer's memory no core is inside a burst, and none begins one. */
static void
test_cores_keep_away(void **state)
{
	engine.running = true;
	flags_at_grace = 0;
	link_lost();
	assert_true((flags_at_grace & PORT_FLAG_AWAY) != 0);
	assert_true((atomic_load(&ports[0].flags) & PORT_FLAG_AWAY) != 0);
	engine.running = false;
	run_alarms();
	assert_int_equal(atomic_load(&ports[0].flags), 0);
}

/* A peer that does not come back costs little. */
static void
test_peer_gone(void **state)
{
	hang_up();
	run_until(now + 2100 * MS);
	assert_in_range(attempts, 100, 205);
	attempts = 0;
	run_until(now + 10000 * MS);
	assert_in_range(attempts, 8, 10);
	peer_listens = true;
	run_until(now + 1100 * MS);
	assert_true(is_up());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_peer_returns, setup),
		cmocka_unit_test_setup(test_slow_handshake, setup),
		cmocka_unit_test_setup(test_lost_again, setup),
		cmocka_unit_test_setup(test_cores_keep_away, setup),
		cmocka_unit_test_setup(test_peer_gone, setup),
	};

	return cmocka_run_group_tests_name("port: link", tests, NULL, NULL);
}
