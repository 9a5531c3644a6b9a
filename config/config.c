/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a configuration: every key of file and command line goes through config_set(), which checks the
 * value by itself; what spans several keys is checked in validate.c.
 */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_cfgfile.h>
#include <rte_log.h>

#include "config/internal.h"
#include "config/secret.h"

#define SIZE_ANY UINT64_MAX
#define SECRET_MIN 16u /* bytes of a peer's, which nobody shall find by trying */
#define SECRET_MAX 64u
#define FILE_SECTIONS_MAX (2 + CONFIG_PORTS_MAX + CONFIG_PEERS_MAX + CONFIG_IPSEC_MAX + CONFIG_USERS_MAX)

#define KEY(key, field, kind, min, max, fixed)                                                            \
	{                                                                                                 \
		key, kind, offsetof(struct config, field), sizeof(((struct config *)0)->field), min, max, \
			fixed                                                                             \
	}
#define DATAPLANE(key, field, kind, min, max) KEY(key, field, kind, min, max, false)
#define FIXED(key, field, kind, min, max) KEY(key, field, kind, min, max, true)

const struct config_key config_keys[] = {
	FIXED("node", node, KEY_NUMBER, 0, 63),
	FIXED("socket", socket, KEY_PATH, 0, 0),
	FIXED("socket_mode", socket_mode, KEY_MODE, 0, 0777),
	FIXED("ctl", ctl, KEY_PATH, 0, 0),
	DATAPLANE("ctl_group", ctl_group, KEY_GROUP, 0, 0),
	DATAPLANE("ctl_admin_group", ctl_admin_group, KEY_GROUP, 0, 0),
	FIXED("idle", idle, KEY_IDLE, 0, 0),
	DATAPLANE("keepalive_ms", keepalive_ms, KEY_NUMBER, 100, 3600000),
	FIXED("work_pool", work_pool, KEY_NUMBER, 1024, 1u << 24),
	FIXED("mbufs", mbufs, KEY_NUMBER, 1024, 1u << 22),
	DATAPLANE("process_memory", process_memory, KEY_SWITCH, 0, 0),
	FIXED("state", state, KEY_PATH, 0, 0),
	FIXED("metrics", metrics, KEY_LISTEN, 0, 0),
	DATAPLANE("log_level", log_level, KEY_LEVEL, 0, 0),
	{NULL, KEY_NUMBER, 0, 0, 0, 0, false},
};

#define OBJECTS_MAX 65535
#define QP_WR_MAX 65535u
_Static_assert(QP_WR_MAX *ONE_WQE_SLOTS_MAX <= 1u << ONE_RING_LOG2_MAX,
	       "so many requests of the most pieces have room in a ring");

const struct config_key config_limit_keys[] = {
	DATAPLANE("max_pz", limits.max_pz, KEY_NUMBER, 1, OBJECTS_MAX),
	DATAPLANE("max_cq", limits.max_cq, KEY_NUMBER, 2, OBJECTS_MAX),
	DATAPLANE("max_cq_entries", limits.max_cq_entries, KEY_NUMBER, 16,
		  (3u << (ONE_RING_LOG2_MAX - 2)) - 1),
	DATAPLANE("max_qp", limits.max_qp, KEY_NUMBER, 1, ONE_QPS_MAX),
	DATAPLANE("max_qp_wr", limits.max_qp_wr, KEY_NUMBER, 1, QP_WR_MAX),
	DATAPLANE("max_sge", limits.max_sge, KEY_NUMBER, 1, ONE_MAX_SGE),
	DATAPLANE("max_listen", limits.max_listen, KEY_NUMBER, 1, OBJECTS_MAX),
	DATAPLANE("max_mr", limits.max_mr, KEY_NUMBER, 1, OBJECTS_MAX),
	DATAPLANE("max_mw", limits.max_mw, KEY_NUMBER, 0, OBJECTS_MAX),
	DATAPLANE("max_srq", limits.max_srq, KEY_NUMBER, 0, OBJECTS_MAX),
	DATAPLANE("max_srq_wr", limits.max_srq_wr, KEY_NUMBER, 1, QP_WR_MAX),
	DATAPLANE("max_ah", limits.max_ah, KEY_NUMBER, 0, ONE_AHS_MAX),
	DATAPLANE("max_rd_atomic", limits.max_rd_atomic, KEY_NUMBER, 1, 16),
	DATAPLANE("max_private_data", limits.max_private_data, KEY_NUMBER, 0, 64),
	DATAPLANE("max_segments", limits.max_segments, KEY_NUMBER, 0, OBJECTS_MAX),
	DATAPLANE("max_mr_bytes", limits.max_mr_bytes, KEY_SIZE, 4096, SIZE_ANY),
	DATAPLANE("max_mr_total", limits.max_mr_total, KEY_SIZE, 4096, SIZE_ANY),
	DATAPLANE("max_message", limits.max_message, KEY_SIZE, 4096, ONE_MESSAGE_MAX),
	DATAPLANE("max_clients", max_clients, KEY_NUMBER, 1, 4096),
	DATAPLANE("max_clients_per_uid", max_clients_per_uid, KEY_NUMBER, 1, 4096),
	DATAPLANE("max_bytes_per_uid", max_bytes_per_uid, KEY_SIZE, 1u << 20, SIZE_ANY),
	{NULL, KEY_NUMBER, 0, 0, 0, 0, false},
};

#undef DATAPLANE
#undef FIXED
#undef KEY

int
config_refuse(char *why, size_t why_len, int error, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why, why_len, format, args);
	va_end(args);
	return error;
}

void
config_defaults(struct config *config)
{
	/* Registered memory stays where it is: leave a quarter for all else. */
	uint64_t bytes = config_memory("") / 4 * 3;

	*config = (struct config){
		.socket = ONE_SOCKET_DEFAULT,
		.socket_mode = 0666,
		.state = "/var/lib/oneside",
		.ctl_group = CONFIG_NO_GROUP,
		.ctl_admin_group = CONFIG_NO_GROUP,
		.idle = ONE_IDLE_SPIN,
		.limits =
			{
				.max_pz = 1024,
				.max_cq = 16384,
				.max_cq_entries = 32768,
				.max_qp = ONE_QPS_MAX,
				.max_qp_wr = 4096,
				.max_sge = ONE_MAX_SGE,
				.max_listen = 1024,
				.max_mr = 32768,
				.max_mw = 16384,
				.max_srq = 1024,
				.max_srq_wr = 4096,
				.max_ah = ONE_AHS_MAX,
				.max_rd_atomic = 16,
				.max_private_data = 64,
				.max_segments = 1024,
				.max_mr_bytes = bytes,
				.max_mr_total = bytes,
				.max_message = ONE_MESSAGE_MAX,
			},
		.max_clients = 256,
		.max_clients_per_uid = 128,
		.max_bytes_per_uid = bytes,
		.keepalive_ms = 2000,
		.work_pool = 65536,
		.mbufs = 8192,
		.process_memory = true,
	};
}

bool
config_name_ok(const char *name, size_t room)
{
	size_t len = strlen(name);
	if (len == 0 || len >= room)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)name[i]) && strchr("_.-", name[i]) == NULL)
			return false;
	}
	return true;
}

int
config_size(const char *text, uint64_t *value)
{
	char digits[32];
	size_t len = strlen(text);
	unsigned int shift = 0;

	if (len == 0 || len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, len + 1);
	switch (digits[len - 1]) {
	case 'T':
	case 't':
		shift += 10;
		__attribute__((fallthrough));
	case 'G':
	case 'g':
		shift += 10;
		__attribute__((fallthrough));
	case 'M':
	case 'm':
		shift += 10;
		__attribute__((fallthrough));
	case 'K':
	case 'k':
		shift += 10;
		digits[len - 1] = '\0';
	}
	int ret = config_number(digits, value);
	if (ret < 0)
		return ret;
	if (*value > UINT64_MAX >> shift)
		return -ERANGE;
	*value <<= shift;
	return 0;
}

struct place { /* where a value is, for messages */
	const char *section, *key, *value;
	char *why;
	size_t why_len;
};

#define REFUSE(place, error, format, ...)                                                              \
	config_refuse((place)->why, (place)->why_len, error, "%s: %s = %s: " format, (place)->section, \
		      (place)->key, (place)->value __VA_OPT__(, ) __VA_ARGS__)

static int
set_number(const struct place *at, const struct config_key *key, void *field)
{
	uint64_t value;
	bool size = key->kind == KEY_SIZE;
	int ret = size ? config_size(at->value, &value) : config_number(at->value, &value);

	if (ret == -EINVAL)
		return REFUSE(at, ret, "this is not a %s; write %s", size ? "size" : "number",
			      size ? "bytes as in 1048576, 512M or 8G" : "decimal digits only");
	if (ret < 0 || value < key->min || value > key->max) {
		if (key->max == SIZE_ANY)
			return REFUSE(at, -ERANGE, "out of range; write at least %llu",
				      (unsigned long long)key->min);
		return REFUSE(at, -ERANGE, "out of range; write a number from %llu to %llu",
			      (unsigned long long)key->min, (unsigned long long)key->max);
	}
	if (key->size == sizeof(uint32_t))
		*(uint32_t *)field = (uint32_t)value;
	else
		*(uint64_t *)field = value;
	return 0;
}

static int
set_mode(const struct place *at, mode_t *mode)
{
	char *end;
	errno = 0;
	unsigned long value = strtoul(at->value, &end, 8);
	if (errno != 0 || end == at->value || *end != '\0' || !isdigit((unsigned char)at->value[0]) ||
	    value > 0777 || (value & 0600) != 0600)
		return REFUSE(at, -EINVAL,
			      "this is not a mode its owner can use; write octal digits as in 0666 (everyone "
			      "may attach) or 0660 (owner and group)");
	*mode = (mode_t)value;
	return 0;
}

static int
set_switch(const struct place *at, bool *on)
{
	*on = strcmp(at->value, "yes") == 0;
	if (!*on && strcmp(at->value, "no") != 0)
		return REFUSE(at, -EINVAL, "this is not a switch; write yes or no");
	return 0;
}

static int
set_idle(const struct place *at, enum one_idle *idle)
{
	static const char *const names[] = {
		[ONE_IDLE_SPIN] = "spin", [ONE_IDLE_YIELD] = "yield", [ONE_IDLE_SLEEP] = "sleep"};
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(at->value, names[i]) == 0) {
			*idle = (enum one_idle)i;
			return 0;
		}
	}
	return REFUSE(at, -EINVAL, "no such way to idle; write spin, yield or sleep");
}

static int
set_path(const struct place *at, char path[CONFIG_PATH_MAX])
{
	size_t len = strlen(at->value);
	if (len == 0 || at->value[0] != '/')
		return REFUSE(at, -EINVAL, "this is not an absolute path; write one that begins with /");
	if (len >= CONFIG_PATH_MAX)
		return REFUSE(
			at, -ENAMETOOLONG,
			"%zu bytes are more than a Unix socket's name may have; choose a path of at most %u",
			len, CONFIG_PATH_MAX - 1);
	memcpy(path, at->value, len + 1);
	return 0;
}

/* Asks the system's databases, which may take its time: never on the control thread. */
static int
set_group(const struct place *at, gid_t *gid)
{
	struct group group, *found;
	char buffer[16384];
	uint64_t number;

	if (config_number(at->value, &number) == 0 && number < CONFIG_NO_GROUP) {
		*gid = (gid_t)number;
		return 0;
	}
	if (getgrnam_r(at->value, &group, buffer, sizeof(buffer), &found) != 0 || found == NULL)
		return REFUSE(
			at, -ENOENT,
			"there is no such group; make it (groupadd NAME), or write the name or number of one "
			"that there is");
	*gid = found->gr_gid;
	return 0;
}

static int
set_listen(const struct place *at, struct config_listen *listen)
{
	struct config_listen value;
	int error = config_listen_parse(at->value, &value);

	if (error == -ENAMETOOLONG)
		return REFUSE(at, error, "the path is longer than %u bytes; choose a shorter one",
			      CONFIG_PATH_MAX - 1);
	if (error < 0)
		return REFUSE(at, error,
			      "this is no place to listen; write as in unix:/run/oneside/metrics.sock, "
			      "127.0.0.1:9464 or [::1]:9464, or off");
	*listen = value;
	return 0;
}

uint32_t
config_log_level(const char *name)
{
	static const char *const names[] = {
		[RTE_LOG_EMERG] = "emergency", [RTE_LOG_ALERT] = "alert",     [RTE_LOG_CRIT] = "critical",
		[RTE_LOG_ERR] = "error",       [RTE_LOG_WARNING] = "warning", [RTE_LOG_NOTICE] = "notice",
		[RTE_LOG_INFO] = "info",       [RTE_LOG_DEBUG] = "debug",
	};

	for (uint32_t i = RTE_LOG_EMERG; i <= RTE_LOG_DEBUG; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return 0;
}

static int
set_level(const struct place *at, uint32_t *level)
{
	uint32_t value = config_log_level(at->value);

	if (value == 0)
		return REFUSE(at, -EINVAL, "there is no such level; write one of " CONFIG_LOG_LEVELS);
	*level = value;
	return 0;
}

static int
set_key(struct config *config, const struct config_key *keys, const struct place *at)
{
	for (const struct config_key *key = keys; key->name != NULL; key++) {
		if (strcmp(key->name, at->key) != 0)
			continue;
		void *field = (uint8_t *)config + key->offset;
		switch (key->kind) {
		case KEY_NUMBER:
		case KEY_SIZE:
			return set_number(at, key, field);
		case KEY_MODE:
			return set_mode(at, field);
		case KEY_IDLE:
			return set_idle(at, field);
		case KEY_SWITCH:
			return set_switch(at, field);
		case KEY_PATH:
			return set_path(at, field);
		case KEY_GROUP:
			return set_group(at, field);
		case KEY_LISTEN:
			return set_listen(at, field);
		case KEY_LEVEL:
			return set_level(at, field);
		}
	}
	char known[512];
	size_t len = 0;
	for (const struct config_key *key = keys; key->name != NULL && len < sizeof(known); key++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "", key->name);
	return REFUSE(at, -EINVAL, "there is no such key in [%s]; write one of %s", at->section, known);
}

static int
set_address(const struct place *at, struct config_addr *out, bool of_port)
{
	struct config_addr addr;
	bool has_prefix;
	int ret = config_addr_parse(at->value, &addr, &has_prefix);

	if (ret == -ERANGE)
		return REFUSE(at, ret, "the prefix is above %u; write as in %s",
			      addr.family == AF_INET ? 32u : 128u,
			      addr.family == AF_INET ? "192.0.2.1/24" : "2001:db8::1/64");
	if (ret < 0)
		return REFUSE(at, ret, "this is not an IPv4 or IPv6 address; write as in %s",
			      of_port ? "192.0.2.1/24 or 2001:db8::1/64" : "192.0.2.1 or 2001:db8::1");
	if (of_port && (!has_prefix || addr.prefix == 0))
		return REFUSE(at, -EINVAL, "the prefix of the link is missing; write as in %s",
			      addr.family == AF_INET ? "192.0.2.1/24" : "2001:db8::1/64");
	if (!of_port && has_prefix)
		return REFUSE(at, -EINVAL, "this is one host, not a network; write it without /%u",
			      addr.prefix);
	if (!config_addr_unicast(&addr))
		return REFUSE(at, -EINVAL,
			      "no host can have this address (unspecified, loopback, multicast or "
			      "broadcast); write a unicast address");
	*out = addr;
	return 0;
}

static int
set_mtu(const struct place *at, uint16_t *mtu)
{
	uint64_t value;
	if (config_number(at->value, &value) < 0 || (value != 0 && (value < 576 || value > 9216)))
		return REFUSE(at, -ERANGE,
			      "out of range; write the Ethernet payload in bytes, 576 to 9216, or 0 for what "
			      "the device has");
	*mtu = (uint16_t)value;
	return 0;
}

static int
set_path_mtu(const struct place *at, uint16_t *mtu)
{
	uint64_t value;
	if (config_number(at->value, &value) < 0 ||
	    (value != 0 && value != 256 && value != 512 && value != 1024 && value != 2048 && value != 4096))
		return REFUSE(at, -EINVAL,
			      "no such path MTU; write 256, 512, 1024, 2048 or 4096, or 0 for the largest "
			      "that the MTU carries");
	*mtu = (uint16_t)value;
	return 0;
}

static int
set_rnr_retry(const struct place *at, uint8_t *retries)
{
	uint64_t value;
	if (config_number(at->value, &value) < 0 || value > CONFIG_RNR_RETRY_ENDLESS)
		return REFUSE(at, -EINVAL, "not a number of retries; write 0 to 6, or 7 for no limit");
	*retries = (uint8_t)value;
	return 0;
}

static int
set_ack_timeout(const struct place *at, uint8_t *code)
{
	uint64_t value;
	if (config_number(at->value, &value) < 0 || value < CONFIG_ACK_TIMEOUT_MIN ||
	    value > CONFIG_ACK_TIMEOUT_MAX)
		return REFUSE(at, -EINVAL,
			      "not a timeout of 4.096 us x 2^n; write n, %u (67 ms) to %u (69 s)",
			      CONFIG_ACK_TIMEOUT_MIN, CONFIG_ACK_TIMEOUT_MAX);
	*code = (uint8_t)value;
	return 0;
}

static int
set_port(struct config *config, const char *name, const struct place *at)
{
	struct config_port *port = NULL;

	if (!config_name_ok(name, ONE_PORT_NAME))
		return config_refuse(
			at->why, at->why_len, -EINVAL,
			"port \"%s\": this cannot be a name; write 1 to %u letters, digits, '_', '.' or '-'",
			name, ONE_PORT_NAME - 1);
	for (uint32_t i = 0; i < config->num_ports; i++) {
		if (strcmp(config->port[i].name, name) == 0)
			port = &config->port[i];
	}
	bool added = port == NULL;
	if (added) {
		if (config->num_ports == CONFIG_PORTS_MAX)
			return config_refuse(at->why, at->why_len, -ENOSPC,
					     "port %s: this is more than %u ports; remove one", name,
					     CONFIG_PORTS_MAX);
		port = &config->port[config->num_ports++];
		memset(port, 0, sizeof(*port));
		strcpy(port->name, name);
		port->ack_timeout = CONFIG_ACK_TIMEOUT;
		port->rnr_retry = CONFIG_RNR_RETRY_ENDLESS;
	}

	int ret;
	if (strcmp(at->key, "device") == 0) {
		ret = 0;
		if (strlen(at->value) >= sizeof(port->device))
			ret = REFUSE(
				at, -ENAMETOOLONG,
				"the name is longer than DPDK's; write as in net_memif0 or 0000:01:00.0");
		else
			strcpy(port->device, at->value);
	} else if (strcmp(at->key, "address") == 0) {
		ret = set_address(at, &port->addr, true);
	} else if (strcmp(at->key, "gateway") == 0) {
		ret = set_address(at, &port->gateway, false);
	} else if (strcmp(at->key, "mtu") == 0) {
		ret = set_mtu(at, &port->mtu);
	} else if (strcmp(at->key, "path_mtu") == 0) {
		ret = set_path_mtu(at, &port->path_mtu);
	} else if (strcmp(at->key, "ack_timeout") == 0) {
		ret = set_ack_timeout(at, &port->ack_timeout);
	} else if (strcmp(at->key, "rnr_retry") == 0) {
		ret = set_rnr_retry(at, &port->rnr_retry);
	} else if (strcmp(at->key, "inline_esp") == 0) {
		bool on = true;

		ret = set_switch(at, &on);
		port->no_inline_esp = !on;
	} else {
		ret = REFUSE(at, -EINVAL,
			     "there is no such key for a port; write one of device, address, gateway, mtu, "
			     "path_mtu, ack_timeout, rnr_retry, inline_esp");
	}
	if (ret < 0 && added)
		config->num_ports--;
	return ret;
}

static int
set_secret(const struct place *at, struct config_secret **secret)
{
	struct config_secret *read;
	char fault[512];
	int error = config_secret_read(at->value, CONFIG_SECRET_HEX, SECRET_MIN, SECRET_MAX, &read, fault,
				       sizeof(fault));

	if (error != 0)
		return config_refuse(at->why, at->why_len, error, "%s: %s: %s", at->section, at->key, fault);
	config_secret_drop(*secret);
	*secret = read;
	return 0;
}

static int
set_peer(struct config *config, const char *name, const struct place *at)
{
	struct config_peer *peer = NULL;
	uint64_t node;

	if (config_number(name, &node) < 0 || node < 1 || node > 63)
		return config_refuse(at->why, at->why_len, -EINVAL,
				     "peer %s: this is not a node; write the peer's RSM node id, 1 to 63",
				     name);
	for (uint32_t i = 0; i < config->num_peers; i++) {
		if (config->peer[i].node == node)
			peer = &config->peer[i];
	}
	bool added = peer == NULL;
	if (added) {
		/* At most 63 different nodes: there is always room. */
		peer = &config->peer[config->num_peers++];
		memset(peer, 0, sizeof(*peer));
		peer->node = (uint32_t)node;
	}

	int ret;
	if (strcmp(at->key, "address") == 0) {
		ret = set_address(at, &peer->addr, false);
	} else if (strcmp(at->key, "port") == 0) {
		ret = 0;
		if (!config_name_ok(at->value, sizeof(peer->port)))
			ret = REFUSE(at, -EINVAL,
				     "this cannot be a port's name; write the NAME of a [port NAME]");
		else
			strcpy(peer->port, at->value);
	} else if (strcmp(at->key, "secret_file") == 0) {
		ret = set_secret(at, &peer->secret[0]);
	} else if (strcmp(at->key, "old_secret_file") == 0) {
		ret = set_secret(at, &peer->secret[1]);
	} else {
		ret = REFUSE(at, -EINVAL,
			     "there is no such key for a peer; write one of address, port, secret_file, "
			     "old_secret_file");
	}
	if (ret < 0 && added)
		config->num_peers--;
	return ret;
}

/* "secret-file" is secret_file, as it is among the options. */
static void
underscore(char *name)
{
	for (; *name != '\0'; name++)
		if (*name == '-')
			*name = '_';
}

int
config_set(struct config *config, const char *section, const char *key, const char *value, char *why,
	   size_t why_len)
{
	char name[CFG_NAME_LEN];
	struct place at = {.section = section, .key = name, .value = value, .why = why, .why_len = why_len};

	snprintf(name, sizeof(name), "%s", key);
	underscore(name);
	if (strcmp(section, "dataplane") == 0)
		return set_key(config, config_keys, &at);
	if (strcmp(section, "limits") == 0)
		return set_key(config, config_limit_keys, &at);
	if (strncmp(section, "port ", 5) == 0)
		return set_port(config, section + 5, &at);
	if (strncmp(section, "peer ", 5) == 0)
		return set_peer(config, section + 5, &at);
	if (strncmp(section, "ipsec ", 6) == 0)
		return config_ipsec_set(config, section + 6, key, value, why, why_len);
	if (strncmp(section, "user ", 5) == 0)
		return config_user_set(config, section + 5, key, value, why, why_len);
	return config_refuse(why, why_len, -EINVAL,
			     "section [%s]: there is no such section; write [dataplane], [port NAME], [peer "
			     "NODE], [ipsec NAME], [user NAME] or [limits]",
			     section);
}

/* One section of a file, by index: names may repeat, and that is an error of its own. */
static int
read_section(struct config *config, struct rte_cfgfile *file, int index, const char *name, char *why,
	     size_t why_len)
{
	char section[CFG_NAME_LEN];
	int entries = rte_cfgfile_section_num_entries_by_index(file, section, index);
	struct rte_cfgfile_entry *entry = calloc((size_t)(entries > 0 ? entries : 1), sizeof(*entry));
	int ret = 0;

	if (entry == NULL)
		return config_refuse(why, why_len, -ENOMEM, "[%s]: out of memory", name);
	entries = rte_cfgfile_section_entries_by_index(file, index, section, entry, entries);
	for (int i = 0; i < entries && ret == 0; i++) {
		underscore(entry[i].name);
		for (int j = 0; j < i && ret == 0; j++) {
			if (strcmp(entry[i].name, entry[j].name) == 0)
				ret = config_refuse(why, why_len, -EEXIST,
						    "%s: %s is given twice; keep one of the lines", name,
						    entry[i].name);
		}
		if (ret == 0)
			ret = config_set(config, name, entry[i].name, entry[i].value, why, why_len);
	}
	if (entries <= 0 && strncmp(name, "user ", 5) == 0)
		ret = config_refuse(why, why_len, -EINVAL,
				    "[%s]: the section is empty; give it a weight or a ceiling", name);
	if (entries <= 0 && (strncmp(name, "port ", 5) == 0 || strncmp(name, "peer ", 5) == 0 ||
			     strncmp(name, "ipsec ", 6) == 0))
		ret = config_refuse(why, why_len, -EINVAL, "[%s]: the section is empty; give it an address",
				    name);
	free(entry);
	return ret;
}

/* Sections of one user or node are one, however it is written; 0: there is no other way to write it. */
static uint64_t
find_identity(const char *section)
{
	uint64_t node;
	uid_t uid;

	if (strncmp(section, "peer ", 5) == 0 && config_number(section + 5, &node) == 0 && node <= UINT32_MAX)
		return UINT64_C(1) << 32 | node;
	if (strncmp(section, "user ", 5) == 0 && config_user_find(section + 5, &uid) == 0)
		return UINT64_C(2) << 32 | uid;
	return 0;
}

/* Neither of two of the same. */
static int
check_other(const char *section, uint64_t identity, const char *other, uint64_t others, char *why,
	    size_t why_len)
{
	if (strcmp(section, other) == 0)
		return config_refuse(why, why_len, -EEXIST, "[%s] is there twice; join the two", section);
	if (identity != 0 && identity == others)
		return config_refuse(why, why_len, -EEXIST, "[%s] and [%s] are the same %.4s; join the two",
				     other, section, section);
	return 0;
}

int
config_read(struct config *config, const char *path, char *why, size_t why_len)
{
	struct rte_cfgfile_parameters params = {.comment_character = '#'};
	char why_section[512];
	char *names[FILE_SECTIONS_MAX];
	char text[FILE_SECTIONS_MAX][CFG_NAME_LEN];
	uint64_t identity[FILE_SECTIONS_MAX];

	int ret = config_lines_check(path, why, why_len);
	if (ret < 0)
		return ret;
	struct rte_cfgfile *file = rte_cfgfile_load_with_params(path, CFG_FLAG_EMPTY_VALUES, &params);
	if (file == NULL)
		return config_refuse(why, why_len, -EINVAL,
				     "file %s: it cannot be understood; write [section] lines, \"key = "
				     "value\" lines and # comments, each of at most 255 bytes",
				     path);

	int sections = rte_cfgfile_num_sections(file, NULL, 0);
	if (sections > (int)FILE_SECTIONS_MAX)
		ret = config_refuse(why, why_len, -ENOSPC,
				    "file %s: %d sections are more than %u; remove some", path, sections,
				    FILE_SECTIONS_MAX);
	for (unsigned int i = 0; i < FILE_SECTIONS_MAX; i++)
		names[i] = text[i];
	if (ret == 0)
		sections = rte_cfgfile_sections(file, names, FILE_SECTIONS_MAX);
	for (int i = 0; i < sections && ret == 0; i++) {
		identity[i] = find_identity(text[i]);
		for (int j = 0; j < i && ret == 0; j++)
			ret = check_other(text[i], identity[i], text[j], identity[j], why_section,
					  sizeof(why_section));
		if (ret == 0)
			ret = read_section(config, file, i, text[i], why_section, sizeof(why_section));
		if (ret < 0)
			config_refuse(why, why_len, ret, "file %s: %s", path, why_section);
	}
	rte_cfgfile_close(file);
	return ret;
}
