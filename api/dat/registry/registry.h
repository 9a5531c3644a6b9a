/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry: dat.conf (static registry) and providers that register themselves (dynamic registry).  The
 * oneside provider is part of this library; other providers are loaded by dlopen(). */
#ifndef DAT_REGISTRY_INTERNAL_H
#define DAT_REGISTRY_INTERNAL_H

#include "dat/ia.h"
#include "dat/registry/conf.h"

#include <dat/dat_registry.h>

/* Returns the provider table of a foreign handle, or NULL: no provider library in use has this handle. */
const DAT_PROVIDER *registry_foreign(DAT_HANDLE handle);

/* Returns the table of the oneside provider (provider.c). */
const DAT_PROVIDER *oneside_table(void);

/*
 * provider.c: for each call, with the call's parameters
 *   explaining_NAME()      calls dapl_NAME and prints a refusal
 *   refused_NAME(ret,)  prints `ret` and its reason, if `ret` is a refusal and ONESIDE_DEBUG is set; returns
 * `ret`
 */
#define EXPLAIN_PROTOTYPES(name, handle, version2, ...)            \
	DAT_RETURN explaining_##name(ONE_PARAMETERS(__VA_ARGS__)); \
	DAT_RETURN refused_##name(DAT_RETURN ret, ONE_PARAMETERS(__VA_ARGS__));
DAT_CALLS(EXPLAIN_PROTOTYPES, EXPLAIN_PROTOTYPES, DAT_OF)

/* explain.c: like refused_NAME, for calls that are not in DAT_CALLS. */
DAT_RETURN explain_return(const char *function, DAT_RETURN ret, const struct one_argument *arguments,
			  size_t count);
#define EXPLAIN_RETURN(function, ret, ...)                                        \
	explain_return(function, ret, (const struct one_argument[]){__VA_ARGS__}, \
		       sizeof((const struct one_argument[]){__VA_ARGS__}) / sizeof(struct one_argument))

#endif
