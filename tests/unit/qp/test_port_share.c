/* SPDX-License-Identifier: BSD-3-Clause */
/* Fairness of clients that share a port with little room. */
#include <rte_ether.h>
#include <rte_ip.h>

#include "sides.h"

static struct side side[2];

/* Wraps the driver's transmit function: at most `most` frames per loop. */
static struct {
	eth_tx_burst_t send;
	uint32_t most, left;
} port;

/* Swap the addresses, so that a frame to the peer returns as if the peer had sent it. */
static void
turn_round(struct rte_mbuf *m)
{
	struct rte_ipv4_hdr *ip =
		rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, sizeof(struct rte_ether_hdr));
	rte_be32_t src = ip->src_addr;

	ip->src_addr = ip->dst_addr;
	ip->dst_addr = src;
	wire_seal(rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
}

static uint16_t
send_few(void *queue, struct rte_mbuf **frames, uint16_t n)
{
	uint16_t few = (uint16_t)RTE_MIN((uint32_t)n, port.left), sent;

	for (uint16_t i = 0; i < few; i++)
		turn_round(frames[i]);
	sent = port.send(queue, frames, few);
	assert_int_equal(sent, few); /* the ring itself always has room */
	port.left -= sent;
	return sent;
}

static void
narrow(uint32_t most)
{
	struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[ports[0].device];

	if (most != 0) {
		port.send = ops->tx_pkt_burst;
		ops->tx_pkt_burst = send_few;
	} else {
		ops->tx_pkt_burst = port.send;
	}
	port.most = most;
}

/* Connect through the port, to 192.0.2.2. */
static void
begin_far(struct side *s, uint32_t pairs, uint32_t len)
{
	app_start(&s->app);
	ring_new(&s->app, 12, &s->sends, NULL);
	memory_new(&s->app, ONE_ACCESS_ALL, LONG, &s->memory);
	s->pairs = pairs;
	s->len = len;
	s->done = 0;
	for (uint32_t i = 0; i < pairs; i++) {
		struct pair *both[] = {&s->from[i], &s->to[i]};

		for (int j = 0; j < 2; j++)
			pair_new(&s->app, &s->sends, &s->sends, NULL, NULL, both[j]);
		for (int j = 0; j < 2; j++) {
			struct engine_connection c = connection_to(both[j], both[!j], RC_RTS, false);

			c.rc.path.dst.gid[15] = 2;
			assert_int_equal(command((struct engine_command){.type = ENGINE_QP_CONNECT,
									 .qp = both[j]->qp,
									 .connection = c}),
					 0);
		}
		s->open[i] = 0;
	}
}

static void
loops(uint32_t n, uint32_t sides)
{
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < sides; j++)
			post_all(&side[j]);
		port.left = port.most;
		turn(1);
	}
}

/* Bytes sent through the port, acknowledgements not counted: for short writes they are half of all. */
static uint64_t
bytes_of(const struct side *s)
{
	return s->done * (s->len + 74ull * ((s->len + 1023) / 1024));
}

/* DRR quanta of as many frames as the port accepts per loop, and of more. */
static void
test_shares(void **state)
{
	static const struct {
		uint32_t pairs[2], len[2], most;
	} cases[] = {
		{{4, 4}, {4096, 4096}, 8},
		{{1, PAIRS}, {16384, 16384}, 8},
		{{1, 4}, {65536, 4096}, 32},
		{{PAIRS, PAIRS}, {8, 8}, 8},
	};

	for (size_t i = 0; i < RTE_DIM(cases); i++) {
		uint64_t first, second, waits = engine.core[0]->stats.backpressure;

		for (int j = 0; j < 2; j++)
			begin_far(&side[j], cases[i].pairs[j], cases[i].len[j]);
		narrow(cases[i].most);
		loops(1000, 2);
		first = bytes_of(&side[0]);
		second = bytes_of(&side[1]);
		loops(160000 / cases[i].most, 2);
		first = bytes_of(&side[0]) - first;
		second = bytes_of(&side[1]) - second;
		narrow(0);
		assert_true(engine.core[0]->stats.backpressure > waits);
		if (first * 100 < (first + second) * 45 || first * 100 > (first + second) * 55)
			fail_msg("case %zu: %lu and %lu bytes", i, first, second);
		for (int j = 0; j < 2; j++)
			end(&side[j]);
	}
}

/* A short write and its acknowledgement wait for few frames only, next to a client that sends without end. */
static void
test_short_beside_long(void **state)
{
	uint32_t took, longest = 0;
	struct one_cqe cqe;

	begin_far(&side[0], 4, LONG);
	begin_far(&side[1], 1, 8);
	narrow(8);
	for (uint32_t i = 0; i < 500; i++) {
		post_write(&side[1].from[0], &side[1].memory, &side[1].memory, 8, 0);
		for (took = 0; !ring_poll(&side[1].sends, &cqe); took++)
			loops(1, 1);
		if (i > 10 && took > longest) /* the first ones run before the other client is at full load */
			longest = took;
	}
	narrow(0);
	/*
	 * In each direction: the frames queued before it, a burst of the other client, and the rounds in
	 * which it is polled and sent.
	 */
	if (longest * 8 > 2 * (TX_SHARED + CORE_BURST + 2 * 8))
		fail_msg("a short write took as long as %u frames", longest * 8);
	for (int j = 0; j < 2; j++)
		end(&side[j]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_short_beside_long),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
