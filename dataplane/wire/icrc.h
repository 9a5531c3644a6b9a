/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariant CRC of RoCEv2: what routers may change is masked, the rest is covered. */
#ifndef DATAPLANE_ICRC_H
#define DATAPLANE_ICRC_H

#include <stdbool.h>
#include <stdint.h>

/* By icrc_wide(), which must be supported, or with what DPDK has. */
void icrc_init(bool use_wide);

/*
 * Over `len` bytes from the IP header `ip` (ip_len 20 or 40 bytes, then UDP and
 * BTH) up to the ICRC.  At least 8 bytes must lie in front of `ip`; they and the
 * masked fields may be overwritten while the CRC runs, and restored.
 */
uint32_t icrc_compute(uint8_t *ip, uint32_t ip_len, uint32_t len);

/*
 * The last `from_len` of those bytes are copied there from `from`, which others may be changing: the CRC is
 * of what is stored.  That is one pass where icrc_is_wide(), and two where not.
 */
bool icrc_is_wide(void);
uint32_t icrc_copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len);

/* icrc_wide.c: the same where the CPU can fold 64 bytes at a time; nothing is written. */
bool icrc_wide_supported(void);
void icrc_wide_init(void);
uint32_t icrc_wide(const uint8_t *ip, uint32_t ip_len, uint32_t len);
/* Meanwhile move_len bytes, a multiple of 64, are copied in address order. */
uint32_t icrc_wide_beside(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from,
			  uint32_t move_len);
uint32_t icrc_wide_copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len);

#endif
