/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of the IA and of the provider. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "dat/ia.h"

#define ALL_COMPLETION_FLAGS                                                   \
	(DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |   \
	 DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG | \
	 DAT_COMPLETION_EVD_THRESHOLD_FLAG)

/* Bits of srq_watermarks_supported, srq_info_supported and ep_recv_info_supported, which udat.h does not
 * name. */
#define SRQ_LOW_WATERMARK 0x001
#define SRQ_AVAILABLE 0x01
#define SRQ_OUTSTANDING 0x10
#define EP_BUFFERS 0x01
#define EP_BUFFER_SPAN 0x10

#define HIGHEST_ADDRESS 0x00007fffffffffffull /* highest user address with 48-bit virtual addresses */

static DAT_COUNT
to_count(uint64_t value)
{
	return value > INT_MAX ? INT_MAX : (DAT_COUNT)value;
}

static void
fill_ia(const struct ia *ia, DAT_IA_ATTR *attr)
{
	const struct one_limits *limits = &one_client_info(ia->client)->limits;
	DAT_COUNT iov = to_count(limits->max_sge < ONE_MAX_SGE ? limits->max_sge : ONE_MAX_SGE);

	memset(attr, 0, sizeof(*attr));
	memcpy(attr->adapter_name, ia->name, sizeof(attr->adapter_name));
	snprintf(attr->vendor_name, sizeof(attr->vendor_name), "oneside");
	attr->hardware_version_major = ONE_ABI_VERSION;
	attr->firmware_version_major = ONE_ABI_VERSION;
	attr->ia_address_ptr = (DAT_IA_ADDRESS_PTR)(uintptr_t)&ia->addr;
	attr->max_eps = to_count(limits->max_qp);
	attr->max_dto_per_ep = to_count(limits->max_qp_wr);
	attr->max_rdma_read_per_ep_in = to_count(limits->max_rd_atomic);
	attr->max_rdma_read_per_ep_out = to_count(limits->max_rd_atomic);
	attr->max_evds = to_count(limits->max_cq);
	attr->max_evd_qlen = to_count(limits->max_cq_entries);
	attr->max_iov_segments_per_dto = iov;
	attr->max_lmrs = to_count(limits->max_mr);
	attr->max_lmr_block_size = limits->max_mr_bytes;
	attr->max_lmr_virtual_address = HIGHEST_ADDRESS;
	attr->max_pzs = to_count(limits->max_pz);
	attr->max_message_size = limits->max_message;
	attr->max_rdma_size = limits->max_message;
	attr->max_rmrs = to_count(limits->max_mw);
	attr->max_rmr_target_address = HIGHEST_ADDRESS;
	attr->max_iov_segments_per_rdma_read = iov;
	attr->max_iov_segments_per_rdma_write = iov;
	attr->max_srqs = to_count(limits->max_srq);
	attr->max_ep_per_srq = limits->max_srq > 0 ? attr->max_eps : 0;
	attr->max_recv_per_srq = to_count(limits->max_srq_wr);
	attr->max_rdma_read_in = to_count((uint64_t)limits->max_qp * limits->max_rd_atomic);
	attr->max_rdma_read_out = attr->max_rdma_read_in;
	attr->max_rdma_read_per_ep_in_guaranteed = DAT_TRUE;
	attr->max_rdma_read_per_ep_out_guaranteed = DAT_TRUE;
}

static void
fill_provider(const struct ia *ia, DAT_PROVIDER_ATTR *attr)
{
	/* Streams of any kinds may share an EVD, except asynchronous errors. */
	static const DAT_BOOLEAN merging[6][6] = {
		{1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 0},
		{1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 0}, {0, 0, 0, 0, 0, 0},
	};
	const struct one_limits *limits = &one_client_info(ia->client)->limits;

	memset((void *)attr, 0, sizeof(*attr));
	snprintf(attr->provider_name, sizeof(attr->provider_name), "oneside");
	attr->provider_version_major = DAT_VERSION_MAJOR;
	attr->provider_version_minor = DAT_VERSION_MINOR;
	attr->dapl_version_major = DAT_VERSION_MAJOR;
	attr->dapl_version_minor = DAT_VERSION_MINOR;
	attr->lmr_mem_types_supported = DAT_MEM_TYPE_LMR | DAT_MEM_TYPE_SHARED_VIRTUAL;
	attr->iov_ownership_on_return = DAT_IOV_CONSUMER;
	attr->dat_qos_supported = DAT_QOS_BEST_EFFORT;
	attr->completion_flags_supported = (DAT_COMPLETION_FLAGS)ALL_COMPLETION_FLAGS;
	attr->is_thread_safe = DAT_TRUE;
	attr->max_private_data_size =
		to_count(limits->max_private_data < ONE_PRIVATE_DATA_MAX ? limits->max_private_data
									 : ONE_PRIVATE_DATA_MAX);
	attr->ep_creator = DAT_PSP_CREATES_EP_IFASKED;
	attr->pz_support = DAT_PZ_UNIQUE;
	attr->optimal_buffer_alignment = 64;
	attr->srq_supported = limits->max_srq > 0 ? DAT_TRUE : DAT_FALSE;
	attr->srq_watermarks_supported = limits->max_srq > 0 ? SRQ_LOW_WATERMARK : 0;
	attr->srq_ep_pz_difference_supported = DAT_FALSE;
	attr->srq_info_supported = limits->max_srq > 0 ? SRQ_AVAILABLE | SRQ_OUTSTANDING : 0;
	attr->ep_recv_info_supported = EP_BUFFERS | EP_BUFFER_SPAN;
	memcpy((void *)(uintptr_t)attr->evd_stream_merging_supported, merging, sizeof(merging));
}

DAT_RETURN
dapl_ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle, DAT_IA_ATTR_MASK ia_attr_mask,
	      DAT_IA_ATTR *ia_attributes, DAT_PROVIDER_ATTR_MASK provider_attr_mask,
	      DAT_PROVIDER_ATTR *provider_attributes)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if ((ia_attr_mask & ~DAT_IA_FIELD_ALL) != 0)
		return BAD_ARG(3);
	if (ia_attr_mask != 0 && ia_attributes == NULL)
		return BAD_ARG(4);
	if (provider_attr_mask != 0 && provider_attributes == NULL)
		return BAD_ARG(6);
	if (async_evd_handle != NULL)
		*async_evd_handle = ia->async_evd != NULL ? ia->async_evd->o.handle : DAT_EVD_OUT_OF_SCOPE;
	if (ia_attr_mask != 0)
		fill_ia(ia, ia_attributes);
	if (provider_attr_mask != 0)
		fill_provider(ia, provider_attributes);
	return DAT_SUCCESS;
}
