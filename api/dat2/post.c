/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting.  Segments are converted on the stack to the wider layout of 1.2. */
#include "dat2.h"

/* Converts at most ONE_MAX_SGE segments.  The provider refuses a larger count before it reads the list. */
static DAT_LMR_TRIPLET *
widen_triplets(DAT_COUNT count, const DAT2_LMR_TRIPLET *from, DAT_LMR_TRIPLET to[ONE_MAX_SGE])
{
	if (from == NULL)
		return NULL;
	for (DAT_COUNT i = 0; i < count && i < (DAT_COUNT)ONE_MAX_SGE; i++)
		to[i] = dat2_local(&from[i]);
	return to;
}

static const DAT_RMR_TRIPLET *
widen_remote(const DAT2_RMR_TRIPLET *from, DAT_RMR_TRIPLET *to)
{
	if (from == NULL)
		return NULL;
	*to = (DAT_RMR_TRIPLET){
		.rmr_context = from->rmr_context,
		.target_address = from->virtual_address,
		.segment_length = from->segment_length,
	};
	return to;
}

DAT_RETURN
dat2_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT count, DAT2_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
		  DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov[ONE_MAX_SGE];

	return dat2_return(dapl_ep_post_send(ep, count, widen_triplets(count, local, iov), cookie, flags));
}

DAT_RETURN
dat2_ep_post_send_with_invalidate(DAT_EP_HANDLE ep, DAT_COUNT count, DAT2_LMR_TRIPLET *local,
				  DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
				  DAT_RMR_CONTEXT context)
{
	DAT_LMR_TRIPLET iov[ONE_MAX_SGE];

	if (invalidate == DAT_FALSE)
		return dat2_ep_post_send(ep, count, local, cookie, flags);
	return dat2_return(
		ep_post_send_inv(ep, count, widen_triplets(count, local, iov), cookie, flags, context));
}

DAT_RETURN
dat2_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT count, DAT2_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
		  DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov[ONE_MAX_SGE];

	return dat2_return(dapl_ep_post_recv(ep, count, widen_triplets(count, local, iov), cookie, flags));
}

DAT_RETURN
dat2_srq_post_recv(DAT_SRQ_HANDLE srq, DAT_COUNT count, DAT2_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie)
{
	DAT_LMR_TRIPLET iov[ONE_MAX_SGE];

	return dat2_return(dapl_srq_post_recv(srq, count, widen_triplets(count, local, iov), cookie));
}

DAT_RETURN
dat2_ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT count, DAT2_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
		       const DAT2_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov[ONE_MAX_SGE];
	DAT_RMR_TRIPLET target;

	return dat2_return(dapl_ep_post_rdma_read(ep, count, widen_triplets(count, local, iov), cookie,
						  widen_remote(remote, &target), flags));
}

DAT_RETURN
dat2_ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT count, DAT2_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
			const DAT2_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov[ONE_MAX_SGE];
	DAT_RMR_TRIPLET target;

	return dat2_return(dapl_ep_post_rdma_write(ep, count, widen_triplets(count, local, iov), cookie,
						   widen_remote(remote, &target), flags));
}

/* ---- operations of the InfiniBand extension ---- */

static DAT_RETURN
write_immediate(DAT_EP_HANDLE ep, va_list args)
{
	DAT_COUNT count = va_arg(args, DAT_COUNT);
	const DAT2_LMR_TRIPLET *local = va_arg(args, const DAT2_LMR_TRIPLET *);
	DAT_DTO_COOKIE cookie = va_arg(args, DAT_DTO_COOKIE);
	const DAT2_RMR_TRIPLET *remote = va_arg(args, const DAT2_RMR_TRIPLET *);
	uint32_t immediate = va_arg(args, uint32_t);
	int flags = va_arg(args, int);
	DAT_LMR_TRIPLET iov[ONE_MAX_SGE];
	DAT_RMR_TRIPLET target;

	return ep_post_write_imm(ep, count, widen_triplets(count, local, iov), cookie,
				 widen_remote(remote, &target), immediate, (DAT_COMPLETION_FLAGS)flags);
}

static DAT_RETURN
post_atomic(DAT_EP_HANDLE ep, uint8_t op, va_list args)
{
	uint64_t compare = op == ONE_OP_CMP_SWAP ? va_arg(args, DAT_UINT64) : 0;
	uint64_t add_or_swap = va_arg(args, DAT_UINT64);
	const DAT2_LMR_TRIPLET *local = va_arg(args, const DAT2_LMR_TRIPLET *);
	DAT_DTO_COOKIE cookie = va_arg(args, DAT_DTO_COOKIE);
	const DAT2_RMR_TRIPLET *remote = va_arg(args, const DAT2_RMR_TRIPLET *);
	int flags = va_arg(args, int);
	DAT_LMR_TRIPLET iov[ONE_MAX_SGE];
	DAT_RMR_TRIPLET target;

	return ep_post_atomic(ep, op, add_or_swap, compare, widen_triplets(1, local, iov), cookie,
			      widen_remote(remote, &target), (DAT_COMPLETION_FLAGS)flags);
}

DAT_RETURN
dat2_handle_extendedop(DAT_HANDLE handle, int op, va_list args)
{
	if (handle_live(handle) == NULL)
		return dat2_return(DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	switch (op) {
	case DAT2_IB_FETCH_AND_ADD_OP:
		return dat2_return(post_atomic(handle, ONE_OP_FETCH_ADD, args));
	case DAT2_IB_CMP_AND_SWAP_OP:
		return dat2_return(post_atomic(handle, ONE_OP_CMP_SWAP, args));
	case DAT2_IB_RDMA_WRITE_IMMED_OP:
		return dat2_return(write_immediate(handle, args));
	default:
		return dat2_return(DAT_ERROR(DAT_NOT_IMPLEMENTED, DAT_NO_SUBTYPE));
	}
}
