/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of error codes of 1.2 to those of 2.0. */
#include "dat2.h"

#define TYPE_NOT_IMPLEMENTED 0x3fff0000u

__thread DAT_RETURN dat2_refused;

DAT_RETURN
dat2_error(DAT_RETURN ret)
{
	uint32_t type = DAT_GET_TYPE(ret), subtype = DAT_GET_SUBTYPE(ret), moved = subtype;

	if (subtype >= DAT_INVALID_HANDLE1) /* after INVALID_HANDLE_CSP */
		moved++;
	if (subtype > DAT_INVALID_STATE_SRQ_IN_USE) /* after INVALID_STATE_SRQ_SHUTDOWN */
		moved++;
	if (type == DAT_NOT_IMPLEMENTED)
		type = TYPE_NOT_IMPLEMENTED;
	/* Two outcomes are not errors, and programs compare them directly. */
	if (type == DAT_QUEUE_EMPTY || type == DAT_TIMEOUT_EXPIRED)
		return ret;
	if (__builtin_expect(one_explaining, 0))
		dat2_refused = ret;
	return DAT_CLASS_ERROR | type | moved;
}

DAT_RETURN
dat2_return_moved(DAT_RETURN ret, const uint8_t *from, uint32_t count)
{
	uint32_t n = DAT_GET_SUBTYPE(ret) - DAT_INVALID_ARG1;

	if (ret != DAT_SUCCESS && DAT_GET_TYPE(ret) == DAT_INVALID_PARAMETER && n < count)
		ret = BAD_ARG(1) + from[n] - 1;
	return dat2_return(ret);
}
