/* SPDX-License-Identifier: BSD-3-Clause */
/* Version of the uDAPL API that these headers declare. */
#ifndef _UDAT_CONFIG_H_
#define _UDAT_CONFIG_H_

#define DAT_VERSION_MAJOR 1
#define DAT_VERSION_MINOR 2

/*
 * What dat_ia_open asks of a provider.  Define it as DAT_TRUE before including
 * <dat/udat.h> to demand a thread-safe one; ours is, whatever is asked.
 */
#ifndef DAT_THREADSAFE
#define DAT_THREADSAFE DAT_FALSE
#endif

#endif
