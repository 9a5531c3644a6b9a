/* SPDX-License-Identifier: BSD-3-Clause */
/* When a known neighbour is queried again, when it is taken to have moved, and where gateways are. */
#include "fixture.h"

static const struct wire_addr peer = {{[10] = 0xff, 0xff, 192, 0, 2, 2}};
static const struct wire_addr own = {{[10] = 0xff, 0xff, 192, 0, 2, 1}};

/* A reply to us: the peer is at that MAC. */
static void
answer_from(struct fixture *f, const uint8_t mac[6], uint64_t now)
{
	uint8_t frame[64];

	neigh_input(f->neigh, 0, frame, arp_frame(frame, our_mac, 2, mac, peer, our_mac, own), now);
}

/* Lets another MAC claim to be the peer, and two queries to the known MAC go unanswered. */
static uint64_t
claim_and_silence(struct fixture *f, uint64_t now)
{
	answer_from(f, other_mac, now);
	for (int i = 0; i < 2; i++) {
		now = neigh_deadline(f->neigh);
		neigh_timeout(f->neigh, now);
	}
	return now;
}

/* Checks that no query is in progress. */
static void
assert_quiet(struct fixture *f)
{
	while (neigh_deadline(f->neigh) != NEIGH_NEVER) {
		uint32_t sent = f->sent;

		neigh_timeout(f->neigh, neigh_deadline(f->neigh));
		assert_int_equal(f->sent, sent);
	}
}

static void
assert_at(struct fixture *f, const uint8_t expected[6], uint64_t now)
{
	uint8_t mac[6];

	assert_int_equal(neigh_lookup(f->neigh, 0, &peer, now, mac), 0);
	assert_memory_equal(mac, expected, 6);
}

/* A claim that a neighbour moved counts only if the neighbour is silent. */
static void
test_silent_neighbour_moves(void **state)
{
	struct fixture *f = *state;
	uint64_t now;

	introduce(f, 2, peer_mac, SECOND);
	now = claim_and_silence(f, 2 * SECOND);
	answer_from(f, other_mac, now);
	assert_int_equal(f->changes, 1);
	assert_at(f, other_mac, now);
}

/* The neighbour answers no query, but the transport hears it: it stays, and the queries end. */
static void
test_heard_neighbour_stays(void **state)
{
	struct fixture *f = *state;
	uint64_t now;

	introduce(f, 2, peer_mac, SECOND);
	f->heard = true;
	now = claim_and_silence(f, 2 * SECOND);
	assert_int_equal(f->changes, 0);
	assert_at(f, peer_mac, now);
	assert_quiet(f);
}

/* The transport hears the neighbour only after the broadcast: it still stays. */
static void
test_heard_while_all_are_asked(void **state)
{
	struct fixture *f = *state;
	uint64_t now;

	introduce(f, 2, peer_mac, SECOND);
	now = claim_and_silence(f, 2 * SECOND);
	f->heard = true;
	answer_from(f, other_mac, now);
	assert_int_equal(f->changes, 0);
	assert_at(f, peer_mac, now);
}

/* In a flood, answers may be lost: the queries begin anew as long as frames are lost. */
static void
test_flood_moves_nobody(void **state)
{
	struct fixture *f = *state;
	uint64_t now = 2 * SECOND;

	introduce(f, 2, peer_mac, SECOND);
	answer_from(f, other_mac, now);
	for (int i = 0; i < 100; i++) {
		f->lost++;
		now = neigh_deadline(f->neigh);
		assert_int_not_equal(now, NEIGH_NEVER);
		neigh_timeout(f->neigh, now);
		answer_from(f, other_mac, now);
		assert_at(f, peer_mac, now);
	}
	assert_int_equal(f->changes, 0);
	/* The flood ends, and the neighbour answers from its known MAC. */
	answer_from(f, peer_mac, now);
	assert_quiet(f);
	assert_at(f, peer_mac, now);
}

/* A frame was lost after the broadcast. */
static void
test_loss_while_all_are_asked(void **state)
{
	struct fixture *f = *state;
	uint64_t now;

	introduce(f, 2, peer_mac, SECOND);
	now = claim_and_silence(f, 2 * SECOND);
	f->lost++;
	answer_from(f, other_mac, now);
	assert_int_equal(f->changes, 0);
	assert_at(f, peer_mac, now);
}

/* A switch may have learnt a wrong port for the peer. The peer's answer to a broadcast corrects it. */
static void
test_suspected_is_asked_by_broadcast(void **state)
{
	struct fixture *f = *state;
	uint64_t now = 2 * SECOND;

	introduce(f, 2, peer_mac, SECOND);
	f->sent = 0;
	neigh_suspect(f->neigh, 0, &peer, now);
	neigh_suspect(f->neigh, 0, &peer, now);
	assert_int_equal(f->sent, 1);
	assert_memory_equal(f->out[0].bytes, peer_mac, 6);
	now = neigh_deadline(f->neigh);
	assert_true(now <= 2 * SECOND + SECOND / 4);
	neigh_timeout(f->neigh, now);
	assert_int_equal(f->sent, 2);
	assert_memory_equal(f->out[1].bytes, everyone, 6);
	/* An answer from another MAC does not count before the peer had time to answer both queries. */
	answer_from(f, other_mac, now);
	assert_int_equal(f->changes, 0);
	answer_from(f, peer_mac, now);
	assert_quiet(f);
	assert_at(f, peer_mac, now);
	/* Suspecting again at once sends no query; a second later it does. */
	neigh_suspect(f->neigh, 0, &peer, now);
	assert_int_equal(f->sent, 2);
	neigh_suspect(f->neigh, 0, &peer, now + SECOND);
	assert_int_equal(f->sent, 3);
}

/* The MAC of a gateway changed without an announcement. */
static void
test_suspected_gateway_moves(void **state)
{
	struct fixture *f = *state;
	struct wire_addr far = v4(198, 51, 100, 7);
	uint8_t mac[6], frame[64];
	uint64_t now = 2 * SECOND;

	introduce(f, 254, peer_mac, SECOND);
	neigh_suspect(f->neigh, 0, &far, now);
	for (int i = 0; i < 2; i++) {
		now = neigh_deadline(f->neigh);
		neigh_timeout(f->neigh, now);
	}
	neigh_input(f->neigh, 0, frame,
		    arp_frame(frame, our_mac, 2, other_mac, v4(192, 0, 2, 254), our_mac, own), now);
	assert_int_equal(f->changes, 1);
	assert_int_equal(neigh_lookup(f->neigh, 0, &far, now, mac), 0);
	assert_memory_equal(mac, other_mac, 6);
}

/* A suspected host that is not known is queried by broadcast. */
static void
test_suspected_stranger_is_asked(void **state)
{
	struct fixture *f = *state;

	neigh_suspect(f->neigh, 0, &peer, SECOND);
	assert_int_equal(f->sent, 1);
	assert_memory_equal(f->out[0].bytes, everyone, 6);
	neigh_suspect(f->neigh, 0, &own, SECOND);
	assert_int_equal(f->sent, 1);
}

static void
use_gateway(struct fixture *f, struct wire_addr addr, uint8_t prefix, struct wire_addr gateway)
{
	struct neigh_port port = {.addr = addr, .prefix = prefix, .has_gateway = true, .gateway = gateway};

	memcpy(port.mac, our_mac, 6);
	neigh_free(f->neigh);
	f->neigh = neigh_new(&f->env, &port, 1);
	assert_non_null(f->neigh);
}

/* With a /32 address all other hosts are behind a gateway of another network. */
static void
test_gateway_of_another_network(void **state)
{
	struct fixture *f = *state;
	struct wire_addr us = v4(10, 0, 0, 5), gateway = v4(169, 254, 0, 1), far = v4(10, 0, 0, 6);
	uint8_t mac[6], frame[64];
	struct waiting a = {0};
	uint32_t len;

	use_gateway(f, us, 32, gateway);
	assert_int_equal(neigh_resolve(f->neigh, 0, &far, SECOND, mac, ME, waits(&a)), -EINPROGRESS);
	assert_memory_equal(f->out[0].bytes + 38, &gateway.gid[12], 4);
	neigh_input(f->neigh, 0, frame, arp_frame(frame, our_mac, 2, peer_mac, gateway, our_mac, us), SECOND);
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.status, 0);
	assert_memory_equal(a.mac, peer_mac, 6);
	/* The gateway sends a request for us, too, and is learnt from it. */
	len = arp_frame(frame, everyone, 1, peer_mac, gateway, (uint8_t[6]){0}, us);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->sent, 2);
	assert_int_equal(neigh_resolve(f->neigh, 0, &gateway, SECOND, mac, ME, NULL), 0);
	assert_memory_equal(mac, peer_mac, 6);
}

/* Routers that IPv6 hosts learn have link-local addresses. */
static void
test_link_local_gateway(void **state)
{
	struct fixture *f = *state;
	struct wire_addr us = v6(1, 1), gateway = {{0xfe, 0x80, [15] = 1}}, far = v6(2, 7), ll;
	struct waiting a = {0};
	uint8_t mac[6], frame[128];

	use_gateway(f, us, 64, gateway);
	assert_int_equal(neigh_resolve(f->neigh, 0, &far, SECOND, mac, ME, waits(&a)), -EINPROGRESS);
	assert_icmp6(&f->out[0]);
	assert_memory_equal(f->out[0].bytes + 62, gateway.gid, 16);
	memcpy(ll.gid, f->out[0].bytes + 22, 16); /* source of the query */
	neigh_input(f->neigh, 0, frame,
		    nd_frame(frame, our_mac, gateway, ll, 136, 0x60, gateway, 2, peer_mac), SECOND);
	assert_int_equal(a.calls, 1);
	assert_memory_equal(a.mac, peer_mac, 6);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_silent_neighbour_moves),     TEST(test_heard_neighbour_stays),
		TEST(test_heard_while_all_are_asked),  TEST(test_flood_moves_nobody),
		TEST(test_loss_while_all_are_asked),   TEST(test_suspected_is_asked_by_broadcast),
		TEST(test_suspected_gateway_moves),    TEST(test_suspected_stranger_is_asked),
		TEST(test_gateway_of_another_network), TEST(test_link_local_gateway),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
