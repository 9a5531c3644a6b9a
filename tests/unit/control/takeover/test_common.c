/* SPDX-License-Identifier: BSD-3-Clause */
/* Added peers and counters of the control thread, written by one data plane and read by the next. */
#include <errno.h>
#include <string.h>

#include "control/objects/pass.h"
#include "control/path/path.h"
#include "control/takeover/common.h"
#include "tests/unit/unit.h"

static struct config config;
static const struct attach_calls attach = {.request[ONE_MSG_HELLO] = {.name = "hello"}};
static struct pass_out out;
static struct pass_in in;

static int
setup(void **state)
{
	config_defaults(&config);
	config.node = 1;
	config.num_ports = 1;
	strcpy(config.port[0].name, "p0");
	config.port[0].addr[0] = (struct config_addr){AF_INET, 24, {192, 0, 2, 1}};
	config.num_peers = 1;
	config.peer[0] = (struct config_peer){.node = 2, .addr = {AF_INET, 24, {192, 0, 2, 2}}};
	control.config = &config;
	attach_calls = &attach;
	memset(&client_totals, 0, sizeof(client_totals));
	log_suppressed = path_mtu_reports = 0;
	memset(&out, 0, sizeof(out));
	memset(&in, 0, sizeof(in));
	return 0;
}

static int
teardown(void **state)
{
	record_out_free(&out.records);
	return 0;
}

/* Reads what has been written as a process whose configuration has `num_peers` peers. */
static int
read_back(uint32_t num_peers)
{
	config.num_peers = num_peers;
	in = (struct pass_in){.records = {.bytes = out.records.bytes, .length = out.records.length}};
	pass_in_begin(&in);
	return takeover_common_read(&in, &config);
}

static void
add_peer(uint32_t node, const char *address, const char *port)
{
	char why[200];

	assert_int_equal(config_peer_add(&config, node, address, port, why, sizeof(why)), 0);
}

/* ---- peers ---- */

/* Two take-overs one after the other pass on what onesidectl has added, and not what the configuration has.
 */
static void
test_peers(void **state)
{
	add_peer(10, "192.0.2.10", "p0");
	add_peer(9, "192.0.2.9", "");
	for (int i = 0; i < 2; i++) {
		takeover_common_write(&out);
		assert_int_equal(read_back(1), 0);
		assert_false(in.more);
		assert_int_equal(config.num_peers, 3);
		assert_false(config.peer[0].added);
		assert_int_equal(config.peer[1].node, 10);
		assert_string_equal(config.peer[1].port, "p0");
		assert_memory_equal(config.peer[1].addr.bytes, ((uint8_t[]){192, 0, 2, 10}), 4);
		assert_int_equal(config.peer[2].node, 9);
		assert_string_equal(config.peer[2].port, "");
		assert_memory_equal(config.peer[2].addr.bytes, ((uint8_t[]){192, 0, 2, 9}), 4);
		record_out_free(&out.records);
	}
}

/* The configuration of the new process has the node, too. */
static void
test_configured(void **state)
{
	add_peer(9, "192.0.2.9", "");
	takeover_common_write(&out);
	config.peer[1].addr.bytes[3] = 99;
	assert_int_equal(read_back(2), 0);
	assert_int_equal(config.num_peers, 2);
	assert_int_equal(config.peer[1].addr.bytes[3], 99);
}

static void
refuse_peer(uint64_t node, const char *address, const char *port, const char *reason)
{
	char *at;

	config.num_peers = 1;
	takeover_common_write(&out);
	at = record_append(&out.records, RECORD_PEER, 1, node, CONFIG_ADDR_TEXT + ONE_PORT_NAME);

	assert_non_null(at);
	memset(at, 'x', CONFIG_ADDR_TEXT + ONE_PORT_NAME);
	memcpy(at, address, strlen(address) + 1);
	if (port != NULL)
		memcpy(at + CONFIG_ADDR_TEXT, port, strlen(port) + 1);
	assert_int_equal(read_back(1), -EINVAL);
	if (strstr(in.why, reason) == NULL)
		fail_msg("%s", in.why);
	record_out_free(&out.records);
}

static void
test_hostile_peers(void **state)
{
	refuse_peer(1ull << 32 | 9, "192.0.2.9", "p0", "no node");
	refuse_peer(64, "192.0.2.9", "p0", "64");
	refuse_peer(1, "192.0.2.9", "p0", "own id");
	refuse_peer(9, "nonsense", "p0", "nonsense");
	refuse_peer(9, "192.0.2.9\033[2J", "p0", "no text");
	refuse_peer(9, "192.0.2.9", NULL, "no text");
	refuse_peer(9, "192.0.2.9", "p1", "p1");
	refuse_peer(9, "192.0.2.2", "p0",
		    "192.0.2.2 is peer 2's already; give each its own; or write onesidectl peer remove 9");
}

/* ---- counters ---- */

static void
test_totals(void **state)
{
	client_totals.requests = 7;
	client_totals.copied = 8;
	client_totals.latency[ONE_MSG_HELLO].bucket[2] = 9;
	log_suppressed = 10;
	path_mtu_reports = 11;
	takeover_common_write(&out);
	memset(&client_totals, 0, sizeof(client_totals));
	log_suppressed = path_mtu_reports = 0;
	assert_int_equal(read_back(1), 0);
	assert_int_equal(client_totals.requests, 7);
	assert_int_equal(client_totals.copied, 8);
	assert_int_equal(client_totals.latency[ONE_MSG_HELLO].bucket[2], 9);
	assert_int_equal(log_suppressed, 10);
	assert_int_equal(path_mtu_reports, 11);
}

/* Metrics print the names of requests that were answered. */
static void
test_unknown_request(void **state)
{
	client_totals.latency[ONE_MSG_MAX - 1].bucket[0] = 1;
	takeover_common_write(&out);
	assert_int_equal(read_back(1), -EINVAL);
	assert_non_null(strstr(in.why, "does not exist"));
}

static void
test_unknown_port(void **state)
{
	takeover_common_write(&out);
	assert_non_null(record_append(&out.records, RECORD_CONFLICTS, 1, path_num_ports, 14));
	assert_int_equal(read_back(1), -EINVAL);
	assert_non_null(strstr(in.why, "not there"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_peers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_configured, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile_peers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_totals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_request, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_port, setup, teardown),
	};

	return cmocka_run_group_tests_name("control: takeover common", tests, NULL, NULL);
}
