/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that the parts of net-hostile share. */
#ifndef TESTS_NET_HOSTILE_H
#define TESTS_NET_HOSTILE_H

#include <stdbool.h>

#include "client/client.h"

#define SHARE 50 /* a busy machine may give each process one fiftieth of a processor */

struct victim {
	struct one_client *client;
	struct one_cq cq;
	struct one_qp qp;
};

/* Fails the case with errno's text unless `condition` holds. */
void must(bool condition, const char *what);
/* Attaches through the library; creates a ring and a queue pair. */
void victim_open(struct victim *v);

extern const char *socket_path;
bool healthy(void); /* is an honest application served? */

/* ---- hostile_raw.c ---- */
int raw_connect(void);
struct one_msg hello(void);
bool raw_send(int fd, const void *data, size_t len, const int *fds, uint32_t num_fds);
/* Sends HELLO; returns the attachment's arena, or -1 if refused. */
int raw_attach(int fd);
/* Sends a request; returns the error in the reply. */
int raw_call(int fd, const struct one_msg *msg, struct one_reply *reply);
/*
 * Waits until the data plane replies, with an error or without, or hangs up: it must not stay silent.
 * Closes `fd`; returns whether a reply came.
 */
bool answer_or_end(int fd);

/* ---- hostile_memory.c ---- */
void sparse(void);
void holds_its_arena(void);
void pieces(void);

#endif
