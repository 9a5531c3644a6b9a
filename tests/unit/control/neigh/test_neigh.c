/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP and resolution: the bytes of answers, what is not answered, what is learnt, queries and their end. */
#include "fixture.h"

/* ---- ARP ---- */

static void
test_arp_request_is_answered(void **state)
{
	struct fixture *f = *state;
	uint8_t mac[6], expected[60];

	introduce(f, 2, peer_mac, SECOND);
	assert_int_equal(f->sent, 1);
	assert_int_equal(f->out[0].len, 60);
	arp_frame(expected, peer_mac, 2, our_mac, v4(192, 0, 2, 1), peer_mac, v4(192, 0, 2, 2));
	assert_memory_equal(f->out[0].bytes, expected, 60);
	/* a host that asks for us is known: no query is needed */
	struct wire_addr peer = v4(192, 0, 2, 2);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, NULL), 0);
	assert_memory_equal(mac, peer_mac, 6);
	assert_int_equal(f->sent, 1);
}

static void
test_arp_for_others_teaches_nothing(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[64], zero[6] = {0};
	uint32_t len = arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 2), zero, v4(192, 0, 2, 9));

	neigh_input(f->neigh, 0, frame, len, SECOND);
	/* an unrequested reply, and an announcement */
	len = arp_frame(frame, our_mac, 2, peer_mac, v4(192, 0, 2, 2), our_mac, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 2), zero, v4(192, 0, 2, 2));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	/* from a sender that cannot be on this link */
	len = arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 255), zero, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	/* on the IPv6 port */
	len = arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 2), zero, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(f->sent, 0);
	assert_int_equal(known(f), 0);
}

/* Linux may send a request (RFC 826) with an address of any of its interfaces (arp_announce = 0). */
static void
test_arp_from_another_network_is_answered(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[64], expected[60], zero[6] = {0};
	struct wire_addr far = v4(198, 51, 100, 2), loopback = v4(127, 0, 0, 1);
	uint32_t len = arp_frame(frame, everyone, 1, peer_mac, far, zero, v4(192, 0, 2, 1));

	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->sent, 1);
	arp_frame(expected, peer_mac, 2, our_mac, v4(192, 0, 2, 1), peer_mac, far);
	assert_memory_equal(f->out[0].bytes, expected, 60);
	assert_int_equal(known(f), 0);
	len = arp_frame(frame, everyone, 1, peer_mac, loopback, zero, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->sent, 1);
}

static void
test_arp_probe_is_answered_and_not_learnt(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[64], zero[6] = {0};
	uint32_t len = arp_frame(frame, everyone, 1, peer_mac, v4(0, 0, 0, 0), zero, v4(192, 0, 2, 1));

	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->sent, 1);
	assert_int_equal(known(f), 0);
}

static void
test_conflict_is_counted(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[64];
	uint32_t len =
		arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 1), (uint8_t[6]){0}, v4(192, 0, 2, 1));

	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(neigh_conflicts(f->neigh, 0)->count, 1);
	assert_memory_equal(neigh_conflicts(f->neigh, 0)->mac, peer_mac, 6);
	assert_int_equal(neigh_conflicts(f->neigh, 1)->count, 0);
	assert_int_equal(f->conflicts, 1);
	/* The address was ours before: it is defended once in ten seconds, and the conflict is reported as
	 * often. */
	assert_int_equal(f->sent, 1);
	assert_memory_equal(f->out[0].bytes + 28, ((uint8_t[]){192, 0, 2, 1}), 4);
	assert_memory_equal(f->out[0].bytes + 38, ((uint8_t[]){192, 0, 2, 1}), 4);
	neigh_input(f->neigh, 0, frame, len, 10 * SECOND);
	assert_int_equal(f->sent, 1);
	assert_int_equal(f->conflicts, 1);
	neigh_input(f->neigh, 0, frame, len, 11 * SECOND);
	assert_int_equal(f->sent, 2);
	assert_int_equal(f->conflicts, 2);
	assert_int_equal(neigh_conflicts(f->neigh, 0)->count, 3);
	/* our own announcement, reflected, is no conflict */
	memcpy(frame + 22, our_mac, 6);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(neigh_conflicts(f->neigh, 0)->count, 3);
	/* another process has counted before */
	neigh_conflicts_inherit(f->neigh, 0, &(struct neigh_conflicts){.count = 40});
	memcpy(frame + 22, peer_mac, 6);
	neigh_input(f->neigh, 0, frame, len, 12 * SECOND);
	assert_int_equal(neigh_conflicts(f->neigh, 0)->count, 41);
	assert_int_equal(neigh_conflicts(f->neigh, 1)->count, 0);
}

/* The kernel's end of a tap device has the MAC of our port, and still is a neighbour. */
static void
test_neighbour_with_our_mac(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[128], mac[6];
	struct wire_addr us = v6(1, 1), peer = v6(1, 2), group = group_of(us), all = {{0xff, 2, [15] = 1}};

	introduce(f, 2, our_mac, SECOND);
	assert_int_equal(f->sent, 1);
	group_mac(group, mac);
	uint32_t len = nd_frame(frame, mac, peer, group, 135, 0, us, 1, our_mac);
	memcpy(frame + 6, our_mac, 6);
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(f->sent, 2);
	assert_int_equal(known(f), 2);
	/* our own advertisement, reflected, is no conflict; another host's is one */
	len = nd_frame(frame, (uint8_t[]){0x33, 0x33, 0, 0, 0, 1}, us, all, 136, 0x20, us, 2, our_mac);
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(neigh_conflicts(f->neigh, 1)->count, 0);
	len = nd_frame(frame, (uint8_t[]){0x33, 0x33, 0, 0, 0, 1}, us, all, 136, 0x20, us, 2, peer_mac);
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(neigh_conflicts(f->neigh, 1)->count, 1);
}

/* Runs all timers until `until`. */
static void
run_until(struct fixture *f, uint64_t until)
{
	while (neigh_deadline(f->neigh) <= until)
		neigh_timeout(f->neigh, neigh_deadline(f->neigh));
}

/* RFC 5227: probes ask for the address without teaching other hosts; then it is announced twice. */
static void
test_announcement(void **state)
{
	static const uint8_t zero[6];
	struct fixture *f = *state;
	uint8_t probe[60], announcement[60];

	arp_frame(probe, everyone, 1, our_mac, v4(0, 0, 0, 0), zero, v4(192, 0, 2, 1));
	arp_frame(announcement, everyone, 1, our_mac, v4(192, 0, 2, 1), zero, v4(192, 0, 2, 1));
	neigh_announce(f->neigh, 0, SECOND);
	assert_int_equal(f->sent, 1);
	run_until(f, 10 * SECOND);
	assert_int_equal(f->sent, 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_memory_equal(f->out[i].bytes, i == 1 || i == 4 ? announcement : probe, 60);
	assert_int_equal(neigh_deadline(f->neigh), NEIGH_NEVER);
}

/* RFC 4862: a probe comes from the unspecified address, and has no option. */
static void
test_announcement_of_ipv6(void **state)
{
	struct fixture *f = *state;
	struct wire_addr us = v6(1, 1), group = group_of(us), zero = {{0}};
	uint8_t probe[128], mac[6];
	uint32_t len;

	group_mac(group, mac);
	len = nd_frame(probe, mac, zero, group, 135, 0, us, 0, our_mac);
	memcpy(probe + 6, our_mac, 6);
	neigh_announce(f->neigh, 1, SECOND);
	assert_int_equal(f->sent, 1);
	assert_int_equal(f->out[0].len, len);
	assert_memory_equal(f->out[0].bytes, probe, len);
	run_until(f, SECOND + SECOND / 4);
	assert_int_equal(f->sent, 2);
	assert_int_equal(f->out[1].port, 1);
	assert_icmp6(&f->out[1]);
	assert_int_equal(f->out[1].bytes[54], 136);
	assert_memory_equal(f->out[1].bytes, ((uint8_t[]){0x33, 0x33, 0, 0, 0, 1}), 6);
}

/* An address that another host already has stays with that host; the conflict is reported. */
static void
test_taken_address(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[64];
	uint32_t len = arp_frame(frame, our_mac, 2, peer_mac, v4(192, 0, 2, 1), our_mac, v4(0, 0, 0, 0));

	neigh_announce(f->neigh, 0, SECOND);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->conflicts, 1);
	f->sent = 0;
	run_until(f, 10 * SECOND);
	neigh_input(f->neigh, 0, frame, len, 60 * SECOND);
	for (uint32_t i = 0; i < f->sent; i++)
		assert_memory_equal(f->out[i].bytes + 28, ((uint8_t[4]){0}), 4);
	assert_int_equal(neigh_conflicts(f->neigh, 0)->count, 2);
	/* When the link comes up again, that host may have gone, so the address is probed again. */
	f->sent = 0;
	neigh_announce(f->neigh, 0, 100 * SECOND);
	run_until(f, 101 * SECOND);
	assert_memory_equal(f->out[1].bytes + 28, ((uint8_t[]){192, 0, 2, 1}), 4);
}

/* Two hosts claim one address at the same time. */
static void
test_simultaneous_probes(void **state)
{
	static const uint8_t zero[6];
	struct fixture *f = *state;
	uint8_t frame[128], mac[6];
	struct wire_addr us = v6(1, 1), group = group_of(us);
	uint32_t len = arp_frame(frame, everyone, 1, peer_mac, v4(0, 0, 0, 0), zero, v4(192, 0, 2, 1));

	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(neigh_conflicts(f->neigh, 0)->count, 0);
	neigh_announce(f->neigh, 0, SECOND);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(neigh_conflicts(f->neigh, 0)->count, 1);
	group_mac(group, mac);
	neigh_announce(f->neigh, 1, SECOND);
	len = nd_frame(frame, mac, (struct wire_addr){{0}}, group, 135, 0, us, 0, peer_mac);
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(neigh_conflicts(f->neigh, 1)->count, 1);
	/* Our own probe, reflected by a bridge, is no conflict. */
	memcpy(frame + 6, our_mac, 6);
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(neigh_conflicts(f->neigh, 1)->count, 1);
}

/* ---- resolution ---- */

static void
test_resolution(void **state)
{
	struct fixture *f = *state;
	struct waiting a = {0}, b = {0};
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint8_t mac[6], expected[60], frame[64];

	assert_int_equal(neigh_deadline(f->neigh), NEIGH_NEVER);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, waits(&a)), -EINPROGRESS);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, waits(&b)), -EINPROGRESS);
	assert_int_equal(f->sent, 1); /* one query for both */
	arp_frame(expected, everyone, 1, our_mac, v4(192, 0, 2, 1), (uint8_t[6]){0}, peer);
	assert_memory_equal(f->out[0].bytes, expected, 60);

	/* not the answer: on the wrong port; of another address; not for us */
	uint32_t len = arp_frame(frame, our_mac, 2, peer_mac, peer, our_mac, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 1, frame, len, SECOND);
	len = arp_frame(frame, our_mac, 2, peer_mac, v4(192, 0, 2, 3), our_mac, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = arp_frame(frame, everyone, 2, peer_mac, peer, our_mac, v4(192, 0, 2, 7));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(a.calls, 0);

	len = arp_frame(frame, our_mac, 2, peer_mac, peer, our_mac, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(a.calls, 1);
	assert_int_equal(b.calls, 1);
	assert_int_equal(a.status, 0);
	assert_memory_equal(a.mac, peer_mac, 6);
	neigh_timeout(f->neigh, 100 * SECOND);
	assert_int_equal(a.calls, 1);
	assert_int_equal(f->sent, 1);
	assert_int_equal(neigh_deadline(f->neigh), NEIGH_NEVER);
}

static void
test_resolution_fails_in_time(void **state)
{
	struct fixture *f = *state;
	struct waiting a = {0};
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint64_t now = SECOND;
	uint8_t mac[6];

	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, ME, waits(&a)), -EINPROGRESS);
	for (int i = 0; i < 20 && a.calls == 0; i++) {
		now = neigh_deadline(f->neigh);
		assert_true(now > SECOND && now != NEIGH_NEVER);
		neigh_timeout(f->neigh, now - 1); /* too early: nothing */
		neigh_timeout(f->neigh, now);
	}
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.status, -EHOSTUNREACH);
	assert_int_equal(f->sent, 5);
	assert_true(now - SECOND > 2 * SECOND && now - SECOND < 5 * SECOND);
	assert_int_equal(neigh_deadline(f->neigh), NEIGH_NEVER);
	assert_int_equal(known(f), 0);
	/* the host can be resolved again */
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, ME, waits(&a)), -EINPROGRESS);
	assert_int_equal(f->sent, 6);
}

static void
test_resolution_answered_by_a_request(void **state)
{
	struct fixture *f = *state;
	struct waiting a = {0};
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint8_t mac[6];

	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, waits(&a)), -EINPROGRESS);
	introduce(f, 2, peer_mac, SECOND);
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.status, 0);
}

static void
test_cancel(void **state)
{
	struct fixture *f = *state;
	struct waiting a = {0}, b = {0}, c = {0};
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint8_t mac[6];

	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, waits(&a)), -EINPROGRESS);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, waits(&b)), -EINPROGRESS);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, waits(&c)), -EINPROGRESS);
	neigh_cancel(&b.waiter);
	/* the waiter that is called first cancels the other one */
	a.cancel = &c;
	c.cancel = &a;
	introduce(f, 2, peer_mac, SECOND);
	assert_int_equal(b.calls, 0);
	assert_int_equal(a.calls + c.calls, 1);
}

/* neigh_lookup() sends no query. */
static void
test_lookup(void **state)
{
	struct fixture *f = *state;
	struct wire_addr peer = v4(192, 0, 2, 2), far6 = v6(9, 9);
	uint8_t mac[6], frame[64];

	assert_int_equal(neigh_lookup(f->neigh, 0, &peer, SECOND, mac), -ENOENT);
	assert_int_equal(neigh_lookup(f->neigh, 0, &far6, SECOND, mac), -ENETUNREACH);
	assert_int_equal(f->sent, 0);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, NULL), -EINPROGRESS);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, NULL), -EINPROGRESS);
	assert_int_equal(f->sent, 1);
	assert_int_equal(neigh_lookup(f->neigh, 0, &peer, SECOND, mac), -ENOENT);
	neigh_input(f->neigh, 0, frame,
		    arp_frame(frame, our_mac, 2, peer_mac, peer, our_mac, v4(192, 0, 2, 1)), SECOND);
	assert_int_equal(neigh_lookup(f->neigh, 0, &peer, SECOND, mac), 0);
	assert_memory_equal(mac, peer_mac, 6);
}

static uint32_t
reported_of(const struct waiting *many, uint32_t n)
{
	uint32_t reported = 0;

	for (uint32_t i = 0; i < n; i++)
		reported += many[i].calls;
	return reported;
}

/* Any number of waiters for one host cause one query, and all are called. */
static void
test_any_number_waits(void **state)
{
	static struct waiting many[20000];
	const uint32_t n = sizeof(many) / sizeof(many[0]);
	struct fixture *f = *state;
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint8_t mac[6];

	memset(many, 0, sizeof(many));
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, waits(&many[i])),
				 -EINPROGRESS);
	assert_int_equal(f->sent, 1);
	introduce(f, 2, peer_mac, SECOND);
	/* At most 64 waiters are called at a time, so that the caller can serve others. */
	for (uint32_t reported = reported_of(many, n), before = 0; reported < n;
	     before = reported, reported = reported_of(many, n)) {
		assert_in_range(reported - before, 1, 64);
		assert_true(neigh_deadline(f->neigh) <= SECOND);
		neigh_timeout(f->neigh, SECOND);
	}
	for (uint32_t i = 0; i < n; i++)
		assert_true(many[i].calls == 1 && many[i].status == 0);
	neigh_timeout(f->neigh, SECOND);
	assert_true(neigh_deadline(f->neigh) > SECOND);
}

static void
test_next_hops(void **state)
{
	struct fixture *f = *state;
	struct wire_addr far = v4(198, 51, 100, 7), own = v4(192, 0, 2, 1), own6 = v6(1, 1), far6 = v6(2, 7);
	struct wire_addr bad[] = {v4(224, 0, 0, 1),
				  v4(255, 255, 255, 255),
				  v4(192, 0, 2, 255),
				  v4(192, 0, 2, 0),
				  v4(0, 0, 0, 0),
				  v4(127, 0, 0, 1),
				  {{0}},
				  {{[15] = 1}},
				  {{0xff, 2, [15] = 1}}};
	uint8_t mac[6];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(neigh_resolve(f->neigh, 0, &bad[i], SECOND, mac, ME, NULL), -EINVAL);
	assert_int_equal(neigh_resolve(f->neigh, 7, &far, SECOND, mac, ME, NULL), -EINVAL);
	/* our own addresses, from either port */
	assert_int_equal(neigh_resolve(f->neigh, 1, &own, SECOND, mac, ME, NULL), 0);
	assert_memory_equal(mac, our_mac, 6);
	assert_int_equal(neigh_resolve(f->neigh, 0, &own6, SECOND, mac, ME, NULL), 0);
	/* no gateway; the wrong family */
	assert_int_equal(neigh_resolve(f->neigh, 1, &far6, SECOND, mac, ME, NULL), -ENETUNREACH);
	assert_int_equal(neigh_resolve(f->neigh, 0, &far6, SECOND, mac, ME, NULL), -ENETUNREACH);
	assert_int_equal(neigh_resolve(f->neigh, 1, &far, SECOND, mac, ME, NULL), -ENETUNREACH);
	assert_int_equal(f->sent, 0);
	/* a host behind the gateway: the gateway's address is queried */
	assert_int_equal(neigh_resolve(f->neigh, 0, &far, SECOND, mac, ME, NULL), -EINPROGRESS);
	assert_memory_equal(f->out[0].bytes + 38, ((uint8_t[]){192, 0, 2, 254}), 4);
	introduce(f, 254, other_mac, SECOND);
	assert_int_equal(neigh_resolve(f->neigh, 0, &far, SECOND, mac, ME, NULL), 0);
	assert_memory_equal(mac, other_mac, 6);
}

/* A port with two IPv4 and two IPv6 addresses, routes, and a gateway behind the second address. */
static struct neigh *
with_addresses(struct fixture *f)
{
	static struct neigh_port addrs[4];

	addrs[0] = (struct neigh_port){.port = 3, .addr = v4(10, 0, 0, 1), .prefix = 8};
	addrs[1] = (struct neigh_port){.port = 3,
				       .addr = v4(192, 0, 2, 1),
				       .prefix = 24,
				       .has_gateway = true,
				       .gateway = v4(192, 0, 2, 254),
				       .num_routes = 1,
				       .route = {{v4(10, 1, 0, 0), v4(192, 0, 2, 253), 16}}};
	addrs[2] = (struct neigh_port){.port = 3,
				       .addr = v6(1, 1),
				       .prefix = 64,
				       .num_routes = 1,
				       .route = {{v6(7, 0), v6(1, 9), 64}}};
	addrs[3] = (struct neigh_port){.port = 3, .addr = v6(9, 1), .prefix = 96};
	for (int i = 0; i < 4; i++)
		memcpy(addrs[i].mac, our_mac, 6);
	return neigh_new(&f->env, addrs, 4);
}

static void
test_several_addresses(void **state)
{
	struct fixture *f = *state;
	struct neigh *neigh = with_addresses(f);
	const struct {
		struct wire_addr dst, src, hop;
		int bits;
	} ways[] = {
		{v4(10, 2, 0, 5), v4(10, 0, 0, 1), v4(10, 2, 0, 5), 8},
		{v4(10, 1, 0, 5), v4(192, 0, 2, 1), v4(192, 0, 2, 253), 16},
		{v4(192, 0, 2, 7), v4(192, 0, 2, 1), v4(192, 0, 2, 7), 24},
		{v4(203, 0, 113, 5), v4(192, 0, 2, 1), v4(192, 0, 2, 254), 0},
		{v6(1, 5), v6(1, 1), v6(1, 5), 64},
		{v6(7, 5), v6(1, 1), v6(1, 9), 64},
	};
	struct wire_addr src, hop, own = v4(192, 0, 2, 1), nowhere = v6(8, 1), first6 = v6(1, 1);
	struct wire_addr link_local = {{0xfe, 0x80, [15] = 5}};
	uint8_t mac[6], frame[64];

	assert_non_null(neigh);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		assert_int_equal(neigh_source(neigh, 3, &ways[i].dst, &src), ways[i].bits);
		assert_memory_equal(&src, &ways[i].src, sizeof(src));
		assert_int_equal(neigh_hop(neigh, 3, &ways[i].dst, &hop), 0);
		assert_memory_equal(&hop, &ways[i].hop, sizeof(hop));
	}
	/* The source for a link-local address does not depend on prefix lengths. */
	assert_int_equal(neigh_source(neigh, 3, &link_local, &src), 64);
	assert_memory_equal(&src, &first6, sizeof(src));
	assert_int_equal(neigh_source(neigh, 3, &nowhere, &src), -ENETUNREACH);
	assert_int_equal(neigh_source(neigh, 0, &own, &src), -EINVAL);
	assert_int_equal(neigh_resolve(neigh, 3, &own, SECOND, mac, ME, NULL), 0);

	/* The query's source is the address on the neighbour's link. */
	f->sent = 0;
	assert_int_equal(neigh_resolve(neigh, 3, &ways[2].dst, SECOND, mac, ME, NULL), -EINPROGRESS);
	assert_int_equal(f->out[0].port, 3);
	assert_memory_equal(f->out[0].bytes + 28, ((uint8_t[]){192, 0, 2, 1}), 4);
	/* Each own address is answered for once, and no other address is. */
	for (uint8_t last = 1; last <= 2; last++) {
		f->sent = 0;
		arp_frame(frame, our_mac, 1, peer_mac, v4(10, 9, 9, 9), our_mac, v4(10, 0, 0, last));
		neigh_input(neigh, 3, frame, 60, SECOND);
		assert_int_equal(f->sent, last == 1 ? 1 : 0);
	}
	f->sent = 0;
	arp_frame(frame, our_mac, 1, peer_mac, v4(192, 0, 2, 9), our_mac, own);
	neigh_input(neigh, 3, frame, 60, SECOND);
	assert_int_equal(f->sent, 1);
	assert_memory_equal(f->out[0].bytes + 28, ((uint8_t[]){192, 0, 2, 1}), 4);
	/* A host that sends with one of our addresses is not learnt. */
	arp_frame(frame, our_mac, 1, peer_mac, v4(10, 0, 0, 1), our_mac, own);
	neigh_input(neigh, 3, frame, 60, SECOND);
	assert_int_equal(neigh_resolve(neigh, 3, &ways[0].src, SECOND, mac, ME, NULL), 0);
	assert_memory_equal(mac, our_mac, 6);
	neigh_free(neigh);
}

/* Announcements, conflicts and MAC changes cover all addresses of a port, and of no other port. */
static void
test_claims_of_several_addresses(void **state)
{
	static const uint8_t zero[6], new_mac[6] = {2, 0, 0, 0, 0, 9};
	struct fixture *f = *state;
	struct neigh *neigh = with_addresses(f);
	uint8_t frame[64];

	assert_non_null(neigh);
	f->sent = 0;
	neigh_announce(neigh, 3, SECOND);
	assert_int_equal(f->sent, 4);
	for (uint32_t i = 0; i < 2; i++) {
		const struct wire_addr own = i == 0 ? v4(10, 0, 0, 1) : v4(192, 0, 2, 1);

		arp_frame(frame, everyone, 1, our_mac, v4(0, 0, 0, 0), zero, own);
		assert_int_equal(f->out[i].port, 3);
		assert_memory_equal(f->out[i].bytes, frame, 60);
	}
	/* The second address is taken by another host: only the others are announced. */
	arp_frame(frame, our_mac, 2, peer_mac, v4(192, 0, 2, 1), our_mac, v4(0, 0, 0, 0));
	neigh_input(neigh, 3, frame, 60, SECOND);
	f->sent = 0;
	neigh_timeout(neigh, SECOND + SECOND / 4);
	assert_int_equal(f->sent, 3);
	assert_memory_equal(f->out[0].bytes + 28, ((uint8_t[]){10, 0, 0, 1}), 4);
	/* Conflicts are counted for the port, and reported for each address. */
	arp_frame(frame, our_mac, 2, other_mac, v4(10, 0, 0, 1), our_mac, v4(0, 0, 0, 0));
	neigh_input(neigh, 3, frame, 60, 2 * SECOND);
	assert_int_equal(f->conflicts, 2);
	assert_int_equal(neigh_conflicts(neigh, 3)->count, 2);
	assert_memory_equal(neigh_conflicts(neigh, 3)->mac, other_mac, 6);

	neigh_set_mac(neigh, 3, new_mac);
	f->sent = 0;
	neigh_announce(neigh, 3, 10 * SECOND);
	assert_int_equal(f->sent, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_memory_equal(f->out[i].bytes + 6, new_mac, 6);
	f->sent = 0;
	neigh_announce(neigh, 0, 10 * SECOND);
	assert_int_equal(f->sent, 0);
	neigh_free(neigh);
}

/* A neighbour of the second address can be suspected. Routers may be outside all prefixes. */
static void
test_suspects_and_routers_of_several_addresses(void **state)
{
	struct fixture *f = *state;
	struct neigh_port addrs[2] = {
		{.port = 3,
		 .addr = v4(10, 0, 0, 5),
		 .prefix = 32,
		 .has_gateway = true,
		 .gateway = v4(169, 254, 0, 1),
		 .num_routes = 1,
		 .route = {{v4(198, 51, 100, 0), v4(169, 254, 0, 2), 24}}},
		{.port = 3, .addr = v4(192, 0, 2, 1), .prefix = 24},
	};
	const struct wire_addr far[] = {v4(203, 0, 113, 5), v4(198, 51, 100, 5), v4(192, 0, 2, 7)};
	const struct wire_addr hops[] = {v4(169, 254, 0, 1), v4(169, 254, 0, 2), v4(192, 0, 2, 7)};
	uint8_t mac[6], frame[64];
	struct neigh *neigh;

	memcpy(addrs[0].mac, our_mac, 6);
	memcpy(addrs[1].mac, our_mac, 6);
	neigh = neigh_new(&f->env, addrs, 2);
	assert_non_null(neigh);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(neigh_resolve(neigh, 3, &far[i], SECOND, mac, ME, NULL), -EINPROGRESS);
		arp_frame(frame, our_mac, 2, peer_mac, hops[i], our_mac, addrs[i / 2].addr);
		neigh_input(neigh, 3, frame, 60, SECOND);
		assert_int_equal(neigh_resolve(neigh, 3, &far[i], SECOND, mac, ME, NULL), 0);
		assert_memory_equal(mac, peer_mac, 6);
		f->sent = 0;
		neigh_suspect(neigh, 3, &far[i], 9 * SECOND);
		assert_int_equal(f->sent, 1);
		assert_memory_equal(f->out[0].bytes + 38, hops[i].gid + 12, 4);
	}
	neigh_free(neigh);
}

static void
test_stale_is_used_and_asked(void **state)
{
	struct fixture *f = *state;
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint8_t mac[6], frame[64];
	uint64_t now = 40 * SECOND;

	introduce(f, 2, peer_mac, SECOND);
	f->sent = 0;
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, ME, NULL), 0);
	assert_int_equal(f->sent, 1);
	assert_memory_equal(f->out[0].bytes, peer_mac, 6); /* sent to the neighbour only */
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, ME, NULL), 0);
	assert_int_equal(f->sent, 1);
	/* an answer from another MAC, which was not queried */
	uint32_t len = arp_frame(frame, our_mac, 2, other_mac, peer, our_mac, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, now);
	assert_int_equal(f->changes, 0);
	/* then a broadcast is sent, and the change is reported */
	for (int i = 0; i < 2; i++)
		neigh_timeout(f->neigh, now = neigh_deadline(f->neigh));
	assert_memory_equal(f->out[2].bytes, everyone, 6);
	neigh_input(f->neigh, 0, frame, len, now);
	assert_int_equal(f->changes, 1);
	assert_memory_equal(f->changed_mac, other_mac, 6);
	/* without answers the neighbour is forgotten, after a broadcast */
	now += 40 * SECOND;
	f->sent = 0;
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, ME, NULL), 0);
	assert_memory_equal(mac, other_mac, 6);
	while (neigh_deadline(f->neigh) != NEIGH_NEVER)
		neigh_timeout(f->neigh, neigh_deadline(f->neigh));
	assert_int_equal(f->sent, 5);
	assert_memory_equal(f->out[1].bytes, other_mac, 6);
	assert_memory_equal(f->out[2].bytes, everyone, 6);
	assert_int_equal(known(f), 0);
}

/* A request in a neighbour's name from another MAC is answered, and changes nothing while the neighbour
 * answers. */
static void
test_request_from_another_place(void **state)
{
	struct fixture *f = *state;
	struct wire_addr peer = v4(192, 0, 2, 2), own = v4(192, 0, 2, 1);
	uint8_t mac[6], forged[64], lie[64], truth[64];
	uint32_t len = arp_frame(forged, our_mac, 1, other_mac, peer, (uint8_t[6]){0}, own);

	arp_frame(lie, our_mac, 2, other_mac, peer, our_mac, own);
	arp_frame(truth, our_mac, 2, peer_mac, peer, our_mac, own);
	introduce(f, 2, peer_mac, SECOND);
	f->sent = 0;
	neigh_input(f->neigh, 0, forged, len, SECOND);
	assert_int_equal(f->sent, 2);
	assert_memory_equal(f->out[0].bytes, other_mac, 6); /* the answer */
	assert_memory_equal(f->out[1].bytes, peer_mac, 6);  /* the query */
	for (int i = 0; i < 10; i++) {
		neigh_input(f->neigh, 0, forged, len, SECOND);
		neigh_input(f->neigh, 0, lie, len, SECOND);
	}
	assert_int_equal(f->changes, 0);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, NULL), 0);
	assert_memory_equal(mac, peer_mac, 6);
	neigh_input(f->neigh, 0, truth, len, SECOND);
	neigh_timeout(f->neigh, 2 * SECOND);
	assert_int_equal(neigh_deadline(f->neigh), NEIGH_NEVER);
	assert_int_equal(f->changes, 0);
	/* The neighbour no longer answers: the host that has its address now replaces it soon. */
	neigh_input(f->neigh, 0, forged, len, 3 * SECOND);
	neigh_timeout(f->neigh, 3 * SECOND + SECOND / 5);
	neigh_timeout(f->neigh, 3 * SECOND + SECOND * 7 / 10);
	neigh_input(f->neigh, 0, forged, len, 4 * SECOND);
	assert_int_equal(f->changes, 1);
	assert_memory_equal(f->changed_mac, other_mac, 6);
}

static void
test_gratuitous_makes_us_ask(void **state)
{
	struct fixture *f = *state;
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint8_t mac[6], frame[64];

	introduce(f, 2, peer_mac, SECOND);
	f->sent = 0;
	uint32_t len = arp_frame(frame, everyone, 1, other_mac, peer, (uint8_t[6]){0}, peer);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->sent, 1); /* one query for any number of announcements */
	assert_int_equal(f->changes, 0);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, ME, NULL), 0);
	assert_memory_equal(mac, peer_mac, 6);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_arp_request_is_answered),
		TEST(test_arp_for_others_teaches_nothing),
		TEST(test_arp_from_another_network_is_answered),
		TEST(test_arp_probe_is_answered_and_not_learnt),
		TEST(test_conflict_is_counted),
		TEST(test_neighbour_with_our_mac),
		TEST(test_announcement),
		TEST(test_announcement_of_ipv6),
		TEST(test_taken_address),
		TEST(test_simultaneous_probes),
		TEST(test_resolution),
		TEST(test_resolution_fails_in_time),
		TEST(test_resolution_answered_by_a_request),
		TEST(test_cancel),
		TEST(test_lookup),
		TEST(test_any_number_waits),
		TEST(test_next_hops),
		TEST(test_several_addresses),
		TEST(test_claims_of_several_addresses),
		TEST(test_suspects_and_routers_of_several_addresses),
		TEST(test_stale_is_used_and_asked),
		TEST(test_request_from_another_place),
		TEST(test_gratuitous_makes_us_ask),
	};

	return cmocka_run_group_tests_name("neigh", tests, NULL, NULL);
}
