/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of a configuration, and their valid values. Every key of file and command line goes through
 * config_set(), which checks a single value; validate.c checks what spans several keys. */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rte_log.h>

#include "config/internal.h"
#include "config/secret.h"

#define SIZE_ANY UINT64_MAX
#define SECRET_MIN 16u /* bytes of a peer's secret; fewer could be guessed */
#define SECRET_MAX 64u
#define SPI_LEAST 256u /* IANA reserves lower ones (RFC 4303) */
#define DATABASE_ROOM 16384
#define DSCP_HELP "this is no DSCP; write a number from 0 to 63, as 26 for AF31 or 46 for EF"
#define FLOW_LABEL_HELP "this is no flow label; write a number from 0 to 1048575"

void
config_defaults(struct config *config)
{
	/* Registered memory is not swapped: leave a quarter for all else. */
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
				.max_pz = 16384,
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
				.max_channels = 32768,
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

/* ---- values ---- */

#define REFUSE REFUSE_VALUE

static bool
is_name(const char *name, size_t room)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return len > 0 && len < room && name[len] == '\0';
}

/* The caller has checked the length. */
static int
put_text(char *to, size_t room, const char *from)
{
	memset(to, 0, room);
	strcpy(to, from);
	return 0;
}

/* Parses a size such as "512M". */
static int
parse_size(const char *text, uint64_t *value)
{
	static const char units[] = "KMGT";
	char digits[32];
	size_t len = strlen(text);
	const char *unit;
	unsigned int shift = 0;
	int error;

	if (len == 0 || len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, len + 1);
	unit = strchr(units, toupper((unsigned char)digits[len - 1]));
	if (unit != NULL) {
		shift = 10 * (unsigned int)(unit - units + 1);
		digits[len - 1] = '\0';
	}
	error = config_number(digits, value);
	if (error == 0 && *value > UINT64_MAX >> shift)
		error = -ERANGE;
	*value <<= error == 0 ? shift : 0;
	return error;
}

static void
store_number(const struct config_key *key, uint64_t number, void *field)
{
	switch (key->size) {
	case sizeof(uint8_t):
		*(uint8_t *)field = (uint8_t)number;
		break;
	case sizeof(uint16_t):
		*(uint16_t *)field = (uint16_t)number;
		break;
	case sizeof(uint32_t):
		*(uint32_t *)field = (uint32_t)number;
		break;
	default:
		*(uint64_t *)field = number;
	}
}

static int
put_number(const struct config_value *value, const struct config_key *key, int error, uint64_t number,
	   void *field)
{
	if (error == 0 && (number < key->min || number > key->max) && !(key->or_zero && number == 0))
		error = -ERANGE;
	if (error != 0 && key->help != NULL)
		return REFUSE(value, error, "%s", key->help);
	if (error != 0 && key->max == SIZE_ANY)
		return REFUSE(value, error, "out of range; write at least %llu",
			      (unsigned long long)key->min);
	if (error != 0)
		return REFUSE(value, error, "out of range; write a number from %llu to %llu",
			      (unsigned long long)key->min, (unsigned long long)key->max);
	store_number(key, number, field);
	return 0;
}

static int
set_number(const struct config_value *value, const struct config_key *key, void *field)
{
	uint64_t number = 0;
	int error = config_number(value->text, &number);

	if (error == -EINVAL && key->help == NULL)
		return REFUSE(value, error, "this is not a number; write decimal digits only");
	return put_number(value, key, error, number, field);
}

static int
set_size(const struct config_value *value, const struct config_key *key, void *field)
{
	uint64_t number = 0;
	int error = parse_size(value->text, &number);

	if (error == -EINVAL && key->help == NULL)
		return REFUSE(value, error, "this is not a size; write bytes as in 1048576, 512M or 8G");
	return put_number(value, key, error, number, field);
}

static int
set_path_mtu(const struct config_value *value, const struct config_key *key, void *field)
{
	uint64_t number;

	if (config_number(value->text, &number) == 0 && (number & (number - 1)) != 0 && number != 0)
		return REFUSE(value, -EINVAL, "%s", key->help);
	return set_number(value, key, field);
}

static int
set_mode(const struct config_value *value, const struct config_key *key, void *field)
{
	char *end;
	unsigned long mode;

	errno = 0;
	mode = strtoul(value->text, &end, 8);
	if (errno != 0 || end == value->text || *end != '\0' || !isdigit((unsigned char)value->text[0]) ||
	    mode > 0777 || (mode & 0600) != 0600)
		return REFUSE(
			value, -EINVAL,
			"this is not a mode its owner can use; write octal digits as in 0666 (everyone may attach) or 0660 (owner and group)");
	*(mode_t *)field = (mode_t)mode;
	return 0;
}

/* Index of `text` in a list that NULL ends, or -1. */
static int
place_of(const char *text, const char *const *list)
{
	for (int i = 0; list[i] != NULL; i++)
		if (strcmp(list[i], text) == 0)
			return i;
	return -1;
}

static int
set_word(const struct config_value *value, const struct config_key *key, void *field)
{
	int place = place_of(value->text, key->words);

	if (place < 0)
		return REFUSE(value, -EINVAL, "%s", key->help);
	store_number(key, (uint64_t)place, field);
	return 0;
}

uint32_t
config_log_level(const char *name)
{
	static const char *const names[] = {"emergency", "alert", "critical", "error", "warning",
					    "notice",    "info",  "debug",    NULL};

	return (uint32_t)(place_of(name, names) + RTE_LOG_EMERG);
}

static int
set_level(const struct config_value *value, const struct config_key *key, void *field)
{
	uint32_t level = config_log_level(value->text);

	if (level == 0)
		return REFUSE(value, -EINVAL, "there is no such level; write one of " CONFIG_LOG_LEVELS);
	*(uint32_t *)field = level;
	return 0;
}

static int
set_path(const struct config_value *value, const struct config_key *key, void *field)
{
	if (value->text[0] != '/')
		return REFUSE(value, -EINVAL, "this is not an absolute path; write one that begins with /");
	if (strlen(value->text) >= key->size)
		return REFUSE(
			value, -ENAMETOOLONG,
			"%zu bytes are more than a Unix socket's name may have; choose a path of at most %zu",
			strlen(value->text), key->size - 1);
	return put_text(field, key->size, value->text);
}

static int
set_device(const struct config_value *value, const struct config_key *key, void *field)
{
	if (strlen(value->text) >= key->size)
		return REFUSE(value, -ENAMETOOLONG,
			      "the name is longer than DPDK's; write as in net_memif0 or 0000:01:00.0");
	return put_text(field, key->size, value->text);
}

static int
set_port_name(const struct config_value *value, const struct config_key *key, void *field)
{
	if (!is_name(value->text, key->size))
		return REFUSE(value, -EINVAL,
			      "this cannot be a port's name; write the NAME of a [port NAME]");
	return put_text(field, key->size, value->text);
}

/* Queries the system's databases, which may block: never call on the control thread. */
static int
set_group(const struct config_value *value, const struct config_key *key, void *field)
{
	struct group group, *found;
	char buffer[DATABASE_ROOM];
	uint64_t number;

	if (config_number(value->text, &number) == 0 && number < CONFIG_NO_GROUP) {
		*(gid_t *)field = (gid_t)number;
		return 0;
	}
	if (getgrnam_r(value->text, &group, buffer, sizeof(buffer), &found) != 0 || found == NULL)
		return REFUSE(
			value, -ENOENT,
			"there is no such group; make it (groupadd NAME), or write the name or number of one that there is");
	*(gid_t *)field = found->gr_gid;
	return 0;
}

static int
set_listen(const struct config_value *value, const struct config_key *key, void *field)
{
	struct config_listen listen;
	int error = config_listen_parse(value->text, &listen);

	if (error == -ENAMETOOLONG)
		return REFUSE(value, error, "the path is longer than %u bytes; choose a shorter one",
			      CONFIG_PATH_MAX - 1);
	if (error < 0)
		return REFUSE(
			value, error,
			"this is no place to listen; write as in unix:/run/oneside/metrics.sock, 127.0.0.1:9464 or [::1]:9464, or off");
	memcpy(field, &listen, sizeof(listen));
	return 0;
}

static int
set_secret(const struct config_value *value, const struct config_key *key, void *field)
{
	struct config_secret **secret = field, *read;
	char fault[512];
	int error = config_secret_read(value->text, CONFIG_SECRET_HEX, SECRET_MIN, SECRET_MAX, &read, fault,
				       sizeof(fault));

	if (error != 0)
		return config_refuse(value->why, value->why_len, error, "%s: %s: %s", value->section,
				     value->key, fault);
	config_secret_drop(*secret);
	*secret = read;
	return 0;
}

/* Parses "SPI:FILE", with a decimal or hexadecimal SPI. */
static int
set_sa(const struct config_value *value, const struct config_key *key, void *field)
{
	const char *colon = strchr(value->text, ':');
	struct config_sa *sa = field;
	unsigned long long spi;
	char *end;

	errno = 0;
	spi = strtoull(value->text, &end, 0);
	if (colon == NULL || end != colon || !isdigit((unsigned char)value->text[0]) || errno != 0 ||
	    spi < SPI_LEAST || spi > UINT32_MAX)
		return REFUSE(
			value, -EINVAL,
			"this is not SPI:FILE; write an SPI of 256 to 4294967295 and the file of its key, as in 0x1001:/etc/oneside/to-b.key");
	if (colon[1] != '/')
		return REFUSE(value, -EINVAL,
			      "the file's path is not absolute; write one that begins with /");
	if (strlen(colon + 1) >= sizeof(sa->file))
		return REFUSE(value, -ENAMETOOLONG,
			      "the file's path is longer than %zu bytes; choose a shorter one",
			      sizeof(sa->file) - 1);
	sa->spi = (uint32_t)spi;
	return put_text(sa->file, sizeof(sa->file), colon + 1);
}

/* ---- keys ---- */

#define KEY(key, type, field, setter)                                       \
	.name = key, .set = setter, .offset = offsetof(struct type, field), \
	.size = sizeof(((struct type *)0)->field)

static const char *const idles[] = {
	[ONE_IDLE_SPIN] = "spin", [ONE_IDLE_YIELD] = "yield", [ONE_IDLE_SLEEP] = "sleep", NULL};
static const char *const switches[] = {"no", "yes", NULL};
static const char *const placements[] = {[CONFIG_PLACEMENT_AUTO] = "auto",
					 [CONFIG_PLACEMENT_FIXED] = "fixed",
					 [CONFIG_PLACEMENT_ONE] = "one",
					 [CONFIG_PLACEMENT_NEXT] = "next",
					 NULL};
static const char *const policies[] = {"encrypt", "plain", NULL};
#define SWITCH_HELP "this is not a switch; write yes or no"
_Static_assert(sizeof(bool) == sizeof(uint8_t), "stored as such");

static const struct config_key dataplane_keys[] = {
	{KEY("node", config, node, set_number), .max = 63, .fixed = true},
	{KEY("socket", config, socket, set_path), .fixed = true},
	{KEY("socket_mode", config, socket_mode, set_mode), .fixed = true},
	{KEY("ctl", config, ctl, set_path), .fixed = true},
	{KEY("ctl_group", config, ctl_group, set_group)},
	{KEY("ctl_admin_group", config, ctl_admin_group, set_group)},
	{KEY("idle", config, idle, set_word), .words = idles, .fixed = true,
	 .help = "no such way to idle; write spin, yield or sleep"},
	{KEY("keepalive_ms", config, keepalive_ms, set_number), .min = 100, .max = 3600000},
	{KEY("work_pool", config, work_pool, set_number), .min = 1024, .max = 1u << 24, .fixed = true},
	{KEY("mbufs", config, mbufs, set_number), .min = 1024, .max = 1u << 22, .fixed = true},
	{KEY("placement", config, placement, set_word), .words = placements,
	 .help = "no such placement of queue pairs; write auto, fixed, one or next"},
	{KEY("process_memory", config, process_memory, set_word), .words = switches, .help = SWITCH_HELP},
	{KEY("state", config, state, set_path), .fixed = true},
	{KEY("metrics", config, metrics, set_listen), .fixed = true},
	{KEY("log_level", config, log_level, set_level)},
	{.name = NULL},
};

#define OBJECTS_MAX 65535
#define QP_WR_MAX 65535u
_Static_assert(QP_WR_MAX *ONE_WQE_SLOTS_MAX <= 1u << ONE_RING_LOG2_MAX,
	       "so many requests of the most pieces have room in a ring");

static const struct config_key limit_keys[] = {
	{KEY("max_pz", config, limits.max_pz, set_number), .min = 1, .max = OBJECTS_MAX},
	{KEY("max_cq", config, limits.max_cq, set_number), .min = 2, .max = OBJECTS_MAX},
	{KEY("max_cq_entries", config, limits.max_cq_entries, set_number), .min = 16,
	 .max = (3u << (ONE_RING_LOG2_MAX - 2)) - 1},
	{KEY("max_qp", config, limits.max_qp, set_number), .min = 1, .max = ONE_QPS_MAX},
	{KEY("max_qp_wr", config, limits.max_qp_wr, set_number), .min = 1, .max = QP_WR_MAX},
	{KEY("max_sge", config, limits.max_sge, set_number), .min = 1, .max = ONE_MAX_SGE},
	{KEY("max_listen", config, limits.max_listen, set_number), .min = 1, .max = OBJECTS_MAX},
	{KEY("max_mr", config, limits.max_mr, set_number), .min = 1, .max = OBJECTS_MAX},
	{KEY("max_mw", config, limits.max_mw, set_number), .max = OBJECTS_MAX},
	{KEY("max_srq", config, limits.max_srq, set_number), .max = OBJECTS_MAX},
	{KEY("max_srq_wr", config, limits.max_srq_wr, set_number), .min = 1, .max = QP_WR_MAX},
	{KEY("max_ah", config, limits.max_ah, set_number), .max = ONE_AHS_MAX},
	{KEY("max_channels", config, limits.max_channels, set_number), .min = 2, .max = OBJECTS_MAX},
	{KEY("max_rd_atomic", config, limits.max_rd_atomic, set_number), .min = 1, .max = 16},
	{KEY("max_private_data", config, limits.max_private_data, set_number), .max = 64},
	{KEY("max_segments", config, limits.max_segments, set_number), .max = OBJECTS_MAX},
	{KEY("max_mr_bytes", config, limits.max_mr_bytes, set_size), .min = 4096, .max = SIZE_ANY},
	{KEY("max_mr_total", config, limits.max_mr_total, set_size), .min = 4096, .max = SIZE_ANY},
	{KEY("max_message", config, limits.max_message, set_size), .min = 4096, .max = ONE_MESSAGE_MAX},
	{KEY("max_clients", config, max_clients, set_number), .min = 1, .max = 4096},
	{KEY("max_clients_per_uid", config, max_clients_per_uid, set_number), .min = 1, .max = 4096},
	{KEY("max_bytes_per_uid", config, max_bytes_per_uid, set_size), .min = 1u << 20, .max = SIZE_ANY},
	{.name = NULL},
};

/* Keys used to create devices and their users are fixed; timeouts and retries apply to new connections. */
#define MARKS_KEYS(type)                                                                       \
	{KEY("dscp", type, marks.dscp, set_number), .max = 63, .help = DSCP_HELP},             \
	{                                                                                      \
		KEY("flow_label", type, marks.flow_label, set_number), .max = 0xfffff,         \
								       .help = FLOW_LABEL_HELP \
	}

static const struct config_key port_keys[] = {
	{KEY("device", config_port, device, set_device), .fixed = true},
	{KEY("address", config_port, addr, config_set_addresses), .of_port = true, .fixed = true},
	{KEY("gateway", config_port, gateway, config_set_addresses), .fixed = true},
	{KEY("route", config_port, route, config_set_routes), .fixed = true},
	MARKS_KEYS(config_port),
	{KEY("mtu", config_port, mtu, set_number), .min = 576, .max = 9216, .or_zero = true, .fixed = true,
	 .help = "out of range; write the Ethernet payload in bytes, 576 to 9216, or 0 for what the device has"},
	{KEY("path_mtu", config_port, path_mtu, set_path_mtu), .min = 256, .max = 4096, .or_zero = true,
	 .fixed = true,
	 .help = "no such path MTU; write 256, 512, 1024, 2048 or 4096, or 0 for the largest that the MTU carries"},
	{KEY("ack_timeout", config_port, ack_timeout, set_number), .min = CONFIG_ACK_TIMEOUT_MIN,
	 .max = CONFIG_ACK_TIMEOUT_MAX,
	 .help = "not a timeout of 4.096 us x 2^n; write n, 14 (67 ms) to 24 (69 s)"},
	{KEY("rnr_retry", config_port, rnr_retry, set_number), .max = CONFIG_RNR_RETRY_ENDLESS,
	 .help = "not a number of retries; write 0 to 6, or 7 for no limit"},
	{.name = NULL},
};

static const struct config_key peer_keys[] = {
	{KEY("address", config_peer, addr, config_set_address)},
	{KEY("port", config_peer, port, set_port_name)},
	MARKS_KEYS(config_peer),
	{KEY("secret_file", config_peer, secret[0], set_secret)},
	{KEY("old_secret_file", config_peer, secret[1], set_secret)},
	{.name = NULL},
};

#define LIMIT_HELP "this is not a limit; write a number as in 1048576, 512M or 64G, or 0 for none"

static const struct config_key ipsec_keys[] = {
	{KEY("address", config_ipsec, addr, config_set_address)},
	{KEY("port", config_ipsec, port, set_port_name)},
	{KEY("policy", config_ipsec, plain, set_word), .words = policies,
	 .help = "no such policy; write encrypt or plain"},
	{KEY("out", config_ipsec, out, set_sa)},
	{KEY("in", config_ipsec, in, set_sa)},
	{KEY("in_next", config_ipsec, in_next, set_sa)},
	{KEY("soft_packets", config_ipsec, soft_packets, set_size), .max = SIZE_ANY, .help = LIMIT_HELP},
	{KEY("soft_bytes", config_ipsec, soft_bytes, set_size), .max = SIZE_ANY, .help = LIMIT_HELP},
	{KEY("hard_packets", config_ipsec, hard_packets, set_size), .max = SIZE_ANY, .help = LIMIT_HELP},
	{KEY("hard_bytes", config_ipsec, hard_bytes, set_size), .max = SIZE_ANY, .help = LIMIT_HELP},
	{.name = NULL},
};

static const struct config_key user_keys[] = {
	{KEY("weight", config_user, weight, set_number), .min = 1, .max = CONFIG_WEIGHT_MAX,
	 .help = "this is no weight; write a number from 1 to 1000"},
	{KEY("max_ops", config_user, max_ops, set_number), .min = 100, .max = 1ull << 50, .or_zero = true,
	 .help = "this is no ceiling; write 100 to 1125899906842624 a second, or 0 for none"},
	/* A burst is some tens of KiB: a lower rate would delay its acknowledgements. */
	{KEY("max_bytes", config_user, max_bytes, set_size), .min = 1u << 20, .max = 1ull << 50,
	 .or_zero = true,
	 .help = "this is no ceiling; write 1048576 to 1125899906842624 a second, as in 512M or 8G, or 0 for none"},
	MARKS_KEYS(config_user),
	{.name = NULL},
};

/* ---- sections and their objects ---- */

static int
begin_named(const struct config_value *value, const char *name, void *object)
{
	if (!is_name(name, ONE_PORT_NAME))
		return config_refuse(
			value->why, value->why_len, -EINVAL,
			"%s: this cannot be a name; write 1 to %u letters, digits, '_', '.' or '-'",
			value->section, ONE_PORT_NAME - 1);
	return put_text(object, ONE_PORT_NAME, name);
}

static int
begin_port(const struct config_value *value, const char *name, void *object)
{
	struct config_port *port = object;

	port->ack_timeout = CONFIG_ACK_TIMEOUT;
	port->rnr_retry = CONFIG_RNR_RETRY_ENDLESS;
	port->marks = CONFIG_NO_MARKS;
	return begin_named(value, name, port->name);
}

static int
begin_peer(const struct config_value *value, const char *name, void *object)
{
	uint64_t node;

	if (config_number(name, &node) < 0 || node < 1 || node > 63)
		return config_refuse(value->why, value->why_len, -EINVAL,
				     "peer %s: this is not a node; write the peer's RSM node id, 1 to 63",
				     name);
	((struct config_peer *)object)->node = (uint32_t)node;
	((struct config_peer *)object)->marks = CONFIG_NO_MARKS;
	return 0;
}

/* Queries the system's databases, which may block: never call on the control thread. */
static int
begin_user(const struct config_value *value, const char *name, void *object)
{
	struct config_user *user = object;
	struct passwd entry, *found = NULL;
	char buffer[DATABASE_ROOM];
	uint64_t number;
	bool is_number = config_number(name, &number) == 0;

	if (!is_number && getpwnam_r(name, &entry, buffer, sizeof(buffer), &found) != 0)
		found = NULL;
	if (is_number ? number >= UINT32_MAX : found == NULL)
		return config_refuse(
			value->why, value->why_len, -ENOENT,
			"user %s: there is no such user; make it (useradd NAME), or write the name or number of one that there is",
			name);
	user->uid = is_number ? (uid_t)number : found->pw_uid;
	user->weight = 1;
	user->marks = CONFIG_NO_MARKS;
	return 0;
}

#define LIST(array, count, limit, id)                                                                \
	.list = offsetof(struct config, array), .num = offsetof(struct config, count), .max = limit, \
	.size = sizeof(((struct config *)0)->array[0]), .id_len = sizeof(((struct config *)0)->array[0].id)

const struct config_section config_sections[CONFIG_SECTIONS] = {
	[CONFIG_DATAPLANE] = {.name = "dataplane", .whose = "in [dataplane]", .keys = dataplane_keys},
	[CONFIG_LIMITS] = {.name = "limits", .whose = "in [limits]", .keys = limit_keys},
	[CONFIG_PORT] = {"port", "for a port", port_keys, "an address",
			 LIST(port, num_ports, CONFIG_PORTS_MAX, name), .begin = begin_port},
	[CONFIG_PEER] = {"peer", "for a peer", peer_keys, "an address",
			 LIST(peer, num_peers, CONFIG_PEERS_MAX, node), .begin = begin_peer},
	[CONFIG_IPSEC] = {"ipsec", "for ipsec", ipsec_keys, "an address",
			  LIST(ipsec, num_ipsec, CONFIG_IPSEC_MAX, name), .begin = begin_named},
	[CONFIG_USER] = {"user", "for a user", user_keys, "a weight, a ceiling or a DSCP",
			 LIST(user, num_users, CONFIG_USERS_MAX, uid), .begin = begin_user},
};

static const struct config_section *
find_section(const char *text)
{
	for (const struct config_section *section = config_sections;
	     section < &config_sections[CONFIG_SECTIONS]; section++) {
		size_t len = strlen(section->name);

		if (strncmp(text, section->name, len) == 0 && text[len] == (section->size != 0 ? ' ' : '\0'))
			return section;
	}
	return NULL;
}

int
config_object(struct config *config, const struct config_value *value, const struct config_section **section,
	      char **object)
{
	const struct config_section *found = find_section(value->section);
	union {
		struct config_port port;
		struct config_peer peer;
		struct config_ipsec ipsec;
		struct config_user user;
	} new;
	uint32_t i = 0;
	int error;

	memset(&new, 0, sizeof(new));
	*section = found;
	if (found == NULL)
		return config_refuse(
			value->why, value->why_len, -EINVAL,
			"section [%s]: there is no such section; write [dataplane], [port NAME], [peer NODE], [ipsec NAME], [user NAME] or [limits]",
			value->section);
	*object = (char *)config + found->list;
	if (found->size == 0)
		return 0;
	error = found->begin(value, value->section + strlen(found->name) + 1, &new);
	for (; error == 0 && i < *config_num_of(config, found); i++, *object += found->size)
		if (memcmp(*object, &new, found->id_len) == 0)
			return 0;
	if (error == 0 && i == found->max)
		return config_refuse(value->why, value->why_len, -ENOSPC,
				     "%s: this is more than %u %ss; remove one", value->section, found->max,
				     found->name);
	if (error == 0)
		memcpy(*object, &new, found->size);
	return error;
}

bool
config_can_raise(const char *key, uint64_t limit)
{
	const struct config_key *found = config_key_find(&config_sections[CONFIG_LIMITS], key);

	return key[0] != '\0' && (found == NULL || limit < found->max);
}

const struct config_key *
config_key_find(const struct config_section *section, const char *name)
{
	for (const struct config_key *key = section->keys; key->name != NULL; key++) {
		size_t i = 0;

		while (key->name[i] != '\0' && (name[i] == '-' ? '_' : name[i]) == key->name[i])
			i++;
		if (key->name[i] == name[i])
			return key;
	}
	return NULL;
}

bool
config_key_differs(const struct config_key *key, const void *a, const void *b)
{
	const char *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;

	if (key->set == set_secret)
		return !config_secret_equal(*(struct config_secret *const *)(const void *)x,
					    *(struct config_secret *const *)(const void *)y);
	return memcmp(x, y, key->size) != 0;
}

static uint64_t
load_number(const struct config_key *key, const void *field)
{
	switch (key->size) {
	case sizeof(uint8_t):
		return *(const uint8_t *)field;
	case sizeof(uint16_t):
		return *(const uint16_t *)field;
	case sizeof(uint32_t):
		return *(const uint32_t *)field;
	default:
		return *(const uint64_t *)field;
	}
}

void
config_key_text(const struct config_key *key, const void *object, char *text, size_t len)
{
	const char *field = (const char *)object + key->offset;
	const struct config_listen *listen = (const void *)field;

	if (key->set == config_set_addresses)
		config_addresses_text(key, field, text, len);
	else if (key->set == config_set_routes)
		config_routes_text((const void *)field, text, len);
	else if (key->set == set_listen)
		snprintf(text, len, "%s", listen->family != 0 ? listen->text : "off");
	else if (key->set == set_path || key->set == set_device || key->set == set_port_name)
		snprintf(text, len, "%s", field[0] != '\0' ? field : "none");
	else if (key->set == set_mode)
		snprintf(text, len, "%04o", (unsigned int)load_number(key, field));
	else if (key->words != NULL)
		snprintf(text, len, "%s", key->words[load_number(key, field)]);
	else
		snprintf(text, len, "%llu", (unsigned long long)load_number(key, field));
}

static int
refuse_key(const struct config_value *value, const struct config_section *section)
{
	char known[512] = "";
	size_t len = 0;

	for (const struct config_key *key = section->keys; key->name != NULL && len < sizeof(known); key++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len > 0 ? ", " : "",
					key->name);
	return REFUSE(value, -EINVAL, "there is no such key %s; write one of %s", section->whose, known);
}

int
config_set(struct config *config, const char *section, const char *key, const char *value, char *why,
	   size_t why_len)
{
	struct config_value at = {
		.section = section, .key = key, .text = value, .why = why, .why_len = why_len};
	const struct config_section *of;
	const struct config_key *found;
	char *object;
	int error = config_object(config, &at, &of, &object);

	if (error != 0)
		return error;
	found = config_key_find(of, key);
	if (found == NULL)
		error = refuse_key(&at, of);
	else
		error = found->set(&at, found, object + found->offset);
	/* A new object follows the others, and is counted once one of its keys is set. */
	if (of->size == 0 || object != (char *)config + of->list + *config_num_of(config, of) * of->size)
		return error;
	if (error == 0)
		++*config_num_of(config, of);
	else
		memset(object, 0, of->size);
	return error;
}
