/* SPDX-License-Identifier: BSD-3-Clause */
#include "icrc.h"

#include <string.h>

#include <rte_vect.h>

#include "dataplane/compat/compat.h"
#include "wire.h"

#define ICRC_PREFIX 8u /* stands for the LRH that RoCEv2 does not have */

static bool wide;
static struct compat_crc narrow;

void
wire_init(void)
{
	/* In every process once, before threads: nothing else is written later. */
	icrc_init(icrc_wide_supported());
}

void
icrc_init(bool use_wide)
{
	wide = use_wide;
	if (wide) {
		icrc_wide_init();
		return;
	}
	/*
	 * The CRC picks its code by the vector width that EAL allows.  That is zero
	 * where EAL never ran (simulator, tests).
	 */
	if (rte_vect_get_max_simd_bitwidth() == 0)
		rte_vect_set_max_simd_bitwidth(RTE_VECT_SIMD_128);
#if defined(RTE_ARCH_ARM64)
	compat_crc_init(&narrow, RTE_NET_CRC_NEON);
#else
	compat_crc_init(&narrow, RTE_NET_CRC_SSE42);
#endif
}

/* With what DPDK has. */
static uint32_t
compute_in_place(uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	uint8_t *udp_checksum = ip + ip_len + 6;
	uint8_t *bth_resv = ip + ip_len + 8 + 4;
	uint8_t saved_prefix[ICRC_PREFIX], saved_udp[2], saved_resv = *bth_resv;
	uint32_t crc;

	/* DPDK's CRC takes no seed, so the prefix has to be there in memory. */
	memcpy(saved_prefix, ip - ICRC_PREFIX, ICRC_PREFIX);
	memset(ip - ICRC_PREFIX, 0xff, ICRC_PREFIX);
	memcpy(saved_udp, udp_checksum, 2);
	memset(udp_checksum, 0xff, 2);
	*bth_resv = 0xff;

	if (ip_len == 20) {
		uint8_t tos = ip[1], ttl = ip[8], checksum[2];

		memcpy(checksum, ip + 10, 2);
		ip[1] = 0xff;
		ip[8] = 0xff;
		memset(ip + 10, 0xff, 2);
		crc = compat_crc_calc(&narrow, ip - ICRC_PREFIX, len + ICRC_PREFIX);
		ip[1] = tos;
		ip[8] = ttl;
		memcpy(ip + 10, checksum, 2);
	} else {
		uint8_t class_label[4], hop_limit = ip[7];

		memcpy(class_label, ip, 4);
		ip[0] |= 0x0f;
		memset(ip + 1, 0xff, 3);
		ip[7] = 0xff;
		crc = compat_crc_calc(&narrow, ip - ICRC_PREFIX, len + ICRC_PREFIX);
		memcpy(ip, class_label, 4);
		ip[7] = hop_limit;
	}

	memcpy(ip - ICRC_PREFIX, saved_prefix, ICRC_PREFIX);
	memcpy(udp_checksum, saved_udp, 2);
	*bth_resv = saved_resv;
	return crc;
}

uint32_t
icrc_compute(uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	return wide ? icrc_wide(ip, ip_len, len) : compute_in_place(ip, ip_len, len);
}

bool
icrc_is_wide(void)
{
	return wide;
}

uint32_t
icrc_copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	if (wide)
		return icrc_wide_copy(ip, ip_len, len, from, from_len);
	memmove(ip + len - from_len, from, from_len);
	return compute_in_place(ip, ip_len, len);
}
