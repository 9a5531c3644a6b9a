/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider as a separate library, libdaplone.so.1, for any registry of uDAPL 1.2.  (Our own libdat
 * contains the provider.)
 *
 * A registry finds its entry again by the attributes of an open IA.  So these equal the entry, including
 * thread safety.
 */
#include "dat/registry/offer.h"
#include "dat/registry/registry.h"

static DAT_RETURN
query_offered(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle, DAT_IA_ATTR_MASK ia_attr_mask,
	      DAT_IA_ATTR *ia_attributes, DAT_PROVIDER_ATTR_MASK provider_attr_mask,
	      DAT_PROVIDER_ATTR *provider_attributes)
{
	DAT_RETURN ret = dapl_ia_query(ia_handle, async_evd_handle, ia_attr_mask, ia_attributes,
				       provider_attr_mask, provider_attributes);
	DAT_PROVIDER_INFO info;

	if (ret != DAT_SUCCESS || provider_attr_mask == 0)
		return ret;
	info = offer_info(handle_slot(ia_handle)->provider);
	provider_attributes->dapl_version_minor = info.dapl_version_minor;
	provider_attributes->is_thread_safe = info.is_thread_safe;
	return DAT_SUCCESS;
}

static void
fill_table(void *table)
{
	DAT_PROVIDER *provider = table;

	*provider = *oneside_table();
	provider->ia_open_func = offer_open;
	provider->ia_query_func = query_offered;
}

const struct offer_version offer_version = {DAT_VERSION_MAJOR, DAT_VERSION_MINOR, sizeof(DAT_PROVIDER),
					    fill_table};
