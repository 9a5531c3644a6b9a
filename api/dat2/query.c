/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes and parameters in the layouts of 2.0. */
#include "dat2.h"
#include "dat/registry/offer.h"

static DAT2_SEG_LENGTH
clamp_length(DAT_VLEN length)
{
	return length > UINT32_MAX ? UINT32_MAX : (DAT2_SEG_LENGTH)length;
}

/* Version 2.0.9 of the extension, as in <dat2/dat_ib_extensions.h>. */
#define EXTENSION_VERSION 209

/* Attribute lists, one for each path MTU. */
#define ATTRIBUTES 8
#define PATH_MTU(mtu)                                                                        \
	{                                                                                    \
		{"DAT_IB_PROVIDER_NAME", "oneside"}, {"DAT_IB_CONNECTIVITY_MODE", "DIRECT"}, \
			{"DAT_IB_RDMA_READ", "TRUE"}, {"DAT_EXTENSION_INTERFACE", "TRUE"},   \
			{"DAT_IB_FETCH_AND_ADD", "TRUE"}, {"DAT_IB_CMP_AND_SWAP", "TRUE"},   \
			{"DAT_IB_IMMED_DATA", "TRUE"},                                       \
		{                                                                            \
			"DAT_IB_TRANSPORT_MTU", mtu                                          \
		}                                                                            \
	}
static DAT_NAMED_ATTR attributes[][ATTRIBUTES] = {
	PATH_MTU("256"), PATH_MTU("512"), PATH_MTU("1024"), PATH_MTU("2048"), PATH_MTU("4096"),
};

static DAT_NAMED_ATTR *
attributes_of(const struct ia *ia)
{
	uint32_t mtu = one_client_info(ia->client)->mtu, i = 0;

	while (i < sizeof(attributes) / sizeof(attributes[0]) - 1 && (256u << i) < mtu)
		i++;
	return attributes[i];
}

static void
convert_ia(const DAT_IA_ATTR *from, DAT2_IA_ATTR *to)
{
	*to = (DAT2_IA_ATTR){
		.max_lmr_block_size = clamp_length(from->max_lmr_block_size),
		.max_lmr_virtual_address = from->max_lmr_virtual_address,
		.max_pzs = from->max_pzs,
		.max_message_size = clamp_length(from->max_message_size),
		.max_rdma_size = clamp_length(from->max_rdma_size),
		.max_rmrs = from->max_rmrs,
		.max_rmr_target_address = from->max_rmr_target_address,
		.zb_supported = DAT_FALSE,
		.extension_supported = DAT2_EXTENSION_IB,
		.extension_version = EXTENSION_VERSION,
	};
	DAT2_COPY(IA_ATTR, to, from, adapter_name, max_lmrs);
	DAT2_COPY(IA_ATTR, to, from, max_srqs, max_rdma_read_per_ep_out_guaranteed);
}

static void
convert_provider(const struct ia *ia, const DAT_PROVIDER_ATTR *from, DAT2_PROVIDER_ATTR *to)
{
	const DAT_PROVIDER_INFO info = offer_info(ia->provider);

	*to = (DAT2_PROVIDER_ATTR){
		.rdma_read_lmr_rmr_context_exposure = DAT_FALSE,
		.rmr_scope_supported = DAT2_RMR_SCOPE_PZ,
		.is_signal_safe = DAT_FALSE,
		.ha_supported = DAT_FALSE,
		.num_provider_specific_attr = ATTRIBUTES,
		.provider_specific_attr = attributes_of(ia),
	};
	DAT2_COPY(PROVIDER_ATTR, to, from, provider_name, rdma_write_for_rdma_read_req);
	/* Return what the registry gave, because the registry looks its entry up by these. */
	to->dapl_version_major = info.dapl_version_major;
	to->dapl_version_minor = info.dapl_version_minor;
	to->is_thread_safe = info.is_thread_safe;
}

DAT_RETURN
dat2_ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
	      DAT2_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask, DAT2_PROVIDER_ATTR *provider_attr)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	DAT_PROVIDER_ATTR provider1;
	DAT_IA_ATTR ia1;
	DAT_RETURN ret;

	if (ia == NULL)
		return dat2_return(BAD_HANDLE(IA));
	if ((ia_mask & ~DAT2_IA_FIELD_ALL) != 0)
		return dat2_return(BAD_ARG(3));
	ret = dapl_ia_query(ia_handle, async_evd, ia_mask != 0 ? DAT_IA_FIELD_ALL : 0,
			    ia_attr != NULL ? &ia1 : NULL, provider_mask != 0 ? DAT_PROVIDER_FIELD_ALL : 0,
			    provider_attr != NULL ? &provider1 : NULL);
	if (ret == DAT_SUCCESS && ia_mask != 0)
		convert_ia(&ia1, ia_attr);
	if (ret == DAT_SUCCESS && provider_mask != 0)
		convert_provider(ia, &provider1, provider_attr);
	return dat2_return(ret);
}

DAT_RETURN
dat2_lmr_query(DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT2_LMR_PARAM *param)
{
	DAT_LMR_PARAM from;
	DAT_RETURN ret = dapl_lmr_query(lmr, DAT_LMR_FIELD_ALL, param != NULL ? &from : NULL);

	if (ret == DAT_SUCCESS) {
		*param = (DAT2_LMR_PARAM){
			.va_type = DAT2_VA_TYPE_VA,
			.lmr_context = from.lmr_context,
			.rmr_context = from.rmr_context,
			.registered_size = from.registered_size,
			.registered_address = from.registered_address,
		};
		DAT2_COPY(LMR_PARAM, param, &from, ia_handle, mem_priv);
	}
	return dat2_return(ret);
}

DAT_RETURN
dat2_rmr_query(DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask, DAT2_RMR_PARAM *param)
{
	DAT_RMR_PARAM from;
	DAT_RETURN ret = dapl_rmr_query(rmr, (DAT_RMR_PARAM_MASK)((uint32_t)mask & DAT_RMR_FIELD_ALL),
					param != NULL ? &from : NULL);

	if (ret == DAT_SUCCESS)
		*param = (DAT2_RMR_PARAM){
			.ia_handle = from.ia_handle,
			.pz_handle = from.pz_handle,
			.lmr_triplet = {.virtual_address = from.lmr_triplet.virtual_address,
					.segment_length = clamp_length(from.lmr_triplet.segment_length),
					.lmr_context = from.lmr_triplet.lmr_context},
			.mem_priv = from.mem_priv,
			.rmr_context = from.rmr_context,
			.rmr_scope = DAT2_RMR_SCOPE_PZ,
			.va_type = DAT2_VA_TYPE_VA,
		};
	return dat2_return(ret);
}

DAT_RETURN
dat2_cno_query(DAT_CNO_HANDLE cno, DAT_CNO_PARAM_MASK mask, DAT2_CNO_PARAM *param)
{
	DAT_CNO_PARAM from;
	DAT_RETURN ret = dapl_cno_query(cno, DAT_CNO_FIELD_ALL, param != NULL ? &from : NULL);

	if (ret == DAT_SUCCESS)
		*param = (DAT2_CNO_PARAM){
			.ia_handle = from.ia_handle,
			.proxy_type = from.agent.proxy_agent_func != NULL ? DAT2_PROXY_TYPE_AGENT
									  : DAT2_PROXY_TYPE_NONE,
			.proxy.agent = from.agent,
		};
	return dat2_return(ret);
}

DAT_RETURN
dat2_srq_query(DAT_SRQ_HANDLE srq, DAT_SRQ_PARAM_MASK mask, DAT2_SRQ_PARAM *param)
{
	DAT_RETURN ret = dapl_srq_query(srq, mask, param);

	if (ret == DAT_SUCCESS)
		param->srq_state = (DAT_SRQ_STATE)(param->srq_state == DAT_SRQ_STATE_OPERATIONAL
							   ? DAT2_SRQ_STATE_OPERATIONAL
							   : DAT2_SRQ_STATE_ERROR);
	return dat2_return(ret);
}
