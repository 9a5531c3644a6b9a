/* SPDX-License-Identifier: BSD-3-Clause */
/* Without userfaultfd, processes of one thread adopt and others use bounced access. Also run under valgrind,
 * which does not support userfaultfd. */
#include <sys/wait.h>

#include "common.h"

#define CHECK(condition)                           \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void *
idle(void *arg)
{
	_Atomic bool *stop = arg;

	while (!atomic_load(stop))
		usleep(1000);
	return NULL;
}

/* The mock and its threads are in the parent. */
static void
run_child(int from_parent)
{
	static _Atomic bool stop;
	char path[128] = "";
	const struct one_attach args = {.kind = ONE_KIND_DAT, .socket = path};
	struct one_client *client;
	struct one_mr mr, again;
	pthread_t thread;
	uint8_t *p = pages(40), *block = malloc(100);

	CHECK(read(from_parent, path, sizeof(path) - 1) > 0);
	deny_userfaultfd();
	CHECK(one_attach(&args, &client) == 0);
	/* The block's page holds other data, which a memory checker must not see us read. */
	fill(block, 100, 3);
	CHECK(one_mem_register(client, 0, (uintptr_t)block, 100, ALL, &mr) == 0);
	CHECK(is_shared(block));
	CHECK(is_filled(block, 100, 3));
	CHECK(one_mem_deregister(client, &mr) == 0);
	CHECK(is_filled(block, 100, 3));
	free(block);
	fill(p, 40 * PAGE, 1);
	CHECK(one_mem_register(client, 0, (uintptr_t)p, 40 * PAGE, ALL, &mr) == 0);
	CHECK(is_shared(p));
	CHECK(is_filled(p, 40 * PAGE, 1));
	CHECK(one_mem_deregister(client, &mr) == 0);
	CHECK(!is_shared(p));
	CHECK(is_filled(p, 40 * PAGE, 1));

	/* With a second thread, private memory stays private. */
	CHECK(one_mem_register(client, 0, (uintptr_t)p, 20 * PAGE, ALL, &mr) == 0);
	CHECK(pthread_create(&thread, NULL, idle, &stop) == 0);
	CHECK(one_mem_register(client, 0, (uintptr_t)p + 20 * PAGE, 20 * PAGE, ALL, &again) == 0);
	CHECK(is_shared(p) && !is_shared(p + 20 * PAGE));
	CHECK(one_mem_deregister(client, &again) == 0);
	/* Adopted memory stays adopted, beyond its registration as well, and is found again. */
	CHECK(one_mem_deregister(client, &mr) == 0);
	CHECK(is_shared(p));
	CHECK(one_mem_register(client, 0, (uintptr_t)p + 10, PAGE, ALL, &mr) == 0);
	fill(p, 40 * PAGE, 2);
	CHECK(one_mem_deregister(client, &mr) == 0);
	atomic_store(&stop, true);
	CHECK(pthread_join(thread, NULL) == 0);

	/* Only the watcher of data planes and the copy thread are left: the end of the next registration
	 * makes the memory private. */
	await_threads(3);
	CHECK(one_mem_register(client, 0, (uintptr_t)p, PAGE, ALL, &mr) == 0);
	CHECK(one_mem_deregister(client, &mr) == 0);
	CHECK(!is_shared(p));
	CHECK(is_filled(p, 40 * PAGE, 2));
	one_detach(client);
	_exit(0);
}

static void
test_without_userfaultfd(void **state)
{
	int to_child[2], status;
	struct mock *mock;
	const char *path;
	pid_t pid;

	assert_int_equal(pipe(to_child), 0);
	pid = fork();
	if (pid == 0)
		run_child(to_child[0]);
	mock = mock_start();
	path = mock_socket(mock);
	assert_int_equal(write(to_child[1], path, strlen(path)), strlen(path));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("child: status %#x (line %d)", (unsigned int)status, WEXITSTATUS(status) - 1);
	mock_stop(mock);
	close(to_child[0]);
	close(to_child[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_userfaultfd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
