/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exported calls.  Each finds the provider of its handle: our own handles by
 * their range, without a look at memory; others, when a provider library has
 * been loaded, by the table that their first word points to.
 */
#include "dat/registry/registry.h"

/* The arguments of a call begin with its handle. */
#define FIRST_OF(first, ...) first
#define FIRST(...) FIRST_OF(__VA_ARGS__, )
#define DAT_INVALID_HANDLE_ANY DAT_INVALID_HANDLE1

/* Ours is called directly; a foreign one through its table. */
#define DISPATCH(name, handle, version2, parameters, arguments)                \
	DAT_RETURN dat_##name parameters                                       \
	{                                                                      \
		const DAT_PROVIDER *provider;                                  \
                                                                               \
		if (__builtin_expect(handle_slot(FIRST arguments) != NULL, 1)) \
			return dapl_##name arguments;                          \
		provider = registry_foreign(FIRST arguments);                  \
		if (provider == NULL)                                          \
			return BAD_HANDLE(handle);                             \
		if (provider->name##_func == NULL)                             \
			return DAT_ERROR(DAT_NOT_IMPLEMENTED, 0);              \
		return provider->name##_func arguments;                        \
	}
#define EXPORTED_BY_THE_REGISTRY(name, handle, version2, parameters, arguments)
DAT_CALLS(EXPORTED_BY_THE_REGISTRY, DISPATCH)

/* In no header: OFED's library exports it beside the calls.  There an IA's handle is a number that stands for
 * the provider's; here it is the provider's. */
DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE *ia_handle);

DAT_RETURN
dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE *ia_handle)
{
	DAT_HANDLE_TYPE type;

	if (dat_get_handle_type(handle, &type) != DAT_SUCCESS || type != DAT_HANDLE_TYPE_IA)
		return BAD_HANDLE(IA);
	*ia_handle = handle;
	return DAT_SUCCESS;
}
