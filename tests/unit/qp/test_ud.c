/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams between two cores and from a port: completions of receives, reasons for drops, and requests and
 * receives that no correct library writes.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "keys.h"
#include "tests/copying.h"

#define QKEY 0x11111111u
#define AH_ID 0x30007u
#define LONG 8192
#define MTU (ports[0].info.path_mtu)

struct world {
	struct app app[2];
	struct ring send[2], recv[2];
	struct pair pair[2];
	struct memory memory[2];
	struct engine_ah *ah[2];
	struct engine_srq *srq; /* of app[1]; NULL: none */
	struct one_srq_shm *shm;
	struct one_wqe *rq;
};
static struct world w;

static struct wire_addr
addr(uint8_t last)
{
	return (struct wire_addr){.gid = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = last}};
}

static struct engine_ah *
ah_new(int i, uint32_t id, uint32_t pz, uint8_t last)
{
	struct engine_ah_config config = {.id = id, .pz = pz};

	config.path.src = addr(1);
	config.path.dst = addr(last);
	config.path.udp_src_port = 0xc123;
	config.path.ttl = 64;
	return engine_ah_new(w.app[i].client, &config);
}

static int
state(int i, enum rc_state to, uint32_t qkey)
{
	return command((struct engine_command){
		.type = ENGINE_QP_DATAGRAM,
		.qp = w.pair[i].qp,
		.datagram = {.state = to, .qkey = qkey, .send_psn = 0xffffff},
	});
}

static void
begin(struct engine_srq *(*share)(void))
{
	memset(&w, 0, sizeof(w));
	for (int i = 0; i < 2; i++) {
		app_start(&w.app[i]);
		ring_new(&w.app[i], CQ_LOG2, &w.send[i], NULL);
		ring_new(&w.app[i], CQ_LOG2, &w.recv[i], NULL);
		pair_new_ud(&w.app[i], &w.send[i], &w.recv[i], i == 1 && share != NULL ? share() : NULL,
			    &w.pair[i]);
		memory_new(&w.app[i], ONE_ACCESS_ALL, LONG, &w.memory[i]);
		w.ah[i] = ah_new(i, AH_ID, w.app[i].pz, 1);
		assert_non_null(w.ah[i]);
		assert_int_equal(state(i, RC_RTR, QKEY), 0);
		assert_int_equal(state(i, RC_RTS, QKEY), 0);
	}
	for (size_t i = 0; i < LONG; i++)
		w.memory[0].bytes[i] = (uint8_t)(i * 7 + i / 256);
}

static int
setup(void **unused)
{
	begin(NULL);
	return 0;
}

static struct engine_srq *
share(void)
{
	struct engine_srq_config config = {.id = 4711, .log2 = RING_LOG2, .lanes = engine.num_cores};

	config.shm = app_alloc(&w.app[1], one_srq_shm_size(engine.num_cores));
	config.rq = app_alloc(&w.app[1], sizeof(struct one_wqe) << RING_LOG2);
	w.shm = (struct one_srq_shm *)(w.app[1].arena + config.shm);
	w.rq = (struct one_wqe *)(w.app[1].arena + config.rq);
	w.srq = engine_srq_new(w.app[1].client, &config);
	assert_non_null(w.srq);
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_ADD, .srq = w.srq}), 0);
	return w.srq;
}

static int
setup_shared(void **unused)
{
	begin(share);
	return 0;
}

static int
teardown(void **unused)
{
	for (int i = 0; i < 2; i++) {
		pair_end(&w.pair[i]);
		if (i == 1 && w.srq != NULL) {
			assert_int_equal(
				command((struct engine_command){.type = ENGINE_SRQ_REMOVE, .srq = w.srq}), 0);
			engine_srq_free(w.srq);
		}
		engine_ah_free(w.app[i].client, w.ah[i]);
		ring_end(&w.send[i]);
		ring_end(&w.recv[i]);
		memory_end(&w.memory[i]);
		app_end(&w.app[i]);
	}
	turn(2);
	assert_null(engine.reap);
	return 0;
}

static struct engine_stats
both(void)
{
	struct engine_stats sum = {0};

	for (uint32_t i = 0; i < engine.num_cores; i++) {
		const struct engine_stats *one = &engine.core[i]->stats;

		sum.ud_sent += one->ud_sent;
		sum.ud_received += one->ud_received;
		sum.rx_packets += one->rx_packets;
		sum.drop_no_qp += one->drop_no_qp;
		for (int j = 0; j < RC_COUNT_MAX; j++)
			sum.rc[j] += engine.core[i]->env.counter[j];
		for (int j = 0; j < ENGINE_UD_DROP_MAX; j++)
			sum.ud_drop[j] += one->ud_drop[j];
		for (int j = 0; j < WIRE_DROP_MAX; j++)
			sum.drop[j] += one->drop[j];
	}
	return sum;
}

/* A datagram from pair 0 to pair 1. The caller may change it before committing it. */
static struct one_wqe *
datagram(uint32_t len, uint64_t cookie)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);

	wqe->op = ONE_OP_SEND;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->cookie = cookie;
	wqe->remote_addr = one_ud_to(AH_ID, w.pair[1].qpn);
	wqe->rkey = QKEY;
	wqe->sge = (struct one_sge){w.memory[0].region.va, len, w.memory[0].region.key};
	return wqe;
}

static void
send_datagram(uint32_t len, uint64_t cookie)
{
	datagram(len, cookie);
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, cookie);
}

static struct one_cqe
received(int i)
{
	struct one_cqe cqe;

	TURN_UNTIL(ring_poll(&w.recv[i], &cqe));
	return cqe;
}

/* Check the IPv4 header in front of `len` bytes of payload. */
static void
assert_grh(const uint8_t *grh, uint32_t len, uint8_t from)
{
	static const uint8_t zero[20];
	const uint8_t *ip = grh + 20;
	uint32_t total = 20 + 8 + 12 + 8 + (len + 3) / 4 * 4 + 4;

	assert_memory_equal(grh, zero, 20);
	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[2] << 8 | ip[3], total);
	assert_int_equal(ip[9], 17);
	assert_memory_equal(ip + 12, ((uint8_t[]){192, 0, 2, from}), 4);
	assert_memory_equal(ip + 16, ((uint8_t[]){192, 0, 2, 1}), 4);
}

static void
test_between_cores(void **unused)
{
	static const uint32_t lengths[] = {0, 1, 63, 64, 513, 1000};
	struct one_cqe cqe;

	for (size_t i = 0; i < RTE_DIM(lengths); i++) {
		memset(w.memory[1].bytes, 0xee, LONG);
		post_recv(&w.pair[1], &w.memory[1], LONG, 10 + i);
		send_datagram(lengths[i], i);
		cqe = received(1);
		assert_int_equal(cqe.type, ONE_CQE_RECV);
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
		assert_int_equal(cqe.cookie, 10 + i);
		assert_int_equal(cqe.length, ONE_UD_GRH + lengths[i]);
		assert_int_equal(cqe.flags, ONE_CQE_GRH | ONE_CQE_IPV4 | ONE_CQE_NOTIFY);
		assert_int_equal(cqe.src_qpn, w.pair[0].qpn);
		assert_int_equal(cqe.object, w.pair[1].id);
		assert_grh(w.memory[1].bytes, lengths[i], 1);
		assert_memory_equal(w.memory[1].bytes + ONE_UD_GRH, w.memory[0].bytes, lengths[i]);
		assert_int_equal(w.memory[1].bytes[ONE_UD_GRH + lengths[i]], 0xee);
	}
	assert_int_equal(w.pair[0].failed + w.pair[1].failed, 0);
}

static void
test_whole_mtu_in_pieces(void **unused)
{
	struct one_wqe *wqe = datagram(MTU, 1), *recv = pair_recv(&w.pair[1]);
	struct one_wqe_ext *ext = (struct one_wqe_ext *)(wqe + 1), *rext = (struct one_wqe_ext *)(recv + 1);
	uint32_t key = w.memory[1].region.key;
	uint64_t va = w.memory[1].region.va;
	struct one_cqe cqe;

	memset(ext, 0, offsetof(struct one_wqe_ext, phase));
	memset(rext, 0, offsetof(struct one_wqe_ext, phase));
	wqe->num_sge = 2;
	wqe->sge.len = 100;
	ext->sge[0] = (struct one_sge){w.memory[0].region.va + 100, MTU - 100, w.memory[0].region.key};
	recv->op = ONE_OP_RECV;
	recv->num_sge = 3;
	recv->length = 30 + 20 + MTU;
	recv->cookie = 2;
	recv->sge = (struct one_sge){va, 30, key}; /* the header, too, is split */
	rext->sge[0] = (struct one_sge){va + 30, 20, key};
	rext->sge[1] = (struct one_sge){va + 50, MTU, key};
	pair_commit_recv(&w.pair[1]);
	pair_commit_send(&w.pair[0]);
	cqe = received(1);
	assert_int_equal(cqe.length, ONE_UD_GRH + MTU);
	assert_grh(w.memory[1].bytes, MTU, 1);
	assert_memory_equal(w.memory[1].bytes + ONE_UD_GRH, w.memory[0].bytes, MTU);
}

static void
test_immediate_inline_solicited(void **unused)
{
	struct one_wqe *wqe = datagram(5, 1);
	struct one_cqe cqe;

	wqe->op = ONE_OP_SEND_IMM;
	wqe->flags = ONE_WQE_INLINE | ONE_WQE_SOLICITED;
	wqe->num_sge = 0;
	wqe->inline_len = 5;
	wqe->imm = 0x01020304;
	memcpy(wqe->inline_data, "hello", 5);
	post_recv(&w.pair[1], &w.memory[1], 45, 2);
	pair_commit_send(&w.pair[0]);
	cqe = received(1);
	assert_int_equal(cqe.length, 45);
	assert_int_equal(cqe.imm, 0x01020304);
	assert_int_equal(cqe.flags,
			 ONE_CQE_GRH | ONE_CQE_IPV4 | ONE_CQE_IMM | ONE_CQE_NOTIFY | ONE_CQE_SOLICITED);
	assert_memory_equal(w.memory[1].bytes + ONE_UD_GRH, "hello", 5);
}

/* A queue pair sends to itself: any number of senders, on its own core as well. */
static void
test_to_itself(void **unused)
{
	struct one_wqe *wqe;

	post_recv(&w.pair[0], &w.memory[0], LONG, 2);
	wqe = datagram(16, 1);
	wqe->remote_addr = one_ud_to(AH_ID, w.pair[0].qpn);
	wqe->flags = ONE_WQE_INLINE;
	wqe->num_sge = 0;
	wqe->inline_len = 16;
	pair_commit_send(&w.pair[0]);
	assert_int_equal(received(0).src_qpn, w.pair[0].qpn);
}

/* Datagrams posted before a key request have been sent when the core answers it. */
static void
test_posted_before(void **unused)
{
	for (uint32_t i = 0; i < MAX_WR; i++) {
		datagram(8, i);
		pair_commit_send(&w.pair[0]);
	}
	assert_true(done(&w.app[0], ONE_KEY_NONE, 0, 0));
	for (uint32_t i = 0; i < MAX_WR; i++) {
		struct one_cqe cqe;

		assert_true(ring_poll(&w.send[0], &cqe));
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
	}
}

/* A receive may name more memory than its region has, if the datagram needs less. */
static void
test_receive_longer_than_its_region(void **unused)
{
	struct memory little;

	memory_new(&w.app[1], ONE_ACCESS_ALL, ONE_UD_GRH + 8, &little);
	post_recv(&w.pair[1], &little, ONE_UD_GRH + 4096, 1);
	post_recv(&w.pair[1], &little, ONE_UD_GRH + 4096, 2);
	send_datagram(8, 1);
	assert_int_equal(received(1).status, ONE_STATUS_SUCCESS);
	send_datagram(9, 2);
	assert_int_equal(received(1).status, ONE_STATUS_LOCAL_PROTECTION);
	memory_end(&little);
}

static void
test_qkey(void **unused)
{
	uint64_t dropped = both().ud_drop[ENGINE_UD_QKEY];

	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	datagram(8, 1)->rkey = QKEY + 1;
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	TURN_UNTIL(both().ud_drop[ENGINE_UD_QKEY] == dropped + 1);
	expect_none(&w.recv[1]);
	/* A Q_Key with the highest bit set selects the queue pair's own Q_Key. */
	datagram(8, 3)->rkey = 0xffffffff;
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 3);
	assert_int_equal(received(1).cookie, 2);
	/* The Q_Key may change while datagrams arrive. */
	assert_int_equal(state(1, RC_RTS, 7), 0);
	send_datagram(8, 4);
	TURN_UNTIL(both().ud_drop[ENGINE_UD_QKEY] == dropped + 2);
	/* All 32 bits of the Q_Key are compared. */
	assert_int_equal(state(1, RC_RTS, QKEY ^ 0x80000000), 0);
	send_datagram(8, 5);
	TURN_UNTIL(both().ud_drop[ENGINE_UD_QKEY] == dropped + 3);
}

static void
test_no_receive(void **unused)
{
	uint64_t dropped = both().ud_drop[ENGINE_UD_NO_RECEIVE];

	send_datagram(8, 1);
	TURN_UNTIL(both().ud_drop[ENGINE_UD_NO_RECEIVE] == dropped + 1);
	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	expect_none(&w.recv[1]);
	send_datagram(9, 3);
	assert_int_equal(received(1).length, ONE_UD_GRH + 9);
}

static void
test_too_long_for_the_receive(void **unused)
{
	uint64_t dropped = both().ud_drop[ENGINE_UD_LENGTH];

	post_recv(&w.pair[1], &w.memory[1], ONE_UD_GRH + 8, 2);
	send_datagram(9, 1);
	TURN_UNTIL(both().ud_drop[ENGINE_UD_LENGTH] == dropped + 1);
	expect_none(&w.recv[1]);
	assert_int_equal(w.pair[1].failed, 0);
	/* The receive waits for the next datagram, and is flushed like the others. */
	send_datagram(8, 3);
	assert_int_equal(received(1).cookie, 2);
	post_recv(&w.pair[1], &w.memory[1], ONE_UD_GRH + 8, 4);
	send_datagram(9, 5);
	TURN_UNTIL(both().ud_drop[ENGINE_UD_LENGTH] == dropped + 2);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1].qp}), 0);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_FLUSHED, 4);
	expect_none(&w.recv[1]);
}

static void
test_shared_receives(void **unused)
{
	for (uint32_t i = 0; i < 3; i++) {
		struct one_wqe *wqe = &w.rq[i];

		memset(wqe, 0, offsetof(struct one_wqe, phase));
		wqe->op = ONE_OP_RECV;
		wqe->num_sge = 1;
		wqe->length = 100;
		wqe->cookie = i;
		wqe->sge = (struct one_sge){w.memory[1].region.va, 100, w.memory[1].region.key};
		atomic_store_explicit(&w.shm->posted, i + 1, memory_order_relaxed);
		atomic_store_explicit(&wqe->phase, one_ring_phase(i, RING_LOG2), memory_order_release);
	}
	send_datagram(61, 7); /* one byte too long */
	send_datagram(60, 8);
	assert_int_equal(received(1).cookie, 0);
	send_datagram(60, 9);
	assert_int_equal(received(1).cookie, 1);
	expect_none(&w.recv[1]);
	assert_int_equal(atomic_load(&w.shm->lane[w.app[1].client->core->index].taken), 2);
	assert_int_equal(atomic_load(&w.shm->lane[w.app[1].client->core->index].done), 2);
}

static void
test_states(void **unused)
{
	struct one_cqe cqe;

	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp}), 0);
	assert_int_equal(state(0, RC_RTR, QKEY), -ENOTCONN);
	assert_int_equal(atomic_load(&w.pair[0].shm->state), ONE_QP_ERROR);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[0].qp}), 0);
	/* A queue pair neither receives before RTR nor sends before RTS. */
	datagram(8, 1);
	pair_commit_send(&w.pair[0]);
	expect_none(&w.send[0]);
	assert_int_equal(state(0, RC_RTR, QKEY), 0);
	assert_int_equal(atomic_load(&w.pair[0].shm->state), ONE_QP_CONNECTING);
	expect_none(&w.send[0]);
	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	assert_int_equal(state(0, RC_RTS, QKEY), 0);
	assert_int_equal(atomic_load(&w.pair[0].shm->state), ONE_QP_CONNECTED);
	TURN_UNTIL(ring_poll(&w.send[0], &cqe));
	assert_int_equal(received(1).cookie, 2);
	/* Commands of connections are refused. */
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp}), 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[0].qp}), 0);
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT,
				 .qp = w.pair[0].qp,
				 .connection = connection_to(&w.pair[0], &w.pair[1], RC_RTS, false)}),
			 -EINVAL);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RTS, .qp = w.pair[0].qp}),
			 -ENOTCONN);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_PATH, .qp = w.pair[0].qp}),
			 -ENOTCONN);
}

/* ---- requests that no library writes ---- */

static void
expect_broken(uint8_t status)
{
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, status, 1);
	TURN_UNTIL(w.pair[0].failed == 1);
	assert_int_equal(atomic_load(&w.pair[0].shm->state), ONE_QP_ERROR);
	expect_none(&w.recv[1]);
	assert_int_equal(w.app[0].faults, 0);
}

static void
test_wrong_requests(void **unused)
{
	static const struct {
		uint64_t to;
		uint8_t op;
	} wrong[] = {
		{0x30007ull | 0x5ull << 32, ONE_OP_WRITE},
		{0x30007ull | 0x5ull << 32, ONE_OP_SEND_INV},
		{0x30007ull | 0x5ull << 32, ONE_OP_READ},
		{0x30007ull, ONE_OP_SEND},                     /* QP0 */
		{0x30007ull | 0x1ull << 32, ONE_OP_SEND},      /* QP1, of the connection manager */
		{0x30007ull | 0xffffffull << 32, ONE_OP_SEND}, /* multicast */
		{0x30007ull | 0x1000005ull << 32, ONE_OP_SEND},
		{0x40007ull | 0x5ull << 32, ONE_OP_SEND}, /* a former handle of the same slot */
		{0x30008ull | 0x5ull << 32, ONE_OP_SEND},
		{0x3ffffull | 0x5ull << 32, ONE_OP_SEND}, /* beyond the table */
		{0x34000ull | 0x5ull << 32, ONE_OP_SEND},
		{UINT64_MAX, ONE_OP_SEND},
		{0, ONE_OP_SEND},
	};

	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	for (size_t i = 0; i < RTE_DIM(wrong); i++) {
		struct one_wqe *wqe = datagram(8, 1);

		wqe->remote_addr = wrong[i].to;
		wqe->op = wrong[i].op;
		expect_broken(ONE_STATUS_LOCAL_QP);
		assert_int_equal(
			command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[0].qp}), 0);
		w.pair[0].failed = 0;
		assert_int_equal(state(0, RC_RTS, QKEY), 0);
	}
	send_datagram(8, 9);
	assert_int_equal(received(1).cookie, 2);
}

/* Handles of another protection zone, and destroyed handles, are refused. */
static void
test_handles(void **unused)
{
	struct engine_ah *other = ah_new(0, 0x10008, w.app[0].pz + 100, 1);

	assert_non_null(other);
	assert_null(ah_new(0, ONE_AHS_MAX, w.app[0].pz, 1));
	datagram(8, 1)->remote_addr = one_ud_to(0x10008, w.pair[1].qpn);
	expect_broken(ONE_STATUS_LOCAL_QP);
	engine_ah_free(w.app[0].client, other);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[0].qp}), 0);
	w.pair[0].failed = 0;
	assert_int_equal(state(0, RC_RTS, QKEY), 0);
	engine_ah_free(w.app[0].client, w.ah[0]);
	w.ah[0] = NULL;
	datagram(8, 1);
	expect_broken(ONE_STATUS_LOCAL_QP);
}

/* A handle is replaced when its path has changed: the new entry takes its slot, and the old one is freed. */
static void
test_handle_replaced(void **unused)
{
	struct engine_ah *old = w.ah[0];

	w.ah[0] = ah_new(0, AH_ID, w.app[0].pz, 1);
	assert_non_null(w.ah[0]);
	engine_ah_free(w.app[0].client, old);
	turn(2);
	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	send_datagram(8, 1);
	assert_int_equal(received(1).cookie, 2);
}

static void
test_too_long_for_the_path(void **unused)
{
	datagram(MTU + 1, 1);
	expect_broken(ONE_STATUS_LOCAL_LENGTH);
}

static void
test_key_of_another(void **unused)
{
	datagram(8, 1)->sge.lkey = w.memory[1].region.key;
	expect_broken(ONE_STATUS_LOCAL_PROTECTION);
}

static void
test_wrong_receives(void **unused)
{
	struct one_wqe *wqe;

	post_recv(&w.pair[1], &w.memory[0], LONG, 2); /* a key of the other application */
	send_datagram(8, 1);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_LOCAL_PROTECTION, 2);
	TURN_UNTIL(w.pair[1].failed == 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[1].qp}), 0);
	assert_int_equal(state(1, RC_RTS, QKEY), 0);
	wqe = pair_recv(&w.pair[1]);
	wqe->op = ONE_OP_SEND;
	wqe->cookie = 3;
	pair_commit_recv(&w.pair[1]);
	send_datagram(8, 4);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_LOCAL_QP, 3);
	TURN_UNTIL(w.pair[1].failed == 2);
}

/* Random slots: no memory of the other application is touched, and the core goes on. */
static void
test_wild_rings(void **unused)
{
	uint32_t seed = 12345;

	memset(w.memory[1].bytes, 0xee, LONG);
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 8; i++) {
			struct one_wqe *wqe = pair_send(&w.pair[0]);
			uint8_t *bytes = (uint8_t *)wqe;

			for (size_t j = 0; j < offsetof(struct one_wqe, phase); j++)
				bytes[j] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
			wqe->op = seed & 0x100 ? ONE_OP_SEND : ONE_OP_SEND_IMM;
			if ((seed & 0x200) != 0)
				wqe->remote_addr = one_ud_to(AH_ID, w.pair[1].qpn);
			if ((seed & 0x400) != 0)
				wqe->flags = ONE_WQE_INLINE;
			if ((seed & 0x800) != 0)
				wqe->num_sge = 1;
			pair_commit_send(&w.pair[0]);
		}
		turn(4);
		assert_int_equal(w.app[0].faults, 0);
		command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp});
		command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[0].qp});
		assert_int_equal(state(0, RC_RTS, QKEY), 0);
		w.pair[0].sq_tail = atomic_load(&w.pair[0].shm->sq_head);
		while (ring_poll(&w.send[0], &(struct one_cqe){0}))
			;
	}
	for (size_t i = 0; i < LONG; i++)
		assert_int_equal(w.memory[1].bytes[i], 0xee);
	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	send_datagram(8, 1);
	assert_int_equal(received(1).cookie, 2);
}

/* ---- from a port, which loops all frames back ---- */

static uint32_t
frame_from(uint8_t last, uint8_t *frame, struct wire_build build)
{
	struct wire_path path = {.udp_src_port = 49152, .ttl = 64};
	struct wire_template t;
	uint32_t len;

	path.src = addr(last);
	path.dst = addr(1);
	wire_template_init(&t, &path);
	len = wire_frame_len(&t, build.opcode, build.payload_len);
	memset(wire_build(&t, &build, frame), 0x55, build.payload_len);
	wire_seal(frame, len);
	return len;
}

static void
inject(uint8_t last, struct wire_build build)
{
	uint64_t before = both().rx_packets;
	uint8_t frame[5000];

	assert_int_equal(engine_send_frame(0, frame, frame_from(last, frame, build)), 0);
	TURN_UNTIL(both().rx_packets == before + 1);
	turn(5);
}

static void
test_off_the_port(void **unused)
{
	struct wire_build good = {.opcode = WIRE_UD_SEND_ONLY_IMM,
				  .qpn = w.pair[1].qpn,
				  .psn = 5,
				  .imm = 9,
				  .qkey = QKEY,
				  .src_qpn = 0xabcdef,
				  .payload_len = 33};
	struct one_cqe cqe;

	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	inject(9, good);
	cqe = received(1);
	assert_int_equal(cqe.src_qpn, 0xabcdef);
	assert_int_equal(cqe.imm, 9);
	assert_int_equal(cqe.length, ONE_UD_GRH + 33);
	assert_int_equal(w.memory[1].bytes[20], 0x45);
	assert_memory_equal(w.memory[1].bytes + 32, ((uint8_t[]){192, 0, 2, 9}), 4);
	assert_int_equal(w.memory[1].bytes[ONE_UD_GRH + 32], 0x55);
}

static void
test_wrong_frames(void **unused)
{
	struct wire_build good = {.opcode = WIRE_UD_SEND_ONLY,
				  .qpn = w.pair[1].qpn,
				  .qkey = QKEY,
				  .src_qpn = 5,
				  .payload_len = 8};
	struct wire_build bad = good;
	struct engine_stats before = both(), after;
	uint8_t frame[256];
	uint32_t len;

	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	bad.qkey = 0;
	inject(9, bad);
	bad = good;
	bad.opcode = WIRE_SEND_ONLY; /* an opcode of RC */
	inject(9, bad);
	bad = good;
	bad.payload_len = MTU + 4;
	inject(9, bad);
	inject(1, good); /* from our own address */
	/* Truncated: within the headers, and shorter than the headers announce. */
	len = frame_from(9, frame, good);
	for (uint32_t cut = 1; cut < len; cut++)
		assert_int_equal(engine_send_frame(0, frame, len - cut), 0);
	TURN_UNTIL(both().rx_packets == before.rx_packets + 4 + len - 1);
	turn(5);
	after = both();
	assert_int_equal(after.ud_drop[ENGINE_UD_QKEY], before.ud_drop[ENGINE_UD_QKEY] + 1);
	assert_int_equal(after.ud_drop[ENGINE_UD_OPCODE], before.ud_drop[ENGINE_UD_OPCODE] + 1);
	assert_int_equal(after.ud_drop[ENGINE_UD_LENGTH], before.ud_drop[ENGINE_UD_LENGTH] + 1);
	assert_int_equal(after.ud_drop[ENGINE_UD_ADDRESS], before.ud_drop[ENGINE_UD_ADDRESS] + 1);
	assert_int_equal(after.ud_received, before.ud_received);
	expect_none(&w.recv[1]);
	inject(9, good);
	assert_int_equal(received(1).cookie, 2);
}

/* A connected queue pair drops datagrams. */
static void
test_not_for_a_connection(void **unused)
{
	struct engine_stats before = both(), after;
	struct pair rc;
	struct ring conn;

	ring_new(&w.app[1], CQ_LOG2, &conn, NULL);
	pair_new(&w.app[1], &w.send[1], &w.recv[1], &conn, NULL, &rc);
	pair_connect(&rc, &w.pair[0], RC_RTS, false);
	post_recv(&rc, &w.memory[1], LONG, 2);
	datagram(8, 1)->remote_addr = one_ud_to(AH_ID, rc.qpn);
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	expect_none(&w.recv[1]);
	after = both();
	assert_int_equal(after.rc[RC_COUNT_DROP_OPCODE], before.rc[RC_COUNT_DROP_OPCODE] + 1);
	pair_end(&rc);
	ring_end(&conn);
}

/* ---- memory of bounced access ---- */

static void
test_memory_without_mapping(void **unused)
{
	struct copied all[2];
	struct copier *copier[2];
	struct one_cqe cqe;

	for (int i = 0; i < 2; i++) {
		const struct copier_place place = {.arena_fd = w.app[i].arena_fd, .wake_fd = -1};
		uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
		uint64_t offset = app_alloc(&w.app[i], sizeof(struct one_copies) + page);

		offset = (offset + page - 1) / page * page;
		w.memory[i].region.bounce = engine_client_bounce(w.app[i].client, offset);
		assert_non_null(w.memory[i].region.bounce);
		copier[i] = copying_start(&place, offset, &all[i]);
		w.memory[i].region.base = NULL;
	}
	for (uint32_t i = 0; i < 20; i++) {
		memset(w.memory[1].bytes, 0xee, LONG);
		post_recv(&w.pair[1], &w.memory[1], LONG, 100 + i);
		send_datagram(i * 50, i);
		cqe = received(1);
		assert_int_equal(cqe.cookie, 100 + i);
		assert_int_equal(cqe.length, ONE_UD_GRH + i * 50);
		assert_grh(w.memory[1].bytes, i * 50, 1);
		assert_memory_equal(w.memory[1].bytes + ONE_UD_GRH, w.memory[0].bytes, i * 50);
	}
	assert_true(bounce_bytes(w.memory[0].region.bounce) > 0);
	for (int i = 0; i < 2; i++)
		copier_stop(copier[i]);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_between_cores),
		T(test_whole_mtu_in_pieces),
		T(test_immediate_inline_solicited),
		T(test_to_itself),
		T(test_posted_before),
		T(test_receive_longer_than_its_region),
		T(test_qkey),
		T(test_no_receive),
		T(test_too_long_for_the_receive),
		cmocka_unit_test_setup_teardown(test_shared_receives, setup_shared, teardown),
		T(test_states),
		T(test_wrong_requests),
		T(test_handles),
		T(test_handle_replaced),
		T(test_too_long_for_the_path),
		T(test_key_of_another),
		T(test_wrong_receives),
		T(test_wild_rings),
		T(test_off_the_port),
		T(test_wrong_frames),
		T(test_not_for_a_connection),
		T(test_memory_without_mapping),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop);
}
