/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verbs with a shared receive queue, completion channels and datagrams, in rounds that end when the file
 * UNTIL exists (takeover.sh mixed); and the time between completions of 8 B writes (takeover.sh gaps).
 *
 * In each round the client writes, reads back and sends a message on each RC queue pair; the server takes
 * the messages from a shared receive queue and answers each. Messages are numbered for each queue pair, so
 * that none may be lost, come twice, or come out of order. Datagrams are numbered, too: they may be lost.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "verbs_side.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define QPS 8u
#define DATAGRAMS 4u /* of a round */
#define UD_SLOTS 64u
#define QKEY 0x11111111u
#define GRH 40u
#define SLOT 4096u
#define SLOTS (2 * QPS)
#define AREA 16384u
#define WAIT_MS ((int)(20000 * PAIR_SHARE))

/* The head of a message; a pattern from `number` fills the rest. */
struct note {
	uint32_t qp, number, last, length;
};

struct end {
	union ibv_gid gid;
	uint64_t address;
	uint32_t key, ud;
	uint32_t qpn[QPS];
};

struct mixed {
	struct pair *pair;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq, *ud_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp[QPS], *ud;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct end peer;
	uint32_t expected[QPS]; /* number of the next message */
	uint32_t datagram;      /* number of the last datagram that was sent or has come */
	uint32_t datagrams;
	uint8_t *area; /* the peer's WRITEs, or the expected contents of the peer's memory */
	uint8_t *back; /* of READs */
	uint8_t *in, *out, *ud_in;
};

/* ---- objects ---- */

static void
modify(struct mixed *m, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(qp, attr, mask);

	CHECK(m->pair, error == 0, "ibv_modify_qp to state %d: %s", attr->qp_state, strerror(error));
}

static void
connect_rc(struct mixed *m, struct ibv_qp *qp, uint32_t qpn)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = m->peer.gid, .hop_limit = 64}}};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};

	modify(m, qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(m, qp, &rtr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(m, qp, &rts,
	       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

static void
start_ud(struct mixed *m)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};

	modify(m, m->ud, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify(m, m->ud, &rtr, IBV_QP_STATE);
	modify(m, m->ud, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static struct ibv_qp *
create_qp(struct mixed *m, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {.qp_type = type,
					.send_cq = m->send_cq,
					.recv_cq = type == IBV_QPT_UD ? m->ud_cq : m->recv_cq,
					.srq = type == IBV_QPT_UD ? NULL : m->srq,
					.cap = {.max_send_wr = 16,
						.max_recv_wr = type == IBV_QPT_UD ? UD_SLOTS : 0,
						.max_send_sge = 1,
						.max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(m->pd, &attr);

	CHECK(m->pair, qp != NULL, "ibv_create_qp: %s", strerror(errno));
	return qp;
}

static void
post_srq(struct mixed *m, uint64_t slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)m->in + slot * SLOT, .length = SLOT, .lkey = m->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(m->pair, ibv_post_srq_recv(m->srq, &wr, &bad) == 0, "ibv_post_srq_recv");
}

static void
post_ud(struct mixed *m, uint64_t slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)m->ud_in + slot * SLOT, .length = SLOT, .lkey = m->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(m->pair, ibv_post_recv(m->ud, &wr, &bad) == 0, "ibv_post_recv");
}

static void
create_memory(struct mixed *m)
{
	const size_t size = 2 * QPS * AREA + (SLOTS + QPS + UD_SLOTS + 1) * SLOT;
	void *at;

	CHECK(m->pair, posix_memalign(&at, 4096, size) == 0, "no memory");
	memset(at, 0, size);
	m->area = at;
	m->back = m->area + QPS * AREA;
	m->in = m->back + QPS * AREA;
	m->out = m->in + SLOTS * SLOT;
	m->ud_in = m->out + (QPS + 1) * SLOT;
	m->mr = ibv_reg_mr(m->pd, at, size, ACCESS);
	CHECK(m->pair, m->mr != NULL, "ibv_reg_mr: %s", strerror(errno));
}

static void
exchange(struct mixed *m)
{
	struct end own = {.address = (uintptr_t)m->area, .key = m->mr->rkey, .ud = m->ud->qp_num};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};

	CHECK(m->pair, ibv_query_gid(m->context, 1, 0, &own.gid) == 0, "ibv_query_gid");
	for (uint32_t i = 0; i < QPS; i++)
		own.qpn[i] = m->qp[i]->qp_num;
	pair_send(m->pair, &own, sizeof(own));
	pair_recv(m->pair, &m->peer, sizeof(m->peer));
	for (uint32_t i = 0; i < QPS; i++)
		connect_rc(m, m->qp[i], m->peer.qpn[i]);
	attr.grh.dgid = m->peer.gid;
	m->ah = ibv_create_ah(m->pd, &attr);
	CHECK(m->pair, m->ah != NULL, "ibv_create_ah: %s", strerror(errno));
	start_ud(m);
	for (uint32_t i = 0; i < UD_SLOTS; i++)
		post_ud(m, i);
	pair_barrier(m->pair);
}

static void
mixed_open(struct mixed *m, struct pair *pair)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = SLOTS, .max_sge = 1}};

	memset(m, 0, sizeof(*m));
	m->pair = pair;
	CHECK(pair, devices != NULL && devices[0] != NULL, "no device");
	m->context = ibv_open_device(devices[0]);
	CHECK(pair, m->context != NULL, "ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(devices);
	m->pd = ibv_alloc_pd(m->context);
	m->channel = ibv_create_comp_channel(m->context);
	m->send_cq = ibv_create_cq(m->context, 16 * (QPS + 1), NULL, m->channel, 0);
	m->recv_cq = ibv_create_cq(m->context, SLOTS, NULL, m->channel, 0);
	m->ud_cq = ibv_create_cq(m->context, UD_SLOTS, NULL, NULL, 0);
	m->srq = ibv_create_srq(m->pd, &srq);
	CHECK(pair,
	      m->channel != NULL && m->send_cq != NULL && m->recv_cq != NULL && m->ud_cq != NULL &&
		      m->srq != NULL,
	      "objects: %s", strerror(errno));
	for (uint32_t i = 0; i < QPS; i++)
		m->qp[i] = create_qp(m, IBV_QPT_RC);
	m->ud = create_qp(m, IBV_QPT_UD);
	create_memory(m);
	for (uint32_t i = 0; i < SLOTS; i++)
		post_srq(m, i);
	exchange(m);
}

static void
expect_no_event(struct mixed *m)
{
	struct pollfd asynchronous = {.fd = m->context->async_fd, .events = POLLIN};
	struct ibv_async_event event;
	struct ibv_wc wc;

	CHECK(m->pair, ibv_poll_cq(m->send_cq, 1, &wc) == 0 && ibv_poll_cq(m->recv_cq, 1, &wc) == 0,
	      "one completion too many: %s", ibv_wc_status_str(wc.status));
	if (poll(&asynchronous, 1, 50) == 1 && ibv_get_async_event(m->context, &event) == 0)
		CHECK(m->pair, false, "asynchronous event: %s", ibv_event_type_str(event.event_type));
}

static void
mixed_close(struct mixed *m)
{
	int errors = 0;

	pair_barrier(m->pair);
	expect_no_event(m);
	for (uint32_t i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		CHECK(m->pair,
		      ibv_query_qp(m->qp[i], &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_RTS,
		      "queue pair %u is in state %d", i, attr.qp_state);
	}
	pair_barrier(m->pair);
	for (uint32_t i = 0; i < QPS; i++)
		errors += ibv_destroy_qp(m->qp[i]) != 0;
	errors += ibv_destroy_qp(m->ud) != 0;
	errors += ibv_destroy_ah(m->ah) != 0;
	errors += ibv_dereg_mr(m->mr) != 0;
	errors += ibv_destroy_srq(m->srq) != 0;
	errors += ibv_destroy_cq(m->send_cq) != 0;
	errors += ibv_destroy_cq(m->recv_cq) != 0;
	errors += ibv_destroy_cq(m->ud_cq) != 0;
	errors += ibv_destroy_comp_channel(m->channel) != 0;
	errors += ibv_dealloc_pd(m->pd) != 0;
	errors += ibv_close_device(m->context) != 0;
	CHECK(m->pair, errors == 0, "%d objects cannot be destroyed", errors);
	free(m->area);
}

/* ---- completions ---- */

static void
await_event(struct mixed *m)
{
	struct pollfd waits = {.fd = m->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	CHECK(m->pair, poll(&waits, 1, WAIT_MS) == 1, "no completion event");
	CHECK(m->pair, ibv_get_cq_event(m->channel, &cq, &context) == 0, "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

/* Takes one completion, and sleeps until it comes. */
static struct ibv_wc
take(struct mixed *m, struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
		CHECK(m->pair, ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
		n = ibv_poll_cq(cq, 1, &wc);
		if (n != 0)
			break;
		await_event(m);
	}
	CHECK(m->pair, n == 1 && wc.status == IBV_WC_SUCCESS, "completion: %s", ibv_wc_status_str(wc.status));
	return wc;
}

static void
post(struct mixed *m, struct ibv_qp *qp, struct ibv_send_wr *wr, void *at, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = length, .lkey = m->mr->lkey};
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	CHECK(m->pair, ibv_post_send(qp, wr, &bad) == 0, "ibv_post_send of opcode %d", wr->opcode);
}

static void
send_message(struct mixed *m, uint32_t qp, uint32_t number, bool last, int flags)
{
	struct note note = {.qp = qp, .number = number, .last = last};
	struct ibv_send_wr wr = {.wr_id = qp, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED | flags};
	uint8_t *at = m->out + qp * SLOT;

	note.length = (number * 2654435761u + qp * 40503u) % (SLOT - sizeof(note));
	memcpy(at, &note, sizeof(note));
	pair_pattern(at + sizeof(note), note.length, number * QPS + qp);
	post(m, m->qp[qp], &wr, at, sizeof(note) + note.length);
}

static struct note
receive_message(struct mixed *m)
{
	struct ibv_wc wc = take(m, m->recv_cq);
	const uint8_t *at = m->in + wc.wr_id * SLOT;
	struct note note;

	memcpy(&note, at, sizeof(note));
	CHECK(m->pair, note.qp < QPS && m->qp[note.qp]->qp_num == wc.qp_num,
	      "a message of queue pair %u at another", note.qp);
	CHECK(m->pair, note.number == m->expected[note.qp], "queue pair %u: message %u, not %u", note.qp,
	      note.number, m->expected[note.qp]);
	m->expected[note.qp]++;
	CHECK(m->pair,
	      wc.byte_len == sizeof(note) + note.length &&
		      pair_pattern_check(at + sizeof(note), note.length, note.number * QPS + note.qp) ==
			      note.length,
	      "queue pair %u: message %u of %u bytes is wrong", note.qp, note.number, wc.byte_len);
	post_srq(m, wc.wr_id);
	return note;
}

/* ---- datagrams ---- */

static void
send_datagram(struct mixed *m)
{
	struct ibv_send_wr wr = {.wr_id = QPS,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = m->ah, .remote_qpn = m->peer.ud, .remote_qkey = QKEY}};
	struct note note = {.qp = QPS, .number = ++m->datagram, .length = 64 + m->datagram * 7 % 900};
	uint8_t *at = m->out + QPS * SLOT;

	memcpy(at, &note, sizeof(note));
	pair_pattern(at + sizeof(note), note.length, note.number);
	post(m, m->ud, &wr, at, sizeof(note) + note.length);
	CHECK(m->pair, take(m, m->send_cq).wr_id == QPS, "datagram %u: the completion of another",
	      note.number);
}

/* Takes the datagrams that have come. None may come twice. */
static void
receive_datagrams(struct mixed *m)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(m->ud_cq, 1, &wc)) == 1) {
		const uint8_t *at = m->ud_in + wc.wr_id * SLOT + GRH;
		struct note note;

		memcpy(&note, at, sizeof(note));
		CHECK(m->pair, wc.status == IBV_WC_SUCCESS && wc.src_qp == m->peer.ud, "a datagram: %s",
		      ibv_wc_status_str(wc.status));
		CHECK(m->pair, note.number > m->datagram, "datagram %u after %u", note.number, m->datagram);
		CHECK(m->pair,
		      wc.byte_len == GRH + sizeof(note) + note.length &&
			      pair_pattern_check(at + sizeof(note), note.length, note.number) == note.length,
		      "datagram %u of %u bytes is wrong", note.number, wc.byte_len);
		m->datagram = note.number;
		m->datagrams++;
		post_ud(m, wc.wr_id);
	}
	CHECK(m->pair, n == 0, "ibv_poll_cq: %d", n);
}

/* ---- both ends ---- */

static void
mixed_server(struct pair *pair)
{
	uint32_t open = QPS;
	struct mixed m;

	alarm(0); /* the script ends what hangs */
	mixed_open(&m, pair);
	while (open > 0) {
		struct note note = receive_message(&m);

		receive_datagrams(&m);
		open -= note.last;
		send_message(&m, note.qp, note.number, note.last, 0);
		CHECK(pair, take(&m, m.send_cq).wr_id == note.qp, "the completion of another queue pair");
	}
	receive_datagrams(&m);
	pair_send(pair, &m.datagrams, sizeof(m.datagrams));
	mixed_close(&m);
}

/* Posts what a queue pair does in a round. The fence completes the READ before the message. */
static void
post_round(struct mixed *m, uint32_t qp, uint32_t round, bool last)
{
	uint32_t part = (round * 40503u + qp) % (AREA / 2), length = 1 + (round * 9973u + qp) % (AREA / 2);
	uint8_t *own = m->area + qp * AREA;
	struct ibv_send_wr write = {.wr_id = qp, .opcode = IBV_WR_RDMA_WRITE};
	struct ibv_send_wr read = {.wr_id = qp, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};

	write.wr.rdma.rkey = read.wr.rdma.rkey = m->peer.key;
	write.wr.rdma.remote_addr = m->peer.address + qp * AREA + part;
	read.wr.rdma.remote_addr = m->peer.address + qp * AREA;
	pair_pattern(own + part, length, round * QPS + qp);
	post(m, m->qp[qp], &write, own + part, length);
	post(m, m->qp[qp], &read, m->back + qp * AREA, AREA);
	send_message(m, qp, round, last, IBV_SEND_FENCE);
}

static void
end_round(struct mixed *m, uint32_t round)
{
	uint32_t reads[QPS] = {0}, sends[QPS] = {0};

	for (uint32_t k = 0; k < 2 * QPS; k++) {
		struct ibv_wc wc = take(m, m->send_cq);
		bool read = wc.opcode == IBV_WC_RDMA_READ;

		CHECK(m->pair, wc.wr_id < QPS && (read || wc.opcode == IBV_WC_SEND),
		      "completion of opcode %d", wc.opcode);
		(read ? reads : sends)[wc.wr_id]++;
	}
	for (uint32_t i = 0; i < QPS; i++)
		CHECK(m->pair, reads[i] == 1 && sends[i] == 1, "round %u, queue pair %u: %u READs, %u SENDs",
		      round, i, reads[i], sends[i]);
	CHECK(m->pair, memcmp(m->area, m->back, QPS * AREA) == 0, "round %u: what was read differs", round);
	for (uint32_t i = 0; i < QPS; i++)
		receive_message(m);
}

static void
mixed_client(struct pair *pair)
{
	const char *until = getenv("UNTIL");
	uint32_t round = 0, came;
	bool last = false;
	struct mixed m;

	CHECK(pair, until != NULL, "UNTIL is not set");
	alarm(0); /* the script ends what hangs */
	mixed_open(&m, pair);
	for (; !last; round++) {
		last = access(until, F_OK) == 0;
		for (uint32_t i = 0; i < DATAGRAMS; i++)
			send_datagram(&m);
		for (uint32_t i = 0; i < QPS; i++)
			post_round(&m, i, round, last);
		end_round(&m, round);
		printf("round %u\n", round);
		fflush(stdout);
	}
	pair_recv(pair, &came, sizeof(came));
	printf("%u of %u datagrams came\n", came, m.datagram);
	CHECK(pair, came > 0, "no datagram came");
	mixed_close(&m);
}

/* ---- the longest time between two completions of 8 B writes ---- */

#define IDLE 1000u
#define REGISTERED (1ul << 30)
#define GAP_US 5000u /* shorter ones are not printed */

static struct ibv_qp *idle[IDLE];

static void
connect_idle(struct mixed *m)
{
	for (uint32_t i = 0; i < IDLE; i++) {
		uint32_t qpn;

		idle[i] = create_qp(m, IBV_QPT_RC);
		pair_send(m->pair, &idle[i]->qp_num, sizeof(qpn));
		pair_recv(m->pair, &qpn, sizeof(qpn));
		connect_rc(m, idle[i], qpn);
	}
}

static void
gaps_open(struct mixed *m, struct pair *pair)
{
	void *at = mmap(NULL, REGISTERED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	alarm(0); /* the script ends what hangs */
	mixed_open(m, pair);
	CHECK(pair, at != MAP_FAILED && ibv_reg_mr(m->pd, at, REGISTERED, ACCESS) != NULL, "1 GiB: %s",
	      strerror(errno));
	connect_idle(m);
	pair_barrier(pair);
}

static void
gaps_server(struct pair *pair)
{
	static struct mixed m;

	gaps_open(&m, pair);
	pair_barrier(pair);
}

static uint64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void
gaps_client(struct pair *pair)
{
	const char *until = getenv("UNTIL");
	static struct mixed m;
	uint64_t before, now;

	CHECK(pair, until != NULL, "UNTIL is not set");
	gaps_open(&m, pair);
	printf("ready\n");
	fflush(stdout);
	for (before = now_us(); access(until, F_OK) != 0; before = now) {
		struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

		write.wr.rdma.rkey = m.peer.key;
		write.wr.rdma.remote_addr = m.peer.address;
		post(&m, m.qp[0], &write, m.area, 8);
		take(&m, m.send_cq);
		now = now_us();
		if (now - before >= GAP_US) {
			printf("gap %lu\n", now - before);
			fflush(stdout);
		}
	}
	pair_barrier(pair);
}

static const struct pair_case cases[] = {{"mixed", mixed_server, mixed_client, false},
					 {"gaps", gaps_server, gaps_client, false}};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
