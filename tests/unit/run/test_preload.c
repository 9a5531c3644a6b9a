/* SPDX-License-Identifier: BSD-3-Clause */
/* liboneside-run.so, which the test runner preloads into this program: each call finds the contents of the
 * folder $ONESIDE_RUN, and all other paths work as without the library. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DEVICE "/sys/class/infiniband/preload9"
#define FILE_OF_IT DEVICE "/node_guid"
#define NODE "/dev/infiniband/preload9"

static char tree[] = "/tmp/oneside-preload.XXXXXX";

static void
make(const char *path, const char *text)
{
	char full[PATH_MAX];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", tree, path);
	for (char *slash = strchr(full + sizeof(tree), '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int
setup(void **state)
{
	char link[PATH_MAX];

	assert_non_null(mkdtemp(tree));
	make("sys/devices/1/infiniband/preload9/node_guid", "guid\n");
	make("sys/class/infiniband/x", "");
	make("dev/infiniband/x", "");
	make("addresses",
	     "oneside0 192.0.2.9\noneside0 2001:db8::9\noneside1 127.0.0.1\nnonsense\noneside999 192.0.2.8\n");
	snprintf(link, sizeof(link), "%s" DEVICE, tree);
	assert_int_equal(symlink("../../devices/1/infiniband/preload9", link), 0);
	snprintf(link, sizeof(link), "%s" NODE, tree);
	assert_int_equal(symlink("/dev/null", link), 0);
	return setenv("ONESIDE_RUN", tree, 1);
}

static int
teardown(void **state)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -rf %s", tree);
	return system(command);
}

static void
check_descriptor(int fd)
{
	char text[8] = "";

	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, 7), 5);
	assert_string_equal(text, "guid\n");
	close(fd);
}

static void
test_open(void **state)
{
	int folder = open("/tmp", O_RDONLY | O_DIRECTORY);
	FILE *file = fopen(FILE_OF_IT, "r");

	check_descriptor(open(FILE_OF_IT, O_RDONLY));
	check_descriptor(open64(FILE_OF_IT, O_RDONLY));
	check_descriptor(openat(folder, FILE_OF_IT, O_RDONLY));
	check_descriptor(openat64(folder, FILE_OF_IT, O_RDONLY));
	assert_non_null(file);
	check_descriptor(dup(fileno(file)));
	fclose(file);
	close(folder);
	folder = open(DEVICE, O_RDONLY | O_DIRECTORY);
	check_descriptor(openat(folder, "node_guid", O_RDONLY));
	close(folder);
}

static void
check_listed(const char *name, bool *found)
{
	if (strcmp(name, "preload9") == 0)
		*found = true;
}

static void
test_list(void **state)
{
	DIR *dir = opendir("/sys/class/infiniband");
	struct dirent *entry, **list;
	bool found = false, scanned = false;
	int n = scandir("/sys/class/infiniband/", &list, NULL, alphasort);

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL)
		check_listed(entry->d_name, &found);
	closedir(dir);
	assert_true(n > 0);
	for (int i = 0; i < n; i++) {
		check_listed(list[i]->d_name, &scanned);
		free(list[i]);
	}
	free(list);
	assert_true(found && scanned);
}

static void
test_stat(void **state)
{
	struct statx extended;
	struct stat64 status64;
	struct stat status;

	assert_int_equal(stat(NODE, &status), 0);
	assert_true(S_ISCHR(status.st_mode));
	assert_int_equal(stat64(NODE, &status64), 0);
	assert_true(S_ISCHR(status64.st_mode));
	assert_int_equal(lstat(DEVICE, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	assert_int_equal(fstatat(AT_FDCWD, FILE_OF_IT, &status, 0), 0);
	assert_int_equal(status.st_size, 5);
	assert_int_equal(statx(AT_FDCWD, FILE_OF_IT, 0, STATX_SIZE, &extended), 0);
	assert_int_equal(extended.stx_size, 5);
	assert_int_equal(access(NODE, R_OK | W_OK), 0);
	assert_int_equal(faccessat(AT_FDCWD, NODE, R_OK, 0), 0);
	assert_int_equal(euidaccess(NODE, R_OK), 0);
}

static void
test_links(void **state)
{
	char text[PATH_MAX], expected[PATH_MAX], *path;
	ssize_t len = readlink(DEVICE, text, sizeof(text));

	assert_int_equal(len, strlen("../../devices/1/infiniband/preload9"));
	assert_int_equal(readlinkat(AT_FDCWD, DEVICE, text, sizeof(text)), len);
	snprintf(expected, sizeof(expected), "%s/sys/devices/1/infiniband/preload9", tree);
	assert_string_equal(realpath(DEVICE, text), expected);
	path = canonicalize_file_name(DEVICE);
	assert_string_equal(path, expected);
	free(path);
	assert_int_equal(chdir(DEVICE), 0);
	assert_int_equal(access("node_guid", R_OK), 0);
	assert_int_equal(chdir("/"), 0);
}

/* Paths that only resemble presented paths, and missing files. */
static void
test_others(void **state)
{
	static const char *const absent[] = {"/sys/class/infiniband9/preload9", "/dev/infiniband9",
					     "/sys/class/infinibandx", DEVICE "/nothing",
					     "/sys/class/infiniband/../infiniband/preload9"};
	struct stat status;
	char text[PATH_MAX];

	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		errno = 0;
		assert_int_equal(stat(absent[i], &status), -1);
		assert_int_equal(errno, ENOENT);
		assert_int_equal(open(absent[i], O_RDONLY), -1);
	}
	assert_string_equal(realpath("/sys/class", text), "/sys/class");
	assert_int_equal(stat("/dev/null", &status), 0);
	unsetenv("ONESIDE_RUN");
	assert_int_equal(access(FILE_OF_IT, F_OK), -1);
	setenv("ONESIDE_RUN", tree, 1);
	assert_int_equal(access(FILE_OF_IT, F_OK), 0);
}

static const struct ifaddrs *
find_interface(const struct ifaddrs *list, const char *name, int family)
{
	while (list != NULL && (strcmp(list->ifa_name, name) != 0 || list->ifa_addr->sa_family != family))
		list = list->ifa_next;
	return list;
}

/* Programs that open TCP connections require IFF_RUNNING. */
static void
test_addresses(void **state)
{
	const struct ifaddrs *entry;
	struct ifaddrs *list;
	char text[INET6_ADDRSTRLEN];

	for (int i = 0; i < 2; i++) {
		assert_int_equal(getifaddrs(&list), 0);
		entry = find_interface(list, "oneside0", AF_INET);
		assert_non_null(entry);
		inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr,
			  text, sizeof(text));
		assert_string_equal(text, "192.0.2.9");
		assert_true((entry->ifa_flags & IFF_UP) != 0 &&
			    (entry->ifa_flags & (IFF_RUNNING | IFF_LOOPBACK)) == 0);
		entry = find_interface(list, "oneside0", AF_INET6);
		assert_non_null(entry);
		/* The kernel has an interface with the third address. */
		if (find_interface(list, "lo", AF_INET) != NULL)
			assert_null(find_interface(list, "oneside1", AF_INET));
		freeifaddrs(list);
	}
	freeifaddrs(NULL);
}

static void
test_numeric_address(void **state)
{
	struct addrinfo *result, hints = {.ai_flags = AI_ADDRCONFIG};

	assert_int_equal(getaddrinfo("2001:db8::9", NULL, &hints, &result), 0);
	assert_int_equal(result->ai_family, AF_INET6);
	freeaddrinfo(result);
	assert_int_equal(getaddrinfo("2001:db8::9", NULL, NULL, &result), 0);
	freeaddrinfo(result);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_stat),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_numeric_address),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
