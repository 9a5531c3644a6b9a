/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and functions shared by the mock's sources. */
#ifndef TESTS_UNIT_MOCK_INTERNAL_H
#define TESTS_UNIT_MOCK_INTERNAL_H

#define KEYS_LOOK_MS 1 /* interval at which the mock polls struct one_keys */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "abi/copy.h"
#include "mock.h"

#define MOCK_CLIENTS 256

struct mock_client {
	struct mock_client *next;
	struct mock *mock;
	int sock, arena_fd, wake_fd;
	bool greeted;
	uint64_t copies; /* offset of the client's struct one_copies; 0: none */
	uint8_t *arena;
	uint64_t used;
	struct one_arena *header;
	struct one_doorbells *doorbells;
	struct one_channel *channels;
	struct one_keys *keys;
	uint32_t async_cq;
	uint32_t next_doorbell;
};

struct mock_ring {
	struct one_wqe *ring;
	uint32_t log2;
	uint32_t head;  /* slots taken */
	uint32_t taken; /* requests taken */
	uint32_t done;  /* requests finished */
};

struct mock_cq {
	struct one_cq_bundle *bundle;
	struct one_cq_shm *shm;
	struct one_cqe *ring;
	uint32_t log2;
	uint32_t tail;
	uint32_t notified; /* tail after the last entry with NOTIFY */
	uint32_t solicited;
	uint64_t served; /* the arm that was notified last */
};

struct mock_qp {
	struct one_qp_create args;
	struct one_qp_shm *shm;
	struct mock_ring sq, rq;
	uint32_t doorbell;
	uint16_t number; /* of the last connection */
};

struct mock_srq {
	struct one_srq_shm *shm;
	struct mock_ring rq;
};

struct mock_mr {
	struct one_mr_create args;
	uint8_t *base;
	uint64_t size;
	uint32_t lkey, rkey;
	bool revoked;
};

struct mock_object {
	struct mock_object *next;
	struct mock_client *client;
	uint32_t id;
	enum one_msg_type type; /* the request that created the object; imports: ONE_MSG_QP_CREATE */
	union {
		struct mock_cq cq;
		struct mock_qp qp;
		struct mock_srq srq;
		struct mock_mr mr;
		struct {
			int fd; /* -1: a joined region */
			uint64_t size, joined;
			uint8_t *base; /* of a joined region */
		} region;
		struct {
			uint32_t cq;
		} listener;
		struct {
			int fd, theirs; /* `theirs`: until it has been sent; then -1 */
		} channel;
	};
};

struct mock {
	pthread_mutex_t lock;
	pthread_t thread;
	char dir[32];
	char path[64];
	int listener;
	int wake_fd;
	bool stop;
	bool no_fds;
	bool renewable, refuse_keys;
	uint32_t revoked, renewed;
	int given_fd[ONE_MSG_MAX]; /* descriptor + 1; 0: none */
	bool park[ONE_MSG_MAX];
	struct {
		int sock;
		struct one_reply reply;
	} pending[ONE_CALLS_MAX];
	uint32_t num_pending;
	struct one_welcome welcome;
	struct mock_client *clients; /* newest first */
	uint32_t num_clients;
	struct mock_object *objects;
	uint32_t last_id;
	uint32_t seen[ONE_MSG_MAX];
	uint32_t newest[ONE_MSG_MAX];
	struct one_msg last[ONE_MSG_MAX];
	struct {
		mock_handler call;
		void *user;
	} handler[ONE_MSG_MAX];
	struct {
		int error;
		enum one_subject subject;
		uint64_t value;
		uint32_t times;
	} refusal[ONE_MSG_MAX];
};

static inline void
mock_check(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "mock data plane: %s\n", what);
		abort();
	}
}

uint64_t mock_arena_alloc(struct mock_client *client, uint64_t size);
struct mock_object *mock_object_new(struct mock *mock, struct mock_client *client, enum one_msg_type type);
struct mock_object *mock_object(struct mock *mock, uint32_t id, enum one_msg_type type);
bool mock_cq_store(struct mock_object *cq, const struct one_cqe *cqe);
bool mock_ring_take(struct mock_ring *ring, struct one_wqe *wqe, struct one_sge *sge);
void mock_qp_store(struct mock_qp *qp);

void mock_handle_region(struct mock *mock, struct mock_client *client, const struct one_region_add *add,
			const int *fds, uint32_t num_fds, struct one_reply *reply);
void mock_handle_join(struct mock *mock, struct mock_client *client, const struct one_region_join *join,
		      const int *fds, uint32_t num_fds, struct one_reply *reply);
void mock_handle_mr(struct mock *mock, struct mock_client *client, const struct one_mr_create *args,
		    struct one_reply *reply);
bool mock_region_used(const struct mock *mock, uint32_t region);
void mock_serve_keys(struct mock *mock, const struct mock_client *client);
void mock_channel_open(struct mock *mock, struct mock_client *client, struct one_reply *reply);
/* Returns the application's end of the channel in the reply, once; -1: none. */
int mock_channel_end(struct mock *mock, const struct one_reply *reply);

#endif
