/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: not supported, as the provider attributes say. */
#include "provider.h"

#define UNSUPPORTED DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)

DAT_RETURN
dapl_ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd_handle,
			DAT_EVD_HANDLE request_evd_handle, DAT_EVD_HANDLE connect_evd_handle,
			DAT_SRQ_HANDLE srq_handle, const DAT_EP_ATTR *ep_attributes, DAT_EP_HANDLE *ep_handle)
{
	return handle_object(ia_handle, DAT_HANDLE_TYPE_IA) == NULL ? BAD_HANDLE(IA) : UNSUPPORTED;
}

DAT_RETURN
dapl_srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR *srq_attr,
		DAT_SRQ_HANDLE *srq_handle)
{
	return handle_object(ia_handle, DAT_HANDLE_TYPE_IA) == NULL ? BAD_HANDLE(IA) : UNSUPPORTED;
}

/* There are no SRQs, so no handle is one. */
DAT_RETURN
dapl_srq_free(DAT_SRQ_HANDLE srq_handle)
{
	return BAD_HANDLE(SRQ);
}

DAT_RETURN
dapl_srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
		   DAT_DTO_COOKIE user_cookie)
{
	return BAD_HANDLE(SRQ);
}

DAT_RETURN
dapl_srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK srq_param_mask, DAT_SRQ_PARAM *srq_param)
{
	return BAD_HANDLE(SRQ);
}

DAT_RETURN
dapl_srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT srq_max_recv_dto)
{
	return BAD_HANDLE(SRQ);
}

DAT_RETURN
dapl_srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT low_watermark)
{
	return BAD_HANDLE(SRQ);
}
