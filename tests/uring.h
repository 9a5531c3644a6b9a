/* SPDX-License-Identifier: BSD-3-Clause */
/* io_uring with one fixed buffer, without a library. Functions return 0, or -errno. */
#ifndef TESTS_URING_H
#define TESTS_URING_H

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct uring {
	int fd;
	uint8_t *map;
	size_t size;
	struct io_uring_sqe *sqes;
	struct io_uring_params params;
};

static inline int
uring_open(struct uring *ring)
{
	memset(ring, 0, sizeof(*ring));
	ring->fd = (int)syscall(SYS_io_uring_setup, 4, &ring->params);
	if (ring->fd < 0)
		return -errno;
	if ((ring->params.features & IORING_FEAT_SINGLE_MMAP) == 0)
		return -EOPNOTSUPP;
	ring->size = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
	ring->map = mmap(NULL, ring->size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	ring->sqes = mmap(NULL, 4 * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			  IORING_OFF_SQES);
	return ring->map == MAP_FAILED || ring->sqes == MAP_FAILED ? -errno : 0;
}

static inline void
uring_close(struct uring *ring)
{
	munmap(ring->map, ring->size);
	munmap(ring->sqes, 4 * sizeof(struct io_uring_sqe));
	close(ring->fd);
}

/* True if the kernel counts no page of this process as pinned. */
static inline bool
uring_none_pinned(void)
{
	char status[4096] = "";
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, status, sizeof(status) - 1);
	const char *line;

	close(fd);
	status[n > 0 ? n : 0] = '\0';
	line = strstr(status, "VmPin:");
	return line != NULL && line[strspn(line, "VmPin: \t")] == '0';
}

/* Waits until the kernel has unpinned the buffers of closed rings, which it does some time after close(). No
 * other ring of this process may pin memory. */
static inline void
uring_await_unpinned(void)
{
	while (!uring_none_pinned())
		sched_yield();
}

static inline int
uring_pin(const struct uring *ring, void *p, size_t len)
{
	struct iovec iov = {.iov_base = p, .iov_len = len};

	return syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS, &iov, 1) == 0 ? 0 : -errno;
}

static inline int
uring_unpin(const struct uring *ring)
{
	return syscall(SYS_io_uring_register, ring->fd, IORING_UNREGISTER_BUFFERS, NULL, 0) == 0 ? 0 : -errno;
}

/* Submits one request on the fixed buffer; returns the result in its completion. */
static inline int
uring_io(const struct uring *ring, uint8_t op, int fd, void *p, size_t len, uint64_t offset)
{
	const struct io_uring_params *params = &ring->params;
	/* The kernel reads the tail and writes the completion inside io_uring_enter. */
	uint32_t *tail = (uint32_t *)(void *)(ring->map + params->sq_off.tail);
	uint32_t *head = (uint32_t *)(void *)(ring->map + params->cq_off.head);
	uint32_t slot = *tail & (params->sq_entries - 1);
	const struct io_uring_cqe *cqe;
	int result;

	ring->sqes[slot] = (struct io_uring_sqe){
		.opcode = op, .fd = fd, .addr = (uintptr_t)p, .len = (uint32_t)len, .off = offset};
	((uint32_t *)(void *)(ring->map + params->sq_off.array))[slot] = slot;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE); /* read by the kernel */
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return -errno;
	cqe = (const struct io_uring_cqe *)(const void *)(ring->map + params->cq_off.cqes) +
	      (*head & (params->cq_entries - 1));
	result = cqe->res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE); /* read by the kernel */
	return result;
}

#endif
