/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider as a separate library, for another registry.  Each IA name that the registry gives gets a
 * provider table of its own, which is how the provider knows the name: the first word of a handle points to
 * the table. */
#ifndef DAT_REGISTRY_OFFER_H
#define DAT_REGISTRY_OFFER_H

#include <stddef.h>

#include <dat/udat.h>

/* The uDAPL version that the library implements. */
extern const struct offer_version {
	DAT_UINT32 major, minor; /* major exactly, minor at most */
	size_t table_size;
	void (*fill)(void *table); /* fills the table except for the name */
} offer_version;

/* ia_open of the tables; returns codes of 1.2. */
DAT_RETURN offer_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
		      DAT_IA_HANDLE *ia_handle);
/* Returns the registry's entry for the name of this table.  The registry identifies its entry by these
 * values. */
DAT_PROVIDER_INFO offer_info(const void *table);

#endif
