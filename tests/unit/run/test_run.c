/* SPDX-License-Identifier: BSD-3-Clause */
/* Files and variables that oneside-run derives from a data plane's ports. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/run.h"

#define HOME "/tmp/oneside-run-test.XXXXXX"

static char home[sizeof(HOME)], socket_path[PATH_MAX];
static struct run_ports ports;

static void
touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static int
setup(void **state)
{
	strcpy(home, HOME);
	assert_non_null(mkdtemp(home));
	setenv("XDG_RUNTIME_DIR", home, 1);
	snprintf(socket_path, sizeof(socket_path), "%s/plane.sock", home);
	touch(socket_path);
	setenv("ONESIDE_SOCKET", socket_path, 1);
	ports = (struct run_ports){.num = 2};
	for (uint32_t i = 0; i < 2; i++) {
		struct one_port *port = &ports.port[i];

		*port = (struct one_port){.num_ports = 2,
					  .mbps = 100000,
					  .hwaddr = 0x020000000001,
					  .link_up = 1,
					  .num_addrs = 2};
		snprintf(port->name, sizeof(port->name), "p%u", i);
		port->addr[0] = (struct one_port_addr){.family = AF_INET, .addr = {192, 0, 2, 1}};
		port->addr[1] =
			(struct one_port_addr){.family = AF_INET6, .addr = {0x20, 1, 0xd, 0xb8, [15] = 1}};
	}
	return 0;
}

static int
teardown(void **state)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -rf %s", home);
	return system(command);
}

static void
check_file(const char *tree, const char *name, const char *expected)
{
	char path[PATH_MAX], text[128] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	file = fopen(path, "r");
	if (file == NULL)
		fail_msg("there is no %s", path);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
	assert_string_equal(text, expected);
}

static void
test_files(void **state)
{
	char tree[PATH_MAX], path[PATH_MAX + 64], *real;
	struct stat status;

	assert_int_equal(run_present(&ports, tree, sizeof(tree)), 0);
	check_file(tree, "sys/class/infiniband/p0/node_guid", "0000:00ff:fe00:0001");
	check_file(tree, "sys/class/infiniband/p0/ports/1/state", "4: ACTIVE");
	check_file(tree, "sys/class/infiniband/p1/ports/1/rate", "100 Gb/sec (4X EDR)");
	check_file(tree, "sys/class/infiniband/p0/ports/1/link_layer", "Ethernet");
	check_file(tree, "sys/class/infiniband/p0/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:c000:0201");
	check_file(tree, "sys/class/infiniband/p0/ports/1/gids/1", "2001:0db8:0000:0000:0000:0000:0000:0001");
	check_file(tree, "sys/class/infiniband/p0/ports/1/gid_attrs/types/1", "RoCE v2");
	check_file(tree, "sys/class/infiniband/p1/device/numa_node", "-1");
	/* NCCL replaces the last digits of the folder's name with zeros, to find functions of one adapter. */
	snprintf(path, sizeof(path), "%s/sys/class/infiniband/p1/device", tree);
	real = realpath(path, NULL);
	assert_non_null(real);
	assert_string_equal(real + strlen(real) - strlen("1de5:01:00.0"), "1de5:01:00.0");
	free(real);
	snprintf(path, sizeof(path), "%s/dev/infiniband/oneside1", tree);
	assert_int_equal(stat(path, &status), 0);
	assert_true(S_ISCHR(status.st_mode));
	assert_int_equal(access(path, R_OK | W_OK), 0);
}

static ino_t
inode(const char *path)
{
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	return status.st_ino;
}

/* Equal ports reuse the folder, other ports replace it, and the folder of a data plane that has gone is
 * removed. */
static void
test_replaced(void **state)
{
	char first[PATH_MAX], second[PATH_MAX], other[PATH_MAX];
	ino_t before;

	assert_int_equal(run_present(&ports, first, sizeof(first)), 0);
	before = inode(first);
	assert_int_equal(run_present(&ports, second, sizeof(second)), 0);
	assert_string_equal(first, second);
	assert_int_equal(inode(second), before);
	ports.port[0].link_up = 0;
	assert_int_equal(run_present(&ports, second, sizeof(second)), 0);
	assert_string_equal(first, second);
	check_file(second, "sys/class/infiniband/p0/ports/1/state", "1: DOWN");

	snprintf(other, sizeof(other), "%s/other.sock", home);
	touch(other);
	setenv("ONESIDE_SOCKET", other, 1);
	assert_int_equal(run_present(&ports, second, sizeof(second)), 0);
	assert_string_not_equal(first, second);
	assert_int_equal(access(first, F_OK), 0);
	unlink(socket_path);
	assert_int_equal(run_present(&ports, second, sizeof(second)), 0);
	assert_int_equal(access(first, F_OK), -1);
}

/* A folder that others can write to is refused. */
static void
test_foreign_folder(void **state)
{
	char path[PATH_MAX + 64], tree[PATH_MAX];

	snprintf(path, sizeof(path), "%s/oneside-run-%u", home, (unsigned)geteuid());
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(run_present(&ports, tree, sizeof(tree)), -EPERM);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink("/tmp", path), 0);
	assert_int_equal(run_present(&ports, tree, sizeof(tree)), -EPERM);
}

static void
test_variables(void **state)
{
	unsetenv("UCX_NET_DEVICES");
	unsetenv("UCX_TLS");
	unsetenv("UCX_ALLOC_PRIO");
	setenv("FI_UNIVERSE_SIZE", "7", 1);
	assert_int_equal(run_set_variables(&ports, false, false), 0);
	assert_string_equal(getenv("UCX_ALLOC_PRIO"), "thp,mmap,heap");
	assert_string_equal(getenv("FI_UNIVERSE_SIZE"), "7");
	assert_null(getenv("UCX_TLS"));
	assert_int_equal(run_set_variables(&ports, true, false), 0);
	assert_string_equal(getenv("UCX_TLS"), "rc_verbs,ud_verbs,self");
	assert_string_equal(getenv("UCX_NET_DEVICES"), "p0:1,p1:1");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_variables, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
