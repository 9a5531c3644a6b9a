/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash of RSS against an implementation of its definition, and source ports chosen by the hash, on a
 * device that consists of these replacements of DPDK's functions. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

#include <rte_ethdev.h>

#include "dataplane/port/rss.h"
#include "dataplane/wire/bytes.h"

/* Microsoft's key, and an example of its verification suite. */
static const uint8_t key[RSS_KEY_LEN] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
					 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
					 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
					 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

static struct {
	uint64_t hashes;
	uint8_t key_len;
	uint16_t table, queues;
	bool no_table;
} device;

int
rte_eth_dev_info_get(uint16_t port_id, struct rte_eth_dev_info *info)
{
	memset(info, 0, sizeof(*info));
	info->hash_key_size = device.key_len;
	info->reta_size = device.table;
	return 0;
}

int
rte_eth_dev_rss_hash_conf_get(uint16_t port_id, struct rte_eth_rss_conf *conf)
{
	assert_true(conf->rss_key_len >= sizeof(key));
	memcpy(conf->rss_key, key, sizeof(key));
	conf->rss_hf = device.hashes;
	return 0;
}

int
rte_eth_dev_rss_reta_query(uint16_t port_id, struct rte_eth_rss_reta_entry64 *groups, uint16_t size)
{
	if (device.no_table)
		return -ENOTSUP;
	assert_int_equal(size, device.table);
	for (uint16_t i = 0; i < size; i++)
		if ((groups[i / 64].mask >> i % 64 & 1) != 0)
			groups[i / 64].reta[i % 64] = i % device.queues;
	return 0;
}

/* Follows the definition: for each bit set in the input, XORs the 32 bits of the key that begin at that bit's
 * position. */
static uint32_t
toeplitz(const uint8_t *input, size_t len)
{
	uint32_t sum = 0;

	for (size_t bit = 0; bit < 8 * len; bit++) {
		uint32_t window = 0;

		for (size_t i = bit; i < bit + 32; i++)
			window = window << 1 | (key[i / 8] >> (7 - i % 8) & 1);
		if ((input[bit / 8] >> (7 - bit % 8) & 1) != 0)
			sum ^= window;
	}
	return sum;
}

static void
test_definition(void **state)
{
	static const uint8_t input[] = {66,  9,  149,       187,         161,       142,
					100, 80, 2794 >> 8, 2794 & 0xff, 1766 >> 8, 1766 & 0xff};

	assert_int_equal(toeplitz(input, sizeof(input)), 0x51ccc178);
}

static uint32_t
expected_queue(const struct wire_addr *src, const struct wire_addr *dst, uint16_t port)
{
	size_t at = wire_addr_is_v4(src) ? 12 : 0, len = 16 - at;
	uint8_t input[36];

	memcpy(input, src->gid + at, len);
	memcpy(input + len, dst->gid + at, len);
	store_be16(input + 2 * len, port);
	store_be16(input + 2 * len + 2, 4791);
	return toeplitz(input, 2 * len + 4) % device.table % device.queues;
}

static uint64_t seed;

static uint64_t
draw(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 32;
}

static struct wire_addr
any_address(bool v4)
{
	struct wire_addr addr = {.gid = {[10] = 0xff, [11] = 0xff}};

	for (int i = v4 ? 12 : 0; i < 16; i++)
		addr.gid[i] = (uint8_t)draw();
	addr.gid[0] = v4 ? 0 : 0xfd;
	return addr;
}

static void
test_ports_lead_to_queues(void **state)
{
	struct rss rss;

	for (uint16_t queues = 2; queues <= 8; queues++) {
		device = (typeof(device)){.hashes =
						  RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP,
					  .key_len = 52,
					  .table = 128,
					  .queues = queues};
		rss_read(0, &rss);
		for (int i = 0; i < 200; i++) {
			struct wire_addr src = any_address(i % 2), dst = any_address(i % 2);
			uint16_t queue = (uint16_t)(i % queues);
			uint16_t port = rss_draw_port(&rss, &src, &dst, queue, draw);

			assert_in_range(port, 0xc000, 0xffff);
			assert_int_equal(expected_queue(&src, &dst, port), queue);
			assert_int_equal(rss_queue(&rss, &src, &dst, port), queue);
		}
	}
}

/* Ports vary as much as the queue allows, so that a host that knows the queue still has to guess the port. */
static void
test_ports_are_random(void **state)
{
	struct wire_addr src = any_address(true), dst = any_address(true);
	static bool seen[1 << 16];
	uint32_t different = 0;
	struct rss rss;

	device = (typeof(device)){
		.hashes = RTE_ETH_RSS_NONFRAG_IPV4_UDP, .key_len = 40, .table = 64, .queues = 2};
	rss_read(0, &rss);
	for (int i = 0; i < 100000; i++) {
		uint16_t port = rss_draw_port(&rss, &src, &dst, 1, draw);

		different += !seen[port];
		seen[port] = true;
	}
	assert_true(different > (1 << 14) / 2 * 9 / 10);
}

static void
expect_nothing(bool v4)
{
	struct wire_addr src = any_address(v4), dst = any_address(v4);
	struct rss rss;

	rss_read(0, &rss);
	assert_int_equal(rss_draw_port(&rss, &src, &dst, 0, draw), 0);
}

static void
test_unknown_hashes_name_nothing(void **state)
{
	const typeof(device) good = {
		.hashes = RTE_ETH_RSS_NONFRAG_IPV4_UDP, .key_len = 40, .table = 128, .queues = 2};
	struct wire_addr src = any_address(true), dst = any_address(true);
	struct rss rss;

	device = good;
	expect_nothing(false); /* IPv6 is hashed by addresses only */
	device.key_len = 16;
	expect_nothing(true);
	device = good;
	device.no_table = true;
	expect_nothing(true);
	device = good;
	device.table = 0;
	expect_nothing(true);
	device.table = 1024; /* a larger table than struct rss holds */
	expect_nothing(true);
	device.table = 96;
	expect_nothing(true);
	device = good;
	device.hashes = RTE_ETH_RSS_IPV4;
	expect_nothing(true);
	/* A queue that the table lacks ends the search. */
	device = good;
	rss_read(0, &rss);
	assert_int_equal(rss_draw_port(&rss, &src, &dst, 2, draw), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_definition),
		cmocka_unit_test(test_ports_lead_to_queues),
		cmocka_unit_test(test_ports_are_random),
		cmocka_unit_test(test_unknown_hashes_name_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
