/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of routers that a packet was too big count only if they quote one of our packets, at a limited
 * rate. */
#include "fixture.h"

#define UDP 17
#define QUOTE_MAX 64u

static struct {
	uint32_t reports, mtu;
	uint16_t port, udp_src_port;
	struct wire_addr dst;
} seen;

static void
on_too_big(struct neigh_env *env, uint16_t port, const struct wire_addr *dst, uint16_t udp_src_port,
	   uint32_t mtu)
{
	(void)env;
	seen.reports++;
	seen.port = port;
	seen.dst = *dst;
	seen.udp_src_port = udp_src_port;
	seen.mtu = mtu;
}

/* Builds the beginning of a packet from UDP port 0xc123. */
static uint32_t
quote4(uint8_t *at, struct wire_addr src, struct wire_addr dst, uint8_t protocol, uint16_t udp_port)
{
	memset(at, 0, 28);
	at[0] = 0x45;
	at[9] = protocol;
	memcpy(at + 12, &src.gid[12], 4);
	memcpy(at + 16, &dst.gid[12], 4);
	store16(at + 20, 0xc123);
	store16(at + 22, udp_port);
	return 28;
}

static void
report4(struct fixture *f, const uint8_t *quoted, uint32_t len, uint16_t mtu, uint64_t now)
{
	uint8_t frame[256], *icmp = frame + 34;
	uint32_t frame_len = echo4(frame, v4(192, 0, 2, 254), v4(192, 0, 2, 1), len);

	icmp[0] = 3;
	icmp[1] = 4;
	store16(icmp + 2, 0);
	store16(icmp + 4, 0);
	store16(icmp + 6, mtu);
	memcpy(icmp + 8, quoted, len);
	store16(icmp + 2, checksum(icmp, 8 + len, 0));
	neigh_input(f->neigh, 0, frame, frame_len, now);
}

static void
test_ipv4(void **state)
{
	struct fixture *f = *state;
	struct wire_addr us = v4(192, 0, 2, 1), far = v4(10, 9, 8, 7);
	uint8_t quoted[QUOTE_MAX];
	uint32_t len;

	f->env.too_big = on_too_big;
	memset(&seen, 0, sizeof(seen));
	len = quote4(quoted, us, far, UDP, 4791);
	report4(f, quoted, len, 1500, SECOND);
	assert_int_equal(seen.reports, 1);
	assert_int_equal(seen.mtu, 1500);
	assert_int_equal(seen.port, 0);
	assert_int_equal(seen.udp_src_port, 0xc123);
	assert_true(wire_addr_equal(&seen.dst, &far));

	/* Quotes that are truncated, of another host, of another protocol, or of another service. */
	for (uint32_t cut = 0; cut < len; cut++)
		report4(f, quoted, cut, 1500, SECOND);
	report4(f, quoted, quote4(quoted, far, us, UDP, 4791), 1500, SECOND);
	report4(f, quoted, quote4(quoted, us, far, 6, 4791), 1500, SECOND);
	report4(f, quoted, quote4(quoted, us, far, UDP, 4790), 1500, SECOND);
	assert_int_equal(seen.reports, 1);
	assert_int_equal(f->sent, 0);

	len = quote4(quoted, us, far, UDP, 4791);
	for (int i = 0; i < 1000; i++)
		report4(f, quoted, len, 1500, 5 * SECOND);
	assert_in_range(seen.reports, 2, 21);
}

static void
test_ipv6(void **state)
{
	struct fixture *f = *state;
	struct wire_addr us = v6(1, 1), far = v6(9, 7);
	uint8_t frame[256], icmp[8 + 48] = {2, 0, 0, 0, 0, 0, 0x05, 0xdc}, *quoted = icmp + 8;
	uint32_t len;

	f->env.too_big = on_too_big;
	memset(&seen, 0, sizeof(seen));
	quoted[0] = 0x60;
	quoted[6] = UDP;
	memcpy(quoted + 8, us.gid, 16);
	memcpy(quoted + 24, far.gid, 16);
	store16(quoted + 40, 0xc123);
	store16(quoted + 42, 4791);
	len = icmp6_frame(frame, our_mac, v6(1, 0xfe), us, 64, icmp, sizeof(icmp));
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(seen.reports, 1);
	assert_int_equal(seen.mtu, 1500);
	assert_int_equal(seen.port, 1);
	assert_true(wire_addr_equal(&seen.dst, &far));

	memcpy(quoted + 8, far.gid, 16);
	len = icmp6_frame(frame, our_mac, v6(1, 0xfe), us, 64, icmp, sizeof(icmp));
	neigh_input(f->neigh, 1, frame, len, SECOND);
	assert_int_equal(seen.reports, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ipv4, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ipv6, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
