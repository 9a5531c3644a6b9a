/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours: what is answered and with which bytes, what is learnt and what is
 * not, queries and their end, limits, and malformed frames of every length.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/neigh.h"

#define SECOND 1000000000ull
#define OUT_MAX 64

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1}, peer_mac[6] = {2, 0, 0, 0, 0, 2},
		     other_mac[6] = {2, 0, 0, 0, 0, 3}, everyone[6] = {255, 255, 255, 255, 255, 255};

struct out {
	uint16_t port;
	uint32_t len;
	uint8_t bytes[NEIGH_FRAME_MAX];
};

struct fixture {
	struct neigh_env env;
	struct neigh *neigh;
	struct out out[OUT_MAX];
	uint32_t sent; /* all; the first OUT_MAX are kept */
	uint32_t changes;
	uint8_t changed_mac[6];
};

struct waiting {
	struct neigh *neigh;
	int calls, status;
	uint8_t mac[6];
	void *cancel; /* another to cancel from within */
};

static void
on_send(struct neigh_env *env, uint16_t port, const uint8_t *frame, uint32_t len)
{
	struct fixture *f = (struct fixture *)(void *)env;
	assert_true(len >= 60 && len <= NEIGH_FRAME_MAX);
	if (f->sent < OUT_MAX) {
		f->out[f->sent].port = port;
		f->out[f->sent].len = len;
		memcpy(f->out[f->sent].bytes, frame, len);
	}
	f->sent++;
}

static void
on_changed(struct neigh_env *env, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6])
{
	struct fixture *f = (struct fixture *)(void *)env;
	(void)port;
	(void)addr;
	f->changes++;
	memcpy(f->changed_mac, mac, 6);
}

static void
on_done(void *user, int status, const uint8_t mac[6])
{
	struct waiting *w = user;
	if (w == NULL)
		return; /* nobody looks */
	w->calls++;
	w->status = status;
	memcpy(w->mac, mac, 6);
	if (w->cancel != NULL)
		neigh_cancel(w->neigh, w->cancel);
}

static struct wire_addr
v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (struct wire_addr){{[10] = 0xff, 0xff, a, b, c, d}};
}

static struct wire_addr
v6(uint8_t net, uint8_t last)
{
	return (struct wire_addr){{0x20, 1, 0x0d, 0xb8, 0, 0, 0, net, [15] = last}};
}

/* Port 0 is IPv4 192.0.2.1/24 with a gateway, port 1 IPv6 2001:db8:0:1::1/64 without. */
static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct neigh_port ports[2] = {
		{.addr = v4(192, 0, 2, 1), .prefix = 24, .has_gateway = true, .gateway = v4(192, 0, 2, 254)},
		{.addr = v6(1, 1), .prefix = 64},
	};
	assert_non_null(f);
	memcpy(ports[0].mac, our_mac, 6);
	memcpy(ports[1].mac, our_mac, 6);
	f->env.send = on_send;
	f->env.changed = on_changed;
	f->neigh = neigh_new(&f->env, ports, 2);
	assert_non_null(f->neigh);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;
	neigh_free(f->neigh);
	free(f);
	return 0;
}

/* ---- frames, built independently of the code under test ---- */

static uint32_t
arp_frame(uint8_t *frame, const uint8_t dst[6], uint16_t op, const uint8_t sha[6], struct wire_addr spa,
	  const uint8_t tha[6], struct wire_addr tpa)
{
	const uint8_t fixed[] = {0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, (uint8_t)op};
	memset(frame, 0, 60);
	memcpy(frame, dst, 6);
	memcpy(frame + 6, sha, 6);
	memcpy(frame + 12, fixed, sizeof(fixed));
	memcpy(frame + 22, sha, 6);
	memcpy(frame + 28, &spa.gid[12], 4);
	memcpy(frame + 32, tha, 6);
	memcpy(frame + 38, &tpa.gid[12], 4);
	return 60;
}

static uint16_t
checksum(const uint8_t *data, uint32_t len, uint64_t sum)
{
	for (uint32_t i = 0; i < len; i++)
		sum += (i & 1) ? data[i] : (uint64_t)data[i] << 8;
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void
store16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint32_t
echo4(uint8_t *frame, struct wire_addr src, struct wire_addr dst, uint32_t data)
{
	memset(frame, 0, 42);
	memcpy(frame, our_mac, 6);
	memcpy(frame + 6, peer_mac, 6);
	frame[12] = 8;
	uint8_t *ip = frame + 14, *icmp = ip + 20;
	ip[0] = 0x45;
	ip[1] = 0xbb; /* DSCP 46, ECN 3 */
	store16(ip + 2, (uint16_t)(28 + data));
	ip[5] = 77;
	ip[8] = 3;
	ip[9] = 1;
	memcpy(ip + 12, &src.gid[12], 4);
	memcpy(ip + 16, &dst.gid[12], 4);
	store16(ip + 10, checksum(ip, 20, 0));
	icmp[0] = 8;
	store16(icmp + 4, 0x1234);
	store16(icmp + 6, 0x5678);
	for (uint32_t i = 0; i < data; i++)
		icmp[8 + i] = (uint8_t)(i * 7 + 1);
	store16(icmp + 2, checksum(icmp, 8 + data, 0));
	return 42 + data;
}

static uint32_t
icmp6_frame(uint8_t *frame, const uint8_t dst_mac[6], struct wire_addr src, struct wire_addr dst,
	    uint8_t hops, const uint8_t *icmp, uint32_t len)
{
	memset(frame, 0, 54);
	memcpy(frame, dst_mac, 6);
	memcpy(frame + 6, peer_mac, 6);
	store16(frame + 12, 0x86dd);
	uint8_t *ip = frame + 14;
	ip[0] = 0x60;
	store16(ip + 4, (uint16_t)len);
	ip[6] = 58;
	ip[7] = hops;
	memcpy(ip + 8, src.gid, 16);
	memcpy(ip + 24, dst.gid, 16);
	memcpy(ip + 40, icmp, len);
	store16(ip + 42, 0);
	uint64_t pseudo = 58 + len;
	for (uint32_t i = 8; i < 40; i += 2)
		pseudo += (uint64_t)(ip[i] << 8 | ip[i + 1]);
	store16(ip + 42, checksum(ip + 40, len, pseudo));
	return 54 + len;
}

/* A solicitation or advertisement; option type 0: none. */
static uint32_t
nd_frame(uint8_t *frame, const uint8_t dst_mac[6], struct wire_addr src, struct wire_addr dst, uint8_t type,
	 uint8_t flags, struct wire_addr target, uint8_t option, const uint8_t mac[6])
{
	uint8_t icmp[32] = {type, 0, 0, 0, flags};
	memcpy(icmp + 8, target.gid, 16);
	icmp[24] = option;
	icmp[25] = 1;
	memcpy(icmp + 26, mac, 6);
	return icmp6_frame(frame, dst_mac, src, dst, 255, icmp, option != 0 ? 32 : 24);
}

static struct wire_addr
group_of(struct wire_addr addr)
{
	return (struct wire_addr){{0xff, 2, [11] = 1, 0xff, addr.gid[13], addr.gid[14], addr.gid[15]}};
}

static void
group_mac(struct wire_addr group, uint8_t mac[6])
{
	mac[0] = mac[1] = 0x33;
	memcpy(mac + 2, &group.gid[12], 4);
}

static void
assert_icmp6(const struct out *out)
{
	const uint8_t *ip = out->bytes + 14;
	uint32_t len = (uint32_t)(ip[4] << 8 | ip[5]);
	uint64_t pseudo = 58 + len;
	assert_int_equal(out->len, 54 + len);
	for (uint32_t i = 8; i < 40; i += 2)
		pseudo += (uint64_t)(ip[i] << 8 | ip[i + 1]);
	assert_int_equal(checksum(ip + 40, len, pseudo), 0);
}

static uint32_t
known(struct fixture *f)
{
	struct neigh_info info;
	uint32_t count = 0;
	for (uint32_t i = 0; i < NEIGH_ENTRIES; i++)
		count += neigh_get(f->neigh, i, 0, &info);
	return count;
}

/* The peer asks for us: it is answered and known. */
static void
introduce(struct fixture *f, uint8_t host, const uint8_t mac[6], uint64_t now)
{
	uint8_t frame[64];
	uint32_t len =
		arp_frame(frame, everyone, 1, mac, v4(192, 0, 2, host), (uint8_t[6]){0}, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, now);
}

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
	/* who asks us is known: no query is needed */
	struct wire_addr peer = v4(192, 0, 2, 2);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, on_done, NULL), 0);
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
	/* a reply nobody asked for, and an announcement */
	len = arp_frame(frame, our_mac, 2, peer_mac, v4(192, 0, 2, 2), our_mac, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 2), zero, v4(192, 0, 2, 2));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	/* from a sender that cannot be on this link */
	len = arp_frame(frame, everyone, 1, peer_mac, v4(198, 51, 100, 2), zero, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 255), zero, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, SECOND);
	/* on the IPv6 port */
	len = arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 2), zero, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(f->sent, 0);
	assert_int_equal(known(f), 0);
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
	assert_int_equal(neigh_stats(f->neigh)->conflicts, 1);
	assert_int_equal(f->sent, 0);
	/* our own announcement that comes back is none */
	memcpy(frame + 22, our_mac, 6);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(neigh_stats(f->neigh)->conflicts, 1);
}

/* The kernel's end of a tap device has the MAC of ours, and is a neighbour all the same. */
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
	/* our own advertisement that comes back is no conflict; another's is one */
	len = nd_frame(frame, (uint8_t[]){0x33, 0x33, 0, 0, 0, 1}, us, all, 136, 0x20, us, 2, our_mac);
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(neigh_stats(f->neigh)->conflicts, 0);
	len = nd_frame(frame, (uint8_t[]){0x33, 0x33, 0, 0, 0, 1}, us, all, 136, 0x20, us, 2, peer_mac);
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(neigh_stats(f->neigh)->conflicts, 1);
}

static void
test_announcement(void **state)
{
	struct fixture *f = *state;
	uint8_t expected[60];

	neigh_announce(f->neigh, SECOND);
	assert_int_equal(f->sent, 2);
	arp_frame(expected, everyone, 1, our_mac, v4(192, 0, 2, 1), (uint8_t[6]){0}, v4(192, 0, 2, 1));
	assert_memory_equal(f->out[0].bytes, expected, 60);
	assert_int_equal(f->out[1].port, 1);
	assert_icmp6(&f->out[1]);
	assert_int_equal(f->out[1].bytes[54], 136);
	assert_memory_equal(f->out[1].bytes, ((uint8_t[]){0x33, 0x33, 0, 0, 0, 1}), 6);
}

/* ---- resolution ---- */

static void
test_resolution(void **state)
{
	struct fixture *f = *state;
	struct waiting a = {.neigh = f->neigh}, b = {.neigh = f->neigh};
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint8_t mac[6], expected[60], frame[64];

	assert_int_equal(neigh_deadline(f->neigh), NEIGH_NEVER);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, on_done, &a), -EINPROGRESS);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, on_done, &b), -EINPROGRESS);
	assert_int_equal(f->sent, 1); /* one query for both */
	arp_frame(expected, everyone, 1, our_mac, v4(192, 0, 2, 1), (uint8_t[6]){0}, peer);
	assert_memory_equal(f->out[0].bytes, expected, 60);

	/* an answer on the wrong port, from another address, or not to us is none */
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
	struct waiting a = {.neigh = f->neigh};
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint64_t now = SECOND;
	uint8_t mac[6];

	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, on_done, &a), -EINPROGRESS);
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
	/* and may be tried again */
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, on_done, &a), -EINPROGRESS);
	assert_int_equal(f->sent, 6);
}

static void
test_resolution_answered_by_a_request(void **state)
{
	struct fixture *f = *state;
	struct waiting a = {.neigh = f->neigh};
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint8_t mac[6];

	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, on_done, &a), -EINPROGRESS);
	introduce(f, 2, peer_mac, SECOND);
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.status, 0);
}

static void
test_cancel(void **state)
{
	struct fixture *f = *state;
	struct waiting a = {.neigh = f->neigh}, b = {.neigh = f->neigh}, c = {.neigh = f->neigh};
	struct wire_addr peer = v4(192, 0, 2, 2);
	uint8_t mac[6];

	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, on_done, &a), -EINPROGRESS);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, on_done, &b), -EINPROGRESS);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, on_done, &c), -EINPROGRESS);
	neigh_cancel(f->neigh, &b);
	/* whichever of the two is called first cancels the other, from within the call */
	a.cancel = &c;
	c.cancel = &a;
	introduce(f, 2, peer_mac, SECOND);
	assert_int_equal(b.calls, 0);
	assert_int_equal(a.calls + c.calls, 1);
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
		assert_int_equal(neigh_resolve(f->neigh, 0, &bad[i], SECOND, mac, on_done, NULL), -EINVAL);
	assert_int_equal(neigh_resolve(f->neigh, 7, &far, SECOND, mac, on_done, NULL), -EINVAL);
	/* ourselves, from either port */
	assert_int_equal(neigh_resolve(f->neigh, 1, &own, SECOND, mac, on_done, NULL), 0);
	assert_memory_equal(mac, our_mac, 6);
	assert_int_equal(neigh_resolve(f->neigh, 0, &own6, SECOND, mac, on_done, NULL), 0);
	/* no gateway; the wrong family */
	assert_int_equal(neigh_resolve(f->neigh, 1, &far6, SECOND, mac, on_done, NULL), -ENETUNREACH);
	assert_int_equal(neigh_resolve(f->neigh, 0, &far6, SECOND, mac, on_done, NULL), -ENETUNREACH);
	assert_int_equal(neigh_resolve(f->neigh, 1, &far, SECOND, mac, on_done, NULL), -ENETUNREACH);
	assert_int_equal(f->sent, 0);
	/* through the gateway, which is asked for by its own address */
	assert_int_equal(neigh_resolve(f->neigh, 0, &far, SECOND, mac, on_done, NULL), -EINPROGRESS);
	assert_memory_equal(f->out[0].bytes + 38, ((uint8_t[]){192, 0, 2, 254}), 4);
	introduce(f, 254, other_mac, SECOND);
	assert_int_equal(neigh_resolve(f->neigh, 0, &far, SECOND, mac, on_done, NULL), 0);
	assert_memory_equal(mac, other_mac, 6);
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
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, on_done, NULL), 0);
	assert_int_equal(f->sent, 1);
	assert_memory_equal(f->out[0].bytes, peer_mac, 6); /* only it is asked */
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, on_done, NULL), 0);
	assert_int_equal(f->sent, 1);
	/* another one answers: the change is told */
	uint32_t len = arp_frame(frame, our_mac, 2, other_mac, peer, our_mac, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, now);
	assert_int_equal(f->changes, 1);
	assert_memory_equal(f->changed_mac, other_mac, 6);
	/* nobody answers: it is forgotten, after everyone was asked */
	now += 40 * SECOND;
	f->sent = 0;
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, now, mac, on_done, NULL), 0);
	assert_memory_equal(mac, other_mac, 6);
	while (neigh_deadline(f->neigh) != NEIGH_NEVER)
		neigh_timeout(f->neigh, neigh_deadline(f->neigh));
	assert_int_equal(f->sent, 5);
	assert_memory_equal(f->out[1].bytes, other_mac, 6);
	assert_memory_equal(f->out[2].bytes, everyone, 6);
	assert_int_equal(known(f), 0);
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
	assert_int_equal(f->sent, 1); /* one query, whatever the number of announcements */
	assert_int_equal(f->changes, 0);
	assert_int_equal(neigh_resolve(f->neigh, 0, &peer, SECOND, mac, on_done, NULL), 0);
	assert_memory_equal(mac, peer_mac, 6);
}

/* ---- neighbour discovery ---- */

static void
test_nd_solicitation_is_answered(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[128], mac[6];
	struct wire_addr us = v6(1, 1), peer = v6(1, 2), group = group_of(us);

	group_mac(group, mac);
	neigh_input(f->neigh, 1, frame, nd_frame(frame, mac, peer, group, 135, 0, us, 1, peer_mac), SECOND);
	assert_int_equal(f->sent, 1);
	assert_icmp6(&f->out[0]);
	uint8_t expected[128];
	uint32_t len = nd_frame(expected, peer_mac, us, peer, 136, 0x60, us, 2, our_mac);
	memcpy(expected + 6, our_mac, 6);
	assert_int_equal(f->out[0].len, len);
	assert_memory_equal(f->out[0].bytes, expected, len);
	assert_int_equal(neigh_resolve(f->neigh, 1, &peer, SECOND, mac, on_done, NULL), 0);
	assert_memory_equal(mac, peer_mac, 6);

	/* Our link-local address is ours too. */
	struct wire_addr ll = {{0xfe, 0x80, [8] = 0, 0, 0, 0xff, 0xfe, 0, 0, 1}};
	struct wire_addr peer_ll = {{0xfe, 0x80, [15] = 9}};
	neigh_input(f->neigh, 1, frame, nd_frame(frame, our_mac, peer_ll, ll, 135, 0, ll, 1, peer_mac),
		    SECOND);
	assert_int_equal(f->sent, 2);
}

static void
test_nd_what_is_not_answered(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[128], icmp[40], mac[6];
	struct wire_addr us = v6(1, 1), peer = v6(1, 2), group = group_of(us), zero = {{0}};

	group_mac(group, mac);
	/* for another; from off the link; wrong group; probe with an option; on the IPv4 port */
	neigh_input(f->neigh, 1, frame, nd_frame(frame, mac, peer, group, 135, 0, v6(1, 3), 1, peer_mac),
		    SECOND);
	neigh_input(f->neigh, 1, frame, nd_frame(frame, mac, v6(2, 2), group, 135, 0, us, 1, peer_mac),
		    SECOND);
	neigh_input(f->neigh, 1, frame, nd_frame(frame, mac, peer, group_of(peer), 135, 0, us, 1, peer_mac),
		    SECOND);
	neigh_input(f->neigh, 1, frame, nd_frame(frame, mac, zero, group, 135, 0, us, 1, peer_mac), SECOND);
	neigh_input(f->neigh, 0, frame, nd_frame(frame, mac, peer, group, 135, 0, us, 1, peer_mac), SECOND);
	/* routed (hop limit), code, multicast target, bad checksum */
	uint32_t len = nd_frame(frame, mac, peer, group, 135, 0, us, 1, peer_mac);
	memcpy(icmp, frame + 54, 32);
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, mac, peer, group, 254, icmp, 32), SECOND);
	icmp[1] = 1;
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, mac, peer, group, 255, icmp, 32), SECOND);
	icmp[1] = 0;
	/* options: of length zero, beyond the end, with a multicast MAC */
	icmp[25] = 0;
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, mac, peer, group, 255, icmp, 32), SECOND);
	icmp[25] = 2;
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, mac, peer, group, 255, icmp, 32), SECOND);
	icmp[25] = 1;
	icmp[26] = 0x33;
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, mac, peer, group, 255, icmp, 32), SECOND);
	assert_int_equal(neigh_stats(f->neigh)->malformed, 5);
	nd_frame(frame, mac, peer, group_of(us), 135, 0, us, 1, peer_mac);
	frame[60] ^= 1;
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(neigh_stats(f->neigh)->malformed, 6);
	assert_int_equal(f->sent, 0);
	assert_int_equal(known(f), 0);
}

static void
test_nd_duplicate_detection(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[128], mac[6];
	struct wire_addr us = v6(1, 1), group = group_of(us), zero = {{0}};

	group_mac(group, mac);
	neigh_input(f->neigh, 1, frame, nd_frame(frame, mac, zero, group, 135, 0, us, 0, peer_mac), SECOND);
	assert_int_equal(f->sent, 1);
	assert_icmp6(&f->out[0]);
	assert_memory_equal(f->out[0].bytes, ((uint8_t[]){0x33, 0x33, 0, 0, 0, 1}), 6);
	assert_int_equal(f->out[0].bytes[58], 0x20); /* override, not solicited */
	assert_int_equal(known(f), 0);
}

static void
test_nd_resolution(void **state)
{
	struct fixture *f = *state;
	struct waiting a = {.neigh = f->neigh};
	struct wire_addr us = v6(1, 1), peer = v6(1, 2), group = group_of(peer);
	uint8_t frame[128], mac[6], expected[128];

	assert_int_equal(neigh_resolve(f->neigh, 1, &peer, SECOND, mac, on_done, &a), -EINPROGRESS);
	assert_int_equal(f->sent, 1);
	group_mac(group, mac);
	uint32_t len = nd_frame(expected, mac, us, group, 135, 0, peer, 1, our_mac);
	memcpy(expected + 6, our_mac, 6);
	assert_int_equal(f->out[0].len, len);
	assert_memory_equal(f->out[0].bytes, expected, len);
	/* unsolicited, for another target, for us: not the answer */
	const struct wire_addr all = {{0xff, 2, [15] = 1}};
	neigh_input(f->neigh, 1, frame, nd_frame(frame, our_mac, peer, us, 136, 0x20, peer, 2, peer_mac),
		    SECOND);
	neigh_input(f->neigh, 1, frame, nd_frame(frame, our_mac, peer, us, 136, 0x60, v6(1, 3), 2, peer_mac),
		    SECOND);
	neigh_input(
		f->neigh, 1, frame,
		nd_frame(frame, (uint8_t[]){0x33, 0x33, 0, 0, 0, 1}, peer, all, 136, 0x60, peer, 2, peer_mac),
		SECOND);
	assert_int_equal(a.calls, 0);
	neigh_input(f->neigh, 1, frame, nd_frame(frame, our_mac, peer, us, 136, 0x60, peer, 2, peer_mac),
		    SECOND);
	assert_int_equal(a.calls, 1);
	assert_memory_equal(a.mac, peer_mac, 6);
}

/* ---- echo ---- */

static void
test_echo(void **state)
{
	struct fixture *f = *state;
	static uint8_t frame[NEIGH_FRAME_MAX + 64];
	uint32_t sizes[] = {0, 1, 56, 57, 1472, 4096, NEIGH_FRAME_MAX - 42};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t len = echo4(frame, v4(198, 51, 100, 9), v4(192, 0, 2, 1), sizes[i]);
		neigh_input(f->neigh, 0, frame, len, SECOND);
		assert_int_equal(f->sent, i + 1);
		const struct out *out = &f->out[i];
		const uint8_t *ip = out->bytes + 14;
		assert_int_equal(out->len, len < 60 ? 60 : len);
		assert_memory_equal(out->bytes, peer_mac, 6);
		assert_memory_equal(out->bytes + 6, our_mac, 6);
		assert_int_equal(checksum(ip, 20, 0), 0);
		assert_int_equal(checksum(ip + 20, 8 + sizes[i], 0), 0);
		assert_int_equal(ip[1], 0xb8);
		assert_memory_equal(ip + 12, ((uint8_t[]){192, 0, 2, 1, 198, 51, 100, 9}), 8);
		assert_int_equal(ip[20], 0);
		assert_memory_equal(ip + 24, frame + 38, 4 + sizes[i]);
	}
	assert_int_equal(known(f), 0); /* a ping teaches nothing */
	uint32_t len = echo4(frame, v4(198, 51, 100, 9), v4(192, 0, 2, 1), NEIGH_FRAME_MAX - 41);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->sent, sizeof(sizes) / sizeof(sizes[0]));
}

static void
fix_ip(uint8_t *frame)
{
	store16(frame + 24, 0);
	store16(frame + 24, checksum(frame + 14, 20, 0));
}

static void
test_echo_not_answered(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[256];
	uint32_t len;
	struct wire_addr us = v4(192, 0, 2, 1), peer = v4(192, 0, 2, 2);
	struct wire_addr sources[] = {us, v4(0, 0, 0, 0), v4(127, 0, 0, 1), v4(224, 0, 0, 1),
				      v4(255, 255, 255, 255)};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		len = echo4(frame, sources[i], us, 56);
		neigh_input(f->neigh, 0, frame, len, SECOND);
	}
	len = echo4(frame, peer, v4(192, 0, 2, 255), 56); /* broadcast: no amplifier */
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56);
	memset(frame, 0xff, 6);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56); /* another station's frame */
	memcpy(frame, other_mac, 6);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56); /* from a group */
	frame[6] = 1;
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56); /* a fragment */
	frame[20] = 0x20;
	fix_ip(frame);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56); /* a later fragment */
	frame[21] = 4;
	fix_ip(frame);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56); /* checksums */
	frame[24] ^= 1;
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56);
	frame[50] ^= 1;
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56); /* a reply */
	frame[34] = 0;
	frame[36] += 8;
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56); /* longer than the frame */
	store16(frame + 16, 100);
	fix_ip(frame);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	len = echo4(frame, peer, us, 56); /* options */
	frame[14] = 0x46;
	fix_ip(frame);
	neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->sent, 0);
}

static void
test_echo6(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[256], icmp[101] = {128, 0, 0, 0, 1, 2, 3, 4};
	struct wire_addr us = v6(1, 1), far = v6(9, 9), all = {{0xff, 2, [15] = 1}},
			 group = {{0xff, 5, [15] = 7}};

	for (size_t i = 8; i < sizeof(icmp); i++)
		icmp[i] = (uint8_t)i;
	uint32_t len = icmp6_frame(frame, our_mac, far, us, 60, icmp, sizeof(icmp));
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(f->sent, 1);
	assert_icmp6(&f->out[0]);
	assert_int_equal(f->out[0].bytes[54], 129);
	assert_memory_equal(f->out[0].bytes + 22, us.gid, 16);
	assert_memory_equal(f->out[0].bytes + 38, far.gid, 16);
	assert_memory_equal(f->out[0].bytes + 58, icmp + 4, sizeof(icmp) - 4);

	neigh_input(f->neigh, 1, frame,
		    icmp6_frame(frame, (uint8_t[]){0x33, 0x33, 0, 0, 0, 1}, far, all, 60, icmp, sizeof(icmp)),
		    SECOND);
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, our_mac, group, us, 60, icmp, sizeof(icmp)),
		    SECOND);
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, our_mac, us, us, 60, icmp, sizeof(icmp)), SECOND);
	neigh_input(f->neigh, 0, frame, icmp6_frame(frame, our_mac, far, us, 60, icmp, sizeof(icmp)), SECOND);
	assert_int_equal(f->sent, 1);
}

/* ---- limits ---- */

static void
test_replies_are_limited(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[128];
	uint32_t len = echo4(frame, v4(192, 0, 2, 2), v4(192, 0, 2, 1), 10);

	for (int i = 0; i < 5000; i++)
		introduce(f, 2, peer_mac, SECOND);
	assert_int_equal(f->sent, 100);
	for (int i = 0; i < 5000; i++)
		neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->sent, 1100);
	assert_int_equal(neigh_stats(f->neigh)->rate_limited, 4900 + 4000);
	introduce(f, 2, peer_mac, 2 * SECOND); /* and go on later */
	assert_int_equal(f->sent, 1101);
}

static void
test_table_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct neigh_port wide = {.addr = v4(10, 0, 0, 1), .prefix = 8};
	uint8_t mac[6], frame[64];
	struct wire_addr friend = v4(10, 200, 0, 1);
	uint64_t now = SECOND;

	memcpy(wide.mac, our_mac, 6);
	neigh_free(f->neigh);
	f->neigh = neigh_new(&f->env, &wide, 1);
	assert_non_null(f->neigh);

	/* More strangers than places ask us, slowly enough to be answered: those in use stay. */
	for (uint32_t i = 0; i < NEIGH_ENTRIES + 500; i++) {
		struct wire_addr stranger = v4(10, 1, (uint8_t)(i >> 8), (uint8_t)i);
		uint32_t len = arp_frame(frame, everyone, 1, peer_mac, stranger, (uint8_t[6]){0}, wide.addr);
		now += SECOND / 1000;
		neigh_input(f->neigh, 0, frame, len, now);
	}
	assert_int_equal(known(f), NEIGH_ENTRIES);
	assert_int_equal(f->sent, NEIGH_ENTRIES + 500);
	/* a resolution of ours takes the place of the one longest unused */
	assert_int_equal(neigh_resolve(f->neigh, 0, &friend, now, mac, on_done, NULL), -EINPROGRESS);
	assert_int_equal(known(f), NEIGH_ENTRIES);
	/* waiters are bounded too, and so is what waits in the table */
	uint32_t waiting = 1;
	int ret = -EINPROGRESS;
	for (uint32_t i = 0; i < NEIGH_ENTRIES + 500 && ret == -EINPROGRESS; i++) {
		struct wire_addr next = v4(10, 2, (uint8_t)(i >> 8), (uint8_t)(i & 0xff));
		ret = neigh_resolve(f->neigh, 0, &next, now, mac, on_done, f);
		waiting += ret == -EINPROGRESS;
	}
	/* 10.2.0.0 and so on are hosts of 10/8: all could wait */
	assert_int_equal(ret, -ENOBUFS);
	assert_int_equal(waiting, NEIGH_WAITERS);
	assert_true(neigh_stats(f->neigh)->queries <= 101);
	neigh_cancel(f->neigh, f);
	neigh_cancel(f->neigh, NULL);
	while (neigh_deadline(f->neigh) != NEIGH_NEVER)
		neigh_timeout(f->neigh, neigh_deadline(f->neigh));
	assert_int_equal(known(f), 0);
}

/* ---- hostile frames ---- */

/* In memory of exactly their length, so that the sanitizer sees a byte too far. */
static void
input_exact(struct fixture *f, uint16_t port, const uint8_t *frame, uint32_t len, uint64_t now)
{
	uint8_t *exact = malloc(len > 0 ? len : 1);
	assert_non_null(exact);
	memcpy(exact, frame, len);
	neigh_input(f->neigh, port, exact, len, now);
	free(exact);
}

static void
test_every_length(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[4][256], mac[6];
	uint32_t len[4], needed[4] = {42, 14 + 28 + 56, 54 + 32, 54 + 60};
	struct wire_addr us = v6(1, 1), peer = v6(1, 2), group = group_of(us);
	uint8_t icmp[60] = {128};
	uint64_t now = SECOND;

	group_mac(group, mac);
	len[0] = arp_frame(frame[0], everyone, 1, peer_mac, v4(192, 0, 2, 2), (uint8_t[6]){0},
			   v4(192, 0, 2, 1));
	len[1] = echo4(frame[1], v4(192, 0, 2, 2), v4(192, 0, 2, 1), 56);
	len[2] = nd_frame(frame[2], mac, peer, group, 135, 0, us, 1, peer_mac);
	len[3] = icmp6_frame(frame[3], our_mac, peer, us, 64, icmp, sizeof(icmp));
	for (int kind = 0; kind < 4; kind++) {
		for (uint32_t i = 0; i <= len[kind]; i++) {
			uint32_t before = f->sent;
			now += SECOND;
			input_exact(f, kind / 2, frame[kind], i, now);
			assert_int_equal(f->sent - before, i >= needed[kind] ? 1 : 0);
		}
	}
}

static void
test_every_byte(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[256], mac[6];
	struct wire_addr us = v6(1, 1), peer = v6(1, 2), group = group_of(us);
	uint64_t now = SECOND;

	group_mac(group, mac);
	for (int kind = 0; kind < 4; kind++) {
		uint32_t len = 0;
		for (uint32_t i = 0; i < 98; i++) {
			for (uint32_t value = 0; value < 256; value += i < 60 ? 1 : 17) {
				uint8_t icmp[60] = {128};
				if (kind == 0)
					len = arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 2),
							(uint8_t[6]){0}, v4(192, 0, 2, 1));
				else if (kind == 1)
					len = echo4(frame, v4(192, 0, 2, 2), v4(192, 0, 2, 1), 56);
				else if (kind == 2)
					len = nd_frame(frame, mac, peer, group, 135, 0, us, 1, peer_mac);
				else
					len = icmp6_frame(frame, our_mac, peer, us, 64, icmp, sizeof(icmp));
				if (i >= len)
					continue;
				frame[i] = (uint8_t)value;
				/* with right checksums, so that what is behind them is reached */
				if (kind == 1)
					fix_ip(frame);
				if (kind >= 2 && (i < 54 || i > 57)) {
					memcpy(icmp, frame + 54, len - 54);
					struct wire_addr src, dst;
					memcpy(src.gid, frame + 22, 16);
					memcpy(dst.gid, frame + 38, 16);
					uint8_t copy[256];
					memcpy(copy, frame, 54);
					icmp6_frame(frame, copy, src, dst, copy[21], icmp, len - 54);
					memcpy(frame, copy, 54);
				}
				now += SECOND;
				uint32_t before = f->sent;
				input_exact(f, kind / 2, frame, len, now);
				assert_true(f->sent - before <= 1);
			}
		}
	}
	assert_true(neigh_stats(f->neigh)->malformed > 1000);
}

static void
test_random_frames(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[160];
	uint64_t random = 88172645463325252ull, now = SECOND;
	static const uint16_t types[] = {0x0806, 0x0800, 0x86dd, 0x8100};

	for (int i = 0; i < 200000; i++) {
		for (size_t j = 0; j < sizeof(frame); j++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			frame[j] = (uint8_t)random;
		}
		memcpy(frame, our_mac, 6);
		frame[6] &= 0xfe;
		store16(frame + 12, types[random & 3]);
		if ((random & 3) == 1)
			frame[14] = 0x45;
		now += SECOND / 100;
		input_exact(f, (uint16_t)((random >> 8) % 3), frame,
			    (uint32_t)((random >> 16) % sizeof(frame)), now);
		neigh_timeout(f->neigh, now);
	}
	assert_int_equal(f->sent, 0);
	assert_int_equal(known(f), 0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_arp_request_is_answered),
		TEST(test_arp_for_others_teaches_nothing),
		TEST(test_arp_probe_is_answered_and_not_learnt),
		TEST(test_conflict_is_counted),
		TEST(test_neighbour_with_our_mac),
		TEST(test_announcement),
		TEST(test_resolution),
		TEST(test_resolution_fails_in_time),
		TEST(test_resolution_answered_by_a_request),
		TEST(test_cancel),
		TEST(test_next_hops),
		TEST(test_stale_is_used_and_asked),
		TEST(test_gratuitous_makes_us_ask),
		TEST(test_nd_solicitation_is_answered),
		TEST(test_nd_what_is_not_answered),
		TEST(test_nd_duplicate_detection),
		TEST(test_nd_resolution),
		TEST(test_echo),
		TEST(test_echo_not_answered),
		TEST(test_echo6),
		TEST(test_replies_are_limited),
		TEST(test_table_is_bounded),
		TEST(test_every_length),
		TEST(test_every_byte),
		TEST(test_random_frames),
	};
	return cmocka_run_group_tests_name("neigh", tests, NULL, NULL);
}
