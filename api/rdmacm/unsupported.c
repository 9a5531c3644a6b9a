/* SPDX-License-Identifier: BSD-3-Clause */
/* Unsupported calls: each is refused with EOPNOTSUPP.  doc/verbs.md has the table of supported ones. */
#include <sys/types.h>

#include "rdmacm/cma.h"

#define ABSENT(name, parameters)                          \
	int name parameters                               \
	{                                                 \
		return cma_end(__func__, EOPNOTSUPP, id); \
	}

ABSENT(rdma_join_multicast, (struct rdma_cm_id * id, struct sockaddr *addr, void *context))
ABSENT(rdma_join_multicast_ex, (struct rdma_cm_id * id, struct rdma_cm_join_mc_attr_ex *attr, void *context))
ABSENT(rdma_leave_multicast, (struct rdma_cm_id * id, struct sockaddr *addr))
ABSENT(rdma_reject_ece, (struct rdma_cm_id * id, const void *data, uint8_t len))
ABSENT(rdma_set_local_ece, (struct rdma_cm_id * id, struct ibv_ece *ece))
ABSENT(rdma_get_remote_ece, (struct rdma_cm_id * id, struct ibv_ece *ece))

/* ---- rsockets: all calls are refused, so that no program gets a socket ---- */

/* ssize_t is as wide as the widest result: the caller gets -1 for each of the result types. */
#define REFUSED(name)                                       \
	ssize_t name(void);                                 \
	ssize_t name(void)                                  \
	{                                                   \
		return cma_end(__func__, EOPNOTSUPP, NULL); \
	}

REFUSED(raccept)
REFUSED(rbind)
REFUSED(rclose)
REFUSED(rconnect)
REFUSED(rfcntl)
REFUSED(rgetpeername)
REFUSED(rgetsockname)
REFUSED(rgetsockopt)
REFUSED(riomap)
REFUSED(riounmap)
REFUSED(riowrite)
REFUSED(rlisten)
REFUSED(rpoll)
REFUSED(rread)
REFUSED(rreadv)
REFUSED(rrecv)
REFUSED(rrecvfrom)
REFUSED(rrecvmsg)
REFUSED(rselect)
REFUSED(rsend)
REFUSED(rsendmsg)
REFUSED(rsendto)
REFUSED(rsetsockopt)
REFUSED(rshutdown)
REFUSED(rsocket)
REFUSED(rwrite)
REFUSED(rwritev)
