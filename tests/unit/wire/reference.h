/* SPDX-License-Identifier: BSD-3-Clause */
/* A reference ICRC and random numbers for the tests of the codec. */
#ifndef TESTS_UNIT_WIRE_REFERENCE_H
#define TESTS_UNIT_WIRE_REFERENCE_H

#include <stdint.h>
#include <string.h>

#define FRAME_MAX 5000u

/* Computes the ICRC independently: CRC-32 bit by bit over a masked copy. */
static inline uint32_t
slow_icrc(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	uint8_t copy[8 + FRAME_MAX], *p = copy + 8;
	uint32_t crc = UINT32_MAX;

	memset(copy, 0xff, 8);
	memcpy(p, ip, len);
	if (ip_len == 20) {
		p[1] = p[8] = p[10] = p[11] = 0xff;
	} else {
		p[0] |= 0x0f;
		p[1] = p[2] = p[3] = p[7] = 0xff;
	}
	p[ip_len + 6] = p[ip_len + 7] = p[ip_len + 12] = 0xff;
	for (uint32_t i = 0; i < len + 8; i++) {
		crc ^= copy[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* xorshift64: the same numbers in every run. */
static inline uint64_t
next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

#endif
