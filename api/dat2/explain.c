/* SPDX-License-Identifier: BSD-3-Clause */
/* Table for ONESIDE_DEBUG (client/explain.h), whose calls print their refusals, like those of libdat for 1.2.
 * Prints the names of the codes of 1.2, which 2.0 kept. */
#include "dat2.h"
#include "dat/registry/registry.h"
#include "dat/registry/offer.h"

/* Printable arguments of a call: all but a va_list. */
#define SHOWN_ALIKE(name, ...) __VA_ARGS__
#define SHOWN_LAYOUTS(name, ...) __VA_ARGS__
#define SHOWN_UNSUPPORTED(name, ...) __VA_ARGS__
#define SHOWN_DIFFERS(name, ...) DAT2_PARAMETERS_##name
#define SHOWN_EXTENDED(name, handle, op, args) handle, op

/* Returns the code of 1.2.  Outcomes that are not errors have the same code in both versions. */
static DAT_RETURN
code_of(DAT_RETURN ret)
{
	return (ret & DAT_CLASS_ERROR) != 0 ? dat2_refused : ret;
}

#define DEFINE(name, handle, version2, ...)                                                      \
	static DAT_RETURN explaining2_##name(ONE_PARAMETERS(DAT2_##version2(name, __VA_ARGS__))) \
	{                                                                                        \
		DAT_RETURN ret = dat2_##name(ONE_NAMES(DAT2_##version2(name, __VA_ARGS__)));     \
                                                                                                 \
		EXPLAIN_RETURN("dat_" #name, ret == DAT_SUCCESS ? DAT_SUCCESS : code_of(ret),    \
			       ONE_ARGUMENTS(ONE_NAMES(SHOWN_##version2(name, __VA_ARGS__))));   \
		return ret;                                                                      \
	}
DAT2_CALLS(DEFINE)

#define ENTRY(name, handle, version2, ...) .name##_func = explaining2_##name,
const DAT2_PROVIDER dat2_explaining = {DAT2_CALLS(ENTRY)};

/* ---- the provider table that the registry of 2.0 loads, one per IA name ---- */

#define DAT2_ENTRY(name, handle, version2, ...) .name##_func = dat2_##name,
static const DAT2_PROVIDER dat2_table = {DAT2_CALLS(DAT2_ENTRY)};

static void
fill_table(void *table)
{
	memcpy(table, one_explaining ? &dat2_explaining : &dat2_table, sizeof(dat2_table));
}

const struct offer_version offer_version = {2, UINT32_MAX, sizeof(dat2_table), fill_table};

DAT_RETURN
dat2_ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle)
{
	return dat2_return(offer_open(name, qlen, async_evd, ia_handle));
}
