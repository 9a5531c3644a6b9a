/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is not adopted: subject to bounced access, or shared mappings passed as such. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common.h"

/* ---- memory that is not adopted ---- */

static void
test_stack(void **state)
{
	uint8_t buffer[10000];
	struct one_mr mr;

	fill(buffer, sizeof(buffer), 1);
	mr = reg(buffer, sizeof(buffer));
	assert_int_equal(pieces(&mr), 0);
	assert_null(peer(&mr));
	assert_false(is_shared(buffer));
	dereg(&mr);
	assert_true(is_filled(buffer, sizeof(buffer), 1));
}

static void *
thread_on_its_stack(void *arg)
{
	uint8_t buffer[10000];
	struct one_mr mr;

	/* A thread's stack is anonymous memory, and can be adopted even while the thread runs on it. */
	fill(buffer, sizeof(buffer), 1);
	mr = reg(buffer, sizeof(buffer));
	assert_non_null(peer(&mr));
	assert_true(is_shared(buffer));
	assert_true(is_filled(buffer, sizeof(buffer), 1));
	fill(peer(&mr), sizeof(buffer), 2);
	assert_true(is_filled(buffer, sizeof(buffer), 2));
	dereg(&mr);
	assert_true(given_back(buffer));
	assert_true(is_filled(buffer, sizeof(buffer), 2));
	return NULL;
}

static void
test_thread_stack(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, thread_on_its_stack, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(adopted_mappings(), 0);
}

static void
test_thread_local(void **state)
{
	static __thread uint8_t buffer[64];
	struct one_mr mr = reg(buffer, sizeof(buffer));

	/* The buffer is next to this thread's control block. */
	buffer[5] = 3;
	errno = ENOENT;
	if (peer(&mr) != NULL)
		assert_int_equal(peer(&mr)[5], 3);
	dereg(&mr);
	assert_int_equal(buffer[5], 3);
}

static void
test_private_file(void **state)
{
	FILE *file = tmpfile();
	struct one_mr mr;
	uint8_t *p;

	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), 4 * PAGE), 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[0] = 1;
	mr = reg(p, 4 * PAGE);
	assert_int_equal(pieces(&mr), 0);
	assert_int_equal(p[0], 1);
	dereg(&mr);
	munmap(p, 4 * PAGE);
	fclose(file);
}

static void
test_partly_not(void **state)
{
	uint8_t *p = pages(30);
	struct one_mr mr;
	FILE *file = tmpfile();

	/* A single page that cannot be shared prevents adoption of the whole range. */
	assert_int_equal(ftruncate(fileno(file), PAGE), 0);
	assert_ptr_not_equal(
		mmap(p + 29 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fileno(file), 0),
		MAP_FAILED);
	mr = reg(p, 30 * PAGE);
	assert_int_equal(pieces(&mr), 0);
	assert_int_equal(adopted_mappings(), 0);
	dereg(&mr);
	munmap(p, 30 * PAGE);
	fclose(file);
}

/* ---- the application's own shared mappings ---- */

static void
check_shared_file(int fd, size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct one_mr mr, part;

	assert_ptr_not_equal(p, MAP_FAILED);
	fill(p, len, 1);
	mr = reg(p, len);
	assert_int_equal(pieces(&mr), 1);
	assert_true(is_filled(peer(&mr), len, 1));
	part = reg(p + 3 * PAGE + 5, 100);
	assert_int_equal(mock_regions(fixture.mock), 1);
	peer(&part)[0] = 0x99;
	assert_int_equal(p[3 * PAGE + 5], 0x99);
	dereg(&mr);
	dereg(&part);
	assert_int_equal(mock_regions(fixture.mock), 0);
	/* The mapping still shares the same file. */
	assert_true(is_shared(p));
	p[0] = 0x42;
	uint8_t seen;

	assert_int_equal(pread(fd, &seen, 1, 0), 1);
	assert_int_equal(seen, 0x42);
	munmap(p, len);
}

static void
test_shared_memfd(void **state)
{
	int fd = memfd_create("application", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, 10 * PAGE), 0);
	check_shared_file(fd, 10 * PAGE);
	close(fd);
	/* The size is no multiple of pages. */
	fd = memfd_create("application", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 9 * PAGE + 100), 0);
	check_shared_file(fd, 9 * PAGE + 100);
	close(fd);
}

static uint64_t
pages_in(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512 / PAGE;
}

/* Holes that the data plane finds are populated by the library, within the range only, and the call is
 * repeated. */
static void
test_shared_sparse(void **state)
{
	int fd = memfd_create("application", MFD_CLOEXEC);
	struct one_mr mr;
	uint8_t *p;

	assert_int_equal(ftruncate(fd, 100 * PAGE), 0);
	p = mmap(NULL, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mock_refuse(fixture.mock, ONE_MSG_MR_CREATE, -EFAULT, ONE_SUBJECT_ADDRESS, (uintptr_t)p + 10 * PAGE,
		    1);
	mr = reg(p + 10 * PAGE + 5, 20 * PAGE);
	assert_int_equal(pages_in(fd), 21);
	assert_int_equal(pieces(&mr), 1);
	dereg(&mr);
	/* The data plane reports an existing page as a hole: the call fails. */
	mock_refuse(fixture.mock, ONE_MSG_MR_CREATE, -EFAULT, ONE_SUBJECT_ADDRESS, (uintptr_t)p, 2);
	assert_int_equal(one_mem_register(fixture.client, 1, (uintptr_t)p, PAGE, ALL, &mr), -EFAULT);
	munmap(p, 100 * PAGE);
	close(fd);
}

static void
test_shared_shm(void **state)
{
	char name[64];
	uint8_t *p;
	struct one_mr mr;
	int fd;

	snprintf(name, sizeof(name), "/oneside-test-%d", getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 8 * PAGE), 0);
	check_shared_file(fd, 8 * PAGE);
	/* The descriptor is closed, but the name exists. */
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 2 * PAGE);
	close(fd);
	mr = reg(p, 4 * PAGE);
	assert_int_equal(pieces(&mr), 1);
	peer(&mr)[10] = 1;
	assert_int_equal(p[10], 1);
	dereg(&mr);
	/* Name and descriptor are gone: the file cannot be passed. */
	shm_unlink(name);
	mr = reg(p, 4 * PAGE);
	assert_int_equal(pieces(&mr), 0);
	dereg(&mr);
	munmap(p, 4 * PAGE);
	/* The name is gone, but the descriptor exists. */
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_int_equal(ftruncate(fd, 8 * PAGE), 0);
	shm_unlink(name);
	check_shared_file(fd, 8 * PAGE);
	close(fd);
}

static int
shared_memfd(const char *name, size_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static void
test_shared_not_usable(void **state)
{
	FILE *file = tmpfile();
	int fd = memfd_create("application", MFD_CLOEXEC), ro;
	char path[64];
	struct one_mr mr;
	uint8_t *p;

	/* A file on a disk shares its page cache (unless /tmp is a tmpfs). */
	assert_int_equal(ftruncate(fileno(file), 4 * PAGE), 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	mr = reg(p, 4 * PAGE);
	p[0] = 1;
	if (peer(&mr) != NULL)
		assert_int_equal(peer(&mr)[0], 1);
	dereg(&mr);
	munmap(p, 4 * PAGE);
	fclose(file);

	/* Anonymous shared memory has no descriptor. */
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	mr = reg(p, 4 * PAGE);
	assert_int_equal(pieces(&mr), 0);
	dereg(&mr);
	munmap(p, 4 * PAGE);

	/* A range adopted by another copy of the library, which may make it private at any time. */
	ro = shared_memfd("oneside", PAGE);
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0);
	mr = reg(p, PAGE);
	assert_int_equal(pieces(&mr), 0);
	dereg(&mr);
	munmap(p, PAGE);
	close(ro);

	/* The only descriptor is for reading. */
	assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(ro >= 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, ro, 0);
	close(fd);
	assert_int_equal(
		one_mem_register(fixture.client, 0, (uintptr_t)p, 4 * PAGE, ONE_ACCESS_LOCAL_READ, &mr), 0);
	assert_int_equal(pieces(&mr), 0);
	dereg(&mr);
	munmap(p, 4 * PAGE);
	close(ro);

	/* The data plane refuses the file. */
	fd = memfd_create("application", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mock_refuse(fixture.mock, ONE_MSG_REGION_ADD, -EINVAL, ONE_SUBJECT_REGION, 0, 1);
	mr = reg(p, 4 * PAGE);
	assert_int_equal(pieces(&mr), 0);
	dereg(&mr);
	munmap(p, 4 * PAGE);
	close(fd);
}

static void
test_out_of_descriptors(void **state)
{
	enum { COUNT = 60 };
	struct rlimit old, few;
	uint8_t *p[COUNT + 1];
	struct one_mr mr[COUNT + 1];

	/* Ranges with files of their own use at most half of the descriptors. */
	for (int i = 0; i < COUNT; i++) {
		p[i] = pages(20);
		mr[i] = reg(p[i], 20 * PAGE);
		assert_non_null(peer(&mr[i]));
	}
	p[COUNT] = pages(20);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 2 * COUNT;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	mr[COUNT] = reg(p[COUNT], 20 * PAGE);
	assert_null(peer(&mr[COUNT]));
	dereg(&mr[COUNT]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	mr[COUNT] = reg(p[COUNT], 20 * PAGE);
	assert_non_null(peer(&mr[COUNT]));
	for (int i = 0; i < COUNT + 1; i++) {
		dereg(&mr[i]);
		munmap(p[i], 20 * PAGE);
	}
	assert_int_equal(adopted_mappings(), 0);
}

/* ---- many files ---- */

/* Reserve addresses for `n` files of `page` bytes, aligned to `page`. */
static uint8_t *
place_for_files(uint32_t n, size_t page)
{
	uint8_t *all =
		mmap(NULL, (n + 1) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before = -(uintptr_t)all & (page - 1);

	assert_ptr_not_equal(all, MAP_FAILED);
	munmap(all, before);
	munmap(all + before + n * page, page - before);
	return all + before;
}

static bool
map_file_at(uint8_t *at, int fd, size_t page)
{
	return fd >= 0 && ftruncate(fd, (off_t)page) == 0 &&
	       mmap(at, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) == at;
}

/* The range is one piece, aligned to its page size. */
static void
check_joined(uint8_t *p, uint32_t n, size_t page, bool huge)
{
	const size_t before = 3 * PAGE + 5, length = n * page - 2 * before;
	struct one_mr mr = reg(p + before, length);

	assert_int_equal(pieces(&mr), 1);
	assert_int_equal(((uintptr_t)peer(&mr) - (uintptr_t)p - before) % (huge ? page : PAGE), 0);
	for (uint32_t i = 1; !huge && i < n; i++) {
		p[i * page] = (uint8_t)i;
		assert_int_equal(peer(&mr)[i * page - before], (uint8_t)i);
		peer(&mr)[i * page - 1 - before] = (uint8_t)(i + 1);
		assert_int_equal(p[i * page - 1], (uint8_t)(i + 1));
	}
	dereg(&mr);
	assert_int_equal(mock_regions(fixture.mock), 0);
}

/* Hugepages, one per file. No hugepage needs to be free, since none is touched. */
static void
test_huge_files(void **state)
{
	enum { MOST = 40 };
	const size_t huge = 2u << 20;
	uint8_t *p = place_for_files(MOST, huge);
	int fd[MOST];

	for (uint32_t i = 0; i < MOST; i++) {
		fd[i] = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
		if (!map_file_at(p + i * huge, fd[i], huge))
			skip();
	}
	for (uint32_t n = 2; n <= MOST; n += 19)
		check_joined(p, n, huge, true);
	munmap(p, MOST * huge);
	for (uint32_t i = 0; i < MOST; i++)
		close(fd[i]);
}

/* More files than pieces, some with descriptors and some with names, under a limit of descriptors below their
 * number. */
static void
test_many_files(void **state)
{
	enum { COUNT = 300, OPEN = 20 };
	const size_t size = PAGE * 4;
	uint8_t *p = place_for_files(COUNT, size);
	struct rlimit old, few;
	char name[64];
	int fd[COUNT];

	for (uint32_t i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "/oneside-%d-%u", (int)getpid(), i);
		fd[i] = i < OPEN ? shared_memfd("open", size) : shm_open(name, O_CREAT | O_RDWR, 0600);
		assert_true(map_file_at(p + i * size, fd[i], size));
		if (i >= OPEN)
			close(fd[i]);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 100;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	check_joined(p, COUNT, size, false);
	check_joined(p + 10 * size, 33, size, false);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	munmap(p, COUNT * size);
	for (uint32_t i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "/oneside-%d-%u", (int)getpid(), i);
		if (i < OPEN)
			close(fd[i]);
		else
			shm_unlink(name);
	}
}

/* Refuse the third message. */
static bool
refuse_third(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	     struct one_reply *reply, void *user)
{
	uint32_t *messages = user;

	if (++*messages != 3)
		return false;
	reply->error = -EDQUOT;
	reply->subject = ONE_SUBJECT_QUOTA;
	return true;
}

/* A join refused half way is undone, and the memory is subject to bounced access. Files are joined with
 * private memory. */
static void
test_joined_undone(void **state)
{
	enum { COUNT = 40 };
	uint8_t *p = place_for_files(COUNT + 1, PAGE);
	uint32_t messages = 0;
	struct one_mr mr;
	int fd[COUNT];

	for (uint32_t i = 0; i < COUNT; i++) {
		fd[i] = shared_memfd("file", PAGE);
		assert_true(map_file_at(p + i * PAGE, fd[i], PAGE));
	}
	mprotect(p + COUNT * PAGE, PAGE, PROT_READ | PROT_WRITE);
	mock_on(fixture.mock, ONE_MSG_REGION_JOIN, refuse_third, &messages);
	mr = reg(p, COUNT * PAGE);
	mock_on(fixture.mock, ONE_MSG_REGION_JOIN, NULL, NULL);
	assert_int_equal(messages, 3);
	assert_int_equal(pieces(&mr), 0);
	assert_int_equal(mock_regions(fixture.mock), 0);
	dereg(&mr);
	p[COUNT * PAGE] = 1;
	mr = reg(p, (COUNT + 1) * PAGE);
	assert_int_equal(pieces(&mr), 1);
	assert_int_equal(peer(&mr)[COUNT * PAGE], 1);
	p[COUNT * PAGE] = 2;
	assert_int_equal(peer(&mr)[COUNT * PAGE], 2);
	dereg(&mr);
	assert_int_equal(p[COUNT * PAGE], 2);
	munmap(p, (COUNT + 1) * PAGE);
	for (uint32_t i = 0; i < COUNT; i++)
		close(fd[i]);
}

/* A System V segment has no descriptor to pass. */
static void
test_sysv_shm(void **state)
{
	int id = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
	uint8_t *p = shmat(id, NULL, 0);
	struct one_mr mr;

	assert_ptr_not_equal(p, (void *)-1);
	shmctl(id, IPC_RMID, NULL);
	fill(p, 4 * PAGE, 1);
	mr = reg(p, 4 * PAGE);
	assert_int_equal(pieces(&mr), 0);
	dereg(&mr);
	assert_true(is_filled(p, 4 * PAGE, 1));
	shmdt(p);
}

static bool
child_has(const void *p)
{
	unsigned char there;
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(mincore((void *)(uintptr_t)p, PAGE, &there) == 0 ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status) == 1;
}

/* MADV_DONTFORK is restored afterwards, and only where the application has set it. */
static void
test_dontfork(void **state)
{
	uint8_t *p = pages(12);
	struct one_mr mr;

	p[0] = p[8 * PAGE] = 1;
	assert_int_equal(madvise(p, 4 * PAGE, MADV_DONTFORK), 0);
	mr = reg(p, 4 * PAGE);
	assert_int_equal(pieces(&mr), 1);
	dereg(&mr);
	mr = reg(p + 8 * PAGE, 4 * PAGE);
	dereg(&mr);
	assert_false(child_has(p));
	assert_true(child_has(p + 8 * PAGE));
	assert_int_equal(p[0], 1);
	munmap(p, 12 * PAGE);
}

/* No file exceeds RLIMIT_FSIZE: that would kill the program (SIGXFSZ). */
static void
test_file_size_limit(void **state)
{
	const size_t size = 8u << 20;
	struct rlimit old, few;
	uint8_t *p = pages(size / PAGE);
	struct one_mr mr;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	few = old;
	few.rlim_cur = size - PAGE;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	fill(p, size, 1);
	mr = reg(p, size);
	assert_int_equal(pieces(&mr), 0);
	dereg(&mr);
	mr = reg(p, size / 2);
	assert_int_equal(pieces(&mr), 1);
	assert_true(is_filled(peer(&mr), size / 2, 1));
	dereg(&mr);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	munmap(p, size);
}

/* All present and future memory of the program is locked. */
static void
test_mlockall(void **state)
{
	uint8_t *p;
	struct one_mr mr;

	if (syscall(SYS_mlockall, MCL_CURRENT | MCL_FUTURE |
					  (SHADOWED ? MCL_ONFAULT : 0) /* no terabytes of shadow */) != 0)
		skip();
	p = pages(20);
	fill(p, 20 * PAGE, 1);
	mr = reg(p, 20 * PAGE);
	assert_int_equal(pieces(&mr), 1);
	assert_true(is_filled(peer(&mr), 20 * PAGE, 1));
	fill(p, 20 * PAGE, 2);
	assert_true(is_filled(peer(&mr), 20 * PAGE, 2));
	dereg(&mr);
	assert_true(is_filled(p, 20 * PAGE, 2));
	syscall(SYS_munlockall);
	munmap(p, 20 * PAGE);
}

static void
test_locked_stays_locked(void **state)
{
	uint8_t *p = pages(20);
	struct one_mr mr;
	char line[256];
	uint64_t before = 0, during = 0, after = 0, *into[] = {&before, &during, &after};

	/* A direct system call: sanitizers disable mlock(). */
	if (syscall(SYS_mlock, p, 20 * PAGE) != 0)
		skip();
	for (int i = 0; i < 3; i++) {
		FILE *status = fopen("/proc/self/status", "r");

		while (fgets(line, sizeof(line), status) != NULL) {
			if (sscanf(line, "VmLck: %" SCNu64, into[i]) == 1)
				break;
		}
		fclose(status);
		if (i == 0)
			mr = reg(p, 20 * PAGE);
		else if (i == 1)
			dereg(&mr);
	}
	assert_int_equal(before, 20 * PAGE / 1024);
	assert_int_equal(during, before);
	assert_int_equal(after, before);
	munmap(p, 20 * PAGE);
}

int
main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_stack),
		TEST(test_thread_stack),
		TEST(test_thread_local),
		TEST(test_private_file),
		TEST(test_partly_not),
		TEST(test_shared_memfd),
		TEST(test_shared_sparse),
		TEST(test_shared_shm),
		TEST(test_shared_not_usable),
		TEST(test_out_of_descriptors),
		TEST(test_file_size_limit),
		TEST(test_sysv_shm),
		TEST(test_huge_files),
		TEST(test_many_files),
		TEST(test_joined_undone),
		TEST(test_dontfork),
		TEST(test_locked_stays_locked),
		TEST(test_mlockall),
	};

	restrict_program(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
