/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams (IBTA vol. 1, unreliable datagram): one request is one packet, without state between packets. A
 * send is done when the port, or the other core, has its frame.
 *
 * An application names the destination by the id of an address handle, which the control thread has checked
 * and resolved, and by queue pair number and Q_Key. An application cannot choose the source.
 *
 * Received payload follows ONE_UD_GRH bytes that hold the IP header. A datagram that cannot be received is
 * dropped and counted, and nobody is notified. A receive that was too short for a datagram remains for the
 * next one (IBTA vol. 1, 9.9.3, responder class D). An invalid request or receive breaks the queue pair.
 *
 * A receive into memory without mapping is pending until the application's copy thread has moved its bytes.
 * Receives complete in the order in which they were taken. So a datagram that cannot be pending behind such
 * receives is dropped, and its receive stays until they have completed.
 */
#include <errno.h>

#include <rte_ip.h>

#include "dataplane/mem/place.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/transport.h"

#define QPN_FIRST 2u       /* 0 and 1 are for management, */
#define QPN_LAST 0xfffffeu /* all ones is multicast */
#define DATAGRAM_MAX (ONE_UD_GRH + 4096u)

/* Not an enum one_status: try again. */
#define LATER UINT8_MAX

/* Note of a bounced access: the receive that the access completes. */
struct bounced_recv {
	struct completion c;
	struct one_sge sge[ONE_MAX_SGE];
	uint8_t num_sge;
};
_Static_assert(sizeof(struct bounced_recv) <= BOUNCE_NOTE, "a receive is kept as a note");
/* Note of a bounced access that reads the payload of a request: its struct work. */
_Static_assert(sizeof(struct work) <= BOUNCE_NOTE, "a request is kept as a note");

/* Memory of a message. */
struct span_list {
	struct mem_sge sge[ONE_MAX_SGE];
	uint32_t num;
	bool mapped; /* all of it has a mapping */
};

/* Look up the first `len` bytes of the sges. False: a key is refused, or the sges are shorter. */
static bool
resolve_sges(const struct core *core, const struct engine_qp *qp, const struct one_sge *sge, uint32_t num,
	     uint32_t len, uint32_t access, struct span_list *out)
{
	out->num = 0;
	out->mapped = true;
	for (uint32_t i = 0; i < num && len > 0; i++) {
		struct mem_sge *span = &out->sge[out->num];

		if (sge[i].len == 0)
			continue;
		span->va = sge[i].addr;
		span->len = RTE_MIN(sge[i].len, len);
		span->region =
			mem_check(core->env.mem, sge[i].lkey, qp->pz, qp->qpn, access, span->va, span->len);
		if (span->region == NULL)
			return false;
		out->mapped &= span->region->base != NULL;
		out->num++;
		len -= span->len;
	}
	return len == 0;
}

static void
gather_spans(const struct span_list *list, uint8_t *to)
{
	for (uint32_t i = 0; i < list->num; i++) {
		mem_read(list->sge[i].region, list->sge[i].va, to, list->sge[i].len);
		to += list->sge[i].len;
	}
}

/* Write `len` bytes behind the first `skip` bytes of the list. */
static void
scatter_spans(const struct span_list *list, uint32_t skip, const uint8_t *from, uint32_t len)
{
	for (uint32_t i = 0; i < list->num && len > 0; i++) {
		const struct mem_sge *span = &list->sge[i];
		uint32_t n;

		if (skip >= span->len) {
			skip -= span->len;
			continue;
		}
		n = RTE_MIN(span->len - skip, len);
		mem_write(span->region, span->va + skip, from, n);
		from += n;
		len -= n;
		skip = 0;
	}
}

/* ---- sending ---- */

static const struct engine_ah *
ah_find(const struct engine_qp *qp, uint32_t id)
{
	/* Pair with the release stores in engine_ah_new() and engine_ah_free(). */
	struct ah_table *table = atomic_load_explicit(&qp->client->home->ahs, memory_order_acquire);
	uint32_t place = id & 0xffff;
	const struct engine_ah *ah;

	if (table == NULL || place >= ONE_AHS_MAX)
		return NULL;
	ah = atomic_load_explicit(&table->slot[place], memory_order_acquire);
	return ah != NULL && ah->id == id && ah->pz == qp->pz && ah->port == qp->port ? ah : NULL;
}

/* Check all of the request but its memory. Returns the status to fail with, or ONE_STATUS_SUCCESS. */
static uint8_t
check_send(const struct engine_qp *qp, const struct work *work, const struct engine_ah *ah)
{
	uint32_t qpn = ONE_UD_QPN(work->remote_addr);

	if (work->status != ONE_STATUS_SUCCESS)
		return work->status;
	if ((work->op != ONE_OP_SEND && work->op != ONE_OP_SEND_IMM) || ah == NULL || qpn < QPN_FIRST ||
	    qpn > QPN_LAST)
		return ONE_STATUS_LOCAL_QP;
	return work->length > ports[qp->port].info.path_mtu ? ONE_STATUS_LOCAL_LENGTH : ONE_STATUS_SUCCESS;
}

/* Look up the payload of the request. Returns the status to fail with, or ONE_STATUS_SUCCESS. */
static uint8_t
find_payload(const struct core *core, const struct engine_qp *qp, const struct work *work,
	     struct span_list *list)
{
	list->num = 0;
	list->mapped = true;
	if ((work->flags & ONE_WQE_INLINE) == 0 &&
	    !resolve_sges(core, qp, work->sge, work->num_sge, work->length, ONE_ACCESS_LOCAL_READ, list))
		return ONE_STATUS_LOCAL_PROTECTION;
	return ONE_STATUS_SUCCESS;
}

/* Fill in the payload. `copied`: the payload, read from memory without mapping; NULL: the memory has a
 * mapping. Returns true if the frame is sealed. */
static bool
fill_payload(const struct engine_ah *ah, const struct work *work, const struct span_list *list,
	     const uint8_t *copied, uint8_t *frame, uint8_t *payload)
{
	if ((work->flags & ONE_WQE_INLINE) != 0)
		memcpy(payload, work->inline_data, work->length);
	else if (copied != NULL)
		memcpy(payload, copied, work->length);
	else if (list->num == 1)
		return wire_fill(&ah->template, frame, payload, mem_at(list->sge[0].region, list->sge[0].va),
				 work->length);
	else
		gather_spans(list, payload);
	return false;
}

/* Send one frame. Returns false if there is no buffer or room now. */
static bool
emit_frame(struct core *core, struct engine_qp *qp, const struct work *work, const struct engine_ah *ah,
	   const struct span_list *list, const uint8_t *copied)
{
	struct wire_build build = {
		.opcode = work->op == ONE_OP_SEND_IMM ? WIRE_UD_SEND_ONLY_IMM : WIRE_UD_SEND_ONLY,
		.solicited = (work->flags & ONE_WQE_SOLICITED) != 0,
		.qpn = ONE_UD_QPN(work->remote_addr),
		.psn = qp->attr.send_psn,
		.imm = work->imm,
		.qkey = (work->rkey & ONE_UD_OWN_QKEY) != 0 ? qp->qkey : work->rkey,
		.src_qpn = qp->qpn,
		.payload_len = work->length,
	};
	uint8_t *payload,
		*frame = rcio_frame_begin(core, qp->port, ah->loop, build.qpn,
					  wire_frame_len(&ah->template, build.opcode, build.payload_len));

	if (frame == NULL)
		return false;
	payload = wire_build(&ah->template, &build, frame);
	rcio_frame_end(core, qp->port, ah->loop, qp->qpn, build.qpn,
		       fill_payload(ah, work, list, copied, frame, payload));
	qp->attr.send_psn = (qp->attr.send_psn + 1) & 0xffffff;
	core->stats.ud_sent++;
	return true;
}

static void
complete_send(struct core *core, struct engine_qp *qp, const struct work *work, uint8_t status)
{
	const struct completion c = qp_completion(work, status);

	qp_complete(core, qp, &c);
	if (status != ONE_STATUS_SUCCESS)
		qp_break(core, qp, RC_ERROR_REQUESTER);
}

/* Repeat all checks that were made when the request was taken: an address handle or a key may have gone. */
static uint8_t
send_copied(struct core *core, struct engine_qp *qp, const struct work *work)
{
	const struct engine_ah *ah = ah_find(qp, ONE_UD_AH(work->remote_addr));
	uint8_t status = check_send(qp, work, ah);
	struct span_list list;

	if (status == ONE_STATUS_SUCCESS)
		status = find_payload(core, qp, work, &list);
	if (status == ONE_STATUS_SUCCESS && bounce_queue_result(&qp->bounce, BOUNCE_LEAVING) != 0)
		status = ONE_STATUS_LOCAL_PROTECTION;
	if (status == ONE_STATUS_SUCCESS &&
	    !emit_frame(core, qp, work, ah, &list, bounce_queue_data(&qp->bounce, BOUNCE_LEAVING)))
		status = LATER;
	return status;
}

/* Send the requests whose payload has been read, oldest first. */
static void
send_all_copied(struct core *core, struct engine_qp *qp)
{
	while (qp->state == RC_RTS && bounce_queue_done(&qp->bounce, BOUNCE_LEAVING)) {
		struct work work = *(const struct work *)bounce_queue_oldest(&qp->bounce, BOUNCE_LEAVING);
		uint8_t status = send_copied(core, qp, &work);

		if (status == LATER)
			return;
		bounce_queue_pop(&qp->bounce, BOUNCE_LEAVING);
		complete_send(core, qp, &work, status);
	}
}

/* Send the request in qp->work. Returns 0, LATER, or the status to fail with. *reading: the request is done
 * when its payload has been read and sent. */
static uint8_t
send_one(struct core *core, struct engine_qp *qp, bool *reading)
{
	const struct work *work = &qp->work;
	const struct engine_ah *ah = ah_find(qp, ONE_UD_AH(work->remote_addr));
	uint8_t status = check_send(qp, work, ah);
	struct span_list list;
	int error;

	*reading = false;
	if (status == ONE_STATUS_SUCCESS)
		status = find_payload(core, qp, work, &list);
	/* Requests leave, and fail, in order. */
	if ((status != ONE_STATUS_SUCCESS || list.mapped) && bounce_queued(&qp->bounce, BOUNCE_LEAVING))
		return LATER;
	if (status != ONE_STATUS_SUCCESS)
		return status;
	if (likely(list.mapped))
		return emit_frame(core, qp, work, ah, &list, NULL) ? ONE_STATUS_SUCCESS : LATER;
	error = bounce_queue_gather(&qp->bounce, BOUNCE_LEAVING, list.sge, list.num, work, sizeof(*work));
	*reading = error == 0;
	return error == 0 ? ONE_STATUS_SUCCESS : error == -EAGAIN ? LATER : ONE_STATUS_LOCAL_PROTECTION;
}

/* Polling a request that cannot be sent yet is useless before ud_resume() if accesses are under way. */
static enum qp_request
later_request(const struct engine_qp *qp)
{
	return bounce_queued(&qp->bounce, BOUNCE_LEAVING) || qp->bounce.starved != NULL ? QP_REQUEST_WAITS
											: QP_REQUEST_TAKEN;
}

void
ud_poll(struct core *core, struct engine_qp *qp, uint32_t budget)
{
	send_all_copied(core, qp);
	for (uint32_t i = 0; i < budget && qp->state == RC_RTS; i++) {
		uint8_t status;
		bool reading;

		if (qp->request == QP_REQUEST_NONE && qp_pull(core, qp, &qp->work) <= 0)
			return;
		status = send_one(core, qp, &reading);
		if (status == LATER) {
			qp->request = later_request(qp);
			return;
		}
		qp->request = QP_REQUEST_NONE;
		if (!reading)
			complete_send(core, qp, &qp->work, status);
	}
}

/* ---- receiving ---- */

static void
count_drop(struct core *core, enum engine_ud_drop why)
{
	core->stats.ud_drop[why]++;
}

/* False: the packet is not for this queue pair, and was counted. */
static bool
check_packet(struct core *core, const struct engine_qp *qp, const struct wire_packet *packet)
{
	const struct port *port = &ports[qp->port];

	if (packet->opcode == WIRE_CNP)
		core->env.counter[RC_COUNT_CNP_RECEIVED]++; /* as for any queue pair */
	else if (packet->opcode != WIRE_UD_SEND_ONLY && packet->opcode != WIRE_UD_SEND_ONLY_IMM)
		count_drop(core, ENGINE_UD_OPCODE);
	else if (!port_has_addr(port, &packet->dst))
		count_drop(core, ENGINE_UD_ADDRESS);
	else if (packet->qkey != qp->qkey)
		count_drop(core, ENGINE_UD_QKEY);
	else if (packet->payload_len > port->info.path_mtu)
		count_drop(core, ENGINE_UD_LENGTH);
	else
		return true;
	return false;
}

/* Copy the frame's IP header to the end of the bytes that represent a GRH. */
static void
make_grh(const struct wire_packet *packet, uint8_t grh[ONE_UD_GRH])
{
	uint32_t len =
		wire_addr_is_v4(&packet->src) ? sizeof(struct rte_ipv4_hdr) : sizeof(struct rte_ipv6_hdr);
	const uint8_t *bth = packet->payload - (uint32_t)wire_extension_len(packet->opcode) - WIRE_BTH_LEN;

	memset(grh, 0, ONE_UD_GRH - len);
	memcpy(grh + ONE_UD_GRH - len, bth - sizeof(struct rte_udp_hdr) - len, len);
}

/* Complete the oldest receive. */
static void
complete_recv(struct core *core, struct engine_qp *qp, struct completion *c, uint8_t status)
{
	c->status = status;
	if (status != ONE_STATUS_SUCCESS)
		c->length = 0;
	else
		core->stats.ud_received++;
	qp_complete(core, qp, c);
	if (status != ONE_STATUS_SUCCESS)
		qp_break(core, qp, RC_ERROR_RESPONDER);
}

/* Complete the receive in qp->recv as `c`. While earlier receives are pending, drop the datagram instead. */
static void
end_taken(struct core *core, struct engine_qp *qp, struct completion *c, uint8_t status)
{
	if (bounce_queued(&qp->bounce, BOUNCE_ARRIVED)) {
		count_drop(core, ENGINE_UD_BUSY);
		return;
	}
	qp->recv_taken = false;
	complete_recv(core, qp, c, status);
}

/* Receive into memory without mapping: ud_resume() completes the receive. Without room for the access the
 * datagram is dropped. */
static void
receive_bounced(struct core *core, struct engine_qp *qp, const struct span_list *list, const uint8_t *grh,
		const struct wire_packet *packet, struct completion *c)
{
	struct bounced_recv note = {.c = *c, .num_sge = qp->recv.num_sge};
	uint8_t bounce[DATAGRAM_MAX];
	int error;

	memcpy(note.sge, qp->recv.sge, note.num_sge * sizeof(note.sge[0]));
	memcpy(bounce, grh, ONE_UD_GRH);
	memcpy(bounce + ONE_UD_GRH, packet->payload, packet->payload_len);
	error = bounce_queue_scatter(&qp->bounce, BOUNCE_ARRIVED, list->sge, list->num, bounce, &note,
				     sizeof(note));
	bounce_queue_submit(&qp->bounce, BOUNCE_ARRIVED);
	if (error == 0)
		qp->recv_taken = false;
	else if (error == -EAGAIN)
		count_drop(core, ENGINE_UD_BUSY);
	else
		end_taken(core, qp, c, ONE_STATUS_LOCAL_PROTECTION);
}

static void
place_datagram(struct core *core, struct engine_qp *qp, const struct wire_packet *packet)
{
	struct completion c = {.cookie = qp->recv.cookie,
			       .length = ONE_UD_GRH + packet->payload_len,
			       .imm = packet->opcode == WIRE_UD_SEND_ONLY_IMM ? packet->imm : 0,
			       .type = ONE_CQE_RECV,
			       .wqe_flags = qp->recv.flags,
			       .cqe_flags = ONE_CQE_GRH,
			       .solicited = packet->solicited,
			       .src_qpn = packet->src_qpn};
	uint8_t grh[ONE_UD_GRH];
	struct span_list list;

	if (packet->opcode == WIRE_UD_SEND_ONLY_IMM)
		c.cqe_flags |= ONE_CQE_IMM;
	if (wire_addr_is_v4(&packet->src))
		c.cqe_flags |= ONE_CQE_IPV4;
	if (!resolve_sges(core, qp, qp->recv.sge, qp->recv.num_sge, c.length, ONE_ACCESS_LOCAL_WRITE,
			  &list)) {
		end_taken(core, qp, &c, ONE_STATUS_LOCAL_PROTECTION);
		return;
	}
	make_grh(packet, grh);
	if (unlikely(!list.mapped)) {
		receive_bounced(core, qp, &list, grh, packet, &c);
		return;
	}
	if (likely(!bounce_queued(&qp->bounce, BOUNCE_ARRIVED))) {
		scatter_spans(&list, 0, grh, ONE_UD_GRH);
		scatter_spans(&list, ONE_UD_GRH, packet->payload, packet->payload_len);
	}
	end_taken(core, qp, &c, ONE_STATUS_SUCCESS);
}

static bool
take_recv(struct core *core, struct engine_qp *qp)
{
	if (!qp->recv_taken)
		qp->recv_taken = qp_take_recv(core, qp, &qp->recv);
	/* For --idle yield: the thread that posts receives must run now and then. */
	core->takes = qp->recv_taken ? core->takes + 1 : CORE_TAKES;
	return qp->recv_taken;
}

void
ud_input(struct core *core, struct engine_qp *qp, const struct wire_packet *packet)
{
	struct completion c;

	if (!check_packet(core, qp, packet))
		return;
	if (!take_recv(core, qp)) {
		count_drop(core, ENGINE_UD_NO_RECEIVE);
	} else if (unlikely(qp->recv.status != ONE_STATUS_SUCCESS)) {
		c = (struct completion){.cookie = qp->recv.cookie, .type = ONE_CQE_RECV};
		end_taken(core, qp, &c, qp->recv.status);
	} else if (qp->recv.length < ONE_UD_GRH + packet->payload_len) {
		count_drop(core, ENGINE_UD_LENGTH);
	} else {
		place_datagram(core, qp, packet);
	}
}

/* Complete the oldest pending receive after its access. Keys are looked up again: they may have gone. */
static void
complete_bounced(struct core *core, struct engine_qp *qp)
{
	struct bounced_recv bounced =
		*(const struct bounced_recv *)bounce_queue_oldest(&qp->bounce, BOUNCE_ARRIVED);
	struct span_list list;
	bool placed = bounce_queue_result(&qp->bounce, BOUNCE_ARRIVED) == 0 &&
		      resolve_sges(core, qp, bounced.sge, bounced.num_sge, bounced.c.length,
				   ONE_ACCESS_LOCAL_WRITE, &list);

	if (placed)
		bounce_queue_place(&qp->bounce, BOUNCE_ARRIVED, list.sge, list.num);
	bounce_queue_pop(&qp->bounce, BOUNCE_ARRIVED);
	complete_recv(core, qp, &bounced.c, placed ? ONE_STATUS_SUCCESS : ONE_STATUS_LOCAL_PROTECTION);
}

void
ud_resume(struct core *core, struct engine_qp *qp)
{
	while (bounce_queue_done(&qp->bounce, BOUNCE_ARRIVED))
		complete_bounced(core, qp);
	send_all_copied(core, qp);
}

void
ud_leave(struct core *core, struct engine_qp *qp, bool flush)
{
	while (flush && bounce_queued(&qp->bounce, BOUNCE_ARRIVED)) {
		const struct bounced_recv *bounced = bounce_queue_oldest(&qp->bounce, BOUNCE_ARRIVED);
		const struct completion c = {
			.cookie = bounced->c.cookie, .type = ONE_CQE_RECV, .status = ONE_STATUS_FLUSHED};

		bounce_queue_pop(&qp->bounce, BOUNCE_ARRIVED);
		qp_complete(core, qp, &c);
	}
	while (flush && bounce_queued(&qp->bounce, BOUNCE_LEAVING)) {
		const struct work work =
			*(const struct work *)bounce_queue_oldest(&qp->bounce, BOUNCE_LEAVING);
		const struct completion c = qp_completion(&work, ONE_STATUS_FLUSHED);

		bounce_queue_pop(&qp->bounce, BOUNCE_LEAVING);
		qp_complete(core, qp, &c);
	}
	bounce_leave(&qp->bounce);
}
