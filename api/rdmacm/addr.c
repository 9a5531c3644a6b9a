/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket addresses, and the library's lock. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "rdmacm/cma.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"

pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t cma_acked = PTHREAD_COND_INITIALIZER;
uint32_t cma_process;

int
cma_own(uint32_t process, const char *what, const void *object)
{
	if (process == cma_process)
		return 0;
	return refused_because(-ECHILD,
			       "%s = %p: it belongs to the parent process; create one in this process", what,
			       object);
}

uint16_t
addr_port(const struct sockaddr *addr)
{
	/* sin_port and sin6_port have the same offset. */
	return ntohs(((const struct sockaddr_in *)(const void *)addr)->sin_port);
}

const struct sockaddr *
addr_unmapped(const struct sockaddr *addr, struct sockaddr_storage *room)
{
	const struct sockaddr_in6 *v6 = (const void *)addr;
	struct sockaddr_in *v4 = (void *)room;

	if (addr->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return addr;
	memset(v4, 0, sizeof(*v4));
	v4->sin_family = AF_INET;
	v4->sin_port = v6->sin6_port;
	memcpy(&v4->sin_addr, v6->sin6_addr.s6_addr + 12, 4);
	return (const struct sockaddr *)(const void *)room;
}

const uint8_t *
addr_bytes(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *v6 = (const void *)addr;
	const struct sockaddr_in *v4 = (const void *)addr;

	return addr->sa_family == AF_INET6 ? (const uint8_t *)&v6->sin6_addr : (const uint8_t *)&v4->sin_addr;
}

bool
addr_is(const struct sockaddr *addr, uint16_t family, const uint8_t *bytes)
{
	return addr->sa_family == family && memcmp(addr_bytes(addr), bytes, addr_length(family)) == 0;
}

void
addr_fill(uint16_t family, const uint8_t *bytes, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr *addr = (struct sockaddr *)out;

	memset(out, 0, sizeof(*out));
	addr->sa_family = family;
	memcpy((uint8_t *)(uintptr_t)addr_bytes(addr), bytes, addr_length(family));
	((struct sockaddr_in *)(void *)out)->sin_port = htons(port);
}

const char *
addr_text(const struct sockaddr *addr, char *text)
{
	if (inet_ntop(addr->sa_family, addr_bytes(addr), text, ADDR_TEXT_MAX) == NULL)
		snprintf(text, ADDR_TEXT_MAX, "an address of family %u", addr->sa_family);
	return text;
}

bool
addr_is_loopback(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *v6 = (const void *)addr;
	const struct sockaddr_in *v4 = (const void *)addr;

	return addr->sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)
					   : ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool
addr_names_no_device(const struct sockaddr *addr)
{
	static const uint8_t unspecified[16];

	return addr_is_loopback(addr) || addr_is(addr, addr->sa_family, unspecified);
}

/* ---- fork handlers ---- */

/* A child cannot use the parent's event channels and ids.  It may destroy them, without
 * effect on the parent, and create its own.  A fork waits for other threads' calls, because it takes the
 * lock. */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
fork_prepare(void)
{
	pthread_mutex_lock(&cma_lock);
}

static void
fork_parent(void)
{
	pthread_mutex_unlock(&cma_lock);
}

static void
fork_child(void)
{
	pthread_mutex_init(&cma_lock, NULL);
	pthread_cond_init(&cma_acked, NULL);
	cma_process++;
	devices_fork_child();
}

static void
watch_forks(void)
{
	verbs_cm_at_fork(fork_prepare, fork_parent, fork_child);
}

void
ids_watch_forks(void)
{
	pthread_once(&once, watch_forks);
}
