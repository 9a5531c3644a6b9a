/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints, shared receive queues, service points, connection requests. */
#ifndef DAT_EP_EP_H_INTERNAL
#define DAT_EP_EP_H_INTERNAL

#include "dat/evd.h"

/* ---- ep.c ---- */

DAT_EP_STATE ep_state(const struct ep *ep);
/* True in state CONNECTED.  Cheaper than ep_state() == DAT_EP_STATE_CONNECTED, for posting. */
static inline bool
ep_is_connected(const struct ep *ep)
{
	uint32_t phase = ep_phase(ep);

	return (phase == EP_ACTIVE || phase == EP_ACCEPTED) && !ia_lost(ep->o.ia) &&
	       ep_qp_state(ep) == ONE_QP_CONNECTED && !one_load_alone(&ep->closing);
}
DAT_RETURN ep_state_error(DAT_EP_STATE state);
struct ep *ep_make(struct ia *ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
		   DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr, enum ep_phase phase,
		   DAT_RETURN *ret);
void ep_destroy(struct object *o); /* in any state; no lock held */
/* `bad`: the error that names the attributes' argument. */
DAT_RETURN ep_check_attr(const struct ia *ia, const DAT_EP_ATTR *attr, DAT_RETURN bad);
void ep_apply_attr(struct ep *ep);
void ep_fill_create(const struct ep *ep, struct one_qp_create *args);
void ep_count_streams(struct ep *ep, int sign);
int ep_new_logs(const DAT_EP_ATTR *attr, struct ep_logs *logs);
void ep_free_logs(struct ep_logs *logs);
/* Takes a reference to the EVD, or sets *evd to NULL for DAT_HANDLE_NULL; false: no EVD of this IA with
 * `flag`. ia.lock held. */
bool ep_ref_evd(struct ia *ia, DAT_EVD_HANDLE handle, DAT_EVD_FLAGS flag, struct evd **evd);
void ep_drop_refs(struct ep *ep); /* ia.lock held */

/* ---- dat_srq.c ---- */

void srq_destroy(struct object *o); /* must be retired; no lock held */

/* ---- ep_conn.c ---- */

/* Sets the peer (NULL: none); `active`: this endpoint sends the request.  Returns the new connection number,
 * which no event of an earlier connection carries.  No lock held. */
uint16_t ep_set_peer(struct ep *ep, const struct sockaddr_storage *remote, DAT_CONN_QUAL qual, bool active);
DAT_RETURN ep_check_private(const struct ia *ia, DAT_COUNT size, const void *data, DAT_RETURN bad_size,
			    DAT_RETURN bad_data);

/* ---- ep_post.c ---- */

/* Posts the outstanding receives of `from` to ep->qp.  recv_lock held. */
int ep_move_recvs(struct ep *ep, struct one_qp *from, const struct ep_logs *logs);
/* dat_ep_post_send that also invalidates the peer's window with this context. */
DAT_RETURN ep_post_send_inv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
			    DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags,
			    DAT_RMR_CONTEXT context);
/* dat_ep_post_rdma_write with immediate data in wire order. */
DAT_RETURN ep_post_write_imm(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
			     DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote_iov, uint32_t imm,
			     DAT_COMPLETION_FLAGS completion_flags);
/* Posts ONE_OP_FETCH_ADD or ONE_OP_CMP_SWAP.  The value before the operation is written to `result`. */
DAT_RETURN ep_post_atomic(DAT_EP_HANDLE ep_handle, uint8_t op, uint64_t add_or_swap, uint64_t compare,
			  const DAT_LMR_TRIPLET *result, DAT_DTO_COOKIE user_cookie,
			  const DAT_RMR_TRIPLET *remote_iov, DAT_COMPLETION_FLAGS completion_flags);
DAT_RETURN ep_check_unusual(const struct ep *ep);
/* Returns DAT_SUCCESS, or why no request can be posted in this state. */
static inline __attribute__((always_inline)) DAT_RETURN
ep_check_request(const struct ep *ep)
{
	return __builtin_expect(ep_is_connected(ep), 1) ? DAT_SUCCESS : ep_check_unusual(ep);
}
/* Posts a bind.  ia.lock held; the caller has checked the state. */
DAT_RETURN ep_post_bind(struct ep *ep, uint32_t key, const DAT_LMR_TRIPLET *triplet, uint32_t access,
			uint64_t cookie, DAT_COMPLETION_FLAGS completion_flags);

/* ---- service points and requests ---- */

/* Takes the reserved endpoint from an RSP and sets its phase to `to`; NULL: already taken.  No lock held. */
struct ep *sp_take_ep(struct sp *sp, enum ep_phase to);
/* Fills in the event of a connection request; false: the request was refused. */
bool cr_arrived(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
/* Refuses the request at this offset of the arena. */
void cr_refuse(struct ia *ia, uint64_t offset);
/* dat_cr_reject with private data for the requester. */
DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT private_data_size, const void *private_data);
/* Both need a retired object; no lock held. */
void sp_destroy(struct object *o);
void cr_destroy(struct object *o); /* refuses the request; the caller handles its EP */

#endif
