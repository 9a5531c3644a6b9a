/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Goodput in virtual time: senders, a switch, one receiver.
 *
 * Each host has a link of `rate` to the switch. The switch's port towards the receiver has a buffer of
 * `buffer` bytes: frames that do not fit are dropped, and frames that find more than `mark` bytes queued are
 * marked (ECN). The reverse path is not congested. In addition, every frame is lost with probability `loss`.
 *
 * Goodput counts the bytes that the receiver has got in order in the second half of the time, after slow
 * start. Results do not depend on the machine.
 */
#include "sim.h"

#include "dataplane/wire/bytes.h"
#include "dataplane/rc/rc_internal.h"

#define LINK_RATE 100.0 /* Gb/s: bits per ns */
#define LINK_MESSAGE (1u << 20)
#define LINK_DEPTH 8u
#define LINK_SENDERS_MAX 64u
#define LINK_POLL 1000u      /* ns between two polls of a host */
#define LINK_NIC_AHEAD 5000u /* ns of frames that a host's port queues */
#define LINK_BUDGET 16u
#define LINK_OVERHEAD 24u /* preamble, gap and FCS of each frame, bytes */
#define LINK_NODES 4096u
#define LINK_BOARDS 64u

struct node;

struct flow {
	struct node *node, *peer;
	struct rc_qp *qp;
	uint32_t outstanding;
	uint32_t seen; /* PSN up to which `bytes` counts */
	uint64_t bytes;
};

struct node {
	struct test_env env; /* first: callbacks get the node from it */
	struct network *net;
	struct flow flow[LINK_SENDERS_MAX];
	uint32_t flows;
	uint64_t poll_at, port_free;
};

struct packet {
	struct node *to;
	bool at_switch;
	uint64_t at, order;
	uint32_t len;
	uint8_t *bytes;
};

struct network {
	const struct link_run *run;
	struct mem_table *mem;
	struct mem_region region;
	uint64_t now, random, order, egress_free, lost, dropped, marked;
	struct node node[LINK_SENDERS_MAX + 1]; /* the last node is the receiver */
	struct packet *heap;
	size_t heap_len, heap_cap;
};

static double
chance(struct network *net)
{
	return (double)(next_random(&net->random) >> 11) / 9007199254740992.0;
}

static uint64_t
serialization(uint32_t len)
{
	return (uint64_t)((len + LINK_OVERHEAD) * 8 / LINK_RATE);
}

static bool
earlier(const struct packet *a, const struct packet *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void
push(struct network *net, struct packet packet)
{
	size_t i = net->heap_len++;

	if (net->heap_len > net->heap_cap) {
		net->heap_cap = net->heap_cap * 2 + 1024;
		net->heap = realloc(net->heap, net->heap_cap * sizeof(*net->heap));
	}
	packet.order = net->order++;
	for (; i > 0 && earlier(&packet, &net->heap[(i - 1) / 2]); i = (i - 1) / 2)
		net->heap[i] = net->heap[(i - 1) / 2];
	net->heap[i] = packet;
}

static struct packet
pop(struct network *net)
{
	struct packet top = net->heap[0], last = net->heap[--net->heap_len];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < net->heap_len) {
		if (child + 1 < net->heap_len && earlier(&net->heap[child + 1], &net->heap[child]))
			child++;
		if (!earlier(&net->heap[child], &last))
			break;
		net->heap[i] = net->heap[child];
		i = child;
	}
	net->heap[i] = last;
	return top;
}

static void
poll_soon(struct node *node)
{
	if (node->poll_at == NEVER)
		node->poll_at = node->net->now + LINK_POLL;
}

/* ---- callbacks of the transport ---- */

static uint8_t *
tx_begin(struct rc_env *env, struct rc_qp *qp, uint32_t len)
{
	struct node *node = (struct node *)env;

	if (node->port_free > node->net->now + LINK_NIC_AHEAD)
		return NULL;
	return test_env_begin(env, qp, len);
}

static void
tx_end(struct rc_env *env, struct rc_qp *qp, bool sealed)
{
	struct node *node = (struct node *)env;
	struct network *net = node->net;
	const struct flow *flow = rc_user(qp);
	struct packet packet = {.to = flow->peer, .len = node->env.begun_len, .bytes = node->env.begun};
	uint64_t start = node->port_free > net->now ? node->port_free : net->now;

	if (!sealed)
		wire_seal(packet.bytes, packet.len);
	node->port_free = start + serialization(packet.len);
	packet.at_switch = flow->peer == &net->node[net->run->senders];
	packet.at = node->port_free + (packet.at_switch ? net->run->rtt / 4 : net->run->rtt / 2);
	if (chance(net) < net->run->loss) {
		net->lost++;
		free(packet.bytes);
		return;
	}
	push(net, packet);
}

static bool
take_recv(struct rc_env *env, struct rc_qp *qp, struct recv_work *out)
{
	return false;
}

static void
complete(struct rc_env *env, struct rc_qp *qp, const struct completion *c)
{
	struct flow *flow = rc_user(qp);

	if (c->status != ONE_STATUS_SUCCESS) {
		fprintf(stderr, "sim: a work request failed with status %u\n", c->status);
		exit(1);
	}
	flow->outstanding--;
}

static void
failed(struct rc_env *env, struct rc_qp *qp, enum rc_error error)
{
	fprintf(stderr, "sim: a connection broke\n");
	exit(1);
}

/* ---- hosts ---- */

static void
node_new(struct network *net, struct node *node)
{
	node->net = net;
	node->poll_at = NEVER;
	test_env_init(&node->env, net->mem, LINK_NODES, LINK_BOARDS);
	node->env.rc.tx_begin = tx_begin;
	node->env.rc.tx_end = tx_end;
	node->env.rc.take_recv = take_recv;
	node->env.rc.complete = complete;
	node->env.rc.failed = failed;
}

static void
flow_new(struct network *net, struct node *node, struct node *peer, uint32_t index, uint32_t peer_index)
{
	struct flow *flow = &node->flow[node->flows++];
	struct rc_attr attr = {
		.pz = 1,
		.access = ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_READ,
		.path_mtu = net->run->mtu,
		.rd_atomic_in = 16,
		.rd_atomic_out = 16,
		.retry_count = 7,
		.rnr_retry = 7,
		.timeout = 17,
		.oneside_peer = !net->run->unknown,
		.selective = net->run->selective,
		.path = {.ttl = 64,
			 .tos = 2,
			 .src.gid = {[10] = 0xff, 0xff, 10},
			 .dst.gid = {[10] = 0xff, 0xff, 10}},
	};

	flow->node = node;
	flow->peer = peer;
	attr.path.src.gid[15] = (uint8_t)(1 + (node - net->node));
	attr.path.dst.gid[15] = (uint8_t)(1 + (peer - net->node));
	attr.qpn = 0x100 + index;
	attr.peer_qpn = 0x100 + peer_index;
	flow->qp = aligned_alloc(64, (rc_qp_size() + 63) / 64 * 64);
	rc_init(flow->qp, &node->env.rc, 0, flow);
	rc_connect(flow->qp, &attr, RC_RTS);
}

static void
post(struct network *net, struct flow *flow)
{
	struct work work = {.op = net->run->read ? ONE_OP_READ : ONE_OP_WRITE,
			    .length = LINK_MESSAGE,
			    .num_sge = 1,
			    .remote_addr = net->region.va,
			    .rkey = net->region.key};

	work.sge[0] = (struct one_sge){.addr = net->region.va, .len = LINK_MESSAGE, .lkey = net->region.key};
	while (flow->outstanding < LINK_DEPTH && rc_post(flow->qp, &work, net->now) == 0)
		flow->outstanding++;
}

static void
poll_node(struct network *net, struct node *node, uint32_t senders)
{
	bool posts = (node == &net->node[senders]) == net->run->read;
	bool again;

	node->poll_at = NEVER;
	for (uint32_t i = 0; posts && i < node->flows; i++)
		post(net, &node->flow[i]);
	do {
		again = false;
		for (uint32_t i = 0; i < node->flows; i++) {
			struct flow *flow = &node->flow[i];

			if (rc_wants_output(flow->qp) && rc_output(flow->qp, LINK_BUDGET, net->now) > 0)
				again = true;
		}
	} while (again);
	for (uint32_t i = 0; i < node->flows; i++)
		if (rc_wants_output(node->flow[i].qp) || (posts && node->flow[i].outstanding < LINK_DEPTH))
			poll_soon(node);
}

/* Queues a packet at the switch's port towards the receiver. Returns false if the packet is dropped. */
static bool
through_switch(struct network *net, struct packet *packet)
{
	uint64_t start = net->egress_free > net->now ? net->egress_free : net->now;
	double queued = (double)(start - net->now) * LINK_RATE / 8;
	uint8_t *ip = packet->bytes + WIRE_ETH_LEN;

	if (queued + packet->len > net->run->buffer) {
		net->dropped++;
		return false;
	}
	if (queued > net->run->mark && (ip[1] & 3) != 0) {
		uint32_t sum = load_be16(ip + 10);

		/* Update the checksum (RFC 1624) of a word that has become larger. */
		sum = (~sum & 0xffff) + (3u & ~(uint32_t)ip[1]);
		ip[1] |= 3;
		sum = (sum & 0xffff) + (sum >> 16);
		store_be16(ip + 10, (uint16_t)~sum);
		net->marked++;
	}
	net->egress_free = start + serialization(packet->len);
	packet->at = net->egress_free + net->run->rtt / 4;
	packet->at_switch = false;
	return true;
}

static void
arrive(struct network *net, struct packet *packet)
{
	struct wire_packet parsed;

	memset(&parsed, 0, sizeof(parsed));
	if (wire_parse(packet->bytes, packet->len, &parsed) != WIRE_OK) {
		fprintf(stderr, "sim: a good frame was refused\n");
		exit(1);
	}
	for (uint32_t i = 0; i < packet->to->flows; i++)
		if (packet->to->flow[i].qp->qpn == parsed.qpn)
			rc_input(packet->to->flow[i].qp, &parsed, net->now);
	free(packet->bytes);
	poll_soon(packet->to);
}

/* Counts the bytes that the receiver has got in order. */
static void
count(const struct link_run *run, struct flow *receiver)
{
	uint32_t psn = run->read ? receiver->qp->req.una : receiver->qp->rsp.epsn;

	receiver->bytes += (uint64_t)((psn - receiver->seen) & RC_PSN_MASK) * run->mtu;
	receiver->seen = psn;
}

static void
run_until(struct network *net, uint64_t end)
{
	uint32_t nodes = net->run->senders + 1;

	for (;;) {
		uint64_t time = net->heap_len > 0 ? net->heap[0].at : NEVER;

		for (uint32_t i = 0; i < nodes; i++) {
			struct node *node = &net->node[i];

			time = node->poll_at < time ? node->poll_at : time;
			for (uint32_t j = 0; j < node->flows; j++) {
				uint64_t deadline = rc_deadline(node->flow[j].qp);

				time = deadline < time ? deadline : time;
			}
		}
		if (time > end)
			break;
		net->now = time > net->now ? time : net->now;
		while (net->heap_len > 0 && net->heap[0].at <= net->now) {
			struct packet packet = pop(net);

			if (!packet.at_switch)
				arrive(net, &packet);
			else if (through_switch(net, &packet))
				push(net, packet);
			else
				free(packet.bytes);
		}
		for (uint32_t i = 0; i < nodes; i++) {
			struct node *node = &net->node[i];

			for (uint32_t j = 0; j < node->flows; j++)
				if (rc_deadline(node->flow[j].qp) <= net->now) {
					rc_timeout(node->flow[j].qp, net->now);
					poll_soon(node);
				}
			if (node->poll_at <= net->now)
				poll_node(net, node, net->run->senders);
		}
	}
	net->now = end;
}

static void
net_free(struct network *net)
{
	for (uint32_t i = 0; i <= net->run->senders; i++) {
		struct node *node = &net->node[i];

		for (uint32_t j = 0; j < node->flows; j++) {
			rc_reset(node->flow[j].qp);
			free(node->flow[j].qp);
		}
		test_env_fini(&node->env);
	}
	while (net->heap_len > 0)
		free(pop(net).bytes);
	free(net->heap);
	free(net->region.base);
	mem_table_free(net->mem);
	free(net);
}

struct link_result
link_simulate(const struct link_run *run)
{
	struct network *net = calloc(1, sizeof(*net));
	struct node *receiver = &net->node[run->senders];
	struct link_result result = {0};
	uint64_t before[LINK_SENDERS_MAX] = {0}, dropped = 0;
	double sum = 0, squares = 0;

	net->run = run;
	net->random = 1;
	net->mem = mem_table_new(4);
	net->region = (struct mem_region){.key = 0x12345678,
					  .pz = 1,
					  .access = ONE_ACCESS_ALL,
					  .va = 1 << 20,
					  .length = LINK_MESSAGE,
					  .base = calloc(1, LINK_MESSAGE)};
	mem_publish(net->mem, &net->region);
	for (uint32_t i = 0; i <= run->senders; i++)
		node_new(net, &net->node[i]);
	for (uint32_t i = 0; i < run->senders; i++) {
		flow_new(net, &net->node[i], receiver, 2 * i, 2 * i + 1);
		flow_new(net, receiver, &net->node[i], 2 * i + 1, 2 * i);
		poll_soon(&net->node[i]);
	}
	poll_soon(receiver);

	/* Count often enough that PSNs cannot wrap in between. */
	for (uint32_t step = 0; step < 16; step++) {
		run_until(net, run->time / 16 * (step + 1));
		if (step == 7)
			dropped = net->dropped;
		for (uint32_t i = 0; i < run->senders; i++) {
			count(run, &receiver->flow[i]);
			if (step == 7)
				before[i] = receiver->flow[i].bytes;
		}
	}
	for (uint32_t i = 0; i < run->senders; i++) {
		double rate = (double)(receiver->flow[i].bytes - before[i]) * 8 / ((double)run->time / 2);

		sum += rate;
		squares += rate * rate;
		if (i == 0 || rate < result.least)
			result.least = rate;
	}
	result.goodput = sum;
	result.jain = squares > 0 ? sum * sum / (run->senders * squares) : 0;
	for (uint32_t i = 0; i <= run->senders; i++) {
		result.resent += net->node[i].env.rc.counter[RC_COUNT_RETRANSMIT];
		result.timeouts += net->node[i].env.rc.counter[RC_COUNT_TIMEOUT];
		result.cnps += net->node[i].env.rc.counter[RC_COUNT_CNP_RECEIVED];
	}
	result.lost = net->lost;
	result.dropped = net->dropped;
	result.late = net->dropped - dropped;
	result.marked = net->marked;
	net_free(net);
	return result;
}
