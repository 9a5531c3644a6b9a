/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by the implementations of the ICRC. */
#ifndef DATAPLANE_ICRC_IMPL_H
#define DATAPLANE_ICRC_IMPL_H

#include "icrc.h"

/* Bit order of Ethernet's CRC: bit 31 is x^0. */
#define ICRC_POLYNOMIAL 0xEDB88320u

/* Bytes from the end of the IP header up to and including the last masked byte. */
#define ICRC_MASKED (8u + 5u)

extern const struct icrc_impl icrc_shift, icrc_clmul, icrc_vpclmul256, icrc_vpclmul512;

/* Compute the lookup tables, once. Nothing writes to them later. */
void icrc_shift_init(void);
void icrc_fold_init(void);

/* Fill `mask` with ones where a header is masked; `ip_len` + ICRC_MASKED bytes. */
void icrc_mask(uint8_t *mask, uint32_t ip_len);

#endif
