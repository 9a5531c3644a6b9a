/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of applications in the data plane: untouched pages, what is charged, and which thread populates and
 * frees. */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "attach.h"
#include "control/base/loop.h"
#include "dataplane/mem/mem.h"

#define PAGE 4096ull
#define LARGE (8ull << 20)
#define AT_ONCE 65536u /* bytes that the control thread may populate itself */

/* ---- which thread ---- */

int __real_munmap(void *base, size_t len);
int __wrap_munmap(void *base, size_t len);
int __real_madvise(void *base, size_t len, int advice);
int __wrap_madvise(void *base, size_t len, int advice);

static _Atomic size_t unmapped_elsewhere, unmapped_by_control, populated_by_control;
static atomic_bool blocked; /* holds up the next munmap() of another thread */
static sem_t waits, go_on;

static bool
is_control(void)
{
	return pthread_equal(pthread_self(), control_thread) != 0;
}

int
__wrap_munmap(void *base, size_t len)
{
	if (is_control()) {
		atomic_fetch_add(&unmapped_by_control, len);
	} else {
		atomic_fetch_add(&unmapped_elsewhere, len);
		if (atomic_exchange(&blocked, false)) {
			sem_post(&waits);
			sem_wait(&go_on);
		}
	}
	return __real_munmap(base, len);
}

int
__wrap_madvise(void *base, size_t len, int advice)
{
	if (is_control() && (advice == MADV_POPULATE_WRITE || advice == MADV_POPULATE_READ) &&
	    len > atomic_load(&populated_by_control))
		atomic_store(&populated_by_control, len);
	return __real_madvise(base, len, advice);
}

static void
forget(void)
{
	atomic_store(&unmapped_elsewhere, 0);
	atomic_store(&unmapped_by_control, 0);
	atomic_store(&populated_by_control, 0);
}

/* The control thread leaves work in proportion to memory to the user's worker, and does not wait for it. */
static void
test_large_memory(void **state)
{
	struct app app, other;
	struct one_mr_created mr;
	uint32_t pz, region;

	app_hello(&app, ONE_KIND_DAT);
	app_hello(&other, ONE_KIND_DAT);
	pz = app_pz(&app);
	forget();
	region = app_region(&app, LARGE);
	mr = app_mr(&app, pz, region, VA, LARGE);
	assert_true(atomic_load(&populated_by_control) <= AT_ONCE);
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, mr.mr), 0);
	/* Other attachments are served while the worker unmaps the region. */
	atomic_store(&blocked, true);
	memset(app.msg.bytes, 0, sizeof(app.msg.bytes));
	app.msg.id.id = region;
	app_post(&app, ONE_MSG_REGION_REMOVE);
	sem_wait(&waits);
	app_pz(&other);
	sem_post(&go_on);
	assert_int_equal(app_receive(&app), 1);
	assert_int_equal(app.reply.error, 0);
	assert_int_equal(atomic_load(&unmapped_elsewhere), LARGE);
	/* When an attachment ends, the worker unmaps its regions and the arena, too. */
	region = app_region(&app, LARGE);
	app_mr(&app, pz, region, VA, LARGE);
	forget();
	atomic_store(&blocked, true);
	close(app.fd);
	sem_wait(&waits);
	app_pz(&other);
	sem_post(&go_on);
	app_close(&other);
	fake_quiescent();
	assert_int_equal(__real_munmap(app.arena, ONE_ARENA_SIZE), 0);
	assert_clean();
	assert_true(atomic_load(&unmapped_elsewhere) >= LARGE + 2 * ONE_ARENA_SIZE);
	assert_int_equal(atomic_load(&unmapped_by_control), 0);
}

/* Registered memory is mapped writable, whoever made its pages, so that a core has no page faults. The
 * kernel writes here (read()), so that a sanitizer's shadow memory adds no faults. */
static void
test_mapped(void **state)
{
	int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct rusage before, after;
	struct one_mr_created mr;
	struct mem_region *entry;
	struct app app;
	uint32_t pz;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	mr = app_mr(&app, pz, app_region(&app, LARGE), VA, LARGE);
	entry = mem_lookup(engine_mem_table(), mr.lkey);
	assert_non_null(entry);
	assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
	for (uint64_t at = 0; at < LARGE; at += PAGE)
		assert_int_equal(syscall(SYS_read, zeros, &entry->base[at], 1), 1);
	assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
	close(zeros);
	assert_true(after.ru_minflt - before.ru_minflt < (long)(LARGE / PAGE / 16));
	app_close(&app);
	assert_clean();
}

/* The control thread populates its own memory in small steps, too. */
static void
test_staging(void **state)
{
	struct app app;
	uint32_t pz;

	app_hello(&app, ONE_KIND_RSM);
	pz = app_pz(&app);
	forget();
	app.msg.staging = (struct one_staging){.size = LARGE, .pz = pz};
	assert_int_equal(app_call(&app, ONE_MSG_STAGING), -EINVAL);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_LENGTH);
	app.msg.staging = (struct one_staging){.size = app.reply.value, .pz = pz};
	assert_int_equal(app_call(&app, ONE_MSG_STAGING), 0);
	assert_true(atomic_load(&populated_by_control) > AT_ONCE);
	assert_true(atomic_load(&populated_by_control) <= 1 << 20);
	app_close(&app);
	assert_clean();
}

static void
post_region(struct app *app, int fd)
{
	memset(app->msg.bytes, 0, sizeof(app->msg.bytes));
	app->msg.region_add.size = config.limits.max_mr_total;
	app->msg.type = ONE_MSG_REGION_ADD;
	app->msg.seq++;
	assert_true(app_send(app, &app->msg, sizeof(app->msg), &fd, 1));
}

/* Memory being freed stays charged until it is free. A request that lacks only that room waits for it. */
static void
test_charged_until_freed(void **state)
{
	struct timeval soon = {.tv_usec = 50000}, late = {.tv_sec = 20};
	struct app app, other;
	uint32_t region;
	int fd = memfd_create("more", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)config.limits.max_mr_total), 0);
	app_hello(&app, ONE_KIND_DAT);
	app_hello(&other, ONE_KIND_DAT);
	region = app_region(&app, config.limits.max_mr_total);
	atomic_store(&blocked, true);
	memset(app.msg.bytes, 0, sizeof(app.msg.bytes));
	app.msg.id.id = region;
	app_post(&app, ONE_MSG_REGION_REMOVE);
	sem_wait(&waits);
	post_region(&other, fd);
	setsockopt(other.fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	assert_int_equal(recv(other.fd, &other.reply, sizeof(other.reply), MSG_PEEK), -1);
	setsockopt(other.fd, SOL_SOCKET, SO_RCVTIMEO, &late, sizeof(late));
	sem_post(&go_on);
	assert_int_equal(app_receive(&app), 1);
	assert_int_equal(app_receive(&other), 1);
	assert_int_equal(other.reply.error, 0);
	/* Nothing is being freed now: the request fails at once. */
	app.msg.region_add = (struct one_region_add){.size = config.limits.max_mr_total};
	assert_int_equal(app_call_fd(&app, ONE_MSG_REGION_ADD, fd), -EDQUOT);
	assert_int_equal(app.reply.value, config.max_bytes_per_uid);
	/* An attachment ends while its request waits for memory that is being freed. */
	atomic_store(&blocked, true);
	memset(other.msg.bytes, 0, sizeof(other.msg.bytes));
	other.msg.id.id = other.reply.id.id;
	app_post(&other, ONE_MSG_REGION_REMOVE);
	sem_wait(&waits);
	post_region(&app, fd);
	close(fd);
	app_close(&app);
	sem_post(&go_on);
	assert_int_equal(app_receive(&other), 1);
	app_close(&other);
	assert_clean();
}

/* ---- whose pages ---- */

static uint64_t
pages_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512 / PAGE;
}

static int
register_part(struct app *app, uint32_t pz, uint32_t region, uint64_t offset, uint64_t length)
{
	app->msg.mr_create = (struct one_mr_create){
		.pz = pz,
		.access = ONE_ACCESS_ALL,
		.va = VA,
		.length = length,
		.num_pieces = 1,
		.piece = {{.region = region, .offset = offset, .length = (length + PAGE - 1) & ~(PAGE - 1)}}};
	return app_call(app, ONE_MSG_MR_CREATE);
}

/* Holes of a sparse file stay holes: allocated pages can be registered, and holes are refused. */
static void
test_holes(void **state)
{
	int fd = memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct app app;
	uint32_t pz, region;

	assert_int_equal(ftruncate(fd, (off_t)LARGE), 0);
	assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20), 0);
	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	app.msg.region_add = (struct one_region_add){.size = LARGE};
	assert_int_equal(app_call_fd(&app, ONE_MSG_REGION_ADD, fd), 0);
	region = app.reply.id.id;
	assert_int_equal(register_part(&app, pz, region, 1 << 20, 1 << 20), 0);
	assert_int_equal(register_part(&app, pz, region, 1 << 20, 100), 0);
	/* The refusal names the first missing page. */
	assert_int_equal(register_part(&app, pz, region, 1 << 20, (1 << 20) + 1), -EFAULT);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_ADDRESS);
	assert_int_equal(app.reply.value, VA + (1 << 20));
	assert_int_equal(register_part(&app, pz, region, (2 << 20) - 2 * PAGE, 3 * PAGE), -EFAULT);
	assert_int_equal(app.reply.value, VA + 2 * PAGE);
	assert_int_equal(register_part(&app, pz, region, 0, LARGE), -EFAULT);
	assert_int_equal(app.reply.value, VA);
	assert_int_equal(pages_of(fd), (1 << 20) / PAGE);
	/* The range can be registered once its owner has populated it. */
	assert_int_equal(fallocate(fd, 0, 0, (off_t)LARGE), 0);
	assert_int_equal(register_part(&app, pz, region, 0, LARGE), 0);
	close(fd);
	app_close(&app);
	assert_clean();
}

/* A range that was registered before is not populated again; pages next to it are. */
static void
test_again(void **state)
{
	int fd = memfd_create("again", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct app app;
	uint32_t pz, region;

	assert_int_equal(ftruncate(fd, (off_t)LARGE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, 64 * PAGE, 64 * PAGE), 0);
	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	app.msg.region_add = (struct one_region_add){.size = LARGE, .flags = ONE_REGION_SEALED};
	assert_int_equal(app_call_fd(&app, ONE_MSG_REGION_ADD, fd), 0);
	region = app.reply.id.id;
	assert_int_equal(register_part(&app, pz, region, 64 * PAGE, 32 * PAGE), 0);
	app.msg.id.id = app.reply.mr.mr;
	assert_int_equal(app_call(&app, ONE_MSG_MR_FREE), 0);
	atomic_store(&populated_by_control, 0);
	assert_int_equal(register_part(&app, pz, region, 64 * PAGE, 32 * PAGE), 0);
	assert_int_equal(register_part(&app, pz, region, 70 * PAGE, 10), 0);
	assert_int_equal(atomic_load(&populated_by_control), 0);
	assert_int_equal(register_part(&app, pz, region, 95 * PAGE, 2 * PAGE), 0);
	assert_int_equal(atomic_load(&populated_by_control), 2 * PAGE);
	assert_int_equal(register_part(&app, pz, region, 64 * PAGE, 33 * PAGE), 0);
	assert_int_equal(atomic_load(&populated_by_control), 2 * PAGE);
	/* The pages are freed and allocated again: ONE_MR_FRESH forgets what was known of them. */
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 64 * PAGE, 64 * PAGE), 0);
	app.msg.mr_create =
		(struct one_mr_create){.flags = ONE_MR_FRESH,
				       .pz = pz,
				       .access = ONE_ACCESS_LOCAL_READ,
				       .va = VA,
				       .length = PAGE,
				       .num_pieces = 1,
				       .piece = {{.region = region, .offset = 64 * PAGE, .length = PAGE}}};
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EFAULT);
	assert_int_equal(register_part(&app, pz, region, 64 * PAGE, PAGE), -EFAULT);
	assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, 64 * PAGE, 64 * PAGE), 0);
	assert_int_equal(register_part(&app, pz, region, 64 * PAGE, 33 * PAGE), 0);
	/* a range with pages that were never allocated is still refused */
	assert_int_equal(register_part(&app, pz, region, 64 * PAGE, 65 * PAGE), -EFAULT);
	assert_int_equal(register_part(&app, pz, region, 63 * PAGE, 2 * PAGE), -EFAULT);
	/* a range that does not adjoin the known one */
	assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, 512 * PAGE, 256 * PAGE), 0);
	assert_int_equal(register_part(&app, pz, region, 512 * PAGE, 256 * PAGE), 0);
	assert_int_equal(register_part(&app, pz, region, 64 * PAGE, 65 * PAGE), -EFAULT);
	assert_int_equal(register_part(&app, pz, region, 64 * PAGE, 64 * PAGE), 0);
	assert_int_equal(register_part(&app, pz, region, 500 * PAGE, 20 * PAGE), -EFAULT);
	close(fd);
	app_close(&app);
	assert_clean();
}

static sigjmp_buf faulted;

static void
on_fault(int signal_number)
{
	siglongjmp(faulted, 1);
}

/* A page punched out of registered memory does not come back by a core's access: SIGBUS, for the guard. */
static void
test_punched(void **state)
{
	const struct sigaction action = {.sa_handler = on_fault};
	int fd = memfd_create("punched", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct sigaction previous;
	struct mem_region *entry;
	struct app app;
	uint32_t pz;

	assert_int_equal(fallocate(fd, 0, 0, (off_t)LARGE), 0);
	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	app.msg.region_add = (struct one_region_add){.size = LARGE};
	assert_int_equal(app_call_fd(&app, ONE_MSG_REGION_ADD, fd), 0);
	assert_int_equal(register_part(&app, pz, app.reply.id.id, 0, LARGE), 0);
	entry = mem_lookup(engine_mem_table(), app.reply.mr.lkey);
	entry->base[PAGE] = 1;
	assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, (off_t)LARGE), 0);
	assert_int_equal(sigaction(SIGBUS, &action, &previous), 0);
	if (sigsetjmp(faulted, 1) == 0) {
		entry->base[PAGE] = 2;
		fail_msg("the page came back");
	}
	sigaction(SIGBUS, &previous, NULL);
	assert_int_equal(pages_of(fd), 0);
	close(fd);
	app_close(&app);
	assert_clean();
}

/* Pages punched out of a registration of two pieces do not come back either. */
static void
test_holes_in_pieces(void **state)
{
	int fd = memfd_create("pieces", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct one_mr_create create;
	struct app app;
	uint32_t region;

	assert_int_equal(fallocate(fd, 0, 0, (off_t)SIZE), 0);
	app_hello(&app, ONE_KIND_DAT);
	create = (struct one_mr_create){
		.pz = app_pz(&app), .access = ONE_ACCESS_ALL, .va = VA, .length = 2 * PAGE, .num_pieces = 2};
	app.msg.region_add = (struct one_region_add){.size = SIZE};
	assert_int_equal(app_call_fd(&app, ONE_MSG_REGION_ADD, fd), 0);
	region = app.reply.id.id;
	create.piece[0] = (struct one_mr_piece){.region = region, .offset = 4 * PAGE, .length = PAGE};
	create.piece[1] = (struct one_mr_piece){.region = region, .length = PAGE};
	app.msg.mr_create = create;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), 0);
	assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, PAGE), 0);
	app.msg.mr_create = create;
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EFAULT);
	assert_int_equal(app.reply.value, VA + PAGE);
	assert_int_equal(pages_of(fd), SIZE / PAGE - 1);
	close(fd);
	app_close(&app);
	assert_clean();
}

/* ---- how much ---- */

static int
register_pieces(struct app *app, uint32_t pz, uint32_t region, uint32_t n, uint64_t piece, uint64_t length)
{
	app->msg.mr_create = (struct one_mr_create){
		.pz = pz, .access = ONE_ACCESS_ALL, .va = VA, .length = length, .num_pieces = n};
	for (uint32_t i = 0; i < n; i++)
		app->msg.mr_create.piece[i] = (struct one_mr_piece){.region = region, .length = piece};
	return app_call(app, ONE_MSG_MR_CREATE);
}

/* Pieces beyond the range are refused. Pieces of one range are charged as often as they are mapped. */
static void
test_pieces_are_charged(void **state)
{
	const uint64_t size = 1 << 20;
	struct one_mr_created last = {0};
	struct app app;
	uint32_t pz, region, n = 0;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	region = app_region(&app, size);
	assert_int_equal(register_pieces(&app, pz, region, ONE_MR_PIECES, size, 1), -EINVAL);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_LENGTH);
	assert_int_equal(register_pieces(&app, pz, region, 1, size, 1), -EINVAL);
	assert_int_equal(register_pieces(&app, pz, region, 2, size, size), -EINVAL);
	assert_int_equal(register_pieces(&app, pz, region, 2, size, 2 * size - PAGE), -EINVAL);
	for (; register_pieces(&app, pz, region, 2, size, 2 * size) == 0; n++)
		last = app.reply.mr;
	assert_int_equal(app.reply.error, -EDQUOT);
	assert_int_equal(app.reply.value, config.limits.max_mr_total);
	assert_int_equal(n, (config.limits.max_mr_total - size) / (2 * size));
	/* After the reply the memory is no longer charged. */
	assert_int_equal(app_call_id(&app, ONE_MSG_MR_FREE, last.mr), 0);
	assert_int_equal(register_pieces(&app, pz, region, 2, size, 2 * size), 0);
	app_close(&app);
	assert_clean();
}

/* The data plane's page tables are charged, too: much address space over few pages costs memory. */
static void
test_tables_are_charged(void **state)
{
	const uint64_t bytes = config.max_bytes_per_uid, total = config.limits.max_mr_total;
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct app app[2];
	uint32_t n = 0;

	assert_int_equal(fallocate(fd, 0, 0, (off_t)PAGE), 0);
	app_hello(&app[0], ONE_KIND_DAT);
	app_hello(&app[1], ONE_KIND_DAT);
	for (; n < 1u << 16; n++) {
		struct app *one = &app[n % 2];

		one->msg.region_add = (struct one_region_add){.size = PAGE};
		if (app_call_fd(one, ONE_MSG_REGION_ADD, fd) != 0)
			break;
	}
	assert_int_equal(app[n % 2].reply.error, -EDQUOT);
	assert_int_equal(app[n % 2].reply.value, bytes);
	assert_true(n * PAGE < bytes / 2 && n * PAGE < 2 * total);
	close(fd);
	app_close(&app[0]);
	app_close(&app[1]);
	assert_clean();
}

#define MAPPABLE 32u

/* A user has a share of the files that importers may map, however many attachments it opens. */
static void
test_mappable_files(void **state)
{
	const struct one_region_add args = {.size = PAGE, .flags = ONE_REGION_SEALED | ONE_REGION_MAPPABLE};
	const uint32_t clients = config.max_clients_per_uid;
	int fd = memfd_create("mappable", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct app app[8];

	config.max_clients_per_uid = 8;
	attach_restart();
	assert_int_equal(fallocate(fd, 0, 0, (off_t)PAGE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	for (uint32_t i = 0; i < 8; i++)
		app_hello(&app[i], ONE_KIND_RSM);
	control.quota.max_common[QUOTA_MAPPABLE] = MAPPABLE;
	for (uint32_t i = 0; i < 8 * (MAPPABLE / 8 + 1); i++) {
		app[i % 8].msg.region_add = args;
		assert_int_equal(app_call_fd(&app[i % 8], ONE_MSG_REGION_ADD, fd), 0);
	}
	assert_int_equal(control.quota.common[QUOTA_MAPPABLE], MAPPABLE - MAPPABLE / 4);
	for (uint32_t i = 0; i < 8; i++)
		app_close(&app[i]);
	close(fd);
	assert_clean();
	assert_int_equal(control.quota.common[QUOTA_MAPPABLE], 0);
	config.max_clients_per_uid = clients;
	attach_restart();
}

#define ROOM (1u << 20)
#define QP_LEAST 2816u /* bytes of the data plane's memory that a queue pair takes at least */

/* The data plane's own memory for objects is charged to their user until they are freed. */
static void
test_objects_are_charged(void **state)
{
	const uint64_t bytes = config.max_bytes_per_uid;
	uint32_t pz, cq, qp = 0, made[2] = {0};
	struct app app;

	config.max_bytes_per_uid = ROOM;
	attach_restart();
	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	cq = app_cq(&app, 1);
	for (uint32_t round = 0; round < 2; round++) {
		for (;; made[round]++) {
			app.msg.qp_create = (struct one_qp_create){.pz = pz, .send_cq = cq, .recv_cq = cq};
			if (app_call(&app, ONE_MSG_QP_CREATE) != 0)
				break;
			qp = app.reply.qp.qp;
		}
		assert_int_equal(app.reply.error, -EDQUOT);
		assert_int_equal(app.reply.value, ROOM);
		assert_int_equal(app_call_id(&app, ONE_MSG_QP_FREE, qp), 0);
	}
	assert_in_range(made[0], 16, ROOM / QP_LEAST);
	assert_in_range(made[1], 1, 2);
	app_close(&app);
	assert_clean();
	config.max_bytes_per_uid = bytes;
	attach_restart();
}

int
mapping_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_memory),
		cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_staging),
		cmocka_unit_test(test_charged_until_freed),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_holes_in_pieces),
		cmocka_unit_test(test_punched),
		cmocka_unit_test(test_pieces_are_charged),
		cmocka_unit_test(test_tables_are_charged),
		cmocka_unit_test(test_mappable_files),
		cmocka_unit_test(test_objects_are_charged),
	};

	sem_init(&waits, 0, 0);
	sem_init(&go_on, 0, 0);
	return cmocka_run_group_tests_name("control: mappings", tests, NULL, NULL);
}
