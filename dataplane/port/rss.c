/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes a device's RSS: Toeplitz hash over addresses and UDP ports with the device's key, then its table.
 * Control thread only. */
#include "dataplane/port/rss.h"

#include <string.h>

#include <rte_ethdev.h>
#include <rte_thash.h>

#include "dataplane/base/compat.h"

#define FIRST_PORT 0xc000u
#define DRAWS_PER_QUEUE 16u /* probability that all draws miss: e^-16 */

static bool
read_key(uint16_t device, struct rss *rss, uint64_t *hashes)
{
	uint8_t key[128] = {0};
	struct rte_eth_rss_conf conf = {.rss_key = key, .rss_key_len = sizeof(key)};
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(device, &info) != 0 || info.hash_key_size < RSS_KEY_LEN ||
	    rte_eth_dev_rss_hash_conf_get(device, &conf) != 0 || !COMPAT_IS_TOEPLITZ(&conf))
		return false;
	memcpy(rss->key, key, sizeof(rss->key));
	*hashes = conf.rss_hf;
	rss->table = info.reta_size;
	return rss->table != 0 && rss->table <= RSS_TABLE_MAX && rte_is_power_of_2(rss->table);
}

static bool
read_table(uint16_t device, struct rss *rss)
{
	struct rte_eth_rss_reta_entry64 groups[RSS_TABLE_MAX / RTE_ETH_RETA_GROUP_SIZE] = {0};

	for (size_t i = 0; i < RTE_DIM(groups); i++)
		groups[i].mask = UINT64_MAX;
	if (rte_eth_dev_rss_reta_query(device, groups, rss->table) != 0)
		return false;
	for (uint16_t i = 0; i < rss->table; i++)
		rss->queue[i] = groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	return true;
}

void
rss_read(uint16_t device, struct rss *rss)
{
	uint64_t hashes;

	memset(rss, 0, sizeof(*rss));
	if (!read_key(device, rss, &hashes) || !read_table(device, rss))
		return;
	rss->v4 = (hashes & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0;
	rss->v6 = (hashes & RTE_ETH_RSS_NONFRAG_IPV6_UDP) != 0;
}

static uint32_t
fill_words(uint32_t *words, const uint8_t *bytes, uint32_t num)
{
	for (uint32_t i = 0; i < num; i++) {
		uint32_t word;

		memcpy(&word, bytes + 4 * i, sizeof(word));
		words[i] = rte_be_to_cpu_32(word);
	}
	return num;
}

uint16_t
rss_queue(const struct rss *rss, const struct wire_addr *src, const struct wire_addr *dst,
	  uint16_t udp_src_port)
{
	uint32_t at = wire_addr_is_v4(src) ? 12 : 0, words[9];
	uint32_t n = fill_words(words, src->gid + at, (16 - at) / 4);

	n += fill_words(words + n, dst->gid + at, (16 - at) / 4);
	words[n++] = (uint32_t)udp_src_port << 16 | WIRE_UDP_PORT;
	return rss->queue[rte_softrss(words, n, rss->key) & (rss->table - 1u)];
}

uint16_t
rss_draw_port(const struct rss *rss, const struct wire_addr *src, const struct wire_addr *dst, uint16_t queue,
	      uint64_t (*draw)(void))
{
	if (!(wire_addr_is_v4(src) ? rss->v4 : rss->v6))
		return 0;
	for (uint32_t i = 0; i < DRAWS_PER_QUEUE * rss->table; i++) {
		uint16_t port = (uint16_t)(FIRST_PORT | (draw() & ~FIRST_PORT & UINT16_MAX));

		if (rss_queue(rss, src, dst, port) == queue)
			return port;
	}
	return 0;
}
