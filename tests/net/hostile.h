/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of net-hostile share. */
#ifndef TESTS_NET_HOSTILE_H
#define TESTS_NET_HOSTILE_H

#include <stdbool.h>

#include "client/client.h"

struct victim {
	struct one_client *client;
	struct one_cq cq;
	struct one_qp qp;
};

/* Ends the case as failed, with errno's text, unless `condition` holds. */
void must(bool condition, const char *what);
/* An attachment with a ring and a queue pair, through the library. */
void victim_open(struct victim *v);

/* ---- hostile_memory.c ---- */
void sparse(void);
void pieces(void);

#endif
