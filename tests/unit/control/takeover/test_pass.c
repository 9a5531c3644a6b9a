/* SPDX-License-Identifier: BSD-3-Clause */
/* Records that one control thread writes and another reads, on the fake engine. */
#include <string.h>

#include "control/objects/pass.h"
#include "tests/unit/unit.h"

static struct pass_out out;
static struct pass_in in;

/* Writing ends, and the name is one that no reader knows: the queue pair is refused. */
static void
test_unknown_kind(void **state)
{
	static const struct qp_kind unknown = {.name = "unknown"}, endpoint, import, export;
	static const struct attach_calls calls = {
		.endpoint = &endpoint, .import = &import, .export = &export};
	struct client client = {.state = CLIENT_ATTACHED};
	struct record record;
	uint64_t name;
	struct qp *qp;

	attach_calls = &calls;
	control.quota.max_clients = control.quota.max_clients_per_uid = 1;
	control.quota.max_own_per_uid = 1 << 20;
	client.account = quota_connect(&control.quota, 0);
	assert_non_null(client.account);
	table_init(&client.table[OBJECT_QP], TABLE_MAX);
	qp = object_new(&client, OBJECT_QP, sizeof(*qp));
	assert_non_null(qp);
	qp->kind = &unknown;
	qps_write(&client, &out);
	in.records = (struct record_in){.bytes = out.records.bytes, .length = out.records.length};
	assert_int_equal(record_take(&in.records, &record), 1);
	assert_int_equal(record.head.type, RECORD_QP);
	memcpy(&name, record.bytes, sizeof(name));
	assert_int_equal(name, 4);
	object_free(qp);
	table_fini(&client.table[OBJECT_QP]);
	quota_disconnect(&control.quota, client.account);
	quota_leave(&control.quota, client.account);
	record_out_free(&out.records);
}

/* More is freed than the state that was read has room for: nothing else is overwritten. */
static void
test_too_many_slots(void **state)
{
	uint32_t slots[2] = {0, 4711};
	struct small small = {.size[1] = {.free = slots, .total = 1}};

	small_free(&small, 3 * ONE_CACHE_LINE, ONE_CACHE_LINE);
	small_free(&small, 4 * ONE_CACHE_LINE, ONE_CACHE_LINE);
	assert_int_equal(small.size[1].num_free, 1);
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
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown_kind),
		cmocka_unit_test(test_too_many_slots),
		cmocka_unit_test(test_too_many_extents),
	};

	return cmocka_run_group_tests_name("control: pass", tests, NULL, NULL);
}
