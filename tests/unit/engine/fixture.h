/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A data plane of one or two cores whose loops the test runs by hand, on a clock that advances with these
 * loops only, and fake applications: an arena and hand-written rings.
 */
#ifndef TESTS_ENGINE_FIXTURE_H
#define TESTS_ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dataplane/engine/loop.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/transport.h"

#define RING_LOG2 7
#define CQ_LOG2 8
#define MAX_WR 32

struct app {
	uint8_t *arena;
	int arena_fd;
	struct one_arena *header;
	struct one_doorbells *doorbells;
	struct one_channel *channels;
	uint64_t next; /* first free byte of the arena */
	uint32_t next_doorbell;
	struct engine_client *client;
	struct engine_user *user; /* to be freed by app_end(); NULL after app_start_of() */
	uint32_t pz;
	uint32_t faults;
	uint32_t fault;
};

struct ring { /* a completion ring, in its application's view */
	struct engine_cq *cq;
	struct one_cq_bundle *bundle;
	struct one_cq_shm *shm;
	struct one_cqe *entries;
	uint32_t log2, head;
};

struct pair { /* a queue pair, in its application's view */
	struct app *app;
	struct engine_qp *qp;
	struct one_qp_shm *shm;
	struct one_wqe *sq, *rq;
	uint32_t sq_tail, rq_tail, doorbell, qpn, id;
	struct ring *send, *recv, *conn;
	/* counts of the queue pair's events */
	uint32_t failed, established, drained, binds, silences, strays;
	uint32_t strays_at; /* the core of the last of them */
	uint32_t error;
};

struct memory {
	struct mem_region region;
	uint8_t *bytes;
};

/* Start a data plane with `cores` polling cores and a looped port at 192.0.2.1. */
void fixture_start(uint32_t cores, enum one_idle idle);
void fixture_stop(void);
/* For cmocka_run_group_tests: a data plane of one or two polling cores that spin. */
int group_start(void **state);
int group_start_two(void **state);
int group_stop(void **state);
extern struct config fixture_config;
extern void (*fixture_prepare)(struct config *config); /* before the data plane is made from it; NULL: none */
extern int fixture_wake_fd;                            /* of applications started afterwards */
/* Run `loops` loops of every core and of the control thread, at a microsecond each. */
void turn(uint32_t loops);
/* Run a loop of each that takes `ns`. */
void turn_for(uint64_t ns);
/* The cores' clock; each call advances it by a microsecond. */
uint64_t fixture_tsc(void);
/*
 * Run loops until the condition holds; fails the test after ten seconds of the cores' clock. A core on its
 * own thread has a clock of its own, and no limit but the test's timeout: machines may be busy.
 */
#define TURN_UNTIL(condition)                                      \
	do {                                                       \
		for (uint32_t n_ = 0; !(condition);) {             \
			if (!engine.running && ++n_ > 10000000)    \
				fail_msg("never: %s", #condition); \
			turn(1);                                   \
		}                                                  \
	} while (0)
/* Carry a command out; returns its status. */
int command(struct engine_command fields);
extern uint32_t frames_to_control;

void app_start(struct app *app); /* with a user of its own, of weight 1 */
void app_start_of(struct app *app, struct engine_user *user);
void app_end(struct app *app); /* after all its objects have been removed */
uint64_t app_alloc(struct app *app, uint64_t size);
void ring_new(struct app *app, uint32_t log2, struct ring *ring, struct engine_cq *async);
void ring_end(struct ring *ring);
/* Add a lane of `home`, with objects of its own. Its rings may join bundles of `home`. */
void lane_new(struct app *home, uint32_t number, struct app *lane);
void lane_end(struct app *lane); /* after all its objects have been removed, before app_end() */
void ring_join(struct app *lane, struct ring *first, struct ring *ring);
void ring_arm(struct ring *ring, uint64_t arm); /* like one_wait_arm(), but without its fence */
bool ring_armed(const struct ring *ring);
bool ring_poll(struct ring *ring, struct one_cqe *out); /* takes one entry, and publishes the head */
void pair_new(struct app *app, struct ring *send, struct ring *recv, struct ring *conn, struct ring *async,
	      struct pair *pair);
/* The receives come from `srq` unless that is NULL. */
void pair_new_shared(struct app *app, struct ring *send, struct ring *recv, struct ring *conn,
		     struct ring *async, struct engine_srq *srq, struct pair *pair);
/* A queue pair for datagrams; `srq` as in pair_new_shared(). */
void pair_new_ud(struct app *app, struct ring *send, struct ring *recv, struct engine_srq *srq,
		 struct pair *pair);
void pair_end(struct pair *pair);
/* The next slot, zeroed. Commit stores the phase and rings the doorbell. */
struct one_wqe *pair_send(struct pair *pair);
struct one_wqe *pair_recv(struct pair *pair);
void pair_commit_send(struct pair *pair);
void pair_commit_recv(struct pair *pair);
void pair_connect(struct pair *from, struct pair *to, enum rc_state state, bool local);
struct engine_connection connection_to(struct pair *from, struct pair *to, enum rc_state state, bool local);

/* Create a key for `len` zeroed bytes. */
void memory_new(struct app *app, uint32_t access, size_t len, struct memory *memory);
void memory_end(struct memory *memory);

/* Post a request of one sge. */
void post_write(struct pair *pair, struct memory *from, struct memory *to, uint32_t len, uint64_t cookie);
void post_send(struct pair *pair, struct memory *from, uint32_t len, uint64_t cookie);
void post_recv(struct pair *pair, struct memory *to, uint32_t len, uint64_t cookie);
void expect(struct ring *ring, uint8_t type, uint8_t status, uint64_t cookie);
void expect_none(struct ring *ring);

#endif
