/* SPDX-License-Identifier: BSD-3-Clause */
/* Macros for the calls shared with kernel level, for provider authors and for callers that want to save the
 * dispatch.  Each macro calls through the provider table that the first word of a handle points to.  The
 * handle must be valid. */
#ifndef _DAT_REDIRECTION_H_
#define _DAT_REDIRECTION_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dat_provider DAT_PROVIDER;

#ifndef DAT_HANDLE_TO_PROVIDER
#define DAT_HANDLE_TO_PROVIDER(handle) (*(DAT_PROVIDER **)(handle))
#endif

#define DAT_IA_QUERY(ia_handle, async_evd_handle, ia_attr_mask, ia_attributes, provider_attr_mask, \
		     provider_attributes)                                                          \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->ia_query_func)((ia_handle), (async_evd_handle),      \
							     (ia_attr_mask), (ia_attributes),      \
							     (provider_attr_mask), (provider_attributes)))
#define DAT_IA_CLOSE(ia_handle, ia_flags) \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->ia_close_func)((ia_handle), (ia_flags)))
#define DAT_SET_CONSUMER_CONTEXT(dat_handle, context) \
	((*DAT_HANDLE_TO_PROVIDER(dat_handle)->set_consumer_context_func)((dat_handle), (context)))
#define DAT_GET_CONSUMER_CONTEXT(dat_handle, context) \
	((*DAT_HANDLE_TO_PROVIDER(dat_handle)->get_consumer_context_func)((dat_handle), (context)))
#define DAT_CR_QUERY(cr_handle, cr_param_mask, cr_param) \
	((*DAT_HANDLE_TO_PROVIDER(cr_handle)->cr_query_func)((cr_handle), (cr_param_mask), (cr_param)))
#define DAT_CR_ACCEPT(cr_handle, ep_handle, private_data_size, private_data)                                 \
	((*DAT_HANDLE_TO_PROVIDER(cr_handle)->cr_accept_func)((cr_handle), (ep_handle), (private_data_size), \
							      (private_data)))
#define DAT_CR_REJECT(cr_handle) ((*DAT_HANDLE_TO_PROVIDER(cr_handle)->cr_reject_func)((cr_handle)))
#define DAT_CR_HANDOFF(cr_handle, handoff) \
	((*DAT_HANDLE_TO_PROVIDER(cr_handle)->cr_handoff_func)((cr_handle), (handoff)))
#define DAT_EVD_RESIZE(evd_handle, evd_min_qlen) \
	((*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_resize_func)((evd_handle), (evd_min_qlen)))
#define DAT_EVD_POST_SE(evd_handle, event) \
	((*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_post_se_func)((evd_handle), (event)))
#define DAT_EVD_DEQUEUE(evd_handle, event) \
	((*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_dequeue_func)((evd_handle), (event)))
#define DAT_EVD_FREE(evd_handle) ((*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_free_func)((evd_handle)))
#define DAT_EP_CREATE(ia_handle, pz_handle, recv_evd_handle, request_evd_handle, connect_evd_handle,       \
		      ep_attributes, ep_handle)                                                            \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->ep_create_func)((ia_handle), (pz_handle), (recv_evd_handle), \
							      (request_evd_handle), (connect_evd_handle),  \
							      (ep_attributes), (ep_handle)))
#define DAT_EP_QUERY(ep_handle, ep_param_mask, ep_param) \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_query_func)((ep_handle), (ep_param_mask), (ep_param)))
#define DAT_EP_MODIFY(ep_handle, ep_param_mask, ep_param) \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_modify_func)((ep_handle), (ep_param_mask), (ep_param)))
#define DAT_EP_CONNECT(ep_handle, remote_ia_address, remote_conn_qual, timeout, private_data_size,    \
		       private_data, quality_of_service, connect_flags)                               \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_connect_func)(                                       \
		(ep_handle), (remote_ia_address), (remote_conn_qual), (timeout), (private_data_size), \
		(private_data), (quality_of_service), (connect_flags)))
#define DAT_EP_DUP_CONNECT(ep_handle, ep_dup_handle, timeout, private_data_size, private_data,              \
			   quality_of_service)                                                              \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_dup_connect_func)((ep_handle), (ep_dup_handle), (timeout), \
								   (private_data_size), (private_data),     \
								   (quality_of_service)))
#define DAT_EP_DISCONNECT(ep_handle, disconnect_flags) \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_disconnect_func)((ep_handle), (disconnect_flags)))
#define DAT_EP_POST_SEND(ep_handle, num_segments, local_iov, user_cookie, completion_flags)                \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_post_send_func)((ep_handle), (num_segments), (local_iov), \
								 (user_cookie), (completion_flags)))
#define DAT_EP_POST_RECV(ep_handle, num_segments, local_iov, user_cookie, completion_flags)                \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_post_recv_func)((ep_handle), (num_segments), (local_iov), \
								 (user_cookie), (completion_flags)))
#define DAT_EP_POST_RDMA_READ(ep_handle, num_segments, local_iov, user_cookie, remote_iov, completion_flags) \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_post_rdma_read_func)(                                       \
		(ep_handle), (num_segments), (local_iov), (user_cookie), (remote_iov), (completion_flags)))
#define DAT_EP_POST_RDMA_WRITE(ep_handle, num_segments, local_iov, user_cookie, remote_iov, \
			       completion_flags)                                            \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_post_rdma_write_func)(                     \
		(ep_handle), (num_segments), (local_iov), (user_cookie), (remote_iov), (completion_flags)))
#define DAT_EP_GET_STATUS(ep_handle, ep_state, recv_idle, request_idle)                                 \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_get_status_func)((ep_handle), (ep_state), (recv_idle), \
								  (request_idle)))
#define DAT_EP_FREE(ep_handle) ((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_free_func)((ep_handle)))
#define DAT_LMR_FREE(lmr_handle) ((*DAT_HANDLE_TO_PROVIDER(lmr_handle)->lmr_free_func)((lmr_handle)))
#define DAT_RMR_CREATE(pz_handle, rmr_handle) \
	((*DAT_HANDLE_TO_PROVIDER(pz_handle)->rmr_create_func)((pz_handle), (rmr_handle)))
#define DAT_RMR_QUERY(rmr_handle, rmr_param_mask, rmr_param) \
	((*DAT_HANDLE_TO_PROVIDER(rmr_handle)->rmr_query_func)((rmr_handle), (rmr_param_mask), (rmr_param)))
#define DAT_RMR_BIND(rmr_handle, lmr_triplet, mem_privileges, ep_handle, user_cookie, completion_flags,      \
		     rmr_context)                                                                            \
	((*DAT_HANDLE_TO_PROVIDER(rmr_handle)->rmr_bind_func)((rmr_handle), (lmr_triplet), (mem_privileges), \
							      (ep_handle), (user_cookie),                    \
							      (completion_flags), (rmr_context)))
#define DAT_RMR_FREE(rmr_handle) ((*DAT_HANDLE_TO_PROVIDER(rmr_handle)->rmr_free_func)((rmr_handle)))
#define DAT_PSP_CREATE(ia_handle, conn_qual, evd_handle, psp_flags, psp_handle)                        \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->psp_create_func)((ia_handle), (conn_qual), (evd_handle), \
							       (psp_flags), (psp_handle)))
#define DAT_PSP_QUERY(psp_handle, psp_param_mask, psp_param) \
	((*DAT_HANDLE_TO_PROVIDER(psp_handle)->psp_query_func)((psp_handle), (psp_param_mask), (psp_param)))
#define DAT_PSP_FREE(psp_handle) ((*DAT_HANDLE_TO_PROVIDER(psp_handle)->psp_free_func)((psp_handle)))
#define DAT_RSP_CREATE(ia_handle, conn_qual, ep_handle, evd_handle, rsp_handle)                       \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->rsp_create_func)((ia_handle), (conn_qual), (ep_handle), \
							       (evd_handle), (rsp_handle)))
#define DAT_RSP_QUERY(rsp_handle, rsp_param_mask, rsp_param) \
	((*DAT_HANDLE_TO_PROVIDER(rsp_handle)->rsp_query_func)((rsp_handle), (rsp_param_mask), (rsp_param)))
#define DAT_RSP_FREE(rsp_handle) ((*DAT_HANDLE_TO_PROVIDER(rsp_handle)->rsp_free_func)((rsp_handle)))
#define DAT_PZ_CREATE(ia_handle, pz_handle) \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->pz_create_func)((ia_handle), (pz_handle)))
#define DAT_PZ_QUERY(pz_handle, pz_param_mask, pz_param) \
	((*DAT_HANDLE_TO_PROVIDER(pz_handle)->pz_query_func)((pz_handle), (pz_param_mask), (pz_param)))
#define DAT_PZ_FREE(pz_handle) ((*DAT_HANDLE_TO_PROVIDER(pz_handle)->pz_free_func)((pz_handle)))
#define DAT_PSP_CREATE_ANY(ia_handle, conn_qual, evd_handle, psp_flags, psp_handle)                        \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->psp_create_any_func)((ia_handle), (conn_qual), (evd_handle), \
								   (psp_flags), (psp_handle)))
#define DAT_EP_RESET(ep_handle) ((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_reset_func)((ep_handle)))
#define DAT_LMR_SYNC_RDMA_READ(ia_handle, local_segments, num_segments)                               \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->lmr_sync_rdma_read_func)((ia_handle), (local_segments), \
								       (num_segments)))
#define DAT_LMR_SYNC_RDMA_WRITE(ia_handle, local_segments, num_segments)                               \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->lmr_sync_rdma_write_func)((ia_handle), (local_segments), \
									(num_segments)))
#define DAT_EP_CREATE_WITH_SRQ(ia_handle, pz_handle, recv_evd_handle, request_evd_handle,                \
			       connect_evd_handle, srq_handle, ep_attributes, ep_handle)                 \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->ep_create_with_srq_func)(                                  \
		(ia_handle), (pz_handle), (recv_evd_handle), (request_evd_handle), (connect_evd_handle), \
		(srq_handle), (ep_attributes), (ep_handle)))
#define DAT_EP_RECV_QUERY(ep_handle, nbufs_allocated, bufs_alloc_span)                            \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_recv_query_func)((ep_handle), (nbufs_allocated), \
								  (bufs_alloc_span)))
#define DAT_EP_SET_WATERMARK(ep_handle, soft_high_watermark, hard_high_watermark)                        \
	((*DAT_HANDLE_TO_PROVIDER(ep_handle)->ep_set_watermark_func)((ep_handle), (soft_high_watermark), \
								     (hard_high_watermark)))
#define DAT_SRQ_CREATE(ia_handle, pz_handle, srq_attr, srq_handle)                                   \
	((*DAT_HANDLE_TO_PROVIDER(ia_handle)->srq_create_func)((ia_handle), (pz_handle), (srq_attr), \
							       (srq_handle)))
#define DAT_SRQ_FREE(srq_handle) ((*DAT_HANDLE_TO_PROVIDER(srq_handle)->srq_free_func)((srq_handle)))
#define DAT_SRQ_POST_RECV(srq_handle, num_segments, local_iov, user_cookie)                      \
	((*DAT_HANDLE_TO_PROVIDER(srq_handle)->srq_post_recv_func)((srq_handle), (num_segments), \
								   (local_iov), (user_cookie)))
#define DAT_SRQ_QUERY(srq_handle, srq_param_mask, srq_param) \
	((*DAT_HANDLE_TO_PROVIDER(srq_handle)->srq_query_func)((srq_handle), (srq_param_mask), (srq_param)))
#define DAT_SRQ_RESIZE(srq_handle, srq_max_recv_dto) \
	((*DAT_HANDLE_TO_PROVIDER(srq_handle)->srq_resize_func)((srq_handle), (srq_max_recv_dto)))
#define DAT_SRQ_SET_LW(srq_handle, low_watermark) \
	((*DAT_HANDLE_TO_PROVIDER(srq_handle)->srq_set_lw_func)((srq_handle), (low_watermark)))

/* Types of the calls, which dat_calls.h and udat.h declare. */
typedef __typeof__(dat_ia_query) *DAT_IA_QUERY_FUNC;
typedef __typeof__(dat_ia_close) *DAT_IA_CLOSE_FUNC;
typedef __typeof__(dat_set_consumer_context) *DAT_SET_CONSUMER_CONTEXT_FUNC;
typedef __typeof__(dat_get_consumer_context) *DAT_GET_CONSUMER_CONTEXT_FUNC;
typedef __typeof__(dat_cr_query) *DAT_CR_QUERY_FUNC;
typedef __typeof__(dat_cr_accept) *DAT_CR_ACCEPT_FUNC;
typedef __typeof__(dat_cr_reject) *DAT_CR_REJECT_FUNC;
typedef __typeof__(dat_cr_handoff) *DAT_CR_HANDOFF_FUNC;
typedef __typeof__(dat_evd_resize) *DAT_EVD_RESIZE_FUNC;
typedef __typeof__(dat_evd_post_se) *DAT_EVD_POST_SE_FUNC;
typedef __typeof__(dat_evd_dequeue) *DAT_EVD_DEQUEUE_FUNC;
typedef __typeof__(dat_evd_free) *DAT_EVD_FREE_FUNC;
typedef __typeof__(dat_ep_create) *DAT_EP_CREATE_FUNC;
typedef __typeof__(dat_ep_query) *DAT_EP_QUERY_FUNC;
typedef __typeof__(dat_ep_modify) *DAT_EP_MODIFY_FUNC;
typedef __typeof__(dat_ep_connect) *DAT_EP_CONNECT_FUNC;
typedef __typeof__(dat_ep_dup_connect) *DAT_EP_DUP_CONNECT_FUNC;
typedef __typeof__(dat_ep_disconnect) *DAT_EP_DISCONNECT_FUNC;
typedef __typeof__(dat_ep_post_send) *DAT_EP_POST_SEND_FUNC;
typedef __typeof__(dat_ep_post_recv) *DAT_EP_POST_RECV_FUNC;
typedef __typeof__(dat_ep_post_rdma_read) *DAT_EP_POST_RDMA_READ_FUNC;
typedef __typeof__(dat_ep_post_rdma_write) *DAT_EP_POST_RDMA_WRITE_FUNC;
typedef __typeof__(dat_ep_get_status) *DAT_EP_GET_STATUS_FUNC;
typedef __typeof__(dat_ep_free) *DAT_EP_FREE_FUNC;
typedef __typeof__(dat_lmr_free) *DAT_LMR_FREE_FUNC;
typedef __typeof__(dat_rmr_create) *DAT_RMR_CREATE_FUNC;
typedef __typeof__(dat_rmr_query) *DAT_RMR_QUERY_FUNC;
typedef __typeof__(dat_rmr_bind) *DAT_RMR_BIND_FUNC;
typedef __typeof__(dat_rmr_free) *DAT_RMR_FREE_FUNC;
typedef __typeof__(dat_psp_create) *DAT_PSP_CREATE_FUNC;
typedef __typeof__(dat_psp_query) *DAT_PSP_QUERY_FUNC;
typedef __typeof__(dat_psp_free) *DAT_PSP_FREE_FUNC;
typedef __typeof__(dat_rsp_create) *DAT_RSP_CREATE_FUNC;
typedef __typeof__(dat_rsp_query) *DAT_RSP_QUERY_FUNC;
typedef __typeof__(dat_rsp_free) *DAT_RSP_FREE_FUNC;
typedef __typeof__(dat_pz_create) *DAT_PZ_CREATE_FUNC;
typedef __typeof__(dat_pz_query) *DAT_PZ_QUERY_FUNC;
typedef __typeof__(dat_pz_free) *DAT_PZ_FREE_FUNC;
typedef __typeof__(dat_psp_create_any) *DAT_PSP_CREATE_ANY_FUNC;
typedef __typeof__(dat_ep_reset) *DAT_EP_RESET_FUNC;
typedef __typeof__(dat_lmr_sync_rdma_read) *DAT_LMR_SYNC_RDMA_READ_FUNC;
typedef __typeof__(dat_lmr_sync_rdma_write) *DAT_LMR_SYNC_RDMA_WRITE_FUNC;
typedef __typeof__(dat_ep_create_with_srq) *DAT_EP_CREATE_WITH_SRQ_FUNC;
typedef __typeof__(dat_ep_recv_query) *DAT_EP_RECV_QUERY_FUNC;
typedef __typeof__(dat_ep_set_watermark) *DAT_EP_SET_WATERMARK_FUNC;
typedef __typeof__(dat_srq_create) *DAT_SRQ_CREATE_FUNC;
typedef __typeof__(dat_srq_free) *DAT_SRQ_FREE_FUNC;
typedef __typeof__(dat_srq_post_recv) *DAT_SRQ_POST_RECV_FUNC;
typedef __typeof__(dat_srq_query) *DAT_SRQ_QUERY_FUNC;
typedef __typeof__(dat_srq_resize) *DAT_SRQ_RESIZE_FUNC;
typedef __typeof__(dat_srq_set_lw) *DAT_SRQ_SET_LW_FUNC;

#ifdef __cplusplus
}
#endif

#endif
