/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that user level shares with kernel level; included by dat.h.
 *
 * "Errors" lists the codes that a call returns besides DAT_SUCCESS, without the DAT_ prefix.  ARGn is the
 * subtype DAT_INVALID_ARGn, counting arguments from 1.  See udat.h for rules common to all calls.
 */
#ifndef _DAT_CALLS_H_
#define _DAT_CALLS_H_

#ifdef __cplusplus
extern "C" {
#endif

/* ---- interface adapter (uDAPL: IA) ---- */

/* Closes an IA.  GRACEFUL succeeds only if all objects of the IA have been freed.  ABRUPT ends connections
 * and frees all objects: EVD waiters return DAT_ABORT, CNO waiters and agents get a null EVD.  [message]
 * Errors: INVALID_HANDLE (IA); INVALID_PARAMETER (flags: ARG2); INVALID_STATE (IA_IN_USE). */
extern DAT_RETURN dat_ia_close(IN DAT_IA_HANDLE ia_handle, IN DAT_CLOSE_FLAGS ia_flags);

/* Returns the attributes and the asynchronous EVD of an IA.  A structure may be null if its mask is 0, the
 * EVD pointer always.  Pointers in the attributes are valid while the IA is open. Errors: INVALID_HANDLE
 * (IA); INVALID_PARAMETER (undefined bit: ARG3; null structure: ARG4, ARG6). */
extern DAT_RETURN dat_ia_query(IN DAT_IA_HANDLE ia_handle, OUT DAT_EVD_HANDLE *async_evd_handle,
			       IN DAT_IA_ATTR_MASK ia_attr_mask, OUT DAT_IA_ATTR *ia_attributes,
			       IN DAT_PROVIDER_ATTR_MASK provider_attr_mask,
			       OUT DAT_PROVIDER_ATTR *provider_attributes);

/* ---- consumer contexts (uDAPL: context) ---- */

/* Stores or returns eight bytes of the consumer with an object; initially null, not interpreted. Errors:
 * INVALID_HANDLE; get: INVALID_PARAMETER (null pointer: ARG2). */
extern DAT_RETURN dat_set_consumer_context(IN DAT_HANDLE dat_handle, IN DAT_CONTEXT context);
extern DAT_RETURN dat_get_consumer_context(IN DAT_HANDLE dat_handle, OUT DAT_CONTEXT *context);

/* ---- event dispatcher (uDAPL: EVD) ---- */

/* Queues a software event: event_number DAT_SOFTWARE_EVENT and a pointer, which the event returns unchanged.
 * Wakes waiters and triggers the CNO like any event. Errors: INVALID_HANDLE; INVALID_PARAMETER (no SOFTWARE
 * flag: ARG1; event: ARG2); QUEUE_FULL. */
extern DAT_RETURN dat_evd_post_se(IN DAT_EVD_HANDLE evd_handle, IN const DAT_EVENT *event);

/* Dequeues the first event.  Never blocks, makes no system call.  Returns QUEUE_EMPTY (exactly this value) if
 * the queue is empty. Errors: INVALID_HANDLE; INVALID_PARAMETER (null event: ARG2); INVALID_STATE (a thread
 * waits: EVD_WAITER). */
extern DAT_RETURN dat_evd_dequeue(IN DAT_EVD_HANDLE evd_handle, OUT DAT_EVENT *event);

/* Changes the length of the queue; no event is lost.  [message]
 * Errors: INVALID_HANDLE; INVALID_PARAMETER (<= 0 or above max_evd_qlen: ARG2); INVALID_STATE (more
 * events queued: EVD_IN_USE; waiter: EVD_WAITER); INSUFFICIENT_RESOURCES. */
extern DAT_RETURN dat_evd_resize(IN DAT_EVD_HANDLE evd_handle, IN DAT_COUNT evd_min_qlen);

/*
 * Frees an EVD; queued events are dropped.  [message]
 * Errors: INVALID_HANDLE; INVALID_STATE (fed by an EP, service point or IA: EVD_IN_USE; waiter: EVD_WAITER).
 */
extern DAT_RETURN dat_evd_free(IN DAT_EVD_HANDLE evd_handle);

/* ---- endpoint (uDAPL: EP) ---- */

/* Creates an UNCONNECTED endpoint.  PZ and EVDs may be null; without an EVD the events of its stream are not
 * reported.  Null attributes stand for the defaults, which dat_ep_query returns.  In given attributes
 * max_recv_dtos must be 0 exactly if the receive EVD is null; likewise for requests.  [message] Errors:
 * INVALID_HANDLE (IA, PZ, EVD_RECV, EVD_REQUEST, EVD_CONN: bad, or without the stream's flag);
 * INVALID_PARAMETER (attributes: ARG6; null result: ARG7); MODEL_NOT_SUPPORTED (QOS); INSUFFICIENT_RESOURCES
 * (TEP). */
extern DAT_RETURN dat_ep_create(IN DAT_IA_HANDLE ia_handle, IN DAT_PZ_HANDLE pz_handle,
				IN DAT_EVD_HANDLE recv_evd_handle, IN DAT_EVD_HANDLE request_evd_handle,
				IN DAT_EVD_HANDLE connect_evd_handle, IN const DAT_EP_ATTR *ep_attributes,
				OUT DAT_EP_HANDLE *ep_handle);

/* Creates an endpoint like dat_ep_create, with receives from an SRQ of the same zone.  [message] Errors:
 * INVALID_HANDLE (IA, PZ, the EVDs, SRQ); INVALID_PARAMETER (the SRQ's zone: ARG2; attributes: ARG7; null
 * result: ARG8); MODEL_NOT_SUPPORTED (QOS); INSUFFICIENT_RESOURCES. */
extern DAT_RETURN dat_ep_create_with_srq(IN DAT_IA_HANDLE ia_handle, IN DAT_PZ_HANDLE pz_handle,
					 IN DAT_EVD_HANDLE recv_evd_handle,
					 IN DAT_EVD_HANDLE request_evd_handle,
					 IN DAT_EVD_HANDLE connect_evd_handle, IN DAT_SRQ_HANDLE srq_handle,
					 IN const DAT_EP_ATTR *ep_attributes, OUT DAT_EP_HANDLE *ep_handle);

/* Returns the parameters of an EP, in any state.  Remote address and ports are valid from the connection
 * request on. Pointers belong to the EP. Errors: INVALID_HANDLE (EP); INVALID_PARAMETER (null: ARG3). */
extern DAT_RETURN dat_ep_query(IN DAT_EP_HANDLE ep_handle, IN DAT_EP_PARAM_MASK ep_param_mask,
			       OUT DAT_EP_PARAM *ep_param);

/* Changes the fields in the mask: PZ while UNCONNECTED or TENTATIVE; EVDs and
 * attributes also while RESERVED or PASSIVE; recv_completion_flags only if no
 * receive is posted.  Posted receives are not lost.  [message]
 * Errors: INVALID_HANDLE (EP); INVALID_PARAMETER (read-only field: ARG2; value or handle: ARG3);
 * INVALID_STATE (by the EP's state); INSUFFICIENT_RESOURCES. */
extern DAT_RETURN dat_ep_modify(IN DAT_EP_HANDLE ep_handle, IN DAT_EP_PARAM_MASK ep_param_mask,
				IN const DAT_EP_PARAM *ep_param);

/* Starts connecting.  Timeout in microseconds, not 0; with DAT_TIMEOUT_INFINITE the
 * transport decides.  The outcome is one event on the connect EVD:
 * ESTABLISHED with the acceptor's private data, or PEER_REJECTED,
 * NON_PEER_REJECTED, UNREACHABLE, TIMED_OUT, DISCONNECTED.  Private data: 0 to
 * max_private_data_size bytes.  [message]
 * Errors: INVALID_HANDLE (EP, EVD_CONN); INVALID_PARAMETER (address: ARG2; qualifier: ARG3; timeout: ARG4;
 * size: ARG5; null data: ARG6; undefined bits of QOS, flags: ARG7, ARG8); INVALID_STATE (EP_NOTREADY without
 * a PZ; else by state); INVALID_ADDRESS; MODEL_NOT_SUPPORTED (QOS, multipath). */
extern DAT_RETURN dat_ep_connect(IN DAT_EP_HANDLE ep_handle, IN DAT_IA_ADDRESS_PTR remote_ia_address,
				 IN DAT_CONN_QUAL remote_conn_qual, IN DAT_TIMEOUT timeout,
				 IN DAT_COUNT private_data_size, IN const DAT_PVOID private_data,
				 IN DAT_QOS quality_of_service, IN DAT_CONNECT_FLAGS connect_flags);

/* Connects like dat_ep_connect, to the peer of ep_dup_handle, which must be CONNECTED on the connecting side.
 * Errors: those of dat_ep_connect; INVALID_STATE if ep_dup_handle is not connected. */
extern DAT_RETURN dat_ep_dup_connect(IN DAT_EP_HANDLE ep_handle, IN DAT_EP_HANDLE ep_dup_handle,
				     IN DAT_TIMEOUT timeout, IN DAT_COUNT private_data_size,
				     IN const DAT_PVOID private_data, IN DAT_QOS quality_of_service);

/* Starts disconnecting.  One DISCONNECTED event on each side's connect EVD follows.  GRACEFUL first completes
 * the requests posted so far.  All other work is flushed.  On a DISCONNECTED EP the call has no effect and
 * returns SUCCESS.  [message] Errors: INVALID_HANDLE (EP); INVALID_PARAMETER (flags: ARG2); INVALID_STATE
 * (UNCONNECTED, RESERVED, PASSIVE, TENTATIVE). */
extern DAT_RETURN dat_ep_disconnect(IN DAT_EP_HANDLE ep_handle, IN DAT_CLOSE_FLAGS disconnect_flags);

/* Posts never block, and local_iov may be reused at once.  The completion returns user_cookie.  Requests
 * (send, RDMA) are legal in CONNECTED and in DISCONNECTED (then flushed), receives in all states. Zero-length
 * segments are skipped; 0 segments are legal.  Flags besides DEFAULT: receives UNSIGNALLED; RDMA SUPPRESS,
 * UNSIGNALLED, BARRIER_FENCE; send those and SOLICITED_WAIT.  UNSIGNALLED needs the flag in the EP's matching
 * completion-flags attribute.  Local segments are checked at the post, and again when the work is executed:
 * then an error is a completion with an error status, and breaks the connection. Errors: INVALID_HANDLE (EP);
 * INVALID_PARAMETER (segments, also one outside its LMR: ARG2, ARG3; remote: ARG5; flags: the last);
 * PRIVILEGES_VIOLATION (context unknown, or its LMR not writable: READ or WRITE, what is done to the
 * segment); PROTECTION_VIOLATION (LMR of another PZ: READ, WRITE); INVALID_STATE (by state);
 * INSUFFICIENT_RESOURCES (CREDITS: max_*_dtos outstanding); LENGTH_ERROR (RDMA: write longer than the remote
 * segment, read longer than the local ones; above max_rdma_size). */
extern DAT_RETURN dat_ep_post_send(IN DAT_EP_HANDLE ep_handle, IN DAT_COUNT num_segments,
				   IN DAT_LMR_TRIPLET *local_iov, IN DAT_DTO_COOKIE user_cookie,
				   IN DAT_COMPLETION_FLAGS completion_flags);
extern DAT_RETURN dat_ep_post_recv(IN DAT_EP_HANDLE ep_handle, IN DAT_COUNT num_segments,
				   IN DAT_LMR_TRIPLET *local_iov, IN DAT_DTO_COOKIE user_cookie,
				   IN DAT_COMPLETION_FLAGS completion_flags);
/* Fetches remote_iov->segment_length bytes. */
extern DAT_RETURN dat_ep_post_rdma_read(IN DAT_EP_HANDLE ep_handle, IN DAT_COUNT num_segments,
					IN DAT_LMR_TRIPLET *local_iov, IN DAT_DTO_COOKIE user_cookie,
					IN const DAT_RMR_TRIPLET *remote_iov,
					IN DAT_COMPLETION_FLAGS completion_flags);
/* Writes the local bytes to remote_iov->target_address, in address order, the last byte last. */
extern DAT_RETURN dat_ep_post_rdma_write(IN DAT_EP_HANDLE ep_handle, IN DAT_COUNT num_segments,
					 IN DAT_LMR_TRIPLET *local_iov, IN DAT_DTO_COOKIE user_cookie,
					 IN const DAT_RMR_TRIPLET *remote_iov,
					 IN DAT_COMPLETION_FLAGS completion_flags);

/* Returns the state, and for receives and requests whether none is outstanding.  Any pointer may be null.
 * Errors: INVALID_HANDLE (EP). */
extern DAT_RETURN dat_ep_get_status(IN DAT_EP_HANDLE ep_handle, OUT DAT_EP_STATE *ep_state,
				    OUT DAT_BOOLEAN *recv_idle, OUT DAT_BOOLEAN *request_idle);

/* Frees an endpoint.  A connection is aborted, which the peer is notified of.  Completions not yet dequeued
 * are dropped.  [message] Errors: INVALID_HANDLE (EP); INVALID_STATE (RESERVED, PASSIVE, TENTATIVE). */
extern DAT_RETURN dat_ep_free(IN DAT_EP_HANDLE ep_handle);

/* Makes a DISCONNECTED EP UNCONNECTED; no effect in UNCONNECTED.  [message]
 * Errors: INVALID_HANDLE (EP); INVALID_STATE (by state). */
extern DAT_RETURN dat_ep_reset(IN DAT_EP_HANDLE ep_handle);

/* Returns the number of receives that the endpoint holds and has not completed.  Errors: INVALID_HANDLE (EP).
 */
extern DAT_RETURN dat_ep_recv_query(IN DAT_EP_HANDLE ep_handle, OUT DAT_COUNT *nbufs_allocated,
				    OUT DAT_COUNT *bufs_alloc_span);
/* Both watermarks must be DAT_WATERMARK_INFINITE, because an endpoint never holds more than one receive of an
 * SRQ. Errors: INVALID_HANDLE (EP); INVALID_PARAMETER (negative: ARG2, ARG3); MODEL_NOT_SUPPORTED (other
 * values). */
extern DAT_RETURN dat_ep_set_watermark(IN DAT_EP_HANDLE ep_handle, IN DAT_COUNT soft_high_watermark,
				       IN DAT_COUNT hard_high_watermark);

/* ---- memory (uDAPL: LMR, RMR, PZ) ---- */

/* Deregisters a region; the consumer's memory is not freed.  Posted work that uses the region fails when it
 * is executed.  [message] Errors: INVALID_HANDLE (LMR); INVALID_STATE (an RMR is bound to it: LMR_IN_USE). */
extern DAT_RETURN dat_lmr_free(IN DAT_LMR_HANDLE lmr_handle);

/* Synchronize memory on machines without coherent memory.  This implementation only checks the arguments.
 * Errors: INVALID_HANDLE (IA); INVALID_PARAMETER (context or range: ARG2). */
extern DAT_RETURN dat_lmr_sync_rdma_read(IN DAT_IA_HANDLE ia_handle, IN const DAT_LMR_TRIPLET *local_segments,
					 IN DAT_VLEN num_segments);
extern DAT_RETURN dat_lmr_sync_rdma_write(IN DAT_IA_HANDLE ia_handle,
					  IN const DAT_LMR_TRIPLET *local_segments, IN DAT_VLEN num_segments);

/* Creates an unbound window.  [message]
 * Errors: INVALID_HANDLE (PZ); INVALID_PARAMETER (ARG2); INSUFFICIENT_RESOURCES (MEMORY_REGION). */
extern DAT_RETURN dat_rmr_create(IN DAT_PZ_HANDLE pz_handle, OUT DAT_RMR_HANDLE *rmr_handle);

/* Errors: INVALID_HANDLE (RMR); INVALID_PARAMETER (null: ARG3; triplet requested while unbound: ARG2). */
extern DAT_RETURN dat_rmr_query(IN DAT_RMR_HANDLE rmr_handle, IN DAT_RMR_PARAM_MASK rmr_param_mask,
				OUT DAT_RMR_PARAM *rmr_param);

/* Posts a bind of the window to a range of an LMR; segment_length 0 unbinds.  The new context is returned at
 * once, and is valid when the bind has completed.  Requests posted later on the same EP wait for the bind.
 * Earlier contexts of the window become invalid.  States and flags are those of RDMA posts. Errors:
 * INVALID_HANDLE (RMR, EP); INVALID_PARAMETER (context, range: ARG2; rights: ARG3; flags: ARG6; null result:
 * ARG7); INVALID_STATE (by state); PRIVILEGES_VIOLATION (remote write without the LMR's local write);
 * PROTECTION_VIOLATION (EP, LMR, RMR not of one PZ); INSUFFICIENT_RESOURCES (CREDITS). */
extern DAT_RETURN dat_rmr_bind(IN DAT_RMR_HANDLE rmr_handle, IN const DAT_LMR_TRIPLET *lmr_triplet,
			       IN DAT_MEM_PRIV_FLAGS mem_privileges, IN DAT_EP_HANDLE ep_handle,
			       IN DAT_RMR_COOKIE user_cookie, IN DAT_COMPLETION_FLAGS completion_flags,
			       OUT DAT_RMR_CONTEXT *rmr_context);

/* Frees a window, bound or not, and invalidates its context.  [message]  Errors: INVALID_HANDLE (RMR). */
extern DAT_RETURN dat_rmr_free(IN DAT_RMR_HANDLE rmr_handle);

/* Protection zones.  [message]
 * Errors: INVALID_HANDLE (IA, PZ); INVALID_PARAMETER (null: ARG2, query ARG3); INSUFFICIENT_RESOURCES
 * (PROTECTION_DOMAIN); free: INVALID_STATE (an EP, LMR or RMR uses it: PZ_IN_USE). */
extern DAT_RETURN dat_pz_create(IN DAT_IA_HANDLE ia_handle, OUT DAT_PZ_HANDLE *pz_handle);
extern DAT_RETURN dat_pz_query(IN DAT_PZ_HANDLE pz_handle, IN DAT_PZ_PARAM_MASK pz_param_mask,
			       OUT DAT_PZ_PARAM *pz_param);
extern DAT_RETURN dat_pz_free(IN DAT_PZ_HANDLE pz_handle);

/* ---- service points and connection requests (uDAPL: PSP, RSP, CR) ---- */

/* Listens on a qualifier until the PSP is freed.  1..65535 is a port of rdma_cm's TCP port space; larger
 * values are InfiniBand service IDs.  [message] Errors: INVALID_HANDLE (IA, EVD_CR); INVALID_PARAMETER
 * (qualifier: ARG2; flags: ARG4; null: ARG5); CONN_QUAL_IN_USE; INSUFFICIENT_RESOURCES. */
extern DAT_RETURN dat_psp_create(IN DAT_IA_HANDLE ia_handle, IN DAT_CONN_QUAL conn_qual,
				 IN DAT_EVD_HANDLE evd_handle, IN DAT_PSP_FLAGS psp_flags,
				 OUT DAT_PSP_HANDLE *psp_handle);
/* dat_psp_create on a free port from 1024 up.  Further errors: CONN_QUAL_UNAVAILABLE; null conn_qual: ARG2.
 */
extern DAT_RETURN dat_psp_create_any(IN DAT_IA_HANDLE ia_handle, OUT DAT_CONN_QUAL *conn_qual,
				     IN DAT_EVD_HANDLE evd_handle, IN DAT_PSP_FLAGS psp_flags,
				     OUT DAT_PSP_HANDLE *psp_handle);
/* Errors: INVALID_HANDLE (PSP); INVALID_PARAMETER (null: ARG3). */
extern DAT_RETURN dat_psp_query(IN DAT_PSP_HANDLE psp_handle, IN DAT_PSP_PARAM_MASK psp_param_mask,
				OUT DAT_PSP_PARAM *psp_param);
/* Stops listening.  Requests dequeued from the EVD remain valid; queued requests are refused.
 * [message]  Errors: INVALID_HANDLE (PSP). */
extern DAT_RETURN dat_psp_free(IN DAT_PSP_HANDLE psp_handle);

/* Listens for one request for one EP, which changes from UNCONNECTED to RESERVED.  The request may arrive
 * before the call returns.  [message] Errors: INVALID_HANDLE (IA, EP, EVD_CR); INVALID_PARAMETER (qualifier:
 * ARG2; null: ARG5); INVALID_STATE (by the EP's state); CONN_QUAL_IN_USE; INSUFFICIENT_RESOURCES. */
extern DAT_RETURN dat_rsp_create(IN DAT_IA_HANDLE ia_handle, IN DAT_CONN_QUAL conn_qual,
				 IN DAT_EP_HANDLE ep_handle, IN DAT_EVD_HANDLE evd_handle,
				 OUT DAT_RSP_HANDLE *rsp_handle);
/* Errors: INVALID_HANDLE (RSP); INVALID_PARAMETER (null: ARG3). */
extern DAT_RETURN dat_rsp_query(IN DAT_RSP_HANDLE rsp_handle, IN DAT_RSP_PARAM_MASK rsp_param_mask,
				OUT DAT_RSP_PARAM *rsp_param);
/* Stops listening.  The EP becomes UNCONNECTED if it is RESERVED; a request dequeued from the EVD remains
 * valid. [message]  Errors: INVALID_HANDLE (RSP). */
extern DAT_RETURN dat_rsp_free(IN DAT_RSP_HANDLE rsp_handle);

/* Errors: INVALID_HANDLE (CR); INVALID_PARAMETER (null: ARG3). */
extern DAT_RETURN dat_cr_query(IN DAT_CR_HANDLE cr_handle, IN DAT_CR_PARAM_MASK cr_param_mask,
			       OUT DAT_CR_PARAM *cr_param);
/* Accepts with an UNCONNECTED EP of the consumer, or with null if the service point supplied an EP.
 * ESTABLISHED or ACCEPT_COMPLETION_ERROR follows on the EP's connect EVD.  Success invalidates the CR.
 * [message] Errors: INVALID_HANDLE (CR; EP: bad, missing, not null although one was supplied, or without PZ
 * or connect EVD); INVALID_PARAMETER (size: ARG3; null data: ARG4); INVALID_STATE (by the EP's state). */
extern DAT_RETURN dat_cr_accept(IN DAT_CR_HANDLE cr_handle, IN DAT_EP_HANDLE ep_handle,
				IN DAT_COUNT private_data_size, IN const DAT_PVOID private_data);
/* Refuses the request; the peer gets PEER_REJECTED.  [message]  Errors: INVALID_HANDLE (CR). */
extern DAT_RETURN dat_cr_reject(IN DAT_CR_HANDLE cr_handle);
/* Hands the request over to the service point on another qualifier of this IA.  [message]
 * Errors: INVALID_HANDLE (CR); INVALID_PARAMETER (no service point on the qualifier: ARG2). */
extern DAT_RETURN dat_cr_handoff(IN DAT_CR_HANDLE cr_handle, IN DAT_CONN_QUAL handoff);

/* ---- shared receive queue (uDAPL: SRQ) ---- */

/* Creates a queue of receives for endpoints created with it.  [message]
 * Errors: INVALID_HANDLE (IA, PZ); INVALID_PARAMETER (attributes: ARG3; null result: ARG4);
 * MODEL_NOT_SUPPORTED (max_srqs is 0); INSUFFICIENT_RESOURCES. */
extern DAT_RETURN dat_srq_create(IN DAT_IA_HANDLE ia_handle, IN DAT_PZ_HANDLE pz_handle,
				 IN DAT_SRQ_ATTR *srq_attr, OUT DAT_SRQ_HANDLE *srq_handle);
/* [message]  Errors: INVALID_HANDLE (SRQ); INVALID_STATE (SRQ_IN_USE). */
extern DAT_RETURN dat_srq_free(IN DAT_SRQ_HANDLE srq_handle);
/* Errors: INVALID_HANDLE (SRQ); INVALID_PARAMETER (ARG2, ARG3); PROTECTION_VIOLATION, PRIVILEGES_VIOLATION (a
 * segment); INSUFFICIENT_RESOURCES (full). */
extern DAT_RETURN dat_srq_post_recv(IN DAT_SRQ_HANDLE srq_handle, IN DAT_COUNT num_segments,
				    IN DAT_LMR_TRIPLET *local_iov, IN DAT_DTO_COOKIE user_cookie);
/* Errors: INVALID_HANDLE (SRQ); INVALID_PARAMETER (mask: ARG2; null result: ARG3). */
extern DAT_RETURN dat_srq_query(IN DAT_SRQ_HANDLE srq_handle, IN DAT_SRQ_PARAM_MASK srq_param_mask,
				OUT DAT_SRQ_PARAM *srq_param);
/* Errors: INVALID_HANDLE (SRQ); INVALID_PARAMETER (ARG2); INVALID_STATE (SRQ_IN_USE); INSUFFICIENT_RESOURCES.
 */
extern DAT_RETURN dat_srq_resize(IN DAT_SRQ_HANDLE srq_handle, IN DAT_COUNT srq_max_recv_dto);
/* Requests one asynchronous event when fewer receives are left.  [message]  Errors: INVALID_HANDLE (SRQ);
 * INVALID_PARAMETER (ARG2). */
extern DAT_RETURN dat_srq_set_lw(IN DAT_SRQ_HANDLE srq_handle, IN DAT_COUNT low_watermark);

/* ---- diagnostics ---- */

/* Returns the symbol names of a code's type and subtype ("" for subtype 0).  Both strings are always set;
 * minor_message may be null.
 * Errors: INVALID_PARAMETER (unknown code: ARG1; null major_message: ARG2). */
extern DAT_RETURN dat_strerror(IN DAT_RETURN value, OUT const char **major_message,
			       OUT const char **minor_message);

#ifdef __cplusplus
}
#endif

#endif
