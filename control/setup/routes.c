/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the interface of the default route, and the addresses of each interface. /proc lists IPv4 addresses
 * without interface (fib_trie), and links with interface (route): an address belongs to the interface whose
 * link contains it. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "control/setup/machine.h"

#define ROUTES 512u
#define REJECT 0x200u /* RTF_REJECT of <linux/route.h> */

struct link4 {
	char iface[SETUP_NAME];
	uint32_t network, mask; /* network order */
};

struct route_reading {
	struct setup_machine *machine;
	struct link4 link[ROUTES];
	uint32_t links;
	char seen[INET_ADDRSTRLEN]; /* address to which the next lines of fib_trie belong */
};

static void
note_default(struct setup_machine *machine, const char *name)
{
	struct setup_iface *iface = setup_iface_find(machine, name);

	if (iface != NULL)
		iface->default_route = true;
}

/* Handles "eth0 00000000 0102000A 0003 0 0 0 00000000 0 0 0"; the words are in host byte order. */
static void
route4(void *context, char *line)
{
	struct route_reading *reading = context;
	struct link4 *link = &reading->link[reading->links];
	unsigned int network, gateway, flags, mask;
	char name[SETUP_NAME];

	if (sscanf(line, "%15s %8x %8x %x %*d %*d %*d %8x", name, &network, &gateway, &flags, &mask) != 5 ||
	    (flags & REJECT) != 0)
		return;
	if (mask == 0) {
		note_default(reading->machine, name);
	} else if (gateway == 0 && reading->links < ROUTES) {
		strcpy(link->iface, name);
		link->network = network;
		link->mask = mask;
		reading->links++;
	}
}

static void
route6(void *context, char *line)
{
	char network[33], name[SETUP_NAME];
	unsigned int prefix, flags;

	if (sscanf(line, "%32s %2x %*s %*x %*s %*s %*s %*s %x %15s", network, &prefix, &flags, name) == 4 &&
	    prefix == 0 && strspn(network, "0") == 32 && (flags & REJECT) == 0)
		note_default(context, name);
}

static void
add_address(struct setup_machine *machine, const char *iface, const struct config_addr *addr)
{
	if (machine->addrs == SETUP_ADDRS) {
		machine->more = true;
		return;
	}
	snprintf(machine->addr[machine->addrs].iface, SETUP_NAME, "%s", iface);
	machine->addr[machine->addrs++].addr = *addr;
}

static void
add_local4(struct route_reading *reading)
{
	struct config_addr addr = {.family = AF_INET, .prefix = 32};
	const struct link4 *best = NULL;
	uint32_t bits;

	if (inet_pton(AF_INET, reading->seen, &bits) != 1 || (ntohl(bits) >> 24) == 127)
		return;
	memcpy(addr.bytes, &bits, sizeof(bits));
	if (setup_addr_find(reading->machine, &addr) != NULL)
		return; /* each routing table lists the address */
	for (uint32_t i = 0; i < reading->links; i++) {
		const struct link4 *link = &reading->link[i];

		if ((bits & link->mask) == link->network &&
		    (best == NULL || ntohl(link->mask) > ntohl(best->mask)))
			best = link;
	}
	if (best != NULL)
		addr.prefix = (uint8_t)__builtin_popcount(best->mask);
	add_address(reading->machine, best != NULL ? best->iface : "", &addr);
}

/* Handles "|-- 192.0.2.1", then "/32 host LOCAL". */
static void
trie_line(void *context, char *line)
{
	struct route_reading *reading = context;
	const char *text = line + strspn(line, " |-+");

	if (strstr(text, "/32 host LOCAL") == text)
		add_local4(reading);
	else if (strstr(line, "|-- ") != NULL)
		snprintf(reading->seen, sizeof(reading->seen), "%.15s", text);
}

/* Handles "20010db8000000000000000000000001 02 40 00 80 eth0". */
static void
address6(void *context, char *line)
{
	struct config_addr addr = {.family = AF_INET6};
	char digits[33], name[SETUP_NAME];
	unsigned int prefix;

	if (sscanf(line, "%32s %*x %2x %*x %*x %15s", digits, &prefix, name) != 3 || strlen(digits) != 32 ||
	    prefix > 128 || strcmp(name, "lo") == 0)
		return;
	for (int i = 0; i < 16; i++) {
		const char byte[3] = {digits[2 * i], digits[2 * i + 1], '\0'};

		addr.bytes[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	addr.prefix = (uint8_t)prefix;
	add_address(context, name, &addr);
}

void
setup_routes_read(struct setup_machine *machine)
{
	static struct route_reading reading;

	memset(&reading, 0, sizeof(reading));
	reading.machine = machine;
	setup_lines(setup_path(machine, "proc/net/route"), route4, &reading);
	setup_lines(setup_path(machine, "proc/net/fib_trie"), trie_line, &reading);
	setup_lines(setup_path(machine, "proc/net/ipv6_route"), route6, machine);
	setup_lines(setup_path(machine, "proc/net/if_inet6"), address6, machine);
}
