/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariant CRC of RoCEv2: what routers may change is masked, the rest is covered. */
#ifndef DATAPLANE_ICRC_H
#define DATAPLANE_ICRC_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A way to compute it.  All are over `len` bytes from the IP header `ip` (ip_len 20 or 40 bytes, then UDP and
 * BTH) up to the ICRC; at least 8 bytes that may be read lie in front of `ip`.
 */
struct icrc_impl {
	const char *name;
	uint16_t bits; /* of its registers; 0: general ones */
	bool (*available)(void);
	uint32_t (*compute)(const uint8_t *ip, uint32_t ip_len, uint32_t len);
	/*
	 * The last `from_len` of those bytes are copied there from `from`, which others may be changing: the
	 * CRC is of what is stored.
	 */
	uint32_t (*copy)(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len);
	/* Meanwhile move_len bytes, a multiple of 64, are copied in address order. */
	uint32_t (*beside)(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from,
			   uint32_t move_len);
};

/* All there are for this architecture, the best first; the last is always available.  NULL behind it. */
extern const struct icrc_impl *const icrc_impls[];

/* In use; changed by these two only. */
extern const struct icrc_impl *icrc;

/* The best that the CPU has, with registers of max_bits at most (0: any); before threads. */
void icrc_init(uint32_t max_bits);
/* That of this name, for tests and measurements; false: it is not available here. */
bool icrc_use(const char *name);

#endif
