/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider table that the registry of 2.0 loads, one per IA name. */
#include "dat2.h"
#include "dat/registry/offer.h"

#define FACE_ENTRY(name, handle, version2, ...) .name##_func = face_##name,
static const DAT2_PROVIDER face_table = {FACE_CALLS(FACE_ENTRY)};

static void
fill_table(void *table)
{
	memcpy(table, one_explaining ? &face_explaining : &face_table, sizeof(face_table));
}

const struct offer_version offer_version = {2, UINT32_MAX, sizeof(face_table), fill_table};

DAT_RETURN
face_ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle)
{
	return face_return(offer_open(name, qlen, async_evd, ia_handle));
}
