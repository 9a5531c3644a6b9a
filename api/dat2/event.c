/* SPDX-License-Identifier: BSD-3-Clause */
/* Events.  Dequeue and wait of 1.2 pass the consumer's event to event_fill.  This library has its own
 * event_fill, which fills in the layout of 2.0. */
#include "dat2.h"

/* Like adapters whose queue pairs report the last receive that they took from an SRQ: programs wait for the
 * event. */
const bool event_srq_ep_ends = true;

DAT_RETURN
dat2_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT2_EVENT *event,
	      DAT_COUNT *nmore)
{
	return dat2_return(dapl_evd_wait(evd, timeout, threshold, (DAT_EVENT *)(void *)event, nmore));
}

DAT_RETURN
dat2_evd_dequeue(DAT_EVD_HANDLE evd, DAT2_EVENT *event)
{
	return dat2_return(dapl_evd_dequeue(evd, (DAT_EVENT *)(void *)event));
}

/* Needs no conversion: software events have the same offsets in both layouts. */
DAT_RETURN
dat2_evd_post_se(DAT_EVD_HANDLE evd, const DAT2_EVENT *event)
{
	return dat2_return(dapl_evd_post_se(evd, (const DAT_EVENT *)(const void *)event));
}

struct event_kind {
	DAT2_DTOS operation;
	bool extension;
	DAT2_IB_EXT_TYPE type;
};

static struct event_kind
kind_of(const struct one_cqe *cqe)
{
	switch (cqe->type) {
	case ONE_CQE_RECV_WRITE_IMM:
		return (struct event_kind){DAT2_IB_DTO_RECV_IMMED, true, DAT2_IB_RDMA_WRITE_IMMED_DATA};
	case ONE_CQE_RECV:
		if (cqe->status == ONE_STATUS_SUCCESS && (cqe->flags & ONE_CQE_IMM) != 0)
			return (struct event_kind){DAT2_IB_DTO_RECV_MSG_IMMED, true, DAT2_IB_RECV_IMMED_DATA};
		if (cqe->status == ONE_STATUS_SUCCESS && (cqe->flags & ONE_CQE_INV) != 0)
			return (struct event_kind){.operation = DAT2_DTO_RECEIVE_WITH_INVALIDATE};
		return (struct event_kind){.operation = DAT2_DTO_RECEIVE};
	default:
		break;
	}
	switch (cqe->op) {
	case ONE_OP_WRITE:
		return (struct event_kind){.operation = DAT2_DTO_RDMA_WRITE};
	case ONE_OP_READ:
		return (struct event_kind){.operation = DAT2_DTO_RDMA_READ};
	case ONE_OP_WRITE_IMM:
		return (struct event_kind){DAT2_IB_DTO_RDMA_WRITE_IMMED, true, DAT2_IB_RDMA_WRITE_IMMED};
	case ONE_OP_FETCH_ADD:
		return (struct event_kind){DAT2_IB_DTO_FETCH_ADD, true, DAT2_IB_FETCH_AND_ADD};
	case ONE_OP_CMP_SWAP:
		return (struct event_kind){DAT2_IB_DTO_CMP_SWAP, true, DAT2_IB_CMP_AND_SWAP};
	default:
		return (struct event_kind){.operation = DAT2_DTO_SEND};
	}
}

static bool
fill_dto(struct evd *evd, const struct one_cqe *cqe, DAT2_EVENT *event)
{
	DAT2_DTO_COMPLETION_EVENT_DATA *data = &event->event_data.dto_completion_event_data;
	struct ep *ep = event_ep(evd, cqe->object);
	struct event_kind kind = kind_of(cqe);

	if (ep == NULL)
		return false;
	event->event_number = kind.extension ? DAT2_IB_DTO_EVENT : DAT_DTO_COMPLETION_EVENT;
	event->evd_handle = evd->o.handle;
	data->ep_handle = ep->o.handle;
	data->user_cookie.as_64 = cqe->cookie;
	data->status = event_status(cqe->status);
	data->transfered_length = cqe->status == ONE_STATUS_SUCCESS ? cqe->length : 0;
	data->operation = kind.operation;
	data->rmr_context = kind.operation == DAT2_DTO_RECEIVE_WITH_INVALIDATE ? cqe->imm : 0;
	if (kind.extension) {
		event->extension.ib.type = kind.type;
		event->extension.ib.status = cqe->status == ONE_STATUS_SUCCESS ? 0 : DAT2_IB_OP_ERR;
		event->extension.ib.immediate = (cqe->flags & ONE_CQE_IMM) != 0 ? cqe->imm : 0;
	}
	return true;
}

/* Adds the private data of a refusal, which 1.2 does not report. */
static bool
fill_connect(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event)
{
	struct ep *ep = event_ep(evd, cqe->object);

	if (!event_other(evd, cqe, event))
		return false;
	if (cqe->status == ONE_CONN_PEER_REJECTED && ep != NULL)
		event_private_data(ep, &event->event_data.connect_event_data);
	return true;
}

/* `out` is the DAT2_EVENT that the consumer gave to dequeue or wait. */
bool
event_fill(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *out)
{
	DAT2_EVENT *event = (DAT2_EVENT *)(void *)out;

	switch (cqe->type) {
	case ONE_CQE_SEND:
	case ONE_CQE_RECV:
	case ONE_CQE_RECV_WRITE_IMM:
		return fill_dto(evd, cqe, event);
	case ONE_CQE_CONNECT:
		return fill_connect(evd, cqe, out);
	case ONE_CQE_REQUEST:
		event->event_data.cr_arrival_event_data.truncate_flag = DAT_FALSE;
		return event_other(evd, cqe, out);
	default:
		return event_other(evd, cqe, out);
	}
}
