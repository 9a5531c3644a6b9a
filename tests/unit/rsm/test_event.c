/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals and poll descriptors, against a mock data plane. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "peer.h"

#define SIZE 65536u
#define PAGE 4096u

static struct peer *peer;
static rsmapi_controller_handle_t controller;
static rsm_memseg_import_handle_t import;
static rsm_memseg_export_handle_t export;
static rsmapi_barrier_t barrier;
static uint8_t *memory;
static uint32_t import_counter, export_counter;

static int
setup(void **state)
{
	static char port[] = "mock0";
	rsm_memseg_id_t id = 0;
	struct one_msg msg;

	peer = peer_start(SIZE);
	memory = aligned_alloc(PAGE, 4 * PAGE);
	assert_int_equal(rsm_get_controller(port, &controller), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, 0600, &import),
			 RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_CONNECT, &msg));
	import_counter = msg.rsm_connect.signal_cq;
	assert_int_not_equal(import_counter, 0);
	assert_int_not_equal(import_counter, msg.rsm_connect.cq);
	memset(&barrier, 0, sizeof(barrier));
	assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_create(controller, &export, memory, 4 * PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(export, &id, NULL, 0), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_PUBLISH, &msg));
	export_counter = msg.rsm_publish.signal_cq;
	assert_int_not_equal(export_counter, 0);
	assert_int_equal(msg.rsm_publish.flags, ONE_RSM_MAPPABLE);
	return 0;
}

static int
teardown(void **state)
{
	rsm_memseg_import_disconnect(import);
	rsm_memseg_export_destroy(export);
	peer_forget(peer);
	assert_int_equal(rsm_release_controller(controller), RSM_SUCCESS);
	peer_stop(peer);
	free(memory);
	return 0;
}

/* Acts as the engine, which counts signals: a ring serves as the counter, with an entry for each signal. */
static void
arrive(uint32_t counter)
{
	const struct one_cqe cqe = {.type = ONE_CQE_RECV, .flags = ONE_CQE_NOTIFY};

	assert_true(mock_cqe(peer->mock, counter, &cqe));
}

static void
test_post_import(void **state)
{
	assert_int_equal(rsm_intr_signal_post(import, 0), RSM_SUCCESS);
	assert_int_equal(peer->signals, 1);
	assert_int_equal(peer->signal, one_signal(1, false));
	assert_int_equal(rsm_intr_signal_post(import, RSM_SIGPOST_NO_ACCUMULATE), RSM_SUCCESS);
	assert_int_equal(peer->signal, one_signal(1, true));
	assert_int_equal(rsm_intr_signal_post(NULL, 0), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_intr_signal_post(controller, 0), RSMERR_BAD_SEG_HNDL);
	peer_abort(peer, RSMERR_CONN_ABORTED);
	assert_int_equal(rsm_intr_signal_post(import, 0), RSMERR_CONN_ABORTED);
	assert_int_equal(peer->signals, 2);
}

static void
test_post_failed(void **state)
{
	atomic_store(&peer->fail_after, 0);
	assert_int_equal(rsm_intr_signal_post(import, 0), RSMERR_CONN_ABORTED);
}

static void
test_post_to_lost_node(void **state)
{
	peer_abort(peer, RSMERR_REMOTE_NODE_UNREACHABLE);
	assert_int_equal(rsm_intr_signal_post(import, 0), RSMERR_REMOTE_NODE_UNREACHABLE);
}

static void
test_post_export(void **state)
{
	struct one_msg msg;

	assert_int_equal(rsm_intr_signal_post(export, 0), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_SIGNAL, &msg));
	assert_int_equal(msg.rsm_signal.segment, mock_newest(peer->mock, ONE_MSG_RSM_PUBLISH));
	assert_int_equal(msg.rsm_signal.flags, 0);
	assert_int_equal(rsm_intr_signal_post(export, RSM_SIGPOST_NO_ACCUMULATE), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_SIGNAL, &msg));
	assert_int_equal(msg.rsm_signal.flags, ONE_RSM_ONCE);
	assert_int_equal(rsm_memseg_export_unpublish(export), RSM_SUCCESS);
	assert_int_equal(rsm_intr_signal_post(export, 0), RSM_SUCCESS); /* without importers */
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_SIGNAL), 2);
}

static void
test_vector(void **state)
{
	uint64_t value = 0x55;
	rsm_iovec_t iovec = {.io_type = RSM_VA_TYPE, .transfer_length = 8};
	rsm_scat_gath_t sg = {.io_request_count = 1, .remote_handle = import, .iovec = &iovec};

	iovec.local.vaddr = (caddr_t)&value;
	sg.flags = RSM_IMPLICIT_SIGPOST | RSM_SIGPOST_NO_ACCUMULATE;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	assert_int_equal(peer->signals, 1);
	assert_int_equal(peer->signal, one_signal(1, true));
	assert_int_equal(sg.flags, RSM_IMPLICIT_SIGPOST | RSM_SIGPOST_NO_ACCUMULATE);
	assert_int_equal(peer->memory[0], 0x55);
	/* After a failure nothing is signalled. */
	iovec.remote_offset = SIZE;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSMERR_BAD_LENGTH);
	assert_int_equal(peer->signals, 1);
}

static void
test_wait(void **state)
{
	assert_int_equal(rsm_intr_signal_wait(import, 0), RSMERR_TIMEOUT);
	assert_int_equal(rsm_intr_signal_wait(import, 20), RSMERR_TIMEOUT);
	assert_int_equal(rsm_intr_signal_wait(NULL, 0), RSMERR_BAD_SEG_HNDL);
	arrive(import_counter);
	assert_int_equal(rsm_intr_signal_wait(export, 0), RSMERR_TIMEOUT); /* a signal of the import only */
	assert_int_equal(rsm_intr_signal_wait(import, -1), RSM_SUCCESS);
	assert_int_equal(rsm_intr_signal_wait(import, 0), RSMERR_TIMEOUT);
	arrive(export_counter);
	assert_int_equal(rsm_intr_signal_wait(export, -1), RSM_SUCCESS);
	/* Signals received earlier can be read after the connection is lost. */
	arrive(import_counter);
	peer_abort(peer, RSMERR_CONN_ABORTED);
	assert_int_equal(rsm_intr_signal_wait(import, -1), RSM_SUCCESS);
	assert_int_equal(rsm_intr_signal_wait(import, -1), RSMERR_CONN_ABORTED);
	/* Signals survive unpublishing. */
	arrive(export_counter);
	assert_int_equal(rsm_memseg_export_unpublish(export), RSM_SUCCESS);
	assert_int_equal(rsm_intr_signal_wait(export, 0), RSM_SUCCESS);
	assert_int_equal(rsm_intr_signal_wait(export, 20), RSMERR_TIMEOUT);
}

static void *
wait_for(void *segment)
{
	return (void *)(intptr_t)rsm_intr_signal_wait(segment, -1);
}

static void
expect_woken(pthread_t thread, int expected)
{
	void *result;

	pthread_join(thread, &result);
	assert_int_equal((intptr_t)result, expected);
}

static void
test_woken(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, wait_for, import), 0);
	mock_wait_asleep(peer->mock, 1);
	arrive(import_counter);
	expect_woken(thread, RSM_SUCCESS);
	assert_int_equal(pthread_create(&thread, NULL, wait_for, import), 0);
	mock_wait_asleep(peer->mock, 1);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	expect_woken(thread, RSMERR_CONN_ABORTED);
	assert_int_equal(pthread_create(&thread, NULL, wait_for, export), 0);
	mock_wait_asleep(peer->mock, 1);
	assert_int_equal(rsm_memseg_export_unpublish(export), RSM_SUCCESS);
	expect_woken(thread, RSMERR_CONN_ABORTED);
	assert_int_equal(pthread_create(&thread, NULL, wait_for, export), 0);
	mock_wait_asleep(peer->mock, 1);
	assert_int_equal(rsm_memseg_export_destroy(export), RSM_SUCCESS);
	expect_woken(thread, RSMERR_CONN_ABORTED);
}

/* A waiter is woken even if another thread takes the entry off the ring before the data plane checks for
 * sleepers. */
static void
test_woken_by_another(void **state)
{
	const struct one_cqe news = {
		.type = ONE_CQE_RSM, .status = RSMERR_CONN_ABORTED, .flags = ONE_CQE_NOTIFY};
	uint64_t value = 1;
	struct one_msg msg;
	pthread_t thread;

	assert_true(mock_last(peer->mock, ONE_MSG_RSM_CONNECT, &msg));
	assert_int_equal(pthread_create(&thread, NULL, wait_for, import), 0);
	mock_wait_asleep(peer->mock, 1);
	assert_true(mock_cqe_early(peer->mock, msg.rsm_connect.cq, &news));
	assert_int_equal(rsm_memseg_import_put64(import, 0, &value, 1), RSMERR_CONN_ABORTED);
	mock_publish(peer->mock, msg.rsm_connect.cq);
	expect_woken(thread, RSMERR_CONN_ABORTED);
}

static void
test_data_plane_dies(void **state)
{
	pthread_t importer, exporter;
	struct pollfd fd;

	assert_int_equal(rsm_memseg_get_pollfd(import, &fd), RSM_SUCCESS);
	assert_int_equal(pthread_create(&importer, NULL, wait_for, import), 0);
	assert_int_equal(pthread_create(&exporter, NULL, wait_for, export), 0);
	mock_wait_asleep(peer->mock, 3); /* two waiters, and the thread that updates the descriptor */
	peer_forget(peer);
	mock_kill(peer->mock);
	expect_woken(importer, RSMERR_CONN_ABORTED);
	expect_woken(exporter, RSMERR_CONN_ABORTED);
	assert_int_equal(poll(&fd, 1, -1), 1);
	assert_int_equal(fd.revents, POLLHUP);
	assert_int_equal(rsm_memseg_release_pollfd(import), RSM_SUCCESS);
	mock_revive(peer->mock);
}

/* Without a free descriptor the call fails, and takes no reference. */
static void
test_no_pollfd(void **state)
{
	struct rlimit before, none;
	struct pollfd fd = {.fd = -5, .events = 77};
	int lowest = dup(STDERR_FILENO);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
	close(lowest);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(rsm_memseg_get_pollfd(import, &fd), RSMERR_INSUFFICIENT_RESOURCES);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(fd.fd, -5);
	assert_int_equal(fd.events, 77);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
}

static void
test_pollfd(void **state)
{
	struct pollfd fds[2], again;
	int num;

	assert_int_equal(rsm_memseg_get_pollfd(NULL, &fds[0]), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_get_pollfd(import, NULL), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_release_pollfd(NULL), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_release_pollfd(import), RSM_SUCCESS);
	arrive(import_counter); /* before the descriptor exists */
	assert_int_equal(rsm_memseg_get_pollfd(import, &fds[0]), RSM_SUCCESS);
	assert_int_equal(fds[0].events, POLLRDNORM);
	assert_int_equal(poll(fds, 1, 0), 1);
	assert_int_equal(fds[0].revents, POLLRDNORM);
	assert_int_equal(rsm_memseg_get_pollfd(import, &again), RSM_SUCCESS);
	assert_int_equal(again.fd, fds[0].fd);
	assert_int_equal(rsm_memseg_get_pollfd(export, &fds[1]), RSM_SUCCESS);
	assert_int_not_equal(fds[1].fd, fds[0].fd);
	assert_int_equal(rsm_intr_signal_wait_pollfd(fds, 2, 0, &num), RSM_SUCCESS);
	assert_int_equal(num, 1);
	assert_int_equal(fds[0].revents, POLLRDNORM);
	assert_int_equal(fds[1].revents, 0);
	assert_int_equal(rsm_intr_signal_wait_pollfd(fds, 2, 10, &num), RSMERR_TIMEOUT);
	assert_int_equal(num, 0);
	/* The library's thread makes the descriptor readable. */
	arrive(export_counter);
	assert_int_equal(poll(&fds[1], 1, -1), 1);
	assert_int_equal(rsm_intr_signal_wait(export, 0), RSM_SUCCESS);
	assert_int_equal(poll(&fds[1], 1, 0), 0);
	assert_int_equal(rsm_memseg_export_destroy(export), RSMERR_POLLFD_IN_USE);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSMERR_POLLFD_IN_USE);
	assert_int_equal(rsm_memseg_release_pollfd(import), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSMERR_POLLFD_IN_USE);
	assert_int_equal(rsm_memseg_release_pollfd(import), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_release_pollfd(export), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	assert_int_equal(rsm_intr_signal_wait_pollfd(NULL, 1, 0, &num), RSMERR_BAD_ADDR);
#ifndef SANITIZED /* the sanitizer's poll() accesses the bad address */
	struct pollfd *volatile nowhere = (struct pollfd *)8;
	struct rlimit limit;

	assert_int_equal(rsm_intr_signal_wait_pollfd(nowhere, 1, -1, &num), RSMERR_BAD_ADDR);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(rsm_intr_signal_wait_pollfd(fds, limit.rlim_cur + 1, -1, &num),
			 RSMERR_BAD_ARGS_ERRORS);
	assert_int_equal(num, 0);
#endif
	assert_int_equal(rsm_intr_signal_wait_pollfd(NULL, 0, 0, NULL), RSMERR_TIMEOUT);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_post_import), TEST(test_post_failed),     TEST(test_post_to_lost_node),
		TEST(test_no_pollfd),   TEST(test_post_export),     TEST(test_vector),
		TEST(test_wait),        TEST(test_woken),           TEST(test_woken_by_another),
		TEST(test_pollfd),      TEST(test_data_plane_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
