/* SPDX-License-Identifier: BSD-3-Clause */
/* ONESIDE_DEBUG=1: messages of refused calls of librdmacm. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fixture.h"

#include "../said.h"

static struct mock *mock;
static struct rdma_event_channel *channel;

/* librdmacm keeps devices open for the life of the process, so the mock is never stopped. */
static int
setup(void **state)
{
	mock = mock_start();
	mock_welcome(mock)->family = AF_INET;
	memcpy(mock_welcome(mock)->addr, "\xc0\x00\x02\x01", 4);
	channel = rdma_create_event_channel();
	return channel != NULL ? 0 : -1;
}

static struct sockaddr *
address(const char *text, uint16_t port)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
	return (struct sockaddr *)&in;
}

/* `call` returns -1 with this errno, and prints these texts. */
#define assert_refused(call, expected, ...)                        \
	do {                                                       \
		assert_says(call, (unsigned long)-1, __VA_ARGS__); \
		assert_int_equal(errno, expected);                 \
	} while (0)

static struct rdma_cm_id *
new_id(void)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

static void
take_event(void)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void
binding(void **state)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = {{{0x20, 1, 0xd, 0xb8, [15] = 9}}}};
	struct sockaddr other = {.sa_family = AF_UNIX};
	struct rdma_cm_id *id = new_id(), *none;

	assert_refused(rdma_create_id(channel, &none, NULL, RDMA_PS_IPOIB), EOPNOTSUPP,
		       "rdma_create_id: ps = 0x2: ", "RDMA_PS_UDP; give one of these (EOPNOTSUPP)");
	assert_refused(rdma_bind_addr(id, address("192.0.2.9", 5000)), EADDRNOTAVAIL,
		       "rdma_bind_addr: addr = 192.0.2.9: ", "no port of the data plane has this address",
		       "; give one that ", "(EADDRNOTAVAIL)");
	assert_refused(rdma_bind_addr(id, &other), EAFNOSUPPORT,
		       "rdma_bind_addr: addr = an address of family 1: ",
		       "neither AF_INET nor AF_INET6; give one", "(EAFNOSUPPORT)");
	assert_refused(rdma_resolve_addr(id, NULL, &other, 1000), EAFNOSUPPORT,
		       "rdma_resolve_addr: dst_addr = an address of family 1: ", "(EAFNOSUPPORT)");
	assert_refused(rdma_resolve_addr(id, NULL, (struct sockaddr *)&v6, 1000), ENODEV,
		       "rdma_resolve_addr: dst_addr = 2001:db8::9: no port has an address of this family; ",
		       "(ENODEV)");
	assert_silent(rdma_bind_addr(id, address("192.0.2.1", 0)), 0);
	assert_refused(rdma_bind_addr(id, address("192.0.2.1", 0)), EINVAL, "rdma_bind_addr: id = 0x",
		       "the id is bound to an address already; use another id (EINVAL)");
	assert_refused(rdma_resolve_addr(id, NULL, (struct sockaddr *)&v6, 1000), EAFNOSUPPORT,
		       "rdma_resolve_addr: dst_addr = 2001:db8::9: ", "(EAFNOSUPPORT)");
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void
listening(void **state)
{
	struct rdma_cm_id *id = new_id();

	assert_refused(rdma_listen(id, 1), EINVAL, "rdma_listen: id = 0x",
		       "the id is bound to no address; rdma_bind_addr first (EINVAL)");
	assert_int_equal(rdma_bind_addr(id, address("0.0.0.0", 5000)), 0);
	mock_refuse(mock, ONE_MSG_LISTEN, -EADDRINUSE, ONE_SUBJECT_ADDRESS, 5000, 1);
	assert_refused(rdma_listen(id, 1), EADDRINUSE,
		       "rdma_listen: port = 5000: another id or program uses it", "; choose another",
		       "(EADDRINUSE)");
	mock_refuse(mock, ONE_MSG_LISTEN, -EDQUOT, ONE_SUBJECT_QUOTA, 31, 1);
	assert_refused(rdma_listen(id, 1), ENOMEM, "rdma_listen: id = 0x",
		       "the data plane's limit = 31: it is reached; ", "(ENOMEM)");
	assert_silent(rdma_listen(id, 1), 0);
	assert_refused(rdma_listen(id, 1), EINVAL, "rdma_listen: id = 0x",
		       "the id is listening already; one rdma_listen");
	assert_refused(rdma_accept(id, NULL), EINVAL, "rdma_accept: id = 0x",
		       "no request is pending; answer the id of RDMA_CM_EVENT_CONNECT_REQUEST");
	assert_refused(rdma_reject(id, NULL, 0), EINVAL, "rdma_reject: id = 0x", "no request is pending");
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void
accepting(void **state)
{
	struct rdma_conn_param param = {.responder_resources = 200};
	struct rdma_cm_id *listen = new_id(), *id;
	struct rdma_cm_event *event;

	assert_int_equal(rdma_bind_addr(listen, address("0.0.0.0", 5001)), 0);
	assert_int_equal(rdma_listen(listen, 1), 0);
	mock_request(mock, mock_newest(mock, ONE_MSG_LISTEN), 5001, NULL, 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	id = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_refused(rdma_accept(id, NULL), EINVAL, "rdma_accept: id->qp = 0: ", "; rdma_create_qp first",
		       "(EINVAL)");
	assert_refused(rdma_accept(id, &param), EINVAL,
		       "rdma_accept: conn_param->responder_resources = 200: it may be 0 to ",
		       "; give one of these (EINVAL)");
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listen), 0);
}

static void
connecting(void **state)
{
	struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 4, .max_recv_wr = 4}, .qp_type = IBV_QPT_UD};
	struct rdma_conn_param param = {.initiator_depth = 200};
	struct rdma_cm_id *id = new_id();
	int before, file;
	const char *lines;

	assert_refused(rdma_connect(id, NULL), EINVAL, "rdma_connect: id = 0x",
		       "no peer address is resolved; rdma_resolve_addr first", "(EINVAL)");
	assert_refused(rdma_resolve_route(id, 1000), EINVAL, "rdma_resolve_route: id = 0x",
		       "no peer address is resolved; ");
	assert_refused(rdma_create_qp(id, NULL, &init), EINVAL,
		       "rdma_create_qp: id->verbs = 0: ", "; rdma_resolve_addr");
	assert_silent(rdma_resolve_addr(id, NULL, address("192.0.2.2", 7000), 1000), 0);
	take_event();
	assert_refused(rdma_create_qp(id, NULL, &init), EINVAL,
		       "rdma_create_qp: qp_init_attr->qp_type = 4: ", "; give that");
	assert_refused(rdma_connect(id, NULL), EINVAL,
		       "rdma_connect: id->qp = 0: ", "; rdma_create_qp first");
	assert_refused(rdma_connect(id, &param), EINVAL, "rdma_connect: conn_param->initiator_depth = 200: ");
	assert_refused(rdma_disconnect(id), EINVAL, "rdma_disconnect: id = 0x", "no connection", "; connect");
	init.qp_type = IBV_QPT_RC;
	assert_silent(rdma_create_qp(id, NULL, &init), 0);
	mock_refuse(mock, ONE_MSG_QP_CONNECT, -EDQUOT, ONE_SUBJECT_QUOTA, 9, 1);
	assert_refused(rdma_connect(id, NULL), EDQUOT, "rdma_connect: id = 0x",
		       "the data plane's limit = 9: it is reached; ", "(EDQUOT)");
	param = (struct rdma_conn_param){.private_data = address("192.0.2.2", 0), .private_data_len = 4};
	mock_refuse(mock, ONE_MSG_QP_CONNECT, -EMSGSIZE, ONE_SUBJECT_LENGTH, 4, 1);
	assert_refused(rdma_connect(id, &param), EINVAL,
		       "rdma_connect: conn_param->private_data_len = 4: ", "; give less (EINVAL)");
	rdma_destroy_qp(id);
	/* libibverbs explains its refusal, and the call of librdmacm adds a line. */
	init.cap.max_send_wr = 0x7fffffff;
	before = said_begin(&file);
	assert_int_equal(rdma_create_qp(id, NULL, &init), -1);
	lines = said_end(before, file);
	assert_non_null(strstr(lines, "oneside: ibv_create_cq: cqe = 2147483647: it may be 1 to "));
	assert_non_null(strstr(lines, "\noneside: rdma_create_qp: "));
	assert_refused(rdma_join_multicast(id, NULL, NULL), EOPNOTSUPP,
		       "rdma_join_multicast: id = ", "unsupported by this implementation; see oneside-run(1)",
		       "(EOPNOTSUPP)");
	assert_refused(rdma_ack_cm_event(NULL), EINVAL, "rdma_ack_cm_event: event = 0: ", "; give what");
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void
assert_no_channel(const char *says)
{
	int file, before = said_begin(&file);
	const char *lines;

	assert_null(rdma_create_event_channel());
	lines = said_end(before, file);
	lines = strstr(lines, "\noneside: rdma_create_event_channel: ");
	assert_non_null(lines); /* after the line of libibverbs */
	assert_non_null(strstr(lines, says));
}

/* Without a data plane, the message has the reason of the socket's error. */
static void
no_data_plane(void **state)
{
	struct sockaddr_un stream = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char directory[] = "/tmp/oneside-explain-XXXXXX", deep[sizeof(stream.sun_path) + 1] = "";

	setenv("ONESIDE_SOCKET", "/nonexistent/oneside.sock", 1);
	assert_no_channel(
		"\noneside: rdma_create_event_channel: ports = 0: no attachment to the data plane at /nonexistent/oneside.sock: No such file or directory; start oneside-dataplane(8), ");
	assert_non_null(mkdtemp(directory));
	snprintf(stream.sun_path, sizeof(stream.sun_path), "%s/s", directory);
	assert_int_equal(bind(fd, (struct sockaddr *)&stream, sizeof(stream)), 0);
	assert_int_equal(listen(fd, 1), 0);
	setenv("ONESIDE_SOCKET", stream.sun_path, 1);
	assert_no_channel("/s: this socket is not for applications; ");
	close(fd);
	unlink(stream.sun_path);
	rmdir(directory);
	memset(deep, 'a', sizeof(deep) - 1);
	setenv("ONESIDE_SOCKET", deep, 1);
	assert_no_channel("a: the path is longer than a socket's may be; give one of at most 107 bytes");
}

/* Without ONESIDE_DEBUG refused calls print nothing. */
static void
not_asked(void **state)
{
	struct rdma_cm_id *id = new_id();

	assert_silent(rdma_listen(id, 1), (unsigned long)-1);
	assert_silent(rdma_connect(id, NULL), (unsigned long)-1);
	assert_silent(rdma_accept(id, NULL), (unsigned long)-1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int
main(void)
{
	const struct CMUnitTest asked[] = {
		cmocka_unit_test(binding),
		cmocka_unit_test(listening),
		cmocka_unit_test(accepting),
		cmocka_unit_test(connecting),
	};
	const struct CMUnitTest unasked[] = {cmocka_unit_test(not_asked)};
	const struct CMUnitTest absent[] = {cmocka_unit_test(no_data_plane)};

	if (getenv("ONESIDE_DEBUG") == NULL)
		return cmocka_run_group_tests(unasked, setup, NULL);
	return cmocka_run_group_tests(absent, NULL, NULL) + cmocka_run_group_tests(asked, setup, NULL);
}
