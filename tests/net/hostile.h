/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of net-hostile share. */
#ifndef TESTS_NET_HOSTILE_H
#define TESTS_NET_HOSTILE_H

#include <stdbool.h>

#include "client/client.h"

#define SHARE 50 /* of a processor a machine may give each process one in so many */

struct victim {
	struct one_client *client;
	struct one_cq cq;
	struct one_qp qp;
};

/* Ends the case as failed, with errno's text, unless `condition` holds. */
void must(bool condition, const char *what);
/* An attachment with a ring and a queue pair, through the library. */
void victim_open(struct victim *v);

extern const char *socket_path;
bool healthy(void); /* an honest application is served */

/* ---- hostile_raw.c ---- */
int raw_connect(void);
struct one_msg hello(void);
bool raw_send(int fd, const void *data, size_t len, const int *fds, uint32_t num_fds);
/* HELLO; the attachment's arena, -1: it was refused. */
int raw_attach(int fd);
/* A request and its answer's error. */
int raw_call(int fd, const struct one_msg *msg, struct one_reply *reply);
/* The data plane answers, with an error maybe, or hangs up; it must not stay silent.  Closes; whether it
 * answered. */
bool answer_or_end(int fd);

/* ---- hostile_memory.c ---- */
void sparse(void);
void holds_its_arena(void);
void pieces(void);

#endif
