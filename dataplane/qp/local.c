/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local transport, for two queue pairs of one core. The initiator's turn copies directly between the
 * memory of the two applications, and completes work on both sides. Order, checks and errors are those of RC
 * (dataplane/rc), and an error breaks the same sides. Requests execute one at a time in posting order, so
 * fences cost nothing.
 *
 * A message is copied in chunks, one per loop, so that others are served; chunks are longer while there are
 * no others. Keys are looked up again for every chunk, since they may have been revoked.
 *
 * A queue pair may have to wait for a receive that the peer has not posted, or for a peer that is gone or not
 * ready. The queue pair then leaves the hot list, and polls again when a timer with backoff expires, or at
 * once when the peer rings its doorbell.
 */
#include <errno.h>

#include "dataplane/mem/place.h"
#include "dataplane/qp/transport.h"

#define STEP_MIN_NS 8000ull
#define STEP_MAX_NS 1000000ull

/* Slots of the initiator's bounced accesses that belong to no chunk. */
enum { BOUNCE_FROM, BOUNCE_TO };
/* Not an enum one_status: a bounced access is under way. */
#define LATER UINT8_MAX
#define PAGE 4096u

enum step { STEP_DONE, STEP_MORE, STEP_WAIT, STEP_BROKEN };

/* Memory, rights and progress of one side of a copy. */
struct side {
	const struct one_sge *sge;
	uint32_t num_sge;
	uint32_t pz, qpn, access;
	uint8_t refused; /* enum one_status to fail with if a key is refused */
	uint8_t faulted; /* enum one_status to fail with if the application has gone */
	/* progress: scatter/gather element, and offset into it */
	uint32_t index;
	uint64_t offset;
};

/*
 * Returns the peer if it exists and responds, else NULL. The peer is looked up by QPN for every burst of work
 * and never stored, since it may be freed at any time.
 */
static struct engine_qp *
find_peer(const struct core *core, const struct engine_qp *qp)
{
	struct engine_qp *peer = engine_qp_find(qp->attr.peer_qpn);

	if (peer == NULL || qp_core(peer) != core || peer == qp || peer->transport != QP_LOCAL ||
	    peer->attr.peer_qpn != qp->qpn || (peer->state != RC_RTS && peer->state != RC_RTR) ||
	    peer->client->faulty || peer->frozen)
		return NULL;
	return peer;
}

/* End the wait: the queue pair polls again at once. */
static void
end_wait(struct core *core, struct engine_qp *qp)
{
	if (qp->request != QP_REQUEST_WAITS || qp->bind != QP_BIND_NONE)
		return;
	qp->request = QP_REQUEST_TAKEN;
	qp->wait_step = 0;
	qp_make_hot(core, qp);
}

void
local_kick(struct core *core, struct engine_qp *qp)
{
	struct engine_qp *peer = find_peer(core, qp);

	if (peer != NULL)
		end_wait(core, peer);
}

void
local_arrive(struct core *core, struct engine_qp *qp)
{
	struct engine_qp *peer = find_peer(core, qp);

	if (peer == NULL)
		return;
	qp->is_apart = peer->is_apart = false;
	end_wait(core, peer);
}

void
local_leave(struct core *core, struct engine_qp *qp)
{
	struct engine_qp *peer = engine_qp_find(qp->attr.peer_qpn);

	bounce_leave(&qp->bounce);
	if (peer == NULL || qp_core(peer) != core || peer->frozen || peer->transport != QP_LOCAL ||
	    peer->attr.peer_qpn != qp->qpn)
		return;
	/* Cancel the bounced accesses of the peer's own request, which the peer then repeats, except for an
	 * atomic that is done. end_wait(): their completion no longer wakes the peer. */
	bounce_leave(&peer->bounce);
	if (peer->work.op < ONE_OP_FETCH_ADD)
		peer->moved = 0;
	end_wait(core, peer);
}

/* True if bytes or an atomic are on their way to memory without mapping. */
static bool
is_storing(const struct engine_qp *qp)
{
	for (uint32_t i = 0; i < BOUNCE_SLOTS; i++)
		if (qp->bounce.job[i] != NULL)
			return true;
	return bounce_queued(&qp->bounce, BOUNCE_ARRIVED);
}

int
local_freeze(struct core *core, struct engine_qp *qp)
{
	struct engine_qp *peer = find_peer(core, qp);

	/* No store to the memory of either end is under way while the ends are on two cores. */
	if (is_storing(qp) || (peer != NULL && is_storing(peer)))
		return -EAGAIN;
	bounce_leave(&qp->bounce); /* bytes after `moved` are read ahead again */
	if (peer != NULL)
		qp->is_apart = peer->is_apart = true;
	return 0;
}

/* Counts work for the choice of cores (control/connect/rebalance.c). */
static void
count_work(struct engine_qp *qp)
{
	/* Only this core stores it. Relaxed: pairs with the load in engine_qp_heard(), which orders nothing.
	 */
	uint32_t heard = atomic_load_explicit(&qp->heard, memory_order_relaxed);

	atomic_store_explicit(&qp->heard, heard + 1 + qp->moved / PAGE, memory_order_relaxed);
}

static void
complete_request(struct core *core, struct engine_qp *qp, uint8_t status)
{
	const struct completion c = qp_completion(&qp->work, status);

	count_work(qp);
	qp->request = QP_REQUEST_NONE;
	qp->moved = 0;
	qp->wait_since = 0;
	core->stats.local_ops++;
	qp_complete(core, qp, &c);
}

static void
complete_receive(struct core *core, struct engine_qp *peer, const struct work *work, uint8_t status)
{
	struct completion c = {.cookie = peer->recv.cookie,
			       .length = work->length,
			       .type = ONE_CQE_RECV,
			       .status = status,
			       .wqe_flags = peer->recv.flags,
			       .solicited = (work->flags & ONE_WQE_SOLICITED) != 0};

	switch (work->op) {
	case ONE_OP_WRITE_IMM:
		c.type = ONE_CQE_RECV_WRITE_IMM;
		/* fall through */
	case ONE_OP_SEND_IMM:
		c.cqe_flags = ONE_CQE_IMM;
		c.imm = work->imm;
		break;
	case ONE_OP_SEND_INV:
		c.cqe_flags = ONE_CQE_INV;
		c.imm = work->imm;
		break;
	default:
		break;
	}
	if (status != ONE_STATUS_SUCCESS)
		c.length = 0;
	peer->recv_taken = false;
	qp_complete(core, peer, &c);
}

/* Fail the request on the initiator's side. The peer is notified by the end of the connection. */
static enum step
fail_request(struct core *core, struct engine_qp *qp, uint8_t status)
{
	complete_request(core, qp, status);
	qp_break(core, qp, RC_ERROR_REQUESTER);
	return STEP_BROKEN;
}

/* The peer refuses the request, as by a NAK: both sides break. `receive` is the status of the peer's receive
 * in use. */
static enum step
fail_remote(struct core *core, struct engine_qp *qp, struct engine_qp *peer, uint8_t status, uint8_t receive)
{
	if (peer->recv_taken)
		complete_receive(core, peer, &qp->work, receive);
	qp_break(core, peer, RC_ERROR_RESPONDER);
	return fail_request(core, qp, status);
}

/* Wait, and poll again with backoff. After `timeout` ns the request fails with `status`; 0: never. */
static enum step
wait_for(struct core *core, struct engine_qp *qp, uint64_t timeout, uint8_t status)
{
	if (qp->wait_since == 0 || qp->wait_status != status) {
		qp->wait_since = core->now;
		qp->wait_status = status;
		qp->wait_step = 0;
	}
	if (timeout != 0 && core->now - qp->wait_since >= timeout)
		return fail_request(core, qp, status);
	qp->wait_step = qp->wait_step == 0 ? STEP_MIN_NS : RTE_MIN(qp->wait_step * 2, STEP_MAX_NS);
	qp->wait_until = core->now + qp->wait_step;
	qp->request = QP_REQUEST_WAITS;
	timer_set(core, &qp->timer, qp->wait_until);
	return STEP_WAIT;
}

/* Wait until qp_bounced(). */
static enum step
wait_for_memory(struct engine_qp *qp)
{
	qp->request = QP_REQUEST_WAITS;
	qp->wait_until = RC_NEVER;
	return STEP_WAIT;
}

/* Wait for a peer that is missing. Out-of-band connections wait at least as long as RC retries, since the
 * peer may be connected later; timeout code 0: without limit. */
static enum step
wait_for_peer(struct core *core, struct engine_qp *qp)
{
	uint64_t timeout = LOCAL_LOST_NS, reported = 4096ull << (qp->attr.timeout & 31);

	/* The control thread moves both ends, one after the other. */
	if (qp->is_apart && engine_qp_find(qp->attr.peer_qpn) != NULL)
		timeout = 0;
	else if (qp->out_of_band)
		timeout = (qp->attr.timeout & 31) == 0
				  ? 0
				  : RTE_MAX(timeout, reported * ((qp->attr.retry_count & 7) + 1u));
	return wait_for(core, qp, timeout, ONE_STATUS_RETRY_EXCEEDED);
}

static enum step
wait_for_receive(struct core *core, struct engine_qp *qp, const struct engine_qp *peer)
{
	uint64_t timeout = 0;

	if (qp->attr.rnr_retry < 7)
		timeout = (uint64_t)rc_rnr_ns[peer->attr.min_rnr_timer & 31] * (qp->attr.rnr_retry + 1u);
	return wait_for(core, qp, timeout, ONE_STATUS_RNR_EXCEEDED);
}

/*
 * Returns the region of the current scatter/gather element, checked for all of the element; NULL: refused.
 * The initiator's source needs no right, only the same zone.
 */
static inline struct mem_region *
side_region(const struct core *core, const struct side *side)
{
	const struct one_sge *sge = &side->sge[side->index];

	return mem_check(core->env.mem, sge->lkey, side->pz, side->qpn, side->access, sge->addr, sge->len);
}

static inline void
side_seek(struct side *side, uint64_t offset)
{
	side->index = 0;
	while (side->index + 1 < side->num_sge && offset >= side->sge[side->index].len) {
		offset -= side->sge[side->index].len;
		side->index++;
	}
	side->offset = offset;
}

static inline void
side_advance(struct side *side, uint64_t len)
{
	side->offset += len;
	while (side->index + 1 < side->num_sge && side->offset >= side->sge[side->index].len) {
		side->offset -= side->sge[side->index].len;
		side->index++;
	}
}

/* Payload that is read ahead: bytes [at, at + len) of the message. */
struct local_chunk {
	uint32_t at, len;
};
#define AHEAD_CHUNKS 4u

/* Read ahead from the end of what has been read, while the message's memory is without mapping. */
static int
read_ahead(const struct core *core, struct engine_qp *qp, struct side from)
{
	uint32_t count = bounce_queue_count(&qp->bounce, BOUNCE_AHEAD), at = qp->moved;
	int error = 0;

	if (count != 0) {
		const struct local_chunk *newest = bounce_queue_newest(&qp->bounce, BOUNCE_AHEAD);

		at = newest->at + newest->len;
	}
	side_seek(&from, at);
	while (error == 0 && count++ < AHEAD_CHUNKS && at < qp->work.length) {
		const struct one_sge *sge = &from.sge[from.index];
		struct mem_sge source = {side_region(core, &from), sge->addr + from.offset, 0};
		struct local_chunk chunk = {.at = at};

		if (source.region == NULL || source.region->base != NULL)
			break;
		chunk.len = RTE_MIN(qp->work.length - at, BOUNCE_LEN);
		chunk.len = (uint32_t)RTE_MIN(sge->len - from.offset, (uint64_t)chunk.len);
		source.len = chunk.len;
		error = bounce_queue_gather(&qp->bounce, BOUNCE_AHEAD, &source, 1, &chunk, sizeof(chunk));
		side_advance(&from, chunk.len);
		at += chunk.len;
	}
	return bounce_queued(&qp->bounce, BOUNCE_AHEAD) ? 0 : error;
}

/* Get bytes without mapping from qp->moved on, at most *len. Returns 0, -EAGAIN or -EFAULT. */
static int
read_source(const struct core *core, struct engine_qp *qp, const struct side *from, uint64_t *len,
	    const uint8_t **data)
{
	int error = read_ahead(core, qp, *from);
	const struct local_chunk *chunk;
	uint32_t offset;

	if (error != 0)
		return error;
	if (!bounce_queue_done(&qp->bounce, BOUNCE_AHEAD))
		return -EAGAIN;
	chunk = bounce_queue_oldest(&qp->bounce, BOUNCE_AHEAD);
	offset = qp->moved - chunk->at;
	*len = RTE_MIN(*len, (uint64_t)(chunk->len - offset));
	*data = bounce_queue_data(&qp->bounce, BOUNCE_AHEAD) + offset;
	return bounce_queue_result(&qp->bounce, BOUNCE_AHEAD);
}

/* Drop the chunks before byte `at` of the message: they have been moved. */
static void
forget_read(struct engine_qp *qp, uint32_t at)
{
	while (bounce_queued(&qp->bounce, BOUNCE_AHEAD)) {
		const struct local_chunk *chunk = bounce_queue_oldest(&qp->bounce, BOUNCE_AHEAD);

		if (at < chunk->at + chunk->len)
			return;
		bounce_queue_pop(&qp->bounce, BOUNCE_AHEAD);
	}
}

/*
 * Copy where source, destination or both are without mapping. Returns 0 if *len bytes, at most the number
 * asked for, have been moved or are on their way (BOUNCE_ARRIVED); -EAGAIN: later; -EFAULT: refused, by the
 * source if *source is set.
 */
static int
copy_slowly(const struct core *core, struct engine_qp *qp, const struct mem_sge *to,
	    const struct mem_sge *from, const struct side *origin, uint64_t *len, bool *source)
{
	struct mem_sge dst = *to;
	const uint8_t *data;
	int error = 0;

	*len = RTE_MIN(*len, (uint64_t)BOUNCE_LEN);
	*source = from->region->base == NULL;
	if (*source)
		error = read_source(core, qp, origin, len, &data);
	else
		data = mem_at(from->region, from->va);
	if (error != 0)
		return error;
	*source = false;
	dst.len = (uint32_t)*len;
	if (dst.region->base == NULL) {
		error = bounce_queue_scatter(&qp->bounce, BOUNCE_ARRIVED, &dst, 1, data, NULL, 0);
		bounce_queue_submit(&qp->bounce, BOUNCE_ARRIVED);
	} else if (bounce_queued(&qp->bounce, BOUNCE_ARRIVED)) {
		error = -EAGAIN; /* earlier bytes are not in place yet */
	} else {
		error = mem_write(dst.region, dst.va, data, dst.len);
	}
	if (error == 0)
		forget_read(qp, qp->moved + dst.len);
	return error;
}

/* Take completed accesses to the target's memory. Returns 0; -EAGAIN while some are under way; -EFAULT. */
static int
take_arrived(struct engine_qp *qp)
{
	while (bounce_queue_done(&qp->bounce, BOUNCE_ARRIVED)) {
		int error = bounce_queue_result(&qp->bounce, BOUNCE_ARRIVED);

		bounce_queue_pop(&qp->bounce, BOUNCE_ARRIVED);
		if (error != 0)
			return error;
	}
	return bounce_queued(&qp->bounce, BOUNCE_ARRIVED) ? -EAGAIN : 0;
}

/*
 * Copy up to `len` bytes from qp->moved on. `home` is the initiator's side, whose keys are checked first.
 * Returns 0, LATER, or the status to fail with; *remote: the target is at fault.
 */
static uint8_t
copy_sges(struct core *core, struct engine_qp *qp, struct side *to, struct side *from, struct side *home,
	  uint32_t len, bool *remote)
{
	struct side *away = home == to ? from : to;

	side_seek(to, qp->moved);
	side_seek(from, qp->moved);
	while (len > 0) {
		struct mem_region *here = side_region(core, home), *there;
		struct mem_region *dst, *src;
		uint64_t n = len;

		*remote = false;
		if (here == NULL)
			return home->refused;
		there = side_region(core, away);
		if (there == NULL) {
			*remote = true;
			return away->refused;
		}
		dst = home == to ? here : there;
		src = home == to ? there : here;
		n = RTE_MIN(n, to->sge[to->index].len - to->offset);
		n = RTE_MIN(n, from->sge[from->index].len - from->offset);
		if (likely(dst->base != NULL && src->base != NULL)) {
			mem_copy(dst, to->sge[to->index].addr + to->offset, src,
				 from->sge[from->index].addr + from->offset, n);
		} else {
			const struct mem_sge end = {dst, to->sge[to->index].addr + to->offset, 0},
					     begin = {src, from->sge[from->index].addr + from->offset, 0};
			bool source;
			int error = copy_slowly(core, qp, &end, &begin, from, &n, &source);

			if (error != 0) {
				*remote = source ? away == from : away == to;
				return error == -EAGAIN ? LATER : *remote ? away->faulted : home->faulted;
			}
		}
		side_advance(to, n);
		side_advance(from, n);
		len -= (uint32_t)n;
		qp->moved += (uint32_t)n;
		core->stats.local_bytes += n;
	}
	return 0;
}

/* Copy an inline payload to the peer's scatter/gather elements. */
static uint8_t
copy_inline(struct core *core, struct engine_qp *qp, struct side *to)
{
	const struct work *work = &qp->work;

	side_seek(to, qp->moved);
	while (qp->moved < work->length) {
		struct mem_sge sge = {side_region(core, to), to->sge[to->index].addr + to->offset, 0};
		int error = 0;

		if (sge.region == NULL)
			return to->refused;
		sge.len = (uint32_t)RTE_MIN((uint64_t)(work->length - qp->moved),
					    to->sge[to->index].len - to->offset);
		if (likely(sge.region->base != NULL))
			mem_write(sge.region, sge.va, work->inline_data + qp->moved, sge.len);
		else
			error = bounce_scatter(&qp->bounce, BOUNCE_TO, &sge, 1, work->inline_data + qp->moved,
					       qp->moved);
		if (unlikely(error != 0))
			return error == -EAGAIN ? LATER : to->faulted;
		side_advance(to, sge.len);
		qp->moved += sge.len;
		core->stats.local_bytes += sge.len;
	}
	return 0;
}

/*
 * Returns the bytes to copy in one turn, in one or several messages. A loop costs as much as copying some
 * KiB. A second hot queue pair may have an application waiting, hence the smallest limit.
 */
static inline uint32_t
turn_bytes(const struct core *core)
{
	if (core->hot_count > 1)
		return LOCAL_CHUNK;
	return core->clients_count > 1 ? LOCAL_CHUNK_LONG : LOCAL_CHUNK_ALONE;
}

static inline struct side
home_side(const struct engine_qp *qp, uint32_t access)
{
	return (struct side){.sge = qp->work.sge,
			     .num_sge = qp->work.num_sge,
			     .pz = qp->pz,
			     .qpn = qp->qpn,
			     .access = access,
			     .refused = ONE_STATUS_LOCAL_PROTECTION,
			     .faulted = ONE_STATUS_LOCAL_PROTECTION};
}

/* Side of the peer's memory that the request names: one scatter/gather element. */
static inline struct side
remote_side(const struct engine_qp *peer, const struct one_sge *sge, uint32_t access)
{
	return (struct side){.sge = sge,
			     .num_sge = 1,
			     .pz = peer->pz,
			     .qpn = peer->qpn,
			     .access = access,
			     .refused = ONE_STATUS_REMOTE_ACCESS,
			     .faulted = ONE_STATUS_REMOTE_OPERATION};
}

static enum step
move_chunk(struct core *core, struct engine_qp *qp, struct engine_qp *peer, struct side *to,
	   struct side *from, struct side *home, uint8_t receive)
{
	uint32_t len = RTE_MIN(qp->work.length - qp->moved, turn_bytes(core));
	int error = take_arrived(qp);
	bool remote = home != to;
	uint8_t status;

	if (len == 0 && error == 0)
		return STEP_DONE;
	if (unlikely(error == -EFAULT))
		status = to->faulted;
	else if (len == 0)
		status = LATER;
	else if (from == NULL)
		status = copy_inline(core, qp, to);
	else
		status = copy_sges(core, qp, to, from, home, len, &remote);
	if (unlikely(status == LATER))
		return wait_for_memory(qp);
	if (unlikely(status != 0))
		return remote ? fail_remote(core, qp, peer, status, receive) : fail_request(core, qp, status);
	if (qp->moved < qp->work.length)
		return STEP_MORE;
	return likely(!bounce_queued(&qp->bounce, BOUNCE_ARRIVED)) ? STEP_DONE : wait_for_memory(qp);
}

/* Take a receive of the peer for the request. Returns STEP_DONE if it is in peer->recv. */
static enum step
take_receive(struct core *core, struct engine_qp *qp, struct engine_qp *peer)
{
	if (peer->recv_taken)
		return STEP_DONE;
	if (!qp_take_recv(core, peer, &peer->recv))
		return wait_for_receive(core, qp, peer);
	peer->recv_taken = true;
	qp->wait_since = 0;
	if (peer->recv.status != ONE_STATUS_SUCCESS)
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_OPERATION, peer->recv.status);
	return STEP_DONE;
}

static enum step
write_chunk(struct core *core, struct engine_qp *qp, struct engine_qp *peer)
{
	const struct work *work = &qp->work;
	const struct one_sge target = {.addr = work->remote_addr, .len = work->length, .lkey = work->rkey};
	struct side to = remote_side(peer, &target, ONE_ACCESS_REMOTE_WRITE), from = home_side(qp, 0);

	return move_chunk(core, qp, peer, &to, work->flags & ONE_WQE_INLINE ? NULL : &from, &from,
			  ONE_STATUS_FLUSHED);
}

/* Fast path for the usual WRITE: short, from one scatter/gather element or the slot itself. */
static inline enum step
write_at_once(struct core *core, struct engine_qp *qp, struct engine_qp *peer)
{
	const struct work *work = &qp->work;
	const struct one_sge *sge = &work->sge[0];
	struct mem_region *here = NULL, *there;

	if (!(work->flags & ONE_WQE_INLINE)) {
		here = mem_check(core->env.mem, sge->lkey, qp->pz, qp->qpn, 0, sge->addr, sge->len);
		if (unlikely(here == NULL))
			return fail_request(core, qp, ONE_STATUS_LOCAL_PROTECTION);
	}
	there = mem_check(core->env.mem, work->rkey, peer->pz, peer->qpn, ONE_ACCESS_REMOTE_WRITE,
			  work->remote_addr, work->length);
	if (unlikely(there == NULL))
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_ACCESS, ONE_STATUS_FLUSHED);
	if (unlikely(there->base == NULL || (here != NULL && here->base == NULL)))
		return write_chunk(core, qp, peer);
	if (here == NULL)
		mem_write(there, work->remote_addr, work->inline_data, work->length);
	else
		mem_copy(there, work->remote_addr, here, sge->addr, work->length);
	qp->moved = work->length;
	core->stats.local_bytes += work->length;
	return STEP_DONE;
}

static enum step
do_write(struct core *core, struct engine_qp *qp, struct engine_qp *peer)
{
	const struct work *work = &qp->work;
	enum step step;

	if (unlikely(!(peer->attr.access & ONE_ACCESS_REMOTE_WRITE)))
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_INVALID, ONE_STATUS_LOCAL_QP);
	if (likely(qp->moved == 0 && work->length - 1 < LOCAL_CHUNK && work->num_sge <= 1))
		step = write_at_once(core, qp, peer);
	else
		step = write_chunk(core, qp, peer);
	if (step != STEP_DONE || work->op != ONE_OP_WRITE_IMM)
		return step;
	step = take_receive(core, qp, peer);
	if (step == STEP_DONE)
		complete_receive(core, peer, work, ONE_STATUS_SUCCESS);
	return step;
}

/* Cut the receive to the length of the message, so that keys are checked only for memory that is written. */
static void
shorten_receive(struct recv_work *recv, uint32_t length)
{
	for (uint32_t i = 0; i < recv->num_sge; i++) {
		recv->sge[i].len = RTE_MIN(recv->sge[i].len, length);
		length -= recv->sge[i].len;
	}
}

static enum step
do_send(struct core *core, struct engine_qp *qp, struct engine_qp *peer)
{
	const struct work *work = &qp->work;
	struct side to = {.sge = peer->recv.sge,
			  .pz = peer->pz,
			  .qpn = peer->qpn,
			  .access = ONE_ACCESS_LOCAL_WRITE,
			  .refused = ONE_STATUS_REMOTE_OPERATION,
			  .faulted = ONE_STATUS_REMOTE_OPERATION};
	struct side from = home_side(qp, 0);
	enum step step = take_receive(core, qp, peer);

	if (step != STEP_DONE)
		return step;
	if (unlikely(work->length > peer->recv.length))
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_INVALID, ONE_STATUS_LOCAL_LENGTH);
	shorten_receive(&peer->recv, work->length);
	to.num_sge = peer->recv.num_sge;
	step = move_chunk(core, qp, peer, &to, work->flags & ONE_WQE_INLINE ? NULL : &from, &from,
			  ONE_STATUS_LOCAL_PROTECTION);
	if (step != STEP_DONE)
		return step;
	if (work->op == ONE_OP_SEND_INV && !mem_invalidate(core->env.mem, work->imm, peer->pz, peer->qpn))
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_OPERATION, ONE_STATUS_LOCAL_PROTECTION);
	complete_receive(core, peer, work, ONE_STATUS_SUCCESS);
	return STEP_DONE;
}

static enum step
do_read(struct core *core, struct engine_qp *qp, struct engine_qp *peer)
{
	const struct work *work = &qp->work;
	const struct one_sge source = {.addr = work->remote_addr, .len = work->length, .lkey = work->rkey};
	struct side to = home_side(qp, ONE_ACCESS_LOCAL_WRITE),
		    from = remote_side(peer, &source, ONE_ACCESS_REMOTE_READ);

	if (unlikely(!(peer->attr.access & ONE_ACCESS_REMOTE_READ) || peer->attr.rd_atomic_in == 0))
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_INVALID, ONE_STATUS_LOCAL_QP);
	return move_chunk(core, qp, peer, &to, &from, &to, ONE_STATUS_FLUSHED);
}

/* Execute the atomic. qp->moved is 8 from then on, so that it is not repeated while its result is written
 * home. Returns 0, -EAGAIN or -EFAULT. */
static int
change_word(struct engine_qp *qp, const struct mem_region *there)
{
	const struct work *work = &qp->work;
	bool add = work->op == ONE_OP_FETCH_ADD;
	int error;

	if (unlikely(there->base == NULL))
		error = bounce_atomic(&qp->bounce, BOUNCE_TO, there, work->remote_addr,
				      add ? NULL : &work->compare, work->add_or_swap, &qp->found, 0);
	else if (add)
		error = mem_fetch_add(there, work->remote_addr, work->add_or_swap, &qp->found);
	else
		error = mem_cmp_swap(there, work->remote_addr, work->compare, work->add_or_swap, &qp->found);
	if (error == 0)
		qp->moved = sizeof(qp->found);
	return error;
}

static int
answer_word(struct engine_qp *qp, const struct mem_region *home)
{
	const struct mem_sge sge = {home, qp->work.sge[0].addr, sizeof(qp->found)};

	if (likely(home->base != NULL))
		return mem_write(home, sge.va, &qp->found, sizeof(qp->found));
	return bounce_scatter(&qp->bounce, BOUNCE_FROM, &sge, 1, &qp->found, 0);
}

static enum step
do_atomic(struct core *core, struct engine_qp *qp, struct engine_qp *peer)
{
	const struct work *work = &qp->work;
	const struct one_sge *result = &work->sge[0];
	struct mem_region *home, *there;
	int error = 0;

	home = mem_check(core->env.mem, result->lkey, qp->pz, qp->qpn, ONE_ACCESS_LOCAL_WRITE, result->addr,
			 8);
	if (home == NULL)
		return fail_request(core, qp, ONE_STATUS_LOCAL_PROTECTION);
	if (!(peer->attr.access & ONE_ACCESS_REMOTE_ATOMIC) || peer->attr.rd_atomic_in == 0)
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_INVALID, ONE_STATUS_LOCAL_QP);
	there = mem_check(core->env.mem, work->rkey, peer->pz, peer->qpn, ONE_ACCESS_REMOTE_ATOMIC,
			  work->remote_addr, 8);
	if (there == NULL)
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_ACCESS, ONE_STATUS_FLUSHED);
	if (work->remote_addr % 8 != 0)
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_INVALID, ONE_STATUS_LOCAL_QP);
	if (qp->moved == 0)
		error = change_word(qp, there);
	if (error != 0 && error != -EAGAIN)
		return fail_remote(core, qp, peer, ONE_STATUS_REMOTE_OPERATION, ONE_STATUS_FLUSHED);
	if (error == 0)
		error = answer_word(qp, home);
	if (error == -EAGAIN)
		return wait_for_memory(qp);
	return error != 0 ? fail_request(core, qp, ONE_STATUS_LOCAL_PROTECTION) : STEP_DONE;
}

static enum step
do_bind(struct core *core, struct engine_qp *qp)
{
	qp->request = QP_REQUEST_WAITS;
	qp->wait_until = RC_NEVER;
	qp_bind_ask(core, qp, &qp->work);
	return STEP_WAIT;
}

void
local_bind_done(struct core *core, struct engine_qp *qp, bool ok)
{
	qp->request = QP_REQUEST_TAKEN;
	if (!ok) {
		fail_request(core, qp, ONE_STATUS_BIND_FAILED);
		return;
	}
	complete_request(core, qp, ONE_STATUS_SUCCESS);
	qp_make_hot(core, qp);
}

static inline enum step
execute_work(struct core *core, struct engine_qp *qp, struct engine_qp *peer)
{
	if (unlikely(qp->work.status != ONE_STATUS_SUCCESS))
		return fail_request(core, qp, qp->work.status);
	if (qp->work.op == ONE_OP_BIND)
		return do_bind(core, qp);
	if (unlikely(peer == NULL))
		return wait_for_peer(core, qp);
	if (unlikely(peer->state == RC_RTR && !peer->out_of_band)) {
		qp_set_state(peer, RC_RTS, "a request of its peer");
		qp_established(core, peer, QP_SETUP_DONE, "a request of its peer");
		qp_make_hot(core, peer);
	}
	switch (qp->work.op) {
	case ONE_OP_WRITE:
	case ONE_OP_WRITE_IMM:
		return do_write(core, qp, peer);
	case ONE_OP_READ:
		return do_read(core, qp, peer);
	case ONE_OP_FETCH_ADD:
	case ONE_OP_CMP_SWAP:
		return do_atomic(core, qp, peer);
	default:
		return do_send(core, qp, peer);
	}
}

void
local_poll(struct core *core, struct engine_qp *qp, uint32_t budget)
{
	struct engine_qp *peer = find_peer(core, qp);
	uint64_t enough = core->stats.local_bytes + turn_bytes(core);

	if (qp->request == QP_REQUEST_WAITS)
		return; /* a doorbell does not end the wait */
	for (uint32_t i = 0; i < budget && core->stats.local_bytes < enough; i++) {
		enum step step;

		if (qp->request == QP_REQUEST_NONE) {
			if (qp_pull(core, qp, &qp->work) <= 0)
				return;
			qp->request = QP_REQUEST_TAKEN;
			qp->moved = 0;
		}
		step = execute_work(core, qp, peer);
		if (step != STEP_DONE)
			return;
		complete_request(core, qp, ONE_STATUS_SUCCESS);
	}
}
