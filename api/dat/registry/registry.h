/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry: dat.conf (static) and providers that announced themselves
 * (dynamic).  The oneside provider is part of this library; others come by dlopen.
 */
#ifndef DAT_REGISTRY_INTERNAL_H
#define DAT_REGISTRY_INTERNAL_H

#include "dat/ia/ia.h"
#include "dat/registry/conf.h"

#include <dat/dat_registry.h>

/* The table of a provider library's object, or NULL: no such library is in use. */
const DAT_PROVIDER *registry_foreign(DAT_HANDLE handle);

/* provider.c: the table of the oneside provider. */
const DAT_PROVIDER *oneside_table(void);

/*
 * telling.c: for each call, with the call's parameters
 *   telling_NAME()      dapl_NAME, which prints what it refuses
 *   refused_NAME(ret,)  prints that the call returns `ret`, if that is a refusal and ONESIDE_DEBUG is set;
 * `ret`
 */
#define TELL_PROTOTYPES(name, handle, version2, ...)            \
	DAT_RETURN telling_##name(ONE_PARAMETERS(__VA_ARGS__)); \
	DAT_RETURN refused_##name(DAT_RETURN ret, ONE_PARAMETERS(__VA_ARGS__));
DAT_CALLS(TELL_PROTOTYPES, TELL_PROTOTYPES, DAT_OF)

/* tell.c: the same for calls that are not in the list. */
DAT_RETURN tell_refusal(const char *function, DAT_RETURN ret, const struct one_argument *arguments,
			size_t count);
#define TELL(function, ret, ...)                                                \
	tell_refusal(function, ret, (const struct one_argument[]){__VA_ARGS__}, \
		     sizeof((const struct one_argument[]){__VA_ARGS__}) / sizeof(struct one_argument))

#endif
