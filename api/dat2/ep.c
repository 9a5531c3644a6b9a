/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: attributes, states, parameters; connection requests. */
#include "dat2.h"

/* Attributes with the same name and meaning in both versions. */
#define ATTR_ALIKE(from)                                                                              \
	.service_type = (from)->service_type, .qos = (from)->qos,                                     \
	.recv_completion_flags = (from)->recv_completion_flags,                                       \
	.request_completion_flags = (from)->request_completion_flags,                                 \
	.max_recv_dtos = (from)->max_recv_dtos, .max_request_dtos = (from)->max_request_dtos,         \
	.max_recv_iov = (from)->max_recv_iov, .max_request_iov = (from)->max_request_iov,             \
	.max_rdma_read_in = (from)->max_rdma_read_in, .max_rdma_read_out = (from)->max_rdma_read_out, \
	.srq_soft_hw = (from)->srq_soft_hw, .max_rdma_read_iov = (from)->max_rdma_read_iov,           \
	.max_rdma_write_iov = (from)->max_rdma_write_iov,                                             \
	.ep_transport_specific_count = (from)->ep_transport_specific_count,                           \
	.ep_transport_specific = (from)->ep_transport_specific,                                       \
	.ep_provider_specific_count = (from)->ep_provider_specific_count,                             \
	.ep_provider_specific = (from)->ep_provider_specific

static DAT_EP_ATTR
attr_from(const DAT2_EP_ATTR *from)
{
	return (DAT_EP_ATTR){
		ATTR_ALIKE(from),
		.max_message_size = from->max_message_size,
		.max_rdma_size = from->max_rdma_size,
	};
}

static DAT2_EP_ATTR
attr_to(const DAT_EP_ATTR *from)
{
	return (DAT2_EP_ATTR){
		ATTR_ALIKE(from),
		.max_message_size = (DAT2_SEG_LENGTH)from->max_message_size,
		.max_rdma_size = (DAT2_SEG_LENGTH)from->max_rdma_size,
	};
}
_Static_assert(ONE_MESSAGE_MAX <= UINT32_MAX, "attributes of endpoints fit");

/* Raises the maximum sizes to the limit of the IA.  Programs of 2.0 request some maximum size and transfer
 * more, because the reference implementation ignores the attribute.  So a requested size is a minimum here. A
 * query returns the raised sizes. */
static void
grant_sizes(const struct ia *ia, DAT_EP_ATTR *attr)
{
	uint64_t limit = ia != NULL ? one_client_info(ia->client)->limits.max_message : 0;

	if (attr->max_message_size < limit)
		attr->max_message_size = limit;
	if (attr->max_rdma_size < limit)
		attr->max_rdma_size = limit;
}

/* Converts attributes of dat_ep_create.  Refuses the extension's unreliable datagrams, which are unsupported.
 */
static DAT_RETURN
take_attr(DAT_IA_HANDLE ia_handle, const DAT2_EP_ATTR *attr, DAT_EP_ATTR *out)
{
	const struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);

	if (attr == NULL)
		return DAT_SUCCESS;
	if (ia != NULL && (uint32_t)attr->service_type == DAT2_IB_SERVICE_TYPE_UD)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	*out = attr_from(attr);
	grant_sizes(ia, out);
	return DAT_SUCCESS;
}

DAT_RETURN
dat2_ep_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
	       DAT_EVD_HANDLE connect, const DAT2_EP_ATTR *attr, DAT_EP_HANDLE *ep)
{
	DAT_EP_ATTR attr1;
	DAT_RETURN ret = take_attr(ia, attr, &attr1);

	if (ret == DAT_SUCCESS)
		ret = dapl_ep_create(ia, pz, recv, request, connect, attr != NULL ? &attr1 : NULL, ep);
	return dat2_return(ret);
}

DAT_RETURN
dat2_ep_create_with_srq(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
			DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE srq, const DAT2_EP_ATTR *attr,
			DAT_EP_HANDLE *ep)
{
	DAT_EP_ATTR attr1;
	DAT_RETURN ret = take_attr(ia, attr, &attr1);

	if (ret == DAT_SUCCESS)
		ret = dapl_ep_create_with_srq(ia, pz, recv, request, connect, srq,
					      attr != NULL ? &attr1 : NULL, ep);
	return dat2_return(ret);
}

DAT_RETURN
dat2_ep_query(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT2_EP_PARAM *param)
{
	DAT_EP_PARAM from;
	DAT_RETURN ret = dapl_ep_query(ep, DAT_EP_FIELD_ALL, param != NULL ? &from : NULL);

	if (ret == DAT_SUCCESS) {
		*param = (DAT2_EP_PARAM){.ep_attr = attr_to(&from.ep_attr)};
		DAT2_COPY(EP_PARAM, param, &from, ia_handle, ep_state);
		DAT2_COPY(EP_PARAM, param, &from, local_ia_address_ptr, srq_handle);
	}
	return dat2_return(ret);
}

/* 2.0 inserts a bit for `comm`, so the bits after it are shifted by 1. */
#define FIELDS_BEFORE_COMM 0x3u
#define FIELD_COMM 0x4u
#define FIELDS_AFTER_COMM 0xff8u

DAT_RETURN
dat2_ep_modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT2_EP_PARAM *param)
{
	const struct ep *o = handle_object(ep, DAT_HANDLE_TYPE_EP);
	DAT_EP_PARAM_MASK mask1 = (mask & FIELDS_BEFORE_COMM) | (mask & FIELDS_AFTER_COMM) >> 1 |
				  (mask & ~(DAT_EP_PARAM_MASK)0xfff);
	DAT_EP_PARAM param1;

	if (o != NULL && (mask & FIELD_COMM) != 0)
		return dat2_return(BAD_ARG(2));
	if (param != NULL) {
		param1 = (DAT_EP_PARAM){
			.pz_handle = param->pz_handle,
			.recv_evd_handle = param->recv_evd_handle,
			.request_evd_handle = param->request_evd_handle,
			.connect_evd_handle = param->connect_evd_handle,
			.ep_attr = attr_from(&param->ep_attr),
		};
		grant_sizes(o != NULL ? o->o.ia : NULL, &param1.ep_attr);
	}
	return dat2_return(dapl_ep_modify(ep, mask1, param != NULL ? &param1 : NULL));
}

DAT_RETURN
dat2_ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qual, DAT_TIMEOUT timeout,
		DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos, DAT_CONNECT_FLAGS flags)
{
	/* 2.0 has one more bit, for required multipathing.  Neither bit is supported, so dapl_ep_connect
	 * refuses. */
	if (((uint32_t)flags & ~3u) == 0 && flags != DAT_CONNECT_DEFAULT_FLAG)
		flags = DAT_CONNECT_MULTIPATH_FLAG;
	return dat2_return(dapl_ep_connect(ep, address, qual, timeout, size, data, qos, flags));
}

DAT_RETURN
dat2_cr_reject(DAT_CR_HANDLE cr, DAT_COUNT size, const DAT_PVOID data)
{
	return dat2_return(cr_reject(cr, size, data));
}
