/* SPDX-License-Identifier: BSD-3-Clause */
/* Hostile peers. A queue pair with work, receives and READs in progress gets random packets, and frames of a
 * real peer mutated and sealed with a valid ICRC. It must not crash, hang, write outside the memory that its
 * keys grant, lose a work node, or complete work twice or out of order. */
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dataplane/rc/rc_internal.h"
#include "dataplane/wire/bytes.h"
#include "dataplane/wire/icrc.h"
#include "dataplane/mem/bounce.h"
#include "tests/rc_env.h"

#include "common.h"

#define NODES 64u
#define PAGE 4096u
#define AREA (2 * PAGE)
#define PACKETS 400u
#define BOARDS 1u /* one scoreboard for both directions */

struct end {
	struct test_env env; /* first: callbacks get the end from it */
	struct rc_attr attr;
	struct rc_qp *qp;
	struct end *peer;
	uint8_t *last; /* last frame sent, for mutation */
	uint32_t last_len;
	uint8_t *input; /* block that holds the payload of the last packet */
	uint64_t posted, done, received, taken;
	bool failed;
	uint8_t *block;                        /* memory that its keys grant, between inaccessible pages */
	struct mem_region local, remote, gone; /* `gone` is not mapped and has no owner */
};

static uint64_t state, seed;

static uint32_t
below(uint32_t n)
{
	return (uint32_t)(next_random(&state) >> 32) % n;
}

static _Noreturn void
die(const char *why)
{
	fprintf(stderr, "hostile: seed %llu: %s\nreplay: hostile --seed %llu --count 1\n",
		(unsigned long long)seed, why, (unsigned long long)seed);
	exit(1);
}

static uint8_t *
tx_begin(struct rc_env *env, struct rc_qp *qp, uint32_t len)
{
	return below(20) != 0 ? test_env_begin(env, qp, len) : NULL;
}

static void
tx_end(struct rc_env *env, struct rc_qp *qp, bool sealed)
{
	struct end *end = (struct end *)env;
	struct wire_packet packet;

	free(end->last);
	end->last = end->env.begun;
	end->last_len = end->env.begun_len;
	if (!sealed)
		wire_seal(end->last, end->last_len);
	if (wire_parse(end->last, end->last_len, &packet) != WIRE_OK || packet.qpn != end->attr.peer_qpn)
		die("a malformed frame was sent");
}

static bool
take_recv(struct rc_env *env, struct rc_qp *qp, struct recv_work *out)
{
	struct end *end = (struct end *)env;

	if (below(4) == 0)
		return false;
	memset(out, 0, sizeof(*out));
	out->cookie = end->taken++;
	out->num_sge = (uint8_t)below(ONE_MAX_SGE + 1);
	for (uint32_t i = 0; i < out->num_sge; i++) {
		out->sge[i].len = below(600);
		out->sge[i].addr = end->local.va + below(AREA - 500);
		out->sge[i].lkey = below(30) ? end->local.key : end->gone.key;
		out->length += out->sge[i].len;
	}
	return true;
}

static void
complete(struct rc_env *env, struct rc_qp *qp, const struct completion *c)
{
	struct end *end = (struct end *)env;

	if (end->failed)
		die("completion after failed()");
	if (c->type == ONE_CQE_RECV || c->type == ONE_CQE_RECV_WRITE_IMM) {
		if (c->cookie != end->received++ || end->received > end->taken)
			die("receives completed out of order");
	} else if (c->cookie != end->done++ || end->done > end->posted) {
		die("work completed out of order");
	}
}

static void
failed(struct rc_env *env, struct rc_qp *qp, enum rc_error error)
{
	struct end *end = (struct end *)env;

	if (end->failed)
		die("failed() twice");
	end->failed = true;
}

static void
bind(struct rc_env *env, struct rc_qp *qp, const struct work *work)
{
	if (below(2))
		rc_bind_done(qp, below(10) != 0, 0);
}

static bool
invalidate(struct rc_env *env, struct rc_qp *qp, uint32_t key)
{
	return below(10) != 0;
}

static void
recognized(struct rc_env *env, struct rc_qp *qp, uint16_t udp_port)
{
	struct end *end = (struct end *)env;

	if (udp_port < 0xc000)
		die("a source port that is none");
	end->attr.path.udp_src_port = udp_port;
	rc_set_path(qp, &end->attr.path);
}

static const struct wire_packet *
hold(struct rc_env *env, const struct wire_packet *packet)
{
	return below(10) != 0 ? test_env_hold(env, packet) : NULL;
}

static void
end_new(struct end *end, struct end *peer, struct mem_table *mem, uint32_t index)
{
	memset(end, 0, sizeof(*end));
	end->peer = peer;
	end->block = mmap(NULL, AREA + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (end->block == MAP_FAILED || mprotect(end->block + PAGE, AREA, PROT_READ | PROT_WRITE) != 0)
		die("no memory");
	end->local = (struct mem_region){
		.key = 0x1000 + index * 0x1000,
		.pz = 1,
		.access = ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE,
		.va = 0x10000 + below(8),
		.length = AREA,
		.base = end->block + PAGE,
	};
	end->remote = end->local;
	end->remote.key += 0x100;
	end->remote.access = ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC;
	end->gone = end->local;
	end->gone.key += 0x200;
	end->gone.access = ONE_ACCESS_ALL;
	end->gone.base = NULL;
	mem_publish(mem, &end->local);
	mem_publish(mem, &end->remote);
	mem_publish(mem, &end->gone);
	test_env_init(&end->env, mem, NODES, BOARDS);
	end->env.rc.tx_begin = tx_begin;
	end->env.rc.tx_end = tx_end;
	end->env.rc.take_recv = take_recv;
	end->env.rc.complete = complete;
	end->env.rc.failed = failed;
	end->env.rc.bind = bind;
	end->env.rc.invalidate = invalidate;
	end->env.rc.hold = hold;
	end->env.rc.recognized = recognized;
	end->qp = malloc(rc_qp_size());
	rc_init(end->qp, &end->env.rc, 0, end);
}

static void
end_connect(struct end *end, uint32_t index, uint32_t psn_a, uint32_t psn_b, uint16_t mtu)
{
	struct rc_attr *attr = &end->attr;

	attr->qpn = 2 + index;
	attr->peer_qpn = 3 - index;
	attr->pz = 1;
	attr->access = below(8) ? end->remote.access : ONE_ACCESS_REMOTE_READ;
	attr->send_psn = index ? psn_b : psn_a;
	attr->recv_psn = index ? psn_a : psn_b;
	attr->path_mtu = mtu;
	attr->rd_atomic_in = (uint8_t)below(40);
	attr->rd_atomic_out = (uint8_t)below(20);
	attr->retry_count = (uint8_t)below(8);
	attr->rnr_retry = (uint8_t)below(8);
	attr->timeout = (uint8_t)below(20);
	attr->oneside_peer = below(2);
	attr->selective = below(2);
	attr->packed = below(2);
	if (below(2))
		attr->hello_port = (uint16_t)(0xc001 + below(4));
	attr->path.udp_src_port = 0xc000;
	attr->path.src.gid[10] = attr->path.src.gid[11] = 0xff;
	attr->path.src.gid[12] = 10;
	attr->path.dst = attr->path.src;
	attr->path.src.gid[15] = (uint8_t)(1 + index);
	attr->path.dst.gid[15] = (uint8_t)(2 - index);
	attr->path.ttl = 64;
	rc_connect(end->qp, attr, below(4) ? RC_RTS : RC_RTR);
}

static void
end_free(struct end *end)
{
	rc_reset(end->qp);
	free(end->last);
	munmap(end->block, AREA + 2 * PAGE);
	test_env_fini(&end->env);
	free(end->qp);
}

static void
post_random(struct end *end, uint64_t now)
{
	struct work work;

	memset(&work, 0, sizeof(work));
	work.op = (uint8_t)(below(40) ? 1 + below(9) : below(256));
	work.flags = (uint8_t)(below(8) << 3);
	if (work.op > ONE_OP_WRITE_IMM)
		work.flags &= (uint8_t)~ONE_WQE_INLINE;
	work.cookie = end->posted;
	work.remote_addr = end->peer->remote.va + below(AREA);
	work.rkey = below(30) ? end->peer->remote.key : end->peer->gone.key;
	work.imm = end->peer->remote.key;
	if (work.flags & ONE_WQE_INLINE) {
		work.length = below(ONE_INLINE_MAX + 1);
	} else {
		work.num_sge = (uint8_t)below(ONE_MAX_SGE + 1);
		for (uint32_t i = 0; i < work.num_sge; i++) {
			work.sge[i].len = below(1500);
			work.sge[i].addr = end->local.va + below(AREA - 1000);
			work.sge[i].lkey = below(30) ? end->local.key : end->gone.key;
			work.length += work.sge[i].len;
		}
		if (below(20) == 0)
			work.length = below(2) ? 0x80000000u - below(3) : work.length + 1;
	}
	if (rc_post(end->qp, &work, now) == 0)
		end->posted++;
}

/* Inputs a packet whose payload lies in `block`. Frees the block after the next packet, as a polling core
 * frees a frame. */
static void
input(struct end *victim, const struct wire_packet *packet, uint8_t *block, uint64_t now)
{
	test_env_input(&victim->env, victim->qp, packet, now);
	free(victim->input);
	victim->input = block;
}

static void
end_burst(struct end *victim)
{
	test_env_quiesce(&victim->env);
	free(victim->input);
	victim->input = NULL;
}

/* The first two are responses. */
static const uint8_t packed_opcodes[] = {
	WIRE_READ_RESPONSE_ONLY, WIRE_ATOMIC_ACKNOWLEDGE, WIRE_SEND_ONLY,    WIRE_SEND_ONLY_IMM,
	WIRE_WRITE_ONLY,         WIRE_WRITE_ONLY_IMM,     WIRE_READ_REQUEST, WIRE_COMPARE_SWAP,
	WIRE_FETCH_ADD,          WIRE_SEND_ONLY_INV};

/* Draws a PSN, often near to one that the victim expects, as an insider could. */
static uint32_t
random_psn(const struct end *victim)
{
	switch (below(4)) {
	case 0:
		return victim->attr.send_psn + below(40);
	case 1:
		return victim->attr.recv_psn + below(40);
	case 2:
		return victim->attr.recv_psn + (1u << 23) - below(4);
	default:
		return below(1u << 24);
	}
}

/* Turns the packet into a hello such as a peer might send, with random capabilities. */
static void
make_hello(const struct end *victim, struct wire_packet *packet, uint8_t data[WIRE_CNP_DATA_LEN])
{
	packet->opcode = WIRE_CNP;
	packet->udp_src_port = below(2) ? victim->attr.path.udp_src_port : victim->attr.hello_port;
	memcpy(data, "ONE1", 4);
	data[4] = (uint8_t)below(4);
	data[5] = (uint8_t)(below(2) ? 0xf : below(256));
	if (below(2))
		memset(data + 8, 0, 8);
}

static void
random_packet(struct end *victim, uint64_t now)
{
	static const uint32_t lens[] = {0, 1, 255, 256, 257, 1024, 4096, 4097, 9000};
	struct wire_packet packet;
	uint8_t *block, *payload;

	memset(&packet, 0, sizeof(packet));
	packet.src = victim->attr.path.dst;
	packet.dst = victim->attr.path.src;
	packet.opcode = (uint8_t)(below(20) ? below(0x18) : below(256));
	packet.solicited = below(2);
	packet.ack_request = below(2);
	packet.congestion = below(4) == 0;
	packet.pad = (uint8_t)below(4);
	packet.qpn = victim->attr.qpn;
	packet.psn = random_psn(victim) & 0xffffff;
	packet.remote_addr = below(4)   ? victim->remote.va + below(AREA + 64) - 32
			     : below(2) ? UINT64_MAX - below(64)
					: below(1000);
	packet.rkey = below(8) ? victim->remote.key : below(2) ? victim->local.key : victim->gone.key;
	packet.dma_length = below(3)   ? below(3000)
			    : below(2) ? 0x80000000u - below(2)
				       : UINT32_MAX - below(9);
	packet.swap_add = below(100);
	packet.compare = below(100);
	packet.syndrome = (uint8_t)below(256);
	packet.msn = below(1u << 24);
	packet.payload_len = below(3) ? lens[below(9)] : below(2000);
	if (below(3) == 0)
		packet.dma_length = packet.payload_len;
	if (below(3) == 0)
		packet.pad = (uint8_t)(-packet.payload_len & 3u);
	/* Exact, so that overreading is detected; before the payload is the data of a CNP. */
	block = malloc(WIRE_CNP_DATA_LEN + packet.payload_len + 1);
	payload = block + WIRE_CNP_DATA_LEN;
	memset(block, below(2) ? 0x77 : (int)below(256), WIRE_CNP_DATA_LEN + packet.payload_len + 1);
	packet.payload = payload;
	if (below(10) == 0)
		make_hello(victim, &packet, block);
	test_env_quiesce(&victim->env); /* as if the packet's frame had been parsed */
	input(victim, &packet, block, now);
}

/* Packed packets such as a peer might send, with occasional errors. */
static void
packed_packet(struct end *victim, uint64_t now)
{
	uint32_t count = 1 + below(12), responses = below(4) == 0;
	struct wire_packet packet;
	uint8_t *payload = malloc(12 * 200), *at = payload;

	for (uint32_t i = 0; i < count; i++) {
		struct wire_build b = {.opcode =
					       (uint8_t)(below(20) ? packed_opcodes[below(responses ? 2 : 10)]
								   : below(0x18)),
				       .solicited = below(2),
				       .remote_addr = victim->remote.va + below(AREA) / 8 * 8,
				       .rkey = below(30) ? victim->remote.key : victim->gone.key,
				       .payload_len = below(3) ? below(120) : 0};

		b.dma_length = below(8) ? b.payload_len : below(5000);
		memset(wire_pack(&b, at), (int)i, b.payload_len);
		at += wire_packed_len(b.opcode, b.payload_len);
	}
	packet = (struct wire_packet){.src = victim->attr.path.dst,
				      .dst = victim->attr.path.src,
				      .opcode = responses ? WIRE_PACKED_RESPONSES : WIRE_PACKED_REQUESTS,
				      .ack_request = below(2),
				      .qpn = victim->attr.qpn,
				      .psn = random_psn(victim) & 0xffffff,
				      .count = (uint16_t)(below(8) ? count : below(80)),
				      .payload_len = (uint32_t)(at - payload)};
	if (below(4) == 0)
		payload[below(packet.payload_len)] = (uint8_t)below(256);
	if (below(8) == 0)
		packet.payload_len = below(packet.payload_len);
	/* A block of the exact size, so that overreading is detected. */
	packet.payload = realloc(payload, packet.payload_len + 1);
	test_env_quiesce(&victim->env);
	input(victim, &packet, (uint8_t *)(uintptr_t)packet.payload, now);
}

/* The peer's last frame, mostly with a few bytes changed after the UDP header, and a valid ICRC. */
static void
mutated_frame(struct end *victim, uint64_t now)
{
	struct end *peer = victim->peer;
	uint32_t len = peer->last_len, flips = below(4);
	struct wire_packet packet;
	uint8_t *frame;

	if (peer->last == NULL)
		return;
	frame = malloc(len);
	memcpy(frame, peer->last, len);
	while (flips-- > 0) {
		uint32_t at = WIRE_ETH_LEN + 28 + below(len - WIRE_ETH_LEN - 28 - WIRE_ICRC_LEN);

		frame[at] = (uint8_t)(below(2) ? below(256) : frame[at] ^ (1u << below(8)));
	}
	store_le32(frame + len - 4, icrc->compute(frame + WIRE_ETH_LEN, 20, len - WIRE_ETH_LEN - 4));
	if (test_env_parse(&victim->env, frame, len, &packet) == WIRE_OK)
		input(victim, &packet, frame, now);
	else
		free(frame);
}

/* A plausible message of the peer, with more or fewer packets than announced, and mostly one byte changed. */
static void
stream(struct end *victim, uint16_t mtu, uint64_t now)
{
	struct end *peer = victim->peer;
	uint32_t packets = 2 + below(12), changed = below(2 * packets), len;
	struct wire_template template;
	struct wire_packet packet;

	wire_template_init(&template, &peer->attr.path);
	for (uint32_t k = 0; k < packets; k++) {
		struct wire_build b = {.opcode = k == 0 ? WIRE_WRITE_FIRST : WIRE_WRITE_MIDDLE,
				       .qpn = victim->attr.qpn,
				       .psn = victim->attr.recv_psn + k,
				       .remote_addr = victim->remote.va + below(64),
				       .rkey = victim->remote.key,
				       .dma_length = below(16u * mtu),
				       .ack_request = below(2),
				       .payload_len = mtu};
		uint8_t *frame;

		len = wire_frame_len(&template, b.opcode, mtu);
		frame = malloc(len);
		memset(wire_build(&template, &b, frame), (int)k, mtu);
		if (k == changed)
			frame[WIRE_ETH_LEN + 28 + below(12)] ^= (uint8_t)(1u << below(8));
		wire_seal(frame, len);
		if (test_env_parse(&victim->env, frame, len, &packet) == WIRE_OK)
			input(victim, &packet, frame, now);
		else
			free(frame);
	}
	end_burst(victim);
}

static void
check_pool(struct end *end)
{
	end->failed = false;
	rc_reset(end->qp);
	if (end->env.rc.pool->available != NODES)
		die("work nodes were lost");
	if (end->env.holds != 0)
		die("packets are still held");
}

static void
settle(struct end *end, uint64_t now)
{
	/* Bounded: no READ is longer than AREA. BIND may wait, and the peer is silent. */
	for (uint32_t loops = 0; rc_wants_output(end->qp); loops++) {
		if (rc_output(end->qp, 8, now) > 8)
			die("rc_output exceeded its budget");
		if (loops == 10000)
			die("output does not come to an end");
	}
}

static void
attack(void)
{
	static const uint16_t mtus[] = {256, 512, 1024, 2048, 4096, 320, 1408, 8896};
	struct mem_table *mem = mem_table_new(8);
	uint32_t psn_a = below(4) ? below(1u << 24) : 0xfffff0, psn_b = below(1u << 24);
	uint16_t mtu = mtus[below(8)];
	struct end *end = malloc(2 * sizeof(*end));
	uint64_t now = 1;
	bool random;

	for (uint32_t i = 0; i < 2; i++)
		end_new(&end[i], &end[1 - i], mem, i);
	for (uint32_t i = 0; i < 2; i++)
		end_connect(&end[i], i, psn_a, psn_b, mtu);
	if (below(4) == 0)
		stream(&end[0], mtu, now);
	for (uint32_t i = 0; i < PACKETS; i++) {
		struct end *victim = &end[below(8) == 0];

		now += below(100000);
		if (below(3) == 0)
			post_random(victim, now);
		if (below(3) == 0)
			post_random(victim->peer, now);
		if (below(2) && rc_output(victim->peer->qp, 1, now) > 1)
			die("rc_output exceeded its budget");
		random = below(4) == 0;
		for (uint32_t burst = below(4) ? 1 : 1 + below(4); burst > 0; burst--) {
			if (random && below(2))
				packed_packet(victim, now);
			else if (random)
				random_packet(victim, now);
			else
				mutated_frame(victim, now);
		}
		end_burst(victim);
		/* Make progress, so that there is something to disturb. */
		if (!random && below(3) != 0 && rc_output(victim->qp, below(4), now) > 3)
			die("rc_output exceeded its budget");
		if (below(10) == 0)
			rc_bind_done(victim->qp, below(10) != 0, now);
		if (rc_deadline(victim->qp) <= now || below(50) == 0)
			rc_timeout(victim->qp, now);
		if (below(300) == 0)
			mem_remove(mem, victim->remote.key);
	}
	for (uint32_t i = 0; i < 2; i++) {
		settle(&end[i], now);
		if (below(2) && rc_state(end[i].qp) != RC_ERROR)
			rc_flush(end[i].qp);
		if (rc_state(end[i].qp) == RC_ERROR &&
		    (end[i].done != end[i].posted || end[i].received != end[i].taken || !rc_idle(end[i].qp) ||
		     rc_wants_output(end[i].qp) || rc_deadline(end[i].qp) != RC_NEVER))
			die("not all was flushed");
		check_pool(&end[i]);
	}
	for (uint32_t i = 0; i < 2; i++)
		end_free(&end[i]);
	free(end);
	mem_table_free(mem);
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"seed", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0},
	};
	uint64_t first = 1, count = 1000;
	int option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (option == 's') {
			first = strtoull(optarg, NULL, 0);
		} else if (option == 'c') {
			count = strtoull(optarg, NULL, 0);
		} else {
			fprintf(stderr, "usage: hostile [--seed N] [--count N]\n");
			return 2;
		}
	}
	wire_init();
	for (seed = first; seed < first + count; seed++) {
		state = seed;
		attack();
	}
	printf("%llu attacks survived\n", (unsigned long long)count);
	return 0;
}
