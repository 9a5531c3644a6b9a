/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening socket.  Control thread. */
#ifndef CONTROL_ATTACH_SERVER_H
#define CONTROL_ATTACH_SERVER_H

#include <stddef.h>

struct config;

int server_open(const struct config *config, char *why, size_t why_len);
void server_close(void);
void server_poll(void); /* accepts connections again, once few are left to close */

#endif
