/* SPDX-License-Identifier: BSD-3-Clause */
/* Secret files: accepted contents, the message of each refusal, and zeroed memory afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "config/secret.h"

#define MIN 4u
#define MAX 8u
#define NOBODY 65534u

static char folder[] = "/tmp/oneside-secret-XXXXXX";
static char path[64], why[512];
static struct config_secret *secret;
static uint32_t unmapped;

int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);

/* Memory of secrets must be zeroed before it is unmapped. */
int
__wrap_munmap(void *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(((const uint8_t *)at)[i], 0);
	unmapped++;
	return __real_munmap(at, len);
}

static void
make(const void *data, size_t len, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int
get(enum config_secret_form form)
{
	secret = NULL;
	why[0] = '\0';
	return config_secret_read(path, form, MIN, MAX, &secret, why, sizeof(why));
}

static void
check_refused(enum config_secret_form form, int error, const char *fault, const char *remedy)
{
	uint32_t before = unmapped;
	int got = get(form);

	if (got != error || strstr(why, path) == NULL || strstr(why, fault) == NULL ||
	    strstr(why, remedy) == NULL)
		fail_msg("%d \"%s\" instead of %d \"%s\", \"%s\"", got, why, error, fault, remedy);
	assert_null(secret);
	assert_int_equal(unmapped, before + 1);
}

static void
check_bytes(const void *expected, size_t expected_len)
{
	size_t len;
	const uint8_t *bytes = config_secret_bytes(secret, &len);
	uint32_t before = unmapped;

	assert_int_equal(len, expected_len);
	assert_memory_equal(bytes, expected, len);
	config_secret_drop(secret);
	assert_int_equal(unmapped, before + 1);
}

static void
test_raw(void **state)
{
	(void)state;
	make("ab\0\ncd\n", 7, 0600);
	assert_int_equal(get(CONFIG_SECRET_RAW), 0);
	check_bytes("ab\0\ncd\n", 7);
	make("readonly", 8, 0400);
	assert_int_equal(get(CONFIG_SECRET_RAW), 0);
	check_bytes("readonly", 8);
}

static void
test_hex(void **state)
{
	(void)state;
	make("00ff7Fa0\n", 9, 0600);
	assert_int_equal(get(CONFIG_SECRET_HEX), 0);
	check_bytes("\x00\xff\x7f\xa0", 4);
	make("0123456789abcdef", 16, 0600);
	assert_int_equal(get(CONFIG_SECRET_HEX), 0);
	check_bytes("\x01\x23\x45\x67\x89\xab\xcd\xef", 8);
	make("0123456789", 10, 0600);
	assert_int_equal(get(CONFIG_SECRET_HEX), 0);
	check_bytes("\x01\x23\x45\x67\x89", 5);
}

/* A message never quotes the file, not even contents that cannot be a secret. */
static void
test_wrong_text(void **state)
{
	static const char *const wrong[] = {"wxyzwxyz",     "0123 4567", "01234567\r\n",
					    "01234567\n\n", "0x012345",  "01234567g"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		make(wrong[i], strlen(wrong[i]), 0600);
		check_refused(CONFIG_SECRET_HEX, -EINVAL, "no hexadecimal digit", "0 to 9 and a to f");
		assert_null(strstr(why, "wxyz"));
		assert_null(strstr(why, "4567"));
	}
	make("012345678", 9, 0600);
	check_refused(CONFIG_SECRET_HEX, -EINVAL, "9 hexadecimal digits", "two for each");
}

static void
test_lengths(void **state)
{
	static char text[4 * CONFIG_SECRET_MAX];

	(void)state;
	memset(text, '5', sizeof(text));
	for (size_t len = 0; len <= 2 * MAX + 2; len++) {
		make(text, len, 0600);
		if (len >= MIN && len <= MAX) {
			assert_int_equal(get(CONFIG_SECRET_RAW), 0);
			check_bytes(text, len);
		} else {
			check_refused(CONFIG_SECRET_RAW, -EINVAL, len < MIN ? "too few" : "too many",
				      "4 to 8 bytes");
		}
	}
	make(text, sizeof(text), 0600);
	check_refused(CONFIG_SECRET_RAW, -EINVAL, "more than 512 bytes are too many", "4 to 8 bytes");
	check_refused(CONFIG_SECRET_HEX, -EINVAL, "more than 512 bytes are too many", "4 to 8 bytes");
	make(text, 2 * CONFIG_SECRET_MAX, 0600);
	assert_int_equal(
		config_secret_read(path, CONFIG_SECRET_HEX, 1, CONFIG_SECRET_MAX, &secret, why, sizeof(why)),
		0);
	memset(text, 0x55, CONFIG_SECRET_MAX);
	check_bytes(text, CONFIG_SECRET_MAX);
}

static void
test_modes(void **state)
{
	char remedy[80];

	(void)state;
	snprintf(remedy, sizeof(remedy), "chmod 600 %s", path);
	for (mode_t bit = 01; bit <= 070; bit <<= 1) {
		if ((bit & 077) == 0)
			continue;
		make("secret", 6, 0600 | bit);
		check_refused(CONFIG_SECRET_RAW, -EPERM, "gives others rights", remedy);
	}
}

static void
test_owner(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	make("secret", 6, 0600);
	assert_int_equal(seteuid(NOBODY), 0);
	check_refused(CONFIG_SECRET_RAW, -EACCES, "user 65534 may not read it", "chown 65534");
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(chown(path, NOBODY, NOBODY), 0);
	check_refused(CONFIG_SECRET_RAW, -EPERM, "it is user 65534's", "chown 0");
	/* A service that is not root may own its file. */
	assert_int_equal(seteuid(NOBODY), 0);
	assert_int_equal(get(CONFIG_SECRET_RAW), 0);
	assert_int_equal(seteuid(0), 0);
	check_bytes("secret", 6);
}

static void
test_kinds(void **state)
{
	char target[80];

	(void)state;
	snprintf(target, sizeof(target), "%s.target", path);
	make("secret", 6, 0600);
	assert_int_equal(rename(path, target), 0);
	assert_int_equal(symlink(target, path), 0);
	check_refused(CONFIG_SECRET_RAW, -ELOOP, "symbolic link", "name the file");
	unlink(target);
	check_refused(CONFIG_SECRET_RAW, -ELOOP, "symbolic link", "name the file");
	unlink(path);
	check_refused(CONFIG_SECRET_RAW, -ENOENT, "no such file", "openssl rand -hex 32");
	/* A FIFO without a writer: must not block the reader. */
	assert_int_equal(mkfifo(path, 0600), 0);
	check_refused(CONFIG_SECRET_RAW, -EINVAL, "not a regular file", "name one");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	check_refused(CONFIG_SECRET_RAW, -EINVAL, "not a regular file", "name one");
	rmdir(path);
	assert_int_equal(config_secret_read("secret", CONFIG_SECRET_RAW, MIN, MAX, &secret, why, sizeof(why)),
			 -EINVAL);
	assert_non_null(strstr(why, "not an absolute path"));
}

/* Copies the kernel's flags of the mapping that contains `at`. */
static void
flags_of(const void *at, char flags[256])
{
	FILE *maps = fopen("/proc/self/smaps", "re");
	uintptr_t from = 0, to = 0;
	char line[256];

	assert_non_null(maps);
	flags[0] = '\0';
	while (flags[0] == '\0' && fgets(line, sizeof(line), maps) != NULL) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			continue;
		if (strncmp(line, "VmFlags:", 8) == 0 && from <= (uintptr_t)at && (uintptr_t)at < to)
			strcpy(flags, line);
	}
	fclose(maps);
}

static void
test_memory(void **state)
{
	char flags[256];
	size_t len;

	(void)state;
	make("secret", 6, 0600);
	assert_int_equal(get(CONFIG_SECRET_RAW), 0);
	flags_of(config_secret_bytes(secret, &len), flags);
	assert_non_null(strstr(flags, " dd"));
	check_bytes("secret", 6);
}

static void
test_holders(void **state)
{
	uint32_t before = unmapped;

	(void)state;
	make("secret", 6, 0600);
	assert_int_equal(get(CONFIG_SECRET_RAW), 0);
	assert_ptr_equal(config_secret_hold(secret), secret);
	config_secret_drop(secret);
	assert_int_equal(unmapped, before);
	check_bytes("secret", 6);
	assert_null(config_secret_hold(NULL));
	config_secret_drop(NULL);
}

static void
test_equal(void **state)
{
	static const char *const others[] = {"secreT", "Secret", "secre", "secrets"};
	struct config_secret *first, *same;

	(void)state;
	make("secret", 6, 0600);
	assert_int_equal(get(CONFIG_SECRET_RAW), 0);
	first = secret;
	assert_int_equal(get(CONFIG_SECRET_RAW), 0);
	same = secret;
	assert_true(config_secret_equal(first, same) && config_secret_equal(first, first) &&
		    config_secret_equal(NULL, NULL));
	assert_false(config_secret_equal(first, NULL) || config_secret_equal(NULL, first));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		make(others[i], strlen(others[i]), 0600);
		assert_int_equal(get(CONFIG_SECRET_RAW), 0);
		assert_false(config_secret_equal(first, secret));
		config_secret_drop(secret);
	}
	config_secret_drop(first);
	config_secret_drop(same);
}

static int
setup(void **state)
{
	(void)state;
	if (mkdtemp(folder) == NULL || chmod(folder, 0711) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/secret", folder);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raw),        cmocka_unit_test(test_hex),
		cmocka_unit_test(test_wrong_text), cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_modes),      cmocka_unit_test(test_owner),
		cmocka_unit_test(test_kinds),      cmocka_unit_test(test_memory),
		cmocka_unit_test(test_holders),    cmocka_unit_test(test_equal),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
