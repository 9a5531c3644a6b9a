/* SPDX-License-Identifier: BSD-3-Clause */
#include "bell.h"
#include "guard.h"

#include <dirent.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif

#define MEMIF_COOKIE 0x3e31f20u
#define MEMIF_MASK_INT 1u /* flag of a ring: its reader polls */
#define MEMIF_LIMIT_NS 20000000ull

/* Of memif's protocol, version 2: a ring in the shared memory, followed by its descriptors. */
struct memif_ring {
	uint32_t cookie;
	_Atomic uint16_t flags;
	uint16_t head;
	uint8_t pad0[56];
	uint16_t tail;
	uint8_t pad1[62];
};
_Static_assert(sizeof(struct memif_ring) == 128, "memif_ring");
#define MEMIF_DESCRIPTOR 16u
#define MEMIF_LOG2_MAX 14u

enum kind { BELL_NONE, BELL_SOCKET, BELL_MEMIF };

static struct bell {
	enum kind kind;
	bool client; /* memif: which of the two rings we read */
	/* memif: the ring, from its being found until it is about to be unmapped. */
	_Atomic(struct memif_ring *) ring;
	_Atomic bool watched; /* socket: found */
} bells[CONFIG_PORTS_MAX];

/* Held while mappings are looked for, and while one goes. */
static pthread_mutex_t mappings = PTHREAD_MUTEX_INITIALIZER;

/* ---- finding ---- */

/* Edges only: nobody reads it here. */
static void
watch(uint32_t port, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	for (uint32_t i = 0; i < engine.num_cores; i++)
		for (uint32_t k = 0; k < engine.core[i]->num_rx; k++)
			if (engine.core[i]->rx[k].port == port)
				epoll_ctl(engine.core[i]->epoll, EPOLL_CTL_ADD, fd, &event);
}

static bool
is_own_eventfd(int fd)
{
	bool own = fd == engine.event_fd;

	for (uint32_t i = 0; i < engine.num_cores; i++)
		own = own || fd == engine.core[i]->wake_fd;
	return own;
}

static bool
is_eventfd(int fd)
{
	char path[32], target[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	return strcmp(target, "anon_inode:[eventfd]") == 0 && !is_own_eventfd(fd);
}

/* The socket by which a driver of the kernel's interfaces gets the frames of interface `index`. */
static bool
is_socket_of(int fd, uint32_t index)
{
	struct sockaddr_ll address = {0};
	socklen_t len = sizeof(int);
	int domain = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0)
		return false;
	if (domain == AF_XDP) /* tells nobody which; a wake too many does no harm */
		return true;
	len = sizeof(address);
	return domain == AF_PACKET && getsockname(fd, (struct sockaddr *)&address, &len) == 0 &&
	       address.sll_ifindex == (int)index && address.sll_protocol != 0;
}

/* Every eventfd that is not ours: those of applications' doorbells among them wake us at worst needlessly. */
static bool
watch_descriptors(uint32_t port, enum kind kind, uint32_t if_index)
{
	const struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");
	bool any = false;

	if (dir == NULL)
		return false;
	while ((entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(dir))
			continue;
		if (kind == BELL_SOCKET ? !is_socket_of(fd, if_index) : !is_eventfd(fd))
			continue;
		watch(port, fd);
		any = true;
	}
	closedir(dir);
	return any;
}

/* Two rings, one behind the other, at the beginning of a mapping: ours is the first at the cable's server. */
static struct memif_ring *
ring_in(uint8_t *base, size_t len, bool client)
{
	if (len < sizeof(struct memif_ring) || ((struct memif_ring *)base)->cookie != MEMIF_COOKIE)
		return NULL;
	for (uint32_t log2 = 0; log2 <= MEMIF_LOG2_MAX; log2++) {
		size_t size = sizeof(struct memif_ring) + ((size_t)MEMIF_DESCRIPTOR << log2);
		struct memif_ring *second = (struct memif_ring *)(base + size);

		if (len < 3 * size)
			break;
		if (second->cookie != MEMIF_COOKIE)
			continue;
		/* With more queues than we use it is not told here which is whose. */
		if (((struct memif_ring *)(base + 2 * size))->cookie == MEMIF_COOKIE)
			return NULL;
		return client ? second : (struct memif_ring *)base;
	}
	return NULL;
}

static bool
is_taken(const struct memif_ring *ring)
{
	for (uint32_t i = 0; i < engine.num_ports; i++)
		/* Only the control thread and, under the mutex, who unmaps store it. */
		if (atomic_load_explicit(&bells[i].ring, memory_order_relaxed) == ring)
			return true;
	return false;
}

/*
 * The next line of a list of mappings, without the end of one that is too long.  Names of files are in it,
 * and applications choose those of theirs: a continuation is not taken for a line.
 */
static bool
next_line(FILE *file, char *line, int room)
{
	int c;

	if (fgets(line, room, file) == NULL)
		return false;
	if (strchr(line, '\n') == NULL)
		while ((c = getc(file)) != EOF && c != '\n')
			;
	return true;
}

/* `mappings` held.  One that no port has yet; NULL also when there are several, and none tells whose it is.
 */
static struct memif_ring *
find_ring(bool client)
{
	FILE *file = fopen("/proc/self/maps", "re");
	struct memif_ring *found = NULL;
	uint32_t count = 0;
	char line[512];

	while (file != NULL && next_line(file, line, sizeof(line))) {
		uintptr_t from, to;
		struct memif_ring *ring;

		if (strstr(line, "/memfd:memif") == NULL ||
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR " rw-s 00000000 ", &from, &to) != 2)
			continue;
		if (guard_has((void *)from)) /* an application's, whatever it is called */
			continue;
		ring = ring_in((uint8_t *)from, to - from, client);
		if (ring == NULL || is_taken(ring))
			continue;
		found = ring;
		count++;
	}
	if (file != NULL)
		fclose(file);
	return count == 1 ? found : NULL;
}

static void
find_memif(uint32_t port)
{
	struct rte_eth_link link;
	struct memif_ring *ring;

	/* Pairs with nothing: only the control thread stores anything but NULL. */
	if (atomic_load_explicit(&bells[port].ring, memory_order_relaxed) != NULL ||
	    rte_eth_link_get_nowait(engine.port[port].device, &link) != 0 ||
	    link.link_status != RTE_ETH_LINK_UP)
		return;
	pthread_mutex_lock(&mappings);
	ring = find_ring(bells[port].client);
	if (ring != NULL && watch_descriptors(port, BELL_MEMIF, 0))
		/* Pairs with the acquire load in bell_arm. */
		atomic_store_explicit(&bells[port].ring, ring, memory_order_release);
	pthread_mutex_unlock(&mappings);
}

static void
find(uint32_t port)
{
	struct bell *bell = &bells[port];
	struct rte_eth_dev_info info;

	if (bell->kind == BELL_MEMIF) {
		find_memif(port);
		return;
	}
	if (rte_eth_dev_info_get(engine.port[port].device, &info) != 0 || info.driver_name == NULL)
		return;
	if (strcmp(info.driver_name, "net_memif") == 0) {
		bell->kind = BELL_MEMIF;
		bell->client = engine.port[port].reconnects;
		find_memif(port);
	} else if (strcmp(info.driver_name, "net_af_packet") == 0 ||
		   strcmp(info.driver_name, "net_af_xdp") == 0) {
		if (bell->kind == BELL_NONE)
			bell->kind = BELL_SOCKET;
		/* Only this thread stores it; a core that sees it later naps meanwhile. */
		if (!atomic_load_explicit(&bell->watched, memory_order_relaxed))
			atomic_store_explicit(&bell->watched,
					      watch_descriptors(port, BELL_SOCKET, info.if_index),
					      memory_order_relaxed);
	}
}

void
bells_find(void)
{
	if (engine.config->idle != ONE_IDLE_SLEEP)
		return;
	for (uint32_t i = 0; i < engine.num_ports; i++)
		find(i);
}

void
bells_fini(void)
{
	memset(bells, 0, sizeof(bells));
}

/* ---- use ---- */

bool
bell_arm(struct core *core, uint16_t port, bool on)
{
	struct bell *bell = &bells[port];
	struct memif_ring *ring;

	if (bell->kind != BELL_MEMIF)
		return atomic_load_explicit(&bell->watched, memory_order_relaxed);
	/* Pairs with the store in find_memif, and with the grace period in munmap(). */
	ring = atomic_load_explicit(&bell->ring, memory_order_acquire);
	if (ring == NULL)
		return false;
	atomic_store_explicit(&ring->flags, on ? 0 : MEMIF_MASK_INT, memory_order_relaxed);
	return true;
}

/*
 * Who fills a ring stores its head and then looks at the flag, in DPDK without a
 * fence in between: so we look once more after a moment (idle.c), by which its
 * store has arrived; and if not even that, after this time.
 */
uint64_t
bell_limit(const struct core *core)
{
	for (uint32_t i = 0; i < core->num_rx; i++)
		if (bells[core->rx[i].port].kind == BELL_MEMIF)
			return MEMIF_LIMIT_NS;
	return UINT64_MAX;
}

void
bell_unmap_begin(const void *address, size_t len)
{
	pthread_mutex_lock(&mappings);
	for (uint32_t i = 0; i < CONFIG_PORTS_MAX; i++) {
		uintptr_t ring = (uintptr_t)atomic_load_explicit(&bells[i].ring, memory_order_relaxed);

		if (ring >= (uintptr_t)address && ring - (uintptr_t)address < len)
			atomic_store_explicit(&bells[i].ring, NULL, memory_order_relaxed);
	}
}

void
bell_unmap_end(void)
{
	pthread_mutex_unlock(&mappings);
}
