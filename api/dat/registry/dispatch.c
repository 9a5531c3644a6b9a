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

/* Ours is called directly, or by the function that looks for refusals; a foreign one through its table. */
#define DISPATCH(name, handle, version2, parameters, arguments)                                       \
	static __attribute__((noinline)) DAT_RETURN elsewhere_##name parameters                       \
	{                                                                                             \
		const DAT_PROVIDER *provider;                                                         \
                                                                                                      \
		if (handle_slot(FIRST arguments) != NULL)                                             \
			return telling_##name arguments;                                              \
		provider = registry_foreign(FIRST arguments);                                         \
		if (provider == NULL)                                                                 \
			return refused_##name(BAD_HANDLE(handle), SPREAD arguments);                  \
		if (provider->name##_func == NULL)                                                    \
			return refused_##name(DAT_ERROR(DAT_NOT_IMPLEMENTED, 0), SPREAD arguments);   \
		return provider->name##_func arguments;                                               \
	}                                                                                             \
                                                                                                      \
	DAT_RETURN dat_##name parameters                                                              \
	{                                                                                             \
		if (__builtin_expect(handle_below(FIRST arguments, &handle_range.direct) != NULL, 1)) \
			return dapl_##name arguments;                                                 \
		return elsewhere_##name arguments;                                                    \
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
