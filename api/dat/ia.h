/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface adapters, local memory regions (LMR) and memory windows (RMR). */
#ifndef DAT_IA_IA_H_INTERNAL
#define DAT_IA_IA_H_INTERNAL

#include "dat/ep.h"
#include "dat/params.h"

/* ---- lmr.c, rmr.c ---- */
/* dat_lmr_create; `allowed` are the privileges that the version of the API defines. */
DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type,
		      const DAT_REGION_DESCRIPTION *description, DAT_VLEN length, DAT_PZ_HANDLE pz_handle,
		      uint32_t privileges, uint32_t allowed, DAT_LMR_HANDLE *lmr_handle,
		      DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
		      DAT_VADDR *registered_address);
/* Both need a retired object; no lock held. */
void rmr_destroy(struct object *o);
void lmr_destroy(struct object *o);

/* ---- ia.c ---- */
/* Attaches to the data plane and opens an IA.  `params` is field 7 of dat.conf; the IA's handles point to the
 * table `provider`. */
DAT_RETURN ia_open(const char *name, const char *params, const void *provider, DAT_COUNT qlen,
		   DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle);

#endif
