/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With ONESIDE_DEBUG (client/tell.h): a table whose calls print what they refuse, as libdat does for 1.2.
 * Codes are told as 1.2 has them, whose names 2.0 kept.
 */
#include "dat2.h"
#include "dat/registry/registry.h"

/* By the names of dat2.h's parameters. */
#define ARGUMENTS_ia_open (ia_name_ptr, async_evd_min_qlen, async_evd_handle, ia_handle)
#define ARGUMENTS_ia_query \
	(ia_handle, async_evd_handle, ia_attr_mask, ia_attributes, provider_attr_mask, provider_attributes)
#define ARGUMENTS_cno_query (cno_handle, cno_param_mask, cno_param)
#define ARGUMENTS_cr_reject (cr_handle, private_data_size, private_data)
#define ARGUMENTS_evd_create (ia_handle, evd_min_qlen, cno_handle, evd_flags, evd_handle)
#define ARGUMENTS_evd_wait (evd_handle, timeout, threshold, event, nmore)
#define ARGUMENTS_evd_post_se (evd_handle, event)
#define ARGUMENTS_evd_dequeue (evd_handle, event)
#define ARGUMENTS_ep_create                                                                            \
	(ia_handle, pz_handle, recv_evd_handle, request_evd_handle, connect_evd_handle, ep_attributes, \
	 ep_handle)
#define ARGUMENTS_ep_query (ep_handle, ep_param_mask, ep_param)
#define ARGUMENTS_ep_modify (ep_handle, ep_param_mask, ep_param)
#define ARGUMENTS_ep_connect                                                                       \
	(ep_handle, remote_ia_address, remote_conn_qual, timeout, private_data_size, private_data, \
	 quality_of_service, connect_flags)
#define ARGUMENTS_ep_post_send (ep_handle, num_segments, local_iov, user_cookie, completion_flags)
#define ARGUMENTS_ep_post_recv (ep_handle, num_segments, local_iov, user_cookie, completion_flags)
#define ARGUMENTS_ep_post_rdma_read \
	(ep_handle, num_segments, local_iov, user_cookie, remote_iov, completion_flags)
#define ARGUMENTS_ep_post_rdma_write \
	(ep_handle, num_segments, local_iov, user_cookie, remote_iov, completion_flags)
#define ARGUMENTS_ep_get_status (ep_handle, ep_state, recv_idle, request_idle)
#define ARGUMENTS_lmr_create                                                                              \
	(ia_handle, mem_type, region_description, length, pz_handle, mem_privileges, va_type, lmr_handle, \
	 lmr_context, rmr_context, registered_size, registered_address)
#define ARGUMENTS_lmr_query (lmr_handle, lmr_param_mask, lmr_param)
#define ARGUMENTS_rmr_query (rmr_handle, rmr_param_mask, rmr_param)
#define ARGUMENTS_rmr_bind                                                                     \
	(rmr_handle, lmr_handle, lmr_triplet, mem_privileges, va_type, ep_handle, user_cookie, \
	 completion_flags, rmr_context)
#define ARGUMENTS_lmr_sync_rdma_read (ia_handle, local_segments, num_segments)
#define ARGUMENTS_lmr_sync_rdma_write (ia_handle, local_segments, num_segments)
#define ARGUMENTS_ep_create_with_srq                                                                \
	(ia_handle, pz_handle, recv_evd_handle, request_evd_handle, connect_evd_handle, srq_handle, \
	 ep_attributes, ep_handle)
#define ARGUMENTS_srq_post_recv (srq_handle, num_segments, local_iov, user_cookie)
#define ARGUMENTS_srq_query (srq_handle, srq_param_mask, srq_param)
#define ARGUMENTS_ep_post_send_with_invalidate \
	(ep_handle, num_segments, local_iov, user_cookie, completion_flags, invalidate, rmr_context)
#define SHOWN_ALIKE(name, arguments) arguments
#define SHOWN_UNSUPPORTED(name, arguments) arguments
#define SHOWN_DIFFERS(name, arguments) ARGUMENTS_##name
#define SHOWN_EXTENDED(name, arguments) (dat_handle, extended_op, args)

/* What an argument list is that does not end with a va_list. */
#define LIST_ALIKE(name, arguments) ONE_ARGUMENTS arguments
#define LIST_UNSUPPORTED(name, arguments) ONE_ARGUMENTS arguments
#define LIST_DIFFERS(name, arguments) LIST_OF(ARGUMENTS_##name)
#define LIST_EXTENDED(name, arguments) ONE_ARGUMENTS(dat_handle, extended_op)
#define LIST_OF(arguments) ONE_ARGUMENTS arguments

/* An outcome that is no error has the same code in both versions. */
static DAT_RETURN
code_of(DAT_RETURN ret)
{
	return (ret & DAT_CLASS_ERROR) != 0 ? face_refused : ret;
}

#define DEFINE(name, handle, version2, parameters, arguments)                       \
	static DAT_RETURN telling2_##name FACE_##version2(name, parameters)         \
	{                                                                           \
		DAT_RETURN ret = face_##name SHOWN_##version2(name, arguments);     \
                                                                                    \
		TELL("dat_" #name, ret == DAT_SUCCESS ? DAT_SUCCESS : code_of(ret), \
		     LIST_##version2(name, arguments));                             \
		return ret;                                                         \
	}
FACE_CALLS(DEFINE)

#define ENTRY(name, handle, version2, parameters, arguments) .name##_func = telling2_##name,
const DAT2_PROVIDER face_telling = {FACE_CALLS(ENTRY)};
