/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread behind its socket: honest applications, hostile ones, and
 * those that die at any moment.  The engine is a fake that watches the order.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach_client.h"
#include "control/acl.h"
#include "control/cm.h"
#include "control/control.h"
#include "fake_engine.h"
#include "tests.h"

#define VA 0x10000000ull
#define SIZE 65536ull

static struct config config;
static pthread_t thread;
static char directory[64];
static uint32_t base_fds;

static void
pause_ms(unsigned int ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

static uint32_t
count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

/* Everything that attachments had is gone, descriptors too. */
static void
assert_clean(void)
{
	uint32_t fds = 0;

	for (int i = 0; i < 5000; i++) {
		fds = count_fds();
		if (fake_objects() == 0 && fds == base_fds)
			break;
		pause_ms(1);
	}
	assert_int_equal(fake_objects(), 0);
	assert_int_equal(fds, base_fds);
	if (fake_mistake() != NULL)
		fail_msg("%s", fake_mistake());
}

static struct fake_event seen[FAKE_EVENTS];
static uint32_t num_seen;

static void
collect(void)
{
	num_seen += fake_events(&seen[num_seen], FAKE_EVENTS - num_seen);
}

/* Waits for an entry of the type (for any object when 0), and takes it. */
static struct fake_event
await(uint8_t type, uint32_t object)
{
	for (int i = 0; i < 10000; i++) {
		collect();
		for (uint32_t n = 0; n < num_seen; n++) {
			struct fake_event event = seen[n];

			if (event.type != type || (object != 0 && event.object != object))
				continue;
			memmove(&seen[n], &seen[n + 1], (--num_seen - n) * sizeof(seen[0]));
			return event;
		}
		pause_ms(1);
	}
	fail_msg("no entry of type %u for %#x", type, object);
	return (struct fake_event){0};
}

static void
assert_no_event(void)
{
	pause_ms(20);
	collect();
	if (num_seen != 0)
		fail_msg("an entry too many: type %u, status %u", seen[0].type, seen[0].status);
}

static void
assert_ended(struct app *app)
{
	assert_int_equal(app_receive(app), 0);
	app_close(app);
}

/* ---- messages ---- */

static void
test_welcome(void **state)
{
	struct app app;
	const struct one_arena *arena;

	app_hello(&app, ONE_KIND_DAT);
	arena = (const struct one_arena *)app.arena;
	assert_int_equal(app.welcome.version, ONE_ABI_VERSION);
	assert_int_equal(app.welcome.node_id, 1);
	assert_int_equal(app.welcome.family, AF_INET);
	assert_memory_equal(app.welcome.addr, "\xc0\x00\x02\x01", 4);
	assert_int_equal(app.welcome.mtu, 4096);
	assert_int_equal(app.welcome.pid, getpid());
	assert_string_equal(app.welcome.port, "p0");
	assert_int_equal(app.welcome.limits.max_srq, 0);
	assert_int_equal(arena->magic, ONE_ARENA_MAGIC);
	assert_int_equal(arena->size, ONE_ARENA_SIZE);
	assert_true(arena->doorbells >= sizeof(*arena));
	assert_true(arena->channels >= arena->doorbells + sizeof(struct one_doorbells));
	assert_true(app.welcome.async_cq_offset >= arena->channels + ONE_CHANNELS * sizeof(struct one_channel));
	app_close(&app);
	assert_clean();
}

static int
hello_error(uint32_t magic, uint32_t version, uint32_t kind, const char *port)
{
	struct app app;
	int error;

	app_connect(&app);
	app.msg.hello = (struct one_hello){.magic = magic, .version = version, .kind = kind};
	snprintf(app.msg.hello.port, sizeof(app.msg.hello.port), "%s", port);
	error = app_call(&app, ONE_MSG_HELLO);
	if (error != 0)
		assert_ended(&app);
	else
		app_close(&app);
	return error;
}

static void
test_hello_refusals(void **state)
{
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, ""), 0);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_RSM, "p0"), 0);
	assert_int_equal(hello_error(ONE_MSG_MAGIC + 1, ONE_ABI_VERSION, ONE_KIND_DAT, ""), -EPROTO);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION + 1, ONE_KIND_DAT, ""), -EPROTO);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, 3, ""), -EINVAL);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, "p1"), -ENODEV);
	fake_refuse(ENGINE_CLIENT_ADD, -ENOMEM);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, ""), -ENOMEM);
	assert_clean();
}

static void
test_protocol_faults(void **state)
{
	int fds[32];
	struct app app;

	for (int i = 0; i < 32; i++)
		fds[i] = memfd_create("x", MFD_CLOEXEC);
	base_fds += 32;
	/* wrong sizes, before and after HELLO */
	for (int attached = 0; attached < 2; attached++) {
		const size_t sizes[] = {1, sizeof(struct one_msg) - 1, sizeof(struct one_msg) + 1};

		for (int i = 0; i < 3; i++) {
			if (attached)
				app_hello(&app, ONE_KIND_DAT);
			else
				app_connect(&app);
			app.msg.type = ONE_MSG_PZ_CREATE;
			assert_true(app_send(&app, &app.msg, sizes[i], NULL, 0));
			if (attached) {
				assert_int_equal(app_receive(&app), 0);
				assert_int_equal(atomic_load(&((struct one_arena *)app.arena)->fault),
				                 ONE_FAULT_PROTOCOL);
				app_close(&app);
			} else {
				assert_ended(&app);
			}
		}
	}
	/* something before HELLO, and a second HELLO */
	app_connect(&app);
	app_post(&app, ONE_MSG_PZ_CREATE);
	assert_ended(&app);
	app_hello(&app, ONE_KIND_DAT);
	app_post(&app, ONE_MSG_HELLO);
	assert_ended(&app);
	/* unknown types */
	for (uint32_t type = ONE_MSG_MAX; type != 0; type = type == ONE_MSG_MAX ? UINT32_MAX : 0) {
		app_hello(&app, ONE_KIND_DAT);
		app_post(&app, type);
		assert_ended(&app);
	}
	/* descriptors: as many as allowed are closed if unwanted, more end the attachment */
	app_hello(&app, ONE_KIND_DAT);
	app.msg.type = ONE_MSG_PZ_CREATE;
	assert_true(app_send(&app, &app.msg, sizeof(app.msg), fds, ONE_MSG_FDS));
	assert_int_equal(app_receive(&app), 1);
	assert_int_equal(app.reply.error, 0);
	for (uint32_t n = ONE_MSG_FDS + 1; n <= 32; n += 23) {
		struct app other;

		app_hello(&other, ONE_KIND_DAT);
		other.msg.type = ONE_MSG_PZ_CREATE;
		assert_true(app_send(&other, &other.msg, sizeof(other.msg), fds, n));
		assert_ended(&other);
	}
	app_close(&app);
	assert_clean();
	for (int i = 0; i < 32; i++)
		close(fds[i]);
	base_fds -= 32;
	assert_clean();
}

static void
test_impatience(void **state)
{
	struct app app;

	/* A second request before the reply of the first, which a core holds up. */
	app_hello(&app, ONE_KIND_DAT);
	fake_hold(true, false);
	app.msg.cq_create.entries = 10;
	app_post(&app, ONE_MSG_CQ_CREATE);
	app_post(&app, ONE_MSG_PZ_CREATE);
	assert_int_equal(app_receive(&app), 0);
	fake_hold(false, false);
	app_close(&app);
	assert_clean();
}

/* Every request with ids of nothing, and with whatever bytes. */
static void
test_rubbish(void **state)
{
	struct app app;
	unsigned int seed = 7;

	app_hello(&app, ONE_KIND_DAT);
	for (uint32_t type = ONE_MSG_PZ_CREATE; type < ONE_MSG_MAX; type++) {
		if (type == ONE_MSG_PZ_CREATE || type == ONE_MSG_RSM_TOPOLOGY)
			continue;
		memset(app.msg.bytes, type == ONE_MSG_CQ_CREATE ? 0 : 0xff, sizeof(app.msg.bytes));
		assert_int_not_equal(app_call(&app, type), 0);
	}
	for (int i = 0; i < 20000; i++) {
		uint32_t type = ONE_MSG_PZ_CREATE + (uint32_t)rand_r(&seed) % (ONE_MSG_MAX - ONE_MSG_PZ_CREATE);

		for (size_t n = 0; n < sizeof(app.msg.bytes); n++)
			app.msg.bytes[n] = (uint8_t)(rand_r(&seed) >> 8);
		/* Often small numbers, which name things. */
		for (uint32_t n = 0; n < 12; n++)
			if (rand_r(&seed) % 3 != 0)
				memcpy(&app.msg.bytes[4 * n],
				       &(uint32_t){(uint32_t)rand_r(&seed) % 4 == 0 ? 0x10000 + (uint32_t)rand_r(&seed) % 3
			                                                          : (uint32_t)rand_r(&seed) % 20},
				       4);
		app_call(&app, type);
	}
	app_close(&app);
	assert_clean();
	num_seen = 0;
	collect();
	num_seen = 0;
}

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
	for (int i = 0; i < 5000 && hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, "") != 0; i++)
		pause_ms(1);
	for (uint32_t i = 0; i < config.limits.max_pz; i++)
		pz = app_pz(&app[0]);
	assert_int_equal(app_call(&app[0], ONE_MSG_PZ_CREATE), -EDQUOT);
	assert_int_equal(app[0].reply.subject, ONE_SUBJECT_QUOTA);
	assert_int_equal(app[0].reply.value, config.limits.max_pz);
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
	assert_int_equal(app_call(&app, ONE_MSG_REGION_ADD), -EBADF); /* no descriptor at all */
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
	/* Two pieces in the other order are one range. */
	app.msg.mr_create = (struct one_mr_create){.pz = pz,
	                                           .access = ONE_ACCESS_LOCAL_READ,
	                                           .va = VA,
	                                           .length = 2 * SIZE,
	                                           .num_pieces = 2,
	                                           .piece = {{.region = other, .length = SIZE},
	                                                     {.region = region, .length = SIZE}}};
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), 0);
	two = app.reply.mr;
	assert_int_equal(two.rkey, 0);
	entry->base[0] = 0x77;
	entry = mem_lookup(engine_mem_table(), two.lkey);
	assert_int_equal(entry->base[SIZE + 100], 0x77);
	/* What does not fit. */
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
	app.msg.mr_create.length = 10;
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
	/* Not shared: by the process itself. */
	app.msg.mr_create.num_pieces = 0;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), 0);
	entry = mem_lookup(engine_mem_table(), app.reply.mr.lkey);
	assert_null(entry->base);
	assert_int_equal(entry->process->pid, getpid());
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, app.reply.mr.mr), 0);
	/* Freed in the wrong order, then in the right one. */
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

/* The reply to MR_FREE means that no core touches the memory any more. */
static void
test_free_waits_for_grace(void **state)
{
	struct timeval soon = {.tv_usec = 50000}, late = {.tv_sec = 20};
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
	setsockopt(app.fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	assert_int_equal(recv(app.fd, &app.reply, sizeof(app.reply), MSG_PEEK), -1);
	assert_null(mem_lookup(engine_mem_table(), mr.lkey)); /* but the key is useless at once */
	setsockopt(app.fd, SOL_SOCKET, SO_RCVTIMEO, &late, sizeof(late));
	fake_hold(false, false);
	assert_int_equal(app_receive(&app), 1);
	assert_int_equal(app.reply.error, 0);
	app_close(&app);
	assert_clean();
}

static bool
try_bind(uint32_t qpn, uint32_t key, uint32_t lkey, uint64_t addr, uint32_t len, uint32_t access)
{
	struct work work = {.op = ONE_OP_BIND, .length = access, .rkey = key, .sge = {{addr, len, lkey}}};

	fake_bind(qpn, &work);
	for (int i = 0; i < 5000 && fake_bind_result() < 0; i++)
		pause_ms(1);
	return fake_bind_result() == 1;
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

	assert_true(try_bind(qp.qpn, key, mr.lkey, VA + 16, 100, ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_LOCAL_READ));
	entry = mem_lookup(engine_mem_table(), key);
	assert_non_null(entry);
	assert_int_equal(entry->access, ONE_ACCESS_REMOTE_WRITE);
	assert_int_equal(entry->va, VA + 16);
	assert_int_equal(entry->length, 100);
	assert_null(mem_lookup(engine_mem_table(), mw.key));
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, mr.mr), -EBUSY);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_MW);
	/* A failed bind leaves the window as it was; a new one makes the old key useless. */
	assert_false(try_bind(qp.qpn, key ^ 2, mr.lkey, VA, (uint32_t)SIZE + 1, ONE_ACCESS_REMOTE_READ));
	assert_ptr_equal(mem_lookup(engine_mem_table(), key), entry);
	assert_true(try_bind(qp.qpn, key ^ 2, mr.lkey, VA, (uint32_t)SIZE, ONE_ACCESS_REMOTE_READ));
	assert_null(mem_lookup(engine_mem_table(), key));
	/* Length 0 unbinds; so does the peer's invalidation; so does freeing. */
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

/* Rights that the memory itself does not have cannot be given on. */
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
		assert_int_equal(try_bind(qp.qpn, app.reply.mw.key ^ 1, lkey, VA, 10, cases[i].window), cases[i].ok);
	}
	app_close(&app);
	assert_clean();
}

/* ---- connections, both ends in this data plane ---- */

struct ends {
	struct app active, passive;
	struct one_qp_created a, p;
	uint32_t listener;
	uint32_t cq_a, cq_p, pz_a, pz_p;
};

static void
ends_open(struct ends *ends, uint64_t service)
{
	app_hello(&ends->active, ONE_KIND_DAT);
	app_hello(&ends->passive, ONE_KIND_DAT);
	ends->pz_a = app_pz(&ends->active);
	ends->pz_p = app_pz(&ends->passive);
	/* Ids of the two attachments must differ here: the fake tells events apart by them. */
	app_cq(&ends->passive, 10);
	ends->cq_a = app_cq(&ends->active, 10);
	ends->cq_p = app_cq(&ends->passive, 10);
	app_qp(&ends->passive, ends->pz_p, ends->cq_p);
	ends->a = app_qp(&ends->active, ends->pz_a, ends->cq_a);
	ends->p = app_qp(&ends->passive, ends->pz_p, ends->cq_p);
	ends->passive.msg.listen = (struct one_listen){.service = service, .cq = ends->cq_p};
	assert_int_equal(app_call(&ends->passive, ONE_MSG_LISTEN), 0);
	ends->listener = ends->passive.reply.listening.listener;
}

static void
ends_close(struct ends *ends)
{
	app_close(&ends->active);
	app_close(&ends->passive);
	num_seen = 0;
	assert_clean();
	collect();
	num_seen = 0;
}

static const struct one_cr_shm *
await_request(struct ends *ends)
{
	struct fake_event event = await(ONE_CQE_REQUEST, ends->listener);

	assert_true(event.cookie < ONE_ARENA_SIZE - sizeof(struct one_cr_shm));
	return (const struct one_cr_shm *)(ends->passive.arena + event.cookie);
}

static int
accept_request(struct ends *ends, uint32_t cr)
{
	ends->passive.msg.cr_accept =
		(struct one_cr_accept){.cr = cr, .qp = ends->p.qp, .private_len = 2, .private_data = {4, 5}};
	return app_call(&ends->passive, ONE_MSG_CR_ACCEPT);
}

static void
establish(struct ends *ends, uint64_t service)
{
	assert_int_equal(app_connect_qp(&ends->active, ends->a.qp, service, UINT64_MAX), 0);
	assert_int_equal(accept_request(ends, await_request(ends)->cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->p.qp).status, ONE_CONN_ESTABLISHED);
}

static int
disconnect(struct app *app, uint32_t qp, bool graceful)
{
	app->msg.qp_disconnect = (struct one_qp_disconnect){.qp = qp, .graceful = graceful};
	return app_call(app, ONE_MSG_QP_DISCONNECT);
}

static void
test_connect(void **state)
{
	const struct one_cr_shm *cr;
	const struct one_qp_shm *shm;
	struct ends ends;

	ends_open(&ends, 45248);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 45248, UINT64_MAX), 0);
	cr = await_request(&ends);
	assert_int_equal(cr->conn_qual, 45248);
	assert_int_equal(cr->family, AF_INET);
	assert_memory_equal(cr->remote_addr, "\xc0\x00\x02\x01", 4);
	assert_int_equal(cr->private_len, 3);
	assert_memory_equal(cr->private_data, "\x07\x08\x09", 3);
	assert_int_equal(cr->rd_atomic_in, 8);
	assert_int_equal(cr->rd_atomic_out, 4);
	assert_int_equal(accept_request(&ends, cr->cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	shm = (const struct one_qp_shm *)(ends.active.arena + ends.a.shm);
	assert_int_equal(shm->private_len, 2);
	assert_memory_equal(shm->private_data, "\x04\x05", 2);
	assert_int_equal(shm->remote_port, 45248);
	assert_int_equal(shm->rd_atomic_in, 4);
	assert_int_equal(shm->rd_atomic_out, 4); /* 8 wanted, the passive side serves 4 */
	assert_true(fake_connection().local);
	assert_int_equal(fake_connection().rc.path_mtu, 4096);
	assert_int_equal(fake_connection().rc.rnr_retry, 7);
	assert_true(fake_connection().rc.oneside_peer);
	assert_memory_equal(fake_connection().rc.path.dst_mac, fake_connection().rc.path.src_mac, 6);
	/* It is connected: no second attempt, no change. */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 45248, UINT64_MAX), -EISCONN);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), -EISCONN);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_CQ_FREE, ends.cq_a), -EBUSY);

	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0); /* nothing more to say */
	assert_int_equal(disconnect(&ends.passive, ends.p.qp, true), 0);
	assert_no_event();
	/* Once more, with the same queue pairs: after time-wait. */
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_QP_RESET, ends.p.qp), 0);
	establish(&ends, 45248);
	/* Gracefully: drained first. */
	assert_int_equal(disconnect(&ends.passive, ends.p.qp, true), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	assert_no_event();
	ends_close(&ends);
}

static void
test_refusals(void **state)
{
	struct ends ends;
	uint32_t cr;

	ends_open(&ends, 5000);
	/* nobody there */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5001, UINT64_MAX), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_NON_PEER_REJECTED);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	/* the consumer says no */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	cr = await_request(&ends)->cr;
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_CR_REJECT, cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_PEER_REJECTED);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_CR_REJECT, cr), -EINVAL);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	/* the requester gives up; who accepts then is told */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, 50000), 0);
	cr = await_request(&ends)->cr;
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_TIMED_OUT);
	pause_ms(20);
	assert_int_equal(accept_request(&ends, cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ACCEPT_ERROR);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_QP_RESET, ends.p.qp), 0);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	/* the requester disconnects before the answer */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	cr = await_request(&ends)->cr;
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_CR_REJECT, cr), 0);
	/* accepting with what cannot be: the request stays */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	cr = await_request(&ends)->cr;
	ends.p.qp ^= 0x10000;
	assert_int_equal(accept_request(&ends, cr), -EINVAL);
	ends.p.qp ^= 0x10000;
	assert_int_equal(accept_request(&ends, cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	assert_no_event();
	ends_close(&ends);
}

static void
test_arguments(void **state)
{
	struct ends ends;
	struct one_qp_created bare;

	ends_open(&ends, 5000);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, 0), -EINVAL);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, CM_SERVICE_RSM(0x400000), 1), -EACCES);
	ends.active.msg.qp_connect.service = 5000;
	ends.active.msg.qp_connect.private_len = CM_USER_PRIVATE_MAX + 1;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EMSGSIZE);
	ends.active.msg.qp_connect.private_len = UINT16_MAX;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EMSGSIZE);
	ends.active.msg.qp_connect.private_len = 0;
	ends.active.msg.qp_connect.family = AF_INET6;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EAFNOSUPPORT);
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), -ENOTCONN);
	bare = app_qp(&ends.active, 0, ends.cq_a);
	assert_int_equal(app_connect_qp(&ends.active, bare.qp, 5000, UINT64_MAX), -EINVAL);
	assert_int_equal(ends.active.reply.subject, ONE_SUBJECT_PZ);
	ends.active.msg.qp_modify = (struct one_qp_modify){
		.qp = bare.qp,
		.to = {.pz = ends.pz_a, .max_send_wr = 10, .max_recv_wr = 10, .rd_atomic_in = 1}};
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_MODIFY), 0);
	assert_int_equal(app_connect_qp(&ends.active, bare.qp, 5000, UINT64_MAX), -EINVAL);
	assert_int_equal(ends.active.reply.subject, ONE_SUBJECT_CQ_CONN);
	/* in use, reserved, any */
	ends.active.msg.listen = (struct one_listen){.service = 5000, .cq = ends.cq_a};
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), -EADDRINUSE);
	ends.active.msg.listen.service = CM_SERVICE_RSM(0x400000);
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), -EACCES);
	ends.active.msg.listen.service = 0;
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), 0);
	assert_true(ends.active.reply.listening.service >= 1024);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_UNLISTEN, ends.listener), 0);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_UNLISTEN, ends.listener), -EINVAL);
	ends.active.msg.listen.service = 5000;
	ends.active.msg.listen.cq = ends.cq_a;
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), 0);
	assert_no_event();
	ends_close(&ends);
}

static void
test_handoff_and_once(void **state)
{
	struct ends ends;
	uint32_t second, cr;

	ends_open(&ends, 5000);
	ends.passive.msg.listen = (struct one_listen){.service = 6000, .cq = ends.cq_p, .flags = ONE_LISTEN_ONCE};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), 0);
	second = ends.passive.reply.listening.listener;
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	cr = await_request(&ends)->cr;
	ends.passive.msg.cr_handoff = (struct one_cr_handoff){.cr = cr, .service = 7000};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_HANDOFF), -ENOENT);
	ends.passive.msg.cr_handoff.service = 6000;
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_HANDOFF), 0);
	ends.listener = second;
	cr = await_request(&ends)->cr;
	assert_int_equal(accept_request(&ends, cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	/* It listened once; its id is still there. */
	disconnect(&ends.active, ends.a.qp, false);
	await(ONE_CQE_CONNECT, ends.a.qp);
	await(ONE_CQE_CONNECT, ends.p.qp);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 6000, UINT64_MAX), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_NON_PEER_REJECTED);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_UNLISTEN, second), 0);
	assert_no_event();
	ends_close(&ends);
}

/* The ring is the backlog: what does not fit is refused, and not by the consumer's word. */
static void
test_backlog(void **state)
{
	struct one_qp_created first, second;
	struct one_cq_created ring;
	struct one_cq_shm *shm;
	struct ends ends;
	uint64_t offset;

	ends_open(&ends, 5000);
	ends.passive.msg.cq_create.entries = 3;
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CQ_CREATE), 0);
	ring = ends.passive.reply.cq;
	assert_int_equal(ring.log2, 2);
	offset = ring.offset;
	shm = (struct one_cq_shm *)(ends.passive.arena + offset);
	ends.passive.msg.listen = (struct one_listen){.service = 6000, .cq = ring.cq};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), 0);
	ends.listener = ends.passive.reply.listening.listener;
	first = app_qp(&ends.active, ends.pz_a, ends.cq_a);
	second = app_qp(&ends.active, ends.pz_a, ends.cq_a);
	/* Two entries wait, as a core would have stored them: there is room for one more. */
	atomic_store(&shm->tail, 2);
	assert_int_equal(app_connect_qp(&ends.active, first.qp, 6000, UINT64_MAX), 0);
	await_request(&ends);
	atomic_store(&shm->tail, 3);
	assert_int_equal(app_connect_qp(&ends.active, second.qp, 6000, UINT64_MAX), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, second.qp).status, ONE_CONN_NON_PEER_REJECTED);
	/* They are taken. */
	atomic_store(&shm->head, 3);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, second.qp), 0);
	assert_int_equal(app_connect_qp(&ends.active, second.qp, 6000, UINT64_MAX), 0);
	await_request(&ends);
	assert_no_event();
	ends_close(&ends);
}

static void
test_broken(void **state)
{
	struct ends ends;

	ends_open(&ends, 5000);
	establish(&ends, 5000);
	fake_tell(ends.a.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_BROKEN);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	/* What the cores say too late changes nothing. */
	fake_tell(ends.a.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	fake_tell(ends.p.qpn, ENGINE_EVENT_FAILED, RC_ERROR_RESPONDER);
	fake_tell(ends.p.qpn, ENGINE_EVENT_DRAINED, 0);
	fake_tell(ends.p.qpn, ENGINE_EVENT_ESTABLISHED, 0);
	assert_no_event();
	/* Freed while connected: the peer is told. */
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_QP_RESET, ends.p.qp), 0);
	establish(&ends, 5000);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_FREE, ends.a.qp), 0);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_FREE, ends.a.qp), -EINVAL);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_no_event();
	ends_close(&ends);
}

static void
test_death_of_peers(void **state)
{
	struct ends ends;

	/* of the requester, before the answer */
	ends_open(&ends, 5000);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	const struct one_cr_shm *cr = await_request(&ends);
	app_close(&ends.active);
	pause_ms(20);
	assert_int_equal(accept_request(&ends, cr->cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ACCEPT_ERROR);
	app_close(&ends.passive);
	assert_clean();
	/* of the acceptor, before its answer: not its consumer's word */
	ends_open(&ends, 5000);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	await_request(&ends);
	app_close(&ends.passive);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_NON_PEER_REJECTED);
	app_close(&ends.active);
	assert_clean();
	/* of either, connected */
	for (int i = 0; i < 2; i++) {
		ends_open(&ends, 5000);
		establish(&ends, 5000);
		app_close(i == 0 ? &ends.active : &ends.passive);
		assert_int_equal(await(ONE_CQE_CONNECT, i == 0 ? ends.p.qp : ends.a.qp).status, ONE_CONN_DISCONNECTED);
		app_close(i == 0 ? &ends.passive : &ends.active);
		assert_clean();
	}
	assert_no_event();
}

/* ---- RSM ---- */

static int
publish(struct app *app, enum one_msg_type type, uint32_t mr, uint32_t segment, uint32_t mode, uint32_t node)
{
	app->msg.rsm_publish = (struct one_rsm_publish){.mr = mr,
	                                                .segment = segment,
	                                                .default_permission = mode,
	                                                .num_access = node != 0,
	                                                .access = {{node, mode}}};
	return app_call(app, type);
}

static int
import(struct app *app, uint32_t node, uint32_t segment, uint32_t permission, uint32_t cq, uint32_t pz)
{
	app->msg.rsm_connect = (struct one_rsm_connect){.node = node,
	                                                .segment = segment,
	                                                .permission = permission,
	                                                .cq = cq,
	                                                .max_send_wr = 8,
	                                                .pz = pz};
	return app_call(app, ONE_MSG_RSM_CONNECT);
}

static void
test_rsm(void **state)
{
	struct app exporter, importer;
	struct one_mr_created mr;
	const struct one_qp_shm *shm;
	struct mem_region *window;
	uint32_t pz, cq, qp, second, segment;

	app_hello(&exporter, ONE_KIND_RSM);
	app_hello(&importer, ONE_KIND_RSM);
	mr = app_mr(&exporter, app_pz(&exporter), app_region(&exporter, SIZE), VA, SIZE);
	pz = app_pz(&importer);
	cq = app_cq(&importer, 20);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, 77, 0, 0600, 0), RSM_BAD_SEG_HNDL);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0x300000, 0600, 0), RSM_RESERVED_SEGID);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0x400000, 0777, 1), RSM_BAD_ACL);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_REPUBLISH, 0, 0x400000, 0600, 1), RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_UNPUBLISH, 0, 0x400000, 0, 0), RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0, 0400, 0), 0);
	segment = exporter.reply.rsm.segment;
	assert_true(segment >= 0x80000000);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0x400000, 0600, 0), RSM_SEG_ALREADY_PUBLISHED);
	/* Not the importer's to change. */
	assert_int_equal(publish(&importer, ONE_MSG_RSM_UNPUBLISH, 0, segment, 0, 0), RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(publish(&importer, ONE_MSG_RSM_REPUBLISH, 0, segment, 0666, 0), RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(app_call_id(&exporter, ONE_MSG_MR_FREE, mr.mr), -EBUSY);

	assert_int_equal(import(&importer, 1, segment, 0700, cq, pz), RSM_PERM_DENIED);
	assert_int_equal(import(&importer, 9, segment, 0400, cq, pz), RSM_REMOTE_NODE_UNREACHABLE);
	importer.msg.rsm_connect.flags = ONE_RSM_LOOPBACK;
	assert_int_equal(app_call(&importer, ONE_MSG_RSM_CONNECT), RSM_CTLR_NOT_PRESENT);
	assert_int_equal(import(&importer, 1, segment, 0600, cq, pz), 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, RSM_PERM_DENIED);
	assert_int_equal(import(&importer, 1, 0x400000, 0400, cq, pz), 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(app_call_id(&importer, ONE_MSG_RSM_DISCONNECT, importer.reply.qp.qp), 0);

	assert_int_equal(import(&importer, 1, segment, 0400, cq, pz), 0);
	qp = importer.reply.qp.qp;
	shm = (const struct one_qp_shm *)(importer.arena + importer.reply.qp.shm);
	assert_int_equal(await(ONE_CQE_RSM, qp).status, 0);
	assert_int_equal(shm->rsm_addr, VA);
	assert_int_equal(shm->rsm_size, SIZE);
	assert_int_equal(shm->rsm_flags, 0);
	window = mem_lookup(engine_mem_table(), shm->rsm_key);
	assert_non_null(window);
	/* Just the right that was asked for, and for that queue pair alone; in a zone where nothing else is. */
	assert_int_equal(window->access, ONE_ACCESS_REMOTE_READ);
	assert_int_equal(window->length, SIZE);
	assert_int_not_equal(window->qpn, 0);
	assert_int_not_equal(window->pz, mem_lookup(engine_mem_table(), mr.lkey)->pz);
	/* A queue pair of RSM is not one of uDAPL's. */
	assert_int_equal(disconnect(&importer, qp, false), -EINVAL);
	assert_int_equal(app_call_id(&importer, ONE_MSG_QP_RESET, qp), -EINVAL);
	/* New rules for new imports only. */
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_REPUBLISH, 0, segment, 0666, 50), 0);
	assert_int_equal(import(&importer, 1, segment, 0400, cq, pz), 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, RSM_SEG_NOT_PUBLISHED_TO_NODE);
	assert_non_null(mem_lookup(engine_mem_table(), shm->rsm_key));
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_REPUBLISH, 0, segment, 0666, 1), 0);
	assert_int_equal(import(&importer, 1, segment, 0600, cq, pz), 0);
	second = importer.reply.qp.qp;
	assert_int_equal(await(ONE_CQE_RSM, second).status, 0);
	/* One importer goes; then the segment does. */
	assert_int_equal(app_call_id(&importer, ONE_MSG_RSM_DISCONNECT, second), 0);
	pause_ms(20);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_UNPUBLISH, 0, segment, 0, 0), 0);
	assert_null(mem_lookup(engine_mem_table(), shm->rsm_key));
	assert_int_equal(await(ONE_CQE_RSM, qp).status, RSM_CONN_ABORTED);
	assert_int_equal(app_call_id(&importer, ONE_MSG_RSM_DISCONNECT, qp), 0);
	assert_no_event();
	/* The exporter dies. */
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0x400000, 0600, 0), 0);
	assert_int_equal(import(&importer, 1, 0x400000, 0600, cq, pz), 0);
	qp = importer.reply.qp.qp;
	assert_int_equal(await(ONE_CQE_RSM, qp).status, 0);
	app_close(&exporter);
	assert_int_equal(await(ONE_CQE_RSM, qp).status, RSM_CONN_ABORTED);
	assert_int_equal(import(&importer, 1, 0x400000, 0600, cq, pz), 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, RSM_SEG_NOT_PUBLISHED);
	app_close(&importer);
	assert_clean();
}

static void
test_topology(void **state)
{
	struct app app;

	app_hello(&app, ONE_KIND_RSM);
	app.msg.rsm_topology = (struct one_rsm_topology){0};
	assert_int_equal(app_call(&app, ONE_MSG_RSM_TOPOLOGY), 0);
	assert_int_equal(app.reply.rsm_port.num_ports, 1);
	assert_int_equal(app.reply.rsm_port.num_peers, 1);
	assert_int_equal(app.reply.rsm_port.hwaddr, 0x020000000001);
	assert_int_equal(app.reply.rsm_port.peer[0].node, 2);
	assert_int_equal(app.reply.rsm_port.peer[0].state, ONE_RSM_PATH_UP);
	app.msg.rsm_topology.first = 1;
	assert_int_equal(app_call(&app, ONE_MSG_RSM_TOPOLOGY), 0);
	assert_int_equal(app.reply.rsm_port.peer[0].node, 0);
	app.msg.rsm_topology.port = 1;
	assert_int_equal(app_call(&app, ONE_MSG_RSM_TOPOLOGY), -ENODEV);
	app_close(&app);
	assert_clean();
}

/* ---- ends ---- */

static void
send_step(struct app *app, enum one_msg_type type)
{
	int fd;

	if (type != ONE_MSG_REGION_ADD) {
		app_post(app, type);
		return;
	}
	fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	app->msg.type = type;
	assert_true(app_send(app, &app->msg, sizeof(app->msg), &fd, 1));
	close(fd);
}

/* Makes one of everything; stops before the request with number `stop` is answered. */
static void
life(int stop)
{
	struct app app;
	uint32_t pz = 0, cq = 0, region = 0;
	struct one_qp_created qp = {0}, other = {0};
	struct one_mr_created mr = {0};

	app_hello(&app, ONE_KIND_DAT);
	for (int step = 0;; step++) {
		enum one_msg_type type = 0;

		memset(app.msg.bytes, 0, sizeof(app.msg.bytes));
		switch (step) {
		case 0:
			type = ONE_MSG_PZ_CREATE;
			break;
		case 1:
			type = ONE_MSG_CQ_CREATE;
			app.msg.cq_create.entries = 100;
			break;
		case 2:
			type = ONE_MSG_PZ_CREATE;
			break;
		case 3:
			type = ONE_MSG_CQ_RESIZE;
			app.msg.cq_resize = (struct one_cq_resize){cq, 300};
			break;
		case 4:
		case 5:
			type = ONE_MSG_QP_CREATE;
			app.msg.qp_create = (struct one_qp_create){
				.pz = pz, .send_cq = cq, .conn_cq = cq, .max_send_wr = 4, .max_send_sge = 1};
			break;
		case 6:
			type = ONE_MSG_REGION_ADD;
			app.msg.region_add = (struct one_region_add){.size = SIZE};
			break;
		case 7:
			type = ONE_MSG_MR_CREATE;
			app.msg.mr_create = (struct one_mr_create){.pz = pz,
			                                           .access = ONE_ACCESS_ALL,
			                                           .va = VA,
			                                           .length = 2 * SIZE,
			                                           .num_pieces = 2,
			                                           .piece = {{.region = region, .length = SIZE},
			                                                     {.region = region, .length = SIZE}}};
			break;
		case 8:
			type = ONE_MSG_MW_CREATE;
			app.msg.mw_create.pz = pz;
			break;
		case 9:
			type = ONE_MSG_LISTEN;
			app.msg.listen = (struct one_listen){.service = 5000, .cq = cq};
			break;
		case 10:
			type = ONE_MSG_QP_CONNECT;
			app.msg.qp_connect = (struct one_qp_connect){.qp = qp.qp,
			                                             .family = AF_INET,
			                                             .addr = {192, 0, 2, 1},
			                                             .service = 5000,
			                                             .timeout_us = UINT64_MAX};
			break;
		case 11: {
			const struct fake_event event = await(ONE_CQE_REQUEST, 0);

			type = ONE_MSG_CR_ACCEPT;
			app.msg.cr_accept.cr = ((const struct one_cr_shm *)(app.arena + event.cookie))->cr;
			app.msg.cr_accept.qp = other.qp;
			break;
		}
		case 12:
			type = ONE_MSG_STAGING;
			app.msg.staging = (struct one_staging){.size = 10000, .pz = pz};
			break;
		case 13:
			type = ONE_MSG_RSM_PUBLISH;
			app.msg.rsm_publish = (struct one_rsm_publish){.mr = mr.mr, .segment = 0x500000,
			                                               .default_permission = 0600};
			break;
		case 14:
			type = ONE_MSG_RSM_CONNECT;
			app.msg.rsm_connect = (struct one_rsm_connect){
				.node = 1, .segment = 0x500000, .permission = 0600, .cq = cq, .max_send_wr = 4, .pz = pz};
			break;
		case 15:
			type = ONE_MSG_RSM_UNPUBLISH;
			app.msg.rsm_publish.segment = 0x500000;
			break;
		case 16:
			type = ONE_MSG_QP_FREE;
			app.msg.id.id = qp.qp;
			break;
		case 17:
			type = ONE_MSG_MR_FREE;
			app.msg.id.id = mr.mr;
			break;
		default:
			app_close(&app);
			return;
		}
		if (step == stop) {
			/* Cores and graces hold everything up while it dies. */
			fake_hold(true, true);
			send_step(&app, type);
			pause_ms(5);
			app_close(&app);
			pause_ms(5);
			assert_true(fake_objects() > 0);
			fake_hold(false, true);
			pause_ms(5);
			fake_hold(false, false);
			return;
		}
		send_step(&app, type);
		assert_int_equal(app_receive(&app), 1);
		assert_int_equal(app.reply.error, 0);
		if (type == ONE_MSG_REGION_ADD)
			region = app.reply.id.id;
		else if (type == ONE_MSG_CQ_CREATE)
			cq = app.reply.cq.cq;
		else if (step == 4)
			qp = app.reply.qp;
		else if (step == 5)
			other = app.reply.qp;
		else if (type == ONE_MSG_MR_CREATE)
			mr = app.reply.mr;
		else if (type == ONE_MSG_PZ_CREATE)
			pz = app.reply.id.id;
	}
}

static void
test_death_at_each_step(void **state)
{
	for (int stop = 0; stop <= 18; stop++) {
		life(stop);
		assert_clean();
		collect();
		num_seen = 0;
	}
}

/* The core refuses what it is asked for. */
static void
test_core_refuses(void **state)
{
	struct app app;
	uint32_t pz, cq;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	cq = app_cq(&app, 10);
	fake_refuse(ENGINE_CQ_ADD, -ENOMEM);
	app.msg.cq_create.entries = 10;
	assert_int_equal(app_call(&app, ONE_MSG_CQ_CREATE), -ENOMEM);
	fake_refuse(ENGINE_CQ_RESIZE, -EINVAL);
	app.msg.cq_resize = (struct one_cq_resize){cq, 100};
	assert_int_equal(app_call(&app, ONE_MSG_CQ_RESIZE), -EINVAL);
	app.msg.cq_resize = (struct one_cq_resize){cq, 100};
	assert_int_equal(app_call(&app, ONE_MSG_CQ_RESIZE), 0);
	fake_refuse(ENGINE_QP_ADD, -EEXIST);
	app.msg.qp_create = (struct one_qp_create){.pz = pz, .send_cq = cq};
	assert_int_equal(app_call(&app, ONE_MSG_QP_CREATE), -EEXIST);
	assert_int_equal(app_call_id(&app, ONE_MSG_CQ_FREE, cq), 0);
	assert_int_equal(app_call_id(&app, ONE_MSG_PZ_FREE, pz), 0);
	app_close(&app);
	assert_clean();
}

static void
test_faults(void **state)
{
	struct app app;

	app_hello(&app, ONE_KIND_DAT);
	fake_fault_first_client();
	assert_ended(&app);
	assert_clean();
	app_hello(&app, ONE_KIND_DAT);
	fake_guard_first_region();
	assert_int_equal(app_receive(&app), 0);
	assert_int_equal(atomic_load(&((struct one_arena *)app.arena)->fault), ONE_FAULT_MEMORY);
	app_close(&app);
	assert_clean();
}

/* A child that holds the socket does not keep a dead parent's attachment alive. */
static void
test_death_with_heirs(void **state)
{
	int ready[2], status;
	pid_t pid, heir = 0;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct app app;

		app_connect(&app);
		app.msg.hello = (struct one_hello){
			.magic = ONE_MSG_MAGIC, .version = ONE_ABI_VERSION, .kind = ONE_KIND_DAT};
		app.msg.type = ONE_MSG_HELLO;
		if (!app_send(&app, &app.msg, sizeof(app.msg), NULL, 0) ||
		    recv(app.fd, &app.reply, sizeof(app.reply), 0) != (ssize_t)sizeof(app.reply))
			_exit(1);
		heir = fork();
		if (heir == 0) {
			pause();
			_exit(0);
		}
		if (write(ready[1], &heir, sizeof(heir)) != (ssize_t)sizeof(heir))
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &heir, sizeof(heir)), sizeof(heir));
	assert_true(fake_objects() > 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	for (int i = 0; i < 5000 && fake_objects() != 0; i++)
		pause_ms(1);
	assert_int_equal(fake_objects(), 0);
	kill(heir, SIGKILL);
	assert_int_equal(read(ready[0], &byte, 0), 0);
	close(ready[0]);
	close(ready[1]);
	assert_clean();
}

/* ---- the socket itself ---- */

static void *
serve(void *arg)
{
	return control_run() == 0 ? NULL : (void *)&config;
}

static void
start(void)
{
	char why[256] = "";

	if (control_init(&config, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
}

static void
stop(void)
{
	void *result = NULL;

	control_stop();
	pthread_join(thread, &result);
	assert_null(result);
	control_fini();
}

static void
test_restart(void **state)
{
	struct app app;
	struct stat st;
	char why[256] = "";
	int fd;

	/* An attachment is open while it ends: it is told, and nothing is left. */
	app_hello(&app, ONE_KIND_DAT);
	app_qp(&app, app_pz(&app), app_cq(&app, 10));
	stop();
	assert_ended(&app);
	assert_int_equal(fake_objects(), 0);
	assert_int_equal(stat(app_socket, &st), -1);
	/* A dead one's socket is replaced, something else is not, nor is a live one's. */
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	{
		struct sockaddr_un address = {.sun_family = AF_UNIX};

		memcpy(address.sun_path, app_socket, sizeof(address.sun_path));
		assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
		assert_int_equal(listen(fd, 1), 0);
		assert_int_equal(control_init(&config, why, sizeof(why)), -EADDRINUSE);
		assert_non_null(strstr(why, app_socket));
		close(fd);
	}
	start();
	stop();
	fd = open(app_socket, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(control_init(&config, why, sizeof(why)), -EEXIST);
	assert_int_equal(unlink(app_socket), 0);
	start();
	app_hello(&app, ONE_KIND_DAT);
	app_close(&app);
	assert_clean();
}

static int
setup(void **state)
{
	struct app app;

	snprintf(directory, sizeof(directory), "/tmp/test-attach.XXXXXX");
	if (mkdtemp(directory) == NULL)
		return -1;
	config_defaults(&config);
	config.node = 1;
	config.num_ports = 1;
	snprintf(config.port[0].name, sizeof(config.port[0].name), "p0");
	config.port[0].addr = (struct config_addr){AF_INET, 24, {192, 0, 2, 1}};
	config.num_peers = 1;
	config.peer[0] = (struct config_peer){.node = 2, .addr = {AF_INET, 24, {192, 0, 2, 2}}};
	snprintf(config.socket, sizeof(config.socket), "%s/one.sock", directory);
	memcpy(app_socket, config.socket, sizeof(app_socket));
	config.socket_mode = 0600;
	config.limits.max_pz = 20;
	config.limits.max_cq = 30;
	config.limits.max_mr_total = 16 << 20;
	config.max_clients_per_uid = 3;
	config.max_bytes_per_uid = 24 << 20;
	start();
	/* What is opened once and stays. */
	app_hello(&app, ONE_KIND_DAT);
	app_close(&app);
	for (int i = 0; i < 5000 && fake_objects() != 0; i++)
		pause_ms(1);
	pause_ms(20);
	base_fds = count_fds();
	return 0;
}

static int
teardown(void **state)
{
	stop();
	rmdir(directory);
	mem_table_free(engine_mem_table());
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_welcome),
		cmocka_unit_test(test_hello_refusals),
		cmocka_unit_test(test_protocol_faults),
		cmocka_unit_test(test_impatience),
		cmocka_unit_test(test_rubbish),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_free_waits_for_grace),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_window_rights),
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_handoff_and_once),
		cmocka_unit_test(test_backlog),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_death_of_peers),
		cmocka_unit_test(test_rsm),
		cmocka_unit_test(test_topology),
		cmocka_unit_test(test_death_at_each_step),
		cmocka_unit_test(test_core_refuses),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_death_with_heirs),
		cmocka_unit_test(test_restart),
	};

	return cmocka_run_group_tests_name("control: attachments", tests, setup, teardown);
}
