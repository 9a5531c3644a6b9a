/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sanitizer/asan_interface.h>

#include "dataplane/rc/rc_internal.h"
#include "dataplane/wire/bytes.h"
#include "dataplane/wire/icrc.h"

#define AH_ID 0x30007u
#define RECEIVES 6
#define FEW_LOG2 3
#define TURNS_MAX 32u
#define VTIME_LOG2_MAX 34u /* of ns */
#define DRAIN_TURNS 64

struct plane plane;

static uint32_t frames_free; /* in the core's pool, while no frame is under way */

/* ---- time and frames ---- */

void
plane_turn(uint64_t ns)
{
	struct core *core = engine.core[0];
	uint64_t real = engine_now(rte_rdtsc());

	core->real_at = real - ns;
	core->slept = ns;
	turn(1);
	for (uint32_t i = 0; i < PLANE_PAIRS; i++) {
		struct pair *pair = &plane.pair[i];

		if (pair->binds == plane.binds[i])
			continue;
		plane.binds[i] = pair->binds;
		command((struct engine_command){
			.type = ENGINE_QP_BIND_DONE, .qp = pair->qp, .ok = pair->binds % 2 != 0});
	}
}

uint32_t
plane_frame_room(void)
{
	return engine.data_room;
}

void
plane_receive(const uint8_t *frame, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(engine.core[0]->pool);
	uint8_t *behind;
	uint32_t room;

	if (m == NULL)
		fuzz_fail("no packet buffer is left");
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	behind = rte_pktmbuf_mtod_offset(m, uint8_t *, len);
	room = rte_pktmbuf_tailroom(m);
	if (rte_eth_tx_burst(ports[0].device, 0, &m, 1) != 1)
		fuzz_fail("the port takes no frame");
	/* Poisons the bytes behind the frame, as if they were another buffer's, so that AddressSanitizer
	 * finds accesses. The extra reference keeps the buffer from being reused meanwhile. */
	rte_mbuf_refcnt_update(m, 1);
	ASAN_POISON_MEMORY_REGION(behind, room);
	plane_turn(1000);
	ASAN_UNPOISON_MEMORY_REGION(behind, room);
	rte_pktmbuf_free(m);
}

bool
plane_headers(const uint8_t *frame, uint32_t len, uint32_t *ip, uint32_t *bth)
{
	uint32_t at = WIRE_ETH_LEN;
	uint16_t type;

	if (len < WIRE_ETH_LEN + 4)
		return false;
	type = load_be16(frame + 12);
	if (type == 0x8100) {
		type = load_be16(frame + 16);
		at += 4;
	}
	*ip = at;
	*bth = at + (type == 0x86dd ? 40 : 20) + 8;
	return (type == 0x0800 || type == 0x86dd) && *bth + WIRE_BTH_LEN + WIRE_ICRC_LEN <= len;
}

static void
seal_ipv4(uint8_t *ip)
{
	uint32_t sum = 0;

	store_be16(ip + 10, 0);
	for (uint32_t i = 0; i < 20; i += 2)
		sum += load_be16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	store_be16(ip + 10, (uint16_t)~sum);
}

void
plane_seal(uint8_t *frame, uint32_t len)
{
	uint32_t ip, bth, udp_len, end, crc;

	if (!plane_headers(frame, len, &ip, &bth))
		return;
	if (bth - ip == 28)
		seal_ipv4(frame + ip);
	udp_len = load_be16(frame + bth - 4);
	end = bth - 8 + udp_len;
	if (udp_len < 8 + WIRE_BTH_LEN + WIRE_ICRC_LEN || end > len)
		return;
	crc = icrc->compute(frame + ip, bth - ip - 8, end - WIRE_ICRC_LEN - ip);
	for (uint32_t i = 0; i < WIRE_ICRC_LEN; i++)
		frame[end - WIRE_ICRC_LEN + i] = (uint8_t)(crc >> 8 * i);
}

void
plane_fix_lengths(uint8_t *frame, uint32_t len, uint32_t ip, uint32_t bth)
{
	uint16_t udp_len = (uint16_t)((len - bth + 8) & ~3u);
	bool v4 = bth - ip == 28;

	store_be16(frame + ip + (v4 ? 2 : 4), v4 ? udp_len + 20 : udp_len);
	store_be16(frame + bth - 4, udp_len);
}

struct wire_addr
plane_addr(uint8_t last)
{
	return (struct wire_addr){.gid = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = last}};
}

uint32_t
plane_key(uint8_t which)
{
	const struct memory *of[] = {&plane.memory, &plane.read_only, &plane.window, &plane.foreign,
				     &plane.slow};

	return which % 8 < 5 ? of[which % 8]->region.key : which * 0x01010101u;
}

/* ---- the application ---- */

uint32_t __wrap_engine_qpn_new(void);

/* Replaces the engine's function, which would run out of numbers, because each rests for seconds. */
uint32_t
__wrap_engine_qpn_new(void)
{
	static uint32_t next = 1;

	next = next % (ENGINE_QPNS_MAX - 2) + 2;
	return next;
}

static void
srq_new(void)
{
	struct engine_srq_config config = {
		.id = 4711, .log2 = RING_LOG2, .lanes = 1, .async_cq = plane.async.cq};

	config.shm = app_alloc(&plane.app, sizeof(struct one_srq_shm));
	config.rq = app_alloc(&plane.app, sizeof(struct one_wqe) << RING_LOG2);
	plane.srq_shm = (struct one_srq_shm *)(plane.app.arena + config.shm);
	plane.srq_ring = (struct one_wqe *)(plane.app.arena + config.rq);
	plane.srq = engine_srq_new(plane.app.client, &config);
	assert_non_null(plane.srq);
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_ADD, .srq = plane.srq}), 0);
}

static struct engine_ah *
ah_new(uint32_t id, uint8_t last)
{
	struct engine_ah_config config = {.id = id, .pz = plane.app.pz};

	config.path.src = plane_addr(1);
	config.path.dst = plane_addr(last);
	config.path.udp_src_port = 0xc123;
	config.path.ttl = 64;
	return engine_ah_new(plane.app.client, &config);
}

static void
memories_new(void)
{
	uint64_t offset = app_alloc(&plane.app, sizeof(struct one_copies));

	memory_new(&plane.app, ONE_ACCESS_ALL, PLANE_MEMORY, &plane.memory);
	memory_new(&plane.app, ONE_ACCESS_REMOTE_READ | ONE_ACCESS_LOCAL_READ, 4096, &plane.read_only);
	memory_new(&plane.app, ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE, 4096, &plane.window);
	plane.window.region.window = true;
	memory_new(&plane.app, ONE_ACCESS_ALL, 4096, &plane.foreign);
	plane.foreign.region.pz += 1000000;
	memory_new(&plane.app, ONE_ACCESS_ALL, 40000, &plane.slow);
	plane.bounce = engine_client_bounce(plane.app.client, offset);
	assert_non_null(plane.bounce);
	plane.copies = (struct one_copies *)(plane.app.arena + offset);
	plane.slow.region.base = NULL;
	plane.slow.region.bounce = plane.bounce;
}

static void
receive_into(struct one_wqe *wqe, const struct memory *memory, uint32_t len)
{
	wqe->op = ONE_OP_RECV;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->sge = (struct one_sge){.addr = memory->region.va, .len = len, .lkey = memory->region.key};
}

static void
post_shared(const struct memory *memory, uint32_t len)
{
	struct one_wqe *wqe = &plane.srq_ring[one_ring_slot(plane.srq_tail, RING_LOG2)];

	memset(wqe, 0, offsetof(struct one_wqe, phase));
	receive_into(wqe, memory, len);
	plane.srq_tail++;
	atomic_store(&plane.srq_shm->posted, plane.srq_tail);
	atomic_store(&wqe->phase, one_ring_phase(plane.srq_tail - 1, RING_LOG2));
}

static void
join_pair(uint32_t from, uint32_t to, enum rc_state state, bool local, bool selective)
{
	struct engine_connection c = connection_to(&plane.pair[from], &plane.pair[to], state, local);

	if (!local && from != PLANE_LOOPED) {
		c.rc.path.dst = plane_addr(2);
		c.rc.peer_qpn = 0x777777;
	}
	c.rc.selective = c.rc.packed = selective;
	c.rc.send_psn = c.rc.recv_psn = 0xfffff0;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = plane.pair[from].qp, .connection = c}),
			 0);
}

static void
connect_all(void)
{
	join_pair(PLANE_ACTIVE, PLANE_ACTIVE, RC_RTS, false, false);
	join_pair(PLANE_PASSIVE, PLANE_PASSIVE, RC_RTR, false, false);
	join_pair(PLANE_SELECTIVE, PLANE_SELECTIVE, RC_RTS, false, true);
	join_pair(PLANE_SHARED, PLANE_SHARED, RC_RTS, false, false);
	join_pair(PLANE_HERE, PLANE_THERE, RC_RTS, true, false);
	join_pair(PLANE_THERE, PLANE_HERE, RC_RTS, true, false);
	join_pair(PLANE_LOOPED, PLANE_LOOPED, RC_RTS, false, false);
	join_pair(PLANE_SIGNALS, PLANE_SIGNALS, RC_RTS, false, false);
	for (uint32_t i = PLANE_UD; i <= PLANE_UD_SHARED; i++)
		for (int state = RC_RTR; state <= RC_RTS; state++)
			assert_int_equal(
				command((struct engine_command){
					.type = ENGINE_QP_DATAGRAM,
					.qp = plane.pair[i].qp,
					.datagram = {.state = (enum rc_state)state, .qkey = PLANE_QKEY}}),
				0);
}

static void
signals_new(struct pair *pair)
{
	struct engine_qp_config config = {.owner = pair,
					  .id = 7,
					  .doorbell = plane.app.next_doorbell++,
					  .pz = plane.app.pz,
					  .recv_cq = plane.counter.cq,
					  .async_cq = plane.async.cq,
					  .signals = true};

	config.qpn = __wrap_engine_qpn_new();
	pair->app = &plane.app;
	pair->qpn = config.qpn;
	pair->id = config.id;
	pair->qp = engine_qp_new(plane.app.client, &config);
	assert_non_null(pair->qp);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_ADD, .qp = pair->qp}), 0);
}

static void
start_once(void)
{
	static bool started;

	if (started)
		return;
	started = true;
	fixture_start(1, ONE_IDLE_SPIN);
	turn(DRAIN_TURNS);
	frames_free = rte_mempool_avail_count(engine.core[0]->pool);
}

void
plane_begin(void)
{
	start_once();
	fuzz_random_begin();
	memset(&plane, 0, sizeof(plane));
	app_start(&plane.app);
	plane.keys = (struct one_keys *)(plane.app.arena + plane.app.header->keys);
	ring_new(&plane.app, CQ_LOG2, &plane.async, NULL);
	ring_new(&plane.app, CQ_LOG2, &plane.send, plane.async.cq);
	ring_new(&plane.app, CQ_LOG2, &plane.recv, plane.async.cq);
	ring_new(&plane.app, CQ_LOG2, &plane.conn, plane.async.cq);
	ring_new(&plane.app, FEW_LOG2, &plane.few, plane.async.cq);
	ring_new(&plane.app, FEW_LOG2, &plane.counter, plane.async.cq);
	memories_new();
	srq_new();
	for (uint32_t i = 0; i < PLANE_UD; i++)
		pair_new_shared(&plane.app, &plane.send, i == PLANE_SHARED ? &plane.few : &plane.recv,
				&plane.conn, &plane.async, i == PLANE_SHARED ? plane.srq : NULL,
				&plane.pair[i]);
	pair_new_ud(&plane.app, &plane.send, &plane.recv, NULL, &plane.pair[PLANE_UD]);
	pair_new_ud(&plane.app, &plane.few, &plane.few, plane.srq, &plane.pair[PLANE_UD_SHARED]);
	signals_new(&plane.pair[PLANE_SIGNALS]);
	plane.ah[0] = ah_new(AH_ID, 2);
	plane.ah[1] = ah_new(AH_ID + 1, 1);
	assert_true(plane.ah[0] != NULL && plane.ah[1] != NULL);
	connect_all();
	for (uint32_t n = 0; n < RECEIVES; n++) {
		for (uint32_t i = 0; i < PLANE_PAIRS; i++)
			if (plane.pair[i].rq != NULL && i != PLANE_SHARED && i != PLANE_UD_SHARED)
				post_recv(&plane.pair[i], &plane.memory, 3000, n);
		post_shared(&plane.memory, 2000);
	}
	plane_turn(1000);
}

/* All work nodes, frames and scoreboards were returned. */
static void
check_nothing_left(void)
{
	const struct core *core = engine.core[0];
	uint32_t spares = core->tx_spares + (core->tx_frame != NULL);

	if (core->env.pool->available != core->env.pool->count)
		fuzz_fail("work nodes are lost");
	if (core->holds != 0)
		fuzz_fail("frames stay held");
	if (rte_mempool_avail_count(core->pool) + spares != frames_free)
		fuzz_fail("packet buffers are lost");
	if (!TAILQ_EMPTY(&core->env.scoreboards->used))
		fuzz_fail("scoreboards are lost");
	if (core->hot_count != 0 || !TAILQ_EMPTY(&core->drr.busy) || !STAILQ_EMPTY(&core->dirty) ||
	    !LIST_EMPTY(&core->reaching))
		fuzz_fail("the core still knows of an application that has gone");
	if (engine.reap != NULL)
		fuzz_fail("memory is not freed");
}

void
plane_end(void)
{
	for (uint32_t i = 0; i < PLANE_PAIRS; i++)
		pair_end(&plane.pair[i]);
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_REMOVE, .srq = plane.srq}), 0);
	engine_srq_free(plane.srq);
	for (int i = 0; i < 2; i++)
		engine_ah_free(plane.app.client, plane.ah[i]);
	ring_end(&plane.send);
	ring_end(&plane.recv);
	ring_end(&plane.conn);
	ring_end(&plane.few);
	ring_end(&plane.counter);
	ring_end(&plane.async);
	app_end(&plane.app);
	memory_end(&plane.memory);
	memory_end(&plane.read_only);
	memory_end(&plane.window);
	memory_end(&plane.foreign);
	memory_end(&plane.slow);
	turn(DRAIN_TURNS);
	check_nothing_left();
}

/* ---- records of all targets ---- */

static void
post_work(struct bytes *record)
{
	struct pair *pair = &plane.pair[record_number(record, 1) % PLANE_PAIRS];
	struct one_wqe *wqe;
	uint8_t op = (uint8_t)record_number(record, 1), from = (uint8_t)record_number(record, 1),
		to = (uint8_t)record_number(record, 1), flags = (uint8_t)record_number(record, 1);
	uint32_t len = (uint32_t)record_number(record, 2) % (PLANE_MEMORY + 1);
	bool atomic = op % ONE_OP_MAX == ONE_OP_FETCH_ADD || op % ONE_OP_MAX == ONE_OP_CMP_SWAP;
	bool ud = plane_is_ud(pair);

	if (pair->sq == NULL)
		return;
	wqe = pair_send(pair);
	wqe->op = op % ONE_OP_MAX;
	wqe->flags = flags & ONE_WQE_FLAGS & ~ONE_WQE_INLINE;
	wqe->num_sge = 1;
	wqe->length = atomic ? 8 : len;
	wqe->imm = (uint32_t)record_number(record, 4);
	wqe->cookie = op;
	wqe->remote_addr = ud ? one_ud_to(AH_ID + to % 2, plane.pair[PLANE_UD + to / 2 % 2].qpn)
			      : plane.memory.region.va;
	wqe->rkey = ud ? PLANE_QKEY : plane_key(to);
	wqe->sge = (struct one_sge){.addr = from % 8 == 4 ? plane.slow.region.va : plane.memory.region.va,
				    .len = wqe->length,
				    .lkey = plane_key(from)};
	pair_commit_send(pair);
}

static void
post_receive(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1) % PLANE_PAIRS;
	const struct memory *into = record_number(record, 1) % 4 == 3 ? &plane.slow : &plane.memory;
	uint32_t len = (uint32_t)record_number(record, 2) % PLANE_MEMORY;

	if (which == PLANE_SHARED || which == PLANE_UD_SHARED) {
		post_shared(into, len);
		return;
	}
	if (plane.pair[which].rq == NULL)
		return;
	receive_into(pair_recv(&plane.pair[which]), into, len);
	pair_commit_recv(&plane.pair[which]);
}

/* Answers all requests to the copy thread with this outcome. */
static void
copy_all(uint32_t error)
{
	for (uint32_t n = plane.copied; n - plane.copied < ONE_COPIES; n++) {
		const struct one_copy_request *request = &plane.copies->request[n % ONE_COPIES];
		struct one_copy_answer *answer = &plane.copies->answer[n % ONE_COPIES];

		if (atomic_load(&request->phase) != one_ring_phase(n, ONE_COPY_LOG2)) {
			plane.copied = n;
			return;
		}
		answer->sequence = n;
		answer->error = error;
		atomic_store(&answer->phase, one_ring_phase(n, ONE_COPY_LOG2));
	}
	plane.copied += ONE_COPIES;
}

static void
pass_time(struct bytes *record)
{
	uint64_t ns = 1ull << record_number(record, 1) % VTIME_LOG2_MAX;
	uint32_t turns = (uint32_t)record_number(record, 1) % TURNS_MAX;
	uint8_t copies = (uint8_t)record_number(record, 1);

	for (uint32_t i = 0; i <= turns; i++) {
		if (copies != 0)
			copy_all(copies == 2 ? EFAULT : 0);
		plane_turn(ns);
	}
}

static void
resize(struct ring *ring, uint32_t log2)
{
	const uint64_t size = sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << log2);
	struct engine_cq_config config = {.offset = app_alloc(&plane.app, size), .log2 = log2};

	if (command((struct engine_command){.type = ENGINE_CQ_RESIZE, .cq = ring->cq, .cq_config = config}) !=
	    0)
		return;
	ring->shm = (struct one_cq_shm *)(plane.app.arena + config.offset);
	ring->entries = (struct one_cqe *)(ring->shm + 1);
	ring->log2 = log2;
	ring->head = 0;
}

/* Runs a command at a time when the control thread may: a reset follows the end of a connection. */
static void
control(struct bytes *record)
{
	struct pair *pair = &plane.pair[record_number(record, 1) % PLANE_PAIRS];
	struct engine_command c = {.qp = pair->qp, .event = {.type = ONE_CQE_CONNECT, .object = pair->id}};

	switch (record_number(record, 1) % 8) {
	case 6:
		c.type = ENGINE_QP_SIGNAL;
		c.qp = plane.pair[PLANE_SIGNALS].qp;
		c.event.imm = (uint32_t)record_number(record, 4);
		break;
	case 7:
		resize(record_number(record, 1) % 2 == 0 ? &plane.few : &plane.send,
		       1 + (uint32_t)record_number(record, 1) % CQ_LOG2);
		return;
	case 0:
		c.type = ENGINE_QP_RTS;
		break;
	case 1:
		c.type = ENGINE_QP_DRAIN;
		break;
	case 2:
		c.type = ENGINE_QP_FLUSH;
		break;
	case 3:
		c.type = ENGINE_QP_SET;
		c.settings.given = (uint8_t)record_number(record, 1);
		c.settings.access = (uint32_t)record_number(record, 1);
		c.settings.stopped = (uint8_t)record_number(record, 1) & 1;
		c.settings.notify = 1;
		c.settings.min_rnr_timer = (uint8_t)record_number(record, 1) % 32;
		break;
	case 4:
		command((struct engine_command){.type = ENGINE_SRQ_LIMIT,
						.srq = plane.srq,
						.limit = (uint32_t)record_number(record, 1)});
		return;
	default:
		command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = pair->qp});
		c.type = ENGINE_QP_RESET;
		break;
	}
	command(c);
}

void
plane_record(uint8_t kind, struct bytes *record)
{
	switch (kind % 4) {
	case 0:
		post_work(record);
		break;
	case 1:
		post_receive(record);
		break;
	case 2:
		pass_time(record);
		break;
	default:
		control(record);
		break;
	}
}
