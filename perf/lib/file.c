/* SPDX-License-Identifier: BSD-3-Clause */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
reported(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s: %s: %s\n", program_invocation_short_name, path, what, strerror(errno));
	return false;
}

static bool
read_all(int fd, const char *path, uint8_t *data, uint64_t size)
{
	for (uint64_t got = 0; got < size;) {
		ssize_t n = read(fd, data + got, size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n == 0)
				errno = ENODATA; /* the file became shorter */
			return reported(path, "read");
		}
		got += (uint64_t)n;
	}
	return true;
}

uint8_t *
file_read(const char *path, uint64_t *size)
{
	uint8_t *data = NULL;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		reported(path, "open");
		return NULL;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		errno = errno == 0 ? EINVAL : errno;
		reported(path, "not a regular file");
		goto out;
	}
	*size = (uint64_t)st.st_size;
	data = aligned_alloc(4096, (*size + 4096) & ~4095ull);
	if (data == NULL) {
		reported(path, "no memory for it");
		goto out;
	}
	memset(data + *size, 0, ((*size + 4096) & ~4095ull) - *size);
	if (!read_all(fd, path, data, *size)) {
		free(data);
		data = NULL;
	}
out:
	close(fd);
	return data;
}

bool
file_write(const char *path, const uint8_t *data, uint64_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		return reported(path, "open");
	for (uint64_t put = 0; put < size;) {
		ssize_t n = write(fd, data + put, size - put);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			reported(path, "write");
			close(fd);
			return false;
		}
		put += (uint64_t)n;
	}
	return close(fd) == 0 ? true : reported(path, "close");
}
