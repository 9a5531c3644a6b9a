/* SPDX-License-Identifier: BSD-3-Clause */
/* Cost of the transport: two queue pairs back to back in one thread, frames in a warm ring, real time. Each
 * stage of a batch is timed on its own, since on real machines the two ends run on two processors. */
#include "sim.h"

#include <time.h>

#define BATCH 32u
#define SLOTS 2048u
#define SLOT_LEN 4352u
#define LONG (512u << 10)
#define LONG_BYTES (2048u << 20)
#define ROUNDS 100000u

struct bench_end {
	struct rc_env env; /* first: callbacks get the end from it */
	struct rc_qp *qp;
	uint8_t *slots;
	uint32_t len[SLOTS];
	uint32_t head, tail;
	uint64_t completions;
	struct wire_seen seen;
	struct wire_move move;
};

static uint8_t *
tx_begin(struct rc_env *env, struct rc_qp *qp, uint32_t len)
{
	struct bench_end *end = (struct bench_end *)env;

	end->len[end->tail % SLOTS] = len;
	return end->slots + (size_t)(end->tail % SLOTS) * SLOT_LEN + 64;
}

static void
tx_end(struct rc_env *env, struct rc_qp *qp, bool sealed)
{
	struct bench_end *end = (struct bench_end *)env;

	if (!sealed)
		wire_seal(end->slots + (size_t)(end->tail % SLOTS) * SLOT_LEN + 64,
			  end->len[end->tail % SLOTS]);
	end->tail++;
}

static bool
take_recv(struct rc_env *env, struct rc_qp *qp, struct recv_work *out)
{
	return false;
}

static void
complete(struct rc_env *env, struct rc_qp *qp, const struct completion *c)
{
	((struct bench_end *)env)->completions += c->status == ONE_STATUS_SUCCESS;
}

static void
failed(struct rc_env *env, struct rc_qp *qp, enum rc_error error)
{
	fprintf(stderr, "sim: the connection of the benchmark failed\n");
	exit(1);
}

static uint64_t
clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void
end_new(struct bench_end *end, struct mem_table *mem, bool is_a, uint32_t mtu, bool packed)
{
	struct rc_attr attr = {
		.qpn = is_a ? 17 : 18,
		.peer_qpn = is_a ? 18 : 17,
		.pz = 1,
		.access = ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_READ,
		.path_mtu = (uint16_t)mtu,
		.rd_atomic_in = 16,
		.rd_atomic_out = 16,
		.retry_count = 7,
		.rnr_retry = 7,
		.timeout = 14,
		.oneside_peer = true,
		.selective = packed,
		.packed = packed,
		.path = {.ttl = 64},
	};

	memset(end, 0, sizeof(*end));
	attr.path.src.gid[10] = attr.path.src.gid[11] = 0xff;
	attr.path.dst = attr.path.src;
	attr.path.src.gid[12] = attr.path.dst.gid[12] = 10;
	attr.path.src.gid[15] = is_a ? 1 : 2;
	attr.path.dst.gid[15] = is_a ? 2 : 1;
	end->env.mem = mem;
	end->env.tx_begin = tx_begin;
	end->env.tx_end = tx_end;
	end->env.take_recv = take_recv;
	end->env.complete = complete;
	end->env.failed = failed;
	end->env.pool = rc_pool_init(malloc(rc_pool_size(2048)), 2048);
	end->env.scoreboards = rc_scoreboards_init(calloc(1, rc_scoreboards_size(1)), 1);
	end->slots = aligned_alloc(64, (size_t)SLOTS * SLOT_LEN);
	memset(end->slots, 0, (size_t)SLOTS * SLOT_LEN);
	end->qp = aligned_alloc(64, (rc_qp_size() + 63) / 64 * 64);
	rc_init(end->qp, &end->env, 0, NULL);
	rc_connect(end->qp, &attr, RC_RTS);
}

/* Receives a batch like a polling core: runs of alike packets take the short path. */
static void
receive(struct bench_end *from, struct bench_end *to, uint64_t now)
{
	to->env.move = &to->move;
	for (; from->head != from->tail; from->head++) {
		uint32_t slot = from->head % SLOTS;

		if (wire_parse_received(from->slots + (size_t)slot * SLOT_LEN + 64, from->len[slot], false,
					&to->seen, &to->move) != WIRE_OK)
			failed(&from->env, from->qp, RC_ERROR_REQUESTER);
		if (!to->seen.again)
			rc_run_end(&to->env);
		if (!rc_input_again(&to->env, &to->seen.packet, now))
			rc_input(to->qp, &to->seen.packet, now);
	}
	rc_run_end(&to->env);
	to->env.move = NULL;
	wire_move(&to->move);
}

static void
measure(struct mem_table *mem, const struct mem_region *region, uint8_t op, uint32_t len, bool is_inline,
	bool packed)
{
	struct bench_end *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));
	uint32_t batch = op == ONE_OP_READ ? RC_RD_ATOMIC_MAX : BATCH;
	uint64_t t[5] = {0}, start, n = 0;
	struct work work = {.op = op,
			    .length = len,
			    .num_sge = is_inline ? 0 : 1,
			    .flags = is_inline ? ONE_WQE_INLINE : 0,
			    .remote_addr = region->va,
			    .rkey = region->key};

	end_new(a, mem, true, 1024, packed);
	end_new(b, mem, false, 1024, packed);
	if (!is_inline)
		work.sge[0] = (struct one_sge){.addr = region->va + 65536, .len = len, .lkey = region->key};
	start = clock_ns();
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint64_t s[6];

		s[0] = clock_ns();
		for (uint32_t i = 0; i < batch; i++, n++) {
			work.remote_addr = region->va + (n % 256) * 64;
			if (rc_post(a->qp, &work, s[0]) != 0)
				failed(&a->env, a->qp, RC_ERROR_REQUESTER);
		}
		s[1] = clock_ns();
		rc_output(a->qp, batch, s[1]);
		s[2] = clock_ns();
		receive(a, b, s[2]);
		s[3] = clock_ns();
		rc_output(b->qp, 2 * BATCH, s[3]);
		s[4] = clock_ns();
		receive(b, a, s[4]);
		s[5] = clock_ns();
		for (int i = 0; i < 5; i++)
			t[i] += s[i + 1] - s[i];
	}
	start = clock_ns() - start;
	if (a->completions != n) {
		fprintf(stderr, "sim: %llu of %llu completed\n", (unsigned long long)a->completions,
			(unsigned long long)n);
		exit(1);
	}
	printf("%-6s %5u%s%s  %6.1f ns each: post %5.1f, output %5.1f | input %5.1f, reply %5.1f | completion %5.1f\n",
	       op == ONE_OP_READ ? "READ" : "WRITE", len, is_inline ? "i" : " ",
	       packed ? " packed" : "       ", (double)start / (double)n, (double)t[0] / (double)n,
	       (double)t[1] / (double)n, (double)t[2] / (double)n, (double)t[3] / (double)n,
	       (double)t[4] / (double)n);
}

/* Long messages, several in flight. The figures are per packet. */
static void
measure_long(struct mem_table *mem, const struct mem_region *region, uint8_t op, uint32_t mtu)
{
	struct bench_end *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));
	uint32_t messages = LONG_BYTES / LONG, posted = 0;
	double packets = (double)LONG_BYTES / mtu;
	uint64_t t[4] = {0};
	struct work work = {.op = op,
			    .length = LONG,
			    .num_sge = 1,
			    .remote_addr = region->va,
			    .rkey = region->key,
			    .sge[0] = {.addr = region->va + LONG, .len = LONG, .lkey = region->key}};

	end_new(a, mem, true, mtu, false);
	end_new(b, mem, false, mtu, false);
	while (a->completions < messages) {
		uint64_t s[5];

		for (; posted < messages && posted < a->completions + 8; posted++)
			if (rc_post(a->qp, &work, clock_ns()) != 0)
				failed(&a->env, a->qp, RC_ERROR_REQUESTER);
		s[0] = clock_ns();
		rc_output(a->qp, 2 * BATCH, s[0]);
		s[1] = clock_ns();
		receive(a, b, s[1]);
		s[2] = clock_ns();
		rc_output(b->qp, 2 * BATCH, s[2]);
		s[3] = clock_ns();
		receive(b, a, s[3]);
		s[4] = clock_ns();
		for (int i = 0; i < 4; i++)
			t[i] += s[i + 1] - s[i];
	}
	printf("%-6s %4u KiB, MTU %u, for each packet: output %5.1f | input %5.1f, reply %5.1f | response %5.1f\n",
	       op == ONE_OP_READ ? "READ" : "WRITE", LONG >> 10, mtu, (double)t[0] / packets,
	       (double)t[1] / packets, (double)t[2] / packets, (double)t[3] / packets);
}

void
bench_run(void)
{
	struct mem_table *mem = mem_table_new(16);
	struct mem_region region = {
		.key = 0x12345678,
		.pz = 1,
		.access = ONE_ACCESS_ALL,
		.va = 1 << 20,
		.length = 1 << 20,
		.base = aligned_alloc(4096, 1 << 20),
	};

	memset(region.base, 1, region.length);
	mem_publish(mem, &region);
	measure(mem, &region, ONE_OP_WRITE, 8, true, false);
	measure(mem, &region, ONE_OP_WRITE, 8, true, true);
	measure(mem, &region, ONE_OP_WRITE, 8, false, false);
	measure(mem, &region, ONE_OP_WRITE, 8, false, true);
	measure(mem, &region, ONE_OP_WRITE, 64, false, false);
	measure(mem, &region, ONE_OP_WRITE, 64, false, true);
	measure(mem, &region, ONE_OP_WRITE, 1024, false, false);
	measure(mem, &region, ONE_OP_READ, 64, false, false);
	measure(mem, &region, ONE_OP_READ, 64, false, true);
	measure_long(mem, &region, ONE_OP_WRITE, 1024);
	measure_long(mem, &region, ONE_OP_WRITE, 4096);
	measure_long(mem, &region, ONE_OP_READ, 1024);
	measure_long(mem, &region, ONE_OP_READ, 4096);
	printf("an idle queue pair takes %zu bytes\n", rc_qp_size());
}
