/* SPDX-License-Identifier: BSD-3-Clause */
/* What the registry of 2.0 loads: the provider table, one per IA name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dat2.h"
#include "dat/registry/registry.h"

#define FACE_ENTRY(name, handle, version2, parameters, arguments) .name##_func = face_##name,
static const DAT2_PROVIDER face_table = {FACE_CALLS(FACE_ENTRY)};

/* In libdat2. */
DAT_RETURN dat_registry_add_provider2(const DAT2_PROVIDER *provider,
				      const DAT_PROVIDER_INFO *info) __asm__("dat_registry_add_provider");
DAT_RETURN
dat_registry_remove_provider2(const DAT2_PROVIDER *provider,
			      const DAT_PROVIDER_INFO *info) __asm__("dat_registry_remove_provider");

/* Faces stay: a handle, even one that was freed, begins with the address of its table. */
static struct {
	pthread_mutex_t lock;
	struct face *first;
} faces = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* faces.lock held. */
static struct face *
find(const char *name)
{
	struct face *face = faces.first;

	while (face != NULL && strncmp(face->info.ia_name, name, DAT_NAME_MAX_LENGTH) != 0)
		face = face->next;
	return face;
}

__attribute__((visibility("default"))) void
dat_provider_init(const DAT_PROVIDER_INFO *info, const char *instance_data)
{
	char *params = strdup(instance_data != NULL ? instance_data : "");
	struct face *face;

	if (params == NULL || info->dapl_version_major != 2) {
		free(params);
		return;
	}
	pthread_mutex_lock(&faces.lock);
	face = find(info->ia_name);
	if (face == NULL) {
		face = calloc(1, sizeof(*face));
		if (face != NULL) {
			face->table = one_telling ? face_telling : face_table;
			face->info = *info;
			face->info.ia_name[DAT_NAME_MAX_LENGTH - 1] = '\0';
			face->table.device_name = face->info.ia_name;
			face->next = faces.first;
			faces.first = face;
		}
	}
	if (face != NULL) {
		face->info.dapl_version_minor = info->dapl_version_minor;
		face->info.is_thread_safe = info->is_thread_safe;
		free(face->params);
		face->params = params;
	} else {
		free(params);
	}
	pthread_mutex_unlock(&faces.lock);
	/* A registry that does not take it does not open it: there is no error to return. */
	if (face != NULL)
		dat_registry_add_provider2(&face->table, info);
}

__attribute__((visibility("default"))) void
dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
	struct face *face;

	pthread_mutex_lock(&faces.lock);
	face = find(info->ia_name);
	pthread_mutex_unlock(&faces.lock);
	if (face != NULL)
		dat_registry_remove_provider2(&face->table, info);
}

DAT_RETURN
face_ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle)
{
	const struct face *face;
	char *params = NULL;
	DAT_RETURN ret;

	if (name == NULL || strnlen(name, DAT_NAME_MAX_LENGTH) == DAT_NAME_MAX_LENGTH)
		return face_return(BAD_ARG(1));
	pthread_mutex_lock(&faces.lock);
	face = find(name);
	if (face != NULL)
		params = strdup(face->params);
	pthread_mutex_unlock(&faces.lock);
	if (face == NULL)
		return face_return(DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
	if (params == NULL)
		return face_return(DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
	ret = ia_open(name, params, face, qlen, async_evd, ia_handle);
	free(params);
	return face_return(ret);
}
