/* SPDX-License-Identifier: BSD-3-Clause */
/* Version of the uDAPL API that these headers declare. */
#ifndef _UDAT_CONFIG_H_
#define _UDAT_CONFIG_H_

#define DAT_VERSION_MAJOR 1
#define DAT_VERSION_MINOR 2

/* Thread safety that dat_ia_open requires of a provider.  Define it as DAT_TRUE before including <dat/udat.h>
 * to require a thread-safe provider.  The oneside provider is always thread-safe. */
#ifndef DAT_THREADSAFE
#define DAT_THREADSAFE DAT_FALSE
#endif

#endif
