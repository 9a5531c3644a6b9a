/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICRC by look-up, eight bytes at a time: for CPUs without carry-less multiplication. */
#include <stdatomic.h>
#include <string.h>

#include "bytes.h"
#include "icrc_impl.h"

#define PREFIX 8u /* all ones in front of the IP header, for the LRH that RoCEv2 does not have */
#define MOVE_UNIT 64u

/* [k][byte]: the CRC's state after that byte and k zeros. */
static uint32_t table[8][256];
static uint8_t mask[2][40 + ICRC_MASKED]; /* of IPv4, of IPv6 */

void
icrc_mask(uint8_t *m, uint32_t ip_len)
{
	memset(m, 0, ip_len + ICRC_MASKED);
	if (ip_len == 20) {
		m[1] = m[8] = m[10] = m[11] = 0xff; /* type of service, time to live, checksum */
	} else {
		m[0] = 0x0f; /* traffic class and flow label, hop limit */
		m[1] = m[2] = m[3] = m[7] = 0xff;
	}
	m[ip_len + 6] = m[ip_len + 7] = 0xff; /* UDP's checksum */
	m[ip_len + 8 + 4] = 0xff;             /* FECN, BECN and reserved bits of the BTH */
}

void
icrc_table_init(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t r = byte;

		for (uint32_t bit = 0; bit < 8; bit++)
			r = (r >> 1) ^ (r & 1 ? ICRC_POLYNOMIAL : 0);
		table[0][byte] = r;
	}
	for (uint32_t k = 1; k < 8; k++)
		for (uint32_t byte = 0; byte < 256; byte++)
			table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 0xff];
	icrc_mask(mask[0], 20);
	icrc_mask(mask[1], 40);
}

static uint32_t
update(uint32_t r, const uint8_t *p, uint32_t len)
{
	for (; len >= 8; p += 8, len -= 8) {
		uint32_t low = load_le32(p) ^ r, high = load_le32(p + 4);

		r = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
		    table[4][low >> 24] ^ table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^
		    table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
	}
	for (; len > 0; p++, len--)
		r = r >> 8 ^ table[0][(r ^ *p) & 0xff];
	return r;
}

static uint32_t
compute(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	uint8_t head[PREFIX + 40 + ICRC_MASKED];
	const uint8_t *m = mask[ip_len != 20];
	uint32_t masked = ip_len + ICRC_MASKED;

	memset(head, 0xff, PREFIX);
	for (uint32_t i = 0; i < masked; i++)
		head[PREFIX + i] = ip[i] | m[i];
	return ~update(update(UINT32_MAX, head, PREFIX + masked), ip + masked, len - masked);
}

static uint32_t
copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	memmove(ip + len - from_len, from, from_len);
	return compute(ip, ip_len, len);
}

static uint32_t
beside(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from, uint32_t move_len)
{
	for (uint32_t at = 0; at < move_len; at += MOVE_UNIT) {
		memmove(to + at, from + at, MOVE_UNIT);
		atomic_thread_fence(
			memory_order_release); /* a reader that sees a byte sees those before it */
	}
	return compute(ip, ip_len, len);
}

static bool
available(void)
{
	return true;
}

const struct icrc_impl icrc_table = {
	.name = "table", .available = available, .compute = compute, .copy = copy, .beside = beside};
