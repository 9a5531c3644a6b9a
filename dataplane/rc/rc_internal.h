/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the RC transport.
 *
 *   qp.c         life of a queue pair, the pool, dispatch of packets
 *   requester.c  work requests to request packets
 *   response.c   response packets to completions; go-back-N
 *   responder.c  request packets: checks, execution, duplicates
 *   reply.c      READ responses, acknowledgements and NAKs to packets
 *   selective.c  what is held behind a hole, and sending only the holes again
 *   timer.c      retransmission time, retries
 *   congestion.c the window
 *   middle.c     runs of packets from the middle of a message
 *   sg_list.c     local scatter/gather lists
 *   resume.c     after an access to memory without mapping (reach.h)
 *
 * PSNs.  The responder keeps the 24 bits of the wire.  The requester counts in
 * 32 bits, of which the low 24 go on the wire, so that work which is posted but
 * not sent compares correctly however long its messages are; what a response
 * names is found by its distance from `una`, which is below 2^23 for all that
 * can be outstanding.
 */
#ifndef DATAPLANE_RC_INTERNAL_H
#define DATAPLANE_RC_INTERNAL_H

#include <sys/queue.h>

#include "rc.h"
#include "dataplane/mem/reach.h"
#include "dataplane/wire/head.h"

#define RC_PSN_MASK 0xFFFFFFu
#define RC_POSTED_MAX 1024u /* work requests taken from one send ring and not yet completed */
#define RC_POSTED_PSNS (1u << 30)
#define RC_POOL_FEW 64u
#define RC_CHUNK                                                                                       \
	128u                   /* packets asked for by one READ request: longer READs are cut, so that \
				* what may be in flight is bounded by the window; a power of two */
#define RC_WINDOW_MAX 1024u    /* packets: 100 Gb/s x 80 us at 1024 bytes, 50 us at 640 */
#define RC_WINDOW_OTHER 128u   /* towards peers that did not announce oneside: what Soft-RoCE allows itself */
#define RC_WINDOW_START 65536u /* bytes: many may start at once */
#define RC_WINDOW_MIN 16u      /* after a NAK */
#define RC_LOSS_RANDOM 16u     /* up to 1/16 of a window lost is no sign of congestion */
#define RC_WINDOW_TIMEOUT 4u   /* after a timeout: it is a probe */
#define RC_WINDOW_LEAST 2u     /* while congested: many senders share little */
#define RC_SCOREBOARD 4096u    /* PSNs from a hole on that selective repeat knows of; a power of two */
#define RC_SCOREBOARD_IDLE 50000000u      /* ns: a scoreboard without news is given to others that need one */
#define RC_RESCUES 3u                     /* times that all holes are sent again before going back */
#define RC_REPORT_MAX (RC_SCOREBOARD / 8) /* bytes of the bitmap in a sequence NAK */
/* What is held at the peer is not in flight: the window is larger by that, as far as the scoreboard reaches.
 */
#define RC_SACKED_MAX (RC_SCOREBOARD - RC_WINDOW_MAX - RC_CHUNK)
#define RC_ACK_EVERY 64u      /* the A bit inside long messages */
#define RC_RTO_FLOOR 2000000u /* ns: peers share processors with others, and then answer late */
#define RC_RTO_START 10000000u
#define RC_TLP_FLOOR 200000u           /* for one packet, between ends that repeat selectively */
#define RC_MIN_RTO_MAX 32000000u       /* ns: the floor of both towards peers that were seen to answer late */
#define RC_RTO_MAX 536870912u          /* ns: a peer that may be silent for longer is asked this often */
#define RC_RTO_UNBOUNDED 1000000000ull /* when the CM gave no bound */
#define RC_BACKOFF_MAX 10u
#define RC_CNP_INTERVAL 50000u /* ns between two CNPs of ours */
#define RC_MESSAGE_MAX 0x80000000u
#define RC_MOVE_MIN 512u /* bytes from which on it pays to leave a copy to env->move */
#define RC_SHORT 64u     /* bytes: longer payloads are wire_fill's */

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define RC_COLD __attribute__((noinline, cold))

/* A work request on its way. */
struct rc_node {
	struct rc_node *next;
	uint32_t first, end; /* PSNs [first, end); none for BIND and malformed work */
	struct work work;
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct rc_node, work.sge[1]) == 64, "rc_node: the usual request is one cache line");

struct rc_pool {
	struct rc_node *free;
	uint32_t count, available;
};

/* Selective repeat: what is known of the PSNs after a hole, in one direction. */
struct rc_scoreboard {
	struct rc_scoreboard *next; /* free */
	TAILQ_ENTRY(rc_scoreboard) link;
	struct rc_qp *qp;
	struct rc_scoreboard **place; /* where the queue pair has it */
	uint64_t touched;
	uint32_t holds; /* packets held */
	/* Responder: the next bit of `again` to answer.  Requester: before this PSN no hole can be sent
	 * again. */
	uint32_t cursor;
	uint32_t count; /* bits of `again` at the responder, of `done` at the requester */
	/* requester */
	uint32_t high;     /* one past the newest PSN reported */
	uint32_t executed; /* all before this one are known to be executed, not only held, at the peer */
	uint32_t retry;    /* until something after this PSN is reported: the oldest of `sent_at` */
	uint32_t round;    /* about a round trip: until something after this PSN is reported */
	uint32_t lost;     /* PSNs sent again in it */
	uint32_t answered; /* the newest repeat that has been answered: PSN, */
	uint16_t answered_order;
	uint16_t retransmits;
	uint8_t rescues; /* in a row, without progress */
	bool news;
	uint64_t done[RC_SCOREBOARD / 64]; /* executed or held at the peer; a response held here */
	uint64_t again[RC_SCOREBOARD /
		       64];              /* responder: READ responses to send again; requester: sent again, */
	uint32_t sent_at[RC_SCOREBOARD]; /* when this PSN was the next new one, */
	uint16_t order[RC_SCOREBOARD];   /* and as which repeat; 0: not repeated, but waiting at the peer */
	const struct wire_packet *held[RC_SCOREBOARD];
};
TAILQ_HEAD(rc_scoreboard_list, rc_scoreboard);

struct rc_scoreboards {
	struct rc_scoreboard *free;
	struct rc_scoreboard_list used; /* the longest without news first */
};

struct rc_requester {
	struct rc_node *head; /* oldest not completed; owns `una` */
	struct rc_node *cur;  /* owns `snd`; NULL: all is sent */
	struct rc_node *tail;
	uint32_t una;  /* oldest PSN not acknowledged; of a READ: the next response missing */
	uint32_t snd;  /* next to send; falls back to `una` to send again */
	uint32_t max;  /* one past the newest ever sent */
	uint32_t post; /* next to assign */
	uint16_t posted;
	uint16_t window, threshold; /* packets that may be outstanding; end of slow start */
	uint16_t acked;             /* towards the next step of the window */
	uint16_t window_max;
	uint16_t sacked;                /* packets of those outstanding that are known to have arrived */
	uint8_t window_fraction, stage; /* 1/256 packets; round trips since the last CNP */
	uint8_t rd_out, rd_max;         /* READ requests and atomics sent and not answered */
	uint8_t retries, retry_count;
	uint8_t rnr_tries, rnr_retry;
	uint8_t backoff;
	bool ready;   /* rc_request_output may find something to do */
	bool placing; /* a response waits until its payload is in place; the ones behind it are dropped, */
	bool missed;  /* and there were some */
	bool bind_started; /* head is a BIND that is being carried out */
	bool tlp_allowed;  /* the newest packet may be sent again early, to ask what has arrived */
	bool recovering;   /* went back, and nothing was acknowledged since */
	uint8_t spurious;  /* enum rc_spurious */
	bool rtt_pending;
	bool cut;               /* window was cut, and cut_psn is not yet acknowledged */
	bool congested;         /* CNPs govern the window: */
	uint32_t alpha, target; /* average of round trips with a CNP, / 65536; 1/256 packets */
	uint32_t rtt_psn, cut_psn;
	uint32_t srtt, rttvar; /* ns; srtt 0: no sample yet */
	uint32_t min_rto;      /* ns: twice the time that the peer was seen to take to answer; */
	uint32_t late;         /* as it will be if it was late and nothing lost */
	uint64_t rtt_time;
	uint64_t timer;                   /* RC_NEVER: nothing outstanding */
	uint64_t rnr_until;               /* RC_NEVER: not waiting */
	uint64_t progress_at;             /* last progress, or last retry charged */
	uint64_t recover_at;              /* when we went back, or probed */
	uint64_t limit;                   /* ns: upper bound of the retransmission time */
	bool forever;                     /* the CM's timeout was 0 */
	struct rc_scoreboard *scoreboard; /* NULL: nothing is lost */
};

/* What the timer has made us do, while it is not known whether anything was lost. */
enum rc_spurious {
	RC_SPURIOUS_NONE,
	RC_SPURIOUS_TLP,       /* sent the newest packet again; */
	RC_SPURIOUS_WENT_BACK, /* or from the oldest on, */
	RC_SPURIOUS_PASSED     /* and an answer was for more than that */
};

enum rc_resource_kind { RC_RESOURCE_NONE, RC_RESOURCE_READ, RC_RESOURCE_ATOMIC };

/* A READ or atomic of the peer: kept after it is answered, for its duplicates. */
struct rc_resource {
	uint32_t first;            /* wire PSN */
	uint32_t count;            /* PSNs */
	uint32_t start, next, end; /* the reply under way, relative to `first` */
	uint32_t rkey;
	uint32_t length;
	uint8_t kind;
	uint8_t opcode;
	union {
		uint64_t va;
		uint64_t found; /* atomics: the value before */
	};
};

enum rc_reply { RC_REPLY_NONE, RC_REPLY_ACK, RC_REPLY_NAK_SEQ, RC_REPLY_RNR, RC_REPLY_FATAL };

struct rc_responder {
	uint32_t epsn;
	uint32_t msn;
	uint32_t reply_psn;
	uint8_t reply; /* enum rc_reply: what goes out after the READ responses under way */
	uint8_t syndrome;
	uint8_t context;     /* RC_REQ_SEND or RC_REQ_WRITE: inside a message; 0: between */
	bool nak_sent;       /* this hole was reported */
	uint8_t closed;      /* RC_CLOSED_*: requests are not taken */
	bool missed;         /* some were dropped while RC_CLOSED_PLACING */
	bool stalled;        /* the READ response whose turn it is waits for its payload */
	bool recv_held;      /* `recv` is taken and not completed */
	uint8_t recv_status; /* of the held receive when this queue pair fails */
	bool established;
	bool cnp_due;
	uint8_t resources, resource_next; /* a power of two; where the next one goes */
	uint8_t rd_max;
	uint8_t min_rnr_timer;
	uint32_t pending;     /* bits of resources: a reply is under way; RC_PENDING_AGAIN */
	uint16_t fresh;       /* and it is the first one */
	uint32_t rkey;        /* WRITE in progress */
	uint32_t left, total; /* bytes to come, and placed, of the message */
	uint64_t va;
	uint64_t cnp_at;
	struct rc_resource resource[RC_RD_ATOMIC_MAX];
	struct rc_scoreboard *scoreboard; /* NULL: nothing is held */
	struct recv_work recv;
};

struct rc_qp {
	struct rc_env *env;
	void *user;
	uint32_t qpn, peer_qpn;
	uint32_t pz, access;
	uint8_t state; /* enum rc_state */
	uint8_t shift; /* log2 of mtu */
	uint16_t mtu;
	bool selective;
	struct wire_addr local, remote;
	struct wire_template template;
	struct wire_head head; /* of requests with data, and of responses from the middle of a READ */
	struct rc_requester req;
	struct rc_responder rsp;
	struct reach_party party;
};
_Static_assert(sizeof(struct rc_qp) <= 1536, "an idle queue pair stays small");

/* What a request opcode is made of. */
enum {
	RC_REQ_START = 0x01,
	RC_REQ_END = 0x02,
	RC_REQ_SEND = 0x04,
	RC_REQ_WRITE = 0x08,
	RC_REQ_READ = 0x10,
	RC_REQ_ATOMIC = 0x20,
	RC_REQ_IMM = 0x40,
	RC_REQ_INV = 0x80
};

static inline void
rc_count(struct rc_qp *qp, enum rc_counter counter)
{
	qp->env->counter[counter]++;
}

/* a - b of two wire PSNs as a signed distance. */
static inline int32_t
rc_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* Packets of a message of `len` bytes. */
static inline uint32_t
rc_packets(const struct rc_qp *qp, uint32_t len)
{
	return len == 0 ? 1 : (uint32_t)(((uint64_t)len + qp->mtu - 1) >> qp->shift);
}

/* READs and atomics: their request occupies a resource of the peer until its response has come. */
static inline bool
rc_is_rd(uint8_t op)
{
	return op == ONE_OP_READ || op == ONE_OP_FETCH_ADD || op == ONE_OP_CMP_SWAP;
}

/* ---- sg_list.c: local scatter/gather lists ---- */

struct rc_sg_list {
	uint32_t num;
	bool bounce; /* an sge lies in memory without mapping: see rc_scatter_slowly, reach_gather */
	struct mem_sge sge[ONE_MAX_SGE];
};

/*
 * Bytes [offset, offset+len) of a list, each sge checked over its whole
 * length.  enum one_status; LOCAL_LENGTH: the list is shorter.
 */
enum one_status rc_resolve_list(const struct rc_qp *qp, const struct one_sge *sge, uint32_t num_sge,
				uint32_t offset, uint32_t len, uint32_t access, struct rc_sg_list *out);

static inline enum one_status
rc_resolve(const struct rc_qp *qp, const struct one_sge *sge, uint32_t num_sge, uint32_t offset, uint32_t len,
	   uint32_t access, struct rc_sg_list *out)
{
	struct mem_sge *local = &out->sge[0];

	if (unlikely(num_sge != 1 || len == 0))
		return rc_resolve_list(qp, sge, num_sge, offset, len, access, out);
	if (unlikely((uint64_t)offset + len > sge->len))
		return ONE_STATUS_LOCAL_LENGTH;
	local->region = mem_check(qp->env->mem, sge->lkey, qp->pz, qp->qpn, access, sge->addr, sge->len);
	if (unlikely(local->region == NULL))
		return ONE_STATUS_LOCAL_PROTECTION;
	local->va = sge->addr + offset;
	local->len = len;
	out->num = 1;
	out->bounce = local->region->base == NULL;
	return ONE_STATUS_SUCCESS;
}

/* Whole units of a payload that completes nothing to its place, or to env->move. */
static inline void
rc_place_later(struct rc_env *env, uint8_t *to, const uint8_t *src, uint32_t len)
{
	if (len < RC_MOVE_MIN || env->move == NULL)
		mem_place(to, src, len);
	else
		*env->move = (struct wire_move){to, src, len};
}

/*
 * Payload of the packet that is being input to its place, or to env->move.  `last`: the message ends,
 * so it is placed at once.  Packets held on a scoreboard are gone when rc_input() is left.
 */
static inline void
rc_place(struct rc_qp *qp, const struct mem_region *region, uint64_t va, const uint8_t *src, uint32_t len,
	 bool last, const struct rc_scoreboard *scoreboard)
{
	if (last || scoreboard != NULL || len % WIRE_MOVE_UNIT != 0)
		mem_write(region, va, src, len);
	else
		rc_place_later(qp->env, mem_at(region, va), src, len);
}

/* Without `bounce`. */
void rc_gather(const struct rc_sg_list *list, uint8_t *dst);
void rc_scatter(const struct rc_sg_list *list, const uint8_t *src);
/*
 * With it: 0, -EFAULT, or -EAGAIN.  Then the packet is kept, and given to the same
 * function again when its payload `src` is in place; false in *kept: it is lost.
 */
int rc_scatter_slowly(struct rc_qp *qp, uint32_t slot, const struct rc_sg_list *list,
		      const struct wire_packet *packet, const uint8_t *src, uint32_t tag, bool *kept);

/* ---- resume.c ---- */

/* What may be under way at once in memory without mapping. */
enum { RC_REACH_SEND, RC_REACH_RESPOND, RC_REACH_REQUEST, RC_REACH_RESPONSE };
_Static_assert(RC_REACH_RESPONSE < REACH_SLOTS, "a slot for each");
_Static_assert(sizeof(struct wire_packet) <= REACH_NOTE, "a packet is kept as a note");

/* The packet of the slot, whose access has just been started. */
void rc_keep(struct rc_qp *qp, uint32_t slot, const struct wire_packet *packet);
/* A request, or a response, that comes while another waits; true: it is dropped. */
bool rc_request_missed(struct rc_qp *qp, int32_t distance);
bool rc_response_missed(struct rc_qp *qp);
/* The expected request waits for its memory; `kept` as above. */
void rc_request_parked(struct rc_qp *qp, bool kept);

/* ---- timer.c ---- */

uint64_t rc_rto(const struct rc_requester *rq);
/* `una` has advanced from `before`. */
void rc_progress(struct rc_qp *qp, uint32_t before, uint64_t now);
/* The loss that was suspected is real: a NAK reports it. */
void rc_lost(struct rc_requester *rq);
/* A round is about to be repeated; false: retries are used up. */
bool rc_charge(struct rc_requester *rq, uint64_t now);

/* ---- congestion.c ---- */

/* `acked` more are acknowledged, and the window is not at its maximum. */
void rc_window_grow(struct rc_qp *qp, uint32_t acked);
/* The path is congested, as a CNP or a mark says. */
void rc_congestion(struct rc_qp *qp);
/* Shrink the window, once per window of loss. */
void rc_window_cut(struct rc_requester *rq, uint16_t least);
void rc_window_timeout(struct rc_requester *rq);

/* `lost` packets were sent again in one round trip. */
void rc_window_lost(struct rc_requester *rq, uint32_t lost);

/* ---- selective.c ---- */

void rc_scoreboards_drop(struct rc_qp *qp);
/* The requester knows nothing of holes any more. */
void rc_forget_reports(struct rc_qp *qp);
/* Keep a request that came `distance` PSNs too early. */
void rc_hold_request(struct rc_qp *qp, const struct wire_packet *packet, uint32_t distance, uint64_t now);
/* Execute what was held, as far as it is in order now. */
void rc_held_requests(struct rc_qp *qp, uint64_t now);
/* READ responses that are to be sent again, apart from those under way; false: go back. */
bool rc_answer_again(struct rc_qp *qp, uint32_t psn, uint32_t count, uint64_t now);
/* The next of them, while RC_PENDING_AGAIN is set; and it is settled. */
uint32_t rc_next_again(struct rc_qp *qp);
void rc_answered_again(struct rc_qp *qp);
/* The bitmap of what is held behind the expected PSN; its length, at most RC_REPORT_MAX. */
uint32_t rc_report(const struct rc_qp *qp, uint8_t *map);
/* A sequence NAK for `psn` with a bitmap; false: go back. */
bool rc_report_input(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now);
/* All before `psn` was executed, but responses are missing; false: go back. */
bool rc_missing(struct rc_qp *qp, uint32_t psn, uint64_t now);
/* A response that comes too early; false: go back. */
bool rc_hold_response(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now);
/* `una` goes on over what the scoreboard has. */
void rc_held_responses(struct rc_qp *qp, uint64_t now);
/* On with PSN `psn`, which is behind `snd`; what is before it counts as sent. */
void rc_skip_to(struct rc_requester *rq, uint32_t psn);
/* `una` has advanced from `before`. */
void rc_scoreboard_pass(struct rc_requester *rq, uint32_t before);
/* What the timer is set to while there are holes. */
uint64_t rc_rescue_time(const struct rc_requester *rq);
/* The timer has expired; false: go back. */
bool rc_tail_loss_probe(struct rc_qp *qp, uint64_t now);
bool rc_rescue(struct rc_qp *qp, uint64_t now);
uint32_t rc_repair(struct rc_qp *qp, uint32_t budget, uint64_t now);

/* ---- middle.c ---- */

/*
 * Packets from `psn` on with an opcode without extension headers, and a whole path MTU each of the memory at
 * `from`, which is checked and mapped; how many there were frames for.
 */
uint32_t rc_emit_middles(struct rc_qp *qp, uint8_t opcode, uint32_t psn, uint32_t count, const uint8_t *from);

/* Whether a packet that does not end a message asks for an acknowledgement. */
static inline bool
rc_asks_ack(const struct rc_requester *rq, uint32_t psn)
{
	return (psn & (RC_ACK_EVERY - 1)) == RC_ACK_EVERY - 1 || psn + 1 - rq->una >= rq->window;
}

/* Of the packet that is being input, and is in place: so many may follow it, the first to `to`. */
static inline void
rc_run_begin(struct rc_qp *qp, const struct wire_packet *packet, uint8_t *to, uint32_t count, bool responses)
{
	/* Each mark of congestion counts. */
	if (count > 0 && likely(!packet->congestion))
		qp->env->run = (struct rc_run){qp, to, count, responses};
}

/* ---- requester.c, response.c ---- */

uint32_t rc_request_output(struct rc_qp *qp, uint32_t budget, uint64_t now);
void rc_response_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
/* Packet `psn` of `node` again, of a READ the responses [psn, psn + count); false: not now. */
bool rc_send_again(struct rc_qp *qp, struct rc_node *node, uint32_t psn, uint32_t count, uint64_t now);
/* All before `psn` is acknowledged. */
void rc_acknowledged(struct rc_qp *qp, uint32_t psn, uint64_t now);
/* The response for `una`. */
void rc_response_place(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now);
/* Send again from `una`. */
void rc_go_back(struct rc_qp *qp, uint64_t now);
/* Take the head off and report it. */
void rc_retire(struct rc_qp *qp, enum one_status status);

/* ---- responder.c, reply.c ---- */

extern const uint8_t rc_request_kind[32];

/* The expected packet is executed. */
static inline void
rc_executed(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind)
{
	struct rc_responder *rs = &qp->rsp;

	if (packet->ack_request || rs->reply != RC_REPLY_NONE) {
		rs->reply = RC_REPLY_ACK;
		rs->reply_psn = rs->epsn;
	}
	rs->epsn = (rs->epsn + 1) & RC_PSN_MASK;
	rs->nak_sent = false;
	rs->context = kind & RC_REQ_END ? 0 : kind & (RC_REQ_SEND | RC_REQ_WRITE);
}

/* The expected packet of a WRITE, and its payload is in place. */
static inline void
rc_written(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind, uint32_t len)
{
	struct rc_responder *rs = &qp->rsp;

	rs->va += len;
	rs->left -= len;
	rs->total += len;
	rc_executed(qp, packet, kind);
}

void rc_request_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
/* A request with the expected PSN. */
void rc_request_execute(struct rc_qp *qp, const struct wire_packet *packet);
uint32_t rc_reply_output(struct rc_qp *qp, uint32_t budget, uint64_t now);
/* The READ or atomic that `psn` belongs to; NULL: forgotten. */
struct rc_resource *rc_resource_of(struct rc_qp *qp, uint32_t psn);
/* Refuse for good: NAK with `syndrome` for `psn` goes out after the replies before it. */
void rc_refuse(struct rc_qp *qp, uint8_t syndrome, uint32_t psn, enum one_status recv_status);
void rc_cnp_note(struct rc_qp *qp, uint64_t now);
void rc_recv_complete(struct rc_qp *qp, const struct completion *c);

/* ---- qp.c ---- */

/* To RC_ERROR: `node` completes with `status`, all other work as FLUSHED; then env->failed. */
void rc_fail(struct rc_qp *qp, struct rc_node *node, enum one_status status, enum rc_error error);

/* There is one. */
static inline struct rc_node *
rc_node_get(struct rc_pool *pool)
{
	struct rc_node *node = pool->free;

	pool->free = node->next;
	__builtin_prefetch(node->next, 1);
	pool->available--;
	return node;
}

/* A list of them. */
static inline void
rc_nodes_put(struct rc_pool *pool, struct rc_node *first, struct rc_node *last, uint32_t count)
{
	last->next = pool->free;
	pool->free = first;
	pool->available += count;
}

static inline void
rc_node_put(struct rc_pool *pool, struct rc_node *node)
{
	rc_nodes_put(pool, node, node, 1);
}

/*
 * Queue pairs whose peers do not answer must not keep all: the second half of the
 * pool is for those that hold few, its last quarter for those that hold none.
 */
static inline bool
rc_pool_denies(const struct rc_pool *pool, uint32_t held)
{
	if (likely(pool->available > pool->count / 2) || held == 0)
		return false;
	return held >= RC_POOL_FEW || pool->available <= pool->count / 4;
}

/* rc_responder.pending: the scoreboard has READ responses to send again */
#define RC_PENDING_AGAIN 0x10000u

/* rc_responder.closed */
#define RC_CLOSED_FATAL 1u   /* RC_ERROR when the NAK is out */
#define RC_CLOSED_PLACING 2u /* one waits until its payload is in place */

#define RC_NAK_INVALID 0x61u
#define RC_NAK_ACCESS 0x62u
#define RC_NAK_OPERATION 0x63u

#endif
