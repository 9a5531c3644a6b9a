/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of a key's sequence numbers. Numbers read differently from those written could be used again, so
 * all else is refused, and so are numbers that could wrap. */
#include <fcntl.h>
#include <string.h>

#include "dataplane/esp/sa.h"
#include "file.h"

#define ROOM 256u

static int input = -1, written = -1;

int __wrap_openat64(int directory, const char *name, int flags, ...);
int __wrap_renameat(int from, const char *name, int to, const char *next);
int __wrap_fsync(int fd);

/* Opens the input to read, and another file to write. */
int
__wrap_openat64(int directory, const char *name, int flags, ...)
{
	int fd = (flags & O_CREAT) != 0 ? written : input;

	(void)directory, (void)name;
	return lseek(fd, 0, SEEK_SET) == 0 && (fd == input || ftruncate(fd, 0) == 0) ? dup(fd) : -1;
}

int
__wrap_renameat(int from, const char *name, int to, const char *next)
{
	(void)from, (void)name, (void)to, (void)next;
	return 0;
}

int
__wrap_fsync(int fd)
{
	(void)fd;
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct esp_sa sa = {.spi = 0x1001};
	struct esp_saved saved;
	char why[ROOM] = "", again[ROOM];
	ssize_t len;

	if (written < 0)
		written = memfd_create("written", MFD_CLOEXEC);
	input = file_with(data, size);
	if (esp_state_load(&sa, &saved, why, sizeof(why)) != 0) {
		if (why[0] == '\0')
			fuzz_fail("refused without a word");
		return 0;
	}
	if (saved.number + 2 * ESP_BLOCK < saved.number || saved.iv + 2 * ESP_BLOCK < saved.iv)
		fuzz_fail("numbers come round");
	if (esp_state_save(&sa, &saved) != 0)
		fuzz_fail("what was read cannot be written");
	len = pread(written, again, sizeof(again), 0);
	if (len < 0 || (size_t)len != size || memcmp(again, data, size) != 0)
		fuzz_fail("what was read is not what had been written");
	return 0;
}
