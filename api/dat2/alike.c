/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls whose arguments are the same in both versions, and those that 2.0 has but oneside does not. */
#include "dat2.h"

#define ALIKE(name, parameters, arguments)                 \
	DAT_RETURN face_##name parameters                  \
	{                                                  \
		return face_return(dapl_##name arguments); \
	}

ALIKE(ia_close, (DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags), (ia, flags))
ALIKE(set_consumer_context, (DAT_HANDLE handle, DAT_CONTEXT context), (handle, context))
ALIKE(get_consumer_context, (DAT_HANDLE handle, DAT_CONTEXT *context), (handle, context))
ALIKE(get_handle_type, (DAT_HANDLE handle, DAT_HANDLE_TYPE *type), (handle, type))
ALIKE(cno_create, (DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *cno), (ia, agent, cno))
ALIKE(cno_modify_agent, (DAT_CNO_HANDLE cno, DAT_OS_WAIT_PROXY_AGENT agent), (cno, agent))
ALIKE(cno_free, (DAT_CNO_HANDLE cno), (cno))
ALIKE(cno_wait, (DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd), (cno, timeout, evd))
ALIKE(cr_query, (DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param), (cr, mask, param))
ALIKE(cr_accept, (DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT size, const DAT_PVOID data),
      (cr, ep, size, data))
ALIKE(cr_handoff, (DAT_CR_HANDLE cr, DAT_CONN_QUAL qual), (cr, qual))
ALIKE(evd_query, (DAT_EVD_HANDLE evd, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param), (evd, mask, param))
ALIKE(evd_modify_cno, (DAT_EVD_HANDLE evd, DAT_CNO_HANDLE cno), (evd, cno))
ALIKE(evd_enable, (DAT_EVD_HANDLE evd), (evd))
ALIKE(evd_disable, (DAT_EVD_HANDLE evd), (evd))
ALIKE(evd_resize, (DAT_EVD_HANDLE evd, DAT_COUNT qlen), (evd, qlen))
ALIKE(evd_free, (DAT_EVD_HANDLE evd), (evd))
ALIKE(evd_set_unwaitable, (DAT_EVD_HANDLE evd), (evd))
ALIKE(evd_clear_unwaitable, (DAT_EVD_HANDLE evd), (evd))
ALIKE(ep_dup_connect,
      (DAT_EP_HANDLE ep, DAT_EP_HANDLE dup, DAT_TIMEOUT timeout, DAT_COUNT size, const DAT_PVOID data,
       DAT_QOS qos),
      (ep, dup, timeout, size, data, qos))
ALIKE(ep_disconnect, (DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS flags), (ep, flags))
ALIKE(ep_free, (DAT_EP_HANDLE ep), (ep))
ALIKE(ep_reset, (DAT_EP_HANDLE ep), (ep))
ALIKE(ep_recv_query, (DAT_EP_HANDLE ep, DAT_COUNT *allocated, DAT_COUNT *span), (ep, allocated, span))
ALIKE(ep_set_watermark, (DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard), (ep, soft, hard))
ALIKE(lmr_free, (DAT_LMR_HANDLE lmr), (lmr))
ALIKE(rmr_create, (DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr), (pz, rmr))
ALIKE(rmr_free, (DAT_RMR_HANDLE rmr), (rmr))
ALIKE(psp_create,
      (DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp),
      (ia, qual, evd, flags, psp))
ALIKE(psp_create_any,
      (DAT_IA_HANDLE ia, DAT_CONN_QUAL *qual, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp),
      (ia, qual, evd, flags, psp))
ALIKE(psp_query, (DAT_PSP_HANDLE psp, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param), (psp, mask, param))
ALIKE(psp_free, (DAT_PSP_HANDLE psp), (psp))
ALIKE(rsp_create,
      (DAT_IA_HANDLE ia, DAT_CONN_QUAL qual, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd, DAT_RSP_HANDLE *rsp),
      (ia, qual, ep, evd, rsp))
ALIKE(rsp_query, (DAT_RSP_HANDLE rsp, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param), (rsp, mask, param))
ALIKE(rsp_free, (DAT_RSP_HANDLE rsp), (rsp))
ALIKE(pz_create, (DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz), (ia, pz))
ALIKE(pz_query, (DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param), (pz, mask, param))
ALIKE(pz_free, (DAT_PZ_HANDLE pz), (pz))
ALIKE(srq_create, (DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR *attr, DAT_SRQ_HANDLE *srq),
      (ia, pz, attr, srq))
ALIKE(srq_free, (DAT_SRQ_HANDLE srq), (srq))
ALIKE(srq_resize, (DAT_SRQ_HANDLE srq, DAT_COUNT dtos), (srq, dtos))
ALIKE(srq_set_lw, (DAT_SRQ_HANDLE srq, DAT_COUNT low), (srq, low))

/* Flags of the extension: its completions come on any DTO EVD. */
#define EVD_EXTENSION 0x200u

DAT_RETURN
face_evd_create(DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno, uint32_t flags, DAT_EVD_HANDLE *evd)
{
	if ((flags & EVD_EXTENSION) != 0)
		flags = (flags & ~EVD_EXTENSION) | DAT_EVD_DTO_FLAG;
	return face_return(dapl_evd_create(ia, qlen, cno, (DAT_EVD_FLAGS)flags, evd));
}

#define UNSUPPORTED(name, parameters)                                                   \
	DAT_RETURN face_##name parameters                                               \
	{                                                                               \
		return face_return(DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)); \
	}

UNSUPPORTED(csp_create, (DAT_IA_HANDLE ia, DAT2_COMM *comm, DAT_IA_ADDRESS_PTR address, DAT_EVD_HANDLE evd,
			 DAT_HANDLE *csp))
UNSUPPORTED(csp_query, (DAT_HANDLE csp, uint32_t mask, void *param))
UNSUPPORTED(csp_free, (DAT_HANDLE csp))
UNSUPPORTED(ep_common_connect, (DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_TIMEOUT timeout,
				DAT_COUNT size, const DAT_PVOID data))
UNSUPPORTED(rmr_create_for_ep, (DAT_PZ_HANDLE pz, DAT_RMR_HANDLE *rmr))
UNSUPPORTED(ep_post_rdma_read_to_rmr, (DAT_EP_HANDLE ep, const DAT2_RMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
				       const DAT2_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags))
UNSUPPORTED(cno_fd_create, (DAT_IA_HANDLE ia, int *fd, DAT_CNO_HANDLE *cno))
UNSUPPORTED(cno_trigger, (DAT_CNO_HANDLE cno, DAT_EVD_HANDLE *evd))
UNSUPPORTED(ia_ha_related, (DAT_IA_HANDLE ia, const DAT_NAME_PTR name, DAT_BOOLEAN *answer))
