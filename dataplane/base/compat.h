/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and declarations that differ between releases of DPDK, from 22.11 on. */
#ifndef DATAPLANE_COMPAT_H
#define DATAPLANE_COMPAT_H

#include <rte_version.h>

/* Key of a bond's members in the arguments of the bonding driver. */
#if RTE_VERSION < RTE_VERSION_NUM(23, 11, 0, 0)
#define COMPAT_BOND_MEMBER "slave"
#else
#define COMPAT_BOND_MEMBER "member"
#endif

/* Name of the function from 23.03 on. */
#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)
#define rte_tel_data_add_dict_uint rte_tel_data_add_dict_u64
#endif

/* Does a struct rte_eth_rss_conf select Toeplitz? Before 23.11 the struct selects no hash function. */
#if RTE_VERSION < RTE_VERSION_NUM(23, 11, 0, 0)
#define COMPAT_IS_TOEPLITZ(conf) true
#else
#define COMPAT_IS_TOEPLITZ(conf)                               \
	((conf)->algorithm == RTE_ETH_HASH_FUNCTION_DEFAULT || \
	 (conf)->algorithm == RTE_ETH_HASH_FUNCTION_TOEPLITZ)
#endif

#endif
