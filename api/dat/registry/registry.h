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
extern const DAT_PROVIDER oneside_provider;

#endif
