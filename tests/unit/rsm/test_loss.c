/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of connections: by the exporter, a failed transfer, the data plane, a signal. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "peer.h"

#define SIZE (1u << 20)
#define PAGE 4096u

static struct peer *peer;
static rsmapi_controller_handle_t controller;
static rsm_memseg_import_handle_t import;
static rsmapi_barrier_t barrier;
static char port[] = "mock0";

static int
setup(void **state)
{
	peer = peer_start(SIZE);
	memset(&barrier, 0, sizeof(barrier));
	if (rsm_get_controller(port, &controller) != RSM_SUCCESS ||
	    rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, RSM_PERM_RDWR, &import) !=
		    RSM_SUCCESS)
		return 1;
	return rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &barrier);
}

static int
teardown(void **state)
{
	if (import != NULL)
		assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	peer_forget(peer);
	assert_int_equal(rsm_release_controller(controller), RSM_SUCCESS);
	peer_stop(peer);
	return 0;
}

static void
expect_aborted(int code)
{
	uint8_t bytes[100] = {0};
	rsm_iovec_t piece = {.io_type = RSM_VA_TYPE, .local.vaddr = (caddr_t)bytes, .transfer_length = 100};
	rsm_scat_gath_t sg = {.io_request_count = 1, .remote_handle = import, .iovec = &piece};
	uint64_t word = 0;

	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_IMPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), code);
	assert_int_equal(rsm_memseg_import_get64(import, 0, &word, 1), code);
	assert_int_equal(rsm_memseg_import_put(import, 0, bytes, 100), code);
	assert_int_equal(rsm_memseg_import_get(import, 0, bytes, 100), code);
	assert_int_equal(rsm_memseg_import_putv(&sg), code);
	assert_int_equal(rsm_memseg_import_getv(&sg), code);
	assert_int_equal(sg.io_residual_count, 1);
	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	/* The call reports the error, because without a span no close would. */
	assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), code);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_get64(import, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_order_barrier(&barrier), code);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), code);
	/* Arguments are still checked first. */
	assert_int_equal(rsm_memseg_import_put64(import, SIZE, &word, 1), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_import_destroy_barrier(&barrier), RSM_SUCCESS);
}

static void
test_exporter_gone(void **state)
{
	peer_abort(peer, RSMERR_CONN_ABORTED);
	expect_aborted(RSMERR_CONN_ABORTED);
}

static void
test_node_gone(void **state)
{
	peer_abort(peer, RSMERR_REMOTE_NODE_UNREACHABLE);
	expect_aborted(RSMERR_REMOTE_NODE_UNREACHABLE);
}

/* A refusal or a timeout of the peer counts as a lost connection at once. */
static void
test_remote_failures(void **state)
{
	static const int statuses[] = {ONE_STATUS_REMOTE_ACCESS,  ONE_STATUS_REMOTE_OPERATION,
				       ONE_STATUS_REMOTE_INVALID, ONE_STATUS_RETRY_EXCEEDED,
				       ONE_STATUS_RNR_EXCEEDED,   ONE_STATUS_FLUSHED};
	uint64_t word = 1;

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		atomic_store(&peer->fail_status, statuses[i]);
		atomic_store(&peer->fail_after, 1);
		assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), RSMERR_CONN_ABORTED);
		assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), RSMERR_CONN_ABORTED);
		atomic_store(&peer->fail_after, -1);
		assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, RSM_PERM_RDWR,
							   &import),
				 RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &barrier),
				 RSM_SUCCESS);
	}
}

/* A local error is reported once as such; afterwards the connection is lost. */
static void
test_local_failure(void **state)
{
	uint64_t word = 1;

	atomic_store(&peer->fail_status, ONE_STATUS_LOCAL_PROTECTION);
	atomic_store(&peer->fail_after, 0);
	assert_int_equal(rsm_memseg_import_get64(import, 0, &word, 1), RSMERR_BARRIER_FAILURE);
	assert_int_equal(rsm_memseg_import_get64(import, 0, &word, 1), RSMERR_CONN_ABORTED);
	assert_int_equal(word, 1);
	expect_aborted(RSMERR_CONN_ABORTED);
}

/* In a span, only the close reports a failure. */
static void
test_explicit_failure(void **state)
{
	uint64_t word = 0;

	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	atomic_store(&peer->fail_status, ONE_STATUS_LOCAL_PROTECTION);
	atomic_store(&peer->fail_after, 5);
	for (unsigned i = 0; i < 2000; i++) {
		assert_int_equal(rsm_memseg_import_put64(import, i * 8, &word, 1), RSM_SUCCESS);
		assert_int_equal(rsm_memseg_import_get64(import, i * 8, &word, 1), RSM_SUCCESS);
	}
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSMERR_BARRIER_FAILURE);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_put64(import, 0, &word, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSMERR_CONN_ABORTED);
}

/* A failed get stores no data; gets before it do. */
static void
test_get_before_failure(void **state)
{
	uint64_t words[4] = {~0ull, ~0ull, ~0ull, ~0ull};

	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	atomic_store(&peer->fail_after, 2);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rsm_memseg_import_get64(import, i * 8, &words[i], 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSMERR_CONN_ABORTED);
	assert_int_equal(words[0], 0);
	assert_int_equal(words[1], 0);
	assert_int_equal(words[2], ~0ull);
	assert_int_equal(words[3], ~0ull);
}

/* ---- blocked calls ---- */

struct blocked {
	pthread_t thread;
	_Atomic int result;
};

static void *
blocked_put(void *arg)
{
	struct blocked *b = arg;
	uint8_t *data = calloc(1, SIZE);

	b->result = rsm_memseg_import_put(import, 0, data, SIZE);
	free(data);
	return NULL;
}

static void *
blocked_connect(void *arg)
{
	struct blocked *b = arg;
	rsm_memseg_import_handle_t handle;

	b->result = rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, RSM_PERM_READ, &handle);
	return NULL;
}

static void
start(struct blocked *b, void *(*call)(void *))
{
	b->result = -1;
	assert_int_equal(pthread_create(&b->thread, NULL, call, b), 0);
	mock_wait_asleep(peer->mock, 1);
}

static int
finish(struct blocked *b)
{
	assert_int_equal(pthread_join(b->thread, NULL), 0);
	return b->result;
}

static void
test_blocked_put_aborted(void **state)
{
	struct blocked b;

	peer_hold(peer);
	start(&b, blocked_put);
	peer_abort(peer, RSMERR_CONN_ABORTED);
	assert_int_equal(finish(&b), RSMERR_CONN_ABORTED);
}

static void
test_blocked_put_data_plane_dies(void **state)
{
	struct blocked b;

	peer_hold(peer);
	start(&b, blocked_put);
	peer_forget(peer);
	mock_kill(peer->mock);
	assert_int_equal(finish(&b), RSMERR_CONN_ABORTED);
	expect_aborted(RSMERR_CONN_ABORTED);
}

static void
test_blocked_connect_data_plane_dies(void **state)
{
	struct blocked b;

	atomic_store(&peer->silent, true);
	start(&b, blocked_connect);
	peer_forget(peer);
	mock_kill(peer->mock);
	assert_int_equal(finish(&b), RSMERR_CTLR_NOT_PRESENT);
}

static void
on_signal(int number)
{
}

static void
test_connect_interrupted(void **state)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct blocked b;
	uint32_t before = mock_count(peer->mock, ONE_MSG_RSM_DISCONNECT);

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	atomic_store(&peer->silent, true);
	start(&b, blocked_connect);
	/* A signal before or after the wait interrupts nothing. */
	while (mock_count(peer->mock, ONE_MSG_RSM_DISCONNECT) == before) {
		pthread_kill(b.thread, SIGUSR1);
		usleep(10000);
	}
	assert_int_equal(finish(&b), RSMERR_INTERRUPTED);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_DISCONNECT), before + 1);
}

/* A signal does not end a put early. */
static void
test_put_not_interrupted(void **state)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct blocked b;

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	peer_hold(peer);
	start(&b, blocked_put);
	for (unsigned i = 0; i < 5; i++) {
		pthread_kill(b.thread, SIGUSR1);
		usleep(2000);
	}
	atomic_store(&peer->hold, false);
	assert_int_equal(finish(&b), RSM_SUCCESS);
}

/* ---- a new data plane ---- */

static void
test_data_plane_restarts(void **state)
{
	uint8_t *memory = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rsm_memseg_export_handle_t seg, other;
	rsm_localmemory_handle_t handle;
	rsm_memseg_import_handle_t again;
	rsmapi_controller_handle_t same;
	rsmapi_barrier_t b = {0};
	rsm_memseg_id_t id = PEER_SEGMENT;
	rsm_iovec_t piece = {.io_type = RSM_HANDLE_TYPE, .transfer_length = 2 * PAGE};
	rsm_scat_gath_t sg = {.io_request_count = 1, .iovec = &piece};

	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, (caddr_t)memory + PAGE, 2 * PAGE),
			 RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	peer_forget(peer);
	mock_kill(peer->mock);
	/* A thread of the library detects the loss. */
	while (rsm_memseg_export_unpublish(seg) != RSMERR_SEG_NOT_PUBLISHED)
		usleep(1000);

	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSMERR_CTLR_NOT_PRESENT);
	assert_int_equal(rsm_memseg_export_republish(seg, NULL, 0), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_create(controller, &other, memory + 4 * PAGE, PAGE, 0),
			 RSMERR_CTLR_NOT_PRESENT);
	assert_int_equal(
		rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, RSM_PERM_RDWR, &again),
		RSMERR_CTLR_NOT_PRESENT);

	mock_revive(peer->mock);
	assert_int_equal(rsm_get_controller(port, &same), RSM_SUCCESS);
	assert_ptr_equal(same, controller);
	assert_int_equal(rsm_release_controller(same), RSM_SUCCESS);
	assert_int_equal(
		rsm_memseg_import_connect(controller, PEER_NODE, PEER_SEGMENT, RSM_PERM_RDWR, &again),
		RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_init_barrier(again, RSM_BAR_DEFAULT, &b), RSM_SUCCESS);
	expect_aborted(RSMERR_CONN_ABORTED); /* the old import stays lost */
	/* Memory of the old handle is copied now. */
	memset(memory + PAGE, 0x77, 2 * PAGE);
	sg.remote_handle = again;
	piece.local.handle = handle;
	assert_int_equal(rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	assert_int_equal(peer->direct, 0);
	assert_memory_equal(peer->memory, memory + PAGE, 2 * PAGE);
	/* The old export can be published again. */
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_int_equal(mock_attached(peer->mock), 1);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	assert_int_equal(rsm_free_localmemory_handle(controller, handle), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_disconnect(again), RSM_SUCCESS);
	munmap(memory, 16 * PAGE);
}

static void
test_fault(void **state)
{
	peer_forget(peer);
	mock_fault(peer->mock, ONE_FAULT_PROTOCOL);
	expect_aborted(RSMERR_CONN_ABORTED);
}

/* Freeing a local handle waits for transfers that use the handle. */
static void *
blocked_free(void *arg)
{
	struct blocked *b = arg;

	b->result = rsm_free_localmemory_handle(controller, *(rsm_localmemory_handle_t *)barrier.privdata);
	return NULL;
}

static void
test_free_waits(void **state)
{
	uint8_t *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rsm_localmemory_handle_t handle;
	rsm_iovec_t piece = {.io_type = RSM_HANDLE_TYPE, .transfer_length = 4 * PAGE};
	rsm_scat_gath_t sg = {.io_request_count = 1, .remote_handle = import, .iovec = &piece};
	struct blocked b;

	assert_int_equal(rsm_create_localmemory_handle(controller, &handle, (caddr_t)memory, 4 * PAGE),
			 RSM_SUCCESS);
	piece.local.handle = handle;
	memset(memory, 0x33, 4 * PAGE);
	assert_int_equal(rsm_memseg_import_set_mode(import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_open_barrier(&barrier), RSM_SUCCESS);
	peer_hold(peer);
	assert_int_equal(rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	barrier.privdata = &handle;
	start(&b, blocked_free);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_MR_FREE), 0);
	atomic_store(&peer->hold, false);
	assert_int_equal(finish(&b), RSM_SUCCESS);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_MR_FREE), 1);
	assert_int_equal(peer->direct, 1);
	assert_memory_equal(peer->memory, memory, 4 * PAGE);
	assert_int_equal(rsm_memseg_import_close_barrier(&barrier), RSM_SUCCESS);
	munmap(memory, 4 * PAGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_exporter_gone),
		TEST(test_node_gone),
		TEST(test_remote_failures),
		TEST(test_local_failure),
		TEST(test_explicit_failure),
		TEST(test_get_before_failure),
		TEST(test_blocked_put_aborted),
		TEST(test_blocked_put_data_plane_dies),
		TEST(test_blocked_connect_data_plane_dies),
		TEST(test_connect_interrupted),
		TEST(test_put_not_interrupted),
		TEST(test_data_plane_restarts),
		TEST(test_fault),
		TEST(test_free_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
