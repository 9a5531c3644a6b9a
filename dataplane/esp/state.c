/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/esp/sa.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MAX_LEN (8 + 1 + 2 * ESP_CHECK_LEN + 5)
#define TEXT_MAX 256
#define FORMAT "number %" PRIu64 "\niv %" PRIu64 "\npackets %" PRIu64 "\nbytes %" PRIu64 "\n"
#define PARSE "number %" SCNu64 "\niv %" SCNu64 "\npackets %" SCNu64 "\nbytes %" SCNu64
#define NUMBER_MAX INT64_MAX /* unreachable in practice; beyond it, numbers could wrap */

static int directory_fd = -1;
static int inherited_fd = -1; /* has the lock already */

static int
refuse_directory(const char *directory, int error, const char *what, char *why, size_t why_len)
{
	return config_refuse(why, why_len, -error, "directory %s for the sequence numbers of its keys: %s",
			     directory, what);
}

static int
check_inherited(const struct stat *st, const char *directory, char *why, size_t why_len)
{
	struct stat theirs;

	if (fstat(inherited_fd, &theirs) != 0)
		return refuse_directory(directory, errno, strerror(errno), why, why_len);
	if (theirs.st_dev == st->st_dev && theirs.st_ino == st->st_ino)
		return 0;
	return refuse_directory(directory, EBUSY,
				"the data plane that serves uses another; write the same state = DIRECTORY",
				why, why_len);
}

/* Refuse a directory that others may write to: they could have numbers used again. */
static int
check_directory(int fd, const char *directory, char *why, size_t why_len)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return refuse_directory(directory, errno, strerror(errno), why, why_len);
	if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return refuse_directory(
			directory, EPERM,
			"it is not the data plane's alone; chown it to its user, and chmod 700", why,
			why_len);
	if (inherited_fd >= 0)
		return check_inherited(&st, directory, why, why_len);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return refuse_directory(directory, EBUSY,
					"another data plane uses it; give each its own by state = DIRECTORY",
					why, why_len);
	return 0;
}

int
esp_state_directory(void)
{
	return directory_fd;
}

void
esp_state_inherit(int fd)
{
	if (inherited_fd >= 0)
		close(inherited_fd);
	inherited_fd = fd;
}

int
esp_state_open(const char *directory, char *why, size_t why_len)
{
	char text[128];
	int fd, error;

	if (directory_fd >= 0)
		return 0;
	fd = mkdir(directory, 0700) == 0 || errno == EEXIST
		     ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
		     : -1;
	if (fd < 0) {
		error = errno;
		snprintf(text, sizeof(text), "%s; make it, or name another by state = DIRECTORY",
			 strerror(error));
		return refuse_directory(directory, error, text, why, why_len);
	}
	error = check_directory(fd, directory, why, why_len);
	if (error != 0) {
		close(fd);
		return error;
	}
	directory_fd = fd;
	if (inherited_fd >= 0) {
		directory_fd = inherited_fd;
		inherited_fd = -1;
		close(fd);
	}
	return 0;
}

void
esp_state_close(void)
{
	if (directory_fd >= 0)
		close(directory_fd);
	if (inherited_fd >= 0)
		close(inherited_fd);
	directory_fd = inherited_fd = -1;
}

static void
name_of(const struct esp_sa *sa, char name[NAME_MAX_LEN])
{
	int len = snprintf(name, NAME_MAX_LEN, "%08" PRIx32 "-", sa->spi);

	for (uint32_t i = 0; i < ESP_CHECK_LEN; i++)
		len += snprintf(name + len, (size_t)(NAME_MAX_LEN - len), "%02x", sa->check[i]);
}

static int
format_state(const struct esp_saved *saved, char text[TEXT_MAX])
{
	return snprintf(text, TEXT_MAX, FORMAT, saved->number, saved->iv, saved->packets, saved->bytes);
}

/* Accepts only the exact bytes that format_state() writes. */
static bool
parse_state(const char *text, ssize_t len, struct esp_saved *saved)
{
	char again[TEXT_MAX];

	return len > 0 &&
	       sscanf(text, PARSE, &saved->number, &saved->iv, &saved->packets, &saved->bytes) == 4 &&
	       saved->number <= NUMBER_MAX && saved->iv <= NUMBER_MAX && saved->packets <= NUMBER_MAX &&
	       saved->bytes <= NUMBER_MAX && format_state(saved, again) == len &&
	       memcmp(text, again, (size_t)len) == 0;
}

int
esp_state_load(const struct esp_sa *sa, struct esp_saved *saved, char *why, size_t why_len)
{
	char name[NAME_MAX_LEN], text[TEXT_MAX];
	ssize_t len;
	int fd;

	memset(saved, 0, sizeof(*saved));
	name_of(sa, name);
	fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = '\0';
	if (parse_state(text, len, saved))
		return 0;
	return config_refuse(
		why, why_len, -EIO,
		"the file %s of its sequence numbers cannot be read, so some could be used again; replace the key at both ends",
		name);
}

static int
write_all(int fd, const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, text + at, len - at);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return fsync(fd) == 0 ? 0 : -errno;
}

int
esp_state_save(const struct esp_sa *sa, const struct esp_saved *saved)
{
	char name[NAME_MAX_LEN], next[NAME_MAX_LEN], text[TEXT_MAX];
	int len, fd, error;

	name_of(sa, name);
	snprintf(next, sizeof(next), "%.*s.new", NAME_MAX_LEN - 5, name);
	len = format_state(saved, text);
	fd = openat(directory_fd, next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	error = write_all(fd, text, (size_t)len);
	if (close(fd) != 0 && error == 0)
		error = -errno;
	if (error == 0 && (renameat(directory_fd, next, directory_fd, name) != 0 || fsync(directory_fd) != 0))
		error = -errno;
	return error;
}
