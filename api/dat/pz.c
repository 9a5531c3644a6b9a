/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection zones. */
#include "client/mem.h"
#include "dat/object.h"

DAT_RETURN
dapl_pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *pz_handle)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	struct one_msg msg = {.type = ONE_MSG_PZ_CREATE};
	struct one_reply reply;
	struct pz *pz;
	int error;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (pz_handle == NULL)
		return BAD_ARG(2);
	pz = object_new(ia, DAT_HANDLE_TYPE_PZ);
	if (pz == NULL)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	error = one_call(ia->client, &msg, NULL, 0, &reply);
	pz->id = error == 0 ? reply.id.id : 0;
	if (error == 0)
		error = object_publish_alone(&pz->o, 0);
	if (error != 0) {
		pz_destroy(&pz->o);
		return dat_errno(error, DAT_RESOURCE_PROTECTION_DOMAIN);
	}
	*pz_handle = pz->o.handle;
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK pz_param_mask, DAT_PZ_PARAM *pz_param)
{
	struct pz *pz = handle_object(pz_handle, DAT_HANDLE_TYPE_PZ);

	if (pz == NULL)
		return BAD_HANDLE(PZ);
	if (pz_param == NULL)
		return BAD_ARG(3);
	pz_param->ia_handle = pz->o.ia->o.handle;
	return DAT_SUCCESS;
}

void
pz_destroy(struct object *o)
{
	struct pz *pz = (struct pz *)o;

	if (pz->id != 0)
		one_pz_free(o->ia->client, pz->id);
	object_drop(o);
}

DAT_RETURN
dapl_pz_free(DAT_PZ_HANDLE pz_handle)
{
	return object_free(pz_handle, DAT_HANDLE_TYPE_PZ, BAD_HANDLE(PZ), BAD_STATE(PZ_IN_USE), pz_destroy);
}
