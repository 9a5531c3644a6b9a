/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adds the ports' addresses to the list of interfaces, where libfabric searches for verbs devices.
 *
 * The added interfaces are up but not running, with a network of one address, to keep programs from opening
 * TCP connections there: the kernel has no such interface.  The entries are one allocation at the end of the
 * C library's list; freeifaddrs() recognizes them by the address of their names.
 */
#include "run/preload/redirect.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

#define ADDRESSES_MAX (RUN_PORTS_MAX * ONE_PORT_ADDRS_MAX)

/* The names of our entries: an entry is ours if its ifa_name points into this array. */
static char names[RUN_PORTS_MAX][IFNAMSIZ];

struct shown {
	struct ifaddrs entry;
	struct sockaddr_storage addr, mask;
};

static bool
is_ours(const struct ifaddrs *entry)
{
	return entry->ifa_name >= names[0] && entry->ifa_name < names[0] + sizeof(names);
}

static void
set_address(struct sockaddr_storage *to, int family, const void *addr)
{
	to->ss_family = (sa_family_t)family;
	if (family == AF_INET)
		memcpy(&((struct sockaddr_in *)to)->sin_addr, addr, sizeof(struct in_addr));
	else
		memcpy(&((struct sockaddr_in6 *)to)->sin6_addr, addr, sizeof(struct in6_addr));
}

/* True if the list has this address, so that the kernel has an interface for it. */
static bool
has_address(const struct ifaddrs *list, const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)addr;
	const struct sockaddr_in *four = (const struct sockaddr_in *)addr;

	for (; list != NULL; list = list->ifa_next) {
		if (list->ifa_addr == NULL || list->ifa_addr->sa_family != addr->ss_family)
			continue;
		if (addr->ss_family == AF_INET
			    ? memcmp(&((const struct sockaddr_in *)(const void *)list->ifa_addr)->sin_addr,
				     &four->sin_addr, sizeof(four->sin_addr)) == 0
			    : memcmp(&((const struct sockaddr_in6 *)(const void *)list->ifa_addr)->sin6_addr,
				     &six->sin6_addr, sizeof(six->sin6_addr)) == 0)
			return true;
	}
	return false;
}

/* Parses a line "onesideN ADDRESS"; false for any other line. */
static bool
parse_line(const char *line, struct shown *shown)
{
	static const uint8_t ones[16] = {[0 ... 15] = 0xff};
	char text[INET6_ADDRSTRLEN];
	uint8_t addr[16];
	unsigned port;
	int family;

	if (sscanf(line, "oneside%u %45s", &port, text) != 2 || port >= RUN_PORTS_MAX)
		return false;
	family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
	if (inet_pton(family, text, addr) != 1)
		return false;
	memset(shown, 0, sizeof(*shown));
	set_address(&shown->addr, family, addr);
	set_address(&shown->mask, family, ones);
	/* Concurrent threads write the same text. */
	snprintf(names[port], IFNAMSIZ, "oneside%u", port);
	shown->entry.ifa_name = names[port];
	shown->entry.ifa_flags = IFF_UP | IFF_NOARP;
	return true;
}

/* Reads the entries whose addresses are not in `list`.  Returns their number. */
static size_t
read_addresses(FILE *file, const struct ifaddrs *list, struct shown *shown)
{
	char line[128];
	size_t n = 0;

	while (n < ADDRESSES_MAX && fgets(line, sizeof(line), file) != NULL)
		if (parse_line(line, &shown[n]) && !has_address(list, &shown[n].addr))
			n++;
	return n;
}

static struct ifaddrs *
link_entries(struct shown *shown, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		shown[i].entry.ifa_addr = (struct sockaddr *)&shown[i].addr;
		shown[i].entry.ifa_netmask = (struct sockaddr *)&shown[i].mask;
		shown[i].entry.ifa_next = i + 1 < count ? &shown[i + 1].entry : NULL;
	}
	return &shown[0].entry;
}

static struct ifaddrs *
own_entries(const struct ifaddrs *list)
{
	const char *tree = getenv(RUN_VARIABLE);
	struct shown *shown;
	char path[PATH_MAX];
	FILE *file;
	size_t n = 0;

	if (tree == NULL)
		return NULL;
	snprintf(path, sizeof(path), "%s/" RUN_ADDRESSES, tree);
	file = fopen(path, "re");
	shown = file == NULL ? NULL : calloc(ADDRESSES_MAX, sizeof(*shown));
	if (shown != NULL)
		n = read_addresses(file, list, shown);
	if (file != NULL)
		fclose(file);
	if (n != 0)
		return link_entries(shown, n);
	free(shown);
	return NULL;
}

int
getifaddrs(struct ifaddrs **list)
{
	struct ifaddrs **last = list;
	int result = REDIRECT_NEXT(getifaddrs)(list);

	if (result != 0)
		return result;
	while (*last != NULL)
		last = &(*last)->ifa_next;
	*last = own_entries(*list);
	return 0;
}

void
freeifaddrs(struct ifaddrs *list)
{
	struct ifaddrs **link = &list, *own;

	while (*link != NULL && !is_ours(*link))
		link = &(*link)->ifa_next;
	own = *link;
	*link = NULL;
	free(own); /* NULL, or the start of our array of struct shown */
	REDIRECT_NEXT(freeifaddrs)(list);
}

/*
 * Clears AI_ADDRCONFIG, which is the default, for numeric IPv6 addresses.  With the flag getaddrinfo() fails
 * if the kernel has no IPv6 address, although a port may have one.
 */
int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	struct addrinfo plain = {.ai_flags = AI_V4MAPPED | AI_ADDRCONFIG};
	struct in6_addr addr;

	if (hints != NULL)
		plain = *hints;
	if (node != NULL && inet_pton(AF_INET6, node, &addr) == 1 && getenv(RUN_VARIABLE) != NULL) {
		plain.ai_flags &= ~AI_ADDRCONFIG;
		hints = &plain;
	}
	return REDIRECT_NEXT(getaddrinfo)(node, service, hints, result);
}
