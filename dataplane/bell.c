/* SPDX-License-Identifier: BSD-3-Clause */
#include "bell.h"

#include <dirent.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memif.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif

#define MEMIF_LIMIT_NS 20000000ull

enum kind { BELL_NONE, BELL_SOCKET, BELL_MEMIF };

static struct bell {
	enum kind kind;
	/* memif: whose eventfds are watched; 0: of none. */
	_Atomic uint32_t generation;
	_Atomic bool watched; /* socket: found */
} bells[CONFIG_PORTS_MAX];

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

static void
find_memif(uint32_t port)
{
	uint32_t generation;

	/* Only this thread stores it. */
	if (memif_rx_ring(port, &generation) != NULL &&
	    generation != atomic_load_explicit(&bells[port].generation, memory_order_relaxed) &&
	    watch_descriptors(port, BELL_MEMIF, 0))
		/* A core that sees it later naps meanwhile. */
		atomic_store_explicit(&bells[port].generation, generation, memory_order_relaxed);
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
	uint32_t generation;

	if (bell->kind != BELL_MEMIF)
		return atomic_load_explicit(&bell->watched, memory_order_relaxed);
	ring = memif_rx_ring(port, &generation);
	if (ring == NULL || generation != atomic_load_explicit(&bell->generation, memory_order_relaxed))
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
