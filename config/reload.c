/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes over changes of a reloaded configuration; location of the control socket. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/ctl_path.h"
#include "config/internal.h"
#include "config/secret.h"

#define VALUE_ROOM 256u /* a key's value as text */

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

static int
refuse_fixed(const char *change, char *why, size_t why_len)
{
	return config_refuse(
		why, why_len, -EBUSY,
		"%s: it cannot change while the data plane runs, and nothing has been changed; undo that, or end the data plane and start it anew",
		change);
}

/* `a` and `b`: the object or configuration in force, and the next one. */
static int
refuse_key_change(const char *whose, const struct config_key *key, const void *a, const void *b, char *why,
		  size_t why_len)
{
	char change[2 * VALUE_ROOM + 128], old[VALUE_ROOM], new[VALUE_ROOM];

	config_key_text(key, a, old, sizeof(old));
	config_key_text(key, b, new, sizeof(new));
	snprintf(change, sizeof(change), "%s%s = %s, which was %s", whose, key->name, new, old);
	return refuse_fixed(change, why, why_len);
}

static const char *
object_in(const struct config *config, const struct config_section *section, uint32_t i)
{
	return (const char *)config + section->list + i * section->size;
}

static bool
has_other_name(const struct config *config, const struct config *next, const struct config_section *section,
	       uint32_t i)
{
	return memcmp(object_in(config, section, i), object_in(next, section, i), section->id_len) != 0;
}

static bool
object_differs(const struct config *config, const struct config *next, const struct config_section *section,
	       uint32_t i)
{
	const char *a = object_in(config, section, i), *b = object_in(next, section, i);

	for (const struct config_key *key = section->keys; key->name != NULL; key++)
		if (config_key_differs(key, a, b))
			return true;
	return has_other_name(config, next, section, i);
}

static bool
list_differs(const struct config *config, const struct config *next, const struct config_section *section)
{
	if (*config_num_of(config, section) != *config_num_of(next, section))
		return true;
	for (uint32_t i = 0; i < *config_num_of(config, section); i++)
		if (object_differs(config, next, section, i))
			return true;
	return false;
}

static int
check_fixed_keys(const char *whose, const struct config_key *keys, const void *a, const void *b, char *why,
		 size_t why_len)
{
	for (const struct config_key *key = keys; key->name != NULL; key++)
		if (key->fixed && config_key_differs(key, a, b))
			return refuse_key_change(whose, key, a, b, why, why_len);
	return 0;
}

static int
check_fixed_port(const struct config *config, const struct config *next, uint32_t i, char *why,
		 size_t why_len)
{
	const struct config_section *ports = &config_sections[CONFIG_PORT];
	char whose[2 * ONE_PORT_NAME + 32];

	if (has_other_name(config, next, ports, i)) {
		snprintf(whose, sizeof(whose), "port %s, which was %s", next->port[i].name,
			 config->port[i].name);
		return refuse_fixed(whose, why, why_len);
	}
	snprintf(whose, sizeof(whose), "port %s: ", config->port[i].name);
	return check_fixed_keys(whose, ports->keys, &config->port[i], &next->port[i], why, why_len);
}

static int
check_fixed(const struct config *config, const struct config *next, char *why, size_t why_len)
{
	int error = check_fixed_keys("", config_sections[CONFIG_DATAPLANE].keys, config, next, why, why_len);
	char change[64];

	if (error == 0 && config->num_ports != next->num_ports) {
		snprintf(change, sizeof(change), "%u ports, which were %u", next->num_ports,
			 config->num_ports);
		return refuse_fixed(change, why, why_len);
	}
	for (uint32_t i = 0; i < config->num_ports && error == 0; i++)
		error = check_fixed_port(config, next, i, why, why_len);
	return error;
}

static void
note_change(char *changed, size_t len, const char *name)
{
	size_t used = strlen(changed);

	snprintf(changed + used, len - used, "%s%s", used > 0 ? ", " : "", name);
}

/* Copies changed keys between two objects or configurations, and notes their names. */
static void
take_keys(void *object, const void *next, const struct config_key *keys, const char *whose, char *changed,
	  size_t len)
{
	char name[ONE_PORT_NAME + 32];

	for (const struct config_key *key = keys; key->name != NULL; key++) {
		if (!config_key_differs(key, object, next))
			continue;
		memcpy((char *)object + key->offset, (const char *)next + key->offset, key->size);
		snprintf(name, sizeof(name), "%s%s", whose, key->name);
		note_change(changed, len, name);
	}
}

static void
take_ports(struct config *config, const struct config *next, char *changed, size_t len)
{
	char whose[ONE_PORT_NAME + 8];

	for (uint32_t i = 0; i < config->num_ports; i++) {
		snprintf(whose, sizeof(whose), "port %s: ", config->port[i].name);
		take_keys(&config->port[i], &next->port[i], config_sections[CONFIG_PORT].keys, whose, changed,
			  len);
	}
}

static void
take_list(struct config *config, const struct config *next, const struct config_section *section,
	  const char *name, char *changed, size_t len)
{
	if (!list_differs(config, next, section))
		return;
	note_change(changed, len, name);
	if (section == &config_sections[CONFIG_PEER]) {
		hold_secrets(next);
		config_release(config);
	}
	memcpy((char *)config + section->list, (const char *)next + section->list,
	       section->max * section->size);
	memcpy((char *)config + section->num, (const char *)next + section->num, sizeof(uint32_t));
}

int
config_reload(struct config *config, const struct config *next, char *changed, size_t changed_len, char *why,
	      size_t why_len)
{
	int error = check_fixed(config, next, why, why_len);

	changed[0] = '\0';
	if (error != 0)
		return error;
	take_keys(config, next, config_sections[CONFIG_DATAPLANE].keys, "", changed, changed_len);
	take_keys(config, next, config_sections[CONFIG_LIMITS].keys, "", changed, changed_len);
	take_ports(config, next, changed, changed_len);
	take_list(config, next, &config_sections[CONFIG_PEER], "peers", changed, changed_len);
	take_list(config, next, &config_sections[CONFIG_IPSEC], "ipsec", changed, changed_len);
	take_list(config, next, &config_sections[CONFIG_USER], "users", changed, changed_len);
	return 0;
}

int
config_peer_add(struct config *config, uint32_t node, const char *address, const char *port, char *why,
		size_t why_len)
{
	char section[32];
	int error;

	for (uint32_t i = 0; i < config->num_peers; i++)
		if (config->peer[i].node == node)
			return config_refuse(why, why_len, -EEXIST,
					     "peer %u: there is one already; remove it first", node);
	snprintf(section, sizeof(section), "peer %u", node);
	error = config_set(config, section, "address", address, why, why_len);
	if (error == 0 && port[0] != '\0')
		error = config_set(config, section, "port", port, why, why_len);
	if (error == 0)
		config->peer[config->num_peers - 1].added = true;
	return error;
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
			     "peer %u: there is no such peer; onesidectl show peers lists them", node);
}
