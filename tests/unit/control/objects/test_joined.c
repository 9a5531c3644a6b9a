/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions joined from several files, such as DPDK's hugepages. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach.h"
#include "control/base/loop.h"
#include "dataplane/mem/mem.h"

#define PAGE 4096ull
#define HUGE (2ull << 20)
#define FILE_SIZE (4 * PAGE)
#define FILES 20u
#define ALL (FILES * FILE_SIZE)

static int
file_of(uint64_t size, unsigned int flags)
{
	int fd = memfd_create("joined", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd >= 0)
		assert_int_equal(ftruncate(fd, (off_t)size), 0);
	if (fd >= 0 && flags == 0)
		assert_int_equal(fallocate(fd, 0, 0, (off_t)size), 0);
	return fd;
}

static void
files_make(int *fd, uint32_t n, uint64_t size, unsigned int flags)
{
	for (uint32_t i = 0; i < n; i++)
		fd[i] = file_of(size, flags);
}

static void
files_close(const int *fd, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		close(fd[i]);
}

/* Adds `n` files to the region, each with `length` bytes from `offset`. */
static int
join(struct app *app, uint32_t region, const int *fd, uint32_t n, uint64_t offset, uint64_t length)
{
	app->msg.region_join.region = region;
	app->msg.region_join.num_files = n;
	for (uint32_t i = 0; i < n && i < ONE_MSG_FDS; i++)
		app->msg.region_join.file[i] = (struct one_region_file){.offset = offset, .length = length};
	return app_call_fds(app, ONE_MSG_REGION_JOIN, fd, n);
}

static int
join_new(struct app *app, uint64_t size, uint64_t page, uint32_t total, const int *fd, uint32_t n,
	 uint64_t length)
{
	memset(app->msg.bytes, 0, sizeof(app->msg.bytes));
	app->msg.region_join.size = size;
	app->msg.region_join.va = VA;
	app->msg.region_join.page = page;
	app->msg.region_join.total = total;
	return join(app, 0, fd, n, 0, length);
}

static int
register_all(struct app *app, uint32_t pz, uint32_t region, uint64_t length)
{
	app->msg.mr_create = (struct one_mr_create){.pz = pz,
						    .access = ONE_ACCESS_ALL,
						    .va = VA,
						    .length = length,
						    .num_pieces = 1,
						    .piece = {{.region = region, .length = length}}};
	return app_call(app, ONE_MSG_MR_CREATE);
}

static void
check_contents(const int *fd, uint32_t lkey)
{
	const struct mem_region *entry = mem_lookup(engine_mem_table(), lkey);
	uint8_t byte;

	assert_non_null(entry);
	for (uint32_t i = 0; i < FILES; i++) {
		byte = (uint8_t)(i + 1);
		assert_int_equal(pwrite(fd[i], &byte, 1, FILE_SIZE - 1), 1);
		assert_int_equal(entry->base[(i + 1) * FILE_SIZE - 1], byte);
		entry->base[i * FILE_SIZE] = byte;
		assert_int_equal(pread(fd[i], &byte, 1, 0), 1);
		assert_int_equal(byte, i + 1);
	}
}

/* A joined region cannot be registered before it is complete; then it is one range. */
static void
test_joined(void **state)
{
	int fd[FILES];
	struct app app;
	uint32_t pz, region, mappings;

	files_make(fd, FILES, FILE_SIZE, 0);
	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	mappings = control.quota.common[QUOTA_MAPPINGS];
	assert_int_equal(join_new(&app, ALL, PAGE, FILES, fd, 8, FILE_SIZE), 0);
	region = app.reply.id.id;
	assert_int_equal(control.quota.common[QUOTA_MAPPINGS], mappings + FILES);
	assert_int_equal(join(&app, region, fd + 8, 8, 0, FILE_SIZE), 0);
	assert_int_equal(app.reply.id.id, region);
	assert_int_equal(register_all(&app, pz, region, FILE_SIZE), -EINVAL);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_REGION);
	assert_int_equal(join(&app, region, fd + 16, 4, 0, FILE_SIZE), 0);
	assert_int_equal(register_all(&app, pz, region, ALL), 0);
	check_contents(fd, app.reply.mr.lkey);
	/* The region is complete: no file can be added. */
	assert_int_equal(join(&app, region, fd, 1, 0, FILE_SIZE), -EINVAL);
	assert_int_equal(app_call_id(&app, ONE_MSG_REGION_REMOVE, region), -EBUSY);
	/* A hole is refused: the application must fill it before registering. */
	assert_int_equal(fallocate(fd[9], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE), 0);
	assert_int_equal(register_all(&app, pz, region, ALL), -EFAULT);
	assert_int_equal(app.reply.value, VA + 9 * FILE_SIZE + PAGE);
	files_close(fd, FILES);
	app_close(&app);
	assert_clean();
}

/* A refused join leaves the region unchanged. */
static void
test_joined_refusals(void **state)
{
	int fd[FILES], pipe_fd[2];
	struct app app;
	uint32_t pz, region;

	files_make(fd, FILES, FILE_SIZE, 0);
	assert_int_equal(pipe(pipe_fd), 0);
	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	assert_int_equal(join_new(&app, ALL, PAGE, FILES, fd, 0, FILE_SIZE), -EINVAL);
	assert_int_equal(join_new(&app, ALL, PAGE, 1, fd, 2, FILE_SIZE), -EINVAL);
	assert_int_equal(join_new(&app, 0, PAGE, 1, fd, 1, FILE_SIZE), -EINVAL);
	assert_int_equal(join_new(&app, ALL + 1, PAGE, 1, fd, 1, FILE_SIZE), -EINVAL);
	assert_int_equal(join_new(&app, ALL, 3 * PAGE, 1, fd, 1, FILE_SIZE), -EINVAL);
	assert_int_equal(join_new(&app, ALL, 2 * ONE_REGION_PAGE_MAX, 1, fd, 1, FILE_SIZE), -EINVAL);
	assert_int_equal(join_new(&app, ALL, 0, 1, fd, 1, FILE_SIZE), -EINVAL);
	assert_int_equal(join_new(&app, ALL, PAGE, UINT32_MAX, fd, 1, FILE_SIZE), -EDQUOT);
	assert_int_equal(join_new(&app, UINT64_MAX & ~(PAGE - 1), PAGE, 2, fd, 1, FILE_SIZE), -EDQUOT);
	assert_int_equal(join_new(&app, 2 * FILE_SIZE, PAGE, 2, pipe_fd, 1, FILE_SIZE), -EBADF);
	assert_int_equal(join_new(&app, 2 * FILE_SIZE, PAGE, 2, fd, 1, FILE_SIZE), 0);
	region = app.reply.id.id;
	assert_int_equal(join(&app, region, fd, 1, 0, 2 * FILE_SIZE), -EINVAL);
	assert_int_equal(join(&app, region, fd, 1, 0, FILE_SIZE + PAGE), -EINVAL);
	assert_int_equal(join(&app, region, fd, 1, FILE_SIZE, PAGE), -EINVAL);
	assert_int_equal(join(&app, region, fd, 1, 1, PAGE), -EINVAL);
	assert_int_equal(join(&app, region, fd, 1, 0, PAGE + 1), -EINVAL);
	assert_int_equal(join(&app, region, fd, 1, 0, 0), -EINVAL);
	assert_int_equal(join(&app, region, fd, 1, UINT64_MAX & ~(PAGE - 1), PAGE), -EINVAL);
	assert_int_equal(join(&app, region, fd, 2, 0, FILE_SIZE), -EINVAL);
	assert_int_equal(join(&app, region + 1, fd, 1, 0, FILE_SIZE), -EINVAL);
	app.msg.region_join.file[0] = (struct one_region_file){.length = FILE_SIZE};
	app.msg.region_join.region = region;
	assert_int_equal(app_call(&app, ONE_MSG_REGION_JOIN), -EBADF); /* no descriptor */
	assert_int_equal(join(&app, region, fd + 1, 1, 0, FILE_SIZE), 0);
	assert_int_equal(register_all(&app, pz, region, 2 * FILE_SIZE), 0);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	files_close(fd, FILES);
	app_close(&app);
	assert_clean();
}

/* Large pages must be aligned, cannot be cut, and cannot be pieces of one registration. The test touches no
 * page. */
static void
test_joined_huge(void **state)
{
	int fd[3], small = file_of(HUGE, 0);
	struct app app;
	uint32_t pz, region;

	files_make(fd, 3, HUGE, MFD_HUGETLB);
	if (fd[0] < 0)
		skip();
	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	assert_int_equal(join_new(&app, 3 * HUGE, HUGE, 3, fd, 3, HUGE), 0);
	region = app.reply.id.id;
	/* The pages are not allocated. */
	assert_int_equal(register_all(&app, pz, region, 3 * HUGE), -EFAULT);
	assert_int_equal(app_call_id(&app, ONE_MSG_REGION_REMOVE, region), 0);
	assert_int_equal(join_new(&app, 2 * HUGE, HUGE, 2, fd, 1, PAGE), -EINVAL);
	assert_int_equal(join_new(&app, HUGE + PAGE, HUGE, 2, &small, 1, PAGE), 0);
	/* The file would begin a page behind a multiple of its page size. */
	assert_int_equal(join(&app, app.reply.id.id, fd, 1, 0, HUGE), -EINVAL);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_ADDRESS);
	app.msg.region_add = (struct one_region_add){.size = HUGE};
	assert_int_equal(app_call_fd(&app, ONE_MSG_REGION_ADD, fd[0]), 0);
	region = app.reply.id.id;
	app.msg.mr_create =
		(struct one_mr_create){.pz = pz,
				       .access = ONE_ACCESS_ALL,
				       .va = VA,
				       .length = 2 * PAGE,
				       .num_pieces = 2,
				       .piece = {{.region = region, .offset = PAGE, .length = PAGE},
						 {.region = region, .offset = PAGE, .length = PAGE}}};
	assert_int_equal(app_call(&app, ONE_MSG_MR_CREATE), -EOPNOTSUPP);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_REGION);
	files_close(fd, 3);
	close(small);
	app_close(&app);
	assert_clean();
}

int
joined_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_joined_refusals),
		cmocka_unit_test(test_joined_huge),
	};

	return cmocka_run_group_tests_name("control: joined regions", tests, NULL, NULL);
}
