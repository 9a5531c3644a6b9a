/* SPDX-License-Identifier: BSD-3-Clause */
/* What a data plane that runs can take over from another configuration, and where its control socket is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/ctl_path.h"
#include "config/internal.h"
#include "config/secret.h"

bool
config_ctl_path(const struct config *config, char path[CONFIG_PATH_MAX])
{
	if (config->ctl[0] == '\0')
		return ctl_path_beside(config->socket, path, CONFIG_PATH_MAX);
	strcpy(path, config->ctl);
	return true;
}

static void
hold_secrets(const struct config *config)
{
	for (uint32_t i = 0; i < config->num_peers; i++)
		for (uint32_t j = 0; j < CONFIG_PEER_SECRETS; j++)
			config_secret_hold(config->peer[i].secret[j]);
}

void
config_copy(struct config *to, const struct config *from)
{
	hold_secrets(from);
	*to = *from;
}

static void
drop_secrets(struct config_peer *peer)
{
	for (uint32_t j = 0; j < CONFIG_PEER_SECRETS; j++) {
		config_secret_drop(peer->secret[j]);
		peer->secret[j] = NULL;
	}
}

void
config_release(struct config *config)
{
	for (uint32_t i = 0; i < config->num_peers; i++)
		drop_secrets(&config->peer[i]);
}

static bool
differs(const struct config *a, const struct config *b, const struct config_key *key)
{
	const char *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;

	return key->kind == KEY_PATH ? strcmp(x, y) != 0 : memcmp(x, y, key->size) != 0;
}

static int
refuse_fixed(const char *name, char *why, size_t why_len)
{
	return config_refuse(
		why, why_len, -EBUSY,
		"%s: it cannot change while the data plane runs, and nothing has been changed; undo "
		"that, or end the data plane and start it anew",
		name);
}

static bool
peer_equal(const struct config_peer *a, const struct config_peer *b)
{
	return a->node == b->node && strcmp(a->port, b->port) == 0 && a->addr.family == b->addr.family &&
	       memcmp(a->addr.bytes, b->addr.bytes, sizeof(a->addr.bytes)) == 0 &&
	       config_secret_equal(a->secret[0], b->secret[0]) &&
	       config_secret_equal(a->secret[1], b->secret[1]);
}

static bool
peers_equal(const struct config *a, const struct config *b)
{
	if (a->num_peers != b->num_peers)
		return false;
	for (uint32_t i = 0; i < a->num_peers; i++)
		if (!peer_equal(&a->peer[i], &b->peer[i]))
			return false;
	return true;
}

static bool
users_equal(const struct config *a, const struct config *b)
{
	return a->num_users == b->num_users &&
	       memcmp(a->user, b->user, a->num_users * sizeof(a->user[0])) == 0;
}

static bool
addr_same(const struct config_addr *a, const struct config_addr *b)
{
	return a->family == b->family && a->prefix == b->prefix &&
	       memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* What devices and their users have been made with.  Timeouts and retries are of connections to come. */
static bool
port_fixed_equal(const struct config_port *a, const struct config_port *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->device, b->device) == 0 &&
	       addr_same(&a->addr, &b->addr) && addr_same(&a->gateway, &b->gateway) && a->mtu == b->mtu &&
	       a->path_mtu == b->path_mtu && a->no_inline_esp == b->no_inline_esp;
}

static int
check_fixed(const struct config *config, const struct config *next, char *why, size_t why_len)
{
	char name[ONE_PORT_NAME + 8];

	for (const struct config_key *key = config_keys; key->name != NULL; key++)
		if (key->fixed && differs(config, next, key))
			return refuse_fixed(key->name, why, why_len);
	if (config->num_ports != next->num_ports)
		return refuse_fixed("the number of ports", why, why_len);
	for (uint32_t i = 0; i < config->num_ports; i++) {
		snprintf(name, sizeof(name), "port %s", config->port[i].name);
		if (!port_fixed_equal(&config->port[i], &next->port[i]))
			return refuse_fixed(name, why, why_len);
	}
	return 0;
}

static void
note(char *changed, size_t len, const char *name)
{
	size_t used = strlen(changed);

	snprintf(changed + used, len - used, "%s%s", used > 0 ? ", " : "", name);
}

static void
take_keys(struct config *config, const struct config *next, const struct config_key *keys, char *changed,
	  size_t len)
{
	for (const struct config_key *key = keys; key->name != NULL; key++) {
		if (!differs(config, next, key))
			continue;
		memcpy((char *)config + key->offset, (const char *)next + key->offset, key->size);
		note(changed, len, key->name);
	}
}

static void
take_ports(struct config *config, const struct config *next, char *changed, size_t len)
{
	for (uint32_t i = 0; i < config->num_ports; i++) {
		struct config_port *port = &config->port[i];
		char name[ONE_PORT_NAME + 16];

		snprintf(name, sizeof(name), "port %s: ack_timeout", port->name);
		if (port->ack_timeout != next->port[i].ack_timeout)
			note(changed, len, name);
		port->ack_timeout = next->port[i].ack_timeout;
		snprintf(name, sizeof(name), "port %s: rnr_retry", port->name);
		if (port->rnr_retry != next->port[i].rnr_retry)
			note(changed, len, name);
		port->rnr_retry = next->port[i].rnr_retry;
	}
}

int
config_take_over(struct config *config, const struct config *next, char *changed, size_t changed_len,
		 char *why, size_t why_len)
{
	int error = check_fixed(config, next, why, why_len);

	changed[0] = '\0';
	if (error != 0)
		return error;
	take_keys(config, next, config_keys, changed, changed_len);
	take_keys(config, next, config_limit_keys, changed, changed_len);
	take_ports(config, next, changed, changed_len);
	if (!peers_equal(config, next)) {
		note(changed, changed_len, "peers");
		hold_secrets(next);
		config_release(config);
		memcpy(config->peer, next->peer, sizeof(config->peer));
		config->num_peers = next->num_peers;
	}
	if (!config_ipsec_equal(config, next)) {
		note(changed, changed_len, "ipsec");
		memcpy(config->ipsec, next->ipsec, sizeof(config->ipsec));
		config->num_ipsec = next->num_ipsec;
	}
	if (!users_equal(config, next)) {
		note(changed, changed_len, "users");
		memcpy(config->user, next->user, sizeof(config->user));
		config->num_users = next->num_users;
	}
	return 0;
}

int
config_peer_remove(struct config *config, uint32_t node, char *why, size_t why_len)
{
	for (uint32_t i = 0; i < config->num_peers; i++) {
		if (config->peer[i].node != node)
			continue;
		drop_secrets(&config->peer[i]);
		memmove(&config->peer[i], &config->peer[i + 1],
			(config->num_peers - i - 1) * sizeof(config->peer[0]));
		config->num_peers--;
		return 0;
	}
	return config_refuse(why, why_len, -ENOENT,
			     "peer %u: there is no such peer; onesidectl show peers tells which there are",
			     node);
}
