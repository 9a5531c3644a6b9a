/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_getaddrinfo: the C library's answer, for the port space that there is. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cma.h"

static int
fill(struct rdma_addrinfo *out, const struct addrinfo *from, bool passive)
{
	struct sockaddr *addr = malloc(from->ai_addrlen);

	if (addr == NULL)
		return ENOMEM;
	memcpy(addr, from->ai_addr, from->ai_addrlen);
	out->ai_family = from->ai_family;
	out->ai_qp_type = IBV_QPT_RC;
	out->ai_port_space = RDMA_PS_TCP;
	if (passive) {
		out->ai_flags = RAI_PASSIVE;
		out->ai_src_addr = addr;
		out->ai_src_len = from->ai_addrlen;
	} else {
		out->ai_dst_addr = addr;
		out->ai_dst_len = from->ai_addrlen;
	}
	return 0;
}

int
rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		 struct rdma_addrinfo **res)
{
	bool passive = hints != NULL && (hints->ai_flags & RAI_PASSIVE) != 0;
	struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0}, *found;
	struct rdma_addrinfo *out;
	int error;

	if (hints != NULL && ((hints->ai_port_space != 0 && hints->ai_port_space != RDMA_PS_TCP) ||
			      (hints->ai_qp_type != 0 && hints->ai_qp_type != IBV_QPT_RC)))
		return fail(EOPNOTSUPP);
	if (hints != NULL) {
		want.ai_family = hints->ai_family;
		if ((hints->ai_flags & RAI_NUMERICHOST) != 0)
			want.ai_flags |= AI_NUMERICHOST;
	}
	error = getaddrinfo(node, service, &want, &found);
	if (error != 0)
		return error;
	out = calloc(1, sizeof(*out));
	error = out == NULL ? ENOMEM : fill(out, found, passive);
	freeaddrinfo(found);
	if (error != 0) {
		free(out);
		return fail(error);
	}
	*res = out;
	return 0;
}

void
rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res != NULL) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}
