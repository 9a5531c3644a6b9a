/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses and prints numbers and addresses. Independent of DPDK, for programs without it. */
#ifndef CONFIG_ADDRESS_H
#define CONFIG_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config_addr {
	uint16_t family;   /* AF_INET or AF_INET6 */
	uint8_t prefix;    /* bits */
	uint8_t bytes[16]; /* network order; IPv4 in the first four */
};

/* Packets to `net`, whose host bits are 0, go through the router `via`. Family 0: no route. */
struct config_route {
	struct config_addr net, via;
};

/* Writes the sentence and returns `error`. */
int config_refuse(char *why, size_t why_len, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
int config_number(const char *text, uint64_t *value);
/* Returns -EINVAL: not an address; -ERANGE: prefix too long. */
int config_addr_parse(const char *text, struct config_addr *addr, bool *has_prefix);
/* Can a host on a link have this address? */
bool config_addr_unicast(const struct config_addr *addr);
/* True unless the address is the network or broadcast address (all zeros or ones) of its own prefix. */
bool config_addr_is_host(const struct config_addr *addr);
bool config_addr_equal(const struct config_addr *a, const struct config_addr *b);
/* True if both have the same prefix length and equal prefix bits. */
bool config_same_net(const struct config_addr *a, const struct config_addr *b);
/* True if `addr` is in the prefix of `net`. */
bool config_on_link(const struct config_addr *net, const struct config_addr *addr);
/* A router on the link of `own` may have any host address of the family: fe80::1, or 169.254.0.1 for an
 * address with /32. */
bool config_may_be_gateway(const struct config_addr *own, const struct config_addr *gateway);
/* Room for an address with prefix as text. */
#define CONFIG_ADDR_TEXT 64u
const char *config_addr_text(const struct config_addr *addr, bool prefix, char text[CONFIG_ADDR_TEXT]);

#endif
