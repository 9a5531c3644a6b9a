/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions. */
#include <stdlib.h>

#include "calls.h"

#define KNOWN_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                  \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | \
	 IBV_ACCESS_OPTIONAL_RANGE)

static int
access_of(unsigned int flags, uint32_t *access)
{
	if ((flags & IBV_ACCESS_ON_DEMAND) != 0)
		return EOPNOTSUPP;
	if ((flags & ~(unsigned int)KNOWN_ACCESS) != 0)
		return EINVAL;
	if ((flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
	    (flags & IBV_ACCESS_LOCAL_WRITE) == 0)
		return EINVAL;
	*access = ONE_ACCESS_LOCAL_READ;
	if ((flags & IBV_ACCESS_LOCAL_WRITE) != 0)
		*access |= ONE_ACCESS_LOCAL_WRITE;
	if ((flags & IBV_ACCESS_REMOTE_WRITE) != 0)
		*access |= ONE_ACCESS_REMOTE_WRITE;
	if ((flags & IBV_ACCESS_REMOTE_READ) != 0)
		*access |= ONE_ACCESS_REMOTE_READ;
	if ((flags & IBV_ACCESS_REMOTE_ATOMIC) != 0)
		*access |= ONE_ACCESS_REMOTE_ATOMIC;
	return 0;
}

static struct ibv_mr *
reg_mr(struct ibv_pd *base, void *addr, size_t length, uint64_t iova, unsigned int flags)
{
	struct pd *pd = TO(pd, base);
	struct mr *mr;
	uint32_t access;
	int error = access_of(flags, &access);

	if ((flags & IBV_ACCESS_ZERO_BASED) != 0)
		iova = 0;
	if (error != 0) {
		errno = error;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (mr == NULL)
		return NULL;
	mr->access = flags;
	error = one_mem_register_iova(context_of(base->context)->client, pd->id, (uintptr_t)addr, length,
				      iova, access, &mr->mr);
	if (error != 0) {
		free(mr);
		errno = error == -EDQUOT ? ENOMEM : -error;
		return NULL;
	}
	mr->base.context = base->context;
	mr->base.pd = base;
	mr->base.addr = addr;
	mr->base.length = length;
	mr->base.handle = mr->mr.id;
	mr->base.lkey = mr->mr.lkey;
	mr->base.rkey = mr->mr.rkey;
	atomic_fetch_add_explicit(&pd->users, 1, memory_order_relaxed);
	return &mr->base;
}

#undef ibv_reg_mr
struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *
ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return reg_mr(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return reg_mr(pd, addr, length, iova, access);
}

int
ibv_dereg_mr(struct ibv_mr *base)
{
	struct mr *mr = TO(mr, base);
	int error = one_mem_deregister(context_of(base->context)->client, &mr->mr);

	if (error != 0 && error != -ECONNRESET)
		return -error;
	atomic_fetch_sub_explicit(&TO(pd, base->pd)->users, 1, memory_order_relaxed);
	free(mr);
	return 0;
}

/* The client core keeps registered memory out of children. */
int
ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status
ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

int
ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int
ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
