/* SPDX-License-Identifier: BSD-3-Clause */
/* Consumer contexts and handle types.  Both are stored in the handle's slot. */
#include "dat/object.h"

DAT_RETURN
dapl_set_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT context)
{
	struct handle_slot *slot = handle_live(dat_handle);

	if (slot == NULL)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	one_store_alone(&slot->context, context.as_64);
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_get_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT *context)
{
	struct handle_slot *slot = handle_live(dat_handle);

	if (slot == NULL)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (context == NULL)
		return BAD_ARG(2);
	context->as_64 = one_load_alone(&slot->context);
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_get_handle_type(DAT_HANDLE dat_handle, DAT_HANDLE_TYPE *handle_type)
{
	uint32_t kind = handle_kind(dat_handle);

	if (kind == 0)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (handle_type == NULL)
		return BAD_ARG(2);
	*handle_type = (DAT_HANDLE_TYPE)(kind - 1);
	return DAT_SUCCESS;
}
