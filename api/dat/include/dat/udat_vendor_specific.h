/* SPDX-License-Identifier: BSD-3-Clause */
/* User-level vendor extensions: oneside has none. */
#ifndef _UDAT_VENDOR_SPECIFIC_H_
#define _UDAT_VENDOR_SPECIFIC_H_
#endif
