/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DAT_IA_PARAMS_H
#define DAT_IA_PARAMS_H

#include <stddef.h>

#include <dat/udat.h>

/* Field 7 of our own entries: the socket and the port named there, else "". */
DAT_RETURN ia_params(const char *params, char *socket, size_t socket_len, char *port, size_t port_len);

#endif
