/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour discovery and echo: the bytes of answers, what is not answered, and what is learnt. */
#include "fixture.h"

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
	assert_int_equal(neigh_resolve(f->neigh, 1, &peer, SECOND, mac, ME, NULL), 0);
	assert_memory_equal(mac, peer_mac, 6);

	/* Our link-local address is answered for, too. */
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
	/* for another; from ourselves; wrong group; probe with an option; on the IPv4 port */
	neigh_input(f->neigh, 1, frame, nd_frame(frame, mac, peer, group, 135, 0, v6(1, 3), 1, peer_mac),
		    SECOND);
	neigh_input(f->neigh, 1, frame, nd_frame(frame, mac, us, group, 135, 0, us, 1, peer_mac), SECOND);
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
	/* options: of length zero; beyond the end */
	icmp[25] = 0;
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, mac, peer, group, 255, icmp, 32), SECOND);
	icmp[25] = 2;
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, mac, peer, group, 255, icmp, 32), SECOND);
	icmp[25] = 1;
	icmp[26] = 0x33;
	neigh_input(f->neigh, 1, frame, icmp6_frame(frame, mac, peer, group, 255, icmp, 32), SECOND);
	assert_int_equal(f->neigh->stats.malformed, 5);
	nd_frame(frame, mac, peer, group_of(us), 135, 0, us, 1, peer_mac);
	frame[60] ^= 1;
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(f->neigh->stats.malformed, 6);
	assert_int_equal(f->sent, 0);
	assert_int_equal(known(f), 0);
}

/* A host may ask with an address of another network. Frames to that address use the gateway, so nothing is
 * learnt. */
static void
test_nd_from_another_network_is_answered(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[128], mac[6];
	struct wire_addr us = v6(1, 1), far = v6(2, 2), group = group_of(us);

	group_mac(group, mac);
	neigh_input(f->neigh, 1, frame, nd_frame(frame, mac, far, group, 135, 0, us, 1, peer_mac), SECOND);
	assert_int_equal(f->sent, 1);
	assert_icmp6(&f->out[0]);
	assert_memory_equal(f->out[0].bytes, peer_mac, 6);
	assert_memory_equal(f->out[0].bytes + 38, far.gid, 16);
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
	assert_int_equal(f->out[0].bytes[58], 0x20); /* flags: override, not solicited */
	assert_int_equal(known(f), 0);
}

static void
test_nd_resolution(void **state)
{
	struct fixture *f = *state;
	struct waiting a = {0};
	struct wire_addr us = v6(1, 1), peer = v6(1, 2), group = group_of(peer);
	uint8_t frame[128], mac[6], expected[128];

	assert_int_equal(neigh_resolve(f->neigh, 1, &peer, SECOND, mac, ME, waits(&a)), -EINPROGRESS);
	assert_int_equal(f->sent, 1);
	group_mac(group, mac);
	uint32_t len = nd_frame(expected, mac, us, group, 135, 0, peer, 1, our_mac);
	memcpy(expected + 6, our_mac, 6);
	assert_int_equal(f->out[0].len, len);
	assert_memory_equal(f->out[0].bytes, expected, len);
	/* not the answer: unsolicited; for another target; sent to all nodes */
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

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_nd_solicitation_is_answered),
		TEST(test_nd_what_is_not_answered),
		TEST(test_nd_from_another_network_is_answered),
		TEST(test_nd_duplicate_detection),
		TEST(test_nd_resolution),
		TEST(test_echo),
		TEST(test_echo_not_answered),
		TEST(test_echo6),
	};

	return cmocka_run_group_tests_name("nd", tests, NULL, NULL);
}
