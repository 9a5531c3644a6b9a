/* SPDX-License-Identifier: BSD-3-Clause */
#include "dat/registry/offer.h"

#include <stdlib.h>
#include <string.h>

#include "dat/registry/registry.h"

#define EXPORTED __attribute__((visibility("default")))

struct offer {
	DAT_PROVIDER_INFO info;
	char *params; /* field 7 of dat.conf */
	struct offer *next;
	const char *table[]; /* the provider table; its first member is the name */
};

/* Offers are never freed: the slot of a handle, even of a freed one, points to its table. */
static struct {
	pthread_mutex_t lock;
	struct offer *first;
} offers = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* fork handlers: hold the lock across fork, so that a child can open an offer. */
static void
fork_prepare(void)
{
	pthread_mutex_lock(&offers.lock);
}

static void
fork_over(void)
{
	pthread_mutex_unlock(&offers.lock);
}

__attribute__((constructor)) static void
watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_over, fork_over);
}

/* offers.lock held. */
static struct offer *
find_offer(const char *name)
{
	struct offer *offer = offers.first;

	while (offer != NULL && strncmp(offer->info.ia_name, name, DAT_NAME_MAX_LENGTH) != 0)
		offer = offer->next;
	return offer;
}

DAT_RETURN
offer_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle)
{
	const struct offer *offer;
	char *params = NULL;
	DAT_RETURN ret;

	if (name == NULL || strnlen(name, DAT_NAME_MAX_LENGTH) == DAT_NAME_MAX_LENGTH)
		return BAD_ARG(1);
	pthread_mutex_lock(&offers.lock);
	offer = find_offer(name);
	if (offer != NULL)
		params = strdup(offer->params);
	pthread_mutex_unlock(&offers.lock);
	if (offer == NULL)
		return DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
	if (params == NULL)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	ret = ia_open(name, params, offer->table, qlen, async_evd, ia_handle);
	free(params);
	return ret;
}

DAT_PROVIDER_INFO
offer_info(const void *table)
{
	const struct offer *offer =
		(const struct offer *)(const void *)((const char *)table - offsetof(struct offer, table));
	DAT_PROVIDER_INFO info;

	pthread_mutex_lock(&offers.lock);
	info = offer->info;
	pthread_mutex_unlock(&offers.lock);
	return info;
}

/* Returns NULL without memory.  offers.lock held. */
static struct offer *
make_offer(const DAT_PROVIDER_INFO *info)
{
	struct offer *offer = calloc(1, sizeof(*offer) + offer_version.table_size);

	if (offer == NULL)
		return NULL;
	offer->info = *info;
	offer_version.fill(offer->table);
	offer->table[0] = offer->info.ia_name;
	offer->next = offers.first;
	offers.first = offer;
	return offer;
}

/* Called by the registry.  Has no return value, so failure means not to register the provider. */
EXPORTED void
dat_provider_init(const DAT_PROVIDER_INFO *info, const char *instance_data)
{
	char *params = strdup(instance_data != NULL ? instance_data : "");
	struct offer *offer;

	if (params == NULL || info->dapl_version_major != offer_version.major ||
	    info->dapl_version_minor > offer_version.minor ||
	    memchr(info->ia_name, '\0', sizeof(info->ia_name)) == NULL) {
		free(params);
		return;
	}
	pthread_mutex_lock(&offers.lock);
	offer = find_offer(info->ia_name);
	if (offer == NULL)
		offer = make_offer(info);
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
		dat_registry_add_provider((const DAT_PROVIDER *)(const void *)offer->table, info);
}

EXPORTED void
dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
	struct offer *offer;

	pthread_mutex_lock(&offers.lock);
	offer = find_offer(info->ia_name);
	pthread_mutex_unlock(&offers.lock);
	if (offer != NULL)
		dat_registry_remove_provider((const DAT_PROVIDER *)(const void *)offer->table, info);
}
