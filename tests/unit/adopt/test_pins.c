/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the kernel or a device uses: io_uring's fixed buffers, direct I/O, vmsplice, process_vm_writev.
 * Whatever is registered, deregistered, evicted, forked or unmapped meanwhile, the program sees their stores,
 * and they see the program's. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "common.h"
#include "tests/kernel_moves.h"
#include "tests/uring.h"

#define BUFFER (16 * PAGE)

/* ---- io_uring ---- */

static void
ring_open(struct uring *ring)
{
	if (uring_open(ring) != 0)
		skip();
}

/* A later test requires that nothing is pinned when it registers. */
static void
ring_close(struct uring *ring)
{
	uring_close(ring);
	uring_await_unpinned();
}

static void
ring_pin(const struct uring *ring, void *p, size_t len)
{
	assert_int_equal(uring_pin(ring, p, len), 0);
}

static void
ring_unpin(const struct uring *ring)
{
	assert_int_equal(uring_unpin(ring), 0);
}

static void
ring_io(const struct uring *ring, uint8_t op, int fd, void *p, size_t len, uint64_t offset)
{
	assert_int_equal(uring_io(ring, op, fd, p, len, offset), len);
}

static int
scratch_file(size_t size)
{
	int fd = memfd_create("scratch", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

/* The program sees what the device stores to the buffer, and the device what the program stores. */
static void
check_device(struct uring *ring, void *p, size_t len, uint32_t seed)
{
	int fd = scratch_file(len);
	uint8_t *data = malloc(len);

	fill(data, len, seed);
	assert_int_equal(pwrite(fd, data, len, 0), len);
	ring_io(ring, IORING_OP_READ_FIXED, fd, p, len, 0);
	assert_true(is_filled(p, len, seed));
	fill(p, len, seed + 1);
	ring_io(ring, IORING_OP_WRITE_FIXED, fd, p, len, 0);
	assert_int_equal(pread(fd, data, len, 0), len);
	assert_true(is_filled(data, len, seed + 1));
	free(data);
	close(fd);
}

static void
test_fixed_before(void **state)
{
	uint8_t *p = pages(16);
	struct uring ring;
	struct one_mr mr;

	ring_open(&ring);
	fill(p, BUFFER, 1);
	ring_pin(&ring, p, BUFFER);
	mr = reg(p, BUFFER);
	/* The memory is subject to bounced access. */
	assert_int_equal(pieces(&mr), 0);
	assert_false(is_shared(p));
	assert_true(is_filled(p, BUFFER, 1));
	check_device(&ring, p, BUFFER, 2);
	dereg(&mr);
	check_device(&ring, p, BUFFER, 4);
	/* A single pinned page is enough. */
	ring_unpin(&ring);
	ring_pin(&ring, p + 7 * PAGE, PAGE);
	mr = reg(p, BUFFER);
	assert_int_equal(pieces(&mr), 0);
	check_device(&ring, p + 7 * PAGE, PAGE, 6);
	dereg(&mr);
	ring_unpin(&ring);
	ring_close(&ring);
	mr = reg(p, BUFFER);
	assert_int_equal(pieces(&mr), 1);
	dereg(&mr);
	munmap(p, BUFFER);
}

/* Only the last chunk of a large range is pinned. */
static void
test_fixed_large(void **state)
{
	size_t len = 40ull << 20;
	uint8_t *p = pages(len / PAGE);
	struct uring ring;
	struct one_mr mr;

	ring_open(&ring);
	fill(p, len, 1);
	ring_pin(&ring, p + len - PAGE, PAGE);
	mr = reg(p, len);
	assert_int_equal(pieces(&mr), 0);
	assert_true(is_filled(p, len, 1));
	check_device(&ring, p + len - PAGE, PAGE, 2);
	dereg(&mr);
	check_device(&ring, p + len - PAGE, PAGE, 4);
	ring_close(&ring);
	munmap(p, len);
}

static void
test_fixed_after(void **state)
{
	uint8_t *p = pages(16);
	struct one_mr mr = reg(p, BUFFER);
	struct uring ring;

	assert_int_equal(pieces(&mr), 1);
	ring_open(&ring);
	ring_pin(&ring, p, BUFFER);
	check_device(&ring, p, BUFFER, 1);
	assert_memory_equal(peer(&mr), p, BUFFER);
	dereg(&mr);
	check_device(&ring, p, BUFFER, 3);
	mr = reg(p, BUFFER);
	assert_int_equal(pieces(&mr), 1);
	check_device(&ring, p, BUFFER, 5);
	assert_memory_equal(peer(&mr), p, BUFFER);
	dereg(&mr);
	ring_close(&ring);
	munmap(p, BUFFER);
}

/* A child has a copy, unaffected by the device's stores to the parent's memory. */
static void
check_fork(struct uring *ring, uint8_t *p, size_t len, uint32_t seed)
{
	pid_t pid;
	int status;

	fill(p, len, seed);
	pid = fork();
	if (pid == 0) {
		bool same = is_filled(p, len, seed);

		memset(p, 0, len);
		_exit(same ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(is_filled(p, len, seed));
	check_device(ring, p, len, seed + 1);
}

static void
test_fork(void **state)
{
	uint8_t *p = pages(16);
	struct one_mr mr = reg(p, BUFFER);
	struct uring ring;

	ring_open(&ring);
	ring_pin(&ring, p, BUFFER);
	check_fork(&ring, p, BUFFER, 1);
	assert_memory_equal(peer(&mr), p, BUFFER);
	dereg(&mr);
	check_fork(&ring, p, BUFFER, 5);
	ring_close(&ring);
	munmap(p, BUFFER);
}

static void
test_evicted(void **state)
{
	enum { COUNT = 100 };
	uint8_t *p = pages(16), *other[COUNT];
	struct one_mr mr = reg(p, BUFFER), mrs[COUNT];
	struct uring ring;

	ring_open(&ring);
	ring_pin(&ring, p, BUFFER);
	dereg(&mr);
	for (int i = 0; i < COUNT; i++) {
		other[i] = pages(20);
		mrs[i] = reg(other[i], 20 * PAGE);
	}
	for (int i = 0; i < COUNT; i++)
		dereg(&mrs[i]);
	check_device(&ring, p, BUFFER, 1);
	for (int i = 0; i < COUNT; i++)
		munmap(other[i], 20 * PAGE);
	ring_close(&ring);
	munmap(p, BUFFER);
}

static bool
is_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i] != 0)
			return false;
	}
	return true;
}

/* Memory that stays shared because it is pinned behaves like private memory. */
static void
test_as_private(void **state)
{
	uint8_t *p = pages(16);
	struct one_mr mr = reg(p, BUFFER);
	struct uring ring;

	if (!keeping)
		skip(); /* no userfaultfd reports the changes */
	ring_open(&ring);
	ring_pin(&ring, p, PAGE);
	/* Each registration gives the range a guard of its own, which the first drop ends. */
	for (uint32_t i = 0; i < 200; i++) {
		dereg(&mr);
		for (uint32_t k = 0; k < 3; k++) {
			fill(p + 4 * PAGE, 2 * PAGE, i);
			assert_int_equal(madvise(p + 4 * PAGE, 2 * PAGE, MADV_DONTNEED), 0);
			assert_true(is_zero(p + 4 * PAGE, 2 * PAGE));
		}
		check_device(&ring, p, PAGE, i);
		mr = reg(p, BUFFER);
	}
	dereg(&mr);
	fill(p, BUFFER, 7);
	munmap(p + 8 * PAGE, 8 * PAGE);
	check_device(&ring, p, PAGE, 8);
	assert_true(is_filled(p + PAGE, 3 * PAGE, 7) || !is_zero(p + PAGE, 3 * PAGE));
	/* The data plane gets pages that were discarded as new ones. */
	assert_int_equal(madvise(p + 2 * PAGE, PAGE, MADV_DONTNEED), 0);
	mr = reg(p, 8 * PAGE);
	assert_int_equal(pieces(&mr), 1);
	assert_memory_equal(peer(&mr), p, 8 * PAGE);
	dereg(&mr);
	ring_close(&ring);
	munmap(p, 8 * PAGE);
}

static unsigned int
adopted_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned int n = 0;
	char link[256];

	while ((entry = readdir(dir)) != NULL) {
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		link[len > 0 ? len : 0] = '\0';
		n += strncmp(link, "/memfd:oneside ", 15) == 0;
	}
	closedir(dir);
	return n;
}

/* While pages may be pinned, unmapped memory leaves no descriptor behind. Without UFFDIO_MOVE it is not
 * adopted at all while a ring is open. */
static void
test_no_debris(void **state)
{
	struct uring ring;
	struct one_mr mr;
	uint8_t *p;

	ring_open(&ring);
	for (int i = 0; i < 300; i++) {
		p = pages(20);
		p[0] = 1;
		mr = reg(p, 20 * PAGE);
		assert_int_equal(pieces(&mr), kernel_moves() ? 1 : 0);
		dereg(&mr);
		munmap(p, 20 * PAGE);
	}
	assert_true(adopted_fds() < 200);
	ring_close(&ring);
}

/* The child's ring has pinned the parent's memory; the parent has closed it, and knows by VmPin only. */
static void
test_ring_of_child(void **state)
{
	uint8_t *p = pages(16), *data = malloc(BUFFER);
	struct one_mr mr = reg(p, BUFFER);
	int go[2], status, file = scratch_file(BUFFER);
	struct uring ring;
	char byte;
	pid_t pid;

	fill(data, BUFFER, 2);
	assert_int_equal(pwrite(file, data, BUFFER, 0), BUFFER);
	assert_int_equal(pipe(go), 0);
	ring_open(&ring);
	ring_pin(&ring, p, BUFFER);
	pid = fork();
	if (pid == 0) {
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		_exit(uring_io(&ring, IORING_OP_READ_FIXED, file, p, BUFFER, 0) == (int)BUFFER ? 0 : 2);
	}
	uring_close(&ring);
	dereg(&mr);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	uring_await_unpinned();
	assert_true(is_filled(p, BUFFER, 2));
	free(data);
	close(go[0]);
	close(go[1]);
	close(file);
	munmap(p, BUFFER);
}

/* ---- evidence of pins ---- */

static int
open_ring(void)
{
	struct io_uring_params params = {.flags = 0};

	return (int)syscall(SYS_io_uring_setup, 4, &params);
}

static int
open_xdp(void)
{
	return socket(44 /* AF_XDP */, SOCK_RAW | SOCK_CLOEXEC, 0);
}

static int
open_directly(void)
{
	char path[] = "/var/tmp/oneside-pins-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	unlink(path);
	if (fcntl(fd, F_SETFL, O_DIRECT) == 0)
		return fd;
	close(fd);
	return -1;
}

static int
open_loop(void)
{
	return open("/dev/loop-control", O_RDONLY | O_CLOEXEC);
}

static int
open_clock(void)
{
	return open("/dev/rtc0", O_RDONLY | O_CLOEXEC);
}

/* Opens a block device of this machine, if there is one that the caller may read. */
static int
open_disk(void)
{
	DIR *dir = opendir("/dev");
	const struct dirent *entry;
	int fd = -1;

	while (fd < 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_type == DT_BLK)
			fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
	}
	closedir(dir);
	return fd;
}

static int
open_null(void)
{
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int
open_terminal(void)
{
	return open("/dev/ptmx", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

static int
open_fuse(void)
{
	return open("/dev/fuse", O_RDWR | O_CLOEXEC);
}

static int
open_pipe(void)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) != 0)
		return -1;
	close(fd[1]);
	return fd[0];
}

static const struct evidence {
	const char *name;
	int (*open)(void);
	bool pins;
} evidence[] = {
	{"io_uring", open_ring, true},
	{"an AF_XDP socket", open_xdp, true},
	{"a file with O_DIRECT", open_directly, true},
	{"a block device", open_disk, true},
	{"/dev/loop-control", open_loop, true},
	{"/dev/rtc0", open_clock, true},
	{"/dev/null", open_null, false},
	{"a terminal", open_terminal, false},
	{"/dev/fuse", open_fuse, false},
	{"a pipe", open_pipe, false},
};

/* With evidence of pins memory stays shared after its deregistration, or is not adopted without UFFDIO_MOVE.
 */
static void
check_evidence(const struct evidence *e)
{
	uint8_t *p = pages(16);
	int fd = e->open();
	struct one_mr mr;

	if (fd < 0) {
		printf("left out: %s: %s\n", e->name, strerror(errno));
	} else {
		fill(p, BUFFER, 1);
		mr = reg(p, BUFFER);
		if (pieces(&mr) != (e->pins && !kernel_moves() ? 0 : 1))
			fail_msg("%s: registered in %u pieces", e->name, pieces(&mr));
		dereg(&mr);
		if (is_shared(p) != (e->pins && kernel_moves()))
			fail_msg("%s: deregistered, %s", e->name, is_shared(p) ? "shared" : "private");
		assert_true(is_filled(p, BUFFER, 1));
		close(fd);
	}
	munmap(p, BUFFER);
}

static void
test_evidence(void **state)
{
	if (keeping)
		skip(); /* memory stays shared in any case */
	for (size_t i = 0; i < sizeof(evidence) / sizeof(evidence[0]); i++)
		check_evidence(&evidence[i]);
}

/* Mounts an overlay at /mnt/all for this process alone, and holds it until `go` ends. */
_Noreturn static void
hold_overlay(int done, int go)
{
	char byte;

	if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("none", "/mnt", "tmpfs", 0, NULL) == 0 && mkdir("/mnt/low", 0755) == 0 &&
	    mkdir("/mnt/up", 0755) == 0 && mkdir("/mnt/work", 0755) == 0 && mkdir("/mnt/all", 0755) == 0 &&
	    mount("none", "/mnt/all", "overlay", 0, "lowerdir=/mnt/low,upperdir=/mnt/up,workdir=/mnt/work") ==
		    0)
		byte = 1;
	else
		byte = 0;
	if (write(done, &byte, 1) == 1 && read(go, &byte, 1) == 0)
		_exit(0);
	_exit(1);
}

/* Opens a file with O_DIRECT on a file system of which the library does not know that direct I/O pins pages.
 */
static int
open_elsewhere(void)
{
	int done[2], go[2], fd = -1;
	char path[64], byte = 0;
	pid_t pid;

	assert_int_equal(pipe2(done, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		hold_overlay(done[1], go[0]);
	}
	snprintf(path, sizeof(path), "/proc/%d/root/mnt/all/file", (int)pid);
	assert_int_equal(read(done[0], &byte, 1), 1);
	if (byte == 1)
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_DIRECT, 0600);
	for (int i = 0; i < 2; i++) {
		close(done[i]);
		close(go[i]);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return fd;
}

/* UFFDIO_MOVE does not find direct I/O of such file systems, so all memory is copied. */
static void
test_direct_elsewhere(void **state)
{
	uint8_t *p = pages(16);
	int fd = open_elsewhere();
	struct one_mr mr;

	if (fd < 0)
		skip();
	fill(p, BUFFER, 1);
	mr = reg(p, BUFFER);
	assert_int_equal(pieces(&mr), 0);
	dereg(&mr);
	close(fd);
	mr = reg(p, BUFFER);
	assert_int_equal(pieces(&mr), 1);
	dereg(&mr);
	munmap(p, BUFFER);
}

/* ---- random steps ---- */

static uint32_t
draw(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % below;
}

struct model {
	uint8_t *p;
	size_t len; /* bytes in use; the rest of the buffer is unmapped */
	uint32_t seed;
	bool pinned, registered;
	struct one_mr mr;
	struct uring ring;
};

static void
model_check(struct model *m)
{
	assert_true(is_filled(m->p, m->len, m->seed));
	if (m->registered && pieces(&m->mr) != 0)
		assert_memory_equal(mock_mr_ptr(fixture.mock, m->mr.id, m->mr.va, m->len), m->p, m->len);
	m->seed += 2;
	if (m->pinned)
		check_device(&m->ring, m->p, m->len, m->seed - 1);
	else
		fill(m->p, m->len, m->seed);
	assert_true(is_filled(m->p, m->len, m->seed));
	if (m->registered && pieces(&m->mr) != 0)
		assert_memory_equal(mock_mr_ptr(fixture.mock, m->mr.id, m->mr.va, m->len), m->p, m->len);
}

/* Restore the whole buffer, with zero pages where it was unmapped. */
static void
model_whole(struct model *m)
{
	if (m->registered)
		dereg(&m->mr);
	if (m->pinned)
		ring_unpin(&m->ring);
	m->registered = m->pinned = false;
	mmap(m->p + m->len, BUFFER - m->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
	     -1, 0);
	m->len = BUFFER;
	fill(m->p, m->len, m->seed);
}

static void
model_evict(void)
{
	uint8_t *p = pages(70 * 20);
	struct one_mr mr[70];

	for (int i = 0; i < 70; i++)
		mr[i] = reg(p + i * 20 * PAGE, 19 * PAGE);
	for (int i = 0; i < 70; i++)
		dereg(&mr[i]);
	munmap(p, 70 * 20 * PAGE);
}

static void
model_step(struct model *m, uint32_t what)
{
	int status;
	pid_t pid;

	switch (what) {
	case 0:
	case 1:
	case 2:
		if (m->registered)
			dereg(&m->mr);
		else
			m->mr = reg(m->p, m->len);
		m->registered = !m->registered;
		break;
	case 3:
	case 4:
	case 5:
		if (m->pinned)
			ring_unpin(&m->ring);
		else
			ring_pin(&m->ring, m->p, m->len);
		m->pinned = !m->pinned;
		break;
	case 6:
		pid = fork();
		if (pid == 0)
			_exit(is_filled(m->p, m->len, m->seed) ? 0 : 1);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		break;
	case 7:
		if (m->len == BUFFER) {
			munmap(m->p + BUFFER / 2, BUFFER / 2);
			/* No other mapping may be placed there. */
			mmap(m->p + BUFFER / 2, BUFFER / 2, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			m->len = BUFFER / 2;
		} else {
			model_whole(m);
		}
		break;
	default:
		model_evict();
	}
}

static void
test_rounds(void **state)
{
	const char *rounds = getenv("PIN_ROUNDS");
	struct model m = {.p = pages(16), .len = BUFFER};
	uint32_t seed = 1;

	ring_open(&m.ring);
	fill(m.p, m.len, m.seed);
	for (int i = 0; i < (rounds != NULL ? atoi(rounds) : 1000); i++) {
		model_step(&m, draw(&seed, 40) == 0 ? 8 : draw(&seed, 8));
		model_check(&m);
	}
	model_whole(&m);
	ring_close(&m.ring);
	munmap(m.p, BUFFER);
}

/* ---- short-lived pins ---- */

struct reader {
	int fd;
	uint8_t *p;
	_Atomic bool stop;
	_Atomic uint32_t reads, wrong;
};

static void *
read_directly(void *arg)
{
	struct reader *r = arg;

	while (!atomic_load(&r->stop)) {
		uint32_t n = atomic_load(&r->reads) % 8;
		ssize_t got = pread(r->fd, r->p, 4 * PAGE, (off_t)(n * 4 * PAGE));

		/* A system call without full userfaultfd may use pages that are being replaced. */
		if (got == -1 && errno == EFAULT && !calls_wait)
			continue;
		if (got != 4 * PAGE || !is_filled(r->p, 4 * PAGE, n))
			atomic_fetch_add(&r->wrong, 1);
		atomic_fetch_add(&r->reads, 1);
	}
	return NULL;
}

static void
test_direct(void **state)
{
	const char *folder = getenv("PIN_FOLDER");
	struct reader r = {.p = pages(16)};
	uint8_t *data = pages(4);
	char path[256];
	pthread_t thread;
	struct one_mr mr;

	snprintf(path, sizeof(path), "%s/oneside-pins-XXXXXX", folder != NULL ? folder : "/var/tmp");
	r.fd = mkstemp(path);
	assert_true(r.fd >= 0);
	for (uint32_t n = 0; n < 8; n++) {
		fill(data, 4 * PAGE, n);
		assert_int_equal(write(r.fd, data, 4 * PAGE), 4 * PAGE);
	}
	fsync(r.fd);
	if (fcntl(r.fd, F_SETFL, O_DIRECT) != 0) {
		unlink(path);
		skip();
	}
	assert_int_equal(pthread_create(&thread, NULL, read_directly, &r), 0);
	for (uint32_t i = 0; i < 300 || atomic_load(&r.reads) < 100; i++) {
		mr = reg(r.p, 16 * PAGE);
		dereg(&mr);
	}
	atomic_store(&r.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&r.wrong), 0);
	close(r.fd);
	unlink(path);
	munmap(r.p, 16 * PAGE);
	munmap(data, 4 * PAGE);
}

#define LARGE (2048 * PAGE)
#define MEDIUM (512 * PAGE)

static void *
read_medium(void *arg)
{
	struct reader *r = arg;

	while (!atomic_load(&r->stop)) {
		memset(r->p, 0, MEDIUM);
		if (pread(r->fd, r->p, MEDIUM, 0) != (ssize_t)MEDIUM || !is_filled(r->p, MEDIUM, 1))
			atomic_fetch_add(&r->wrong, 1);
		atomic_fetch_add(&r->reads, 1);
	}
	return NULL;
}

/* A system call that stores to memory while another thread registers it waits, with the full userfaultfd. */
static void
test_calls_wait(void **state)
{
	struct reader r = {.p = pages(512), .fd = scratch_file(MEDIUM)};
	pthread_t thread;
	struct one_mr mr;

	if (!calls_wait)
		skip();
	fill(r.p, MEDIUM, 1);
	assert_int_equal(pwrite(r.fd, r.p, MEDIUM, 0), MEDIUM);
	assert_int_equal(pthread_create(&thread, NULL, read_medium, &r), 0);
	for (uint32_t i = 0; i < 20 || atomic_load(&r.reads) < 20; i++) {
		mr = reg(r.p, MEDIUM);
		dereg(&mr);
	}
	atomic_store(&r.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&r.wrong), 0);
	close(r.fd);
	munmap(r.p, MEDIUM);
}

static void
test_vmsplice(void **state)
{
	uint8_t *p = pages(4), data[PAGE];
	struct iovec iov = {.iov_base = p, .iov_len = PAGE};
	struct one_mr mr;
	int pipes[2];

	fill(p, 4 * PAGE, 1);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(vmsplice(pipes[1], &iov, 1, 0), PAGE);
	mr = reg(p, 4 * PAGE);
	assert_int_equal(read(pipes[0], data, PAGE), PAGE);
	assert_true(is_filled(data, PAGE, 1));
	fill(p, 4 * PAGE, 2);
	assert_int_equal(vmsplice(pipes[1], &iov, 1, 0), PAGE);
	dereg(&mr);
	assert_int_equal(read(pipes[0], data, PAGE), PAGE);
	assert_true(is_filled(data, PAGE, 2));
	close(pipes[0]);
	close(pipes[1]);
	munmap(p, 4 * PAGE);
}

/* A second process stores by process_vm_writev, and must read back what it has stored. */
static void
write_from_outside(pid_t parent, uint64_t *p, int ready)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t n = 1, done = 0;; n++) {
		struct iovec local = {.iov_base = &n, .iov_len = sizeof(n)};
		struct iovec remote = {.iov_base = p, .iov_len = sizeof(n)};
		uint64_t found = 0;
		ssize_t got;

		do
			got = process_vm_writev(parent, &local, 1, &remote, 1, 0);
		while (got < 0 && errno == EFAULT);
		local.iov_base = &found;
		do
			got = process_vm_readv(parent, &local, 1, &remote, 1, 0);
		while (got < 0 && errno == EFAULT);
		if (got != sizeof(n))
			_exit(2);
		if (found != n)
			_exit(1);
		if (++done == 1000 && write(ready, "", 1) != 1)
			_exit(3);
	}
}

static void
test_from_outside(void **state)
{
	uint8_t *p = pages(16);
	struct one_mr mr;
	struct pollfd end;
	int status, ready[2];
	char byte;
	pid_t pid, parent = getpid();

	/* Without UFFDIO_MOVE a store of another process that is under way may be lost (registration.md). */
	if (!kernel_moves())
		skip();
	p[0] = 0;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pid = fork();
	if (pid == 0) {
		close(ready[0]);
		write_from_outside(parent, (uint64_t *)(void *)(p + 5 * PAGE), ready[1]);
	}
	close(ready[1]);
	end = (struct pollfd){.fd = ready[0], .events = POLLIN};
	for (int i = 0; i < 300 || poll(&end, 1, 0) == 0; i++) {
		mr = reg(p, 16 * PAGE);
		dereg(&mr);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1); /* else the child has exited */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	close(ready[0]);
	munmap(p, 16 * PAGE);
}

/* A store of a second process to `p`, which has pinned its page, and lasts until page `missing` is filled. */
struct slow_store {
	pid_t parent;
	uint8_t *p, *missing, *data;
	int uffd, reported, notifies;
};

/* Fill the page once the store waits for it, each time after a different delay. */
static void *
fill_missing(void *argument)
{
	const struct slow_store *s = argument;

	for (useconds_t n = 0;; n = (n + 1) % 64) {
		struct uffdio_copy page = {
			.dst = (uintptr_t)s->missing, .src = (uintptr_t)s->data, .len = PAGE};
		struct uffd_msg msg;

		if (read(s->uffd, &msg, sizeof(msg)) != sizeof(msg) || write(s->notifies, "", 1) != 1)
			return NULL;
		usleep(n * 50);
		ioctl(s->uffd, UFFDIO_COPY, &page);
	}
}

static void
store_slowly(struct slow_store *s)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	struct iovec local, remote = {.iov_base = s->p, .iov_len = PAGE};
	pthread_t thread;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	s->missing = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s->data = malloc(PAGE);
	fill(s->data, PAGE, 1);
	local = (struct iovec){.iov_base = s->missing, .iov_len = PAGE};
	s->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	reg.range.start = (uintptr_t)s->missing;
	reg.range.len = PAGE;
	if (s->uffd < 0 || ioctl(s->uffd, UFFDIO_API, &api) != 0 ||
	    ioctl(s->uffd, UFFDIO_REGISTER, &reg) != 0 || pthread_create(&thread, NULL, fill_missing, s) != 0)
		_exit(1);
	while (read(s->reported, &byte, 1) == 1) {
		madvise(s->missing, PAGE, MADV_DONTNEED);
		if (process_vm_writev(s->parent, &local, 1, &remote, 1, 0) != (ssize_t)PAGE ||
		    write(s->notifies, "", 1) != 1)
			break;
	}
	_exit(1);
}

/* A page is pinned when its registration begins, and no more when it ends: stores until then are
 * preserved. */
static void
test_pin_ends(void **state)
{
	struct slow_store store = {.parent = getpid(), .p = pages(2048)};
	int there[2], back[2], status, wrong = 0, adopted = 0;
	struct one_mr mr;
	pid_t pid;
	char byte;

	/* Only a full userfaultfd makes a system call wait, and only UFFDIO_MOVE finds such a pin. */
	if (geteuid() != 0 || !kernel_moves())
		skip();
	assert_int_equal(pipe2(there, O_CLOEXEC), 0);
	assert_int_equal(pipe2(back, O_CLOEXEC), 0);
	store.reported = there[0];
	store.notifies = back[1];
	pid = fork();
	if (pid == 0)
		store_slowly(&store);
	close(there[0]);
	close(back[1]);
	for (int i = 0; i < 64; i++) {
		assert_ptr_equal(mmap(store.p, LARGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
				 store.p);
		memset(store.p, 0, LARGE);
		assert_int_equal(write(there[1], "", 1), 1);
		/* The page is pinned. */
		assert_int_equal(read(back[0], &byte, 1), 1);
		mr = reg(store.p, LARGE);
		/* The store has finished. */
		assert_int_equal(read(back[0], &byte, 1), 1);
		adopted += pieces(&mr) != 0;
		wrong += !is_filled(store.p, PAGE, 1);
		dereg(&mr);
	}
	assert_int_equal(wrong, 0);
	assert_true(adopted > 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(there[1]);
	close(back[0]);
	munmap(store.p, LARGE);
}

/* Pages shared with a child are not pinned. */
static void
test_child_lives(void **state)
{
	uint8_t *p = pages(16);
	struct one_mr mr;
	int status, go[2];
	pid_t pid;

	fill(p, BUFFER, 1);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		char byte;

		close(go[1]);
		_exit(read(go[0], &byte, 1) == 0 && is_filled(p, BUFFER, 1) ? 0 : 1);
	}
	close(go[0]);
	mr = reg(p, BUFFER);
	assert_int_equal(pieces(&mr), 1);
	fill(p, BUFFER, 2);
	assert_memory_equal(peer(&mr), p, BUFFER);
	close(go[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	dereg(&mr);
	munmap(p, BUFFER);
}

int
main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_fixed_before), TEST(test_fixed_large),
		TEST(test_fixed_after),  TEST(test_fork),
		TEST(test_evicted),      TEST(test_as_private),
		TEST(test_no_debris),    TEST(test_rounds),
		TEST(test_direct),       TEST(test_vmsplice),
		TEST(test_from_outside), TEST(test_pin_ends),
		TEST(test_child_lives),  TEST(test_ring_of_child),
		TEST(test_evidence),     TEST(test_direct_elsewhere),
		TEST(test_calls_wait),
	};

	restrict_program(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
