/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The oneside provider: its objects, and what its files share.
 *
 * Objects live in memory that stays theirs until their IA is closed (a freed
 * one waits in the IA's pool for the next of its kind), so a lookup without a
 * lock may find an object that has been freed, but never foreign memory.
 *
 * Order of locks: ia.lock, ep.send_lock, ep.recv_lock, srq.lock, cno.lock, evd.lock.  Over a
 * message to the data plane no lock is held but listen_lock, evd.lock (during a
 * resize) and the posting locks (during a reset).
 */
#ifndef DAT_PROVIDER_INTERNAL_H
#define DAT_PROVIDER_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#include "client/client.h"
#include "handle.h"
#include "idmap.h"
#include "lock.h"

#define DAT_ERROR(type, subtype) ((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_UINT32)(type) | (DAT_UINT32)(subtype)))
#define BAD_HANDLE(kind) DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define BAD_ARG(n) DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG##n)
#define BAD_STATE(state) DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_##state)

#define OBJECT_TYPES 11 /* DAT_HANDLE_TYPE_* */

struct ia;

struct object {
	struct idmap_node node; /* by the id or key the data plane knows it by */
	DAT_HANDLE_TYPE type;
	struct ia *ia;
	DAT_HANDLE handle;
	struct object *next, **link; /* of its kind in the IA; in the pool: next only */
};

struct pz {
	struct object o;
	uint32_t id;
	uint32_t refs; /* endpoints, regions, windows, shared receive queues; ia.lock */
};
/* NULL: no zone of this IA.  The reference is given back by refs--, under the IA's lock. */
struct pz *pz_ref(struct ia *ia, DAT_PZ_HANDLE handle);

struct lmr {
	struct object o; /* by lkey */
	struct one_mr mr;
	struct pz *pz;
	DAT_MEM_TYPE mem_type;
	DAT_MEM_PRIV_FLAGS priv;
	DAT_REGION_DESCRIPTION desc;
	char cookie[DAT_LMR_COOKIE_SIZE]; /* SHARED_VIRTUAL */
	uint32_t refs;                    /* windows bound to it; ia.lock */
	bool freeing;                     /* ia.lock */
};

static inline bool
lmr_covers(const struct lmr *lmr, const DAT_LMR_TRIPLET *piece)
{
	return piece->segment_length <= lmr->mr.length && piece->virtual_address >= lmr->mr.va &&
	       piece->virtual_address - lmr->mr.va <= lmr->mr.length - piece->segment_length;
}

struct rmr {
	struct object o; /* by its key with the variant all ones */
	uint32_t id;
	DAT_RMR_CONTEXT key; /* of the last bind */
	struct pz *pz;
	/* ia.lock */
	struct lmr *lmr; /* NULL: not bound */
	DAT_LMR_TRIPLET triplet;
	DAT_MEM_PRIV_FLAGS priv;
};

struct cno {
	struct object o;
	pthread_mutex_t lock;
	pthread_cond_t agent_news; /* for the agent's thread */
	uint16_t channel;
	struct evd *evds; /* by evd.cno_next */
	uint32_t waiters;
	uint64_t releases; /* times the last EVD was freed */
	bool closing;
	bool has_thread, stop;
	pthread_t thread;
	DAT_OS_WAIT_PROXY_AGENT agent;
};

enum evd_end { EVD_LIVE = 0, EVD_FREED, EVD_ABORTED };

/* Entries taken off the rings, or made by the library: see evd_queue.c. */
struct stash {
	struct one_cqe *entry;
	uint32_t size; /* a power of two, or 0 */
	uint32_t head;
	uint32_t count;
	uint32_t notify; /* of them, those with ONE_CQE_NOTIFY */
};

struct evd {
	struct object o; /* by the id of its ring */
	struct lock lock;
	bool has_cq;
	bool waiter;
	bool unwaitable;
	bool disabled;
	enum evd_end end;
	struct one_cq cq;
	struct stash stash;
	uint64_t arrived; /* notifications that came into the stash */
	DAT_EVD_FLAGS flags;
	uint32_t qlen;
	uint64_t demand;                 /* events that the endpoints which feed it can have outstanding */
	uint32_t unsignalled, solicited; /* streams of that kind that feed it */
	uint16_t channel;                /* where the waiter sleeps */
	uint32_t users;                  /* threads inside dat_evd_wait */
	struct ia *guests;               /* asynchronous: other IAs that report here, by ia.async_next */
	struct cno *cno;
	struct evd *cno_next;
	uint64_t cno_seen, agent_seen; /* value of `arrived` up to which the CNO was triggered */
	uint64_t since;                /* when the first one after that came, by ia.arrivals */
	_Atomic(struct ep *) last_ep;  /* of the last completion: spares a lookup */
	uint32_t refs;                 /* endpoints, service points, IAs; ia.lock */
};

struct srq {
	struct object o;  /* by its id */
	struct lock lock; /* posting, and what follows */
	struct one_srq q;
	DAT_COUNT max_recv_dtos, low_watermark;
	DAT_COUNT max_recv_iov;
	struct pz *pz;
	uint32_t refs; /* endpoints; ia.lock */
};

/* What the library knows of an endpoint; the engine's word (one_qp_shm.state) counts in ACTIVE and ACCEPTED.
 */
enum ep_phase {
	EP_UNCONNECTED = 0,
	EP_CHANGING, /* a call that ends in another phase is under way */
	EP_RESERVED,
	EP_PASSIVE,
	EP_TENTATIVE,
	EP_ACTIVE,  /* connect was issued */
	EP_ACCEPTED /* accept was issued */
};

/* A work request that is under way: what a flush by the library needs. */
struct posted {
	uint64_t cookie;
	uint32_t key;  /* bind: the new key, else 0 */
	uint32_t slot; /* where it begins in its ring */
};

struct ep {
	struct object o; /* by the id of its queue pair */
	_Atomic uint32_t phase;
	_Atomic bool closing; /* disconnect was issued */
	bool active;          /* the connecting side of its connection */
	struct lock send_lock, recv_lock;
	struct one_qp qp;
	struct posted *send_log, *recv_log; /* rings, by qp.sq_posted and rq_posted */
	uint32_t send_mask, recv_mask;
	uint32_t max_send_iov, max_recv_iov, max_read_iov, max_write_iov;
	uint64_t max_message, max_rdma;
	struct pz *pz;
	_Atomic(const struct lmr *) last_lmr; /* of the last request: spares a lookup */
	bool may_unsignal_send, may_unsignal_recv;
	DAT_EP_ATTR attr;
	struct evd *recv_evd, *send_evd, *conn_evd;
	struct srq *srq;    /* where receives come from; NULL: the endpoint has its own */
	DAT_COUNT srq_dtos; /* receives that may complete here before any is taken off the EVD */
	/* ia.lock */
	struct sockaddr_storage remote;
	DAT_CONN_QUAL remote_qual;
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
};

/* A service point, public or reserved. */
struct sp {
	struct object o; /* by the id of its listener */
	DAT_CONN_QUAL qual;
	struct evd *evd;
	DAT_PSP_FLAGS flags; /* PSP */
	struct ep *ep;       /* RSP, until its request comes; ia.lock */
	DAT_EP_HANDLE ep_handle;
};

struct cr {
	struct object o;
	uint32_t id;
	struct ep *ep; /* supplied by the service point */
	bool reserved; /* by an RSP: the endpoint is the consumer's */
	DAT_CONN_QUAL qual;
	struct sockaddr_storage remote;
	uint16_t remote_port;
	uint16_t private_len;
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
};

struct ia {
	struct object o;
	const void *provider; /* the table that the handles of this IA begin with */
	struct one_client *client;
	pthread_mutex_t lock;
	pthread_mutex_t listen_lock; /* held from LISTEN until the listener is known by its id */
	_Atomic bool lost;           /* the data plane has gone */
	_Atomic bool swept;          /* ... and all objects have been told */
	_Atomic uint64_t arrivals; /* orders events of different EVDs, as far as the library sees them come */
	struct object *list[OBJECT_TYPES];
	struct object *pool[OBJECT_TYPES];
	uint32_t count[OBJECT_TYPES];
	struct idmap eps, lmrs, rmrs, sps, evds, srqs;
	struct evd *async_evd; /* NULL: out of scope */
	bool async_mine;       /* made by open: not the consumer's to free */
	/* of an IA that reports to the EVD of another */
	struct one_cq async_cq;
	struct ia *async_next;
	struct sockaddr_storage addr;
	char name[DAT_NAME_MAX_LENGTH];
};

extern const DAT_PROVIDER oneside_provider;

/* ---- object.c ---- */

/* A zeroed object of this kind, not yet in any list; NULL: no memory. */
void *object_new(struct ia *ia, DAT_HANDLE_TYPE type);
/* Gives it a handle and puts it in the IA's list; ia.lock held.  -ENOMEM. */
int object_publish(struct object *o);
/* The handle ends; ia.lock held.  Needs object_discard yet. */
void object_retire(struct object *o);
/* Back to the pool; ia.lock held. */
void object_discard(struct object *o);
/* The DAT code of what the data plane said: -EDQUOT and -ENOSPC become INSUFFICIENT_RESOURCES with `subtype`.
 */
DAT_RETURN dat_errno(int error, DAT_RETURN_SUBTYPE subtype);

/* ---- ia.c ---- */

/* Opens by attachment; `params` is field 7 of dat.conf, `provider` the table for its handles. */
DAT_RETURN ia_open(const char *name, const char *params, const void *provider, DAT_COUNT qlen,
		   DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle);

/* ---- lost.c ---- */

/* After the data plane has gone: flushes, BROKEN and CATASTROPHIC, once.  No lock held. */
void ia_sweep(struct ia *ia);
/* Sweeps the IAs that report to an asynchronous EVD, where needed; true when it did: look again. */
bool ia_sweep_reporters(struct evd *evd);
void ia_mark_lost(struct ia *ia);
/* Completes one piece of work as FLUSHED. */
void ep_flush_one(struct ep *ep, struct evd *evd, uint8_t type, const struct posted *posted);
static inline bool
ia_lost(const struct ia *ia)
{
	/* Pairs with the release store in the callback of the client core. */
	return __builtin_expect(atomic_load_explicit(&ia->lost, memory_order_acquire), 0);
}

/* ---- evd.c ---- */

/* Takes a reference for a stream; NULL when the handle is no EVD of this IA with these flags.  ia.lock held.
 */
struct evd *evd_ref(struct ia *ia, DAT_EVD_HANDLE handle, DAT_EVD_FLAGS needed);
void evd_unref(struct evd *evd); /* ia.lock held */
/* An EVD not yet published; an error code in *ret. */
struct evd *evd_make(struct ia *ia, uint32_t qlen, DAT_EVD_FLAGS flags, DAT_RETURN *ret);
void evd_destroy(struct evd *evd); /* retired; returns it to the pool.  No lock held */
/* Makes room for `events` more, or less; no lock held. */
void evd_demand(struct evd *evd, int64_t events);
DAT_RETURN evd_config_error(const struct evd *evd); /* threshold above 1: 0 or the INVALID_STATE code */
/* Ends waits with DAT_ABORT; evd_destroy lets the threads leave. */
void evd_abort(struct evd *evd);

/* ---- evd_queue.c: evd.lock held ---- */

void evd_collect(struct evd *evd); /* tells who sleeps for it */
bool evd_push(struct evd *evd, const struct one_cqe *cqe); /* false: no memory */
bool evd_pop(struct evd *evd, struct one_cqe *out);
uint32_t evd_count(struct evd *evd);
/* Takes entries of this queue pair or IA out of the stash. */
void evd_purge(struct evd *evd, bool (*drop)(const struct one_cqe *cqe, void *arg), void *arg);
void evd_kick(struct evd *evd); /* after a push: the waiter, or the CNO */
void stash_fini(struct stash *stash);

/* ---- evd_wait.c ---- */

/* How long to sleep on an EVD that other IAs report to. */
uint64_t wait_with_guests(uint64_t deadline);

/* The same for any EVD; costs one load as long as all is well. */
static inline bool
ia_sweep_if_lost(struct evd *evd)
{
	struct ia *ia = evd->o.ia;

	if (__builtin_expect((evd->flags & DAT_EVD_ASYNC_FLAG) != 0, 0))
		return ia_sweep_reporters(evd);
	if (!ia_lost(ia) || atomic_load_explicit(&ia->swept, memory_order_acquire))
		return false;
	ia_sweep(ia);
	return true;
}

/* ---- lmr.c ---- */

/* dat_lmr_create with the privileges that may be asked for. */
DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type,
		      const DAT_REGION_DESCRIPTION *description, DAT_VLEN length, DAT_PZ_HANDLE pz_handle,
		      uint32_t privileges, uint32_t allowed, DAT_LMR_HANDLE *lmr_handle,
		      DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
		      DAT_VADDR *registered_address);

/*
 * What is wrong with a local segment of some length, of the region `lmr`: that is unknown (NULL), or without
 * the right to write where data comes in (`write`; to read is everybody's right), of another zone than `pz`
 * (NULL: of any), too short.  Segments are argument 3 of every post.
 */
static inline DAT_RETURN
judge_segment(const struct lmr *lmr, const struct pz *pz, const DAT_LMR_TRIPLET *piece, bool write)
{
	if (lmr == NULL || (write && ((uint32_t)lmr->priv & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) == 0))
		return DAT_ERROR(DAT_PRIVILEGES_VIOLATION,
				 write ? DAT_PRIVILEGES_WRITE : DAT_PRIVILEGES_READ);
	if (pz != NULL && lmr->pz != pz)
		return DAT_ERROR(DAT_PROTECTION_VIOLATION,
				 write ? DAT_PROTECTION_WRITE : DAT_PROTECTION_READ);
	return lmr_covers(lmr, piece) ? DAT_SUCCESS : BAD_ARG(3);
}

static inline DAT_RETURN
check_segment(const struct ia *ia, const struct pz *pz, const DAT_LMR_TRIPLET *piece, bool write)
{
	return judge_segment((const struct lmr *)idmap_find(&ia->lmrs, piece->lmr_context), pz, piece, write);
}

/* ---- event.c: no lock held ---- */

/* Entry types that only the library makes. */
#define CQE_SOFTWARE 0xf0
#define CQE_LOST 0xf1

/*
 * From an entry to an event; false: the entry is about something that has gone.
 * Completions of transfers look different in each version of the API, so each
 * library has its own event_fill (event_dto.c here); event_other does the rest.
 */
bool event_fill(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
/* Of each version, too: an endpoint of an SRQ tells with DAT_ASYNC_ERROR_EP_BROKEN that it takes no more. */
extern const bool event_srq_ep_ends;
bool event_other(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
struct ep *event_ep(struct evd *evd, uint32_t id);
/* What the peer sent with its answer to a connect. */
void event_private_data(struct ep *ep, DAT_CONNECTION_EVENT_DATA *data);
DAT_DTO_COMPLETION_STATUS event_status(uint8_t status);

/* ---- cno.c ---- */

/* ia.lock held.  The agent to call, with no lock held and a null EVD, if that was the last EVD and it was
 * freed. */
DAT_OS_WAIT_PROXY_AGENT cno_detach_evd(struct evd *evd, bool freed);
void cno_attach_evd(struct cno *cno, struct evd *evd); /* ia.lock held */
void cno_call_agent(DAT_OS_WAIT_PROXY_AGENT agent, DAT_EVD_HANDLE evd_handle);
bool cno_is_agent_of(const struct ia *ia); /* called by an agent of this IA */
void cno_destroy(struct cno *cno);         /* releases waiters and the agent; no lock held */
void cno_poke(struct cno *cno);            /* somebody should look again */

/* ---- ep.c ---- */

DAT_EP_STATE ep_state(const struct ep *ep);
/* Short for the state that an endpoint is posted to in. */
static inline bool
ep_is_connected(const struct ep *ep)
{
	uint32_t phase = atomic_load_explicit(&ep->phase, memory_order_acquire);

	/* Acquire pairs with the engine's store of the state, as in ep_state. */
	return (phase == EP_ACTIVE || phase == EP_ACCEPTED) && !ia_lost(ep->o.ia) &&
	       atomic_load_explicit(&ep->qp.shm->state, memory_order_acquire) == ONE_QP_CONNECTED &&
	       !atomic_load_explicit(&ep->closing, memory_order_relaxed);
}
DAT_RETURN ep_state_error(DAT_EP_STATE state);
struct ep *ep_make(struct ia *ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
		   DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr, enum ep_phase phase,
		   DAT_RETURN *ret);
void ep_destroy(struct ep *ep); /* in whatever state; no lock held */
DAT_RETURN ep_check_attr(const struct ia *ia, const DAT_EP_ATTR *attr);
void ep_apply_attr(struct ep *ep);
void ep_fill_create(const struct ep *ep, struct one_qp_create *args);
void ep_count_streams(struct ep *ep, int sign);
int ep_new_logs(const DAT_EP_ATTR *attr, struct posted **send_log, uint32_t *send_mask,
		struct posted **recv_log, uint32_t *recv_mask);
static inline bool
ep_move(struct ep *ep, enum ep_phase from, enum ep_phase to)
{
	uint32_t expected = from;

	return atomic_compare_exchange_strong(&ep->phase, &expected, to);
}

/* ---- srq.c ---- */

/* ia.lock held: takes a reference; NULL when the handle is none of this IA. */
struct srq *srq_ref(struct ia *ia, DAT_SRQ_HANDLE handle);
void srq_destroy(struct srq *srq); /* retired; no lock held */

/* ---- ep_conn.c ---- */

/* Who the endpoint is to be connected to, by its own request if `active`; NULL: nobody any more.  No lock
 * held. */
void ep_set_peer(struct ep *ep, const struct sockaddr_storage *remote, DAT_CONN_QUAL qual, bool active);
DAT_RETURN ep_check_private(const struct ia *ia, DAT_COUNT size, const void *data, DAT_RETURN bad_size,
			    DAT_RETURN bad_data);

/* ---- ep_post.c ---- */

/* Posts the receives outstanding on `from` again; recv_lock held. */
int ep_move_recvs(struct ep *ep, struct one_qp *from, struct posted *log, uint32_t mask);
/* A send that makes the peer's window with this context useless; else dat_ep_post_send. */
DAT_RETURN ep_post_send_inv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
			    DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags,
			    DAT_RMR_CONTEXT context);
/* RDMA write with immediate data, as on the wire; the prototype is dat_ep_post_rdma_write's. */
DAT_RETURN ep_post_write_imm(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
			     DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote_iov, uint32_t imm,
			     DAT_COMPLETION_FLAGS completion_flags);
/* ONE_OP_FETCH_ADD with the value to add, or ONE_OP_CMP_SWAP; what was found goes to `result`. */
DAT_RETURN ep_post_atomic(DAT_EP_HANDLE ep_handle, uint8_t op, uint64_t add_or_swap, uint64_t compare,
			  const DAT_LMR_TRIPLET *result, DAT_DTO_COOKIE user_cookie,
			  const DAT_RMR_TRIPLET *remote_iov, DAT_COMPLETION_FLAGS completion_flags);
/* DAT_SUCCESS, or why no request can be posted in this state. */
DAT_RETURN ep_check_request(const struct ep *ep);
/* ia.lock held, the state checked. */
DAT_RETURN ep_post_bind(struct ep *ep, uint32_t key, const DAT_LMR_TRIPLET *triplet, uint32_t access,
			uint64_t cookie, DAT_COMPLETION_FLAGS completion_flags);

/* ---- service points and requests ---- */

struct sp *sp_make(struct ia *ia, DAT_HANDLE_TYPE type, DAT_EVD_HANDLE evd_handle, DAT_RETURN *ret);
void sp_discard(struct sp *sp);
DAT_RETURN sp_free(DAT_HANDLE handle, DAT_HANDLE_TYPE type, DAT_RETURN bad_handle);
DAT_RETURN sp_listen(struct sp *sp, uint32_t flags, DAT_CONN_QUAL qual);
/* The event of a request; false when it was refused. */
bool cr_arrived(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
/* Refuses the request that lies at this place of the arena. */
void cr_refuse(struct ia *ia, uint64_t offset);
/* dat_cr_reject, with what the requester is told. */
DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT private_data_size, const void *private_data);
/* No lock held; the EP is the caller's affair.  Unanswered: the requester is refused. */
void cr_destroy(struct cr *cr, bool unanswered);
void sp_destroy(struct sp *sp);
void rmr_destroy(struct rmr *rmr);
void lmr_destroy(struct lmr *lmr);
void pz_destroy(struct pz *pz);

/* ---- the calls, in the provider table ---- */

#include "calls.h"

#endif
