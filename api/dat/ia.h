/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface adapters. */
#ifndef DAT_IA_IA_H_INTERNAL
#define DAT_IA_IA_H_INTERNAL

#include "dat/params.h"
#include "dat/mem.h"

/* Attaches to the data plane and opens an IA.  `params` is field 7 of dat.conf; the IA's handles point to the
 * table `provider`. */
DAT_RETURN ia_open(const char *name, const char *params, const void *provider, DAT_COUNT qlen,
		   DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle);

#endif
