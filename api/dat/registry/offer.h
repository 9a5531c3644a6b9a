/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider as a library by itself, for a registry elsewhere: each IA name that this gives has a table of
 * its own, since that is all that ia_open knows, and the first word of the handles leads to it.
 */
#ifndef DAT_REGISTRY_OFFER_H
#define DAT_REGISTRY_OFFER_H

#include <stddef.h>

#include <dat/udat.h>

/* Of the version that the library is for. */
extern const struct offer_version {
	DAT_UINT32 major, minor; /* this one, and none after it */
	size_t table_size;
	void (*fill)(void *table); /* all but the name */
} offer_version;

/* The table's ia_open, with 1.2's codes. */
DAT_RETURN offer_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
		      DAT_IA_HANDLE *ia_handle);
/* What the registry said of the name whose table this is: it looks its entry up by that. */
DAT_PROVIDER_INFO offer_info(const void *table);

#endif
