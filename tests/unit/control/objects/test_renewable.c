/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions whose keys a polling core revokes and renews; the test acts as the core. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

#include "attach.h"
#include "dataplane/mem/mem.h"

struct world {
	struct app app;
	uint32_t pz, region;
	struct one_mr_created mr;
};

static uint32_t
create(struct world *w, uint32_t flags)
{
	w->app.msg.mr_create = (struct one_mr_create){.pz = w->pz,
						      .access = ONE_ACCESS_ALL,
						      .va = VA,
						      .length = SIZE,
						      .num_pieces = 1,
						      .flags = flags,
						      .piece = {{.region = w->region, .length = SIZE}}};
	assert_int_equal(app_call(&w->app, ONE_MSG_MR_CREATE), 0);
	w->mr = w->app.reply.mr;
	return w->mr.lkey;
}

static struct world
begin(void)
{
	struct world w;

	app_hello(&w.app, ONE_KIND_DAT);
	w.pz = app_pz(&w.app);
	w.region = app_region(&w.app, SIZE);
	create(&w, ONE_MR_RENEWABLE);
	assert_int_equal(w.mr.renewable, 1);
	return w;
}

static void
end(struct world *w)
{
	app_close(&w->app);
	assert_clean();
}

static const void *
holder(uint32_t key)
{
	return mem_lookup(engine_mem_table(), key)->renewable->holder;
}

static bool
bind_window(const struct world *w, uint32_t qpn, uint32_t key)
{
	const struct engine_bind bind = {
		.addr = VA, .length = 100, .lkey = w->mr.lkey, .key = key, .flags = ONE_ACCESS_REMOTE_READ};

	fake_bind(qpn, &bind);
	while (fake_bind_result() < 0)
		pause_ms(1);
	return fake_bind_result() == 1;
}

/* A region is renewable only on request. */
static void
test_asked_for(void **state)
{
	struct world w = begin();
	uint32_t key = create(&w, 0);

	assert_int_equal(w.mr.renewable, 0);
	assert_null(mem_lookup(engine_mem_table(), key)->renewable);
	end(&w);
}

/* A revoked region can be freed. Before that, neither its zone nor the memory below it can be. */
static void
test_freed(void **state)
{
	struct world w = begin();
	struct mem_table *table = engine_mem_table();
	const void *us = holder(w.mr.lkey);

	assert_true(mem_revoke(table, us, w.mr.lkey));
	assert_int_equal(app_call_id(&w.app, ONE_MSG_PZ_FREE, w.pz), -EBUSY);
	assert_int_equal(app_call_id(&w.app, ONE_MSG_REGION_REMOVE, w.region), -EBUSY);
	assert_int_equal(app_call_id(&w.app, ONE_MSG_MR_FREE, w.mr.mr), 0);
	assert_false(mem_renew(table, us, w.mr.lkey, w.mr.lkey ^ 1));
	assert_int_equal(app_call_id(&w.app, ONE_MSG_REGION_REMOVE, w.region), 0);
	assert_int_equal(app_call_id(&w.app, ONE_MSG_PZ_FREE, w.pz), 0);
	end(&w);
}

/* A region can be freed while it has another key than at its creation. */
static void
test_freed_renewed(void **state)
{
	struct world w = begin();
	struct mem_table *table = engine_mem_table();
	const void *us = holder(w.mr.lkey);
	uint32_t next = w.mr.lkey ^ 0x7f000022;

	assert_true(mem_revoke(table, us, w.mr.lkey));
	assert_true(mem_renew(table, us, w.mr.lkey, next));
	assert_int_equal(app_call_id(&w.app, ONE_MSG_MR_FREE, w.mr.mr), 0);
	assert_null(mem_lookup(table, next));
	assert_null(atomic_load(&table->slot[mem_key_slot(table, next)]));
	end(&w);
}

static void
test_attachment_ends(void **state)
{
	struct world w = begin();

	assert_true(mem_revoke(engine_mem_table(), holder(w.mr.lkey), w.mr.lkey));
	create(&w, ONE_MR_RENEWABLE);
	end(&w);
}

/* Only the control thread revokes a region with a window. */
static void
test_window(void **state)
{
	struct world w = begin();
	struct mem_table *table = engine_mem_table();
	const void *us = holder(w.mr.lkey);
	struct one_qp_created qp = app_qp(&w.app, w.pz, app_cq(&w.app, 10));
	struct one_mw_created mw;
	uint32_t next = w.mr.lkey ^ 0x7f000022;

	w.app.msg.mw_create.pz = w.pz;
	assert_int_equal(app_call(&w.app, ONE_MSG_MW_CREATE), 0);
	mw = w.app.reply.mw;
	/* A renewed region has only its new key. */
	assert_true(mem_revoke(table, us, w.mr.lkey));
	assert_false(bind_window(&w, qp.qpn, mw.key ^ 1));
	assert_true(mem_renew(table, us, w.mr.lkey, next));
	assert_false(bind_window(&w, qp.qpn, mw.key ^ 1));
	w.mr.lkey = next;
	assert_true(bind_window(&w, qp.qpn, mw.key ^ 1));
	assert_non_null(mem_lookup(table, next));
	assert_false(mem_revoke(table, us, next));
	assert_int_equal(app_call_id(&w.app, ONE_MSG_MR_FREE, w.mr.mr), -EBUSY);
	assert_int_equal(w.app.reply.subject, ONE_SUBJECT_MW);
	assert_int_equal(app_call_id(&w.app, ONE_MSG_MW_FREE, mw.mw), 0);
	assert_int_equal(app_call_id(&w.app, ONE_MSG_MR_FREE, w.mr.mr), 0);
	assert_null(mem_lookup(table, next));
	end(&w);
}

/* After a swap of keys only the control thread revokes them. A revoked region has no key to swap. */
static void
test_swap(void **state)
{
	struct world w = begin();
	struct mem_table *table = engine_mem_table();
	const void *us = holder(w.mr.lkey);
	struct one_mr_created one = w.mr, other, revoked;

	create(&w, ONE_MR_RENEWABLE);
	other = w.mr;
	create(&w, ONE_MR_RENEWABLE);
	revoked = w.mr;
	assert_true(mem_revoke(table, us, revoked.lkey));
	w.app.msg.mr_swap = (struct one_mr_swap){one.mr, revoked.mr};
	assert_int_equal(app_call(&w.app, ONE_MSG_MR_SWAP), -EINVAL);
	w.app.msg.mr_swap = (struct one_mr_swap){revoked.mr, one.mr};
	assert_int_equal(app_call(&w.app, ONE_MSG_MR_SWAP), -EINVAL);
	assert_non_null(mem_lookup(table, one.lkey));
	w.app.msg.mr_swap = (struct one_mr_swap){one.mr, other.mr};
	assert_int_equal(app_call(&w.app, ONE_MSG_MR_SWAP), 0);
	assert_non_null(mem_lookup(table, one.lkey));
	assert_non_null(mem_lookup(table, other.lkey));
	assert_false(mem_revoke(table, us, one.lkey));
	assert_false(mem_revoke(table, us, other.lkey));
	assert_false(mem_renew(table, us, revoked.lkey, revoked.lkey ^ 1));
	assert_int_equal(app_call_id(&w.app, ONE_MSG_MR_FREE, one.mr), 0);
	assert_null(mem_lookup(table, other.lkey));
	end(&w);
}

static void
test_segment(void **state)
{
	struct world w = begin();
	struct mem_table *table = engine_mem_table();
	const void *us = holder(w.mr.lkey);
	struct one_mr_created published = w.mr;

	create(&w, ONE_MR_RENEWABLE);
	assert_true(mem_revoke(table, us, w.mr.lkey));
	w.app.msg.rsm_publish = (struct one_rsm_publish){.mr = w.mr.mr, .default_permission = 0600};
	assert_int_not_equal(app_call(&w.app, ONE_MSG_RSM_PUBLISH), 0);
	w.app.msg.rsm_publish = (struct one_rsm_publish){.mr = published.mr, .default_permission = 0600};
	assert_int_equal(app_call(&w.app, ONE_MSG_RSM_PUBLISH), 0);
	assert_false(mem_revoke(table, us, published.lkey));
	end(&w);
}

#define LARGE (1ull << 20)

static uint32_t
reclaimed(const struct app *app)
{
	return atomic_load(&((const struct one_arena *)app->arena)->reclaimed);
}

static void
use_other_region(struct world *w)
{
	w->region = app_region(&w->app, LARGE);
	create(w, ONE_MR_RENEWABLE);
}

/* Cached regions of a user are reclaimed, in all its attachments, when a request of any lacks room; regions
 * in use are not. */
static void
test_reclaimed(void **state)
{
	const uint64_t bytes = config.max_bytes_per_uid;
	struct one_mr_created in_use, revoked, freed;
	struct mem_table *table;
	struct world w;
	struct app app;
	uint32_t region;

	config.max_bytes_per_uid = 4 * LARGE;
	attach_restart();
	table = engine_mem_table();
	w = begin();
	in_use = w.mr;
	use_other_region(&w);
	revoked = w.mr;
	assert_true(mem_revoke(table, holder(revoked.lkey), revoked.lkey));
	use_other_region(&w);
	freed = w.mr;
	assert_int_equal(app_call_id(&w.app, ONE_MSG_MR_FREE, freed.mr), 0);
	/* A region without a registration stays: its application is about to register it. */
	region = app_region(&w.app, SIZE);
	assert_int_equal(reclaimed(&w.app), 0);

	app_hello(&app, ONE_KIND_DAT);
	app_region(&app, 2 * LARGE);
	while (reclaimed(&w.app) != 2)
		pause_ms(1);
	assert_false(mem_renew(table, w.app.arena, revoked.lkey, revoked.lkey ^ 1));
	assert_null(atomic_load(&table->slot[mem_key_slot(table, revoked.lkey)]));
	assert_int_equal(app_call_id(&w.app, ONE_MSG_MR_FREE, revoked.mr), -EINVAL);
	assert_int_equal(app_call_id(&w.app, ONE_MSG_REGION_REMOVE, w.region), -EINVAL);
	assert_non_null(mem_lookup(table, in_use.lkey));
	use_other_region(&w);
	assert_int_equal(app_call_id(&w.app, ONE_MSG_MR_FREE, w.mr.mr), 0);
	app_cq(&app, (uint32_t)(LARGE / sizeof(struct one_cqe)) / 4 * 3 - 1);
	assert_int_equal(reclaimed(&w.app), 3);
	w.region = region;
	create(&w, 0);
	app_close(&app);
	end(&w);
	config.max_bytes_per_uid = bytes;
	attach_restart();
}

int
renewable_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asked_for),     cmocka_unit_test(test_freed),
		cmocka_unit_test(test_freed_renewed), cmocka_unit_test(test_attachment_ends),
		cmocka_unit_test(test_window),        cmocka_unit_test(test_swap),
		cmocka_unit_test(test_segment),       cmocka_unit_test(test_reclaimed),
	};

	return cmocka_run_group_tests_name("control: renewable regions", tests, NULL, NULL);
}
