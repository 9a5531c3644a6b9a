/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection requests. */

#include "dat/ep.h"

/* Refuses a request that the consumer has not seen.  The peer gets the refusal of a port without a listener.
 */
static void
refuse_request(struct ia *ia, uint32_t id)
{
	struct one_msg msg = {.type = ONE_MSG_CR_REJECT, .cr_reject = {.cr = id, .unanswered = 1}};

	one_call(ia->client, &msg, NULL, 0, NULL);
}

void
cr_refuse(struct ia *ia, uint64_t offset)
{
	const struct one_cr_shm *shm = one_client_span(ia->client, offset, sizeof(*shm));

	if (shm != NULL)
		refuse_request(ia, shm->cr);
}

/* Copies the request out of the arena, whose place is reused after the request is answered. */
static void
copy_request(struct cr *cr, const struct one_cr_shm *shm)
{
	uint32_t len = shm->private_len;

	cr->id = shm->cr;
	cr->remote_port = shm->remote_port;
	base_address(&cr->remote, shm->family, shm->remote_addr, cr->remote_port);
	cr->private_len = (uint16_t)(len < ONE_PRIVATE_DATA_MAX ? len : ONE_PRIVATE_DATA_MAX);
	memcpy(cr->private_data, shm->private_data, cr->private_len);
}

static struct sp *
find_sp(struct ia *ia, uint32_t listener)
{
	struct sp *sp = object_find(ia, DAT_HANDLE_TYPE_PSP, listener);

	if (sp == NULL) {
		/* dat_psp_create may not have received its reply yet: wait until it has published the
		 * listener. */
		pthread_mutex_lock(&ia->listen_lock);
		pthread_mutex_unlock(&ia->listen_lock);
		sp = object_find(ia, DAT_HANDLE_TYPE_PSP, listener);
	}
	return sp;
}

/* Supplies the endpoint that this kind of service point adds to a request; false: no endpoint available. */
static bool
supply_ep(struct cr *cr, struct sp *sp)
{
	struct ia *ia = cr->o.ia;
	DAT_RETURN ret;

	if (sp->o.type == DAT_HANDLE_TYPE_RSP) {
		cr->ep = sp_take_ep(sp, EP_PASSIVE);
		cr->reserved = true;
		return cr->ep != NULL;
	}
	if (sp->flags == DAT_PSP_PROVIDER_FLAG) {
		cr->ep = ep_make(ia, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
				 DAT_HANDLE_NULL, NULL, EP_TENTATIVE, &ret);
		return cr->ep != NULL;
	}
	return true;
}

/* Request not accepted: makes a reserved endpoint unconnected, destroys one that the provider made. */
static void
return_ep(struct cr *cr)
{
	struct ia *ia = cr->o.ia;
	struct ep *ep = cr->ep;

	if (ep == NULL)
		return;
	cr->ep = NULL;
	if (cr->reserved) {
		ep_move(ep, EP_PASSIVE, EP_UNCONNECTED);
		return;
	}
	pthread_mutex_lock(&ia->lock);
	object_retire(&ep->o);
	pthread_mutex_unlock(&ia->lock);
	ep_destroy(&ep->o);
}

void
cr_destroy(struct object *o)
{
	refuse_request(o->ia, ((struct cr *)o)->id);
	object_drop(o);
}

bool
cr_arrived(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event)
{
	DAT_CR_ARRIVAL_EVENT_DATA *data = &event->event_data.cr_arrival_event_data;
	struct ia *ia = evd->o.ia;
	struct sp *sp = find_sp(ia, cqe->object);
	const struct one_cr_shm *shm = one_client_span(ia->client, cqe->cookie, sizeof(*shm));
	struct cr *cr = NULL;

	if (shm == NULL)
		return false;
	if (sp != NULL)
		cr = object_new(ia, DAT_HANDLE_TYPE_CR);
	if (cr == NULL) {
		refuse_request(ia, shm->cr);
		return false;
	}
	copy_request(cr, shm);
	cr->qual = sp->qual;
	data->sp_handle.psp_handle = sp->o.handle;
	if (!supply_ep(cr, sp) || object_publish_alone(&cr->o, 0) != 0) {
		return_ep(cr);
		cr_destroy(&cr->o);
		return false;
	}
	event->event_number = DAT_CONNECTION_REQUEST_EVENT;
	data->local_ia_address_ptr = (DAT_IA_ADDRESS_PTR)&ia->addr;
	data->conn_qual = cr->qual;
	data->cr_handle = cr->o.handle;
	return true;
}

DAT_RETURN
dapl_cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK cr_param_mask, DAT_CR_PARAM *cr_param)
{
	struct cr *cr = handle_object(cr_handle, DAT_HANDLE_TYPE_CR);

	if (cr == NULL)
		return BAD_HANDLE(CR);
	if (cr_param == NULL)
		return BAD_ARG(3);
	*cr_param = (DAT_CR_PARAM){
		.remote_ia_address_ptr = (DAT_IA_ADDRESS_PTR)&cr->remote,
		.remote_port_qual = cr->remote_port,
		.private_data_size = cr->private_len,
		.private_data = cr->private_data,
		.local_ep_handle = cr->ep != NULL ? cr->ep->o.handle : DAT_HANDLE_NULL,
	};
	return DAT_SUCCESS;
}

/* Invalidates the handle of an answered request; false: another thread has done so. */
static bool
retire_request(struct cr *cr, DAT_CR_HANDLE handle)
{
	struct ia *ia = cr->o.ia;
	bool mine;

	pthread_mutex_lock(&ia->lock);
	mine = handle_object(handle, DAT_HANDLE_TYPE_CR) == cr;
	if (mine)
		object_retire(&cr->o);
	pthread_mutex_unlock(&ia->lock);
	return mine;
}

DAT_RETURN
dapl_cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle, DAT_COUNT private_data_size,
	       const DAT_PVOID private_data)
{
	struct cr *cr = handle_object(cr_handle, DAT_HANDLE_TYPE_CR);
	struct one_msg msg = {.type = ONE_MSG_CR_ACCEPT};
	enum ep_phase from = EP_UNCONNECTED;
	struct one_reply reply;
	struct ep *ep;
	struct ia *ia;
	DAT_RETURN ret;
	int error;

	if (cr == NULL)
		return BAD_HANDLE(CR);
	ia = cr->o.ia;
	ret = ep_check_private(ia, private_data_size, private_data, BAD_ARG(3), BAD_ARG(4));
	if (ret != DAT_SUCCESS)
		return ret;
	if (cr->ep != NULL) {
		if (ep_handle != DAT_HANDLE_NULL)
			return BECAUSE(
				BAD_HANDLE(EP),
				"ep_handle = %p: the service point supplied the endpoint; give DAT_HANDLE_NULL",
				ep_handle);
		ep = cr->ep;
		from = cr->reserved ? EP_PASSIVE : EP_TENTATIVE;
	} else {
		ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
		if (ep == NULL || ep->o.ia != ia)
			return BAD_HANDLE(EP);
	}
	if (ep_phase(ep) != from)
		return ep_state_error(ep_state(ep));
	if (ep->pz == NULL || ep->conn_evd == NULL)
		return BECAUSE(BAD_HANDLE(EP), "ep_handle = %p: the EP has no %s; give one to dat_ep_create",
			       ep_handle, ep->pz == NULL ? "PZ" : "connect EVD");
	if (!ep_move(ep, from, EP_CHANGING))
		return ep_state_error(ep_state(ep));
	msg.cr_accept.param.number = ep_set_peer(ep, &cr->remote, cr->remote_port, false);
	msg.cr_accept.cr = cr->id;
	msg.cr_accept.qp = ep->qp.id;
	msg.cr_accept.private_len = (uint32_t)private_data_size;
	if (private_data_size > 0)
		memcpy(msg.cr_accept.private_data, private_data, (size_t)private_data_size);
	/* Set the phase first: the event may precede the reply. */
	ep_set_phase(ep, EP_ACCEPTED);
	error = one_call(ia->client, &msg, NULL, 0, &reply);
	if (error != 0) {
		ep_set_peer(ep, NULL, 0, false);
		ep_set_phase(ep, from);
		if (error == -EINVAL && reply.subject == ONE_SUBJECT_CR)
			return BAD_HANDLE(CR);
		return dat_errno(error, DAT_RESOURCE_TEP);
	}
	if (retire_request(cr, cr_handle))
		object_drop(&cr->o);
	return DAT_SUCCESS;
}

DAT_RETURN
cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT private_data_size, const void *private_data)
{
	struct cr *cr = handle_object(cr_handle, DAT_HANDLE_TYPE_CR);
	struct one_msg msg = {.type = ONE_MSG_CR_REJECT};
	DAT_RETURN ret;

	if (cr == NULL)
		return BAD_HANDLE(CR);
	ret = ep_check_private(cr->o.ia, private_data_size, private_data, BAD_ARG(2), BAD_ARG(3));
	if (ret != DAT_SUCCESS)
		return ret;
	if (!retire_request(cr, cr_handle))
		return BAD_HANDLE(CR);
	return_ep(cr);
	msg.cr_reject.cr = cr->id;
	msg.cr_reject.private_len = (uint16_t)private_data_size;
	if (private_data_size > 0)
		memcpy(msg.cr_reject.private_data, private_data, (size_t)private_data_size);
	one_call(cr->o.ia->client, &msg, NULL, 0, NULL);
	object_drop(&cr->o);
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_cr_reject(DAT_CR_HANDLE cr_handle)
{
	return cr_reject(cr_handle, 0, NULL);
}

DAT_RETURN
dapl_cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL handoff)
{
	struct cr *cr = handle_object(cr_handle, DAT_HANDLE_TYPE_CR);
	struct one_msg msg = {.type = ONE_MSG_CR_HANDOFF};
	int error;

	if (cr == NULL)
		return BAD_HANDLE(CR);
	if (handoff == 0)
		return BAD_ARG(2);
	msg.cr_handoff.cr = cr->id;
	msg.cr_handoff.service = handoff;
	error = one_call(cr->o.ia->client, &msg, NULL, 0, NULL);
	if (error == -ENOENT || error == -EACCES)
		return BECAUSE(BAD_ARG(2),
			       "handoff = %" PRIu64 ": no PSP listens on this qualifier; give that of a PSP",
			       handoff);
	if (error == -EINVAL)
		return BAD_HANDLE(CR);
	if (error != 0)
		return dat_errno(error, DAT_RESOURCE_MEMORY);
	if (retire_request(cr, cr_handle)) {
		return_ep(cr);
		object_drop(&cr->o);
	}
	return DAT_SUCCESS;
}
