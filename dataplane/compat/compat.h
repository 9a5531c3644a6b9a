/* SPDX-License-Identifier: BSD-3-Clause */
/* What releases of DPDK from 22.11 on name or declare differently. */
#ifndef DATAPLANE_COMPAT_H
#define DATAPLANE_COMPAT_H

#include <stdint.h>

#include <rte_net_crc.h>
#include <rte_version.h>

/* The key of a bond's members among its arguments. */
#if RTE_VERSION < RTE_VERSION_NUM(23, 11, 0, 0)
#define COMPAT_BOND_MEMBER "slave"
#else
#define COMPAT_BOND_MEMBER "member"
#endif

/* The name from 23.03 on. */
#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)
#define rte_tel_data_add_dict_uint rte_tel_data_add_dict_u64
#endif

/*
 * CRC-32 of Ethernet.  From 25.03 on the choice of code lives in EAL's memory:
 * where EAL does not run (simulator, unit tests) there is none, and bits are
 * taken one by one.
 */
struct compat_crc {
	struct rte_net_crc *context;
};

#if RTE_VERSION < RTE_VERSION_NUM(25, 3, 0, 0)
static inline void
compat_crc_init(struct compat_crc *crc, enum rte_net_crc_alg alg)
{
	crc->context = NULL;
	rte_net_crc_set_alg(alg);
}

static inline uint32_t
compat_crc_calc(const struct compat_crc *crc, const void *data, uint32_t len)
{
	(void)crc;
	return rte_net_crc_calc(data, len, RTE_NET_CRC32_ETH);
}
#else
static inline void
compat_crc_init(struct compat_crc *crc, enum rte_net_crc_alg alg)
{
	rte_net_crc_free(crc->context);
	crc->context = rte_net_crc_set_alg(alg, RTE_NET_CRC32_ETH);
}

static inline uint32_t
compat_crc_calc(const struct compat_crc *crc, const void *data, uint32_t len)
{
	const uint8_t *at = data;
	uint32_t sum = UINT32_MAX;

	if (crc->context != NULL)
		return rte_net_crc_calc(crc->context, data, len);
	for (uint32_t i = 0; i < len; i++) {
		sum ^= at[i];
		for (unsigned int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (0xedb88320u & -(sum & 1));
	}
	return ~sum;
}
#endif

#endif
