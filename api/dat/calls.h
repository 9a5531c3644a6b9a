/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of the provider table's calls, in the table's order.  All code that needs such a list expands
 * DAT_CALLS.
 *
 * CALL(name, handle, version2, parameters...)
 *   name        dat_NAME is exported, dapl_NAME is the provider's function, NAME_func the table's member.
 *   handle      kind of the first argument, for the subtype DAT_INVALID_HANDLE_*.
 *   version2    the call in uDAPL 2.0: ALIKE (no difference), LAYOUTS (its structures have layouts of 2.0),
 *               DIFFERS (other parameters).
 *   parameters  (TYPE) NAME, see client/parameters.h.  The names are those of the headers and the manual
 *               pages, because a refusal prints them (registry/explain.c).  OF(TYPE) is DAT_TYPE in the
 * layout of the version at hand. REGISTRY() has the arguments of CALL().  The registry exports these calls
 * itself: they change its state.
 */
#ifndef DAT_CALLS_INTERNAL_H
#define DAT_CALLS_INTERNAL_H

#include <dat/udat.h>

#include "client/parameters.h"

/* clang-format off */
#define DAT_CALLS(REGISTRY, CALL, OF)                                                                        \
	REGISTRY(ia_open, IA, LAYOUTS, (const DAT_NAME_PTR) ia_name_ptr, (DAT_COUNT) async_evd_min_qlen,     \
	     (DAT_EVD_HANDLE *) async_evd_handle, (DAT_IA_HANDLE *) ia_handle)                               \
	CALL(ia_query, IA, LAYOUTS, (DAT_IA_HANDLE) ia_handle, (DAT_EVD_HANDLE *) async_evd_handle,          \
	     (DAT_IA_ATTR_MASK) ia_attr_mask, (OF(IA_ATTR) *) ia_attributes,                                 \
	     (DAT_PROVIDER_ATTR_MASK) provider_attr_mask, (OF(PROVIDER_ATTR) *) provider_attributes)         \
	REGISTRY(ia_close, IA, ALIKE, (DAT_IA_HANDLE) ia_handle, (DAT_CLOSE_FLAGS) ia_flags)                 \
	CALL(set_consumer_context, ANY, ALIKE, (DAT_HANDLE) dat_handle, (DAT_CONTEXT) context)               \
	CALL(get_consumer_context, ANY, ALIKE, (DAT_HANDLE) dat_handle, (DAT_CONTEXT *) context)             \
	CALL(get_handle_type, ANY, ALIKE, (DAT_HANDLE) dat_handle, (DAT_HANDLE_TYPE *) handle_type)          \
	CALL(cno_create, IA, ALIKE, (DAT_IA_HANDLE) ia_handle, (DAT_OS_WAIT_PROXY_AGENT) agent,              \
	     (DAT_CNO_HANDLE *) cno_handle)                                                                  \
	CALL(cno_modify_agent, CNO, ALIKE, (DAT_CNO_HANDLE) cno_handle, (DAT_OS_WAIT_PROXY_AGENT) agent)     \
	CALL(cno_query, CNO, LAYOUTS, (DAT_CNO_HANDLE) cno_handle, (DAT_CNO_PARAM_MASK) cno_param_mask,      \
	     (OF(CNO_PARAM) *) cno_param)                                                                    \
	CALL(cno_free, CNO, ALIKE, (DAT_CNO_HANDLE) cno_handle)                                              \
	CALL(cno_wait, CNO, ALIKE, (DAT_CNO_HANDLE) cno_handle, (DAT_TIMEOUT) timeout,                       \
	     (DAT_EVD_HANDLE *) evd_handle)                                                                  \
	CALL(cr_query, CR, ALIKE, (DAT_CR_HANDLE) cr_handle, (DAT_CR_PARAM_MASK) cr_param_mask,              \
	     (DAT_CR_PARAM *) cr_param)                                                                      \
	CALL(cr_accept, CR, ALIKE, (DAT_CR_HANDLE) cr_handle, (DAT_EP_HANDLE) ep_handle,                     \
	     (DAT_COUNT) private_data_size, (const DAT_PVOID) private_data)                                  \
	CALL(cr_reject, CR, DIFFERS, (DAT_CR_HANDLE) cr_handle)                                              \
	CALL(cr_handoff, CR, ALIKE, (DAT_CR_HANDLE) cr_handle, (DAT_CONN_QUAL) handoff)                      \
	CALL(evd_create, IA, LAYOUTS, (DAT_IA_HANDLE) ia_handle, (DAT_COUNT) evd_min_qlen,                   \
	     (DAT_CNO_HANDLE) cno_handle, (DAT_EVD_FLAGS) evd_flags, (DAT_EVD_HANDLE *) evd_handle)          \
	CALL(evd_query, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE) evd_handle,                                     \
	     (DAT_EVD_PARAM_MASK) evd_param_mask, (DAT_EVD_PARAM *) evd_param)                               \
	CALL(evd_modify_cno, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE) evd_handle, (DAT_CNO_HANDLE) cno_handle)   \
	CALL(evd_enable, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE) evd_handle)                                    \
	CALL(evd_disable, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE) evd_handle)                                   \
	CALL(evd_wait, EVD_REQUEST, LAYOUTS, (DAT_EVD_HANDLE) evd_handle, (DAT_TIMEOUT) timeout,             \
	     (DAT_COUNT) threshold, (OF(EVENT) *) event, (DAT_COUNT *) nmore)                                \
	CALL(evd_resize, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE) evd_handle, (DAT_COUNT) evd_min_qlen)          \
	CALL(evd_post_se, EVD_REQUEST, LAYOUTS, (DAT_EVD_HANDLE) evd_handle, (const OF(EVENT) *) event)      \
	CALL(evd_dequeue, EVD_REQUEST, LAYOUTS, (DAT_EVD_HANDLE) evd_handle, (OF(EVENT) *) event)            \
	CALL(evd_free, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE) evd_handle)                                      \
	CALL(ep_create, IA, LAYOUTS, (DAT_IA_HANDLE) ia_handle, (DAT_PZ_HANDLE) pz_handle,                   \
	     (DAT_EVD_HANDLE) recv_evd_handle, (DAT_EVD_HANDLE) request_evd_handle,                          \
	     (DAT_EVD_HANDLE) connect_evd_handle, (const OF(EP_ATTR) *) ep_attributes,                       \
	     (DAT_EP_HANDLE *) ep_handle)                                                                    \
	CALL(ep_query, EP, LAYOUTS, (DAT_EP_HANDLE) ep_handle, (DAT_EP_PARAM_MASK) ep_param_mask,            \
	     (OF(EP_PARAM) *) ep_param)                                                                      \
	CALL(ep_modify, EP, LAYOUTS, (DAT_EP_HANDLE) ep_handle, (DAT_EP_PARAM_MASK) ep_param_mask,           \
	     (const OF(EP_PARAM) *) ep_param)                                                                \
	CALL(ep_connect, EP, LAYOUTS, (DAT_EP_HANDLE) ep_handle, (DAT_IA_ADDRESS_PTR) remote_ia_address,     \
	     (DAT_CONN_QUAL) remote_conn_qual, (DAT_TIMEOUT) timeout, (DAT_COUNT) private_data_size,         \
	     (const DAT_PVOID) private_data, (DAT_QOS) quality_of_service,                                   \
	     (DAT_CONNECT_FLAGS) connect_flags)                                                              \
	CALL(ep_dup_connect, EP, ALIKE, (DAT_EP_HANDLE) ep_handle, (DAT_EP_HANDLE) ep_dup_handle,            \
	     (DAT_TIMEOUT) timeout, (DAT_COUNT) private_data_size, (const DAT_PVOID) private_data,           \
	     (DAT_QOS) quality_of_service)                                                                   \
	CALL(ep_disconnect, EP, ALIKE, (DAT_EP_HANDLE) ep_handle, (DAT_CLOSE_FLAGS) disconnect_flags)        \
	CALL(ep_post_send, EP, LAYOUTS, (DAT_EP_HANDLE) ep_handle, (DAT_COUNT) num_segments,                 \
	     (OF(LMR_TRIPLET) *) local_iov, (DAT_DTO_COOKIE) user_cookie,                                    \
	     (DAT_COMPLETION_FLAGS) completion_flags)                                                        \
	CALL(ep_post_recv, EP, LAYOUTS, (DAT_EP_HANDLE) ep_handle, (DAT_COUNT) num_segments,                 \
	     (OF(LMR_TRIPLET) *) local_iov, (DAT_DTO_COOKIE) user_cookie,                                    \
	     (DAT_COMPLETION_FLAGS) completion_flags)                                                        \
	CALL(ep_post_rdma_read, EP, LAYOUTS, (DAT_EP_HANDLE) ep_handle, (DAT_COUNT) num_segments,            \
	     (OF(LMR_TRIPLET) *) local_iov, (DAT_DTO_COOKIE) user_cookie,                                    \
	     (const OF(RMR_TRIPLET) *) remote_iov, (DAT_COMPLETION_FLAGS) completion_flags)                  \
	CALL(ep_post_rdma_write, EP, LAYOUTS, (DAT_EP_HANDLE) ep_handle, (DAT_COUNT) num_segments,           \
	     (OF(LMR_TRIPLET) *) local_iov, (DAT_DTO_COOKIE) user_cookie,                                    \
	     (const OF(RMR_TRIPLET) *) remote_iov, (DAT_COMPLETION_FLAGS) completion_flags)                  \
	CALL(ep_get_status, EP, ALIKE, (DAT_EP_HANDLE) ep_handle, (DAT_EP_STATE *) ep_state,                 \
	     (DAT_BOOLEAN *) recv_idle, (DAT_BOOLEAN *) request_idle)                                        \
	CALL(ep_free, EP, ALIKE, (DAT_EP_HANDLE) ep_handle)                                                  \
	CALL(lmr_create, IA, DIFFERS, (DAT_IA_HANDLE) ia_handle, (DAT_MEM_TYPE) mem_type,                    \
	     (DAT_REGION_DESCRIPTION) region_description, (DAT_VLEN) length, (DAT_PZ_HANDLE) pz_handle,      \
	     (DAT_MEM_PRIV_FLAGS) mem_privileges, (DAT_LMR_HANDLE *) lmr_handle,                             \
	     (DAT_LMR_CONTEXT *) lmr_context, (DAT_RMR_CONTEXT *) rmr_context, (DAT_VLEN *) registered_size, \
	     (DAT_VADDR *) registered_address)                                                               \
	CALL(lmr_query, LMR, LAYOUTS, (DAT_LMR_HANDLE) lmr_handle, (DAT_LMR_PARAM_MASK) lmr_param_mask,      \
	     (OF(LMR_PARAM) *) lmr_param)                                                                    \
	CALL(lmr_free, LMR, ALIKE, (DAT_LMR_HANDLE) lmr_handle)                                              \
	CALL(rmr_create, PZ, ALIKE, (DAT_PZ_HANDLE) pz_handle, (DAT_RMR_HANDLE *) rmr_handle)                \
	CALL(rmr_query, RMR, LAYOUTS, (DAT_RMR_HANDLE) rmr_handle, (DAT_RMR_PARAM_MASK) rmr_param_mask,      \
	     (OF(RMR_PARAM) *) rmr_param)                                                                    \
	CALL(rmr_bind, RMR, DIFFERS, (DAT_RMR_HANDLE) rmr_handle, (const DAT_LMR_TRIPLET *) lmr_triplet,     \
	     (DAT_MEM_PRIV_FLAGS) mem_privileges, (DAT_EP_HANDLE) ep_handle, (DAT_RMR_COOKIE) user_cookie,   \
	     (DAT_COMPLETION_FLAGS) completion_flags, (DAT_RMR_CONTEXT *) rmr_context)                       \
	CALL(rmr_free, RMR, ALIKE, (DAT_RMR_HANDLE) rmr_handle)                                              \
	CALL(psp_create, IA, ALIKE, (DAT_IA_HANDLE) ia_handle, (DAT_CONN_QUAL) conn_qual,                    \
	     (DAT_EVD_HANDLE) evd_handle, (DAT_PSP_FLAGS) psp_flags, (DAT_PSP_HANDLE *) psp_handle)          \
	CALL(psp_query, PSP, ALIKE, (DAT_PSP_HANDLE) psp_handle, (DAT_PSP_PARAM_MASK) psp_param_mask,        \
	     (DAT_PSP_PARAM *) psp_param)                                                                    \
	CALL(psp_free, PSP, ALIKE, (DAT_PSP_HANDLE) psp_handle)                                              \
	CALL(rsp_create, IA, ALIKE, (DAT_IA_HANDLE) ia_handle, (DAT_CONN_QUAL) conn_qual,                    \
	     (DAT_EP_HANDLE) ep_handle, (DAT_EVD_HANDLE) evd_handle, (DAT_RSP_HANDLE *) rsp_handle)          \
	CALL(rsp_query, RSP, ALIKE, (DAT_RSP_HANDLE) rsp_handle, (DAT_RSP_PARAM_MASK) rsp_param_mask,        \
	     (DAT_RSP_PARAM *) rsp_param)                                                                    \
	CALL(rsp_free, RSP, ALIKE, (DAT_RSP_HANDLE) rsp_handle)                                              \
	CALL(pz_create, IA, ALIKE, (DAT_IA_HANDLE) ia_handle, (DAT_PZ_HANDLE *) pz_handle)                   \
	CALL(pz_query, PZ, ALIKE, (DAT_PZ_HANDLE) pz_handle, (DAT_PZ_PARAM_MASK) pz_param_mask,              \
	     (DAT_PZ_PARAM *) pz_param)                                                                      \
	CALL(pz_free, PZ, ALIKE, (DAT_PZ_HANDLE) pz_handle)                                                  \
	CALL(psp_create_any, IA, ALIKE, (DAT_IA_HANDLE) ia_handle, (DAT_CONN_QUAL *) conn_qual,              \
	     (DAT_EVD_HANDLE) evd_handle, (DAT_PSP_FLAGS) psp_flags, (DAT_PSP_HANDLE *) psp_handle)          \
	CALL(ep_reset, EP, ALIKE, (DAT_EP_HANDLE) ep_handle)                                                 \
	CALL(evd_set_unwaitable, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE) evd_handle)                            \
	CALL(evd_clear_unwaitable, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE) evd_handle)                          \
	CALL(lmr_sync_rdma_read, IA, LAYOUTS, (DAT_IA_HANDLE) ia_handle,                                     \
	     (const OF(LMR_TRIPLET) *) local_segments, (DAT_VLEN) num_segments)                              \
	CALL(lmr_sync_rdma_write, IA, LAYOUTS, (DAT_IA_HANDLE) ia_handle,                                    \
	     (const OF(LMR_TRIPLET) *) local_segments, (DAT_VLEN) num_segments)                              \
	CALL(ep_create_with_srq, IA, LAYOUTS, (DAT_IA_HANDLE) ia_handle, (DAT_PZ_HANDLE) pz_handle,          \
	     (DAT_EVD_HANDLE) recv_evd_handle, (DAT_EVD_HANDLE) request_evd_handle,                          \
	     (DAT_EVD_HANDLE) connect_evd_handle, (DAT_SRQ_HANDLE) srq_handle,                               \
	     (const OF(EP_ATTR) *) ep_attributes, (DAT_EP_HANDLE *) ep_handle)                               \
	CALL(ep_recv_query, EP, ALIKE, (DAT_EP_HANDLE) ep_handle, (DAT_COUNT *) nbufs_allocated,             \
	     (DAT_COUNT *) bufs_alloc_span)                                                                  \
	CALL(ep_set_watermark, EP, ALIKE, (DAT_EP_HANDLE) ep_handle, (DAT_COUNT) soft_high_watermark,        \
	     (DAT_COUNT) hard_high_watermark)                                                                \
	CALL(srq_create, IA, ALIKE, (DAT_IA_HANDLE) ia_handle, (DAT_PZ_HANDLE) pz_handle,                    \
	     (DAT_SRQ_ATTR *) srq_attr, (DAT_SRQ_HANDLE *) srq_handle)                                       \
	CALL(srq_free, SRQ, ALIKE, (DAT_SRQ_HANDLE) srq_handle)                                              \
	CALL(srq_post_recv, SRQ, LAYOUTS, (DAT_SRQ_HANDLE) srq_handle, (DAT_COUNT) num_segments,             \
	     (OF(LMR_TRIPLET) *) local_iov, (DAT_DTO_COOKIE) user_cookie)                                    \
	CALL(srq_query, SRQ, LAYOUTS, (DAT_SRQ_HANDLE) srq_handle, (DAT_SRQ_PARAM_MASK) srq_param_mask,      \
	     (OF(SRQ_PARAM) *) srq_param)                                                                    \
	CALL(srq_resize, SRQ, ALIKE, (DAT_SRQ_HANDLE) srq_handle, (DAT_COUNT) srq_max_recv_dto)              \
	CALL(srq_set_lw, SRQ, ALIKE, (DAT_SRQ_HANDLE) srq_handle, (DAT_COUNT) low_watermark)
/* clang-format on */

#define DAT_OF(type) DAT_##type
#define DAT_CALL_PROTOTYPE(name, handle, version2, ...) DAT_RETURN dapl_##name(ONE_PARAMETERS(__VA_ARGS__));
DAT_CALLS(DAT_CALL_PROTOTYPE, DAT_CALL_PROTOTYPE, DAT_OF)

#endif
