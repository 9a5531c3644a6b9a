/* SPDX-License-Identifier: BSD-3-Clause */
/* Unsupported verbs: each is refused with EOPNOTSUPP.  doc/verbs.md has the table of supported ones. */
#include "verbs/context.h"
#include "verbs/refused.h"

#define REFUSED(name, parameters, object)                                      \
	int name parameters                                                    \
	{                                                                      \
		return refused_explain(__func__, EOPNOTSUPP, #object, object); \
	}
#define NULL_REFUSED(type, name, parameters, object)                        \
	type *name parameters                                               \
	{                                                                   \
		return refused_null(__func__, EOPNOTSUPP, #object, object); \
	}
#define NOTHING(name, parameters) \
	void name parameters      \
	{                         \
	}

REFUSED(ibv_attach_mcast, (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid), qp)
REFUSED(ibv_detach_mcast, (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid), qp)
NULL_REFUSED(struct ibv_pd, ibv_import_pd, (struct ibv_context * context, uint32_t handle), context)
NULL_REFUSED(struct ibv_mr, ibv_import_mr, (struct ibv_pd * pd, uint32_t handle), pd)
NULL_REFUSED(struct ibv_dm, ibv_import_dm, (struct ibv_context * context, uint32_t handle), context)
NOTHING(ibv_unimport_pd, (struct ibv_pd * pd))
NOTHING(ibv_unimport_mr, (struct ibv_mr * mr))
NOTHING(ibv_unimport_dm, (struct ibv_dm * dm))
REFUSED(ibv_set_ece, (struct ibv_qp * qp, struct ibv_ece *ece), qp)
/* No caller needs the MAC: the data plane resolves it for address handles and connections. */
REFUSED(ibv_resolve_eth_l2_from_gid,
	(struct ibv_context * context, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid), context)

struct ibv_context *
ibv_import_device(int cmd_fd)
{
	return refused_null(__func__, EOPNOTSUPP, "cmd_fd", NULL);
}

/* Clears *ece, so that a CM offers no enhanced connection options. */
int
ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){0};
	return refused_explain(__func__, EOPNOTSUPP, "qp", qp);
}
