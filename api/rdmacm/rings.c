/* SPDX-License-Identifier: BSD-3-Clause */
/* CQs that an id creates for itself, each with a channel, and its SRQ. */
#include <rdma/rdma_verbs.h>

#include "rdmacm/id.h"

static int
ring_make(struct id *id, uint32_t entries, struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (entries == 0 || *cq != NULL)
		return 0;
	if (*channel == NULL)
		*channel = ibv_create_comp_channel(id->base.verbs);
	if (*channel == NULL)
		return -1;
	*cq = ibv_create_cq(id->base.verbs, (int)entries, &id->base, *channel, 0);
	return *cq != NULL ? 0 : -1;
}

int
rings_make(struct id *id, uint32_t send_entries, uint32_t recv_entries)
{
	struct rdma_cm_id *base = &id->base;
	int error;

	if (ring_make(id, send_entries, &base->send_cq_channel, &base->send_cq) == 0 &&
	    ring_make(id, recv_entries, &base->recv_cq_channel, &base->recv_cq) == 0)
		return 0;
	error = errno;
	rings_destroy(id);
	return fail(refused_because(
		error, "id = %p: libibverbs refused a completion channel or queue; see its message above",
		(const void *)base));
}

static void
ring_destroy(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (*cq != NULL)
		ibv_destroy_cq(*cq);
	*cq = NULL;
	/* A channel that the data plane refuses to close serves the next CQ, or is closed with it. */
	if (*channel != NULL && ibv_destroy_comp_channel(*channel) == 0)
		*channel = NULL;
}

void
rings_destroy(struct id *id)
{
	ring_destroy(&id->base.send_cq_channel, &id->base.send_cq);
	ring_destroy(&id->base.recv_cq_channel, &id->base.recv_cq);
}

/* ---- shared receive queues ---- */

static int
create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	if (id->verbs == NULL || id->srq != NULL)
		return fail(refused_because(
			EINVAL,
			"id = %p: the id is bound to no device, or has an SRQ; resolve or bind it first, and create one SRQ",
			(const void *)id));
	if (pd == NULL)
		pd = id->pd;
	if (pd == NULL || pd->context != id->verbs)
		return fail(EINVAL);
	id->srq = ibv_create_srq(pd, init);
	if (id->srq == NULL)
		return -1;
	id->pd = pd;
	return 0;
}

int
rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	return cma_result(__func__, create_srq(id, pd, init), id);
}

int
rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *init)
{
	struct ibv_srq_init_attr plain = {.srq_context = init->srq_context, .attr = init->attr};
	bool has_pd = (init->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0;

	if ((init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0) {
		refused_because(EINVAL,
				"attr_ex->comp_mask = %#x: a type is needed; add IBV_SRQ_INIT_ATTR_TYPE",
				init->comp_mask);
		return cma_end(__func__, EINVAL, id);
	}
	if (init->srq_type != IBV_SRQT_BASIC)
		return cma_end(__func__, EOPNOTSUPP, id);
	if (create_srq(id, has_pd ? init->pd : NULL, &plain) != 0)
		return cma_result(__func__, -1, id);
	init->attr = plain.attr;
	return 0;
}

void
rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
}
