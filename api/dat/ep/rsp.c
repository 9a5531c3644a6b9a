/* SPDX-License-Identifier: BSD-3-Clause */
/* Reserved service points: one request for one endpoint. */
#include "dat/ep/ep.h"

DAT_RETURN
dapl_rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual, DAT_EP_HANDLE ep_handle,
		DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE *rsp_handle)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	DAT_RETURN ret = DAT_SUCCESS;
	struct sp *rsp;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (ep == NULL || ep->o.ia != ia)
		return BAD_HANDLE(EP);
	if (conn_qual == 0)
		return BECAUSE(BAD_ARG(2), "conn_qual = 0: it is no qualifier; choose one");
	if (rsp_handle == NULL)
		return BAD_ARG(5);
	rsp = sp_make(ia, DAT_HANDLE_TYPE_RSP, evd_handle, &ret);
	if (rsp == NULL)
		return ret;
	/* Before listening: the request may come before the call returns. */
	if (!ep_move(ep, EP_UNCONNECTED, EP_RESERVED)) {
		sp_discard(rsp);
		return ep_state_error(ep_state(ep));
	}
	rsp->ep = ep;
	rsp->ep_handle = ep_handle;
	ret = sp_listen(rsp, ONE_LISTEN_ONCE, conn_qual);
	if (ret != DAT_SUCCESS) {
		ep_move(ep, EP_RESERVED, EP_UNCONNECTED);
		sp_discard(rsp);
		return ret;
	}
	*rsp_handle = rsp->o.handle;
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_rsp_query(DAT_RSP_HANDLE rsp_handle, DAT_RSP_PARAM_MASK rsp_param_mask, DAT_RSP_PARAM *rsp_param)
{
	struct sp *rsp = handle_object(rsp_handle, DAT_HANDLE_TYPE_RSP);

	if (rsp == NULL)
		return BAD_HANDLE(RSP);
	if (rsp_param == NULL)
		return BAD_ARG(3);
	*rsp_param = (DAT_RSP_PARAM){
		.ia_handle = rsp->o.ia->o.handle,
		.conn_qual = rsp->qual,
		.evd_handle = rsp->evd->o.handle,
		.ep_handle = rsp->ep_handle,
	};
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_rsp_free(DAT_RSP_HANDLE rsp_handle)
{
	return sp_free(rsp_handle, DAT_HANDLE_TYPE_RSP, BAD_HANDLE(RSP));
}
