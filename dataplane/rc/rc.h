/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Reliable Connection transport of RoCEv2, sans I/O: one struct rc_qp is one end of a connection. The
 * transport has no clock, no device, no system call and no allocation after start. Time, packets and work are
 * arguments; all output goes through struct rc_env. So the same object code runs on a polling core, in
 * tests/sim and under a fuzzer.
 *
 * A caller's loop:
 *
 *   rc_post()     while it returns 0 and there is work
 *   rc_input()    for each packet whose BTH names this queue pair; rc_input_again() first, where
 *                 many of them come at once
 *   rc_output()   while rc_wants_output(): emits requests, READ responses, ACKs
 *   rc_answer()   instead, where requests have to wait
 *   rc_timeout()  when now >= rc_deadline()
 *   rc_resume()   when bounce_poll() wakes rc_user()
 *
 * All calls for one rc_qp come from one thread. `now` is in nanoseconds and never decreases.
 *
 * Callbacks may call rc_state, rc_user, rc_wants_output and rc_post for the same queue pair; `bind` also
 * rc_bind_done, `established` also rc_set_rts, and `failed` also rc_flush and rc_reset.
 */
#ifndef DATAPLANE_RC_H
#define DATAPLANE_RC_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/mem/mem.h"
#include "dataplane/wire/wire.h"
#include "dataplane/rc/work.h"

struct rc_qp;
struct rc_node;

#define RC_NEVER UINT64_MAX

/* State of a queue pair, by whatever transport (dataplane/qp/qp.h). */
enum rc_state {
	RC_RESET, /* not connected */
	RC_RTR,   /* responds, does not request */
	RC_RTS,
	RC_ERROR /* drops all packets; flushes all work */
};
/* Names, and the table of legal transitions (dataplane/base/state.h). */
extern const char *const rc_state_name[];
extern const uint16_t rc_state_next[];

/* Reason why a queue pair entered RC_ERROR by itself. */
enum rc_error {
	RC_ERROR_REQUESTER = 1, /* a send work request failed: its completion has the reason */
	RC_ERROR_RESPONDER      /* the peer's request was refused with a fatal NAK */
};

/* Resources of one rc_qp for the peer's READs and atomics: never agree to more. */
#define RC_RD_ATOMIC_MAX 16u

/* Indices of rc_env.counter. */
enum rc_counter {
	RC_COUNT_RETRANSMIT,   /* request packets sent again */
	RC_COUNT_TIMEOUT,      /* retransmission timer expired */
	RC_COUNT_NAK_SEQ_SENT, /* holes seen in the peer's requests */
	RC_COUNT_NAK_SEQ_RECEIVED,
	RC_COUNT_NAK_IMPLIED, /* a later response showed that a response was missing */
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
	RC_COUNT_DROP_STATE,    /* the queue pair's state takes no packets of this direction */
	RC_COUNT_DROP_ADDRESS,  /* addresses or UDP source port are not the connection's */
	RC_COUNT_DROP_OPCODE,   /* not of this transport */
	RC_COUNT_DROP_RESPONSE, /* answers nothing that is outstanding */
	RC_COUNT_DROP_REPLAY,   /* repeated READ or atomic that matches no resource */
	RC_COUNT_DROP_BOUNCED,  /* arrived while an earlier one waited for memory without mapping */
	RC_COUNT_HELD,          /* packets held until a hole before them is filled */
	RC_COUNT_BAD_RESPONSE,  /* answers an outstanding request, but with the wrong length */
	RC_COUNT_PACKED_SENT,   /* frames with several requests or responses */
	RC_COUNT_DROP_PACKED,   /* such frames that are malformed, or not negotiated */
	RC_COUNT_RECOGNIZED,    /* peers connected out of band that sent a hello */
	RC_COUNT_MAX
};

/* Packets from the middle of a message that may follow the last input one. The lookups of that packet hold
 * for them: the key, and the rest of the message in its memory. */
struct rc_run {
	struct rc_qp *qp; /* NULL: none */
	uint8_t *to;      /* destination of the next packet's payload */
	uint32_t left;    /* packets that may follow */
	bool responses;   /* responses of a READ; else requests of a WRITE */
};

/* Holds back requests of all queue pairs of an env, which stay rc_wants_output() meanwhile. */
enum rc_throttle {
	RC_UNTHROTTLED,
	RC_THROTTLED, /* keep as little as possible in flight */
	RC_STOPPED    /* no request may leave, and rc_output() is not called: timeouts charge no retry */
};

struct rc_env {
	struct mem_table *mem;
	/* Returns a buffer for a frame of `len` bytes from the Ethernet header, or NULL if none is available
	 * now: the queue pair stays rc_wants_output(). */
	uint8_t *(*tx_begin)(struct rc_env *env, struct rc_qp *qp, uint32_t len);
	/* Hand over the frame begun last. Unless it is `sealed`, call wire_seal() for its ICRC before it goes
	 * out. Always called after a successful tx_begin. */
	void (*tx_end)(struct rc_env *env, struct rc_qp *qp, bool sealed);
	/* Take the next receive work request off its ring; false if there is none. */
	bool (*take_recv)(struct rc_env *env, struct rc_qp *qp, struct recv_work *out);
	void (*complete)(struct rc_env *env, struct rc_qp *qp, const struct completion *c);
	/* `count` successive requests succeeded, SENDs and WRITEs with SUPPRESS; `complete` does not report
	 * them. Required if requests have SUPPRESS. */
	void (*retired)(struct rc_env *env, struct rc_qp *qp, uint32_t count);
	/* The queue pair entered RC_ERROR by itself; all completions have been reported before. */
	void (*failed)(struct rc_env *env, struct rc_qp *qp, enum rc_error error);
	/* ONE_OP_BIND reached the head: carry it out elsewhere, then call rc_bind_done(). */
	void (*bind)(struct rc_env *env, struct rc_qp *qp, const struct work *work);
	/* SEND_WITH_INVALIDATE: invalidate `key` before returning; false if this queue pair may not
	 * invalidate it. */
	bool (*invalidate)(struct rc_env *env, struct rc_qp *qp, uint32_t key);
	/* First valid packet in RC_RTR: the peer has our REP. */
	void (*established)(struct rc_env *env, struct rc_qp *qp);
	/* The hello of a peer connected out of band has arrived: call rc_set_path() with `udp_port` as source
	 * port and with the ECN codepoint ECT(0). Required if rc_attr.hello_port is set. */
	void (*recognized)(struct rc_env *env, struct rc_qp *qp, uint16_t udp_port);
	/* Selective repeat: hold the packet that is being input, and the payload it points to, until
	 * `release`; NULL if no more can be held now. Required if `scoreboards` is set. */
	const struct wire_packet *(*hold)(struct rc_env *env, const struct wire_packet *packet);
	void (*release)(struct rc_env *env, const struct wire_packet *packet);
	/* While a packet is input: place to leave the copy of its payload to the caller, unless the packet
	 * completes something; NULL: nowhere. The caller copies before its next call here and before it frees
	 * the packet: by parsing the next frame, or by wire_move(). */
	struct wire_move *move;
	bool yields;                     /* this end shares its processor; see rc_attr.peer_yields */
	uint8_t throttle;                /* enum rc_throttle */
	uint64_t asked;                  /* bytes that READ requests have asked for, repeats included */
	uint64_t ask_end;                /* no READ request leaves once `asked` reaches this; 0: no limit */
	struct rc_run run;               /* set by rc_input(); see rc_run_end() */
	const struct wire_packet *frame; /* packed frame of the packet being input; NULL: none */
	struct rc_scoreboards *scoreboards; /* see rc_scoreboards_init(); NULL: no selective repeat */
	/* Pool of work nodes, shared by the queue pairs of one env (see rc_pool_init). */
	struct rc_pool *pool;
	uint64_t counter[32]; /* by enum rc_counter: retransmissions, NAKs, drops by reason */
};

/* Wait in ns by the timer code of an RNR NAK. */
extern const uint32_t rc_rnr_ns[32];

/* Parameters negotiated by connection management. */
struct rc_attr {
	uint32_t qpn, peer_qpn;
	uint32_t pz;     /* protection zone of local keys and of the keys peers use */
	uint32_t access; /* ONE_ACCESS_REMOTE_*: rights that this queue pair grants its peer at all */
	uint32_t send_psn, recv_psn;
	uint16_t path_mtu;    /* a multiple of 64; towards other implementations 256, 512, ... 4096 */
	uint8_t rd_atomic_in; /* READs and atomics served at once; at most RC_RD_ATOMIC_MAX */
	uint8_t rd_atomic_out;
	uint8_t retry_count;   /* 0..7; 7 means seven */
	uint8_t rnr_retry;     /* 0..7; 7 means no limit */
	uint8_t min_rnr_timer; /* code in our RNR NAKs: an index of rc_rnr_ns */
	uint8_t timeout; /* 4.096 us x 2^n: upper limit of the retransmission time, and time without progress
			    that costs one retry; 0: never give up */
	uint16_t hello_port;   /* connected out of band: UDP source port that a oneside peer is asked to use;
				  0: no hello is exchanged */
	bool oneside_peer;     /* both ends announced oneside in the CM's private data */
	bool selective;        /* both ends announced selective repeat */
	bool packed;           /* both ends announced that they take packed frames */
	bool peer_yields;      /* the peer shares its processor: at first, nothing counts as lost before
				  RC_MIN_RTO_MAX */
	struct wire_path path; /* addresses, MACs, ports: source of the header template */
};

/* Bytes of a struct rc_qp; the caller supplies zeroed memory. */
size_t rc_qp_size(void);

/* `lane`: whose part of an application's memory the queue pair accesses: see bounce_new(). */
void rc_init(struct rc_qp *qp, struct rc_env *env, uint32_t lane, void *user);
void *rc_user(const struct rc_qp *qp);
void rc_connect(struct rc_qp *qp, const struct rc_attr *attr, enum rc_state state); /* RESET -> RTR or RTS */
void rc_set_rts(struct rc_qp *qp);                                                  /* RTR -> RTS */
/* In RC_RTR: set the requester's first PSN, depth of READs and atomics, retries and timeout. */
void rc_set_requester(struct rc_qp *qp, const struct rc_attr *attr);
/* Set the peer's rights, and the timer code of our RNR NAKs, from now on. */
void rc_set_responder(struct rc_qp *qp, const struct rc_attr *attr);
/* Set MACs, addresses, ECN and our UDP source port from now on; the peer's port stays what it is. */
void rc_set_path(struct rc_qp *qp, const struct wire_path *path);
enum rc_state rc_state(const struct rc_qp *qp);
bool rc_packs(const struct rc_qp *qp); /* several requests may leave in one frame */

/*
 * -EAGAIN: the queue pair or the pool has its maximum of work under way; retry after a completion.
 * -ENOTCONN: not in RC_RTS.
 */
int rc_post(struct rc_qp *qp, const struct work *work, uint64_t now);
/* Place to build the next request in, so that rc_post() need not copy it. The place stays valid only until
 * the next call for a queue pair of the pool, which must be rc_post(). NULL: rc_post() would return
 * -EAGAIN. */
struct work *rc_next_work(struct rc_qp *qp);
void rc_bind_done(struct rc_qp *qp, bool ok, uint64_t now);
void rc_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
/* Input a packet that differs from the last one, input by either function, only in payload, PSN and A bit
 * (wire_seen.again). Returns false if rc_input() has to take it. */
bool rc_input_again(struct rc_env *env, const struct wire_packet *packet, uint64_t now);
/* End a run: no packet follows the one input last. Call it before a burst, and when a frame is unlike the
 * previous one. During a run no other function may be called for a queue pair of the env, and the results of
 * mem_check() must stay valid. */
static inline void
rc_run_end(struct rc_env *env)
{
	env->run.qp = NULL;
}
/* Emits at most `budget` frames; returns how many. */
uint32_t rc_output(struct rc_qp *qp, uint32_t budget, uint64_t now);
/* Emits what the peer waits for and no request: acknowledgements, NAKs, results of atomics, and at most
 * `reads` responses to READs. Returns the number of READ responses emitted. */
uint32_t rc_answer(struct rc_qp *qp, uint32_t reads);
bool rc_wants_output(const struct rc_qp *qp);
/* True if posted work is unsent and waits only for responses of a peer that responds. */
bool rc_goes_on(const struct rc_qp *qp);
/* rc_posted() marks the work posted so far; rc_has_sent() is true if work up to such a mark has been sent. */
uint32_t rc_posted(const struct rc_qp *qp);
bool rc_has_sent(const struct rc_qp *qp, uint32_t posted);
uint32_t rc_flight(const struct rc_qp *qp); /* packets of unacknowledged requests */
/* The party of the queue pair, rc_user(), was woken: see bounce.h. */
void rc_resume(struct rc_qp *qp, uint64_t now);
uint64_t rc_deadline(const struct rc_qp *qp); /* RC_NEVER: no timer */
void rc_timeout(struct rc_qp *qp, uint64_t now);
/* True if no work request is unfinished: a graceful disconnect may go on. */
bool rc_idle(const struct rc_qp *qp);
/* Returns a number that changes with each new request, response or acknowledgement of the peer. */
uint32_t rc_heard(const struct rc_qp *qp);
/* True if the retransmission timer has expired RC_SILENT_EXPIRIES times without an acknowledgement in
 * between. */
bool rc_is_silent(const struct rc_qp *qp);
/* After RC_ERROR_RESPONDER: the NAK that ended the connection, syndrome in the high 8 bits, PSN in the
 * others. 0: no request was refused. */
uint32_t rc_refusal(const struct rc_qp *qp);
/* After RC_ERROR_REQUESTER: payload of the packet whose loss used up the retries, in bytes; for a READ the
 * payload of the missing response. 0: the queue pair failed for another reason. */
uint32_t rc_unacknowledged(const struct rc_qp *qp);
/* Take over the peer's rc_refusal() as if the NAK had arrived: it may be lost or late. */
void rc_refused(struct rc_qp *qp, uint32_t refusal, uint64_t now);
/* Enter RC_ERROR and complete all work taken so far as FLUSHED (a receive in progress too). The caller
 * flushes what is still in the rings. */
void rc_flush(struct rc_qp *qp);
/* Return to RC_RESET without completions; nodes return to the pool. */
void rc_reset(struct rc_qp *qp);

/*
 * Freezing and thawing (record.c). rc_freeze() writes the state of a queue pair, in RC_RTR or RC_RTS, to a
 * record without pointers, and leaves the queue pair as after rc_init(): no completion is reported, and no
 * packet is input or sent until rc_thaw(). Nodes of the work requests stay out of the pool, in `frozen`, so
 * that the same core can always thaw the record after rc_frozen_free().
 *
 * 0; -EAGAIN: an access to memory without mapping, or a bind, is unfinished: nothing has changed; -ENOTCONN:
 * another state; -ENOBUFS: `size` is too small.
 */
struct rc_frozen {
	struct rc_node *first, *last;
	uint32_t count;
};
int rc_freeze(struct rc_qp *qp, void *record, uint32_t size, struct rc_frozen *frozen, uint64_t now);
void rc_frozen_free(struct rc_env *env, struct rc_frozen *frozen);
/* Continue where rc_freeze() has stopped, in a queue pair after rc_init(), perhaps of another env. `attr`:
 * those of rc_connect(), with all changes since. -ENOBUFS: the pool has too few nodes, and nothing has
 * changed. */
int rc_thaw(struct rc_qp *qp, const struct rc_attr *attr, const void *record, uint64_t now);
/* Call after rc_thaw() if the queue pair was frozen for so long that frames were lost: both ends repeat at
 * once what is not acknowledged, without waiting for a timer. */
void rc_repeat_lost(struct rc_qp *qp, uint64_t now);
/* Check a record that another process has written: before rc_thaw(), and after it what its fields say about
 * each other. Return 0 or -EINVAL, after which rc_reset() is the only call. */
int rc_record_check(const void *record, uint32_t length);
int rc_check_thawed(const struct rc_qp *qp);
/* Bytes of a record with `posted` work requests under way. */
uint32_t rc_record_size(uint32_t posted);

/* Initialize a pool of `count` scoreboards for selective repeat in zeroed memory of the caller
 * (rc_scoreboards_size() bytes). A queue pair needs one per direction while it recovers from loss. */
size_t rc_scoreboards_size(uint32_t count);
struct rc_scoreboards *rc_scoreboards_init(void *memory, uint32_t count);

/* Initialize a pool of `count` work nodes in memory of the caller (rc_pool_size() bytes). */
size_t rc_pool_size(uint32_t count);
struct rc_pool *rc_pool_init(void *memory, uint32_t count);

#endif
