/* SPDX-License-Identifier: BSD-3-Clause */
/* Users of next hops: which of them hear a next hop, when a neighbour is suspected, and which are
 * refreshed. */
#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "control/path/path.h"

#define FAR 10u /* hosts whose addresses end in this or more are behind the gateway */

struct control control = {.segment_secret = {1, 2}};

static const struct wire_addr gateway = {{[10] = 0xff, 0xff, 192, 0, 2, 254}};
static struct path_port port;
static uint8_t place[6]; /* MAC of every next hop */
static bool known;       /* next hops are resolved */
static uint32_t asked, suspected;

struct user {
	struct path_user path;
	struct wire_addr dst;
	uint8_t mac[6];
	uint32_t moves, renames;
	bool hears;
};
static struct user near, far, datagrams;

int
neigh_hop(const struct neigh *neigh, uint16_t index, const struct wire_addr *dst, struct wire_addr *hop)
{
	*hop = dst->gid[15] < FAR ? *dst : gateway;
	return 0;
}

int
neigh_lookup(struct neigh *neigh, uint16_t index, const struct wire_addr *dst, uint64_t now, uint8_t mac[6])
{
	memcpy(mac, place, 6);
	return known ? 0 : -ENOENT;
}

int
neigh_resolve(struct neigh *neigh, uint16_t index, const struct wire_addr *dst, uint64_t now, uint8_t mac[6],
	      uint32_t asker, struct neigh_waiter *waiter)
{
	assert_null(waiter);
	asked++;
	memcpy(mac, place, 6);
	return known ? 0 : -EINPROGRESS;
}

void
neigh_suspect(struct neigh *neigh, uint16_t index, const struct wire_addr *dst, uint64_t now)
{
	suspected++;
}

static void
on_moved(struct path_user *user, const uint8_t mac[6])
{
	struct user *one = (struct user *)(void *)user;

	one->moves += memcmp(one->mac, mac, 6) != 0;
	memcpy(one->mac, mac, 6);
}

static void
on_renamed(struct path_user *user)
{
	((struct user *)(void *)user)->renames++;
}

static bool
on_heard(const struct path_user *user, uint64_t ns)
{
	return ((const struct user *)(const void *)user)->hears;
}

static void
begin(struct user *user, uint8_t host, bool answers)
{
	*user = (struct user){.dst = {{[10] = 0xff, 0xff, 192, 0, 2, host}}};
	user->path.moved = on_moved;
	user->path.renamed = on_renamed;
	user->path.heard = answers ? on_heard : NULL;
	path_watch(&user->path, &port, &user->dst);
}

static int
setup(void **state)
{
	begin(&near, 2, true);
	begin(&far, 20, true);
	begin(&datagrams, 21, false);
	memset(place, 0, sizeof(place));
	known = true;
	asked = suspected = 0;
	return 0;
}

static int
teardown(void **state)
{
	path_unwatch(&near.path);
	path_unwatch(&far.path);
	path_unwatch(&datagrams.path);
	path_moves_fini();
	return 0;
}

/* A next hop is heard by the users that send by it, and by no others. */
static void
test_heard(void **state)
{
	assert_false(path_hop_heard(&port, &near.dst, 1));
	assert_false(path_hop_heard(&port, &gateway, 1));
	near.hears = true;
	assert_true(path_hop_heard(&port, &near.dst, 1));
	assert_false(path_hop_heard(&port, &gateway, 1));
	far.hears = true;
	assert_true(path_hop_heard(&port, &gateway, 1));
	assert_true(path_hop_heard(&port, &gateway, 1));
	path_unwatch(&far.path);
	assert_false(path_hop_heard(&port, &gateway, 1));
}

/* Users also hear a next hop while they are being notified of its move. */
static void
test_heard_while_reported(void **state)
{
	near.hears = true;
	path_hop_moved(&port, &near.dst);
	assert_true(path_hop_heard(&port, &near.dst, 1));
	while (path_moves_pending())
		path_moves_poll();
	assert_true(path_hop_heard(&port, &near.dst, 1));
}

/* When the port's MAC changes, all users of the port are notified once, whether or not their next hops are
 * resolved. */
static void
test_port_renamed(void **state)
{
	path_port_renamed(); /* the MAC is unchanged */
	while (path_moves_pending())
		path_moves_poll();
	assert_int_equal(near.renames + far.renames + datagrams.renames, 0);
	port.mac[5]++;
	known = false;
	for (int i = 0; i < 2; i++) {
		path_port_renamed();
		while (path_moves_pending())
			path_moves_poll();
		assert_int_equal(near.renames, 1);
		assert_int_equal(far.renames, 1);
		assert_int_equal(datagrams.renames, 1);
		assert_memory_equal(near.path.own_mac, port.mac, 6);
	}
}

/* A user that ignored a move while it heard the old MAC follows it once that is silent. */
static void
test_suspect(void **state)
{
	path_suspect(&near.path);
	assert_int_equal(suspected, 1);
	assert_int_equal(near.moves, 0);
	place[5] = 7;
	path_suspect(&near.path);
	assert_int_equal(suspected, 2);
	assert_int_equal(near.moves, 1);
	assert_int_equal(near.mac[5], 7);
	path_unwatch(&near.path);
	path_suspect(&near.path);
	assert_int_equal(suspected, 2);
}

/* Datagrams are not acknowledged, so their next hops are queried about every half minute, and moves are
 * followed. */
static void
test_refresh(void **state)
{
	for (uint32_t i = 0; i < 30; i++)
		path_refresh();
	assert_in_range(asked, 1, 2);
	place[5] = 9;
	for (uint32_t i = 0; i < 30; i++)
		path_refresh();
	assert_int_equal(datagrams.moves, 1);
	assert_int_equal(datagrams.mac[5], 9);
	assert_int_equal(near.moves + far.moves, 0);
	known = false;
	for (uint32_t i = 0; i < 30; i++)
		path_refresh();
	assert_int_equal(datagrams.moves, 1);
	assert_in_range(asked, 3, 4);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_heard),        TEST(test_heard_while_reported),
		TEST(test_port_renamed), TEST(test_suspect),
		TEST(test_refresh),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
