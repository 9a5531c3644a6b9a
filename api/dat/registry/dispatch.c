/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported calls.  Each call finds the provider of its handle.  Our own handles are recognized by their
 * range of addresses, without access to memory.  Other handles are accepted if a provider library is loaded,
 * and belong to the table that their first word points to. */
#include "dat/registry/registry.h"

/* First argument of a call: the handle. */
#define FIRST_OF(first, ...) first
#define FIRST(...) FIRST_OF(__VA_ARGS__, )
#define DAT_INVALID_HANDLE_ANY DAT_INVALID_HANDLE1

/* Calls our provider directly, or with ONESIDE_DEBUG through explaining_NAME; another provider through its
 * table. */
#define DISPATCH(name, handle, version2, ...)                                                              \
	static __attribute__((noinline)) DAT_RETURN elsewhere_##name(ONE_PARAMETERS(__VA_ARGS__))          \
	{                                                                                                  \
		const DAT_PROVIDER *provider;                                                              \
                                                                                                           \
		if (handle_slot(FIRST(ONE_NAMES(__VA_ARGS__))) != NULL)                                    \
			return explaining_##name(ONE_NAMES(__VA_ARGS__));                                  \
		provider = registry_foreign(FIRST(ONE_NAMES(__VA_ARGS__)));                                \
		if (provider == NULL)                                                                      \
			return refused_##name(BAD_HANDLE(handle), ONE_NAMES(__VA_ARGS__));                 \
		if (provider->name##_func == NULL)                                                         \
			return refused_##name(DAT_ERROR(DAT_NOT_IMPLEMENTED, 0), ONE_NAMES(__VA_ARGS__));  \
		return provider->name##_func(ONE_NAMES(__VA_ARGS__));                                      \
	}                                                                                                  \
                                                                                                           \
	DAT_RETURN dat_##name(ONE_PARAMETERS(__VA_ARGS__))                                                 \
	{                                                                                                  \
		if (__builtin_expect(                                                                      \
			    handle_below(FIRST(ONE_NAMES(__VA_ARGS__)), &handle_range.direct) != NULL, 1)) \
			return dapl_##name(ONE_NAMES(__VA_ARGS__));                                        \
		return elsewhere_##name(ONE_NAMES(__VA_ARGS__));                                           \
	}
#define EXPORTED_BY_THE_REGISTRY(name, handle, version2, ...)
DAT_CALLS(EXPORTED_BY_THE_REGISTRY, DISPATCH, DAT_OF)

/* Not in any header, but exported by OFED's library.  There an IA's handle is a number that the registry maps
 * to the provider's handle; here it is the provider's handle. */
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
