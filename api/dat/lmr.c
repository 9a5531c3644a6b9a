/* SPDX-License-Identifier: BSD-3-Clause */
/* Local memory regions. */
#include "dat/ia.h"

_Static_assert(DAT_MEM_PRIV_LOCAL_READ_FLAG == ONE_ACCESS_LOCAL_READ, "rights");
_Static_assert(DAT_MEM_PRIV_REMOTE_READ_FLAG == ONE_ACCESS_REMOTE_READ, "rights");
_Static_assert(DAT_MEM_PRIV_LOCAL_WRITE_FLAG == ONE_ACCESS_LOCAL_WRITE, "rights");
_Static_assert(DAT_MEM_PRIV_REMOTE_WRITE_FLAG == ONE_ACCESS_REMOTE_WRITE, "rights");

static DAT_RETURN
register_errno(int error)
{
	switch (error) {
	case -EFAULT:
	case -EINVAL:
		return BECAUSE(
			BAD_ARG(3),
			"region_description = not mapped: part of the range is not memory of this process with the requested rights; give what is allocated, and its length");
	case -EOPNOTSUPP: /* not shareable, and bounced accesses are impossible or forbidden */
	case -EPERM:
	case -EACCES:
		return BECAUSE(
			DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE),
			"region_description = memory of a device or a file: it cannot be shared with the data plane; use malloc, anonymous mmap or shared memory");
	default:
		return dat_errno(error, DAT_RESOURCE_MEMORY_REGION);
	}
}

/* Resolves a description to an address range and records it in `lmr`.  Takes ia.lock for type LMR. */
static DAT_RETURN
resolve_range(struct ia *ia, struct lmr *lmr, DAT_MEM_TYPE type, const DAT_REGION_DESCRIPTION *desc,
	      DAT_VLEN length, uint64_t *va, uint64_t *len)
{
	const struct lmr *source;
	DAT_RETURN ret = DAT_SUCCESS;

	*len = length;
	lmr->mem_type = type;
	lmr->desc = *desc;
	switch (type) {
	case DAT_MEM_TYPE_VIRTUAL:
		*va = (uintptr_t)desc->for_va;
		break;
	case DAT_MEM_TYPE_SHARED_VIRTUAL:
		if (desc->for_shared_memory.shared_memory_id == NULL)
			return BAD_ARG(3);
		*va = (uintptr_t)desc->for_shared_memory.virtual_address;
		memcpy(lmr->cookie, *desc->for_shared_memory.shared_memory_id, sizeof(lmr->cookie));
		lmr->desc.for_shared_memory.shared_memory_id = &lmr->cookie;
		break;
	case DAT_MEM_TYPE_LMR:
		pthread_mutex_lock(&ia->lock);
		source = handle_object(desc->for_lmr_handle, DAT_HANDLE_TYPE_LMR);
		if (source == NULL || source->o.ia != ia) {
			ret = BAD_HANDLE(LMR);
		} else {
			*va = source->mr.va;
			*len = source->mr.length;
		}
		pthread_mutex_unlock(&ia->lock);
		break;
	default:
		return BAD_ARG(2);
	}
	if (ret == DAT_SUCCESS && *len == 0)
		ret = BECAUSE(DAT_ERROR(DAT_LENGTH_ERROR, DAT_NO_SUBTYPE),
			      "length = 0: a region has at least 1 byte; give the length of the buffer");
	if (ret == DAT_SUCCESS && *va + *len < *va)
		ret = BECAUSE(BAD_ARG(3),
			      "region_description = %#" PRIx64 " + %" PRIu64
			      ": the range exceeds the address space; give the buffer's address and length",
			      *va, *len);
	if (ret == DAT_SUCCESS && *len > one_client_info(ia->client)->limits.max_mr_bytes)
		ret = BECAUSE(DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION),
			      "length = %" PRIu64 ": a region has at most %" PRIu64
			      " bytes here; register pieces, or raise max_mr_bytes in oneside.conf(5)",
			      *len, one_client_info(ia->client)->limits.max_mr_bytes);
	return ret;
}

static void
discard_lmr(struct lmr *lmr)
{
	struct ia *ia = lmr->o.ia;

	pthread_mutex_lock(&ia->lock);
	object_unref(lmr->pz);
	object_discard(&lmr->o);
	pthread_mutex_unlock(&ia->lock);
}

DAT_RETURN
lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type, const DAT_REGION_DESCRIPTION *description,
	   DAT_VLEN length, DAT_PZ_HANDLE pz_handle, uint32_t privileges, uint32_t allowed,
	   DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context,
	   DAT_VLEN *registered_size, DAT_VADDR *registered_address)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	uint64_t va = 0, len = 0;
	struct lmr *lmr;
	DAT_RETURN ret;
	int error;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (mem_type != DAT_MEM_TYPE_VIRTUAL && mem_type != DAT_MEM_TYPE_LMR &&
	    mem_type != DAT_MEM_TYPE_SHARED_VIRTUAL)
		return BECAUSE(BAD_ARG(2),
			       "mem_type = %#x: give DAT_MEM_TYPE_VIRTUAL, _SHARED_VIRTUAL or _LMR",
			       mem_type);
	if ((privileges & ~allowed) != 0)
		return BECAUSE(BAD_ARG(6), "mem_privileges = %#x: unknown bits %#x; give DAT_MEM_PRIV_*_FLAG",
			       privileges, privileges & ~allowed);
	if (lmr_handle == NULL)
		return BAD_ARG(7);
	lmr = object_new(ia, DAT_HANDLE_TYPE_LMR);
	if (lmr == NULL)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	lmr->priv = (DAT_MEM_PRIV_FLAGS)privileges;
	lmr->pz = object_ref_alone(ia, pz_handle, DAT_HANDLE_TYPE_PZ);
	ret = lmr->pz == NULL ? BAD_HANDLE(PZ)
			      : resolve_range(ia, lmr, mem_type, description, length, &va, &len);
	if (ret == DAT_SUCCESS) {
		error = one_mem_register(ia->client, lmr->pz->id, va, len, privileges | ONE_ACCESS_LOCAL_READ,
					 &lmr->mr);
		ret = register_errno(error);
	}
	if (ret == DAT_SUCCESS) {
		error = object_publish_alone(&lmr->o, lmr->mr.lkey);
		if (error != 0)
			one_mem_deregister(ia->client, &lmr->mr);
		ret = register_errno(error);
	}
	if (ret != DAT_SUCCESS) {
		discard_lmr(lmr);
		return ret;
	}
	*lmr_handle = lmr->o.handle;
	if (lmr_context != NULL)
		*lmr_context = lmr->mr.lkey;
	if (rmr_context != NULL)
		*rmr_context = lmr->mr.rkey;
	if (registered_size != NULL)
		*registered_size = len;
	if (registered_address != NULL)
		*registered_address = va;
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type, DAT_REGION_DESCRIPTION region_description,
		DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS mem_privileges,
		DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context,
		DAT_VLEN *registered_size, DAT_VADDR *registered_address)
{
	return lmr_create(ia_handle, mem_type, &region_description, length, pz_handle,
			  (uint32_t)mem_privileges, DAT_MEM_PRIV_ALL_FLAG, lmr_handle, lmr_context,
			  rmr_context, registered_size, registered_address);
}

DAT_RETURN
dapl_lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK lmr_param_mask, DAT_LMR_PARAM *lmr_param)
{
	struct lmr *lmr = handle_object(lmr_handle, DAT_HANDLE_TYPE_LMR);

	if (lmr == NULL)
		return BAD_HANDLE(LMR);
	if (lmr_param == NULL)
		return BAD_ARG(3);
	*lmr_param = (DAT_LMR_PARAM){
		.ia_handle = lmr->o.ia->o.handle,
		.mem_type = lmr->mem_type,
		.region_desc = lmr->desc,
		.length = lmr->mr.length,
		.pz_handle = lmr->pz->o.handle,
		.mem_priv = lmr->priv,
		.lmr_context = lmr->mr.lkey,
		.rmr_context = lmr->mr.rkey,
		.registered_size = lmr->mr.length,
		.registered_address = lmr->mr.va,
	};
	return DAT_SUCCESS;
}

/* Deregisters and frees a retired region, and ignores errors of the data plane. */
void
lmr_destroy(struct object *o)
{
	struct lmr *lmr = (struct lmr *)o;

	one_mem_deregister(o->ia->client, &lmr->mr);
	discard_lmr(lmr);
}

DAT_RETURN
dapl_lmr_free(DAT_LMR_HANDLE lmr_handle)
{
	struct lmr *lmr = object_lock(lmr_handle, DAT_HANDLE_TYPE_LMR);
	struct ia *ia;
	int error;

	if (lmr == NULL)
		return BAD_HANDLE(LMR);
	ia = lmr->o.ia;
	if (lmr->freeing) {
		pthread_mutex_unlock(&ia->lock);
		return BAD_HANDLE(LMR);
	}
	if (lmr->o.refs > 0) {
		pthread_mutex_unlock(&ia->lock);
		return BAD_STATE(LMR_IN_USE);
	}
	lmr->freeing = true;
	pthread_mutex_unlock(&ia->lock);
	/* -EBUSY: the data plane still has a window bound here, whose next bind is posted and not yet done.
	 */
	error = one_mem_deregister(ia->client, &lmr->mr);
	pthread_mutex_lock(&ia->lock);
	if (error == -EBUSY)
		lmr->freeing = false;
	else
		object_retire(&lmr->o);
	pthread_mutex_unlock(&ia->lock);
	if (error == -EBUSY)
		return BAD_STATE(LMR_IN_USE);
	discard_lmr(lmr);
	return DAT_SUCCESS;
}

/* Only checks the arguments: memory is always coherent. */
static DAT_RETURN
sync_segments(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *segments, DAT_VLEN num_segments)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	DAT_RETURN ret = DAT_SUCCESS;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (num_segments > 0 && segments == NULL)
		return BAD_ARG(2);
	for (DAT_VLEN i = 0; i < num_segments && ret == DAT_SUCCESS; i++) {
		const struct lmr *lmr;

		if (segments[i].segment_length == 0)
			continue;
		pthread_mutex_lock(&ia->lock);
		lmr = object_find(ia, DAT_HANDLE_TYPE_LMR, segments[i].lmr_context);
		if (lmr == NULL || !lmr_covers(lmr, &segments[i]))
			ret = BAD_ARG(2);
		pthread_mutex_unlock(&ia->lock);
	}
	return ret;
}

DAT_RETURN
dapl_lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *local_segments, DAT_VLEN num_segments)
{
	return sync_segments(ia_handle, local_segments, num_segments);
}

DAT_RETURN
dapl_lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *local_segments,
			 DAT_VLEN num_segments)
{
	return sync_segments(ia_handle, local_segments, num_segments);
}
