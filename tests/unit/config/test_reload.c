/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys that a running data plane takes over from another configuration: all changes, or none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "config/config.h"
#include "config/internal.h"
#include "config/secret.h"

static struct config running, next;
static char why[1024], changed[1024];

static void
set(struct config *config, const char *section, const char *key, const char *value)
{
	if (config_set(config, section, key, value, why, sizeof(why)) != 0)
		fail_msg("%s", why);
}

static int
setup(void **state)
{
	memset(&running, 0, sizeof(running));
	config_defaults(&running);
	set(&running, "dataplane", "node", "1");
	set(&running, "port p0", "address", "192.0.2.1/24");
	set(&running, "port p1", "address", "198.51.100.1/24");
	set(&running, "peer 2", "address", "192.0.2.2");
	set(&running, "peer 3", "address", "192.0.2.3");
	next = running;
	return 0;
}

/* Refused by the key's name, and no byte of the configuration has changed. */
static void
assert_fixed(const char *name)
{
	struct config before = running;

	/* A key that could change is not changed, either. */
	next.keepalive_ms++;
	why[0] = '\0';
	assert_int_equal(config_reload(&running, &next, changed, sizeof(changed), why, sizeof(why)), -EBUSY);
	assert_non_null(strstr(why, name));
	assert_non_null(strstr(why, "nothing has been changed"));
	assert_string_equal(changed, "");
	assert_memory_equal(&running, &before, sizeof(running));
}

static void
assert_taken(const char *names)
{
	assert_int_equal(config_reload(&running, &next, changed, sizeof(changed), why, sizeof(why)), 0);
	assert_string_equal(changed, names);
	assert_memory_equal(&running, &next, sizeof(running));
	assert_int_equal(config_reload(&running, &next, changed, sizeof(changed), why, sizeof(why)), 0);
	assert_string_equal(changed, "");
}

/* Sets a key to another value than its present one. */
static void
alter(const struct config_key *key, const char *section)
{
	static const char *const others[][2] = {
		{"socket_mode", "0600"},  {"idle", "yield"},           {"process_memory", "no"},
		{"socket", "/elsewhere"}, {"ctl", "/elsewhere"},       {"state", "/elsewhere"},
		{"ctl_group", "4711"},    {"ctl_admin_group", "4711"}, {"metrics", "127.0.0.1:9464"},
		{"log_level", "debug"},   {"placement", "next"},
	};
	char text[32];

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(others[i][0], key->name) == 0) {
			set(&next, section, key->name, others[i][1]);
			return;
		}
	for (uint64_t more = 7; memcmp(&next, &running, sizeof(next)) == 0; more--) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)(key->min + more));
		set(&next, section, key->name, text);
	}
}

static void
test_nothing(void **state)
{
	assert_taken("");
}

static void
test_every_key(void **state)
{
	static const char *const fixed[] = {"node",      "socket", "socket_mode", "ctl",    "idle",
					    "work_pool", "mbufs",  "state",       "metrics"};
	size_t num_fixed = 0;

	for (const struct config_key *key = config_sections[CONFIG_DATAPLANE].keys; key->name != NULL;
	     key++) {
		setup(NULL);
		alter(key, "dataplane");
		if (key->fixed)
			assert_string_equal(fixed[num_fixed++], key->name);
		if (key->fixed)
			assert_fixed(key->name);
		else
			assert_taken(key->name);
	}
	assert_int_equal(num_fixed, sizeof(fixed) / sizeof(fixed[0]));
	for (const struct config_key *key = config_sections[CONFIG_LIMITS].keys; key->name != NULL; key++) {
		setup(NULL);
		alter(key, "limits");
		assert_taken(key->name);
	}
}

static void
test_ports(void **state)
{
	static const char *const fixed[][2] = {{"address", "192.0.2.9/24"},
					       {"address", "192.0.2.1/25"},
					       {"device", "net_memif7"},
					       {"address", "192.0.2.1/24 2001:db8::1/64"},
					       {"gateway", "192.0.2.254"},
					       {"route", "198.51.100.0/24 via 192.0.2.253"},
					       {"mtu", "1500"},
					       {"path_mtu", "1024"}};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		setup(NULL);
		set(&next, "port p0", fixed[i][0], fixed[i][1]);
		assert_fixed("port p0");
	}
	setup(NULL);
	set(&next, "port p2", "address", "203.0.113.1/24");
	assert_fixed("3 ports, which were 2");
	setup(NULL);
	set(&next, "port p1", "ack_timeout", "20");
	set(&next, "port p0", "rnr_retry", "3");
	assert_taken("port p0: rnr_retry, port p1: ack_timeout");
}

static void
test_peers(void **state)
{
	set(&next, "peer 4", "address", "192.0.2.4");
	assert_taken("peers");
	assert_int_equal(running.num_peers, 3);
	assert_int_equal(config_peer_remove(&next, 3, why, sizeof(why)), 0);
	assert_taken("peers");
	assert_int_equal(running.num_peers, 2);
	assert_int_equal(running.peer[1].node, 4);
	assert_int_equal(config_peer_remove(&next, 3, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "peer 3"));
	set(&next, "peer 4", "port", "p0");
	assert_taken("peers");
	set(&next, "peer 4", "address", "192.0.2.5");
	set(&next, "dataplane", "idle", "sleep");
	assert_fixed("idle");
}

/* Users can be changed, added and removed; omitted keys have their defaults again. */
static void
test_users(void **state)
{
	set(&next, "user 1000", "weight", "3");
	assert_taken("users");
	assert_int_equal(config_user_of(&running, 1000).weight, 3);
	assert_int_equal(config_user_of(&running, 1000).max_ops, 0);
	set(&next, "user 1000", "max_ops", "100000");
	set(&next, "user root", "max_bytes", "1G");
	assert_taken("users");
	assert_int_equal(config_user_of(&running, 1000).weight, 3);
	assert_int_equal(config_user_of(&running, 1000).max_ops, 100000);
	assert_int_equal(config_user_of(&running, 0).max_bytes, 1 << 30);
	assert_int_equal(config_user_of(&running, 0).weight, 1);
	set(&next, "user 0", "max_bytes", "0");
	assert_taken("users");
	memset(next.user, 0, sizeof(next.user));
	next.num_users = 0;
	assert_taken("users");
	assert_int_equal(config_user_of(&running, 1000).weight, 1);
	assert_int_equal(config_user_of(&running, 1000).max_ops, 0);
}

static void
refused_user(const char *section, const char *key, const char *value, const char *says)
{
	struct config before = next;

	if (config_set(&next, section, key, value, why, sizeof(why)) == 0)
		fail_msg("[%s] %s = %s is taken", section, key, value);
	if (strstr(why, says) == NULL)
		fail_msg("%s", why);
	assert_memory_equal(&next, &before, sizeof(next));
}

static void
test_wrong_users(void **state)
{
	refused_user("user no-such-user-here", "weight", "1", "there is no such user");
	refused_user("user 4294967295", "weight", "1", "there is no such user");
	refused_user("user 7", "weight", "0", "from 1 to 1000");
	refused_user("user 7", "weight", "1001", "from 1 to 1000");
	refused_user("user 7", "weight", "-1", "from 1 to 1000");
	refused_user("user 7", "weight", "1.5", "from 1 to 1000");
	refused_user("user 7", "max_ops", "99", "write 100 to");
	refused_user("user 7", "max_ops", "1K", "write 100 to");
	refused_user("user 7", "max_bytes", "1048575", "write 1048576 to");
	refused_user("user 7", "max_bytes", "2048T", "write 1048576 to");
	refused_user("user 7", "max_bytes", "", "or 0 for none");
	refused_user("user 7", "share", "1", "one of weight, max_ops, max_bytes");
	for (uint32_t i = 0; i < CONFIG_USERS_MAX; i++) {
		char section[32];

		snprintf(section, sizeof(section), "user %u", 100 + i);
		set(&next, section, "weight", "2");
	}
	refused_user("user 7", "weight", "1", "more than 64 users");
}

static void
write_secret(const char *path, char digit)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	for (int i = 0; i < 32; i++)
		fputc(digit, file);
	assert_int_equal(fclose(file), 0);
}

static void
set_secret(const char *path, char digit)
{
	write_secret(path, digit);
	set(&next, "peer 2", "secret-file", path);
}

/* Contents of secret files can change, their paths cannot; each secret is held once, and released after
 * use. */
static void
test_secrets(void **state)
{
	char path[] = "/tmp/oneside-reload-XXXXXX";
	struct config trial;
	size_t len;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	set_secret(path, '1');
	assert_taken("peers");
	config_release(&next);
	assert_int_equal(config_secret_bytes(running.peer[0].secret[0], &len)[0], 0x11);
	assert_int_equal(len, 16);
	/* Reading an unchanged secret again is no change. */
	config_copy(&next, &running);
	set_secret(path, '1');
	assert_int_equal(config_reload(&running, &next, changed, sizeof(changed), why, sizeof(why)), 0);
	assert_string_equal(changed, "");
	/* A new secret, next to the previous one. */
	set(&next, "peer 2", "old_secret_file", path);
	set_secret(path, '2');
	config_copy(&trial, &running);
	assert_int_equal(config_reload(&trial, &next, changed, sizeof(changed), why, sizeof(why)), 0);
	assert_string_equal(changed, "peers");
	config_release(&trial);
	assert_int_equal(config_secret_bytes(running.peer[0].secret[0], &len)[0], 0x11);
	assert_taken("peers");
	config_release(&next);
	assert_int_equal(config_secret_bytes(running.peer[0].secret[0], &len)[0], 0x22);
	assert_int_equal(config_secret_bytes(running.peer[0].secret[1], &len)[0], 0x11);
	/* The peer is removed, and added again without a secret. */
	config_copy(&next, &running);
	assert_int_equal(config_peer_remove(&next, 2, why, sizeof(why)), 0);
	set(&next, "peer 2", "address", "192.0.2.2");
	assert_null(next.peer[1].secret[0]);
	assert_taken("peers");
	/* A peer with an old secret must have a current one. */
	write_secret(path, '3');
	set(&next, "peer 2", "old-secret-file", path);
	assert_int_equal(config_validate(&next, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "peer 2: it has an old secret and none in use; write secret_file"));
	config_release(&next);
	assert_int_equal(config_validate(&next, why, sizeof(why)), 0);
	unlink(path);
	assert_int_equal(config_set(&next, "peer 2", "secret_file", path, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "peer 2: secret_file: secret file /tmp/oneside-reload-"));
	assert_null(next.peer[1].secret[0]);
}

static void
test_ctl_path(void **state)
{
	char path[CONFIG_PATH_MAX];

	assert_true(config_ctl_path(&running, path));
	assert_string_equal(path, "/run/oneside/ctl");
	set(&running, "dataplane", "socket", "/tmp/a.sock");
	assert_true(config_ctl_path(&running, path));
	assert_string_equal(path, "/tmp/a.sock.ctl");
	set(&running, "dataplane", "ctl", "/tmp/elsewhere");
	assert_true(config_ctl_path(&running, path));
	assert_string_equal(path, "/tmp/elsewhere");
	running.ctl[0] = '\0';
	memset(running.socket + 1, 'x', CONFIG_PATH_MAX - 2);
	running.socket[CONFIG_PATH_MAX - 1] = '\0';
	assert_false(config_ctl_path(&running, path));
	assert_int_equal(config_validate(&running, why, sizeof(why)), -ENAMETOOLONG);
	assert_non_null(strstr(why, "choose ctl = PATH"));
	set(&running, "dataplane", "ctl", running.socket);
	assert_int_equal(config_validate(&running, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "give each its own"));
	set(&running, "dataplane", "ctl", "/tmp/elsewhere");
	assert_int_equal(config_validate(&running, why, sizeof(why)), 0);
}

static void
test_groups(void **state)
{
	set(&next, "dataplane", "ctl_group", "root");
	assert_int_equal(next.ctl_group, 0);
	assert_int_not_equal(
		config_set(&next, "dataplane", "ctl_group", "no-such-group-here", why, sizeof(why)), 0);
	assert_non_null(strstr(why, "there is no such group"));
	/* The gid that stands for none is not a group. */
	assert_int_not_equal(config_set(&next, "dataplane", "ctl_group", "4294967295", why, sizeof(why)), 0);
	assert_int_equal(next.ctl_group, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nothing, setup),  cmocka_unit_test_setup(test_every_key, setup),
		cmocka_unit_test_setup(test_ports, setup),    cmocka_unit_test_setup(test_peers, setup),
		cmocka_unit_test_setup(test_users, setup),    cmocka_unit_test_setup(test_wrong_users, setup),
		cmocka_unit_test_setup(test_ctl_path, setup), cmocka_unit_test_setup(test_groups, setup),
		cmocka_unit_test_setup(test_secrets, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
