/* SPDX-License-Identifier: BSD-3-Clause */
/* A port's offloads: flow rules that lead frames to the owner's queue, on a device that consists of these
 * replacements of DPDK's functions; checksums that the device has verified; and frames in several buffers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_flow.h>

#include "dataplane/engine/place.h"
#include "fixture.h"

/* ---- the device's rules ---- */

struct rte_flow {
	struct wire_addr src, dst;
	uint16_t src_port, queue;
	bool live;
};

static struct rte_flow rules[4096], *last_made, asked;
static uint32_t validations, creations, destructions, live;
static uint32_t device_room = UINT32_MAX;
static bool device_keeps; /* refuses to destroy */

static struct wire_addr
address(const void *v4, const void *v6)
{
	struct wire_addr addr = {.gid = {[10] = 0xff, [11] = 0xff}};

	memcpy(v6 != NULL ? addr.gid : addr.gid + 12, v6 != NULL ? v6 : v4, v6 != NULL ? 16 : 4);
	return addr;
}

static bool
all_ones(const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (((const uint8_t *)bytes)[i] != 0xff)
			return false;
	return true;
}

/* Checks the form of a rule to the last bit, and returns the rest of it. */
static struct rte_flow
understand(uint16_t device, const struct rte_flow_attr *attr, const struct rte_flow_item *item,
	   const struct rte_flow_action *action)
{
	static const struct rte_flow_attr ingress = {.ingress = 1};
	const struct rte_flow_action_queue *queue = action[0].conf;
	const struct rte_flow_item_udp *udp = item[2].spec, *udp_mask = item[2].mask;
	struct rte_flow_item_udp only_ports = {.hdr.src_port = 0xffff, .hdr.dst_port = 0xffff};
	struct rte_flow rule = {.queue = queue->index, .src_port = rte_be_to_cpu_16(udp->hdr.src_port)};

	assert_int_equal(device, ports[0].device);
	assert_memory_equal(attr, &ingress, sizeof(ingress));
	assert_int_equal(item[0].type, RTE_FLOW_ITEM_TYPE_ETH);
	assert_null(item[0].spec);
	if (item[1].type == RTE_FLOW_ITEM_TYPE_IPV4) {
		const struct rte_flow_item_ipv4 *ip = item[1].spec, *mask = item[1].mask;
		struct rte_flow_item_ipv4 only = {.hdr = {.src_addr = ~0u, .dst_addr = ~0u}};

		assert_memory_equal(mask, &only, sizeof(only));
		rule.src = address(&ip->hdr.src_addr, NULL);
		rule.dst = address(&ip->hdr.dst_addr, NULL);
	} else {
		const struct rte_flow_item_ipv6 *ip = item[1].spec, *mask = item[1].mask;

		assert_int_equal(item[1].type, RTE_FLOW_ITEM_TYPE_IPV6);
		assert_true(all_ones(&mask->hdr.src_addr, 16) && all_ones(&mask->hdr.dst_addr, 16));
		assert_int_equal(mask->hdr.vtc_flow | mask->hdr.payload_len | mask->hdr.proto |
					 mask->hdr.hop_limits,
				 0);
		rule.src = address(NULL, &ip->hdr.src_addr);
		rule.dst = address(NULL, &ip->hdr.dst_addr);
	}
	assert_int_equal(item[2].type, RTE_FLOW_ITEM_TYPE_UDP);
	assert_int_equal(rte_be_to_cpu_16(udp->hdr.dst_port), 4791);
	assert_memory_equal(udp_mask, &only_ports, sizeof(only_ports));
	assert_int_equal(item[3].type, RTE_FLOW_ITEM_TYPE_END);
	assert_int_equal(action[0].type, RTE_FLOW_ACTION_TYPE_QUEUE);
	assert_int_equal(action[1].type, RTE_FLOW_ACTION_TYPE_END);
	return rule;
}

int
rte_flow_validate(uint16_t port_id, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
		  const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	validations++;
	asked = understand(port_id, attr, pattern, actions);
	return device_room == 0 ? -ENOSYS : 0;
}

struct rte_flow *
rte_flow_create(uint16_t port_id, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
		const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	struct rte_flow *rule = &rules[creations++];

	assert_true(creations < RTE_DIM(rules));
	*rule = understand(port_id, attr, pattern, actions);
	if (live >= device_room) {
		rte_errno = ENOSPC;
		return NULL;
	}
	rule->live = true;
	live++;
	last_made = rule;
	return rule;
}

int
rte_flow_destroy(uint16_t port_id, struct rte_flow *flow, struct rte_flow_error *error)
{
	assert_true(flow->live);
	if (device_keeps)
		return -EBUSY;
	flow->live = false;
	live--;
	destructions++;
	return 0;
}

/* ---- two applications, each on a core; frames come to core 0 ---- */

enum { QPS = 3, STRAYS = FLOW_STRAYS };

struct world {
	struct app app[2];
	struct ring send[2];
	struct pair pair[2][QPS]; /* by core */
};
static struct world w;

static int
setup(void **state)
{
	for (int i = 0; i < 2; i++)
		app_start(&w.app[i]);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w.app[i].client->core->index, i);
		ring_new(&w.app[i], CQ_LOG2, &w.send[i], NULL);
		for (int j = 0; j < QPS; j++)
			pair_new(&w.app[i], &w.send[i], NULL, NULL, NULL, &w.pair[i][j]);
	}
	creations = destructions = 0;
	return 0;
}

static int
teardown(void **state)
{
	for (int i = 0; i < 2; i++) {
		for (int j = 0; j < QPS; j++)
			pair_end(&w.pair[i][j]);
		ring_end(&w.send[i]);
		app_end(&w.app[i]);
	}
	assert_int_equal(live, 0);
	return 0;
}

static struct wire_addr
peer(uint8_t last)
{
	struct wire_addr addr = ports[0].info.addr[0];

	addr.gid[15] = last;
	return addr;
}

static void
connect_to(struct pair *pair, struct wire_addr dst, bool local)
{
	struct engine_connection c = connection_to(pair, pair, RC_RTS, local);

	c.rc.path.src = ports[0].info.addr[ports[0].info.num_addrs - 1];
	c.rc.path.dst = dst;
	c.rc.recv_psn = 5;
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_QP_CONNECT, .qp = pair->qp, .connection = c}),
		0);
}

static uint32_t
frame_for(uint8_t *frame, const struct pair *pair, struct wire_addr src, uint16_t port)
{
	struct wire_path path = {.udp_src_port = port, .ttl = 64, .src = src, .dst = ports[0].info.addr[0]};
	struct wire_build b = {.opcode = WIRE_WRITE_ONLY, .qpn = pair->qpn, .psn = 5};
	struct wire_template t;

	wire_template_init(&t, &path);
	wire_build(&t, &b, frame);
	wire_seal(frame, wire_frame_len(&t, b.opcode, 0));
	return wire_frame_len(&t, b.opcode, 0);
}

static uint64_t
received(void)
{
	return engine.core[0]->stats.rx_packets + engine.core[1]->stats.rx_packets;
}

static void
frames(const struct pair *pair, struct wire_addr src, uint16_t port, uint32_t count)
{
	uint8_t frame[256];
	uint32_t len = frame_for(frame, pair, src, port);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t before = engine.core[0]->stats.rx_packets;

		assert_int_equal(engine_send_frame(0, frame, len), 0);
		TURN_UNTIL(engine.core[0]->stats.rx_packets > before);
	}
	turn(3);
}

/* Ends the pause after which a rule may be requested again. */
static void
later(struct pair *pair)
{
	pair->qp->flow_at = 0;
}

static void
test_port_is_asked_once(void **state)
{
	assert_int_equal(ports[0].rx_queues, 2);
	assert_int_equal(validations, 1); /* by engine_init */
	assert_memory_equal(&asked.dst, ports[0].info.addr, 16);
}

static void
test_strays_lead_to_a_rule(void **state)
{
	struct wire_addr theirs = peer(9);
	struct pair *pair = &w.pair[1][0];

	connect_to(pair, theirs, false);
	frames(pair, theirs, 50001, STRAYS - 1);
	assert_int_equal(creations, 0);
	frames(pair, theirs, 50001, 1);
	assert_int_equal(creations, 1);
	assert_memory_equal(&last_made->src, &theirs, 16);
	assert_memory_equal(&last_made->dst, ports[0].info.addr, 16);
	assert_int_equal(last_made->src_port, 50001);
	assert_int_equal(last_made->queue, 1);
	assert_int_equal(ports[0].flows.count, 1);
	assert_int_equal(pair->strays, 0);
	/* If frames still go astray, the device ignores the rule: no second request. */
	later(pair);
	frames(pair, peer(9), 50001, STRAYS);
	assert_int_equal(creations, 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = pair->qp}), 0);
	assert_int_equal(destructions, 1);
	assert_int_equal(ports[0].flows.count, 0);
}

static void
test_frames_at_the_right_core_need_none(void **state)
{
	connect_to(&w.pair[0][0], peer(9), false);
	frames(&w.pair[0][0], peer(9), 50001, 3 * STRAYS);
	assert_int_equal(creations, 0);
}

static void
test_new_port_of_the_peer(void **state)
{
	struct pair *pair = &w.pair[1][0];

	connect_to(pair, peer(9), false);
	frames(pair, peer(9), 50001, STRAYS);
	frames(pair, peer(9), 50002, STRAYS);
	assert_int_equal(creations, 1); /* before the pause ends */
	later(pair);
	frames(pair, peer(9), 50002, STRAYS);
	assert_int_equal(creations, 2);
	assert_int_equal(destructions, 1);
	assert_int_equal(last_made->src_port, 50002);
	assert_int_equal(live, 1);
}

static void
test_strangers_get_none(void **state)
{
	struct pair *pair = &w.pair[1][0];

	frames(pair, peer(9), 50001, 2 * STRAYS); /* not connected */
	connect_to(pair, peer(9), false);
	frames(pair, peer(8), 50001, 2 * STRAYS); /* another sender */
	assert_int_equal(creations, 0);
}

static void
test_frames_of_another_port_count_for_none(void **state)
{
	struct pair *pair = &w.pair[1][0];
	struct frame_info info = {.port = 1, .parsed = true};
	uint8_t frame[256];
	uint32_t len = frame_for(frame, pair, peer(9), 50001);

	connect_to(pair, peer(9), false);
	assert_int_equal(wire_parse(frame, len, &info.packet), WIRE_OK);
	steer_ask(qp_core(pair->qp), pair->qp, &info);
	turn(2);
	assert_int_equal(creations, 0);
	info.port = 0;
	steer_ask(qp_core(pair->qp), pair->qp, &info);
	turn(2);
	assert_int_equal(creations, 1);
}

static void
test_peers_of_this_data_plane_get_none(void **state)
{
	connect_to(&w.pair[1][0], peer(1), false);
	frames(&w.pair[1][0], peer(1), 50001, 2 * STRAYS);
	connect_to(&w.pair[1][1], peer(1), true);
	frames(&w.pair[1][1], peer(1), 50001, 2 * STRAYS);
	assert_int_equal(creations, 0);
}

/* The device is closed and opened again, as after a take-over that was refused: rules in use come back. One
 * that the device then refuses is no rule any more, and the end of its user frees no other one. */
static void
test_device_is_reopened(void **state)
{
	connect_to(&w.pair[1][0], peer(9), false);
	connect_to(&w.pair[1][1], peer(8), false);
	frames(&w.pair[1][0], peer(9), 50001, STRAYS);
	frames(&w.pair[1][1], peer(8), 50002, STRAYS);
	assert_int_equal(ports[0].flows.count, 2);
	flows_suspend(&ports[0]);
	assert_int_equal(live, 0);
	assert_int_equal(ports[0].flows.count, 0);
	device_room = 1;
	flows_resume(&ports[0]);
	device_room = UINT32_MAX;
	assert_int_equal(live, 1);
	assert_int_equal(ports[0].flows.count, 1);
	connect_to(&w.pair[1][2], peer(7), false);
	frames(&w.pair[1][2], peer(7), 50003, STRAYS);
	assert_int_equal(live, 2);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1][1].qp}), 0);
	assert_int_equal(live, 2);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1][0].qp}), 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1][2].qp}), 0);
	assert_int_equal(live, 0);
	assert_int_equal(ports[0].flows.count, 0);
}

/* A core's request for a rule may arrive after the end of the connection. */
static void
test_late_advice(void **state)
{
	struct pair *pair = &w.pair[1][0];
	struct engine_command *flush = calloc(1, sizeof(*flush));

	assert_non_null(flush);
	connect_to(pair, peer(9), false);
	frames(pair, peer(9), 50001, STRAYS - 1);
	flush->type = ENGINE_QP_FLUSH;
	flush->qp = pair->qp;
	assert_int_equal(engine_command(flush), 0);
	steer_learn(pair->qp, 50001);
	assert_int_equal(creations, 0);
	turn(2);
}

static void
test_shared_tuple(void **state)
{
	uint64_t refused = ports[0].flows.refused;

	for (int i = 0; i < 2; i++)
		connect_to(&w.pair[1][i], peer(9), false);
	connect_to(&w.pair[0][0], peer(9), false);
	for (int i = 0; i < 2; i++)
		frames(&w.pair[1][i], peer(9), 50001, STRAYS);
	assert_int_equal(creations, 1);
	assert_int_equal(ports[0].flows.refused, refused);
	steer_learn(w.pair[0][0].qp, 50001); /* a connection of the other core */
	assert_int_equal(creations, 1);
	assert_int_equal(ports[0].flows.refused, refused + 1);
	/* The rule is destroyed with the last connection that uses it. */
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[1][0].qp}), 0);
	assert_int_equal(destructions, 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[1][1].qp}), 0);
	assert_int_equal(destructions, 1);
}

static void
test_full_device(void **state)
{
	uint64_t refused = ports[0].flows.refused;

	device_room = 1;
	for (int i = 0; i < QPS; i++) {
		connect_to(&w.pair[1][i], peer(9), false);
		frames(&w.pair[1][i], peer(9), (uint16_t)(50000 + i), STRAYS);
	}
	/* The second rule found the device full, so the third was not tried. */
	assert_int_equal(creations, 2);
	assert_int_equal(live, 1);
	assert_int_equal(ports[0].flows.refused, refused + 1);
	assert_false(ports[0].flows.open);
	assert_false(engine_port_follows(0, 0));
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1][0].qp}), 0);
	assert_true(ports[0].flows.open);
	assert_true(engine_port_follows(0, 0));
	later(&w.pair[1][2]);
	frames(&w.pair[1][2], peer(9), 50002, STRAYS);
	assert_int_equal(creations, 3);
	assert_int_equal(live, 1);
	device_room = UINT32_MAX;
}

static void
test_bound_of_ours(void **state)
{
	struct pair *pair = &w.pair[1][0];

	connect_to(pair, peer(9), false);
	connect_to(&w.pair[1][1], peer(9), false);
	device_keeps = true; /* each port then leaves a rule behind */
	for (uint32_t i = 0; i < FLOW_RULES + 5; i++)
		steer_learn(pair->qp, (uint16_t)(50000 + i));
	assert_int_equal(live, FLOW_RULES);
	assert_int_equal(creations, FLOW_RULES);
	assert_false(ports[0].flows.open);
	/* A rule that was left behind can be used again. */
	steer_learn(w.pair[1][1].qp, 50000);
	assert_int_equal(creations, FLOW_RULES);
	assert_ptr_equal(w.pair[1][1].qp->flow->handle, &rules[0]);
	device_keeps = false;
	flows_fini(&ports[0]);
	w.pair[1][1].qp->flow = NULL;
	assert_int_equal(live, 0);
	flows_init(&ports[0]);
}

static void
test_port_without_rules(void **state)
{
	struct pair *pair = &w.pair[1][0];

	device_room = 0;
	flows_fini(&ports[0]);
	flows_init(&ports[0]);
	connect_to(pair, peer(9), false);
	frames(pair, peer(9), 50001, 4 * STRAYS);
	assert_int_equal(creations, 0);
	/* The control thread learns once where they arrive. */
	assert_int_equal(pair->strays, 1);
	assert_int_equal(pair->strays_at, 0);
	device_room = UINT32_MAX;
	flows_init(&ports[0]);
}

static void
test_ipv6(void **state)
{
	struct wire_addr was = ports[0].info.addr[0], theirs = {.gid = {0x20, 1, 0xd, 0xb8, [15] = 9}};
	struct pair *pair = &w.pair[1][0];

	ports[0].info.addr[0] = (struct wire_addr){.gid = {0x20, 1, 0xd, 0xb8, [15] = 1}};
	connect_to(pair, theirs, false);
	steer_learn(pair->qp, 50001);
	assert_int_equal(creations, 1);
	assert_memory_equal(&last_made->src, &theirs, 16);
	assert_memory_equal(&last_made->dst, ports[0].info.addr, 16);
	ports[0].info.addr[0] = was;
}

/* A peer and UDP port at two addresses of ours are two connections. */
static void
test_two_addresses(void **state)
{
	struct wire_addr other = peer(77), theirs = peer(9);

	connect_to(&w.pair[1][0], theirs, false);
	steer_learn(w.pair[1][0].qp, 50001);
	ports[0].info.addr[1] = other;
	ports[0].info.num_addrs = 2;
	connect_to(&w.pair[0][0], theirs, false);
	steer_learn(w.pair[0][0].qp, 50001);
	ports[0].info.num_addrs = 1;
	assert_int_equal(creations, 2);
	assert_memory_equal(&last_made->dst, &other, 16);
	assert_non_null(flow_rule_find(&ports[0], &theirs, ports[0].info.addr, 50001));
	assert_non_null(flow_rule_find(&ports[0], &theirs, &other, 50001));
}

/* ---- checksums ---- */

static void
receive(uint8_t *frame, uint32_t len, uint64_t flags)
{
	uint64_t before = received();
	struct rte_mbuf *m = rte_pktmbuf_alloc(engine.core[0]->pool);

	assert_non_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	m->ol_flags = flags; /* the looped port passes the buffer on unchanged */
	assert_int_equal(rte_eth_tx_burst(ports[0].device, 0, &m, 1), 1);
	TURN_UNTIL(received() > before);
}

static void
test_checksum_of_the_device(void **state)
{
	const struct engine_stats *stats = &engine.core[0]->stats;
	uint64_t bad = stats->drop[WIRE_DROP_IP], passed = stats->drop_no_qp;
	struct pair nobody = {.qpn = 0x123456};
	uint8_t frame[256];
	uint32_t len = frame_for(frame, &nobody, peer(9), 50001);

	/* A good checksum that the device reports as bad. */
	receive(frame, len, RTE_MBUF_F_RX_IP_CKSUM_BAD);
	assert_int_equal(stats->drop_no_qp, ++passed);
	frame[WIRE_ETH_LEN + 10] ^= 1; /* the IP checksum, which no ICRC covers */
	receive(frame, len, RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN);
	receive(frame, len, RTE_MBUF_F_RX_IP_CKSUM_NONE);
	receive(frame, len, RTE_MBUF_F_RX_IP_CKSUM_BAD);
	assert_int_equal(stats->drop[WIRE_DROP_IP], bad + 3);
	assert_int_equal(stats->drop_no_qp, passed);
	/* A checksum that the device reports as good is not verified. */
	receive(frame, len, RTE_MBUF_F_RX_IP_CKSUM_GOOD);
	assert_int_equal(stats->drop[WIRE_DROP_IP], bad + 3);
	assert_int_equal(stats->drop_no_qp, passed + 1);
}

/* ---- frames in several buffers ---- */

static void
receive_chained(const uint8_t *frame, uint32_t len, uint32_t segments)
{
	uint64_t before = received();
	struct rte_mbuf *head = NULL;

	for (uint32_t i = 0; i < segments; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(engine.core[0]->pool);
		uint32_t from = len * i / segments, to = len * (i + 1) / segments;

		assert_non_null(m);
		memcpy(rte_pktmbuf_append(m, (uint16_t)(to - from)), frame + from, to - from);
		if (head == NULL)
			head = m;
		else
			assert_int_equal(rte_pktmbuf_chain(head, m), 0);
	}
	assert_int_equal(rte_eth_tx_burst(ports[0].device, 0, &head, 1), 1);
	TURN_UNTIL(received() > before);
}

static void
test_chained_frames(void **state)
{
	const struct engine_stats *stats = &engine.core[0]->stats;
	uint64_t passed = stats->drop_no_qp, chained = stats->rx_chained, too_long = stats->drop_segments;
	uint32_t available = rte_mempool_avail_count(engine.core[0]->pool);
	struct pair nobody = {.qpn = 0x123456};
	uint8_t frame[256], longer[2 * RTE_MBUF_DEFAULT_DATAROOM] = {0};
	uint32_t len = frame_for(frame, &nobody, peer(9), 50001);

	for (uint32_t segments = 2; segments <= 8; segments++)
		receive_chained(frame, len, segments);
	assert_int_equal(stats->rx_chained, chained + 7);
	assert_int_equal(stats->drop_no_qp, passed + 7); /* complete, with their ICRC */
	assert_int_equal(engine.data_room, RTE_MBUF_DEFAULT_DATAROOM);
	receive_chained(longer, sizeof(longer), 2);
	assert_int_equal(stats->drop_segments, too_long + 1);
	assert_int_equal(rte_mempool_avail_count(engine.core[0]->pool), available);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_port_is_asked_once),
		T(test_strays_lead_to_a_rule),
		T(test_frames_at_the_right_core_need_none),
		T(test_new_port_of_the_peer),
		T(test_strangers_get_none),
		T(test_frames_of_another_port_count_for_none),
		T(test_peers_of_this_data_plane_get_none),
		T(test_device_is_reopened),
		T(test_late_advice),
		T(test_shared_tuple),
		T(test_full_device),
		T(test_bound_of_ours),
		T(test_port_without_rules),
		T(test_ipv6),
		T(test_two_addresses),
		T(test_checksum_of_the_device),
		T(test_chained_frames),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop);
}
