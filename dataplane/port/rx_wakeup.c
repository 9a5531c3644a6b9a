/* SPDX-License-Identifier: BSD-3-Clause */
#include "rx_wakeup.h"
#include "dataplane/mem/guard.h"

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
	_Atomic uint16_t head; /* the client's to store */
	uint8_t pad0[56];
	_Atomic uint16_t tail; /* the server's */
	uint8_t pad1[62];
};
_Static_assert(sizeof(struct memif_ring) == 128, "memif_ring");
struct memif_descriptor {
	uint16_t flags, region;
	uint32_t length;
	uint32_t offset; /* of its buffer in the mapping */
	uint32_t metadata;
};
#define MEMIF_DESCRIPTOR 16u
_Static_assert(sizeof(struct memif_descriptor) == MEMIF_DESCRIPTOR, "memif_descriptor");
#define MEMIF_LOG2_MAX 14u

enum kind { BELL_NONE, BELL_SOCKET, BELL_MEMIF };

/* One of a memif's two, with what its far end cannot change under us. */
struct half {
	struct memif_ring *ring;
	uintptr_t buffers;
	uint32_t stride;
};

static struct rx_wakeup {
	enum kind kind;
	bool client; /* memif: which of the two rings we read */
	/* memif: stored before `ring` is, and again only when no core uses it any more */
	struct half in, out;
	uint32_t slots;
	/* memif: the ring, from its being found until it is about to be unmapped. */
	_Atomic(struct memif_ring *) ring;
	_Atomic bool watched; /* socket: found */
} rx_wakeups[CONFIG_PORTS_MAX];

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

/* Every driver has one buffer behind the other.  Where not, what is fetched is of no use, and that is all. */
static struct half
half_of(uint8_t *base, struct memif_ring *ring)
{
	const struct memif_descriptor *slot = (const struct memif_descriptor *)(ring + 1);
	uint32_t first = slot[0].offset, second = slot[1].offset;

	return (struct half){.ring = ring, .buffers = (uintptr_t)base + first, .stride = second - first};
}

/* Two rings, one behind the other, at the beginning of a mapping: the first is what a cable's server reads.
 */
static bool
rings_in(uint8_t *base, size_t len, struct rx_wakeup *rx_wakeup)
{
	if (len < sizeof(struct memif_ring) || ((struct memif_ring *)base)->cookie != MEMIF_COOKIE)
		return false;
	for (uint32_t log2 = 1; log2 <= MEMIF_LOG2_MAX; log2++) {
		size_t size = sizeof(struct memif_ring) + ((size_t)MEMIF_DESCRIPTOR << log2);
		struct memif_ring *second = (struct memif_ring *)(base + size);

		if (len < 3 * size)
			break;
		if (second->cookie != MEMIF_COOKIE)
			continue;
		/* With more queues than we use it is not told here which is whose. */
		if (((struct memif_ring *)(base + 2 * size))->cookie == MEMIF_COOKIE)
			return false;
		rx_wakeup->in = half_of(base, rx_wakeup->client ? second : (struct memif_ring *)base);
		rx_wakeup->out = half_of(base, rx_wakeup->client ? (struct memif_ring *)base : second);
		rx_wakeup->slots = 1u << log2;
		return true;
	}
	return false;
}

static bool
is_taken(const struct memif_ring *ring)
{
	for (uint32_t i = 0; i < ports_num; i++)
		/* Only the control thread and, under the mutex, who unmaps store it. */
		if (atomic_load_explicit(&rx_wakeups[i].ring, memory_order_relaxed) == ring)
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

/* `mappings` held.  One that no port has yet; not when there are several, and none tells whose it is. */
static bool
find_rings(struct rx_wakeup *rx_wakeup)
{
	FILE *file = fopen("/proc/self/maps", "re");
	struct rx_wakeup found = {.client = rx_wakeup->client};
	uint32_t count = 0;
	char line[512];

	while (file != NULL && next_line(file, line, sizeof(line))) {
		uintptr_t from, to;

		if (strstr(line, "/memfd:memif") == NULL ||
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR " rw-s 00000000 ", &from, &to) != 2)
			continue;
		if (guard_has((void *)from)) /* an application's, whatever it is called */
			continue;
		if (!rings_in((uint8_t *)from, to - from, &found) || is_taken(found.in.ring))
			continue;
		rx_wakeup->in = found.in;
		rx_wakeup->out = found.out;
		rx_wakeup->slots = found.slots;
		count++;
	}
	if (file != NULL)
		fclose(file);
	return count == 1;
}

static bool
rx_wakeups_wake(void)
{
	return engine.config->idle == ONE_IDLE_SLEEP;
}

static void
find_memif(uint32_t port)
{
	struct rte_eth_link link;

	/* Pairs with nothing: only the control thread stores anything but NULL. */
	if (atomic_load_explicit(&rx_wakeups[port].ring, memory_order_relaxed) != NULL ||
	    rte_eth_link_get_nowait(ports[port].device, &link) != 0 || link.link_status != RTE_ETH_LINK_UP)
		return;
	pthread_mutex_lock(&mappings);
	if (find_rings(&rx_wakeups[port]) && (!rx_wakeups_wake() || watch_descriptors(port, BELL_MEMIF, 0)))
		/* Pairs with the acquire loads in rx_wakeup_arm and rx_wakeup_fetch. */
		atomic_store_explicit(&rx_wakeups[port].ring, rx_wakeups[port].in.ring, memory_order_release);
	pthread_mutex_unlock(&mappings);
}

static void
find(uint32_t port)
{
	struct rx_wakeup *rx_wakeup = &rx_wakeups[port];
	struct rte_eth_dev_info info;

	if (rx_wakeup->kind == BELL_MEMIF) {
		find_memif(port);
		return;
	}
	if (rte_eth_dev_info_get(ports[port].device, &info) != 0 || info.driver_name == NULL)
		return;
	if (strcmp(info.driver_name, "net_memif") == 0) {
		rx_wakeup->kind = BELL_MEMIF;
		rx_wakeup->client = ports[port].reconnects;
		find_memif(port);
	} else if (rx_wakeups_wake() && (strcmp(info.driver_name, "net_af_packet") == 0 ||
					 strcmp(info.driver_name, "net_af_xdp") == 0)) {
		if (rx_wakeup->kind == BELL_NONE)
			rx_wakeup->kind = BELL_SOCKET;
		/* Only this thread stores it; a core that sees it later naps meanwhile. */
		if (!atomic_load_explicit(&rx_wakeup->watched, memory_order_relaxed))
			atomic_store_explicit(&rx_wakeup->watched,
					      watch_descriptors(port, BELL_SOCKET, info.if_index),
					      memory_order_relaxed);
	}
}

void
rx_wakeups_find(void)
{
	if (engine.config->idle == ONE_IDLE_SPIN)
		return;
	for (uint32_t i = 0; i < ports_num; i++)
		find(i);
}

void
rx_wakeups_fini(void)
{
	memset(rx_wakeups, 0, sizeof(rx_wakeups));
}

/* ---- use ---- */

bool
rx_wakeup_arm(struct core *core, uint16_t port, bool on)
{
	struct rx_wakeup *rx_wakeup = &rx_wakeups[port];
	struct memif_ring *ring;

	if (rx_wakeup->kind != BELL_MEMIF)
		return atomic_load_explicit(&rx_wakeup->watched, memory_order_relaxed);
	/* Pairs with the store in find_memif, and with the grace period in munmap(). */
	ring = atomic_load_explicit(&rx_wakeup->ring, memory_order_acquire);
	if (ring == NULL)
		return false;
	atomic_store_explicit(&ring->flags, on ? 0 : MEMIF_MASK_INT, memory_order_relaxed);
	return true;
}

/* To be stored to. */
static inline void
fetch_own(const void *line)
{
#if defined(__x86_64__)
	/* Compilers make one for reading of it where not all processors of a kind know it; those do nothing.
	 */
	__asm__ volatile("prefetchw %0" ::"m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

static inline uint32_t
position(const struct rx_wakeup *rx_wakeup, const struct half *half)
{
	/* Ours, and only a hint: nothing is read for it. */
	uint16_t at = rx_wakeup->client ? atomic_load_explicit(&half->ring->head, memory_order_relaxed)
					: atomic_load_explicit(&half->ring->tail, memory_order_relaxed);

	return at & (rx_wakeup->slots - 1);
}

static void
fetch_memif(const struct rx_wakeup *rx_wakeup)
{
	uint32_t in = position(rx_wakeup, &rx_wakeup->in), out = position(rx_wakeup, &rx_wakeup->out);
	const struct memif_descriptor *in_slots = (const struct memif_descriptor *)(rx_wakeup->in.ring + 1);
	const struct memif_descriptor *out_slots = (const struct memif_descriptor *)(rx_wakeup->out.ring + 1);
	size_t head = offsetof(struct memif_ring, head), tail = offsetof(struct memif_ring, tail);
	size_t ours = rx_wakeup->client ? head : tail, theirs = rx_wakeup->client ? tail : head;
	uintptr_t frame = rx_wakeup->in.buffers + (uintptr_t)in * rx_wakeup->in.stride;
	uintptr_t answer = rx_wakeup->out.buffers + (uintptr_t)out * rx_wakeup->out.stride;

	__builtin_prefetch((const uint8_t *)rx_wakeup->in.ring + theirs);
	fetch_own((const uint8_t *)rx_wakeup->in.ring + ours);
	__builtin_prefetch((const uint8_t *)rx_wakeup->out.ring + theirs);
	fetch_own(&in_slots[in]);
	__builtin_prefetch((const void *)frame);
	__builtin_prefetch((const void *)(frame + RTE_CACHE_LINE_SIZE));
	fetch_own(&out_slots[out]);
	fetch_own((const void *)answer);
}

void
rx_wakeup_fetch(struct core *core)
{
	for (uint32_t i = 0; i < core->num_rx; i++) {
		const struct rx_wakeup *rx_wakeup = &rx_wakeups[core->rx[i].port];

		/* Pairs with the store in find_memif, and with the grace period in munmap(). */
		if (atomic_load_explicit(&rx_wakeup->ring, memory_order_acquire) != NULL)
			fetch_memif(rx_wakeup);
	}
}

/*
 * Who fills a ring stores its head and then looks at the flag, in DPDK without a
 * fence in between: so we look once more after a moment (idle.c), by which its
 * store has arrived; and if not even that, after this time.
 */
uint64_t
rx_wakeup_limit(const struct core *core)
{
	for (uint32_t i = 0; i < core->num_rx; i++)
		if (rx_wakeups[core->rx[i].port].kind == BELL_MEMIF)
			return MEMIF_LIMIT_NS;
	return UINT64_MAX;
}

void
rx_wakeup_unmap_begin(const void *address, size_t len)
{
	pthread_mutex_lock(&mappings);
	for (uint32_t i = 0; i < CONFIG_PORTS_MAX; i++) {
		uintptr_t ring = (uintptr_t)atomic_load_explicit(&rx_wakeups[i].ring, memory_order_relaxed);

		if (ring >= (uintptr_t)address && ring - (uintptr_t)address < len)
			atomic_store_explicit(&rx_wakeups[i].ring, NULL, memory_order_relaxed);
	}
}

void
rx_wakeup_unmap_end(void)
{
	pthread_mutex_unlock(&mappings);
}
