/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, thread domains and parent domains.  A parent domain is an alias of its protection
 * domain.  Thread domains are hints only: calls still lock.  Custom allocators are never called, because the
 * rings belong to the data plane. */
#include <stdlib.h>

#include "verbs/refused.h"
#include "verbs/mem.h"

struct td {
	struct ibv_td base;
	_Atomic uint32_t users;
};

struct ibv_pd *
ibv_alloc_pd(struct ibv_context *base)
{
	struct one_msg msg = {.type = ONE_MSG_PZ_CREATE};
	struct pd *pd = calloc(1, sizeof(*pd));
	struct one_reply reply;
	int error = pd == NULL ? -ENOMEM : one_call(context_of(base)->client, &msg, NULL, 0, &reply);

	if (error != 0) {
		free(pd);
		return refused_null("ibv_alloc_pd", error == -EDQUOT ? ENOMEM : -error, "context", base);
	}
	pd->base.context = base;
	pd->base.handle = reply.id.id;
	pd->id = reply.id.id;
	return &pd->base;
}

static void
leave_parent(struct pd *pd)
{
	atomic_fetch_sub_explicit(&pd->parent->users, 1, memory_order_relaxed);
	if (pd->td != NULL)
		atomic_fetch_sub_explicit(&pd->td->users, 1, memory_order_relaxed);
}

int
ibv_dealloc_pd(struct ibv_pd *base)
{
	struct pd *pd = TO(pd, base);
	int error;

	if (atomic_load_explicit(&pd->users, memory_order_relaxed) != 0)
		return refused_explain("ibv_dealloc_pd", EBUSY, "pd", base);
	if (pd->parent != NULL) {
		leave_parent(pd);
		free(pd);
		return 0;
	}
	error = one_pz_free(context_of(base->context)->client, pd->id);
	/* After the loss of the data plane nothing is left to free. */
	if (error != 0 && error != -ECONNRESET)
		return refused_explain("ibv_dealloc_pd", -error, "pd", base);
	free(pd);
	return 0;
}

static struct ibv_td *
alloc_td(struct ibv_context *base, struct ibv_td_init_attr *attr)
{
	struct td *td;

	if (attr->comp_mask != 0)
		return refused_null("ibv_alloc_td", refused_range("attr->comp_mask", attr->comp_mask, 0, 0),
				    "context", base);
	td = calloc(1, sizeof(*td));
	if (td == NULL)
		return NULL;
	td->base.context = base;
	return &td->base;
}

static int
dealloc_td(struct ibv_td *base)
{
	struct td *td = TO(td, base);

	if (atomic_load_explicit(&td->users, memory_order_relaxed) != 0)
		return refused_explain("ibv_dealloc_td", EBUSY, "td", base);
	free(td);
	return 0;
}

static struct ibv_pd *
alloc_parent_domain(struct ibv_context *base, struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	struct pd *pd;

	if (attr->pd == NULL || attr->pd->context != base || (attr->comp_mask & ~known) != 0 ||
	    (attr->td != NULL && attr->td->context != base)) {
		refused_because(
			EINVAL,
			"attr = %p: pd or td belongs to another context, or comp_mask = %#x has unknown bits; use objects of this context and known bits",
			(const void *)attr, attr->comp_mask);
		return refused_null("ibv_alloc_parent_domain", EINVAL, "context", base);
	}
	pd = calloc(1, sizeof(*pd));
	if (pd == NULL)
		return NULL;
	pd->base.context = base;
	pd->base.handle = attr->pd->handle;
	pd->id = TO(pd, attr->pd)->id;
	pd->parent = TO(pd, attr->pd);
	atomic_fetch_add_explicit(&pd->parent->users, 1, memory_order_relaxed);
	if (attr->td != NULL) {
		pd->td = TO(td, attr->td);
		atomic_fetch_add_explicit(&pd->td->users, 1, memory_order_relaxed);
	}
	return &pd->base;
}

void
domain_calls(struct verbs_context *verbs)
{
	verbs->alloc_td = alloc_td;
	verbs->dealloc_td = dealloc_td;
	verbs->alloc_parent_domain = alloc_parent_domain;
}
