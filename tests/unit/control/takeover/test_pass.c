/* SPDX-License-Identifier: BSD-3-Clause */
/* Records that one control thread writes and another reads, on the fake engine. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/connect/connect.h"
#include "control/objects/pass.h"
#include "control/path/path.h"
#include "tests/unit/control/fake_engine.h"
#include "tests/unit/unit.h"

#define VA 0x10000u /* of a window */

static struct pass_out out;
static struct pass_in in;

static void
client_begin(struct client *client)
{
	memset(client, 0, sizeof(*client));
	client->state = CLIENT_ATTACHED;
	control.quota.max_clients = control.quota.max_clients_per_uid = 1;
	control.quota.max_own_per_uid = 1 << 20;
	control.quota.max_common[QUOTA_KEYS] = 16;
	client->account = quota_connect(&control.quota, 0);
	assert_non_null(client->account);
	for (int i = 0; i < OBJECT_KINDS; i++)
		table_init(&client->table[i], 16);
}

static void
client_end(struct client *client)
{
	for (int i = 0; i < OBJECT_KINDS; i++) {
		for (uint32_t j = 0; j < client->table[i].size; j++)
			if (table_at(&client->table[i], j) != NULL)
				object_free(table_at(&client->table[i], j));
		table_fini(&client->table[i]);
	}
	quota_disconnect(&control.quota, client->account);
	quota_leave(&control.quota, client->account);
}

/* Begins to read what was written. */
static void
begin_reading(struct client *client)
{
	memset(&in, 0, sizeof(in));
	in.records = (struct record_in){.bytes = out.records.bytes, .length = out.records.length};
	in.context.owner = client;
	pass_in_begin(&in);
}

static void
written_end(void)
{
	record_out_free(&out.records);
	memset(&out, 0, sizeof(out));
}

/* Writing ends, and the name is one that no reader knows: the queue pair is refused. */
static void
test_unknown_kind(void **state)
{
	static const struct qp_kind unknown = {.name = "unknown"}, endpoint, import, export;
	static const struct attach_calls calls = {
		.endpoint = &endpoint, .import = &import, .export = &export};
	struct client client;
	struct record record;
	uint64_t name;
	struct qp *qp;

	attach_calls = &calls;
	client_begin(&client);
	qp = object_new(&client, OBJECT_QP, sizeof(*qp));
	assert_non_null(qp);
	qp->kind = &unknown;
	qps_write(&client, &out);
	in.records = (struct record_in){.bytes = out.records.bytes, .length = out.records.length};
	assert_int_equal(record_take(&in.records, &record), 1);
	assert_int_equal(record.head.type, RECORD_QP);
	memcpy(&name, record.bytes, sizeof(name));
	assert_int_equal(name, 4);
	client_end(&client);
	written_end();
}

/* A window in a zone, without memory: `entry` is what it has granted. Returns what reading it returns. */
static int
pass_window(struct client *client, struct mem_region *entry, bool is_published)
{
	struct pz *pz;
	struct mw *mw;
	int error;

	client_begin(client);
	pz = object_new(client, OBJECT_PZ, sizeof(*pz));
	mw = object_new(client, OBJECT_MW, sizeof(*mw));
	assert_true(pz != NULL && mw != NULL);
	pz->number = entry->pz;
	pz->object.busy = false;
	mw->pz = pz;
	mw->entry = entry;
	if (is_published)
		mem_publish(engine_mem_table(), entry);
	memory_write(client, &out);
	mem_remove(engine_mem_table(), entry->key);
	object_free(mw);
	begin_reading(client);
	error = memory_read(client, &in);
	written_end();
	return error;
}

static void
pass_window_end(struct client *client)
{
	const struct table *table = &client->table[OBJECT_MW];

	for (uint32_t i = 0; i < table->size; i++) {
		struct mw *mw = table_at(table, i);

		if (mw != NULL && mw->entry != NULL) {
			mem_remove(engine_mem_table(), mw->entry->key);
			quota_give(&control.quota, client->account, QUOTA_KEYS, 1);
			free(mw->entry);
		}
	}
	client_end(client);
}

/* A window without memory has no address here, so it must not cover any, not even for local access. */
static void
test_window_without_memory(void **state)
{
	struct mem_region entry = {.key = 0x12345678, .pz = 0x10001, .va = VA, .length = 4096};
	struct client client;

	assert_int_equal(pass_window(&client, &entry, true), 0);
	assert_null(mem_check(engine_mem_table(), entry.key, entry.pz, 0, 0, VA, 8));
	pass_window_end(&client);
}

/* Peers can invalidate only some windows, so a state in which one has invalidated another is wrong. */
static void
test_revoked_window(void **state)
{
	struct mem_region entry = {.key = 0x12345678, .pz = 0x10001, .va = VA, .length = 4096};
	struct client client;

	assert_int_equal(pass_window(&client, &entry, false), -EINVAL);
	pass_window_end(&client);
	entry.window = true;
	assert_int_equal(pass_window(&client, &entry, false), 0);
	assert_null(mem_lookup(engine_mem_table(), entry.key));
	pass_window_end(&client);
}

/* ---- a sealed file ---- */

#define SEALED_SIZE 8192u
#define COPY_AT (1ull << 63)

/* Writes a zone, and memory in a sealed file, for a successor. */
static void
write_sealed(struct client *client)
{
	int fd = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	static uint8_t here[SEALED_SIZE];
	struct mem_region entry = {
		.key = 0x12345678, .pz = 0x10001, .va = VA, .length = SEALED_SIZE, .base = here};
	struct mapping mapping = {.base = here, .len = SEALED_SIZE, .fd = fd};
	struct region *region = object_new(client, OBJECT_REGION, sizeof(*region)), *regions[] = {region};
	struct mr *mr = object_new(client, OBJECT_MR, sizeof(*mr));
	struct pz *pz = object_new(client, OBJECT_PZ, sizeof(*pz));

	assert_int_equal(fallocate(fd, 0, 0, SEALED_SIZE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL), 0);
	pz->number = entry.pz;
	pz->object.busy = false;
	region->object.busy = mr->object.busy = false;
	region->mapping = &mapping;
	region->size = region->joined = SEALED_SIZE;
	region->page = 4096;
	region->sealed = region->registered = true;
	mr->pz = pz;
	mr->va = VA;
	mr->length = SEALED_SIZE;
	mr->entry = &entry;
	mr->num_regions = 1;
	mr->region = regions;
	mr->copy_at = COPY_AT;
	mem_publish(engine_mem_table(), &entry);
	memory_write(client, &out);
	mem_remove(engine_mem_table(), entry.key);
	assert_string_equal(out.why, "");
	assert_int_equal(out.num_fds, 1);
	object_free(mr);
	object_free(region);
}

static void
read_sealed_end(struct client *client)
{
	const struct table *table = &client->table[OBJECT_MR];

	for (uint32_t i = 0; i < table->size; i++) {
		struct mr *mr = table_at(table, i);

		if (mr != NULL && mr->entry != NULL) {
			mem_remove(engine_mem_table(), mr->entry->key);
			free(mr->entry);
			key_free(client);
		}
		if (mr != NULL)
			free(mr->region);
	}
	table = &client->table[OBJECT_REGION];
	for (uint32_t i = 0; i < table->size; i++) {
		struct region *region = table_at(table, i);

		if (region != NULL && region->mapping != NULL) {
			close(region->mapping->fd);
			free(region->mapping);
		}
	}
	pass_out_end(&out);
	written_end();
	client_end(client);
}

/* Returns what reading memory in a sealed file returns, if the program has a copy thread or none. */
static int
pass_sealed(struct client *client, struct bounce *bounce)
{
	static struct config config = {.limits = {.max_mr_total = 1 << 20}};

	control.config = &config;
	client_begin(client);
	client->kind = ONE_KIND_RSM;
	client->bounce = bounce;
	control.quota.max_bytes_per_uid = 1 << 20;
	control.quota.max_common[QUOTA_MAPPABLE] = control.quota.max_common[QUOTA_MAPPINGS] = 64;
	write_sealed(client);
	begin_reading(client);
	in.fd = out.fd;
	in.num_fds = out.num_fds;
	return memory_read(client, &in);
}

/* Memory that cannot be mapped any more is the copy thread's, under the addresses that it knows. */
static void
test_sealed_file(void **state)
{
	struct bounce *bounce = (struct bounce *)(uintptr_t)1;
	const struct mem_region *entry;
	struct client client;

	if (pass_sealed(&client, bounce) != 0)
		fail_msg("%s", in.why);
	entry = mem_lookup(engine_mem_table(), 0x12345678);
	assert_non_null(entry);
	assert_null(entry->base);
	assert_ptr_equal(entry->bounce, bounce);
	assert_int_equal(entry->va - entry->shift, COPY_AT);
	read_sealed_end(&client);
	assert_int_equal(pass_sealed(&client, NULL), -EINVAL);
	assert_non_null(strstr(in.why, "exceeds its region"));
	read_sealed_end(&client);
}

/* ---- connections ---- */

extern const struct record_form *const __start_record_forms[];
extern const struct record_form *const __stop_record_forms[];

static const struct record_form *
form_of(enum record_type type)
{
	for (const struct record_form *const *form = __start_record_forms; form < __stop_record_forms; form++)
		if ((*form)->type == type)
			return *form;
	fail_msg("type %d has no form", (int)type);
	return NULL;
}

/* Returns what reading this connection returns. */
static int
pass_conn(const struct conn *conn)
{
	const struct conn_setup setup = {.private_len = 0};
	struct client client;
	int error;

	client_begin(&client);
	TAILQ_INIT(&control.clients);
	TAILQ_INIT(&control.conns);
	TAILQ_INIT(&control.dead);
	path_num_ports = 1;
	record_put(&out.records, form_of(RECORD_CONN), 0, conn, &out.context);
	if (conn->setup != NULL)
		record_put(&out.records, form_of(RECORD_SETUP), 0, &setup, &out.context);
	begin_reading(&client);
	error = conns_read(&in);
	conns_fini();
	written_end();
	client_end(&client);
	return error;
}

/* Timers and events of a connection use its queue pair without a look whether there is one. */
static void
test_connection_without_queue_pair(void **state)
{
	static struct conn_setup setup;
	struct conn conn = {.port = &path_port[0], .setup = &setup, .timer = {.place = 1}};
	static const enum conn_state states[] = {CONN_WAITING,   CONN_OFFERED, CONN_REQUESTED, CONN_STARTING,
						 CONN_PREPARING, CONN_REPLIED, CONN_UP};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		conn.state = states[i];
		assert_int_equal(pass_conn(&conn), -EINVAL);
	}
	conn.state = CONN_OVER; /* in time-wait */
	assert_int_equal(pass_conn(&conn), 0);
}

/* ---- cores ---- */

/* Returns what reading a queue pair on this lane returns, if its queue has these rings. */
static int
pass_qp_on(struct client *client, struct engine_client *lane, struct cq *cq)
{
	static const struct qp_kind endpoint = {.name = "endpoint", .created = true}, import, export;
	static const struct attach_calls calls = {
		.endpoint = &endpoint, .import = &import, .export = &export};
	const struct qp qp = {
		.kind = &endpoint, .placed = true, .lane = lane, .send_cq = cq, .config = {.shm = 4096}};
	int error;

	attach_calls = &calls;
	record_put(&out.records, form_of(RECORD_QP), cq->object.id, &qp, &out.context);
	begin_reading(client);
	error = qps_read(client, &in);
	written_end();
	return error;
}

/* Completions of a core without a ring have no place. */
static void
test_queue_pair_without_rings(void **state)
{
	const struct engine_share share = {.weight = 1};
	struct engine_client *home, *other;
	struct client client;
	struct cq *cq;

	client_begin(&client);
	fake_cores = 2;
	fake_lanes = true;
	home = engine_client_new(&(struct engine_client_config){.user = engine_user_new(&share)});
	other = engine_lane_new(home, 1, 4096);
	client.engine = home;
	client.port = &path_port[0];
	cq = object_new(&client, OBJECT_CQ, sizeof(*cq));
	cq->object.busy = false;
	cq->first.lane = home;
	cq->num_rings = 1;
	assert_int_equal(pass_qp_on(&client, other, cq), -EINVAL);
	assert_non_null(strstr(in.why, "no rings"));
	memset(&in, 0, sizeof(in));
	assert_int_equal(pass_qp_on(&client, home, cq), -EINVAL);
	assert_null(strstr(in.why, "no rings"));
	fake_cores = 1;
	fake_lanes = false;
	client_end(&client);
}

/* ---- what is freed ---- */

/* More is freed than the state that was read has room for: nothing else is overwritten. */
static void
test_too_many_slots(void **state)
{
	uint32_t slots[2] = {0, 4711};
	struct arena_slabs slabs = {.slab[1] = {.free = slots, .total = 1}};

	arena_slab_free(&slabs, 3 * ONE_CACHE_LINE, ONE_CACHE_LINE);
	arena_slab_free(&slabs, 4 * ONE_CACHE_LINE, ONE_CACHE_LINE);
	assert_int_equal(slabs.slab[1].num_free, 1);
	assert_int_equal(slots[0], 3);
	assert_int_equal(slots[1], 4711);
}

static void
test_too_many_extents(void **state)
{
	struct arena_extent extents[2] = {{4096, 4096}, {4711, 4711}};
	struct arena arena = {
		.free = extents, .num_free = 1, .cap_free = 1, .size = 1 << 20, .used = 1 << 19};

	arena_free(&arena, 16384, 4096);
	assert_int_equal(arena.num_free, 1);
	assert_int_equal(extents[1].offset, 4711);
	arena_free(&arena, 8192, 4096);
	assert_int_equal(extents[0].size, 8192);
	/* The number of allocations does not wrap. */
	assert_int_equal(arena.parts, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown_kind),
		cmocka_unit_test(test_window_without_memory),
		cmocka_unit_test(test_revoked_window),
		cmocka_unit_test(test_sealed_file),
		cmocka_unit_test(test_connection_without_queue_pair),
		cmocka_unit_test(test_queue_pair_without_rings),
		cmocka_unit_test(test_too_many_slots),
		cmocka_unit_test(test_too_many_extents),
	};

	return cmocka_run_group_tests_name("control: pass", tests, NULL, NULL);
}
