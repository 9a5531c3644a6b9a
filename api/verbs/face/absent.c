/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verbs that this library does not have.  They say so; the table is in doc/verbs.md.
 */
#include "verbs/base/context.h"
#include "verbs/base/refused.h"

int
ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return refused_tell(__func__, EOPNOTSUPP, "qp", qp);
}

int
ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return refused_tell(__func__, EOPNOTSUPP, "qp", qp);
}

struct ibv_mr *
ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	return refused_null(__func__, EOPNOTSUPP, "pd", pd);
}

struct ibv_context *
ibv_import_device(int cmd_fd)
{
	return refused_null(__func__, EOPNOTSUPP, "cmd_fd", NULL);
}

struct ibv_pd *
ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	return refused_null(__func__, EOPNOTSUPP, "context", context);
}

void
ibv_unimport_pd(struct ibv_pd *pd)
{
}

struct ibv_mr *
ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	return refused_null(__func__, EOPNOTSUPP, "pd", pd);
}

void
ibv_unimport_mr(struct ibv_mr *mr)
{
}

struct ibv_dm *
ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	return refused_null(__func__, EOPNOTSUPP, "context", context);
}

void
ibv_unimport_dm(struct ibv_dm *dm)
{
}

int
ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return refused_tell(__func__, EOPNOTSUPP, "qp", qp);
}

/* No options: a CM has none to offer. */
int
ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){0};
	return refused_tell(__func__, EOPNOTSUPP, "qp", qp);
}

/* Nobody needs to know: address handles and connections have the data plane find out. */
int
ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6],
			    uint16_t *vid)
{
	return refused_tell(__func__, EOPNOTSUPP, "context", context);
}
