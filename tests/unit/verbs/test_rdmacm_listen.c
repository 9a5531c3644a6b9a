/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm: at which devices and ports an id listens, since when, and while devices go and come. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <unistd.h>

#include "fixture.h"

static struct mock *mock;
static struct rdma_event_channel *channel;

/* Reports two ports with the same address. */
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

/* librdmacm keeps devices open for the life of the process, so the mock is never stopped. */
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

/* Binding port 0 assigns a port at once, in each port space, and at all devices. */
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

/* A port in use at one device is released at the others, and another is tried; an unknown address fails. */
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
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0); /* the id is still unbound */
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* rdma_bind_addr() reserves the port: another id with the port is refused there, not at rdma_listen(). */
static void
test_bound_port_is_held(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7471)};
	struct rdma_cm_id *id = bound(RDMA_PS_TCP, "192.0.2.1", 7471), *second;
	struct one_msg msg;

	assert_int_equal(asked(ONE_LISTEN_LATER), 7471);
	assert_true(mock_last(mock, ONE_MSG_LISTEN, &msg));
	assert_int_equal(msg.listen.source, 1); /* at this address only */
	inet_pton(AF_INET, "192.0.2.1", &at.sin_addr);
	assert_int_equal(rdma_create_id(channel, &second, NULL, RDMA_PS_TCP), 0);
	mock_refuse(mock, ONE_MSG_LISTEN, -EADDRINUSE, ONE_SUBJECT_ADDRESS, 7471, 1);
	assert_fails(rdma_bind_addr(second, (struct sockaddr *)&at), EADDRINUSE);
	at.sin_port = htons(7472);
	assert_int_equal(rdma_bind_addr(second, (struct sockaddr *)&at), 0); /* the id is still unbound */
	assert_int_equal(rdma_destroy_id(second), 0);
	/* A refused rdma_listen leaves the port with the id. */
	mock_refuse(mock, ONE_MSG_LISTEN, -EADDRINUSE, ONE_SUBJECT_ADDRESS, 7471, 1);
	assert_fails(rdma_listen(id, 1), EADDRINUSE);
	assert_int_equal(asked(ONE_LISTEN_LATER), 7471);
	assert_int_equal(rdma_destroy_id(id), 0);
	at.sin_addr.s_addr = htonl(0xcb007101);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_fails(rdma_bind_addr(id, (struct sockaddr *)&at), EADDRNOTAVAIL); /* an address of no device */
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* Ids with REUSEADDR can share a port until one of them listens. */
static void
test_reuse(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7473)};
	struct rdma_cm_id *id;
	int on = 1;

	inet_pton(AF_INET, "192.0.2.1", &at.sin_addr);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	assert_int_equal(asked(ONE_LISTEN_LATER | ONE_LISTEN_SHARED), 7473);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* Resolving an address gives the id a source port, reserved at its device only. */
static void
test_source_port(void **state)
{
	static const struct {
		enum rdma_port_space ps;
		const char *bind, *src;
		uint16_t port;
	} cases[] = {
		{RDMA_PS_TCP, NULL, NULL, 0},           {RDMA_PS_TCP, NULL, "192.0.2.1", 0},
		{RDMA_PS_TCP, NULL, "0.0.0.0", 9999},   {RDMA_PS_TCP, "0.0.0.0", NULL, 9998},
		{RDMA_PS_TCP, "192.0.2.1", NULL, 0},    {RDMA_PS_UDP, NULL, NULL, 0},
		{RDMA_PS_UDP, NULL, "192.0.2.1", 9997},
	};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7000)}, from = to;
	struct rdma_cm_event *event;

	inet_pton(AF_INET, "192.0.2.2", &to.sin_addr);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t held = mock_count(mock, ONE_MSG_LISTEN), freed = mock_count(mock, ONE_MSG_UNLISTEN);
		struct sockaddr *src = cases[i].src != NULL ? (struct sockaddr *)&from : NULL;
		struct rdma_cm_id *id;
		uint16_t port;

		from.sin_port = htons(cases[i].port);
		if (src != NULL)
			inet_pton(AF_INET, cases[i].src, &from.sin_addr);
		if (cases[i].bind != NULL)
			id = bound(cases[i].ps, cases[i].bind, cases[i].port);
		else
			assert_int_equal(rdma_create_id(channel, &id, NULL, cases[i].ps), 0);
		assert_int_equal(rdma_resolve_addr(id, src, (struct sockaddr *)&to, 1000), 0);
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		assert_int_equal(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
		rdma_ack_cm_event(event);
		port = ntohs(rdma_get_src_port(id));
		if (cases[i].port != 0)
			assert_int_equal(port, cases[i].port);
		assert_int_not_equal(port, 0);
		assert_int_equal(ntohs(rdma_get_dst_port(id)), 7000);
		assert_int_equal(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_port, htons(port));
		/* The port remains reserved at one device. */
		held = mock_count(mock, ONE_MSG_LISTEN) - held;
		assert_int_equal(mock_count(mock, ONE_MSG_UNLISTEN) - freed, held - 1);
		assert_int_equal(rdma_destroy_id(id), 0);
		assert_int_equal(mock_count(mock, ONE_MSG_UNLISTEN) - freed, held);
	}
}

/* The data plane is notified which id owns a source port; a refusal leaves the id unchanged. */
static void
test_source_port_is_reported(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7000)}, from = to;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct one_msg msg;

	inet_pton(AF_INET, "192.0.2.2", &to.sin_addr);
	inet_pton(AF_INET, "192.0.2.1", &from.sin_addr);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	mock_refuse(mock, ONE_MSG_LISTEN, -EADDRINUSE, ONE_SUBJECT_ADDRESS, 7000, 1);
	assert_fails(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 1), EADDRINUSE);
	assert_null(id->verbs);
	from.sin_addr.s_addr = htonl(0xcb007101);
	assert_fails(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 1),
		     EADDRNOTAVAIL);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1), 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_true(mock_last(mock, ONE_MSG_SIDR_ASK, &msg));
	assert_int_equal(msg.sidr_ask.listener, mock_newest(mock, ONE_MSG_LISTEN));
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* An id bound to :: listens at all devices, with AFONLY only at those with IPv6. The mock has IPv4 only:
 * rdma_listen() succeeds nevertheless, because devices may come. */
static void
test_families(void **state)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6};
	uint32_t before, listens;
	struct rdma_cm_id *id;

	for (int i = 0; i < 4; i++) {
		int only = i % 2;

		any.sin6_port = htons(i < 2 ? 7000 : 0); /* reserved before AFONLY is set */
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
		assert_int_equal(mock_count(mock, ONE_MSG_UNLISTEN), before + 2);
	}
}

/* RDMA_PS_IB has service IDs of its own, by rdma_cm's prefix. */
static void
test_port_space_ib(void **state)
{
	struct rdma_cm_id *id = bound(RDMA_PS_IB, "192.0.2.1", 7000);

	assert_int_equal(asked(ONE_LISTEN_LATER), 0x013f0000 + 7000);
	assert_int_equal(rdma_listen(id, 1), 0);
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

/* Waits for `more` listeners. The library's thread creates them, with a pause before each. */
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

/* A listener at all devices is not notified when devices go: it goes on at the others, and listens again at a
 * device that is back. An id bound to one device is notified. */
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
	first = second - 1; /* ids are consecutive, in order of creation */
	expect_request(listen, first);
	expect_request(listen, second);
	/* An attachment ends: the library opens its device again. */
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
	/* All attachments end. */
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
		cmocka_unit_test(test_bound_port_is_held),
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_source_port),
		cmocka_unit_test(test_source_port_is_reported),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_port_space_ib),
		cmocka_unit_test(test_devices_go_and_come),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
