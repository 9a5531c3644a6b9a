/* SPDX-License-Identifier: BSD-3-Clause */
/* Public service points. */
#include "dat/ep/ep.h"

static DAT_RETURN
create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qual, DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
       DAT_PSP_HANDLE *psp_handle, DAT_CONN_QUAL *found)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	DAT_RETURN ret = DAT_SUCCESS;
	struct sp *psp;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (qual == 0 && found == NULL)
		return BECAUSE(BAD_ARG(2),
			       "conn_qual = 0: it is no qualifier; choose one, or call dat_psp_create_any");
	if (psp_flags != DAT_PSP_CONSUMER_FLAG && psp_flags != DAT_PSP_PROVIDER_FLAG)
		return BECAUSE(BAD_ARG(4),
			       "psp_flags = %#x: give DAT_PSP_CONSUMER_FLAG or DAT_PSP_PROVIDER_FLAG",
			       psp_flags);
	if (psp_handle == NULL)
		return BAD_ARG(5);
	psp = sp_make(ia, DAT_HANDLE_TYPE_PSP, evd_handle, &ret);
	if (psp == NULL)
		return ret;
	psp->flags = psp_flags;
	ret = sp_listen(psp, 0, qual);
	if (ret != DAT_SUCCESS) {
		sp_discard(psp);
		return ret;
	}
	if (found != NULL)
		*found = psp->qual;
	*psp_handle = psp->o.handle;
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual, DAT_EVD_HANDLE evd_handle,
		DAT_PSP_FLAGS psp_flags, DAT_PSP_HANDLE *psp_handle)
{
	return create(ia_handle, conn_qual, evd_handle, psp_flags, psp_handle, NULL);
}

DAT_RETURN
dapl_psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *conn_qual, DAT_EVD_HANDLE evd_handle,
		    DAT_PSP_FLAGS psp_flags, DAT_PSP_HANDLE *psp_handle)
{
	if (handle_object(ia_handle, DAT_HANDLE_TYPE_IA) == NULL)
		return BAD_HANDLE(IA);
	if (conn_qual == NULL)
		return BAD_ARG(2);
	return create(ia_handle, 0, evd_handle, psp_flags, psp_handle, conn_qual);
}

DAT_RETURN
dapl_psp_query(DAT_PSP_HANDLE psp_handle, DAT_PSP_PARAM_MASK psp_param_mask, DAT_PSP_PARAM *psp_param)
{
	struct sp *psp = handle_object(psp_handle, DAT_HANDLE_TYPE_PSP);

	if (psp == NULL)
		return BAD_HANDLE(PSP);
	if (psp_param == NULL)
		return BAD_ARG(3);
	*psp_param = (DAT_PSP_PARAM){
		.ia_handle = psp->o.ia->o.handle,
		.conn_qual = psp->qual,
		.evd_handle = psp->evd->o.handle,
		.psp_flags = psp->flags,
	};
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_psp_free(DAT_PSP_HANDLE psp_handle)
{
	return sp_free(psp_handle, DAT_HANDLE_TYPE_PSP, BAD_HANDLE(PSP));
}
