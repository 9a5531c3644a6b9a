/* SPDX-License-Identifier: BSD-3-Clause */
/* Negotiation of memif's rings: with DPDK's driver at both ends, and with a client that consists of this
 * test's messages and sends what no driver would. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_dev.h>

#include "dataplane/engine/place.h"
#include "fixture.h"

/* memif 2.0 */
enum {
	HELLO = 2,
	INIT = 3,
	ADD_REGION = 4,
	ADD_RING = 5,
	CONNECT = 6,
	CONNECTED = 7,
	DISCONNECT = 8,
	ACK = 1
};
enum { RING_BYTES = 128 + 16 * 16, RINGS = 2 * PORT_RINGS_MAX, VERSION = 0x200, COOKIE = 0x3e31f20 };

static char directory[] = "/tmp/oneside-rings.XXXXXX";
static char cable[sizeof(directory) + 8];

static void
add_device(const char *name, const char *role)
{
	char args[256];

	snprintf(args, sizeof(args), "role=%s,socket=%s,socket-abstract=no", role, cable);
	assert_int_equal(rte_eal_hotplug_add("vdev", name, args), 0);
}

static void
add_port(struct config *config, const char *name, const char *device, uint8_t last)
{
	struct config_port *port = &config->port[config->num_ports++];

	strcpy(port->name, name);
	strcpy(port->device, device);
	port->addr[0].family = AF_INET;
	memcpy(port->addr[0].bytes, (uint8_t[]){198, 51, 100, last}, 4);
}

static void
prepare(struct config *config)
{
	strcpy(config->port[0].device, "net_ring0");
	add_device("net_memif0", "server");
	add_port(config, "server", "net_memif0", 1);
}

static void
prepare_both(struct config *config)
{
	prepare(config);
	add_device("net_memif1", "client");
	add_port(config, "client", "net_memif1", 2);
}

static void
make_cable(const char *name)
{
	snprintf(cable, sizeof(cable), "%s/%s", directory, name);
}

static struct rings
rings_of(uint32_t port)
{
	return port_rings(&ports[port]);
}

static void
await_rings(uint32_t port, uint8_t own, uint8_t far)
{
	while (rings_of(port).own != own || rings_of(port).far != far)
		usleep(1000);
	assert_int_equal(engine_port_cores(port), own);
	assert_true(engine_port_follows(port, own - 1u));
	assert_false(engine_port_follows(port, own));
}

/* ---- arithmetic ---- */

static void
test_reduction(void **state)
{
	for (uint32_t own = 1; own <= 64; own++)
		for (uint32_t far = 1; far <= 64; far++)
			for (uint32_t limit = 1; limit <= PORT_RINGS_MAX; limit++) {
				struct rings rings = rings_reduce(own, far, limit);

				assert_in_range(rings.own, 1, own);
				assert_in_range(rings.far, 1, far);
				assert_true(rings.own * rings.far <= limit);
				if (own * far <= limit)
					assert_true(rings.own == own && rings.far == far);
			}
	assert_int_equal(rings_reduce(8, 8, 16).own, 4);
	assert_int_equal(rings_reduce(8, 8, 16).far, 4);
	assert_int_equal(rings_reduce(1, 40, 16).far, 16);
}

static void
test_memory_limits_rings(void **state)
{
	assert_int_equal(rings_limit("role=client"), PORT_RINGS_MAX);
	assert_int_equal(rings_limit("bsize=4352,rsize=12"), PORT_RINGS_MAX);
	assert_int_equal(rings_limit("bsize=9216,rsize=14"), 3);
	assert_int_equal(rings_limit("bsize=65535,rsize=14"), 1);
	assert_int_equal(rings_limit("bsize=18446744073709551615,rsize=99"), 1);
}

/* ---- a client of messages ---- */

struct far_end {
	int fd, region, kick;
	uint8_t message[RINGS_MESSAGE];
};

static void
store16(uint8_t *message, uint32_t at, uint16_t value)
{
	memcpy(message + at, &value, sizeof(value));
}

static uint16_t
load16(const uint8_t *message, uint32_t at)
{
	uint16_t value;

	memcpy(&value, message + at, sizeof(value));
	return value;
}

static void
receive_message(struct far_end *end)
{
	assert_int_equal(recv(end->fd, end->message, RINGS_MESSAGE, 0), RINGS_MESSAGE);
}

/* Returns the type of the reply. */
static uint16_t
send_message(struct far_end *end, uint16_t type, int with)
{
	struct iovec part = {end->message, RINGS_MESSAGE};
	uint8_t control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	store16(end->message, 0, type);
	if (with >= 0) {
		header.msg_control = control;
		header.msg_controllen = sizeof(control);
		CMSG_FIRSTHDR(&header)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&header)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&header)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), &with, sizeof(with));
	}
	assert_int_equal(sendmsg(end->fd, &header, 0), RINGS_MESSAGE);
	receive_message(end);
	return load16(end->message, 0);
}

static void
open_end(struct far_end *end)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const uint32_t cookie = COOKIE;

	strcpy(addr.sun_path, cable);
	end->fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(connect(end->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	receive_message(end);
	assert_int_equal(load16(end->message, 0), HELLO);
	end->kick = eventfd(0, EFD_NONBLOCK);
	end->region = memfd_create("rings", 0);
	assert_int_equal(ftruncate(end->region, RINGS * RING_BYTES), 0);
	for (int i = 0; i < RINGS; i++)
		assert_int_equal(pwrite(end->region, &cookie, sizeof(cookie), i * RING_BYTES),
				 sizeof(cookie));
}

/* Returns when the server accepts the next client. The server's port returns to one ring at the next
 * handshake. */
static void
close_end(struct far_end *end)
{
	close(end->fd);
	close(end->region);
	close(end->kick);
	for (;;) {
		struct rte_eth_link link;

		assert_int_equal(rte_eth_link_get_nowait(ports[1].device, &link), 0);
		if (link.link_status != RTE_ETH_LINK_UP)
			break;
		usleep(1000);
	}
}

/* Begins a handshake that announces rings between `cores` of the client and `far` of the server; `cores` = 0:
 * announces nothing. */
static void
begin(struct far_end *end, uint8_t cores, uint8_t far)
{
	const uint64_t size = RINGS * RING_BYTES;

	open_end(end);
	assert_int_equal(rings_of(1).own, 1);
	assert_int_equal(rings_of(1).far, 1);
	memset(end->message, 0, RINGS_MESSAGE);
	store16(end->message, 2, VERSION);
	strcpy((char *)end->message + 33, "a test");
	if (cores != 0)
		memcpy(end->message + 33 + 24, (uint8_t[]){'O', 'N', 'E', 'M', 1, cores, far, 0}, 8);
	assert_int_equal(send_message(end, INIT, -1), ACK);
	memset(end->message, 0, RINGS_MESSAGE);
	memcpy(end->message + 4, &size, sizeof(size));
	assert_int_equal(send_message(end, ADD_REGION, end->region), ACK);
}

static bool
add_ring(struct far_end *end, bool c2s, uint16_t index)
{
	uint32_t offset = ((uint32_t)index + (c2s ? 0 : PORT_RINGS_MAX)) * RING_BYTES;

	memset(end->message, 0, RINGS_MESSAGE);
	store16(end->message, 2, c2s);
	store16(end->message, 4, index);
	memcpy(end->message + 8, &offset, sizeof(offset));
	end->message[12] = 4; /* 16 slots */
	return send_message(end, ADD_RING, end->kick) == ACK;
}

static void
finish(struct far_end *end)
{
	memset(end->message, 0, RINGS_MESSAGE);
	strcpy((char *)end->message + 2, "test");
	assert_int_equal(send_message(end, CONNECT, -1), CONNECTED);
}

static void
add_rings(struct far_end *end, uint16_t num)
{
	for (uint16_t i = 0; i < num; i++) {
		assert_true(add_ring(end, true, i));
		assert_true(add_ring(end, false, i));
	}
}

static void
test_hello_offers_one_ring(void **state)
{
	struct far_end end;

	open_end(&end);
	assert_int_equal(load16(end.message, 40), 0); /* the largest indices */
	assert_int_equal(load16(end.message, 42), 0);
	assert_memory_equal(end.message + 2 + 24, ((uint8_t[]){'O', 'N', 'E', 'M', 1, 2, 0, 0}), 8);
	/* The name that other drivers print ends before the announcement. */
	assert_true(memchr(end.message + 2, 0, 24) != NULL);
	close_end(&end);
}

static void
test_foreign_client_has_one_ring(void **state)
{
	struct far_end end;

	begin(&end, 0, 0);
	add_rings(&end, 1);
	finish(&end);
	assert_int_equal(rings_of(1).own, 1);
	assert_int_equal(rings_of(1).far, 1);
	close_end(&end);
	begin(&end, 0, 0);
	add_rings(&end, 1);
	assert_false(add_ring(&end, true, 1));
	close_end(&end);
}

static void
test_announced_rings_are_used(void **state)
{
	struct far_end end;

	begin(&end, 3, 2);
	add_rings(&end, 6);
	assert_int_equal(rings_of(1).own, 1); /* not before the driver has all rings */
	finish(&end);
	await_rings(1, 2, 3);
	close_end(&end);
	/* The client connects again, with fewer cores. */
	begin(&end, 1, 2);
	add_rings(&end, 2);
	finish(&end);
	await_rings(1, 2, 1);
	close_end(&end);
}

static void
test_rings_beyond_what_was_announced(void **state)
{
	struct far_end end;

	begin(&end, 2, 2);
	add_rings(&end, 4);
	assert_false(add_ring(&end, false, 4));
	close_end(&end);
	/* Rings out of order, and one ring twice. */
	begin(&end, 2, 2);
	assert_true(add_ring(&end, true, 0));
	assert_false(add_ring(&end, true, 2));
	close_end(&end);
	begin(&end, 2, 2);
	assert_true(add_ring(&end, true, 0));
	assert_false(add_ring(&end, true, 0));
	close_end(&end);
}

static void
test_rings_that_are_missing(void **state)
{
	struct far_end end;

	begin(&end, 2, 2);
	add_rings(&end, 3);
	finish(&end);
	assert_int_equal(rings_of(1).own * rings_of(1).far, 1);
	close_end(&end);
}

/* Ignored announcements: more cores than the server has, more rings than allowed, none. */
static void
test_nonsense_is_no_announcement(void **state)
{
	static const uint8_t cores[][2] = {{1, 3}, {9, 2}, {255, 255}, {16, 2}, {2, 0}, {128, 2}};
	struct far_end end;

	for (size_t i = 0; i < RTE_DIM(cores); i++) {
		begin(&end, cores[i][0], cores[i][1]);
		add_rings(&end, 1);
		assert_false(add_ring(&end, true, 1));
		close_end(&end);
	}
}

/* Unfinished handshakes: none blocks the next, and none is taken for another. */
static void
test_many_handshakes(void **state)
{
	enum { MANY = 40 };
	struct far_end idle[MANY], end;

	for (int i = 0; i < MANY; i++)
		open_end(&idle[i]);
	begin(&end, 2, 2);
	add_rings(&end, 4);
	finish(&end);
	await_rings(1, 2, 2);
	for (int i = 0; i < MANY; i++) {
		close(idle[i].fd);
		close(idle[i].region);
		close(idle[i].kick);
	}
	close_end(&end);
}

/* ---- two drivers ---- */

static void
send_by(uint32_t core, uint16_t to)
{
	static const uint8_t frame[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};
	struct rte_mbuf *m = tx_alloc(engine.core[core]);

	memcpy(rte_pktmbuf_mtod(m, uint8_t *), frame, sizeof(frame));
	m->data_len = sizeof(frame);
	m->pkt_len = sizeof(frame);
	tx_append(engine.core[core], to, m);
}

/* A frame from each core to each core of the peer: only the addressed core receives the frame. */
static void
test_each_core_reaches_each(void **state)
{
	await_rings(1, 2, 2);
	await_rings(2, 2, 2);
	for (uint16_t port = 1; port <= 2; port++)
		for (uint32_t from = 0; from < 2; from++)
			for (uint32_t to = 0; to < 2; to++) {
				uint64_t received[2] = {engine.core[0]->stats.rx_packets,
							engine.core[1]->stats.rx_packets};

				send_by(from, TX_TO(port, to));
				TURN_UNTIL(engine.core[to]->stats.rx_packets > received[to]);
				turn(10);
				assert_int_equal(engine.core[to]->stats.rx_packets, received[to] + 1);
				assert_int_equal(engine.core[!to]->stats.rx_packets, received[!to]);
				assert_int_equal(engine.core[from]->stats.tx_handed_over, 0);
			}
}

/* A frame to a core that the peer no longer has goes to another core. */
static void
test_far_core_that_is_no_more(void **state)
{
	uint64_t received;

	atomic_store(&ports[1].rings, 2 | 1 << 8);
	received = engine.core[0]->stats.rx_packets;
	send_by(0, TX_TO(1, 1));
	TURN_UNTIL(engine.core[0]->stats.rx_packets > received);
	/* With one ring, the second core hands over to the first. */
	atomic_store(&ports[1].rings, 1 | 1 << 8);
	received = engine.core[0]->stats.rx_packets;
	send_by(1, TX_TO(1, 1));
	TURN_UNTIL(engine.core[0]->stats.rx_packets > received);
	assert_int_equal(engine.core[1]->stats.tx_handed_over, 1);
	atomic_store(&ports[1].rings, 2 | 2 << 8);
}

static int
start_server(void **state)
{
	make_cable("one");
	fixture_prepare = prepare;
	return group_start_two(state);
}

static int
start_both(void **state)
{
	make_cable("two");
	fixture_prepare = prepare_both;
	return group_start_two(state);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest arithmetic[] = {
		cmocka_unit_test(test_reduction),
		cmocka_unit_test(test_memory_limits_rings),
	};
	const struct CMUnitTest messages[] = {
		cmocka_unit_test(test_hello_offers_one_ring),
		cmocka_unit_test(test_foreign_client_has_one_ring),
		cmocka_unit_test(test_announced_rings_are_used),
		cmocka_unit_test(test_rings_beyond_what_was_announced),
		cmocka_unit_test(test_rings_that_are_missing),
		cmocka_unit_test(test_nonsense_is_no_announcement),
		cmocka_unit_test(test_many_handshakes),
	};
	const struct CMUnitTest drivers[] = {
		cmocka_unit_test(test_each_core_reaches_each),
		cmocka_unit_test(test_far_core_that_is_no_more),
	};
	int failed = mkdtemp(directory) == NULL;

	failed += cmocka_run_group_tests(arithmetic, NULL, NULL);
	/* A server listens until EAL ends, so each group has a process of its own. */
	if (argc > 1)
		failed += cmocka_run_group_tests(drivers, start_both, group_stop);
	else
		failed += cmocka_run_group_tests(messages, start_server, group_stop);
	unlink(cable);
	rmdir(directory);
	return failed;
}
