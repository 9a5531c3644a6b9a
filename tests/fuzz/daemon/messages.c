/* SPDX-License-Identifier: BSD-3-Clause */
#include "messages.h"

#include <string.h>
#include <sys/socket.h>

#include "control/rsm/rsm.h"

#define FORMER 16u

enum {
	NUMBER = OBJECT_KINDS, /* mostly small numbers */
	WIDE,                  /* any number */
	SIZE,                  /* in pages */
	WHERE,                 /* an address, behind its family */
	SEGMENT,
	BYTES
};

struct field {
	uint16_t offset, size;
	uint8_t kind; /* enum object_kind, or one of the above */
};

#define F(member, kind)                                                                       \
	{                                                                                     \
		offsetof(struct one_msg, member), sizeof(((struct one_msg *)0)->member), kind \
	}
#define FIELDS_MAX 16
#define ID(kind)               \
	{                      \
		F(id.id, kind) \
	}
#define QP_CREATE_FIELDS(at)                                                                               \
	F(at.pz, OBJECT_PZ), F(at.send_cq, OBJECT_CQ), F(at.recv_cq, OBJECT_CQ), F(at.conn_cq, OBJECT_CQ), \
		F(at.srq, OBJECT_SRQ), F(at.max_send_wr, NUMBER), F(at.max_recv_wr, NUMBER),               \
		F(at.max_send_sge, NUMBER), F(at.max_recv_sge, NUMBER), F(at.rd_atomic_in, NUMBER),        \
		F(at.rd_atomic_out, NUMBER), F(at.flags, NUMBER)
#define PUBLISH_FIELDS                                                                            \
	F(rsm_publish.mr, OBJECT_MR), F(rsm_publish.segment, SEGMENT),                            \
		F(rsm_publish.default_permission, WIDE), F(rsm_publish.num_access, NUMBER),       \
		F(rsm_publish.access[0].node, NUMBER), F(rsm_publish.access[0].permission, WIDE), \
		F(rsm_publish.access[1].node, NUMBER), F(rsm_publish.access[1].permission, WIDE), \
		F(rsm_publish.signal_cq, OBJECT_CQ), F(rsm_publish.flags, NUMBER)

static const struct field fields[ONE_MSG_MAX][FIELDS_MAX] = {
	[ONE_MSG_PZ_FREE] = ID(OBJECT_PZ),
	[ONE_MSG_CQ_CREATE] = {F(cq_create.entries, NUMBER)},
	[ONE_MSG_CQ_RESIZE] = {F(cq_resize.cq, OBJECT_CQ), F(cq_resize.entries, NUMBER)},
	[ONE_MSG_CQ_FREE] = ID(OBJECT_CQ),
	[ONE_MSG_QP_CREATE] = {QP_CREATE_FIELDS(qp_create)},
	[ONE_MSG_QP_MODIFY] = {F(qp_modify.qp, OBJECT_QP), QP_CREATE_FIELDS(qp_modify.to)},
	[ONE_MSG_QP_CONNECT] = {F(qp_connect.qp, OBJECT_QP), F(qp_connect.family, WHERE),
				F(qp_connect.service, NUMBER), F(qp_connect.private_len, NUMBER),
				F(qp_connect.timeout_us, WIDE), F(qp_connect.param, BYTES),
				F(qp_connect.private_data, BYTES), F(qp_connect.source, NUMBER),
				F(qp_connect.listener, OBJECT_LISTENER)},
	[ONE_MSG_QP_DISCONNECT] = {F(qp_disconnect.qp, OBJECT_QP), F(qp_disconnect.graceful, NUMBER)},
	[ONE_MSG_QP_RESET] = ID(OBJECT_QP),
	[ONE_MSG_QP_FREE] = ID(OBJECT_QP),
	[ONE_MSG_LISTEN] = {F(listen.service, NUMBER), F(listen.cq, OBJECT_CQ), F(listen.flags, NUMBER),
			    F(listen.source, NUMBER), F(listen.family, NUMBER),
			    F(listen.listener, OBJECT_LISTENER)},
	[ONE_MSG_UNLISTEN] = ID(OBJECT_LISTENER),
	[ONE_MSG_CR_ACCEPT] = {F(cr_accept.cr, OBJECT_CR), F(cr_accept.qp, OBJECT_QP),
			       F(cr_accept.private_len, NUMBER), F(cr_accept.param, BYTES),
			       F(cr_accept.private_data, BYTES)},
	[ONE_MSG_CR_REJECT] = {F(cr_reject.cr, OBJECT_CR), F(cr_reject.private_len, NUMBER),
			       F(cr_reject.unanswered, NUMBER), F(cr_reject.private_data, BYTES)},
	[ONE_MSG_CR_HANDOFF] = {F(cr_handoff.cr, OBJECT_CR), F(cr_handoff.service, NUMBER)},
	[ONE_MSG_REGION_ADD] = {F(region_add.size, SIZE), F(region_add.flags, NUMBER)},
	[ONE_MSG_REGION_JOIN] = {F(region_join.region, OBJECT_REGION), F(region_join.num_files, NUMBER),
				 F(region_join.size, SIZE), F(region_join.va, SIZE),
				 F(region_join.page, SIZE), F(region_join.total, NUMBER),
				 F(region_join.file[0].offset, SIZE), F(region_join.file[0].length, SIZE),
				 F(region_join.file[1].offset, SIZE), F(region_join.file[1].length, SIZE)},
	[ONE_MSG_REGION_REMOVE] = ID(OBJECT_REGION),
	[ONE_MSG_MR_CREATE] = {F(mr_create.pz, OBJECT_PZ), F(mr_create.access, NUMBER), F(mr_create.va, SIZE),
			       F(mr_create.length, SIZE), F(mr_create.shift, SIZE),
			       F(mr_create.num_pieces, NUMBER), F(mr_create.flags, NUMBER),
			       F(mr_create.piece[0].region, OBJECT_REGION),
			       F(mr_create.piece[0].offset, SIZE), F(mr_create.piece[0].length, SIZE),
			       F(mr_create.piece[1].region, OBJECT_REGION),
			       F(mr_create.piece[1].offset, SIZE), F(mr_create.piece[1].length, SIZE)},
	[ONE_MSG_MR_FREE] = ID(OBJECT_MR),
	[ONE_MSG_MW_CREATE] = {F(mw_create.pz, OBJECT_PZ)},
	[ONE_MSG_MW_FREE] = ID(OBJECT_MW),
	[ONE_MSG_SRQ_CREATE] = {F(srq_create.pz, OBJECT_PZ), F(srq_create.max_wr, NUMBER),
				F(srq_create.max_sge, NUMBER)},
	[ONE_MSG_SRQ_FREE] = ID(OBJECT_SRQ),
	[ONE_MSG_STAGING] = {F(staging.size, SIZE), F(staging.pz, OBJECT_PZ)},
	[ONE_MSG_RSM_PUBLISH] = {PUBLISH_FIELDS},
	[ONE_MSG_RSM_REPUBLISH] = {PUBLISH_FIELDS},
	[ONE_MSG_RSM_UNPUBLISH] = {PUBLISH_FIELDS},
	[ONE_MSG_RSM_CONNECT] = {F(rsm_connect.node, NUMBER), F(rsm_connect.segment, SEGMENT),
				 F(rsm_connect.permission, WIDE), F(rsm_connect.cq, OBJECT_CQ),
				 F(rsm_connect.max_send_wr, NUMBER), F(rsm_connect.flags, NUMBER),
				 F(rsm_connect.pz, OBJECT_PZ), F(rsm_connect.signal_cq, OBJECT_CQ)},
	[ONE_MSG_RSM_DISCONNECT] = ID(OBJECT_QP),
	[ONE_MSG_RSM_TOPOLOGY] = {F(rsm_topology.port, NUMBER), F(rsm_topology.first, NUMBER)},
	[ONE_MSG_RSM_SIGNAL] = {F(rsm_signal.segment, SEGMENT), F(rsm_signal.flags, NUMBER)},
	[ONE_MSG_RSM_MAP] = {F(rsm_map.qp, OBJECT_QP), F(rsm_map.permission, WIDE)},
	[ONE_MSG_SRQ_LIMIT] = {F(srq_limit.srq, OBJECT_SRQ), F(srq_limit.limit, NUMBER)},
	[ONE_MSG_QP_RTR] = {F(qp_rtr.qp, OBJECT_QP), F(qp_rtr.family, WHERE), F(qp_rtr.peer_qpn, WIDE),
			    F(qp_rtr.recv_psn, WIDE), F(qp_rtr.access, NUMBER), F(qp_rtr.flow_label, NUMBER),
			    F(qp_rtr.path_mtu, WIDE), F(qp_rtr.traffic_class, NUMBER),
			    F(qp_rtr.hop_limit, NUMBER), F(qp_rtr.rd_atomic_in, NUMBER),
			    F(qp_rtr.min_rnr_timer, NUMBER), F(qp_rtr.source, NUMBER)},
	[ONE_MSG_QP_RTS] = {F(qp_rts.qp, OBJECT_QP), F(qp_rts.send_psn, WIDE), F(qp_rts.timeout, NUMBER),
			    F(qp_rts.retry_count, NUMBER), F(qp_rts.rnr_retry, NUMBER),
			    F(qp_rts.rd_atomic_out, NUMBER)},
	[ONE_MSG_QP_SET] = {F(qp_set.qp, OBJECT_QP), F(qp_set.to, BYTES)},
	[ONE_MSG_QP_ERROR] = ID(OBJECT_QP),
	[ONE_MSG_CHANNEL_CLOSE] = ID(OBJECT_CHANNEL),
	[ONE_MSG_PORT] = {F(port_query.port, NUMBER)},
	[ONE_MSG_AH_CREATE] = {F(ah_create.pz, OBJECT_PZ), F(ah_create.family, WHERE),
			       F(ah_create.flow_label, NUMBER), F(ah_create.traffic_class, NUMBER),
			       F(ah_create.hop_limit, NUMBER), F(ah_create.source, NUMBER)},
	[ONE_MSG_AH_FREE] = ID(OBJECT_AH),
	[ONE_MSG_QP_DATAGRAM] = {F(qp_datagram.qp, OBJECT_QP), F(qp_datagram.state, NUMBER),
				 F(qp_datagram.qkey, WIDE), F(qp_datagram.send_psn, WIDE)},
	[ONE_MSG_SIDR_ASK] = {F(sidr_ask.cq, OBJECT_CQ), F(sidr_ask.family, WHERE), F(sidr_ask.service, WIDE),
			      F(sidr_ask.private_len, NUMBER), F(sidr_ask.private_data, BYTES),
			      F(sidr_ask.source, NUMBER), F(sidr_ask.listener, OBJECT_LISTENER)},
	[ONE_MSG_SOURCE] = {F(source_query.family, WHERE)},
	[ONE_MSG_SIDR_ANSWER] = {F(sidr_answer.sidr, OBJECT_SIDR), F(sidr_answer.qp, OBJECT_QP),
				 F(sidr_answer.private_len, NUMBER), F(sidr_answer.private_data, BYTES)},
	[ONE_MSG_SIDR_FREE] = ID(OBJECT_SIDR),
	[ONE_MSG_SRQ_SWAP] = {F(srq_swap.srq, OBJECT_SRQ), F(srq_swap.other, OBJECT_SRQ)},
	[ONE_MSG_MR_SWAP] = {F(mr_swap.mr, OBJECT_MR), F(mr_swap.other, OBJECT_MR)},
};

static uint32_t former[OBJECT_KINDS][FORMER], num_former[OBJECT_KINDS];

void
messages_begin(void)
{
	memset(num_former, 0, sizeof(num_former));
}

/* Returns an id. 0 to 0xbf: of an object of this attachment; to 0xdf: of a former object; else never
 * assigned. */
static uint32_t
object_id(struct client *client, enum object_kind kind, struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1);
	const struct table *table = &client->table[kind];

	if (which >= 0xe0)
		return which == 0xff ? (uint32_t)record_number(record, 4) : which - 0xe0;
	if (which >= 0xc0)
		return former[kind][which % FORMER];
	for (uint32_t n = which, i = 0; table->used > 0 && i < table->size; i = (i + 1) % table->size) {
		const struct object *object = table_at(table, i);

		if (object == NULL || n-- % table->used != 0)
			continue;
		former[kind][num_former[kind]++ % FORMER] = object->id;
		return object->id;
	}
	return 0;
}

uint32_t
message_segment(uint8_t which)
{
	const struct segment *segment;

	LIST_FOREACH(segment, &control.segments, link)
		if (which-- == 0)
			return segment->id;
	return which % 4 == 3 ? 0 : 0x400000u + which;
}

static uint64_t
number(struct field field, struct bytes *record)
{
	uint64_t n = record_number(record, 1);

	switch (field.kind) {
	case SIZE:
		return n < 0x80 ? n * 4096 : n == 0xff ? record_number(record, 8) : n - 0x80;
	case WIDE:
		return n == 0xff ? record_number(record, 8) : n == 0xfe ? UINT64_MAX : n << n % 7 * 8;
	case SEGMENT:
		return message_segment((uint8_t)n);
	default:
		return n == 0xff ? record_number(record, 4) : n;
	}
}

/* Fills in the family, and the address, whose distance from the family depends on the type. */
static void
where(struct one_msg *msg, struct field field, uint32_t type, struct bytes *record)
{
	uint8_t which = (uint8_t)record_number(record, 1);
	uint8_t addr[16] = {192, 0, 2, which % 8};
	uint16_t family = which < 0xf0 ? AF_INET : which == 0xff ? 77 : AF_INET6;
	size_t at = type == ONE_MSG_QP_CONNECT  ? offsetof(struct one_msg, qp_connect.addr)
		    : type == ONE_MSG_QP_RTR    ? offsetof(struct one_msg, qp_rtr.addr)
		    : type == ONE_MSG_AH_CREATE ? offsetof(struct one_msg, ah_create.addr)
		    : type == ONE_MSG_SOURCE    ? offsetof(struct one_msg, source_query.addr)
						: offsetof(struct one_msg, sidr_ask.addr);

	if (which >= 0xe0)
		record_fill(record, addr, sizeof(addr));
	memcpy((uint8_t *)msg + field.offset, &family, sizeof(family));
	memcpy((uint8_t *)msg + at, addr, sizeof(addr));
}

void
message_fill(struct one_msg *msg, struct client *client, uint32_t type, struct bytes *record)
{
	msg->type = type;
	if (type >= ONE_MSG_MAX)
		return;
	for (int i = 0; i < FIELDS_MAX && fields[type][i].size != 0; i++) {
		struct field field = fields[type][i];
		uint64_t value;

		if (field.kind == BYTES) {
			record_fill(record, (uint8_t *)msg + field.offset, field.size);
			continue;
		}
		if (field.kind == WHERE) {
			where(msg, field, type, record);
			continue;
		}
		value = field.kind < OBJECT_KINDS ? object_id(client, (enum object_kind)field.kind, record)
						  : number(field, record);
		memcpy((uint8_t *)msg + field.offset, &value, field.size);
	}
}
