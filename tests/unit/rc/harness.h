/* SPDX-License-Identifier: BSD-3-Clause */
/* Two queue pairs connected back to back in memory. The test moves the frames and advances the time. */
#ifndef TESTS_UNIT_RC_HARNESS_H
#define TESTS_UNIT_RC_HARNESS_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "dataplane/mem/bounce.h"
#include "tests/rc_env.h"

#define AREA (1u << 20)
#define FRAMES 4096u
#define RECORDS 4096u
#define POOL 2400u
#define HELLO_PORT_A 0xc00au /* that A asks B for */
#define HELLO_PORT_B 0xc00bu

#define MS 1000000ull
#define US 1000ull

struct frame {
	uint32_t len;
	uint8_t *bytes;
	struct wire_packet packet; /* parsed from `bytes` when sent */
};

struct end {
	struct test_env env; /* first: callbacks get the end from it */
	struct rc_qp *qp;
	struct rc_attr attr;
	struct end *peer;
	struct frame out[FRAMES]; /* sent and not yet delivered */
	uint32_t num_out;
	uint32_t frames; /* begun so far */
	bool starve;     /* tx_begin returns NULL */
	bool stays;      /* in RTR when the first packet arrives */
	uint8_t *input;  /* the frame delivered last, in a burst */
	struct recv_work recv[64];
	uint32_t recv_head, recv_tail;
	struct completion done[RECORDS];
	uint32_t silent[RECORDS]; /* `retired` at the time of each completion */
	uint32_t num_done, retired;
	struct work bound;
	uint32_t binds;
	bool bind_at_once, bind_result;
	uint32_t invalidated, invalidations;
	bool refuse_invalidate;
	uint32_t failures, established;
	enum rc_error error;
	uint8_t *area; /* registered with local rights under lkey, and with all remote rights under rkey */
	struct mem_region local, remote;
};

struct pair {
	struct end a, b;
	struct mem_table *mem;
	uint64_t now;
	uint32_t last_moved; /* frames that pump() delivered */
	bool (*lose)(struct pair *pair, struct end *from, const struct frame *frame); /* NULL: none */
	uint32_t counter;                                                             /* for lose() */
};

struct pair_options {
	uint16_t mtu;
	uint8_t rd_atomic, retry_count, rnr_retry, timeout;
	uint32_t psn;
	bool other_peer; /* not a oneside peer */
	bool selective;
	bool packed;      /* implies `selective` */
	bool hello;       /* connected out of band: nothing is announced before */
	bool yields;      /* each end shares its processor, */
	bool peer_yields; /* or was notified that its peer does */
	enum rc_state b_state;
};

struct pair *pair_new(const struct pair_options *options); /* NULL: defaults */
void pair_free(struct pair *pair);

/* Let `end` send all that it wants to, without delivering. */
void flush_output(struct pair *pair, struct end *end);
/* Deliver the first frame that `from` has sent; returns false if there is none. */
bool deliver_one(struct pair *pair, struct end *from);
/* Deliver a frame as part of a burst: the move of its payload may be deferred to the next frame or
 * end_burst(). */
bool deliver_in_burst(struct pair *pair, struct end *from);
void end_burst(struct end *to);
/* Drop the first frame that `from` has sent. */
void drop_one(struct end *from);
/* Send and deliver until nothing moves. */
void pump(struct pair *pair);
/* Advance the time to the next timer of either end, and run it; returns false if no timer is armed. */
bool run_timer(struct pair *pair);

struct work make_work(struct end *end, uint8_t op, uint64_t cookie, uint64_t offset, uint32_t len,
		      uint64_t remote_offset);
void post(struct pair *pair, struct end *end, const struct work *work);
void post_simple(struct pair *pair, struct end *end, uint8_t op, uint64_t cookie, uint64_t offset,
		 uint32_t len, uint64_t remote_offset);
struct recv_work *post_recv(struct end *end, uint64_t cookie, uint64_t offset, uint32_t len);

/* Build a packet from `from`'s address, frame and parse it, and input it at the peer. */
void inject(struct pair *pair, struct end *from, const struct wire_build *build, const void *payload);

uint64_t load64(const uint8_t *p);
void store64(uint8_t *p, uint64_t v);
void fill(uint8_t *area, uint32_t len, uint32_t seed);
void expect_done(struct end *end, uint32_t index, uint64_t cookie, uint8_t type, uint8_t status,
		 uint32_t length);
/* The newest frame sent is an AETH packet with this syndrome and PSN. */
void expect_reply(struct end *end, uint8_t syndrome, uint32_t psn);

#endif
