/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_getaddrinfo: the C library's answer as addresses of rdma_cm, without a lookup of routes. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cma.h"

static int
copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from, socklen_t len)
{
	*to = malloc(len);
	if (*to == NULL)
		return -1;
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

static bool
is_datagram(const struct rdma_addrinfo *hints)
{
	return hints->ai_qp_type == IBV_QPT_UD || hints->ai_port_space == RDMA_PS_UDP;
}

/* Returns, like rdma-core, the first answer only. */
static int
query_resolver(const char *node, const char *service, const struct rdma_addrinfo *hints,
	       struct rdma_addrinfo *out)
{
	bool passive = (hints->ai_flags & RAI_PASSIVE) != 0;
	struct addrinfo want = {
		.ai_family = hints->ai_family,
		.ai_socktype = is_datagram(hints) ? SOCK_DGRAM : SOCK_STREAM,
		.ai_flags = (passive ? AI_PASSIVE : 0) |
			    ((hints->ai_flags & RAI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0),
	};
	struct addrinfo *found;
	int error = getaddrinfo(node, service, &want, &found);

	if (error != 0)
		return error;
	out->ai_flags = passive ? RAI_PASSIVE : 0;
	out->ai_family = found->ai_family;
	out->ai_qp_type = is_datagram(hints) ? IBV_QPT_UD : IBV_QPT_RC;
	out->ai_port_space = is_datagram(hints) ? RDMA_PS_UDP : RDMA_PS_TCP;
	error = passive ? copy_addr(&out->ai_src_addr, &out->ai_src_len, found->ai_addr, found->ai_addrlen)
			: copy_addr(&out->ai_dst_addr, &out->ai_dst_len, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return error;
}

/* Without a name, the addresses are those of the hints. */
static int
copy_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *out)
{
	out->ai_flags = hints->ai_flags;
	out->ai_family = hints->ai_family;
	return hints->ai_dst_len == 0 ? 0
				      : copy_addr(&out->ai_dst_addr, &out->ai_dst_len, hints->ai_dst_addr,
						  hints->ai_dst_len);
}

int
rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		 struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	struct rdma_addrinfo *out;
	int error;

	if (node == NULL && service == NULL && hints == NULL) {
		refused_because(EINVAL,
				"node = 0: service and hints are null as well; give one of the three");
		return cma_end(__func__, EINVAL, NULL);
	}
	if (hints == NULL)
		hints = &none;
	out = calloc(1, sizeof(*out));
	if (out == NULL)
		return fail(ENOMEM);
	error = node != NULL || service != NULL ? query_resolver(node, service, hints, out)
						: copy_hints(hints, out);
	if (hints->ai_qp_type != 0)
		out->ai_qp_type = hints->ai_qp_type;
	if (hints->ai_port_space != 0)
		out->ai_port_space = hints->ai_port_space;
	if (error == 0 && out->ai_src_len == 0 && hints->ai_src_len != 0)
		error = copy_addr(&out->ai_src_addr, &out->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	if (error != 0) {
		rdma_freeaddrinfo(out);
		return error;
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
