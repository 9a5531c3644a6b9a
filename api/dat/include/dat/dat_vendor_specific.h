/* SPDX-License-Identifier: BSD-3-Clause */
/* Vendor extensions of the common part: oneside has none. */
#ifndef _DAT_VENDOR_SPECIFIC_H_
#define _DAT_VENDOR_SPECIFIC_H_
#endif
