/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariant CRC of RoCEv2: fields that routers may change count as ones, everything else is covered. */
#ifndef DATAPLANE_ICRC_H
#define DATAPLANE_ICRC_H

#include <stdbool.h>
#include <stdint.h>

/* An implementation of the ICRC. Each function covers `len` bytes from the IP header `ip` (ip_len 20 or 40
 * bytes, then UDP and BTH) up to the ICRC. At least 8 bytes in front of `ip` must be readable. */
struct icrc_impl {
	const char *name;
	uint16_t bits; /* width of its vector registers; 0: general registers */
	bool (*available)(void);
	uint32_t (*compute)(const uint8_t *ip, uint32_t ip_len, uint32_t len);
	/* First copy `from_len` bytes from `from` to the end of the covered bytes. Other threads may be
	 * changing the source: the CRC is that of the bytes stored. */
	uint32_t (*copy)(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len);
	/* Also copy `move_len` bytes, a multiple of 64, in address order. */
	uint32_t (*beside)(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from,
			   uint32_t move_len);
};

/* Implementations for this architecture, the fastest first, ended by NULL. The last is always available. */
extern const struct icrc_impl *const icrc_impls[];

/* Implementation in use; only the two functions below change it. */
extern const struct icrc_impl *icrc;

/* Select the fastest implementation that the CPU supports, with registers of at most max_bits (0: any). Call
 * before threads start. */
void icrc_init(uint32_t max_bits);
/* Select an implementation by name, for tests and measurements. Returns false if the CPU lacks it. */
bool icrc_use(const char *name);

#endif
