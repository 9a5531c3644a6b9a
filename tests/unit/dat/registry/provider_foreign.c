/* SPDX-License-Identifier: BSD-3-Clause */
/* A third-party provider library for the registry to load. The library opens and closes IAs, answers one
 * query, and counts calls; the test finds the counters by dlsym(). */
#include <stdlib.h>
#include <string.h>

#include <dat/udat.h>
#include <dat/dat_registry.h>

struct foreign_ia {
	const DAT_PROVIDER *provider;
	unsigned magic;
};

int foreign_inits, foreign_finis, foreign_closes;
char foreign_params[64];

static DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async, DAT_IA_HANDLE *ia);

static DAT_RETURN
ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
	if (flags == DAT_CLOSE_GRACEFUL_FLAG)
		return DAT_CLASS_ERROR | DAT_INVALID_STATE | DAT_INVALID_STATE_IA_IN_USE;
	free(ia);
	foreign_closes++;
	return DAT_SUCCESS;
}

static DAT_RETURN
get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type)
{
	*type = ((struct foreign_ia *)handle)->magic == 4711 ? DAT_HANDLE_TYPE_IA : DAT_HANDLE_TYPE_SRQ;
	return DAT_SUCCESS;
}

static const DAT_PROVIDER table = {
	.device_name = "foreign",
	.ia_open_func = ia_open,
	.ia_close_func = ia_close,
	.get_handle_type_func = get_handle_type,
};

static DAT_RETURN
ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async, DAT_IA_HANDLE *ia)
{
	struct foreign_ia *made;

	if (qlen == 13)
		return DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES;
	made = calloc(1, sizeof(*made));
	made->provider = &table;
	made->magic = 4711;
	*ia = made;
	return DAT_SUCCESS;
}

void
dat_provider_init(const DAT_PROVIDER_INFO *info, const char *params)
{
	foreign_inits++;
	strncpy(foreign_params, params, sizeof(foreign_params) - 1);
	if (strcmp(params, "refuse") != 0)
		dat_registry_add_provider(&table, info);
}

void
dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
	foreign_finis++;
	dat_registry_remove_provider(&table, info);
}
