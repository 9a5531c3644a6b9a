/* SPDX-License-Identifier: BSD-3-Clause */
/* A child has copies: it shares no memory with its parent, and does not affect the parent's attachment. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common.h"

extern char **environ;

/* A failed check becomes the child's exit status. */
#define CHILD_CHECK(condition)                     \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void
reap(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("child: status %#x (line %d)", (unsigned int)status, WEXITSTATUS(status) - 1);
}

static void
test_child_has_copies(void **state)
{
	uint8_t *large = pages(100), *small = malloc(100), *ro = pages(2);
	struct one_mr a, b, c;
	int go[2];
	pid_t pid;

	fill(large, 100 * PAGE, 1);
	fill(small, 100, 2);
	fill(ro, 2 * PAGE, 3);
	a = reg(large, 100 * PAGE);
	b = reg(small, 100);
	assert_int_equal(mprotect(ro, 2 * PAGE, PROT_READ), 0);
	assert_int_equal(
		one_mem_register(fixture.client, 0, (uintptr_t)ro, 2 * PAGE, ONE_ACCESS_LOCAL_READ, &c), 0);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		char byte;

		CHILD_CHECK(!is_shared(large) && !is_shared(small) && !is_shared(ro));
		CHILD_CHECK(is_filled(large, 100 * PAGE, 1));
		CHILD_CHECK(is_filled(small, 100, 2));
		CHILD_CHECK(is_filled(ro, 2 * PAGE, 3));
		fill(large, 100 * PAGE, 7);
		memset(small, 7, 100);
		CHILD_CHECK(read(go[0], &byte, 1) == 1);
		/* The parent has written to its own pages meanwhile. */
		CHILD_CHECK(is_filled(large, 100 * PAGE, 7));
		free(malloc(100000));
		_exit(0);
	}
	fill(large, 100 * PAGE, 8);
	usleep(50000);
	assert_int_equal(write(go[1], "x", 1), 1);
	reap(pid);
	assert_true(is_filled(large, 100 * PAGE, 8));
	assert_true(is_filled(peer(&a), 100 * PAGE, 8));
	assert_true(is_filled(small, 100, 2));
	assert_true(is_filled(peer(&b), 100, 2));
	/* The parent's registrations still work. */
	fill(peer(&a), 100 * PAGE, 9);
	assert_true(is_filled(large, 100 * PAGE, 9));
	dereg(&a);
	dereg(&b);
	dereg(&c);
	assert_int_equal(adopted_mappings(), 0);
	close(go[0]);
	close(go[1]);
	free(small);
	munmap(large, 100 * PAGE);
	munmap(ro, 2 * PAGE);
}

static void
test_attachment_is_the_parents(void **state)
{
	struct one_msg msg = {.type = ONE_MSG_PZ_CREATE};
	uint8_t *p = pages(20);
	struct one_mr mr = reg(p, 20 * PAGE);
	struct one_cq cq;
	uint16_t channel;
	pid_t pid;

	assert_int_equal(one_cq_create(fixture.client, 16, &cq), 0);
	assert_int_equal(one_channel_alloc(fixture.client, &channel), 0);
	pid = fork();
	if (pid == 0) {
		struct one_cqe cqe;
		struct one_mr other;

		CHILD_CHECK(one_call(fixture.client, &msg, NULL, 0, NULL) == -ECHILD);
		CHILD_CHECK(one_mem_deregister(fixture.client, &mr) == -ECHILD);
		CHILD_CHECK(one_mem_register(fixture.client, 0, (uintptr_t)p, 1, ALL, &other) == -ECHILD);
		CHILD_CHECK(one_channel_alloc(fixture.client, &channel) == -ECHILD);
		CHILD_CHECK(one_wait_sleep(fixture.client, channel, 0, UINT64_MAX) == -ECHILD);
		/* The parent has not polled the entry. Polling it in the child does not consume it in the
		 * parent. */
		one_cq_poll(&cq, &cqe);
		one_cq_free(&cq);
		one_detach(fixture.client);
		_exit(0);
	}
	reap(pid);
	struct one_cqe cqe = {.type = ONE_CQE_SEND, .cookie = 5};

	assert_true(mock_cqe(fixture.mock, cq.id, &cqe));
	assert_int_equal(one_cq_poll(&cq, &cqe), 1);
	assert_int_equal(cqe.cookie, 5);
	assert_int_equal(one_call(fixture.client, &msg, NULL, 0, NULL), 0);
	assert_int_equal(mock_attached(fixture.mock), 1);
	dereg(&mr);
	munmap(p, 20 * PAGE);
}

static void
test_parents_death_is_seen(void **state)
{
	int ready[2], hold[2];
	pid_t pid, grandchild = 0;
	char byte;

	/* A process attaches, forks and exits, while its child lives. */
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (pid == 0) {
		uint8_t *p = pages(20);
		struct one_mr mr;

		fixture.client = attach();
		mr = reg(p, 20 * PAGE);
		CHILD_CHECK(mr.lkey != 0);
		grandchild = fork();
		if (grandchild == 0) {
			close(hold[1]);
			CHILD_CHECK(write(ready[1], "x", 1) == 1);
			CHILD_CHECK(read(hold[0], &byte, 1) == 0);
			_exit(0);
		}
		CHILD_CHECK(read(ready[0], &byte, 1) == 1);
		_exit(0);
	}
	reap(pid);
	while (mock_attached(fixture.mock) != 1)
		usleep(1000);
	close(hold[1]);
	close(hold[0]);
	close(ready[0]);
	close(ready[1]);
}

static void
test_child_attaches_itself(void **state)
{
	uint8_t *p = pages(20);
	struct one_mr mr = reg(p, 20 * PAGE);
	pid_t pid;

	fill(p, 20 * PAGE, 1);
	pid = fork();
	if (pid == 0) {
		const struct one_attach args = {.kind = ONE_KIND_RSM};
		struct one_client *own;
		struct one_mr own_mr;

		CHILD_CHECK(one_attach(&args, &own) == 0);
		CHILD_CHECK(one_mem_register(own, 0, (uintptr_t)p, 20 * PAGE, ALL, &own_mr) == 0);
		CHILD_CHECK(is_shared(p));
		CHILD_CHECK(is_filled(p, 20 * PAGE, 1));
		memset(p, 9, PAGE);
		CHILD_CHECK(one_mem_deregister(own, &own_mr) == 0);
		CHILD_CHECK(given_back(p));
		CHILD_CHECK(p[5] == 9);
		one_detach(own);
		one_detach(fixture.client);
		_exit(0);
	}
	reap(pid);
	assert_true(is_filled(p, 20 * PAGE, 1));
	assert_true(is_filled(peer(&mr), 20 * PAGE, 1));
	dereg(&mr);
	munmap(p, 20 * PAGE);
}

static void
test_exec_and_spawn(void **state)
{
	char *const argv[] = {(char[]){"true"}, NULL};
	uint8_t *p = malloc(50000);
	struct one_mr mr = reg(p, 50000);
	pid_t pid;
	FILE *out;
	char line[64] = "";

	fill(p, 50000, 1);
	pid = fork();
	if (pid == 0) {
		execv("/bin/true", argv);
		_exit(1);
	}
	reap(pid);
	pid = vfork();
	if (pid == 0) {
		execv("/bin/true", argv);
		_exit(1);
	}
	reap(pid);
	assert_int_equal(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), 0);
	reap(pid);
	assert_int_equal(system("exit 3"), 3 << 8);
	out = popen("echo a child; ls -l /proc/self/fd | grep -c oneside", "r");
	assert_non_null(out);
	assert_non_null(fgets(line, sizeof(line), out));
	assert_string_equal(line, "a child\n");
	assert_non_null(fgets(line, sizeof(line), out));
	assert_string_equal(line, "0\n"); /* no descriptor of ours is inherited across exec */
	pclose(out);
	assert_true(is_shared(p));
	assert_true(is_filled(p, 50000, 1));
	assert_true(is_filled(peer(&mr), 50000, 1));
	dereg(&mr);
	free(p);
}

/* A registered block is on the first page of a thread's malloc arena, next to the arena's header: the C
 * library writes to the header in the child before any handler runs. */
static void *
block_beside_arena_header(void *arg)
{
	uint8_t **block = arg;

	*block = malloc(64);
	memset(*block, 1, 64);
	return NULL;
}

static void *
wait_for(void *arg)
{
	_Atomic bool *stop = arg;

	free(malloc(64));
	while (!atomic_load(stop))
		usleep(1000);
	free(malloc(64));
	return NULL;
}

static void
test_allocator_beside(void **state)
{
	static _Atomic bool stop;
	pthread_t thread, other;
	uint8_t *block = NULL;
	struct one_mr mr;
	FILE *file = tmpfile(); /* its lock is on the heap, and reset in the child */

	atomic_store(&stop, false);
	pthread_create(&other, NULL, wait_for, &stop);
	pthread_create(&thread, NULL, block_beside_arena_header, &block);
	pthread_join(thread, NULL);
	for (int i = 0; i < 5; i++) {
		struct one_mr file_mr = reg(file, 8);
		pid_t pid;

		mr = reg(block, 64);
		/* The arena's first page is adopted, with its header. */
		assert_true(is_shared((void *)((uintptr_t)block & ~(uintptr_t)(PAGE - 1))));
		pid = fork();
		if (pid == 0) {
			void *p = malloc(100);

			CHILD_CHECK(p != NULL);
			free(p);
			CHILD_CHECK(block[10] == 1);
			free(block);
			_exit(0);
		}
		reap(pid);
		assert_int_equal(fprintf(file, "line\n"), 5);
		dereg(&mr);
		dereg(&file_mr);
	}
	atomic_store(&stop, true);
	pthread_join(other, NULL); /* glibc aborts if its count of the arena's threads is wrong */
	fclose(file);
	free(block);
}

/* A thread forks while it runs on an adopted stack. */
static void *
fork_on_adopted_stack(void *arg)
{
	uint8_t buffer[3 * PAGE];
	struct one_mr mr;

	fill(buffer, sizeof(buffer), 1);
	mr = reg(buffer, sizeof(buffer));
	assert_true(is_shared(buffer));
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			CHILD_CHECK(is_filled(buffer, sizeof(buffer), 1));
			memset(buffer, i, sizeof(buffer));
			_exit(0);
		}
		reap(pid);
		assert_true(is_filled(buffer, sizeof(buffer), 1));
		assert_true(is_shared(buffer));
		peer(&mr)[i] ^= 0xff;
		peer(&mr)[i] ^= 0xff;
	}
	fill(peer(&mr), sizeof(buffer), 4);
	assert_true(is_filled(buffer, sizeof(buffer), 4));
	dereg(&mr);
	return NULL;
}

static void
test_fork_on_adopted_stack(void **state)
{
	pthread_t thread;

	pthread_create(&thread, NULL, fork_on_adopted_stack, NULL);
	pthread_join(thread, NULL);
	assert_int_equal(adopted_mappings(), 0);
}

static _Atomic int faults;

static void
on_segv(int signo, siginfo_t *info, void *context)
{
	faults++;
	mprotect((void *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
}

/* Fault on protected pages continuously, with a handler that lifts the protection, as garbage collectors
 * do. */
static void *
fault_often(void *arg)
{
	_Atomic bool *stop = arg;
	volatile uint8_t *p = pages(1);

	while (!atomic_load(stop)) {
		mprotect((void *)(uintptr_t)p, PAGE, PROT_NONE);
		p[0] = 1;
	}
	munmap((void *)(uintptr_t)p, PAGE);
	return NULL;
}

static void
test_applications_own_handler(void **state)
{
	struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO}, old, now;
	static _Atomic bool stop;
	uint8_t *p = pages(50);
	struct one_mr mr = reg(p, 50 * PAGE);
	pthread_t thread;

	atomic_store(&stop, false);
	sigaction(SIGSEGV, &action, &old);
	pthread_create(&thread, NULL, fault_often, &stop);
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct sigaction mine;

			CHILD_CHECK(sigaction(SIGSEGV, NULL, &mine) == 0);
			CHILD_CHECK(mine.sa_sigaction == on_segv);
			_exit(0);
		}
		reap(pid);
	}
	while (atomic_load(&faults) == 0)
		sched_yield();
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	sigaction(SIGSEGV, &old, &now);
	assert_ptr_equal(now.sa_sigaction, on_segv);
	dereg(&mr);
	munmap(p, 50 * PAGE);
}

struct busy {
	_Atomic bool *stop;
	const char *wrong;
	_Atomic uint32_t rounds;
};

/* Other threads of the parent register, call and store while it forks. */
static void *
busy(void *arg)
{
	struct busy *b = arg;
	uint8_t *p = pages(30);

	while (!atomic_load(b->stop) && b->wrong == NULL) {
		struct one_mr mr;

		fill(p, 30 * PAGE, b->rounds);
		if (one_mem_register(fixture.client, 0, (uintptr_t)p, 30 * PAGE, ALL, &mr) != 0)
			b->wrong = "register";
		else if (memcmp(peer(&mr), p, 30 * PAGE) != 0)
			b->wrong = "contents";
		else if (one_mem_deregister(fixture.client, &mr) != 0)
			b->wrong = "deregister";
		b->rounds++;
	}
	munmap(p, 30 * PAGE);
	return NULL;
}

static void
test_fork_while_others_register(void **state)
{
	static _Atomic bool stop;
	struct busy b[2] = {{&stop, NULL, 0}, {&stop, NULL, 0}};
	uint8_t *p = pages(10);
	struct one_mr mr = reg(p, 10 * PAGE);
	pthread_t thread[2];

	fill(p, 10 * PAGE, 3);
	atomic_store(&stop, false);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, busy, &b[i]);
	for (int i = 0; i < 60 || b[0].rounds == 0 || b[1].rounds == 0; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			CHILD_CHECK(!is_shared(p));
			CHILD_CHECK(is_filled(p, 10 * PAGE, 3));
			_exit(0);
		}
		reap(pid);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		if (b[i].wrong != NULL)
			fail_msg("%s", b[i].wrong);
	}
	assert_true(is_filled(peer(&mr), 10 * PAGE, 3));
	dereg(&mr);
	munmap(p, 10 * PAGE);
}

/* Use up all descriptors; returns how many were opened. */
static size_t
take_descriptors(int *fd, size_t room)
{
	size_t n = 0;

	while (n < room && (fd[n] = dup(STDERR_FILENO)) >= 0)
		n++;
	assert_true(n < room && errno == EMFILE);
	return n;
}

/* A process without a free descriptor can fork, repeatedly. */
static void
test_no_descriptor_left(void **state)
{
	uint8_t *large = pages(100), *small = malloc(100);
	struct one_mr a, b;
	int fd[256], go[2];
	struct rlimit old, few;
	size_t taken;

	fill(large, 100 * PAGE, 1);
	fill(small, 100, 2);
	a = reg(large, 100 * PAGE);
	b = reg(small, 100);
	assert_int_equal(pipe(go), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 100;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	taken = take_descriptors(fd, 256);
	for (uint8_t round = 1; round <= 3; round++) {
		pid_t pid = fork();

		if (pid == 0) {
			char byte;

			/* The parent has waited until these pages were copied. */
			CHILD_CHECK(is_filled(large, 100 * PAGE, round));
			CHILD_CHECK(is_filled(small, 100, 2));
			fill(large, 100 * PAGE, 0xcc);
			CHILD_CHECK(read(go[0], &byte, 1) == 1);
			CHILD_CHECK(is_filled(large, 100 * PAGE, 0xcc));
			free(malloc(100000));
			_exit(0);
		}
		fill(large, 100 * PAGE, round + 1);
		assert_int_equal(write(go[1], "x", 1), 1);
		reap(pid);
		assert_true(is_filled(large, 100 * PAGE, round + 1));
	}
	for (size_t i = 0; i < taken; i++)
		close(fd[i]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_true(is_filled(peer(&a), 100 * PAGE, 4));
	dereg(&a);
	dereg(&b);
	close(go[0]);
	close(go[1]);
	free(small);
	munmap(large, 100 * PAGE);
}

/* The program may close the library's spare descriptors and reuse their numbers: the library leaves those
 * alone. */
static void
test_reserve_closed_by_the_program(void **state)
{
	uint8_t *p = pages(20);
	struct one_mr mr = reg(p, 20 * PAGE);
	char path[64], link[64];
	int spare[64], n = 0;
	pid_t pid;

	for (int i = 3; i < 256; i++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		len = readlink(path, link, sizeof(link) - 1);
		if (len < 5 || memcmp(link + len - 5, "/maps", 5) != 0)
			continue;
		close(i);
		assert_int_equal(open("/dev/null", O_RDONLY | O_CLOEXEC), i);
		assert_true(n < 64);
		spare[n++] = i;
	}
	assert_int_equal(n, 3);
	fill(p, 20 * PAGE, 1);
	pid = fork();
	if (pid == 0) {
		CHILD_CHECK(is_filled(p, 20 * PAGE, 1));
		_exit(0);
	}
	reap(pid);
	while (n > 0)
		assert_int_equal(close(spare[--n]), 0);
	dereg(&mr);
	munmap(p, 20 * PAGE);
}

static int waits_in_vain;

/* Replaces the C library's poll(), and counts waits of over a second that time out. */
int
poll(struct pollfd *fds, nfds_t count, int timeout)
{
	const struct timespec limit = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000};
	int ready = ppoll(fds, count, timeout < 0 ? NULL : &limit, NULL);

	if (ready == 0 && timeout > 1000)
		waits_in_vain++;
	return ready;
}

static void
test_failed_fork_does_not_wait(void **state)
{
	struct rlimit old, none;
	uint8_t *p = pages(20);
	struct one_mr mr = reg(p, 20 * PAGE);
	pid_t pid;

	waits_in_vain = 0;
	/* A child dies before it can report the end of its copying. */
	pid = fork();
	if (pid == 0) {
		raise(SIGKILL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	if (getuid() != 0) { /* the limit does not apply to root */
		assert_int_equal(getrlimit(RLIMIT_NPROC, &old), 0);
		none = old;
		none.rlim_cur = 0;
		assert_int_equal(setrlimit(RLIMIT_NPROC, &none), 0);
		assert_int_equal(fork(), -1);
		assert_int_equal(setrlimit(RLIMIT_NPROC, &old), 0);
	}
	assert_int_equal(waits_in_vain, 0);
	assert_true(is_shared(p));
	peer(&mr)[0] = 1;
	assert_int_equal(p[0], 1);
	dereg(&mr);
	munmap(p, 20 * PAGE);
}

int
main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_child_has_copies),
		TEST(test_attachment_is_the_parents),
		TEST(test_parents_death_is_seen),
		TEST(test_child_attaches_itself),
		TEST(test_exec_and_spawn),
		TEST(test_allocator_beside),
		TEST(test_fork_on_adopted_stack),
		TEST(test_applications_own_handler),
		TEST(test_fork_while_others_register),
		TEST(test_no_descriptor_left),
		TEST(test_reserve_closed_by_the_program),
		TEST(test_failed_fork_does_not_wait),
	};

	restrict_program(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
