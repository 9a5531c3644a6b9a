/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>

#include "fixture.h"

#define TURN_NS 1000

struct config fixture_config;
uint32_t frames_to_control;
int fixture_wake_fd = -1;
void (*fixture_prepare)(struct config *config);
static bool eal_is_up;
static uint64_t clock_tsc;

void
fixture_start(uint32_t cores, enum one_idle idle)
{
	static char *args[] = {"engine-test",   "--no-huge",           "-m",          "192",
			       "--no-pci",      "--no-telemetry",      "--no-shconf", "--iova-mode=va",
			       "--log-level=4", "--lcores=0@0,1@1,2@0"}; /* the test turns the loops by hand:
									    they may share */

	char why[256] = "";

	if (cores == 1)
		args[RTE_DIM(args) - 1] = "--lcores=0@0,1@1";
	if (!eal_is_up)
		assert_true(rte_eal_init(RTE_DIM(args), args) >= 0);
	eal_is_up = true;
	assert_int_equal(rte_eal_hotplug_add("vdev", "net_ring0", ""), 0);
	memset(&fixture_config, 0, sizeof(fixture_config));
	fixture_config.idle = idle;
	fixture_config.num_ports = 1;
	strcpy(fixture_config.port[0].name, "p0");
	fixture_config.port[0].addr[0].family = AF_INET;
	memcpy(fixture_config.port[0].addr[0].bytes, (uint8_t[]){192, 0, 2, 1}, 4);
	fixture_config.work_pool = 1024;
	fixture_config.mbufs = 2048;
	if (fixture_prepare != NULL)
		fixture_prepare(&fixture_config);
	if (engine_init(&fixture_config, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	assert_int_equal(engine_num_cores(), cores);
	clock_tsc = rte_rdtsc(); /* later than the cores' first reading */
	frames_to_control = 0;
}

void
fixture_stop(void)
{
	engine_stop();
	engine_fini();
	assert_int_equal(rte_eal_hotplug_remove("vdev", "net_ring0"), 0);
}

int
group_start(void **state)
{
	fixture_start(1, ONE_IDLE_SPIN);
	return 0;
}

int
group_start_two(void **state)
{
	fixture_start(2, ONE_IDLE_SPIN);
	return 0;
}

int
group_stop(void **state)
{
	fixture_stop();
	return 0;
}

static void
on_event(const struct engine_event *event)
{
	struct pair *pair = event->owner;
	struct app *app = event->owner;

	switch (event->type) {
	case ENGINE_EVENT_FAILED:
		pair->failed++;
		pair->error = event->value;
		break;
	case ENGINE_EVENT_ESTABLISHED:
		pair->established++;
		break;
	case ENGINE_EVENT_DRAINED:
		pair->drained++;
		break;
	case ENGINE_EVENT_BIND:
		pair->binds++;
		break;
	case ENGINE_EVENT_SILENT:
		pair->silences++;
		break;
	case ENGINE_EVENT_STRAYS:
		pair->strays++;
		pair->strays_at = event->value;
		break;
	case ENGINE_EVENT_FAULT:
		app->faults++;
		app->fault = event->value;
		break;
	}
}

static void
on_frame(uint16_t port, uint8_t *frame, uint32_t len, const struct wire_packet *packet)
{
	assert_true(len > 0);
	frames_to_control++;
}

static void
pass(uint64_t ns)
{
	clock_tsc += rte_get_tsc_hz() / 1000000 * ns / 1000;
}

uint64_t
fixture_tsc(void)
{
	pass(TURN_NS);
	return clock_tsc;
}

void
turn_for(uint64_t ns)
{
	static const struct engine_handlers handlers = {.on_event = on_event, .on_frame = on_frame};

	pass(ns);
	for (uint32_t j = 0; j < engine.num_cores && !engine.running; j++)
		loop_iterate(engine.core[j], clock_tsc);
	if (engine.running)
		sched_yield();
	engine_poll(&handlers);
}

void
turn(uint32_t loops)
{
	for (uint32_t i = 0; i < loops; i++)
		turn_for(TURN_NS);
}

static int acknowledged, command_status;

static void
on_done(struct engine_command *done)
{
	acknowledged++;
	command_status = done->status;
	free(done);
}

int
command(struct engine_command fields)
{
	struct engine_command *one = malloc(sizeof(*one));
	int before = acknowledged;

	assert_non_null(one);
	*one = fields;
	one->done = on_done;
	assert_int_equal(engine_command(one), 0);
	TURN_UNTIL(acknowledged == before + 1);
	return command_status;
}

uint64_t
app_alloc(struct app *app, uint64_t size)
{
	uint64_t offset = app->next;

	app->next += RTE_ALIGN_CEIL(size, ONE_CACHE_LINE);
	assert_true(app->next <= ONE_ARENA_SIZE);
	return offset;
}

void
app_start_of(struct app *app, struct engine_user *user)
{
	static uint32_t pz;
	const struct engine_client_config config = {
		.owner = app, .user = user, .wake_fd = fixture_wake_fd, .arena = NULL};
	struct engine_client_config with_arena = config;

	memset(app, 0, sizeof(*app));
	app->arena_fd = memfd_create("arena", MFD_CLOEXEC);
	assert_int_equal(ftruncate(app->arena_fd, ONE_ARENA_SIZE), 0);
	app->arena = mmap(NULL, ONE_ARENA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			  app->arena_fd, 0);
	assert_true(app->arena != MAP_FAILED);
	app->header = (struct one_arena *)app->arena;
	app->next = 4096;
	app->pz = ++pz;
	app->header->doorbells = app_alloc(app, sizeof(struct one_doorbells));
	app->header->channels = app_alloc(app, sizeof(struct one_channel) * ONE_CHANNELS);
	app->header->keys = app_alloc(app, sizeof(struct one_keys));
	app->doorbells = (struct one_doorbells *)(app->arena + app->header->doorbells);
	app->channels = (struct one_channel *)(app->arena + app->header->channels);
	with_arena.arena = app->arena;
	with_arena.doorbells = app->header->doorbells;
	with_arena.channels = app->header->channels;
	with_arena.keys = app->header->keys;
	app->client = engine_client_new(&with_arena);
	assert_non_null(app->client);
	assert_int_equal(command((struct engine_command){.type = ENGINE_CLIENT_ADD, .client = app->client}),
			 0);
}

void
app_start(struct app *app)
{
	struct engine_user *user = engine_user_new(&(struct engine_share){.weight = 1});

	assert_non_null(user);
	app_start_of(app, user);
	app->user = user;
}

void
app_end(struct app *app)
{
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_CLIENT_REMOVE, .client = app->client}), 0);
	engine_client_free(app->client);
	engine_user_free(app->user);
	munmap(app->arena, ONE_ARENA_SIZE);
	close(app->arena_fd);
}

void
ring_new(struct app *app, uint32_t log2, struct ring *ring, struct engine_cq *async)
{
	struct engine_cq_config config = {.id = 77, .log2 = log2, .async_cq = async};

	config.offset = app_alloc(app, sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << log2));
	config.bundle = app_alloc(app, sizeof(struct one_cq_bundle));
	memset(ring, 0, sizeof(*ring));
	ring->bundle = (struct one_cq_bundle *)(app->arena + config.bundle);
	ring->bundle->rings = 1;
	ring->cq = engine_cq_new(app->client, &config);
	assert_non_null(ring->cq);
	ring->shm = (struct one_cq_shm *)(app->arena + config.offset);
	ring->entries = (struct one_cqe *)(ring->shm + 1);
	ring->log2 = log2;
	assert_int_equal(command((struct engine_command){.type = ENGINE_CQ_ADD, .cq = ring->cq}), 0);
}

void
lane_new(struct app *home, uint32_t number, struct app *lane)
{
	uint64_t doorbells = app_alloc(home, sizeof(struct one_doorbells));

	*lane = *home;
	lane->next = home->next + number * (ONE_ARENA_SIZE / 16) + ONE_ARENA_SIZE / 4;
	lane->next_doorbell = home->next_doorbell + 64 * (number + 1);
	lane->doorbells = (struct one_doorbells *)(home->arena + doorbells);
	lane->client = engine_lane_new(home->client, number, doorbells);
	assert_non_null(lane->client);
	assert_int_equal(engine_lane_core(lane->client), number % engine_num_cores());
	assert_int_equal(engine_lane_doorbells(lane->client), doorbells);
	assert_int_equal(command((struct engine_command){.type = ENGINE_CLIENT_ADD, .client = lane->client}),
			 0);
}

void
lane_end(struct app *lane)
{
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_CLIENT_REMOVE, .client = lane->client}), 0);
}

void
ring_join(struct app *lane, struct ring *first, struct ring *ring)
{
	struct one_cq_bundle *bundle = first->bundle;
	struct engine_cq_config config = {
		.id = first->cq->id, .number = bundle->rings, .first = first->cq, .log2 = first->log2};

	config.bundle = (uint64_t)((uint8_t *)bundle - lane->arena);
	config.offset = app_alloc(lane, sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << config.log2));
	memset(ring, 0, sizeof(*ring));
	ring->bundle = bundle;
	ring->cq = engine_cq_new(lane->client, &config);
	assert_non_null(ring->cq);
	ring->shm = (struct one_cq_shm *)(lane->arena + config.offset);
	ring->entries = (struct one_cqe *)(ring->shm + 1);
	ring->log2 = config.log2;
	assert_int_equal(command((struct engine_command){.type = ENGINE_CQ_ADD, .cq = ring->cq}), 0);
	atomic_store(&bundle->place[atomic_load(&bundle->rings)],
		     one_cq_ring_place(config.offset, config.log2));
	atomic_fetch_add(&bundle->rings, 1);
}

void
ring_end(struct ring *ring)
{
	assert_int_equal(command((struct engine_command){.type = ENGINE_CQ_REMOVE, .cq = ring->cq}), 0);
	engine_cq_free(ring->cq);
}

void
ring_arm(struct ring *ring, uint64_t arm)
{
	atomic_store(&ring->bundle->arm, one_arm(ONE_ARM_SEQ(arm), ONE_ARM_CHANNEL(arm), 0));
	atomic_store(&ring->shm->arm, arm);
}

bool
ring_armed(const struct ring *ring)
{
	return atomic_load(&ring->bundle->arm) != 0;
}

bool
ring_poll(struct ring *ring, struct one_cqe *out)
{
	struct one_cqe *slot = &ring->entries[one_ring_slot(ring->head, ring->log2)];

	if (atomic_load_explicit(&slot->phase, memory_order_acquire) !=
	    one_ring_phase(ring->head, ring->log2))
		return false;
	memcpy(out, slot, sizeof(*out));
	ring->head++;
	atomic_store_explicit(&ring->shm->head, ring->head, memory_order_release);
	return true;
}

static void
pair_make(struct app *app, struct ring *send, struct ring *recv, struct ring *conn, struct ring *async,
	  struct engine_srq *srq, bool ud, struct pair *pair)
{
	static uint32_t id = 1000;
	struct engine_qp_config config = {.owner = pair,
					  .id = ++id,
					  .qpn = engine_qpn_new(),
					  .doorbell = app->next_doorbell++,
					  .pz = app->pz,
					  .sq_log2 = RING_LOG2,
					  .rq_log2 = RING_LOG2,
					  .max_send_wr = MAX_WR,
					  .max_recv_wr = MAX_WR};

	memset(pair, 0, sizeof(*pair));
	assert_true(config.qpn != 0);
	config.shm = app_alloc(app, sizeof(struct one_qp_shm));
	config.sq = app_alloc(app, sizeof(struct one_wqe) << RING_LOG2);
	config.rq = app_alloc(app, sizeof(struct one_wqe) << RING_LOG2);
	config.srq = srq;
	config.ud = ud;
	config.send_cq = send != NULL ? send->cq : NULL;
	config.recv_cq = recv != NULL ? recv->cq : NULL;
	config.conn_cq = conn != NULL ? conn->cq : NULL;
	config.async_cq = async != NULL ? async->cq : NULL;
	pair->app = app;
	pair->shm = (struct one_qp_shm *)(app->arena + config.shm);
	pair->sq = (struct one_wqe *)(app->arena + config.sq);
	pair->rq = (struct one_wqe *)(app->arena + config.rq);
	pair->doorbell = config.doorbell;
	pair->qpn = config.qpn;
	pair->id = config.id;
	pair->send = send;
	pair->recv = recv;
	pair->conn = conn;
	pair->qp = engine_qp_new(app->client, &config);
	assert_non_null(pair->qp);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_ADD, .qp = pair->qp}), 0);
}

void
pair_new(struct app *app, struct ring *send, struct ring *recv, struct ring *conn, struct ring *async,
	 struct pair *pair)
{
	pair_make(app, send, recv, conn, async, NULL, false, pair);
}

void
pair_new_shared(struct app *app, struct ring *send, struct ring *recv, struct ring *conn, struct ring *async,
		struct engine_srq *srq, struct pair *pair)
{
	pair_make(app, send, recv, conn, async, srq, false, pair);
}

void
pair_new_ud(struct app *app, struct ring *send, struct ring *recv, struct engine_srq *srq, struct pair *pair)
{
	pair_make(app, send, recv, NULL, NULL, srq, true, pair);
}

void
pair_end(struct pair *pair)
{
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_REMOVE, .qp = pair->qp}), 0);
	engine_qp_free(pair->qp);
}

static struct one_wqe *
next_slot(struct one_wqe *ring, uint32_t tail)
{
	struct one_wqe *wqe = &ring[one_ring_slot(tail, RING_LOG2)];

	memset(wqe, 0, offsetof(struct one_wqe, phase));
	return wqe;
}

static uint32_t
commit(struct pair *pair, struct one_wqe *ring, uint32_t tail)
{
	struct one_wqe *first = &ring[one_ring_slot(tail, RING_LOG2)];
	uint32_t slots = first->num_sge <= ONE_MAX_SGE ? one_wqe_slots(first->num_sge) : 1;

	for (uint32_t i = slots; i-- > 0;)
		atomic_store_explicit(&ring[one_ring_slot(tail + i, RING_LOG2)].phase,
				      one_ring_phase(tail + i, RING_LOG2), memory_order_release);
	one_doorbell_ring(pair->app->doorbells, pair->doorbell);
	return tail + slots;
}

struct one_wqe *
pair_send(struct pair *pair)
{
	return next_slot(pair->sq, pair->sq_tail);
}

struct one_wqe *
pair_recv(struct pair *pair)
{
	return next_slot(pair->rq, pair->rq_tail);
}

void
pair_commit_send(struct pair *pair)
{
	pair->sq_tail = commit(pair, pair->sq, pair->sq_tail);
}

void
pair_commit_recv(struct pair *pair)
{
	pair->rq_tail = commit(pair, pair->rq, pair->rq_tail);
}

struct engine_connection
connection_to(struct pair *from, struct pair *to, enum rc_state state, bool local)
{
	struct engine_connection c = {.state = state, .local = local};
	const struct wire_addr addr = {.gid = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1}};

	c.rc.qpn = from->qpn;
	c.rc.peer_qpn = to->qpn;
	c.rc.pz = from->app->pz;
	c.rc.access = ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC;
	c.rc.send_psn = from->qpn ^ 0x5a5a5a;
	c.rc.recv_psn = to->qpn ^ 0x5a5a5a;
	c.rc.path_mtu = 1024;
	c.rc.rd_atomic_in = c.rc.rd_atomic_out = 4;
	c.rc.retry_count = 7;
	c.rc.rnr_retry = 7;
	c.rc.min_rnr_timer = 1;
	c.rc.timeout = 14;
	c.rc.oneside_peer = true;
	c.rc.path.src = c.rc.path.dst = addr;
	c.rc.path.udp_src_port = 0xc000;
	c.rc.path.ttl = 64;
	return c;
}

void
pair_connect(struct pair *from, struct pair *to, enum rc_state state, bool local)
{
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_QP_CONNECT,
						.qp = from->qp,
						.connection = connection_to(from, to, state, local)}),
		0);
}

void
memory_new(struct app *app, uint32_t access, size_t len, struct memory *memory)
{
	memset(memory, 0, sizeof(*memory));
	memory->bytes = calloc(1, len);
	assert_non_null(memory->bytes);
	memory->region = (struct mem_region){.key = mem_key_new(engine.mem),
					     .pz = app->pz,
					     .access = access,
					     .va = (uintptr_t)memory->bytes,
					     .length = len,
					     .base = memory->bytes};
	assert_true(memory->region.key != 0);
	mem_publish(engine.mem, &memory->region);
}

void
memory_end(struct memory *memory)
{
	mem_remove(engine.mem, memory->region.key);
	free(memory->bytes);
}

void
post_write(struct pair *pair, struct memory *from, struct memory *to, uint32_t len, uint64_t cookie)
{
	struct one_wqe *wqe = pair_send(pair);

	wqe->op = ONE_OP_WRITE;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->cookie = cookie;
	wqe->remote_addr = to->region.va;
	wqe->rkey = to->region.key;
	wqe->sge = (struct one_sge){.addr = from->region.va, .len = len, .lkey = from->region.key};
	pair_commit_send(pair);
}

void
post_send(struct pair *pair, struct memory *from, uint32_t len, uint64_t cookie)
{
	struct one_wqe *wqe = pair_send(pair);

	wqe->op = ONE_OP_SEND;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->cookie = cookie;
	wqe->sge = (struct one_sge){.addr = from->region.va, .len = len, .lkey = from->region.key};
	pair_commit_send(pair);
}

void
post_recv(struct pair *pair, struct memory *to, uint32_t len, uint64_t cookie)
{
	struct one_wqe *wqe = pair_recv(pair);

	wqe->op = ONE_OP_RECV;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->cookie = cookie;
	wqe->sge = (struct one_sge){.addr = to->region.va, .len = len, .lkey = to->region.key};
	pair_commit_recv(pair);
}

void
expect(struct ring *ring, uint8_t type, uint8_t status, uint64_t cookie)
{
	struct one_cqe cqe;

	TURN_UNTIL(ring_poll(ring, &cqe));
	assert_int_equal(cqe.type, type);
	assert_int_equal(cqe.status, status);
	assert_int_equal(cqe.cookie, cookie);
}

void
expect_none(struct ring *ring)
{
	struct one_cqe cqe;

	turn(50);
	assert_false(ring_poll(ring, &cqe));
}
