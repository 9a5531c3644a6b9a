/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Reliable Connection transport of RoCEv2, sans I/O: one struct rc_qp is one
 * end of a connection.  It has no clock, no device, no system call and no
 * allocation after start; time, packets and work come in as arguments, and
 * everything it produces goes out through struct rc_env.  So the same object
 * code runs on a polling core, in tests/sim and under a fuzzer.
 *
 * A caller's loop:
 *
 *   rc_post()     while it returns 0 and there is work
 *   rc_input()    for each packet whose BTH names this queue pair; rc_input_again() first, where
 *                 many of them come at once
 *   rc_output()   while rc_wants_output(): emits requests, READ responses, ACKs
 *   rc_answer()   instead, where requests have to wait
 *   rc_timeout()  when now >= rc_deadline()
 *   rc_resume()   when reach_poll() wakes rc_user()
 *
 * All calls for one rc_qp come from one thread.  `now` is in nanoseconds and
 * never decreases.
 *
 * Callbacks may call rc_state, rc_user, rc_wants_output and rc_post for the same
 * queue pair; `bind` also rc_bind_done, `established` also rc_set_rts, and
 * `failed` also rc_flush and rc_reset.
 */
#ifndef DATAPLANE_RC_H
#define DATAPLANE_RC_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/mem/mem.h"
#include "dataplane/wire/wire.h"
#include "dataplane/rc/work.h"

struct rc_qp;

#define RC_NEVER UINT64_MAX

enum rc_state {
	RC_RESET,
	RC_RTR, /* responds, does not request */
	RC_RTS,
	RC_ERROR /* drops all packets; flushes all work */
};

/* Why a queue pair went to RC_ERROR by itself. */
enum rc_error {
	RC_ERROR_REQUESTER = 1, /* a send work request failed: its completion says why */
	RC_ERROR_RESPONDER      /* the peer's request was refused with a fatal NAK */
};

/* Resources for READs and atomics of the peer in one rc_qp: never agree to more. */
#define RC_RD_ATOMIC_MAX 16u

/* Indices of rc_env.counter. */
enum rc_counter {
	RC_COUNT_RETRANSMIT,   /* request packets sent again */
	RC_COUNT_TIMEOUT,      /* retransmission timer expired */
	RC_COUNT_NAK_SEQ_SENT, /* holes seen in the peer's requests */
	RC_COUNT_NAK_SEQ_RECEIVED,
	RC_COUNT_NAK_IMPLIED, /* a response was missing, as a later one showed */
	RC_COUNT_RNR_SENT,
	RC_COUNT_RNR_RECEIVED,
	RC_COUNT_NAK_INVALID_SENT, /* in the order of their codes */
	RC_COUNT_NAK_ACCESS_SENT,
	RC_COUNT_NAK_OPERATION_SENT,
	RC_COUNT_NAK_FATAL_RECEIVED,
	RC_COUNT_ACK_SENT,
	RC_COUNT_DUPLICATE,       /* requests that were executed before */
	RC_COUNT_OUT_OF_SEQUENCE, /* requests dropped behind a hole */
	RC_COUNT_RETRY_EXCEEDED,
	RC_COUNT_RNR_EXCEEDED,
	RC_COUNT_CNP_SENT,
	RC_COUNT_CNP_RECEIVED,
	RC_COUNT_DROP_STATE,    /* the queue pair does not take packets of this direction now */
	RC_COUNT_DROP_ADDRESS,  /* not between the two addresses, or from the UDP port, of the connection */
	RC_COUNT_DROP_OPCODE,   /* not of this transport */
	RC_COUNT_DROP_RESPONSE, /* answers nothing that is outstanding */
	RC_COUNT_DROP_REPLAY,   /* repeated READ or atomic that matches no resource */
	RC_COUNT_DROP_PARKED,   /* came while an earlier one waited for memory without mapping */
	RC_COUNT_HELD,          /* packets kept until a hole before them was filled */
	RC_COUNT_BAD_RESPONSE,  /* answers an outstanding request, but with the wrong length */
	RC_COUNT_PACKED_SENT,   /* frames with several requests or responses */
	RC_COUNT_DROP_PACKED,   /* such frames that are not what they say, or not negotiated */
	RC_COUNT_MAX
};

/*
 * Packets from the middle of a message that may follow the one input last: what would be looked up for each
 * of them was found for that one, the key and the rest of the message in its memory.
 */
struct rc_run {
	struct rc_qp *qp; /* NULL: none */
	uint8_t *to;      /* for the payload of the next */
	uint32_t left;    /* so many */
	bool responses;   /* of a READ; else requests, of a WRITE */
};

/* Of requests of all queue pairs of an env, which stay rc_wants_output() meanwhile. */
enum rc_held {
	RC_FLOWS,
	RC_HELD,   /* as little as may be is to be in flight */
	RC_STOPPED /* none can go out, and rc_output is not called: timeouts charge no retry */
};

struct rc_env {
	struct mem_table *mem;
	/* A buffer for a whole frame of `len` bytes from the Ethernet header, or NULL when
	 * none can be had now: the queue pair stays rc_wants_output(). */
	uint8_t *(*tx_begin)(struct rc_env *env, struct rc_qp *qp, uint32_t len);
	/* Hand over the frame begun last; unless it is sealed, its ICRC is still to come: wire_seal()
	 * before it goes out.  Always called after a successful tx_begin. */
	void (*tx_end)(struct rc_env *env, struct rc_qp *qp, bool sealed);
	/* The next receive work request, taken off its ring; false when there is none. */
	bool (*take_recv)(struct rc_env *env, struct rc_qp *qp, struct recv_work *out);
	void (*complete)(struct rc_env *env, struct rc_qp *qp, const struct completion *c);
	/* So many requests that followed one another have succeeded, SENDs and WRITEs with SUPPRESS: not told
	 * by `complete`.  Needed where there are such. */
	void (*retired)(struct rc_env *env, struct rc_qp *qp, uint32_t count);
	/* Entered RC_ERROR by itself; all completions have been reported before. */
	void (*failed)(struct rc_env *env, struct rc_qp *qp, enum rc_error error);
	/* ONE_OP_BIND reached the head: carry it out elsewhere, then rc_bind_done(). */
	void (*bind)(struct rc_env *env, struct rc_qp *qp, const struct work *work);
	/* SEND_WITH_INVALIDATE: make `key` useless before returning; false if it may not be
	 * invalidated by this queue pair. */
	bool (*invalidate)(struct rc_env *env, struct rc_qp *qp, uint32_t key);
	/* First valid packet in RC_RTR: the peer has our REP. */
	void (*established)(struct rc_env *env, struct rc_qp *qp);
	/* Selective repeat: keep the packet that is being input, and the payload it points to, until
	 * `release`; NULL: no more may be kept now.  Needed where `scoreboards` is set. */
	const struct wire_packet *(*hold)(struct rc_env *env, const struct wire_packet *packet);
	void (*release)(struct rc_env *env, const struct wire_packet *packet);
	/* While a packet is input: where the copy of its payload may be left to the caller, unless it
	 * completes something; NULL: nowhere.  The caller makes it before the next call, whichever, and
	 * before the packet goes: by parsing the next frame, or by wire_move(). */
	struct wire_move *move;
	bool yields;                        /* see rc_attr.peer_yields: this end does */
	uint8_t held;                       /* enum rc_held */
	uint64_t asked;                     /* bytes of READs that have been asked for, again or not */
	uint64_t ask_end;                   /* with so many asked for, no READ begins; 0: no bound */
	struct rc_run run;                  /* rc_input's; see rc_run_end */
	const struct wire_packet *frame;    /* that the packet being input stands in; NULL: in none */
	struct rc_scoreboards *scoreboards; /* see rc_scoreboards_init; NULL: no selective repeat */
	/* Pool of work nodes shared by the queue pairs of one env (see rc_pool_init). */
	struct rc_pool *pool;
	uint64_t counter[32]; /* by enum rc_counter: retransmissions, NAKs, drops by reason */
	uint32_t core;        /* of the queue pairs, whose part of an application they reach */
};

/* What connection management negotiated. */
extern const uint32_t rc_rnr_ns[32]; /* how long to wait, by an RNR NAK's code */

struct rc_attr {
	uint32_t qpn, peer_qpn;
	uint32_t pz;     /* for local keys and for the keys peers use */
	uint32_t access; /* ONE_ACCESS_REMOTE_*: what this queue pair lets its peer do at all */
	uint32_t send_psn, recv_psn;
	uint16_t path_mtu;    /* a multiple of 64; towards other make 256, 512, ... 4096 */
	uint8_t rd_atomic_in; /* READs and atomics served at once; at most RC_RD_ATOMIC_MAX */
	uint8_t rd_atomic_out;
	uint8_t retry_count;   /* 0..7, 7 means seven */
	uint8_t rnr_retry;     /* 0..7, 7 means no limit */
	uint8_t min_rnr_timer; /* code sent in our RNR NAKs: an index of rc_rnr_ns */
	uint8_t timeout;       /* 4.096 us x 2^n: upper bound of the retransmission time, and how long
				* without progress costs one retry; 0: never give up */
	bool oneside_peer;     /* both ends announced oneside in the CM's private data */
	bool selective;        /* and both that they repeat selectively, */
	bool packed;           /* and that they take frames with several requests */
	bool peer_yields; /* the peer shares its processor: at first RC_MIN_RTO_MAX passes before anything
			   * is taken for lost */
	struct wire_path path; /* addresses, MACs, ports: the header template is made from it */
};

/* Sizes a struct rc_qp needs; memory comes from the caller, zeroed. */
size_t rc_qp_size(void);

void rc_init(struct rc_qp *qp, struct rc_env *env, void *user);
void *rc_user(const struct rc_qp *qp);
void rc_connect(struct rc_qp *qp, const struct rc_attr *attr, enum rc_state state); /* RESET -> RTR or RTS */
void rc_set_rts(struct rc_qp *qp);                                                  /* RTR -> RTS */
/* In RC_RTR: the first PSN, the depth of READs and atomics, retries and timeout of requests to come. */
void rc_set_requester(struct rc_qp *qp, const struct rc_attr *attr);
/* From then on: what the peer may do, and what our RNR NAKs say. */
void rc_set_responder(struct rc_qp *qp, const struct rc_attr *attr);
void rc_set_path(struct rc_qp *qp, const struct wire_path *path); /* new MAC of the peer */
enum rc_state rc_state(const struct rc_qp *qp);

/*
 * -EAGAIN: as many in flight as this queue pair or the pool may have; try after a completion.
 * -ENOTCONN: not in RC_RTS.
 */
int rc_post(struct rc_qp *qp, const struct work *work, uint64_t now);
/* Where the next request may be made, so that rc_post need not copy it; it is rc_post's with the next call of
 * the pool's queue pairs.  NULL: rc_post would answer -EAGAIN. */
struct work *rc_next_work(struct rc_qp *qp);
void rc_bind_done(struct rc_qp *qp, bool ok, uint64_t now);
void rc_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
/*
 * A packet that differs from the one input last, by whichever of the two, in its payload, its PSN and whether
 * it asks for an acknowledgement alone (wire_seen's `again`).  False: it is rc_input's.
 */
bool rc_input_again(struct rc_env *env, const struct wire_packet *packet, uint64_t now);
/*
 * No packet follows the one input last.  To be called before a burst, and when a frame comes that is unlike
 * the one before: until then no other function may be called for a queue pair of the env, and what
 * mem_check() has found must hold.
 */
static inline void
rc_run_end(struct rc_env *env)
{
	env->run.qp = NULL;
}
/* Emits at most `budget` frames; returns how many. */
uint32_t rc_output(struct rc_qp *qp, uint32_t budget, uint64_t now);
/*
 * Emits what the peer waits for and no request: acknowledgements, NAKs, results of atomics, and at most
 * `reads` responses to READs.  Returns how many of these, with the results between them.
 */
uint32_t rc_answer(struct rc_qp *qp, uint32_t reads);
bool rc_wants_output(const struct rc_qp *qp);
/* Some of what was posted is not sent, and only the peer's answers hold it up, which come. */
bool rc_goes_on(const struct rc_qp *qp);
/* All that has been posted, and whether it has been sent. */
uint32_t rc_posted(const struct rc_qp *qp);
bool rc_has_sent(const struct rc_qp *qp, uint32_t posted);
uint32_t rc_flight(const struct rc_qp *qp); /* packets of requests that are not acknowledged */
/* The party of the queue pair, rc_user(), was woken: see reach.h. */
void rc_resume(struct rc_qp *qp, uint64_t now);
uint64_t rc_deadline(const struct rc_qp *qp); /* RC_NEVER: no timer */
void rc_timeout(struct rc_qp *qp, uint64_t now);
/* No work request is unfinished: graceful disconnect may go on. */
bool rc_idle(const struct rc_qp *qp);
/* A mark that changes with what the peer sends and is new: the next request, response or acknowledgement. */
uint32_t rc_heard(const struct rc_qp *qp);
/* The retransmission timer has expired several times in a row, and nothing was acknowledged in between. */
bool rc_is_silent(const struct rc_qp *qp);
/* After RC_ERROR_RESPONDER: the NAK that ended it, its syndrome in the high 8 bits and its PSN in the others.
 * 0: no request was refused. */
uint32_t rc_refusal(const struct rc_qp *qp);
/* The peer's rc_refusal(), as if the NAK had come: it may be lost, or still on its way. */
void rc_refused(struct rc_qp *qp, uint32_t refusal, uint64_t now);
/* To RC_ERROR, completing all work taken so far as FLUSHED (a receive in progress too);
 * what is still in the rings is flushed by the caller. */
void rc_flush(struct rc_qp *qp);
/* Back to RC_RESET, without completions; nodes return to the pool. */
void rc_reset(struct rc_qp *qp);

/*
 * A pool of `count` scoreboards for selective repeat in zeroed memory that the caller supplies
 * (rc_scoreboards_size bytes): a queue pair needs one per direction while it recovers from loss.
 */
size_t rc_scoreboards_size(uint32_t count);
struct rc_scoreboards *rc_scoreboards_init(void *memory, uint32_t count);

/* A pool of `count` work nodes in memory the caller supplies (rc_pool_size bytes). */
size_t rc_pool_size(uint32_t count);
struct rc_pool *rc_pool_init(void *memory, uint32_t count);

#endif
