/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits, memory regions, windows, completion rings, shared receive queues. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "control/objects/objects.h"
#include "dataplane/mem/bounce.h"
#include "attach.h"

/* ---- limits ---- */

static void
test_limits(void **state)
{
	struct app app[3];
	uint32_t pz = 0;

	app_hello(&app[0], ONE_KIND_DAT);
	app_hello(&app[1], ONE_KIND_DAT);
	app_hello(&app[2], ONE_KIND_DAT);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, ""), -EDQUOT);
	app_close(&app[2]);
	while (hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, "") != 0)
		pause_ms(1);
	for (uint32_t i = 0; i < config.limits.max_pz; i++)
		pz = app_pz(&app[0]);
	assert_int_equal(app_call(&app[0], ONE_MSG_PZ_CREATE), -EDQUOT);
	assert_int_equal(app[0].reply.subject, ONE_SUBJECT_QUOTA);
	assert_int_equal(app[0].reply.value, config.limits.max_pz);
	assert_string_equal(app[0].reply.limit.key, "max_pz");
	assert_int_equal(app_call_id(&app[0], ONE_MSG_PZ_FREE, pz), 0);
	assert_int_equal(app_call_id(&app[0], ONE_MSG_PZ_FREE, pz), -EINVAL);
	assert_int_not_equal(app_pz(&app[0]), pz);
	for (uint32_t i = 0; i < config.limits.max_cq; i++)
		app_cq(&app[0], 1);
	app[0].msg.cq_create.entries = 1;
	assert_int_equal(app_call(&app[0], ONE_MSG_CQ_CREATE), -EDQUOT);
	/* Bytes are counted over all attachments of a user. */
	app_region(&app[0], config.limits.max_mr_total);
	app[1].msg.region_add = (struct one_region_add){.size = config.limits.max_mr_total};
	pz = (uint32_t)memfd_create("big", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate((int)pz, (off_t)config.limits.max_mr_total), 0);
	assert_int_equal(app_call_fd(&app[1], ONE_MSG_REGION_ADD, (int)pz), -EDQUOT);
	assert_int_equal(app[1].reply.value, config.max_bytes_per_uid);
	close((int)pz);
	app_close(&app[0]);
	app_close(&app[1]);
	assert_clean();
}

/* ---- completion rings ---- */

/* Resizes a ring; returns the new offset in the arena. */
static uint64_t
resized(struct app *app, uint32_t cq, uint32_t entries)
{
	app->msg.cq_resize = (struct one_cq_resize){.cq = cq, .entries = entries};
	assert_int_equal(app_call(app, ONE_MSG_CQ_RESIZE), 0);
	return app->reply.cq.offset;
}

/* Resizes the ring until it is at offset `place`, which was freed. */
static void
await_place(struct app *app, uint32_t cq, uint64_t place)
{
	while (resized(app, cq, 100) != place)
		pause_ms(1);
}

/* A replaced ring's memory is reused once all its entries are taken; else it stays until the ring
 * is freed. */
static void
test_resized_rings(void **state)
{
	uint64_t first, second;
	struct one_cq_shm *shm;
	struct app app;
	uint32_t cq;

	app_hello(&app, ONE_KIND_DAT);
	cq = app_cq(&app, 100);
	first = app.reply.cq.offset;
	second = resized(&app, cq, 100);
	assert_int_not_equal(second, first);
	await_place(&app, cq, first);
	await_place(&app, cq, second);
	/* as if a core had stored 5 entries, of which the application has taken 4 */
	shm = (struct one_cq_shm *)(app.arena + second);
	atomic_store(&shm->tail, 5);
	atomic_store(&shm->head, 4);
	for (int i = 0; i < 50; i++) {
		assert_int_not_equal(resized(&app, cq, 100), second);
		pause_ms(1);
	}
	atomic_store(&shm->head, 5);
	for (int i = 0; i < 3; i++)
		resized(&app, cq, 100);
	/* The ring of asynchronous events can be resized, but not freed. */
	second = resized(&app, app.welcome.async_cq, 5000);
	assert_int_not_equal(second, app.welcome.async_cq_offset);
	assert_int_equal(app_call_id(&app, ONE_MSG_CQ_FREE, app.welcome.async_cq), -EINVAL);
	assert_int_equal(app_call_id(&app, ONE_MSG_CQ_FREE, cq), 0);
	app_close(&app);
	assert_clean();
}

/* ---- shared receive queues ---- */

static void
test_receive_queues(void **state)
{
	struct app app;
	struct one_srq_created made;
	uint32_t pz, other, cq, qp, longer, foreign, limits = fake_done(ENGINE_SRQ_LIMIT);

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	other = app_pz(&app);
	cq = app_cq(&app, 10);
	app.msg.srq_create = (struct one_srq_create){.pz = pz + 0x10000, .max_wr = 10, .max_sge = 4};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), -EINVAL);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_PZ);
	app.msg.srq_create.pz = pz;
	app.msg.srq_create.max_wr = 0;
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), -EINVAL);
	app.msg.srq_create.max_wr = config.limits.max_srq_wr + 1;
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), -EINVAL);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_COUNT);
	app.msg.srq_create.max_wr = 10;
	app.msg.srq_create.max_sge = 0;
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), -EINVAL);
	app.msg.srq_create.max_sge = ONE_MAX_SGE + 1;
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), -EINVAL);
	app.msg.srq_create.max_sge = 4;
	fake_refuse(ENGINE_SRQ_ADD, -ENOMEM);
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), -ENOMEM);
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), 0);
	made = app.reply.srq;
	assert_int_equal(made.log2, 5); /* 10 x 2 slots */
	assert_true(made.shm != 0 && made.rq != 0 && made.rq != made.shm);

	app.msg.srq_limit = (struct one_srq_limit){.srq = made.srq, .limit = 10};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_LIMIT), 0);
	assert_int_equal(fake_done(ENGINE_SRQ_LIMIT), limits + 1);
	app.msg.srq_limit.limit = 11;
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_LIMIT), -EINVAL);
	app.msg.srq_limit = (struct one_srq_limit){.srq = made.srq + 1};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_LIMIT), -EINVAL);

	/* Two queues of one zone exchange their rings, including the lengths. */
	app.msg.srq_create = (struct one_srq_create){.pz = pz, .max_wr = 20, .max_sge = 4};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), 0);
	longer = app.reply.srq.srq;
	app.msg.srq_create.pz = other;
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), 0);
	foreign = app.reply.srq.srq;
	app.msg.srq_swap = (struct one_srq_swap){made.srq, foreign};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_SWAP), -EINVAL);
	assert_int_equal(app_call_id(&app, ONE_MSG_SRQ_FREE, foreign), 0);
	app.msg.srq_swap = (struct one_srq_swap){made.srq, made.srq};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_SWAP), -EINVAL);
	app.msg.srq_swap = (struct one_srq_swap){foreign, made.srq};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_SWAP), -EINVAL);
	app.msg.srq_swap = (struct one_srq_swap){made.srq, longer};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_SWAP), 0);
	assert_int_equal(fake_done(ENGINE_SRQ_SWAP), 1);
	app.msg.srq_limit = (struct one_srq_limit){.srq = made.srq, .limit = 20};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_LIMIT), 0);
	app.msg.srq_limit.srq = longer;
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_LIMIT), -EINVAL);
	assert_int_equal(app_call_id(&app, ONE_MSG_SRQ_FREE, longer), 0);

	/* Only queue pairs of the queue's zone may use it. */
	app.msg.qp_create = (struct one_qp_create){.pz = other,
						   .srq = made.srq,
						   .send_cq = cq,
						   .recv_cq = cq,
						   .conn_cq = cq,
						   .max_send_wr = 10,
						   .max_send_sge = 1,
						   .max_recv_sge = 1};
	assert_int_equal(app_call(&app, ONE_MSG_QP_CREATE), -EINVAL);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_PZ);
	app.msg.qp_create.pz = pz;
	app.msg.qp_create.srq = made.srq + 1;
	assert_int_equal(app_call(&app, ONE_MSG_QP_CREATE), -EINVAL);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_SRQ);
	app.msg.qp_create.srq = made.srq;
	assert_int_equal(app_call(&app, ONE_MSG_QP_CREATE), 0);
	qp = app.reply.qp.qp;
	{
		struct one_qp_create to = app.msg.qp_create;

		/* A queue pair keeps its receive queue, and therefore its zone. */
		to.srq = 0;
		app.msg.qp_modify = (struct one_qp_modify){.qp = qp, .to = to};
		assert_int_equal(app_call(&app, ONE_MSG_QP_MODIFY), -EINVAL);
		assert_int_equal(app.reply.subject, ONE_SUBJECT_SRQ);
		to.srq = made.srq;
		to.pz = other;
		app.msg.qp_modify = (struct one_qp_modify){.qp = qp, .to = to};
		assert_int_equal(app_call(&app, ONE_MSG_QP_MODIFY), -EINVAL);
		assert_int_equal(app.reply.subject, ONE_SUBJECT_PZ);
		to.pz = pz;
		to.recv_cq = 0;
		app.msg.qp_modify = (struct one_qp_modify){.qp = qp, .to = to};
		assert_int_equal(app_call(&app, ONE_MSG_QP_MODIFY), 0);
	}
	assert_int_equal(app_call_id(&app, ONE_MSG_SRQ_FREE, made.srq), -EBUSY);
	assert_int_equal(app_call_id(&app, ONE_MSG_PZ_FREE, pz), -EBUSY);
	assert_int_equal(app_call_id(&app, ONE_MSG_QP_FREE, qp), 0);
	assert_int_equal(app_call_id(&app, ONE_MSG_PZ_FREE, pz), -EBUSY);
	assert_int_equal(app_call_id(&app, ONE_MSG_SRQ_FREE, made.srq), 0);
	assert_int_equal(app_call_id(&app, ONE_MSG_SRQ_FREE, made.srq), -EINVAL);
	assert_int_equal(app_call_id(&app, ONE_MSG_PZ_FREE, pz), 0);

	/* The client ends with as many queues as allowed, one of them used by a queue pair. */
	app.msg.srq_create = (struct one_srq_create){.pz = other, .max_wr = 1, .max_sge = 1};
	for (uint32_t i = 0; i < config.limits.max_srq; i++)
		assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), 0);
	app.msg.qp_create = (struct one_qp_create){.pz = other,
						   .srq = app.reply.srq.srq,
						   .recv_cq = cq,
						   .max_send_wr = 1,
						   .max_send_sge = 1,
						   .max_recv_sge = 1};
	assert_int_equal(app_call(&app, ONE_MSG_QP_CREATE), 0);
	app.msg.srq_create = (struct one_srq_create){.pz = other, .max_wr = 1, .max_sge = 1};
	assert_int_equal(app_call(&app, ONE_MSG_SRQ_CREATE), -EDQUOT);
	assert_int_equal(app.reply.value, config.limits.max_srq);
	app_close(&app);
	assert_clean();
}

/* ---- memory ---- */

static void
test_regions(void **state)
{
	struct app app;
	struct one_mr_created mr, two;
	struct mem_region *entry;
	uint32_t pz, region, other;
	int pipe_fd[2], fd;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	region = app_region(&app, SIZE);
	other = app_region(&app, SIZE);
	assert_int_equal(pipe(pipe_fd), 0);
	app.msg.region_add = (struct one_region_add){.size = SIZE};
	assert_int_equal(app_call_fd(&app, ONE_MSG_REGION_ADD, pipe_fd[0]), -EBADF);
	assert_int_equal(app_call(&app, ONE_MSG_REGION_ADD), -EBADF); /* no descriptor */
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	fd = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	app.msg.region_add.flags = ONE_REGION_SEALED;
	assert_int_equal(app_call_fd(&app, ONE_MSG_REGION_ADD, fd), -EPERM);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_REGION);
	close(fd);

	mr = app_mr(&app, pz, region, VA + 100, SIZE - 100);
	assert_int_equal(mr.lkey, mr.rkey);
	entry = mem_lookup(engine_mem_table(), mr.lkey);
	assert_non_null(entry);
	assert_true(mem_covers(entry, VA + 100, SIZE - 100));
	assert_false(mem_covers(entry, VA + 99, 1));
	assert_int_equal((uintptr_t)entry->base % 4096, 100);
	/* Two pieces in another order are one range. */
	app.msg.mr_create = (struct one_mr_create){
		.pz = pz,
		.access = ONE_ACCESS_LOCAL_READ,
		.va = VA,
		.length = 2 * SIZE,
		.num_pieces = 2,
		.piece = {{.region = other, .length = SIZE}, {.region = region, .length = SIZE}}};
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), 0);
	two = app.reply.mr;
	assert_int_equal(two.rkey, 0);
	entry->base[0] = 0x77;
	entry = mem_lookup(engine_mem_table(), two.lkey);
	assert_int_equal(entry->base[SIZE + 100], 0x77);
	/* Invalid ranges, pieces and rights. */
	app.msg.mr_create.length++;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL);
	app.msg.mr_create.length = 0;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL);
	app.msg.mr_create.va = UINT64_MAX - 10;
	app.msg.mr_create.length = 12;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL);
	app.msg.mr_create.va = 4095;
	app.msg.mr_create.length = UINT64_MAX - 4094;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL);
	app.msg.mr_create.va = VA;
	app.msg.mr_create.length = 2 * SIZE;
	app.msg.mr_create.piece[0].offset = 1;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL);
	app.msg.mr_create.piece[0].offset = SIZE;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL);
	app.msg.mr_create.piece[0].offset = UINT64_MAX & ~4095ull;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL);
	app.msg.mr_create.piece[0].offset = 0;
	app.msg.mr_create.access = 0x80;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL);
	app.msg.mr_create.access = 0;
	app.msg.mr_create.num_pieces = ONE_MR_PIECES + 1;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL);
	/* Freeing fails in the wrong order, then succeeds in the right one. */
	assert_int_equal(app_call_id(&app, ONE_MSG_REGION_REMOVE, region), -EBUSY);
	assert_int_equal(app_call_id(&app, ONE_MSG_PZ_FREE, pz), -EBUSY);
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, mr.mr), 0);
	assert_null(mem_lookup(engine_mem_table(), mr.lkey));
	assert_int_equal(app_call_id(&app, ONE_MSG_REGION_REMOVE, region), -EBUSY);
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, two.mr), 0);
	assert_int_equal(app_call_id(&app, ONE_MSG_REGION_REMOVE, region), 0);
	assert_int_equal(app_call_id(&app, ONE_MSG_REGION_REMOVE, region), -EINVAL);
	assert_int_equal(app_call_id(&app, ONE_MSG_PZ_FREE, pz), 0);
	app_close(&app);
	assert_clean();
}

/* The reply to MR_FREE means that no core accesses the memory any more. */
static void
test_free_waits_for_grace(void **state)
{
	struct timeval soon = {.tv_usec = 50000}, never = {0};
	struct one_mr_created mr;
	struct app app;
	uint32_t pz;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	mr = app_mr(&app, pz, app_region(&app, SIZE), VA, SIZE);
	fake_hold(false, true);
	memset(app.msg.bytes, 0, sizeof(app.msg.bytes));
	app.msg.id.id = mr.mr;
	app_post(&app, ONE_MSG_MR_FREE);
	while (mem_lookup(engine_mem_table(), mr.lkey) != NULL) /* the key is revoked at once, */
		pause_ms(1);
	setsockopt(app.fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)); /* but the reply waits */
	assert_int_equal(recv(app.fd, &app.reply, sizeof(app.reply), MSG_PEEK), -1);
	setsockopt(app.fd, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof(never));
	fake_hold(false, false);
	assert_int_equal(app_receive(&app), 1);
	assert_int_equal(app.reply.error, 0);
	app_close(&app);
	assert_clean();
}

static bool
try_bind(uint32_t qpn, uint32_t key, uint32_t lkey, uint64_t addr, uint64_t len, uint32_t access)
{
	const struct engine_bind bind = {
		.addr = addr, .length = len, .lkey = lkey, .key = key, .flags = access};

	fake_bind(qpn, &bind);
	while (fake_bind_result() < 0)
		pause_ms(1);
	return fake_bind_result() > 0;
}

static void
test_windows(void **state)
{
	struct app app, thief;
	struct one_mr_created mr, foreign;
	struct one_mw_created mw;
	struct one_qp_created qp, elsewhere;
	struct mem_region *entry;
	uint32_t pz, other, cq, key;

	app_hello(&app, ONE_KIND_DAT);
	app_hello(&thief, ONE_KIND_DAT);
	pz = app_pz(&app);
	other = app_pz(&app);
	cq = app_cq(&app, 10);
	mr = app_mr(&app, pz, app_region(&app, SIZE), VA, SIZE);
	foreign = app_mr(&thief, app_pz(&thief), app_region(&thief, SIZE), VA, SIZE);
	qp = app_qp(&app, pz, cq);
	elsewhere = app_qp(&app, other, cq);
	app.msg.mw_create.pz = pz;
	assert_int_equal(app_call(&app, ONE_MSG_MW_CREATE), 0);
	mw = app.reply.mw;
	key = mw.key ^ 1;
	entry = mem_lookup(engine_mem_table(), mw.key);
	assert_true(entry == NULL || entry->access == 0);

	assert_false(try_bind(qp.qpn, key ^ 0x100, mr.lkey, VA, 10, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(qp.qpn, key ^ 0x1000000, mr.lkey, VA, 10, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(qp.qpn, mr.lkey, mr.lkey, VA, 10, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(qp.qpn, key, mr.lkey + 1, VA, 10, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(qp.qpn, key, foreign.lkey, VA, 10, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(qp.qpn, key, mr.lkey, VA - 1, 10, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(qp.qpn, key, mr.lkey, VA + SIZE - 9, 10, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(qp.qpn, key, mr.lkey, UINT64_MAX - 4, 10, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(elsewhere.qpn, key, mr.lkey, VA, 10, ONE_ACCESS_REMOTE_READ));
	assert_null(mem_lookup(engine_mem_table(), key));

	assert_true(try_bind(qp.qpn, key, mr.lkey, VA + 16, 100,
			     ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_LOCAL_READ));
	entry = mem_lookup(engine_mem_table(), key);
	assert_non_null(entry);
	assert_int_equal(entry->access, ONE_ACCESS_REMOTE_WRITE);
	assert_int_equal(entry->va, VA + 16);
	assert_int_equal(entry->length, 100);
	assert_null(mem_lookup(engine_mem_table(), mw.key));
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, mr.mr), -EBUSY);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_MW);
	/* A failed bind leaves the window as it was; a new one makes the old key useless. */
	assert_false(try_bind(qp.qpn, key ^ 2, mr.lkey, VA, SIZE + 1, ONE_ACCESS_REMOTE_READ));
	assert_ptr_equal(mem_lookup(engine_mem_table(), key), entry);
	assert_true(try_bind(qp.qpn, key ^ 2, mr.lkey, VA, SIZE, ONE_ACCESS_REMOTE_READ));
	assert_null(mem_lookup(engine_mem_table(), key));
	/* A bind of length 0, the peer's invalidation, and freeing each unbind a window. */
	assert_true(try_bind(qp.qpn, key ^ 4, 0, 0, 0, 0));
	assert_null(mem_lookup(engine_mem_table(), key ^ 2));
	assert_true(try_bind(qp.qpn, key, mr.lkey, VA, 10, ONE_ACCESS_REMOTE_READ));
	entry = mem_lookup(engine_mem_table(), key);
	assert_true(mem_invalidate(engine_mem_table(), key, entry->pz, qp.qpn));
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, mr.mr), 0);
	assert_int_equal(app_call_id(&app, ONE_MSG_MW_FREE, mw.mw), 0);
	assert_false(try_bind(qp.qpn, key, foreign.lkey, VA, 10, ONE_ACCESS_REMOTE_READ));
	app_close(&app);
	app_close(&thief);
	assert_clean();
}

static void
test_swap(void **state)
{
	struct mem_table *table = engine_mem_table();
	struct one_mr_created mr, other, foreign;
	struct app app, thief;
	uint32_t pz;

	app_hello(&app, ONE_KIND_VERBS);
	app_hello(&thief, ONE_KIND_VERBS);
	pz = app_pz(&app);
	mr = app_mr(&app, pz, app_region(&app, SIZE), VA, SIZE);
	other = app_mr(&app, app_pz(&app), app_region(&app, SIZE), 2 * VA, SIZE);
	foreign = app_mr(&thief, app_pz(&thief), app_region(&thief, SIZE), VA, SIZE);
	app.msg.mr_swap = (struct one_mr_swap){mr.mr, mr.mr};
	assert_int_equal(app_call(&app, ONE_MSG_MR_SWAP), -EINVAL);
	app.msg.mr_swap = (struct one_mr_swap){mr.mr, foreign.mr + 1000};
	assert_int_equal(app_call(&app, ONE_MSG_MR_SWAP), -EINVAL);
	app.msg.mr_swap = (struct one_mr_swap){mr.mr, other.mr};
	assert_int_equal(app_call(&app, ONE_MSG_MR_SWAP), 0);
	assert_int_equal(mem_lookup(table, mr.lkey)->va, 2 * VA);
	assert_int_equal(mem_lookup(table, other.lkey)->va, VA);
	assert_true(mem_lookup(table, mr.lkey)->pz != mem_lookup(table, other.lkey)->pz);
	/* Freeing a region revokes the key that it has now. */
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, mr.mr), 0);
	assert_null(mem_lookup(table, other.lkey));
	assert_int_equal(mem_lookup(table, mr.lkey)->va, 2 * VA);
	app_close(&app);
	app_close(&thief);
	assert_clean();
}

/* Windows of type 1 and 2 of verbs. The region's keys use shifted addresses. */
static void
test_window_types(void **state)
{
	const uint64_t shift = 0x40000000, at = VA + shift + 16;
	const uint32_t right = ONE_ACCESS_REMOTE_WRITE;
	struct mem_table *table = engine_mem_table();
	struct mem_region *entry, *all;
	struct one_qp_created qp, second;
	struct one_mr_created mr;
	uint32_t pz, cq, key, region;
	struct app app;

	app_hello(&app, ONE_KIND_VERBS);
	pz = app_pz(&app);
	cq = app_cq(&app, 10);
	region = app_region(&app, SIZE);
	app.msg.mr_create = (struct one_mr_create){.pz = pz,
						   .access = ONE_ACCESS_ALL,
						   .va = VA,
						   .length = SIZE,
						   .shift = shift + 1,
						   .num_pieces = 1,
						   .piece = {{.region = region, .length = SIZE}}};
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL); /* not the same offset in the page */
	app.msg.mr_create.shift = (uint64_t)0 - VA - 4096;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EINVAL); /* the address wraps around */
	app.msg.mr_create.shift = shift;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), 0);
	mr = app.reply.mr;
	all = mem_lookup(table, mr.lkey);
	assert_int_equal(all->va, VA + shift);
	qp = app_qp(&app, pz, cq);
	second = app_qp(&app, pz, cq);
	app.msg.mw_create.pz = pz;
	assert_int_equal(app_call(&app, ONE_MSG_MW_CREATE), 0);
	key = app.reply.mw.key;

	assert_false(try_bind(qp.qpn, key, mr.lkey, VA, 10, right | ONE_BIND_TYPE_1));
	assert_true(try_bind(qp.qpn, key, mr.lkey, at, 100, right | ONE_BIND_TYPE_1));
	entry = mem_lookup(table, key);
	assert_int_equal(entry->va, at);
	assert_ptr_equal(entry->base, all->base + 16);
	assert_int_equal(entry->va - entry->shift, VA + 16);
	assert_int_equal(entry->qpn, 0);
	assert_false(mem_invalidate(table, key, entry->pz, qp.qpn));
	assert_false(try_bind(qp.qpn, key, 0, 0, 0, ONE_BIND_INVALIDATE));
	/* Bound as type 1, the window cannot be bound as type 2. */
	assert_false(try_bind(qp.qpn, key ^ 1, mr.lkey, at, 100, right | ONE_BIND_TYPE_2));
	assert_true(try_bind(qp.qpn, key ^ 1, 0, 0, 0, ONE_BIND_TYPE_1));

	assert_true(try_bind(qp.qpn, key, mr.lkey, at, 100, right | ONE_BIND_TYPE_2 | ONE_BIND_ZERO_BASED));
	entry = mem_lookup(table, key);
	assert_int_equal(entry->va, 0);
	assert_ptr_equal(entry->base, all->base + 16);
	assert_int_equal(entry->va - entry->shift, VA + 16);
	assert_int_equal(entry->qpn, qp.qpn);
	assert_false(try_bind(qp.qpn, key ^ 1, mr.lkey, at, 100, right | ONE_BIND_TYPE_2));
	assert_false(try_bind(qp.qpn, key ^ 1, 0, 0, 0, ONE_BIND_INVALIDATE));    /* another key */
	assert_false(try_bind(second.qpn, key, 0, 0, 0, ONE_BIND_INVALIDATE));    /* another queue pair */
	assert_false(try_bind(qp.qpn, key, mr.lkey, at, 1, ONE_BIND_INVALIDATE)); /* a range is invalid */
	assert_false(mem_invalidate(table, key, entry->pz, second.qpn));
	assert_ptr_equal(mem_lookup(table, key), entry);
	assert_true(try_bind(qp.qpn, key, 0, 0, 0, ONE_BIND_INVALIDATE));
	assert_int_equal(mem_lookup(table, key)->access, 0);
	assert_false(try_bind(qp.qpn, key, 0, 0, 0, ONE_BIND_INVALIDATE)); /* already invalid */
	/* After the peer's invalidation the window can be bound again. */
	assert_true(try_bind(qp.qpn, key, mr.lkey, at, 100, right | ONE_BIND_TYPE_2));
	assert_true(mem_invalidate(table, key, mem_lookup(table, key)->pz, qp.qpn));
	assert_true(try_bind(second.qpn, key ^ 1, mr.lkey, at, 100, right | ONE_BIND_TYPE_2));
	app_close(&app);
	assert_clean();
}

/* A window cannot grant rights that the memory's registration lacks. */
static void
test_window_rights(void **state)
{
	static const struct {
		uint32_t memory, window;
		bool ok;
	} cases[] = {
		{ONE_ACCESS_LOCAL_READ, ONE_ACCESS_REMOTE_READ, true},
		{ONE_ACCESS_LOCAL_READ, ONE_ACCESS_REMOTE_WRITE, false},
		{ONE_ACCESS_LOCAL_READ, ONE_ACCESS_REMOTE_ATOMIC, false},
		{ONE_ACCESS_LOCAL_WRITE, ONE_ACCESS_REMOTE_WRITE, true},
		{ONE_ACCESS_LOCAL_WRITE, ONE_ACCESS_REMOTE_READ, false},
		{0, ONE_ACCESS_REMOTE_READ, false},
		{0, 0, true},
	};
	struct app app;
	uint32_t pz, region;
	struct one_qp_created qp;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	region = app_region(&app, SIZE);
	qp = app_qp(&app, pz, app_cq(&app, 10));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t lkey;

		app.msg.mr_create = (struct one_mr_create){.pz = pz,
							   .access = cases[i].memory,
							   .va = VA,
							   .length = SIZE,
							   .num_pieces = 1,
							   .piece = {{.region = region, .length = SIZE}}};
		assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), 0);
		lkey = app.reply.mr.lkey;
		app.msg.mw_create.pz = pz;
		assert_int_equal(app_call(&app, ONE_MSG_MW_CREATE), 0);
		assert_int_equal(try_bind(qp.qpn, app.reply.mw.key ^ 1, lkey, VA, 10, cases[i].window),
				 cases[i].ok);
	}
	app_close(&app);
	assert_clean();
}

/* Windows longer than 32 bits, and lengths whose lower 32 bits are 0. */
static void
test_large_window(void **state)
{
	const uint64_t large = 5ull << 30;
	struct one_qp_created qp;
	struct mem_region *entry;
	struct app app;
	uint32_t pz, lkey, key;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	qp = app_qp(&app, pz, app_cq(&app, 10));
	/* bounced memory, so that no memory is needed to register it */
	assert_int_equal(app_call(&app, ONE_MSG_COPIES), 0);
	app.msg.mr_create = (struct one_mr_create){.pz = pz,
						   .access = ONE_ACCESS_LOCAL_WRITE | ONE_ACCESS_LOCAL_READ,
						   .va = VA,
						   .length = large};
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), 0);
	lkey = app.reply.mr.lkey;
	app.msg.mw_create.pz = pz;
	assert_int_equal(app_call(&app, ONE_MSG_MW_CREATE), 0);
	key = app.reply.mw.key ^ 1;
	assert_false(try_bind(qp.qpn, key, lkey, VA, large + 1, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(qp.qpn, key, lkey, VA + 1, large, ONE_ACCESS_REMOTE_READ));
	assert_false(try_bind(qp.qpn, key, lkey, VA, UINT64_MAX - VA + 1, ONE_ACCESS_REMOTE_READ));
	assert_true(try_bind(qp.qpn, key, lkey, VA, large, ONE_ACCESS_REMOTE_READ));
	entry = mem_lookup(engine_mem_table(), key);
	assert_non_null(entry);
	assert_true(entry->length == large);
	/* only the lower half is 0, so this does not unbind */
	assert_true(try_bind(qp.qpn, key ^ 2, lkey, VA, 1ull << 32, ONE_ACCESS_REMOTE_READ));
	entry = mem_lookup(engine_mem_table(), key ^ 2);
	assert_non_null(entry);
	assert_true(entry->length == 1ull << 32);
	app_close(&app);
	assert_clean();
}

static void
no_wake(void *context, void *user)
{
}

/* Acts as the copy thread: answers the oldest unanswered request, which has this number. */
static void
answer(struct app *app, uint64_t offset, uint32_t sequence)
{
	struct one_copies *copies = (struct one_copies *)(app->arena + offset);

	copies->answer[sequence].sequence = sequence;
	/* Pairs with the acquire load on the core's side. */
	atomic_store_explicit(&copies->answer[sequence].phase, 1, memory_order_release);
}

static uint32_t
make_copied(struct app *app, uint32_t pz)
{
	memset(&app->msg, 0, sizeof(app->msg));
	app->msg.mr_create =
		(struct one_mr_create){.pz = pz, .access = ONE_ACCESS_ALL, .va = VA, .length = 64};
	assert_int_equal(app_call(app, ONE_MSG_MR_CREATE), 0);
	return app->reply.mr.lkey;
}

/* Frees an object, and checks that the reply waits for the copy under way, number `sequence`. */
static void
free_late(struct app *app, enum one_msg_type type, uint32_t id, uint64_t offset, uint32_t sequence)
{
	struct timeval soon = {.tv_usec = 50000}, never = {0};

	memset(app->msg.bytes, 0, sizeof(app->msg.bytes));
	app->msg.id.id = id;
	app_post(app, type);
	setsockopt(app->fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	assert_int_equal(recv(app->fd, &app->reply, sizeof(app->reply), MSG_PEEK), -1);
	setsockopt(app->fd, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof(never));
	answer(app, offset, sequence);
	assert_int_equal(bounce_poll(fake_bouncing(), no_wake, NULL), 1);
	assert_int_equal(app_receive(app), 1);
	assert_int_equal(app->reply.error, 0);
}

/* A window over bounced memory is unbound, by another bind or by freeing, only after its copies
 * have ended. */
static void
test_copied_window(void **state)
{
	struct one_qp_created qp;
	struct bounce_party party = {0};
	struct mem_region *entry;
	struct mem_sge piece;
	struct app app;
	uint64_t offset;
	uint8_t out[64];
	uint32_t pz, lkey, key, mr, mw;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	qp = app_qp(&app, pz, app_cq(&app, 16));
	assert_int_equal(app_call(&app, ONE_MSG_COPIES), 0);
	offset = app.reply.copies.offset;
	lkey = make_copied(&app, pz);
	mr = app.reply.mr.mr;
	app.msg.mw_create.pz = pz;
	assert_int_equal(app_call(&app, ONE_MSG_MW_CREATE), 0);
	key = app.reply.mw.key;
	mw = app.reply.mw.mw;
	assert_true(try_bind(qp.qpn, key, lkey, VA, 64, ONE_ACCESS_REMOTE_READ));
	assert_int_equal(fake_bind_result(), 1); /* no earlier binding, so no copy to wait for */
	assert_true(try_bind(qp.qpn, key ^ 1, lkey, VA, 32, ONE_ACCESS_REMOTE_READ));
	assert_int_equal(fake_bind_result(), 2);
	assert_true(try_bind(qp.qpn, key, 0, 0, 0, 0));
	assert_int_equal(fake_bind_result(), 2);
	assert_true(try_bind(qp.qpn, key ^ 1, lkey, VA, 64, ONE_ACCESS_REMOTE_READ));
	assert_int_equal(fake_bind_result(), 1);
	entry = mem_lookup(engine_mem_table(), key ^ 1);
	piece = (struct mem_sge){entry, VA, 64};
	assert_int_equal(bounce_gather(&party, 0, &piece, 1, out, 0), -EAGAIN);
	fake_quiescent();
	free_late(&app, ONE_MSG_MW_FREE, mw, offset, 0);
	bounce_leave(&party);
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, mr), 0);
	app_close(&app);
	assert_clean();
}

/* Bounced memory needs a copy thread, and is freed only after its copies have ended. */
static void
test_copies(void **state)
{
	struct bounce_party party = {0};
	struct mem_region *entry;
	struct mem_sge piece;
	struct app app;
	uint64_t offset;
	uint8_t out[64];
	uint32_t pz, mr;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	app.msg.mr_create =
		(struct one_mr_create){.pz = pz, .access = ONE_ACCESS_ALL, .va = VA, .length = 64};
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EOPNOTSUPP);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_MEMORY);
	assert_int_equal(app_call(&app, ONE_MSG_COPIES), 0);
	offset = app.reply.copies.offset;
	assert_int_equal(offset % 4096, 0);
	assert_int_equal(app_call(&app, ONE_MSG_COPIES), 0);
	assert_true(app.reply.copies.offset == offset);

	entry = mem_lookup(engine_mem_table(), make_copied(&app, pz));
	mr = app.reply.mr.mr;
	assert_non_null(entry);
	assert_null(entry->base);
	assert_non_null(entry->bounce);
	piece = (struct mem_sge){entry, VA, 64};
	assert_int_equal(bounce_gather(&party, 0, &piece, 1, out, 0), -EAGAIN);
	fake_quiescent();
	free_late(&app, ONE_MSG_MR_FREE, mr, offset, 0);
	bounce_leave(&party);

	/* The end of an attachment waits for no copy. */
	entry = mem_lookup(engine_mem_table(), make_copied(&app, pz));
	piece = (struct mem_sge){entry, VA, 64};
	assert_int_equal(bounce_gather(&party, 0, &piece, 1, out, 0), -EAGAIN);
	bounce_leave(&party);
	bounce_detach(entry->bounce, no_wake, NULL); /* as a core does when it removes the client */
	fake_quiescent();
	app_close(&app);
	assert_clean();
}

/* In a bundle of several rings an event under way may take two entries. */
static void
test_room_for_events(void **state)
{
	static struct one_cq_shm shm;
	struct client client = {.arena = {.base = (uint8_t *)&shm}};
	struct cq cq = {.object = {.client = &client}, .first = {.log2 = 3}, .num_rings = 1};

	cq.posts = 6;
	assert_true(cq_has_room(&cq));
	cq.posts = 7;
	assert_false(cq_has_room(&cq));
	cq.num_rings = 2;
	cq.posts = 2;
	assert_true(cq_has_room(&cq));
	cq.posts = 3;
	assert_false(cq_has_room(&cq));
	cq.posts = 0;
	atomic_store(&shm.tail, 5);
	assert_true(cq_has_room(&cq));
	atomic_store(&shm.tail, 6);
	assert_false(cq_has_room(&cq));
}

int
object_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),          cmocka_unit_test(test_receive_queues),
		cmocka_unit_test(test_regions),         cmocka_unit_test(test_free_waits_for_grace),
		cmocka_unit_test(test_windows),         cmocka_unit_test(test_window_types),
		cmocka_unit_test(test_window_rights),   cmocka_unit_test(test_swap),
		cmocka_unit_test(test_large_window),    cmocka_unit_test(test_copies),
		cmocka_unit_test(test_copied_window),   cmocka_unit_test(test_resized_rings),
		cmocka_unit_test(test_room_for_events),
	};

	return cmocka_run_group_tests_name("control: objects", tests, NULL, NULL);
}
