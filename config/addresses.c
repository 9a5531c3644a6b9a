/* SPDX-License-Identifier: BSD-3-Clause */
/* Setters of addresses, and of lists of addresses or routes separated by blanks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "config/internal.h"

#define LIST_ROOM 1024u
#define BLANKS " \t"
#define ROUTE_HELP "this is no route; write as in 198.51.100.0/24 via 192.0.2.254"

/* `text` is part of the value. A port's address needs the prefix of its link; another host's has none. */
static int
take_address(const struct config_value *value, const struct config_key *key, const char *text,
	     struct config_addr *field)
{
	struct config_addr addr;
	bool has_prefix;
	int error = config_addr_parse(text, &addr, &has_prefix);

	if (error == -ERANGE)
		return REFUSE_VALUE(value, error, "the prefix is above %u; write as in %s",
				    addr.family == AF_INET ? 32u : 128u,
				    addr.family == AF_INET ? "192.0.2.1/24" : "2001:db8::1/64");
	if (error < 0)
		return REFUSE_VALUE(value, error, "this is not an IPv4 or IPv6 address; write as in %s",
				    key->of_port ? "192.0.2.1/24 or 2001:db8::1/64"
						 : "192.0.2.1 or 2001:db8::1");
	if (key->of_port && (!has_prefix || addr.prefix == 0))
		return REFUSE_VALUE(value, -EINVAL, "the prefix of the link is missing; write as in %s",
				    addr.family == AF_INET ? "192.0.2.1/24" : "2001:db8::1/64");
	if (!key->of_port && has_prefix)
		return REFUSE_VALUE(value, -EINVAL, "this is one host, not a network; write it without /%u",
				    addr.prefix);
	if (!config_addr_unicast(&addr))
		return REFUSE_VALUE(
			value, -EINVAL,
			"no host can have this address (unspecified, loopback, multicast or broadcast); write a unicast address");
	*field = addr;
	return 0;
}

int
config_set_address(const struct config_value *value, const struct config_key *key, void *field)
{
	return take_address(value, key, value->text, field);
}

/* Appends an address; `between` separates it from earlier text. Truncates at `len`. */
static void
add_text(char *text, size_t len, const struct config_addr *addr, bool prefix, const char *between)
{
	size_t used = strlen(text);
	char address[CONFIG_ADDR_TEXT];

	snprintf(text + used, len - used, "%s%s", used > 0 ? between : "",
		 config_addr_text(addr, prefix, address));
}

void
config_addresses_text(const struct config_key *key, const void *field, char *text, size_t len)
{
	const struct config_addr *addr = field;

	text[0] = '\0';
	for (uint32_t i = 0; i < key->size / sizeof(*addr) && addr[i].family != 0; i++)
		add_text(text, len, &addr[i], key->of_port, " ");
	if (text[0] == '\0')
		snprintf(text, len, "none");
}

void
config_routes_text(const struct config_route route[CONFIG_ROUTES_MAX], char *text, size_t len)
{
	text[0] = '\0';
	for (uint32_t i = 0; i < CONFIG_ROUTES_MAX && route[i].net.family != 0; i++) {
		add_text(text, len, &route[i].net, true, " ");
		add_text(text, len, &route[i].via, false, " via ");
	}
	if (text[0] == '\0')
		snprintf(text, len, "none");
}

/* Splits off the word before the next blank; NULL: none left. */
static char *
next_word(char **rest)
{
	char *word;

	*rest += strspn(*rest, BLANKS);
	word = **rest != '\0' ? *rest : NULL;
	*rest += strcspn(*rest, BLANKS);
	if (**rest != '\0')
		*(*rest)++ = '\0';
	return word;
}

/* Copies the value for splitting into words. Returns 0, or refuses. */
static int
begin_list(const struct config_value *value, char copy[LIST_ROOM])
{
	if (strlen(value->text) >= LIST_ROOM)
		return REFUSE_VALUE(value, -E2BIG, "longer than %u bytes; shorten it", LIST_ROOM - 1);
	strcpy(copy, value->text);
	if (copy[strspn(copy, BLANKS)] == '\0')
		return REFUSE_VALUE(value, -EINVAL,
				    "there is nothing; write what it is to be, or leave the key out");
	return 0;
}

/* Addresses separated by blanks; the first unused entry of the field stays all zero. */
int
config_set_addresses(const struct config_value *value, const struct config_key *key, void *field)
{
	struct config_addr addr[CONFIG_ADDRS_MAX + 1];
	uint32_t max = (uint32_t)(key->size / sizeof(addr[0])), n = 0;
	char copy[LIST_ROOM], *rest = copy, *word;
	int error = begin_list(value, copy);

	memset(addr, 0, sizeof(addr));
	while (error == 0 && (word = next_word(&rest)) != NULL) {
		if (n == max)
			return REFUSE_VALUE(value, -ENOSPC,
					    "these are more than %u addresses; leave some out", max);
		error = take_address(value, key, word, &addr[n]);
		for (uint32_t i = 0; i < n && error == 0; i++)
			if (config_addr_equal(&addr[i], &addr[n]))
				error = REFUSE_VALUE(value, -EEXIST, "%s is there twice; leave one out",
						     word);
		n++;
	}
	if (error == 0)
		memcpy(field, addr, key->size);
	return error;
}

static int
take_network(const struct config_value *value, const char *text, struct config_addr *net)
{
	bool has_prefix;
	int error = text != NULL ? config_addr_parse(text, net, &has_prefix) : -EINVAL;
	struct config_addr first;

	if (error != 0 || !has_prefix || net->prefix == 0)
		return REFUSE_VALUE(value, -EINVAL, "%s", ROUTE_HELP);
	first = *net;
	for (unsigned int bit = net->prefix; bit < 128; bit++)
		first.bytes[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
	if (!config_addr_equal(&first, net))
		return REFUSE_VALUE(
			value, -EINVAL,
			"%s has bits behind its prefix; write the network's address, as in 198.51.100.0/24",
			text);
	return 0;
}

/* Parses "NETWORK via ROUTER". */
static int
take_route(const struct config_value *value, const struct config_key *key, char *word, char **rest,
	   struct config_route *route)
{
	const char *via = next_word(rest), *router = next_word(rest);
	int error = take_network(value, word, &route->net);

	if (error == 0 && (via == NULL || strcmp(via, "via") != 0 || router == NULL))
		error = REFUSE_VALUE(value, -EINVAL, "%s", ROUTE_HELP);
	if (error == 0)
		error = take_address(value, key, router, &route->via);
	if (error == 0 && route->via.family != route->net.family)
		error = REFUSE_VALUE(value, -EINVAL,
				     "%s is of another family than %s; name a router of its own", router,
				     word);
	return error;
}

int
config_set_routes(const struct config_value *value, const struct config_key *key, void *field)
{
	struct config_route route[CONFIG_ROUTES_MAX + 1];
	char copy[LIST_ROOM], *rest = copy, *word;
	int error = begin_list(value, copy);
	uint32_t n = 0;

	memset(route, 0, sizeof(route));
	while (error == 0 && (word = next_word(&rest)) != NULL) {
		if (n == CONFIG_ROUTES_MAX)
			return REFUSE_VALUE(value, -ENOSPC, "these are more than %u routes; join some",
					    CONFIG_ROUTES_MAX);
		error = take_route(value, key, word, &rest, &route[n]);
		for (uint32_t i = 0; i < n && error == 0; i++)
			if (config_same_net(&route[i].net, &route[n].net))
				error = REFUSE_VALUE(value, -EEXIST, "%s is there twice; leave one out",
						     word);
		n++;
	}
	if (error == 0)
		memcpy(field, route, key->size);
	return error;
}
