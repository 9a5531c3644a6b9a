/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry's calls for provider libraries.  A library exports dat_provider_init and dat_provider_fini.
 * The registry calls init once before the first open of an IA name, with the name and version in
 * provider_info and the IA parameters of dat.conf in instance_data.  init registers the name with
 * dat_registry_add_provider.  The registry calls fini after the last close; fini removes the name. */
#ifndef _DAT_REGISTRY_H_
#define _DAT_REGISTRY_H_

#ifndef _UDAT_H_
#error "include <dat/udat.h> before <dat/dat_registry.h>"
#endif

#include "udat_redirection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Registers a provider for an IA name.  Errors: INVALID_PARAMETER (ARG1, ARG2); PROVIDER_ALREADY_REGISTERED;
 * INSUFFICIENT_RESOURCES (MEMORY). */
extern DAT_RETURN dat_registry_add_provider(IN const DAT_PROVIDER *provider,
					    IN const DAT_PROVIDER_INFO *provider_info);
/* Removes a registration.  Errors: INVALID_PARAMETER (ARG1, ARG2: unknown); PROVIDER_IN_USE (an IA of the
 * provider is open). */
extern DAT_RETURN dat_registry_remove_provider(IN const DAT_PROVIDER *provider,
					       IN const DAT_PROVIDER_INFO *provider_info);

#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini
#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"

typedef void (*DAT_PROVIDER_INIT_FUNC)(IN const DAT_PROVIDER_INFO *provider_info,
				       IN const char *instance_data);
typedef void (*DAT_PROVIDER_FINI_FUNC)(IN const DAT_PROVIDER_INFO *provider_info);

extern void DAT_PROVIDER_INIT_FUNC_NAME(IN const DAT_PROVIDER_INFO *provider_info,
					IN const char *instance_data);
extern void DAT_PROVIDER_FINI_FUNC_NAME(IN const DAT_PROVIDER_INFO *provider_info);

#ifdef __cplusplus
}
#endif

#endif
