/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm: at which devices and ports an id listens, from when on, and when devices go and come. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <unistd.h>

#include "fixture.h"

static struct mock *mock;
static struct rdma_event_channel *channel;

#define assert_fails(call, expected)               \
	do {                                       \
		assert_int_equal(call, -1);        \
		assert_int_equal(errno, expected); \
	} while (0)

/* Two ports of one address. */
static bool
two_ports(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	  struct one_reply *reply, void *user)
{
	uint32_t index = msg->port_query.port;

	if (index > 1)
		return false;
	reply->port = (struct one_port){.num_ports = 2, .hwaddr = 0x020304050600ull + index, .link_up = 1};
	mock_addr(m, &reply->port);
	snprintf(reply->port.name, sizeof(reply->port.name), "mock%u", index);
	return true;
}

static bool
any_port(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds, struct one_reply *reply,
	 void *user)
{
	if (msg->hello.port[0] != '\0')
		memcpy(mock_welcome(m)->port, msg->hello.port, sizeof(msg->hello.port));
	return false;
}

/* Devices stay open for the life of the process, and so does the mock. */
static int
setup(void **state)
{
	mock = mock_start();
	mock_welcome(mock)->family = AF_INET;
	memcpy(mock_welcome(mock)->addr, "\xc0\x00\x02\x01", 4);
	mock_on(mock, ONE_MSG_PORT, two_ports, NULL);
	mock_on(mock, ONE_MSG_HELLO, any_port, NULL);
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	return fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}

static struct rdma_cm_id *
bound(enum rdma_port_space ps, const char *address, uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct rdma_cm_id *id;

	inet_pton(AF_INET, address, &in.sin_addr);
	assert_int_equal(rdma_create_id(channel, &id, NULL, ps), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
	return id;
}

static uint32_t
asked(uint32_t flags)
{
	struct one_msg msg;

	assert_true(mock_last(mock, ONE_MSG_LISTEN, &msg));
	assert_int_equal(msg.listen.flags, flags);
	return (uint32_t)msg.listen.service;
}

/* Port 0 is one that the id has from then on, in each port space, and at all devices. */
static void
test_bind_any_port(void **state)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_IB, RDMA_PS_UDP};

	for (size_t i = 0; i < 2 * sizeof(spaces) / sizeof(spaces[0]); i++) {
		enum rdma_port_space ps = spaces[i / 2];
		uint32_t devices = i % 2 == 0 ? 1 : 2, before = mock_count(mock, ONE_MSG_LISTEN);
		struct rdma_cm_id *id = bound(ps, devices == 1 ? "192.0.2.1" : "0.0.0.0", 0);
		uint16_t port = ntohs(rdma_get_src_port(id));
		struct one_msg msg;

		assert_int_not_equal(port, 0);
		assert_int_equal(mock_count(mock, ONE_MSG_LISTEN), before + devices);
		if (devices == 2 || ps != RDMA_PS_TCP)
			assert_int_equal(asked(ONE_LISTEN_LATER) & UINT16_MAX, port);
		assert_int_equal(rdma_listen(id, 1), 0);
		assert_int_equal(mock_count(mock, ONE_MSG_LISTEN), before + 2 * devices);
		assert_true(mock_last(mock, ONE_MSG_LISTEN, &msg));
		assert_int_not_equal(msg.listen.listener, 0);
		assert_int_equal(ntohs(rdma_get_src_port(id)), port);
		assert_fails(rdma_listen(id, 1), EINVAL);
		before = mock_count(mock, ONE_MSG_UNLISTEN);
		assert_int_equal(rdma_destroy_id(id), 0);
		assert_int_equal(mock_count(mock, ONE_MSG_UNLISTEN), before + devices);
	}
}

/* One that another device has not free is given back, and another tried; one that nobody has ends it. */
static void
test_ports_taken(void **state)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	uint32_t before = mock_count(mock, ONE_MSG_LISTEN);
	struct rdma_cm_id *id;

	mock_refuse(mock, ONE_MSG_LISTEN, -EADDRINUSE, ONE_SUBJECT_ADDRESS, 5000, 3);
	id = bound(RDMA_PS_TCP, "0.0.0.0", 0);
	assert_int_equal(mock_count(mock, ONE_MSG_LISTEN), before + 3 + 2);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	mock_refuse(mock, ONE_MSG_LISTEN, -EADDRNOTAVAIL, ONE_SUBJECT_ADDRESS, 0, 1);
	assert_fails(rdma_bind_addr(id, (struct sockaddr *)&any), EADDRNOTAVAIL);
	assert_int_equal(rdma_get_src_port(id), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0); /* it was not bound by that */
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* :: is any device's, unless it is for its family only; the mock's have IPv4.  It listens all the same, as at
 * devices that may come. */
static void
test_families(void **state)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6};
	uint32_t before, listens;
	struct rdma_cm_id *id;

	for (int i = 0; i < 4; i++) {
		int only = i % 2;

		any.sin6_port = htons(i < 2 ? 7000 : 0); /* held before it is said */
		assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
		assert_int_equal(
			rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof(only)), 0);
		before = mock_count(mock, ONE_MSG_UNLISTEN);
		listens = mock_count(mock, ONE_MSG_LISTEN);
		assert_int_equal(rdma_listen(id, 1), 0);
		assert_int_equal(mock_count(mock, ONE_MSG_LISTEN) - listens, only != 0 ? 0 : 2);
		assert_int_not_equal(rdma_get_src_port(id), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
		assert_int_equal(mock_count(mock, ONE_MSG_UNLISTEN), before + (i == 1 ? 0 : 2));
	}
}

/* Services of the port space for anything, as rdma_cm numbers them. */
static void
test_port_space_ib(void **state)
{
	struct rdma_cm_id *id = bound(RDMA_PS_IB, "192.0.2.1", 7000);

	assert_int_equal(rdma_listen(id, 1), 0);
	assert_int_equal(asked(0), 0x013f0000 + 7000);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static struct rdma_cm_event *
next(enum rdma_cm_event_type type)
{
	struct pollfd look = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	assert_int_equal(poll(&look, 1, 60000), 1);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	return event;
}

static void
expect_request(struct rdma_cm_id *listen, uint32_t listener)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	mock_request(mock, listener, 5000, NULL, 0);
	event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, listen);
	id = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* By the thread of the library, and each with a moment's pause. */
static uint32_t
await_listener(uint32_t before, uint32_t more)
{
	for (int i = 0; i < 60000 && mock_count(mock, ONE_MSG_LISTEN) < before + more; i++)
		usleep(1000);
	assert_int_equal(mock_count(mock, ONE_MSG_LISTEN), before + more);
	return mock_newest(mock, ONE_MSG_LISTEN);
}

static bool
nonsense(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds, struct one_reply *reply,
	 void *user)
{
	reply->seq++;
	return true;
}

/*
 * Who listens at all devices does not hear when one goes, or all: it listens at the others, and again when a
 * device is back; who is bound to a device hears.
 */
static void
test_devices_go_and_come(void **state)
{
	struct rdma_cm_id *listen = bound(RDMA_PS_TCP, "0.0.0.0", 5000), *one;
	uint32_t before, first, second;
	struct ibv_context **devices;
	struct rdma_cm_event *event;
	int n;

	assert_int_equal(rdma_listen(listen, 0), 0);
	second = mock_newest(mock, ONE_MSG_LISTEN);
	first = second - 1; /* objects are numbered as they are made */
	expect_request(listen, first);
	expect_request(listen, second);
	/* One attachment ends: its device has to be opened anew. */
	devices = rdma_get_devices(&n);
	assert_int_equal(n, 2);
	before = mock_count(mock, ONE_MSG_LISTEN);
	mock_on(mock, ONE_MSG_PZ_CREATE, nonsense, NULL);
	assert_null(ibv_alloc_pd(devices[1]));
	mock_on(mock, ONE_MSG_PZ_CREATE, NULL, NULL);
	rdma_free_devices(devices);
	second = await_listener(before, 1);
	expect_request(listen, first);
	expect_request(listen, second);
	/* All of them. */
	one = bound(RDMA_PS_TCP, "192.0.2.1", 5001);
	before = mock_count(mock, ONE_MSG_LISTEN);
	mock_kill(mock);
	event = next(RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_ptr_equal(event->id, one);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_destroy_id(one), 0);
	mock_revive(mock);
	second = await_listener(before, 2);
	expect_request(listen, second);
	assert_int_equal(ntohs(rdma_get_src_port(listen)), 5000);
	before = mock_count(mock, ONE_MSG_UNLISTEN);
	assert_int_equal(rdma_destroy_id(listen), 0);
	assert_int_equal(mock_count(mock, ONE_MSG_UNLISTEN), before + 2);
	assert_fails(rdma_get_cm_event(channel, &event), EAGAIN);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bind_any_port),
		cmocka_unit_test(test_ports_taken),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_port_space_ib),
		cmocka_unit_test(test_devices_go_and_come),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
