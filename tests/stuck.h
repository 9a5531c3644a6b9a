/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory whose accesses wait for the test: missing pages under a userfaultfd that answers when the test
 * wants. */
#ifndef TESTS_STUCK_H
#define TESTS_STUCK_H

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct stuck {
	int fd;
	uint8_t *memory;
	size_t len;
};

/* Maps such pages at `at`, replacing what is there (NULL: anywhere). Returns false if this user must not make
 * other processes wait for a userfaultfd. */
static inline bool
stuck_open(struct stuck *stuck, void *at, size_t pages)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range;

	stuck->memory = NULL;
	stuck->len = pages * (size_t)sysconf(_SC_PAGESIZE);
	stuck->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (stuck->fd < 0)
		return false;
	stuck->memory = mmap(at, stuck->len, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0), -1, 0);
	range = (struct uffdio_register){.range = {(uintptr_t)stuck->memory, stuck->len},
					 .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (stuck->memory != MAP_FAILED && ioctl(stuck->fd, UFFDIO_API, &api) == 0 &&
	    ioctl(stuck->fd, UFFDIO_REGISTER, &range) == 0)
		return true;
	close(stuck->fd);
	return false;
}

/* Answers with pages of zeros. */
static inline void
stuck_answer(const struct stuck *stuck)
{
	struct uffdio_zeropage zero = {.range = {(uintptr_t)stuck->memory, stuck->len}};

	ioctl(stuck->fd, UFFDIO_ZEROPAGE, &zero);
}

static inline void
stuck_close(const struct stuck *stuck)
{
	close(stuck->fd);
	munmap(stuck->memory, stuck->len);
}

#endif
