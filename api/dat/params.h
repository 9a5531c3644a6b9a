/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DAT_IA_PARAMS_H
#define DAT_IA_PARAMS_H

#include <stddef.h>

#include <dat/udat.h>

/* Parses field 7 of our own entries in dat.conf into socket and port, "" where not given. */
DAT_RETURN ia_params(const char *params, char *socket, size_t socket_len, char *port, size_t port_len);

#endif
