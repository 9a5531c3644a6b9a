/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of the provider table, in its order: the one list of them inside the libraries.
 *
 * CALL(name, handle, version2, parameters, arguments)
 *   name        dat_NAME is exported, dapl_NAME is the provider's function, NAME_func the table's member.
 *   handle      what the first argument is, for the subtype DAT_INVALID_HANDLE_*.
 *   version2    whether 2.0 has the same parameters (ALIKE, DIFFERS).
 * REGISTRY() has the same arguments: the registry exports these calls itself, since they change its state.
 */
#ifndef DAT_CALLS_INTERNAL_H
#define DAT_CALLS_INTERNAL_H

#include <dat/udat.h>

/* clang-format off */
#define DAT_CALLS(REGISTRY, CALL)                                                                            \
	REGISTRY(ia_open, IA, DIFFERS,                                                                       \
		 (const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia),    \
		 (name, qlen, async_evd, ia))                                                                \
	CALL(ia_query, IA, DIFFERS,                                                                          \
	     (DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK mask, DAT_IA_ATTR *attr,         \
	      DAT_PROVIDER_ATTR_MASK provider_mask, DAT_PROVIDER_ATTR *provider_attr),                       \
	     (ia, async_evd, mask, attr, provider_mask, provider_attr))                                      \
	REGISTRY(ia_close, IA, ALIKE, (DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags), (ia, flags))                \
	CALL(set_consumer_context, ANY, ALIKE, (DAT_HANDLE handle, DAT_CONTEXT context), (handle, context))  \
	CALL(get_consumer_context, ANY, ALIKE, (DAT_HANDLE handle, DAT_CONTEXT *context),                    \
	     (handle, context))                                                                              \
	CALL(get_handle_type, ANY, ALIKE, (DAT_HANDLE handle, DAT_HANDLE_TYPE *type), (handle, type))        \
	CALL(cno_create, IA, ALIKE, (DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *cno),  \
	     (ia, agent, cno))                                                                               \
	CALL(cno_modify_agent, CNO, ALIKE, (DAT_CNO_HANDLE cno, DAT_OS_WAIT_PROXY_AGENT agent),              \
	     (cno, agent))                                                                                   \
	CALL(cno_query, CNO, DIFFERS, (DAT_CNO_HANDLE cno, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param),   \
	     (cno, mask, param))                                                                             \
	CALL(cno_free, CNO, ALIKE, (DAT_CNO_HANDLE cno), (cno))                                              \
	CALL(cno_wait, CNO, ALIKE, (DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd),           \
	     (cno, timeout, evd))                                                                            \
	CALL(cr_query, CR, ALIKE, (DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param),           \
	     (cr, mask, param))                                                                              \
	CALL(cr_accept, CR, ALIKE,                                                                           \
	     (DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT size, const DAT_PVOID data),                     \
	     (cr, ep, size, data))                                                                           \
	CALL(cr_reject, CR, DIFFERS, (DAT_CR_HANDLE cr), (cr))                                               \
	CALL(cr_handoff, CR, ALIKE, (DAT_CR_HANDLE cr, DAT_CONN_QUAL qual), (cr, qual))                      \
	CALL(evd_create, IA, DIFFERS,                                                                        \
	     (DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags,                     \
	      DAT_EVD_HANDLE *evd),                                                                          \
	     (ia, qlen, cno, flags, evd))                                                                    \
	CALL(evd_query, EVD_REQUEST, ALIKE,                                                                  \
	     (DAT_EVD_HANDLE evd, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param), (evd, mask, param))        \
	CALL(evd_modify_cno, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE evd, DAT_CNO_HANDLE cno), (evd, cno))       \
	CALL(evd_enable, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE evd), (evd))                                    \
	CALL(evd_disable, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE evd), (evd))                                   \
	CALL(evd_wait, EVD_REQUEST, DIFFERS,                                                                 \
	     (DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT *event,                \
	      DAT_COUNT *nmore),                                                                             \
	     (evd, timeout, threshold, event, nmore))                                                        \
	CALL(evd_resize, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE evd, DAT_COUNT qlen), (evd, qlen))              \
	CALL(evd_post_se, EVD_REQUEST, DIFFERS, (DAT_EVD_HANDLE evd, const DAT_EVENT *event), (evd, event))  \
	CALL(evd_dequeue, EVD_REQUEST, DIFFERS, (DAT_EVD_HANDLE evd, DAT_EVENT *event), (evd, event))        \
	CALL(evd_free, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE evd), (evd))                                      \
	CALL(ep_create, IA, DIFFERS,                                                                         \
	     (DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE request_evd,       \
	      DAT_EVD_HANDLE connect_evd, const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep),                       \
	     (ia, pz, recv_evd, request_evd, connect_evd, attr, ep))                                         \
	CALL(ep_query, EP, DIFFERS, (DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param),         \
	     (ep, mask, param))                                                                              \
	CALL(ep_modify, EP, DIFFERS, (DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param),  \
	     (ep, mask, param))                                                                              \
	CALL(ep_connect, EP, DIFFERS,                                                                        \
	     (DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qual, DAT_TIMEOUT timeout,         \
	      DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos, DAT_CONNECT_FLAGS flags),                   \
	     (ep, address, qual, timeout, size, data, qos, flags))                                           \
	CALL(ep_dup_connect, EP, ALIKE,                                                                      \
	     (DAT_EP_HANDLE ep, DAT_EP_HANDLE dup, DAT_TIMEOUT timeout, DAT_COUNT size,                      \
	      const DAT_PVOID data, DAT_QOS qos),                                                            \
	     (ep, dup, timeout, size, data, qos))                                                            \
	CALL(ep_disconnect, EP, ALIKE, (DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS flags), (ep, flags))               \
	CALL(ep_post_send, EP, DIFFERS,                                                                      \
	     (DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,              \
	      DAT_COMPLETION_FLAGS flags),                                                                   \
	     (ep, count, local, cookie, flags))                                                              \
	CALL(ep_post_recv, EP, DIFFERS,                                                                      \
	     (DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,              \
	      DAT_COMPLETION_FLAGS flags),                                                                   \
	     (ep, count, local, cookie, flags))                                                              \
	CALL(ep_post_rdma_read, EP, DIFFERS,                                                                 \
	     (DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,              \
	      const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags),                                    \
	     (ep, count, local, cookie, remote, flags))                                                      \
	CALL(ep_post_rdma_write, EP, DIFFERS,                                                                \
	     (DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,              \
	      const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags),                                    \
	     (ep, count, local, cookie, remote, flags))                                                      \
	CALL(ep_get_status, EP, DIFFERS,                                                                     \
	     (DAT_EP_HANDLE ep, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle, DAT_BOOLEAN *request_idle),     \
	     (ep, state, recv_idle, request_idle))                                                           \
	CALL(ep_free, EP, ALIKE, (DAT_EP_HANDLE ep), (ep))                                                   \
	CALL(lmr_create, IA, DIFFERS,                                                                        \
	     (DAT_IA_HANDLE ia, DAT_MEM_TYPE mem_type, DAT_REGION_DESCRIPTION region, DAT_VLEN length,       \
	      DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS rights, DAT_LMR_HANDLE *lmr,                              \
	      DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *reg_size,                \
	      DAT_VADDR *reg_address),                                                                       \
	     (ia, mem_type, region, length, pz, rights, lmr, lmr_context, rmr_context, reg_size,             \
	      reg_address))                                                                                  \
	CALL(lmr_query, LMR, DIFFERS, (DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param),   \
	     (lmr, mask, param))                                                                             \
	CALL(lmr_free, LMR, ALIKE, (DAT_LMR_HANDLE lmr), (lmr))                                              \
	CALL(rmr_create, PZ, ALIKE, (DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr), (pz, rmr))                      \
	CALL(rmr_query, RMR, DIFFERS, (DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param),   \
	     (rmr, mask, param))                                                                             \
	CALL(rmr_bind, RMR, DIFFERS,                                                                         \
	     (DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS rights,                 \
	      DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,                           \
	      DAT_RMR_CONTEXT *rmr_context),                                                                 \
	     (rmr, triplet, rights, ep, cookie, flags, rmr_context))                                         \
	CALL(rmr_free, RMR, ALIKE, (DAT_RMR_HANDLE rmr), (rmr))                                              \
	CALL(psp_create, IA, ALIKE,                                                                          \
	     (DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags,                 \
	      DAT_PSP_HANDLE *psp),                                                                          \
	     (ia, qual, evd, flags, psp))                                                                    \
	CALL(psp_query, PSP, ALIKE, (DAT_PSP_HANDLE psp, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param),     \
	     (psp, mask, param))                                                                             \
	CALL(psp_free, PSP, ALIKE, (DAT_PSP_HANDLE psp), (psp))                                              \
	CALL(rsp_create, IA, ALIKE,                                                                          \
	     (DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd,                    \
	      DAT_RSP_HANDLE *rsp),                                                                          \
	     (ia, qual, ep, evd, rsp))                                                                       \
	CALL(rsp_query, RSP, ALIKE, (DAT_RSP_HANDLE rsp, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param),     \
	     (rsp, mask, param))                                                                             \
	CALL(rsp_free, RSP, ALIKE, (DAT_RSP_HANDLE rsp), (rsp))                                              \
	CALL(pz_create, IA, ALIKE, (DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz), (ia, pz))                          \
	CALL(pz_query, PZ, ALIKE, (DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param),           \
	     (pz, mask, param))                                                                              \
	CALL(pz_free, PZ, ALIKE, (DAT_PZ_HANDLE pz), (pz))                                                   \
	CALL(psp_create_any, IA, ALIKE,                                                                      \
	     (DAT_IA_HANDLE ia, DAT_CONN_QUAL *qual, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags,                \
	      DAT_PSP_HANDLE *psp),                                                                          \
	     (ia, qual, evd, flags, psp))                                                                    \
	CALL(ep_reset, EP, ALIKE, (DAT_EP_HANDLE ep), (ep))                                                  \
	CALL(evd_set_unwaitable, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE evd), (evd))                            \
	CALL(evd_clear_unwaitable, EVD_REQUEST, ALIKE, (DAT_EVD_HANDLE evd), (evd))                          \
	CALL(lmr_sync_rdma_read, IA, DIFFERS,                                                                \
	     (DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN count), (ia, segments, count))     \
	CALL(lmr_sync_rdma_write, IA, DIFFERS,                                                               \
	     (DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN count), (ia, segments, count))     \
	CALL(ep_create_with_srq, IA, DIFFERS,                                                                \
	     (DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE request_evd,       \
	      DAT_EVD_HANDLE connect_evd, DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep),   \
	     (ia, pz, recv_evd, request_evd, connect_evd, srq, attr, ep))                                    \
	CALL(ep_recv_query, EP, ALIKE, (DAT_EP_HANDLE ep, DAT_COUNT *allocated, DAT_COUNT *span),            \
	     (ep, allocated, span))                                                                          \
	CALL(ep_set_watermark, EP, ALIKE, (DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard),                \
	     (ep, soft, hard))                                                                               \
	CALL(srq_create, IA, ALIKE,                                                                          \
	     (DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR *attr, DAT_SRQ_HANDLE *srq),                  \
	     (ia, pz, attr, srq))                                                                            \
	CALL(srq_free, SRQ, ALIKE, (DAT_SRQ_HANDLE srq), (srq))                                              \
	CALL(srq_post_recv, SRQ, DIFFERS,                                                                    \
	     (DAT_SRQ_HANDLE srq, DAT_COUNT count, DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie),           \
	     (srq, count, local, cookie))                                                                    \
	CALL(srq_query, SRQ, DIFFERS, (DAT_SRQ_HANDLE srq, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM *param),   \
	     (srq, mask, param))                                                                             \
	CALL(srq_resize, SRQ, ALIKE, (DAT_SRQ_HANDLE srq, DAT_COUNT dtos), (srq, dtos))                      \
	CALL(srq_set_lw, SRQ, ALIKE, (DAT_SRQ_HANDLE srq, DAT_COUNT low), (srq, low))
/* clang-format on */

#define DAT_CALL_PROTOTYPE(name, handle, version2, parameters, arguments) DAT_RETURN dapl_##name parameters;
DAT_CALLS(DAT_CALL_PROTOTYPE, DAT_CALL_PROTOTYPE)

#endif
