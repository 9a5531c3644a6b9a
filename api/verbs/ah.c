/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles.  The data plane resolves the path when a handle is created; requests name it by its id. */
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/refused.h"
#include "verbs/device.h"
#include "verbs/mem.h"

#define ECN 3u /* bits of the traffic class that the network sets, not the sender */

/* Returns 0 or a positive errno. */
static int
request_ah(struct context *context, uint32_t pz, const struct ibv_ah_attr *attr, uint32_t *id)
{
	struct one_msg msg = {.type = ONE_MSG_AH_CREATE};
	struct one_ah_create *create = &msg.ah_create;
	struct one_reply reply;
	int error;

	create->family = device_address(&attr->grh.dgid, create->addr);
	if (attr->is_global == 0 || attr->port_num != VERBS_PORT ||
	    attr->grh.sgid_index >= context->num_addrs ||
	    create->family != context->addr[attr->grh.sgid_index].family)
		return refused_because(
			EINVAL,
			"attr = %p: is_global has to be 1, port_num 1, sgid_index below %u, and dgid an address of the family of that GID; see ibv_query_gid(3)",
			(const void *)attr, context->num_addrs);
	create->source = attr->grh.sgid_index + 1u;
	create->pz = pz;
	create->flow_label = attr->grh.flow_label & 0xfffff;
	create->traffic_class = attr->grh.traffic_class;
	create->hop_limit = attr->grh.hop_limit;
	error = one_call(context->client, &msg, NULL, 0, &reply);
	if (error == 0)
		*id = reply.id.id;
	/* Like the kernel: ETIMEDOUT for a neighbour that does not answer, ENOMEM for too many handles. */
	return error == -EHOSTUNREACH ? ETIMEDOUT : error == -EDQUOT ? ENOMEM : -error;
}

struct ibv_ah *
ibv_create_ah(struct ibv_pd *base, struct ibv_ah_attr *attr)
{
	struct pd *pd = TO(pd, base);
	struct ah *ah = calloc(1, sizeof(*ah));
	int error = ah == NULL ? ENOMEM : request_ah(context_of(base->context), pd->id, attr, &ah->id);

	if (error != 0) {
		free(ah);
		return refused_null("ibv_create_ah", error, "pd", base);
	}
	ah->base.context = base->context;
	ah->base.pd = base;
	ah->base.handle = ah->id;
	atomic_fetch_add_explicit(&pd->users, 1, memory_order_relaxed);
	return &ah->base;
}

int
ibv_destroy_ah(struct ibv_ah *base)
{
	struct ah *ah = TO(ah, base);
	struct one_client *client = context_of(base->context)->client;
	int error;

	one_posted_begin(client);
	error = one_call_id(client, ONE_MSG_AH_FREE, ah->id);
	if (error != 0 && error != -ECONNRESET)
		return refused_explain("ibv_destroy_ah", -error, "ah", base);
	atomic_fetch_sub_explicit(&TO(pd, base->pd)->users, 1, memory_order_relaxed);
	free(ah);
	return 0;
}

/* ---- the path back to the sender of a datagram ---- */

/* Parses the IP header that was received with a datagram; false if there is none. */
static bool
parse_grh(const uint8_t bytes[ONE_UD_GRH], struct ibv_global_route *back, union ibv_gid *us)
{
	const uint8_t *ip = bytes + ONE_UD_GRH - sizeof(struct iphdr);

	if (bytes[0] >> 4 == 6) {
		back->traffic_class = (uint8_t)(bytes[0] << 4 | bytes[1] >> 4);
		back->flow_label = (uint32_t)(bytes[1] & 0xf) << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
		back->hop_limit = bytes[7];
		memcpy(back->dgid.raw, bytes + 8, 16);
		memcpy(us->raw, bytes + 24, 16);
	} else if (ip[0] == 0x45) {
		back->traffic_class = ip[1];
		back->hop_limit = ip[8];
		gid_of_address(AF_INET, ip + 12, &back->dgid);
		gid_of_address(AF_INET, ip + 16, us);
	} else {
		return false;
	}
	back->traffic_class &= (uint8_t)~ECN;
	return true;
}

int
ibv_init_ah_from_wc(struct ibv_context *base, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
		    struct ibv_ah_attr *attr)
{
	uint8_t bytes[ONE_UD_GRH];
	struct context *context = context_of(base);
	union ibv_gid us = {.raw = {0}};

	memset(attr, 0, sizeof(*attr));
	memcpy(bytes, grh, sizeof(bytes));
	if (port != VERBS_PORT || (wc->wc_flags & IBV_WC_GRH) == 0 || !parse_grh(bytes, &attr->grh, &us) ||
	    device_gid_index(context, &us) == context->num_addrs) {
		refused_because(
			EINVAL,
			"wc->wc_flags = %#x: IBV_WC_GRH is missing, or port or the header's destination is not this port's; give the wc of a received datagram and the first 40 bytes of its buffer",
			wc->wc_flags);
		errno = refused_explain("ibv_init_ah_from_wc", EINVAL, "context", base);
		return -1;
	}
	attr->is_global = 1;
	attr->port_num = port;
	attr->grh.sgid_index = (uint8_t)device_gid_index(context, &us);
	attr->dlid = wc->slid;
	attr->src_path_bits = wc->dlid_path_bits;
	return 0;
}

struct ibv_ah *
ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0)
		return NULL;
	return ibv_create_ah(pd, &attr);
}
