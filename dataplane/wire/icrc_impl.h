/* SPDX-License-Identifier: BSD-3-Clause */
/* The implementations of the ICRC, and what they have in common. */
#ifndef DATAPLANE_ICRC_IMPL_H
#define DATAPLANE_ICRC_IMPL_H

#include "icrc.h"

/* In the order of bits that Ethernet's CRC has: bit 31 is x^0. */
#define ICRC_POLYNOMIAL 0xEDB88320u

/* Bytes behind the IP header up to the last masked one. */
#define ICRC_MASKED (8u + 5u)

extern const struct icrc_impl icrc_shift, icrc_clmul, icrc_vpclmul256, icrc_vpclmul512;

/* What they look up; computed once, nothing is written later. */
void icrc_shift_init(void);
void icrc_fold_init(void);

/* All ones where a header is masked, `ip_len` + ICRC_MASKED bytes of it. */
void icrc_mask(uint8_t *mask, uint32_t ip_len);

#endif
