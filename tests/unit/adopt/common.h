/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the programs here: an attachment to the mock, and queries of /proc/self/maps. */
#ifndef TESTS_UNIT_ADOPT_COMMON_H
#define TESTS_UNIT_ADOPT_COMMON_H

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "client/client.h"
#include "tests/unit/mock/mock.h"

#define PAGE 4096u
#define ALL \
	(ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE | ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE)

struct fixture {
	struct mock *mock;
	struct one_client *client;
};

static struct fixture fixture;

/* Keys may be renewed; the mock's core sleeps then. */
static bool renewing = true;

static inline struct one_client *
attach(void)
{
	const struct one_attach args = {.kind = ONE_KIND_DAT};
	struct one_client *client;

	assert_int_equal(one_attach(&args, &client), 0);
	return client;
}

static inline int
setup(void **state)
{
	fixture.mock = mock_start();
	if (renewing)
		mock_renewable(fixture.mock);
	fixture.client = attach();
	return 0;
}

static inline int
teardown(void **state)
{
	one_detach(fixture.client);
	mock_stop(fixture.mock);
	return 0;
}

/* AddressSanitizer is active: it maps terabytes, which mlockall() would populate until memory runs out. */
#ifdef __SANITIZE_ADDRESS__
#define SHADOWED true
#elif defined(__has_feature)
#define SHADOWED __has_feature(address_sanitizer)
#else
#define SHADOWED false
#endif

static bool keeping; /* registrations may stay cached */

/* Count the mappings of our memfds in the process, except cached ranges. */
static inline unsigned int
adopted_mappings(void)
{
	pid_t pid = keeping ? fork() : -1; /* a fork makes cached ranges private */
	unsigned int n = 0;
	char line[512];
	FILE *maps;

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	maps = fopen("/proc/self/maps", "r");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, "/memfd:oneside ") != NULL;
	fclose(maps);
	return n;
}

/* Whether the page at `p` is shared memory. */
static inline bool
is_shared(const void *p)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	bool shared = false;
	char line[512], perms[5];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, perms) == 3 && (uintptr_t)p >= start &&
		    (uintptr_t)p < end)
			shared = perms[3] == 's';
	}
	fclose(maps);
	return shared;
}

/* Wait until the process has `n` threads: the kernel still counts a joined thread until its exit is
 * complete. */
static inline void
await_threads(uint32_t n)
{
	uint32_t found;

	do {
		DIR *tasks = opendir("/proc/self/task");

		assert_non_null(tasks);
		sched_yield();
		for (found = 0; readdir(tasks) != NULL; found++)
			;
		closedir(tasks);
	} while (found != n + 2); /* "." and ".." */
}

/* Private memory again, or possibly cached. */
static inline bool
given_back(const void *p)
{
	return keeping || !is_shared(p);
}

static inline struct one_mr
reg(void *p, size_t len)
{
	struct one_mr mr;

	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, len, ALL, &mr), 0);
	return mr;
}

static inline void
dereg(struct one_mr *mr)
{
	assert_int_equal(one_mem_deregister(fixture.client, mr), 0);
}

static inline uint32_t
pieces(const struct one_mr *mr)
{
	struct one_mr_create args;

	assert_true(mock_mr(fixture.mock, mr->id, &args));
	return args.num_pieces;
}

/* The data plane's mapping of all of `mr`. */
static inline uint8_t *
peer(const struct one_mr *mr)
{
	return mock_mr_ptr(fixture.mock, mr->id, mr->va, mr->length);
}

static inline void *
pages(size_t n)
{
	void *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static inline void
fill(void *p, size_t len, uint32_t seed)
{
	uint8_t *byte = p;

	for (size_t i = 0; i < len; i++)
		byte[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
}

static inline bool
is_filled(const void *p, size_t len, uint32_t seed)
{
	const uint8_t *byte = p;

	for (size_t i = 0; i < len; i++) {
		if (byte[i] != (uint8_t)((i * 2654435761u + seed) >> 13))
			return false;
	}
	return true;
}

/* ---- restricted environments ---- */

/* Let a system call fail with `error` if the bits `mask` of its argument number `arg` equal `value`. */
struct denial {
	uint32_t number, arg, mask, value, error;
};

static inline void
deny(const struct denial *denial, size_t count)
{
	struct sock_filter code[64];
	struct sock_fprog program = {.filter = code};
	unsigned short n = 0;

	for (size_t i = 0; i < count; i++) {
		const struct denial *d = &denial[i];
		uint32_t low = (uint32_t)offsetof(struct seccomp_data, args) + 8 * d->arg;

		code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
							 offsetof(struct seccomp_data, nr));
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, d->number, 0, 4);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, d->mask);
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, d->value, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | d->error);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		exit(1);
}

/* Simulate a kernel of 5.13 or older, by a filter: the library must use its fallbacks. */
static inline void
deny_news(void)
{
	const struct denial news[] = {
		{SYS_ioctl, 1, 0xffff, 0x6611, ENOTTY}, /* PROCMAP_QUERY */
		{SYS_madvise, 2, UINT32_MAX, MADV_POPULATE_READ, EINVAL},
		{SYS_madvise, 2, UINT32_MAX, MADV_POPULATE_WRITE, EINVAL},
		{SYS_memfd_create, 1, 8, 8, EINVAL}, /* MFD_NOEXEC_SEAL */
	};

	deny(news, sizeof(news) / sizeof(news[0]));
}

/* Simulate a container whose filter forbids userfaultfd. */
static inline void
deny_userfaultfd(void)
{
	const struct denial uffd[] = {{SYS_userfaultfd, 0, 0, 0, EPERM}};

	deny(uffd, 1);
	/* nor open its device */
	if (getuid() == 0 && (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
		exit(1);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* System calls wait for memory that is being adopted, instead of failing with EFAULT. */
static bool calls_wait;

/* True if this program may have the full userfaultfd by the system call. */
static inline bool
has_userfaultfd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Lets everybody open /dev/userfaultfd, in a mount namespace of this program. */
static inline void
grant_device(void)
{
	const char *device = "/dev/userfaultfd", *copy = "/mnt/userfaultfd";
	struct stat st;

	if (getuid() != 0 || stat(device, &st) != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/mnt", "tmpfs", 0, NULL) != 0 || mknod(copy, S_IFCHR, st.st_rdev) != 0 ||
	    chmod(copy, 0666) != 0 || mount(copy, device, NULL, MS_BIND, NULL) != 0) {
		printf("no /dev/userfaultfd can be granted\n");
		exit(77);
	}
}

/*
 * --nobody: a test started by root runs without privileges. --device: without privileges, but with
 * /dev/userfaultfd. --old: on an older kernel. --kept: with cached registrations, which tests of memory given
 * back at once cannot use.
 */
static inline void
restrict_program(int argc, char **argv)
{
	bool device = argc >= 2 && strcmp(argv[1], "--device") == 0;

	keeping = argc >= 2 && strcmp(argv[1], "--kept") == 0;
	calls_wait = device || has_userfaultfd();
	if (!keeping)
		setenv("ONESIDE_REGISTRATION_CACHE", "0", 0);
	if (argc >= 2 && strcmp(argv[1], "--old") == 0)
		deny_news();
	if (device)
		grant_device();
	else if (argc < 2 || strcmp(argv[1], "--nobody") != 0)
		return;
	calls_wait = device;
	if (getuid() == 0 && (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
		exit(1);
	/* else /proc/self would belong to root */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

#endif
