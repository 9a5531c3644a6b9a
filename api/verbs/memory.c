/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "verbs/refused.h"
#include "verbs/mem.h"

#define KNOWN_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                  \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | \
	 IBV_ACCESS_OPTIONAL_RANGE)

static int
access_of(unsigned int flags, uint32_t *access)
{
	if ((flags & IBV_ACCESS_ON_DEMAND) != 0)
		return refused_because(
			EOPNOTSUPP,
			"access = %#x: no support for on-demand paging; leave IBV_ACCESS_ON_DEMAND out",
			flags);
	if ((flags & ~(unsigned int)KNOWN_ACCESS) != 0)
		return refused_because(EINVAL, "access = %#x: unknown rights %#x; leave those out", flags,
				       flags & ~(unsigned int)KNOWN_ACCESS);
	if ((flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
	    (flags & IBV_ACCESS_LOCAL_WRITE) == 0)
		return refused_because(
			EINVAL,
			"access = %#x: rights for remote writes and atomics require local write; add IBV_ACCESS_LOCAL_WRITE",
			flags);
	*access = ONE_ACCESS_LOCAL_READ | mem_remote_access(flags);
	if ((flags & IBV_ACCESS_LOCAL_WRITE) != 0)
		*access |= ONE_ACCESS_LOCAL_WRITE;
	return 0;
}

/* Notes why a registration failed.  Returns the errno for the application, or 0. */
static int
explain_register(int error, const void *addr, size_t length, uint64_t iova)
{
	if (error == -EFAULT || error == -EACCES)
		return refused_because(
			-error,
			"addr = %p: these %zu bytes are not all mapped with the rights in access; give memory that is allocated, and writable for IBV_ACCESS_LOCAL_WRITE",
			addr, length);
	if (error == -EINVAL && length == 0)
		return refused_because(EINVAL, "length = 0: a region has at least 1 byte; give the length");
	if (error == -EINVAL)
		return refused_because(
			EINVAL,
			"addr = %p: %zu bytes at iova %#" PRIx64
			" exceed the address space, or addr and iova differ in their offset into a page; give another length or iova",
			addr, length, iova);
	return error == -EDQUOT ? ENOMEM : -error;
}

/* Returns 0 or a positive errno. */
static int
register_memory(struct ibv_pd *pd, const void *addr, size_t length, uint64_t iova, unsigned int flags,
		struct one_mr *mr)
{
	uint32_t access = 0;
	int error = access_of(flags, &access);

	if (error != 0)
		return error;
	error = one_mem_register_iova(context_of(pd->context)->client, TO(pd, pd)->id, (uintptr_t)addr,
				      length, iova, access, mr);
	return explain_register(error, addr, length, iova);
}

static struct ibv_mr *
reg_mr(const char *function, struct ibv_pd *base, void *addr, size_t length, uint64_t iova,
       unsigned int flags)
{
	struct mr *mr = calloc(1, sizeof(*mr));
	int error;

	if ((flags & IBV_ACCESS_ZERO_BASED) != 0)
		iova = 0;
	error = mr == NULL ? ENOMEM : register_memory(base, addr, length, iova, flags, &mr->mr);
	if (error != 0) {
		free(mr);
		return refused_null(function, error, "pd", base);
	}
	mr->access = flags;
	mr->iova = iova;
	mr->base.context = base->context;
	mr->base.pd = base;
	mr->base.addr = addr;
	mr->base.length = length;
	mr->base.handle = mr->mr.id;
	mr->base.lkey = mr->mr.lkey;
	mr->base.rkey = mr->mr.lkey; /* set without remote rights as well: ibv_rereg_mr() may add them */
	atomic_fetch_add_explicit(&TO(pd, base)->users, 1, memory_order_relaxed);
	return &mr->base;
}

#undef ibv_reg_mr
struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr("ibv_reg_mr", pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *
ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return reg_mr("ibv_reg_mr_iova", pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return reg_mr("ibv_reg_mr_iova2", pd, addr, length, iova, access);
}

/* True if the copy thread can read these bytes: the memory of some drivers is for their processors only. */
static bool
can_be_read(uint8_t *at, size_t length)
{
	uint8_t edges[2];
	struct iovec here = {edges, sizeof(edges)};
	struct iovec there[2] = {{at, 1}, {at + length - 1, 1}};

	return process_vm_readv(getpid(), &here, 1, there, 2, 0) == sizeof(edges);
}

/* Maps whole pages of the file.  Returns 0 or a positive errno. */
static int
map_file(int fd, uint64_t offset, size_t length, bool writable, uint8_t **out)
{
	uint8_t *at =
		mmap(NULL, length, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, (off_t)offset);

	if (at == MAP_FAILED && errno == ENOMEM)
		return ENOMEM;
	if (at != MAP_FAILED && can_be_read(at, length)) {
		*out = at;
		return 0;
	}
	if (at != MAP_FAILED)
		munmap(at, length);
	return refused_because(
		EOPNOTSUPP,
		"fd = %d: these %zu bytes from offset %" PRIu64
		" cannot be mapped and read, and only processors access memory here; give a file that can be mapped",
		fd, length, offset);
}

/* A file that can be mapped is memory like any other.  Programs ask by fd -1 whether the memory of a GPU can
 * be registered: it cannot, so the errno is EOPNOTSUPP for it, too. */
struct ibv_mr *
ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	uint64_t within = offset % (uint64_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = NULL;
	struct ibv_mr *mr;
	int error;

	if (fd >= 0 && (length == 0 || length > SIZE_MAX - within))
		error = explain_register(-EINVAL, NULL, length, iova);
	else
		error = map_file(fd, offset - within, length + within, (access & IBV_ACCESS_LOCAL_WRITE) != 0,
				 &at);
	if (error != 0)
		return refused_null("ibv_reg_dmabuf_mr", error, "pd", pd);
	mr = reg_mr("ibv_reg_dmabuf_mr", pd, at + within, length, iova, (unsigned int)access);
	if (mr == NULL) {
		error = errno;
		munmap(at, length + within);
		errno = error;
		return NULL;
	}
	mr->addr = (void *)(uintptr_t)offset; /* as rdma-core has it */
	TO(mr, mr)->mapping = at;
	TO(mr, mr)->mapped = length + within;
	return mr;
}

/* Registers anew with the changed attributes, and swaps, so that the new region has the old keys.  -errno. */
static int
swap_registration(struct mr *mr, struct ibv_pd *pd, const void *addr, size_t length, uint64_t iova,
		  unsigned int flags)
{
	struct one_client *client = context_of(mr->base.context)->client;
	struct one_msg msg = {.type = ONE_MSG_MR_SWAP};
	struct one_mr next;
	int error = register_memory(pd, addr, length, iova, flags, &next);

	if (error != 0)
		return -error;
	one_posted_begin(client);
	msg.mr_swap.mr = mr->mr.id;
	msg.mr_swap.other = next.id;
	error = one_call(client, &msg, NULL, 0, NULL);
	if (error != 0) {
		one_mem_deregister(client, &next);
		if (error == -EBUSY)
			refused_because(error,
					"mr = %p: a memory window is bound to it; unbind or free that first",
					(const void *)&mr->base);
		return error;
	}
	/* An error means that the data plane is lost; the memory is released in any case. */
	one_mem_deregister(client, &mr->mr);
	mr->mr = next;
	return 0;
}

int
ibv_rereg_mr(struct ibv_mr *base, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	const int known =
		IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
	struct mr *mr = TO(mr, base);
	bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
	unsigned int rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? (unsigned int)access : mr->access;
	uint64_t iova = mr->iova;
	int error = 0;

	if ((flags & IBV_REREG_MR_CHANGE_PD) == 0)
		pd = base->pd;
	if (moves) {
		iova = (rights & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : (uintptr_t)addr;
	} else {
		addr = base->addr;
		length = base->length;
	}
	if ((flags & ~known) != 0 || flags == 0)
		error = refused_because(-EINVAL,
					"flags = %#x: only the bits %#x can change; give some of these",
					(unsigned int)flags, (unsigned int)known);
	else if (mr->mapping != NULL)
		error = refused_because(
			-EOPNOTSUPP,
			"mr = %p: a dma-buf's region cannot change; deregister it, and register it anew",
			(const void *)base);
	else if (pd == NULL || pd->context != base->context)
		error = refused_because(
			-EINVAL, "pd = %p: the PD belongs to another context; give one of the region's",
			(const void *)pd);
	else
		error = swap_registration(mr, pd, addr, length, iova, rights);
	if (error != 0) {
		errno = refused_explain("ibv_rereg_mr", error == -EDQUOT ? ENOMEM : -error, "mr", base);
		return IBV_REREG_MR_ERR_INPUT; /* the region is unchanged */
	}
	atomic_fetch_sub_explicit(&TO(pd, base->pd)->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&TO(pd, pd)->users, 1, memory_order_relaxed);
	base->pd = pd;
	base->addr = addr;
	base->length = length;
	base->handle = mr->mr.id;
	mr->iova = iova;
	mr->access = rights;
	return 0;
}

int
ibv_dereg_mr(struct ibv_mr *base)
{
	struct mr *mr = TO(mr, base);
	int error = one_mem_deregister(context_of(base->context)->client, &mr->mr);

	if (error == -EBUSY)
		refused_because(EBUSY, "mr = %p: a memory window is bound to it; unbind or free that first",
				(const void *)base);
	if (error != 0 && error != -ECONNRESET)
		return refused_explain("ibv_dereg_mr", -error, "mr", base);
	atomic_fetch_sub_explicit(&TO(pd, base->pd)->users, 1, memory_order_relaxed);
	if (mr->mapping != NULL)
		munmap(mr->mapping, mr->mapped);
	free(mr);
	return 0;
}

/* Nothing to do: the client core excludes registered memory from children. */
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
