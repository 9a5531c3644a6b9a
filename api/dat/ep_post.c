/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting.  The library checks counts, flags, lengths, state, and the consumer's rights to local segments, so
 * that the call can return errors.  The data plane checks everything again when it executes the request: a
 * region may be freed in between, and the application can write to the rings. */
#include "client/post.h"
#include "dat/ep.h"

#define FLAGS_RDMA \
	(DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)
#define FLAGS_SEND (FLAGS_RDMA | DAT_COMPLETION_SOLICITED_WAIT_FLAG)

/* Inlined so that the compiler builds a request of one segment in registers. */
#define ALWAYS __attribute__((always_inline))

#define FULL DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS)

/* ---- explanations of refused posts; out of line, off the fast path ---- */

static __attribute__((cold, noinline)) DAT_RETURN
bad_flags(uint32_t flags, uint32_t known, DAT_RETURN ret)
{
	if ((flags & ~known) != 0)
		return BECAUSE(ret, "completion_flags = %#x: this call has no flags %#x; leave them out",
			       flags, flags & ~known);
	return BECAUSE(
		ret,
		"completion_flags = %#x: DAT_COMPLETION_UNSIGNALLED_FLAG needs an endpoint created with it in request_completion_flags or recv_completion_flags; create ep_handle with it",
		flags);
}

static __attribute__((cold, noinline)) DAT_RETURN
bad_count(DAT_COUNT count, uint32_t max, const void *iov)
{
	if (count > 0 && (uint32_t)count <= max && iov == NULL)
		return BECAUSE(BAD_ARG(3),
			       "local_iov = 0: it may not be null with num_segments %d; give the segments",
			       count);
	return BECAUSE(
		BAD_ARG(2),
		"num_segments = %d: the endpoint takes 0 to %u; give fewer, or create it with more in its max_*_iov attributes",
		count, max);
}

static __attribute__((cold, noinline)) DAT_RETURN
too_long(uint64_t length, uint64_t max)
{
	return BECAUSE(BAD_ARG(3),
		       "local_iov.segment_length = %" PRIu64 ": a message has at most %" PRIu64
		       " bytes here; send less, or create the endpoint with a larger max_message_size",
		       length, max);
}

static __attribute__((cold, noinline)) DAT_RETURN
no_reads_agreed(void)
{
	return BECAUSE(
		BAD_ARG(1),
		"ep_handle: the connection was negotiated for 0 RDMA reads and atomics; create this endpoint with a larger max_rdma_read_out, the peer's with a larger max_rdma_read_in");
}

static __attribute__((cold, noinline)) DAT_RETURN
lengths_differ(uint64_t local, uint64_t remote, const struct ep *ep, uint8_t op)
{
	return BECAUSE(DAT_ERROR(DAT_LENGTH_ERROR, DAT_NO_SUBTYPE),
		       "remote_iov.segment_length = %" PRIu64 ": %s local_iov's %" PRIu64
		       " bytes, or both exceed the endpoint's max_rdma_size %" PRIu64 "; make the %s as long",
		       remote, op == ONE_OP_READ ? "it may not be more than" : "it may not be less than",
		       local, (uint64_t)ep->max_rdma, op == ONE_OP_READ ? "local buffer" : "remote segment");
}

static __attribute__((cold, noinline)) DAT_RETURN
bad_segment(const struct ia *ia, DAT_LMR_TRIPLET segment, DAT_RETURN ret)
{
	const struct lmr *lmr = object_find(ia, DAT_HANDLE_TYPE_LMR, segment.lmr_context);

	if (lmr == NULL)
		return BECAUSE(
			ret,
			"local_iov.lmr_context = %#x: no LMR of this IA has this context; give the lmr_context (not rmr_context) of dat_lmr_create, and free the LMR after the last post",
			segment.lmr_context);
	switch (DAT_GET_TYPE(ret)) {
	case DAT_PRIVILEGES_VIOLATION:
		return BECAUSE(
			ret,
			"local_iov.lmr_context = %#x: data comes in here, and the LMR has no DAT_MEM_PRIV_LOCAL_WRITE_FLAG; give it to dat_lmr_create",
			segment.lmr_context);
	case DAT_PROTECTION_VIOLATION:
		return BECAUSE(
			ret,
			"local_iov.lmr_context = %#x: the LMR and the endpoint belong to different PZs; create both in one PZ",
			segment.lmr_context);
	default:
		return BECAUSE(ret,
			       "local_iov = %#" PRIx64 " + %" PRIu64 ": outside its LMR, %#" PRIx64
			       " + %" PRIu64 "; register as much as is posted",
			       segment.virtual_address, segment.segment_length, lmr->mr.va, lmr->mr.length);
	}
}

/* Segments of nonzero length, and the sum of their lengths. */
struct segments {
	uint32_t count;
	uint64_t total;
	const DAT_LMR_TRIPLET *segment[ONE_MAX_SGE];
};

static DAT_RETURN
gather_segments(DAT_COUNT num_segments, const DAT_LMR_TRIPLET *iov, uint32_t max, struct segments *out)
{
	out->count = 0;
	out->total = 0;
	if (num_segments < 0 || (uint32_t)num_segments > max || (num_segments > 0 && iov == NULL))
		return bad_count(num_segments, max, iov);
	for (DAT_COUNT i = 0; i < num_segments; i++) {
		if (iov[i].segment_length == 0)
			continue;
		/* With this limit the sum of ONE_MAX_SGE lengths cannot overflow. */
		if (iov[i].segment_length > UINT32_MAX)
			return too_long(iov[i].segment_length, UINT32_MAX);
		out->total += iov[i].segment_length;
		out->segment[out->count++] = &iov[i];
	}
	return DAT_SUCCESS;
}

/* True for the usual list: exactly one segment, not empty. */
static inline bool
is_one_segment(DAT_COUNT num_segments, const DAT_LMR_TRIPLET *iov, uint32_t max)
{
	return num_segments == 1 && max != 0 && iov != NULL && iov->segment_length - 1 < UINT32_MAX;
}

/* Small payloads are copied at posting.  Behind a fence they must not be: an earlier READ may still write
 * them. */
static inline ALWAYS bool
may_take_now(uint32_t flags)
{
	return (flags & DAT_COMPLETION_BARRIER_FENCE_FLAG) == 0;
}

static uint8_t
wqe_flags(uint32_t flags)
{
	_Static_assert(DAT_COMPLETION_SUPPRESS_FLAG == ONE_WQE_SUPPRESS, "suppress");
	_Static_assert(DAT_COMPLETION_BARRIER_FENCE_FLAG == ONE_WQE_FENCE, "fence");

	return (uint8_t)((flags & (DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG)) |
			 ((flags & DAT_COMPLETION_UNSIGNALLED_FLAG) != 0 ? ONE_WQE_UNSIGNALED : 0u) |
			 ((flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0 ? ONE_WQE_SOLICITED : 0u));
}

/* Checks the segments.  An endpoint without a zone accepts receives of any zone: it gets a zone before data
 * arrives. */
static inline ALWAYS DAT_RETURN
check_local(const struct ep *ep, const struct segments *segments, bool write)
{
	DAT_RETURN ret = DAT_SUCCESS;

	for (uint32_t i = 0; i < segments->count && ret == DAT_SUCCESS; i++) {
		ret = check_segment(ep->o.ia, ep->pz, segments->segment[i], write);
		if (ret != DAT_SUCCESS)
			return bad_segment(ep->o.ia, *segments->segment[i], ret);
	}
	return ret;
}

static void
fill_segments(struct ep *ep, struct one_wqe *wqe, const struct segments *segments)
{
	for (uint32_t i = 0; i < segments->count; i++)
		one_post_sge(&ep->qp, wqe, i, segments->segment[i]->virtual_address,
			     (uint32_t)segments->segment[i]->segment_length,
			     segments->segment[i]->lmr_context);
}

/* Copies the segments' bytes, at most ONE_INLINE_MAX, into words. */
static void
fill_inline(uint64_t data[ONE_INLINE_MAX / 8], const struct segments *segments)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < segments->count; i++) {
		uint32_t len = (uint32_t)segments->segment[i]->segment_length;

		/* Bounded here because the consumer may change its list after the check. */
		if (len > ONE_INLINE_MAX - at)
			len = ONE_INLINE_MAX - at;
		memcpy((uint8_t *)data + at, (const void *)(uintptr_t)segments->segment[i]->virtual_address,
		       len);
		at += len;
	}
}

/* Flushes a request that is posted after the data plane is lost: no core will take it. */
static DAT_RETURN
post_lost(struct ep *ep, struct evd *evd, uint8_t type, struct posted posted)
{
	/* dapl_rmr_bind holds ia.lock, and has swept before. */
	if (type != ONE_CQE_BIND)
		lost_sweep(ep->o.ia);
	lost_flush_one(ep, evd, type, &posted);
	return DAT_SUCCESS;
}

static void
log_send(struct ep *ep, struct posted posted)
{
	ep->logs.send[ep->qp.sq_posted & ep->logs.send_mask] = posted;
}

DAT_RETURN
ep_check_unusual(const struct ep *ep)
{
	DAT_EP_STATE state = ep_state(ep);

	return state == DAT_EP_STATE_CONNECTED || state == DAT_EP_STATE_DISCONNECTED ? DAT_SUCCESS
										     : ep_state_error(state);
}

/* A work request.  For one segment the compiler must hold it in registers, not in memory: loading a whole
 * word that was stored in halves waits for all earlier stores, including those to cache lines of the polling
 * core. */
struct request {
	uint8_t op;
	uint8_t flags;
	bool may_inline;
	uint32_t length;
	uint64_t cookie;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t imm;
	uint64_t add_or_swap; /* atomics */
};

/* True if the operation writes to the local segments. */
static inline ALWAYS bool
writes_here(uint8_t op)
{
	return op == ONE_OP_READ || op == ONE_OP_FETCH_ADD || op == ONE_OP_CMP_SWAP;
}

static inline ALWAYS struct posted
posted_by(struct request request)
{
	return (struct posted){.cookie = request.cookie, .key = request.op == ONE_OP_BIND ? request.rkey : 0};
}

static inline ALWAYS void
put_request(struct ep *ep, struct request request, uint8_t flags, uint8_t num_sge, uint8_t inline_len,
	    const uint64_t data[ONE_INLINE_MAX / 8], uint32_t words)
{
	log_send(ep, posted_by(request));
	one_send_put(&ep->qp, one_send_head(request.op, flags, num_sge, inline_len), request.length,
		     request.cookie, request.remote_addr, (uint64_t)request.imm << 32 | request.rkey, data,
		     words);
}

/* ---- requests of one nonempty segment: the usual case ---- */

/* send_lock held; the queue has room. */
static inline ALWAYS void
put_segment(struct ep *ep, struct request request, DAT_LMR_TRIPLET segment)
{
	const void *bytes = (const void *)(uintptr_t)segment.virtual_address;
	uint32_t len = (uint32_t)segment.segment_length;

	if (request.may_inline && len == sizeof(uint64_t)) {
		uint64_t word[ONE_INLINE_MAX / 8];

		memcpy(word, bytes, sizeof(uint64_t));
		put_request(ep, request, request.flags | ONE_WQE_INLINE, 0, sizeof(uint64_t), word, 1);
	} else if (request.may_inline && len <= ONE_INLINE_MAX) {
		uint64_t data[ONE_INLINE_MAX / 8] = {0};

		memcpy(data, bytes, len);
		put_request(ep, request, request.flags | ONE_WQE_INLINE, 0, (uint8_t)len, data,
			    ONE_INLINE_MAX / 8);
	} else {
		const uint64_t data[ONE_INLINE_MAX / 8] = {segment.virtual_address,
							   (uint64_t)segment.lmr_context << 32 | len};

		put_request(ep, request, request.flags, 1, 0, data, 2);
	}
}

static inline ALWAYS DAT_RETURN
check_one_segment(struct ep *ep, const DAT_LMR_TRIPLET *segment, bool write)
{
	const struct lmr *lmr = one_load_alone(&ep->last_lmr);

	/* A freed region has key 0, so it matches no context. */
	if (__builtin_expect(lmr == NULL || segment->lmr_context == 0 ||
				     idmap_key(&lmr->o.node) != segment->lmr_context,
			     0)) {
		lmr = object_find(ep->o.ia, DAT_HANDLE_TYPE_LMR, segment->lmr_context);
		if (lmr != NULL)
			one_store_alone(&ep->last_lmr, lmr);
	}
	return judge_segment(lmr, ep->pz, segment, write);
}

static inline ALWAYS DAT_RETURN
post_segment(struct ep *ep, struct request request, DAT_LMR_TRIPLET segment)
{
	DAT_RETURN ret = ep_check_request(ep);
	bool room;

	if (ret != DAT_SUCCESS)
		return ret;
	ret = check_one_segment(ep, &segment, writes_here(request.op));
	if (ret != DAT_SUCCESS)
		return bad_segment(ep->o.ia, segment, ret);
	lock_take(&ep->send_lock);
	if (ia_lost(ep->o.ia)) {
		lock_drop(&ep->send_lock);
		return post_lost(ep, ep->send_evd, ONE_CQE_SEND, posted_by(request));
	}
	room = __builtin_expect(one_send_has_room(&ep->qp), 1);
	if (room)
		put_segment(ep, request, segment);
	lock_drop(&ep->send_lock);
	return room ? DAT_SUCCESS : FULL;
}

/* ---- requests of no segment, or of several ---- */

/* Fills a reserved slot except for its segments. */
static inline ALWAYS void
fill_wqe(struct one_wqe *wqe, struct request request)
{
	wqe->op = request.op;
	wqe->flags = request.flags;
	wqe->inline_len = 0;
	wqe->length = request.length;
	wqe->cookie = request.cookie;
	wqe->remote_addr = request.remote_addr;
	wqe->rkey = request.rkey;
	wqe->imm = request.imm;
	memset(wqe->reserved, 0, sizeof(wqe->reserved));
}

/* send_lock held; false: no room. */
static bool
put_segments(struct ep *ep, const struct request *request, const struct segments *segments)
{
	struct one_wqe *wqe = one_send_reserve(&ep->qp, segments->count);

	if (wqe == NULL)
		return false;
	fill_wqe(wqe, *request);
	fill_segments(ep, wqe, segments);
	wqe->atomic.add_or_swap = request->add_or_swap; /* ignored for other operations */
	log_send(ep, posted_by(*request));
	one_send_commit(&ep->qp, wqe);
	return true;
}

/* Puts a request with its payload in the slot.  send_lock held; false: no room. */
static bool
put_inline(struct ep *ep, const struct request *request, const struct segments *segments)
{
	uint64_t data[ONE_INLINE_MAX / 8] = {0};

	if (!one_send_has_room(&ep->qp))
		return false;
	fill_inline(data, segments);
	put_request(ep, *request, request->flags | ONE_WQE_INLINE, 0, (uint8_t)segments->total, data,
		    ONE_INLINE_MAX / 8);
	return true;
}

static DAT_RETURN
post_checked(struct ep *ep, struct request request, const struct segments *segments)
{
	bool done;

	lock_take(&ep->send_lock);
	if (ia_lost(ep->o.ia)) {
		lock_drop(&ep->send_lock);
		return post_lost(ep, ep->send_evd, request.op == ONE_OP_BIND ? ONE_CQE_BIND : ONE_CQE_SEND,
				 posted_by(request));
	}
	done = request.may_inline && segments->total <= ONE_INLINE_MAX ? put_inline(ep, &request, segments)
								       : put_segments(ep, &request, segments);
	lock_drop(&ep->send_lock);
	return done ? DAT_SUCCESS : FULL;
}

static DAT_RETURN
post_segments(struct ep *ep, struct request request, const struct segments *segments)
{
	DAT_RETURN ret = ep_check_request(ep);

	if (ret == DAT_SUCCESS)
		ret = check_local(ep, segments, writes_here(request.op));
	return ret == DAT_SUCCESS ? post_checked(ep, request, segments) : ret;
}

/* ---- the calls ---- */

static inline ALWAYS bool
may_have_flags(const struct ep *ep, uint32_t flags, uint32_t known)
{
	return (flags & ~known) == 0 &&
	       ((flags & DAT_COMPLETION_UNSIGNALLED_FLAG) == 0 || ep->may_unsignal_send);
}

static inline ALWAYS DAT_RETURN
post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, const DAT_LMR_TRIPLET *local_iov,
	  DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags, uint8_t op, uint32_t imm)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	uint32_t flags = (uint32_t)completion_flags;
	struct request request = {.op = op,
				  .imm = imm,
				  .flags = wqe_flags(flags),
				  .may_inline = may_take_now(flags),
				  .cookie = user_cookie.as_64};
	struct segments segments;
	DAT_RETURN ret;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	if (!may_have_flags(ep, flags, FLAGS_SEND))
		return bad_flags(flags, FLAGS_SEND, BAD_ARG(5));
	if (is_one_segment(num_segments, local_iov, ep->max_send_iov)) {
		DAT_LMR_TRIPLET segment = *local_iov;

		if (segment.segment_length > ep->max_message)
			return too_long(segment.segment_length, ep->max_message);
		request.length = (uint32_t)segment.segment_length;
		return post_segment(ep, request, segment);
	}
	ret = gather_segments(num_segments, local_iov, ep->max_send_iov, &segments);
	if (ret != DAT_SUCCESS)
		return ret;
	if (segments.total > ep->max_message)
		return too_long(segments.total, ep->max_message);
	request.length = (uint32_t)segments.total;
	return post_segments(ep, request, &segments);
}

DAT_RETURN
dapl_ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
		  DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags)
{
	return post_send(ep_handle, num_segments, local_iov, user_cookie, completion_flags, ONE_OP_SEND, 0);
}

DAT_RETURN
ep_post_send_inv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
		 DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags, DAT_RMR_CONTEXT context)
{
	return post_send(ep_handle, num_segments, local_iov, user_cookie, completion_flags, ONE_OP_SEND_INV,
			 context);
}

/* Sets *length to the local length of a write, the remote length of a read; false: the lengths do not fit. */
static inline ALWAYS bool
rdma_length(const struct ep *ep, uint64_t local, uint64_t remote, uint8_t op, uint32_t *length)
{
	uint64_t moved = op == ONE_OP_READ ? remote : local;

	*length = (uint32_t)moved;
	return moved <= (op == ONE_OP_READ ? local : remote) && (remote != 0 || local == 0) &&
	       moved <= ep->max_rdma;
}

/* False if the negotiated READ depth is 0: the core would fail the request, and thereby break the connection.
 * The control thread stores the depth before the event of the connection. */
static inline ALWAYS bool
may_read(const struct ep *ep)
{
	return !ep_is_connected(ep) || ep->qp.shm->rd_atomic_out != 0;
}

static inline ALWAYS DAT_RETURN
post_rdma(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
	  DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote_iov,
	  DAT_COMPLETION_FLAGS completion_flags, uint8_t op, uint32_t imm)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	uint32_t flags = (uint32_t)completion_flags, max;
	struct request request = {.op = op,
				  .imm = imm,
				  .flags = wqe_flags(flags),
				  .may_inline = op != ONE_OP_READ && may_take_now(flags),
				  .cookie = user_cookie.as_64};
	struct segments segments;
	DAT_RETURN ret;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	if (!may_have_flags(ep, flags, op == ONE_OP_WRITE_IMM ? FLAGS_SEND : FLAGS_RDMA))
		return bad_flags(flags, op == ONE_OP_WRITE_IMM ? FLAGS_SEND : FLAGS_RDMA, BAD_ARG(6));
	if (op == ONE_OP_READ && !may_read(ep))
		return no_reads_agreed();
	max = op == ONE_OP_READ ? ep->max_read_iov : ep->max_write_iov;
	if (remote_iov != NULL) {
		request.remote_addr = remote_iov->target_address;
		request.rkey = remote_iov->rmr_context;
	}
	if (is_one_segment(num_segments, local_iov, max)) {
		DAT_LMR_TRIPLET segment = *local_iov;

		if (remote_iov == NULL)
			return BAD_ARG(5);
		if (!rdma_length(ep, segment.segment_length, remote_iov->segment_length, op, &request.length))
			return lengths_differ(segment.segment_length, remote_iov->segment_length, ep, op);
		return post_segment(ep, request, segment);
	}
	ret = gather_segments(num_segments, local_iov, max, &segments);
	if (ret != DAT_SUCCESS)
		return ret;
	if (remote_iov == NULL)
		return BAD_ARG(5);
	if (!rdma_length(ep, segments.total, remote_iov->segment_length, op, &request.length))
		return lengths_differ(segments.total, remote_iov->segment_length, ep, op);
	return post_segments(ep, request, &segments);
}

DAT_RETURN
dapl_ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
		       DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote_iov,
		       DAT_COMPLETION_FLAGS completion_flags)
{
	return post_rdma(ep_handle, num_segments, local_iov, user_cookie, remote_iov, completion_flags,
			 ONE_OP_READ, 0);
}

DAT_RETURN
dapl_ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
			DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote_iov,
			DAT_COMPLETION_FLAGS completion_flags)
{
	return post_rdma(ep_handle, num_segments, local_iov, user_cookie, remote_iov, completion_flags,
			 ONE_OP_WRITE, 0);
}

DAT_RETURN
ep_post_write_imm(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
		  DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote_iov, uint32_t imm,
		  DAT_COMPLETION_FLAGS completion_flags)
{
	return post_rdma(ep_handle, num_segments, local_iov, user_cookie, remote_iov, completion_flags,
			 ONE_OP_WRITE_IMM, imm);
}

/* recv_lock held; false: no room. */
static bool
put_recv(struct ep *ep, const struct segments *segments, uint64_t cookie, uint8_t flags)
{
	struct one_wqe *wqe = one_recv_reserve(&ep->qp, segments->count);

	if (wqe == NULL)
		return false;
	fill_wqe(wqe, (struct request){.op = ONE_OP_RECV,
				       .flags = flags,
				       .length = (uint32_t)segments->total,
				       .cookie = cookie});
	fill_segments(ep, wqe, segments);
	ep->logs.recv[ep->qp.rq_posted & ep->logs.recv_mask] =
		(struct posted){.cookie = cookie, .slot = ep->qp.rq_tail};
	one_recv_commit(&ep->qp, wqe);
	return true;
}

DAT_RETURN
dapl_ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
		  DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	uint32_t flags = (uint32_t)completion_flags;
	struct segments segments;
	DAT_RETURN ret;
	bool lost, done;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	if ((flags & ~(uint32_t)DAT_COMPLETION_UNSIGNALLED_FLAG) != 0 ||
	    (flags != 0 && !ep->may_unsignal_recv))
		return bad_flags(flags, DAT_COMPLETION_UNSIGNALLED_FLAG, BAD_ARG(5));
	if (ep->srq != NULL) /* receives are posted to the SRQ */
		return BECAUSE(BAD_ARG(1),
			       "ep_handle = %p: the EP takes receives from an SRQ; call dat_srq_post_recv",
			       ep_handle);
	ret = gather_segments(num_segments, local_iov, ep->max_recv_iov, &segments);
	if (ret != DAT_SUCCESS)
		return ret;
	if (segments.total > ONE_MESSAGE_MAX)
		return too_long(segments.total, ONE_MESSAGE_MAX);
	ret = check_local(ep, &segments, true);
	if (ret != DAT_SUCCESS)
		return ret;
	lock_take(&ep->recv_lock);
	lost = ia_lost(ep->o.ia) && ep_state(ep) == DAT_EP_STATE_DISCONNECTED;
	done = lost || put_recv(ep, &segments, user_cookie.as_64, wqe_flags(flags));
	lock_drop(&ep->recv_lock);
	if (lost)
		return post_lost(ep, ep->recv_evd, ONE_CQE_RECV,
				 (struct posted){.cookie = user_cookie.as_64});
	return done ? DAT_SUCCESS : FULL;
}

int
ep_move_recvs(struct ep *ep, struct one_qp *from, const struct ep_logs *logs)
{
	uint32_t n = one_recv_outstanding(from);

	for (uint32_t i = from->rq_posted - n; i != from->rq_posted; i++) {
		uint32_t first = logs->recv[i & logs->recv_mask].slot;
		const struct one_wqe *old = &from->rq[one_ring_slot(first, from->rq_log2)];
		DAT_LMR_TRIPLET triplet[ONE_MAX_SGE];
		struct segments segments = {.count = old->num_sge, .total = old->length};

		for (uint32_t j = 0; j < segments.count && j < ONE_MAX_SGE; j++) {
			const struct one_sge *sge = &old->sge;

			if (j > 0) {
				uint32_t slot = first + 1 + (j - 1) / ONE_SGE_PER_EXT;
				const struct one_wqe *ext = &from->rq[one_ring_slot(slot, from->rq_log2)];

				sge = &((const struct one_wqe_ext *)(const void *)ext)
					       ->sge[(j - 1) % ONE_SGE_PER_EXT];
			}
			triplet[j] = (DAT_LMR_TRIPLET){.lmr_context = sge->lkey,
						       .virtual_address = sge->addr,
						       .segment_length = sge->len};
			segments.segment[j] = &triplet[j];
		}
		if (!put_recv(ep, &segments, old->cookie, old->flags))
			return -ENOSPC;
	}
	return 0;
}

DAT_RETURN
ep_post_atomic(DAT_EP_HANDLE ep_handle, uint8_t op, uint64_t add_or_swap, uint64_t compare,
	       const DAT_LMR_TRIPLET *result, DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote_iov,
	       DAT_COMPLETION_FLAGS completion_flags)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	uint32_t flags = (uint32_t)completion_flags;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	if (!may_have_flags(ep, flags, FLAGS_RDMA))
		return BAD_ARG(6);
	if (result == NULL || remote_iov == NULL)
		return BAD_ARG(3);
	if (result->segment_length != sizeof(uint64_t) || remote_iov->segment_length < sizeof(uint64_t))
		return DAT_ERROR(DAT_LENGTH_ERROR, DAT_NO_SUBTYPE);
	if (!may_read(ep))
		return no_reads_agreed();
	return post_segments(ep,
			     (struct request){.op = op,
					      .flags = wqe_flags(flags),
					      .length = (uint32_t)compare,
					      .cookie = user_cookie.as_64,
					      .remote_addr = remote_iov->target_address,
					      .rkey = remote_iov->rmr_context,
					      .imm = (uint32_t)(compare >> 32),
					      .add_or_swap = add_or_swap},
			     &(struct segments){.count = 1, .segment = {result}});
}

DAT_RETURN
ep_post_bind(struct ep *ep, uint32_t key, const DAT_LMR_TRIPLET *triplet, uint32_t access, uint64_t cookie,
	     DAT_COMPLETION_FLAGS completion_flags)
{
	uint32_t flags = (uint32_t)completion_flags;

	if (!may_have_flags(ep, flags, FLAGS_RDMA))
		return BAD_ARG(6);
	return post_checked(ep,
			    (struct request){.op = ONE_OP_BIND,
					     .flags = wqe_flags(flags),
					     .length = access,
					     .cookie = cookie,
					     .rkey = key,
					     .imm = (uint32_t)(triplet->segment_length >> 32)},
			    &(struct segments){.count = 1, .segment = {triplet}});
}
