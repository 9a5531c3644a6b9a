/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration: files, options, what overrides what, and the message of each refusal. */
#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "config/config.h"
#include "config/internal.h"
#include "config/route.h"

static struct config config;
static char why[1024];

static int
setup(void **state)
{
	(void)state;
	config_defaults(&config);
	why[0] = '\0';
	return 0;
}

static int
port_to(uint32_t peer)
{
	return config_port_to(&config, &config.peer[peer].addr, config.peer[peer].port);
}

/* Writes `len` bytes to a file and reads it. */
static int
read_bytes(const char *text, size_t len)
{
	char path[] = "/tmp/oneside-config-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	close(fd);
	int ret = config_read(&config, path, why, sizeof(why));
	unlink(path);
	return ret;
}

static int
read_text(const char *text)
{
	return read_bytes(text, strlen(text));
}

static int
options(bool *check, bool *help, const char *first, ...)
{
	char *argv[32] = {(char *)(uintptr_t) "--"};
	enum config_action action;
	int argc = 1, ret;
	va_list args;

	va_start(args, first);
	for (const char *arg = first; arg != NULL && argc < 31; arg = va_arg(args, const char *))
		argv[argc++] = (char *)(uintptr_t)arg;
	va_end(args);
	ret = config_options(&config, argc, argv, &action, why, sizeof(why));
	*check = action == CONFIG_CHECK;
	*help = action == CONFIG_HELP;
	return ret;
}

static int
set(const char *section, const char *key, const char *value)
{
	return config_set(&config, section, key, value, why, sizeof(why));
}

#define assert_says(text)                                                  \
	do {                                                               \
		if (strstr(why, text) == NULL)                             \
			fail_msg("\"%s\" does not say \"%s\"", why, text); \
	} while (0)

static void
test_defaults(void **state)
{
	(void)state;
	assert_string_equal(config.socket, ONE_SOCKET_DEFAULT);
	assert_int_equal(config.idle, ONE_IDLE_SPIN);
	assert_int_equal(config.num_ports, 0);
	assert_int_equal(config.limits.max_qp, 16384);
	assert_int_equal(config.limits.max_private_data, 64);
	assert_true(config.max_bytes_per_uid > 1 << 20);
	/* The defaults lack only a port. */
	assert_int_equal(config_validate(&config, why, sizeof(why)), -EINVAL);
	assert_says("[port NAME]");
	assert_int_equal(set("port p0", "address", "192.0.2.1/24"), 0);
	assert_int_equal(config_validate(&config, why, sizeof(why)), 0);
}

static void
test_file(void **state)
{
	(void)state;
	assert_int_equal(read_text("# comment\n"
				   "[dataplane]\n"
				   "node = 7   # behind a value\n"
				   "socket = /tmp/x.sock\n"
				   "socket_mode = 0660\n"
				   "idle = sleep\n"
				   "keepalive_ms = 500\n"
				   "state = /tmp/\\#1 # \\#2\n"
				   "\n"
				   "[port p0]\n"
				   "device = 0000:01:00.0\n"
				   "address = 192.0.2.1/24\n"
				   "gateway = 192.0.2.254\n"
				   "mtu = 4200\n"
				   "path_mtu = 4096\n"
				   "ack_timeout = 20\n"
				   "rnr_retry = 3\n"
				   "[port p1]\n"
				   "device = net_memif1\n"
				   "address = 2001:db8::1/64\n"
				   "[peer 2]\n"
				   "address = 192.0.2.2\n"
				   "[peer 63]\n"
				   "address = 2001:db8::63\n"
				   "port = p1\n"
				   "[limits]\n"
				   "max_qp = 1000\n"
				   "max_mr_bytes = 3G\n"
				   "max_clients_per_uid = 3\n"),
			 0);
	assert_int_equal(config_validate(&config, why, sizeof(why)), 0);
	assert_int_equal(config.node, 7);
	assert_string_equal(config.socket, "/tmp/x.sock");
	assert_int_equal(config.socket_mode, 0660);
	assert_int_equal(config.idle, ONE_IDLE_SLEEP);
	assert_int_equal(config.keepalive_ms, 500);
	assert_string_equal(config.state, "/tmp/#1");
	assert_int_equal(config.num_ports, 2);
	assert_string_equal(config.port[0].name, "p0");
	assert_string_equal(config.port[0].device, "0000:01:00.0");
	assert_int_equal(config.port[0].addr[0].family, AF_INET);
	assert_int_equal(config.port[0].addr[0].prefix, 24);
	assert_memory_equal(config.port[0].addr[0].bytes, ((uint8_t[]){192, 0, 2, 1}), 4);
	assert_memory_equal(config.port[0].gateway[0].bytes, ((uint8_t[]){192, 0, 2, 254}), 4);
	assert_int_equal(config.port[0].mtu, 4200);
	assert_int_equal(config.port[0].path_mtu, 4096);
	assert_int_equal(config.port[0].ack_timeout, 20);
	assert_int_equal(config.port[1].ack_timeout, CONFIG_ACK_TIMEOUT);
	assert_int_equal(config.port[0].rnr_retry, 3);
	assert_int_equal(config.port[1].addr[0].family, AF_INET6);
	assert_int_equal(config.port[1].rnr_retry, CONFIG_RNR_RETRY_ENDLESS);
	assert_int_equal(config.num_peers, 2);
	assert_int_equal(config.peer[0].node, 2);
	assert_int_equal(config.peer[1].node, 63);
	assert_int_equal(port_to(0), 0);
	assert_int_equal(port_to(1), 1);
	assert_int_equal(config.limits.max_qp, 1000);
	assert_int_equal(config.limits.max_mr_bytes, 3ull << 30);
	assert_int_equal(config.max_clients_per_uid, 3);
}

static void
test_sample_file(void **state)
{
	(void)state;
	assert_int_equal(config_read(&config, SAMPLE, why, sizeof(why)), 0);
	assert_int_equal(config_validate(&config, why, sizeof(why)), 0);
	assert_int_equal(config.num_ports, 1);
	assert_int_equal(config.num_peers, 1);
}

static void
test_bad_files(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"[dataplan]\nnode = 1\n", "no such section"},
		{"[dataplan]\n", "no such section"},
		{"[port p0]\naddress = 192.0.2.1/24\n[port p0]\nmtu = 1500\n", "twice"},
		{"[dataplane]\nnode = 1\nnode = 2\n",
		 "line 3: dataplane: node is given twice, as 1 and as 2"},
		{"[port p0]\n", "empty"},
		{"[dataplane]\nnod = 1\n", "no such key in [dataplane]; write one of node, socket"},
		{"node = 1\n", "line 1, \"node = 1\": it is in no section"},
		{"[dataplane]\nnode\n", "line 2, \"node\""},
		{"[dataplane\nnode = 1\n", "line 1, \"[dataplane\": its ] is missing"},
		{"\n [dataplane] node = 1\n", "line 2, \"[dataplane] node = 1\": something is behind the ]"},
		{"[user root]\nweight = 2\n[user 0]\nmax_ops = 1000\n",
		 "[user root] and [user 0] are the same user"},
		{"[user 7]\nweight = 2\n[user 07]\nweight = 3\n", "[user 7] and [user 07] are the same user"},
		{"[peer 2]\naddress = 192.0.2.2\n[peer 02]\nport = p0\n",
		 "[peer 2] and [peer 02] are the same peer"},
		{"[peer 0000000000000000000000000000000000000000000000000000000000002]\n",
		 "name is too long"},
		{"[dataplane]\nnode =\n", "not a number"},
		{"[peer 64]\naddress = 192.0.2.1\n", "1 to 63"},
		{"[peer x]\naddress = 192.0.2.1\n", "1 to 63"},
		{"[port a/b]\naddress = 192.0.2.1/24\n", "cannot be a name"},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		config_defaults(&config);
		why[0] = '\0';
		if (read_text(bad[i].text) >= 0)
			fail_msg("\"%s\" is taken", bad[i].text);
		assert_says(bad[i].says);
		assert_says("file /tmp/oneside-config-");
	}
	assert_int_equal(config_read(&config, "/nonexistent/oneside.conf", why, sizeof(why)), -ENOENT);
	assert_says("/nonexistent/oneside.conf");
	assert_int_equal(config_read(&config, "/tmp", why, sizeof(why)), -EISDIR);
	char *big = malloc(2000);
	assert_non_null(big);
	memset(big, 'a', 1999);
	big[1999] = '\0';
	assert_int_equal(read_text(big), -E2BIG);
	free(big);
}

/* Lines that are not text or too long, and files that would block the reader. */
static void
test_bad_lines(void **state)
{
	static const char zero[] = "[dataplane]\nnode = 1\n\0work_pool = x\n";
	char line[1026], path[] = "/tmp/oneside-config-XXXXXX", fifo[sizeof(path) + 5];

	(void)state;
	assert_int_equal(read_bytes(zero, sizeof(zero) - 1), -EINVAL);
	assert_says("line 3 has a byte 0");
	memset(line, '#', sizeof(line));
	assert_int_equal(read_bytes(line, 1023), 0);
	assert_int_equal(read_bytes(line, 1024), -E2BIG);
	assert_says("line 1 is too long; write at most 1023 bytes");
	line[1023] = '\n';
	assert_int_equal(read_bytes(line, sizeof(line)), 0);
	assert_non_null(mkdtemp(path));
	snprintf(fifo, sizeof(fifo), "%s/fifo", path);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(config_read(&config, fifo, why, sizeof(why)), -EINVAL);
	assert_says("not a regular file");
	unlink(fifo);
	rmdir(path);
}

static void
test_metrics(void **state)
{
	static const uint8_t loopback4[16] = {127, 0, 0, 1}, loopback6[16] = {[15] = 1};

	assert_int_equal(config.metrics.family, 0);
	assert_int_equal(set("dataplane", "metrics", "unix:/run/x.sock"), 0);
	assert_int_equal(config.metrics.family, AF_UNIX);
	assert_string_equal(config.metrics.path, "/run/x.sock");
	assert_string_equal(config.metrics.text, "unix:/run/x.sock");
	assert_int_equal(set("dataplane", "metrics", "127.0.0.1:9464"), 0);
	assert_int_equal(config.metrics.family, AF_INET);
	assert_int_equal(config.metrics.port, 9464);
	assert_memory_equal(config.metrics.addr, loopback4, 16);
	/* A refused value changes nothing. */
	assert_int_equal(set("dataplane", "metrics", "127.0.0.1:x"), -EINVAL);
	assert_int_equal(config.metrics.port, 9464);
	assert_int_equal(set("dataplane", "metrics", "[::1]:65535"), 0);
	assert_int_equal(config.metrics.family, AF_INET6);
	assert_int_equal(config.metrics.port, 65535);
	assert_memory_equal(config.metrics.addr, loopback6, 16);
	assert_int_equal(set("dataplane", "metrics", "off"), 0);
	assert_int_equal(config.metrics.family, 0);
}

static void
test_bad_values(void **state)
{
	(void)state;
	static const struct {
		const char *section, *key, *value, *says;
	} bad[] = {
		{"dataplane", "node", "64", "0 to 63"},
		{"dataplane", "node", "-1", "not a number"},
		{"dataplane", "node", "1 ", "not a number"},
		{"dataplane", "node", "0x1", "not a number"},
		{"dataplane", "node", "99999999999999999999999", "0 to 63"},
		{"dataplane", "socket", "relative", "begins with /"},
		{"dataplane", "socket", "", "begins with /"},
		{"dataplane", "socket",
		 "/123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
		 "12345678901234567",
		 "at most 107"},
		{"dataplane", "socket_mode", "0888", "octal"},
		{"dataplane", "socket_mode", "0066", "octal"},
		{"dataplane", "socket_mode", "+666", "octal"},
		{"dataplane", "idle", "snooze", "spin, yield or sleep"},
		{"dataplane", "log_level", "loud", "notice, info, debug"},
		{"dataplane", "log_level", "7", "notice, info, debug"},
		{"dataplane", "log_level", "Notice", "notice, info, debug"},
		{"dataplane", "keepalive_ms", "1", "100 to"},
		{"dataplane", "metrics", "", "127.0.0.1:9464"},
		{"dataplane", "metrics", "9464", "127.0.0.1:9464"},
		{"dataplane", "metrics", ":9464", "127.0.0.1:9464"},
		{"dataplane", "metrics", "localhost:9464", "127.0.0.1:9464"},
		{"dataplane", "metrics", "127.0.0.1", "127.0.0.1:9464"},
		{"dataplane", "metrics", "127.0.0.1:0", "127.0.0.1:9464"},
		{"dataplane", "metrics", "127.0.0.1:65536", "127.0.0.1:9464"},
		{"dataplane", "metrics", "127.0.0.1/8:9464", "127.0.0.1:9464"},
		{"dataplane", "metrics", "::1:9464", "[::1]:9464"},
		{"dataplane", "metrics", "[::1]", "[::1]:9464"},
		{"dataplane", "metrics", "[127.0.0.1]:9464", "[::1]:9464"},
		{"dataplane", "metrics", "[]:9464", "[::1]:9464"},
		{"dataplane", "metrics", "[:9464", "[::1]:9464"},
		{"dataplane", "metrics", "unix:relative", "unix:/run"},
		{"dataplane", "metrics",
		 "127.0.0.1:"
		 "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
		 "00000000000000000000000000000000000000000000000000000000000000000000000000009464",
		 "127.0.0.1:9464"},
		{"dataplane", "metrics",
		 "unix:/1234567890123456789012345678901234567890123456789012345678901234567890123456789012345"
		 "6789012345678901234567",
		 "longer than 107"},
		{"port p0", "address", "192.0.2.1", "prefix of the link is missing"},
		{"port p0", "address", "192.0.2.1/0", "prefix of the link is missing"},
		{"port p0", "address", "192.0.2.1/33", "above 32; write as in 192.0.2.1/24"},
		{"port p0", "address", "2001:db8::1/129", "above 128; write as in 2001:db8::1/64"},
		{"port p0", "address", "192.0.2.1/", "not an IPv4 or IPv6 address"},
		{"port p0", "address", "192.0.2/24", "not an IPv4 or IPv6 address"},
		{"port p0", "address", "host/24", "not an IPv4 or IPv6 address"},
		{"port p0", "address", "127.0.0.1/8", "no host can have"},
		{"port p0", "address", "224.0.0.1/24", "no host can have"},
		{"port p0", "address", "0.0.0.0/24", "no host can have"},
		{"port p0", "address", "::1/64", "no host can have"},
		{"port p0", "address", "ff02::1/64", "no host can have"},
		{"port p0", "address", "::ffff:192.0.2.1/96", "no host can have"},
		{"port p0", "gateway", "192.0.2.254/24", "without /24"},
		{"port p0", "mtu", "100", "576 to 9216"},
		{"port p0", "mtu", "9217", "576 to 9216"},
		{"port p0", "path_mtu", "1500", "256, 512, 1024, 2048 or 4096"},
		{"port p0", "ack_timeout", "13", "14 (67 ms) to 24 (69 s)"},
		{"port p0", "ack_timeout", "25", "14 (67 ms) to 24 (69 s)"},
		{"port p0", "ack_timeout", "1s", "14 (67 ms) to 24 (69 s)"},
		{"port p0", "rnr_retry", "8", "0 to 6, or 7 for no limit"},
		{"port p0", "rnr_retry", "-1", "0 to 6, or 7 for no limit"},
		{"port p0", "adress", "192.0.2.1/24", "no such key for a port"},
		{"port ", "mtu", "1500", "cannot be a name"},
		{"port 12345678901234567890123456789012", "mtu", "1500", "cannot be a name"},
		{"peer 2", "secret-file", "secret", "not an absolute path"},
		{"peer 2", "old_secret_file", "/nowhere/secret", "no such file"},
		{"peer 2", "addr", "192.0.2.2", "no such key for a peer"},
		{"peer 2", "port", "a b", "cannot be a port's name"},
		{"peer 0", "address", "192.0.2.2", "1 to 63"},
		{"limits", "max_qp", "0", "1 to 16384"},
		{"limits", "max_qp", "16385", "1 to 16384"},
		{"limits", "max_qp_wr", "65536", "1 to 65535"},
		{"limits", "max_cq_entries", "196608", "16 to 196607"},
		{"limits", "max_sge", "9", "1 to 8"},
		{"limits", "max_private_data", "65", "0 to 64"},
		{"limits", "max_mr_bytes", "1X", "512M"},
		{"limits", "max_mr_bytes", "M", "512M"},
		{"limits", "max_mr_bytes", "99999999999T", "at least 4096"},
		{"limits", "max_mr_bytes", "1", "at least 4096"},
		{"limits", "max_message", "3G", "4096 to 2147483648"},
		{"limits", "max_foo", "1", "no such key in [limits]"},
		{"", "a", "b", "no such section"},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct config before;
		config_defaults(&config);
		before = config;
		why[0] = '\0';
		assert_true(set(bad[i].section, bad[i].key, bad[i].value) < 0);
		assert_says(bad[i].says);
		/* A refused value changes nothing, except for the unused entry of a port or peer that was
		 * tried. */
		assert_int_equal(config.num_ports, 0);
		assert_int_equal(config.num_peers, 0);
		memcpy(config.port, before.port, sizeof(before.port));
		memcpy(config.peer, before.peer, sizeof(before.peer));
		assert_memory_equal(&config, &before, sizeof(before));
	}
}

static void
test_sizes(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t value;
	} sizes[] = {{"4096", 4096},  {"5K", 5120},       {"5k", 5120},
		     {"7M", 7 << 20}, {"9g", 9ull << 30}, {"2T", 2ull << 40}};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(set("limits", "max_mr_total", sizes[i].text), 0);
		assert_int_equal(config.limits.max_mr_total, sizes[i].value);
	}
}

static void
test_too_many(void **state)
{
	(void)state;
	char section[32], address[32];

	for (unsigned int i = 0; i < CONFIG_PORTS_MAX; i++) {
		snprintf(section, sizeof(section), "port p%u", i);
		snprintf(address, sizeof(address), "10.0.%u.1/24", i);
		assert_int_equal(set(section, "address", address), 0);
	}
	assert_int_equal(set("port more", "address", "10.1.0.1/24"), -ENOSPC);
	assert_says("more than 16 ports");
	assert_int_equal(set("port p15", "mtu", "1500"), 0); /* existing ports can still be changed */
	assert_int_equal(set("dataplane", "node", "63"), 0);
	for (unsigned int i = 1; i <= 62; i++) {
		snprintf(section, sizeof(section), "peer %u", i);
		snprintf(address, sizeof(address), "10.0.0.%u", i + 1);
		assert_int_equal(set(section, "address", address), 0);
	}
	assert_int_equal(config_validate(&config, why, sizeof(why)), 0);
}

static void
test_options(void **state)
{
	(void)state;
	char *one[] = {(char *)(uintptr_t) "--", (char *)(uintptr_t) "--version"};
	enum config_action action;
	bool check, help;

	assert_int_equal(options(&check, &help, "--node", "1", "--socket", "/tmp/s", "--port",
				 "name=p0,device=net_memif0,address=192.0.2.1/24,mtu=4096", "--peer",
				 "node=2,address=192.0.2.2", "--idle", "yield", "--limit", "max_qp=1000",
				 "--limit=max_clients=5", "--socket-mode=0600", "--keepalive_ms", "700",
				 "--check", NULL),
			 0);
	assert_true(check);
	assert_false(help);
	assert_int_equal(config.node, 1);
	assert_string_equal(config.socket, "/tmp/s");
	assert_string_equal(config.port[0].device, "net_memif0");
	assert_int_equal(config.port[0].mtu, 4096);
	assert_int_equal(config.peer[0].node, 2);
	assert_int_equal(config.idle, ONE_IDLE_YIELD);
	assert_int_equal(config.limits.max_qp, 1000);
	assert_int_equal(config.max_clients, 5);
	assert_int_equal(config.socket_mode, 0600);
	assert_int_equal(config.keepalive_ms, 700);
	assert_int_equal(config_validate(&config, why, sizeof(why)), 0);

	assert_int_equal(options(&check, &help, "--help", NULL), 0);
	assert_true(help);
	assert_false(check);
	assert_int_equal(options(&check, &help, NULL), 0);
	assert_int_equal(config_options(&config, 0, NULL, &action, why, sizeof(why)), 0);
	assert_int_equal(action, CONFIG_SERVE);
	assert_int_equal(config_options(&config, 2, one, &action, why, sizeof(why)), 0);
	assert_int_equal(action, CONFIG_VERSION);
	one[1] = (char *)(uintptr_t) "--precheck";
	assert_int_equal(config_options(&config, 2, one, &action, why, sizeof(why)), 0);
	assert_int_equal(action, CONFIG_PRECHECK);
	assert_true(config_is_option("--port") && config_is_option("--socket-mode=0600"));
	assert_false(config_is_option("--vdev=net_ring0") || config_is_option("-l") ||
		     config_is_option("--file-prefix") || config_is_option("--=") || config_is_option("--"));
}

static void
test_options_override_the_file(void **state)
{
	(void)state;
	char path[] = "/tmp/oneside-config-XXXXXX";
	const char *text =
		"[dataplane]\nnode = 5\nidle = sleep\n[port p0]\naddress = 192.0.2.9/24\nmtu = 1500\n";
	int fd = mkstemp(path);
	bool check, help;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	/* Options override the file also when --config comes last. */
	assert_int_equal(options(&check, &help, "--node", "6", "--port", "name=p0,address=192.0.2.8/24",
				 "--config", path, NULL),
			 0);
	unlink(path);
	assert_int_equal(config.node, 6);
	assert_int_equal(config.idle, ONE_IDLE_SLEEP);
	assert_int_equal(config.num_ports, 1);
	assert_int_equal(config.port[0].mtu, 1500);
	assert_int_equal(config.port[0].addr[0].bytes[3], 8);
}

static void
test_bad_options(void **state)
{
	(void)state;
	bool check, help;
	static const struct {
		const char *first, *second, *says;
	} bad[] = {
		{"node", NULL, "not an option"},
		{"-n", NULL, "not an option"},
		{"--", NULL, "not an option"},
		{"--nod", "1", "no such option"},
		{"--node", NULL, "value is missing"},
		{"--socket", "--check", "value is missing"},
		{"--check=yes", NULL, "takes no value"},
		{"--precheck=yes", NULL, "takes no value"},
		{"--node=", NULL, "not a number"},
		{"--port", "p0", "not KEY=VALUE"},
		{"--port", "name=p0", "missing"},
		{"--port", "address=192.0.2.1/24", "name is missing"},
		{"--port", "name=p0,adress=192.0.2.1/24", "no such key for a port"},
		{"--port", "", "missing"},
		{"--port", "name=p0,mtu=1500,address=192.0.2.1/24,mtu=4200", "mtu is given twice"},
		{"--user", "name=root,name=daemon,weight=2", "name is given twice"},
		{"--peer", "address=192.0.2.1", "node is missing"},
		{"--peer", "node=99,address=192.0.2.1", "1 to 63"},
		{"--limit", "max_qp", "not KEY=VALUE"},
		{"--limit", "=3", "not KEY=VALUE"},
		{"--limit", "nothing=3", "no such key"},
		{"--config", "/nonexistent/x", "/nonexistent/x"},
		{"--port=name=p0,mtu=1500,address=192.0.2.1/24", "--port=address=192.0.2.2/24,name=p0",
		 "address is given twice"},
		{"--node=1", "--node=2", "--node 1 and --node 2: it is given twice, as 1 and as 2; keep one"},
		{"--log-level=info", "--log_level=debug", "given twice, as info and as debug"},
		{"--limit=max_qp=5", "--limit=max-qp=6", "given twice, as 5 and as 6"},
		{"--config=/nonexistent/a", "--config=/nonexistent/b", "given twice"},
		{"--0123456789012345678901234567890123456789012345678901234567890123456789", NULL,
		 "no such option"},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		config_defaults(&config);
		why[0] = '\0';
		assert_true(options(&check, &help, bad[i].first, bad[i].second, NULL) < 0);
		assert_says(bad[i].says);
	}
	char *big = calloc(1, 2000);
	assert_non_null(big);
	memset(big, 'a', 1999);
	assert_int_equal(options(&check, &help, "--port", big, NULL), -E2BIG);
	assert_says("--config");
	free(big);
}

static void
test_across_sections(void **state)
{
	(void)state;
	static const struct {
		const char *entries[8][3];
		const char *says;
	} bad[] = {
		{{{"port p0", "mtu", "1500"}}, "port p0: it has no address"},
		{{{"port p0", "address", "192.0.2.0/24"}}, "the network or its broadcast"},
		{{{"port p0", "address", "192.0.2.255/24"}}, "the network or its broadcast"},
		{{{"port p0", "address", "192.0.2.1/24"}, {"port p0", "gateway", "192.0.2.255"}},
		 "gateway 192.0.2.255"},
		{{{"port p0", "address", "192.0.2.1/24"}, {"port p0", "gateway", "192.0.2.1"}},
		 "gateway 192.0.2.1"},
		{{{"port p0", "address", "192.0.2.1/24"}, {"port p0", "gateway", "2001:db8::1"}},
		 "gateway 2001:db8::1"},
		{{{"port p0", "address", "192.0.2.1/24"},
		  {"port p0", "mtu", "4096"},
		  {"port p0", "path_mtu", "4096"}},
		 "do not fit mtu 4096"},
		{{{"port p0", "address", "10.0.0.1/8 192.0.2.1/24"},
		  {"port p1", "address", "2001:db8::1/64 192.0.2.1/25"}},
		 "port p1: address 192.0.2.1/25 is port p0's already"},
		{{{"port p0", "address", "192.0.2.1/24"}, {"port p1", "address", "192.0.2.1/25"}},
		 "port p1: address 192.0.2.1/25 is port p0's already"},
		{{{"port p0", "address", "192.0.2.1/24"},
		  {"port p0", "device", "d"},
		  {"port p1", "address", "192.0.2.3/24"},
		  {"port p1", "device", "d"}},
		 "device d is port p0's already"},
		{{{"port p0", "address", "192.0.2.1/24"},
		  {"port p0", "device", "d"},
		  {"port p1", "address", "192.0.2.3/24"}},
		 "for all or for none"},
		{{{"port p0", "address", "192.0.2.1/24"}, {"peer 2", "address", "192.0.2.2"}},
		 "this node itself has no id"},
		{{{"dataplane", "node", "2"},
		  {"port p0", "address", "192.0.2.1/24"},
		  {"peer 2", "address", "192.0.2.2"}},
		 "this node's own id"},
		{{{"dataplane", "node", "1"},
		  {"port p0", "address", "192.0.2.1/24"},
		  {"peer 2", "port", "p0"}},
		 "peer 2: it has no address"},
		{{{"dataplane", "node", "1"},
		  {"port p0", "address", "192.0.2.1/24"},
		  {"peer 2", "address", "192.0.2.1"}},
		 "our own port p0's"},
		{{{"dataplane", "node", "1"},
		  {"port p0", "address", "192.0.2.1/24"},
		  {"peer 2", "address", "192.0.2.2"},
		  {"peer 3", "address", "192.0.2.2"}},
		 "is peer 2's already"},
		{{{"dataplane", "node", "1"},
		  {"port p0", "address", "192.0.2.1/24"},
		  {"peer 2", "address", "192.0.3.2"}},
		 "no port reaches address 192.0.3.2"},
		{{{"dataplane", "node", "1"},
		  {"port p0", "address", "192.0.2.1/24"},
		  {"peer 2", "address", "2001:db8::2"}},
		 "no port reaches"},
		{{{"dataplane", "node", "1"},
		  {"port p0", "address", "192.0.2.1/24"},
		  {"peer 2", "address", "192.0.2.2"},
		  {"peer 2", "port", "p7"}},
		 "there is no port p7"},
		{{{"dataplane", "socket", "/run/x"}, {"dataplane", "metrics", "unix:/run/x"}},
		 "metrics unix:/run/x: this is the attachments' socket"},
		{{{"dataplane", "socket", "/run/x"}, {"dataplane", "metrics", "unix:/run/x.ctl"}},
		 "metrics unix:/run/x.ctl: this is the control socket"},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		config_defaults(&config);
		for (size_t j = 0; bad[i].entries[j][0] != NULL; j++)
			assert_int_equal(
				set(bad[i].entries[j][0], bad[i].entries[j][1], bad[i].entries[j][2]), 0);
		why[0] = '\0';
		assert_true(config_validate(&config, why, sizeof(why)) < 0);
		assert_says(bad[i].says);
	}
}

/* Clouds and IPv6 have gateways outside of the prefix. */
static void
test_gateways_elsewhere(void **state)
{
	(void)state;
	static const char *const good[][2] = {
		{"192.0.2.1/24", "198.51.100.1"},    {"10.0.0.5/32", "169.254.0.1"},
		{"10.0.0.5/32", "10.0.0.1"},         {"2001:db8::10/64", "fe80::1"},
		{"2001:db8::10/128", "2001:db8::1"},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(set("port p0", "address", good[i][0]), 0);
		assert_int_equal(set("port p0", "gateway", good[i][1]), 0);
		assert_int_equal(config_validate(&config, why, sizeof(why)), 0);
		assert_int_equal(setup(state), 0);
	}
}

static void
test_peers_find_their_port(void **state)
{
	(void)state;
	assert_int_equal(set("dataplane", "node", "1"), 0);
	assert_int_equal(set("port wide", "address", "10.0.0.1/8"), 0);
	assert_int_equal(set("port narrow", "address", "10.1.0.1/16"), 0);
	assert_int_equal(set("port routed", "address", "192.0.2.1/24"), 0);
	assert_int_equal(set("port routed", "gateway", "192.0.2.254"), 0);
	assert_int_equal(set("peer 2", "address", "10.1.0.2"), 0);
	assert_int_equal(set("peer 3", "address", "10.2.0.2"), 0);
	assert_int_equal(set("peer 4", "address", "198.51.100.2"), 0);
	assert_int_equal(set("peer 5", "address", "10.1.0.5"), 0);
	assert_int_equal(set("peer 5", "port", "wide"), 0);
	assert_int_equal(config_validate(&config, why, sizeof(why)), 0);
	assert_int_equal(port_to(0), 1); /* by the longest prefix */
	assert_int_equal(port_to(1), 0);
	assert_int_equal(port_to(2), 2);
	assert_int_equal(port_to(3), 0);
}

static void
test_address_text(void **state)
{
	(void)state;
	char text[CONFIG_ADDR_TEXT];
	assert_int_equal(set("port p0", "address", "2001:db8::1/64"), 0);
	assert_string_equal(config_addr_text(config.port[0].addr, true, text), "2001:db8::1/64");
	assert_string_equal(config_addr_text(config.port[0].addr, false, text), "2001:db8::1");
	assert_string_equal(config_addr_text(config.port[0].gateway, true, text), "none");
}

static void
test_usage_names_every_key(void **state)
{
	(void)state;
	static const char *const names[] = {
		"--config",    "--port",  "--peer",           "--node",     "--socket ", "--socket-mode",
		"--idle",      "--limit", "--check",          "--precheck", "--help",    "--keepalive-ms",
		"--work-pool", "--mbufs", "--process-memory", "--metrics",  "max_qp_wr", "max_bytes_per_uid"};
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);
	assert_non_null(file);
	config_usage(file);
	fclose(file);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_non_null(strstr(text, names[i]));
	free(text);
}

/* ---- memory of the machine and of its cgroups ---- */

static void
put(const char *root, const char *path, const char *text)
{
	char at[256];

	for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		snprintf(at, sizeof(at), "%s%.*s", root, (int)(slash - path), path);
		assert_true(mkdir(at, 0700) == 0 || errno == EEXIST);
	}
	snprintf(at, sizeof(at), "%s%s", root, path);
	FILE *file = fopen(at, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int
removed(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st, (void)type, (void)where;
	return remove(path);
}

static void
test_memory(void **state)
{
	(void)state;
	char root[] = "/tmp/oneside-config-XXXXXX";
	assert_non_null(mkdtemp(root));
	uint64_t machine = config_memory(root);
	assert_int_equal(machine, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
	/* cgroup v2: the group has no limit, its parent has one; the least limit counts. */
	put(root, "/proc/self/cgroup", "0::/system.slice/one.service\n");
	put(root, "/sys/fs/cgroup/system.slice/one.service/memory.max", "max\n");
	assert_int_equal(config_memory(root), machine);
	put(root, "/sys/fs/cgroup/system.slice/memory.max", "104857600\n");
	assert_int_equal(config_memory(root), 100u << 20);
	put(root, "/sys/fs/cgroup/system.slice/one.service/memory.max", "52428800\n");
	assert_int_equal(config_memory(root), 50u << 20);
	put(root, "/sys/fs/cgroup/system.slice/one.service/memory.max", "209715200\n");
	assert_int_equal(config_memory(root), 100u << 20);
	/* In a container the path is the host's, but the mount shows the container's own group as the
	 * root. */
	put(root, "/proc/self/cgroup", "0::/docker/0123\n");
	assert_int_equal(config_memory(root), machine);
	put(root, "/sys/fs/cgroup/memory.max", "62914560\n");
	assert_int_equal(config_memory(root), 60u << 20);
	/* cgroup v1, also next to an empty v2, and with controllers that share a hierarchy. */
	put(root, "/proc/self/cgroup", "5:cpuset:/a\n4:cpu,memory:/a/b:c\n0::/\n");
	put(root, "/sys/fs/cgroup/memory.max", "max\n");
	put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(config_memory(root), machine);
	put(root, "/sys/fs/cgroup/memory/a/b:c/memory.limit_in_bytes", "41943040\n");
	assert_int_equal(config_memory(root), 40u << 20);
	assert_true(config_huge_memory(root) == UINT64_MAX);
	put(root, "/proc/self/cgroup", "6:hugetlb:/a\n4:cpu,memory:/a/b:c\n");
	put(root, "/sys/fs/cgroup/hugetlb/a/hugetlb.2MB.limit_in_bytes", "4194304\n");
	assert_int_equal(config_huge_memory(root), 4u << 20);
	put(root, "/proc/self/cgroup", "0::/a\n");
	put(root, "/sys/fs/cgroup/a/hugetlb.2MB.max", "0\n");
	assert_int_equal(config_huge_memory(root), 0);
	/* Limits are hidden if no file system shows the group's hierarchy. */
	assert_true(config_memory_hidden(root));
	put(root, "/sys/fs/cgroup/cgroup.procs", "");
	assert_false(config_memory_hidden(root));
	put(root, "/proc/self/cgroup", "4:memory:/a\n");
	assert_true(config_memory_hidden(root));
	put(root, "/sys/fs/cgroup/memory/cgroup.procs", "");
	assert_false(config_memory_hidden(root));
	put(root, "/proc/self/cgroup", "4:memoryless:/a/b:c\nrubbish\n::\n");
	assert_false(config_memory_hidden(root));
	assert_int_equal(config_memory(root), machine);
	/* By default users may have three quarters of the memory. */
	config_defaults(&config);
	assert_int_equal(config.max_bytes_per_uid, config_memory("") / 4 * 3);
	assert_int_equal(config.limits.max_mr_total, config.max_bytes_per_uid);
	assert_int_equal(nftw(root, removed, 8, FTW_DEPTH | FTW_PHYS), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_defaults, setup),
		cmocka_unit_test_setup(test_file, setup),
		cmocka_unit_test_setup(test_sample_file, setup),
		cmocka_unit_test_setup(test_bad_files, setup),
		cmocka_unit_test_setup(test_bad_lines, setup),
		cmocka_unit_test_setup(test_metrics, setup),
		cmocka_unit_test_setup(test_bad_values, setup),
		cmocka_unit_test_setup(test_sizes, setup),
		cmocka_unit_test_setup(test_too_many, setup),
		cmocka_unit_test_setup(test_options, setup),
		cmocka_unit_test_setup(test_options_override_the_file, setup),
		cmocka_unit_test_setup(test_bad_options, setup),
		cmocka_unit_test_setup(test_across_sections, setup),
		cmocka_unit_test_setup(test_gateways_elsewhere, setup),
		cmocka_unit_test_setup(test_peers_find_their_port, setup),
		cmocka_unit_test_setup(test_address_text, setup),
		cmocka_unit_test_setup(test_usage_names_every_key, setup),
		cmocka_unit_test_setup(test_memory, setup),
	};
	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
