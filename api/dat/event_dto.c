/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of transfers in the layout of uDAPL 1.2. */
#include "dat/evd.h"

const bool event_srq_ep_ends = false;

static bool
fill_dto(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event)
{
	DAT_DTO_COMPLETION_EVENT_DATA *data = &event->event_data.dto_completion_event_data;
	struct ep *ep = event_ep(evd, cqe->object);

	if (ep == NULL)
		return false;
	event->evd_handle = evd->o.handle;
	event->event_number = DAT_DTO_COMPLETION_EVENT;
	data->ep_handle = ep->o.handle;
	data->user_cookie.as_64 = cqe->cookie;
	data->status = event_status(cqe->status);
	data->transfered_length = cqe->status == ONE_STATUS_SUCCESS ? cqe->length : 0;
	return true;
}

bool
event_fill(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event)
{
	switch (cqe->type) {
	case ONE_CQE_SEND:
	case ONE_CQE_RECV:
	case ONE_CQE_RECV_WRITE_IMM:
		return fill_dto(evd, cqe, event);
	default:
		return event_other(evd, cqe, event);
	}
}
