/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls by several threads, and a silent data plane, against the mock data plane. */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attachment.h"

static void *
make_handle(void *client)
{
	struct one_msg msg = {.type = ONE_MSG_AH_CREATE};

	return (void *)(intptr_t)one_call(client, &msg, NULL, 0, NULL);
}

static void
make_zones(struct one_client *client, uint32_t n)
{
	struct one_msg msg = {.type = ONE_MSG_PZ_CREATE};
	struct one_reply reply;

	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(one_call(client, &msg, NULL, 0, &reply), 0);
		assert_int_equal(reply.id.id, mock_newest(mock, ONE_MSG_PZ_CREATE));
	}
}

/* Requests that wait for the network, however many, do not delay other calls. */
static void
test_slow_calls(void **state)
{
	enum { SLOW = ONE_CALLS_MAX + 6 };
	struct one_client *client = attach();
	pthread_t thread[SLOW];

	mock_defer(mock, ONE_MSG_AH_CREATE);
	for (uint32_t i = 0; i < SLOW; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, make_handle, client), 0);
	EVENTUALLY(mock_count(mock, ONE_MSG_AH_CREATE) == ONE_SLOW_CALLS_MAX);
	make_zones(client, 3);
	mock_answer(mock, ONE_MSG_AH_CREATE);
	for (uint32_t i = 0; i < SLOW; i++) {
		void *error;

		assert_int_equal(pthread_join(thread[i], &error), 0);
		assert_null(error);
	}
	assert_int_equal(mock_count(mock, ONE_MSG_AH_CREATE), SLOW);
	one_detach(client);
}

/* A reply with an unknown sequence number arrives while other calls wait. */
static bool
answer_another(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	       struct one_reply *reply, void *user)
{
	reply->seq += 1000;
	return true;
}

static void
test_reply_to_nobody(void **state)
{
	struct one_client *client = attach();
	pthread_t thread;
	void *error;

	mock_defer(mock, ONE_MSG_AH_CREATE);
	assert_int_equal(pthread_create(&thread, NULL, make_handle, client), 0);
	EVENTUALLY(mock_count(mock, ONE_MSG_AH_CREATE) == 1);
	mock_on(mock, ONE_MSG_PZ_CREATE, answer_another, NULL);
	assert_int_equal(one_call_id(client, ONE_MSG_PZ_CREATE, 0), -ECONNRESET);
	assert_int_equal(pthread_join(thread, &error), 0);
	assert_int_equal((intptr_t)error, -ECONNRESET);
	one_detach(client);
}

static struct {
	_Atomic int sock;   /* the socket on which nothing arrives */
	_Atomic int silent; /* for this many waits; `alive`: its control thread is alive meanwhile */
	bool alive;
	struct one_arena *header;
} silence = {.sock = -1};

/* The test decides when the time limit of a socket expires. */
ssize_t
recvmsg(int sock, struct msghdr *message, int flags)
{
	if (sock == silence.sock && silence.silent > 0) {
		silence.silent--;
		if (silence.alive)
			silence.header->control_alive++;
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_recvmsg, sock, message, flags);
}

static _Atomic int lines_of_loss;

ssize_t
write(int file, const void *bytes, size_t length)
{
	if (memmem(bytes, length, "the data plane at", strlen("the data plane at")) != NULL)
		lines_of_loss++;
	return syscall(SYS_write, file, bytes, length);
}

static void
test_silence(void **state)
{
	struct one_client *client = attach();

	lines_of_loss = 0;
	silence.header = client->header;
	silence.sock = client->sock;
	silence.alive = true;
	silence.silent = 100;
	make_zones(client, 1);
	assert_int_equal(silence.silent, 0);
	/* The control thread is stuck. */
	silence.alive = false;
	silence.silent = 5;
	make_zones(client, 2);
	silence.silent = 100;
	assert_int_equal(one_call_id(client, ONE_MSG_PZ_FREE, 1), -ECONNRESET);
	assert_int_equal(silence.silent, 94);
	/* A program that ends now has said why. */
	assert_int_equal(lines_of_loss, 1);
	silence.sock = -1;
	assert_true(one_client_dead(client));
	EVENTUALLY(lost_calls == 1);
	assert_int_equal(lines_of_loss, 1);
	one_detach(client);
}

static void
cleaned_up(void *client)
{
	make_zones(client, 1);
}

static void *
make_handle_cancelled(void *client)
{
	pthread_cleanup_push(cleaned_up, client);
	make_handle(client);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

/* A cancelled thread ends after its call. Other calls go on until then and afterwards. */
static void
test_cancelled(void **state)
{
	struct one_client *client = attach();
	pthread_t thread;
	void *result;

	mock_defer(mock, ONE_MSG_AH_CREATE);
	assert_int_equal(pthread_create(&thread, NULL, make_handle_cancelled, client), 0);
	EVENTUALLY(mock_count(mock, ONE_MSG_AH_CREATE) == 1);
	assert_int_equal(pthread_cancel(thread), 0);
	make_zones(client, 1);
	mock_answer(mock, ONE_MSG_AH_CREATE);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	make_zones(client, 1);
	one_detach(client);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	/* The library prints one line a second: the test that counts them comes first. */
	const struct CMUnitTest tests[] = {TEST(test_silence), TEST(test_slow_calls),
					   TEST(test_reply_to_nobody), TEST(test_cancelled)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
