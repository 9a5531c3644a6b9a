/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory regions: memory windows.  A bind takes the next of the 256 variants of the window's key and
 * returns it to the consumer at once.  The data plane executes the bind in order with the endpoint's other
 * requests. */
#include "dat/ia.h"

#define VARIANT 0xffu

DAT_RETURN
dapl_rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle)
{
	struct pz *pz = handle_object(pz_handle, DAT_HANDLE_TYPE_PZ);
	struct one_msg msg = {.type = ONE_MSG_MW_CREATE};
	struct one_reply reply;
	struct rmr *rmr;
	struct ia *ia;
	int error;

	if (pz == NULL)
		return BAD_HANDLE(PZ);
	if (rmr_handle == NULL)
		return BAD_ARG(2);
	ia = pz->o.ia;
	rmr = object_new(ia, DAT_HANDLE_TYPE_RMR);
	if (rmr == NULL)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	rmr->pz = object_ref_alone(ia, pz_handle, DAT_HANDLE_TYPE_PZ);
	if (rmr->pz == NULL) {
		object_drop(&rmr->o);
		return BAD_HANDLE(PZ);
	}
	msg.mw_create.pz = rmr->pz->id;
	error = one_call(ia->client, &msg, NULL, 0, &reply);
	if (error == 0) {
		rmr->id = reply.mw.mw;
		rmr->key = reply.mw.key;
	}
	if (error == 0)
		error = object_publish_alone(&rmr->o, rmr->key | VARIANT);
	if (error != 0) {
		rmr_destroy(&rmr->o);
		return dat_errno(error, DAT_RESOURCE_MEMORY_REGION);
	}
	*rmr_handle = rmr->o.handle;
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK rmr_param_mask, DAT_RMR_PARAM *rmr_param)
{
	struct rmr *rmr = handle_object(rmr_handle, DAT_HANDLE_TYPE_RMR);
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;

	if (rmr == NULL)
		return BAD_HANDLE(RMR);
	if (rmr_param == NULL)
		return BAD_ARG(3);
	ia = rmr->o.ia;
	pthread_mutex_lock(&ia->lock);
	*rmr_param = (DAT_RMR_PARAM){
		.ia_handle = ia->o.handle,
		.pz_handle = rmr->pz->o.handle,
	};
	if (rmr->lmr != NULL) {
		rmr_param->lmr_triplet = rmr->triplet;
		rmr_param->mem_priv = rmr->priv;
		rmr_param->rmr_context = rmr->key;
	} else if (((uint32_t)rmr_param_mask & DAT_RMR_FIELD_LMR_TRIPLET) != 0) {
		ret = BAD_ARG(2);
	}
	pthread_mutex_unlock(&ia->lock);
	return ret;
}

void
rmr_destroy(struct object *o)
{
	struct rmr *rmr = (struct rmr *)o;
	struct ia *ia = o->ia;

	if (rmr->id != 0) {
		one_posted_begin(ia->client);
		one_call_id(ia->client, ONE_MSG_MW_FREE, rmr->id);
	}
	pthread_mutex_lock(&ia->lock);
	object_unref(rmr->lmr);
	object_unref(rmr->pz);
	object_discard(o);
	pthread_mutex_unlock(&ia->lock);
}

DAT_RETURN
dapl_rmr_free(DAT_RMR_HANDLE rmr_handle)
{
	return object_free(rmr_handle, DAT_HANDLE_TYPE_RMR, BAD_HANDLE(RMR), DAT_SUCCESS, rmr_destroy);
}

/* Returns the region to bind to, or NULL with *ret set.  ia.lock held. */
static struct lmr *
check_target(const struct rmr *rmr, const struct ep *ep, const DAT_LMR_TRIPLET *triplet, uint32_t priv,
	     DAT_RETURN *ret)
{
	struct lmr *lmr = object_find(rmr->o.ia, DAT_HANDLE_TYPE_LMR, triplet->lmr_context);

	if (lmr == NULL || lmr->freeing || !lmr_covers(lmr, triplet))
		*ret = BECAUSE(
			BAD_ARG(2),
			"lmr_triplet = %#x, %#" PRIx64 " + %" PRIu64
			": no LMR of this IA has this context and range; give the lmr_context of dat_lmr_create, inside its region",
			triplet->lmr_context, triplet->virtual_address, triplet->segment_length);
	else if (lmr->pz != rmr->pz || ep->pz != rmr->pz)
		*ret = DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_NO_SUBTYPE);
	else if ((priv & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0 &&
		 ((uint32_t)lmr->priv & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) == 0)
		*ret = BECAUSE(
			DAT_ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE),
			"mem_privileges = %#x: remote write needs an LMR with DAT_MEM_PRIV_LOCAL_WRITE_FLAG; give it to dat_lmr_create",
			priv);
	else
		return lmr;
	return NULL;
}

DAT_RETURN
dapl_rmr_bind(DAT_RMR_HANDLE rmr_handle, const DAT_LMR_TRIPLET *lmr_triplet,
	      DAT_MEM_PRIV_FLAGS mem_privileges, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE user_cookie,
	      DAT_COMPLETION_FLAGS completion_flags, DAT_RMR_CONTEXT *rmr_context)
{
	struct rmr *rmr = handle_object(rmr_handle, DAT_HANDLE_TYPE_RMR);
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	uint32_t priv = (uint32_t)mem_privileges;
	struct lmr *lmr = NULL;
	DAT_LMR_TRIPLET none = {0};
	struct ia *ia;
	DAT_RETURN ret;
	uint32_t key;

	if (rmr == NULL)
		return BAD_HANDLE(RMR);
	ia = rmr->o.ia;
	if (ep == NULL || ep->o.ia != ia)
		return BAD_HANDLE(EP);
	if (lmr_triplet == NULL)
		return BAD_ARG(2);
	if ((priv & ~(uint32_t)DAT_MEM_PRIV_ALL_FLAG) != 0)
		return BAD_ARG(3);
	if (rmr_context == NULL && lmr_triplet->segment_length != 0)
		return BAD_ARG(7);
	if (ia_lost(ia))
		lost_sweep(ia);
	/* ia.lock serializes binds, so that the order of keys is the order of the posted binds. */
	pthread_mutex_lock(&ia->lock);
	/* Check the state first: an endpoint that is not connected may have no protection zone yet. */
	ret = ep_check_request(ep);
	if (ret != DAT_SUCCESS) {
		pthread_mutex_unlock(&ia->lock);
		return ret;
	}
	if (lmr_triplet->segment_length != 0)
		lmr = check_target(rmr, ep, lmr_triplet, priv, &ret);
	else if (ep->pz != rmr->pz)
		ret = DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_NO_SUBTYPE);
	key = (rmr->key & ~VARIANT) | ((rmr->key + 1) & VARIANT);
	if (ret == DAT_SUCCESS)
		ret = ep_post_bind(ep, key, lmr != NULL ? lmr_triplet : &none,
				   priv & (ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE),
				   user_cookie.as_64, completion_flags);
	if (ret == DAT_SUCCESS) {
		object_unref(rmr->lmr);
		rmr->lmr = lmr;
		if (lmr != NULL) {
			lmr->o.refs++;
			rmr->triplet = *lmr_triplet;
			rmr->priv = mem_privileges;
		}
		rmr->key = key;
		if (rmr_context != NULL)
			*rmr_context = key;
	}
	pthread_mutex_unlock(&ia->lock);
	return ret;
}
