/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket addresses, and the lock of all that this library has. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "rdmacm/base/cma.h"

pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t cma_acked = PTHREAD_COND_INITIALIZER;
uint32_t cma_process;

int
cma_own(uint32_t process, const char *what, const void *object)
{
	if (process == cma_process)
		return 0;
	return refused_because(-ECHILD,
			       "%s = %p: it is of the process that this one was forked from; make one here",
			       what, object);
}

uint16_t
addr_port(const struct sockaddr *addr)
{
	return ntohs(addr->sa_family == AF_INET6
			     ? ((const struct sockaddr_in6 *)(const void *)addr)->sin6_port
			     : ((const struct sockaddr_in *)(const void *)addr)->sin_port);
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

void
addr_bytes(const struct sockaddr *addr, uint8_t *bytes)
{
	if (addr->sa_family == AF_INET6)
		memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr, 16);
	else
		memcpy(bytes, &((const struct sockaddr_in *)(const void *)addr)->sin_addr, 4);
}

void
addr_fill(uint16_t family, const uint8_t *bytes, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *v6 = (void *)out;
	struct sockaddr_in *v4 = (void *)out;

	memset(out, 0, sizeof(*out));
	out->ss_family = family;
	if (family == AF_INET6) {
		memcpy(&v6->sin6_addr, bytes, 16);
		v6->sin6_port = htons(port);
	} else {
		memcpy(&v4->sin_addr, bytes, 4);
		v4->sin_port = htons(port);
	}
}

const char *
addr_text(const struct sockaddr *addr, char *text)
{
	uint8_t bytes[16];

	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6) {
		snprintf(text, ADDR_TEXT_MAX, "one of family %u", addr->sa_family);
		return text;
	}
	addr_bytes(addr, bytes);
	inet_ntop(addr->sa_family, bytes, text, ADDR_TEXT_MAX);
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
	const struct sockaddr_in6 *v6 = (const void *)addr;
	const struct sockaddr_in *v4 = (const void *)addr;

	return addr_is_loopback(addr) ||
	       (addr->sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)
					    : v4->sin_addr.s_addr == htonl(INADDR_ANY));
}
