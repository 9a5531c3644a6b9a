/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider as a library by itself, libdaplone.so.1: for whatever registry of
 * uDAPL 1.2 a program has (our own libdat has the provider inside).
 *
 * Each IA name has a table of its own, since that is all that ia_open knows.  The registry finds its entry
 * again by the attributes of an open IA, so these say what the entry says, thread safety included.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "dat/registry/registry.h"

#include <dat/dat_registry.h>

#define EXPORTED __attribute__((visibility("default")))

struct offer {
	DAT_PROVIDER table;
	DAT_PROVIDER_INFO info;
	char *params;
	struct offer *next;
};

/* Offers stay: a handle, even one that was freed, begins with the address of its table. */
static struct {
	pthread_mutex_t lock;
	struct offer *first;
} offers = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* offers.lock held. */
static struct offer *
find(const char *name)
{
	struct offer *offer = offers.first;

	while (offer != NULL && strncmp(offer->info.ia_name, name, DAT_NAME_MAX_LENGTH) != 0)
		offer = offer->next;
	return offer;
}

static DAT_RETURN
open_offered(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle)
{
	const struct offer *offer;
	char *params = NULL;
	DAT_RETURN ret;

	if (name == NULL || strnlen(name, DAT_NAME_MAX_LENGTH) == DAT_NAME_MAX_LENGTH)
		return BAD_ARG(1);
	pthread_mutex_lock(&offers.lock);
	offer = find(name);
	if (offer != NULL)
		params = strdup(offer->params);
	pthread_mutex_unlock(&offers.lock);
	if (offer == NULL)
		return DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
	if (params == NULL)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	ret = ia_open(name, params, &offer->table, qlen, async_evd, ia_handle);
	free(params);
	return ret;
}

static DAT_RETURN
query_offered(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle, DAT_IA_ATTR_MASK ia_attr_mask,
	      DAT_IA_ATTR *ia_attributes, DAT_PROVIDER_ATTR_MASK provider_attr_mask,
	      DAT_PROVIDER_ATTR *provider_attributes)
{
	DAT_RETURN ret = dapl_ia_query(ia_handle, async_evd_handle, ia_attr_mask, ia_attributes,
				       provider_attr_mask, provider_attributes);
	const struct offer *offer;

	if (ret != DAT_SUCCESS || provider_attr_mask == 0)
		return ret;
	offer = (const struct offer *)(const void *)((const char *)handle_slot(ia_handle)->provider -
						     offsetof(struct offer, table));
	pthread_mutex_lock(&offers.lock);
	provider_attributes->dapl_version_minor = offer->info.dapl_version_minor;
	provider_attributes->is_thread_safe = offer->info.is_thread_safe;
	pthread_mutex_unlock(&offers.lock);
	return DAT_SUCCESS;
}

/* offers.lock held.  NULL: no memory. */
static struct offer *
make(const DAT_PROVIDER_INFO *info)
{
	struct offer *offer = calloc(1, sizeof(*offer));

	if (offer == NULL)
		return NULL;
	offer->info = *info;
	offer->table = *oneside_table();
	offer->table.device_name = offer->info.ia_name;
	offer->table.ia_open_func = open_offered;
	offer->table.ia_query_func = query_offered;
	offer->next = offers.first;
	offers.first = offer;
	return offer;
}

/* It fails by not registering: there is no other way. */
EXPORTED void
dat_provider_init(const DAT_PROVIDER_INFO *info, const char *instance_data)
{
	char *params = strdup(instance_data != NULL ? instance_data : "");
	struct offer *offer;

	if (params == NULL || info->dapl_version_major != DAT_VERSION_MAJOR ||
	    info->dapl_version_minor > DAT_VERSION_MINOR ||
	    memchr(info->ia_name, '\0', sizeof(info->ia_name)) == NULL) {
		free(params);
		return;
	}
	pthread_mutex_lock(&offers.lock);
	offer = find(info->ia_name);
	if (offer == NULL)
		offer = make(info);
	if (offer != NULL) {
		offer->info.dapl_version_minor = info->dapl_version_minor;
		offer->info.is_thread_safe = info->is_thread_safe;
		free(offer->params);
		offer->params = params;
	} else {
		free(params);
	}
	pthread_mutex_unlock(&offers.lock);
	if (offer != NULL)
		dat_registry_add_provider(&offer->table, info);
}

EXPORTED void
dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
	struct offer *offer;

	pthread_mutex_lock(&offers.lock);
	offer = find(info->ia_name);
	pthread_mutex_unlock(&offers.lock);
	if (offer != NULL)
		dat_registry_remove_provider(&offer->table, info);
}
