/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of handlers: requests of attachments, the release of each object class, events of ports. */
#include "control/daemon/daemon.h"

#include "control/attach/client.h"
#include "control/connect/ah.h"
#include "control/connect/resolution.h"
#include "control/objects/objects.h"
#include "control/rsm/rsm.h"

#define STEP(name, type, function)         \
	static void name(void *object)     \
	{                                  \
		struct type *one = object; \
		function(one);             \
	}

#define REMOVE(name, type, function)                       \
	static void name(void *object, command_done *done) \
	{                                                  \
		struct type *one = object;                 \
		function(one, done);                       \
	}

STEP(listener_unhook, listener, listener_close)
STEP(cr_unhook, cr, cr_destroy)
STEP(sidr_unhook, resolution, resolution_end)
STEP(qp_unhook, qp, conn_detach)
STEP(qp_end, qp, qp_destroy)
REMOVE(srq_off_core, srq, srq_remove)
STEP(srq_end, srq, srq_destroy)
REMOVE(cq_off_core, cq, cq_remove)
STEP(cq_end, cq, cq_destroy)
REMOVE(channel_off_core, channel, channel_remove)
STEP(channel_end, channel, channel_destroy)
STEP(ah_off_net, ah, ah_unhook)
STEP(ah_end, ah, ah_destroy)
STEP(mw_keys, mw, mw_withdraw)
STEP(mw_end, mw, mw_destroy)
STEP(mr_keys, mr, mr_withdraw)
STEP(mr_end, mr, mr_destroy)
STEP(mr_end_on_request, mr, mr_release)
STEP(region_end, region, region_destroy)
STEP(region_end_on_request, region, region_release)
STEP(pz_end, pz, pz_destroy)

static void
qp_off_core(void *object, command_done *done)
{
	qp_withdraw(object);
}

static bool
leave_client(struct client *client)
{
	return conns_leave(client) && rsm_leave(client);
}

#define CLASS(kind, about, own, maximum, ...) \
	[OBJECT_##kind] = {.subject = ONE_SUBJECT_##about, .bytes = own, .limit = maximum, __VA_ARGS__}

const struct attach_calls calls_of_attach =
	{
		.request =
			{
				[ONE_MSG_HELLO] = {"hello", hello_request},
				[ONE_MSG_PZ_CREATE] = {"pz_create", pz_create},
				[ONE_MSG_PZ_FREE] = {"pz_free", object_free_request},
				[ONE_MSG_CQ_CREATE] = {"cq_create", cq_create},
				[ONE_MSG_CQ_RESIZE] = {"cq_resize", cq_resize_request},
				[ONE_MSG_CQ_FREE] = {"cq_free", cq_free},
				[ONE_MSG_QP_CREATE] = {"qp_create", qp_create},
				[ONE_MSG_QP_MODIFY] = {"qp_modify", qp_modify},
				[ONE_MSG_QP_CONNECT] = {"qp_connect", qp_connect},
				[ONE_MSG_QP_DISCONNECT] = {"qp_disconnect", qp_disconnect},
				[ONE_MSG_QP_CONFIRM] = {"qp_confirm", conn_confirm},
				[ONE_MSG_QP_RESET] = {"qp_reset", qp_reset_request},
				[ONE_MSG_QP_FREE] = {"qp_free", qp_free},
				[ONE_MSG_LISTEN] = {"listen", listen_create},
				[ONE_MSG_UNLISTEN] = {"unlisten", object_free_request},
				[ONE_MSG_CR_ACCEPT] = {"cr_accept", cr_accept},
				[ONE_MSG_CR_REJECT] = {"cr_reject", cr_reject},
				[ONE_MSG_CR_HANDOFF] = {"cr_handoff", cr_handoff},
				[ONE_MSG_REGION_ADD] = {"region_add", region_add},
				[ONE_MSG_REGION_JOIN] = {"region_join", region_join},
				[ONE_MSG_REGION_REMOVE] = {"region_remove", object_free_request},
				[ONE_MSG_MR_CREATE] = {"mr_create", mr_create},
				[ONE_MSG_MR_FREE] = {"mr_free", mr_free},
				[ONE_MSG_MR_SWAP] = {"mr_swap", mr_swap},
				[ONE_MSG_MW_CREATE] = {"mw_create", mw_create},
				[ONE_MSG_MW_FREE] = {"mw_free", object_free_request},
				[ONE_MSG_SRQ_CREATE] = {"srq_create", srq_create},
				[ONE_MSG_SRQ_LIMIT] = {"srq_limit", srq_limit},
				[ONE_MSG_SRQ_SWAP] = {"srq_swap", srq_swap},
				[ONE_MSG_SRQ_FREE] = {"srq_free", object_free_request},
				[ONE_MSG_COPIES] = {"copies", copies_start},
				[ONE_MSG_QP_RTR] = {"qp_rtr", qp_rtr},
				[ONE_MSG_QP_RTS] = {"qp_rts", qp_rts},
				[ONE_MSG_QP_SET] = {"qp_set", qp_set},
				[ONE_MSG_QP_ERROR] = {"qp_error", qp_error},
				[ONE_MSG_PORT] = {"port", hello_port_request},
				[ONE_MSG_SOURCE] = {"source", hello_source_request},
				[ONE_MSG_CHANNEL_OPEN] = {"channel_open", channel_open},
				[ONE_MSG_CHANNEL_CLOSE] = {"channel_close", object_free_request},
				[ONE_MSG_AH_CREATE] = {"ah_create", ah_create},
				[ONE_MSG_AH_FREE] = {"ah_free", ah_free},
				[ONE_MSG_QP_DATAGRAM] = {"qp_datagram", qp_datagram},
				[ONE_MSG_SIDR_ASK] = {"sidr_ask", resolution_ask},
				[ONE_MSG_SIDR_ANSWER] = {"sidr_answer", resolution_answer},
				[ONE_MSG_SIDR_FREE] = {"sidr_free", resolution_forget},
				[ONE_MSG_STAGING] = {"staging", staging_create},
				[ONE_MSG_RSM_PUBLISH] = {"rsm_publish", rsm_publish},
				[ONE_MSG_RSM_REPUBLISH] = {"rsm_republish", rsm_republish},
				[ONE_MSG_RSM_UNPUBLISH] = {"rsm_unpublish", rsm_unpublish},
				[ONE_MSG_RSM_CONNECT] = {"rsm_connect", rsm_connect},
				[ONE_MSG_RSM_DISCONNECT] = {"rsm_disconnect", rsm_disconnect},
				[ONE_MSG_RSM_TOPOLOGY] = {"rsm_topology", rsm_topology},
				[ONE_MSG_RSM_SIGNAL] = {"rsm_signal", rsm_signal},
				[ONE_MSG_RSM_MAP] = {"rsm_map", rsm_map},
			},
		/* `bytes` bounds the object, its counterpart on the core, and its dependents (a queue pair's
		 * connection, a channel's sockets). */
		.class =
			{
				CLASS(LISTENER, LISTENER, 256, "max_qp", .free = ONE_MSG_UNLISTEN,
				      .unhook = listener_unhook, .destroy = listener_unhook),
				CLASS(CR, CR, 1024, "", .unhook = cr_unhook),
				CLASS(SIDR, CR, 512, "", .unhook = sidr_unhook),
				CLASS(QP, QP, 4096, "max_qp", .unhook = qp_unhook, .remove = qp_off_core,
				      .destroy = qp_end),
				CLASS(SRQ, SRQ, 512, "max_srq", .free = ONE_MSG_SRQ_FREE,
				      .remove = srq_off_core, .destroy = srq_end),
				CLASS(CQ, CQ_SEND, 512, "max_cq", .free = ONE_MSG_CQ_FREE,
				      .remove = cq_off_core, .destroy = cq_end),
				CLASS(CHANNEL, CHANNEL, 2048, "max_channels", .free = ONE_MSG_CHANNEL_CLOSE,
				      .remove = channel_off_core, .destroy = channel_end),
				CLASS(AH, AH, 512, "max_ah", .unhook = ah_off_net, .destroy = ah_end),
				CLASS(MW, MW, 256, "max_mw", .free = ONE_MSG_MW_FREE, .withdraw = mw_keys,
				      .destroy = mw_end),
				CLASS(MR, MR, 512, "max_mr", .free = ONE_MSG_MR_FREE, .withdraw = mr_keys,
				      .destroy = mr_end, .release = mr_end_on_request),
				CLASS(REGION, REGION, 384, "", .free = ONE_MSG_REGION_REMOVE,
				      .destroy = region_end, .release = region_end_on_request),
				CLASS(PZ, PZ, 128, "max_pz", .free = ONE_MSG_PZ_FREE, .destroy = pz_end),
			},
		.leave = leave_client,
		.reclaim = mr_cache_reclaim,
		.endpoint = &conn_kind,
		.import = &import_kind,
		.export = &export_kind,
		.rsm_request = rsm_request,
};

/* Posts the asynchronous event of verbs; uDAPL and RSMAPI define none. */
static void
path_link(const struct path_port *port)
{
	const struct one_cqe event = {.type = ONE_CQE_ASYNC,
				      .status = port->link_up ? ONE_ASYNC_LINK_UP : ONE_ASYNC_LINK_DOWN,
				      .flags = ONE_CQE_NOTIFY};
	struct client *client;

	if (port->link_up)
		rsm_find_peers();
	if (port->link_up == port->link_reported)
		return;
	TAILQ_FOREACH(client, &control.clients, link)
		if (client->state == CLIENT_ATTACHED && client->kind == ONE_KIND_VERBS &&
		    client->port == port)
			cq_post(client->async_cq, NULL, &event);
}

const struct path_calls calls_of_path = {
	.cm = conn_event,
	.sidr = resolution_event,
	.mad = host_mad,
	.link = path_link,
	.sends = conn_sends,
};
