/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory registration and windows. */
#include "dat2.h"

_Static_assert(DAT2_MEM_PRIV_REMOTE_ATOMIC == ONE_ACCESS_REMOTE_ATOMIC, "rights");

DAT_RETURN
dat2_lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION description, DAT_VLEN length,
		DAT_PZ_HANDLE pz, uint32_t privileges, DAT2_VA_TYPE va_type, DAT_LMR_HANDLE *lmr,
		DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
		DAT_VADDR *registered_address)
{
	/* 2.0 inserts va_type as argument 7. */
	static const uint8_t moved[] = {1, 2, 3, 4, 5, 6, 8, 9, 10};

	if (handle_object(ia, DAT_HANDLE_TYPE_IA) != NULL && va_type != DAT2_VA_TYPE_VA)
		return dat2_return(va_type == DAT2_VA_TYPE_ZB
					   ? DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
					   : BAD_ARG(7));
	return dat2_return_moved(lmr_create(ia, type, &description, length, pz, privileges,
					    DAT_MEM_PRIV_ALL_FLAG | DAT2_MEM_PRIV_REMOTE_ATOMIC, lmr,
					    lmr_context, rmr_context, registered_size, registered_address),
				 moved, sizeof(moved));
}

DAT_RETURN
dat2_rmr_bind(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr_handle, const DAT2_LMR_TRIPLET *triplet,
	      DAT_MEM_PRIV_FLAGS privileges, DAT2_VA_TYPE va_type, DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie,
	      DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	/* 2.0 inserts lmr_handle as argument 2, va_type as argument 5. */
	static const uint8_t moved[] = {1, 3, 4, 6, 7, 8, 9};
	DAT_LMR_TRIPLET triplet1;

	if (handle_object(rmr, DAT_HANDLE_TYPE_RMR) != NULL && va_type != DAT2_VA_TYPE_VA)
		return dat2_return(va_type == DAT2_VA_TYPE_ZB
					   ? DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
					   : BAD_ARG(5));
	if (triplet != NULL) {
		triplet1 = dat2_local(triplet);
		if (triplet1.segment_length != 0 && handle_object(rmr, DAT_HANDLE_TYPE_RMR) != NULL) {
			const struct lmr *lmr = handle_object(lmr_handle, DAT_HANDLE_TYPE_LMR);

			if (lmr == NULL || lmr->mr.lkey != triplet1.lmr_context)
				return dat2_return(BAD_HANDLE(LMR));
		}
	}
	return dat2_return_moved(dapl_rmr_bind(rmr, triplet != NULL ? &triplet1 : NULL, privileges, ep,
					       cookie, flags, context),
				 moved, sizeof(moved));
}

/* Serves both calls, which 1.2 implements equally.  Converts segments one at a time, because their number is
 * unlimited. */
static DAT_RETURN
sync_segments(DAT_IA_HANDLE ia, const DAT2_LMR_TRIPLET *segments, DAT_VLEN count)
{
	DAT_RETURN ret = dapl_lmr_sync_rdma_read(ia, NULL, count > 0 && segments == NULL ? count : 0);

	for (DAT_VLEN i = 0; i < count && ret == DAT_SUCCESS; i++) {
		DAT_LMR_TRIPLET triplet = dat2_local(&segments[i]);

		ret = dapl_lmr_sync_rdma_read(ia, &triplet, 1);
	}
	return dat2_return(ret);
}

DAT_RETURN
dat2_lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT2_LMR_TRIPLET *segments, DAT_VLEN count)
{
	return sync_segments(ia, segments, count);
}

DAT_RETURN
dat2_lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT2_LMR_TRIPLET *segments, DAT_VLEN count)
{
	return sync_segments(ia, segments, count);
}
