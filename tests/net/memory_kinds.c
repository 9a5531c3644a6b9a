/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memory_kinds.h"
#include "tests/unit/said.h"

#define HUGE (2ul << 20)
#define HUGE_FILES (KIND_SIZE / HUGE)
#define SMALL_FILES 512u

/* ---- captured standard error ---- */

static int stderr_before = -1, said_file = -1;

void
kind_listen(void)
{
	stderr_before = said_begin(&said_file);
}

const char *
kind_copied(void)
{
	return strstr(said_end(stderr_before, said_file), "are copied by a thread of this program: ");
}

/* ---- kinds ---- */

static const char *
errno_reason(const char *what)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s: %s", what, strerror(errno));
	return text;
}

static uint8_t *
map_or_reason(int flags, int fd, const char *what, const char **reason)
{
	uint8_t *at = mmap(NULL, KIND_SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (at == MAP_FAILED) {
		*reason = errno_reason(what);
		return NULL;
	}
	return at;
}

static uint8_t *
make_anonymous(const char **reason)
{
	return map_or_reason(MAP_PRIVATE | MAP_ANONYMOUS, -1, "mmap", reason);
}

static uint8_t *
make_heap(const char **reason)
{
	uint8_t *at = malloc(KIND_SIZE + 100);

	*reason = "malloc";
	return at != NULL ? at + 100 : NULL;
}

static uint8_t *
make_locked(const char **reason)
{
	uint8_t *at = make_anonymous(reason);

	if (at != NULL && mlock(at, KIND_SIZE) != 0) {
		*reason = errno_reason("mlock");
		return NULL;
	}
	return at;
}

static uint8_t *
make_dontfork(const char **reason)
{
	uint8_t *at = make_anonymous(reason);

	if (at != NULL)
		madvise(at, KIND_SIZE, MADV_DONTFORK);
	return at;
}

static uint8_t *
make_huge_private(const char **reason)
{
	return map_or_reason(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, "private hugepages", reason);
}

/* Maps files of `size` bytes one after the other. */
static uint8_t *
map_files(int (*file)(uint32_t i), uint32_t n, size_t size, bool stay_open, const char **reason)
{
	uint8_t *all =
		mmap(NULL, n * size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *at = (uint8_t *)(((uintptr_t)all + HUGE - 1) & ~(HUGE - 1));

	for (uint32_t i = 0; i < n; i++) {
		int fd = file(i);

		if (fd < 0 || ftruncate(fd, (off_t)size) != 0 ||
		    mmap(at + i * size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
			 fd, 0) == MAP_FAILED) {
			*reason = errno_reason("a file of hugepages");
			return NULL;
		}
		if (!stay_open)
			close(fd);
	}
	return at;
}

static int
huge_memfd(uint32_t i)
{
	return memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
}

static int
small_memfd(uint32_t i)
{
	return memfd_create("small", MFD_CLOEXEC);
}

/* Makes files named like DPDK's in HUGE_DIR, a hugetlbfs that the test has mounted. */
static int
huge_file(uint32_t i)
{
	static uint32_t made;
	char path[256];

	if (getenv("HUGE_DIR") == NULL) {
		errno = ENOENT;
		return -1;
	}
	snprintf(path, sizeof(path), "%s/rtemap_%d_%u", getenv("HUGE_DIR"), (int)getpid(), made++);
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static uint8_t *
make_huge_one(const char **reason)
{
	return map_files(huge_memfd, 1, KIND_SIZE, true, reason);
}

static uint8_t *
make_huge_memfds(const char **reason)
{
	return map_files(huge_memfd, HUGE_FILES, HUGE, true, reason);
}

static uint8_t *
make_huge_files(const char **reason)
{
	return map_files(huge_file, HUGE_FILES, HUGE, true, reason);
}

static uint8_t *
make_huge_closed(const char **reason)
{
	return map_files(huge_file, HUGE_FILES, HUGE, false, reason);
}

static uint8_t *
make_memfd(const char **reason)
{
	return map_files(small_memfd, 1, KIND_SIZE, true, reason);
}

static uint8_t *
make_small_files(const char **reason)
{
	return map_files(small_memfd, SMALL_FILES, KIND_SIZE / SMALL_FILES, true, reason);
}

static uint8_t *
make_posix(const char **reason)
{
	char name[64];
	uint8_t *at;
	int fd;

	snprintf(name, sizeof(name), "/oneside-kind-%d", (int)getpid());
	fd = shm_open(name, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)KIND_SIZE) != 0) {
		*reason = errno_reason("shm_open");
		return NULL;
	}
	shm_unlink(name);
	at = map_or_reason(MAP_SHARED, fd, "POSIX shared memory", reason);
	return at;
}

static uint8_t *
attach_segment(int flags, const char **reason)
{
	int id = shmget(IPC_PRIVATE, KIND_SIZE, IPC_CREAT | 0600 | flags);
	uint8_t *at = id < 0 ? (uint8_t *)-1 : shmat(id, NULL, 0);

	if (id >= 0)
		shmctl(id, IPC_RMID, NULL);
	if (at == (uint8_t *)-1) {
		*reason = errno_reason("System V shared memory");
		return NULL;
	}
	return at;
}

static uint8_t *
make_sysv(const char **reason)
{
	return attach_segment(0, reason);
}

static uint8_t *
make_sysv_huge(const char **reason)
{
	return attach_segment(SHM_HUGETLB, reason);
}

static uint8_t *
make_shared_anonymous(const char **reason)
{
	return map_or_reason(MAP_SHARED | MAP_ANONYMOUS, -1, "mmap", reason);
}

static int
disk_file(const char **reason)
{
	char path[] = "/var/tmp/oneside-kind-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || ftruncate(fd, (off_t)KIND_SIZE) != 0) {
		*reason = errno_reason("/var/tmp");
		return -1;
	}
	unlink(path);
	return fd;
}

static uint8_t *
make_file_shared(const char **reason)
{
	int fd = disk_file(reason);

	return fd < 0 ? NULL : map_or_reason(MAP_SHARED, fd, "mmap", reason);
}

static uint8_t *
make_file_private(const char **reason)
{
	int fd = disk_file(reason);

	return fd < 0 ? NULL : map_or_reason(MAP_PRIVATE, fd, "mmap", reason);
}

/* Maps a driver's pages: the ring of a packet socket that sends nothing. */
static uint8_t *
make_device(const char **reason)
{
	const struct tpacket_req ring = {.tp_block_size = 1u << 16,
					 .tp_block_nr = KIND_SIZE >> 16,
					 .tp_frame_size = 2048,
					 .tp_frame_nr = KIND_SIZE / 2048};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &ring, sizeof(ring)) != 0) {
		*reason = errno_reason("the ring of a packet socket, which needs CAP_NET_RAW");
		return NULL;
	}
	return map_or_reason(MAP_SHARED, fd, "the ring of a packet socket", reason);
}

const struct kind memory_kinds[] = {
	{"anonymous", make_anonymous, KIND_IN_PLACE},
	{"heap", make_heap, KIND_IN_PLACE},
	{"locked", make_locked, KIND_IN_PLACE},
	{"dontfork", make_dontfork, KIND_IN_PLACE},
	{"memfd", make_memfd, KIND_IN_PLACE},
	{"posix_shm", make_posix, KIND_IN_PLACE},
	{"many_files", make_small_files, KIND_IN_PLACE},
	{"huge_shared", make_huge_one, KIND_IN_PLACE},
	{"huge_memfds", make_huge_memfds, KIND_IN_PLACE},
	{"huge_files", make_huge_files, KIND_IN_PLACE},
	{"huge_files_closed", make_huge_closed, KIND_IN_PLACE},
	{"huge_private", make_huge_private, KIND_COPIED},
	{"sysv_shm", make_sysv, KIND_COPIED},
	{"sysv_shm_huge", make_sysv_huge, KIND_COPIED},
	{"shared_anonymous", make_shared_anonymous, KIND_COPIED},
	{"file_shared", make_file_shared, KIND_COPIED},
	{"file_private", make_file_private, KIND_COPIED},
	{"device", make_device, KIND_COPIED},
};
const uint32_t num_memory_kinds = sizeof(memory_kinds) / sizeof(memory_kinds[0]);
