/* SPDX-License-Identifier: BSD-3-Clause */
/* An application without a library: it writes messages as bytes. */
#ifndef TEST_CONTROL_ATTACH_CLIENT_H
#define TEST_CONTROL_ATTACH_CLIENT_H

#include <stdbool.h>
#include <sys/socket.h>

#include "abi/arena.h"
#include "abi/message.h"

struct app {
	int fd;
	struct one_welcome welcome;
	uint8_t *arena;
	struct one_msg msg;     /* filled in before app_call */
	struct one_reply reply; /* of the last call */
	struct ucred *as;       /* sender that messages name (SCM_CREDENTIALS); NULL: none */
};

extern char app_socket[108];

void app_connect(struct app *app);
void app_hello(struct app *app, enum one_kind kind); /* connects and attaches */
void app_close(struct app *app);
bool app_send(struct app *app, const void *data, size_t len, const int *fds, uint32_t num_fds);
/* Returns 1: a reply, 0: end of file. */
int app_receive(struct app *app);
/* Sends a request and returns the reply's error; fails the test at end of file. */
int app_call(struct app *app, enum one_msg_type type);
int app_call_fds(struct app *app, enum one_msg_type type, const int *fds, uint32_t num_fds);
int app_call_fd(struct app *app, enum one_msg_type type, int fd);
int app_call_id(struct app *app, enum one_msg_type type, uint32_t id);
/* Sends without waiting for the reply. */
void app_post(struct app *app, enum one_msg_type type);

uint32_t app_pz(struct app *app);
uint32_t app_cq(struct app *app, uint32_t entries);
struct one_qp_created app_qp(struct app *app, uint32_t pz, uint32_t cq);
uint32_t app_region(struct app *app, uint64_t size);
struct one_mr_created app_mr(struct app *app, uint32_t pz, uint32_t region, uint64_t va, uint64_t size);
int app_connect_qp(struct app *app, uint32_t qp, uint64_t service, uint64_t timeout_us);

#endif
