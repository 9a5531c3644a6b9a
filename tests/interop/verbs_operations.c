/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs side of operations.h:   verbs-operations serve | connect ADDRESS 1.2|2.0 [NAME...] */
#include "operations.h"

#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEPTH 32
#define WAIT_MS 60000
#define SOFT_ROCE_WITH_INV 4 /* the kernel's IB_WC_WITH_INVALIDATE, which programs get unchanged */

static struct rdma_event_channel *channel;
static struct rdma_cm_event *early; /* a request that arrived before the end of the previous connection */
static uint8_t __attribute__((aligned(64))) memory[OPERATIONS_MEMORY], read_only[OPERATIONS_MEMORY],
	inbox[OPERATIONS_MEMORY];

struct end {
	struct rdma_cm_id *id;
	struct ibv_mr *memory, *read_only, *inbox;
	struct ibv_cq *sends, *receives;
};

static _Noreturn void __attribute__((format(printf, 1, 2))) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static void
need(bool ok, const char *what)
{
	if (!ok)
		die("%s: %s", what, strerror(errno));
}

static struct rdma_cm_event *
next_event(void)
{
	struct rdma_cm_event *event;

	need(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	return event;
}

static struct rdma_cm_event *
expect_event(enum rdma_cm_event_type type, const char *name)
{
	struct rdma_cm_event *event = next_event();

	if (event->event != type)
		die("%s: %s (%d) instead of %s", name, rdma_event_str(event->event), event->status,
		    rdma_event_str(type));
	return event;
}

static void
await_disconnect(const char *name)
{
	struct rdma_cm_event *event;

	while ((event = next_event())->event == RDMA_CM_EVENT_CONNECT_REQUEST && !early)
		early = event;
	if (event->event != RDMA_CM_EVENT_DISCONNECTED)
		die("%s: %s instead of DISCONNECTED", name, rdma_event_str(event->event));
	rdma_ack_cm_event(event);
}

static void
open_end(struct end *e, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

	e->id = id;
	e->sends = attr.send_cq = ibv_create_cq(id->verbs, DEPTH, NULL, NULL, 0);
	e->receives = attr.recv_cq = ibv_create_cq(id->verbs, DEPTH, NULL, NULL, 0);
	need(e->sends && e->receives, "ibv_create_cq");
	need(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
	e->memory =
		ibv_reg_mr(id->pd, memory, sizeof(memory),
			   rights | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
	e->read_only = ibv_reg_mr(id->pd, read_only, sizeof(read_only), rights);
	e->inbox = ibv_reg_mr(id->pd, inbox, sizeof(inbox), IBV_ACCESS_LOCAL_WRITE);
	need(e->memory && e->read_only && e->inbox, "ibv_reg_mr");
}

static void
close_end(struct end *e)
{
	rdma_destroy_qp(e->id);
	ibv_dereg_mr(e->memory);
	ibv_dereg_mr(e->read_only);
	ibv_dereg_mr(e->inbox);
	ibv_destroy_cq(e->sends);
	ibv_destroy_cq(e->receives);
	rdma_destroy_id(e->id);
}

static struct ibv_wc
completion(struct ibv_cq *cq, const char *name)
{
	struct ibv_wc wc;

	for (int i = 0; i < WAIT_MS; i++) {
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			return wc;
		nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
	}
	die("%s: no completion", name);
}

/* The state changes shortly after an error's completion. Check it before rdma_disconnect(), which would
 * change it anyway. */
static void
expect_state(struct end *e, enum ibv_qp_state wanted, const char *name)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	for (int i = 0; i < WAIT_MS; i++) {
		need(!ibv_query_qp(e->id->qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
		if (attr.qp_state == wanted)
			return;
		nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
	}
	die("%s: the queue pair is in state %d instead of %d", name, attr.qp_state, wanted);
}

/* ---- the responder ---- */

static void
post_receives(struct end *e, const struct operation *op)
{
	for (uint32_t i = 0; i < op->times; i++) {
		struct ibv_sge piece = {(uintptr_t)inbox + (size_t)i * op->len,
					op->receives == SHORT_RECEIVE ? op->len - 1 : op->len,
					e->inbox->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &piece, .num_sge = op->len ? 1 : 0}, *bad;

		need(!ibv_post_recv(e->id->qp, &wr, &bad), "ibv_post_recv");
	}
}

static void
take_messages(struct end *e, const struct operation *op)
{
	bool immediate = op->kind == SEND_IMM || op->kind == WRITE_IMM;

	for (uint32_t i = 0; i < op->times; i++) {
		struct ibv_wc wc = completion(e->receives, op->name);

		if (op->receives == SHORT_RECEIVE) {
			/* Linux 6.1 returns this status; the specification has IBV_WC_LOC_LEN_ERR. */
			if (wc.status != IBV_WC_LOC_QP_OP_ERR)
				die("%s: the receive ends with %s", op->name, ibv_wc_status_str(wc.status));
			return;
		}
		if (wc.status || wc.wr_id != i || wc.byte_len != op->len)
			die("%s: receive %u: %s, %u bytes", op->name, i, ibv_wc_status_str(wc.status),
			    wc.byte_len);
		if (!(wc.wc_flags & IBV_WC_WITH_IMM) == immediate ||
		    (immediate && wc.imm_data != htobe32(OPERATIONS_IMMEDIATE)))
			die("%s: receive %u: flags 0x%x, immediate 0x%x", op->name, i, wc.wc_flags,
			    be32toh(wc.imm_data));
		if (!(wc.wc_flags & SOFT_ROCE_WITH_INV) == (op->kind == SEND_INV))
			die("%s: receive %u: flags 0x%x", op->name, i, wc.wc_flags);
	}
	if (op->kind == WRITE_IMM)
		return;
	for (size_t i = 0; i < (size_t)op->len * op->times; i++)
		if (inbox[i] != starter_byte(op->offset + i))
			die("%s: byte %zu of the messages is wrong", op->name, i);
}

/* Binds a window for the peer's WRITEs, and sends its key in a message. */
static struct ibv_mw *
offer_window(struct end *e, const char *name)
{
	struct ibv_mw *window = ibv_alloc_mw(e->id->pd, IBV_MW_TYPE_2);
	struct ibv_sge piece = {(uintptr_t)memory, sizeof(uint32_t), e->memory->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW}, *bad;
	struct ibv_wc wc;
	uint32_t key;

	need(window != NULL, "ibv_alloc_mw");
	wr.bind_mw.mw = window;
	wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = e->memory,
							 .addr = (uintptr_t)memory,
							 .length = sizeof(memory),
							 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	need(!ibv_post_send(e->id->qp, &wr, &bad), "binding the window");
	wc = completion(e->sends, name);
	if (wc.status)
		die("%s: the bind: %s", name, ibv_wc_status_str(wc.status));
	key = htobe32(wr.bind_mw.rkey);
	memcpy(memory, &key, sizeof(key));
	wr = (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = &piece, .num_sge = 1};
	need(!ibv_post_send(e->id->qp, &wr, &bad), "ibv_post_send");
	wc = completion(e->sends, name);
	if (wc.status)
		die("%s: the window's key: %s", name, ibv_wc_status_str(wc.status));
	return window;
}

static void
respond(struct rdma_cm_id *id, const struct operation *op)
{
	struct offer offer = {.address = htobe64((uintptr_t)(op->read_only ? read_only : memory))};
	uint8_t reply[OPERATIONS_VERBS_REPLY];
	struct rdma_conn_param param = {
		.private_data = reply,
		.private_data_len = sizeof(reply),
		.responder_resources = 4,
		.initiator_depth = 4,
		.rnr_retry_count = op->ending == NOT_READY ? 2 : 7,
	};
	struct ibv_mw *window = NULL;
	struct end e;

	open_end(&e, id);
	offer.key = htobe32(e.memory->rkey);
	offer.read_only_key = htobe32(e.read_only->rkey);
	memcpy(reply, &offer, sizeof(offer));
	for (size_t i = sizeof(offer); i < sizeof(reply); i++)
		reply[i] = reply_byte(i);
	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		memory[i] = read_only[i] = responder_byte(i);
	memset(inbox, 0, sizeof(inbox));
	if (op->receives == RECEIVE || op->receives == SHORT_RECEIVE)
		post_receives(&e, op);
	need(!rdma_accept(id, &param), "rdma_accept");
	rdma_ack_cm_event(expect_event(RDMA_CM_EVENT_ESTABLISHED, op->name));
	if (op->kind == SEND_INV)
		window = offer_window(&e, op->name);
	if (op->receives == LATE_RECEIVE) {
		nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
		post_receives(&e, op);
	}
	if (op->receives != NO_RECEIVE)
		take_messages(&e, op);
	await_disconnect(op->name);
	expect_state(&e, operation_breaks_responder(op) ? IBV_QPS_ERR : IBV_QPS_RTS, op->name);
	rdma_disconnect(id);
	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		if (memory[i] != expected_byte(op, i) || read_only[i] != responder_byte(i))
			die("%s: byte %zu of the memory is wrong", op->name, i);
	printf("%s\n", op->name);
	fflush(stdout);
	if (window)
		need(!ibv_dealloc_mw(window), "ibv_dealloc_mw");
	close_end(&e);
}

static void
serve(void)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(OPERATIONS_PORT)};
	struct rdma_cm_id *listener;

	need(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	need(!rdma_bind_addr(listener, (struct sockaddr *)&any), "rdma_bind_addr");
	need(!rdma_listen(listener, 4), "rdma_listen");
	for (;;) {
		struct rdma_cm_event *event = early ? early : next_event();
		const uint8_t *data = event->param.conn.private_data;
		struct rdma_cm_id *id = event->id;
		uint8_t number;

		early = NULL;
		if (event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT) {
			rdma_ack_cm_event(event);
			continue;
		}
		if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
			die("%s instead of a request", rdma_event_str(event->event));
		number = data[0];
		for (size_t i = 1; i < OPERATIONS_REQUEST; i++)
			if (data[i] != request_byte(i))
				die("byte %zu of the private data is wrong", i);
		rdma_ack_cm_event(event);
		if (number == OPERATIONS_OVER ||
		    (number < OPERATIONS && operations[number].kind == REJECTED)) {
			uint8_t refusal[OPERATIONS_VERBS_REFUSAL];

			for (size_t i = 0; i < sizeof(refusal); i++)
				refusal[i] = number == OPERATIONS_OVER ? 0 : refusal_byte(i);
			need(!rdma_reject(id, refusal, sizeof(refusal)), "rdma_reject");
			rdma_destroy_id(id);
			if (number == OPERATIONS_OVER)
				break;
			continue;
		}
		if (number >= OPERATIONS)
			die("operation %u", number);
		respond(id, &operations[number]);
	}
	printf("all that was asked for\n");
}

/* ---- the starter ---- */

static enum ibv_wc_status
status_of(enum ending ending)
{
	switch (ending) {
	case FINE:
		return IBV_WC_SUCCESS;
	case NO_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case TOO_LONG:
	case INVALID:
		return IBV_WC_REM_INV_REQ_ERR;
	default:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	}
}

static enum ibv_wc_status
post(struct end *e, struct ibv_send_wr *wr, uint32_t len, const char *name)
{
	struct ibv_sge piece = {(uintptr_t)memory, len, e->memory->lkey};
	struct ibv_send_wr *bad;

	wr->sg_list = &piece;
	wr->num_sge = 1;
	need(!ibv_post_send(e->id->qp, wr, &bad), "ibv_post_send");
	return completion(e->sends, name).status;
}

/* WRITEs through a window, which the second operation invalidates. */
static void
drive_window(struct end *e, const struct operation *op, const struct offer *offer)
{
	struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE,
				    .wr.rdma.remote_addr = be64toh(offer->address)};
	struct ibv_send_wr invalidate = {.opcode = IBV_WR_SEND_WITH_INV};
	struct ibv_wc wc = completion(e->receives, op->name);
	enum ibv_wc_status status;
	uint32_t key;

	if (wc.status || wc.byte_len != sizeof(key))
		die("%s: the window's key: %s, %u bytes", op->name, ibv_wc_status_str(wc.status),
		    wc.byte_len);
	memcpy(&key, inbox, sizeof(key));
	write.wr.rdma.rkey = invalidate.invalidate_rkey = be32toh(key);
	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		memory[i] = starter_byte(i);
	status = post(e, &write, op->len, op->name);
	if (status)
		die("%s: the WRITE before: %s", op->name, ibv_wc_status_str(status));
	status = post(e, &invalidate, op->len, op->name);
	if (status)
		die("%s: %s", op->name, ibv_wc_status_str(status));
	status = post(e, &write, op->len, op->name);
	if (status != IBV_WC_REM_ACCESS_ERR)
		die("%s: the WRITE behind: %s", op->name, ibv_wc_status_str(status));
	expect_state(e, IBV_QPS_ERR, op->name);
}

static void
drive(struct end *e, const struct operation *op, const struct offer *offer)
{
	static const enum ibv_wr_opcode codes[] = {
		[SEND] = IBV_WR_SEND,
		[SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[WRITE] = IBV_WR_RDMA_WRITE,
		[WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[READ] = IBV_WR_RDMA_READ,
		[FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
		[CMP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	uint32_t key =
		be32toh(op->read_only ? offer->read_only_key : offer->key) ^ (op->wrong_key ? 0x5500 : 0);
	size_t local = op->ending == NO_ACCESS ? 0 : op->offset;

	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		memory[i] = starter_byte(i);
	for (uint32_t i = 0; i < op->times; i++) {
		size_t step = (size_t)i * op->len;
		struct ibv_sge piece = {(uintptr_t)memory + local + step, op->len, e->memory->lkey};
		struct ibv_send_wr wr =
					   {
						   .wr_id = i,
						   .sg_list = &piece,
						   .num_sge = op->len ? 1 : 0,
						   .opcode = codes[op->kind],
					   },
				   *bad;

		if (op->kind == WRITE || op->kind == WRITE_IMM || op->kind == READ) {
			wr.wr.rdma.remote_addr = be64toh(offer->address) + op->offset + step;
			wr.wr.rdma.rkey = key;
		} else if (operation_is_atomic(op)) {
			wr.wr.atomic.remote_addr = be64toh(offer->address) + op->offset;
			wr.wr.atomic.rkey = key;
			wr.wr.atomic.compare_add = op->kind == FETCH_ADD ? OPERATIONS_ADD : first_value(op);
			wr.wr.atomic.swap = OPERATIONS_SWAP;
		}
		wr.imm_data = htobe32(OPERATIONS_IMMEDIATE);
		need(!ibv_post_send(e->id->qp, &wr, &bad), "ibv_post_send");
	}
	for (uint32_t i = 0; i < op->times; i++) {
		struct ibv_wc wc = completion(e->sends, op->name);
		/* Operations after the failing one are flushed. */
		enum ibv_wc_status wanted =
			i && op->ending != FINE ? IBV_WC_WR_FLUSH_ERR : status_of(op->ending);

		if (wc.wr_id != i || wc.status != wanted)
			die("%s: completion %u: %s instead of %s", op->name, (unsigned)wc.wr_id,
			    ibv_wc_status_str(wc.status), ibv_wc_status_str(wanted));
	}
	expect_state(e, op->ending == FINE ? IBV_QPS_RTS : IBV_QPS_ERR, op->name);
	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		if (memory[i] != expected_starter_byte(op, i))
			die("%s: byte %zu here is wrong", op->name, i);
}

/* Sends the request. The next event answers it. */
static struct rdma_cm_id *
ask(const char *address, unsigned port, uint8_t number, struct end *e)
{
	uint8_t request[OPERATIONS_REQUEST];
	struct rdma_conn_param param = {
		.private_data = request,
		.private_data_len = sizeof(request),
		.responder_resources = 4,
		.initiator_depth = 4,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *info;
	struct rdma_cm_id *id;
	char service[16];

	request[0] = number;
	for (size_t i = 1; i < OPERATIONS_REQUEST; i++)
		request[i] = request_byte(i);
	snprintf(service, sizeof(service), "%u", port);
	need(!getaddrinfo(address, service, &hints, &info), "the address");
	need(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	need(!rdma_resolve_addr(id, NULL, info->ai_addr, WAIT_MS), "rdma_resolve_addr");
	rdma_ack_cm_event(expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, address));
	need(!rdma_resolve_route(id, WAIT_MS), "rdma_resolve_route");
	rdma_ack_cm_event(expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED, address));
	freeaddrinfo(info);
	open_end(e, id);
	if (number < OPERATIONS && operations[number].kind == SEND_INV) {
		struct ibv_sge piece = {(uintptr_t)inbox, sizeof(inbox), e->inbox->lkey};
		struct ibv_recv_wr wr = {.sg_list = &piece, .num_sge = 1}, *bad;

		need(!ibv_post_recv(id->qp, &wr, &bad), "ibv_post_recv");
	}
	need(!rdma_connect(id, &param), "rdma_connect");
	return id;
}

/* Expects a refusal with one of the InfiniBand specification's reasons: 8, no listener has the service ID;
 * 28, the consumer rejected. The event holds the whole field of private data, with zeros after `said`
 * bytes. */
static void
expect_refusal(struct end *e, const char *name, int reason, size_t said)
{
	struct rdma_cm_event *event = expect_event(RDMA_CM_EVENT_REJECTED, name);
	const uint8_t *refusal = event->param.conn.private_data;

	if (event->status != reason)
		die("%s: reason %d instead of %d", name, event->status, reason);
	if (event->param.conn.private_data_len < said)
		die("%s: a refusal with %d bytes", name, event->param.conn.private_data_len);
	for (size_t i = 0; i < event->param.conn.private_data_len; i++)
		if (refusal[i] != (i < said ? refusal_byte(i) : 0))
			die("%s: byte %zu of the refusal is wrong", name, i);
	rdma_ack_cm_event(event);
	close_end(e);
}

/* The event holds the whole field of private data, with zeros after the bytes that uDAPL sent. */
static void
check_reply(const struct operation *op, const uint8_t *reply, size_t len)
{
	if (len != OPERATIONS_VERBS_REPLY)
		die("%s: a reply of %zu bytes", op->name, len);
	for (size_t i = sizeof(struct offer); i < len; i++)
		if (reply[i] != (i < OPERATIONS_REPLY ? reply_byte(i) : 0))
			die("%s: byte %zu of the reply is wrong", op->name, i);
}

static void
start(const char *address, uint8_t number, bool dat2)
{
	const struct operation *op = &operations[number];
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct offer offer;
	struct end e;

	id = ask(address, OPERATIONS_PORT + (op->kind == NOBODY), number, &e);
	if (op->kind == NOBODY || op->kind == REJECTED) {
		expect_refusal(&e, op->name, op->kind == NOBODY ? 8 : 28,
			       op->kind == REJECTED && dat2 ? OPERATIONS_REFUSAL : 0);
	} else {
		event = expect_event(RDMA_CM_EVENT_ESTABLISHED, op->name);
		check_reply(op, event->param.conn.private_data, event->param.conn.private_data_len);
		memcpy(&offer, event->param.conn.private_data, sizeof(offer));
		rdma_ack_cm_event(event);
		if (op->kind == SEND_INV)
			drive_window(&e, op, &offer);
		else
			drive(&e, op, &offer);
		rdma_disconnect(id);
		rdma_ack_cm_event(expect_event(RDMA_CM_EVENT_DISCONNECTED, op->name));
		close_end(&e);
	}
	printf("%s\n", op->name);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	unsigned done = 0;
	struct end e;

	channel = rdma_create_event_channel();
	need(channel != NULL, "rdma_create_event_channel");
	if (argc == 2 && !strcmp(argv[1], "serve")) {
		serve();
	} else if (argc >= 4 && !strcmp(argv[1], "connect")) {
		const char *name = operation_name(argv + 4);
		bool dat2 = !strcmp(argv[3], "2.0");

		for (uint8_t i = 0; i < OPERATIONS; i++) {
			if (!operation_wanted(&operations[i], VERBS, dat2, name))
				continue;
			start(argv[2], i, dat2);
			done++;
		}
		ask(argv[2], OPERATIONS_PORT, OPERATIONS_OVER, &e);
		expect_refusal(&e, "the end", 28, 0);
		if (!done)
			die("no operation has that name");
		printf("%u operations\n", done);
	} else {
		fprintf(stderr, "usage: %s serve | connect ADDRESS 1.2|2.0 [NAME...]\n", argv[0]);
		return 2;
	}
	return 0;
}
