/* SPDX-License-Identifier: BSD-3-Clause */
/* [ipsec NAME]: a peer that is spoken to by ESP, and the files of the keys for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "config/internal.h"

#define SPI_LEAST 256u /* those below are IANA's */

/* What is set, for sentences. */
struct ipsec_value {
	const char *name, *key, *value;
	char *why;
	size_t why_len;
};

#define REFUSE(at, error, format, ...)                                                                      \
	config_refuse((at)->why, (at)->why_len, error, "ipsec %s: %s = %s: " format, (at)->name, (at)->key, \
		      (at)->value __VA_OPT__(, ) __VA_ARGS__)

/* "SPI:FILE", the SPI in decimal or hexadecimal digits. */
static int
set_sa(const struct ipsec_value *at, struct config_sa *sa)
{
	const char *colon = strchr(at->value, ':');
	unsigned long long spi;
	char *end;

	errno = 0;
	spi = strtoull(at->value, &end, 0);
	if (colon == NULL || end != colon || end == at->value || at->value[0] < '0' || at->value[0] > '9' ||
	    errno != 0 || spi < SPI_LEAST || spi > UINT32_MAX)
		return REFUSE(at, -EINVAL,
			      "this is not SPI:FILE; write an SPI of 256 to 4294967295 and the file of its "
			      "key, as in "
			      "0x1001:/etc/oneside/to-b.key");
	if (colon[1] != '/')
		return REFUSE(at, -EINVAL, "the file's path is not absolute; write one that begins with /");
	if (strlen(colon + 1) >= sizeof(sa->file))
		return REFUSE(at, -ENAMETOOLONG,
			      "the file's path is longer than %zu bytes; choose a shorter one",
			      sizeof(sa->file) - 1);
	sa->spi = (uint32_t)spi;
	strcpy(sa->file, colon + 1);
	return 0;
}

static int
set_policy(const struct ipsec_value *at, bool *plain)
{
	*plain = strcmp(at->value, "plain") == 0;
	if (*plain || strcmp(at->value, "encrypt") == 0)
		return 0;
	return REFUSE(at, -EINVAL, "no such policy; write encrypt or plain");
}

static int
set_addr(const struct ipsec_value *at, struct config_addr *out)
{
	struct config_addr addr;
	bool has_prefix;

	if (config_addr_parse(at->value, &addr, &has_prefix) < 0 || has_prefix || !config_addr_unicast(&addr))
		return REFUSE(
			at, -EINVAL,
			"this is not a host's IPv4 or IPv6 address; write as in 192.0.2.2 or 2001:db8::2");
	*out = addr;
	return 0;
}

static int
set_port_name(const struct ipsec_value *at, char port[ONE_PORT_NAME])
{
	if (!config_name_ok(at->value, ONE_PORT_NAME))
		return REFUSE(at, -EINVAL, "this cannot be a port's name; write the NAME of a [port NAME]");
	strcpy(port, at->value);
	return 0;
}

static int
set_limit(const struct ipsec_value *at, uint64_t *limit)
{
	if (config_size(at->value, limit) < 0)
		return REFUSE(
			at, -EINVAL,
			"this is not a limit; write a number as in 1048576, 512M or 64G, or 0 for none");
	return 0;
}

static int
set_value(struct config_ipsec *ipsec, const struct ipsec_value *at)
{
	if (strcmp(at->key, "address") == 0)
		return set_addr(at, &ipsec->addr);
	if (strcmp(at->key, "port") == 0)
		return set_port_name(at, ipsec->port);
	if (strcmp(at->key, "policy") == 0)
		return set_policy(at, &ipsec->plain);
	if (strcmp(at->key, "out") == 0)
		return set_sa(at, &ipsec->out);
	if (strcmp(at->key, "in") == 0)
		return set_sa(at, &ipsec->in);
	if (strcmp(at->key, "in_next") == 0)
		return set_sa(at, &ipsec->in_next);
	if (strcmp(at->key, "soft_packets") == 0)
		return set_limit(at, &ipsec->soft_packets);
	if (strcmp(at->key, "soft_bytes") == 0)
		return set_limit(at, &ipsec->soft_bytes);
	if (strcmp(at->key, "hard_packets") == 0)
		return set_limit(at, &ipsec->hard_packets);
	if (strcmp(at->key, "hard_bytes") == 0)
		return set_limit(at, &ipsec->hard_bytes);
	return REFUSE(
		at, -EINVAL,
		"there is no such key; write one of address, port, policy, out, in, in_next, soft_packets, "
		"soft_bytes, hard_packets, hard_bytes");
}

int
config_ipsec_set(struct config *config, const char *name, const char *key, const char *value, char *why,
		 size_t why_len)
{
	const struct ipsec_value at = {name, key, value, why, why_len};
	struct config_ipsec *ipsec = NULL;
	int error;

	if (!config_name_ok(name, ONE_PORT_NAME))
		return config_refuse(
			why, why_len, -EINVAL,
			"ipsec \"%s\": this cannot be a name; write 1 to %u letters, digits, '_', '.' or '-'",
			name, ONE_PORT_NAME - 1);
	for (uint32_t i = 0; i < config->num_ipsec; i++)
		if (strcmp(config->ipsec[i].name, name) == 0)
			ipsec = &config->ipsec[i];
	if (ipsec != NULL)
		return set_value(ipsec, &at);
	if (config->num_ipsec == CONFIG_IPSEC_MAX)
		return config_refuse(why, why_len, -ENOSPC, "ipsec %s: these are more than %u; remove one",
				     name, CONFIG_IPSEC_MAX);
	ipsec = &config->ipsec[config->num_ipsec];
	memset(ipsec, 0, sizeof(*ipsec));
	strcpy(ipsec->name, name);
	error = set_value(ipsec, &at);
	config->num_ipsec += error == 0;
	return error;
}

int
config_ipsec_port(const struct config *config, const struct config_ipsec *ipsec)
{
	struct config_peer peer = {.addr = ipsec->addr};

	strcpy(peer.port, ipsec->port);
	return config_peer_port(config, &peer);
}

static bool
addr_same(const struct config_addr *a, const struct config_addr *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool
has_spi(const struct config_ipsec *ipsec, uint32_t spi)
{
	return spi != 0 && (ipsec->in.spi == spi || ipsec->in_next.spi == spi);
}

static int
validate_unique(const struct config *config, const struct config_ipsec *ipsec, char *why, size_t why_len)
{
	char text[CONFIG_ADDR_TEXT];

	if (has_spi(&(struct config_ipsec){.in = ipsec->in}, ipsec->in_next.spi))
		return config_refuse(why, why_len, -EEXIST,
				     "ipsec %s: in and in_next have the same SPI; give each its own",
				     ipsec->name);
	for (const struct config_ipsec *other = config->ipsec; other < ipsec; other++) {
		if (addr_same(&other->addr, &ipsec->addr))
			return config_refuse(why, why_len, -EEXIST,
					     "ipsec %s: address %s is that of ipsec %s; join the two",
					     ipsec->name, config_addr_text(&ipsec->addr, false, text),
					     other->name);
		if (has_spi(other, ipsec->in.spi) || has_spi(other, ipsec->in_next.spi))
			return config_refuse(why, why_len, -EEXIST,
					     "ipsec %s: it receives by an SPI of ipsec %s; give each its own",
					     ipsec->name, other->name);
	}
	return 0;
}

int
config_ipsec_validate(const struct config *config, char *why, size_t why_len)
{
	for (uint32_t i = 0; i < config->num_ipsec; i++) {
		const struct config_ipsec *ipsec = &config->ipsec[i];
		int error;

		if (ipsec->addr.family == 0)
			return config_refuse(why, why_len, -EINVAL,
					     "ipsec %s: it has no address; write address = 192.0.2.2",
					     ipsec->name);
		if (!ipsec->plain && (ipsec->out.spi == 0 || ipsec->in.spi == 0))
			return config_refuse(
				why, why_len, -EINVAL,
				"ipsec %s: it has no key to %s; write %s = SPI:FILE, or policy = plain",
				ipsec->name, ipsec->out.spi == 0 ? "send" : "receive",
				ipsec->out.spi == 0 ? "out" : "in");
		if (config_ipsec_port(config, ipsec) < 0)
			return config_refuse(
				why, why_len, -ENETUNREACH,
				"ipsec %s: no port reaches its address; widen a port's prefix, give a port "
				"a gateway, or correct port = NAME",
				ipsec->name);
		error = validate_unique(config, ipsec, why, why_len);
		if (error != 0)
			return error;
	}
	return 0;
}

static bool
sa_equal(const struct config_sa *a, const struct config_sa *b)
{
	return a->spi == b->spi && strcmp(a->file, b->file) == 0;
}

static bool
ipsec_equal(const struct config_ipsec *a, const struct config_ipsec *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->port, b->port) == 0 &&
	       addr_same(&a->addr, &b->addr) && a->plain == b->plain && sa_equal(&a->out, &b->out) &&
	       sa_equal(&a->in, &b->in) && sa_equal(&a->in_next, &b->in_next) &&
	       a->soft_packets == b->soft_packets && a->soft_bytes == b->soft_bytes &&
	       a->hard_packets == b->hard_packets && a->hard_bytes == b->hard_bytes;
}

bool
config_ipsec_equal(const struct config *a, const struct config *b)
{
	if (a->num_ipsec != b->num_ipsec)
		return false;
	for (uint32_t i = 0; i < a->num_ipsec; i++)
		if (!ipsec_equal(&a->ipsec[i], &b->ipsec[i]))
			return false;
	return true;
}
