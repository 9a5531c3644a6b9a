/* SPDX-License-Identifier: BSD-3-Clause */
/* Links of ports: which changes programs notice, and when our addresses are announced. */
#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "control/path/path.h"

struct control control;
int control_logtype;
struct path_port path_port[CONFIG_PORTS_MAX];
uint32_t path_num_ports = 1;

static struct engine_port_info info = {.name = "p0", .mac = {2, 0, 0, 0, 0, 1}};
static uint32_t announced, repeated, ups, downs; /* ups and downs: what programs notice */

const struct engine_port_info *
engine_port(uint32_t index)
{
	return &info;
}

void
neigh_set_mac(struct neigh *neigh, uint16_t index, const uint8_t mac[6])
{
}

void
neigh_announce(struct neigh *neigh, uint16_t index, uint64_t now)
{
	announced++;
}

void
engine_port_repeat(uint32_t number)
{
	repeated++;
}

void
path_port_renamed(void)
{
}

int
control_watch(int fd, struct watch *watch, uint32_t events)
{
	return -ENOSYS;
}

static void
on_link(const struct path_port *port)
{
	if (port->link_up == port->link_reported)
		return;
	ups += port->link_up;
	downs += !port->link_up;
}

/* A new process. */
static void
begin(bool up)
{
	memset(path_port, 0, sizeof(path_port));
	memcpy(path_port[0].mac, info.mac, sizeof(info.mac));
	info.link_up = up;
	announced = repeated = ups = downs = 0;
	path_links_open(on_link);
}

static void
poll_after(uint64_t ms)
{
	control.now += ms * (NS_PER_S / 1000);
	path_links_poll();
}

static void
expect(uint32_t wanted_ups, uint32_t wanted_downs, uint32_t wanted_announcements)
{
	assert_int_equal(ups, wanted_ups);
	assert_int_equal(downs, wanted_downs);
	assert_int_equal(announced, wanted_announcements);
}

static void
changes_are_reported(void **state)
{
	begin(false);
	poll_after(1000);
	poll_after(1000);
	expect(0, 0, 0);
	info.link_up = true;
	poll_after(1000);
	expect(1, 0, 1);
	info.link_up = false;
	for (uint32_t i = 0; i < 39; i++)
		poll_after(100);
	expect(1, 0, 1);
	for (uint32_t i = 0; i < 20; i++)
		poll_after(100);
	expect(1, 1, 1);
	info.link_up = true;
	poll_after(1000);
	poll_after(1000);
	expect(2, 1, 2);
}

/* The data plane at the other end of a memif is taken over. */
static void
short_interruption_is_not_reported(void **state)
{
	begin(true);
	poll_after(1000);
	expect(1, 0, 1);
	info.link_up = false;
	poll_after(1000);
	poll_after(3000);
	info.link_up = true;
	poll_after(100);
	poll_after(1000);
	expect(1, 0, 2);
}

/* Programs know the link's state from the data plane that was taken over. */
static void
takeover_is_not_reported(void **state)
{
	begin(true);
	path_link_inherit(&path_port[0], true);
	poll_after(0);
	expect(0, 0, 1);
	info.link_up = false;
	poll_after(1000);
	poll_after(5000);
	expect(0, 1, 1);
}

/* A kernel's interface does not go down when another data plane is taken over. */
static void
interface_is_reported_at_once(void **state)
{
	strcpy(info.interface, "veth0");
	begin(true);
	poll_after(0);
	info.link_up = false;
	poll_after(1000);
	expect(1, 1, 1);
	info.interface[0] = '\0';
}

static void
change_during_takeover_is_reported(void **state)
{
	begin(true);
	path_link_inherit(&path_port[0], false);
	poll_after(0);
	expect(1, 0, 1);
	begin(false);
	path_link_inherit(&path_port[0], true);
	poll_after(0);
	expect(0, 0, 0);
	poll_after(5000);
	expect(0, 1, 0);
}

/* Frames sent in between are lost, and the retransmission time may be far longer than the interruption. */
static void
lost_link_is_repeated_soon(void **state)
{
	begin(true);
	poll_after(1000);
	assert_int_equal(repeated, 1);
	path_links_watch();
	poll_after(0);
	info.link_up = false;
	poll_after(2);
	assert_int_equal(repeated, 1);
	info.link_up = true;
	poll_after(2);
	assert_int_equal(repeated, 2);
	assert_true(path_links_deadline() >= control.now + NS_PER_S / 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_are_reported),
		cmocka_unit_test(short_interruption_is_not_reported),
		cmocka_unit_test(interface_is_reported_at_once),
		cmocka_unit_test(takeover_is_not_reported),
		cmocka_unit_test(change_during_takeover_is_reported),
		cmocka_unit_test(lost_link_is_repeated_soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
