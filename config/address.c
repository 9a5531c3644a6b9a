/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int
config_refuse(char *why, size_t why_len, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, why_len, format, args);
	va_end(args);
	return error;
}

/* Accepts decimal digits only: no sign, no space, nothing after. */
int
config_number(const char *text, uint64_t *value)
{
	uint64_t sum = 0;
	if (*text == '\0')
		return -EINVAL;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, *text - '0', &sum))
			return -ERANGE;
	}
	*value = sum;
	return 0;
}

/* Parses "192.0.2.1/24"; without a prefix the address is a host's. */
int
config_addr_parse(const char *text, struct config_addr *addr, bool *has_prefix)
{
	char host[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);

	memset(addr, 0, sizeof(*addr));
	if (len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';

	addr->family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET;
	if (inet_pton(addr->family, host, addr->bytes) != 1)
		return -EINVAL;
	unsigned int bits = addr->family == AF_INET ? 32 : 128;
	uint64_t prefix = bits;
	*has_prefix = slash != NULL;
	if (slash != NULL && config_number(slash + 1, &prefix) < 0)
		return -EINVAL;
	if (prefix > bits)
		return -ERANGE;
	addr->prefix = (uint8_t)prefix;
	return 0;
}

const char *
config_addr_text(const struct config_addr *addr, bool prefix, char text[CONFIG_ADDR_TEXT])
{
	if (addr->family == 0 || inet_ntop(addr->family, addr->bytes, text, CONFIG_ADDR_TEXT) == NULL)
		return strcpy(text, "none");
	if (prefix) {
		size_t len = strlen(text);
		snprintf(text + len, CONFIG_ADDR_TEXT - len, "/%u", addr->prefix);
	}
	return text;
}

static bool
prefix_equal(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	unsigned int bytes = bits / 8, rest = bits % 8;
	if (memcmp(a, b, bytes) != 0)
		return false;
	return rest == 0 || ((a[bytes] ^ b[bytes]) & (uint8_t)(0xff00u >> rest)) == 0;
}

static unsigned int
family_bits(const struct config_addr *addr)
{
	return addr->family == AF_INET ? 32 : 128;
}

bool
config_addr_equal(const struct config_addr *a, const struct config_addr *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, family_bits(a) / 8) == 0;
}

bool
config_on_link(const struct config_addr *net, const struct config_addr *addr)
{
	return net->family == addr->family && net->family != 0 &&
	       prefix_equal(net->bytes, addr->bytes, net->prefix);
}

bool
config_same_net(const struct config_addr *a, const struct config_addr *b)
{
	return a->prefix == b->prefix && config_on_link(a, b);
}

bool
config_addr_unicast(const struct config_addr *addr)
{
	static const uint8_t zero[16], loopback6[16] = {[15] = 1};
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (addr->family == AF_INET)
		return addr->bytes[0] != 0 && addr->bytes[0] != 127 && addr->bytes[0] < 224;
	return memcmp(addr->bytes, zero, 16) != 0 && memcmp(addr->bytes, loopback6, 16) != 0 &&
	       memcmp(addr->bytes, mapped, 12) != 0 && addr->bytes[0] != 0xff;
}

bool
config_addr_is_host(const struct config_addr *addr)
{
	if (addr->family != AF_INET || addr->prefix > 30)
		return true;
	uint32_t ip = (uint32_t)addr->bytes[0] << 24 | (uint32_t)addr->bytes[1] << 16 |
		      (uint32_t)addr->bytes[2] << 8 | addr->bytes[3];
	uint32_t host = UINT32_MAX >> addr->prefix;
	return (ip & host) != 0 && (ip & host) != host;
}

bool
config_may_be_gateway(const struct config_addr *own, const struct config_addr *gateway)
{
	struct config_addr host = *gateway;

	host.prefix = own->prefix;
	return host.family == own->family && config_addr_unicast(&host) && !config_addr_equal(&host, own) &&
	       (!config_on_link(own, &host) || config_addr_is_host(&host));
}
