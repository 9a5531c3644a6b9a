/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits: threads that a core wakes at once, and descriptors of the process. */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "client/client.h"
#include "client/internal.h"
#include "dataplane/mem/channel.h"
#include "tests/unit/mock/mock.h"

static struct one_client *
attached(void)
{
	const struct one_attach args = {.kind = ONE_KIND_DAT};
	struct one_client *client;

	assert_int_equal(one_attach(&args, &client), 0);
	return client;
}

/* A reply without its descriptors, for which the process had no room, does not end the attachment. */
static void
test_no_room_for_descriptors(void **state)
{
	const struct one_reply sent = {.type = ONE_MSG_CHANNEL_OPEN, .seq = 7, .id.id = 9};
	struct one_msg msg = {.type = ONE_MSG_CHANNEL_OPEN, .seq = 7};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary = {.align = {.cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS,
				 .cmsg_len = CMSG_LEN(sizeof(int))}};
	struct iovec iov = {(void *)(uintptr_t)&sent, sizeof(sent)};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = &ancillary,
				.msg_controllen = sizeof(ancillary.bytes)};
	struct rlimit before, none;
	struct one_reply reply;
	int ends[2], fd, error;
	uint32_t n = 1;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	memcpy(CMSG_DATA(&ancillary.align), &ends[0], sizeof(int));
	assert_int_equal(sendmsg(ends[1], &header, 0), sizeof(sent));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	error = call_exchange(ends[0], &msg, &reply, &fd, &n);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(error, -EMFILE);
	assert_int_equal(n, 0);
	assert_int_equal(reply.id.id, 9); /* the created object can be freed */
	close(ends[0]);
	close(ends[1]);
}

#define CROWD 40u

struct crowd {
	struct one_client *client;
	uint16_t channel;
	uint32_t ticket;
};

static void *
sleep_in_crowd(void *arg)
{
	struct crowd *crowd = arg;
	intptr_t result = one_wait_sleep(crowd->client, crowd->channel, crowd->ticket, UINT64_MAX);

	return (void *)result;
}

/* A core wakes some of the threads that sleep on a channel; all of them wake up in the end. */
static void
test_wait_in_crowd(void **state)
{
	struct crowd crowd;
	struct one_channel *channel;
	struct mock *mock = mock_start();
	pthread_t thread[CROWD];
	void *result;

	assert_true(CROWD > ONE_CHANNEL_WAKES);
	crowd.client = attached();
	assert_int_equal(one_channel_alloc(crowd.client, &crowd.channel), 0);
	channel = &crowd.client->channels[crowd.channel];
	crowd.ticket = one_wait_begin(crowd.client, crowd.channel);
	for (uint32_t i = 0; i < CROWD; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, sleep_in_crowd, &crowd), 0);
	while (atomic_load(&channel->sleepers) != CROWD)
		sched_yield();
	usleep(20000);
	channel_signal(channel, ONE_CHANNEL_WAKES);
	for (uint32_t i = 0; i < CROWD; i++) {
		pthread_join(thread[i], &result);
		assert_null(result);
	}
	assert_int_equal(atomic_load(&channel->sleepers), 0);
	one_channel_free(crowd.client, crowd.channel);
	one_detach(crowd.client);
	mock_stop(mock);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_room_for_descriptors),
		cmocka_unit_test(test_wait_in_crowd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
