/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of ring entries to DAT events, except for completions of transfers (event_dto.c). */
#include <string.h>

#include "dat/evd.h"

DAT_DTO_COMPLETION_STATUS
event_status(uint8_t status)
{
	static const DAT_DTO_COMPLETION_STATUS status_of[] = {
		[ONE_STATUS_SUCCESS] = DAT_DTO_SUCCESS,
		[ONE_STATUS_FLUSHED] = DAT_DTO_ERR_FLUSHED,
		[ONE_STATUS_LOCAL_LENGTH] = DAT_DTO_ERR_LOCAL_LENGTH,
		[ONE_STATUS_LOCAL_QP] = DAT_DTO_ERR_LOCAL_EP,
		[ONE_STATUS_LOCAL_PROTECTION] = DAT_DTO_ERR_LOCAL_PROTECTION,
		[ONE_STATUS_BAD_RESPONSE] = DAT_DTO_ERR_BAD_RESPONSE,
		[ONE_STATUS_REMOTE_ACCESS] = DAT_DTO_ERR_REMOTE_ACCESS,
		[ONE_STATUS_REMOTE_OPERATION] = DAT_DTO_ERR_REMOTE_RESPONDER,
		[ONE_STATUS_REMOTE_INVALID] = DAT_DTO_ERR_REMOTE_RESPONDER,
		[ONE_STATUS_RETRY_EXCEEDED] = DAT_DTO_ERR_TRANSPORT,
		[ONE_STATUS_RNR_EXCEEDED] = DAT_DTO_ERR_RECEIVER_NOT_READY,
		[ONE_STATUS_BIND_FAILED] = DAT_RMR_OPERATION_FAILED,
	};

	return status < sizeof(status_of) / sizeof(status_of[0]) ? status_of[status] : DAT_DTO_ERR_LOCAL_EP;
}

struct ep *
event_ep(struct evd *evd, uint32_t id)
{
	/* A cache.  The memory of objects lives as long as the IA, and a freed endpoint has key 0. */
	struct ep *ep = one_load_alone(&evd->last_ep);

	if (ep != NULL && idmap_key(&ep->o.node) == id && id != 0)
		return ep;
	ep = object_find(evd->o.ia, DAT_HANDLE_TYPE_EP, id);
	if (ep != NULL)
		one_store_alone(&evd->last_ep, ep);
	return ep;
}

static bool
fill_bind(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event)
{
	DAT_RMR_BIND_COMPLETION_EVENT_DATA *data = &event->event_data.rmr_completion_event_data;
	struct ia *ia = evd->o.ia;
	struct rmr *rmr;

	pthread_mutex_lock(&ia->lock);
	rmr = object_find(ia, DAT_HANDLE_TYPE_RMR, cqe->imm | 0xff);
	/* A window may be freed before its completion is dequeued. */
	data->rmr_handle = rmr != NULL ? rmr->o.handle : DAT_HANDLE_NULL;
	if (rmr != NULL && cqe->status != ONE_STATUS_SUCCESS && rmr->key == cqe->imm && rmr->lmr != NULL) {
		object_unref(rmr->lmr);
		rmr->lmr = NULL;
	}
	pthread_mutex_unlock(&ia->lock);
	event->event_number = DAT_RMR_BIND_COMPLETION_EVENT;
	data->user_cookie.as_64 = cqe->cookie;
	data->status = event_status(cqe->status);
	return true;
}

void
event_private_data(struct ep *ep, DAT_CONNECTION_EVENT_DATA *data)
{
	uint32_t len = ep->qp.shm->private_len;

	if (len > ONE_PRIVATE_DATA_MAX)
		len = ONE_PRIVATE_DATA_MAX;
	memcpy(ep->private_data, ep->qp.shm->private_data, len);
	data->private_data_size = (DAT_COUNT)len;
	data->private_data = ep->private_data;
}

static bool
fill_connect(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event)
{
	static const DAT_EVENT_NUMBER number[] = {
		[ONE_CONN_ESTABLISHED] = DAT_CONNECTION_EVENT_ESTABLISHED,
		[ONE_CONN_PEER_REJECTED] = DAT_CONNECTION_EVENT_PEER_REJECTED,
		[ONE_CONN_NON_PEER_REJECTED] = DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
		[ONE_CONN_ACCEPT_ERROR] = DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR,
		[ONE_CONN_DISCONNECTED] = DAT_CONNECTION_EVENT_DISCONNECTED,
		[ONE_CONN_BROKEN] = DAT_CONNECTION_EVENT_BROKEN,
		[ONE_CONN_TIMED_OUT] = DAT_CONNECTION_EVENT_TIMED_OUT,
		[ONE_CONN_UNREACHABLE] = DAT_CONNECTION_EVENT_UNREACHABLE,
	};
	DAT_CONNECTION_EVENT_DATA *data = &event->event_data.connect_event_data;
	struct ep *ep = event_ep(evd, cqe->object);

	if (ep == NULL || cqe->status < ONE_CONN_ESTABLISHED || cqe->status > ONE_CONN_UNREACHABLE)
		return false;
	event->event_number = number[cqe->status];
	data->ep_handle = ep->o.handle;
	data->private_data_size = 0;
	data->private_data = NULL;
	if (cqe->status == ONE_CONN_ESTABLISHED && ep->active)
		event_private_data(ep, data);
	return true;
}

static bool
fill_async(const struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event)
{
	DAT_ASYNCH_ERROR_EVENT_DATA *data = &event->event_data.asynch_error_event_data;
	/* The cookie names the IA in entries of guests and of the library. */
	struct ia *ia = cqe->cookie != 0 ? (struct ia *)(uintptr_t)cqe->cookie : evd->o.ia;
	struct object *o = NULL;

	if (cqe->type == CQE_LOST) {
		event->event_number = DAT_ASYNC_ERROR_IA_CATASTROPHIC;
		data->dat_handle = ia->o.handle;
		data->reason = DAT_IA_CATASTROPHIC_ERROR;
		return true;
	}
	switch (cqe->status) {
	case ONE_ASYNC_CQ_OVERFLOW:
		o = object_find(ia, DAT_HANDLE_TYPE_EVD, cqe->object);
		event->event_number = DAT_ASYNC_ERROR_EVD_OVERFLOW;
		data->reason = DAT_EVD_OVERFLOW_ERROR;
		break;
	case ONE_ASYNC_QP_ERROR:
		o = object_find(ia, DAT_HANDLE_TYPE_EP, cqe->object);
		event->event_number = DAT_ASYNC_ERROR_EP_BROKEN;
		data->reason = DAT_EP_TRANSFER_TO_ERROR;
		break;
	case ONE_ASYNC_SRQ_LIMIT:
		/* uDAPL 1.2 has no event number for this; consumers recognize the reason and the handle's
		 * type. */
		o = object_find(ia, DAT_HANDLE_TYPE_SRQ, cqe->object);
		event->event_number = DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR;
		data->reason = DAT_SRQ_LOW_WATERMARK_EVENT;
		break;
	default:
		break;
	}
	if (o == NULL)
		return false;
	data->dat_handle = o->handle;
	return true;
}

bool
event_other(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event)
{
	event->evd_handle = evd->o.handle;
	switch (cqe->type) {
	case ONE_CQE_BIND:
		return fill_bind(evd, cqe, event);
	case ONE_CQE_CONNECT:
		return fill_connect(evd, cqe, event);
	case ONE_CQE_REQUEST:
		return evd->o.ia->request(evd, cqe, event);
	case ONE_CQE_ASYNC:
	case CQE_LOST:
		return fill_async(evd, cqe, event);
	case CQE_SOFTWARE:
		event->event_number = DAT_SOFTWARE_EVENT;
		event->event_data.software_event_data.pointer = (DAT_PVOID)(uintptr_t)cqe->cookie;
		return true;
	default:
		return false;
	}
}
