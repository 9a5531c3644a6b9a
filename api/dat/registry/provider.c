/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider table, through which other registries and the redirection macros call the provider. */
#include "dat/registry/registry.h"

#define ONE(name, handle, version2, ...) +1
_Static_assert(sizeof(DAT_PROVIDER) == 70 * sizeof(void *), "the table is an ABI");
_Static_assert(2 DAT_CALLS(ONE, ONE, DAT_OF) == 70, "a name, an extension, and a function for each member");

#define MEMBER(name, handle, version2, ...) .name##_func = dapl_##name,
static const DAT_PROVIDER plain = {.device_name = "oneside", DAT_CALLS(MEMBER, MEMBER, DAT_OF)};

#define EXPLAINING_MEMBER(name, handle, version2, ...) .name##_func = explaining_##name,
static const DAT_PROVIDER explaining = {.device_name = "oneside",
					DAT_CALLS(EXPLAINING_MEMBER, EXPLAINING_MEMBER, DAT_OF)};

const DAT_PROVIDER *
oneside_table(void)
{
	return one_explaining ? &explaining : &plain;
}

/* For other libraries that open by the table; our registry calls ia_open(). */
DAT_RETURN
dapl_ia_open(const DAT_NAME_PTR ia_name_ptr, DAT_COUNT async_evd_min_qlen, DAT_EVD_HANDLE *async_evd_handle,
	     DAT_IA_HANDLE *ia_handle)
{
	if (ia_name_ptr == NULL || strnlen(ia_name_ptr, DAT_NAME_MAX_LENGTH) == DAT_NAME_MAX_LENGTH)
		return BAD_ARG(1);
	return ia_open(ia_name_ptr, "", oneside_table(), async_evd_min_qlen, async_evd_handle, ia_handle);
}

/* ---- the calls of 1.2 that print their refusals, for ONESIDE_DEBUG (explain.c) ---- */

#define DEFINE(name, handle, version2, ...)                                                         \
	DAT_RETURN refused_##name(DAT_RETURN ret, ONE_PARAMETERS(__VA_ARGS__))                      \
	{                                                                                           \
		return EXPLAIN_RETURN("dat_" #name, ret, ONE_ARGUMENTS(ONE_NAMES(__VA_ARGS__)));    \
	}                                                                                           \
	DAT_RETURN explaining_##name(ONE_PARAMETERS(__VA_ARGS__))                                   \
	{                                                                                           \
		return refused_##name(dapl_##name(ONE_NAMES(__VA_ARGS__)), ONE_NAMES(__VA_ARGS__)); \
	}
DAT_CALLS(DEFINE, DEFINE, DAT_OF)
