/* SPDX-License-Identifier: BSD-3-Clause */
#include "daemon.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

struct addr_check {
	void (*notify)(void *user, const char *text);
	void *user;
};

/* Bytes of an IP address and their number; NULL for other families. */
static const uint8_t *
bytes_of(const struct sockaddr *addr, size_t *len)
{
	if (addr == NULL)
		return NULL;
	if (addr->sa_family == AF_INET) {
		*len = 4;
		return (const uint8_t *)&((const struct sockaddr_in *)(const void *)addr)->sin_addr;
	}
	*len = 16;
	return addr->sa_family == AF_INET6
		       ? (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr
		       : NULL;
}

static unsigned int
prefix_of(const struct sockaddr *mask)
{
	size_t len;
	const uint8_t *bytes = bytes_of(mask, &len);
	unsigned int bits = 0;

	for (size_t i = 0; bytes != NULL && i < len; i++)
		bits += (unsigned int)__builtin_popcount(bytes[i]);
	return bits;
}

static const struct ifaddrs *
kernel_find(const struct ifaddrs *kernel, const struct config_addr *addr)
{
	size_t len;

	for (; kernel != NULL; kernel = kernel->ifa_next) {
		const uint8_t *bytes = bytes_of(kernel->ifa_addr, &len);

		if (bytes != NULL && kernel->ifa_addr->sa_family == addr->family &&
		    memcmp(bytes, addr->bytes, len) == 0)
			return kernel;
	}
	return NULL;
}

static void
check_addr(const struct addr_check *check, const struct ifaddrs *kernel, const struct config_addr *addr,
	   const char *whose)
{
	const struct ifaddrs *found = kernel_find(kernel, addr);
	char ip[CONFIG_ADDR_TEXT], text[640];

	if (found == NULL)
		return;
	config_addr_text(addr, false, ip);
	snprintf(
		text, sizeof(text),
		"%s: the kernel has %s, too, on %s: a process without rights can send RoCE frames from it, and be any user to RSM where no secret is shared; remove it with ip addr del %s/%u dev %s, or drop such frames with nft add table inet oneside '{ chain output { type filter hook output priority 0; udp dport 4791 drop; }; }'",
		whose, ip, found->ifa_name, ip, prefix_of(found->ifa_netmask), found->ifa_name);
	check->notify(check->user, text);
}

void
kernel_addr_check(const struct config *config, void (*notify)(void *user, const char *text), void *user)
{
	const struct addr_check check = {notify, user};
	struct ifaddrs *kernel;
	char whose[64];

	if (getifaddrs(&kernel) != 0)
		return;
	for (uint32_t i = 0; i < config->num_ports; i++) {
		snprintf(whose, sizeof(whose), "port %s", config->port[i].name);
		for (uint32_t j = 0; j < CONFIG_ADDRS_MAX && config->port[i].addr[j].family != 0; j++)
			check_addr(&check, kernel, &config->port[i].addr[j], whose);
	}
	for (uint32_t i = 0; i < config->num_peers; i++) {
		snprintf(whose, sizeof(whose), "peer %u", config->peer[i].node);
		check_addr(&check, kernel, &config->peer[i].addr, whose);
	}
	freeifaddrs(kernel);
}
